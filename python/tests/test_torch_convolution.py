"""Convolutions under bitfold.torch.deterministic(), on CPUs: their definition in loops, bit for bit, and that no batch, layout, thread or piece of
memory shows."""

from __future__ import annotations

import itertools
import re

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold
import bitfold.torch
from bitfold.torch import _engine
from bitfold.torch._overrides import convolution
from test_torch_mode import off_afterwards  # noqa: F401
from torch_helpers import images, randn, same, samples_of, threads, with_gradients

deterministic = bitfold.torch.deterministic
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SIZES = (1, 2, 3, 17, 128)


# ---- The definition ------------------------------------------------------------------------------


class Loops:
    """Of near[o] and far[o * stride - padding + tap * dilation], which meet in tap; near is the output, or a transposed convolution's input."""

    def __init__(self, method, stride, padding, dilation, groups):
        self.by, self.stride, self.padding, self.dilation, self.groups = "exact" if method == "exact" else "fixed", stride, padding, dilation, groups

    def product(self, a, b, addend=None):
        if addend is not None and self.by == "exact":
            a, b, addend = torch.cat([a, addend]), torch.cat([b, b.new_ones(1)]), None
        return bitfold.matmul(a[None], b[:, None], method=self.by, addend=addend)[0, 0]

    def at(self, x, place):
        inside = all(0 <= p < n for p, n in zip(place, x.shape[1:]))
        return x[(slice(None), *place)] if inside else x.new_zeros(x.shape[0])

    def places(self, x):
        return itertools.product(*map(range, x.shape[2:]))

    def far_of(self, near, tap):
        return [o * s - p + k * d for o, k, s, p, d in zip(near, tap, self.stride, self.padding, self.dilation)]

    def near_of(self, far, tap):
        """None where none meets it."""
        reached = [i + p - k * d for i, k, p, d in zip(far, tap, self.padding, self.dilation)]
        return None if any(r % s for r, s in zip(reached, self.stride)) else [r // s for r, s in zip(reached, self.stride)]

    def group(self, x, channels, which):
        return x[which * channels : (which + 1) * channels]

    def to_near(self, far, weight, bias, out):
        each, channels = weight.shape[0] // self.groups, weight.shape[1]
        for n, o, c in itertools.product(range(len(far)), self.places(out), range(weight.shape[0])):
            mine = self.group(far[n], channels, c // each)
            patch = torch.stack([self.at(mine, self.far_of(o, tap)) for tap in self.places(weight)], 1)
            out[(n, c, *o)] = self.product(weight[c].flatten(), patch.flatten(), None if bias is None else bias[c : c + 1])
        return out

    def to_far(self, near, weight, bias, out):
        each, channels = weight.shape[0] // self.groups, weight.shape[1]
        for n, i, c in itertools.product(range(len(near)), self.places(out), range(out.shape[1])):
            group = c // channels
            mine, filters = self.group(near[n], each, group), self.group(weight, each, group)[:, c % channels]
            met = [(tap, o) for tap in self.places(weight) if (o := self.near_of(i, tap)) is not None]
            row = torch.stack([filters[(slice(None), *tap)] for tap, _ in met] or [filters.flatten()[:0]], 1)
            patch = torch.stack([self.at(mine, o) for _, o in met] or [near.flatten()[:0]], 1)
            out[(n, c, *i)] = self.product(row.flatten(), patch.flatten(), None if bias is None else bias[c : c + 1])
        return out

    def to_weight(self, near, far, out):
        each, channels = out.shape[0] // self.groups, out.shape[1]
        rows = near.transpose(0, 1).flatten(1)
        for c, channel, tap in itertools.product(range(out.shape[0]), range(channels), self.places(out)):
            mine = far[:, c // each * channels + channel]
            column = torch.stack([self.at(mine, self.far_of(o, tap)) for o in self.places(near)], 1)
            out[(c, channel, *tap)] = self.product(rows[c], column.flatten())
        return out


CASES = [  # dimensions, groups, stride, padding, dilation, transposed
    (1, 1, 1, 1, 1, False), (1, 2, 2, 0, 2, True), (2, 1, 1, 1, 1, False), (2, 1, 2, 1, 1, False), (2, 1, (3, 1), (0, 2), (1, 2), False),
    (2, 2, 2, 2, 3, False), (2, 4, 1, 1, 1, False), (2, 2, (2, 3), 1, 2, True), (2, 1, 4, 1, 2, True), (3, 2, 2, 1, 1, False), (3, 1, 2, 1, 1, True),
]  # fmt: skip


def wide(v, dims):
    return (v,) * dims if isinstance(v, int) else v


def arguments(case, dtype, taps=3):
    dims, groups, *how, transposed = case
    stride, padding, dilation = (wide(v, dims) for v in how)
    x = randn(2, 4, *(7, 6, 5)[:dims], dtype=dtype)
    w = randn(*((4, 8 // groups) if transposed else (8, 4 // groups)), *(taps,) * dims, dtype=dtype, seed=1)
    more = tuple(min(1, max(s, d) - 1) for s, d in zip(stride, dilation)) if transposed else (0,) * dims
    return [x, w, randn(8, dtype=dtype, seed=2), stride, padding, dilation, transposed, more, groups]


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype, method", [*((d, "tree") for d in FLOATS), (torch.float32, "exact"), (torch.bfloat16, "exact")], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_bits_are_those_of_the_definition(case, dtype, method):
    x, w, b, stride, padding, dilation, transposed, more, groups = given = arguments(case, dtype, 2 if case[0] == 3 else 3)
    loops = Loops(method, stride, padding, dilation, groups)
    with deterministic(method):
        y = torch.convolution(*given)
        g = randn(*y.shape, dtype=dtype, seed=3)
        dx, dw, db = torch.ops.aten.convolution_backward(g, x, w, [8], *given[3:], [True] * 3)
        assert same(db, g.sum([0, *range(2, g.dim())]))
    forward, backward = (loops.to_far, loops.to_near) if transposed else (loops.to_near, loops.to_far)
    assert same(y, forward(x, w, b, torch.empty_like(y)))
    assert same(dx, backward(g, w, None, torch.empty_like(x)))
    assert same(dw, loops.to_weight(x, g, torch.empty_like(w)) if transposed else loops.to_weight(g, x, torch.empty_like(w)))


@pytest.mark.parametrize("most, least", [(1, 1), (300, 2), (5000, 128)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_neither_copies_nor_their_pieces_show(case, most, least, monkeypatch):
    given = arguments(case, torch.float32)
    with deterministic():
        y = torch.convolution(*given)
        backward = lambda: (torch.convolution(*given), *torch.ops.aten.convolution_backward(torch.cos(y), *given[:2], [8], *given[3:], [True] * 3))
        wanted = backward()
        monkeypatch.setattr(_engine, "contracts", lambda x, dims: False)
        monkeypatch.setitem(convolution.MOST_OF_PATCHES, "cpu", most)
        monkeypatch.setattr(convolution, "LEAST_OF_COLUMNS", least)
        assert all(map(same, backward(), wanted))


@pytest.mark.parametrize("groups", [1, 64])
def test_patches_in_memory_are_few(groups, monkeypatch):
    sizes, product = [], convolution._product
    monkeypatch.setattr(_engine, "contracts", lambda x, dims: False)
    monkeypatch.setattr(convolution, "_product", lambda method, a, b, *more: sizes.append(b.numel()) or product(method, a, b, *more))
    x, w = randn(3, 64, 60, 60).requires_grad_(), randn(64, 64 // groups, 3, 3).requires_grad_()
    with deterministic():
        y = F.conv2d(x, w, padding=1, groups=groups)
        assert max(sizes) <= convolution.MOST_OF_PATCHES["cpu"] and len(sizes) > 3
        sizes.clear()
        torch.autograd.grad(y, x, y.detach(), retain_graph=True)
        assert max(sizes) <= convolution.MOST_OF_PATCHES["cpu"] and len(sizes) > 3
        sizes.clear()
        torch.autograd.grad(y, w, y.detach())
        columns = -(-convolution.LEAST_OF_COLUMNS // 9) * 9
        assert max(sizes) <= max(convolution.MOST_OF_PATCHES["cpu"], columns * 3 * 60 * 60) and len(sizes) > 3


# ---- What does not show --------------------------------------------------------------------------

LAYERS = {
    "conv1d": ((8, 40), lambda: torch.nn.Conv1d(8, 6, 5, padding="same")),
    "conv2d": ((8, 9, 7), lambda: torch.nn.Conv2d(8, 12, 3, padding=1)),
    "strided": ((8, 9, 7), lambda: torch.nn.Conv2d(8, 12, 3, stride=2, padding="valid")),
    "one by one": ((8, 9, 7), lambda: torch.nn.Conv2d(8, 12, 1)),
    "one by one, strided": ((8, 9, 7), lambda: torch.nn.Conv2d(8, 12, 1, stride=2, bias=False)),
    "dilated": ((8, 9, 7), lambda: torch.nn.Conv2d(8, 12, 3, dilation=2, padding="same")),
    "depthwise": ((8, 9, 7), lambda: torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)),
    "depthwise, of many channels": ((20, 9, 7), lambda: torch.nn.Conv2d(20, 20, 3, padding=1, groups=20)),
    "depthwise, strided, in 3d": ((16, 5, 6, 7), lambda: torch.nn.Conv3d(16, 16, 2, stride=2, groups=16, bias=False)),
    "depthwise, transposed": ((16, 5, 4), lambda: torch.nn.ConvTranspose2d(16, 16, 3, stride=2, groups=16)),
    "transposed": ((8, 9, 7), lambda: torch.nn.ConvTranspose2d(8, 12, 3, stride=2, output_padding=1)),
    "conv3d": ((4, 5, 6, 7), lambda: torch.nn.Conv3d(4, 6, 3, padding=1, groups=2)),
}


def layer(name, dtype=torch.float32):
    shape, make = LAYERS[name]
    torch.manual_seed(0)
    return shape, make().to(dtype)


def output_and_gradients(f, x, g, *parameters):
    x = x.detach().requires_grad_()
    y = f(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *parameters], g[: len(y)])]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_a_sample_has_its_bits_in_any_batch(name, dtype):
    shape, f = layer(name, dtype)
    x = randn(SIZES[-1], *shape, dtype=dtype)
    g = randn(*f(x).shape, dtype=dtype, seed=1)
    with deterministic(strict=True):
        alone = [output_and_gradients(f, x[i : i + 1], g[i : i + 1]) for i in range(3)]
        for n in SIZES:
            y, dx = output_and_gradients(f, x[:n], g)
            assert all(same(y[i], alone[i][0][0]) and same(dx[i], alone[i][1][0]) for i in range(min(n, 3)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_threads_and_layouts(name, dtype):
    shape, f = layer(name, dtype)
    x = randn(5, *shape, dtype=dtype)
    g = randn(*f(x).shape, dtype=dtype, seed=1)
    with deterministic():
        with threads(1):
            wanted = output_and_gradients(f, x, g, *f.parameters())
        others = [x.flip(0).flip(0), torch.stack([x, x], -1)[..., 0], x.transpose(0, 1).contiguous().transpose(0, 1)]
        if last := {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim()):
            others.append(x.contiguous(memory_format=last))
        for n, other in itertools.product((1, 2, 3, 4), others):
            with threads(n):
                assert all(map(same, output_and_gradients(f, other, g, *f.parameters()), wanted)), (n, other.stride())
        if last is not None:
            f.to(memory_format=last)
            found = output_and_gradients(f, others[-1], g, *f.parameters())
            assert all(map(same, found, wanted)) and found[0].is_contiguous(memory_format=last)


def test_empty_batches():
    x, w, b = torch.empty(0, 4, 5, 6), randn(8, 4, 3, 3).requires_grad_(), randn(8).requires_grad_()
    with deterministic():
        y = F.conv2d(x, w, b)
        assert y.shape == (0, 8, 3, 4)
        assert all(torch.equal(g, torch.zeros_like(t)) for g, t in zip(torch.autograd.grad(y.sum(), (w, b)), (w, b)))
        assert F.conv_transpose2d(x, w.transpose(0, 1)).shape == (0, 8, 7, 8)


def test_what_is_not_finite():
    """A zero of the padding is a factor; a place that no tap meets is none."""
    x, w = torch.ones(1, 1, 3), torch.tensor([[[torch.inf, 1.0]]])
    with deterministic():
        assert F.conv1d(x, w, padding=1)[0, 0].tolist()[1:] == [torch.inf] * 3 and F.conv1d(x, w, padding=1)[0, 0, 0].isnan()
        assert F.conv_transpose1d(x, w, stride=2)[0, 0].tolist() == [torch.inf, 1.0] * 3


# ---- Values ---

SAMPLES = [f"nn.functional.{name}{d}d" for name in ("conv", "conv_transpose") for d in (1, 2, 3)]
#: Half the distance of neighbours; the integers of products.
UNITS = {torch.float32: (2.0**-24, 28), torch.bfloat16: (2.0**-8, 16), torch.float64: (2.0**-53, 58)}


@pytest.mark.parametrize("dtype", UNITS, ids=str)
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.filterwarnings("ignore")
def test_torchs_samples_are_within_the_bound(name, dtype):
    """That of docs/products.md, of k terms no larger than the largest; and what the sums that are taken for the truth may be off in f64."""
    unit, bits = UNITS[dtype]
    for sample, ours, truth in samples_of(name, dtype):
        with deterministic():
            found = with_gradients(*ours, dtype)
        wanted = with_gradients(*truth, dtype)
        x, w, y = sample.input, sample.args[0], wanted[0]
        k = max(w.numel(), y.numel())  # terms of the longest of these sums
        factors = [t.detach().double().abs().max() if t.numel() else torch.tensor(0.0) for t in (x, w)]
        factors = [factors, [torch.tensor(1.5), factors[1]], [torch.tensor(1.5), factors[0]], [torch.tensor(1.5), torch.tensor(1.0)]]
        for a, b, (m, n) in zip(found, wanted, factors):
            bound = 3 * k * m * n / (63 * 2.0 ** (bits - 7)) + 2 * unit * b.abs() + 2.0**-53 * k * k * m * n
            assert a.shape == b.shape and a.dtype is dtype and ((a.double() - b).abs() <= bound).all(), sample


# ---- torch's own ways ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_integers(dtype):
    x, w, b = (torch.randint(0, 200, shape, generator=torch.Generator().manual_seed(0)).to(dtype) for shape in ((2, 4, 5, 6), (8, 4, 3, 3), (8,)))
    try:
        wanted = F.conv2d(x, w, b)
    except RuntimeError:
        pytest.skip("torch has none of this type")
    with deterministic(strict=True):
        assert torch.equal(F.conv2d(x, w, b), wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case):
    x, w, b, *how = arguments(case, torch.float64, 2)
    leaves = [t[:1].clone().requires_grad_() if t is x else t.clone().requires_grad_() for t in (x, w, b)]
    with deterministic():
        assert torch.autograd.gradcheck(lambda *t: torch.convolution(*t, *how), leaves, fast_mode=True)
        assert torch.autograd.gradgradcheck(lambda *t: torch.convolution(*t, *how), leaves, fast_mode=True)


@pytest.mark.parametrize("name", ["conv2d", "strided", "depthwise", "transposed", "conv3d"])
def test_compiled(name):
    shape, f = layer(name)
    x = randn(3, *shape)
    with deterministic():
        compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
        g = randn(*f(x).shape, seed=1)
        assert all(map(same, output_and_gradients(compiled, x, g, *f.parameters()), output_and_gradients(f, x, g, *f.parameters())))


def test_autocast():
    shape, f = layer("conv2d")
    x = randn(2, *shape)
    with deterministic(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(f(x), F.conv2d(x.bfloat16(), f.weight.bfloat16(), f.bias.bfloat16(), padding=1))


def test_errors_are_torchs():
    x, w = randn(1, 4, 5, 6), randn(8, 4, 3, 3)
    calls = [
        lambda: F.conv2d(x, w.double()), lambda: F.conv2d(x[:, :3], w), lambda: F.conv2d(x, w, randn(7)), lambda: F.conv2d(x, w, stride=0),
        lambda: F.conv2d(x, w, padding=-1), lambda: F.conv2d(x, w, dilation=9), lambda: F.conv2d(x, w[:7], groups=2), lambda: F.conv2d(x, w, stride=(1, 1, 1)),
        lambda: F.conv_transpose2d(x, w[:4], stride=2, output_padding=2), lambda: torch.convolution(x[0], w, None, [1], [0], [1], False, [0], 1),
    ]  # fmt: skip
    for f in calls:
        with pytest.raises(Exception) as torchs:
            f()
        with deterministic(), pytest.raises(torchs.type, match="^" + re.escape(str(torchs.value)[:40])):
            f()
    for g in (randn(1, 8, 3, 3), randn(1, 8, 3, 4, dtype=torch.float64)):
        with deterministic(), pytest.raises(RuntimeError, match="a gradient of"):
            torch.ops.aten.convolution_backward(g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False])


# ---- What comes between them: torch's own pooling, which strict lets pass --------------------------

POOLS = {
    "maxima": (2, lambda x: F.max_pool2d(x, 3, 2, 1)), "means": (2, lambda x: F.avg_pool2d(x, 3, 2, 1)), "some maxima": (2, lambda x: F.adaptive_max_pool2d(x, (4, 3))),
    "some means": (2, lambda x: F.adaptive_avg_pool2d(x, (4, 3))), "maxima in 1d": (1, lambda x: F.max_pool1d(x, 3, 2)), "means in 1d": (1, lambda x: F.avg_pool1d(x, 3, 2)),
    "maxima in 3d": (3, lambda x: F.max_pool3d(x, 2, 1)), "means in 3d": (3, lambda x: F.avg_pool3d(x, 3, 2)), "some means in 3d": (3, lambda x: F.adaptive_avg_pool3d(x, 2)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_pooling_knows_no_batch_threads_or_layout(name, dtype):
    dims, f = POOLS[name]
    if dims == 3 and dtype in (torch.bfloat16, torch.float16) and name == "means in 3d":
        pytest.skip("torch has none")
    x = (4 * randn(5, 19, *(11, 9, 5)[:dims], dtype=torch.float64)).round().div(4).to(dtype)  # maxima more than once
    g = randn(*f(x).shape, dtype=dtype, seed=1)
    with deterministic(strict=True):
        with threads(1):
            wanted = output_and_gradients(f, x, g)
        for n in (2, 3, 4):
            with threads(n):
                assert all(map(same, output_and_gradients(f, x, g), wanted))
        for n in range(5):
            alone = output_and_gradients(f, x[n : n + 1].clone(), g[n : n + 1].clone())
            assert all(same(a[0], b[n]) for a, b in zip(alone, wanted))
        if dims == 2:
            last = x.contiguous(memory_format=torch.channels_last)
            if name == "some means":
                with pytest.raises(bitfold.torch.NotCovered, match="_adaptive_avg_pool2d"):
                    f(last)
            else:
                assert all(map(same, output_and_gradients(f, last, g), wanted))


# ---- Models --------------------------------------------------------------------------------------


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.GroupNorm(2, 8), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1),
        torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, groups=16, padding=1), torch.nn.AvgPool2d(2),
        torch.nn.Conv2d(16, 12, 1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(12, 5),
    )  # fmt: skip


def test_a_network_knows_no_batch():
    model, x, target = network(), images(128), torch.arange(128) % 5
    with deterministic(strict=True):
        alone = [output_and_gradients(model, x[i : i + 1], randn(128, 5, seed=i)) for i in range(3)]
        for n in SIZES[1:]:
            g = torch.cat([randn(128, 5, seed=i)[:1] for i in range(3)] + [randn(128, 5, seed=7)])
            y, dx = output_and_gradients(model, x[:n], g)
            assert all(same(y[i], alone[i][0][0]) and same(dx[i], alone[i][1][0]) for i in range(min(n, 3)))


def trained(threads_used):
    model, x, target = network(), images(16), torch.arange(16) % 5
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with threads(threads_used):
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
    return [loss.detach(), *(p.detach() for p in model.parameters())]


def test_a_training_knows_no_threads():
    with deterministic(strict=True, allow=("add_",)):
        one, *others = [trained(n) for n in (1, 2, 4)]
    assert all(all(map(same, one, other)) for other in others)
    assert all(p.isfinite().all() for p in one)
