"""Attention under bitfold.torch.deterministic(), on CPUs: its definition, bit for bit, and that no batch, head, thread, block or neighbour shows."""

from __future__ import annotations

import itertools
import math

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold
import bitfold.torch
from bitfold.torch._engine import Uncovered, wide
from bitfold.torch._overrides import attention
from test_torch_mode import off_afterwards  # noqa: F401
from torch_helpers import randn, same, samples_of, threads, with_gradients

deterministic = bitfold.torch.deterministic
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SIZES = (1, 2, 3, 17, 128)
MATH = torch.nn.attention.SDPBackend.MATH


def inputs(samples=2, heads=4, groups=2, queries=7, keys=9, width=8, dtype=torch.float32):
    shapes = (heads, queries), (groups, keys), (groups, keys)
    return [randn(samples, *shape, width, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]


def output_and_gradients(q, k, v, g, **options):
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), g)]


# ---- The definition ------------------------------------------------------------------------------


BITS = {torch.bfloat16: 16, torch.float16: 21, torch.float32: 28, torch.float64: 58}


def product(method, a, b, out, like):
    """By `fixed` of integers as products of the type `like` have them."""
    fixed = {"method": "exact"} if method == "exact" else {"bits": BITS[like]}
    return bitfold.matmul(a, b, dtype=str(out).removeprefix("torch."), **fixed)


def added(method, total, a, b, like):
    return total + product(method, a, b, total.dtype, like) if method == "exact" else bitfold.matmul(a, b, addend=total, bits=BITS[like])


def of_a_head(method, q, k, v, g, mask, causal, scale):
    """The output; the gradient of q; and a function that adds those of k and v to what there is."""
    acc, (n, m) = wide(q.dtype), (len(q), len(k))
    unseen = torch.ones(n, m, dtype=torch.bool).triu_(1) if causal else torch.zeros(n, m, dtype=torch.bool)
    s = product(method, q, k.mT, acc, q.dtype) * scale
    s = (s if mask is None else s + mask).masked_fill(unseen, -math.inf)
    p = bitfold.softmax(s).masked_fill((s == -math.inf).all(1, True), 0)
    out = product(method, p, v.to(acc), q.dtype, q.dtype)
    dp = product(method, g, v.mT, acc, q.dtype).masked_fill(unseen, 0)
    ds = (dp - bitfold.dot(dp, p, axis=1, method=method)[:, None]) * p * scale
    dq = product(method, ds, k.to(acc), q.dtype, q.dtype)

    def add_to(dk, dv):
        for i in range(0, n, 256):
            block = slice(i, i + 256)
            seen = slice(0, min(i + 256, n) if causal else m)
            dk[seen] = added(method, dk[seen], ds[block, seen].mT, q[block].to(acc), q.dtype)
            dv[seen] = added(method, dv[seen], p[block, seen].mT, g[block].to(acc), q.dtype)

    return out, dq, add_to


def definition(method, q, k, v, g, mask=None, causal=False, scale=None):
    out, dq = torch.empty_like(q), torch.empty_like(q)
    dk, dv = (torch.zeros(t.shape, dtype=wide(q.dtype)) for t in (k, v))
    if mask is not None:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else mask
        mask = mask.expand(*q.shape[:3], k.shape[2])
    for n, h in itertools.product(range(q.shape[0]), range(q.shape[1])):
        group = h // (q.shape[1] // k.shape[1])
        of_each = k[n, group], v[n, group], g[n, h], None if mask is None else mask[n, h]
        out[n, h], dq[n, h], add_to = of_a_head(method, q[n, h], *of_each, causal, 1 / math.sqrt(q.shape[3]) if scale is None else scale)
        add_to(dk[n, group], dv[n, group])
    return [out, dq, dk.to(k.dtype), dv.to(v.dtype)]


