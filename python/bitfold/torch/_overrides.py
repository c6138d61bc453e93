"""What torch's own operators become: functions of the same arguments, made of bitfold's reductions and of torch's
elementwise operators, which give each element bits of its own.

`OVERRIDES` has them by the name of the operator and overload. Each takes the method first. They run below autograd, so that
torch's own formulas for gradients, which are made of such operators too, stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from bitfold import _arrays, _core

from . import _engine
from ._engine import (
    FLOATS, HALF, TENSORS, Rows, Uncovered, dims_of, exponential, method_for, over, request, wide,
)  # fmt: skip

OVERRIDES: dict[str, Callable] = {}
#: The same without `out` and without keywords, for plain tensors: in one call of the library's, or None, and then it is for the others.
QUICK: dict[str, Callable] = {}
#: What torch's kernels on a GPU round twice, and those on CPUs once: in place of the former alone, for the calls of a tensor and a number.
BY_A_NUMBER: dict[str, Callable] = {"div.Tensor": lambda x, y: over(x.to(wide(x.dtype)), float(y)).to(x.dtype)}
#: Whose gradient is not left to torch's formula, of floats: functions of autograd's with all of the
#: operator's arguments, for calls in which the first, or that of the name `of`, wants one.
GRADIENTS: dict[str, type[torch.autograd.Function]] = {}
#: The same names by what they are, for the table in docs/pytorch.md.
HEADINGS: dict[str, list[str]] = {}


def heading(text: str) -> None:
    """What the operators are that follow."""
    HEADINGS[text] = []


def covers(*names: str) -> Callable:
    def add(f: Callable) -> Callable:
        for name in names:
            OVERRIDES[name] = f
        next(reversed(HEADINGS.values())).extend(names)
        return f

    return add


def quick(name: str) -> Callable:
    def add(f: Callable) -> Callable:
        QUICK[name] = f
        return f

    return add


@cache
def ask(op: str, method: str, out: torch.dtype | None = None, ddof: int = 0) -> _core.Request:
    return request(op, method_for(op, method), out, ddof=ddof)


def fold(method: str, op: str, *inputs: Tensor, dim=None, keepdim: bool = True, out: torch.dtype | None = None) -> Tensor:
    """One reduction, in the type of x, or `out`."""
    if out is None or out is inputs[0].dtype:
        x, y = inputs if len(inputs) == 2 else (*inputs, None)
        if (result := TENSORS.reduce_plain(ask(op, method), x, y, dim, keepdim, True)) is not None:
            return result
    return _engine.reduce([ask(op, method, out)], *inputs, dim=dim, keepdim=keepdim)[0]


@cache
def _asked(method: str, ops: tuple[str, ...]) -> _core.Request | tuple[_core.Request, ...]:
    """Of several operations a tuple, as their operator returns one."""
    return ask(*ops, method) if len(ops) == 1 else tuple(ask(op, method) for op in ops)


def _quick_reduction(name: str, *ops: str) -> None:
    """Of an operator with arguments (x, dim, keepdim), or (x)."""
    quick(name)(lambda method, x, dim=None, keepdim=False: TENSORS.reduce_plain(_asked(method, ops), x, None, dim, keepdim, True))


for _name, _ops in {
    **{name: ("sum",) for name in ("sum", "sum.dim_IntList")},
    **{name: ("mean",) for name in ("mean", "mean.dim")},
    **{name: (op,) for op in ("max", "min") for name in (op, "a" + op)},
    **{op + ".dim": (op, "arg" + op) for op in ("max", "min")},
    **{op: (op,) for op in ("argmax", "argmin", "logsumexp")},
}.items():
    _quick_reduction(_name, *_ops)


def square_root(x: Tensor) -> Tensor:
    """Rounded as IEEE 754 has it. On CPUs torch asks MKL's vector library, which on AMD's does not (torch 2.15)."""
    if x.is_cuda or not _engine.is_real(x):
        return x.sqrt()
    y = torch.empty_like(x)
    with np.errstate(invalid="ignore"):
        np.sqrt(x.numpy(), out=y.numpy())
    return y


#: The types that torch's own reductions take, but the complex ones. (Of unsigned integers of more
#: bytes it has hardly any.)
REAL = (*FLOATS, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)
_NUMBERS = REAL[:-1]


def _among(types: Sequence[torch.dtype], op: str, *tensors: Tensor) -> None:
    for x in tensors:
        if x.dtype not in types:
            raise Uncovered(f"{op}: bitfold covers none of {x.dtype}")


# ---- Sums ----------------------------------------------------------------------------------------

heading("sums, means, products")


def _additive(method: str, op: str, x: Tensor, dim, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """Sums and products with torch's types: integers and bool in i64, `dtype` taken before they are added."""
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() or x.is_complex() else torch.int64
    if not x.is_complex():
        _among(REAL, op, x)
    if dtype.is_complex and op in ("sum", "mean"):
        dims, x = dims_of(x.dim(), dim), x.to(dtype).resolve_conj()
        return torch.view_as_complex(fold(method, op, torch.view_as_real(x), dim=dims, keepdim=keepdim)) if dims else x.clone()
    if dtype not in REAL:
        raise Uncovered(f"{op}: bitfold has none in {dtype}")
    if op == "mean" and not dtype.is_floating_point:
        raise NotImplementedError(f"mean(): could not infer output dtype. It must be either a floating point or complex dtype. Got: {dtype}")
    if dtype is torch.bool:
        return fold(method, {"sum": "any", "nansum": "any", "prod": "all"}[op], x, dim=dim, keepdim=keepdim)
    integers = not (dtype.is_floating_point or x.is_floating_point() or x.is_complex())
    if x.dtype is not dtype and not integers and not (x.dtype in HALF and dtype is torch.float32):
        x = x.to(dtype)
    if not dtype.is_floating_point:  # what wraps around in i64 is right modulo every power of two
        return fold(method, op, x, dim=dim, keepdim=keepdim, out=torch.int64).to(dtype)
    return fold(method, op, x, dim=dim, keepdim=keepdim, out=dtype if dtype is not x.dtype else None)


@covers("sum.dim_IntList")
def _sum(method, x, dim, keepdim=False, *, dtype=None):
    return _additive(method, "sum", x, dim, keepdim, dtype)


@covers("sum")
def _sum_all(method, x, *, dtype=None):
    return _additive(method, "sum", x, None, False, dtype)


@covers("nansum")
def _nansum(method, x, dim=None, keepdim=False, *, dtype=None):
    if x.is_complex() or x.is_floating_point() and dtype is not None and not dtype.is_floating_point:
        raise Uncovered(f"nansum: bitfold has none of {x.dtype} in {dtype}")
    return _additive(method, "nansum", x, dim, keepdim, dtype)


@covers("mean.dim")
def _mean(method, x, dim, keepdim=False, *, dtype=None):
    return _additive(method, "mean", x, dim, keepdim, x.dtype if dtype is None else dtype)


@covers("mean")
def _mean_all(method, x, *, dtype=None):
    return _mean(method, x, None, dtype=dtype)


@covers("prod")
def _prod_all(method, x, *, dtype=None):
    return _additive(method, "prod", x, None, False, dtype)


@covers("prod.dim_int")
def _prod(method, x, dim, keepdim=False, *, dtype=None):
    return _additive(method, "prod", x, [dim], keepdim, dtype)


