"""Torch's tensors to bitfold._core, which asks DLPack's C exchange API for their memory and the current stream, and torch for
results and workspace. Nothing is copied."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from bitfold import _arrays, _core

#: The operations of the registry by name, and the names of the methods.
OPS = {op["name"]: op for op in _core.ops()}
METHODS = tuple(m["name"] for m in _core.methods())

_NAMES = {getattr(torch, name): short for name, short in _arrays.NAMES.items()}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_MAX_DIMS, _TORCHS_DIMS = 8, 64  # of bitfold's reductions, and of torch's


def _torchs_threads() -> tuple[int, int]:
    """Where torch's own threads are called and counted, if they are OpenMP's: those of another runtime would wait for cores on which
    torch's wait for work."""
    try:
        library = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        found = [ctypes.cast(f, ctypes.c_void_p).value for f in (library.GOMP_parallel, library.omp_get_max_threads)]
    except (AttributeError, OSError):
        return 0, 0
    return found[0], found[1]


#: The library's calls on tensors. Those whose names end in `plain` are for the calls that come most, and give None where a call is another.
TENSORS = _core.Tensors(
    torch.Tensor.__dlpack_c_exchange_api__, torch.uint8, [torch.Tensor, torch.nn.Parameter], _DTYPES, torch.empty_like, *_torchs_threads()
)

