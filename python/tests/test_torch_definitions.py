"""The steps of docs/definitions.md give the bits of the library's functions of rows."""

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bitfold import _core
from bitfold._tensors import TENSORS
from definitions import FLOATS, TYPES, book, drawn

FUNCTIONS = (
    "exp",
    "softmax",
    "log_softmax",
    "rms_norm",
    "layer_norm",
    "softmax_backward",
    "log_softmax_backward",
    "rms_norm_backward",
    "layer_norm_backward",
)
KINDS = ("any", "spread", "offset", "small", "special", "large")


def tensor(x):
    return (
        None
        if x is None
        else torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        if x.dtype == ml_dtypes.bfloat16
        else torch.from_numpy(x)
    )


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_steps_give_the_bits(function, t):
    A, eps = np.float64 if t == "f64" else np.float32, 1e-5
    for k, n in enumerate((1, 2, 33, 64, 290) if function != "exp" else (300, 300, 300, 300)):
        kind = KINDS[(k + len(function)) % len(KINDS)]
        x, w, b = drawn(kind, n, t, k), drawn("near", n, t, k + 1), drawn("near", n, t, k + 3)
        y = None
        if function.endswith("_backward"):
            y = (
                -abs(drawn("spread", n, t, k + 2))
                if function.startswith("log")
                else drawn("any", n, t, k + 2)
            )
        norm, centred = "norm" in function, "layer_norm" in function
        mean, rstd = np.array([0.3], A), np.array([1.7], A)
        out = tensor(x.copy())
        given = (
            x,
            y,
            w if norm else None,
            b if function == "layer_norm" else None,
            mean.copy() if centred else None,
            rstd.copy() if norm else None,
        )
        _core.apply_rows(function, *map(tensor, given), n, eps, out, TENSORS)
        in_a = lambda v: None if v is None else [A(e) for e in v.astype(A)]
        with np.errstate(all="ignore"):
            made = book["row"](function, in_a(x), in_a(y), in_a(w), in_a(b), mean[0], rstd[0], eps)
            want = [book["rounded"](v, t) for v in made]
        width = 8 * np.dtype(TYPES[t]).itemsize
        got = [int(b) % 2**width for b in out.view(getattr(torch, f"int{width}"))]
        assert got == want, (function, t, kind, n)
