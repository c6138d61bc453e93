"""Sums, means, products, extrema, variances and norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from bitfold import _core

from .. import _engine
from .._engine import FLOATS, HALF, TENSORS, Uncovered, dims_of, over, wide
from .._ops import product_of_others
from .common import GRADIENTS, NUMBERS, REAL, among, ask, covers, fold, heading, quick, square_root


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
    **{name: ("prod",) for name in ("prod", "prod.dim_int")},
    **{name: (op,) for op in ("max", "min") for name in (op, "a" + op)},
    **{op + ".dim": (op, "arg" + op) for op in ("max", "min")},
    **{op: (op,) for op in ("argmax", "argmin", "logsumexp")},
}.items():
    _quick_reduction(_name, *_ops)


# ---- Sums ----------------------------------------------------------------------------------------

heading("sums, means, products")


def _additive(method: str, op: str, x: Tensor, dim, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """Sums and products with torch's types: integers and bool in i64, `dtype` taken before they are added."""
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() or x.is_complex() else torch.int64
    if not x.is_complex():
        among(REAL, op, x)
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
        if _has_values(x) and (x.is_cpu or torch.is_grad_enabled()) and not zero.any():
            return g * (out / x), None, None, None
        others_of = torch.where(zero, 1, x)
        zeros, others = zero.sum(dim, keepdim=True), _product(others_of.detach(), dim, True, None)
        rest = product_of_others(zero, zeros, others, out / others_of)
        if torch.is_grad_enabled():
            rest = torch.where(zeros == 0, rest, _Valued.apply(_running_products(x, dim), rest))
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


GRADIENTS.update({"prod": _ProdOfAll, "prod.dim_int": _Prod, "masked_fill.Tensor": _MaskedFill})


@covers("dot", "vdot")
def _dot(method, x, y):
    among(NUMBERS, "dot", x)
    if x.dim() != 1 or y.dim() != 1 or x.shape != y.shape:
        raise RuntimeError(f"dot: 1D tensors of one length expected, got {list(x.shape)} and {list(y.shape)}")
    if x._is_zerotensor() or y._is_zerotensor():  # which have no elements; forward mode makes them, and has torch give this
        return torch._efficientzerotensor((), dtype=x.dtype, device=x.device)
    return fold(method, "dot", x, y, keepdim=False, out=x.dtype)


# ---- Extrema -------------------------------------------------------------------------------------

heading("extrema")


def _some(op: str, x: Tensor, dims: Sequence[int]) -> None:
    among(REAL, op, x)
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
        among(FLOATS, ops[0], x)
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
    among(FLOATS, "linalg.vector_norm", x)
    named = _NORMS.get(ord)
    if (ord < 0 or ord == math.inf) and 0 in (x.shape[d] for d in dims_of(x.dim(), dim)):
        raise RuntimeError(f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    if named:
        return fold(method, named, x, dim=dim, keepdim=keepdim)
    if ord == -math.inf:
        return fold(method, "min", torch.abs(x), dim=dim, keepdim=keepdim)
    if ord == 0:
        return fold(method, "count_nonzero", x, dim=dim, keepdim=keepdim).to(x.dtype)
    x_wide = x.to(wide(x.dtype))
    if ord == 3:  # torch's cube is x * x * x, whose magnitude no sign changes: norm_l1 takes it, and no pass makes it
        total = fold(method, "norm_l1", torch.pow(x_wide, 3), dim=dim, keepdim=keepdim)
    else:
        total = fold(method, "sum", torch.pow(torch.abs(x_wide), ord), dim=dim, keepdim=keepdim)
    return torch.pow(total, 1 / ord).to(x.dtype)


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
    if ord in _NORMS and dtype is None and (norms := _engine.reduce_each(ask(_NORMS[ord], method), list(tensors))) is not None:
        return list(norms.unbind(0))  # of one tensor, as torch's are
    return [vector_norm(method, x, ord, dtype=dtype) for x in tensors]
