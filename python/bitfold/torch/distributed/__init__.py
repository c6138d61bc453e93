"""Reductions over ranks whose bits do not know how many there are: over process groups of torch.distributed, for CPUs
(gloo) and GPUs (NCCL, or gloo where ranks share one).

    import bitfold.torch.distributed as over_ranks
    over_ranks.all_reduce(gradient, "mean")                       # in place, as torch.distributed.all_reduce
    ddp.register_comm_hook(None, over_ranks.hook)                 # or with over_ranks.Accumulation(micro_batches)

docs/distributed.md says what the bits are.
"""

from __future__ import annotations

import torch.distributed as _dist

if not _dist.is_available():
    raise ImportError("bitfold.torch.distributed needs a PyTorch with torch.distributed, and this one has none")

from ._contributions import Contributions, Work, all_reduce, first_of, reduce, reduce_contributions, reduce_scatter_tensor
from ._group import Disagreement
from ._shares import clip_grad_norm_, grad_norm, reduce_shares
from ._training import Accumulation, hook, shard_gradients

__all__ = [
    "Accumulation", "Contributions", "Disagreement", "Work", "all_reduce", "clip_grad_norm_", "first_of", "grad_norm", "hook", "reduce",
    "reduce_contributions", "reduce_scatter_tensor", "reduce_shares", "shard_gradients",
]  # fmt: skip
