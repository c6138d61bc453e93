"""bitfold.torch.grad_norm and clip_grad_norm_."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch")

import bitfold.torch
from torch_helpers import DEVICES, same

NORMS = [1.0, 2.0, math.inf]


def parameters(device="cpu", dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    made = []
    for i, shape in enumerate([(300, 7), (5,), (), (0, 3), (64, 64)]):
        p = torch.zeros(shape, dtype=dtype, device=device, requires_grad=True)
        p.grad = (torch.randn(shape, generator=g) * 10.0 ** (4 * i - 8)).to(device, dtype)
        made.append(p)
    return [*made, torch.zeros(3, device=device, requires_grad=True)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm_type", NORMS)
def test_the_true_norm_rounded_once(norm_type, device):
    ps = parameters(device)
    xs = [abs(Fraction(v)) for p in ps if p.grad is not None for v in p.grad.flatten().tolist()]
    found = bitfold.torch.grad_norm(ps, norm_type)
    assert found.dtype is torch.float32 and found.device.type == device
    near = [torch.nextafter(found.cpu(), torch.tensor(s * math.inf)).item() for s in (-1, 1)]
    below, above = ((Fraction(found.item()) + Fraction(n)) / 2 for n in near)
    power = 2 if norm_type == 2 else 1
    true = max(xs) if norm_type == math.inf else sum(x**power for x in xs)
    assert below**power <= true <= above**power


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("norm_type", NORMS)
def test_order_and_pieces_do_not_matter(norm_type, dtype, device):
    ps = parameters(device, dtype)
    wanted = bitfold.torch.grad_norm(ps, norm_type)
    assert same(bitfold.torch.grad_norm(ps[::-1], norm_type), wanted)
    flat = torch.cat([p.grad.flatten() for p in ps if p.grad is not None])
    for cuts in ([1, 2, 3], [1000], range(0, 5000, 77)):
        pieces = []
        for piece in torch.tensor_split(flat, list(cuts)):
            pieces.append(torch.zeros_like(piece, requires_grad=True))
            pieces[-1].grad = piece.clone()
        assert same(bitfold.torch.grad_norm(pieces, norm_type), wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm_type", NORMS)
def test_layout_does_not_matter(norm_type, device):
    x = torch.randn(4, 6, 8, 10, generator=torch.Generator().manual_seed(3)).to(device)

    def norm(*grads):
        ps = [torch.zeros_like(g, requires_grad=True) for g in grads]
        for p, g in zip(ps, grads):
            p.grad = g
        return bitfold.torch.grad_norm(ps, norm_type)

    wanted, gaps = norm(x), torch.zeros(8, 6, 8, 20, device=device)[::2, :, :, ::2]
    gaps.copy_(x)
    for same_elements in (x.transpose(0, 3), x.to(memory_format=torch.channels_last), gaps, x.flatten()[1:]):
        rest = [x.flatten()[:1]] if same_elements.numel() < x.numel() else []
        assert same(norm(same_elements, *rest), wanted)
    assert same(norm(x, torch.empty(2, 3, 0, device=device).permute(2, 1, 0)), wanted)
    assert same(norm(x.reshape(4, 6, 2, 2, 2, 5, 2, 1, 1)), wanted)
    repeated = torch.ones(1, device=device).expand(5)
    assert same(norm(repeated, x), norm(repeated.clone(), x))
    half, double = x.to(torch.bfloat16), x.to(torch.float64)
    assert same(norm(half, x), norm(half.float(), x))
    assert same(norm(half, x, double), norm(half.double(), x.double(), double))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_clip(max_norm, device):
    ps, reference = parameters(device), parameters(device)
    norm = bitfold.torch.clip_grad_norm_(ps, max_norm)
    assert same(norm, bitfold.torch.grad_norm(reference))
    wanted = torch.nn.utils.clip_grad_norm_(reference, max_norm)
    torch.testing.assert_close(norm, wanted)
    for p, r in zip(ps, reference):
        torch.testing.assert_close(p.grad, r.grad)


def test_half_types_are_rounded_once():
    p = torch.zeros(1000, dtype=torch.bfloat16, requires_grad=True)
    p.grad = torch.linspace(-3, 3, 1000).bfloat16()
    before = p.grad.float()
    norm = bitfold.torch.clip_grad_norm_([p], 0.7, foreach=True)
    assert same(p.grad, (before * (0.7 / (norm + 1e-6))).bfloat16())


def test_errors():
    ps = parameters()
    for call, match in ((lambda: bitfold.torch.grad_norm(5), "^parameters: 5, "), (lambda: bitfold.torch.grad_norm([5]), "^parameters: 5, "), (lambda: bitfold.torch.grad_norm([], "x"), "^norm_type: 'x'")):
        with pytest.raises(TypeError, match=match):
            call()
    with pytest.raises(ValueError, match="norm_type"):
        bitfold.torch.grad_norm(ps, 3)
    ps[0].grad[0, 0] = math.nan
    assert math.isnan(bitfold.torch.grad_norm(ps))
    with pytest.raises(RuntimeError, match="parameters: the norm of their gradients is nan"):
        bitfold.torch.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    ps[0].grad = ps[0].grad.to_sparse()
    with pytest.raises(TypeError, match="parameters: .*sparse"):
        bitfold.torch.grad_norm(ps)
    assert bitfold.torch.grad_norm([]).item() == 0