HALF = (torch.float16, torch.bfloat16)
FLOATS = (*HALF, torch.float32, torch.float64)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which elements are computed with."""
    return torch.float32 if dtype in HALF else dtype


def over(x: torch.Tensor, n: float) -> torch.Tensor:
    """x / n, rounded once: on CUDA torch multiplies by 1 / n, where n is a number."""
    return x / x.new_full((), n)


class Ask(NamedTuple):
    """A reduction to make: of which elements is known later. `method`: what it takes of this one."""

    op: str
    method: str | None = None
    out: torch.dtype | None = None
    acc: torch.dtype | None = None
    ddof: int = 0


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
        return _NAMES[dtype]
    except KeyError:
        raise Uncovered(f"x: bitfold does not reduce {dtype}") from None


def _arguments(ask: Ask, dtype: torch.dtype) -> tuple:
    """Of a Reduction of elements of that type."""
    name = lambda d: None if d is None else name_of(d)
    exact = ask.method == "exact"
    return ask.op, ask.method, name_of(dtype), None if exact else name(ask.acc), name(ask.out), ask.ddof


@cache
def reduction(ask: Ask, dtype: torch.dtype) -> _core.Reduction:
    """Errors: those of bitfold (ValueError, naming the argument)."""
    return _core.Reduction(*_arguments(ask, dtype))


@cache
def result_dtype(ask: Ask, dtype: torch.dtype) -> torch.dtype:
    kind = OPS[ask.op]["types"]
    if kind == "truth" or (kind == "same" and dtype is torch.bool):
        return torch.bool
    return _DTYPES[reduction(ask, dtype).out]


#: Any byte of a bool that is not 0 is true, and bitfold's kernels would take it for a number. These
#: operations have the same result, of at least one bool, as one that only asks which bytes are 0.
_BY_TRUTH = {"max": "any", "min": "all", "sum": "count_nonzero"}
_BY_TRUTH |= {op: op for op in ("any", "all", "count_nonzero")}


@cache
def _by_truth(ask: Ask) -> Ask | None:
    """What gives the result of `ask` for bools of any byte; None where the bytes have to be 0 and 1."""
    reduction(ask, torch.bool)  # for its errors
    if ask.op not in _BY_TRUTH:
        return None
    other = Ask(_BY_TRUTH[ask.op])
    is_alike = result_dtype(other, torch.bool) is result_dtype(ask, torch.bool)
    return other if is_alike else None


def _ones_for_true(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.uint8).ne(0)


@cache
def _asked(asks: tuple[Ask, ...], dtype: torch.dtype, by_truth: bool = False) -> _core.Asked:
    types = [result_dtype(ask, dtype) for ask in asks]
    made = [_by_truth(ask) for ask in asks] if by_truth else asks
    return _core.Asked([reduction(ask, dtype) for ask in made], types)


@cache
def asked_by_type(asks: tuple[Ask, ...], typed: bool = False, floats: bool = False) -> _core.AskedByType:
    """Of every type that they take, or of floats; `typed`: with results of that type."""
    table = {}
    for dtype, name in _NAMES.items():
        if floats and not dtype.is_floating_point:
            continue
        these = tuple(ask._replace(out=dtype) if typed else ask for ask in asks)
        if all(_core.offers(*_arguments(ask, dtype)) for ask in these) and (dtype is not torch.bool or all(map(_by_truth, these))):
            table[name] = _asked(these, dtype, by_truth=dtype is torch.bool)
    return _core.AskedByType(table)


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
    return forward_ad._current_level >= 0 and any(map(_arrays.has_tangent, tensors))


def is_real(x: torch.Tensor) -> bool:
    """Whether there are elements, and not, under torch.compile or on device meta, shapes alone."""
    return not (isinstance(x, FakeTensor) or x.is_meta)


def reduce(
    asks: Sequence[Ask], x: torch.Tensor, y: torch.Tensor | None = None, dim: Sequence[int] | int | None = None, keepdim: bool = False
) -> list[torch.Tensor]:
    """The results of `asks` in one call, along `dim` of x, or of x and y of one shape."""
    rank = x.dim()
    dims = dims_of(rank, dim)
    if not is_real(x):
        return [x.new_empty(result_shape(x.shape, dims, keepdim), dtype=result_dtype(ask, x.dtype)) for ask in asks]
    by_truth = x.dtype is torch.bool and x.numel() > 0 and all(map(_by_truth, asks))
    if x.dtype is torch.bool and not by_truth:
        x, y = _ones_for_true(x), None if y is None else _ones_for_true(y)
    if rank <= _MAX_DIMS:
        return TENSORS.reduce(_asked(tuple(asks), x.dtype, by_truth), x, y, dims, keepdim)
    kept = [d for d in range(rank) if d not in dims]  # the same elements in the same order, as rows
    rows = [math.prod(x.shape[d] for d in kept), math.prod(x.shape[d] for d in dims)]
    x, y, shape = *(None if t is None else t.permute(*kept, *sorted(dims)).reshape(rows) for t in (x, y)), result_shape(x.shape, dims, keepdim)
    return [out.reshape(shape) for out in reduce(asks, x, y, 1)]


def reduce_pieces(ask: Ask, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    """Of the elements of contiguous tensors of one type as of one: by method exact, to which order and grouping are nothing."""
    if not is_real(pieces[0]):
        return pieces[0].new_empty((), dtype=result_dtype(ask, pieces[0].dtype))
    return TENSORS.reduce_pieces(_asked((ask,), pieces[0].dtype), pieces)


def by_key(ask: Ask, x: torch.Tensor, keys: torch.Tensor, outputs: int) -> torch.Tensor:
    """Element i of x goes to output keys[i]; x and keys are flat, and every key names an output."""
    if not is_real(x):
        return x.new_empty(outputs, dtype=result_dtype(ask, x.dtype))
    return TENSORS.reduce_by_key(_asked((ask,), x.dtype), x.contiguous(), keys.contiguous(), outputs)[0]


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

    def apply(self, function: str, out: torch.Tensor | None = None) -> torch.Tensor:
        out = torch.empty_like(self.x) if out is None else out
        if is_real(self.x) and self.x.numel():
            TENSORS.apply_rows(function, self.x, self.y, self.w, self.b, self.mean, self.rstd, self.n, self.eps, out)
        return out

    def parameter_gradients(self, function: str, shape: Sequence[int], want: Sequence[bool]) -> list[torch.Tensor | None]:
        """Of weight and bias, those that are wanted, in x's type."""
        outs = [self.x.new_empty(shape) if wanted else None for wanted in want]
        if is_real(self.x):
            TENSORS.parameter_gradients(function, self.x, self.y, self.w, self.mean, self.rstd, self.n, *outs)
        return outs


def exponential(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """exp of each element, of a type of FLOATS: on CUDA the same bits as on CPUs, which torch's has not. `out`: contiguous, may be x."""
    return Rows(x.contiguous(), x.numel()).apply("exp", out)


def sum_rows(x: torch.Tensor, keys: torch.Tensor, outputs: int, base: torch.Tensor | None = None) -> torch.Tensor:
    """Of rows of x, [rows, n], those whose key is k are added to row k of `base`, or of zeros. Keys that name no output are left out."""
    x = x.contiguous()
    out = x.new_empty(outputs, x.shape[1])
    narrow = keys.clamp(-1, outputs).to(torch.int32) if outputs < (1 << 31) - 1 else keys  # half as many passes
    ordered, places = torch.sort(narrow, stable=True)
    offsets = torch.searchsorted(ordered, torch.arange(outputs + 1, dtype=narrow.dtype, device=x.device))
    if is_real(x):
        TENSORS.sum_rows(x, x.shape[1], places, offsets, base, out)
    return out
