"""Products of matrices under bitfold.torch.deterministic(), on CPUs: whose bits they have, and that these know no batch, layout or threads."""

from __future__ import annotations

import itertools
import math

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold
import bitfold.torch
from bitfold.torch import _engine
from test_torch_mode import off_afterwards  # noqa: F401
from samples import some_of
from torch_helpers import COMPLEX, INTEGERS, SIZES, numbers, randn, same, threads

deterministic, FLOATS = bitfold.torch.deterministic, _engine.FLOATS
MATH = torch.nn.attention.SDPBackend.MATH


# ---- Whose bits they have ------------------------------------------------------------------------


def exact_or_fixed(method):
    return "exact" if method == "exact" else "fixed"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("method", ["tree", "kahan", "exact"])
def test_bits_are_those_of_matmul(method, dtype):
    a, b, x = (numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate([(3, 5, 70), (3, 70, 9), (70,)]))
    with deterministic(method):
        found = [a[0] @ b[0], a @ b, a[0] @ x, torch.einsum("bij,bjk->bik", a, b), a @ b[0], F.linear(a, b[0].t())]
    by = exact_or_fixed(method)
    wanted = [bitfold.matmul(p, q, method=by) for p, q in [(a[0], b[0]), (a, b), (a[0], x), (a, b), (a, b[0]), (a, b[0])]]
    assert all(map(same, found, wanted))


def added(dtype):
    """Functions of beta and alpha, the addend, and the operands."""
    a, b, x, y = (numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate([(3, 5, 70), (3, 70, 9), (70,), (5,)]))
    for c in (numbers(9, dtype=dtype, seed=7), numbers(5, 9, dtype=dtype, seed=8), numbers(5, 1, dtype=dtype, seed=9)):
        yield lambda c=c, **s: torch.addmm(c, a[0], b[0], **s), c, a[0], b[0]
        yield lambda c=c, **s: torch.baddbmm(c, a, b, **s), c, a, b
        yield lambda c=c, **s: torch.addbmm(c, a, b, **s), c, torch.cat(list(a), 1), torch.cat(list(b))
        yield lambda c=c, **s: torch.addr(c, y, b[0, 0], **s), c, y[:, None], b[0, :1]
    yield lambda **s: torch.addmv(y, a[0], x, **s), y, a[0], x


def test_transforms_round_the_product_before_the_bias_is_added():
    """As docs/pytorch.md says: torch makes two operators there."""
    x, w, b = numbers(6, 200), numbers(200, 5, seed=1), numbers(5, seed=2)
    of_a_row = lambda row: F.linear(row, w.t(), b)
    with deterministic():
        once, twice = torch.addmm(b, x, w), x @ w + b
        assert not same(once, twice)
        for f in (lambda row: torch.addmm(b, row[None], w)[0], of_a_row):
            assert same(torch.func.vmap(f)(x), twice)
        assert same(torch.func.jvp(of_a_row, (x[0],), (x[0],))[0], twice[0])
        assert same(torch.func.vjp(of_a_row, x)[0], once)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_an_addend_is_rounded_once_with_the_product(dtype):
    with deterministic():
        for f, c, a, b in added(dtype):
            assert same(f(), bitfold.matmul(a, b, addend=c))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("method", ["tree", "exact"])
def test_beta_and_alpha(method, dtype):
    """Each step is rounded, in f32 of half types."""
    wide = _engine.wide(dtype)
    with deterministic(method):
        for f, c, a, b in added(dtype):
            product = bitfold.matmul(a, b, method=exact_or_fixed(method), dtype=str(wide).removeprefix("torch."))
            for beta, alpha in itertools.product((0, 1, 0.3, -1), (1, -2, 0.7, 0)):
                if (beta, alpha) == (1, 1) and method != "exact":
                    continue
                scaled = product * torch.tensor(alpha, dtype=wide)
                wanted = (scaled + c.to(wide) * torch.tensor(beta, dtype=wide) if beta else scaled).to(dtype)
                assert same(f(beta=beta, alpha=alpha), wanted.expand(f().shape)), (beta, alpha)


