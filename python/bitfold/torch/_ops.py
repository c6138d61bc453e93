"""Every operation of bitfold's registry as a torch operator, `torch.ops.bitfold.NAME`; and `exp`, for their gradients.

They are defined by Python's torch.library over DLPack's C exchange API, so that one binary serves every version of torch:
nothing of bitfold is compiled against torch. Each has kernels for the CPU and CUDA, a fake one, and a formula for its gradient where it
has one, which is made of elementwise operations of torch and of these operators.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._library.autograd import Info, make_autograd_impl

from . import _engine
from ._engine import FLOATS, OPS, TENSORS, dims_of, exponential, has_tangent, method_for, over, request, result_dtype, result_shape

LIBRARY = torch.library.Library("bitfold", "DEF")


def _schema(name: str) -> str:
    inputs = "Tensor x, Tensor y" if OPS[name]["inputs"] == 2 else "Tensor x"
    ddof = ", int ddof=0" if OPS[name]["takes_ddof"] else ""
    return (
        f"{name}({inputs}, int[1]? dim=None, bool keepdim=False, *, str? method=None, ScalarType? dtype=None, "
        f"ScalarType? acc=None{ddof}) -> Tensor"
    )


def _parts(name: str, args: tuple) -> tuple[list[Tensor], list[int] | None, bool]:
    inputs = OPS[name]["inputs"]
    dim, keepdim = (*args[inputs:], None, False)[:2] if len(args) <= inputs else (*args[inputs:], False)[:2]
    return list(args[:inputs]), dim, keepdim


def _same_shape(inputs: list[Tensor]) -> list[Tensor]:
    if len(inputs) == 1:
        return inputs
    if inputs[0].dtype != inputs[1].dtype:
        raise TypeError(f"y: {inputs[1].dtype}, where x is {inputs[0].dtype}")
    if inputs[0].device != inputs[1].device:
        raise ValueError(f"y: on {inputs[1].device}, where x is on {inputs[0].device}")
    return list(torch.broadcast_tensors(*inputs))


def _kernel(name: str) -> Callable:
    whole = request(name)
    if OPS[name]["inputs"] == 2:
        quick = lambda x, y, dim=None, keepdim=False: TENSORS.reduce_plain(whole, x, y, dim, keepdim, False)
    else:
        quick = lambda x, dim=None, keepdim=False: TENSORS.reduce_plain(whole, x, None, dim, keepdim, False)

    def kernel(*args, **choices) -> Tensor:
        if not choices and (result := quick(*args)) is not None:
            return result
        inputs, dim, keepdim = _parts(name, args)
        return _engine.reduce([request(name, **choices)], *_same_shape(inputs), dim=dim, keepdim=keepdim)[0]

    return kernel


def _fake(name: str) -> Callable:
    def fake(*args, **choices) -> Tensor:
        inputs, dim, keepdim = _parts(name, args)
        x = _same_shape(inputs)[0]
        shape = result_shape(x.shape, dims_of(x.dim(), dim), keepdim)
        return x.new_empty(shape, dtype=result_dtype(request(name, **choices), x.dtype))

    return fake


# ---- Gradients -----------------------------------------------------------------------------------


class _At:
    """What a formula sees: the inputs and the gradient in the type in which it computes, the result with its dimensions."""

    def __init__(self, name: str, ctx, g: Tensor) -> None:
        *inputs, out = ctx.saved_tensors
        self.shapes = [(t.shape, t.dtype) for t in inputs]
        wide = g.dtype if g.dtype in (torch.float32, torch.float64) else torch.float32
        self.x, *rest = _same_shape([t.to(wide) for t in inputs])
        self.y = rest[0] if rest else None
        self.dims = dims_of(self.x.dim(), ctx.dim)
        self.n = 1
        for d in self.dims:
            self.n = self.n * self.x.shape[d]
        self.out, self.g = self._expand(out.to(wide), ctx.keepdim), self._expand(g.to(wide), ctx.keepdim)
        self.ddof, self._method = ctx.ddof, ctx.method

    def _expand(self, t: Tensor, keepdim: bool) -> Tensor:
        return t if keepdim else t.reshape(result_shape(self.x.shape, self.dims, True))

    def fold(self, name: str, *inputs: Tensor, **choices) -> Tensor:
        """An operator along the same dimensions, which stay, by the same method."""
        return call(name, *inputs, self.dims, True, method=method_for(name, self._method), **choices)

    def shared(self, mask: Tensor) -> Tensor:
        """The gradient to the elements of the mask, in equal parts, as torch's amax has it."""
        return self.g * mask / self.fold("count_nonzero", mask)


