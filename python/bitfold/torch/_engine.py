"""bitfold's reductions with torch's arguments, types and errors. What tensors are is bitfold._tensors's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from bitfold import _core, _tensors
from bitfold._tensors import DTYPES, NAMES, TENSORS

#: The operations of the registry by name, and the names of the methods.
OPS = {op["name"]: op for op in _core.ops()}
METHODS = tuple(m["name"] for m in _core.methods())

_MAX_DIMS, _TORCHS_DIMS = 8, 64  # of bitfold's reductions, and of torch's

HALF = (torch.float16, torch.bfloat16)
FLOATS = (*HALF, torch.float32, torch.float64)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which elements are computed with."""
    return torch.float32 if dtype in HALF else dtype


def over(x: torch.Tensor, n: float) -> torch.Tensor:
    """x / n, rounded once: on CUDA torch multiplies by 1 / n, where n is a number."""
    return x / x.new_full((), n)


def method_for(op: str, method: str | None) -> str | None:
    """`method` where the operation takes it, else None: its own way."""
    info = OPS[op]
    if method is None:
        return None
    return method if info["has_exact" if method == "exact" else "takes_method"] else None


class Uncovered(TypeError):
    """What bitfold has no function for: under the mode torch's own, and strict's to refuse."""


def name_of(dtype: torch.dtype) -> str:
    try:
        return NAMES[dtype]
    except KeyError:
        raise Uncovered(f"x: bitfold does not reduce {dtype}") from None


@cache
def request(op: str, method: str | None = None, dtype: torch.dtype | None = None, acc: torch.dtype | None = None, ddof: int = 0) -> _core.Request:
    """A reduction to make: of which elements is known later. `method`: what it takes of this one; `dtype`: of the result."""
    name = lambda d: None if d is None else name_of(d)
    return _core.Request(op, method, None if method == "exact" else name(acc), name(dtype), ddof)


@cache
def result_dtype(wanted: _core.Request, dtype: torch.dtype) -> torch.dtype:
    """Errors: those of bitfold (ValueError, naming the argument)."""
    return DTYPES[wanted.result(name_of(dtype))]


def dims_of(rank: int, dim: Sequence[int] | int | None) -> list[int]:
    """Counted from 0; of None and of an empty list all, as torch has it."""
    return list(_dims_of(rank, (dim,) if isinstance(dim, int) else tuple(dim or ())))


@cache
def _dims_of(rank: int, dims: tuple[int, ...]) -> tuple[int, ...]:
    if not dims or rank == 0 and dims in ((0,), (-1,)):
        return tuple(range(rank))
    if rank > _TORCHS_DIMS:
        raise Uncovered(f"x: {rank} dimensions")
    bound = max(rank, 1)
    seen = []
    for d in dims:
        if not -bound <= d < bound:
            raise IndexError(f"dim: {d} is out of range for a tensor of {rank} dimensions")
        d %= bound
        if d in seen:
            raise RuntimeError(f"dim: {d} appears twice")
        seen.append(d)
    return tuple(seen) if rank else ()


def result_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> list[int]:
    return [1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims]


def has_tangent(*args) -> bool:
    """Whether one of them is differentiated in forward mode."""
    tensors = (t for t in args if isinstance(t, torch.Tensor))
    return forward_ad._current_level >= 0 and any(map(_tensors.has_tangent, tensors))


def is_real(x: torch.Tensor) -> bool:
    """Whether there are elements, and not, under torch.compile or on device meta, shapes alone."""
    return not (isinstance(x, FakeTensor) or x.is_meta)


