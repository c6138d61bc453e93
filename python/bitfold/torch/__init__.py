"""bitfold for PyTorch: its operations as torch's operators, and a switch that puts torch's own reductions on them.

    with bitfold.torch.deterministic():
        loss = model(x).mean()
        loss.backward()
"""

from __future__ import annotations

from . import _ops  # registers torch.ops.bitfold
from ._gradients import clip_grad_norm_, grad_norm
from ._mode import deterministic, disable, enable, is_enabled
from ._strict import NotCovered

__all__ = ["NotCovered", "clip_grad_norm_", "deterministic", "disable", "enable", "grad_norm", "is_enabled"]
