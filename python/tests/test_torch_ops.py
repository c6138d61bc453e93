"""torch.ops.bitfold: of each operation of the registry the schema, the fake kernel, the gradient, and the bits."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

F = torch.nn.functional

import bitfold
import bitfold.torch
from bitfold import _arrays
from torch.autograd import forward_ad
from bitfold.torch._engine import METHODS, OPS, method_for
from bitfold.torch._ops import GRADIENTS
from samples import whole
from torch_helpers import DEVICES, same, unaligned

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NOT_ON_GPU = ("sequential",)


def op(name):
    return getattr(torch.ops.bitfold, name)


def inputs(name, *shape, dtype=torch.float64, device="cpu", seed=0, requires_grad=False):
    g = torch.Generator().manual_seed(seed)
    make = lambda: torch.randn(*shape, dtype=torch.float64, generator=g).to(dtype).to(device).requires_grad_(requires_grad)
    return [make() for _ in range(OPS[name]["inputs"])]


@pytest.mark.sample(3)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPS)
def test_opcheck(name, device):
    place = list(OPS).index(name) // 3
    for k, args in enumerate(((), ([1],), ([-1, 0], True), (None, True))):
        for requires_grad in (False, True) if whole() else ((k + place) % 2 == 1,):
            torch.library.opcheck(op(name).default, (*inputs(name, 3, 5, 4, device=device, requires_grad=requires_grad), *args), {})


@pytest.mark.parametrize("device", DEVICES)
def test_exp(device):
    exp, x = torch.ops.bitfold.exp, torch.linspace(-800, 720, 3001, dtype=torch.float64, device=device)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        wanted = x.to(dtype).double().exp().to(dtype).double()
        assert torch.allclose(exp(x.to(dtype)).double(), wanted, rtol=4 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).smallest_normal)
        assert device == "cpu" or torch.equal(exp(x.to(dtype)).cpu(), exp(x.to(dtype).cpu()))
        assert torch.equal(exp(x.to(dtype).reshape(1, 3001).expand(2, 3001).t()), exp(x.to(dtype))[:, None].expand(3001, 2))
    assert exp(x[:0]).shape == (0,)
    with pytest.raises(TypeError, match=r"^x: torch.int64"):
        exp(torch.arange(3, device=device))
    y = (x[::500] / 400).requires_grad_()
    torch.library.opcheck(exp.default, (y,))
    assert torch.autograd.gradcheck(exp, y) and torch.autograd.gradgradcheck(exp, y)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="exp has no derivative in forward mode"):
        exp(torch.autograd.forward_ad.make_dual(y.detach(), y.detach()))


def test_a_type_that_numpy_has_not_is_named():
    with pytest.raises(TypeError, match="^logits: float8_e4m3fn is no element type"):
        _arrays.host(torch.zeros(3).to(torch.float8_e4m3fn), "logits")


def test_gradients_without_elements_and_by_transforms():
    x = torch.empty(3, device="meta", requires_grad=True)
    torch.ops.bitfold.logsumexp(x).backward()
    assert torch.ops.bitfold.exp(x).is_meta and x.grad.is_meta
    y = torch.empty(4, 0, requires_grad=True)
    torch.ops.bitfold.softmax_denominator(y, [1]).sum().backward()
    assert y.grad.shape == (4, 0)
    for transform in (torch.func.grad, lambda f: torch.func.vmap(torch.func.grad(f)), torch.func.hessian):
        with pytest.raises(NotImplementedError, match="(no gradient by torch.func|no derivative in forward mode)"):
            transform(torch.ops.bitfold.sum)(torch.ones(2, 3) if transform is not torch.func.grad else torch.ones(3))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, device):
    for k, args in enumerate(((), ([1],), ([0, 2], True))):
        xs = inputs(name, 3, 5, 4, device=device, requires_grad=True)
        f = lambda *x: op(name)(*x, *args)
        assert torch.autograd.gradcheck(f, xs)
        if whole() or (k + list(GRADIENTS).index(name)) % 3 == 0:
            assert torch.autograd.gradgradcheck(f, xs)


@pytest.mark.parametrize("name", OPS)
def test_forward_mode(name):
    xs = inputs(name, 3, 5)
    tangents = tuple(torch.ones_like(x) for x in xs)

    def dual():
        with forward_ad.dual_level():
            forward_ad.unpack_dual(op(name)(*map(forward_ad.make_dual, xs, tangents), [1]))

    for f in (dual, lambda: torch.func.jvp(lambda *x: op(name)(*x, [1]).double(), tuple(xs), tangents)):
        if name in GRADIENTS:
            with pytest.raises(NotImplementedError, match=f"bitfold.{name} has no derivative in forward mode"):
                f()
        else:
            f()
    weights, by = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    _, found = torch.func.jvp(lambda w: w * op(name)(*xs, [1]), (weights,), (by,))  # constants, there
    assert same(found, by * op(name)(*xs, [1]))


def test_who_has_no_gradient():
    without = {name for name, info in OPS.items() if info["types"] in ("place", "count", "truth")}
    assert set(GRADIENTS) == set(OPS) - without


def test_the_gradient_of_a_product_with_zeros():
    x = torch.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.0, 2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: op("prod")(x, [1]), [x])


@pytest.mark.parametrize("name", [name for name, info in OPS.items() if info["inputs"] == 2])
def test_broadcast(name):
    x, y = torch.randn(3, 1, 4, dtype=torch.float64, requires_grad=True), torch.randn(5, 1, dtype=torch.float64, requires_grad=True)
    full = torch.broadcast_tensors(x.detach(), y.detach())
    assert same(op(name)(x, y, [1]), op(name)(*(t.contiguous() for t in full), [1]))
    assert torch.autograd.gradcheck(lambda x, y: op(name)(x, y, [2]), [x, y])


def as_numpy(x):
    if x.dtype is torch.bfloat16:
        return x.view(torch.int16).numpy().view(pytest.importorskip("ml_dtypes").bfloat16)
    return x.numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", OPS)
def test_the_bits_of_numpys_functions(name, dtype, device):
    xs = [x * 3 if dtype.is_floating_point else x for x in inputs(name, 4, 300, 3, dtype=dtype, device=device)]
    for method in {method_for(name, m) for m in METHODS if device == "cpu" or m not in NOT_ON_GPU}:
        for dim in (1, [0, 2], None):
            found = op(name)(*xs, dim, method=method).cpu()
            axis = tuple(dim) if isinstance(dim, list) else dim
            how = {"method": method} if method else {}
            wanted = np.asarray(getattr(bitfold, name)(*(as_numpy(x.cpu()) for x in xs), axis=axis, **how))
            assert as_numpy(found).dtype == wanted.dtype or found.dtype is torch.int64
            assert as_numpy(found).tobytes() == wanted.astype(as_numpy(found).dtype).tobytes(), (method, dim)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPS)
def test_layouts(name, device):
    xs = inputs(name, 5, 300, 7, dtype=torch.float32, device=device)
    wanted = op(name)(*xs, [1])
    for lay in (
        lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
        lambda x: torch.stack([x, x], -1)[..., 1],
        lambda x: torch.cat([x, x])[5:],
    ):
        assert same(op(name)(*map(lay, xs), [1]), wanted)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(backend):
    def f(x, y):
        a = torch.ops.bitfold.mean(x * 2, [1], method="kahan")
        return torch.ops.bitfold.dot(x, y, [1]) + torch.ops.bitfold.logsumexp(x + a[:, None], [1]) + torch.ops.bitfold.var(y, [1], ddof=1)

    def run(f):
        x, y = inputs("dot", 4, 300, dtype=torch.float32, requires_grad=True)
        out = f(x, y)
        return out, *torch.autograd.grad(out.sum(), [x, y])

    torch._dynamo.reset()
    wanted, found = run(f), run(torch.compile(f, backend=backend, fullgraph=True))
    assert same(wanted[0], found[0])
    if backend == "aot_eager":  # inductor's elementwise operators, of which the gradients are made too, are its own
        assert all(same(a, b) for a, b in zip(wanted, found))


def test_compiled_with_dynamic_shapes():
    torch._dynamo.reset()
    f = torch.compile(lambda x: torch.ops.bitfold.sum(x, [1]), backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (3, 300, 301):
        x = torch.randn(2, n)
        assert same(f(x), torch.ops.bitfold.sum(x, [1]))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_in_a_graph_and_on_a_stream():
    x = torch.randn(1000, 300, device="cuda")
    wanted = torch.ops.bitfold.sum(x, [0])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert same(torch.ops.bitfold.sum(x, [0]), wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.ops.bitfold.sum(x, [0])
    x.neg_()
    graph.replay()
    assert same(out, -wanted)


def test_errors():
    x = torch.ones(3, 4)
    for error, argument, call in (
        (ValueError, "method", lambda: op("sum")(x, method="fast")),
        (ValueError, "method", lambda: op("max")(x, method="tree")),
        (TypeError, "x", lambda: op("sum")(x.to(torch.complex64))),
        (TypeError, "y", lambda: op("dot")(x, x.double())),
        (IndexError, "dim", lambda: op("sum")(x, [2])),
        (RuntimeError, "dim", lambda: op("sum")(x, [0, -2])),
        (ValueError, "output", lambda: op("max")(x[:, :0], [1])),
    ):
        with pytest.raises(error, match=argument):
            call()


def test_several_outputs_of_no_elements():
    assert torch.ops.bitfold.sum(torch.ones(3, 0), [1]).tolist() == [0, 0, 0]
    assert torch.ops.bitfold.sum(torch.ones(0, 3), [1]).tolist() == []
    assert torch.ops.bitfold.mean(torch.ones(2, 0, 3), [1]).isnan().all()


# ---- Elements that do not lie at multiples of their size, as a file at an odd offset has them


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_unaligned_tensors_have_the_bits_of_aligned_ones(dtype):
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*shape, generator=generator).to(dtype) for shape in ((5, 37), (37,)))
    i = torch.randint(0, 5, (5,), generator=generator)
    with bitfold.torch.deterministic():
        for call in (
            lambda x, w, i: torch.ops.bitfold.sum(x, [0]), lambda x, w, i: torch.ops.bitfold.dot(x, x.clone(), [1], method="kahan"),
            lambda x, w, i: x.sum(), lambda x, w, i: x.max(1).values, lambda x, w, i: x.var(1), lambda x, w, i: x.norm(),
            lambda x, w, i: F.softmax(x, -1), lambda x, w, i: F.log_softmax(x, 0), lambda x, w, i: F.layer_norm(x, [37], w, w),
            lambda x, w, i: F.rms_norm(x, [37], w), lambda x, w, i: F.batch_norm(x, None, None, w, w, True), lambda x, w, i: F.nll_loss(x, i),
            lambda x, w, i: F.mse_loss(x, x.clone()), lambda x, w, i: torch.zeros(5, 37, dtype=dtype).index_add(0, i, x),
            lambda x, w, i: F.embedding_bag(i.reshape(1, 5), x),
            lambda x, w, i: F.embedding_bag(i.reshape(1, 5), x, mode="sum", per_sample_weights=w[:5].reshape(1, 5)),
        ):
            assert same(call(unaligned(x), unaligned(w), unaligned(i)), call(x, w, i))
        for call in (lambda x: F.softmax(x, -1), lambda x: F.layer_norm(x, [37], w)):
            gradients = []
            for place in (unaligned, torch.clone):
                leaf = place(x).requires_grad_()
                call(leaf).backward(place(x))
                gradients.append(leaf.grad)
            assert same(*gradients)
