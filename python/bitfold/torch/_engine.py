"""Torch's tensors to bitfold._core: pointers, the current stream, workspace from torch's allocator. Nothing is copied."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from bitfold import _arrays, _core

#: The operations of the registry by name, and the names of the methods.
OPS = {op["name"]: op for op in _core.ops()}
METHODS = tuple(m["name"] for m in _core.methods())

_NAMES = {getattr(torch, name): short for name, short in _arrays.NAMES.items()}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_MAX_DIMS = 8  # bitfold's
_DEVICES = {"cpu": _arrays.CPU, "cuda": _arrays.CUDA}


HALF = (torch.float16, torch.bfloat16)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which elements are computed with."""
    return torch.float32 if dtype in HALF else dtype


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


def name_of(dtype: torch.dtype) -> str:
    try:
        return _NAMES[dtype]
    except KeyError:
        raise TypeError(f"x: bitfold does not reduce {dtype}") from None


@cache
def reduction(ask: Ask, dtype: torch.dtype) -> _core.Reduction:
    """Errors: those of bitfold (ValueError, naming the argument)."""
    name = lambda d: None if d is None else name_of(d)
    out = ask.out
    if out is None and dtype is torch.bool and OPS[ask.op]["types"] == "additive":
        out = torch.int64
    exact = ask.method == "exact"
    return _core.Reduction(ask.op, ask.method, name_of(dtype), None if exact else name(ask.acc), name(out), ask.ddof)


@cache
def result_dtype(ask: Ask, dtype: torch.dtype) -> torch.dtype:
    kind = OPS[ask.op]["types"]
    if kind == "truth" or (kind == "same" and dtype is torch.bool):
        return torch.bool
    return _DTYPES[reduction(ask, dtype).out]


@cache
def _made(asks: tuple[Ask, ...], dtype: torch.dtype) -> tuple[list[_core.Reduction], list[torch.dtype]]:
    return [reduction(ask, dtype) for ask in asks], [result_dtype(ask, dtype) for ask in asks]


def dims_of(rank: int, dim: Sequence[int] | int | None) -> list[int]:
    """Counted from 0; of None and of an empty list all, as torch has it."""
    dims = [dim] if isinstance(dim, int) else dim
    if not dims or rank == 0 and dims in ([0], [-1]):
        return list(range(rank))
    bound = max(rank, 1)
    seen = []
    for d in dims:
        if not -bound <= d < bound:
            raise IndexError(f"dim: {d} is out of range for a tensor of {rank} dimensions")
        d %= bound
        if d in seen:
            raise RuntimeError(f"dim: {d} appears twice")
        seen.append(d)
    return seen if rank else []


def result_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> list[int]:
    return [1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims]


def describe(x: torch.Tensor) -> _core.Array:
    try:
        device = _DEVICES[x.device.type]
    except KeyError:
        raise TypeError(f"x: a tensor on {x.device}, where bitfold has the CPU and CUDA") from None
    return _core.Array(x.data_ptr(), name_of(x.dtype), x.shape, x.stride(), device, x.device.index or 0)


def is_real(x: torch.Tensor) -> bool:
    """Whether there are elements, and not, under torch.compile, shapes alone."""
    return not isinstance(x, FakeTensor)


def _on(x: torch.Tensor) -> tuple[contextlib.AbstractContextManager, int]:
    """The context in which x's device is the current one, and its stream."""
    if not x.is_cuda:
        return contextlib.nullcontext(), 0
    stream = torch.cuda.current_stream(x.device).cuda_stream
    here = x.device.index == torch.cuda.current_device()
    return contextlib.nullcontext() if here else torch.cuda.device(x.device), stream


def _workspace(x: torch.Tensor, size: int) -> tuple[torch.Tensor | None, int]:
    room = torch.empty(size, dtype=torch.uint8, device=x.device) if size else None
    return room, room.data_ptr() if size else 0


def reduce(
    asks: Sequence[Ask], x: torch.Tensor, y: torch.Tensor | None = None, dim: Sequence[int] | int | None = None, keepdim: bool = False
) -> list[torch.Tensor]:
    """The results of `asks` in one call, along `dim` of x, or of x and y of one shape."""
    dims = dims_of(x.dim(), dim)
    made, dtypes = _made(tuple(asks), x.dtype)
    shape = result_shape(x.shape, dims, keepdim)
    outs = [torch.empty(shape, dtype=dtype, device=x.device) for dtype in dtypes]
    if not is_real(x):
        return outs
    if x.dim() > _MAX_DIMS:  # the same elements in the same order, as rows
        kept, dims = [d for d in range(x.dim()) if d not in dims], sorted(dims)
        rows = [math.prod(x.shape[d] for d in kept), math.prod(x.shape[d] for d in dims)]
        x, y = (None if t is None else t.permute(kept + dims).reshape(rows) for t in (x, y))
        dims = [1]
    a, b = describe(x), None if y is None else describe(y)
    context, stream = _on(x)
    with context:
        size = _core.workspace_bytes(made, a, b, dims) if x.is_cuda else 0
        room, address = _workspace(x, size)
        _core.reduce_into(made, a, b, dims, [out.data_ptr() for out in outs], stream, address, size)
    return outs