@pytest.mark.parametrize("of", [{"beta": 1j}, {"alpha": 3 + 1j}, {"beta": 1000, "dtype": torch.int8}])
def test_a_beta_or_alpha_of_no_such_type_is_torchs_error(of):
    x = torch.ones(2, 2, dtype=of.pop("dtype", torch.float32))
    with deterministic(), pytest.raises(RuntimeError, match="cannot be converted"):
        torch.addmm(x, x, x, **of)


def test_a_beta_of_zero_ignores_the_addend():
    a, b = numbers(5, 30), numbers(30, 4, seed=1)
    with deterministic():
        for nothing in (torch.nan, torch.inf):
            c = torch.full((5, 4), nothing)
            assert same(torch.addmm(c, a, b, beta=0), a @ b) and same(torch.addmv(c[:, 0], a, b[:, 0], beta=0), a @ b[:, 0])
            assert same(torch.baddbmm(c, a[None], b[None], beta=0)[0], a @ b)
            assert torch.addmm(c, a, b).isfinite().logical_not().all()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype):
    a, b = numbers(5, 30, dtype=dtype), numbers(30, 4, dtype=dtype, seed=1)
    batch_a, batch_b, c = a.expand(2, 5, 30), b.expand(2, 30, 4), numbers(5, 4, dtype=dtype, seed=2)
    functions = [
        lambda: a @ b, lambda: batch_a @ batch_b, lambda: a @ b[:, 0], lambda: torch.addmm(c, a, b), lambda: torch.addmm(c, a, b, beta=3, alpha=-2),
        lambda: torch.baddbmm(c, batch_a, batch_b, beta=0), lambda: torch.addmv(c[:, 0], a, b[:, 0]), lambda: torch.addr(c, a[:, 0], b[0]),
        lambda: a[:, :0] @ b[:0],
    ]  # fmt: skip
    wanted = [f() for f in functions]
    with deterministic(strict=True):
        found = [f() for f in functions]
    assert all(map(same, found, wanted))
    scaled = outcome(lambda: torch.addmm(c, a, b, alpha=0.5))
    with deterministic(strict=True):  # torch's own, whose sums are exact, too
        found = outcome(lambda: torch.addmm(c, a, b, alpha=0.5))
    assert found is scaled or same(found, scaled)


