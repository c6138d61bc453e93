"""strict: what it lets through, what it refuses, and that it changes no bits."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold.torch
import hunt_strict
from bitfold.torch import _mode
from test_torch_mode import FAKES, FUNCTIONS, kind, off_afterwards, randn  # noqa: F401
from torch_helpers import DEVICES, same

NotCovered, deterministic = bitfold.torch.NotCovered, bitfold.torch.deterministic
INTS = torch.arange(12).reshape(3, 4)

# ---- What depends on the batch -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_nothing_that_strict_lets_through_depends_on_the_batch():
    """A part of what hunt_strict.py asks."""
    passed, found = 0, []
    with deterministic(strict=True):
        for op in hunt_strict.operators():
            calls, differ = hunt_strict.differences(
                op, (torch.float32, torch.bfloat16, torch.int32, torch.complex64), (37,), most=5
            )
            passed, found = passed + calls, found + differ
    assert not found
    assert passed > 3000


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_a_quotient_rounded_to_an_integer(mode, dtype):
    x, y = 10 * randn(512, dtype=dtype), randn(512, seed=1, dtype=dtype)
    with deterministic():
        each = [torch.div(a, b, rounding_mode=mode) for a, b in zip(x.split(1), y.split(1))]
        together = torch.div(x, y, rounding_mode=mode)
        assert not same(together, torch.cat(each))  # else strict need not refuse it
    with deterministic(strict=True):
        for f in (
            lambda: torch.div(x, y, rounding_mode=mode),
            lambda: x.div_(y[:1], rounding_mode=mode),
            lambda: x // y,
        ):
            with pytest.raises(NotCovered, match=r"aten::(floor_divide|div_?)\b.*its place"):
                f()
        x / y, x // 0.3, x // y[0], torch.div(x.float(), y.float(), rounding_mode=mode)


def test_strict_sees_what_functions_call():
    x = randn(64, 300)
    norm = lambda x, **out: torch.linalg.vector_norm(x, 3, dim=1, **out)
    with deterministic():
        alone = torch.cat([norm(row) for row in x.split(1)])
        assert not same(norm(x), alone)  # else strict need not refuse it
    for f in (
        norm,
        lambda x: norm(x, out=torch.empty(64)),
        lambda x: torch.dist(x, x + 1, 3),
        lambda x: x.renorm(3, 0, 1.0),
    ):
        told = r"aten::pow.*, which aten::\w+.* calls: .*allow=\('\w+',\)"
        with deterministic(strict=True), pytest.raises(NotCovered, match=told):
            f(x)
        with deterministic(strict=True, allow=("linalg_vector_norm", "dist", "renorm")):
            f(x)
        with deterministic(strict=True, allow="pow"):
            f(x)
    with deterministic(strict=True):
        for p in (0, 1, 2, math.inf, -math.inf):
            torch.linalg.vector_norm(x, p, dim=1), torch.dist(x, x + 1, p)
        with deterministic():
            norm(x)
        with pytest.raises(NotCovered):
            norm(x)
    norm(x)


def test_strict_sees_what_functions_call_in_compiled_code():
    x = randn(4, 5).requires_grad_()
    norm = torch.compile(lambda x: torch.linalg.vector_norm(x.exp(), 3, dim=1), backend="aot_eager")
    with deterministic(strict=True), pytest.raises(NotCovered, match="aten::pow"):
        norm(x)


# ---- What is allowed -----------------------------------------------------------------------------


@pytest.fixture
def own_operator():
    with torch.library._scoped_library("bitfold_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.define("twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        library.impl("twice", lambda x: x + x, "CPU")
        library.impl("twice.out", lambda x, *, out: out.copy_(x + x), "CPU")
        yield torch.ops.bitfold_test.twice


def test_what_strict_advises_is_taken(own_operator):
    x = randn(3, 3)
    for f in (
        lambda: x.trace(),
        lambda: torch.cumprod(x, 0, out=torch.empty(3, 3)),
        lambda: x.cumsum_(0),
        lambda: own_operator(x),
    ):
        with deterministic(strict=True), pytest.raises(NotCovered) as refused:
            f()
        printed, _, rest = str(refused.value).partition(": ")
        for allow in (eval(rest.rpartition("allow=")[2]), printed):
            with deterministic(strict=True, allow=allow):
                f()


def test_names_that_are_allowed(own_operator):
    x = randn(3, 3)
    for allow in ("trace", "trace.default", "aten::trace", "aten::trace.default"):
        with deterministic(strict=True, allow=allow):
            x.trace()
            with pytest.raises(NotCovered):
                x.cumsum(0)
    some = ("cumprod.out", "bitfold_test::twice.out", "c10d::allgather_")
    with deterministic(strict=True, allow=some):
        own_operator.out(x, out=x)
        torch.cumprod(x, 0, out=torch.empty(3, 3))
        for f in (lambda: x.cumprod(0), lambda: own_operator(x)):
            with pytest.raises(NotCovered):
                f()
    no_aten = ("allgather_", "twice", "aten::matmull", "mm.mm", "", "::")
    for unknown in (*no_aten, "bitfold_test::mm", "bitfold_test::twice.in"):
        with pytest.raises(ValueError, match=f"^allow: torch has no operator {unknown}"):
            bitfold.torch.enable(strict=True, allow=unknown)


@pytest.fixture
def one_process():
    if not torch.distributed.is_available():
        pytest.skip("no torch.distributed here")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_data_parallel_training_needs_no_leave(one_process):
    with deterministic(strict=True):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
        model(torch.ones(3, 4)).sum().backward()


# ---- The same bits as without it -----------------------------------------------------------------

MORE = FUNCTIONS | {
    "prod with zeros": lambda x, w: (x * (x.detach() > -2)).prod(1),
    "prod of all, a zero": lambda x, w: (1 + x[:1] / 9).where(x[:1] < 2, 0).prod() * w,
    "masked_fill": lambda x, w: x.repeat(9, 9).masked_fill(x.repeat(9, 9) > 0, w[0]),
    "nll_loss none": lambda x, w: F.cross_entropy(
        x, (w > 0).long().repeat(2)[:40], reduction="none"
    ),
    "smoothed": lambda x, w: F.cross_entropy(
        x, (w > 0.9).long().repeat(2)[:40], w.detach(), ignore_index=0, label_smoothing=0.1
    ),
}

if "NotImplemented" in type(torch.ones(2, requires_grad=True).aminmax().min.grad_fn).__name__:
    del MORE["aminmax"]  # of PyTorch's older than 2.12


def run_all(xs, ws):
    outs = [f(x, w) for f, x, w in zip(MORE.values(), xs, ws, strict=True)]
    return [
        [t for t in (out if isinstance(out, tuple) else (out,)) if t.is_floating_point()]
        for out in outs
    ]


def with_gradients(run, device):
    n = len(MORE)
    xs, ws = (
        [t.clone().to(device).requires_grad_() for _ in range(n)]
        for t in (randn(40, 27), 0.5 + randn(27, seed=1).abs())
    )
    outs = run(xs, ws)
    seeds = [randn(1, t.numel()).reshape(t.shape).to(device) for out in outs for t in out]
    grads = torch.autograd.grad(
        [t for out in outs for t in out], [*xs, *ws], seeds, allow_unused=True
    )
    return {
        name: [*outs[k], *(g for g in (grads[k], grads[n + k]) if g is not None)]
        for k, name in enumerate(MORE)
    }


@pytest.mark.parametrize("device", DEVICES)
def test_strict_and_compilers_change_no_bits(device):
    with deterministic():
        plain = with_gradients(run_all, device)
        compiled = with_gradients(
            torch.compile(run_all, backend="aot_eager", fullgraph=True), device
        )
    with deterministic(strict=True):
        strict = with_gradients(run_all, device)
    for other in (compiled, strict):
        assert not [name for name in MORE if not all(map(same, plain[name], other[name]))]


ALLOWED = ("linalg_vector_norm", "_addmm_activation", "_transformer_encoder_layer_fwd")
OPERATORS = [(name, call) for name, calls in FAKES.items() for call in calls if _mode.find(name)]


def run_operators(arguments):
    return [
        _mode.find(name)(*args, **kwargs)
        for (name, _), (args, kwargs) in zip(OPERATORS, arguments, strict=True)
    ]


def test_strict_changes_no_bits_of_operators():
    arguments = [call for _, call in OPERATORS]
    with deterministic():
        plain = run_operators(arguments)
    with deterministic(strict=True, allow=ALLOWED):
        strict = run_operators(arguments)
    for (name, _), a, b in zip(OPERATORS, plain, strict, strict=True):
        a, b = (
            [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)] for out in (a, b)
        )
        assert len(a) == len(b) and all(map(same, a, b)), name


# ---- What need not be refused --------------------------------------------------------------------

X, Y = randn(6, 40), randn(6, 40, seed=1)
FREQUENCIES = 0.7 ** torch.arange(40)


def rotary(x):
    """As Llama's: each pair of numbers turned by an angle, which is its place times a frequency."""
    places = torch.arange(x.shape[-2])[None, None].float()
    frequencies = FREQUENCIES[None, : x.shape[-1] // 2, None]
    angles = torch.cat(2 * [(frequencies @ places).mT], -1)
    halves = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-halves[1], halves[0]], -1) * angles.sin()