def by_key(ask: Ask, x: torch.Tensor, keys: torch.Tensor, outputs: int) -> torch.Tensor:
    """Element i of x goes to output keys[i]; x and keys are flat, and every key names an output."""
    x, keys = x.contiguous(), keys.contiguous()
    made = [reduction(ask, x.dtype)]
    out = torch.empty(outputs, dtype=result_dtype(ask, x.dtype), device=x.device)
    if not is_real(x):
        return out
    context, stream = _on(x)
    with context:
        size = _core.by_key_workspace_bytes(made, x.numel(), outputs) if x.is_cuda else 0
        room, address = _workspace(x, size)
        _core.reduce_by_key_into(made, describe(x), None, describe(keys), outputs, [out.data_ptr()], stream, address, size)
    return out


MOST_OF_A_ROW = 1 << 24  # elements; and rows that are added up


def _address(t: torch.Tensor | None) -> int:
    return 0 if t is None else t.data_ptr()


def _on_one_device(x: torch.Tensor, *more: torch.Tensor | None) -> None:
    for t in more:
        if t is not None and t.device != x.device:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {x.device} and {t.device}!")


class Rows(NamedTuple):
    """Rows of n elements for the library's row functions (bitfold/rows.hpp). All tensors are contiguous; x, y, w and b are of
    one type."""

    x: torch.Tensor
    n: int
    y: torch.Tensor | None = None
    w: torch.Tensor | None = None
    b: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    rstd: torch.Tensor | None = None
    eps: float = 0.0

    def described(self) -> _core.Rows:
        """Errors: RuntimeError where tensors are on several devices, or not as large as the rows want them."""
        count = self.x.numel() // max(self.n, 1)
        sizes = (self.x.numel(), self.x.numel(), self.n, self.n, count, count)
        tensors = (self.x, self.y, self.w, self.b, self.mean, self.rstd)
        _on_one_device(*tensors)
        for t, size, wanted in zip(tensors, sizes, (*4 * (self.x.dtype,), *2 * (wide(self.x.dtype),))):
            if t is not None and (t.numel() != size or t.dtype is not wanted):
                raise RuntimeError(f"a tensor of {t.numel()} elements of {t.dtype}, where {size} of {wanted} are expected")
        return _core.Rows(name_of(self.x.dtype), count, self.n, [_address(t) for t in tensors], self.eps, self.x.is_cuda)

    def apply(self, function: str) -> torch.Tensor:
        out = torch.empty_like(self.x)
        if is_real(self.x) and self.x.numel():
            context, stream = _on(self.x)
            with context:
                _core.apply_rows(self.described(), function, out.data_ptr(), stream)
        return out

    def parameter_gradients(self, function: str, shape: Sequence[int], want: Sequence[bool]) -> list[torch.Tensor | None]:
        """Of weight and bias, those that are wanted, in x's type."""
        outs = [self.x.new_empty(shape) if wanted else None for wanted in want]
        if is_real(self.x):
            context, stream = _on(self.x)
            with context:
                rows = self.described()
                size = _core.parameter_workspace_bytes(rows, function)
                room, address = _workspace(self.x, size)
                _core.parameter_gradients(rows, function, _address(outs[0]), _address(outs[1]), stream, address, size)
        return outs


def sum_rows(x: torch.Tensor, keys: torch.Tensor, outputs: int, base: torch.Tensor | None = None) -> torch.Tensor:
    """Of rows of x, [rows, n], those whose key is k are added to row k of `base`, or of zeros. Keys that name no output are left out."""
    _on_one_device(x, keys, base)
    x = x.contiguous()
    out = x.new_empty(outputs, x.shape[1])
    narrow = keys.clamp(-1, outputs).to(torch.int32) if outputs < (1 << 31) - 1 else keys  # half as many passes
    ordered, places = torch.sort(narrow, stable=True)
    offsets = torch.searchsorted(ordered, torch.arange(outputs + 1, dtype=narrow.dtype, device=x.device))
    if is_real(x):
        context, stream = _on(x)
        with context:
            _core.sum_rows(Rows(x, x.shape[1]).described(), places.data_ptr(), offsets.data_ptr(), outputs, _address(base), out.data_ptr(), stream)
    return out
