"""NumPy's reductions and products by bitfold, with NumPy's names and signatures:

>>> import bitfold.numpy as np
>>> x = np.ones((3, 4), dtype=np.float32)
>>> np.sum(x, axis=0)
array([3., 3., 3., 3.], dtype=float32)
>>> np.linalg.norm(np.arange(3.0), ord=np.inf)
np.float64(2.0)

What NumPy does without a rounding, or with one that IEEE 754 fixes, is NumPy's own here: arrays, types, shapes, order, comparisons,
arithmetic of elements. But sorts are stable here. An array's methods (`x.sum()`) and `@` are NumPy's, too, and add up its way. Whatever
else NumPy has is an AttributeError that says so: its bits may depend on the machine. Functions that add take `method` and `acc` besides
(docs/operations.md). What of NumPy's arguments bitfold has not (`where`, `initial`) is a TypeError. Reductions take arrays of other
libraries as bitfold's own functions do; products and norms give NumPy's.
"""

from __future__ import annotations

from math import prod as _prod
from typing import Any

import numpy as _np

from .. import _arrays, _matmul, _rows
from .._ops import FUNCTIONS as _functions
from .._ops import reduce as _reduce
from .._registry import INSTEAD as _instead
from . import _names, linalg
from ._order import (
    argsort,
    intersect1d,
    setdiff1d,
    setxor1d,
    sort,
    union1d,
    unique,
    unique_counts,
    unique_inverse,
    unique_values,
)

_NO: Any = _np._NoValue  # NumPy's own "not given"


def _call(op: str, *inputs: Any, keepdims: Any = False, **given: Any) -> Any:
    """Without what is not given, of which bitfold may not know the name."""
    keepdims = False if keepdims is _NO else keepdims
    return _functions[op](*inputs, keepdims=keepdims, **{name: value for name, value in given.items() if value is not _NO})


def sum(a, axis=None, dtype=None, out=None, keepdims=_NO, initial=_NO, where=_NO, *, method="tree", acc=None) -> Any:
    return _call("sum", a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where, method=method, acc=acc)


def nansum(a, axis=None, dtype=None, out=None, keepdims=_NO, initial=_NO, where=_NO, *, method="tree", acc=None) -> Any:
    return _call("nansum", a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where, method=method, acc=acc)


def prod(a, axis=None, dtype=None, out=None, keepdims=_NO, initial=_NO, where=_NO, *, acc=None) -> Any:
    return _call("prod", a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where, acc=acc)


def mean(a, axis=None, dtype=None, out=None, keepdims=_NO, *, where=_NO, method="tree", acc=None) -> Any:
    return _call("mean", a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where, method=method, acc=acc)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=_NO, *, where=_NO, method="tree", acc=None) -> Any:
    return _call("nanmean", a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where, method=method, acc=acc)


def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=_NO, *, where=_NO, mean=_NO, correction=_NO, method=None, acc=None) -> Any:
    given = {"where": where, "mean": mean, "correction": correction, "method": method, "acc": acc}
    return _call("var", a, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims, **given)


def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=_NO, *, where=_NO, mean=_NO, correction=_NO, method=None, acc=None) -> Any:
    given = {"where": where, "mean": mean, "correction": correction, "method": method, "acc": acc}
    return _call("std", a, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims, **given)


def min(a, axis=None, out=None, keepdims=_NO, initial=_NO, where=_NO) -> Any:
    return _call("min", a, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)


def max(a, axis=None, out=None, keepdims=_NO, initial=_NO, where=_NO) -> Any:
    return _call("max", a, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)


def nanmin(a, axis=None, out=None, keepdims=_NO, initial=_NO, where=_NO) -> Any:
    return _call("nanmin", a, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)


def nanmax(a, axis=None, out=None, keepdims=_NO, initial=_NO, where=_NO) -> Any:
    return _call("nanmax", a, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)


amin, amax = min, max


