"""Losses."""

from __future__ import annotations

import torch

from .._engine import FLOATS, HALF, TENSORS, Uncovered
from .common import among, ask, checked, covers, fold, heading, quick, same_type

heading("losses")

_NONE, _MEAN = 0, 1


@covers("mse_loss")
def _mse_loss(method, x, y, reduction=_MEAN):
    dtype = torch.result_type(x, y)
    if dtype not in FLOATS:
        raise Uncovered(f"mse_loss: bitfold has none of {dtype}")
    x, y = torch.broadcast_tensors(x.to(dtype), y.to(dtype))
    if reduction == _NONE:
        d = x - y
        return d * d
    return fold(method, "mse" if reduction == _MEAN else "squared_distance", x, y, keepdim=False, out=dtype)


@quick("mse_loss")
def _quick_mse_loss(method, x, y, reduction=_MEAN):
    if reduction == _NONE:
        return None
    return TENSORS.reduce_plain(ask("mse" if reduction == _MEAN else "squared_distance", method), x, y, None, False, True)


@quick("nll_loss_forward")
def _quick_nll_loss(method, x, target, weight, reduction, ignore_index):
    if weight is not None or reduction == _NONE:
        return None
    return TENSORS.nll_plain(ask("sum", method), x, target, reduction == _MEAN, ignore_index)


@covers("nll_loss_forward", "nll_loss2d_forward")
def _nll_loss(method, x, target, weight, reduction, ignore_index):
    among(FLOATS, "nll_loss", x)
    classes = 0 if x.dim() == 1 else 1
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(f"nll_loss: expected target dtype to be Long or Byte, but got {target.dtype}")
    if not classes and target.numel() == 1:
        target = target.reshape(())
    if target.shape != x.shape[:classes] + x.shape[classes + 1 :]:
        raise RuntimeError(f"nll_loss: size mismatch (got input: {list(x.shape)}, target: {list(target.shape)})")
    if weight is not None:
        same_type(x, weight, "nll_loss")
        if weight.numel() != x.shape[classes] or (weight.dim() != 1 and x.dim() < 4):
            raise RuntimeError(f"nll_loss: weight tensor should be defined for all {x.shape[classes]} classes, but has shape {list(weight.shape)}")
        weight = weight.reshape(-1)
    counts = target != ignore_index
    at = checked(torch.where(counts, target, 0), x.shape[classes], "nll_loss", IndexError)
    picked = x.gather(classes, at.unsqueeze(classes)).squeeze(classes)
    if x.dtype in HALF:
        picked = picked.to(torch.float32)
    share, losses = counts.to(picked.dtype), picked.neg()
    if weight is not None:
        share = torch.where(counts, weight.to(picked.dtype)[at], 0.0)
        losses = losses * share
    losses = torch.where(counts, losses, 0.0)
    if reduction == _NONE:
        return losses.to(x.dtype), x.new_zeros(())
    total = fold(method, "sum", share, keepdim=False)
    loss = fold(method, "sum", losses, keepdim=False)
    if reduction == _MEAN:
        loss = loss / total
    return (loss.to(x.dtype), total.to(x.dtype)) if x.dtype in HALF else (loss, total)
