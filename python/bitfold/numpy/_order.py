"""What sorts. NumPy's own sorts leave equal elements in an order that its SIMD instructions choose: of `argsort` all of them, of others
0 and -0, and NaNs of different bits. Here every sort is stable, and of equal elements the first one is kept."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as _np


def _stable(descending) -> dict:
    # NumPy from 2.5 on sorts either way, and takes no `kind` beside that.
    return {"stable": True, "descending": True} if descending not in (_np._NoValue, None, False) else {"kind": "stable"}


def sort(a, axis=-1, kind=None, order=None, *, stable=None, descending=_np._NoValue) -> Any:
    """Stable, whatever is asked for. `descending` is for NumPy 2.5 and newer."""
    return _np.sort(a, axis=axis, order=order, **_stable(descending))


def argsort(a, axis=-1, kind=None, order=None, *, stable=None, descending=_np._NoValue) -> Any:
    """Stable, whatever is asked for. `descending` is for NumPy 2.5 and newer."""
    return _np.argsort(a, axis=axis, order=order, **_stable(descending))


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True) -> Any:
    """Sorted, whatever is asked for."""
    # Where NumPy gives places, too, it sorts stably.
    given = {} if equal_nan else {"equal_nan": False}  # which NumPy before 1.24 does not know
    values, places, *others = _np.unique(ar, True, return_inverse, return_counts, axis, **given)
    made = (values, places, *others) if return_index else (values, *others)
    return made if len(made) > 1 else values


class UniqueCountsResult(NamedTuple):
    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    values: Any
    inverse_indices: Any


def unique_values(x) -> Any:
    """The different elements, in order; each NaN counts as one, as in the array API."""
    return unique(x, equal_nan=False)


def unique_counts(x) -> Any:
    """The different elements and how many of each there are; each NaN counts as one."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x) -> Any:
    """The different elements and where each element of x is among them, of the shape of x; each NaN counts as one."""
    values, inverse = unique(x, return_inverse=True, equal_nan=False)
    return UniqueInverseResult(values, inverse.reshape(_np.shape(x)))


def intersect1d(ar1, ar2, assume_unique=False, return_indices=False) -> Any:
    """The different elements that are in both, in order."""
    made = _np.intersect1d(ar1, ar2, assume_unique=assume_unique, return_indices=True)
    return made if return_indices else made[0]


def union1d(ar1, ar2) -> Any:
    """The different elements of both, in order."""
    return unique(_np.concatenate((ar1, ar2), axis=None))


def setdiff1d(ar1, ar2, assume_unique=False) -> Any:
    """The different elements of the first that are not in the second, in order."""
    first = _np.ravel(ar1) if assume_unique else unique(ar1)
    return first[_np.isin(first, ar2, assume_unique=assume_unique, invert=True)]


def setxor1d(ar1, ar2, assume_unique=False) -> Any:
    """The different elements that are in one of the two alone, in order."""
    both = [_np.ravel(x) if assume_unique else unique(x) for x in (ar1, ar2)]
    joined = sort(_np.concatenate(both))
    differs = _np.concatenate(([True], joined[1:] != joined[:-1], [True]))
    return joined[differs[1:] & differs[:-1]]