def reduce(
    wanted: Sequence[_core.Request], x: torch.Tensor, y: torch.Tensor | None = None, dim: Sequence[int] | int | None = None, keepdim: bool = False
) -> Sequence[torch.Tensor]:
    """The results in one call, along `dim` of x, or of x and y of one shape."""
    rank = x.dim()
    dims = _dims_of(rank, (dim,) if isinstance(dim, int) else tuple(dim or ()))
    types = [result_dtype(r, x.dtype) for r in wanted]
    if not is_real(x):
        return [x.new_empty(result_shape(x.shape, dims, keepdim), dtype=t) for t in types]
    if rank <= _MAX_DIMS:
        return _core.reduce(wanted, x, y, dims, keepdim, TENSORS)
    kept = [d for d in range(rank) if d not in dims]  # the same elements in the same order, as rows
    rows = [math.prod(x.shape[d] for d in kept), math.prod(x.shape[d] for d in dims)]
    x, y, shape = *(None if t is None else t.permute(*kept, *sorted(dims)).reshape(rows) for t in (x, y)), result_shape(x.shape, dims, keepdim)
    return [out.reshape(shape) for out in reduce(wanted, x, y, 1)]


def reduce_pieces(wanted: _core.Request, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    """Of the elements of contiguous tensors of one type as of one: by method exact, to which order and grouping are nothing."""
    if not is_real(pieces[0]):
        return pieces[0].new_empty((), dtype=result_dtype(wanted, pieces[0].dtype))
    return _core.reduce_pieces(wanted, pieces, TENSORS)


def reduce_each(wanted: _core.Request, tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Of each of some tensors a result, one behind the other, in one call; None unless they are of one type of floats, on one device, each with
    elements in a row."""
    first = tensors[0]
    if is_real(first):
        return TENSORS.reduce_each_plain(wanted, tensors)
    alike = all(t.dtype is first.dtype and t.device == first.device and t.numel() and t.is_contiguous() for t in tensors)
    return first.new_empty(len(tensors), dtype=result_dtype(wanted, first.dtype)) if alike and first.dtype in FLOATS else None


def by_key(wanted: _core.Request, x: torch.Tensor, keys: torch.Tensor, outputs: int) -> torch.Tensor:
    """Element i of x goes to output keys[i]; x and keys are flat, and every key names an output."""
    if not is_real(x):
        return x.new_empty(outputs, dtype=result_dtype(wanted, x.dtype))
    return _core.reduce_by_key(wanted, x.contiguous(), None, keys.contiguous(), outputs, False, TENSORS)


def product(
    a: torch.Tensor,
    b: torch.Tensor,
    addend: torch.Tensor | None = None,
    method: str | None = None,
    dtype: torch.dtype | None = None,
    bits: int | None = None,
) -> torch.Tensor:
    """a times b, of shapes as torch.matmul takes them, plus an addend of the result's type that broadcasts to it (docs/products.md): any
    strides, one type, one device. `method`: the mode's; by `exact` the product is exact, and else `fixed`, of `bits`. Errors: bitfold's
    (TypeError, ValueError, naming the argument)."""
    if not is_real(a):
        rows, columns = a.shape[-2:-1], b.shape[-1:] if b.dim() > 1 else ()
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return a.new_empty([*batch, *rows, *columns], dtype=dtype or a.dtype)
    return _core.matmul(a, b, addend, "exact" if method == "exact" else "fixed", dtype and name_of(dtype), None if method == "exact" else bits, TENSORS)


def bits_of_products(dtype: torch.dtype) -> int:
    """Of the integers of a type's products by `fixed`."""
    return _core.product_bits(name_of(dtype))


def contracts(x: torch.Tensor, dims: int) -> bool:
    """Whether `contract` takes tensors like x, of so many dimensions."""
    return x.dtype in FLOATS and dims <= _MAX_DIMS and (x.is_cpu or x.is_cuda)


def contract(a: torch.Tensor, b: torch.Tensor, batch: int, a_vectors: int, b_vectors: int, addend: torch.Tensor | None = None) -> torch.Tensor | None:
    """The product, by method fixed, of each vector of a and of b, which have axes of a batch, of vectors and of their elements, without copies: of
    the batch's axes, a's vectors' and b's vectors'. The addend broadcasts to the batch's axes, all of a's vectors, all of b's. None where a GPU has
    none, of elements too far apart (bitfold/matmul.hpp, can_contract)."""
    return _core.contract(a, b, batch, a_vectors, b_vectors, addend, None, TENSORS)


MOST_OF_A_ROW = 1 << 24  # elements; and rows that are added up


class Rows(NamedTuple):
    """Rows of n elements for the library's row functions (bitfold/rows.hpp). All tensors are contiguous; x, y, w and b are of
    one type. Errors: RuntimeError where tensors are on several devices, or not as large as the rows want them."""

    x: torch.Tensor
    n: int
    y: torch.Tensor | None = None
    w: torch.Tensor | None = None
    b: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    rstd: torch.Tensor | None = None
    eps: float = 0.0
    inner: int = 0
    channels: int = 0

    def apply(self, function: str, out: torch.Tensor | None = None) -> torch.Tensor:
        """inner and channels: of group_norm, elements of a channel, and how many channels w and b are of."""
        out = torch.empty_like(self.x) if out is None else out
        if is_real(self.x) and self.x.numel():
            parameters = self.x, self.y, self.w, self.b, self.mean, self.rstd
            _core.apply_rows(function, *parameters, self.n, self.eps, out, TENSORS, self.inner, self.channels)
        return out

    def parameter_gradients(self, function: str, shape: Sequence[int], want: Sequence[bool]) -> list[torch.Tensor | None]:
        """Of weight and bias, those that are wanted, in x's type."""
        outs = [self.x.new_empty(shape) if wanted else None for wanted in want]
        if is_real(self.x):
            _core.parameter_gradients(function, self.x, self.y, self.w, self.mean, self.rstd, self.n, *outs, TENSORS)
        return outs


def rows_across(function: str, x: torch.Tensor, dim: int, first: torch.Tensor, second: torch.Tensor | None, y: torch.Tensor | None) -> torch.Tensor:
    """Of the rows along a dimension of x, which is contiguous, as y is: first and second are results of their reductions, of the wide type
    (bitfold/row_inputs.hpp)."""
    out, n, inner = torch.empty_like(x), x.shape[dim], math.prod(x.shape[dim + 1 :])
    if is_real(x):
        _core.apply_rows_across(function, x, y, first, second, x.numel() // (n * inner), n, inner, out, TENSORS)
    return out


class Extents(NamedTuple):
    """Of elements with channels, one behind the other: outer, channels and inner; and what statistics are of (bitfold/channels.hpp)."""

    outer: int
    channels: int
    inner: int
    sharing: int = 1
    of_each_outer: bool = False

    def statistics(self) -> int:
        return (self.outer if self.of_each_outer else 1) * (self.channels // self.sharing)


class Channels(NamedTuple):
    """Elements with channels for the library's functions (bitfold/channels.hpp). Tensors are row-major; x and y are of one type, the others
    of the wide one. Errors: RuntimeError where tensors are on several devices, or not as large as the extents want them."""

    extents: Extents
    x: torch.Tensor
    y: torch.Tensor | None = None
    w: torch.Tensor | None = None
    b: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    rstd: torch.Tensor | None = None
    low: torch.Tensor | None = None
    mean_g: torch.Tensor | None = None
    slope: torch.Tensor | None = None

    def apply(self, function: str) -> torch.Tensor:
        out = torch.empty_like(self.x)
        if is_real(self.x) and self.x.numel():
            _core.apply_channels(function, *self[1:], self.extents, out, TENSORS)
        return out

    def gradient_sums(self, statistics: bool, dw: bool, db: bool) -> list[torch.Tensor | None]:
        """mean(g w) and dot(g w, z) / n of each statistic, dot(g, z) and sum(g) of each channel; those that are wanted."""
        sizes = [self.extents.statistics()] * 2 + [self.extents.channels] * 2
        outs = [self.mean.new_empty(n) if wanted else None for n, wanted in zip(sizes, (statistics, statistics, dw, db))]
        if is_real(self.x):
            _core.channel_gradient_sums(self.x, self.y, self.w, self.mean, self.rstd, self.extents, *outs, TENSORS)
        return outs


def exponential(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """exp of each element, of a type of FLOATS: on CUDA the same bits as on CPUs, which torch's has not. `out`: contiguous, may be x."""
    return Rows(x.contiguous(), x.numel()).apply("exp", out)
