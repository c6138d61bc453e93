"""What the tests of bitfold.torch share."""

from __future__ import annotations

import contextlib

import pytest

from samples import some_of

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])]


INTEGERS, COMPLEX = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8), (torch.complex64, torch.complex128)
SIZES = (1, 2, 3, 16, 37, 128)  # of batches


def bits(x: torch.Tensor) -> torch.Tensor:
    """On the CPU, as integers."""
    x = x.detach().resolve_conj().cpu().contiguous()
    if x.is_complex():
        x = torch.view_as_real(x)
    if not x.is_floating_point():
        return x
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))


def unaligned(x: torch.Tensor) -> torch.Tensor:
    """The same elements, on the CPU, in a row at an address that is no multiple of their size."""
    room = torch.zeros(x.numel() * x.element_size() + 1, dtype=torch.uint8)
    room[1:] = x.detach().contiguous().reshape(-1).view(torch.uint8)
    return torch.frombuffer(room.numpy(), dtype=x.dtype, offset=1).reshape(x.shape)


def randn(*shape, device="cpu", dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype).to(device)


@contextlib.contextmanager
def threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def numbers(*shape, dtype=torch.float32, seed=0):
    """With outliers, or all that integers hold."""
    if dtype in INTEGERS:
        return torch.randint(torch.iinfo(dtype).min, torch.iinfo(dtype).max, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int64).to(dtype)
    if dtype in COMPLEX:
        return torch.view_as_complex(numbers(*shape, 2, dtype=dtype.to_real(), seed=seed))
    x = randn(*shape, dtype=torch.float64, seed=seed)
    return (x * torch.where(x.abs() > 2.5, 100, 1)).to(dtype)


def product_fakes():
    """Of each operator that makes products and that a compiler calls, by its name: arguments, and options."""
    a, b, half, z = randn(2, 4, 30), randn(2, 30, 5), torch.bfloat16, torch.view_as_complex(randn(4, 4, 2))
    x, y, c, scaled = randn(4), randn(30), randn(4, 5), {"beta": 0.5, "alpha": 2}
    qkv, out, ones, up, down = (randn(24, 8), randn(24)), (randn(8, 8), randn(8)), torch.ones(8), (randn(16, 8), randn(16)), (randn(8, 16), randn(8))
    tokens, mask, ints = randn(2, 3, 8), torch.tensor([[False, True, True]]).expand(2, 3), torch.arange(16).reshape(4, 4)
    layer = (*qkv, *out, True, False, 1e-5, ones, ones, ones, ones, *up, *down)
    yield from {
        "mm": [((a[0], b[0]), {}), ((a[0, :, ::2], b[0, :15]), {}), ((a[0].to(half), b[0].to(half)), {}), ((z, z.mH), {}), ((ints, ints.mT), {})],
        "bmm": [((a, b), {}), ((b.mT, a.mT), {})],
        "addmm": [((c[0], a[0], b[0]), {}), ((c, a[0], b[0]), scaled), ((z, z, z), {})],
        "baddbmm": [((c, a, b), {}), ((c, a, b), {"beta": 0})], "addbmm": [((c, a, b), {})],
        "mv": [((a[0], y), {})], "addmv": [((x, a[0], y), {}), ((x[:1], a[0], y), scaled)], "addr": [((c, x, c[0]), {}), ((c, x, c[0]), scaled)],
        "_addmm_activation": [((c[0], a[0], b[0]), {"use_gelu": gelu}) for gelu in (False, True)],
        "_native_multi_head_attention": [((*[tokens] * 3, 8, 2, *qkv, *out, mask, True, True, 1), {}), ((tokens, tokens.clone(), tokens.clone(), 8, 2, *qkv, *out), {})],
        "_transformer_encoder_layer_fwd": [((tokens, 8, 2, *layer), {}), ((tokens, 8, 2, *layer, mask, 1), {})],
    }.items()  # fmt: skip