def _masked(condition: Tensor, value: Tensor) -> Tensor:
    return torch.where(condition, value, 0.0)


def product_of_others(zero: Tensor, zeros: Tensor, others: Tensor, quotients: Tensor) -> Tensor:
    """For each element the product of all others of its row. zero: whether it is 0; zeros: how many of the row are; others: the product of
    the row's others than these; quotients: that of the row by the element, where none is 0."""
    return torch.where(zero, _masked(zeros == 1, others), _masked(zeros == 0, quotients))


def _prod(a: _At) -> Tensor:
    zero = a.x == 0
    x = torch.where(zero, 1.0, a.x)
    zeros, others = a.fold("count_nonzero", zero), a.fold("prod", x)
    return a.g * product_of_others(zero, zeros, others, others / x)


def _var(a: _At, g: Tensor) -> Tensor:
    return (2.0 / max(a.n - a.ddof, 0) if a.n > a.ddof else float("nan")) * g * (a.x - a.fold("mean", a.x))


def _moments(a: _At) -> tuple[Tensor, ...]:
    d = a.x - a.fold("mean", a.x)
    return d, *(a.fold("mean", d**k) for k in (2, 3, 4))


def _skewness(a: _At) -> Tensor:
    d, m2, m3, _ = _moments(a)
    return a.g * 3 / a.n * ((d * d - m2) / m2**1.5 - m3 * d / m2**2.5)


def _kurtosis(a: _At) -> Tensor:
    d, m2, m3, m4 = _moments(a)
    return a.g * 4 / a.n * ((d**3 - m3) / m2**2 - m4 * d / m2**3)


def _logsumexp(a: _At) -> Tensor:
    return a.g * call("exp", a.x - _masked(~torch.isinf(a.out), a.out))


def _softmax_denominator(a: _At) -> Tensor:
    if 0 in a.x.shape:
        return torch.zeros_like(a.x)
    top = a.fold("max", a.x)
    return a.g * call("exp", a.x - top) - a.shared(a.x == top) * a.out


def _cosine(a: _At) -> tuple[Tensor, Tensor]:
    x, y = a.fold("norm_l2", a.x), a.fold("norm_l2", a.y)
    return a.g * (a.y / (x * y) - a.out * a.x / (x * x)), a.g * (a.x / (x * y) - a.out * a.y / (y * y))


def _both(d: Tensor) -> tuple[Tensor, Tensor]:
    return d, -d


#: The gradient by operation; those that are not here have none.
GRADIENTS: dict[str, Callable] = {
    "sum": lambda a: a.g.expand(a.x.shape),
    "nansum": lambda a: a.g * ~torch.isnan(a.x),
    "prod": _prod,
    "mean": lambda a: over(a.g, a.n).expand(a.x.shape),
    "nanmean": lambda a: a.g * ~torch.isnan(a.x) / a.fold("count_nonzero", ~torch.isnan(a.x)),
    **{op: lambda a: a.shared((a.x == a.out) | (torch.isnan(a.x) & torch.isnan(a.out))) for op in ("min", "max", "nanmin", "nanmax")},
    "sum_squares": lambda a: 2 * a.g * a.x,
    "norm_l1": lambda a: a.g * torch.sgn(a.x),
    "norm_l2": lambda a: _masked(a.out != 0, a.g * a.x / torch.where(a.out != 0, a.out, torch.ones_like(a.out))),
    "norm_inf": lambda a: a.shared(torch.abs(a.x) == a.out) * torch.sgn(a.x),
    "var": lambda a: _var(a, a.g),
    "std": lambda a: _var(a, _masked(a.out != 0, a.g / (2 * torch.where(a.out != 0, a.out, torch.ones_like(a.out))))),
    "skewness": _skewness,
    "kurtosis": _kurtosis,
    "logsumexp": _logsumexp,
    "softmax_denominator": _softmax_denominator,
    "dot": lambda a: (a.g * a.y, a.g * a.x),
    "squared_distance": lambda a: _both(2 * a.g * (a.x - a.y)),
    "mse": lambda a: _both(over(2 * a.g, a.n) * (a.x - a.y)),
    "mae": lambda a: _both(over(a.g, a.n) * torch.sgn(a.x - a.y)),
    "cosine": _cosine,
}


