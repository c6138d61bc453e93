"""Attention: products and softmax of a block of queries at a time (docs/products.md).

Each query's result is its own, so that blocks do not show in it. Gradients of keys and values are sums over queries, block by block: there they are
part of the definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from .. import _engine
from .._engine import FLOATS, Uncovered, wide
from .common import among, composite, covers, fold, heading, parts, together
from .softmax import _softmax, _softmax_backward

heading("attention")

#: Of a block of gradients.
QUERIES = 256
#: Elements of scores that are in memory at one time: no more, but for those of one head's block.
MOST_OF_SCORES = {"cpu": 1 << 20, "cuda": 1 << 27}


class _Heads(NamedTuple):
    """Some samples' heads, of which each has keys and values of its own: samples, heads, places, features."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool
    scale: float

    def blocks(self) -> Iterator[slice]:
        return _blocks(self.query.shape[2], _together(self.query.shape[2], self.key.shape[2], self.causal, self.query.device.type))

    def seen(self, queries: slice) -> int:
        """How many keys a block takes: all, or those that its queries see and, where there is one, the next."""
        length = self.key.shape[2]
        return min(queries.stop + 1, length) if self.causal else length

    def hide(self, x: Tensor, queries: slice, fill: float) -> None:
        """What causal queries do not see, in place."""
        if self.causal:
            later = x[..., queries.start + 1 :]
            unseen = torch.ones(later.shape[-2:], dtype=torch.bool, device=x.device).triu_()
            later.masked_fill_(unseen, fill)

    def scores(self, method: str, queries: slice) -> Tensor:
        n = self.seen(queries)
        s = _engine.product(self.query[:, :, queries], self.key[:, :, :n].mT, None, method, wide(self.query.dtype)).mul_(self.scale)
        if self.mask is not None:
            s.add_(self.mask[:, :, queries, :n])
        self.hide(s, queries, -math.inf)
        return s

    def weights(self, method: str, queries: slice, logs: Tensor | None = None) -> Tensor:
        """The softmax of each query's scores; zeros where none of them is more than -inf. Writes their logsumexp to `logs`."""
        s = self.scores(method, queries)
        p = _softmax(method, s, -1, False)
        if logs is not None:
            logs.copy_(fold(method, "logsumexp", s, dim=-1, keepdim=False))
        if self.mask is not None:
            nothing = torch.isneginf(fold(method, "max", s, dim=-1))
            if p.is_cuda or nothing.any():
                p.masked_fill_(nothing, 0.0)
        return p


def _blocks(length: int, size: int) -> Iterator[slice]:
    return (slice(i, min(i + size, length)) for i in range(0, length, size))


