"""What tensors may be besides numbers in memory, and what a call may be besides right: bools of any
byte, tangents, versions, symbolic sizes, elements that are ignored or lie nowhere, types that bitfold
does not cover, and torch's errors."""

from __future__ import annotations

import itertools
import math

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold
import bitfold.torch
from bitfold.torch._engine import OPS
from samples import some_of
from test_torch_mode import OPINFOS, kind, opinfos, randn, tensors
from torch.autograd import forward_ad
from torch_helpers import DEVICES, same

deterministic = bitfold.torch.deterministic


# ---- Bools ---------------------------------------------------------------------------------------


def bools(*bytes_, device="cpu"):
    return torch.tensor(bytes_, dtype=torch.uint8, device=device).view(torch.bool)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPS)
def test_a_bool_is_true_or_false_whatever_its_byte(name, device):
    f, pair = getattr(torch.ops.bitfold, name), OPS[name]["inputs"] == 2
    x = bools(2, 0, 255, 1, 3, 1, 0, 0, device=device).reshape(2, 4)
    y = bools(128, 1, 0, 2, 1, 0, 7, 0, device=device).reshape(2, 4)
    plain = [t.view(torch.uint8).ne(0) for t in (x, y)]
    for dim in (None, [1], [0]):
        for how in ({}, {"dtype": torch.float32}) if OPS[name]["takes_dtype"] else ({},):
            found, wanted = (f(*t[: 1 + pair], dim, **how) for t in ((x, y), plain))
            if found.dtype is torch.bool:
                found, wanted = found.view(torch.uint8), wanted.view(torch.uint8)
            assert same(found.nan_to_num(7), wanted.nan_to_num(7))


def test_there_is_no_extremum_of_no_bools():
    for f in (torch.ops.bitfold.max, torch.ops.bitfold.min):
        with pytest.raises(ValueError, match="output"):
            f(bools(2, 3).reshape(2, 1)[:, :0], [1])


@pytest.mark.parametrize("device", DEVICES)
def test_a_bool_is_true_or_false_under_the_mode(device):
    x = bools(2, 0, 255, 1, device=device).reshape(2, 2)

    def run():
        yield from (x.sum(), x.sum(1), x.sum(dtype=torch.float32), x.sum(dtype=torch.bool))
        yield from (x.prod(1), x.prod(dtype=torch.uint8), x.nansum(), x.mean(dtype=torch.float32))
        yield from (x.count_nonzero(), x.amax(1), x.amin(1), x.max(), x.min())
        yield from (*x.max(1), *x.min(1), *x.aminmax())
        index = torch.tensor([[0, 0]], device=device)
        yield from (x.index_add(0, index[0], x), x.scatter_add(0, index, x))

    wanted = list(run())
    with deterministic():
        found = list(run())
    for a, b in zip(found, wanted, strict=True):
        if a.dtype is b.dtype is torch.bool:
            assert a.view(torch.uint8).max() <= 1
            a, b = a.view(torch.uint8) != 0, b.view(torch.uint8) != 0  # torch may copy what is no 1
        assert same(a, b)


# ---- What torch is to know: writes and tangents --------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_a_result_written_to_a_tensor_counts_as_a_version(device):
    x = torch.arange(9.0, device=device).reshape(3, 3)
    for write in (
        lambda out: bitfold.sum(x, axis=0, out=out),
        lambda out: bitfold.dot(x, x, axis=1, out=out),
        lambda out: bitfold.sum(x[:, :3], axis=0, out=out[:3]),
    ):
        w = torch.ones(3, device=device, requires_grad=True)
        y = w * 2
        z = (y * y).sum()
        write(y.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()
    with torch.inference_mode():
        out = torch.empty(3, device=device)
        assert bitfold.sum(x, axis=0, out=out) is out and out.tolist() == [9, 12, 15]
    with pytest.raises(ValueError, match="^out: .*inference"):
        bitfold.sum(x, axis=0, out=out)
    with pytest.raises(TypeError, match="^out: .*gradient"):
        bitfold.sum(x, axis=0, out=torch.zeros(3, device=device, requires_grad=True))


@pytest.mark.parametrize("device", DEVICES)
def test_a_tangent_is_not_lost(device):
    x = torch.arange(3.0, device=device)
    out, p = torch.zeros((), device=device), torch.nn.Parameter(x)
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, torch.ones_like(x))
        p.grad = d
        for argument, f in (
            ("x", lambda: bitfold.sum(d)),
            ("y", lambda: bitfold.dot(x, d)),
            ("x", lambda: bitfold.reduce(d, ["sum", "max"])),
            ("out", lambda: bitfold.sum(x, out=forward_ad.make_dual(out, out))),
            ("x", lambda: bitfold.segment_reduce(d, [0, 3])),
            ("x", lambda: bitfold.accumulator("float32").add(d)),
            ("a", lambda: bitfold.same_bits(d, x)),
            ("parameters", lambda: bitfold.torch.grad_norm([p])),
            ("parameters", lambda: bitfold.torch.clip_grad_norm_([p], 1.0)),
        ):
            with pytest.raises(TypeError, match=f"^{argument}: .*tangent"):
                f()
        assert forward_ad.unpack_dual(torch.sum(d)).tangent == 3
        with deterministic():
            assert forward_ad.unpack_dual(torch.sum(d)).tangent == 3
        assert bitfold.sum(x) == 3


