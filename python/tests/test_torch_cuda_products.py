"""Products, convolutions and attention under bitfold.torch.deterministic() on CUDA: the CPU's bits, which know no batch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold
import bitfold.torch
from bitfold.torch import _engine
from test_torch_mode import off_afterwards  # noqa: F401
from torch_helpers import SIZES, numbers, randn, same

deterministic, FLOATS = bitfold.torch.deterministic, _engine.FLOATS
pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


def on_gpu(x):
    return x.cuda() if isinstance(x, torch.Tensor) else x


def check(f, *given, method="tree"):
    with deterministic(method):
        wanted, found = f(*given), f(*map(on_gpu, given))
    wanted, found = ([y] if isinstance(y, torch.Tensor) else y for y in (wanted, found))
    assert all(y.is_cuda for y in found) and all(map(same, (y.cpu() for y in found), wanted))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("method", ["tree", "kahan", "exact"])
def test_products(method, dtype):
    a, b, x, c = (numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate([(3, 5, 70), (3, 70, 9), (70,), (9,)]))
    for f in (
        lambda a, b, x, c: a[0] @ b[0], lambda a, b, x, c: a @ b, lambda a, b, x, c: a[0] @ x, lambda a, b, x, c: a @ b[0],
        lambda a, b, x, c: torch.einsum("bij,bjk->bik", a, b), lambda a, b, x, c: F.linear(a, b[0].t(), c), lambda a, b, x, c: torch.addmm(c, a[0], b[0]),
        lambda a, b, x, c: torch.addmm(c, a[0], b[0], beta=0.5, alpha=2), lambda a, b, x, c: torch.baddbmm(c, a, b), lambda a, b, x, c: torch.addbmm(c, a, b),
        lambda a, b, x, c: torch.addr(c.new_zeros(70, 9), x, c), lambda a, b, x, c: a.mT[:, :, ::2] @ a[:, ::2, 1:],
    ):  # fmt: skip
        check(f, a, b, x, c, method=method)


def test_complex_numbers_and_integers():
    z, i = torch.view_as_complex(randn(4, 4, 2)), torch.arange(16).reshape(4, 4)
    check(lambda z, i: (z @ z, torch.addmm(z, z, z.t())), z, i)


@pytest.mark.parametrize("m, n, k", [(1, 4096, 1024), (512, 300, 4096), (4096, 64, 256), (33, 1000, 100000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_large_products(m, n, k, dtype):
    check(lambda a, b: a @ b, randn(m, k, dtype=dtype, seed=1), randn(k, n, dtype=dtype, seed=2))


def of_a_convolution(f):
    def both(x, w, g, b=None):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = f(x, w, b)
        return [y.detach(), *torch.autograd.grad(y, (x, w), g[tuple(map(slice, y.shape))])]

    return both


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("method", ["tree", "exact"])
def test_convolutions(method, dtype):
    x, w, g, b = randn(3, 8, 13, 12, dtype=dtype), randn(6, 8, 3, 3, dtype=dtype, seed=1), randn(3, 16, 40, 40, dtype=dtype, seed=2), randn(6, dtype=dtype, seed=3)
    for f in (
        lambda x, w, b: F.conv2d(x, w, b, padding=1), lambda x, w, b: F.conv2d(x, w, b, stride=2, dilation=2), lambda x, w, b: F.conv2d(x, w[:, :4], b, groups=2),
        lambda x, w, b: F.conv2d(x.contiguous(memory_format=torch.channels_last), w, b), lambda x, w, b: F.conv_transpose2d(x[:, :6], w, stride=2, padding=1),
    ):  # fmt: skip
        check(of_a_convolution(f), x, w, g, b, method=method)
    check(of_a_convolution(lambda x, w, b: F.conv1d(x.flatten(2), w.flatten(2), b, padding=4)), x, w, g[..., 0].repeat(1, 1, 4), b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("taps, stride", [(3, 1), (3, 2), (7, 1)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_depthwise_convolutions(layout, taps, stride, dtype):
    x, w, b = randn(30, 20, 13, 12, dtype=dtype), randn(20, 1, taps, taps, dtype=dtype, seed=1), randn(20, dtype=dtype, seed=2)
    g = randn(30, 20, 32, 32, dtype=dtype, seed=3)
    x[3, 5, 2, 2], x[4, 6, 0, 1], g[5, 7, 1, 1], w[8, 0, 1, 2] = torch.inf, torch.nan, -torch.inf, torch.inf
    laid = lambda *given: [t.contiguous(memory_format=layout) if t.dim() == 4 else t for t in given]
    for f in F.conv2d, F.conv_transpose2d:
        check(of_a_convolution(lambda x, w, b, f=f: f(x, w, b, stride=stride, padding=1, groups=20)), *laid(x, w, g, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.5}, {"masked": True}], ids=str)
def test_attention(options, dtype):
    options = dict(options)
    masked = options.pop("masked", False)
    keys = 70 if "is_causal" in options else 90  # others are none of flash's
    q, k, v, g = (randn(2, 4, n, 16, dtype=dtype, seed=i) for i, n in enumerate((70, keys, keys, 70)))
    mask = torch.rand(70, keys, generator=torch.Generator().manual_seed(1)) < 0.8

    def both(q, k, v, g, mask):
        q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask if masked else None, **options)
        return [out.detach(), *torch.autograd.grad(out, (q, k, v), g)]

    from torch.nn.attention import SDPBackend, sdpa_kernel

    wide = dtype is torch.float64  # torch makes it of other operators on CUDA
    kinds = [SDPBackend.EFFICIENT_ATTENTION, *([] if masked or dtype is torch.float32 else [SDPBackend.FLASH_ATTENTION])]
    for kind in () if wide else kinds:
        with sdpa_kernel([kind]), deterministic():
            found = both(*map(on_gpu, (q, k, v, g, mask)))
        with deterministic():
            wanted = both(q, k, v, g, mask)
        assert all(map(same, (y.cpu() for y in found), wanted))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_any_layout_and_of_shared_keys(causal, dtype):
    q, k, v, g = (randn(2, 4, 70, 16, dtype=dtype, seed=i) for i in range(4))

    def both(q, k, v, g):
        q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return [out.detach(), *torch.autograd.grad(out, (q, k, v), g)]

    every_other = lambda x: torch.stack([x, x], -1).flatten(-2)[..., ::2]
    apart = lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)
    with deterministic(strict=True):
        wanted = both(q, k, v, g)
        for lie in (lambda x: x, every_other, apart):
            assert all(map(same, (y.cpu() for y in both(*(lie(t.cuda()) for t in (q, k, v, g)))), wanted)), lie
        shared = F.scaled_dot_product_attention(q.cuda(), k[:1].cuda(), v[:1].cuda(), is_causal=causal).cpu()
        assert same(shared[1:], F.scaled_dot_product_attention(q[1:], k[:1], v[:1], is_causal=causal))


# ---- Models under strict -------------------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(32), torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (4, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(x)))


MODELS = {
    "perceptron": (lambda: torch.nn.Sequential(torch.nn.Linear(20, 33), torch.nn.ReLU(), torch.nn.Linear(33, 5)), (20,)),
    "images": (
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 6, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(216, 7)
        ),
        (3, 14, 14),
    ),
    "transformer": (Block, (17, 32)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_sample_has_the_bits_that_it_has_alone(name):
    make, shape = MODELS[name]
    torch.manual_seed(1)
    model, x = make().cuda(), randn(128, *shape).cuda()

    def outputs(x):
        x = x.detach().requires_grad_()
        y = model(x)
        return y.detach(), *torch.autograd.grad(y.square().sum(), x)

    with deterministic(strict=True):
        alone = outputs(x[:1])
        for size in SIZES[1:]:
            at = size // 2
            batch = torch.cat([x[1 : at + 1], x[:1], x[at + 1 : size]])
            assert all(same(a[0], b[at]) for a, b in zip(alone, outputs(batch)))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_training_repeats(name, dtype):
    make, shape = MODELS[name]

    def trained():
        torch.manual_seed(1)
        model, x = make().to("cuda", dtype), randn(16, *shape, dtype=dtype).cuda()
        step = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            step.zero_grad()
            model(x).square().mean().backward()
            step.step()
        return [p.detach() for p in model.parameters()]

    with deterministic(strict=True):
        assert all(map(same, trained(), trained()))


def test_products_in_a_graph_of_cuda():
    a, b, c = (randn(*shape, seed=i).cuda() for i, shape in enumerate([(64, 128), (128, 40), (40,)]))
    with deterministic():
        wanted, graph = torch.addmm(c, a, b), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            found = torch.addmm(c, a, b)
        found.zero_()
        graph.replay()
        torch.cuda.synchronize()
    assert same(found, wanted)