def _together(queries: int, keys: int, causal: bool, device: str) -> int:
    """How many queries' scores are made together: whole blocks. On a GPU, where keys and values are made digits of each time, many; where queries do not
    see what is behind them, a fourth of all."""
    if device == "cpu":
        return QUERIES
    some = min(MOST_OF_SCORES[device] // max(keys, 1), -(-queries // 4) if causal else queries)
    return max(-(-some // QUERIES), 1) * QUERIES


def _plus_product(method: str, total: Tensor, a: Tensor, b: Tensor, bits: int) -> None:
    """total += a b, rounded once, but by method exact, of which the product is rounded, too."""
    total.copy_(total + _engine.product(a, b, None, method, total.dtype) if method == "exact" else _engine.product(a, b, total, bits=bits))


def _first(x: Tensor, n: int) -> Tensor:
    """The first n places of x. The last of them is none that a causal query sees: it stands for all that follow, as they count in the scale of a
    column, and in nothing else."""
    if n == x.shape[2]:
        return x
    rest = torch.amax(x[:, :, n - 1 :].abs(), 2, True)
    return torch.cat([x[:, :, : n - 1], rest], 2)


def _each_of_a_group(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *others: Tensor) -> Iterator[tuple[Tensor | None, ...]]:
    """With as many heads of the query as there are of key and value: the first of each group, the second, ..."""
    groups = key.shape[1]
    if mask is not None:
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    for i in range(query.shape[1] // groups):
        pick = lambda t: None if t is None else t.unflatten(1, (groups, -1))[:, :, i]
        yield pick(query), key, value, pick(mask), *map(pick, others)


def _some(given: tuple[Tensor | None, ...], queries: int, keys: int, causal: bool) -> Iterator[tuple[Tensor | None, ...]]:
    """Of some samples, or of some heads of one."""
    samples, heads = given[1].shape[:2]
    device = given[1].device.type
    for n, h in parts(samples, heads, min(queries, _together(queries, keys, causal, device)) * keys, MOST_OF_SCORES[device]):
        yield tuple(None if t is None else t[n, h] for t in given)


def _check(op: str, query: Tensor, key: Tensor, value: Tensor, dropout: float, mask: Tensor | None) -> None:
    given = [query, key, value]
    together(op, *given, *([] if mask is None else [mask]))
    among(FLOATS, op, *given)
    if dropout:
        raise Uncovered(f"{op}: bitfold has none with dropout")
    if any(t.dim() != 4 or t.dtype is not query.dtype for t in given) or key.shape != value.shape:
        raise RuntimeError(f"{op}: " + ", ".join(f"{list(t.shape)} of {t.dtype}" for t in given))
    heads, keys = key.shape[1], key.shape[2]
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3] or not heads or query.shape[1] % heads:
        raise RuntimeError(f"{op}: a query of {list(query.shape)}, and keys of {list(key.shape)}")
    if mask is not None:
        if mask.dim() not in (2, 4) or mask.dtype not in (torch.float32, query.dtype):
            raise RuntimeError(f"{op}: a mask of {mask.dtype} and {mask.dim()} dimensions")
        torch.broadcast_shapes(mask.shape, size := [*query.shape[:3], keys])
        if any(n not in (1, m) for n, m in zip(reversed(mask.shape), reversed(size))):
            raise RuntimeError(f"{op}: a mask of {list(mask.shape)}, where scores are {size}")


def _scale_of(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[3]) if scale is None else scale


def _attend(op: str, method: str, query, key, value, dropout_p, is_causal, mask, scale) -> tuple[Tensor, Tensor]:
    """The output, and the logsumexp of each query's scores."""
    _check(op, query, key, value, dropout_p, mask)
    samples, heads, length, _ = query.shape
    out = torch.empty_like(query)
    logs = query.new_empty([samples, heads, length], dtype=wide(query.dtype))
    if query.is_cpu:  # as torch has it there
        logs = query.new_empty([samples, length, heads], dtype=logs.dtype).transpose(1, 2)
    if not _engine.is_real(query):
        return out, logs
    if not key.numel():
        return out.zero_(), logs.fill_(-math.inf)
    value, bits = value.to(wide(value.dtype)), _engine.bits_of_products(query.dtype)
    for of_each in _each_of_a_group(query, key, value, mask, out, logs):
        for q, k, v, mask_of_some, o, l in _some(of_each, length, key.shape[2], is_causal):
            some = _Heads(q, k, v, mask_of_some, is_causal, _scale_of(query, scale))
            for i in some.blocks():
                p = some.weights(method, i, l[:, :, i])
                o[:, :, i] = _engine.product(p, _first(v, p.shape[-1]) if is_causal else v, None, method, out.dtype, bits)
    return out, logs


def _attend_backward(op: str, method: str, grad_out, query, key, value, dropout_p, is_causal, mask, scale) -> tuple[Tensor | None, ...]:
    if grad_out is None:  # as where the output of a function of autograd's is not used
        return None, None, None
    _check(op, query, key, value, dropout_p, mask)
    if grad_out.shape != query.shape or grad_out.dtype is not query.dtype:
        raise RuntimeError(f"{op}: a gradient of {grad_out.dtype}, {list(grad_out.shape)}, where the output is {list(query.shape)}")
    acc, gradients = wide(query.dtype), [torch.empty_like(t) for t in (query, key, value)]
    if not _engine.is_real(query):
        return tuple(gradients)
    of_query, *of_others = gradients
    totals = [torch.zeros(t.shape, dtype=acc, device=t.device) for t in of_others]
    factor, bits = _scale_of(query, scale), _engine.bits_of_products(query.dtype)
    for of_each in _each_of_a_group(query, key, value, mask, grad_out, of_query) if key.numel() else ():
        for q, k, v, mask_of_some, g, dq, dk, dv in _some((*of_each, *totals), query.shape[2], key.shape[2], is_causal):
            some = _Heads(q, k, v, mask_of_some, is_causal, factor)
            q_wide, k_wide, g_wide = (t.to(acc) for t in (q, k, g))
            for i in some.blocks():
                p = some.weights(method, i)
                n = p.shape[-1]
                dp = _engine.product(g[:, :, i], v[:, :, :n].mT, None, method, acc)
                some.hide(dp, i, 0.0)
                ds = _softmax_backward(method, dp, p, -1, acc).mul_(factor)
                dq[:, :, i] = _engine.product(ds, _first(k_wide, n) if is_causal else k_wide, None, method, dq.dtype, bits)
                for b in _blocks(p.shape[2], QUERIES):  # of these
                    of_all = slice(i.start + b.start, i.start + b.stop)
                    seen = slice(0, min(n, of_all.stop) if is_causal else n)
                    _plus_product(method, dk[:, :, seen], ds[:, :, b, seen].mT, q_wide[:, :, of_all], bits)
                    _plus_product(method, dv[:, :, seen], p[:, :, b, seen].mT, g_wide[:, :, of_all], bits)
    if not key.numel():
        of_query.zero_()
    for gradient, total in zip(of_others, totals):
        gradient.copy_(total)
    return tuple(gradients)


@composite("scaled_dot_product_attention")
def _attention(own, query, key, value, *others, **named):
    """torch chooses among its ways by layouts and by whether samples share their keys, too, and these ways have bits of their own. So vectors'
    elements become neighbours, and batches' extents equal."""
    given = query, key, value
    if all(t.layout is torch.strided and not t.is_nested and t.dim() > 1 for t in given):
        given = tuple(t if t.stride(-1) == 1 else t.clone(memory_format=torch.contiguous_format) for t in given)
        if all(t.dim() == 4 for t in given) and len(samples := {t.shape[0] for t in given if t.shape[0] != 1}) == 1:
            given = tuple(t.expand(*samples, -1, -1, -1) for t in given)
    return own(*given, *others, **named)


_FLASH, _EFFICIENT, _CUDNN = (f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn"))
_FOR_CPU = _FLASH + "_for_cpu"


@covers(_FOR_CPU)
def _for_cpu(method, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    return _attend(_FOR_CPU, method, query, key, value, dropout_p, is_causal, attn_mask, scale)


@covers(_FOR_CPU + "_backward")
def _for_cpu_backward(method, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
    return _attend_backward(_FOR_CPU + "_backward", method, grad_out, query, key, value, dropout_p, is_causal, attn_mask, scale)


# Those of CUDA have random numbers' states among their results, which nothing asks for without dropout.


def _seed(query: Tensor) -> Tensor:
    return torch.zeros((), dtype=torch.int64, device=query.device)


def _lengths(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, int, int]:
    """Of sequences that are packed one behind the other, which these are not; and the longest ones."""
    return *(torch.zeros(0, dtype=torch.int32, device=query.device) for _ in range(2)), query.shape[2], key.shape[2]


@covers(_FLASH)
def _flash(method, query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    if return_debug_mask:
        raise Uncovered(f"{_FLASH}: bitfold has none with its mask for debugging")
    out, logs = _attend(_FLASH, method, query, key, value, dropout_p, is_causal, None, scale)
    return out, logs, *_lengths(query, key), _seed(query), _seed(query), query.new_empty(0)


@covers(_FLASH + "_backward")
def _flash_backward(
    method, grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, philox_seed, philox_offset, *, scale=None
):  # fmt: skip
    return _attend_backward(_FLASH + "_backward", method, grad_out, query, key, value, dropout_p, is_causal, None, scale)


@covers(_EFFICIENT)
def _efficient(method, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    if attn_bias is not None and attn_bias.requires_grad and torch.is_grad_enabled():  # torch's backward takes the logsumexp of its own forward alone
        raise Uncovered(f"{_EFFICIENT}: bitfold has no gradient of a mask")
    out, logs = _attend(_EFFICIENT, method, query, key, value, dropout_p, is_causal, attn_bias, scale)
    return out, logs, _seed(query), _seed(query)


@covers(_EFFICIENT + "_backward")
def _efficient_backward(
    method, grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask, is_causal=False, *, scale=None
):  # fmt: skip
    op = _EFFICIENT + "_backward"
    if grad_input_mask[3] and attn_bias is not None:
        raise Uncovered(f"{op}: bitfold has no gradient of a mask")
    return *_attend_backward(op, method, grad_out_, query, key, value, dropout_p, is_causal, attn_bias, scale), None


@covers(_CUDNN)
def _cudnn(method, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    if return_debug_mask:
        raise Uncovered(f"{_CUDNN}: bitfold has none with its mask for debugging")
    out, logs = _attend(_CUDNN, method, query, key, value, dropout_p, is_causal, attn_bias, scale)
    return out, logs.unsqueeze(-1), *_lengths(query, key), _seed(query), _seed(query), query.new_empty(0)


@covers(_CUDNN + "_backward")
def _cudnn_backward(
    method, grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, *, scale=None
):  # fmt: skip
    return _attend_backward(_CUDNN + "_backward", method, grad_out, query, key, value, dropout_p, is_causal, attn_bias, scale)
