"""What the tests draw and compare with."""

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import bitfold
from bitfold import _core, _ops
from bitfold._registry import REGISTRY

DTYPES = [np.dtype(t) for t in ("float16", ml_dtypes.bfloat16, "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                "uint32", "uint64", "bool")]
FLOATS = DTYPES[:4]


def random_array(seed, shape, dtype):
    """Of many magnitudes and both signs, with zeros, and at times with NaN and infinity."""
    rng = np.random.default_rng(seed)
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.3, x, x % 5).astype(dtype)
    with np.errstate(all="ignore"):
        x = np.asarray(rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape))
        x[rng.random(shape) < 0.1] = -0.0
        if seed % 4 == 0:
            special = rng.choice([np.nan, np.inf, -np.inf, 1e-300, 3e38, 0.0], shape)
            x = np.where(rng.random(shape) < 0.03, special, x)
        return np.asarray(x).astype(dtype)


def unaligned(x):
    """The same elements, in a row at an address that is no multiple of their size (of one byte: it is)."""
    room = np.zeros(x.nbytes + 1, np.uint8)
    room[1:] = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
    return room[1:].view(x.dtype).reshape(x.shape)


@st.composite
def shapes(draw):
    if draw(st.booleans()):
        return tuple(draw(st.lists(st.integers(0, 7), max_size=4)))
    long = draw(st.sampled_from([255, 256, 257, 300, 1000, 5000]))
    return tuple(draw(st.permutations([long] + draw(st.lists(st.integers(1, 5), max_size=2)))))


@st.composite
def layouts(draw, x):
    """The same dtype, another way to lie in memory: transposed, sliced, reversed, broadcast, Fortran's, read-only."""
    if draw(st.booleans()):
        x = x.transpose(draw(st.permutations(range(x.ndim))))
    for axis in range(x.ndim):
        step = draw(st.sampled_from([1, 1, 2, -1, -3]))
        x = x[(slice(None),) * axis + (slice(None, None, step),)]
    if draw(st.integers(0, 5)) == 0 and x.ndim < 5 and x.size:
        x = np.broadcast_to(x, (draw(st.integers(1, 3)), *x.shape))
    if draw(st.integers(0, 5)) == 0:
        x = np.asfortranarray(x)
    if draw(st.integers(0, 5)) == 0:
        x.flags.writeable = False
    return x


@st.composite
def arrays(draw, dtypes=DTYPES):
    return draw(layouts(random_array(draw(st.integers(0, 2**32)), draw(shapes()), draw(st.sampled_from(dtypes)))))


@st.composite
def axes(draw, ndim):
    some = draw(st.lists(st.integers(0, ndim - 1), unique=True, max_size=ndim)) if ndim else []
    signed = tuple(a - ndim if draw(st.booleans()) else a for a in some)
    return draw(st.sampled_from([None, signed, *signed[:len(signed) == 1]]))


@st.composite
def options(draw, op, dtype):
    """Of an operation on elements of this type: what its function takes."""
    given, info = {}, REGISTRY[op]
    methods = ["tree", "pairwise", "kahan", "sequential"] * info["takes_method"] + ["exact"] * info["has_exact"]
    if methods and draw(st.booleans()):
        given["method"] = draw(st.sampled_from(methods))
    floats = dtype in FLOATS
    if info["takes_acc"] and floats and given.get("method") != "exact" and draw(st.integers(0, 3)) == 0:
        given["acc"] = "float64"
    if info["takes_dtype"] and draw(st.integers(0, 3)) == 0:
        whole = info["types"] == "additive" and not floats
        given["dtype"] = draw(st.sampled_from([d for d in DTYPES if d != bool and (d not in FLOATS if whole else d in FLOATS)]))
    if info["takes_ddof"] and draw(st.booleans()):
        given[draw(st.sampled_from(["ddof", "correction"]))] = draw(st.integers(0, 3))
    return given


def bits(x):
    """Shape, type and memory."""
    x = np.asarray(x)
    return x.dtype, x.shape, x.tobytes()


def expected(op, x, y=None, axis=None, keepdims=False, **given):
    """By the library's reference: NumPy gathers the elements of each output, which are reduced one output after the other."""
    wanted = _ops.request_of((op, given))
    inputs = [x] if y is None else list(np.broadcast_arrays(x, y))
    ndim = inputs[0].ndim
    reduced = sorted(a % ndim for a in (range(ndim) if axis is None else np.atleast_1d(axis).tolist() if not isinstance(axis, tuple) else axis))
    kept = [a for a in range(ndim) if a not in reduced]
    outer = tuple(inputs[0].shape[a] for a in kept)
    n = int(np.prod([inputs[0].shape[a] for a in reduced], dtype=int))
    rows = [a.transpose(kept + reduced).reshape(int(np.prod(outer, dtype=int)), n).copy() for a in inputs]
    results = [_ops._reduce(wanted, *(r[k] for r in rows), *[None] * (2 - len(rows)), None, False, call=_core._reference)
               for k in range(len(rows[0]))]
    shape = tuple(1 if a in reduced else inputs[0].shape[a] for a in range(ndim)) if keepdims else outer
    if results:
        return np.array(results, results[0].dtype).reshape(shape)
    empty = _ops._reduce(wanted, *(np.ones(1, r.dtype) for r in rows), *[None] * (2 - len(rows)), None, False)
    return np.zeros(shape, empty.dtype)


def function(op):
    return getattr(bitfold, op)
