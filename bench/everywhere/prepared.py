"""A case with its arrays: the calls that are timed, and whose results' bits are compared."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import bitfold.torch
import torch

from cases import Case
from layouts import LAYOUTS, array_of, in_a_row
from operators import OPERATORS

DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
_DRAWN = 1 << 22


@cache
def _numbers(device: str) -> torch.Tensor:
    return torch.randn(_DRAWN, generator=torch.Generator().manual_seed(1)).to(device)


@cache
def _integers(device: str) -> torch.Tensor:
    return torch.randint(1 << 40, (_DRAWN,), generator=torch.Generator().manual_seed(2)).to(device)


class Draw:
    """Elements for a case: the same in each run and on each device. (They are drawn once, as a generator of the GPU's is not to be
    trusted after a capture that failed.)"""

    def __init__(self, device: str) -> None:
        self.device, self.begin = device, 0

    def _some(self, of: torch.Tensor, shape) -> torch.Tensor:
        n = torch.Size(shape).numel()
        self.begin += 1009
        return of.repeat(-(-(n + self.begin % _DRAWN) // _DRAWN))[self.begin % _DRAWN :][:n].reshape(shape)

    def floats(self, shape, dtype: torch.dtype) -> torch.Tensor:
        return self._some(_numbers(self.device), shape).to(dtype, copy=True)

    def integers(self, shape, below: int) -> torch.Tensor:
        return self._some(_integers(self.device), shape) % below

    def elements(self, shape, dtype: torch.dtype, near_one: bool) -> torch.Tensor:
        x = self._some(_numbers(self.device), shape)
        if near_one:
            return (x / 64 + 1).to(dtype)
        return (x > 0) if dtype is torch.bool else x.mul(9).to(dtype) if not dtype.is_floating_point else x.to(dtype, copy=True)


class Call(NamedTuple):
    """What is called, and whether under the mode."""

    function: Callable[[], Any]
    mode: bool

    def context(self):
        return bitfold.torch.deterministic() if self.mode and not bitfold.torch.is_enabled() else nullcontext()

    def __call__(self):
        return self.function()


class Prepared(NamedTuple):
    ours: Call
    peer: Call
    of: str  # whose call the peer's is
    bytes: int | None  # that are read, where hardly anything else is done


def flat(results: Any) -> list:
    if results is None:
        return []
    return [r for part in results for r in flat(part)] if isinstance(results, (tuple, list)) else [results]


def _forward_and_backward(call: Callable, arrays: list[torch.Tensor], wanting: int, draw: Draw) -> Callable:
    """`call` of the arrays, and the gradients of the first of them, as many as `wanting`."""
    leaves = [x.detach().requires_grad_() for x in arrays[:wanting]]
    arrays = [*leaves, *arrays[wanting:]]
    shapes = [y for y in flat(call(*arrays)) if y.requires_grad]
    gradients = [torch.empty_like(y).copy_(draw.floats(y.shape, y.dtype)) for y in shapes]

    def step():
        results = flat(call(*arrays))
        return results, torch.autograd.grad([y for y in results if y.requires_grad], leaves, gradients)

    return step


def prepare(case: Case, device: str, in_rows: bool = False) -> Prepared:
    """`in_rows`: of a copy of the same values, each row behind the other."""
    operator, draw = OPERATORS[case.op], Draw(device)
    lay = LAYOUTS[case.layout]
    x = lay(draw.elements(case.shape, DTYPES[case.dtype], operator.near_one))
    parameters = list(operator.parameters(x, case.over, draw))
    arrays = [*parameters, *operator.others(x, case.over, draw)]
    arrays = [x, *(lay(a) if a.shape == x.shape and a.is_floating_point() else a for a in arrays)]
    size = x.nbytes if operator.reads and not case.backward and case.layout != "expanded" else None
    of_numpy = case.op.startswith("np.")
    if of_numpy:
        arrays = [array_of(a, case.layout) for a in arrays]
    if in_rows:
        arrays = [in_a_row(a) for a in arrays]

    def made(function: Callable) -> Callable:
        call = lambda x, *others: function(x, case.over, *others)  # noqa: E731
        if case.backward:
            return _forward_and_backward(call, arrays, 1 + len(parameters), draw)
        return lambda: call(*arrays)

    ours = Call(made(operator.call), mode=operator.peer is None)
    peer = Call(made(operator.peer or operator.call), mode=False)
    return Prepared(ours, peer, "numpy" if of_numpy else "torch", size)
