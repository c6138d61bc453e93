"""The tables of what torch's operators become, how a function enters them, and what these functions share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from bitfold import _core

from .. import _engine
from .._engine import FLOATS, TENSORS, Uncovered, method_for, over, request, wide

OVERRIDES: dict[str, Callable] = {}
#: The same without `out` and without keywords, for plain tensors: in one call of the library's, or None, and then it is for the others.
QUICK: dict[str, Callable] = {}
#: What torch's kernels on a GPU round twice, and those on CPUs once: in place of the former alone, for the calls of a tensor and a number.
BY_A_NUMBER: dict[str, Callable] = {"div.Tensor": lambda x, y: _quotient(x, float(y))}
#: Whose gradient is not left to torch's formula, of floats: functions of autograd's with all of the
#: operator's arguments, for calls in which the first, or that of the name `of`, wants one.
GRADIENTS: dict[str, type[torch.autograd.Function]] = {}
#: Of those that torch makes of others: functions of torch's own way, by which it does, and of the operator's arguments. They run above autograd,
#: which sees what they call.
COMPOSITE: dict[str, Callable] = {}
#: The same names by what they are, for the table in docs/pytorch.md.
HEADINGS: dict[str, list[str]] = {}


def _quotient(x: Tensor, y: float) -> Tensor:
    """Rounded once. Expanded tensors, such as the gradients of means, are divided before they are spread out."""
    once = x
    for d, (n, stride) in enumerate(zip(x.shape, x.stride())):
        once = once.narrow(d, 0, 1) if n > 1 and stride == 0 else once
    q = over(once.to(wide(x.dtype)), y).to(x.dtype)
    return q if once is x else q.expand(x.shape).contiguous()


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
def ask(op: str, method: str, out: torch.dtype | None = None, acc: torch.dtype | None = None, ddof: int = 0) -> _core.Request:
    return request(op, method_for(op, method), out, acc, ddof)


def fold(method: str, op: str, *inputs: Tensor, dim=None, keepdim: bool = True, out: torch.dtype | None = None) -> Tensor:
    """One reduction, in the type of x, or `out`."""
    if out is None or out is inputs[0].dtype:
        x, y = inputs if len(inputs) == 2 else (*inputs, None)
        if (result := TENSORS.reduce_plain(ask(op, method), x, y, dim, keepdim, True)) is not None:
            return result
    return _engine.reduce([ask(op, method, out)], *inputs, dim=dim, keepdim=keepdim)[0]


def square_root(x: Tensor) -> Tensor:
    """Rounded as IEEE 754 has it. On CPUs torch asks MKL's vector library, which on AMD's does not (torch 2.15)."""
    if x.is_cuda or not _engine.is_real(x):
        return x.sqrt()
    y = torch.empty_like(x)
    with np.errstate(invalid="ignore"):
        np.sqrt(x.numpy(), out=y.numpy())
    return y


def composite(name: str) -> Callable:
    def add(f: Callable) -> Callable:
        COMPOSITE[name] = f
        return f

    return add


#: The types that torch's own reductions take, but the complex ones. (Of unsigned integers of more
#: bytes it has hardly any.)
REAL = (*FLOATS, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)
NUMBERS = REAL[:-1]


def among(types: Sequence[torch.dtype], op: str, *tensors: Tensor) -> None:
    for x in tensors:
        if x.dtype not in types:
            raise Uncovered(f"{op}: bitfold covers none of {x.dtype}")


def together(op: str, *tensors: Tensor) -> None:
    if len({x.device for x in tensors}) > 1:
        raise RuntimeError(f"{op}: expected all tensors to be on one device, got {', '.join(str(x.device) for x in tensors)}")


def same_type(x: Tensor, source: Tensor, op: str) -> None:
    if x.dtype != source.dtype:
        raise RuntimeError(f"{op}(): Expected self.dtype to be equal to src.dtype")


def can_look(x: Tensor) -> bool:
    """On a GPU looking would be a synchronisation; there torch asserts."""
    return _engine.is_real(x) and x.numel() > 0 and not x.is_cuda


def checked(index: Tensor, size: int, op: str, error: type[Exception] = RuntimeError) -> Tensor:
    if can_look(index):
        places = index.numpy()
        if not (0 <= places.min() and places.max() < size):
            raise error(f"{op}(): index is out of bounds for a dimension of size {size}")
    return index.to(torch.int64)


def parts(first: int, second: int, of_each: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Of two extents, for each pair of which there are so many elements: some of the first, or of one some of the second, of `most` elements
    or a single pair."""
    at_once = min(max(most // max(of_each, 1), 1), max(second, 1))
    several = max(most // max(of_each * second, 1), 1)
    for n in range(0, first, several):
        for i in range(0, second, at_once):
            yield slice(n, min(n + several, first)), slice(i, min(i + at_once, second))