def outcome(f):
    """Or the error's type."""
    try:
        return f()
    except RuntimeError as error:
        return type(error)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers(dtype):
    """Both parts are sums of products that are rounded once."""
    a, b, c = (numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate([(5, 30), (30, 4), (5, 4)]))
    with deterministic(strict=True):
        found, with_addend, conjugated = a @ b, torch.addmm(c, a, b), a.conj() @ b.conj()
        scaled, vector = torch.addmm(c, a, b, beta=0.5, alpha=2), a @ b[:, 0]
        batch, whole = torch.bmm(a[None], b[None]), torch.complex((100 * a.real).round(), (100 * a.imag).round())
        integers = whole @ whole.mT
    rows = torch.cat([a.real, a.imag], 1)
    re, im = torch.cat([b.real, -b.imag]), torch.cat([b.imag, b.real])
    assert same(found, torch.complex(bitfold.matmul(rows, re), bitfold.matmul(rows, im)))
    assert same(with_addend, torch.complex(bitfold.matmul(rows, re, addend=c.real), bitfold.matmul(rows, im, addend=c.imag)))
    assert same(conjugated, found.conj().resolve_conj()) and same(batch[0], found) and same(vector, found[:, 0])
    assert same(torch.view_as_real(scaled), 2 * torch.view_as_real(found) + 0.5 * torch.view_as_real(c))
    assert same(integers, (whole.to(torch.complex128) @ whole.mT.to(torch.complex128)).to(dtype))
    turned = torch.addmm(c, a, b, alpha=1j)
    with deterministic():
        assert same(torch.addmm(c, a, b, alpha=1j), turned)
    with deterministic(strict=True), pytest.raises(bitfold.torch.NotCovered, match="complex beta or alpha"):
        torch.addmm(c, a, b, alpha=1j)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_is_not_finite(dtype):
    inf, nan = torch.inf, torch.nan
    a = torch.tensor([[1, 2], [inf, 1], [-inf, inf], [nan, 0], [0, 0], [inf, 0]], dtype=dtype)
    b = torch.tensor([[1, 0, inf, -1, nan], [1, 1, -1, inf, 0]], dtype=dtype)
    wanted = a.double() @ b.double()
    with deterministic():
        found = a @ b
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int32], ids=str)
def test_no_elements(dtype):
    make = lambda *shape: torch.ones(shape, dtype=dtype)
    functions = [
        lambda: make(3, 0) @ make(0, 4), lambda: make(0, 3) @ make(3, 4), lambda: make(3, 4) @ make(4, 0), lambda: torch.bmm(make(0, 2, 3), make(0, 3, 4)),
        lambda: torch.bmm(make(2, 2, 0), make(2, 0, 4)), lambda: torch.addmm(make(4), make(3, 0), make(0, 4)), lambda: torch.addmm(make(3, 4), make(3, 0), make(0, 4), beta=2),
        lambda: torch.mv(make(3, 0), make(0)), lambda: torch.addmv(make(3), make(3, 0), make(0)), lambda: torch.addbmm(make(3, 4), make(0, 3, 2), make(0, 2, 4)),
        lambda: torch.addr(make(0, 4), make(0), make(4)), lambda: F.linear(make(2, 0, 3), make(4, 3)),
    ]  # fmt: skip
    wanted = [f() for f in functions]
    with deterministic(strict=True):
        found = [f() for f in functions]
    assert all(map(same, found, wanted))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.mm(x, x),
        lambda x: torch.mm(x[None], x.t()),
        lambda x: torch.mm(x, x.t().double()),
        lambda x: torch.bmm(x[None], x.t().expand(2, 4, 3)),
        lambda x: torch.addmm(x, x, x.t()),
        lambda x: torch.addmv(x[0], x, x[0]),
        lambda x: torch.mv(x, x),
        lambda x: torch.addr(x, x[0], x[0]),
        lambda x: torch.mm(x > 0, (x > 0).t()),
        lambda x: torch.mm(x, x.t(), out=torch.empty(3, 3, dtype=torch.float64)),
        lambda x: F.linear(x, x.t()),
    ],
)
def test_errors_are_torchs(f):
    x = numbers(3, 4)
    with pytest.raises(Exception) as wanted:
        f(x)
    with deterministic(), pytest.raises(type(wanted.value)) as found:
        f(x)
    assert str(found.value).split("\n")[0] == str(wanted.value).split("\n")[0]


# ---- What they do not know -----------------------------------------------------------------------

#: Of samples (n, 24, 75) and what they share, (75, 40), (40,) and (24, 75): a result for each sample.
OF_SAMPLES = {
    "mm": lambda x, w, b, y: (x[:, 0] @ w),
    "mv": lambda x, w, b, y: x[:, 0] @ w[:, 0],
    "bmm": lambda x, w, b, y: torch.bmm(x, y.mT.expand(len(x), 75, 24)),
    "matmul": lambda x, w, b, y: x @ w,
    "addmm": lambda x, w, b, y: torch.addmm(b, x[:, 0], w),
    "addmm scaled": lambda x, w, b, y: torch.addmm(b, x[:, 0], w, beta=0.3, alpha=0.7),
    "baddbmm": lambda x, w, b, y: torch.baddbmm(y[:, :24], x, y.mT.expand(len(x), 75, 24)),
    "addmv": lambda x, w, b, y: torch.addmv(x[:, 0, 0], x[:, 0], w[:, 0]),
    "addr": lambda x, w, b, y: torch.addr(x[:, 0, :40], x[:, 0, 0], b),
    "linear": lambda x, w, b, y: F.linear(x, w.t(), b),
    "linear across": lambda x, w, b, y: F.linear(x.transpose(0, 1), w.t(), b).transpose(0, 1),
    "einsum": lambda x, w, b, y: torch.einsum("bij,jk->bki", x, w),
    "tensordot": lambda x, w, b, y: torch.tensordot(x, w, 1),
    "bilinear by products": lambda x, w, b, y: torch.einsum("bi,ik,bk->bk", x[:, 0], w, x[:, 1, :40]),
}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("name", OF_SAMPLES)
def test_a_sample_knows_no_others(name, dtype):
    f, x = OF_SAMPLES[name], numbers(max(SIZES), 24, 75, dtype=dtype)
    shared = [numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate([(75, 40), (40,), (24, 75)], 1)]
    if dtype in COMPLEX and name in ("addmm scaled",):
        pytest.skip("skipped: torch adds and multiplies complex numbers by their place")
    with deterministic():
        together = f(x, *shared)
        for size in SIZES:
            with threads(1 + size % 4):
                assert all(same(f(x[at : at + size], *shared), together[at : at + size]) for at in (0, len(x) - size))


