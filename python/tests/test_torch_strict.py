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
            calls, differ = hunt_strict.differences(op, (torch.float32, torch.bfloat16, torch.int32), (37,), most=5)
            passed, found = passed + calls, found + differ
    assert not found
    assert passed > 3000


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_a_quotient_rounded_to_an_integer(mode, dtype):
    x, y = 10 * randn(512, dtype=dtype), randn(512, seed=1, dtype=dtype)
    with deterministic():
        alone = torch.cat([torch.div(a, b, rounding_mode=mode) for a, b in zip(x.split(1), y.split(1))])
        assert not same(torch.div(x, y, rounding_mode=mode), alone)  # else strict need not refuse it
    with deterministic(strict=True):
        for f in (lambda: torch.div(x, y, rounding_mode=mode), lambda: x.div_(y[:1], rounding_mode=mode), lambda: x // y):
            with pytest.raises(NotCovered, match=r"aten::(floor_divide|div_?)\b.*its place in memory"):
                f()
        x / y, x // 0.3, x // y[0], torch.div(x.float(), y.float(), rounding_mode=mode)


def test_strict_sees_what_functions_call():
    x = randn(64, 300)
    norm = lambda x, **out: torch.linalg.vector_norm(x, 3, dim=1, **out)
    with deterministic():
        assert not all(same(norm(row), n) for row, n in zip(x.split(1), norm(x).split(1)))  # else strict need not
    for f in (norm, lambda x: norm(x, out=torch.empty(64)), lambda x: torch.dist(x, x + 1, 3), lambda x: x.renorm(3, 0, 1.0)):
        with deterministic(strict=True), pytest.raises(NotCovered, match=r"aten::pow.*, which aten::\w+.* calls: .*allow=\('\w+',\)"):
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
    for f in (lambda: x @ x, lambda: torch.mm(x, x, out=torch.empty(3, 3)), lambda: x.cumsum_(0), lambda: own_operator(x)):
        with deterministic(strict=True), pytest.raises(NotCovered) as refused:
            f()
        advice = str(refused.value).rpartition("allow=")[2]
        for allow in (eval(advice), str(refused.value).partition(": ")[0]):  # and the name that it prints
            with deterministic(strict=True, allow=allow):
                f()


def test_names_that_are_allowed(own_operator):
    x = randn(3, 3)
    for allow in ("mm", "mm.default", "aten::mm", "aten::mm.default"):
        with deterministic(strict=True, allow=allow):
            x @ x
            with pytest.raises(NotCovered):
                x.cumsum(0)
    with deterministic(strict=True, allow=("mm.out", "bitfold_test::twice.out", "c10d::allgather_")):
        own_operator.out(x, out=x)
        for f in (lambda: x @ x, lambda: own_operator(x)):
            with pytest.raises(NotCovered):
                f()
    for unknown in ("allgather_", "twice", "aten::matmull", "mm.mm", "bitfold_test::mm", "bitfold_test::twice.in", "", "::"):
        with pytest.raises(ValueError, match=f"^allow: torch has no operator {unknown}"):
            bitfold.torch.enable(strict=True, allow=unknown)


@pytest.fixture
def one_process():
    if not torch.distributed.is_available():
        pytest.skip("no torch.distributed here")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_data_parallel_training_is_allowed(one_process):
    x, advised = torch.ones(3, 4), {"addmm", "mm"}

    def train():
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
        model(x).sum().backward()

    for _ in range(4):
        with deterministic(strict=True, allow=advised):
            try:
                train()
            except NotCovered as e:
                advised |= set(eval(str(e).rpartition("allow=")[2]))
    with deterministic(strict=True, allow=advised):
        train()
    assert {"c10d::allreduce_", "c10d::broadcast_"} < advised


# ---- The same bits as without it -----------------------------------------------------------------

MORE = FUNCTIONS | {
    "prod with zeros": lambda x, w: (x * (x.detach() > -2)).prod(1), "prod of all, a zero": lambda x, w: (1 + x[:1] / 9).where(x[:1] < 2, 0).prod() * w,
    "masked_fill": lambda x, w: x.masked_fill(x.detach() > 0, w[0]), "nll_loss none": lambda x, w: F.cross_entropy(x, (w > 0).long().repeat(2)[:40], reduction="none"),
    "smoothed": lambda x, w: F.cross_entropy(x, (w > 0.9).long().repeat(2)[:40], w.detach(), ignore_index=0, label_smoothing=0.1),
}  # fmt: skip


def run_all(xs, ws):
    outs = [f(x, w) for f, x, w in zip(MORE.values(), xs, ws, strict=True)]
    return [[t for t in (out if isinstance(out, tuple) else (out,)) if t.is_floating_point()] for out in outs]


def with_gradients(run, device):
    n = len(MORE)
    xs, ws = ([t.to(device).requires_grad_() for _ in range(n)] for t in (randn(40, 27), 0.5 + randn(27, seed=1).abs()))
    outs = run(xs, ws)
    seeds = [torch.linspace(0.3, 1.7, t.numel(), device=device).reshape(t.shape) for out in outs for t in out]
    grads = torch.autograd.grad([t for out in outs for t in out], [*xs, *ws], seeds, allow_unused=True)
    return {name: [*outs[k], *(g for g in (grads[k], grads[n + k]) if g is not None)] for k, name in enumerate(MORE)}


@pytest.mark.parametrize("device", DEVICES)
def test_strict_and_compilers_change_no_bits(device):
    with deterministic():
        plain = with_gradients(run_all, device)
        compiled = with_gradients(torch.compile(run_all, backend="aot_eager", fullgraph=True), device)
    with deterministic(strict=True):
        strict = with_gradients(run_all, device)
    for other in (compiled, strict):
        assert not [name for name in MORE if not all(map(same, plain[name], other[name]))]


OPERATORS = [(name, call) for name, calls in FAKES.items() for call in calls if _mode.find(name)]


def run_operators(arguments):
    return [_mode.find(name)(*args, **kwargs) for (name, _), (args, kwargs) in zip(OPERATORS, arguments, strict=True)]


def test_strict_changes_no_bits_of_operators():
    arguments = [call for _, call in OPERATORS]
    with deterministic():
        plain = run_operators(arguments)
    with deterministic(strict=True, allow="linalg_vector_norm"):
        strict = run_operators(arguments)
    for (name, _), a, b in zip(OPERATORS, plain, strict, strict=True):
        a, b = ([t for t in torch.utils._pytree.tree_leaves(out) if t is not None] for out in (a, b))
        assert len(a) == len(b) and all(map(same, a, b)), name