def _sum_to(t: Tensor, shape: torch.Size) -> Tensor:
    """Where an input was broadcast, its gradient is the sum over its copies."""
    if t.shape == shape:
        return t
    lead = t.dim() - len(shape)
    dims = [*range(lead), *(lead + i for i, n in enumerate(shape) if n == 1 and t.shape[lead + i] != 1)]
    return call("sum", t, dims, True).reshape(shape)


def _setup(name: str) -> Callable:
    def setup(ctx, inputs, keyword_only_inputs, output) -> None:
        tensors, ctx.dim, ctx.keepdim = _parts(name, inputs)
        ctx.method, ctx.ddof = keyword_only_inputs.get("method"), keyword_only_inputs.get("ddof", 0)
        ctx.save_for_backward(*tensors, output)

    return setup


def _backward(name: str) -> Callable:
    def backward(ctx, g: Tensor):
        if name not in GRADIENTS:
            raise NotImplementedError(f"bitfold.{name} has no gradient")
        a = _At(name, ctx, g)
        grads = GRADIENTS[name](a)
        grads = grads if isinstance(grads, tuple) else (grads,)
        return *(_sum_to(t, shape).to(dtype) for t, (shape, dtype) in zip(grads, a.shapes)), None, None

    return backward


#: The dispatch keys of a call below whose gradients is nothing but the kernel.
_NOTHING_BETWEEN = {
    (torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)) | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, "Autograd" + key))).raw_repr()
    for key in ("CPU", "CUDA")
}


def _autograd(name: str, kernel: Callable, formula: Info, has_gradient: bool) -> Callable:
    """Gradients in reverse mode. In forward mode torch.library would take inputs for constants: refused."""
    reverse = make_autograd_impl(getattr(torch.ops.bitfold, name).default, formula)

    def autograd(keyset, *args, **choices):
        if has_gradient and has_tangent(*args):
            raise NotImplementedError(f"bitfold.{name} has no derivative in forward mode")
        differentiated = torch.is_grad_enabled() and torch._C._any_requires_grad(*args)
        if not differentiated and keyset.raw_repr() in _NOTHING_BETWEEN:
            return kernel(*args, **choices)
        if differentiated and has_gradient and torch._C._are_functorch_transforms_active():
            raise NotImplementedError(f"bitfold.{name} has no gradient by torch.func's transforms; torch.autograd has it")
        return reverse(keyset, *args, **choices)

    return autograd


def call(name: str, *args, **choices) -> Tensor:
    return getattr(torch.ops.bitfold, name).default(*args, **choices)


def _exp(x: Tensor) -> Tensor:
    if x.dtype not in FLOATS:
        raise TypeError(f"x: {x.dtype}, where exp takes {', '.join(map(str, FLOATS))}")
    return exponential(x)


def _define(schema: str, kernel: Callable, fake: Callable, formula: Info, has_gradient: bool) -> None:
    LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    name = schema.partition("(")[0]
    for key in ("CPU", "CUDA"):
        LIBRARY.impl(name, kernel, key)
    torch.library.register_fake(f"bitfold::{name}", fake, lib=LIBRARY)
    LIBRARY.impl(name, _autograd(name, kernel, formula, has_gradient), "Autograd", with_keyset=True)


for _name in OPS:
    _define(_schema(_name), _kernel(_name), _fake(_name), Info(_backward(_name), _setup(_name)), _name in GRADIENTS)
_define(
    "exp(Tensor x) -> Tensor", _exp, _exp,
    Info(lambda ctx, g: g * ctx.saved_tensors[0], lambda ctx, inputs, output: ctx.save_for_backward(output)), True,
)  # fmt: skip
