#!/usr/bin/env python3
"""bitfold.matmul beside NumPy's and PyTorch's products of the same matrices, each in turn with the others in one process: the fastest
of several. Threads: the first so many cores that the process may use, for all three.
Usage: products.py [--threads N] > bench/results/products-MACHINE.txt"""
import argparse
import os
import sys
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


def line(type, m, k, n):
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    calls = {}
    if type in ("f32", "f64"):
        a, b = a.astype(type.replace("f32", "float32").replace("f64", "float64")), b.astype(a.dtype) if type == "f32" else b.astype(float)
        calls = {"bitfold": lambda: bitfold.matmul(a, b), "NumPy": lambda: a @ b}
    if torch is not None:
        x, y = (torch.from_numpy(v).to({"bf16": torch.bfloat16, "f16": torch.float16}.get(type, torch.from_numpy(a).dtype)) for v in (a, b))
        if type not in ("f32", "f64"):
            calls["bitfold"] = lambda: bitfold.matmul(x, y)
        calls["PyTorch"] = lambda: x @ y
    if "bitfold" not in calls:
        return
    times = dict(zip(calls, fastest(list(calls.values()))))
    ours = times.pop("bitfold")
    print(f"{type:5s}{m:5d} x{k:5d} x{n:5d}  {2 * m * k * n / ours * 1e-9:7.1f} GFLOPS  "
          + "  ".join(f"{t / ours:.2f} x {name}'s" for name, t in times.items()), flush=True)


def main():
    with_torch = f", PyTorch {torch.__version__}" if torch else ""
    print(f"{result_lines.cpu()}, {THREADS} threads, NumPy {np.__version__}{with_torch}: bitfold.matmul, and its speed over that of others")
    for type in ("f32", "f64", "bf16", "f16"):
        for shape in ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (64, 2048, 2048), (1, 2048, 2048)):
            line(type, *shape)


if __name__ == "__main__":
    main()
