#!/usr/bin/env python3
"""torch's operators on a GPU by themselves and under bitfold.torch.deterministic(): the device's time of a call, inside a CUDA
graph that holds enough of them to fill a millisecond, and the host's to enqueue one. Usage: torch_mode.py OUT.jsonl [COMMIT]"""
import sys
import time

import torch
from torch.nn import functional as F

import bitfold.torch
import result_lines

aten = torch.ops.aten
ROWS = [(65536, 4096), (8192, 1024), (4096, 50257), (64, 4096), (1, 4096)]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def header():
    return result_lines.header("torch_mode", commit=sys.argv[2] if len(sys.argv) > 2 else "?", gpu=torch.cuda.get_device_name(),
                               torch=torch.__version__)


def seconds(call, copies):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(copies):
                call()
        times = []
        for _ in range(23):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3 / copies)
    return sum(times[3:]) / len(times[3:])


def rows_cases(x):
    """What runs on rows: name, call and how often the bytes of x move at least."""
    n = [x.shape[-1]]
    w, b = torch.rand_like(x[0]), torch.rand_like(x[0])
    g = torch.rand_like(x)
    y, logs = F.softmax(x, -1), F.log_softmax(x, -1)
    _, mean, rstd = aten.native_layer_norm(x, n, w, b, 1e-5)
    _, rms = aten._fused_rms_norm(x, n, w, 1e-5)
    every = [True, True, True]
    yield "sum", lambda: x.sum(-1), 1
    yield "mean", lambda: x.mean(-1), 1
    yield "var", lambda: x.var(-1), 1
    yield "argmax", lambda: x.argmax(-1), 1
    yield "logsumexp", lambda: x.logsumexp(-1), 1
    yield "softmax", lambda: F.softmax(x, -1), 2
    yield "log_softmax", lambda: F.log_softmax(x, -1), 2
    yield "layer_norm", lambda: F.layer_norm(x, n, w, b), 2
    yield "rms_norm", lambda: F.rms_norm(x, n, w, 1e-5), 2
    yield "softmax backward", lambda: aten._softmax_backward_data(g, y, -1, x.dtype), 3
    yield "log_softmax backward", lambda: aten._log_softmax_backward_data(g, logs, -1, x.dtype), 3
    yield "layer_norm backward", lambda: aten.native_layer_norm_backward(g, x, n, mean, rstd, w, b, every), 3
    yield "rms_norm backward", lambda: aten._fused_rms_norm_backward(g, x, n, rms, w, every[:2]), 3


def other_cases(dtype):
    keys = torch.randint(50_000, (32768,), device="cuda")
    g = torch.rand(32768, 1024, device="cuda").to(dtype)
    into = torch.zeros(50_000, 1024, device="cuda", dtype=dtype)
    yield "embedding backward", "32768x1024 into 50000", lambda: aten.embedding_dense_backward(g, keys, 50_000, -1, False), g.nbytes + into.nbytes
    yield "index_add", "32768x1024 into 50000", lambda: into.index_add(0, keys, g), g.nbytes + 2 * into.nbytes


def gradients():
    """Those of a transformer of 0.3 billion parameters."""
    shapes = [(50257, 1024), (1024, 1024)] + 24 * [(1024,), (1024,), (3072, 1024), (3072,), (1024, 1024), (1024,), (1024,), (1024,), (4096, 1024),
                                                  (4096,), (1024, 4096), (1024,), (1024,), (1024,)] + 6 * [(1024,)]
    made = [torch.nn.Parameter(torch.empty(s, device="cuda")) for s in shapes]
    for p in made:
        p.grad = torch.rand_like(p)
    return made


def device_seconds(call, size):
    return seconds(call, max(1, min(50, (1 << 30) // size)))


def host_seconds(call):
    best = 1.0
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(50):
            call()
        best = min(best, (time.perf_counter() - begin) / 50)
    torch.cuda.synchronize()
    return best


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    cases = []

    def measure(op, dtype, shape, call, size, host):
        with torch.no_grad():
            for who in ("torch", "bitfold"):
                if who == "bitfold":
                    bitfold.torch.enable()
                case = result_lines.case(f"{who}:{op}/{dtype}/{shape}", device_seconds(call, size), size)
                if host:
                    case["host_us"] = host_seconds(call) * 1e6
                cases.append(case)
        bitfold.torch.disable()

    for name, dtype in DTYPES.items():
        for shape in ROWS:
            x = torch.randn(shape, device="cuda").to(dtype)
            for op, call, moves in rows_cases(x):
                measure(op, name, "x".join(map(str, shape)), call, moves * x.nbytes, shape == (1, 4096))
        for op, shape, call, size in other_cases(dtype):
            measure(op, name, shape, call, size, False)
    parameters = gradients()
    size = sum(p.grad.nbytes for p in parameters)
    call = f"grad_norm/f32/{len(parameters)} tensors"
    for who, norm in (("torch", lambda: torch.nn.utils.get_total_norm([p.grad for p in parameters])),
                      ("bitfold", lambda: bitfold.torch.grad_norm(parameters))):
        cases.append(result_lines.case(f"{who}:{call}", device_seconds(norm, size), size))
    result_lines.write(sys.argv[1], header(), cases)


if __name__ == "__main__":
    main()
