"""Softmax and its like."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import _engine
from .._engine import FLOATS, HALF, TENSORS, Rows, dims_of, exponential, wide
from .common import GRADIENTS, REAL, among, ask, covers, fold, heading, quick

heading("softmax and its like")


@covers("logsumexp")
def _logsumexp(method, x, dim, keepdim=False):
    among(REAL, "logsumexp", x)
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    return fold(method, "logsumexp", x, dim=dim, keepdim=keepdim)


class _Logsumexp(torch.autograd.Function):
    """With bitfold's exp in the gradient. Torch's formula has torch's, which CPUs and CUDA round differently."""

    @staticmethod
    def forward(ctx, x, dim, keepdim=False):
        out = torch.ops.aten.logsumexp.default(x, dim, keepdim)
        ctx.save_for_backward(x, out)
        ctx.without = [] if keepdim else sorted(dims_of(x.dim(), dim))
        return out

    @staticmethod
    def backward(ctx, g):
        x, out = ctx.saved_tensors
        for d in ctx.without if x.dim() else ():
            g, out = g.unsqueeze(d), out.unsqueeze(d)
        return g * torch.ops.bitfold.exp.default(x - out), None, None


GRADIENTS["logsumexp"] = _Logsumexp


def _along_rows(function: str, x: Tensor, dim: int, out: torch.dtype, y: Tensor | None = None) -> Tensor:
    """A row function along a dimension."""
    dims_of(x.dim(), dim)  # which says what is wrong with it
    if not x.numel():
        return torch.empty_like(x, dtype=out)
    if not x.dim():
        return _along_rows(function, x.reshape(1), 0, out, None if y is None else y.reshape(1)).reshape(())
    if all(t.is_contiguous() and t.dtype is out for t in ((x,) if y is None else (x, y))):
        if dim in (-1, x.dim() - 1):
            return Rows(x, x.shape[dim], y).apply(function)
        if math.prod(x.shape[dim + 1 :]) * x.element_size() >= _LEAST_ACROSS:
            return _engine.rows_across(function, x, dim, *_statistics(function, x, y, dim), y)
    as_rows = lambda t: t.to(out if x.dtype is out else wide(out)).movedim(dim, -1).contiguous()
    z = Rows(as_rows(x), x.shape[dim], y=None if y is None else as_rows(y)).apply(function)
    return z.movedim(-1, dim).to(out).contiguous()


_LEAST_ACROSS = 64  # bytes of neighbouring rows, of which whole lines of a cache are read


def _statistics(function: str, x: Tensor, y: Tensor | None, dim: int) -> tuple[Tensor, Tensor | None]:
    """The results that a function of rows across takes."""
    if y is None:
        top, total = _engine.reduce([ask("max", None), ask("softmax_denominator", None, wide(x.dtype))], x, dim=dim)
        return top.to(wide(x.dtype)), total
    inputs = (x, y) if function == "softmax_backward" else (x,)
    return fold("tree", "dot" if len(inputs) == 2 else "sum", *inputs, dim=dim, keepdim=False, out=wide(x.dtype)), None


def _has_rows(x: Tensor, dim: int) -> bool:
    """Whether the library has functions of rows as long."""
    return not x.numel() or not x.dim() or x.shape[dim] <= _engine.MOST_OF_A_ROW


@covers("_softmax")
def _softmax(method, x, dim, half_to_float):
    return _softmax_of("softmax", x, dim, half_to_float)


@covers("_log_softmax")
def _log_softmax(method, x, dim, half_to_float):
    return _softmax_of("log_softmax", x, dim, half_to_float)


for _name in ("softmax", "log_softmax"):
    quick("_" + _name)(lambda method, x, dim, half_to_float, f=_name: None if half_to_float else TENSORS.softmax_plain(f, x, None, dim))
    quick(f"_{_name}_backward_data")(
        lambda method, grad, output, dim, input_dtype, f=_name + "_backward": (
            TENSORS.softmax_plain(f, grad, output, dim) if method == "tree" and TENSORS.is_of(grad, input_dtype) else None
        )
    )


def _softmax_of(function, x, dim, half_to_float):
    among(FLOATS, function, x)
    out = torch.float32 if half_to_float else x.dtype
    if _has_rows(x, dim):
        return _along_rows(function, x, dim, out)
    top, total = _engine.reduce([ask("max", None), ask("softmax_denominator", None, wide(x.dtype))], x, dim=dim, keepdim=True)
    y = torch.sub(x.to(wide(x.dtype)), top)
    return (exponential(y, y).div_(total) if function == "softmax" else y.sub_(total.log())).to(out)


@covers("_safe_softmax")
def _safe_softmax(method, x, dim, dtype=None):
    x = x if dtype is None else x.to(dtype)
    y = _softmax(method, x, dim, False)
    return y.masked_fill_(fold(method, "max", x, dim=dim) == -math.inf, 0) if y.numel() else y


def _gradient_type(
    op: str, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
) -> torch.dtype:
    """Of a softmax's input: the gradient's, but for a half type's that was computed in f32."""
    among(FLOATS, op, grad)
    dims_of(grad.dim(), dim)
    if grad.dtype != output.dtype or grad.shape != output.shape:
        of = [f"{t.dtype}, {list(t.shape)}" for t in (grad, output)]
        raise RuntimeError(f"{op}: a gradient of {of[0]}, where the output is of {of[1]}")
    return input_dtype if grad.dtype is torch.float32 and input_dtype in HALF else grad.dtype


def _gradient_of(function: str, method, grad, output, dim, input_dtype, by_definition) -> Tensor:
    """By rows where there are such functions; else by_definition(g, y), both in the accumulator's type."""
    input_dtype = _gradient_type(function, grad, output, dim, input_dtype)
    if method == "tree" and _has_rows(grad, dim):
        return _along_rows(function, grad, dim, grad.dtype, output).to(input_dtype)
    return by_definition(grad.to(wide(grad.dtype)), output.to(wide(output.dtype))).to(input_dtype)


@covers("_softmax_backward_data")
def _softmax_backward(method, grad, output, dim, input_dtype):
    by_definition = lambda g, y: torch.sub(g, fold(method, "dot", g, y, dim=dim)).mul_(y)
    return _gradient_of("softmax_backward", method, grad, output, dim, input_dtype, by_definition)


@covers("_log_softmax_backward_data")
def _log_softmax_backward(method, grad, output, dim, input_dtype):
    by_definition = lambda g, y: torch.sub(g, exponential(y).mul_(fold(method, "sum", g, dim=dim)))
    return _gradient_of("log_softmax_backward", method, grad, output, dim, input_dtype, by_definition)
