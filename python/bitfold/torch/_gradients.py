"""The norm of all gradients, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from bitfold import _tensors

from . import _engine
from ._engine import request

_EXACT = {2.0: "norm_l2", 1.0: "norm_l1", math.inf: "norm_inf"}


def _gradients(parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    try:
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    except TypeError:
        raise TypeError(f"parameters: {parameters!r}, where tensors are expected") from None
    for p in parameters:
        if not isinstance(p, Tensor):
            raise TypeError(f"parameters: {p!r}, where tensors are expected")
    grads = [p.grad for p in parameters if p.grad is not None]
    for g in grads:
        if _engine.is_real(g):
            _tensors.expect_elements(g, "parameters: a gradient")
    for dtype in {g.dtype for g in grads}:
        if not dtype.is_floating_point:
            raise TypeError(f"parameters: a gradient of {dtype}")
    devices = {g.device for g in grads}
    if len(devices) > 1:
        raise ValueError(f"parameters: gradients on {' and on '.join(sorted(map(str, devices)))}")
    return grads


def norm_named(norm_type: float) -> str:
    """The operation."""
    try:
        norm_type = float(norm_type)
    except (TypeError, ValueError):
        raise TypeError(f"norm_type: {norm_type!r} is no number") from None
    if norm_type not in _EXACT:
        raise ValueError(f"norm_type: {norm_type}, where bitfold has 1, 2 and inf")
    return _EXACT[norm_type]


def _norm(grads: list[Tensor], norm_type: float) -> Tensor:
    op = norm_named(norm_type)
    if not grads:
        return torch.tensor(0.0)
    dtypes = {g.dtype for g in grads}
    out = torch.float64 if torch.float64 in dtypes else torch.float32
    pieces = [g if g.is_contiguous() else in_a_row(g) for g in grads]
    if len(dtypes) > 1:
        pieces = [g.to(out) for g in pieces]
    if _engine.OPS[op]["has_exact"]:
        return _engine.reduce_pieces(request(op, "exact", out), pieces)
    of_each = [_engine.reduce([request(op, None, out)], g)[0] for g in pieces]  # whose order is nothing to an extremum
    return _engine.reduce([request(op)], torch.stack(of_each))[0]


def in_a_row(g: Tensor) -> Tensor:
    """Its elements, in whatever order they lie."""
    outermost_first = sorted(range(g.dim()), key=g.stride, reverse=True)
    return g.permute(outermost_first).contiguous()


def grad_norm(parameters: Iterable[Tensor] | Tensor, norm_type: float = 2.0) -> Tensor:
    """The norm of all gradients as one vector: f32, or f64 if one of them is.

    The infinitely precise value, rounded once: its bits do not depend on the order of the parameters, nor on how they are grouped
    or cut. `norm_type`: 1, 2 or inf. All gradients lie on one device. They are copied one by one only where they do not fill their
    memory (slices, expanded ones), or are of several types. The norm itself is not differentiated.

    Errors: ValueError, TypeError, naming the argument.
    """
    return _norm(_gradients(parameters), norm_type)


@torch.no_grad()
def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Scales the gradients in place so that their grad_norm is at most `max_norm`, as torch.nn.utils.clip_grad_norm_ does;
    returns what it was. Each element is rounded once. Without synchronisation, unless `error_if_nonfinite`; `foreach` changes nothing.

    Errors: those of grad_norm; RuntimeError where the norm is not finite and `error_if_nonfinite`.
    """
    grads = _gradients(parameters)
    norm = _norm(grads, norm_type)
    scale(grads, norm, max_norm, error_if_nonfinite)
    return norm


def scale(grads: list[Tensor], norm: Tensor, max_norm: float, error_if_nonfinite: bool) -> None:
    """In place, so that the norm, which is `norm` now, is at most `max_norm`."""
    if error_if_nonfinite and not bool(torch.isfinite(norm)):
        raise RuntimeError(f"parameters: the norm of their gradients is {float(norm)}")
    factor = torch.clamp(float(max_norm) / (norm + 1e-6), max=1.0)
    alike = [g for g in grads if g.dtype is norm.dtype]
    if alike:
        torch._foreach_mul_(alike, factor)
    for g in grads:
        if g.dtype is not norm.dtype:
            g.copy_(g.to(norm.dtype) * factor)
