"""docs/definitions.md, run: `book` has what its code defines. And elements that are hard on it."""

import json
import pathlib
import re

import ml_dtypes
import numpy as np

from arrays import random_array

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "definitions.md").read_text()
CONSTANTS = json.loads((ROOT / "docs" / "exp-log-coefficients.json").read_text())

book = {"CONSTANTS": CONSTANTS}
for block in re.finditer(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
    lines_before = PAGE.count("\n", 0, block.start(1))
    exec(compile("\n" * lines_before + block[1], "docs/definitions.md", "exec"), book)

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64} | {
    t: getattr(np, f"{'u' * (t[0] == 'u')}int{t[1:]}") for t in book["INTEGERS"]
}
FLOATS = [*book["FLOATS"]]


def unlike_any(t, n, rng):
    """What falls on special cases: zeros of both signs, infinities, NaN, the largest number."""
    few = rng.choice(
        np.array(
            [-0.0, 0.0, 1.0, np.inf, -np.inf, np.nan, ml_dtypes.finfo(TYPES[t]).max], np.float64
        ),
        3,
    )
    return rng.choice(few, n)


def drawn(kind, n, t, seed):
    """n elements; each kind is hard on one step or another."""
    rng, dtype = np.random.default_rng(seed), np.dtype(TYPES[t])
    if t not in FLOATS:
        return random_array(seed, n, dtype)
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        x = rng.standard_normal(n)
        if kind == "bits":  # of all magnitudes
            x = rng.integers(0, 2 ** (8 * dtype.itemsize), n, f"u{dtype.itemsize}").view(dtype)
            x = np.where(np.isfinite(x), x, dtype.type(0))
        elif kind == "large":  # what overflows, and errors that do
            x = np.float64(info.max) * rng.choice(
                [1.0, -1.0, 0.5, 2.0**-info.nmant / 8, 2.0**-info.nmant / 4], n
            )
        elif kind == "small":  # subnormal numbers, and products that vanish
            x *= np.float64(info.tiny) * rng.choice([np.float64(info.eps), 0.7, 3.0, 1e9], n)
        elif kind == "scales":  # those at which elements begin to be scaled, mixed
            at = {"f16": (0,), "f64": (485, -511, -1070, 490, -400, 240, -150, -540, 630)}
            few = rng.choice(at.get(t, (60, -37, 46, -18, -82, 110)), 2)
            x *= 2.0 ** (rng.choice(few, n) + rng.integers(-2, 3, n))
        elif kind == "offset":  # a mean that is large beside the deviation
            x = 1000 + x * 2.0 ** -int(rng.integers(0, 12))
        elif kind == "cancelling":
            x *= 2.0 ** rng.integers(-20, 4, n)
            x = np.where(np.arange(n) % 2, -np.roll(x, 1), x)
        elif kind == "ties":  # of a narrower type, and next to them
            width = int(rng.choice([9, 12, 25]))
            x = np.where(
                np.arange(n) == 0,
                float(2 ** (width - 1) + 2 * rng.integers(0, 2 ** (width - 2)) + 1),
                rng.choice([0, 2.0**-18]),
            )
        elif kind == "special":
            x = unlike_any(t, n, rng)
        elif kind == "spread":  # of exponentials, down to what vanishes
            x *= rng.choice([1, 30, 300])
        elif kind == "near":  # of exponentials that all count
            x = -rng.random(n) * 3
        return random_array(seed, n, dtype) if kind == "any" else x.astype(dtype)


KINDS = ("any", "bits", "large", "small", "scales", "offset", "cancelling", "ties", "special")
KINDS_OF_EXPONENTIALS = ("any", "spread", "near", "near", "special")


def stored(x):
    """A list of the elements as the page wants them."""
    return (
        [*x.astype(np.float64)]
        if np.dtype(x.dtype) in map(np.dtype, map(TYPES.get, FLOATS))
        else x.tolist()
    )
