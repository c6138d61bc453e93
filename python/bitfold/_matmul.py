"""Products of matrices whose elements have bits of their own rows and columns alone (docs/products.md)."""

from __future__ import annotations

from typing import Any

from . import _arrays, _core


def matmul(a: Any, b: Any, /, *, method: str = "fixed", dtype: Any = None, bits: int | None = None, addend: Any = None) -> Any:
    """The product of a and b, of shapes as numpy.matmul takes them; of arrays on one device.

    Each element's bits are a function of its row, its column and their type: no batch, layout or thread shows.

    method: "fixed", exact in integers, or one of dot's ("tree", "pairwise", "kahan", "sequential", "exact").
    dtype: of the result; by default that of a and b, and of integers int64 or uint64.
    bits: of the integers of "fixed", 8 to 58; by default 16 of bfloat16, 21 of float16, 28 of float32, 58 of float64.
    addend: an array of the result's type that broadcasts to its shape, with "fixed" and floats: added before the one rounding.
    Result: an array of the kind of a.

    Errors, naming the argument: TypeError (arrays of two types, or of bool), ValueError (shapes that do not fit, arrays
    on two devices, a method or a number of bits that there is not).

    >>> import numpy as np, bitfold
    >>> bitfold.matmul(np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0.5, 1]]))
    array([[2., 2.],
           [5., 4.]], dtype=float32)
    """
    kind = _arrays.kind_of(a)
    if kind.through_numpy:
        a, b, addend = (x if x is None else _arrays.host(x, name) for x, name in ((a, "a"), (b, "b"), (addend, "addend")))
        return kind.finish(matmul(a, b, method=method, dtype=dtype, bits=bits, addend=addend))
    with kind.context():
        described = kind.describe(a, "a"), kind.describe(b, "b"), None if addend is None else kind.describe(addend, "addend")
        out = dtype if dtype is None else _arrays.short_name(dtype)
        return kind.finish(_core.matmul(*described, method, out, bits, kind.family()))
