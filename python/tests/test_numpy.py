"""bitfold.numpy: NumPy's names and signatures, bitfold's bits, and clear errors."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import bitfold
import bitfold.numpy as bn
from bitfold.numpy import _names

R = np.random.default_rng(0)
X = R.standard_normal((3, 4, 5)).astype(np.float32)
UFUNCS = {"matmul", "vecdot", "exp"}  # of whose arguments bitfold has some
OWN = {"method", "acc", "others"}


def same(ours, theirs, exact=False):
    assert (np.shape(ours), ours.dtype) == (np.shape(theirs), theirs.dtype)
    assert np.array_equal(ours, theirs, equal_nan=True) if exact else np.allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_its_examples():
    assert doctest.testmod(bn) == (0, 4)


def functions():
    for space, theirs in ((bn, np), (bn.linalg, np.linalg)):
        for name in space.__all__:
            if inspect.isfunction(getattr(space, name)) and hasattr(theirs, name):
                yield pytest.param(name, getattr(space, name), getattr(theirs, name), id=f"{space.__name__}.{name}")


@pytest.mark.parametrize("name, ours, theirs", list(functions()))
def test_the_signatures_are_numpys(name, ours, theirs):
    try:
        wanted = inspect.signature(theirs)
    except ValueError:
        pytest.skip("skipped: this NumPy does not tell of its ufuncs")
    plain = lambda s: [(p.name, p.kind, p.default) for p in s.parameters.values() if p.name not in OWN]  # noqa: E731
    ours, theirs = plain(inspect.signature(ours)), plain(wanted)
    if name in UFUNCS and ("out", theirs[0][1], None) not in ours and len(theirs) > 3:
        theirs = [p for p in theirs if p[0] in {q[0] for q in ours}]
        ours = [p if p[0] != "axis" else next(q for q in theirs if q[0] == "axis") for p in ours]
    # Older NumPy has some of these alone.
    known = {p[0] for p in theirs}
    assert [p for p in ours if p[0] in known] == theirs
    assert {p[0] for p in ours} - known <= {"mean", "correction", "stable", "sorted", "descending"}


CALLS = [
    (name, options)
    for name in ("sum", "prod", "mean", "nansum", "nanmean", "std", "var", "min", "max", "amin", "amax", "nanmin", "nanmax", "any",
                 "all", "count_nonzero", "ptp")  # fmt: skip
    for options in ({}, {"axis": 0}, {"axis": (0, -1)}, {"axis": 1, "keepdims": True})
]


@pytest.mark.parametrize("name, options", CALLS)
def test_reductions(name, options):
    ours = getattr(bn, name)(X, **options)
    same(ours, getattr(np, name)(X, **options))
    if name != "ptp":
        assert bitfold.same_bits(ours, getattr(bitfold, name)(X, **options))


@pytest.mark.parametrize("name", [name for name in bitfold.__all__ if "acc" in inspect.signature(getattr(bn, name, len)).parameters])
def test_methods_and_accumulators(name):
    x = (R.standard_normal((1000, 40)) * 2.0 ** R.integers(0, 20, (1000, 40))).astype(np.float32)
    ours, theirs = getattr(bn, name), getattr(bitfold, name)
    assert bitfold.same_bits(ours(x, 0, acc=np.float64), theirs(x, axis=0, acc=np.float64))
    if "method" in inspect.signature(ours).parameters:
        exact = theirs(x, axis=0, method="exact")
        assert bitfold.same_bits(ours(x, 0, method="exact"), exact) and not bitfold.same_bits(exact, theirs(x, axis=0))


def test_arguments():
    assert bitfold.same_bits(bn.sum(X, 0, np.float64), bitfold.sum(X, axis=0, dtype=np.float64))
    assert bn.sum(a=X, method="exact") == bitfold.sum(X, method="exact") == bn.sum(X.T, method="exact")
    assert bitfold.same_bits(bn.std(X, 1, None, None, 1), bitfold.std(X, axis=1, ddof=1))
    assert bitfold.same_bits(bn.var(X, 1, correction=1), bitfold.var(X, axis=1, ddof=1))
    out = np.empty((4, 5), np.float32)
    for call in (bn.sum, bn.mean, bn.max, bn.ptp, bn.std):
        assert call(X, axis=0, out=out) is out and bitfold.same_bits(out, call(X, axis=0))
    places = np.empty(3, np.int64)
    for ours, theirs in ((bn.argmax, np.argmax), (bn.argmin, np.argmin)):
        assert ours(X) == theirs(X)
        same(ours(X, axis=1, keepdims=True), theirs(X, axis=1, keepdims=True), exact=True)
        assert ours(X[:, 0], 1, places) is places
    same(bn.sum([[1, 2], [3, 4]], axis=0), np.sum([[1, 2], [3, 4]], axis=0), exact=True)
    same(bn.exp(X), np.exp(X))


@pytest.mark.parametrize("ord", [None, 0, 1, 2, np.inf, -np.inf])
def test_norms_of_vectors(ord):
    for options in ({"axis": 1}, {"axis": -1, "keepdims": True}):
        for x in (X, (10 * X).astype(np.int16), X.astype(np.float64)):
            same(bn.linalg.norm(x, ord, **options), np.linalg.norm(x, ord, **options))
    same(bn.linalg.norm(X[0, 0], ord), np.linalg.norm(X[0, 0], ord))
    if hasattr(np.linalg, "vector_norm"):
        given = {} if ord is None else {"ord": ord}
        same(bn.linalg.vector_norm(X, axis=(0, 2), **given), np.linalg.vector_norm(X, axis=(0, 2), **given))
    assert bitfold.same_bits(bn.linalg.norm(X), bitfold.norm_l2(X))


@pytest.mark.parametrize("ord", [None, "fro", 1, -1, np.inf, -np.inf])
def test_norms_of_matrices(ord):
    for axis, keepdims in (((0, 1), False), ((-1, 0), True)):
        same(bn.linalg.norm(X, ord, axis, keepdims), np.linalg.norm(X, ord, axis, keepdims))
    same(bn.linalg.norm(X[0], ord), np.linalg.norm(X[0], ord))
    if hasattr(np.linalg, "matrix_norm"):
        same(bn.linalg.matrix_norm(X, ord=ord or "fro"), np.linalg.matrix_norm(X, ord=ord or "fro"))


SHAPES = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((3, 4), (4, 2)), ((2, 3, 4), (4,)), ((2, 3, 4), (5, 4, 2)), ((), (3,)), ((4,), (5, 4, 2))]


@pytest.mark.parametrize("a, b", SHAPES)
def test_products(a, b):
    whole = lambda s, t: R.integers(-100, 100, s).astype(t)  # noqa: E731
    for types in ((np.float32,) * 2, (np.float64, np.float32), (np.int8,) * 2, (np.int32, np.int16)):
        x, y = whole(a, types[0]), whole(b, types[1])
        same(bn.dot(x, y), np.dot(x, y), exact=True)
        if a and not (len(a) == 3 and len(b) == 3):
            same(bn.matmul(x, y), np.matmul(x, y), exact=True)
        z = np.moveaxis(y, -2, -1) if len(b) > 1 else y
        same(bn.inner(x, z), np.inner(x, z), exact=True)
    assert bitfold.same_bits(bn.matmul(X[0], X[1].T), bitfold.matmul(X[0], X[1].T))
    out = np.empty((4, 4), np.float32)
    assert bn.matmul(X[0], X[1].T, out) is out and bitfold.same_bits(out, bn.dot(X[0], X[1].T))


def test_products_of_no_elements():
    none = np.empty((3, 0), np.float32)
    for name, a, b in (("dot", none, none.T), ("dot", none, none[0]), ("inner", none, none), ("dot", none.T, none), ("matmul", none, none.T)):
        same(getattr(bn, name)(a, b), getattr(np, name)(a, b), exact=True)


def test_inner_products():
    assert bn.vdot(X, X) == bn.dot(X.ravel(), X.ravel()) == bitfold.dot(X.ravel(), X.ravel())
    if hasattr(np, "vecdot"):
        for axis in (-1, 0):
            same(bn.vecdot(X, X[:, :1] if axis else X, axis=axis), np.vecdot(X, X[:, :1] if axis else X, axis=axis))
            same(bn.linalg.vecdot(X, X, axis=axis), np.linalg.vecdot(X, X, axis=axis))
    with pytest.raises(ValueError, match="4 and 1 elements"):
        bn.vecdot(X, X[:, :1], axis=1)
    with pytest.raises(ValueError, match="5 and 4 elements"):
        bn.dot(X, X)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: bn.sum(X, where=X > 0), TypeError, r"'where': x\[where\] has"),
        (lambda: bn.max(X, initial=0), TypeError, "'initial': add it"),
        (lambda: bn.std(X, mean=0), TypeError, "'mean'"),
        (lambda: bn.matmul(X, X, casting="no"), TypeError, "'casting': bitfold has not"),
        (lambda: bn.matmul(X[0], X[1].T, out=np.empty((4, 4))), TypeError, "out: of float64"),
        (lambda: bn.ptp(X, 0, np.empty(3, np.float32)), ValueError, "out: of shape"),
        (lambda: bn.sum(X * 1j), TypeError, "complex64"),
        (lambda: bn.linalg.norm(X, 3, 0), ValueError, "ord: 3: of vectors bitfold has"),
        (lambda: bn.linalg.norm(X[0], 2), ValueError, "none of singular values"),
        (lambda: bn.linalg.norm(X, 1), ValueError, "axis: None, but x has 3 axes"),
        (lambda: bn.pad(X, 1, mode="mean"), ValueError, "mode: 'mean' is a sum"),
        (lambda: bn.partition, AttributeError, "'partition': numpy.partition is NumPy's"),
        (lambda: bn.cumsum, AttributeError, "no attribute 'cumsum': bitfold has no scans"),
        (lambda: bn.tanh, AttributeError, "'tanh': numpy.tanh is NumPy's, whose bits may depend"),
        (lambda: bn.linalg.svd, AttributeError, "'svd': numpy.linalg.svd is LAPACK's"),
        (lambda: bn.no_such_thing, AttributeError, "no attribute 'no_such_thing'$"),
    ],
)
def test_what_it_has_not(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_what_is_numpys():
    assert bn.float32 is np.float32 and bn.concatenate is np.concatenate and "zeros" in dir(bn)
    unknown = {name for name in _names.AS_NUMPY if not hasattr(np, name)}
    assert len(unknown) < 20  # of another version of NumPy's
    assert not _names.AS_NUMPY & set(bn.__all__)
    adds = {"sum", "cumsum", "average", "median", "trace", "einsum", "tensordot", "convolve", "interp", "log", "power", "hypot", "sin"}
    assert not _names.AS_NUMPY & adds


def bits(x):
    return np.shape(x), np.asarray(x).tobytes()


def test_sorts_are_stable():
    """Of NumPy's default ones the order of equal elements depends on the machine."""
    few = R.integers(0, 5, 4000)
    zeros, nans = np.where(few < 2, -0.0, 0.0), np.where(few < 2, -np.nan, np.nan)
    mixed = np.where(few == 4, 1.0, zeros).reshape(4, -1)
    for x in (few, few.astype(np.float32), zeros, nans, mixed):
        for axis in (0, -1, None):
            assert bits(bn.sort(x, axis)) == bits(np.sort(x, axis, kind="stable"))
            assert bits(bn.argsort(x, axis, "quicksort")) == bits(np.argsort(x, axis, kind="stable"))


