#!/usr/bin/env python3
"""bitfold's Python calls beside NumPy's on the same arrays: the best time of one call. Usage: python_calls.py OUT.jsonl [COMMIT]"""
import platform
import sys
import timeit

import bitfold
import numpy as np

import result_lines

SHAPES = {  # what is reduced, by its name
    "flat": lambda a: (a, None),
    "rows": lambda a: (a.reshape(-1, 10), 1),
    "columns": lambda a: (a.reshape(10, -1), 0),
    "transposed": lambda a: (a.reshape(-1, 10).T, None),
    "every other": lambda a: (a[::2], None),
}
PEERS = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "argmax": np.argmax, "any": np.any, "all": np.all,
    "count_nonzero": np.count_nonzero, "var": np.var, "nansum": np.nansum,
    "norm_l2": lambda x, axis: np.linalg.norm(x.reshape(-1) if axis is None else x, axis=axis),
}


def seconds(call):
    timer = timeit.Timer(call)
    number, took = timer.autorange()
    number = max(1, int(number * 0.02 / took))
    return min(timer.repeat(7, number)) / number


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    cases = []
    for dtype in (np.float32, np.float64, np.float16, np.int64):
        for n in (10, 100, 10_000, 10_000_000):
            flat = (np.random.default_rng(1).random(n) * 8 - 4).astype(dtype)
            for shape, made in SHAPES.items():
                if n == 10 and shape != "flat":
                    continue
                x, axis = made(flat)
                for op, peer in PEERS.items():
                    if n == 10_000_000 and op not in ("sum", "mean", "max", "var"):
                        continue
                    ours = getattr(bitfold, op)
                    call = f"{op}/{np.dtype(dtype).name}/{shape}"
                    times = [seconds(lambda: ours(x, axis=axis)), seconds(lambda: peer(x, axis=axis))]
                    cases += [result_lines.case(f"{who}:{call}", t, n=n) for who, t in zip(("bitfold", "numpy"), times)]
                    print(f"{call:32} {n:9} {times[0] * 1e6:12.2f} {times[1] * 1e6:12.2f} us  {times[0] / times[1]:.2f}", flush=True)
    header = result_lines.header("python_calls", commit=sys.argv[2] if len(sys.argv) > 2 else "?", cpu=result_lines.cpu(),
                                 numpy=np.__version__, python=platform.python_version())
    result_lines.write(sys.argv[1], header, cases)


if __name__ == "__main__":
    main()
