"""PyTorch's tensors: how they are read and made, for bitfold's functions and for bitfold.torch. (Imported where there are some.)"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from . import _arrays, _core

NAMES = {getattr(torch, name): short for name, short in _arrays.NAMES.items() if hasattr(torch, name)}
DTYPES = {short: dtype for dtype, short in NAMES.items()}
_OWN = (torch.Tensor, torch.nn.Parameter)


def _torchs_threads() -> tuple[int, int]:
    """Where torch's own threads are called and counted, if they are OpenMP's: those of another runtime would wait for cores on which
    torch's wait for work."""
    try:
        library = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        found = [ctypes.cast(f, ctypes.c_void_p).value for f in (library.GOMP_parallel, library.omp_get_max_threads)]
    except (AttributeError, OSError):
        return 0, 0
    return found[0], found[1]


_API = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
#: The family of tensors, and the library's calls of torch's operators: those whose names end in `plain` are for the calls that come
#: most, and give None where a call is another. None before PyTorch 2.11.
TENSORS = _core.Tensors(_API, list(_OWN), DTYPES, torch.empty_like, *_torchs_threads()) if _API else None


def has_tangent(x: torch.Tensor) -> bool:
    """Whether it is differentiated in forward mode."""
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def has_memory(x: torch.Tensor) -> bool:
    """Whether its elements, if any, are somewhere in memory."""
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if fake and isinstance(x, fake.FakeTensor):
        return False
    try:
        return x.numel() == 0 or x.data_ptr() != 0
    except (RuntimeError, TypeError):  # of what stands for a tensor
        return False


def expect_elements(x: torch.Tensor, argument: str) -> None:
    """TypeError where its elements are not simply what lies in its memory."""
    operators = "torch.ops.bitfold has operators that PyTorch can see into"
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        what = ("a tensor inside a transform of torch.func, which bitfold's functions cannot see "
                "through: instead of vmap, axis=; torch.ops.bitfold has operators with gradients, "
                "for torch.autograd")
    elif has_tangent(x):
        what = ("a tensor with a tangent (forward mode), which would be lost; "
                "forward_ad.unpack_dual(x).primal has none")
    elif type(x).__name__ == "DTensor":
        what = "a DTensor, of which each process has a part: x.full_tensor(), or x.to_local()"
    elif x.is_nested or x.layout is not torch.strided:
        kind, way = f"tensor of layout {x.layout}", "to_dense"
        if x.is_nested:
            kind, way = "nested tensor", "values"
        what = f"a {kind}, where elements in strides are expected; x.{way}() has them"
    elif x.is_quantized:
        what = (f"a quantized tensor of {x.dtype}, which bitfold does not reduce; x.dequantize() is "
                "one of floats")
    elif x.is_meta or not has_memory(x):
        what = (f"a tensor of type {type(x).__name__} that has no elements in memory of its own"
                f"{' (device meta)' * x.is_meta}; {operators}")
    else:
        return
    raise TypeError(f"{argument}: {what}")


def _expect_eager(argument: str) -> None:
    if torch.jit.is_tracing() or torch.compiler.is_compiling():
        raise TypeError(f"{argument}: within torch.jit.trace or torch.compile; torch.ops.bitfold "
                        "has operators that PyTorch can see into")


class Torch(_arrays.Kind):
    """PyTorch: results are tensors on x's device, and work is enqueued on its current stream."""

    name = "PyTorch"

    def describe(self, x: Any, argument: str) -> _core.Array:
        is_own = type(x) in _OWN
        if not is_own and not isinstance(x, torch.Tensor):
            raise TypeError(f"{argument}: {type(x).__name__}, and x is of {self.name}")
        _expect_eager(argument)
        if not is_own:
            expect_elements(x, argument)
            x = x.as_subclass(torch.Tensor)
        elif forward_ad._current_level >= 0 or torch._C._functorch.is_functorch_wrapped_tensor(x):
            expect_elements(x, argument)
        if x.is_neg():  # DLPack would show the numbers without their sign
            x = x.resolve_neg()
        try:
            where = self._shown(x, argument)
        except (BufferError, RuntimeError, TypeError) as e:
            expect_elements(x, argument)
            raise TypeError(f"{argument}: {_arrays.why_not(x) or str(e).removeprefix(f'{argument}: ')}") from None
        if x.requires_grad:
            raise TypeError(f"{argument}: {_arrays.why_not(x)}")
        return where

    def _shown(self, x: torch.Tensor, argument: str) -> _core.Array:
        return TENSORS.describe(x, argument)

    def family(self) -> _core.Family:
        return TENSORS

    def indices(self, x: Any, argument: str) -> _core.Array:
        where = self.describe(x, argument)
        _arrays.expect_integers(where, argument)
        return where if where.dtype == "i64" else self.describe(x.to(torch.int64), argument)

    def is_one(self, x: Any) -> bool:
        return isinstance(x, torch.Tensor)

    def empty_like(self, out: torch.Tensor) -> torch.Tensor:
        return torch.empty(out.shape, dtype=out.dtype, device=out.device)

    def writes(self, out: torch.Tensor) -> None:
        """torch does not see that it is written: gradients may want what lay there."""
        if out.is_inference() and not torch.is_inference_mode_enabled():
            raise ValueError("out: a tensor of inference mode, outside of it")
        if not out.is_inference():
            torch.autograd.graph.increment_version(out)

    def expect_writable(self, out: torch.Tensor) -> None:
        if out.is_neg():
            raise ValueError("out: a view with its signs reversed")

    def in_a_row(self, x: torch.Tensor, axis: int | None) -> torch.Tensor:
        return (x if axis is None else x.movedim(axis, -1)).contiguous()

    def moved_back(self, made: torch.Tensor, axis: int) -> torch.Tensor:
        return made.movedim(-1, axis)

    def host(self, x: torch.Tensor, argument: str = "x") -> np.ndarray:
        _expect_eager(argument)
        expect_elements(x, argument)
        x = x.detach().cpu().resolve_neg()
        return x.view(torch.uint16).numpy().view(_arrays.numpy_dtype("bf16")) if x.dtype is torch.bfloat16 else x.numpy()


class TorchBefore(Torch):
    """PyTorch before 2.11, which tells Python alone of x and of its stream."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def _shown(self, x: torch.Tensor, argument: str) -> _core.Array:
        if x.device != self.x.device:
            raise ValueError(f"{argument}: on another device than x")
        return _core.Array.from_dlpack(x.__dlpack__(stream=-1) if x.is_cuda else x.__dlpack__(), argument)

    def family(self) -> _core.Family:
        return _core.Functions(self._empty, torch.cuda.current_stream(self.x.device).cuda_stream if self.x.is_cuda else 0)

    def _empty(self, shape: tuple, short: str) -> tuple[torch.Tensor, int]:
        made = torch.empty(shape, dtype=DTYPES[short], device=self.x.device)
        return made, made.data_ptr()


TORCH = Torch()


def kind_of(x: torch.Tensor) -> Torch:
    return TORCH if TENSORS else TorchBefore(x)
