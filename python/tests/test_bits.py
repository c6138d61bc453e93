"""The bits of every operation, layout, axis, type and method are those of the library's reference."""

import doctest
import importlib
import inspect
import pathlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitfold
from arrays import DTYPES, FLOATS, arrays, axes, bits, expected, function, options, random_array
from bitfold._registry import ALIASES, REGISTRY

ONE = [op for op, info in REGISTRY.items() if info["inputs"] == 1]
TWO = [op for op, info in REGISTRY.items() if info["inputs"] == 2]

REFUSAL = "of no elements is not defined"


def check(op, call, *inputs, **arguments):
    """The call's result, or its refusal where there is no result for no elements."""
    try:
        wanted = expected(op, *inputs, **arguments)
    except ValueError as e:
        assert REFUSAL in str(e)
        with pytest.raises(ValueError, match=f"no elements.*{op} of none is not defined|{REFUSAL}"):
            call()
        return
    assert bits(call()) == bits(wanted)


@pytest.mark.parametrize("op", ONE)
@settings(max_examples=60)
@given(st.data())
def test_one_input(op, data):
    x = data.draw(arrays())
    axis, keepdims, given_ = data.draw(axes(x.ndim)), data.draw(st.booleans()), data.draw(options(op, x.dtype))
    check(op, lambda: function(op)(x, axis=axis, keepdims=keepdims, **given_), x, axis=axis, keepdims=keepdims, **given_)


@pytest.mark.parametrize("op", TWO)
@settings(max_examples=60)
@given(st.data())
def test_two_inputs_broadcast(op, data):
    x = data.draw(arrays())
    shape = [1 if data.draw(st.integers(0, 4)) == 0 else n for n in x.shape][data.draw(st.integers(0, x.ndim)):]
    y = data.draw(layouts_of_shape(shape, x.dtype))
    axis, given_ = data.draw(axes(x.ndim)), data.draw(options(op, x.dtype))
    check(op, lambda: function(op)(x, y, axis=axis, **given_), x, y, axis=axis, **given_)


@st.composite
def layouts_of_shape(draw, shape, dtype):
    order = draw(st.permutations(range(len(shape))))
    x = random_array(draw(st.integers(0, 2**32)), [shape[a] for a in order], dtype)
    return x.transpose(np.argsort(order).astype(int))[tuple(slice(None, None, draw(st.sampled_from([1, -1]))) for _ in shape)]


@given(st.data())
def test_several_in_one_pass(data):
    x = data.draw(arrays())
    names = data.draw(st.lists(st.sampled_from(ONE), min_size=1, max_size=5))
    if x.size == 0:
        names = [op for op in names if REGISTRY[op]["empty"] != "refused"]
    axis = data.draw(axes(x.ndim))
    wanted = [(op, data.draw(options(op, x.dtype))) for op in names]
    together = bitfold.reduce(x, wanted, axis=axis)
    assert isinstance(together, tuple)
    assert [bits(r) for r in together] == [bits(function(op)(x, axis=axis, **given_)) for op, given_ in wanted]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", ONE)
def test_long_arrays(op, dtype):
    """Such as are shared among threads, and folded without the interpreter's lock."""
    x = random_array(1, (3, 60_000), dtype)
    if op == "prod" and dtype in FLOATS:
        x = np.ones_like(x)
    for axis in (None, 0) if REGISTRY[op]["takes_method"] else (None,):
        assert bits(function(op)(x, axis=axis)) == bits(bitfold._ops._reduce(bitfold._ops.request_of(op), x, None, axis, False,
                                                                           call=bitfold._core._reference))