def optimized(name, **how):
    p = torch.nn.Parameter(X.clone())
    p.grad = Y.clone()
    getattr(torch.optim, name)([p], **how).step()


def scaled(found=torch.zeros(1)):
    torch._amp_foreach_non_finite_check_and_unscale_([X.clone()], found, torch.tensor(0.5))
    torch._amp_update_scale_(
        torch.tensor(8.0), torch.zeros(1, dtype=torch.int32), found, 2.0, 0.5, 1
    )


#: Of a sample among others, and by themselves.
PASSES = {
    **{
        f"{name} of integers": f
        for name, f in {
            "mm": lambda: INTS @ INTS.mT,
            "bmm": lambda: torch.bmm(INTS[None], INTS.mT[None]),
            "addmm": lambda: torch.addmm(INTS[:, :3], INTS, INTS.mT, beta=2),
            "mv": lambda: INTS @ INTS[0],
            "cumsum": lambda: INTS.cumsum(0),
            "cumsum_": lambda: INTS.clone().cumsum_(1),
            "cumprod": lambda: INTS.cumprod(1),
            "trace": lambda: INTS.trace(),
            "bincount": lambda: torch.bincount(INTS[0]),
            "cumsum of bool": lambda: (INTS > 3).cumsum(1),
            "convolution": lambda: F.conv1d(INTS[None], INTS[None, :, :2]),
            "avg_pool2d": lambda: F.avg_pool2d(INTS[None], 2),
            "einsum": lambda: torch.einsum("ij,kj->ik", INTS, INTS),
        }.items()
    },
    "histc": lambda: X.histc(10, -2, 2),
    "hash_tensor": lambda: (X.hash_tensor(), INTS.hash_tensor()),
    "mode": lambda: X.mode(1),
    "allclose": lambda: torch.allclose(X, Y),
    "as they are": lambda: [f(X) for f in (F.relu, torch.tanh, F.hardswish, torch.exp, torch.erf, F.leaky_relu, F.dropout, F.logsigmoid)],
    "Adagrad": lambda: optimized("Adagrad", fused=True),
    "GradScaler": scaled,
    "cross": lambda: torch.linalg.cross(X[:3], Y[:3], dim=0),
    "nearest-exact": lambda: [
        F.interpolate(X.reshape(1, 1, *shape), scale_factor=1.7, mode="nearest-exact")
        for shape in ((240,), (6, 40), (6, 4, 10))
    ],
    "max_unpool2d": lambda: F.max_unpool2d(*F.max_pool2d(X[None], 2, return_indices=True), 2),
    "max_unpool3d": lambda: F.max_unpool3d(
        *F.max_pool3d(X.reshape(1, 6, 4, 10), 2, return_indices=True), 2
    ),
    "copies": lambda: (
        torch.diagonal_copy(X),
        torch.t_copy(X),
        torch.unsqueeze_copy(X, 0),
        torch.narrow_copy(X, 0, 1, 2),
        torch.as_strided_copy(X, (2, 2), (1, 2)),
        torch.unbind_copy(X),
    ),
    "rotary": lambda: (rotary(X), rotary(torch.stack([X, Y]))),
    "dist": lambda: (torch.dist(X, Y), X.renorm(2, 0, 1.0)),
    "types": lambda: (
        torch.promote_types(torch.int8, X.dtype),
        torch.can_cast(X.dtype, torch.int8),
        X.is_set_to(Y),
    ),
    "in place": lambda: (
        X.clone().abs_(),
        X.clone().eq_(Y),
        F.threshold_(X.clone(), 0, 1),
        X.clone().floor_divide_(Y),
        torch.rsub(X, Y),
        X.clone().copysign_(Y),
    ),
    "out": lambda: [
        f(X, out=torch.empty(0)) for f in (torch._C._nn.hardtanh, torch._C._nn.leaky_relu)
    ],
    "draws": lambda: (torch.poisson(X.abs()), X.clone().cauchy_(), X.clone().geometric_(0.5)),
    "packed": lambda: torch.nn.utils.rnn.pack_padded_sequence(
        X, [6, 5, 5, 4, 3, 2], batch_first=True
    ),
    "embedding_bag": lambda: [bag(mode) for mode in ("sum", "mean", "max")],
    "forward mode": lambda: torch.func.jvp(F.linear, (X, Y), (Y, X)),
    "second derivatives": lambda: torch.func.hessian(lambda x: (x @ x @ x).sum())(X[:, :6]),
}


