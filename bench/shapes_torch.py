#!/usr/bin/env python3
"""PyTorch on the shapes of bench/shapes.cu: times of one call inside a CUDA graph that holds enough of them to fill a
millisecond, as there. Usage: shapes_torch.py OUT.jsonl [COMMIT]"""
import sys

import torch

import result_lines
import shapes

ALL = 1 << 28
ROWS = [((ALL // n, n), (1,)) for n in (16, 64, 256, 1000, 4096, 32768, 1 << 24, 1 << 27)]
COLUMNS = [((65536, 4096), (0,)), ((4194304, 64), (0,)), ((256, 64, 128, 128), (0, 2, 3)), ((256, 64, 128, 128), (1, 3)), ((4096, 65536), (0,))]
STATISTICS = [((65536, 4096), (1,)), ((256, 64, 128, 128), (0, 2, 3))]
LONG = [((65536, 4096), (1,)), ((2093, 128256), (1,))]
SMALL = [((1, 4096), (1,)), ((8, 4096), (1,)), ((64, 4096), (1,)), ((256, 16384), (1,)), ((1, 1 << 20), (1,)), ((1, 1 << 24), (1,))]
OPS = {
    "sum": lambda x, d: x.sum(d),
    "var": lambda x, d: x.var(d, correction=0),
    "argmax": lambda x, d: x.argmax(d[0]) if len(d) == 1 else None,
    "max": lambda x, d: x.amax(d),
    "max+argmax": lambda x, d: x.max(d[0]) if len(d) == 1 else None,
    "logsumexp": lambda x, d: x.logsumexp(d),
    "max+softmax_denominator": lambda x, d: (lambda m: (m, (x - m).exp().sum(d)))(x.amax(d, keepdim=True)),
}
CASES = [("sum", s) for s in ROWS + COLUMNS + SMALL] + [(o, s) for s in STATISTICS for o in ("var", "argmax", "max", "max+argmax")] + \
        [(o, s) for s in LONG for o in ("logsumexp", "max+softmax_denominator")] + [("var", s) for s in SMALL]


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


def header(bench):
    return result_lines.header(bench, commit=sys.argv[2] if len(sys.argv) > 2 else "?", gpu=torch.cuda.get_device_name(),
                               torch=torch.__version__)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    cases = []
    for name, dtype in (("f32", torch.float32), ("f16", torch.float16)):
        data = (torch.rand(ALL + (1 << 13), device="cuda", dtype=torch.float32) * 2 - 1).to(dtype)
        for op, (extents, axes) in CASES:
            n = 1
            for e in extents:
                n *= e
            x = data[:n].view(extents)
            if OPS[op](x, axes) is None:
                continue
            size = n * x.element_size()
            time = seconds(lambda: OPS[op](x, axes), max(1, min(200, (1 << 28) // size)))
            cases.append(result_lines.case(shapes.name(f"torch:{op}", name, extents, axes), time, size))
    n = 1 << 26
    x = torch.rand(n, device="cuda") * 2 - 1
    for power in (10, 16, 20, 24):
        keys = torch.randint(1 << power, (n,), device="cuda")
        for who, deterministic in (("torch", True), ("torch_atomics", False)):
            torch.use_deterministic_algorithms(deterministic)
            time = seconds(lambda: torch.zeros(1 << power, device="cuda").index_add_(0, keys, x), 2)
            cases.append(result_lines.case(shapes.name(f"{who}:sum", "f32", (n,), f"2^{power}_keys"), time, n * 4))
    result_lines.write(sys.argv[1], header("shapes_torch"), cases)


if __name__ == "__main__":
    main()