LAYOUTS = {
    "transposed": lambda t: t.mT.contiguous().mT,
    "every other": lambda t: torch.stack([t, 0 * t], -1).flatten(-2)[..., ::2],
    "rows apart": lambda t: torch.cat([t, 0 * t], -1)[..., : t.shape[-1]],
    "flipped twice": lambda t: t.flip(-1).flip(-1),
    "off by one": lambda t: torch.cat([t.flatten()[:1], t.flatten()])[1:].reshape(t.shape),
}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_do_not_show(layout, dtype):
    lie, a, b, c = LAYOUTS[layout], *(numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate([(2, 40, 75), (2, 75, 33), (2, 40, 33)]))
    with deterministic():
        wanted = torch.baddbmm(c, a, b)
        for n in (1, 2, 3, 4):
            with threads(n):
                assert same(torch.baddbmm(lie(c), lie(a), lie(b)), wanted)
                assert same(torch.addmm(lie(c)[0], lie(a)[0], lie(b)[0]), wanted[0])
                assert same(torch.addmm(c[0].mT, b[0].mT, a[0].mT), wanted[0].mT)
                out = lie(torch.empty_like(c))
                assert torch.baddbmm(c, a, b, out=out) is out and same(out, wanted)
                into = lie(c.clone())
                assert into.baddbmm_(a, b) is into and same(into, wanted)
                assert same(torch.mm(a[0], b[0], out=lie(torch.empty_like(c))[0]), a[0] @ b[0])
                assert same(lie(c.clone())[0].addmm_(a[0], b[0]), wanted[0])
                assert same(F.linear(lie(a), b[0].mT, c[0, 0]), torch.addmm(c[0, 0], a.flatten(0, 1), b[0]).unflatten(0, (2, 40)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(75,), (4, 75), (2, 3, 75), (2, 1, 3, 75)], ids=len)
def test_no_layout_of_a_bias_shows(shape, dtype):
    x, w, b = numbers(*shape, dtype=dtype), numbers(33, 75, dtype=dtype, seed=1), numbers(33, dtype=dtype, seed=2)
    one = b[0]
    with deterministic(strict=True):
        wanted, of_one = (torch.addmm(c, x.reshape(-1, 75), w.t()).reshape(*shape[:-1], 33) for c in (b, one))
        for lie in LAYOUTS.values():
            assert same(F.linear(x, w, lie(b[None])[0]), wanted)
        assert all(same(F.linear(x, w, c), of_one) for c in (one.expand(33), one[None], one))
        c = one.clone().requires_grad_()
        F.linear(x, w, c).sum().backward()
        assert c.grad.shape == () and c.grad == math.prod(shape[:-1]) * 33


def test_threads_do_not_show():
    """Of operands of which each is the larger one, and of batches."""
    shapes = [(1, 700, 900), (900, 700, 1), (200, 300, 200), (3, 20000, 3), (65, 129, 1025)]
    pairs = [(numbers(m, k), numbers(k, n, seed=1)) for m, k, n in shapes] + [(numbers(40, 30, 50), numbers(40, 50, 20)), (numbers(40, 30, 50), numbers(50, 700))]
    with deterministic():
        found = []
        for n in (1, 2, 3, 4):
            with threads(n):
                found.append([a @ b for a, b in pairs] + [a.bfloat16() @ b.bfloat16() for a, b in pairs])
    assert all(all(map(same, other, found[0])) for other in found[1:])


# ---- Gradients, autocast, compilers --------------------------------------------------------------