def test_sorts_from_the_largest_down():
    few = R.integers(0, 5, 4000).astype(np.float32)
    if "descending" not in inspect.signature(np.sort).parameters:
        with pytest.raises(TypeError):
            bn.sort(few, descending=True)
        return
    assert bits(bn.sort(few, descending=True)) == bits(np.sort(few, stable=True, descending=True))
    assert bits(bn.argsort(few, descending=True)) == bits(np.argsort(-few, kind="stable"))


def test_of_equal_elements_the_first_is_kept():
    for first in (0.0, -0.0):
        zeros = np.where(R.integers(0, 2, 3000) == 1, 0.0, -0.0)
        zeros[0] = first
        wanted, none = bits([first]), np.empty(0)
        assert bits(bn.unique(zeros)) == bits(bn.unique_values(zeros)) == wanted
        assert bits(bn.unique(zeros, return_inverse=True)[0]) == bits(bn.unique_counts(zeros).values) == wanted
        assert bits(bn.unique_inverse(zeros).values) == bits(bn.union1d(zeros, -zeros)) == wanted
        assert bits(bn.setdiff1d(zeros, [1.0])) == bits(bn.setxor1d(zeros, none)) == wanted
        assert bits(bn.intersect1d(zeros, -zeros)) == wanted


@pytest.mark.parametrize("name", ["intersect1d", "union1d", "setdiff1d", "setxor1d"])
def test_sets(name):
    a, b = R.integers(0, 40, (5, 7)), R.integers(20, 60, 30)
    same(getattr(bn, name)(a, b), getattr(np, name)(a, b), exact=True)
    if name != "union1d":
        a, b = np.unique(a)[::-1], np.unique(b)
        same(getattr(bn, name)(a, b, True), getattr(np, name)(a, b, True), exact=True)
    for k, (ours, theirs) in enumerate(zip(bn.intersect1d(a, b, return_indices=True), np.intersect1d(a, b, return_indices=True))):
        assert np.array_equal(ours, theirs), k