def some_masks(queries, keys):
    mask = randn(queries, keys, seed=5)
    truth = mask > -0.5
    truth[1] = False  # nothing to attend to
    return {"none": {}, "causal": {"is_causal": True}, "truth": {"attn_mask": truth}, "added": {"attn_mask": mask, "scale": 0.3},
            "of heads": {"attn_mask": randn(2, 4, 1, keys, seed=6)}}  # fmt: skip


@pytest.mark.parametrize("dtype, method", [*((d, "tree") for d in FLOATS), (torch.float32, "kahan"), (torch.bfloat16, "exact"), (torch.float32, "exact")], ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "truth", "added", "of heads"])
def test_bits_are_those_of_the_definition(mask, dtype, method):
    q, k, v = inputs(dtype=dtype)
    g, options = randn(*q.shape, dtype=dtype, seed=4), some_masks(7, 9)[mask]
    options = {name: t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for name, t in options.items()}
    with deterministic(method, strict=True):
        found = output_and_gradients(q, k, v, g, **options)
    wanted = definition(method, q, k, v, g, options.get("attn_mask"), options.get("is_causal", False), options.get("scale"))
    assert all(map(same, found, wanted))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(600, 300), (300, 600), (513, 513), (257, 256)])
def test_bits_of_several_blocks_are_those_of_the_definition(queries, keys, causal):
    """The values of the keys that come last are the largest of their columns: what a causal query does not see counts in the scale."""
    q, k, v = inputs(1, 2, 1, queries, keys)
    k[..., -1, :] *= 100
    v[..., -1, :] *= 1000
    g = randn(*q.shape, seed=4)
    with deterministic():
        found = output_and_gradients(q, k, v, g, is_causal=causal)
    assert all(map(same, found, definition("tree", q, k, v, g, causal=causal)))


def test_what_a_causal_query_does_not_see_makes_no_nan():
    q, k, v = inputs(1, 2, 2, 300, 600)
    g = randn(*q.shape, seed=4)
    v[..., 9, :], g[..., 11, :] = torch.inf, torch.nan
    with deterministic():
        _, dq, dk, dv = found = output_and_gradients(q, k, v, g, is_causal=True)
    assert dq[:, :, :9].isfinite().all() and dk[:, :, 300:].isfinite().all() and dv[:, :, 256:].isfinite().all() and dv[:, :, :256].isnan().all()
    assert all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(found, definition("tree", q, k, v, g, causal=True)))


@pytest.mark.parametrize("most", [1, 40000, 1 << 30])
def test_scores_in_memory_do_not_show(most, monkeypatch):
    q, k, v = inputs(3, 4, 2, 300, 290)
    g = randn(*q.shape, seed=4)
    with deterministic():
        wanted = output_and_gradients(q, k, v, g, is_causal=True)
        monkeypatch.setitem(attention.MOST_OF_SCORES, "cpu", most)
        assert all(map(same, output_and_gradients(q, k, v, g, is_causal=True), wanted))


@pytest.mark.parametrize("causal", [False, True])
def test_how_many_queries_go_together_does_not_show(causal, monkeypatch):
    q, k, v = inputs(queries=700, keys=650, width=4, dtype=torch.bfloat16)
    results = []
    for together in (256, 512, 1024):  # on a GPU many, in whole blocks
        monkeypatch.setattr(attention, "_together", lambda *given: together)
        with deterministic():
            results.append(output_and_gradients(q, k, v, torch.ones_like(q), is_causal=causal))
    for one in results[1:]:
        assert all(map(same, one, results[0]))


def test_scores_in_memory_are_few(monkeypatch):
    sizes, weights = [], attention._Heads.weights

    def seen(self, *args):
        p = weights(self, *args)
        sizes.append(p.numel())
        return p

    monkeypatch.setattr(attention._Heads, "weights", seen)
    q, k, v = inputs(1, 8, 8, 3000, 3000)
    with deterministic():
        output_and_gradients(q, k, v, q)
    assert max(sizes) <= attention.MOST_OF_SCORES["cpu"] < 8 * 3000 * 3000