def bag(mode):
    table = X.clone().requires_grad_()
    F.embedding_bag(
        torch.tensor([0, 3, 3]), table, torch.tensor([0, 1]), mode=mode
    ).sum().backward()


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.filterwarnings("ignore")
def test_what_strict_lets_through(name):
    with deterministic(strict=True):
        PASSES[name]()


#: Alike, and refused.
REFUSED = {
    "cumsum": lambda: INTS.cumsum(0, dtype=torch.float32),
    "bincount": lambda: torch.bincount(INTS[0], X[0, :4]),
    "trace": lambda: X[:3, :3].trace(),
    "cumsum of integers": lambda: torch.cumsum(INTS, 0, out=torch.empty(3, 4)),
    "histc": lambda: torch.zeros((1 << 24) + 1).histc(2),
    "add": lambda: INTS.add(0.7, alpha=0.3),
    "pow": lambda: INTS**0.5,
    "mul": lambda: torch.view_as_complex(X.reshape(-1, 2)) * 1j,
    "add alpha by a number": lambda: X.add(0.7, alpha=0.3),
    "add alpha by a row": lambda: X.add(Y[0], alpha=0.3),
    "sub alpha expanded": lambda: X.sub(Y[:, :1].expand(6, 40), alpha=0.3),
    "add alpha of a half type": lambda: X.bfloat16().add(Y.bfloat16(), alpha=0.3),
    "add alpha of complex numbers": lambda: torch.view_as_complex(X.reshape(-1, 2)).add(torch.view_as_complex(Y.reshape(-1, 2)), alpha=0.3),
    "functions of lists": lambda: torch._foreach_sigmoid([X]),
    "add alpha of lists": lambda: torch._foreach_add([X.half()], [Y.half()], alpha=0.3),
    "cross": lambda: torch.linalg.cross(
        *torch.view_as_complex(torch.stack([X[:3], Y[:3]], -1)).expand(2, 3, 40), dim=0
    ),
    "soft_margin_loss": lambda: F.soft_margin_loss(
        torch.view_as_complex(X.reshape(-1, 2)), torch.ones(120)
    ),
    "tanh_backward": lambda: torch.ops.aten.tanh_backward(X, Y[:, :1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_strict_refuses(name):
    with deterministic(strict=True), pytest.raises(NotCovered):
        REFUSED[name]()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_products_on_a_gpu():
    """torch's setting for the precision of products on a GPU does not concern bitfold's."""
    column, row, before = torch.tensor([[0.0], [1.0]]), torch.tensor([[-1.0, 1.0]]), torch.get_float32_matmul_precision()
    pairs = [(X, Y.mT), (-X[:, :1].abs(), Y[:1].abs()), (column, row)]
    with deterministic(strict=True):
        wanted = [a @ b for a, b in pairs]
        try:
            for precision in (before, "medium"):
                torch.set_float32_matmul_precision(precision)
                assert all(same((a.cuda() @ b.cuda()).cpu(), w) for (a, b), w in zip(pairs, wanted))
        finally:
            torch.set_float32_matmul_precision(before)


def test_inference_mode():
    x, target = randn(4, 6), torch.arange(4)
    functions = (
        lambda: x.softmax(1),
        lambda: F.cross_entropy(x, target),
        lambda: F.layer_norm(x, (6,)),
        lambda: F.mse_loss(x, x + 1),
        lambda: F.dropout(x, 0.0),
        lambda: F.cosine_similarity(x, x + 1),
        lambda: F.batch_norm(x, None, None, training=True),
        lambda: INTS @ INTS.mT,
        lambda: x.reshape(3, 8).std(),
        lambda: x @ x.mT,
        lambda: F.linear(x, x),
    )
    with deterministic():
        wanted = [f() for f in functions]
    with torch.inference_mode(), deterministic(strict=True):
        assert all(same(f(), w) for f, w in zip(functions, wanted))
        for f, name in (
            (lambda: x.trace(), "trace"),
            (lambda: torch.linalg.vector_norm(x, 3), "pow"),
        ):
            with pytest.raises(NotCovered, match=f"aten::{name}"):
                f()


# ---- What torch refuses --------------------------------------------------------------------------


def refusals(dtype):
    x, at, zeros = INTS.to(dtype), torch.arange(3), torch.zeros(3, dtype=torch.int64)
    yield from (
        (f"mse_loss {r}", lambda r=r: F.mse_loss(x, x, reduction=r))
        for r in ("none", "mean", "sum")
    )
    yield from (
        (f"embedding_bag {m}", lambda m=m: F.embedding_bag(at, x, at[:1], mode=m))
        for m in ("sum", "mean", "max")
    )
    yield (
        "embedding_bag's gradient",
        lambda: torch.ops.aten._embedding_bag_dense_backward(
            x[:1], at, zeros, at[:1], at[:0], 5, False, 0, None
        ),
    )
    yield (
        "of its weights",
        lambda: torch.ops.aten._embedding_bag_per_sample_weights_backward(
            x[:1], x, at, at[:1], zeros, 0
        ),
    )
    yield from (
        (f"index_add {a}", lambda a=a: x.index_add(0, at, x, alpha=a))
        for a in (0.5, 2, -0.5, math.nan, 300, True)
    )
    yield "norm", lambda: torch.norm(x, dtype=torch.float32)
    yield from (
        (
            f"{f} gradient",
            lambda f=f: getattr(torch.ops.aten, f"_{f}_backward_data")(x, x, 0, dtype),
        )
        for f in ("softmax", "log_softmax")
    )
    yield (
        "mean at places",
        lambda: (x.scatter_reduce(0, at[None], x, "mean"), x.index_reduce(0, at, x, "mean")),
    )
    yield "dot", lambda: torch.dot(x[0], x[0])


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_integers_are_refused_as_torch_refuses_them(dtype):
    for name, f in refusals(dtype):
        wanted = kind(f)
        with deterministic():
            assert kind(f) == wanted, name


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("alpha", [0.5, 1, 1.5, 2, 3.7, 0])
def test_alpha_is_of_the_type_of_the_numbers(alpha, dtype):
    x, add = (
        INTS.to(dtype),
        lambda x: torch.zeros_like(x).index_add(0, torch.tensor([0, 0, 2]), x, alpha=alpha),
    )
    wanted = add(x)
    with deterministic():
        assert same(add(x), wanted)
