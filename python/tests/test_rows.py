"""Functions of rows: what they are, spelled out by the library's own reductions (docs/rows.md) and,
of layer_norm, by the steps of docs/definitions.md; layouts and axes; what is refused."""

import numpy as np
import pytest

import bitfold
from arrays import FLOATS, bits, random_array
from definitions import book

HALF = FLOATS[:2]


def rounded(row, dtype):
    with np.errstate(over="ignore"):
        return row.astype(dtype)


def softmax(x, exp):
    s = bitfold.softmax_denominator(x)
    return exp(x - bitfold.max(x)) * (x.dtype.type(1) / s)


def layer_norm(x, w, b, eps):
    with np.errstate(over="ignore"):
        mean, low, rstd = book["layer_statistics"]([*x], eps)
    return ((x - mean) - low) * rstd * w + b


def rms_norm(x, w, eps):
    rstd = x.dtype.type(1) / np.sqrt(
        bitfold.sum_squares(x) / x.dtype.type(x.size) + x.dtype.type(eps)
    )
    return x * rstd * w


@pytest.mark.parametrize("n", [1, 7, 300, 3000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_each_row(dtype, n):
    x = random_array(1, (5, n), dtype)  # without NaN and infinity
    weight, bias = random_array(2, n, dtype), random_array(3, n, dtype)
    wide = np.float32 if dtype in HALF else dtype  # in which they compute
    w, b = weight.astype(wide), bias.astype(wide)
    found = {
        "softmax": bitfold.softmax(x),
        "log_softmax": bitfold.log_softmax(x),
        "layer_norm": bitfold.layer_norm(x, weight=weight, bias=bias),
        "rms_norm": bitfold.rms_norm(x, weight=weight, eps=0.5),
    }
    for k, row in enumerate(x.astype(wide)):
        assert bits(found["softmax"][k]) == bits(rounded(softmax(row, bitfold.exp), dtype))
        assert bits(found["rms_norm"][k]) == bits(rounded(rms_norm(row, w, 0.5), dtype))
        assert bits(found["layer_norm"][k]) == bits(rounded(layer_norm(row, w, b, 1e-5), dtype))
        log = (
            row
            - bitfold.max(row)
            - np.log(bitfold.softmax_denominator(row).astype(np.float64)).astype(wide)
        )
        close = rounded(log, dtype)
        assert (
            np.max(bitfold.ulp_distance(found["log_softmax"][k], close)) <= 1
        )  # of NumPy's logarithm
    assert bits(bitfold.layer_norm(x)) == bits(
        bitfold.layer_norm(x, weight=np.ones(n, dtype), bias=-np.zeros(n, dtype))
    )


@pytest.mark.parametrize(
    "function", [bitfold.softmax, bitfold.log_softmax, bitfold.layer_norm, bitfold.rms_norm]
)
def test_layouts_and_axes(function):
    x = random_array(1, (4, 5, 60), FLOATS[2])
    wanted = function(x)
    assert wanted.shape == x.shape and wanted.dtype == x.dtype
    for other in (
        np.asfortranarray(x),
        np.repeat(x, 2, 2)[:, :, ::2],
        x[:, :, ::-1].copy()[:, :, ::-1],
    ):
        assert bits(function(other)) == bits(wanted)
    assert bits(function(x[1, 2])) == bits(wanted[1, 2])  # alone as in company
    for axis in (0, 1, -2, 2):
        assert bits(np.moveaxis(function(np.moveaxis(x, -1, axis), axis), axis, -1)) == bits(wanted)
        assert bits(function(x, axis)) == bits(function(x, dim=axis))
    assert function(x[:, :0]).shape == (4, 0, 60) and function(x[..., :0]).shape == (4, 5, 0)
    assert bits(function(x.tolist())) == bits(function(x.astype(float)))


def test_exp():
    x = np.float32([[-np.inf, -1, -0.0], [0, 1, np.nan]])
    for other in (x, x.T, x[:, ::-1]):
        assert np.array_equal(
            bitfold.exp(other), np.exp(other.astype(float)).astype(np.float32), equal_nan=True
        )
    assert (
        bitfold.exp(0.0) == 1
        and type(bitfold.exp(0.0)) is np.float64
        and bitfold.exp(np.zeros((3, 0))).shape == (3, 0)
    )


def test_tensors():
    torch = pytest.importorskip("torch")
    x, w = torch.arange(12.0).reshape(3, 4).T, torch.tensor([1.0, 2.0, 3.0])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        plain = bitfold._arrays.host(x.to(dtype))
        for function in (bitfold.softmax, bitfold.log_softmax, bitfold.rms_norm):
            for axis in (0, 1):
                ours = function(x.to(dtype), axis)
                assert ours.dtype is dtype and bitfold.same_bits(ours, function(plain, axis))
        of = bitfold.layer_norm(x.to(dtype), weight=w.to(dtype), bias=w.to(dtype), eps=1)
        assert bitfold.same_bits(
            of,
            bitfold.layer_norm(
                plain,
                weight=bitfold._arrays.host(w.to(dtype)),
                bias=bitfold._arrays.host(w.to(dtype)),
                eps=1,
            ),
        )
        assert bitfold.same_bits(bitfold.exp(x.to(dtype)), bitfold.exp(plain))
    assert bitfold.same_bits(bitfold.softmax(x), torch.softmax(x, -1)) or torch.allclose(
        bitfold.softmax(x), torch.softmax(x, -1)
    )


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "kind, text, call",
    [
        (TypeError, "x: int64, where softmax takes floats", lambda: bitfold.softmax([1, 2])),
        (TypeError, "x: complex64 is no", lambda: bitfold.exp(np.zeros(3, np.complex64))),
        (ValueError, "x: no axes, where softmax takes rows", lambda: bitfold.softmax(1.0)),
        (ValueError, "axis: 2 of an array of 2 axes", lambda: bitfold.rms_norm(X, 2)),
        (ValueError, "dim: -3 of an array of 2 axes", lambda: bitfold.softmax(X, dim=-3)),
        (TypeError, "dim: given beside axis", lambda: bitfold.softmax(X, 0, dim=0)),
        (TypeError, "axis: tuple, where an integer", lambda: bitfold.softmax(X, (0, 1))),
        (
            ValueError,
            "x: rows of 16777217 elements",
            lambda: bitfold.softmax(np.zeros(2**24 + 1, np.float16)),
        ),
        (
            ValueError,
            "weight: not of one axis of 3 elements",
            lambda: bitfold.layer_norm(X, weight=np.ones(2, np.float32)),
        ),
        (
            ValueError,
            "weight: not of one axis of 2 elements",
            lambda: bitfold.layer_norm(X, 0, weight=np.ones(3, np.float32)),
        ),
        (ValueError, "bias: f64, and x is f32", lambda: bitfold.layer_norm(X, bias=np.ones(3))),
        (
            ValueError,
            "weight: its elements do not lie in a row",
            lambda: bitfold.rms_norm(X, weight=np.ones(6, np.float32)[::2]),
        ),
        (TypeError, "eps: 'a' is no number", lambda: bitfold.rms_norm(X, eps="a")),
        (
            TypeError,
            "x: a masked array",
            lambda: bitfold.softmax(np.ma.array([1.0, 2.0], mask=[0, 1])),
        ),
    ],
    ids=str,
)
def test_refused(kind, text, call):
    with pytest.raises(kind, match=f"^{text}"):
        call()
