"""torch's own functions under bitfold.torch.deterministic: their values beside torch's, their bits beside bitfold's, and that
these do not know batch, place, layout or compiler."""

from __future__ import annotations

import contextlib
import copy
import decimal
import math
import os
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold.torch
from bitfold.torch import _engine, _mode, _overrides, _strict, coverage
from bitfold.torch._engine import METHODS
from samples import some_of, whole
from torch_helpers import DEVICES, convolution_fakes, product_fakes, randn, same

fold = torch.ops.bitfold
deterministic = bitfold.torch.deterministic


@pytest.fixture(autouse=True)
def off_afterwards():
    yield
    left = bitfold.torch.is_enabled()
    while bitfold.torch.is_enabled():
        bitfold.torch.disable()
    assert not left


@pytest.fixture
def during():
    """What a test enters it leaves when it ends."""
    with contextlib.ExitStack() as stack:
        yield stack


# ---- Calls that come most ------------------------------------------------------------------------


def quick_calls(device, dtype):
    x, y, w, b = (randn(*shape, device=device, dtype=dtype, seed=i) for i, shape in enumerate([(3, 5, 8), (3, 5, 8), (8,), (8,)]))
    aten = torch.ops.aten
    for name in ("sum.dim_IntList", "mean.dim", "amax", "amin", "logsumexp"):
        yield from ((name, (x, *more)) for more in (([1],), ([-1], True), ([0, 2], False)))
    yield from ((name, (x,)) for name in ("sum", "mean", "prod", "max", "min", "amax", "argmax", "argmin"))
    yield from ((name, (x, *more)) for name in ("max.dim", "min.dim", "prod.dim_int", "argmax") for more in ((1,), (-1, True)))
    yield from (("linalg_vector_norm", (x, ord, [1], True)) for ord in (1, 2, 2.0, math.inf))
    yield from (("mse_loss", (x, y, *more)) for more in ((), (1,), (2,)))
    if device == "cpu":
        z = y.transpose(1, 2)
        yield from ((("mm", (x[0], z[0])), ("bmm", (x, z))))
        yield from (("addmm", (c, x[1], z[1])) for c in (w[:5], z[0, :5], x[0, :, :1]))
        yield from (("baddbmm", (c, x, z)) for c in (w[:5], x[:, :, :5]))
        at = torch.arange(120).reshape(3, 5, 8) % 7 % 3
        for dim in (0, 1, -2):
            yield "scatter_add", (x, dim, at, y)
            yield from (("scatter_reduce.two", (x, dim, at, y, reduce)) for reduce in ("sum", "mean", "prod", "amax", "amin"))
            yield "index_add", (x, dim, at[0, 0, : x.shape[dim]], y)
        yield "scatter_add", (x[:, :4].contiguous(), 1, at, y)
        yield "index_add", (x[:2].contiguous(), 0, at[:, 0, 0] % 2, y)
    if device == "cpu" and dtype not in _engine.HALF:
        for rows in (1, 7, 3000):
            logs, target = randn(rows, 8, dtype=dtype), torch.arange(rows) % 9 - 1
            yield from (("nll_loss_forward", (logs, target, None, reduction, -1)) for reduction in (1, 2))
    _, mean, rstd = _overrides.OVERRIDES["native_layer_norm"]("tree", x, [8], w, b, 1e-5)
    for f in ("_softmax", "_log_softmax"):
        yield f, (x, 2, False)
        yield f + "_backward_data", (y, _overrides.OVERRIDES[f]("tree", x, -1, False), -1, dtype)
    for weight, bias in ((w, b), (w, None), (None, None)):
        yield "native_layer_norm", (x, [8], weight, bias, 1e-5)
        yield "native_layer_norm_backward", (y, x, [8], mean, rstd, weight, bias, [True, weight is not None, bias is not None])
        yield "_fused_rms_norm", (x, [8], weight, None)
        yield "_fused_rms_norm_backward", (y, x, [8], rstd, weight, [True, weight is not None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_quick_calls_are_as_all_others(device, dtype):
    seen = set()
    for name, args in quick_calls(device, dtype):
        seen.add(name)
        got, want = _overrides.QUICK[name]("tree", *args), _overrides.OVERRIDES[name]("tree", *args)
        got, want = (t if isinstance(t, tuple) else (t,) for t in (got, want))
        assert len(got) == len(want), name
        for a, b in zip(got, want):
            assert (a is None) == (b is None), name
            assert a is None or (same(a, b) and a.stride() == b.stride()), name
    on_cpus = {"nll_loss_forward", "mm", "bmm", "addmm", "baddbmm", "scatter_add", "scatter_reduce.two", "index_add"}
    assert seen | on_cpus == set(_overrides.QUICK)


class Subclass(torch.Tensor):
    pass


def test_what_is_no_quick_call():
    x, w = randn(4, 8), randn(8)
    total, softmax, norm = (_overrides.QUICK[name] for name in ("sum.dim_IntList", "_softmax", "native_layer_norm"))
    for args in ((x.as_subclass(Subclass), [1]), (x[:0], [1]), (x, [2]), (x, [1, 1]), (x, [True]), (x.int(), [1]), (x.to(torch.cfloat), [1])):
        assert total("tree", *args) is None
    for args in ((x.t(), 1, False), (x, 0, False), (x, 2, False), (x, -1, True)):
        assert softmax("tree", *args) is None
    for args in ((x, [4], w, w, 0.1), (x, [], None, None, 0.1), (x, [8], w.double(), w, 0.1), (x, [8], w[:4], w, 0.1), (x.t(), [4], None, None, 0.1)):
        assert norm("tree", *args) is None
    assert norm("pairwise", x, [8], w, w, 0.1) is None
    loss, target = _overrides.QUICK["nll_loss_forward"], torch.tensor([1, 7, 0, -100])
    for args in ((x, target, w, 1, -100), (x, target, None, 0, -100), (x, target, None, 1, 7), (x, target.byte(), None, 1, -100), (x[0], target[0], None, 1, 0)):
        assert loss("tree", *args) is None
    product, added = (_overrides.QUICK[name] for name in ("mm", "addmm"))
    for args in ((x, x), (x, x.t().double()), (x[:0], x.t()), (x.int(), x.t().int()), (x[None], x.t()), (x.as_subclass(Subclass), x.t())):
        assert product("tree", *args) is None
    for c in (w, x, x.t(), w.double()[:4], x[None, :, :4]):
        assert added("tree", c, x, x.t()) is None
    assert product("exact", x, x.t()) is None and product("kahan", x, x.t()) is not None
    assert total("pairwise", x, [1]) is not None
    assert not same(total("sequential", randn(1, 3000), [1]), total("tree", randn(1, 3000), [1]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_does_not_wait_for_its_parents_threads():
    x = randn(1024, 1024)
    with deterministic():
        want = x.sum(0), x.sum(1)
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            ops = torch.ops.bitfold  # torch's own operators would use the threads
            os._exit(0 if same(ops.sum(x, [0]), want[0]) and same(ops.sum(x, [1]), want[1]) else 1)
        assert os.waitpid(pid, 0)[1] == 0


# ---- The switch ----------------------------------------------------------------------------------


def sums(x):
    return torch.sum(x, 1), torch.mean(x), x.softmax(1), x.index_add(0, torch.tensor([0, 0]), x[:2])


def test_off_is_as_before():
    x = randn(5, 3000)
    before = sums(x)
    kernels = [torch._C._dispatch_dump(op.name()) for op in _mode.covered()]
    bitfold.torch.enable()
    assert bitfold.torch.is_enabled()
    assert not all(map(same, before, sums(x)))  # else this test sees nothing
    bitfold.torch.disable()
    assert all(map(same, before, sums(x)))
    assert kernels == [torch._C._dispatch_dump(op.name()) for op in _mode.covered()]
    with pytest.raises(RuntimeError, match="not enabled"):
        bitfold.torch.disable()


def test_off_after_an_error():
    x = randn(5, 3000)
    before = sums(x)
    with pytest.raises(ZeroDivisionError), deterministic(strict=True):
        1 / 0
    assert all(map(same, before, sums(x)))


@pytest.mark.parametrize("method", METHODS)
def test_methods_and_nesting(method):
    x = randn(5, 3000)
    with deterministic("kahan"):
        with deterministic(method):
            assert same(x.sum(1), fold.sum(x, [1], method=method))
            assert same(x.logsumexp(1), fold.logsumexp(x, [1]))  # which takes none
            assert same(x.var(1), fold.var(x, [1], method="exact" if method == "exact" else None, ddof=1))
        assert same(x.sum(1), fold.sum(x, [1], method="kahan"))


def test_wrong_arguments():
    with pytest.raises(ValueError, match="method: 'fast' is none of"):
        bitfold.torch.enable("fast")
    for allow in (5, None, [5]):
        with pytest.raises(TypeError, match="^allow: (5|None), where names"):
            bitfold.torch.enable(allow=allow)
    with pytest.raises(ValueError, match="allow: torch has no operator matmull"):
        bitfold.torch.enable(strict=True, allow="matmull")


def test_other_threads_and_models_built_before():
    model, x = torch.nn.LayerNorm(300), randn(4, 300)
    found = []
    with deterministic():
        thread = threading.Thread(target=lambda: found.append(model(x)))
        thread.start()
        thread.join()
        assert same(found[0], model(x))
    assert not same(found[0], model(x)) or torch.allclose(found[0], model(x))


# ---- Values: torch's own samples -----------------------------------------------------------------

OPINFOS = """
sum nansum mean nanmean prod amax amin max min argmax argmin aminmax var var_mean std std_mean logsumexp softmax log_softmax
linalg.vector_norm norm dot vdot _softmax_backward_data masked.sum masked.mean
nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm nn.functional.batch_norm nn.functional.instance_norm
native_layer_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update
nn.functional.mse_loss nn.functional.nll_loss nn.functional.cross_entropy nn.functional.l1_loss nn.functional.smooth_l1_loss
nn.functional.huber_loss nn.functional.kl_div nn.functional.binary_cross_entropy nn.functional.cosine_similarity
nn.functional.embedding nn.functional.embedding_bag index_add index_reduce scatter scatter_add scatter_reduce index_put put index_select
gather take
""".split()
#: On the CPU torch keeps the statistics of half types in these; bitfold in f32, as torch does on CUDA.
STATISTICS = ("native_layer_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update")
TOLERANCE = {torch.float64: 1e-11, torch.bfloat16: 4e-2}


def opinfos():
    common = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    return [info for info in common.op_db if info.name in OPINFOS]


def tensors(x):
    return [t for t in torch.utils._pytree.tree_leaves(x) if isinstance(t, torch.Tensor)]


def outcome(info, sample, with_gradients):
    """What the sample gives, or its type of error; and the gradients."""
    torch.manual_seed(0)
    args = (copy.copy(sample.input), *sample.args)
    if "batch_norm" in info.name:  # which moves its statistics
        args = tuple(t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in args)
    try:
        outs = tensors(info.op(*args, **sample.kwargs))
    except Exception as e:
        return e, []
    rooted = [t for t in outs if t.requires_grad and t.is_floating_point()]
    leaves = [t for t in tensors((args, sample.kwargs)) if t.requires_grad]
    if not (with_gradients and rooted):
        return outs, []
    seeds = [torch.linspace(0.5, 1.5, t.numel(), dtype=torch.float64).reshape(t.shape).to(t) for t in rooted]
    return outs, torch.autograd.grad(rooted, leaves, seeds, allow_unused=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", OPINFOS)
@pytest.mark.filterwarnings("ignore")
def test_torchs_samples(name, dtype, device):
    cases = []
    for info in [info for info in opinfos() if info.name == name and dtype in info.supported_dtypes(device)]:
        with_gradients = dtype.is_floating_point and info.supports_autograd
        for sample in some_of(list(info.sample_inputs(device, dtype, requires_grad=with_gradients))[:40], 3):
            try:
                cases.append((info, sample, with_gradients, outcome(info, sample, with_gradients)))
            except NotImplementedError:  # torch itself has no gradient of this type on a GPU
                assert device == "cuda"
    with deterministic():
        found = [outcome(*case[:3]) for case in cases]
    for (_, sample, _, wanted), ours in zip(cases, found):
        if isinstance(wanted[0], Exception) or isinstance(ours[0], Exception):
            assert type(wanted[0]) is type(ours[0]), (wanted[0], ours[0], sample)
            continue
        for a, b in zip([*wanted[0], *wanted[1]], [*ours[0], *ours[1]], strict=True):
            if a is None or b is None:
                assert a is b
                continue
            if device == "cuda" and "batch_norm" in name and b.numel() == 0 and a.dim() == 1:
                continue  # statistics that are none: torch's own on a GPU are memory that nothing was written to
            assert a.shape == b.shape
            assert a.dtype == b.dtype or (name in STATISTICS and dtype is torch.bfloat16 and b.dtype is torch.float32)
            near = TOLERANCE.get(dtype, 1e-6 if a.is_floating_point() else 0)
            torch.testing.assert_close(b.to(a.dtype), a, rtol=near, atol=2 * near, equal_nan=True, msg=lambda m: f"{m}\n{sample}")
    if not cases:
        pytest.skip("torch has no sample of this type")


# ---- Values: torch's reductions against the truth, which is torch's own in f64 ----------------------

U = 2.0**-24  # of f32, in which half types are added too
UNITS = {torch.float16: (2.0**-11, 2.0**-25), torch.bfloat16: (2.0**-8, 2.0**-134), torch.float32: (2.0**-24, 2.0**-150)}


def growth(k):
    return torch.expm1(k * math.log1p(U))


def bound(name, x, result, truth, args, kwargs):
    """Those of docs/operations.md, of the f64 values of the inputs, before the rounding to the result's type."""
    over = {k: v for k, v in kwargs.items() if k in ("dim", "keepdim")} if kwargs.get("dim") is not None else {}
    total = lambda t: torch.sum(t, **over) if over else t.sum()
    n = total(torch.ones_like(x))
    levels = 5 + torch.ceil(torch.log2(torch.ceil(n / 256).clamp_min(1)))
    depth = 7 + levels
    if name in ("sum", "nansum"):
        return growth(depth) * total(x.abs().nan_to_num(0))
    if name == "mean":
        return growth(depth) * total(x.abs()) / n
    if name == "prod":
        return growth(n) * truth.abs() + n * 2.0**-149
    if name in ("var", "std"):
        variance = truth if name == "var" else truth**2
        free = kwargs.get("correction", int(kwargs.get("unbiased", args[0] if args else True)))
        freedom = (n - (1 if free is None else free)).clamp_min(0)
        m, q, c = variance * freedom, total(x * x).sqrt(), 8
        f = (levels + 1).sqrt() * growth(3 * c + 4 + 5 * levels) * q
        error = (2 * m.sqrt() * f + f**2 + growth(c + 10 + 2 * levels) * (m + 2 * m.sqrt() * f + f**2) + (levels + 2) * n * 2.0**-149) / freedom
        return error if name == "var" else torch.minimum(error / truth, error.sqrt())
    return torch.zeros_like(truth, dtype=torch.float64)  # extrema, places, counts and truths are exact


BOUNDED = ("all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "mean", "nansum", "prod", "std", "sum", "var")


def reductions():
    core = pytest.importorskip("torch.testing._internal.opinfo.core")
    op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
    return [info for info in op_db if isinstance(info, core.ReductionOpInfo)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", UNITS, ids=str)
@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.filterwarnings("ignore")
def test_torchs_reductions_are_within_their_bounds(name, dtype, device):
    (unit, tiny), cases = UNITS[dtype], []
    for info in [info for info in reductions() if info.name == name and dtype in info.supported_dtypes(device)]:
        for sample in info.sample_inputs(device, dtype):
            given = {k: v for k, v in sample.kwargs.items() if k != "dtype"}
            try:
                cases.append((info, sample, given, info.op(sample.input.double(), *sample.args, **given).double()))
            except (IndexError, RuntimeError):
                pass  # nothing to reduce
    with deterministic():
        results = [info.op(sample.input, *sample.args, **given) for info, sample, given, _ in cases]
    for (_, sample, given, truth), result in zip(cases, results):
        error = (result.double() - truth).abs()
        allowed = bound(name, sample.input.double(), result, truth, sample.args, given) * (1 + 2**-20)
        if result.is_floating_point():
            allowed = allowed + unit * (truth.abs() + allowed) + tiny
        fine = (error <= allowed) | (result.double() == truth) | (result.isnan() & truth.isnan())
        assert fine.all(), (sample, result, truth, allowed)


def test_which_of_torchs_reductions_have_no_bound():
    """Hashes; norms, of which torch's pow makes some; nanmean, in which torch rounds twice; and what is masked, made of the others."""
    left = {info.name for info in reductions()} - set(BOUNDED)
    assert all(name in ("hash_tensor", "linalg.vector_norm", "nanmean") or name.startswith("masked.") for name in left)


def kind(f):
    """What torch and the mode are to have in common: the types and shapes of the results, or the type of the error."""
    try:
        return [(t.dtype, t.shape) for t in tensors(f())]
    except NotImplementedError:  # of what is not implemented torch 2.11 says so by its base
        return RuntimeError
    except Exception as e:
        return type(e)


X = randn(3, 4)
LONG, INTS, HALF = torch.tensor([0, 1, 2]), torch.ones(3, 4, dtype=torch.int32), X.bfloat16()
F64 = torch.float64
EDGES = {
    **{f"{f} of a number": lambda f=f: (getattr(F, f)(torch.tensor(1.0), -1), getattr(F, f)(torch.tensor(1.0), 0)) for f in ("softmax", "log_softmax")},
    **{f"integers {f}": lambda f=f: getattr(torch, f)(INTS, 0) for f in ("softmax", "log_softmax", "logsumexp", "var", "std", "var_mean", "std_mean", "mean")},
    **{f"bool {f}": lambda f=f: getattr(torch, f)(X.bool(), 0) for f in ("softmax", "log_softmax", "var", "std_mean", "mean", "argmax", "argmin", "amax")},
    "mean of type bool": lambda: X.mean(dtype=torch.bool), "mean of type i32": lambda: X.mean(0, dtype=torch.int32),
    "complex without dimensions": lambda: (torch.tensor(1 + 2j).sum(), torch.tensor(1 + 2j).mean()),
    "batch_norm integers": lambda: F.batch_norm(INTS, None, None, training=True), "layer_norm integers": lambda: F.layer_norm(INTS, (4,)),
    "rms_norm integers": lambda: F.rms_norm(INTS, (4,)), "group_norm integers": lambda: F.group_norm(INTS, 2),
    "layer_norm ()": lambda: F.layer_norm(X, ()), "layer_norm weight shape": lambda: F.layer_norm(X, (4,), torch.ones(3)),
    "layer_norm bias shape": lambda: torch.native_layer_norm(X, (4,), None, torch.ones(1), 1e-5),
    "layer_norm weight type": lambda: F.layer_norm(X, (4,), torch.ones(4, dtype=F64)), "layer_norm mixed": lambda: F.layer_norm(HALF, (4,), torch.ones(4)),
    "layer_norm bias type": lambda: F.layer_norm(HALF, (4,), torch.ones(4), torch.ones(4).bfloat16()),
    "group_norm weight type": lambda: F.group_norm(X, 2, torch.ones(4, dtype=F64)), "batch_norm weight type": lambda: F.batch_norm(X, None, None, torch.ones(4, dtype=F64), training=True),
    "batch_norm empty": lambda: torch.native_batch_norm(torch.empty(0, 4), None, None, None, None, True, 0.1, 1e-5),
    "batch_norm empty, not training": lambda: F.batch_norm(torch.empty(0, 4), torch.zeros(4), torch.ones(4)),
    "batch_norm of nothing kept": lambda: torch.native_batch_norm(X, None, None, None, None, False, 0.1, 1e-5),
    "batch_norm 1d": lambda: torch.native_batch_norm(X[0], None, None, None, None, True, 0.1, 1e-5),
    **{f"norm {p} of nothing": lambda p=p: torch.linalg.vector_norm(torch.empty(0), p) for p in (math.inf, -math.inf, -1, 0.5, 2)},
    **{f"norm {p} along {d}": lambda p=p, d=d: torch.linalg.vector_norm(torch.empty(2, 0), p, dim=d) for p in (math.inf, -1, 2) for d in (0, 1)},
    "nll_loss integers": lambda: F.nll_loss(INTS, LONG), "nll_loss i32": lambda: F.nll_loss(X, LONG.int()), "nll_loss u8": lambda: F.nll_loss(X, LONG.byte()),
    "nll_loss out of bounds": lambda: F.nll_loss(X, LONG + 3), "nll_loss weight type": lambda: F.nll_loss(X, LONG, torch.ones(4, dtype=F64)),
    "nll_loss weight length": lambda: F.nll_loss(X, LONG, torch.ones(5)),
    "nll_loss2d size": lambda: F.nll_loss(torch.ones(2, 3, 4, 4), torch.zeros(2, 4, 3, dtype=torch.int64)),
    "scatter_reduce name": lambda: X.scatter_reduce(0, LONG[None], X, "foo"), "scatter name": lambda: X.scatter(0, LONG[None], X, reduce="foo"),
    "index_reduce name": lambda: X.index_reduce(0, LONG, X, "sum"), "scatter value name": lambda: X.scatter(0, LONG[None], 2.0, reduce="foo"),
    "scatter_add float": lambda: X.scatter_add(0, X, X), "scatter_add i16": lambda: X.scatter_add(0, LONG[None].short(), X),
    "scatter_add i32": lambda: X.scatter_add(0, LONG[None].int(), X), "scatter_add dim": lambda: X.scatter_add(2, LONG[None], X),
    "scatter_add out of bounds": lambda: X.scatter_add(0, LONG[None] + 1, X), "scatter_add src": lambda: X.scatter_add(0, torch.zeros(3, 4, dtype=torch.int64), X[:2]),
    "index_add float": lambda: X.index_add(0, LONG.float(), X), "index_add out of bounds": lambda: X.index_add(0, LONG + 1, X),
    "index_add type": lambda: X.index_add(0, LONG, X.double(), alpha=2),
    "index_put type": lambda: X.index_put((LONG,), X.double(), accumulate=True), "put_ type": lambda: X.clone().put_(LONG, X[0, :3].double(), accumulate=True),
    "put_ float": lambda: X.clone().put_(X[0], X[0], accumulate=True), "put_ i32": lambda: X.clone().put_(LONG.int(), X[0, :3], accumulate=True),
    "put_ too many": lambda: X.clone().put_(LONG, X[0], accumulate=True),
    "embedding_bag offsets": lambda: F.embedding_bag(LONG, X, torch.tensor([0, 5])), "embedding_bag start": lambda: F.embedding_bag(LONG, X, torch.tensor([1, 2])),
    "embedding_bag no offset": lambda: F.embedding_bag(LONG, X, LONG[:0], include_last_offset=True),
    "embedding_bag index": lambda: F.embedding_bag(LONG + 1, X, LONG[:1]), "embedding_bag float": lambda: F.embedding_bag(LONG.float(), X, LONG[:1]),
    "embedding_bag weights": lambda: F.embedding_bag(LONG, X, LONG[:1], mode="sum", per_sample_weights=torch.ones(3, dtype=F64)),
    "embedding_bag weighted mean": lambda: torch.ops.aten._embedding_bag(X, LONG, LONG[:1], False, 1, False, torch.ones(3)),
    "embedding's gradient, none": lambda: torch.ops.aten.embedding_dense_backward(torch.empty(0, 4), LONG[:0], 5, -1, False),
    "embedding's gradient, float": lambda: torch.ops.aten.embedding_dense_backward(X, LONG.float(), 5, -1, False),
    **{f"{f} into {d}": lambda f=f, d=d: getattr(torch, f)(X, 1, out=torch.empty(3, dtype=d)) for f in ("sum", "prod", "amax", "argmax", "logsumexp", "var", "std", "norm") for d in (torch.int64, F64)},
    **{f"{f} into f64": lambda f=f: getattr(torch, f)(X, 1, out=torch.empty(3, dtype=F64)) for f in ("nansum", "mean")},
    "sum of type into": lambda: torch.sum(X, 1, dtype=F64, out=torch.empty(3)),
    "max into": lambda: torch.max(X, 1, out=(torch.empty(3), torch.empty(3, dtype=torch.int32))),
    "softmax into": lambda: torch.softmax(X, 1, out=torch.empty(3, 4, dtype=F64)), "dot into": lambda: torch.dot(X[0], X[1], out=torch.empty((), dtype=F64)),
    "vector_norm into": lambda: torch.linalg.vector_norm(X, dim=1, out=torch.empty(3, dtype=F64)),
}  # fmt: skip


#: What torch's own kernels on a GPU end with an assertion, after which the process has no GPU any more, or do not look at.
NOT_ON_GPU = ("out of bounds", "embedding_bag offsets", "embedding_bag start", "embedding_bag no offset", "embedding_bag index")
#: Where torch's own on a GPU differ from torch's on CPUs, whose are the mode's: mixed types are refused there, a kernel is launched with nothing,
#: weights of a mean are taken.
OTHERWISE_ON_GPU = ("layer_norm mixed", "batch_norm empty", "embedding_bag weighted mean")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("f", EDGES)
@pytest.mark.filterwarnings("ignore")
def test_types_and_errors_are_torchs(f, device, monkeypatch):
    if f == "batch_norm of nothing kept" and torch.__version__ < "2.12":
        pytest.skip("torch itself ends in a segmentation fault")
    if device == "cuda":
        if any(name in f for name in NOT_ON_GPU):
            pytest.skip("torch itself does not raise an error there")
        if f in OTHERWISE_ON_GPU:
            pytest.skip("torch itself has another error there, or none")
        for name in ("X", "LONG", "INTS", "HALF"):
            monkeypatch.setitem(globals(), name, globals()[name].to(device))
    with contextlib.nullcontext() if device == "cpu" else torch.device(device):
        wanted = kind(EDGES[f])
        with deterministic():
            assert kind(EDGES[f]) == wanted


@pytest.mark.parametrize("of", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.float32], ids=str)
@pytest.mark.parametrize("to", [torch.int8, torch.uint8, torch.int32, torch.int64], ids=str)
def test_integers_of_a_type(of, to):
    x = torch.tensor([100, 99, 101, 3]).to(of)

    def run():
        return x.sum(dtype=to), x.sum(0, dtype=to), x.nansum(dtype=to), x.prod(dtype=to), torch.sum(x, 0, out=torch.empty((), dtype=to))

    try:
        wanted = run()
    except NotImplementedError:
        pytest.skip("this torch does not have it")
    with deterministic():
        assert all(map(same, run(), wanted))
        assert same(torch.compile(lambda x: x.sum(dtype=to), backend="aot_eager")(x), wanted[0])


@pytest.mark.parametrize("dims", [None, (0,), (1, 3, 5, 7, 9), (4, 2), (-1, 3)])
def test_many_dimensions(dims):
    x = randn(2, 1, 2, 3, 2, 1, 2, 2, 2, 3).transpose(3, 9)
    kept = [d for d in range(10) if d not in {d % 10 for d in dims or range(10)}]
    flat = x.permute(kept + [d for d in range(10) if d not in kept]).flatten(len(kept))
    with deterministic():
        assert same(x.sum(dims), flat.sum(-1)) and same(x.amax(dims or ()), flat.amax(-1))
        assert same(x.argmax(), x.contiguous().flatten().argmax()) and same(x.max(3)[1], x.movedim(3, -1).flatten(0, 8).max(-1)[1].reshape(x.max(3)[1].shape))


def test_log_softmax_cancels_nothing():
    x = torch.tensor([0.0, -1.0, -2.5, 0.25, -30.0], dtype=F64)
    context = decimal.Context(prec=50)
    for offset in (0, 1, 1e3, 1e6, -1e6):
        moved = x + offset  # which may round: that is the input
        each = [decimal.Decimal(v) for v in moved.tolist()]
        log_total = context.ln(sum((context.exp(v - max(each)) for v in each), decimal.Decimal(0)))
        wanted = torch.tensor([float(v - max(each) - log_total) for v in each], dtype=F64)
        with deterministic():
            torch.testing.assert_close(moved.log_softmax(0), wanted, rtol=1e-15, atol=0)
    lowest = torch.full((2, 4), torch.finfo(torch.float32).min)
    with deterministic():
        torch.testing.assert_close(lowest.log_softmax(1), torch.full((2, 4), -math.log(4)))
        torch.testing.assert_close(F.cross_entropy(lowest, LONG[:2]), torch.tensor(math.log(4)))
        assert torch.full((3,), -math.inf).log_softmax(0).isnan().all()


def test_half_types_are_widened_before_a_product():
    x, g = randn(64, 8, dtype=torch.bfloat16), torch.Generator().manual_seed(1)
    weights, keys = torch.rand(64, generator=g).bfloat16(), torch.randint(0, 3, (64,), generator=g)
    with deterministic():
        zeros, offset = torch.zeros(3, 8).bfloat16(), torch.tensor([0])
        wide = zeros.float().index_add(0, keys, x.float(), alpha=0.3).bfloat16()
        assert same(zeros.index_add(0, keys, x, alpha=0.3), wide)
        bag = F.embedding_bag(torch.arange(64), x, offset, mode="sum", per_sample_weights=weights)
        assert same(bag, F.embedding_bag(torch.arange(64), x.float(), offset, mode="sum", per_sample_weights=weights.float()).bfloat16())
        backward = torch.ops.aten.embedding_dense_backward
        assert same(backward(x, keys, 3, -1, True), backward(x.float(), keys, 3, -1, True).bfloat16())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_what_lies_behind_the_last_offset_is_in_no_bag(mode):
    index, offsets = torch.tensor([0, 1, 2, 1, 0]), torch.tensor([0, 2, 3])

    def run(index):
        x = randn(3, 4).requires_grad_()
        weights = torch.ones(len(index), requires_grad=True) if mode == "sum" else None
        y = F.embedding_bag(index, x, offsets, mode=mode, include_last_offset=True, per_sample_weights=weights)
        y.backward(randn(2, 4, seed=1))
        return y, x.grad, weights.grad[:3] if mode == "sum" else y

    with deterministic():
        assert all(map(same, run(index), run(index[:3])))


# ---- Bits ----------------------------------------------------------------------------------------

LOSSES = {
    "l1_loss": (), "mse_loss": (), "smooth_l1_loss": (), "huber_loss": (), "kl_div": (), "binary_cross_entropy": (),
    "binary_cross_entropy_with_logits": (), "poisson_nll_loss": (), "soft_margin_loss": (),
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_reduced_by_bitfold(loss, reduction, device):
    x, y = torch.rand(3000, device=device), torch.rand(3000, device=device)
    with deterministic(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = getattr(F, loss)(x, y, reduction="none")
        assert same(getattr(F, loss)(x, y, reduction=reduction), getattr(fold, reduction)(each))


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_biases_and_weights_are_sums_by_bitfold(device):
    x, g = randn(3000, 8, device=device), randn(3000, 8, seed=1, device=device)
    with deterministic():
        bias = torch.zeros(8, device=device, requires_grad=True)
        (x + bias).backward(g)
        assert same(bias.grad, fold.sum(g, [0]))
        norm = torch.nn.LayerNorm(8, device=device)
        norm(x).backward(g)
        assert same(norm.bias.grad, fold.sum(g, [0]))
        with torch.no_grad():
            _, mean, rstd = torch.native_layer_norm(x, (8,), None, None, norm.eps)
            scaled = (x - mean) * rstd
        assert same(norm.weight.grad, fold.dot(g, scaled, [0]))


@pytest.mark.parametrize("device", DEVICES)
def test_embeddings_add_in_the_order_of_the_batch(device):
    table = torch.zeros(10, 4, device=device, requires_grad=True)
    index, g = torch.randint(0, 10, (3000,), device=device), randn(3000, 4, device=device)
    with deterministic():
        F.embedding(index, table).backward(g)
        for row in range(10):
            assert same(table.grad[row], fold.sum(g[index == row], [0]))
        for f in (
            lambda t: t.index_add(0, index, g),
            lambda t: t.scatter_add(0, index[:, None].expand(-1, 4), g),
            lambda t: t.index_put((index,), g, accumulate=True),
            lambda t: t.clone().index_put_((index,), g, accumulate=True),
            lambda t: t.scatter_reduce(0, index[:, None].expand(-1, 4), g, "sum"),
        ):
            assert same(f(torch.zeros(10, 4, device=device)), table.grad)


def test_places_that_nothing_goes_to_keep_their_bits():
    x = torch.tensor([-0.0, float("nan"), 1.0])
    x.view(torch.int32)[1] = 0x7FC00001
    with deterministic():
        assert same(x.index_add(0, torch.tensor([2]), torch.ones(1))[:2], x[:2])


def test_out_and_in_place():
    x, index = randn(5, 300), torch.tensor([0, 4, 0, 1, 2])
    with deterministic():
        out = torch.empty(0)
        assert torch.sum(x, 1, out=out) is out and same(out, fold.sum(x, [1]))
        values, places = torch.empty(5), torch.empty(5, dtype=torch.int64)
        torch.max(x, 1, out=(values, places))
        assert same(values, fold.max(x, [1])) and same(places, fold.argmax(x, [1]))
        wide = torch.empty(5, dtype=torch.float64)
        assert same(torch.mean(x, 1, out=wide), fold.mean(x.double(), [1]))
        y = torch.zeros(5, 300)
        assert y.index_add_(0, index, x) is y and same(y, torch.zeros(5, 300).index_add(0, index, x))
        assert same(torch.softmax(x, 1, out=torch.empty(5, 300)), x.softmax(1))
        with pytest.raises(RuntimeError, match="dtype|type"):
            torch.amax(x, 1, out=torch.empty(5, dtype=torch.int64))


def test_index_put_without_accumulate_is_torchs():
    x = torch.zeros(5)
    with deterministic():
        x[torch.tensor([1, 3])] = 2.0
        x[x > 1] = 3.0
    assert x.tolist() == [0, 3, 0, 3, 0]


#: Functions of a batch whose samples are apart.
PER_SAMPLE = {
    "sum": lambda x: x.sum(-1), "mean": lambda x: x.mean((1, 2)), "amax": lambda x: x.amax(-1), "max": lambda x: x.max(-1).values,
    "prod": lambda x: (1 + x / 128).prod(-1), "var": lambda x: x.var(-1), "std": lambda x: x.std((1, 2)), "norm": lambda x: x.norm(dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1), "softmax": lambda x: x.softmax(-1), "softmax 1": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1), "log_softmax 1": lambda x: x.log_softmax(1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 2), "instance_norm": lambda x: F.instance_norm(x),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4, device=x.device), torch.ones(4, device=x.device)),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.ones(x.shape[0], x.shape[2], dtype=torch.int64, device=x.device), reduction="none"),
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("f", PER_SAMPLE)
def test_batch_and_place_do_not_matter(f, dtype, device):
    x, f = randn(9, 4, 301, dtype=dtype, device=device), PER_SAMPLE[f]

    def run(x):
        x = x.clone().requires_grad_()
        y = f(x)
        y.backward(torch.linspace(0, 1, y[0].numel(), device=device).reshape(y[0].shape).to(y.dtype).expand_as(y))
        return y, x.grad

    with deterministic():
        y, g = run(x)
        for some in (slice(0, 1), slice(3, 4), slice(2, 9), [8, 0, 4]):
            ys, gs = run(x[some])
            assert same(ys, y[some]) and same(gs, g[some])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("f", PER_SAMPLE)
def test_layouts_do_not_matter(f, device):
    x, f = randn(9, 4, 301, device=device), PER_SAMPLE[f]

    def run(x):
        x = x.detach().requires_grad_()
        y = f(x)
        return y, torch.autograd.grad(y, x, torch.linspace(0, 1, y.numel(), device=device).reshape(y.shape).to(y.dtype))[0]

    with deterministic():
        wanted = run(x)
        for order in ((0, 2, 1), (2, 1, 0), (1, 0, 2)):
            strange = x.permute(order).contiguous().permute(torch.tensor(order).argsort().tolist())
            assert all(map(same, run(strange), wanted))
        assert all(map(same, run(torch.stack([x, -x], -1)[..., 0]), wanted))


needs_a_gpu = lambda f: pytest.mark.cuda(pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")(f))


@needs_a_gpu
@pytest.mark.parametrize("width", [301, 1024])  # one by one, and in packets
@pytest.mark.parametrize("f", PER_SAMPLE)
def test_cpu_and_cuda(f, width):
    def run(device):
        x = randn(9, 4, width).to(device).requires_grad_()
        y = PER_SAMPLE[f](x)
        y.backward(torch.linspace(0, 1, y.numel()).reshape(y.shape).to(device, y.dtype))
        return y, x.grad

    with deterministic():
        cpu, cuda = run("cpu"), run("cuda")
    assert same(cpu[0], cuda[0]) and same(cpu[1], cuda[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_a_division_by_a_number_is_rounded_once(dtype, device):
    x = torch.cat([randn(3000, dtype=dtype), torch.tensor([0, -0.0, math.inf, math.nan, torch.finfo(dtype).max, torch.finfo(dtype).tiny], dtype=dtype)])
    for n in (3000, 0.7, 7, 1e-3, 1e5):
        wanted, y = x / n, x.to(device)
        assert same(_overrides.BY_A_NUMBER["div.Tensor"](y, torch.tensor(n, dtype=F64)).nan_to_num(7), wanted.nan_to_num(7))
        with deterministic():
            by = torch.tensor(n, dtype=dtype)  # the same, if it can be said in that type
            for z in (y / n, y.clone().div_(n), torch.div(y, n, out=torch.empty_like(y)), y.reshape(2, 3, -1).transpose(0, 2).div(n).transpose(0, 2).reshape(-1)):
                assert same(z.nan_to_num(7), wanted.nan_to_num(7))
            assert same((y / by).nan_to_num(7), (x / by).nan_to_num(7)) and same((y / by.to(device)).nan_to_num(7), (x / by).nan_to_num(7))
            assert (y[0] / torch.tensor(n, dtype=F64)).dtype is F64


# ---- Under autograd, and autocast ----------------------------------------------------------------

KEYS = torch.tensor([2, 0, 2, 1])


def keys_of(x):
    return KEYS.to(x.device).repeat(-(-len(x) // 4))[: len(x)]


#: One function of each sort, of x of [4, 3] and w of [3], smooth there; or of [4 k, 3 m] and [3 m].
SMOOTH = {
    "sum": lambda x, w: x.sum(1) * w.sum(), "nansum": lambda x, w: x.nansum(0) * w, "mean": lambda x, w: x.mean(0) * w, "prod": lambda x, w: x.prod(1),
    "amax": lambda x, w: x.amax(1), "max": lambda x, w: x.max(1)[0], "var": lambda x, w: x.var(1), "std_mean": lambda x, w: torch.std_mean(x, 1),
    "vector_norm": lambda x, w: torch.linalg.vector_norm(x, dim=1), "dot": lambda x, w: torch.dot(x[0], w),
    "logsumexp": lambda x, w: x.logsumexp(1), "softmax": lambda x, w: x.softmax(1) * w, "log_softmax": lambda x, w: x.log_softmax(0) * w,
    "layer_norm": lambda x, w: F.layer_norm(x, w.shape, w), "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), "group_norm": lambda x, w: F.group_norm(x, 3, w),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, training=True), "mse_loss": lambda x, w: F.mse_loss(x, w.expand_as(x)),
    "nll_loss": lambda x, w: F.nll_loss(x * w, keys_of(x)), "cross_entropy": lambda x, w: F.cross_entropy(x * w, keys_of(x)),
    "embedding": lambda x, w: F.embedding(keys_of(x), x) * w, "index_add": lambda x, w: torch.zeros_like(x).index_add(0, keys_of(x), x * w),
    "scatter_add": lambda x, w: torch.zeros_like(x).scatter_add(0, keys_of(x)[:, None].expand_as(x), x * w),
    "index_put": lambda x, w: torch.zeros_like(x).index_put((keys_of(x),), x * w, accumulate=True),
}  # fmt: skip


#: More of what is covered, of the same arguments.
FUNCTIONS = SMOOTH | {
    "mean of all": lambda x, w: (x * w).mean(), "sum of all": lambda x, w: (x * w).sum(), "prod of all": lambda x, w: (1 + x / 4096).prod() * w.sum(),
    "amin": lambda x, w: x.amin(0) * w, "min": lambda x, w: x.min(1)[0], "aminmax": lambda x, w: torch.aminmax(x, dim=1), "std": lambda x, w: x.std(0) * w,
    "var_mean": lambda x, w: torch.var_mean(x, 1), "norm": lambda x, w: x.norm(), "norm 1": lambda x, w: torch.linalg.vector_norm(x, 1, dim=0) * w,
    "norm inf": lambda x, w: torch.linalg.vector_norm(x, math.inf, dim=1), "softmax 0": lambda x, w: x.softmax(0) * w, "l1_loss": lambda x, w: F.l1_loss(x, w.expand_as(x)),
    "mse_loss sum": lambda x, w: F.mse_loss(x, w.expand_as(x), reduction="sum"), "batch_norm at rest": lambda x, w: F.batch_norm(x, w.detach(), w.detach(), w),
    "layer_norm and bias": lambda x, w: F.layer_norm(x, w.shape, w, w), "instance_norm": lambda x, w: F.instance_norm(x[:, None], weight=w[:1]),
    "nll_loss weighted": lambda x, w: F.nll_loss(x, keys_of(x), w.detach()), "cross_entropy sum": lambda x, w: F.cross_entropy(x * w, keys_of(x), reduction="sum"),
    "scatter_reduce mean": lambda x, w: torch.zeros_like(x).scatter_reduce(0, keys_of(x)[:, None].expand_as(x), x * w, "mean"),
    "index_reduce amax": lambda x, w: x.index_reduce(0, keys_of(x), x * w, "amax"), "put_": lambda x, w: torch.zeros_like(x).put_(keys_of(x), x[:, 0] * w[0], accumulate=True),
    **{f"embedding_bag {mode}": lambda x, w, mode=mode: F.embedding_bag(keys_of(x), x, keys_of(x).new_tensor([0, 1, 3]), mode=mode) * w for mode in ("sum", "mean", "max")},
    "a bias": lambda x, w: x + w, "vector_norm of all": lambda x, w: torch.linalg.vector_norm(x * w), "dot of rows": lambda x, w: torch.dot(x[1], x[0] * w),
}  # fmt: skip


@needs_a_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, F64], ids=str)
@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("method", ["tree", "kahan"])
def test_gradients_on_cpu_and_cuda(method, f, dtype):
    def run(device):
        x, w = (t.to(dtype).to(device).requires_grad_() for t in (randn(40, 27), 0.5 + randn(27, seed=1).abs()))
        outs = FUNCTIONS[f](x, w)
        outs = [t for t in (outs if isinstance(outs, tuple) else (outs,)) if t.is_floating_point()]
        if any(t.grad_fn.name().endswith("NotImplemented") for t in outs):  # of aminmax, older ones
            pytest.skip(f"this PyTorch has no gradient of {f}")
        seeds = [torch.linspace(0.3, 1.7, t.numel()).reshape(t.shape).to(device, t.dtype) for t in outs]
        return *outs, *(t for t in torch.autograd.grad(outs, [x, w], seeds, allow_unused=True) if t is not None)

    with deterministic(method):
        cpu, cuda = run("cpu"), run("cuda")
    for k, (a, b) in enumerate(zip(cpu, cuda, strict=True)):
        assert same(a, b), k


class Log(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.seen.append(op)
        return op(*args, **(kwargs or {}))


def exps(run):
    """The names of what computes exp in run()."""
    with Log() as log:
        run()
    return [op._schema.name for op in log.seen if op._schema.name.endswith("::exp")]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, F64], ids=str)
def test_the_gradient_of_logsumexp_has_bitfolds_exp_and_nothing_else_has(dtype, device):
    class Subclass(torch.Tensor):
        pass

    x, g = 30 * randn(9, 301, dtype=dtype, device=device), randn(9, 1, dtype=dtype, device=device)

    def gradient(x, f=lambda x: x.logsumexp(1, keepdim=True)):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(f(x), x, g)[0]

    with deterministic():
        wanted = g * torch.ops.bitfold.exp(x - x.logsumexp(1, keepdim=True))
        assert same(gradient(x), wanted) and same(gradient(x, lambda x: x.logsumexp(1)[:, None]), wanted)
        assert exps(lambda: gradient(x)) == ["bitfold::exp"]
        own = lambda x: x.exp().logsumexp(1, keepdim=True)  # a checkpoint computes its exp again inside that gradient
        again = lambda x: torch.utils.checkpoint.checkpoint(own, x, use_reentrant=False)
        assert sorted(exps(lambda: gradient(x / 100, again))) == ["aten::exp", "aten::exp", "bitfold::exp"]
        assert same(gradient(x / 100, again), gradient(x / 100, own))
        for f in (torch.func.grad(lambda x: (x.logsumexp(1, keepdim=True) * g).sum()), lambda x: gradient(x.as_subclass(Subclass))):
            assert torch.allclose(f(x), wanted, rtol=4 * torch.finfo(dtype).eps, atol=0 if dtype is F64 else 1e-7)  # torch's own


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_the_gradient_of_logsumexp_compiled(backend):
    x = 30 * randn(9, 301)

    def gradient(f):
        y = x.clone().requires_grad_()
        return torch.autograd.grad(f(y).sum(), y)[0]

    f = lambda x: x.exp().logsumexp(1) + x.logsumexp(1)
    torch.compile(f, backend=backend)(x / 100)  # what is known of the operators then is forgotten
    with deterministic():
        assert same(gradient(torch.compile(lambda x: x.logsumexp(1), backend=backend)), gradient(lambda x: x.logsumexp(1)))


def test_gradients_of_logsumexp_are_torchs_where_it_is_not_finite():
    x = torch.tensor([[-math.inf, -math.inf], [math.inf, 1], [math.inf, math.inf], [math.nan, 0], [-math.inf, 0]], requires_grad=True)
    gradient = lambda: torch.autograd.grad(x.logsumexp(1).sum(), x)[0]
    wanted = gradient()
    with deterministic():
        assert same(gradient().nan_to_num(7), wanted.nan_to_num(7))
        for check in (lambda f, x: torch.autograd.gradgradcheck(f, x, check_fwd_over_rev=True), torch.autograd.functional.hessian):
            check(lambda x: x.logsumexp(1).sum(), randn(2, 3, dtype=F64).requires_grad_())


@pytest.mark.parametrize("f", SMOOTH)
def test_second_gradients_and_forward_mode(f):
    """Of torch's formulas over bitfold's kernels: what torch itself has of them, the mode has too."""
    f = SMOOTH[f]
    xs = randn(4, 3, dtype=F64).requires_grad_(), (1 + randn(3, dtype=F64, seed=1) ** 2).requires_grad_()
    checks = (
        lambda: torch.autograd.gradcheck(f, xs, fast_mode=True),
        lambda: torch.autograd.gradgradcheck(f, xs, fast_mode=True),
        lambda: torch.autograd.gradcheck(f, xs, fast_mode=True, check_forward_ad=True, check_backward_ad=False),
    )
    for check in checks:
        wanted = kind(lambda: [torch.tensor(check())])
        with deterministic():
            assert kind(lambda: [torch.tensor(check())]) == wanted
    assert kind(lambda: [torch.tensor(checks[0]())]) == [(torch.bool, torch.Size([]))]  # at the least


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("f", ["sum", "prod", "layer_norm", "softmax", "log_softmax", "mse_loss", "cross_entropy", "vector_norm", "linear"])
def test_autocast(f, device):
    """It casts above bitfold's kernels: the types are torch's, the bits those of the mode on what was cast."""
    x, w, b = (randn(*shape, device=device, seed=seed) for seed, shape in enumerate([(4, 3), (3,), (5, 3)]))
    keys = KEYS.to(device)
    calls = {
        "sum": lambda x: x.sum(1), "prod": lambda x: x.prod(1), "layer_norm": lambda x: F.layer_norm(x, (3,)), "softmax": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(1), "mse_loss": lambda x: F.mse_loss(x, torch.zeros_like(x)), "cross_entropy": lambda x: F.cross_entropy(x, keys),
        "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=1), "linear": lambda x: F.linear(x, b).sum(1),
    }  # fmt: skip
    for dtype in (torch.float32, torch.bfloat16):
        y = x.to(dtype)

        def run(cast=True):
            z = y.clone().requires_grad_()
            with torch.autocast(device, torch.bfloat16, enabled=cast):
                out = calls[f](z)
            return out, torch.autograd.grad(out.sum(), z)[0]

        wanted = [(t.dtype, t.shape) for t in run()]
        with deterministic():
            found = run()
            assert [(t.dtype, t.shape) for t in found] == wanted
            assert all(map(same, run(), found))
            if found[0].dtype is torch.float32 and f != "linear" and (f, device) != ("cross_entropy", "cuda"):  # torch computes in f32, where it does
                y = y.float()
                assert same(run(False)[0], found[0])


# ---- Rows: what is too long, or does not belong together ------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_nine_dimensions(device):
    x, weight = randn(*8 * (2,), 5, device=device), torch.ones(5, device=device)
    with deterministic():
        for f in (lambda t: F.softmax(t, -1), lambda t: F.layer_norm(t, [5], weight), lambda t: F.rms_norm(t, [5], weight)):
            a, b = x.clone().requires_grad_(), x.reshape(-1, 5).clone().requires_grad_()
            y, z = f(a), f(b)
            y.backward(x)
            z.backward(x.reshape(-1, 5))
            assert same(y.reshape(-1, 5), z) and same(a.grad.reshape(-1, 5), b.grad)
        keys = torch.tensor([1, 1], device=device)
        assert same(x.index_add(0, keys, x).reshape(2, -1), x.reshape(2, -1).index_add(0, keys, x.reshape(2, -1)))


def test_rows_that_the_library_has_no_functions_for(monkeypatch):
    monkeypatch.setattr("bitfold.torch._engine.MOST_OF_A_ROW", 8)
    x, g = randn(2, 3, 9), randn(2, 3, 9)
    weight = torch.ones(9)
    with deterministic():
        for f in (F.softmax, F.log_softmax):
            y = x.clone().requires_grad_()
            f(y, -1).backward(g)
            z = x.clone().double().requires_grad_()
            f(z, 1).backward(g.double())  # which has them
            assert y.grad.isfinite().all() and z.grad.isfinite().all()
            torch.testing.assert_close(f(x, -1), f(x.double(), 2).float())
        torch.testing.assert_close(F.layer_norm(x, [9], weight), F.layer_norm(x.double(), [9], weight.double()).float())


def test_tensors_of_rows_are_as_large_as_wanted():
    from bitfold.torch._engine import Rows

    x = randn(2, 4)
    for wrong in ({"w": randn(3)}, {"y": randn(2, 3)}, {"rstd": randn(3)}, {"mean": torch.zeros(2, dtype=F64)}, {"b": torch.zeros(4, device="meta")}):
        with pytest.raises(RuntimeError, match="expected|same device"):
            Rows(x, 4, **wrong).apply("layer_norm")
    with deterministic():
        with pytest.raises(RuntimeError):
            torch.ops.aten._softmax_backward_data(x, randn(2, 3), -1, x.dtype)
        with pytest.raises(RuntimeError, match="at least 1-dimensional"):
            torch.ops.aten._fused_rms_norm(x, [], None, 1e-5)
        with pytest.raises(IndexError):
            torch.ops.aten._softmax(torch.tensor(1.0), 5, False)


# ---- torch.compile -------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """Of everything a little."""

    def __init__(self):
        super().__init__()
        self.table, self.linear = torch.nn.Embedding(50, 32), torch.nn.Linear(32, 50)
        self.layer, self.rms, self.batch, self.group = torch.nn.LayerNorm(32), torch.nn.RMSNorm(32), torch.nn.BatchNorm1d(9), torch.nn.GroupNorm(3, 9)

    def forward(self, index, target):
        h = self.group(self.batch(self.rms(self.layer(self.table(index)))))
        h = h + h.softmax(-1) * h.var(-1, keepdim=True) + h.std()
        h = h.scatter_add(1, (index[:, :, None] % 9).expand(-1, -1, 32), h)
        return F.cross_entropy(self.linear(h).flatten(0, 1), target.flatten()) + h.amax(1).mean() + h.square().sum().sqrt()


def step(net, f, device="cpu"):
    g = torch.Generator().manual_seed(1)
    index, target = (torch.randint(0, 50, (4, 9), generator=g).to(device) for _ in range(2))
    net.zero_grad()
    loss = f(index, target)
    loss.backward()
    return [loss.detach(), *(p.grad for p in net.parameters()), *(b.clone() for b in net.buffers())]


#: Settings of inductor's by which its kernels for GPUs round as eager ones do; without them those between the reductions contract
#: products and sums.
AS_EAGER = {"emulate_precision_casts", "eager_numerics.division_rounding", "eager_numerics.disable_ftz"}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(backend, device, tmp_path, monkeypatch, during):
    if (backend, device) == ("inductor", "cuda"):
        from torch._inductor import config

        during.enter_context(config.patch({name: True for name in AS_EAGER & config.get_config_copy().keys()}))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = Net().to(device)
    start = copy.deepcopy(net.state_dict())
    compiled = torch.compile(net, backend=backend, fullgraph=True)

    def run(f):
        net.load_state_dict(start)
        return step(net, f, device)

    off = run(compiled)
    with deterministic():
        eager, on = run(net), run(compiled)
        assert all(map(same, eager, on))
        assert not all(map(same, on, off))
        if whole() or backend == "aot_eager":  # inductor takes 5 seconds for each method
            with deterministic("kahan"):
                kahan = run(compiled)
                assert not all(map(same, on, kahan)) and all(map(same, run(net), kahan))
        assert all(map(same, on, run(compiled)))
    after = run(compiled)
    assert not all(map(same, on, after))
    if device == "cpu":  # on CUDA torch's embedding adds by atomics
        assert all(map(same, off, after))


def test_inductors_table_is_restored():
    import torch._inductor.decomposition as inductor

    before = dict(inductor.decompositions)
    with deterministic():
        assert inductor.decompositions != before
        assert torch.ops.aten.sum.dim_IntList in inductor.select_decomp_table()
    assert inductor.decompositions == before and torch.ops.aten.sum.dim_IntList not in inductor.select_decomp_table()


def fakes():
    """Of each operator that a compiler calls, by its name: arguments, and options."""
    x, y, w = randn(6, 4, 30), randn(6, 4, 30, seed=1), torch.ones(4)
    g, zeros, ones, i64 = randn(6, 4, 30, seed=2), torch.zeros(4), torch.ones(4), torch.int64
    rows, bag = torch.zeros(6, 4, dtype=i64), (torch.tensor([0, 1, 2, 1, 0]), torch.tensor([0, 2]))  # 5 indices in 2 bags
    of, statistics, some = torch.arange(4, dtype=i64), (randn(6, 4, 1), torch.ones(6, 4, 1)), torch.zeros(2, 3, 4, dtype=i64)
    reserve, table, in_bag = torch.empty(0, dtype=torch.uint8), randn(3, 8), torch.tensor([0, 0, 1, 1, 1])
    norm, running = {"dtype": F64}, (zeros, ones)
    yield from {
        "sum.dim_IntList": [((x, [1]), {}), ((x.bfloat16(), [0, -1], True), norm), ((x.bool(), None), {})],
        "sum": [((x,), {})], "nansum": [((x, [1]), {}), ((x, None), {})], "mean.dim": [((x, [0, 2]), {})], "mean": [((x,), norm)],
        "prod": [((x,), {})], "prod.dim_int": [((x, 1, True), {})], "dot": [((x[0, 0], y[0, 0]), {})], "vdot": [((x[0, 0], y[0, 0]), {})],
        "amax": [((x, [1]), {}), ((x,), {})], "amin": [((x, [0, 1], True), {})], "max": [((x,), {})], "min": [((x,), {})],
        "max.dim": [((x, 1), {})], "min.dim": [((x.bfloat16(), -1, True), {})], "argmax": [((x,), {}), ((x, 1, True), {})], "argmin": [((x, 0), {})],
        "aminmax": [((x,), {}), ((x,), {"dim": 1, "keepdim": True})], "var.correction": [((x, [1]), {}), ((x.bfloat16(),), {"correction": 0})],
        "std.correction": [((x, [0, 2]), {"keepdim": True})], "var_mean.correction": [((x, [1]), {})], "std_mean.correction": [((x, None), {"correction": 2})],
        "linalg_vector_norm": [((x, p, [1]), {}) for p in (1, 2, math.inf, 3)], "norm.ScalarOpt_dim": [((x, 2, [1]), {})],
        "norm.ScalarOpt_dim_dtype": [((x, 2, [1], True), norm)], "norm.Scalar": [((x, 1), {})], "norm.ScalarOpt_dtype": [((x, 2), norm)],
        "_foreach_norm.Scalar": [(([x, w],), {}), (([x.bfloat16()], 1), {})], "logsumexp": [((x, [1]), {})],
        "_softmax": [((x.transpose(1, 2), 1, False), {}), ((x.bfloat16(), -1, False), {})], "_log_softmax": [((x, 2, False), {})], "_safe_softmax": [((x, 1), {})],
        "_softmax_backward_data": [((g, y, 2, x.dtype), {}), ((g.transpose(0, 1), y.transpose(0, 1), 1, x.dtype), {})],
        "_log_softmax_backward_data": [((g, y, 1, x.dtype), {})],
        "native_layer_norm": [((x.transpose(0, 2), [4, 6], None, None, 1e-5), {}), ((x, [30], torch.ones(30), torch.ones(30), 1e-5), {})],
        "native_layer_norm_backward": [((g, x, [30], *statistics, torch.ones(30), torch.ones(30), mask), {}) for mask in ([True] * 3, [False, True, False])],
        "_fused_rms_norm": [((x, [30], torch.ones(30), 1e-5), {}), ((x.bfloat16(), [4, 30], None, None), {})],
        "_fused_rms_norm_backward": [((g, x, [30], statistics[1], torch.ones(30), [True, True]), {})],
        "native_group_norm": [((x.bfloat16(), w.bfloat16(), None, 6, 4, 30, 2, 1e-5), {})],
        "native_group_norm_backward": [((g, x, randn(6, 2), torch.ones(6, 2), w, 6, 4, 30, 2, [True] * 3), {})],
        "_native_batch_norm_legit.no_stats": [((x, w, None, True, 0.1, 1e-5), {})],
        "_native_batch_norm_legit_no_training": [((x, w, None, *running, 0.1, 1e-5), {})],
        "_native_batch_norm_legit_functional": [((x, w, None, *running, training, 0.1, 1e-5), {}) for training in (True, False)],
        "_batch_norm_with_update_functional": [((x, w, None, *running, 0.1, 1e-5), {})], "_batch_norm_no_update": [((x, w, None, *running, 0.1, 1e-5), {})],
        "native_batch_norm_backward": [((g, x, w, *running, zeros, ones, True, 1e-5, [True] * 3), {}), ((g, x, None, *running, None, None, False, 1e-5, [True, False, False]), {})],
        "batch_norm_backward": [((g, x, w, *running, zeros, ones, True, 1e-5, [True] * 3, reserve), {})],
        "cudnn_batch_norm_backward": [((x, g, w, *running, zeros, ones, 1e-5, reserve), {})],
        "mse_loss": [((x, y, reduction), {}) for reduction in (0, 1, 2)],
        "nll_loss_forward": [((x[:, :, 0], torch.tensor([0, 1, 2, 3, 0, -1]), w, reduction, -1), {}) for reduction in (0, 1, 2)],
        "nll_loss2d_forward": [((x[..., None], torch.zeros(6, 30, 1, dtype=i64), None, reduction, -100), {}) for reduction in (0, 1)],
        "scatter_add": [((x, 1, some, x[:, :, :5]), {})], "scatter_reduce.two": [((x, 0, some, y, how), {"include_self": False}) for how in ("mean", "amax", "prod")],
        "scatter.reduce": [((x, 1, some, y), {"reduce": "add"})], "scatter.value_reduce": [((x, 1, some, 2.0), {"reduce": "multiply"})],
        "index_add": [((x, 1, of, y), {"alpha": 2}), ((x.transpose(0, 1), 0, of, y.transpose(0, 1)), {})], "index_reduce": [((x, 1, of, y, "amin"), {})],
        "embedding_dense_backward": [((x, rows, 10, 3, True), {})],
        "_embedding_bag": [((table, *bag, False, mode), {}) for mode in (0, 1, 2)], "_embedding_bag_forward_only": [((table, *bag, False, 1), {})],
        "_embedding_bag_dense_backward": [((randn(2, 8), bag[0], in_bag, torch.tensor([2, 3]), bag[1][:0], 3, False, 0, None), {})],
        "_embedding_bag_per_sample_weights_backward": [((randn(2, 8), table, *bag, in_bag, 0), {})],
        **{f"{name}index_put": [((x, [None, torch.tensor([1, 1])], torch.ones(6, 2, 30), True), {})] for name in ("", "_unsafe_")},
        "put": [((x, of, y[0, :, 0], True), {})],
    }.items()  # fmt: skip


FAKES = dict(fakes()) | dict(product_fakes()) | dict(convolution_fakes())


@pytest.mark.parametrize("name", FAKES)
def test_fakes_are_what_comes(name):
    """Shape, type and layout."""
    op = _mode.find(name)
    if op is None:
        pytest.skip("this torch has no such operator")
    for args, options in some_of(FAKES[name], 3):
        torch.library.opcheck(_mode._COMPILED_OPS[op], args, {**options, "method": "tree"})


def test_every_operator_that_a_compiler_calls_is_checked():
    assert {op for op in map(_mode.find, FAKES) if op} == set(_mode._COMPILED_OPS)


def test_a_process_that_compiled_nothing_yet_compiles():
    """What inductor imports, it imports while the mode is on."""
    code = """
import torch, bitfold.torch
x = torch.randn(3, 50, requires_grad=True)
with bitfold.torch.deterministic():
    torch.compile(lambda x: x.softmax(1).square().sum(), backend="aot_eager")(x).backward()
    import torch._inductor.lowering, torch._inductor.decomposition as inductor
    ours = lambda: "_decomposition." in getattr(inductor.decompositions.get(torch.ops.aten._softmax.default), "__qualname__", "")
    assert ours()
assert not ours()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- strict --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, f",
    [
        ("aten::_euclidean_dist", lambda x: torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist")),
        ("aten::cumsum", lambda x: x.cumsum(0)),
        ("aten::grid_sampler_2d", lambda x: F.grid_sample(x[None, None], torch.ones(1, 2, 2, 2, device=x.device), align_corners=False)),
        ("aten::bincount", lambda x: torch.bincount(torch.arange(4, device=x.device), x[0])),
        ("aten::cumsum", torch.compile(lambda x: x.cumsum(1) + 1)),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_strict_refuses_by_name(name, f, device):
    x = randn(3, 4, device=device)
    f(x)
    with deterministic(strict=True), pytest.raises(bitfold.torch.NotCovered, match=name):
        f(x)
    f(x)
    with deterministic(strict=True, allow=(name.removeprefix("aten::"),)):
        f(x)


@pytest.mark.parametrize("device", DEVICES)
def test_strict_sees_backward(device):
    x = randn(3, 4, device=device).requires_grad_()
    y = x.cumsum(0).sum()
    with deterministic(strict=True), pytest.raises(bitfold.torch.NotCovered, match="aten::cumsum"):
        y.backward()


def test_strict_refuses_other_layouts():
    with deterministic(strict=True), pytest.raises(bitfold.torch.NotCovered, match="sparse"):
        randn(3, 4).to_sparse().sum()


def test_strict_leaves_other_modes_alone():
    x, log = randn(3, 4), Log()
    with deterministic(strict=True):
        with log:
            x.sum()
            with deterministic():
                x.sum()
                x.cumsum(0)  # strict no more
            with pytest.raises(bitfold.torch.NotCovered), deterministic(strict=True):
                x.cumsum(0)
            with deterministic(strict=True, allow="cumsum"):
                x.cumsum(0)
            with pytest.raises(bitfold.torch.NotCovered):
                x.cumsum(0)
            assert log.seen.count(torch.ops.aten.sum.default) == 2
            with pytest.raises(RuntimeError, match="inside another TorchDispatchMode"):
                bitfold.torch.disable()
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    x.cumsum(0)


def test_strict_ends_in_its_thread():
    failed = []

    def elsewhere():
        for f in (bitfold.torch.disable, lambda: bitfold.torch.enable(strict=True)):
            try:
                f()
            except RuntimeError as e:
                failed.append(str(e))

    with deterministic(strict=True):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(failed) == 2 and all("thread that enabled it" in text for text in failed)
        with pytest.raises(bitfold.torch.NotCovered):
            randn(3, 4).cumsum(0)


def elementwise():
    """Every operator that strict takes to work on each element by itself."""
    untagged = [n for key, names in _strict.INDEPENDENT.items() if "element" in key and not key.startswith(("make", "move")) for n in names]
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for op in [getattr(packet, o) for o in packet.overloads()] if isinstance(packet, torch._ops.OpOverloadPacket) else ():
            if (torch.Tag.pointwise in op.tags or name in untagged) and not op._schema.is_mutable:
                yield op


OF_NUMBERS = {"alpha": (1, -1, 0.3), "exponent": (0, 1, 2, 3, -1, -2, 0.5, -0.5, 4, 0.7), "approximate": ("none", "tanh"), "value": (1, 0.3)}


def elementwise_calls(op, dtype, n=600):
    """Arguments and options, random, of n columns; none where it takes something else than tensors and numbers."""
    rows = (2, n) if op._schema.name in ("aten::glu", "aten::glu_backward") else (n,)
    for scale in (1, 8):
        given, choices = [], {}
        for a in op._schema.arguments:
            kind = str(a.type)
            if kind == "Tensor":
                x = (scale * randn(*(rows if a.name == "self" else (n,)), seed=len(given), dtype=torch.float64)).to(dtype)
                given.append(x.abs().clamp(0, 1) if op._schema.name == "aten::binary_cross_entropy" else x)
            elif a.name in OF_NUMBERS and (a.kwarg_only or a.name == "exponent"):
                choices[a.name] = OF_NUMBERS[a.name]
                given += [] if a.kwarg_only else [choices[a.name]]
            elif a.kwarg_only:
                break
            else:
                given.append({"number": 0.7, "float": 0.7, "int": int(a.name not in ("dim", "reduction")), "bool": False}.get(kind))
        for k in range(max(map(len, choices.values()), default=1)):
            pick = lambda name: choices[name][k % len(choices[name])]
            args = [pick("exponent") if isinstance(v, tuple) else v for v in given]
            yield args, {name: pick(name) for name in choices if name != "exponent"}


def by_columns(op, args, kwargs, cut):
    outs = op(*[cut(a) if isinstance(a, torch.Tensor) else a for a in args], **kwargs)
    return [t for t in (outs if isinstance(outs, tuple) else (outs,)) if t.is_floating_point() and t.dim()]


def in_a_row_with_gaps_and_alone(op, args, kwargs):
    row = by_columns(op, args, kwargs, lambda t: t)
    with_gaps = by_columns(op, args, kwargs, lambda t: torch.stack([t, t], -1)[..., 0])
    alone = [by_columns(op, args, kwargs, lambda t: t[..., i : i + 1].contiguous()) for i in range(16)]
    return row, with_gaps, [torch.cat(t, -1) for t in zip(*alone)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_what_strict_lets_through_knows_no_places(dtype, device):
    """Of every elementwise operator. Which of them know, on CPUs, depends on the CPU and on torch: what is refused is all that was seen."""
    refused, asked, differ = set(), set(), set()
    with deterministic(strict=True):
        for op in elementwise():
            for args, kwargs in elementwise_calls(op, dtype):
                args = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
                try:
                    row, with_gaps, alone = in_a_row_with_gaps_and_alone(op, args, kwargs)
                except bitfold.torch.NotCovered:
                    refused.add(op._schema.name)
                    continue
                except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError):
                    continue  # not of these types
                asked.add(op._schema.name)
                if not all(same(a, b) and same(a[..., :16], c) for a, b, c in zip(row, with_gaps, alone)):
                    differ.add(f"{op.name()} {[a for a in args if not isinstance(a, torch.Tensor)]} {kwargs}")
    assert not differ
    assert {"aten::exp", "aten::hardswish", "aten::pow", "aten::tanh_backward", "aten::huber_loss"} < asked and len(asked) > 100
    assert device == "cuda" and not refused or {"aten::gelu", "aten::glu_backward", "aten::pow", "aten::silu_backward"} < refused


def test_strict_and_places():
    x, strict = randn(3, 4), bitfold.torch.deterministic(strict=True)
    with strict:
        x.exp(), x.tanh(), x.relu(), x.pow(2), x**-1, x.add(x, alpha=-1), x.add(x, alpha=0.3), x.bfloat16().add(x), x.rsqrt(), F.hardswish(x), F.huber_loss(x, x + 1)
        for f, name in ((F.gelu, "gelu"), (torch.sigmoid_, "sigmoid_"), (lambda x: x**0.5, "pow"), (lambda x: x.bfloat16().rsqrt(), "rsqrt"),
                        (lambda x: torch.sinh(x, out=torch.empty(3, 4)), "sinh"), (lambda x: x.add_(x[0], alpha=0.3), "add_")):  # fmt: skip
            with pytest.raises(bitfold.torch.NotCovered, match=rf"aten::{name}\b.*its place in memory.*allow=\('{name}',\)"):
                f(x.clone())
        z, i = torch.view_as_complex(randn(3, 4, 2)), torch.arange(5)
        z + z, z - z, z == z, z.conj(), z.real, z.clone(), z.sum(), i + 2 * i, i**2, i.add(i, alpha=3)
        for f, name in ((lambda: z * z, "mul"), (z.neg, "neg"), (z.abs, "abs"), (lambda: z.add(z, alpha=0.3), "add"), (lambda: z.clone().square_(), "pow"), (lambda: torch.atan2(i, i), "atan2"), (i.sigmoid, "sigmoid")):
            with pytest.raises(bitfold.torch.NotCovered, match=rf"aten::{name}.*its place in memory"):
                f()
        torch.ones(2, 1).squeeze_().unsqueeze_(0).t_().transpose_(0, 1).swapdims_(0, 1).resize_as_(x), torch.quantile(x, 0.5)  # views, in place
        y = x.clone().requires_grad_()
        with deterministic(strict=True, allow="silu"):
            loss = F.silu(y).sum()
            with pytest.raises(bitfold.torch.NotCovered, match="aten::silu_backward"):
                loss.backward()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("order", [1, 2, math.inf])
def test_norms_of_complex_numbers(order, dtype):
    z = torch.view_as_complex(randn(500, 3, 2, dtype=dtype.to_real()))
    norm = lambda z: torch.linalg.vector_norm(z, order, dim=-1)
    wanted = norm(z)
    with deterministic():
        found = norm(z)
        assert torch.allclose(found, wanted) and all(same(norm(row), n) for row, n in zip(z, found))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, F64], ids=str)
def test_3_norms_are_of_cubes_of_magnitudes(dtype, device):
    x = randn(40, 1000, dtype=dtype, device=device)
    x[1, 5], x[2, 7], x[3, 9] = -math.inf, math.nan, -1e-20
    wide = torch.float32 if dtype is torch.float16 else dtype
    with deterministic():
        wanted = (x.to(wide).abs() ** 3).sum(1) ** (1 / 3)
        assert same(torch.linalg.vector_norm(x, 3, dim=1), wanted.to(dtype))


def test_what_torch_refuses_is_refused():
    x, bags = torch.ones(3, dtype=F64), lambda *offsets: F.embedding_bag(torch.tensor([1, 2, 3]), randn(5, 3), torch.tensor(offsets, dtype=torch.int64))
    with deterministic():
        for f, error, match in (
            (lambda: torch.linalg.vector_norm(x, dtype=torch.float16), RuntimeError, "narrowing"),
            (lambda: torch.linalg.vector_norm(x, dtype=torch.complex128), RuntimeError, "dtype should be real"),
            (lambda: torch.softmax(torch.empty(0), 2), IndexError, "out of range"),
            *((lambda o=o: bags(*o), RuntimeError, match) for o, match in (((0, 2, 1), r"offsets\[2\]"), ((0, -5, 1), r"offsets\[1\]"), ((0, 99, 1), r"offsets\[2\]"), ((0, 99), "99"))),
        ):
            with pytest.raises(error, match=match):
                f()
        assert bags().shape == (0, 3)
        assert torch.zeros(3, dtype=torch.int64).index_add(0, torch.tensor([0, 0]), torch.tensor([2, 3]), alpha=3.5).tolist() == [15, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
def test_strict_trains(device):
    net, head = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, device=device), torch.nn.Linear(32, 50, device=device)
    parameters = [*net.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    math = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with deterministic(strict=True), math:
        loss = F.cross_entropy(head(net(randn(2, 5, 32, device=device))).flatten(0, 1), torch.arange(10, device=device))
        loss.backward()
        bitfold.torch.clip_grad_norm_(parameters, 1.0)
        optimizer.step()


# ---- The page ------------------------------------------------------------------------------------


def test_every_operator_is_there():
    missing = [name for name in (*_overrides.OVERRIDES, *_overrides.ACCUMULATING) if _mode.find(name) is None]
    assert not missing, "this torch has other operators: see whether what took their place is covered"
    known = [n for names in _strict.INDEPENDENT.values() for n in names] + [n for names, _ in _strict.NOT_COVERED.values() for n in names]
    assert not [name for name in known if not hasattr(torch.ops.aten, name.partition(".")[0])]


def test_what_is_not_covered_is_refused():
    covered = {op._schema.name for op in _mode.covered()}
    for names, _ in _strict.NOT_COVERED.values():
        for name in names:
            packet = getattr(torch.ops.aten, name)
            assert not any(_strict.is_independent(getattr(packet, overload)) for overload in packet.overloads()), name
            assert f"aten::{name}" not in covered


def test_the_tables_of_the_page(request):
    page = (request.config.rootpath / "docs" / "pytorch.md").read_text()
    assert coverage.put_into(page) == page, "python -m bitfold.torch.coverage --write docs/pytorch.md"