def _has_values(x: Tensor) -> bool:
    """Whether a formula may look at them, as it may not while a compiler writes it down."""
    return type(x) in (Tensor, torch.nn.Parameter) and not x.is_meta


def _product(x: Tensor, dim: int | None, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    if dim is None:
        return torch.ops.aten.prod.default(x, dtype=dtype)
    return torch.ops.aten.prod.dim_int(x, dim, keepdim, dtype=dtype)


class _Prod(torch.autograd.Function):
    """With a gradient that is a row's own, whatever lies in the others and in whatever way torch
    runs. Torch's formula takes running products for all rows where an element of any is zero, and
    always in a dispatch mode and under a compiler."""

    @staticmethod
    def forward(ctx, x, dim, keepdim, dtype):
        out = _product(x, dim, keepdim, dtype)
        ctx.save_for_backward(x, out)
        ctx.dim, ctx.keepdim = dim, keepdim
        return out

    @staticmethod
    def backward(ctx, g):
        x, out = ctx.saved_tensors
        if not x.dim():
            return g, None, None, None
        x, dim = x.to(g.dtype), ctx.dim
        if not ctx.keepdim:
            g, out = g.unsqueeze(dim), out.unsqueeze(dim)
        zero = x == 0
        rest = out / x.masked_fill(zero, 1)
        if not (_has_values(x) and (x.is_cpu or torch.is_grad_enabled()) and not zero.any()):
            zeros = zero.sum(dim, keepdim=True)
            others = _product(x.detach().masked_fill(zero, 1), dim, True, None)
            among_zeros = torch.where(zero & (zeros == 1), others, 0)
            if torch.is_grad_enabled():
                among_zeros = _Valued.apply(_running_products(x, dim), among_zeros)
            rest = torch.where(zeros == 0, rest, among_zeros)
        return g * rest, None, None, None


class _ProdOfAll(_Prod):
    @staticmethod
    def forward(ctx, x, dtype):
        return _Prod.forward(ctx, x, None, True, dtype)

    @staticmethod
    def backward(ctx, g):
        return _Prod.backward(ctx, g)[:2]


class _Valued(torch.autograd.Function):
    """x, for its derivatives, with another value, of which it has the roundings."""

    @staticmethod
    def forward(ctx, x, value):
        return value.clone()

    @staticmethod
    def backward(ctx, g):
        return g, None


def _running_products(x: Tensor, dim: int | None) -> Tensor:
    """Of all others, for each element, by torch's cumprod: it has derivatives where one is zero."""
    if dim is None:
        return _running_products(x.reshape(-1), 0).reshape(x.shape)
    n, one = x.shape[dim], torch.ones_like(x.narrow(dim, 0, 1))
    before = torch.cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    behind = torch.cat([one, x.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * behind


class _MaskedFill(torch.autograd.Function):
    """With a sum in the value's gradient that a dispatch mode and a compiler do not change: in them
    torch adds up zeros, too."""

    of = "value"

    @staticmethod
    def forward(ctx, x, mask, value):
        ctx.save_for_backward(mask)
        return torch.ops.aten.masked_fill.Tensor(x, mask, value)

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        if _has_values(g):
            of_value = g.masked_select(mask).sum()
        else:  # the same sum, of a size that is known
            places = (~mask).to(torch.int64).expand_as(g).reshape(-1)
            sums, g_flat = g.new_zeros(2), g.reshape(-1)
            of_value = sums.scatter_reduce(0, places, g_flat, "sum", include_self=False)[0]
        return g.masked_fill(mask, 0), None, of_value


GRADIENTS |= {"prod": _ProdOfAll, "prod.dim_int": _Prod, "masked_fill.Tensor": _MaskedFill}


@covers("dot", "vdot")
def _dot(method, x, y):
    _among(_NUMBERS, "dot", x)
    if x.dim() != 1 or y.dim() != 1 or x.shape != y.shape:
        raise RuntimeError(f"dot: 1D tensors of one length expected, got {list(x.shape)} and {list(y.shape)}")
    if x._is_zerotensor() or y._is_zerotensor():  # which have no elements; forward mode makes them, and has torch give this
        return torch._efficientzerotensor((), dtype=x.dtype, device=x.device)
    return fold(method, "dot", x, y, keepdim=False, out=x.dtype)


# ---- Extrema -------------------------------------------------------------------------------------

heading("extrema")


def _some(op: str, x: Tensor, dims: Sequence[int]) -> None:
    _among(REAL, op, x)
    for d in dims:
        if x.dim() and x.shape[d] == 0:
            raise IndexError(f"{op}(): Expected reduction dim {d} to have non-zero size.")


def _extreme(op: str) -> Callable:
    def along(method, x, dim=(), keepdim=False):
        _some(op, x, dims_of(x.dim(), dim))
        return fold(method, op, x, dim=dim, keepdim=keepdim)

    def with_place(method, x, dim, keepdim=False):
        _some(op, x, dims_of(x.dim(), dim))
        return tuple(_engine.reduce([ask(op, method), ask("arg" + op, method)], x, dim=dim, keepdim=keepdim))

    def place(method, x, dim=None, keepdim=False):
        if x.dtype is torch.bool:
            raise NotImplementedError(f"arg{op}(): does not support bool input")
        if dim is None and not x.numel():
            raise IndexError(f"arg{op}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
        _some("arg" + op, x, dims_of(x.dim(), dim))
        return fold(method, "arg" + op, x, dim=dim, keepdim=keepdim)

    covers("a" + op)(along)
    covers(op)(lambda method, x: along(method, x))
    covers(op + ".dim")(with_place)
    covers("arg" + op)(place)
    return along


_extreme("max"), _extreme("min")


@covers("aminmax")
def _aminmax(method, x, *, dim=None, keepdim=False):
    _some("aminmax", x, dims_of(x.dim(), dim))
    return tuple(_engine.reduce([ask("min", method), ask("max", method)], x, dim=dim, keepdim=keepdim))


# ---- Moments -------------------------------------------------------------------------------------

heading("variances")


def _moments(*ops: str) -> Callable:
    def moments(method, x, dim=None, *, correction=None, keepdim=False):
        _among(FLOATS, ops[0], x)
        ddof = 1 if correction is None else correction
        if ddof < 0 or ddof != int(ddof):  # bitfold has integers from 0 on
            return _corrected(method, ops, x, dim, ddof, keepdim)
        asks = [ask(op, method) if op == "mean" else ask(op, method, ddof=int(ddof)) for op in ops]
        results = _engine.reduce(asks, x, dim=dim, keepdim=keepdim)
        return results[0] if len(ops) == 1 else tuple(results)

    return moments


def _corrected(method: str, ops: tuple[str, ...], x: Tensor, dim, correction: float, keepdim: bool) -> Tensor | tuple[Tensor, ...]:
    n = math.prod(x.shape[d] for d in dims_of(x.dim(), dim))
    var, mean = _engine.reduce([ask("var", method, torch.float64), ask("mean", method)], x, dim=dim, keepdim=keepdim)
    var = over(var * n, max(n - correction, 0.0))
    spread = (square_root(var) if ops[0] == "std" else var).to(x.dtype)
    return spread if len(ops) == 1 else (spread, mean)


covers("var.correction")(_moments("var"))
covers("std.correction")(_moments("std"))
covers("var_mean.correction")(_moments("var", "mean"))
covers("std_mean.correction")(_moments("std", "mean"))


# ---- Norms ---------------------------------------------------------------------------------------

heading("norms")


_NORMS = {1: "norm_l1", 2: "norm_l2", math.inf: "norm_inf"}


@covers("linalg_vector_norm")
def vector_norm(method, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if not (x.is_floating_point() or x.is_complex()):
        wanted = "Expected a floating point or complex tensor as input."
        raise RuntimeError(f"linalg.vector_norm: {wanted} Got {x.dtype}")
    if dtype is not None:
        if dtype.is_complex != x.is_complex():
            raise RuntimeError(f"linalg.vector_norm: dtype should be {'complex' if x.is_complex() else 'real'}, as the input is, but got {dtype}")
        if torch.promote_types(x.dtype, dtype) is not dtype:
            raise RuntimeError(f"linalg.vector_norm: the dtype of the input ({x.dtype}) should be convertible without narrowing to {dtype}")
        x = x.to(dtype)
    if x.is_complex():  # whose magnitudes torch rounds by their place on CPUs
        x = fold(method, "norm_l2", torch.view_as_real(x.resolve_conj()), dim=[x.dim()], keepdim=False)
    _among(FLOATS, "linalg.vector_norm", x)
    named = _NORMS.get(ord)
    if (ord < 0 or ord == math.inf) and 0 in (x.shape[d] for d in dims_of(x.dim(), dim)):
        raise RuntimeError(f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    if named:
        return fold(method, named, x, dim=dim, keepdim=keepdim)
    if ord == -math.inf:
        return fold(method, "min", torch.abs(x), dim=dim, keepdim=keepdim)
    if ord == 0:
        return fold(method, "count_nonzero", x, dim=dim, keepdim=keepdim).to(x.dtype)
    powers = torch.pow(torch.abs(x.to(wide(x.dtype))), ord)
    return torch.pow(fold(method, "sum", powers, dim=dim, keepdim=keepdim), 1 / ord).to(x.dtype)


@quick("linalg_vector_norm")
def _quick_norm(method, x, ord=2, dim=None, keepdim=False):
    return TENSORS.reduce_plain(ask(_NORMS[ord], method), x, None, dim, keepdim, True) if ord in _NORMS else None


@covers("norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype")
def _norm(method, x, p, dim, keepdim=False, *, dtype=None):
    return vector_norm(method, x, 2 if p is None else p, dim, keepdim, dtype=dtype)


@covers("norm.Scalar", "norm.ScalarOpt_dtype")
def _norm_all(method, x, p=2, *, dtype=None):
    return vector_norm(method, x, 2 if p is None else p, dtype=dtype)


@covers("_foreach_norm.Scalar")
def _foreach_norm(method, tensors, ord=2, dtype=None):
    return [vector_norm(method, x, ord, dtype=dtype) for x in tensors]


# ---- Softmax -------------------------------------------------------------------------------------

heading("softmax and its like")


@covers("logsumexp")
def _logsumexp(method, x, dim, keepdim=False):
    _among(REAL, "logsumexp", x)
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
    """A row function along a dimension. CPUs compute with half types in f32."""
    dims_of(x.dim(), dim)  # which says what is wrong with it
    if not x.numel():
        return torch.empty_like(x, dtype=out)
    if not x.dim():
        return _along_rows(function, x.reshape(1), 0, out, None if y is None else y.reshape(1)).reshape(())
    if dim in (-1, x.dim() - 1) and _lie_in_rows(x, out, y):
        return Rows(x, x.shape[dim], y).apply(function)
    as_rows = lambda t: t.to(out if x.is_cuda and x.dtype is out else wide(out)).movedim(dim, -1).contiguous()
    z = Rows(as_rows(x), x.shape[dim], y=None if y is None else as_rows(y)).apply(function)
    return z.movedim(-1, dim).to(out).contiguous()


def _lie_in_rows(x: Tensor, out: torch.dtype, y: Tensor | None) -> bool:
    return all(t.is_contiguous() and t.dtype is out for t in ((x,) if y is None else (x, y))) and (x.is_cuda or out not in HALF)


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
    _among(FLOATS, function, x)
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
    return torch.where(torch.eq(x, -math.inf).all(dim=dim, keepdim=True), torch.zeros_like(y), y)


def _gradient_type(
    op: str, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
) -> torch.dtype:
    """Of a softmax's input: the gradient's, but for a half type's that was computed in f32."""
    _among(FLOATS, op, grad)
    dims_of(grad.dim(), dim)
    if grad.dtype != output.dtype or grad.shape != output.shape:
        of = [f"{t.dtype}, {list(t.shape)}" for t in (grad, output)]
        raise RuntimeError(f"{op}: a gradient of {of[0]}, where the output is of {of[1]}")
    return input_dtype if grad.dtype is torch.float32 and input_dtype in HALF else grad.dtype


@covers("_softmax_backward_data")
def _softmax_backward(method, grad, output, dim, input_dtype):
    input_dtype = _gradient_type("softmax_backward", grad, output, dim, input_dtype)
    if method == "tree" and _has_rows(grad, dim):
        return _along_rows("softmax_backward", grad, dim, grad.dtype, output).to(input_dtype)
    g, y = grad.to(wide(grad.dtype)), output.to(wide(output.dtype))
    return torch.sub(g, fold(method, "dot", g, y, dim=dim)).mul_(y).to(input_dtype)


@covers("_log_softmax_backward_data")
def _log_softmax_backward(method, grad, output, dim, input_dtype):
    input_dtype = _gradient_type("log_softmax_backward", grad, output, dim, input_dtype)
    if method == "tree" and _has_rows(grad, dim):
        return _along_rows("log_softmax_backward", grad, dim, grad.dtype, output).to(input_dtype)
    g, y = grad.to(wide(grad.dtype)), output.to(wide(output.dtype))
    return torch.sub(g, exponential(y).mul_(fold(method, "sum", g, dim=dim))).to(input_dtype)


# ---- Normalisation -------------------------------------------------------------------------------
#
# A layout says along which dimensions of x statistics are taken, and how a weight is spread over x. 1 / sqrt is a square root and a
# division, each rounded as IEEE 754 has it; torch's rsqrt is not.

heading("normalisation")


def _check_parameters(op: str, x: Tensor, shape: Sequence[int], *parameters: Tensor | None) -> None:
    """They are of x's type, or, where it is a half type, of f32."""
    given, size = [t for t in parameters if t is not None], torch.Size(shape)
    for t in given:
        if t.shape != size:
            raise RuntimeError(f"{op}: Expected parameters of shape {list(shape)}, but got one of shape {list(t.shape)}")
    dtypes = {t.dtype for t in given}
    if not (dtypes <= {x.dtype} or x.dtype in HALF and dtypes == {torch.float32}):
        raise RuntimeError(f"{op}: mixed dtype: parameters of {', '.join(sorted(map(str, dtypes)))}, where the input is of {x.dtype}")


def _statistics(method: str, x: Tensor, dims: list[int], eps: float, keepdim: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The mean, what it was rounded by, and 1 / sqrt(var + eps), all of x's wide type."""
    asked = [ask("mean", "kahan", torch.float64), ask("std", method, torch.float64)]
    exact, std = _engine.reduce(asked, x, dim=dims, keepdim=keepdim)
    mean = exact.to(wide(x.dtype))
    return mean, (exact - mean).to(mean.dtype), _inverse_deviation(std, eps, mean.dtype)


def _inverse_deviation(std: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """1 / sqrt(std^2 + eps) in f64, rounded once. Where the square leaves f64's range and eps does not
    show beside it, 1 / std."""
    alone = (std > 2.0**500) | ((std < 2.0**-500) & (eps == 0))
    return torch.where(alone, std.reciprocal(), _inverse_root(std * std, eps)).to(dtype)


def _inverse_root(var: Tensor, eps: float) -> Tensor:
    return square_root(var.add(eps)).reciprocal_()


def _scaled(x: Tensor, mean: Tensor | None, rstd: Tensor, rounded_by: Tensor | None = None) -> Tensor:
    x = x.to(wide(x.dtype))
    y = (x if mean is None else x - mean) * rstd
    return y if rounded_by is None else y.sub_(rounded_by * rstd)


def _affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        y = y * weight.to(y.dtype)
    return y if bias is None else y + bias.to(y.dtype)


def _input_gradient(method: str, g: Tensor, scaled: Tensor, rstd: Tensor, dims: list[int], centred: bool) -> Tensor:
    """Of y = scaled(x), whose statistics are x's own."""
    n = math.prod(g.shape[d] for d in dims)
    along = scaled * over(fold(method, "dot", g, scaled, dim=dims), n)
    return ((g - fold(method, "mean", g, dim=dims) if centred else g) - along) * rstd


def _weight_gradients(method: str, g: Tensor, scaled: Tensor, dims: list[int], shape, dtype, want: Sequence[bool]) -> list[Tensor | None]:
    """Of weight and bias: along all dimensions that they do not have."""
    weight = _column_fold(method, "dot", g, scaled, dims).reshape(shape).to(dtype) if want[0] else None
    bias = _column_fold(method, "sum", g, None, dims).reshape(shape).to(dtype) if want[1] else None
    return [weight, bias]


def _column_fold(method: str, op: str, g: Tensor, y: Tensor | None, dims: list[int]) -> Tensor:
    if not dims:  # every element is a gradient of its own
        return g * y if y is not None else g
    return fold(method, op, *([g] if y is None else [g, y]), dim=dims)


_BELOW_ALL_INTEGERS = -(1 << 62)  # what torch has below says where a symbolic one lies


def _sizes(x: Tensor, normalized: Sequence[int]) -> list[int]:
    """`normalized`, and of what is symbolic there x's own: torch has compared these, and hands them
    over unread as `int[]`."""
    last = x.shape[x.dim() - len(normalized) :]
    return [last[k] if n < _BELOW_ALL_INTEGERS else n for k, n in enumerate(normalized)]


def _batch_dims(x: Tensor, normalized: Sequence[int]) -> tuple[list[int], list[int]]:
    if not normalized:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got []")
    lead = x.dim() - len(normalized)
    if lead < 0 or list(x.shape[lead:]) != list(normalized):
        raise RuntimeError(f"Given normalized_shape={list(normalized)}, expected input with shape [*, {list(normalized)}], but got input of size {list(x.shape)}")
    return list(range(lead)), list(range(lead, x.dim()))


def _are_rows(x: Tensor, dims: list[int]) -> bool:
    return 0 < math.prod(x.shape[d] for d in dims) <= _engine.MOST_OF_A_ROW


def _by_rows(method: str, x: Tensor, dims: list[int], *more: Tensor | None) -> bool:
    return method == "tree" and all(t is None or t.dtype is x.dtype for t in more) and _are_rows(x, dims)


def _rows_of(t: Tensor | None) -> Tensor | None:
    """As the library's row functions take it: CPUs compute with half types in f32."""
    return None if t is None else (t if t.is_cuda else t.to(wide(t.dtype))).contiguous()


def _normalised_rows(function: str, x: Tensor, dims: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    shape, statistics = _engine.result_shape(x.shape, dims, True), wide(x.dtype)
    mean = x.new_empty(shape, dtype=statistics) if function == "layer_norm" else None
    rstd = x.new_empty(shape, dtype=statistics)
    of = Rows(_rows_of(x), math.prod(x.shape[d] for d in dims), w=_rows_of(weight), b=_rows_of(bias), mean=mean, rstd=rstd, eps=eps)
    return of.apply(function).to(x.dtype), mean, rstd


@covers("native_layer_norm")
def _layer_norm(method, x, normalized_shape, weight, bias, eps):
    _among(FLOATS, "layer_norm", x)
    _, dims = _batch_dims(x, normalized_shape)
    _check_parameters("layer_norm", x, normalized_shape, weight, bias)
    if _are_rows(x, dims):  # whatever the method, which moments have none of
        given = [x, weight, bias]
        if any(t is not None and t.dtype is not x.dtype for t in given):
            given = [None if t is None else t.to(wide(x.dtype)) for t in given]
        y, mean, rstd = _normalised_rows("layer_norm", given[0], dims, *given[1:], eps)
        return y.to(x.dtype), mean, rstd
    mean, rounded_by, rstd = _statistics(method, x, dims, eps)
    return _affine(_scaled(x, mean, rstd, rounded_by), weight, bias).to(x.dtype), mean, rstd


@quick("native_layer_norm")
def _quick_layer_norm(method, x, normalized_shape, weight, bias, eps):
    return TENSORS.norm_plain(x, normalized_shape, weight, bias, eps, True) if method == "tree" else None


@quick("native_layer_norm_backward")
def _quick_layer_norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, bias, output_mask):
    return TENSORS.norm_backward_plain(grad, x, normalized_shape, mean, rstd, weight, output_mask) if method == "tree" else None


@covers("native_layer_norm_backward")
def _layer_norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, bias, output_mask):
    return _norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, output_mask)


@cache
def _epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(wide(dtype)).eps


@quick("_fused_rms_norm")
def _quick_rms_norm(method, x, normalized_shape, weight, eps):
    if method != "tree" or not x.is_floating_point():
        return None
    return TENSORS.norm_plain(x, normalized_shape, weight, None, _epsilon(x.dtype) if eps is None else eps, False)


@quick("_fused_rms_norm_backward")
def _quick_rms_norm_backward(method, grad, x, normalized_shape, rstd, weight, output_mask):
    return TENSORS.norm_backward_plain(grad, x, normalized_shape, None, rstd, weight, output_mask) if method == "tree" else None


@covers("_fused_rms_norm")
def _rms_norm(method, x, normalized_shape, weight, eps):
    _among(FLOATS, "rms_norm", x)
    normalized_shape = _sizes(x, normalized_shape)
    _, dims = _batch_dims(x, normalized_shape)
    eps = _epsilon(x.dtype) if eps is None else eps
    if _by_rows(method, x, dims, weight):
        y, _, rstd = _normalised_rows("rms_norm", x, dims, weight, None, eps)
        return y, rstd
    square = over(fold(method, "sum_squares", x, dim=dims, out=wide(x.dtype)), math.prod(normalized_shape))
    rstd = _inverse_root(square, eps)
    return _affine(_scaled(x, None, rstd), weight, None).to(x.dtype), rstd


@covers("_fused_rms_norm_backward")
def _rms_norm_backward(method, grad, x, normalized_shape, rstd, weight, output_mask):
    normalized_shape = _sizes(x, normalized_shape)
    return _norm_backward(method, grad, x, normalized_shape, None, rstd, weight, [*output_mask, False])[:2]


def _norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, output_mask):
    batch, dims = _batch_dims(x, normalized_shape)
    n = math.prod(normalized_shape)
    if _by_rows(method, x, dims, grad, weight) and x.numel() <= n * _engine.MOST_OF_A_ROW:
        function = "rms_norm_backward" if mean is None else "layer_norm_backward"
        of = Rows(_rows_of(grad), n, y=_rows_of(x), w=_rows_of(weight), mean=_rows_of(mean), rstd=_rows_of(rstd))
        parameters = of.parameter_gradients(function, normalized_shape, output_mask[1:]) if any(output_mask[1:]) else [None, None]
        return tuple(None if t is None else t.to(x.dtype) for t in (of.apply(function) if output_mask[0] else None, *parameters))
    g, scaled = grad.to(wide(x.dtype)), _scaled(x, mean, rstd)
    dx = None
    if output_mask[0]:
        dx = _input_gradient(method, _affine(g, weight, None), scaled, rstd, dims, mean is not None).to(x.dtype)
    dtype = x.dtype if weight is None else weight.dtype
    return (dx, *_weight_gradients(method, g, scaled, batch, normalized_shape, dtype, output_mask[1:]))


@covers("native_group_norm")
def _group_norm(method, x, weight, bias, N, C, HxW, group, eps):
    _among(FLOATS, "group_norm", x)
    _check_parameters("group_norm", x, [C], weight, bias)
    groups = x.reshape(N, group, C // group, HxW)
    if _are_rows(groups, [2, 3]):
        scaled, mean, rstd = _normalised_rows("layer_norm", groups.to(wide(x.dtype)), [2, 3], None, None, eps)
    else:
        mean, rounded_by, rstd = _statistics(method, groups, [2, 3], eps)
        scaled = _scaled(groups, mean, rstd, rounded_by)
    y = _affine(scaled, *(_grouped(t, group) for t in (weight, bias)))
    return y.to(x.dtype).reshape(x.shape), mean.reshape(N, group), rstd.reshape(N, group)


def _grouped(t: Tensor | None, group: int) -> Tensor | None:
    return None if t is None else t.reshape(1, group, -1, 1)


@covers("native_group_norm_backward")
def _group_norm_backward(method, grad, x, mean, rstd, weight, N, C, HxW, group, output_mask):
    shape = (N, group, C // group, HxW)
    g, rstd = grad.reshape(shape).to(wide(x.dtype)), rstd.reshape(N, group, 1, 1)
    scaled = _scaled(x.reshape(shape), mean.reshape(N, group, 1, 1), rstd)
    dx = None
    if output_mask[0]:
        dx = _input_gradient(method, _affine(g, _grouped(weight, group), None), scaled, rstd, [2, 3], True).to(x.dtype).reshape(x.shape)
    dtype = x.dtype if weight is None else weight.dtype
    return (dx, *_weight_gradients(method, g, scaled, [0, 3], (C,), dtype, output_mask[1:]))


def _channelled(t: Tensor | None, x: Tensor) -> Tensor | None:
    return None if t is None else t.reshape(1, -1, *(1 for _ in range(x.dim() - 2)))


def _other_dims(x: Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


def _normalised_batch(method, x, weight, bias, running_mean, running_var, training, momentum, eps):
    """y, the batch's mean and 1 / std (nothing where it is not training), and the running statistics thereafter."""
    _among(FLOATS, "batch_norm", x)
    if not x.dim():
        raise RuntimeError("batch_norm: Expected an input of channels, but got one of no dimension")
    for pair in ((weight, bias), (running_mean, running_var)):
        if any(t is not None and t.dim() != 1 and t.numel() == x.shape[1] for t in pair):
            raise Uncovered("batch_norm: bitfold has none of parameters that are no vectors")
        _check_parameters("batch_norm", x, [x.shape[1]], *pair)
    if training and not x.numel():
        raise RuntimeError(f"input tensor must have at least one element, but got input_sizes = {list(x.shape)}")
    if not training and (running_mean is None or running_var is None):
        raise ValueError("running_mean and running_var must be defined in evaluation mode")
    if training:
        dims = _other_dims(x)
        n = math.prod(x.shape[d] for d in dims)
        mean, rounded_by, rstd = _statistics(method, x, dims, eps, keepdim=False)
        saved = mean, rstd
        if running_mean is not None:
            running_mean = _moved(running_mean, mean, momentum)
        if running_var is not None:
            var = fold(method, "var", x, dim=dims, keepdim=False, out=mean.dtype)
            running_var = _moved(running_var, var * (n / (n - 1) if n > 1 else math.nan), momentum)
    else:
        rounded_by = None
        mean, rstd = running_mean.to(wide(x.dtype)), _inverse_root(running_var.to(wide(x.dtype)), eps)
        saved = mean.new_empty(0), mean.new_empty(0)
    scaled = _scaled(x, *(_channelled(t, x) for t in (mean, rstd, rounded_by)))
    y = _affine(scaled, _channelled(weight, x), _channelled(bias, x))
    return y.to(x.dtype), *saved, running_mean, running_var


def _moved(running: Tensor, now: Tensor, momentum: float) -> Tensor:
    return (running * (1 - momentum) + now * momentum).to(running.dtype)


@covers("native_batch_norm", "_native_batch_norm_legit")
def _batch_norm(method, x, weight, bias, running_mean, running_var, training, momentum, eps):
    *results, mean, var = _normalised_batch(method, x, weight, bias, running_mean, running_var, training, momentum, eps)
    if training:
        for kept, now in ((running_mean, mean), (running_var, var)):
            if kept is not None:
                kept.copy_(now)
    return tuple(results)


@covers("_native_batch_norm_legit.no_stats")
def _batch_norm_of_this(method, x, weight, bias, training, momentum, eps):
    return _normalised_batch(method, x, weight, bias, None, None, True, momentum, eps)[:3]


@covers("_native_batch_norm_legit_no_training")
def _batch_norm_at_rest(method, x, weight, bias, running_mean, running_var, momentum, eps):
    return _normalised_batch(method, x, weight, bias, running_mean, running_var, False, momentum, eps)[:3]


@covers("_native_batch_norm_legit_functional")
def _batch_norm_functional(method, x, weight, bias, running_mean, running_var, training, momentum, eps):
    results = _normalised_batch(method, x, weight, bias, running_mean, running_var, training, momentum, eps)
    return (*results[:3], *(new if new is not old else old.clone() for new, old in zip(results[3:], (running_mean, running_var))))


@covers("_batch_norm_with_update")
def _batch_norm_with_update(method, x, weight, bias, running_mean, running_var, momentum, eps):
    return (*_batch_norm(method, x, weight, bias, running_mean, running_var, True, momentum, eps), x.new_empty(0, dtype=torch.uint8))


@covers("_batch_norm_with_update_functional")
def _batch_norm_with_update_functional(method, x, weight, bias, running_mean, running_var, momentum, eps):
    y, mean, rstd, *running = _normalised_batch(method, x, weight, bias, running_mean, running_var, True, momentum, eps)
    return y, mean, rstd, x.new_empty(0, dtype=torch.uint8), *running


@covers("_batch_norm_no_update")
def _batch_norm_no_update(method, x, weight, bias, running_mean, running_var, momentum, eps):
    results = _normalised_batch(method, x, weight, bias, running_mean, running_var, running_mean is None, momentum, eps)
    return *results[:3], x.new_empty(0, dtype=torch.uint8)


@covers("cudnn_batch_norm")
def _cudnn_batch_norm(method, x, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    results = _batch_norm(method, x, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon)
    return *results, x.new_empty(0, dtype=torch.uint8)


@covers("native_batch_norm_backward")
def _batch_norm_backward(method, grad, x, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask):
    g, dims = grad.to(wide(x.dtype)), _other_dims(x)
    if train:
        mean, rstd = save_mean, save_invstd
    else:
        mean, rstd = running_mean.to(g.dtype), _inverse_root(running_var.to(g.dtype), eps)
    rstd = _channelled(rstd, x)
    scaled = _scaled(x, _channelled(mean, x), rstd)
    dx = None
    if output_mask[0]:
        at = _affine(g, _channelled(weight, x), None)
        dx = (_input_gradient(method, at, scaled, rstd, dims, True) if train else at * rstd).to(x.dtype)
    dtype = x.dtype if weight is None else weight.dtype
    return (dx, *_weight_gradients(method, g, scaled, dims, (x.shape[1],), dtype, output_mask[1:]))


@covers("batch_norm_backward")
def _batch_norm_backward_2(method, grad, x, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask, reserve):
    return _batch_norm_backward(method, grad, x, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask)


@covers("cudnn_batch_norm_backward")
def _cudnn_batch_norm_backward(method, x, grad, weight, running_mean, running_var, save_mean, save_var, epsilon, reserveSpace):
    return _batch_norm_backward(method, grad, x, weight, running_mean, running_var, save_mean, save_var, True, epsilon, [True] * 3)


# ---- Losses --------------------------------------------------------------------------------------

heading("losses")

_NONE, _MEAN = 0, 1


@covers("mse_loss")
def _mse_loss(method, x, y, reduction=_MEAN):
    dtype = torch.result_type(x, y)
    if dtype not in FLOATS:
        raise Uncovered(f"mse_loss: bitfold has none of {dtype}")
    x, y = torch.broadcast_tensors(x.to(dtype), y.to(dtype))
    if reduction == _NONE:
        d = x - y
        return d * d
    return fold(method, "mse" if reduction == _MEAN else "squared_distance", x, y, keepdim=False, out=dtype)


@quick("mse_loss")
def _quick_mse_loss(method, x, y, reduction=_MEAN):
    if reduction == _NONE:
        return None
    return TENSORS.reduce_plain(ask("mse" if reduction == _MEAN else "squared_distance", method), x, y, None, False, True)


@quick("nll_loss_forward")
def _quick_nll_loss(method, x, target, weight, reduction, ignore_index):
    if weight is not None or reduction == _NONE:
        return None
    return TENSORS.nll_plain(ask("sum", method), x, target, reduction == _MEAN, ignore_index)


@covers("nll_loss_forward", "nll_loss2d_forward")
def _nll_loss(method, x, target, weight, reduction, ignore_index):
    _among(FLOATS, "nll_loss", x)
    classes = 0 if x.dim() == 1 else 1
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(f"nll_loss: expected target dtype to be Long or Byte, but got {target.dtype}")
    if not classes and target.numel() == 1:
        target = target.reshape(())
    if target.shape != x.shape[:classes] + x.shape[classes + 1 :]:
        raise RuntimeError(f"nll_loss: size mismatch (got input: {list(x.shape)}, target: {list(target.shape)})")
    if weight is not None:
        _same_type(x, weight, "nll_loss")
        if weight.numel() != x.shape[classes] or (weight.dim() != 1 and x.dim() < 4):
            raise RuntimeError(f"nll_loss: weight tensor should be defined for all {x.shape[classes]} classes, but has shape {list(weight.shape)}")
        weight = weight.reshape(-1)
    counts = target != ignore_index
    at = _checked(torch.where(counts, target, 0), x.shape[classes], "nll_loss", IndexError)
    picked = x.gather(classes, at.unsqueeze(classes)).squeeze(classes)
    if x.dtype in HALF:
        picked = picked.to(torch.float32)
    share, losses = counts.to(picked.dtype), picked.neg()
    if weight is not None:
        share = torch.where(counts, weight.to(picked.dtype)[at], 0.0)
        losses = losses * share
    losses = torch.where(counts, losses, 0.0)
    if reduction == _NONE:
        return losses.to(x.dtype), x.new_zeros(())
    total = fold(method, "sum", share, keepdim=False)
    loss = fold(method, "sum", losses, keepdim=False)
    if reduction == _MEAN:
        loss = loss / total
    return (loss.to(x.dtype), total.to(x.dtype)) if x.dtype in HALF else (loss, total)


# ---- By key --------------------------------------------------------------------------------------
#
# What goes to one place is one reduction, in the order in which it comes; then it meets what lay there.

heading("adding by index")


def _summed_as_rows(method: str, op: str, x: Tensor, out: torch.dtype | None = None) -> bool:
    fits = x.is_floating_point() and out in (None, x.dtype) and 0 < x.shape[0] <= _engine.MOST_OF_A_ROW
    return (method, op) == ("tree", "sum") and fits and x[0].numel() >= 4  # shorter ones are as quick one by one


def _rows_by_key(method: str, op: str, x: Tensor, keys: Tensor, outputs: int, out: torch.dtype | None = None) -> Tensor:
    """x: rows; keys: one for each. Gives `outputs` rows."""
    width = x.shape[1:].numel()
    if _summed_as_rows(method, op, x, out):
        return _engine.sum_rows(x.reshape(-1, width), keys.to(torch.int64), outputs).reshape(outputs, *x.shape[1:])
    at = (keys.to(torch.int64).unsqueeze(1) * width + torch.arange(width, device=x.device)).reshape(-1)
    return _engine.by_key(ask(op, method, out), x.reshape(-1), at, outputs * width).reshape(outputs, *x.shape[1:])


def _touched(at: Tensor, outputs: int) -> Tensor:
    return torch.zeros(outputs, dtype=torch.bool, device=at.device).index_fill_(0, at, True)


def _combined(method: str, base: Tensor, at: Tensor, values: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """`values` reduced into places `at` of base; all flat."""
    n = base.numel()
    if not base.is_complex():
        _among(REAL, reduce, base)
    if base.dtype.is_complex:
        if reduce != "sum":
            raise Uncovered(f"{reduce}: bitfold has none of {base.dtype} by index")
        pairs = (at.unsqueeze(1) * 2 + torch.arange(2, device=at.device)).reshape(-1)
        parts = _combined(method, _flat_parts(base), pairs, _flat_parts(values), reduce, include_self)
        return torch.view_as_complex(parts.reshape(-1, 2))
    if base.dtype is torch.bool:  # true plus true is true
        if reduce == "mean":
            raise NotImplementedError("mean: not implemented for torch.bool")
        as_bytes = _combined(method, base.to(torch.uint8), at, values.to(torch.uint8), {"sum": "amax"}.get(reduce, reduce), include_self)
        return as_bytes != 0
    touched = _touched(at, n)
    if reduce in ("amax", "amin"):
        worst = _worst(base.dtype, reduce)
        kept = base if include_self else base.masked_fill(touched, worst)
        every = torch.cat([torch.arange(n, device=at.device), at])
        return _engine.by_key(ask(reduce[1:], method), torch.cat([kept, values.to(base.dtype)]), every, n)
    exact = not base.dtype.is_floating_point
    type_of_sum = torch.int64 if exact else wide(base.dtype)
    op = "prod" if reduce == "prod" else "sum"
    folded = _engine.by_key(ask(op, method, type_of_sum), values, at, n)
    if include_self:
        folded = base * folded if op == "prod" else base + folded
    if reduce == "mean":
        counts = _engine.by_key(request("count_nonzero"), torch.ones_like(at), at, n) + int(include_self)
        counts = counts.clamp_min(1)
        folded = torch.div(folded, counts, rounding_mode="floor") if exact else folded / counts.to(folded.dtype)
    return torch.where(touched, folded.to(base.dtype), base)


def _flat_parts(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj()).reshape(-1)


def _worst(dtype: torch.dtype, reduce: str) -> float | int:
    if dtype.is_floating_point:
        return -math.inf if reduce == "amax" else math.inf
    limits = torch.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def _same_type(x: Tensor, source: Tensor, op: str) -> None:
    if x.dtype != source.dtype:
        raise RuntimeError(f"{op}(): Expected self.dtype to be equal to src.dtype")


def _one_of(op: str, reduce: str, known: Sequence[str]) -> str:
    if reduce not in known:
        raise RuntimeError(f"{op}(): Expected reduce to be one of {', '.join(known)} but got {reduce}.")
    return reduce


def _index(op: str, index: Tensor) -> Tensor:
    if index.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index but got: {index.dtype}")
    return index.to(torch.int64)


def _can_look(x: Tensor) -> bool:
    """On a GPU looking would be a synchronisation; there torch asserts."""
    return _engine.is_real(x) and x.numel() > 0 and not x.is_cuda


def _checked(index: Tensor, size: int, op: str, error: type[Exception] = RuntimeError) -> Tensor:
    if _can_look(index):
        places = index.numpy()
        if not (0 <= places.min() and places.max() < size):
            raise error(f"{op}(): index is out of bounds for a dimension of size {size}")
    return index.to(torch.int64)


def _scattered(method, x, dim, index, src, reduce, include_self=True):
    dims_of(x.dim(), dim)
    if not index.numel():
        return x.clone()
    if not x.dim():
        return _scattered(method, x.reshape(1), 0, index, src, reduce, include_self).reshape(())
    dim %= x.dim()
    index, src = (t if t.dim() else t.reshape(1) for t in (index, src))
    if not index.dim() == x.dim() == src.dim():
        raise RuntimeError("scatter(): Index, self and src must have the same number of dimensions")
    if any(n > m or n > k and d != dim for d, (n, m, k) in enumerate(zip(index.shape, src.shape, x.shape))):
        shapes = f"index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {dim}"
        raise RuntimeError(f"scatter(): Expected {shapes} and no larger than src {list(src.shape)}")
    index = _checked(_index("scatter", index), x.shape[dim], "scatter")
    src = src[tuple(slice(n) for n in index.shape)]
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    here = places[tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))]
    at = here.gather(dim, index).reshape(-1)
    return _combined(method, x.reshape(-1), at, src.reshape(-1), reduce, include_self).reshape(x.shape)


@covers("scatter_add")
def _scatter_add(method, x, dim, index, src):
    _same_type(x, src, "scatter")
    return _scattered(method, x, dim, index, src, "sum")


@covers("scatter_reduce.two")
def _scatter_reduce(method, x, dim, index, src, reduce, *, include_self=True):
    if _one_of("scatter_reduce", reduce, ("sum", "prod", "mean", "amax", "amin")) == "mean":
        _among(_NUMBERS, "scatter_reduce", x)
    _same_type(x, src, "scatter")
    return _scattered(method, x, dim, index, src, reduce, include_self)


@covers("scatter.reduce")
def _scatter_named(method, x, dim, index, src, *, reduce):
    _same_type(x, src, "scatter")
    return _scattered(method, x, dim, index, src, {"add": "sum", "multiply": "prod"}[_one_of("scatter", reduce, ("add", "multiply"))])


@covers("scatter.value_reduce")
def _scatter_value(method, x, dim, index, value, *, reduce):
    src = torch.full(index.shape, value, dtype=x.dtype, device=x.device)
    return _scatter_named(method, x, dim, index, src, reduce=reduce)


def _indexed(method, x, dim, index, source, reduce, include_self=True):
    dims_of(x.dim(), dim)
    if index.dim() > 1:
        raise IndexError("index_add_(): Index is supposed to be a vector")
    if not x.dim() and not source.dim():
        x, source = x.reshape(1), source.reshape(1)
        return _indexed(method, x, 0, index, source, reduce, include_self).reshape(())
    shape = list(x.shape)
    if x.dim():
        shape[dim] = index.numel()
    if list(source.shape) != shape:
        raise RuntimeError(f"index_add_(): source of shape {list(source.shape)}, where {shape} is expected")
    if source.numel() and not x.numel():
        raise Uncovered("index_add_(): bitfold has none into no elements")
    if source.dtype is x.dtype and x.numel() and _summed_as_rows(method, reduce, source.movedim(dim, 0)):
        keys = _checked(_index("index_add", index), x.shape[dim], "index_add").reshape(-1)
        if keys.is_cuda:  # as torch's own kernels do
            torch._assert_async(((keys >= 0) & (keys < x.shape[dim])).all())
        rows = x.movedim(dim, 0).contiguous()
        summed = _engine.sum_rows(source.movedim(dim, 0).reshape(keys.numel(), -1), keys, rows.shape[0], rows)
        return summed.reshape(rows.shape).movedim(0, dim).contiguous()
    view = [1] * x.dim()
    view[dim] = -1
    return _scattered(method, x, dim, index.reshape(view).expand(shape), source, reduce, include_self)


@covers("index_add")
def _index_add(method, x, dim, index, source, *, alpha=1):
    _same_type(x, source, "index_add_")
    if isinstance(alpha, complex) and not x.is_complex():
        raise Uncovered(f"index_add: bitfold has no complex alpha for {x.dtype}")
    if alpha != 1:
        if not (x.is_floating_point() or x.is_complex()):
            alpha = x.new_full((), alpha)  # which has to fit
        source = source.to(wide(x.dtype)) * alpha
    return _indexed(method, x, dim, index, source, "sum")


@covers("index_reduce")
def _index_reduce(method, x, dim, index, source, reduce, *, include_self=True):
    _among(_NUMBERS, "index_reduce", x)
    _one_of("index_reduce", reduce, ("prod", "mean", "amax", "amin"))
    _same_type(x, source, "index_reduce")
    return _indexed(method, x, dim, index, source, reduce, include_self)


def index_put(method, x, indices, values, accumulate=False, unsafe=False):
    """With accumulate; without it there is nothing to add, and torch's own runs."""
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    return _put(method, x.reshape(-1), places, indices, values).reshape(x.shape)


def _put(
    method: str, row: Tensor, places: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """`row` with `values` added at places[indices] of it."""
    at = places[tuple(slice(None) if i is None else i for i in indices)]
    _same_type(row, values, "index_put")
    return _combined(method, row, at.reshape(-1), values.expand(at.shape).reshape(-1), "sum")


def index_put_(method, x, indices, values, accumulate=False, unsafe=False):
    """In place. Elements of x may lie at one place, as an expanded tensor's do: what goes to any of
    them goes to it."""
    if not x.numel() or not _arrays.repeats(x.stride(), x.shape):
        return x.copy_(index_put(method, x, indices, values))
    extent = 1 + sum(s * (n - 1) for s, n in zip(x.stride(), x.shape))
    row = x.as_strided((extent,), (1,))
    places = torch.arange(extent, device=x.device).as_strided(x.shape, x.stride())
    row.copy_(_put(method, row, places, indices, values))
    return x


def put_(method, x, index, source, accumulate=False):
    return x.copy_(put(method, x, index, source))


def put(method, x, index, source, accumulate=False):
    n = x.numel()
    _same_type(x, source, "put_")
    if index.dtype is not torch.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype}")
    if index.numel() != source.numel():
        raise IndexError(f"put_(): Expected as many elements of source as of index, but got {source.numel()} and {index.numel()}")
    index = index.reshape(-1)
    return _combined(method, x.reshape(-1), torch.where(index < 0, index + n, index), source.reshape(-1), "sum").reshape(x.shape)


#: In place, and by bitfold only where `accumulate` is true.
ACCUMULATING: dict[str, Callable] = {"_index_put_impl_": index_put_, "put_": put_}


@covers("embedding_dense_backward")
def _embedding_backward(method, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    keys = _index("embedding_dense_backward", indices).reshape(-1)
    rows = grad.reshape(keys.numel(), grad.shape[-1])
    return _summed_rows(method, rows, keys, num_weights, padding_idx, scale_grad_by_freq).to(grad.dtype)


def _summed_rows(method, rows, keys, num_weights, padding_idx, scale_grad_by_freq):
    if padding_idx >= 0:  # such rows go to one of their own, which is dropped
        keys = torch.where(keys == padding_idx, torch.full_like(keys, num_weights), keys)
    if scale_grad_by_freq:
        counts = _engine.by_key(request("count_nonzero"), torch.ones_like(keys), keys, num_weights + 1)
        rows = rows.to(wide(rows.dtype)) / counts[keys].unsqueeze(1)
    return _rows_by_key(method, "sum", rows, keys, num_weights + 1, rows.dtype)[:num_weights].contiguous()


# ---- Bags ----------------------------------------------------------------------------------------

heading("bags of embeddings")

_BAG_SUM, _BAG_MEAN, _BAG_MAX = range(3)


@covers("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    method, weight, indices, offsets, scale_grad_by_freq=False, mode=_BAG_SUM, sparse=False, per_sample_weights=None, include_last_offset=False,
    padding_idx=-1,
):  # fmt: skip
    _among(FLOATS, "embedding_bag", weight)
    bags, n, width = offsets.numel() - int(include_last_offset), indices.numel(), weight.shape[1]
    if bags < 0:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    common = torch.promote_types(indices.dtype, offsets.dtype)
    indices, offsets = indices.to(common), offsets.to(common)
    indices = _checked(_index("embedding_bag", indices), weight.shape[0], "embedding_bag")
    if _can_look(offsets):
        if not (int(offsets[0]) == 0 and int(offsets[-1]) <= n):
            raise RuntimeError(f"embedding_bag: offsets go from 0 to at most input's length {n}, but got {int(offsets[0])} and {int(offsets[-1])}")
        if len(falls := (offsets[1:] < offsets[:-1]).nonzero()):
            raise RuntimeError(f"embedding_bag: offsets[{int(falls[0]) + 1}] is below the one before")
    # What lies behind the last offset, where that ends a bag, is in bag number `bags`, which is dropped.
    bag = torch.bucketize(torch.arange(n, device=indices.device), _index("embedding_bag", offsets), right=True) - 1
    if not offsets.numel():
        bag = torch.zeros_like(bag)  # there is none, but that
    rows = weight[indices]
    if per_sample_weights is not None:
        _same_type(weight, per_sample_weights, "embedding_bag")
        if mode != _BAG_SUM:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
        rows = rows.to(wide(rows.dtype)) * per_sample_weights.unsqueeze(1)
    keys = bag if padding_idx < 0 else torch.where(indices == padding_idx, bags, bag)  # padding goes to a bag that is dropped
    sizes = _engine.by_key(request("count_nonzero"), torch.ones_like(keys), keys, bags + 1)[:bags].contiguous()
    if mode == _BAG_MAX:
        at = (keys.unsqueeze(1) * width + torch.arange(width, device=keys.device)).reshape(-1)
        nothing = torch.zeros((bags + 1) * width, dtype=weight.dtype, device=weight.device)
        best = _combined(method, nothing, at, rows.reshape(-1), "amax", include_self=False)
        first = torch.where(rows.reshape(-1) == best[at], torch.arange(n, device=at.device).repeat_interleave(width), n)
        which = _combined(method, torch.full_like(nothing, n, dtype=torch.int64), at, first, "amin")
        which = torch.where(which < n, torch.cat([indices, indices.new_full((1,), -1)])[which], -1)
        best, which = (t.reshape(bags + 1, width)[:bags].contiguous() for t in (best, which))
        return best, bag, sizes, which
    y = _rows_by_key(method, "sum", rows, keys, bags + 1, wide(weight.dtype))[:bags]
    if mode == _BAG_MEAN:
        y = y / sizes.clamp_min(1).unsqueeze(1).to(y.dtype)
    return y.to(weight.dtype).contiguous(), bag, sizes, sizes.clone()


@covers("_embedding_bag_dense_backward")
def _embedding_bag_backward(
    method, grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx=-1
):
    _among(FLOATS, "embedding_bag_backward", grad)
    if mode == _BAG_MAX:
        bags, width = grad.shape
        keys = torch.where(maximum_indices < 0, num_weights, maximum_indices)
        at = (keys * width + torch.arange(width, device=keys.device)).reshape(-1)
        summed = _engine.by_key(ask("sum", method, grad.dtype), grad.reshape(-1), at, (num_weights + 1) * width)
        return summed.reshape(num_weights + 1, width)[:num_weights].contiguous()
    within = offset2bag < grad.shape[0]
    offset2bag, keys = offset2bag.where(within, 0), indices.to(torch.int64).where(within, num_weights)
    rows = grad[offset2bag].to(wide(grad.dtype))
    if mode == _BAG_MEAN:
        rows = rows / bag_size.clamp_min(1)[offset2bag].unsqueeze(1).to(rows.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return _summed_rows(method, rows, keys, num_weights, padding_idx, scale_grad_by_freq).to(grad.dtype)


@covers("_embedding_bag_per_sample_weights_backward")
def _bag_weights_backward(method, grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    _among(FLOATS, "embedding_bag_backward", grad)
    within = offset2bag < grad.shape[0]
    g, rows = grad[offset2bag.where(within, 0)], weight[indices]
    per_sample = fold(method, "dot", g, rows, dim=1, keepdim=False, out=grad.dtype)
    return per_sample.where(within if padding_idx < 0 else within & (indices != padding_idx), 0)
