"""What the tests of bitfold.torch share."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])]


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
