"""bitfold for PyTorch: its operations as torch's operators, and a switch that puts torch's own reductions on them.

    with bitfold.torch.deterministic():
        loss = model(x).mean()
        loss.backward()

Elementwise functions, running sums and interpolation stay torch's (docs/pytorch.md).
"""

from __future__ import annotations

try:
    import torch as _torch
except ModuleNotFoundError as e:
    if e.name != "torch":
        raise
    raise ImportError("bitfold.torch needs PyTorch 2.11 or newer, and there is none") from None
if not hasattr(_torch.Tensor, "__dlpack_c_exchange_api__"):  # before anything is asked for that an older one does not have
    raise ImportError(f"bitfold.torch needs PyTorch 2.11 or newer, and this is {_torch.__version__}")

from . import _ops  # registers torch.ops.bitfold
from ._gradients import clip_grad_norm_, grad_norm
from ._mode import deterministic, disable, enable, is_enabled
from ._strict import NotCovered

__all__ = ["NotCovered", "clip_grad_norm_", "deterministic", "disable", "enable", "grad_norm", "is_enabled"]
