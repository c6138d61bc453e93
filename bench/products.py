#!/usr/bin/env python3
"""bitfold.matmul beside NumPy's and PyTorch's products of the same matrices, each in turn with the others in one process: the fastest
of several. Threads: the first so many cores that the process may use, for all three.
Usage: products.py [--threads N] > bench/results/products-MACHINE.txt"""
import argparse
import os
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=1)
THREADS = parser.parse_args().threads
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402

import bitfold  # noqa: E402
import result_lines  # noqa: E402

try:
    import torch

    torch.set_num_threads(THREADS)
except ImportError:
    torch = None


def fastest(calls, seconds=1.5):
    """Of each call."""
    best, begin = [float("inf")] * len(calls), time.perf_counter()
    for turn in range(100):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - start)
        if turn >= 4 and time.perf_counter() - begin > seconds:
            break
    return best


def calls_of(type, m, k, n):
    """By whom: the product of the same two matrices."""
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape) for shape in ((m, k), (k, n)))
    if type == "bf16":  # which NumPy has not
        x, y = torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()
        return {"bitfold": lambda: bitfold.matmul(x, y), "PyTorch": lambda: x @ y}
    a, b = (v.astype({"f32": np.float32, "f64": np.float64}[type]) for v in (a, b))
    calls = {"bitfold": lambda: bitfold.matmul(a, b), "NumPy": lambda: a @ b}
    if torch:
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        calls["PyTorch"] = lambda: x @ y
    return calls


def main():
    with_torch = f", PyTorch {torch.__version__}" if torch else ""
    print(f"{result_lines.cpu()}, {THREADS} thread{'s' * (THREADS > 1)}, NumPy {np.__version__}{with_torch}: bitfold.matmul's speed, and over that of others")
    for type in ("f32", "f64", *(["bf16"] if torch else [])):
        for m, k, n in ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (64, 2048, 2048), (2048, 64, 2048)):
            calls = calls_of(type, m, k, n)
            times = dict(zip(calls, fastest(list(calls.values()))))
            ours = times.pop("bitfold")
            ratios = "  ".join(f"{t / ours:.2f} x {name}'s" for name, t in times.items())
            print(f"{type:5s}{m:5d} x{k:5d} x{n:5d}  {2 * m * k * n / ours * 1e-9:7.1f} GFLOPS  {ratios}", flush=True)


if __name__ == "__main__":
    main()
