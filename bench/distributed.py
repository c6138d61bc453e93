#!/usr/bin/env python3
"""An all-reduce of f32 over processes of one machine, by gloo alone and by bitfold.torch.distributed over gloo: one contribution a rank.
They take turns; a time is the slowest rank's, the CPU's time that of all ranks together, and of each the fastest repetition is kept. A thread
a process.
Usage: distributed.py OUT.jsonl [COMMIT]"""
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import bitfold.torch.distributed as over_ranks
import result_lines

RANKS, REPETITIONS = (2, 4), {1: 200, 64: 20}  # by MiB


def calls(x):
    yield "gloo", lambda: dist.all_reduce(x)
    for method in ("tree", "kahan", "exact"):
        yield f"bitfold_{method}", lambda method=method: over_ranks.all_reduce(x, method=method)


def measured(call):
    """Seconds of the slowest rank, and of the CPU of all of them."""
    dist.barrier()
    begin, cpu = time.perf_counter(), time.process_time()
    call()
    taken = torch.tensor([time.perf_counter() - begin, time.process_time() - cpu], dtype=torch.float64)
    everybodys = torch.empty(2 * dist.get_world_size(), dtype=torch.float64)
    dist.all_gather_into_tensor(everybodys, taken)
    return float(everybodys[::2].max()), float(everybodys[1::2].sum())


def rank(number, ranks, store, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}/store", rank=number, world_size=ranks)
    cases = []
    for mib, repetitions in REPETITIONS.items():
        x = torch.randn(mib << 18)
        best = {}
        for _ in range(repetitions):
            for name, call in calls(x):
                x.fill_(number + 0.5)
                best[name] = [min(pair) for pair in zip(best.get(name, (1e9, 1e9)), measured(call))]
        for name, (slowest, cpu) in best.items():
            cases.append({**result_lines.case(f"{name}/f32/{ranks}_ranks", slowest, x.nbytes, x.numel()), "cpu_us": cpu * 1e6})
    if number == 0:
        torch.save(cases, path)
    dist.destroy_process_group()


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    cases = []
    for ranks in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(rank, (ranks, folder, f"{folder}/cases"), ranks)
            cases += torch.load(f"{folder}/cases")
    commit = {"commit": sys.argv[2]} if len(sys.argv) == 3 else {}
    head = result_lines.header("distributed", **commit, cpu=result_lines.cpu(), threads=1, torch=torch.__version__, repetitions=min(REPETITIONS.values()),
                               of_repetitions="fastest")
    result_lines.write(sys.argv[1], head, cases)


if __name__ == "__main__":
    main()