def test_unique():
    a = R.integers(0, 9, (6, 2))
    for axis in (None, 0):
        for given in ((), (True,), (False, True), (True, True, True), (False, False, True)):
            ours, theirs = bn.unique(a, *given, axis=axis), np.unique(a, *given, axis=axis)
            assert type(ours) is type(theirs)
            for x, y in zip(ours, theirs):
                assert np.array_equal(x, y)
    assert np.array_equal(bn.unique_inverse(a).inverse_indices, np.unique(a, return_inverse=True)[1].reshape(a.shape))
    assert len(bn.unique([np.nan, 1, np.nan])) == 2 and len(bn.unique_values(np.array([np.nan, 1, np.nan]))) == 3


def test_a_program_of_numpys():
    def program(np):
        x = np.arange(12, dtype=np.float64).reshape(3, 4)
        rows = x - np.mean(x, axis=1, keepdims=True)
        return np.sqrt(np.sum(rows * rows, axis=0)), np.where(np.any(x > 5, axis=1), 1, 0), np.linalg.norm(np.dot(x, x.T))

    for ours, theirs in zip(program(bn), program(np)):
        same(ours, theirs)


def test_array_namespace_info():
    info = bn.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.capabilities()["data-dependent shapes"] is True
    with pytest.raises(ValueError, match="'text'"):
        info.dtypes(kind="text")
    if hasattr(np, "__array_namespace_info__"):
        theirs = np.__array_namespace_info__()
        assert info.default_dtypes() == theirs.default_dtypes()
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", ("bool", "integral")):
            assert info.dtypes(kind=kind) == theirs.dtypes(kind=kind)
        numbers = {name: t for name, t in theirs.dtypes().items() if t.kind != "c"}
        assert info.dtypes() == numbers and info.dtypes(kind="complex floating") == {}
