"""Functions of rows: each element by itself and by what its row comes to (docs/rows.md)."""

from __future__ import annotations

import math
from typing import Any

from . import _arrays, _core

FLOATS = ("f16", "bf16", "f32", "f64")


def _of_rows(function, x, axis, dim=None, weight=None, bias=None, eps=0.0):
    kind = _arrays.kind_of(x)
    if kind.through_numpy:
        given = (("x", x), ("weight", weight), ("bias", bias))
        x, weight, bias = (None if a is None else _arrays.host(a, name) for name, a in given)
        return kind.finish(_of_rows(function, x, axis, dim, weight, bias, eps))
    with kind.context():
        where = kind.describe(x, "x")
        if where.dtype not in FLOATS:
            raise TypeError(f"x: {_arrays.PUBLIC[where.dtype]}, where {function} takes floats")
        axis = _rows_axis(function, len(where.shape), axis, dim)
        try:
            eps = float(eps)
        except (TypeError, ValueError):
            raise TypeError(f"eps: {eps!r} is no number") from None
        rows = kind.describe(kind.in_a_row(x, axis), "x")
        n = max(1, math.prod(rows.shape)) if axis is None else rows.shape[-1]
        if axis is not None and n > 1 << 24:
            raise ValueError(f"x: rows of {n} elements, and 2^24 are the most")
        weight, bias = (_parameter(kind, p, name, rows, n) for name, p in (("weight", weight), ("bias", bias)))
        made = kind.finish(_core.apply_rows(function, rows, None, weight, bias, None, None, n, eps, None, kind.family()))
        return made if axis is None else kind.moved_back(made, axis)


def _parameter(kind: _arrays.Kind, p: Any, name: str, rows: _core.Array, n: int) -> _core.Array | None:
    if p is None:
        return None
    where = kind.describe(p, name)
    if where.shape != (n,):
        raise ValueError(f"{name}: not of one axis of {n} elements")
    if where.dtype != rows.dtype:
        raise ValueError(f"{name}: {where.dtype}, and x is {rows.dtype}")
    if (where.device_type, where.device) != (rows.device_type, rows.device):
        raise ValueError(f"{name}: on another device than x")
    if not where.is_row_major:
        raise ValueError(f"{name}: its elements do not lie in a row")
    return where


def _rows_axis(function, rank, axis, dim):
    """None of a function that knows no rows."""
    if axis is None:
        return None
    if dim is not None and axis != -1:
        raise TypeError("dim: given beside axis, of which it is another name")
    if rank == 0:
        raise ValueError(f"x: no axes, where {function} takes rows")
    name, given = ("axis", axis) if dim is None else ("dim", dim)
    place = _arrays.integer(name, given)
    if not -rank <= place < rank:
        raise ValueError(f"{name}: {place} of an array of {rank} axes")
    return place


_X = """x: an array of float16, bfloat16, float32 or float64.
    axis: the rows' axis. dim: PyTorch's name of it.
    Result: of x's shape, type and kind, on its device. A row's bits do not depend on the other
    rows, the layout or the device."""
_ERRORS = """Errors, naming the argument: TypeError (x of another type), ValueError (an axis that is
    not there, more than 2^24 elements in a row)."""


def softmax(x: Any, /, axis: int = -1, *, dim: int | None = None) -> Any:
    return _of_rows("softmax", x, axis, dim)


softmax.__doc__ = f"""exp(x - m) / s of each row, m its largest element, s the sum of exp(x - m).

    {_X}

    >>> softmax([0.0, 1.0, 2.0])
    array([0.09003057, 0.24472847, 0.66524096])

    {_ERRORS}"""


def log_softmax(x: Any, /, axis: int = -1, *, dim: int | None = None) -> Any:
    return _of_rows("log_softmax", x, axis, dim)


log_softmax.__doc__ = f"""(x - m) - log(s) of each row, the logarithm of softmax.

    {_X}

    >>> log_softmax([0.0, 1.0, 2.0])
    array([-2.40760596, -1.40760596, -0.40760596])

    {_ERRORS}"""


def layer_norm(
    x: Any,
    /,
    axis: int = -1,
    *,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    dim: int | None = None,
) -> Any:
    return _of_rows("layer_norm", x, axis, dim, weight, bias, eps)


layer_norm.__doc__ = f"""(x - mean) / sqrt(var + eps) of each row, times weight, plus bias.

    {_X}
    weight, bias: arrays of one axis, as long as a row, of x's type and kind.

    >>> layer_norm([0.0, 1.0, 2.0])
    array([-1.22473569,  0.        ,  1.22473569])

    {_ERRORS}"""


def rms_norm(
    x: Any, /, axis: int = -1, *, weight: Any = None, eps: float = 1e-5, dim: int | None = None
) -> Any:
    return _of_rows("rms_norm", x, axis, dim, weight, None, eps)


rms_norm.__doc__ = f"""x / sqrt(mean of the squares + eps) of each row, times weight.

    {_X}
    weight: an array of one axis, as long as a row, of x's type and kind.

    >>> rms_norm([0.0, 1.0, 2.0])
    array([0.        , 0.77459435, 1.54918869])

    {_ERRORS}"""


def exp(x: Any, /) -> Any:
    """exp of each element, with the same bits on x86-64 CPUs and NVIDIA GPUs.

    x: an array of float16, bfloat16, float32 or float64.
    Result: of x's shape, type and kind, on its device.

    >>> exp([0.0, 1.0])
    array([1.        , 2.71828183])

    Errors: TypeError (x of another type).
    """
    return _of_rows("exp", x, None)
