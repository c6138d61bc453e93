#!/usr/bin/env python3
"""An all-reduce over processes of one machine, by torch.distributed's engine alone and by bitfold.torch.distributed: one contribution a rank.
They take turns. On CPUs, by gloo, of f32: a time is the slowest rank's, the CPU's time that of all ranks together, and of each the fastest
repetition is kept; a thread a process. On GPUs, by NCCL, of f32 and bf16, and a reduce-scatter by tree: a time is that of a call among several in a
row, by CUDA's events, the slowest rank's, and of these the median. OUT-steps.jsonl has steps of DistributedDataParallel.
Usage: distributed.py [--device cuda] OUT.jsonl [COMMIT]"""
import sys
import tempfile
import time
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import bitfold.torch.distributed as over_ranks
from bitfold.torch.distributed import _host
import result_lines

METHODS = ("tree", "kahan", "exact")
RANKS, REPETITIONS = (2, 4), {1: 200, 64: 20}  # by MiB
LAYERS, WIDTH = 4, 2048  # of the model
WEIGHTS = LAYERS * (WIDTH + 1) * WIDTH
GPU_RANKS, GPU_BYTES, GPU_REPETITIONS = (2, 4, 8), [1 << k for k in range(12, 31, 2)], 9


def calls(engine, x, messages):
    """`messages`: a group whose ranks make nothing of being processes of one host."""
    yield engine, lambda: dist.all_reduce(x)
    for method in METHODS:
        yield f"bitfold_{method}", lambda method=method: over_ranks.all_reduce(x, method=method)
    yield "messages_tree", lambda: over_ranks.all_reduce(x, group=messages)


def scatters(x):
    """To each rank its part of the sums."""
    part = torch.empty_like(x[: x.numel() // dist.get_world_size()])
    yield "nccl_reduce_scatter", lambda: dist.reduce_scatter_tensor(part, x)
    yield "bitfold_reduce_scatter_tree", lambda: over_ranks.reduce_scatter_tensor(part, x)


def group_of_messages(ranks):
    group = dist.new_group(list(range(ranks)))
    _host.LOOKED_FOR = False
    over_ranks.first_of(0, group)
    _host.LOOKED_FOR = True
    return group


# ---- CPUs ---------------------------------------------------------------------------------------


def measured(call):
    """Seconds of the slowest rank, and of the CPU of all of them."""
    dist.barrier()
    begin, cpu = time.perf_counter(), time.process_time()
    call()
    taken = torch.tensor([time.perf_counter() - begin, time.process_time() - cpu], dtype=torch.float64)
    everybodys = torch.empty(2 * dist.get_world_size(), dtype=torch.float64)
    dist.all_gather_into_tensor(everybodys, taken)
    return float(everybodys[::2].max()), float(everybodys[1::2].sum())


def on_cpus(number, ranks):
    cases, messages = [], group_of_messages(ranks)
    for mib, repetitions in REPETITIONS.items():
        x = torch.randn(mib << 18)
        best = {}
        for _ in range(repetitions):
            for name, call in calls("gloo", x, messages):
                x.fill_(number + 0.5)
                best[name] = [min(pair) for pair in zip(best.get(name, (1e9, 1e9)), measured(call))]
        for name, (slowest, cpu) in best.items():
            cases.append({**result_lines.case(f"{name}/f32/{ranks}_ranks", slowest, x.nbytes, x.numel()), "cpu_us": cpu * 1e6})
    return cases


# ---- GPUs ---------------------------------------------------------------------------------------


def seconds_of(call, times):
    """Of a call, on this rank."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    dist.barrier()
    torch.cuda.synchronize()
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / times


def slowest_medians(of_each):
    """Of each name the seconds of several repetitions: the median of the slowest rank's."""
    everybodys = [None] * dist.get_world_size()
    dist.all_gather_object(everybodys, of_each)
    return {name: median(map(max, zip(*(one[name] for one in everybodys)))) for name in of_each}


def repeated(of_names, prepare, times):
    of_each = {}
    for repetition in range(GPU_REPETITIONS + 1):
        for name, call in of_names:
            prepare()
            taken = seconds_of(call, times)
            if repetition:  # the first one compiles kernels
                of_each.setdefault(name, []).append(taken)
    return slowest_medians(of_each)


def on_gpus(number, ranks):
    cases, messages = [], group_of_messages(ranks)
    for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for size in GPU_BYTES:
            base = torch.randn(size // dtype.itemsize, device="cuda").to(dtype)
            x = base.clone()
            times = 20 if size <= 1 << 20 else 5 if size <= 1 << 26 else 2
            for name, taken in repeated([*calls("nccl", x, messages), *scatters(x)], lambda: x.copy_(base), times).items():
                cases.append(result_lines.case(f"{name}/{short}/{ranks}_ranks", taken, x.nbytes, x.numel()))
    return cases


def step_of(hook):
    """A step of training; `hook` puts one on the model, or nothing."""
    torch.manual_seed(0)
    inner = torch.nn.Sequential(*(layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()))).cuda()
    model = DistributedDataParallel(inner)
    hook(model)
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.125), torch.randn(64, WIDTH, device="cuda")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def steps(ranks):
    of_names = [("step_nccl", step_of(lambda model: None))]
    for method in METHODS:
        state = over_ranks.Accumulation(1, method=method)
        of_names.append((f"step_bitfold_{method}", step_of(lambda model, state=state: model.register_comm_hook(state, over_ranks.hook))))
    found = repeated(of_names, lambda: None, 5)
    return [result_lines.case(f"{name}/f32/{ranks}_ranks", taken, 4 * WEIGHTS, WEIGHTS) for name, taken in found.items()]


# -------------------------------------------------------------------------------------------------


def rank(number, ranks, device, store, path):
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(number)
    engine, run = ("nccl", on_gpus) if device == "cuda" else ("gloo", on_cpus)
    dist.init_process_group(engine, init_method=f"file://{store}/store", rank=number, world_size=ranks)
    cases = run(number, ranks), steps(ranks) if device == "cuda" else []
    if number == 0:
        torch.save(cases, path)
    dist.barrier()
    dist.destroy_process_group()


def main():
    arguments, device = sys.argv[1:], "cpu"
    if arguments[:1] == ["--device"]:
        device, arguments = arguments[1], arguments[2:]
    if device not in ("cpu", "cuda") or len(arguments) not in (1, 2):
        sys.exit(__doc__)
    fields = {"commit": arguments[1]} if len(arguments) == 2 else {}
    if device == "cuda":
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        fields |= {"gpu": torch.cuda.get_device_name(), "nccl": nccl, "torch": torch.__version__, "repetitions": GPU_REPETITIONS, "of_repetitions": "median"}
    else:
        fields |= {"cpu": result_lines.cpu(), "threads": 1, "torch": torch.__version__, "repetitions": min(REPETITIONS.values()), "of_repetitions": "fastest"}
    of_calls, of_steps = (arguments[0], "distributed", []), (arguments[0].removesuffix(".jsonl") + "-steps.jsonl", "distributed_steps", [])
    for ranks in RANKS if device == "cpu" else [r for r in GPU_RANKS if r <= torch.cuda.device_count()]:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(rank, (ranks, device, folder, f"{folder}/cases"), ranks)
            for (path, name, cases), found in zip((of_calls, of_steps), torch.load(f"{folder}/cases")):
                cases += found
                if cases:  # those of fewer ranks stay, whatever happens to the next
                    result_lines.write(path, result_lines.header(name, **fields), cases)


if __name__ == "__main__":
    main()