GRADIENTS = {
    "mm": (torch.mm, (3, 4), (4, 2)),
    "bmm": (torch.bmm, (2, 3, 4), (2, 4, 2)),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (2,), (3, 4), (4, 2)),
    "baddbmm": (torch.baddbmm, (3, 2), (2, 3, 4), (2, 4, 2)),
    "addbmm": (torch.addbmm, (3, 2), (2, 3, 4), (2, 4, 2)),
    "mv": (torch.mv, (3, 4), (4,)),
    "addmv": (torch.addmv, (3,), (3, 4), (4,)),
    "addr": (torch.addr, (3, 4), (3,), (4,)),
    "linear": (F.linear, (2, 3, 4), (5, 4), (5,)),
    "linear across": (lambda x, w, b: F.linear(x.transpose(0, 1), w, b), (2, 3, 4), (5, 4), (5,)),
    "einsum": (lambda a, b: torch.einsum("ij,kj->ik", a, b), (3, 4), (2, 4)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, dtype):
    f, *shapes = GRADIENTS[name]
    inputs = [randn(*shape, seed=i, dtype=torch.float64).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]
    with deterministic():
        assert torch.autograd.gradcheck(f, inputs, check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(f, inputs)


def test_autocast_casts_before():
    x, w, b = numbers(6, 5, 40), numbers(7, 40, seed=1), numbers(7, seed=2)
    with deterministic():
        with torch.autocast("cpu", torch.bfloat16):
            found = F.linear(x, w, b), x[0] @ w.t(), torch.addmm(b, x[0], w.t())
        x, w, b = x.bfloat16(), w.bfloat16(), b.bfloat16()
        assert all(map(same, found, (F.linear(x, w, b), x[0] @ w.t(), torch.addmm(b, x[0], w.t()))))


def step(net, x):
    """The result, and the gradients of x and of all parameters."""
    x = x.clone().requires_grad_()
    y = net(x)
    return y, *torch.autograd.grad(y, [x, *net.parameters()], randn(*y.shape, seed=9).to(y.dtype), allow_unused=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    net = torch.nn.Sequential(torch.nn.Linear(20, 33), torch.nn.ReLU(), torch.nn.Linear(33, 5))
    functions = (
        lambda x: net(x), lambda x: net(x.transpose(0, 1)), lambda x: torch.addmm(x[0, 0], x[0, :, :20], x[1].mT @ x[1], beta=0.5), lambda x: torch.einsum("bij,bkj->bik", x, x),
        lambda x: torch.mv(x[0], x[0, 0]),
    )  # fmt: skip
    with deterministic():
        for f in functions:
            compiled = torch.compile(f, backend="aot_eager", dynamic=dynamic)
            for n in (3, 4):
                x, other = (numbers(n, 6, 20).requires_grad_() for _ in range(2))
                y, z = f(x), compiled(other)
                assert same(y, z)
                assert same(*(torch.autograd.grad(t, s, torch.ones_like(t))[0] for t, s in ((y, x), (z, other))))
        assert "bitfold_aten" in traced(functions[1], numbers(3, 6, 20))


def traced(f, x):
    from torch._dynamo.backends.common import aot_autograd

    seen = []
    torch.compile(f, backend=aot_autograd(fw_compiler=lambda graph, _: seen.append(graph.code) or graph.forward, decompositions=decompositions()))(x)
    return "".join(seen)


def decompositions():
    import torch._inductor.decomposition as inductor

    return inductor.decompositions


# ---- torch's own samples -------------------------------------------------------------------------

UNITS = {torch.float16: (2.0**-11, 2.0**-25), torch.bfloat16: (2.0**-8, 2.0**-134), torch.float32: (2.0**-24, 2.0**-150)}
BITS = {torch.bfloat16: 16, torch.float16: 21, torch.float32: 28}
#: How an operator's samples are a product (a, b): of its arguments.
OPINFOS = {
    "mm": lambda a, b: (None, a, b),
    "bmm": lambda a, b: (None, a, b),
    "mv": lambda a, b: (None, a, b[:, None]),
    "addmm": lambda c, a, b: (c, a, b),
    "baddbmm": lambda c, a, b: (c, a, b),
    "addbmm": lambda c, a, b: (c, a.transpose(0, 1).flatten(1), b.flatten(0, 1)),
    "addmv": lambda c, a, b: (c[..., None], a, b[:, None]),
    "addr": lambda c, a, b: (c, a[:, None], b[None]),
}


def samples(name, dtype):
    op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
    for info in [info for info in op_db if info.name == name and dtype in info.supported_dtypes("cpu")]:
        for sample in info.sample_inputs("cpu", dtype):
            yield info.op, (sample.input, *sample.args), sample.kwargs


def bounded(dtype, c, a, b, beta=1, alpha=1):
    """The true result, and docs/products.md's bound; with what is rounded in between where beta or alpha is not 1."""
    (unit, tiny), limit = UNITS[dtype], 63 * 2.0 ** (BITS[dtype] - 7)
    a, b, k = a.double(), b.double(), a.shape[-1]
    largest = lambda t, d: t.abs().amax(d, keepdim=True) if k else t.new_zeros([1 if i == d % t.dim() else n for i, n in enumerate(t.shape)])
    (m, n), (sum_a, sum_b) = (largest(a, -1), largest(b, -2)), (a.abs().sum(-1, keepdim=True), b.abs().sum(-2, keepdim=True))
    product, magnitude = a @ b, a.abs() @ b.abs()
    error = (n * sum_a + m * sum_b) / limit + k * m * n / limit**2 + k * 2.0**-53 * magnitude
    addend = torch.zeros(()) if c is None or not beta else beta * c.double()
    true = alpha * product + addend
    if (beta, alpha) != (1, 1):
        error = abs(alpha) * error + 2.0**-22 * (abs(alpha) * (magnitude + error) + addend.abs())
    return true, error + unit * (true.abs() + error) + tiny


@pytest.mark.parametrize("dtype", UNITS, ids=str)
@pytest.mark.parametrize("name", OPINFOS)
@pytest.mark.filterwarnings("ignore")
def test_torchs_samples_are_within_the_bound(name, dtype):
    seen = 0
    for op, args, scales in some_of(samples(name, dtype), 3):
        with deterministic(strict=True):
            found = op(*args, **scales)
        true, bound = bounded(dtype, *OPINFOS[name](*args), **scales)
        true, bound = (t.expand(torch.broadcast_shapes(t.shape, true.shape)).reshape(found.shape) for t in (true, bound.expand(true.shape)))
        assert found.dtype is dtype and (((found.double() - true).abs() <= bound) | true.isnan() & found.isnan()).all()
        seen += 1
    assert seen


SAMPLED = """
matmul __rmatmul__ einsum inner tensordot outer cov nn.functional.linear linalg.multi_dot linalg.matrix_power nn.functional.scaled_dot_product_attention
""".split()


@pytest.mark.parametrize(
    "name, dtype",
    [*itertools.product([*SAMPLED, *OPINFOS], [torch.float64, torch.complex128, torch.int64]), *((name, torch.bfloat16) for name in SAMPLED)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_torchs_samples(name, dtype):
    near, seen = 4e-2 if dtype is torch.bfloat16 else 1e-5 if name == "cov" else 1e-11, 0
    with torch.nn.attention.sdpa_kernel(MATH):
        for op, args, kwargs in some_of(itertools.islice(samples(name, dtype), 30), 3):
            if kwargs.get("dropout_p"):
                continue
            wanted, seen = op(*args, **kwargs), seen + 1
            with deterministic():
                found = op(*args, **kwargs)
            torch.testing.assert_close(found, wanted, rtol=near, atol=near, equal_nan=True)
    if not seen:
        pytest.skip("torch has no sample of this type")


def test_what_is_refused_is_named():
    x = numbers(4, 5)
    refused = {
        "_trilinear": lambda: F.bilinear(x, x, torch.ones(2, 5, 5)),
        "_euclidean_dist": lambda: torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist"),
        "_scaled_mm": lambda: torch._scaled_mm(x.to(torch.float8_e4m3fn), x.t().to(torch.float8_e4m3fn), torch.ones(()), torch.ones(())),
    }
    with deterministic(strict=True):
        for name, f in refused.items():
            with pytest.raises(bitfold.torch.NotCovered, match=f"aten::{name}: bitfold does not cover it"):
                f()
