"""What Python has to do with a GPU, on the one that is emulated on the CPU (docs/kernels.md), where memory is the host's: so NumPy's
arrays, in the place of CuPy's, and torch's tensors on the CPU are shown as if they were on CUDA. ctest runs it: python_emulated."""

import ctypes
import os
import sys
import types

import numpy as np
import pytest

import bitfold
from bitfold import _core

if _core.cuda_devices() != ["an emulated GPU"]:
    pytest.skip("no emulated GPU", allow_module_level=True)
_core.look_for_compiler_at(os.environ["BITFOLD_EMULATED_NVRTC"])

CUDA = 2
python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype, python.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def put_on_cuda(tensor):
    """`tensor`: the address of a DLTensor."""
    ctypes.c_int32.from_address(tensor + 8).value = CUDA


class Array:
    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype
        self.data = types.SimpleNamespace(ptr=x.ctypes.data)

    def __dlpack_device__(self):
        return CUDA, 0

    def __dlpack__(self, *, stream):
        capsule = self.x.__dlpack__()
        put_on_cuda(python.PyCapsule_GetPointer(capsule, b"dltensor"))
        return capsule

    def astype(self, dtype):
        return Array(self.x.astype(dtype))


@pytest.fixture(scope="module")
def cupys():
    cupy = types.ModuleType("cupy")
    cupy.ndarray, Array.__module__ = Array, "cupy"
    cupy.empty = lambda shape, dtype: Array(np.empty(shape, dtype))
    cupy.ascontiguousarray = lambda x: Array(np.ascontiguousarray(x.x))
    cupy.moveaxis = lambda x, *axes: Array(np.moveaxis(x.x, *axes))
    device = type("Device", (), {"__init__": lambda self, n: None, "__enter__": lambda self: None, "__exit__": lambda self, *error: None})
    cupy.cuda = types.SimpleNamespace(Device=device, get_current_stream=lambda: types.SimpleNamespace(ptr=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", cupy)
        yield Array, lambda x: x.x


asked_for_streams = []


@pytest.fixture(scope="module")
def torchs():
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("PyTorch before 2.11")
    from bitfold import _tensors

    words = (ctypes.c_void_p * 7).from_address(python.PyCapsule_GetPointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))
    of_torch = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(words[5])

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def show(tensor, out):
        failed = of_torch(tensor, out)
        if not failed:
            put_on_cuda(out)
        return failed

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
    def current_stream(device_type, device, out):
        asked_for_streams.append((device_type, device))
        ctypes.c_void_p.from_address(out).value = None
        return 0

    api = (ctypes.c_void_p * 7)(*words[:5], ctypes.cast(show, ctypes.c_void_p), ctypes.cast(current_stream, ctypes.c_void_p))
    capsule = python.PyCapsule_New(ctypes.addressof(api), b"dlpack_exchange_api", None)
    own = [torch.Tensor, torch.nn.Parameter]
    assert "bitfold.torch" not in sys.modules  # which keeps what it finds
    _tensors.TENSORS = _core.Tensors(capsule, own, _tensors.DTYPES, torch.empty_like, 0, 0)
    yield torch.from_numpy, lambda x: x.numpy()


@pytest.fixture(params=["cupys", "torchs"])
def kind(request):
    return request.getfixturevalue(request.param)


RNG = np.random.default_rng(1)
X = (RNG.standard_normal((5, 33)) * 50).astype(np.float32)


def same(got, want):
    return bitfold.same_bits(got, np.asarray(want))


def test_reductions(kind):
    to_gpu, of = kind
    for x in (X, X.astype(np.int64), X.T.copy().T):
        for name in ("sum", "argmin", "var", "prod"):
            for axis in (None, 0, 1):
                assert same(of(getattr(bitfold, name)(to_gpu(x), axis=axis)), getattr(bitfold, name)(x, axis=axis)), (name, axis)
    assert same(of(bitfold.dot(to_gpu(X), to_gpu(X[:1]), axis=1)), bitfold.dot(X, X[:1], axis=1))
    assert same(of(bitfold.prod(to_gpu(np.int32([3, 5])), dtype="float64")), 15.0)
    total, most = bitfold.reduce(to_gpu(X), ["sum", "max"], axis=0)
    assert same(of(total), bitfold.sum(X, axis=0)) and same(of(most), X.max(axis=0))
    assert "sum by tree" in bitfold.explain(to_gpu(X), "sum", axis=1)
    with pytest.raises(ValueError, match="^method: "):
        bitfold.sum(to_gpu(X), method="sequential")


@pytest.mark.parametrize("name", ["sum", "min", "max", "any", "mean", "dot"])
def test_bytes_of_bools(kind, name):
    to_gpu, of = kind
    raw = RNG.choice(np.uint8([0, 1, 2, 255]), (5, 33))
    there = to_gpu(raw.view(bool))
    call = lambda x, **how: getattr(bitfold, name)(*[x] * (1 + (name == "dot")), **how)
    for axis in (None, 1):
        assert same(of(call(there, axis=axis)), call(raw != 0, axis=axis))


def test_lists(kind):
    to_gpu, of = kind
    x, keys = X.reshape(-1), RNG.integers(0, 7, X.size)
    for integers in (keys, keys.astype(np.int32)):
        assert same(of(bitfold.reduce_by_key(to_gpu(x), to_gpu(integers), 7, check=True)), bitfold.reduce_by_key(x, keys, 7))
    offsets = np.array([0, 3, 3, X.size])
    assert same(of(bitfold.segment_reduce(to_gpu(x), to_gpu(offsets), check=True)), bitfold.segment_reduce(x, offsets))
    with pytest.raises(ValueError, match=r"^offsets\[2\]: 2 is below"):
        bitfold.segment_reduce(to_gpu(x), to_gpu(np.array([0, 3, 2])), check=True)


def test_rows_and_out(kind):
    to_gpu, of = kind
    w = X[0]
    for function, axis in ((bitfold.softmax, -1), (bitfold.softmax, 0), (bitfold.layer_norm, -1), (bitfold.rms_norm, -1)):
        assert same(of(function(to_gpu(X), axis)), function(X, axis))
    assert same(of(bitfold.layer_norm(to_gpu(X), weight=to_gpu(w), bias=to_gpu(w))), bitfold.layer_norm(X, weight=w, bias=w))
    out = to_gpu(np.empty(33, np.float32))
    assert bitfold.sum(to_gpu(X), axis=0, out=out) is out and same(of(out), bitfold.sum(X, axis=0))


def test_operators_and_the_mode(torchs):
    import torch

    import bitfold.torch

    asked_for_streams.clear()
    x, keys = torch.from_numpy(X), torch.tensor([1, 1, 0, 3, 1])
    ops = torch.ops.bitfold
    assert same(ops.sum(x, 1).numpy(), bitfold.sum(X, axis=1)) and same(ops.exp(x / 50).numpy(), bitfold.exp(X / np.float32(50)))
    assert same(ops.mean(x, 0, method="kahan").numpy(), bitfold.mean(X, axis=0, method="kahan"))
    of_nine_axes = x[:, :32].reshape(5, 1, 2, 2, 2, 2, 2, 1, 1)
    assert same(ops.sum(of_nine_axes, [0, 1]).numpy().reshape(-1), bitfold.sum(X[:, :32], axis=0))
    parameters = [torch.nn.Parameter(torch.zeros(5, 33)), torch.nn.Parameter(torch.zeros(33))]
    for p, g in zip(parameters, (x, x[0])):
        p.grad = g
    assert same(bitfold.torch.grad_norm(parameters).numpy(), bitfold.norm_l2(np.concatenate([X.reshape(-1), X[0]]), method="exact"))
    with bitfold.torch.deterministic():
        assert same(x.sum().numpy(), bitfold.sum(X)) and same(x.softmax(-1).numpy(), bitfold.softmax(X))
        weight = torch.from_numpy(X[0])
        assert same(torch.nn.functional.layer_norm(x, [33], weight, weight).numpy(), bitfold.layer_norm(X, weight=X[0], bias=X[0]))
        assert same((x > 0).sum(1).numpy(), (X > 0).sum(1)) and same((x > 9).max(1).values.numpy(), (X > 9).max(1))
        added = torch.zeros(5, 33).index_add(0, keys, x.round()).numpy()
        _, mean, rstd = torch.ops.aten.native_layer_norm(x, [33], weight, weight, 1e-5)
        gradients = torch.ops.aten.native_layer_norm_backward(x.round(), x, [33], mean, rstd, weight, weight, [True, True, True])
    want = np.zeros_like(X)
    np.add.at(want, keys.numpy(), X.round())
    assert same(added, want) and same(gradients[2].numpy(), X.round().sum(0))
    assert set(asked_for_streams) == {(CUDA, 0)}


def test_norms_of_several_tensors(torchs):
    import torch

    import bitfold.torch

    tensors = [torch.from_numpy(x) for x in (X, X[0].copy(), X[:2], X[3, :1].copy())]
    with bitfold.torch.deterministic():
        for order, name in ((2, "norm_l2"), (1, "norm_l1"), (float("inf"), "norm_inf")):
            norms = torch._foreach_norm(tensors, order)
            assert all(same(n.numpy(), getattr(bitfold, name)(x.numpy())) for n, x in zip(norms, tensors, strict=True))


def test_adding_by_index(torchs, monkeypatch):
    import torch
    from torch.nn import functional as F

    import bitfold.torch
    from bitfold.torch._overrides import by_index

    monkeypatch.setattr(by_index, "_on_gpu", lambda x: True)
    integers = lambda *shape: torch.from_numpy(RNG.integers(-9, 9, shape).astype(np.float32))
    base, rows = integers(7, 3, 8), integers(40, 3, 8)
    keys, at = torch.from_numpy(RNG.integers(0, 7, 40)), torch.from_numpy(RNG.integers(0, 7, (40, 3, 8)))
    alike = lambda got, want: same(got.numpy(), want.numpy())
    want = base.index_add(0, keys, rows), base.scatter_add(0, at, rows), base.index_reduce(0, keys, rows, "amax")
    put = base.index_put((keys - 7, keys % 3), rows[:, 0], accumulate=True), torch.zeros(168).put(at.reshape(-1), rows.reshape(-1), accumulate=True)
    with bitfold.torch.deterministic():
        assert alike(base.index_add(0, keys, rows), want[0]) and alike(base.scatter_add(0, at, rows), want[1])
        there = base.clone()
        assert there.index_add_(0, keys, rows) is there and alike(there, want[0])
        moved = base.movedim(0, 2)
        assert alike(moved.index_add(2, keys, rows.movedim(0, 2)).movedim(2, 0), want[0])
        assert alike(base.index_reduce(0, keys, rows, "amax"), want[2])
        assert alike(base.index_put((keys - 7, keys % 3), rows[:, 0], accumulate=True), put[0])
        assert alike(torch.zeros(168).put(at.reshape(-1), rows.reshape(-1), accumulate=True), put[1])
        with pytest.raises(RuntimeError):
            base.scatter_add(0, at + 7, rows)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("last", [False, True])
def test_bags(torchs, monkeypatch, mode, padding, last):
    import torch
    from torch.nn import functional as F

    import bitfold.torch
    from bitfold.torch._overrides import by_index

    monkeypatch.setattr(by_index, "_on_gpu", lambda x: True)
    table = torch.from_numpy(RNG.integers(-4, 4, (11, 8)).astype(np.float32)).requires_grad_()
    tokens, offsets = torch.from_numpy(RNG.integers(0, 11, 70)), torch.tensor([0, 0, 4, 5, 37, 69])
    weights = torch.from_numpy(RNG.integers(1, 4, 70).astype(np.float32)) if mode == "sum" else None
    how = {"padding_idx": padding, "include_last_offset": last}
    def bags(n):
        return F.embedding_bag(tokens[:n], table, offsets, mode=mode, per_sample_weights=None if weights is None else weights[:n], **how)

    used = 69 if last else 70  # what lies behind the last bag has, from torch itself, gradients from behind the array
    y = bags(used)
    (want,) = torch.autograd.grad(y, table, y.detach().sign())
    with bitfold.torch.deterministic():
        z = bags(70)
        (got,) = torch.autograd.grad(z, table, y.detach().sign())
    if mode == "mean":  # which torch's CPU multiplies by 1 / n
        total, sizes = (F.embedding_bag(tokens[:used], t.detach(), offsets, mode="sum", **how) for t in (table, torch.ones_like(table)))
        assert same(z.detach().numpy(), (total / sizes.clamp_min(1)).numpy()) and np.allclose(got.numpy(), want.numpy(), atol=1e-5)
    else:
        assert same(z.detach().numpy(), y.detach().numpy()) and same(got.numpy(), want.numpy())


def test_contributions(torchs):
    import torch

    over_ranks = pytest.importorskip("bitfold.torch.distributed")
    x = torch.from_numpy((RNG.standard_normal((37, 41)) * 50).astype(np.float32))
    for m in (1, 3, 8, 13, 32):
        for op, method in (("sum", None), ("mean", "exact"), ("var", None), ("argmax", None)):
            want = getattr(bitfold, op)(x[:m].numpy(), axis=0, **({"method": method} if method else {}))
            assert same(over_ranks.reduce_contributions(x[:m], op, method=method).numpy(), want), (m, op)
    kept = over_ranks.Contributions("sum", method="kahan")
    for one in x:
        kept.add(one)
    assert same(kept.result().numpy(), over_ranks.reduce_contributions(x, "sum", method="kahan").numpy())
    assert asked_for_streams[-1] == (CUDA, 0)
    half = x[:8].bfloat16()
    assert same(over_ranks.reduce_contributions(half, dtype=torch.float32).numpy(), bitfold.sum(half.float().numpy(), axis=0))


def test_norms_of_shards(torchs):
    import torch
    import torch.distributed as dist

    import bitfold.torch

    over_ranks = pytest.importorskip("bitfold.torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for dtype in (torch.float32, torch.bfloat16):
            parameters = [torch.nn.Parameter(torch.zeros(5, 33, dtype=dtype)), torch.nn.Parameter(torch.zeros(33, dtype=dtype))]
            for p, g in zip(parameters, (X, X[0])):
                p.grad = torch.from_numpy(g).to(dtype)
            for kind in (1, 2):
                assert same(over_ranks.grad_norm(parameters, kind).numpy(), bitfold.torch.grad_norm(parameters, kind).numpy())
        assert over_ranks.grad_norm([]) == 0
    finally:
        dist.destroy_process_group()