def ptp(a, axis=None, out=None, keepdims=_NO) -> Any:
    """The largest less the smallest, along the axes."""
    high, low = _reduce(a, ["max", "min"], axis=axis, keepdims=False if keepdims is _NO else keepdims)
    return _into(out, high - low)


def argmin(a, axis=None, out=None, *, keepdims=_NO) -> Any:
    return _call("argmin", a, axis=axis, out=out, keepdims=keepdims)


def argmax(a, axis=None, out=None, *, keepdims=_NO) -> Any:
    return _call("argmax", a, axis=axis, out=out, keepdims=keepdims)


def any(a, axis=None, out=None, keepdims=_NO, *, where=_NO) -> Any:
    return _call("any", a, axis=axis, out=out, keepdims=keepdims, where=where)


def all(a, axis=None, out=None, keepdims=_NO, *, where=_NO) -> Any:
    return _call("all", a, axis=axis, out=out, keepdims=keepdims, where=where)


def count_nonzero(a, axis=None, *, keepdims=False) -> Any:
    return _call("count_nonzero", a, axis=axis, keepdims=keepdims)


# ---- Products --------------------------------------------------------------------------------------


def _into(out: Any, made: Any) -> Any:
    if out is None:
        return made
    if out.shape != _np.shape(made):
        raise ValueError(f"out: of shape {out.shape}, and the result has {_np.shape(made)}")
    if out.dtype != made.dtype:
        raise TypeError(f"out: of {out.dtype}, and the result is {made.dtype}")
    out[...] = made
    return out


def _of_one_type(a: Any, b: Any, dtype: Any = None) -> tuple[_np.ndarray, _np.ndarray]:
    a, b = _arrays.host(a, "a"), _arrays.host(b, "b")
    common = _np.result_type(a, b)
    a, b = a.astype(common, copy=False), b.astype(common, copy=False)
    return (a, b) if dtype is None else (a.astype(dtype), b.astype(dtype))


def _product(a: Any, b: Any, method: str = "fixed") -> Any:
    """Of integers modulo 2^bits of their own type, as NumPy's are."""
    return _matmul.matmul(a, b, method=method, dtype=a.dtype)


def _inner(a: Any, b: Any, axis: int, method: str) -> Any:
    """Of the elements along this axis of each; the other axes broadcast."""
    a, b = _np.moveaxis(a, axis, -1), _np.moveaxis(b, axis, -1)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"axis: {a.shape[-1]} and {b.shape[-1]} elements along it")
    return _functions["dot"](a, b, axis=-1, dtype=a.dtype, method=method)


def matmul(x1, x2, /, out=None, *, dtype=None, method="fixed", **others) -> Any:
    """The product of matrices, in the type of its inputs, integers modulo its width. Each element has bits of its row and column alone."""
    _refuse_others("matmul", others)
    return _into(out, _product(*_of_one_type(x1, x2, dtype), method))


def vecdot(x1, x2, /, out=None, *, axis=-1, dtype=None, method="tree", **others) -> Any:
    """The operation dot along an axis of each; the other axes broadcast."""
    _refuse_others("vecdot", others)
    return _into(out, _inner(*_of_one_type(x1, x2, dtype), axis, method))


