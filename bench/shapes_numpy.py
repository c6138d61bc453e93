#!/usr/bin/env python3
"""NumPy on the shapes of bench/cpu_shapes.cpp, on one thread, which is all that it uses: the best of several times of one
call. Usage: shapes_numpy.py OUT.jsonl"""
import sys
import time

import numpy as np

import result_lines
import shapes

ALL = 1 << 24
SHAPES = [((ALL // n, n), (1,)) for n in (16, 64, 256, 1000, 4096, 32768, 1 << 20, ALL)] + \
         [((4096, 4096), (0,)), ((262144, 64), (0,)), ((16, 64, 128, 128), (0, 2, 3)), ((16, 64, 128, 128), (1, 3)), ((256, 65536), (0,))]
OPS = {"sum": np.sum, "mean": np.mean, "var": np.var, "max": np.max, "argmax": np.argmax}


def seconds(call):
    best, begin = float("inf"), time.perf_counter()
    for k in range(12):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if k >= 2 and time.perf_counter() - begin > 1:
            break
    return best


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cases = []
    for name, dtype in (("f32", np.float32), ("f64", np.float64), ("f16", np.float16)):
        data = (np.random.default_rng(1).random(ALL) * 2 - 1).astype(dtype)
        for extents, axes in SHAPES:
            n = int(np.prod(extents))
            x = data[:n].reshape(extents)
            for op, function in OPS.items():
                if op == "argmax" and len(axes) > 1:
                    continue  # NumPy has it of one axis
                time_ = seconds(lambda: function(x, axis=axes if len(axes) > 1 else axes[0]))
                cases.append(result_lines.case(shapes.name(f"numpy:{op}", name, extents, axes), time_, n * x.itemsize))
    result_lines.write(sys.argv[1], result_lines.header("shapes_numpy", cpu=result_lines.cpu(), numpy=np.__version__), cases)


if __name__ == "__main__":
    main()