def test_the_logarithm_of_the_sum():
    q, k, v = inputs(groups=4)
    mask = randn(7, 9).masked_fill(torch.arange(7)[:, None] == 2, -math.inf)
    with deterministic():
        _, logs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=mask)
    scores = bitfold.matmul(q, k.mT) * (1 / math.sqrt(8)) + mask
    assert same(logs, torch.ops.bitfold.logsumexp(scores, [-1])) and (logs[:, :, 2] == -math.inf).all()


# ---- What does not show --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=str)
def test_a_sample_has_its_bits_in_any_batch_and_of_any_threads(options, dtype):
    q, k, v = inputs(SIZES[-1], dtype=dtype)
    g = randn(*q.shape, dtype=dtype, seed=4)
    with deterministic(strict=True):
        with threads(1):
            alone = [output_and_gradients(*(t[i : i + 1] for t in (q, k, v, g)), **options) for i in range(3)]
        for size, used in zip(SIZES, (1, 2, 3, 4, 4)):
            with threads(used):
                found = output_and_gradients(*(t[:size] for t in (q, k, v, g)), **options)
            assert all(same(a[i], b[0]) for i in range(min(size, 3)) for a, b in zip(found, alone[i]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_query_and_a_head_have_their_bits_alone_and_in_any_layout(dtype):
    q, k, v = inputs(dtype=dtype)
    g = randn(*q.shape, dtype=dtype, seed=4)
    with deterministic():
        out, dq, dk, dv = output_and_gradients(q, k, v, g)
        for h, i in itertools.product(range(4), range(7)):
            keys = [t[:, h // 2 : h // 2 + 1] for t in (k, v)]
            found = output_and_gradients(q[:, h : h + 1, i : i + 1], *keys, g[:, h : h + 1, i : i + 1])
            assert same(found[0], out[:, h : h + 1, i : i + 1]) and same(found[1], dq[:, h : h + 1, i : i + 1])
        apart = lambda t: t.transpose(1, 2).contiguous().transpose(1, 2)
        assert all(map(same, output_and_gradients(*map(apart, (q, k, v, g))), (out, dq, dk, dv)))


def even(x):
    """Elements of a vector that are not neighbours: then torch itself takes its other way."""
    return torch.stack([x, x], -1).flatten(-2)[..., ::2]


@pytest.mark.parametrize("compiled", [False, True])
def test_no_layout_and_no_broadcast_decides_the_way(compiled):
    f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    given, as_it_is = inputs(), lambda x: x
    all_lies = itertools.product((as_it_is, even), repeat=3)
    with deterministic():
        wanted = with_gradients(lambda: f(*leaves), leaves := [t.requires_grad_() for t in given])
        q, k, v = (t.detach() for t in given)
        alone = [f(q[i : i + 1], k[:1], v[:1]) for i in range(2)]
        if compiled:
            f, all_lies = torch.compile(f, backend="aot_eager", fullgraph=True), [(even, even, as_it_is)]
        for lie in all_lies:
            leaves = [to(x.detach()).requires_grad_() for to, x in zip(lie, given)]
            assert all(map(same, with_gradients(lambda: f(*leaves), leaves), wanted))
        assert same(f(q, k[:1], v[:1]), torch.cat(alone))  # keys of all samples


def test_no_queries_and_no_keys():
    q, k, v = inputs()
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with deterministic():
        for a, b in ((q[:, :, :0], k), (q[:0], k[:0])):
            assert flash(a, b, b)[0].shape == a.shape
        out, logs = flash(q, k[:, :, :0], v[:, :, :0])
        assert not out.any() and (logs == -math.inf).all()
        found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(q, q, k[:, :, :0], v[:, :, :0], out, logs, 0.0, False)
        assert not found[0].any() and found[1].shape == (2, 2, 0, 8)


# ---- torch's own ways ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_torchs_samples_have_no_larger_errors_than_torch(dtype):
    """Than twice its own, but for some units where scores are large: of f64 its own is taken for the truth."""
    count, units = 0, {torch.float32: 1e-5, torch.float64: 1e-11}.get(dtype, 0)
    for sample, ours, truth in samples_of("nn.functional.scaled_dot_product_attention", dtype):
        wanted, torchs = with_gradients(*truth, dtype), with_gradients(*ours, dtype)
        with deterministic():
            found = with_gradients(*ours, dtype)
        for a, b, c in zip(found, torchs, wanted):
            assert a.shape == c.shape and a.dtype is dtype
            error = lambda t: float((t.double() - c).abs().max() / c.abs().max())
            assert error(a) <= max(2 * error(b), units), sample
            count += 1
    assert count > 20


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": randn(7, 9, dtype=torch.float64)}], ids=["none", "causal", "mask"])
def test_gradients(options):
    leaves = [t.requires_grad_() for t in inputs(1, dtype=torch.float64)]
    with deterministic():
        assert torch.autograd.gradcheck(lambda *t: F.scaled_dot_product_attention(*t, enable_gqa=True, **options), leaves, fast_mode=True)


def others():
    """Ways that torch makes of products and softmax: with dropout, a mask that wants a gradient, values of another width."""
    q, k, v = inputs(groups=4)
    yield (q, k, v), {"dropout_p": 0.5}
    yield (q, k, v), {"attn_mask": randn(7, 9).requires_grad_()}
    yield (q, k, v[..., :5]), {"is_causal": True}


@pytest.mark.parametrize("args, options", list(others()), ids=["dropout", "mask", "width"])
def test_torchs_other_ways_are_covered(args, options):
    args = [t.requires_grad_() for t in args]
    leaves = [*args, *[t for t in options.values() if isinstance(t, torch.Tensor)]]
    f = lambda: F.scaled_dot_product_attention(*args, **options)
    wanted = with_gradients(f, leaves)
    with deterministic(strict=True):
        with threads(1):
            found = with_gradients(f, leaves)
        assert all(map(same, with_gradients(f, leaves), found))
    assert all(map(torch.allclose, found, wanted, [1e-4] * 9, [1e-5] * 9))
    if "dropout_p" not in options:
        with deterministic():
            alone = F.scaled_dot_product_attention(*(t[:1] for t in args), **options)
            assert same(alone.detach(), found[0][:1])


@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=str)
def test_compiled(options):
    q, k, v = inputs()
    f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
    with deterministic():
        compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
        results = []
        for g in (f, compiled):
            leaves = [t.detach().requires_grad_() for t in (q, k, v)]
            results.append(with_gradients(lambda: g(*leaves), leaves))
        assert all(map(same, *results))


def test_errors():
    q, k, v = inputs()
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    calls = [(q[0], k[0], v[0]), (q, k, v[..., :4]), (q, k.double(), v), (q, k[:1], v[:1]), (q[:, :3], k, v), (q.long(), k.long(), v.long())]
    with deterministic():
        for args in calls:
            with pytest.raises(RuntimeError):
                flash(*args)
        for mask in (randn(7, 8), randn(7, 9).double(), randn(1, 7, 9)):
            with pytest.raises(RuntimeError):
                flash(q, k, v, attn_mask=mask)
        with pytest.raises(RuntimeError, match="dropout"):
            flash(q, k, v, 0.5)


def test_a_mask_that_wants_a_gradient():
    """The efficient form has none of it, and then no forward either: torch's backward takes what its own forward has left."""
    q, k, v = inputs()
    mask = randn(q.shape[0], q.shape[1], q.shape[2], k.shape[2]).requires_grad_()
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    with deterministic():
        wanted = efficient(q, k, v, mask.detach(), True)
        with torch.no_grad():
            assert all(map(same, efficient(q, k, v, mask, True), wanted))
        with pytest.raises(Uncovered, match="gradient of a mask"):
            efficient(q, k, v, mask, True)
