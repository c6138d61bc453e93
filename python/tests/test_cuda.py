"""Arrays on a GPU: the bits of NumPy's."""

import numpy as np
import pytest

import bitfold
from bitfold import _core

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not (_core.cuda_devices() and torch.cuda.is_available()), reason="no GPU")]

OPS = [(op["name"], method) for op in _core.ops() for method in (["tree", "kahan", "exact"] if op["takes_method"] and op["has_exact"]
                                                                   else ["tree", "kahan"] if op["takes_method"] else [None])]


def cupys(x):
    return pytest.importorskip("cupy").asarray(x)


def torchs(x):
    return torch.from_numpy(x).cuda()


def of(x):
    return x.get() if hasattr(x, "get") else x.cpu().numpy()


def data(dtype, shape=(7, 33, 40)):
    x = np.random.default_rng(1).standard_normal(shape) * 100
    return x.astype(dtype)


@pytest.mark.parametrize("to_gpu", [torchs, cupys])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("name, method", OPS)
def test_operations(to_gpu, dtype, name, method):
    f, how = getattr(bitfold, name), {} if method is None else {"method": method}
    two = next(op for op in _core.ops() if op["name"] == name)["inputs"] == 2
    xs = [data(dtype), data(dtype)[::-1].copy()][: 1 + two]
    for axis in (None, 0, 2, (0, 2)):
        want = f(*xs, axis=axis, **how)
        for lay_out in (lambda x: x, lambda x: x.transpose(2, 0, 1).copy().transpose(1, 2, 0)):
            got = f(*(to_gpu(lay_out(x)) for x in xs), axis=axis, **how)
            assert type(got).__module__.startswith(to_gpu.__name__[:-1])
            assert bitfold.same_bits(of(got), np.asarray(want))


@pytest.mark.parametrize("to_gpu", [torchs, cupys])
@pytest.mark.parametrize("name", [op["name"] for op in _core.ops()])
def test_bytes_of_bools(to_gpu, name):
    """Every byte but 0 is true."""
    raw = np.random.default_rng(1).choice(np.uint8([0, 1, 2, 255]), (7, 33, 40))
    there = to_gpu(raw)
    x, there = raw != 0, there.view(torch.bool if to_gpu is torchs else bool)
    two = next(op for op in _core.ops() if op["name"] == name)["inputs"] == 2
    call = lambda x, **how: getattr(bitfold, name)(*[x] * (1 + two), **how)
    for axis in (None, 0, 2, (0, 2)):
        assert bitfold.same_bits(of(call(there, axis=axis)), np.asarray(call(x, axis=axis)))
    flat, y = (x.reshape(-1), there.reshape(-1)), lambda x: x if two else None
    keys = np.arange(flat[0].size) % 50
    for got, want in (
        (
            bitfold.segment_reduce(flat[1], to_gpu(np.array([0, 3, 9240])), name, y(flat[1])),
            bitfold.segment_reduce(flat[0], [0, 3, 9240], name, y(flat[0])),
        ),
        (
            bitfold.reduce_by_key(flat[1], to_gpu(keys), 50, name, y(flat[1])),
            bitfold.reduce_by_key(flat[0], keys, 50, name, y(flat[0])),
        ),
    ):
        assert bitfold.same_bits(of(got), want)
    empty = bitfold.segment_reduce(
        flat[1][:3], to_gpu(np.array([0, 0, 3])), name, y(flat[1][:3])
    )  # 0 where CPUs have no result
    if name in ("min", "max", "nanmin", "nanmax"):
        assert not of(empty)[0]


def test_dtype_of_integers():
    huge = torch.full((3, 5), 2**62, device="cuda")
    assert bitfold.same_bits(
        of(bitfold.sum(huge, axis=0, dtype="float32")), np.full(5, 3 * 2.0**62, np.float32)
    )
    assert bitfold.same_bits(of(bitfold.prod(huge, axis=0, dtype="float64")), np.full(5, 2.0**186))