def images(n):
    return randn(n, 3, 20, 18)


def samples_of(name, dtype):
    """Torch's own, each with the same in f64: functions of no arguments, and the tensors that want gradients."""
    op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
    for info in [info for info in op_db if info.name == name]:
        for sample in some_of(info.sample_inputs("cpu", dtype, requires_grad=True), 3):
            widened = lambda t: t.detach().double().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) and t.is_floating_point() else t
            both = []
            for s in (sample, sample.transform(widened)):
                leaves = [t for t in torch.utils._pytree.tree_leaves((s.input, s.args, s.kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
                both.append((lambda s=s: info.op(s.input, *s.args, **s.kwargs), leaves))
            yield sample, *both


def with_gradients(f, leaves, dtype=torch.float64):
    """What f gives, and the gradients of a sum of that, weighted by numbers of a type; random numbers are those of one seed."""
    torch.manual_seed(0)
    y = f()
    g = torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64).reshape(y.shape)
    return [y.detach(), *torch.autograd.grad(y, leaves, g.to(dtype).to(y.dtype), allow_unused=True)]


def convolution_fakes():
    """Of convolutions and attention, as product_fakes."""
    x, w, b, last, half = randn(2, 4, 6, 5), randn(8, 2, 3, 3), randn(8), torch.channels_last, torch.bfloat16
    ways = [([1, 1], [1, 1], [1, 1], False, [0, 0], 2), ([2, 3], [0, 1], [1, 2], False, [0, 0], 2), ([2], [1], [1], True, [1], 2)]
    forward = [((x, w.transpose(0, 1).reshape(4, 4, 3, 3) if how[3] else w, b, *how), {}) for how in ways]
    forward += [((x.to(t).to(memory_format=last), w.to(t), None, *ways[0]), {}) for t in (torch.float32, half)] + [((x[:0], w, b, *ways[0]), {})]
    yield "convolution", forward
    yield "_convolution", [((*forward[0][0], False, False, True, True), {})]
    gradient = lambda args: torch.convolution(*args).cos()
    yield "convolution_backward", [((gradient(a), *a[:2], [8], *a[3:], mask), {}) for a, _ in forward for mask in ([True] * 3, [False, True, False])]
    q, k, v, mask = randn(2, 4, 6, 8), randn(2, 2, 7, 8), randn(2, 2, 7, 8), randn(6, 7)
    name, apart = "_scaled_dot_product_flash_attention_for_cpu", randn(2, 6, 4, 8).transpose(1, 2)
    attention = [((q, k, v), {}), ((apart, k, v, 0.0, True), {"scale": 0.3}), ((q.to(half), k.to(half), v.to(half)), {"attn_mask": mask})]
    yield name, attention
    logs, none = torch.zeros(2, 4, 6), torch.zeros(0, dtype=torch.int32)
    yield name + "_backward", [((a[0].cos(), *a[:3], a[0], logs, 0.0, bool(a[3:])), o) for a, o in attention]
    flash, efficient, cudnn = (f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn"))
    seed = lambda: torch.zeros((), dtype=torch.int64)
    yield flash, [((q, k, v), {}), ((apart, k, v, 0.0, True), {"scale": 0.3})]
    yield flash + "_backward", [((q.cos(), q, k, v, q, logs, none, none, 6, 7, 0.0, False, seed(), seed()), {})]
    yield efficient, [((q, k, v, mask.expand(2, 4, 6, 7), True), {}), ((q, k, v, None, False, 0.0, True), {})]
    yield efficient + "_backward", [((q.cos(), q, k, v, mask, q, logs, seed(), seed(), 0.0, [True, True, True, False]), {})]
    yield cudnn, [((q, k, v, None, True), {})]
    yield cudnn + "_backward", [((q.cos(), q, k, v, q, logs.unsqueeze(-1), seed(), seed(), mask, none, none, 6, 7, 0.0, False), {})]