def dot(a, b, out=None, *, method=None) -> Any:
    """Of two vectors the operation dot, by `method` tree; of matrices the product, by `method` fixed."""
    a, b = _of_one_type(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return _into(out, _np.multiply(a, b))
    if a.ndim == 1 and b.ndim == 1:
        return _into(out, _inner(a, b, -1, method or "tree"))
    # The last axis of a, and the last but one of b.
    columns = b if b.ndim == 1 else _np.moveaxis(b, -2, 0)
    if a.shape[-1] != columns.shape[0]:
        raise ValueError(f"shapes {a.shape} and {b.shape}: {a.shape[-1]} and {columns.shape[0]} elements along the axes")
    n, shape, of_columns = a.shape[-1], a.shape[:-1], columns.shape[1:]  # (of no elements -1 is no extent)
    made = _product(a.reshape(_prod(shape), n), columns.reshape(n, _prod(of_columns)), method or "fixed")
    return _into(out, made.reshape(shape + of_columns))


def vdot(a, b, /, *, method="tree") -> Any:
    """The operation dot of all elements of each, in order."""
    a, b = _of_one_type(a, b)
    return _inner(a.ravel(), b.ravel(), -1, method)


def inner(a, b, /, *, method=None) -> Any:
    """The last axis of each: of two vectors the operation dot, of others as `dot` of matrices."""
    a, b = _of_one_type(a, b)
    return dot(a, _np.moveaxis(b, -1, -2) if b.ndim > 1 else b, method=method)


def exp(x, /, out=None, **others) -> Any:
    """exp of each element, with the same bits on x86-64 CPUs and NVIDIA GPUs."""
    _refuse_others("exp", others)
    return _into(out, _rows.exp(x))


def pad(array, pad_width, mode="constant", **kwargs) -> Any:
    """NumPy's, but for mode "mean", which adds: that is a ValueError."""
    if isinstance(mode, str) and mode == "mean":
        raise ValueError("mode: 'mean' is a sum of NumPy's, whose bits may depend on the machine; bitfold.mean has that of an axis")
    return _np.pad(array, pad_width, mode, **kwargs)


def _refuse_others(function: str, others: dict[str, Any]) -> None:
    for name in others:
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: bitfold has not this one of NumPy's")


# ---- What is NumPy's -------------------------------------------------------------------------------


class _Info:
    """The array API's inspection of this namespace, whose arrays are NumPy's."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        return {
            "real floating": _np.dtype("float64"),
            "complex floating": _np.dtype("complex128"),
            "integral": _np.dtype(_np.intp),
            "indexing": _np.dtype(_np.intp),
        }

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Any]:
        """Those that bitfold's functions take: none is complex."""
        kinds = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
                 "complex floating": "", "numeric": "iuf"}  # fmt: skip
        wanted = [kind] if isinstance(kind, str) else kind
        if unknown := set(wanted or ()) - set(kinds):
            raise ValueError(f"kind: there is no {sorted(unknown)[0]!r}")
        names = [n for n in _arrays.NAMES if n not in ("float16", "bfloat16")]  # of which the array API has none
        taken = "biuf" if wanted is None else "".join(kinds[k] for k in wanted)
        return {name: _np.dtype(name) for name in names if _np.dtype(name).kind in taken}


def __array_namespace_info__() -> _Info:
    return _Info()


__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "argsort", "count_nonzero", "dot", "exp", "inner", "intersect1d", "linalg",
           "matmul", "max", "mean", "min", "nanmax", "nanmean", "nanmin", "nansum", "pad", "prod", "ptp", "setdiff1d", "setxor1d", "sort", "std",
           "sum", "union1d", "unique", "unique_counts", "unique_inverse", "unique_values", "var", "vdot", "vecdot"]  # fmt: skip


for _name in ("sum", "nansum", "prod", "mean", "nanmean", "var", "std", "min", "max", "nanmin", "nanmax", "argmin", "argmax", "any", "all",
              "count_nonzero"):  # fmt: skip
    globals()[_name].__doc__ = f"numpy.{_name}'s arguments, less those that bitfold has not. What it gives is bitfold.{_name}'s."


def __getattr__(name: str) -> Any:
    if name in _names.AS_NUMPY and hasattr(_np, name):
        return getattr(_np, name)
    why = f"module 'bitfold.numpy' has no attribute {name!r}"
    if hasattr(_np, name) and not name.startswith("_"):
        why += f": {_instead[name]}" if name in _instead else f": numpy.{name} is NumPy's, whose bits may depend on the machine"
    raise AttributeError(why, name=name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in _names.AS_NUMPY if hasattr(_np, name))])