@pytest.mark.parametrize("to_gpu", [torchs, cupys])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_of_rows(to_gpu, dtype):
    x, w = data(dtype), data(dtype, (40,))
    there, there_w = to_gpu(x), to_gpu(w)
    for axis in (-1, 0):
        for f in (bitfold.softmax, bitfold.log_softmax, bitfold.layer_norm, bitfold.rms_norm):
            got = f(there, axis)
            assert type(got).__module__.startswith(to_gpu.__name__[:-1]) and bitfold.same_bits(
                of(got), f(x, axis)
            )
    assert bitfold.same_bits(
        of(bitfold.layer_norm(there, weight=there_w, bias=there_w)),
        bitfold.layer_norm(x, weight=w, bias=w),
    )
    assert bitfold.same_bits(of(bitfold.exp(there / 100)), bitfold.exp(of(there / 100)))
    with pytest.raises(ValueError, match="^weight: on another device than x|^weight: "):
        bitfold.rms_norm(torchs(x), weight=torch.from_numpy(w))


@pytest.mark.parametrize("to_gpu", [torchs, cupys])
def test_lists(to_gpu):
    x = data("float32", (5000,))
    offsets = np.array([0, 3, 3, 70, 4999])
    keys = np.random.default_rng(2).integers(0, 50, 5000)
    ops = ["sum", "mean", ("sum", {"method": "exact"}), "count_nonzero"]
    for got, want in zip(bitfold.segment_reduce(to_gpu(x), to_gpu(offsets), ops), bitfold.segment_reduce(x, offsets, ops)):
        assert bitfold.same_bits(of(got), want)
    for got, want in zip(bitfold.reduce_by_key(to_gpu(x), to_gpu(keys), 50, ops), bitfold.reduce_by_key(x, keys, 50, ops)):
        assert bitfold.same_bits(of(got), want)
    assert bitfold.same_bits(of(bitfold.index_add(to_gpu(x), to_gpu(keys), 50)), bitfold.index_add(x, keys, 50))


def test_lists_are_checked_where_it_is_asked_for():
    x = torchs(data("float32", (24,)))
    for offsets, what in (([0, 3, 2], r"offsets\[2\]: 2 is below"), ([-1, 3], r"offsets\[0\]: -1"), ([0, 25], r"offsets\[1\]: 25 of 24")):
        with pytest.raises(ValueError, match=what):
            bitfold.segment_reduce(x, torch.tensor(offsets, device="cuda"), check=True)
    stream = torch.cuda.Stream()
    for key in (-1, 4):
        keys = torch.zeros(24, dtype=torch.int32, device="cuda")
        keys[2] = key
        for call in (bitfold.reduce_by_key, bitfold.index_add):
            with pytest.raises(ValueError, match=rf"keys\[2\]: {key} is not from 0 to 3"):
                call(x, keys, 4, check=True)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # after what is enqueued there
                torch.cuda._sleep(10_000_000)
                good = keys.clamp(0, 3)
                assert bitfold.same_bits(of(call(x, good, 4, check=True)), of(call(x, good, 4)))
            stream.synchronize()
        kept = keys != key
        assert bitfold.same_bits(of(bitfold.index_add(x, keys, 4)), of(bitfold.index_add(x[kept], keys[kept], 4)))  # left out, not looked at
    offsets = torch.tensor([0, 5, 5, 24], device="cuda")
    assert bitfold.same_bits(of(bitfold.segment_reduce(x, offsets, check=True)), of(bitfold.segment_reduce(x, offsets)))


def test_out_and_streams():
    x = data("float32")
    there = torchs(x)
    out = torch.empty(33, device="cuda")
    assert bitfold.sum(there, axis=(0, 2), out=out) is out
    assert bitfold.same_bits(of(out), bitfold.sum(x, axis=(0, 2)))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        bitfold.var(there, axis=1)  # what is loaded at the first call is no part of a graph
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = bitfold.var(there, axis=1)
        there.mul_(2)
        graph.replay()
    stream.synchronize()
    assert bitfold.same_bits(of(result), bitfold.var(2 * x, axis=1))


def test_what_is_refused():
    x = torchs(data("float32"))
    with pytest.raises(ValueError, match="y: on another device"):
        bitfold.dot(x, x.cpu())
    with pytest.raises(ValueError, match="method"):
        bitfold.sum(x, method="sequential")
    with pytest.raises(ValueError, match="axis"):
        bitfold.sum(x, axis=3)
