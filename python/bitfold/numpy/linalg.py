"""NumPy's norms and products of numpy.linalg by bitfold; what else numpy.linalg has is an AttributeError that says so."""

from __future__ import annotations

from typing import Any

import numpy as _np

from .. import _arrays
from .._ops import FUNCTIONS as _functions

_VECTOR_NORMS = {None: "norm_l2", 2: "norm_l2", 1: "norm_l1", _np.inf: "norm_inf"}


def _floats(x: Any) -> _np.ndarray:
    x = _arrays.host(x, "x")
    return x if x.dtype.kind not in "biu" else x.astype(_np.float64)


def _vector_norm(x: _np.ndarray, ord: Any, axis: Any, keepdims: bool) -> Any:
    if ord in _VECTOR_NORMS:
        return _functions[_VECTOR_NORMS[ord]](x, axis=axis, keepdims=keepdims)
    if ord == -_np.inf:
        return _functions["min"](_np.abs(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        return _functions["count_nonzero"](x, axis=axis, keepdims=keepdims).astype(x.dtype)
    raise ValueError(f"ord: {ord!r}: of vectors bitfold has 0, 1, 2, inf and -inf")


def _matrix_norm(x: _np.ndarray, ord: Any, axis: tuple[int, int], keepdims: bool) -> Any:
    row, column = (a % x.ndim for a in axis)
    if row == column:
        raise ValueError("axis: the same one twice")
    if ord in (None, "fro"):
        return _functions["norm_l2"](x, axis=(row, column), keepdims=keepdims)
    if ord not in (1, -1, _np.inf, -_np.inf):
        raise ValueError(f"ord: {ord!r}: of matrices bitfold has 'fro', 1, -1, inf and -inf, none of singular values")
    added, chosen = (row, column) if abs(ord) == 1 else (column, row)
    sums = _functions["norm_l1"](x, axis=added, keepdims=True)
    made = _functions["max" if ord > 0 else "min"](sums, axis=chosen, keepdims=True)
    return made if keepdims else _np.squeeze(made, (row, column))[()]


def norm(x, ord=None, axis=None, keepdims=False) -> Any:
    """Of vectors 0, 1, 2, inf and -inf; of matrices "fro", 1, -1, inf and -inf. Those of singular values are a ValueError."""
    x = _floats(x)
    if axis is None and ord is not None and x.ndim not in (1, 2):
        raise ValueError(f"axis: None, but x has {x.ndim} axes")
    if axis is None and (ord is None or x.ndim == 1):
        return _vector_norm(x, ord, None, keepdims)
    axes = (axis,) if _np.ndim(axis) == 0 and axis is not None else tuple(range(x.ndim)) if axis is None else tuple(axis)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError(f"axis: {axes}, where one or two are expected")
    return _matrix_norm(x, ord, axes, keepdims)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2) -> Any:
    """Of vectors along the axes: 0, 1, 2, inf or -inf."""
    return _vector_norm(_floats(x), ord, axis, keepdims)


def matrix_norm(x, /, *, keepdims=False, ord="fro") -> Any:
    """Of the last two axes: "fro", 1, -1, inf or -inf."""
    return _matrix_norm(_floats(x), ord, (-2, -1), keepdims)


def matmul(x1, x2, /) -> Any:
    """As that of the namespace itself."""
    from . import matmul

    return matmul(x1, x2)


def vecdot(x1, x2, /, *, axis=-1) -> Any:
    """As that of the namespace itself."""
    from . import vecdot

    return vecdot(x1, x2, axis=axis)


__all__ = ["LinAlgError", "matmul", "matrix_norm", "norm", "vecdot", "vector_norm"]
LinAlgError = _np.linalg.LinAlgError


def __getattr__(name: str) -> Any:
    known = hasattr(_np.linalg, name) and not name.startswith("_")
    raise AttributeError(
        f"module 'bitfold.numpy.linalg' has no attribute {name!r}"
        + (f": numpy.linalg.{name} is LAPACK's, whose bits depend on the machine" if known else ""),
        name=name,
    )