# ---- Tensors without elements of their own -------------------------------------------------------


@pytest.fixture(scope="module")
def mesh():
    fake_pg = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    distributed.init_process_group("fake", store=fake_pg.FakeStore(), rank=0, world_size=2)
    yield distributed.device_mesh.init_device_mesh("cpu", (2,))
    distributed.destroy_process_group()


def freed():
    x = torch.ones(2, 3)
    x.untyped_storage().resize_(0)
    return x


X = torch.arange(6.0).reshape(2, 3)
ELSEWHERE = {
    "meta": lambda: X.to("meta"),
    "sparse": lambda: X.to_sparse(),
    "csr": lambda: X.to_sparse_csr(),
    "mkldnn": lambda: X.to_mkldnn(),
    "nested": lambda: torch.nested.nested_tensor([X[0], X[1, :2]]),
    "jagged": lambda: torch.nested.nested_tensor([X[0], X[1, :2]], layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
    "no number": lambda: torch._efficientzerotensor((2, 3)),
    "two": lambda: pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor(X, X),
    "functional": lambda: torch._to_functional_tensor(X),
    "freed": freed,
}


def refused_everywhere(x, of_gradients=True):
    for argument, f in (
        ("x", lambda: bitfold.sum(x)),
        ("x", lambda: bitfold.reduce(x, ["sum", "max"])),
        ("y", lambda: bitfold.dot(X, x)),
        ("out|dtype", lambda: bitfold.max(torch.ones(2, 3, 3), axis=2, out=x)),
        ("a", lambda: bitfold.same_bits(x, x)),
    ):
        with pytest.raises(TypeError, match=f"^({argument}): "):
            f()
    if of_gradients:
        p = torch.nn.Parameter(X.clone()).as_subclass(WithGradient)
        p.grad = x
        for f in (bitfold.torch.grad_norm, lambda p: bitfold.torch.clip_grad_norm_(p, 1.0)):
            with pytest.raises(TypeError, match="^parameters: "):
                f([p])


class WithGradient(torch.Tensor):
    grad = None  # any tensor, where torch's own takes those that fit


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_elements_of_their_own_are_refused(name):
    x = ELSEWHERE[name]()
    # Those on device meta have a norm, without elements, as under torch.compile.
    refused_everywhere(x, of_gradients=name != "meta")


def test_a_distributed_tensor_is_refused(mesh):
    from torch.distributed.tensor import DTensor, Shard

    refused_everywhere(DTensor.from_local(X, mesh, [Shard(0)]))


def test_a_fake_tensor_is_refused_or_fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = FakeTensorMode().from_tensor(X)
    refused_everywhere(x, of_gradients=False)
    assert type(torch.ops.bitfold.sum(x)) is type(x)


def test_tensors_inside_a_transform_are_refused():
    for transform in (torch.func.vmap, torch.func.grad, torch.func.functionalize):
        with pytest.raises(TypeError, match="^x: .*transform"):
            transform(lambda x: bitfold.sum(x))(X[0] if transform is torch.func.grad else X)


# ---- What is ignored is not read -----------------------------------------------------------------

WORST = (math.inf, -math.inf, math.nan)


def cross_entropies(worst, device):
    """Of samples of which some are ignored; what belongs to these is `worst`."""
    x, target = randn(6, 3, device=device), torch.tensor([-100, 1, 2, -100, 1, 2], device=device)
    bad = x.masked_fill((target == -100)[:, None], worst)
    weight = torch.tensor([worst, 1.0, 2.0], device=device)
    as_image = lambda t: (
        t.reshape(2, 3, 1, 3).movedim(-1, 1).contiguous() if t.dim() == 2 else t.reshape(2, 3, 1)
    )
    for reduction in ("none", "mean", "sum"):
        for of, w in ((x, weight), (bad, None), (bad, weight)):
            yield of, lambda x, w=w, r=reduction: F.nll_loss(x, target, w, reduction=r)
            yield of, lambda x, w=w, r=reduction: F.cross_entropy(x, target, w, reduction=r)
            image = as_image(target)
            yield of, lambda x, w=w, r=reduction: F.nll_loss(as_image(x), image, w, reduction=r)
        none, half = torch.full_like(target, -100), weight.bfloat16()
        yield x, lambda x, r=reduction: F.cross_entropy(as_image(x), image, weight, reduction=r)
        yield x.bfloat16(), lambda x, r=reduction: F.cross_entropy(x, target, half, reduction=r)
        yield x, lambda x, r=reduction: F.cross_entropy(x, none, weight, reduction=r)
        yield x[0], lambda x, r=reduction: F.nll_loss(x, target[0], weight, reduction=r)


def bags(worst, device):
    """Of embeddings: row 0 is padding."""
    table = randn(4, 5, device=device).index_fill(0, torch.tensor([0], device=device), worst)
    indices = torch.tensor([0, 1, 2, 0, 3, 3], device=device)
    offsets = torch.tensor([0, 3], device=device)
    weights = torch.where(indices == 0, worst, 1.0)

    def bag(table, mode="sum", p=None):
        how = {"mode": mode, "padding_idx": 0, "per_sample_weights": p}
        return F.embedding_bag(indices, table, offsets, **how)

    for mode in ("sum", "mean", "max"):
        yield table, lambda t, m=mode: bag(t, m)
    yield table, lambda t: bag(t, p=weights)
    yield weights, lambda p: bag(table, p=p)


def places(worst, device):
    """By index without what lay there, which is `worst`; and of what a mask leaves out."""
    x, index = torch.full((3, 4), worst, device=device), torch.tensor([0, 0, 2], device=device)
    source = randn(3, 4, device=device)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        at = index[:, None].expand(3, 4)
        alone = {"include_self": False}
        yield source, lambda s, r=reduce: x.scatter_reduce(0, at, s, r, **alone)[index]
        if reduce != "sum":
            yield source, lambda s, r=reduce: x.index_reduce(0, index, s, r, **alone)[index]
    mask = torch.tensor([True, False, True, True], device=device)
    bad = source.masked_fill(~mask, worst)
    for name in "sum prod mean amax var softmax log_softmax logsumexp norm argmax".split():
        how = {"dim": 1, "mask": mask.expand(3, 4)} | ({"ord": 2} if name == "norm" else {})
        yield bad, lambda s, n=name, how=how: getattr(torch.masked, n)(s, **how)
    if math.isnan(worst):
        yield bad, lambda s: s.nansum(1)
        yield bad, lambda s: s.nanmean(1)


def with_gradient(x, f):
    x = x.detach().clone().requires_grad_()
    y = f(x)
    if not y.requires_grad:
        return [y]
    g = torch.linspace(0.5, 1.5, y.numel(), device=y.device).reshape(y.shape).to(y.dtype)
    return [y, torch.autograd.grad(y, x, g)[0]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cases", [cross_entropies, bags, places])
@pytest.mark.parametrize("worst", WORST)
@pytest.mark.filterwarnings("ignore")
def test_what_is_ignored_is_not_read(worst, cases, device):
    """Where torch has a number on CPUs, the mode has one. On CUDA torch reads some of it."""
    wanted = [with_gradient(*case) for case in cases(worst, "cpu")]
    with deterministic():
        found = [with_gradient(*case) for case in cases(worst, device)]
    assert any(t.isfinite().all() for of_one in wanted for t in of_one)
    for k, (a, b) in enumerate(zip(wanted, found)):
        for one, other in zip(a, b, strict=True):
            near = 2e-2 if one.dtype is torch.bfloat16 else 1e-5
            torch.testing.assert_close(
                other.cpu(), one, rtol=near, atol=near, equal_nan=True, msg=lambda m: f"case {k}: {m}"
            )


# ---- Symbolic sizes ------------------------------------------------------------------------------

#: Functions of x of [a, b, c] that hand a size of it on as a number.
OF_SIZES = {
    "rms_norm": lambda x: F.rms_norm(x, (x.size(-1),)),
    "rms_norm of two, weighted": lambda x: F.rms_norm(x, x.shape[-2:], x[0].detach()),
    "layer_norm": lambda x: F.layer_norm(x, (x.size(-1),)),
    "group_norm": lambda x: F.group_norm(x, x.size(1)),
    "var": lambda x: x.var(correction=x.size(0)) + x.var(1, correction=x.size(1) / 4).sum(),
    "sum": lambda x: x.sum(x.dim() - 1),
    "ignore_index": lambda x: F.cross_entropy(
        x.flatten(1), torch.arange(x.size(0)), ignore_index=x.size(0) - 1
    ),
    "padding_idx": lambda x: F.embedding_bag(
        torch.arange(x.size(0)) % x.size(1),
        x[0],
        torch.zeros(1, dtype=torch.int64),
        padding_idx=x.size(1) - 1,
    ),
    "ord": lambda x: torch.linalg.vector_norm(x, x.size(0)),
    "alpha": lambda x: x.index_add(0, torch.zeros(1, dtype=torch.int64), x[:1], alpha=x.size(0)),
    "bitfold's var": lambda x: torch.ops.bitfold.var(x, [1], ddof=x.size(0) % 3),
    "bitfold's sum": lambda x: torch.ops.bitfold.sum(x, [x.dim() - 1]),
}


def test_symbolic_sizes():
    every = lambda x: tuple(f(x) for f in OF_SIZES.values())
    with deterministic():
        compiled = torch.compile(every, backend="aot_eager", dynamic=True, fullgraph=True)
        for shape in ((4, 5, 7), (6, 3, 8)):
            x = randn(*shape)
            for k, name in enumerate(OF_SIZES):
                found, wanted = (with_gradient(x, lambda x: f(x)[k]) for f in (compiled, every))
                assert all(map(same, found, wanted)), name


def test_symbolic_sizes_in_inductor(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with deterministic():
        compiled = torch.compile(OF_SIZES["rms_norm"], dynamic=True)
        x = randn(4, 7)
        assert same(compiled(x), F.rms_norm(x, (7,)))


# ---- Types and errors: torch's -------------------------------------------------------------------

NOT_REAL = (
    torch.complex64,
    torch.float8_e4m3fn,
    torch.uint16,
    torch.int32,
    torch.bool,
    torch.float16,
)
#: Whose statistics the mode has in f32 (docs/pytorch.md).
STATISTICS = (
    "native_layer_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
)
#: What torch's own kernels do not look at, and what is undefined then.
UNDEFINED = (
    "native_",
    "_native_",
    "_batch_norm_with_update",
    "nn.functional.embedding_bag",
    "nn.functional.batch_norm",
)


def changed(x):
    """What an argument may be else, right or wrong."""
    if isinstance(x, torch.Tensor):
        yield from (
            x.to(dtype)
            for dtype in (torch.int64, torch.complex64, torch.float64, torch.float16, torch.bool)
            if dtype is not x.dtype
        )
        yield from (x.reshape(-1), x.unsqueeze(0), torch.zeros((), dtype=x.dtype))
        if x.dim():
            yield from (x[..., :0], x[..., :1], x[:0], x[1:])
        if x.dtype is torch.int64:
            yield from (x + 99, x - 99, x.int())
    elif isinstance(x, (bool, int, float)):
        yield from (99, -99, 0, 0.5, None)
    elif isinstance(x, str):
        yield "foo"
    elif isinstance(x, torch.dtype):
        yield from (torch.int64, torch.complex64, torch.bool, torch.uint16)


def calls(info):
    """torch's samples of wrong calls; of right ones in types that bitfold does not cover, or torch
    refuses; and right ones of floats of which one argument is another."""
    of = lambda sample: (sample.input, sample.args, sample.kwargs)
    if info.error_inputs_func:
        yield from (of(error.sample_input) for error in info.error_inputs("cpu"))
    some = lambda dtype, n: list(itertools.islice(info.sample_inputs("cpu", dtype), n))
    floats, supported = some(torch.float32, 16), info.supported_dtypes("cpu")
    for dtype in NOT_REAL:

        def converted(t):
            is_of_floats = isinstance(t, torch.Tensor) and t.is_floating_point()
            return t.to(dtype) if is_of_floats else t

        for sample in some(dtype, 4) if dtype in supported else floats[:4]:
            yield torch.utils._pytree.tree_map(converted, of(sample))
    if info.name.startswith(UNDEFINED):
        return
    for sample in (floats[0], floats[-1]):
        leaves, spec = torch.utils._pytree.tree_flatten(of(sample))
        for k, leaf in enumerate(leaves):
            for other in changed(leaf):
                yield torch.utils._pytree.tree_unflatten(
                    [*leaves[:k], other, *leaves[k + 1 :]], spec
                )
        for more in (
            {"dtype": torch.int64},
            {"dtype": torch.complex64},
            {"dim": 99},
            {"dim": (0, 0)},
            {"out": torch.empty(0, dtype=torch.int16)},
        ):
            if not more.keys() & sample.kwargs.keys():
                yield sample.input, sample.args, {**sample.kwargs, **more}


def outcome(info, call):
    def run():
        x, args, kwargs = torch.utils._pytree.tree_map(
            lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, call
        )
        return info.op(x, *args, **kwargs)

    return kind(run)


#: Where torch fails an assertion of its own; does not look at parameters, as there is nothing to
#: normalise; or refuses on CPUs what it takes on GPUs.
_TORCHS_FAULTS = lambda info, call: (
    info.name == "index_put"
    and any(t.dtype is torch.bool and not t.dim() for t in tensors(call))
    or info.name == "nn.functional.group_norm"
    and not call[0].numel()
    or info.name == "_softmax_backward_data"
    and call[1][-1] is torch.float16
)


@pytest.mark.parametrize("name", OPINFOS)
@pytest.mark.filterwarnings("ignore")
def test_types_and_errors_are_torchs(name):
    cases = [
        (info, call)
        for info in opinfos()
        if info.name == name
        for call in some_of(calls(info), 2)
        if not _TORCHS_FAULTS(info, call)
    ]
    wanted = [outcome(*case) for case in cases]
    assert any(isinstance(w, type) for w in wanted) and any(isinstance(w, list) for w in wanted)
    with deterministic():
        found = [outcome(*case) for case in cases]
    for (info, call), a, b in zip(cases, wanted, found):
        if name in STATISTICS and isinstance(a, list) and isinstance(b, list):
            a, b = a[0], b[0]
        assert a == b, (info.name, info.variant_test_name, call)


UNCOVERED = {
    "prod": lambda z: z.prod(1),
    "var": lambda z: z.var(1),
    "std_mean": lambda z: torch.std_mean(z, 1),
    "dot": lambda z: torch.dot(z[0], z[1]),
    "nansum": lambda z: z.nansum(),
    "logsumexp": lambda z: z.logsumexp(1),
    "scatter_reduce": lambda z: z.scatter_reduce(
        0, torch.zeros(1, 4, dtype=torch.int64, device=z.device), z, "prod"
    ),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNCOVERED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_covered_is_torchs_own_and_stricts_to_refuse(name, device):
    f, z = UNCOVERED[name], torch.view_as_complex(randn(3, 4, 2)).to(device)
    try:
        wanted = tensors(f(z))
    except RuntimeError as e:  # which the mode has, too
        with deterministic(), pytest.raises(type(e)):
            f(z)
        return
    with deterministic():  # the sums in logsumexp are bitfold's
        assert all(map(torch.allclose, tensors(f(z)), wanted))
        if name == "prod":
            assert torch.equal(torch.compile(f, backend="aot_eager")(z), f(z))
    with deterministic(strict=True):
        with pytest.raises(
            bitfold.torch.NotCovered,
            match=rf"aten::{name}.*bitfold (covers|has) none.*allow=\('{name}',\)",
        ):
            f(z)
        with deterministic(strict=True, allow=name):
            allowed = tensors(f(z))
        assert f(z.real) is not None
    assert all(map(torch.allclose, allowed, wanted))


def test_the_errors_of_forms_are_torchs_and_leave_what_they_were_to_write():
    x, index = torch.ones(2, 0), torch.tensor([5])
    y, out = torch.ones(3), torch.full((2,), 7.0)
    with deterministic():
        for f, error in (
            (lambda: torch.amax(x, 1, out=out), IndexError),
            (lambda: torch.max(x), RuntimeError),
            (lambda: x.max(1), IndexError),
            (lambda: y.index_add_(0, index, torch.ones(1)), IndexError),
            (lambda: y.scatter_add_(0, index, torch.ones(1)), RuntimeError),
            (lambda: y.index_put_((index,), torch.ones(1), accumulate=True), IndexError),
            (lambda: y.put_(index, torch.ones(1), accumulate=True), IndexError),
            (lambda: torch.sum(torch.ones(2, 3), 1, dtype=torch.float64, out=out), RuntimeError),
            (lambda: torch.dot(y, y[:2]), RuntimeError),
        ):
            with pytest.raises(error) as raised:
                f()
            assert raised.value.__cause__ is None
    assert y.tolist() == [1, 1, 1] and out.tolist() == [7, 7]


def test_an_error_of_bitfolds_is_not_torchs_result(monkeypatch):
    """Memory that runs out, say, is not to change the bits."""
    from bitfold.torch import _engine

    def broken(*args, **kwargs):
        raise error

    monkeypatch.setattr(_engine, "reduce", broken)
    with deterministic():
        for error in (
            torch.OutOfMemoryError("none left"),
            RuntimeError("broken"),
            ValueError("broken"),
        ):
            with pytest.raises(type(error), match=str(error)):
                torch.ones(3, 4).var(1)


@pytest.mark.parametrize(
    "x",
    [
        lambda: torch.zeros(1).expand(3),
        lambda: torch.zeros(1, 3).expand(3, 3),
        lambda: torch.zeros(3, 1).expand(3, 3),
        lambda: torch.arange(7.0).as_strided((3, 3), (2, 1)),
        lambda: torch.arange(10.0)[2:].as_strided((3, 3), (1, 2)),
    ],
)
def test_elements_at_one_place_are_added_to_once(x):
    def run():
        y = x()
        index = torch.tensor([0, 1, 1])
        y.index_put_((index,) * y.dim(), torch.tensor([1.0, 2.0, 4.0]), accumulate=True)
        return y.contiguous()

    wanted = run()
    with deterministic():
        assert same(run(), wanted)


# ---- Norms -----------------------------------------------------------------------------------------


NORMS = {
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[2:]), (2, 3)),
    "group_norm": (lambda x: F.group_norm(x, x.shape[1]), (2, 3)),
    "instance_norm": (F.instance_norm, (2, 3)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (0, 2, 3)),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["tree", "kahan"])
@pytest.mark.parametrize("norm", NORMS)
def test_norms_keep_their_digits_about_large_means(norm, method, device):
    f, dims = NORMS[norm]
    for mean in (0.0, 1e4, -1e6):
        x = mean + randn(4, 6, 9, 11, device=device)
        exact = x.double()
        var, middle = torch.var_mean(exact, dims, correction=0, keepdim=True)
        exact = (exact - middle) / (var + 1e-5).sqrt()
        with deterministic(method):
            assert (f(x).double() - exact).abs().max() < 1e-6
    with deterministic(method):  # squares leave f32
        assert 2 < f(1e30 * randn(4, 6, 9, 11, device=device)).abs().max() < 5


@pytest.mark.parametrize("device", DEVICES)
def test_layer_norm_is_one_function(device):
    x, w = (300 + randn(16, 96, device=device)).half(), 1 + randn(96, device=device).half()
    with deterministic():
        wanted = torch.native_layer_norm(x, (96,), w, None, 1e-5)
        mixed = torch.native_layer_norm(x, (96,), w.float(), None, 1e-5)
    with deterministic("kahan"):
        by_kahan = torch.native_layer_norm(x, (96,), w, None, 1e-5)
    assert all(map(same, mixed, wanted)) and all(map(same, by_kahan, wanted))


def test_means_of_integers_go_into_no_tensor():
    with deterministic(), pytest.raises(RuntimeError, match="could not infer output dtype"):
        torch.mean(torch.arange(6).view(2, 3), 0, out=torch.empty(0))