@given(st.data())
def test_segments(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    x = random_array(data.draw(st.integers(0, 2**32)), data.draw(st.integers(0, 3000)), dtype)
    offsets = np.sort(data.draw(st.lists(st.integers(0, len(x)), min_size=1, max_size=8)))
    op = data.draw(st.sampled_from([op for op in ONE if REGISTRY[op]["empty"] != "refused"]))
    given_ = data.draw(options(op, dtype))
    found, = bitfold.segment_reduce(x, offsets.astype(data.draw(st.sampled_from(["int64", "int32", "uint16"]))), [(op, given_)])
    assert len(found) == len(offsets) - 1
    for k, result in enumerate(found):
        assert bits(result) == bits(expected(op, x[offsets[k]:offsets[k + 1]], **given_))


@given(st.data())
def test_keys(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    x = random_array(data.draw(st.integers(0, 2**32)), data.draw(st.integers(0, 3000)), dtype)
    outputs = data.draw(st.integers(1, 9))
    keys = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, outputs, len(x))
    op = data.draw(st.sampled_from([op for op in ONE if REGISTRY[op]["empty"] != "refused"]))
    given_ = data.draw(options(op, dtype))
    found, = bitfold.reduce_by_key(x, keys, outputs, [(op, given_)])
    for k, result in enumerate(found):
        assert bits(result) == bits(expected(op, x[keys == k], **given_))
    assert bits(bitfold.index_add(x, keys, outputs)) == bits(bitfold.reduce_by_key(x, keys, outputs))


# ---- Bools, of which every byte but 0 means true

STRANGE = (
    np.random.default_rng(0)
    .choice(np.uint8([0, 1, 2, 255]), 70_000, p=[0.3, 0.4, 0.2, 0.1])
    .view(bool)
)
STRANGE_RECORDS = np.frombuffer(
    np.random.default_rng(1).bytes(900), [("a", "u1"), ("x", "?"), ("b", "u1")]
)["x"]


def normal(x):
    return (
        np.not_equal(x.view(np.uint8), 0)
        if x.strides[-1:] == (1,)
        else np.array([byte != 0 for byte in x.copy().view(np.uint8).ravel()]).reshape(x.shape)
    )


@pytest.mark.parametrize("op", REGISTRY)
def test_bytes_of_bools(op):
    call = function(op)
    two = REGISTRY[op]["inputs"] == 2
    on = lambda f, x, *rest, **how: (
        f(x, x[::-1] if x.ndim == 1 else x, *rest, **how) if two else f(x, *rest, **how)
    )
    rows = STRANGE[:9_000].reshape(30, 300)
    for x in (
        STRANGE,
        STRANGE[:100],
        STRANGE[:0],
        STRANGE_RECORDS,
        STRANGE[::3],
        STRANGE[1:2],
        np.broadcast_to(STRANGE[7:10], (50, 3)),
        rows,
    ):
        assert x.dtype == bool
        plain = normal(x)
        if x.size == 0 and REGISTRY[op]["empty"] == "refused":
            continue
        assert bits(on(call, x)) == bits(on(call, plain))
        for how in [{"method": "exact"}] * REGISTRY[op]["has_exact"] + [
            {"dtype": "float32"}
        ] * REGISTRY[op]["takes_dtype"]:
            assert bits(on(call, x, **how)) == bits(on(call, plain, **how))
    for x in (rows, rows.T, rows[::-2, 1::3]):
        for axis in (0, 1):
            assert bits(on(call, x, axis=axis)) == bits(on(call, normal(x), axis=axis))
    if not two:
        ops = [op, "any", "sum", ("mean", {"dtype": "float32"})]
        assert [bits(r) for r in bitfold.reduce(rows, ops, axis=1)] == [
            bits(r) for r in bitfold.reduce(normal(rows), ops, axis=1)
        ]
    x, y = STRANGE[:1000], STRANGE[1000:2000] if two else None
    plain, plain_y = normal(x), normal(y) if two else None
    keys = np.arange(1000) % 7
    assert bits(bitfold.segment_reduce(x, [0, 3, 1000], op, y)) == bits(
        bitfold.segment_reduce(plain, [0, 3, 1000], op, plain_y)
    )
    assert bits(bitfold.reduce_by_key(x, keys, 7, op, y)) == bits(
        bitfold.reduce_by_key(plain, keys, 7, op, plain_y)
    )


def test_bytes_of_bools_by_other_ways():
    torch = pytest.importorskip("torch")
    plain, tensor = normal(STRANGE), torch.from_numpy(STRANGE.view(np.uint8)).view(torch.bool)
    assert (
        bitfold.sum(STRANGE) == plain.sum() == np.count_nonzero(plain)
        and bitfold.sum(STRANGE_RECORDS) == normal(STRANGE_RECORDS).sum()
    )
    for op in ("sum", "mean", "max", "argmax", "prod", "any"):
        assert bits(function(op)(tensor).numpy()) == bits(function(op)(plain))
        assert bits(function(op)(tensor.reshape(-1, 700), axis=0).numpy()) == bits(
            function(op)(plain.reshape(-1, 700), axis=0)
        )
    total, of_plain, squares, of_plain_squares = (
        bitfold.accumulator("uint8", degree=degree) for degree in (1, 1, 2, 2)
    )
    total.add(STRANGE), of_plain.add(plain), squares.add_products(
        STRANGE, STRANGE
    ), of_plain_squares.add_products(plain, plain)
    assert total == of_plain and squares == of_plain_squares
    bitfold.sum(STRANGE, out=(out := np.zeros((), np.int64)))
    assert out == plain.sum()
    x = np.random.default_rng(1).choice(np.uint8([0, 1]), 3 << 20)  # by several threads
    x[-1] = 3
    assert (
        bitfold.sum(x.view(bool)) == np.count_nonzero(x)
        and bitfold.mean(x.view(bool)) == np.count_nonzero(x) / x.size
    )


# ---- dtype, as NumPy and PyTorch have it: of what is computed with, and the result

TAKES_DTYPE = [op for op, info in REGISTRY.items() if info["takes_dtype"]]


@pytest.mark.parametrize("op", TAKES_DTYPE)
def test_dtype_is_what_is_computed_with(op):
    call = lambda x, **how: (
        function(op)(x, x[::-1], **how) if REGISTRY[op]["inputs"] == 2 else function(op)(x, **how)
    )
    for dtype in FLOATS[:3]:
        x = random_array(1, 3000, dtype)
        for how in [{}] + [{"method": m} for m in ("kahan", "sequential")] * REGISTRY[op][
            "takes_method"
        ]:
            assert bits(call(x, dtype="float64", **how)) == bits(
                call(x.astype(np.float64), **how)
            ), (dtype, how)
            assert bits(call(x, dtype="float64", **how)) == bits(
                call(x, out=np.zeros((), np.float64), **how)
            )
            if REGISTRY[op]["takes_acc"]:  # which says more
                wanted = bitfold._ops.request_of((op, {"dtype": "float64", "acc": "float32"}))
                assert wanted.of(bitfold._arrays.short_name(dtype)).acc == "f32"
    for dtype in DTYPES[4:]:
        x = random_array(1, 3000, dtype)[:20 if op == "prod" else 3000]
        if op == "prod":
            wanted = call(x.astype(np.float64))
        else:  # what is added up modulo 2^64 by other methods, or in float64
            wanted = (
                call(x, method="exact", dtype="float64")
                if REGISTRY[op]["types"] == "additive"
                else call(x)
            )
        assert bits(call(x, dtype="float64")) == bits(wanted), dtype


def test_dtype():
    ones = np.ones(2**24 + 1, np.float32)
    assert bitfold.sum(ones, dtype=np.float64) == bitfold.sum(ones, out=np.zeros(())) == 2**24 + 1
    assert (
        bitfold.reduce(ones[None], [("sum", {"dtype": "float64"})], axis=1)[0] == [2**24 + 1]
        and bitfold.sum(ones) == 2**24
    )
    huge = [2**62] * 3
    assert bits(bitfold.sum(huge, dtype="float32")) == bits(np.float32(3 * 2.0**62))
    assert bits(bitfold.dot(huge, huge, dtype="float64")) == bits(np.float64(3 * 2.0**124))
    assert bits(bitfold.sum(np.array([huge, huge]), axis=1, dtype="f4")) == bits(
        np.float32([3 * 2.0**62] * 2)
    )
    assert bits(bitfold.prod(huge, dtype="float64")) == bits(np.float64(2.0**186))
    assert bits(
        bitfold.segment_reduce(huge * 2, [0, 3, 6], ("prod", {"dtype": "float64"}))
    ) == bits(np.array([2.0**186] * 2))
    assert bits(bitfold.index_add(huge, [0, 0, 0], 1, dtype="float32")) == bits(
        np.float32([3 * 2.0**62])
    )
    with pytest.raises(
        ValueError, match="^dtype: prod of i64 is computed modulo 2.64 .acc., and not in f64 here"
    ):
        bitfold.reduce(huge, ["sum", ("prod", {"dtype": "float64"})])
    torch = pytest.importorskip("torch")
    importlib.import_module("bitfold.torch")
    assert torch.ops.bitfold.sum(torch.from_numpy(ones), dtype=torch.float64) == 2**24 + 1
    assert torch.ops.bitfold.sum(torch.tensor(huge), dtype=torch.float32) == 3 * 2.0**62


def test_two_inputs_by_segment_and_key():
    x, y = random_array(1, 100, np.dtype("float32")), random_array(2, 100, np.dtype("float32"))
    assert bits(bitfold.segment_reduce(x, [0, 40, 100], "dot", y)[1]) == bits(bitfold.dot(x[40:], y[40:]))
    assert bits(bitfold.reduce_by_key(x, np.arange(100) % 2, 2, "mse", y)[1]) == bits(bitfold.mse(x[1::2], y[1::2]))


def test_aliases():
    x = random_array(1, (4, 5), np.dtype("float32"))
    for alias, op in ALIASES.items():
        assert bits(function(alias)(x, axis=1)) == bits(function(op)(x, axis=1))
        assert bits(bitfold.reduce(x, [alias])[0]) == bits(function(op)(x))


ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "docs/operations.md").exists(), reason="skipped: no sources beside the tests")
def test_documented_examples():
    """Those of docs/operations.md."""
    text = (ROOT / "docs/operations.md").read_text()
    found = re.findall(r"Example: `(\w+)\((.*)\)` is `(.*)`", text)
    assert {op for op, _, _ in found} == set(REGISTRY)
    for op, arguments, result in found:
        inputs = [[float(v) for v in numbers.split(",")] for numbers in re.findall(r"{(.*?)}", arguments)]
        assert function(op)(*inputs) == float(result)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="skipped: NumPy before 2 shows its scalars otherwise")
@pytest.mark.parametrize("module", ["", "._accumulator", "._compare", "._ops", "._rows"])
def test_docstrings(module):
    tried = doctest.testmod(importlib.import_module("bitfold" + module))
    assert tried.attempted > 0 and tried.failed == 0


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="skipped: NumPy before 2 shows its scalars otherwise")
@pytest.mark.parametrize("name", REGISTRY)
def test_docstrings_of_operations(name):
    """They have what the function takes, and an example that runs."""
    operation = function(name)
    of = doctest.DocTestParser().get_doctest(operation.__doc__, dict(vars(bitfold)), name, None, None)
    runner = doctest.DocTestRunner()
    runner.run(of)
    assert runner.tries > 0 and runner.failures == 0
    for said in ("Result", "Errors", *inspect.signature(operation).parameters):
        assert re.search(rf"(?m)(^|[.,;] ){said}[:,]", operation.__doc__), said


def test_every_function_has_a_docstring():
    for name in bitfold.__all__:
        assert name in ("order_version",) or getattr(bitfold, name).__doc__
