"""Products of matrices; and what torch makes of them in one operator."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import _engine
from .._engine import FLOATS, TENSORS, Uncovered, wide
from .common import NUMBERS, composite, covers, heading, quick, together

heading("products of matrices")

_INTEGERS = tuple(t for t in NUMBERS if t not in FLOATS)
_COMPLEX = (torch.complex64, torch.complex128)


def _of_floats(method: str, a: Tensor, b: Tensor, addend: Tensor | None, beta, alpha) -> Tensor:
    if alpha == 1 and (addend is None or beta == 1 and method != "exact"):
        return _engine.product(a, b, addend, method)  # each element is rounded once
    computed = wide(a.dtype)
    result = _engine.product(a, b, None, method, computed)
    if alpha != 1:
        result = result * alpha
    if addend is not None:
        addend = addend.to(computed)
        result = result + (addend if beta == 1 else addend * beta)
    return result.to(a.dtype)


def _of_integers(a: Tensor, b: Tensor, addend: Tensor | None, beta, alpha) -> Tensor:
    """Exact modulo what the type holds, whatever the method."""
    limits = torch.iinfo(a.dtype)
    if not all(isinstance(v, int) and limits.min <= v <= limits.max for v in (beta, alpha)):
        raise Uncovered("mm: bitfold has no product of integers with a beta or alpha that is none of their type")
    result = _engine.product(a, b, dtype=torch.int64).to(a.dtype)
    if alpha != 1:
        result = result * alpha
    return result if addend is None else result + (addend if beta == 1 else addend * beta)


def _parts(x: Tensor) -> Tensor:
    """Of complex numbers a last dimension of two; a copy where they lie conjugated."""
    return torch.view_as_real(x.resolve_conj())


def _of_complex(method: str, a: Tensor, b: Tensor, addend: Tensor | None, beta, alpha) -> Tensor:
    """One real product with two terms for each, so that both parts are sums that are rounded once: a row of a has its numbers' parts, one behind
    the other, and a row of b is two, of (re, im) and (-im, re)."""
    if a.dim() == 1 or b.dim() == 1:
        raise Uncovered("mm: bitfold has complex products of matrices alone")
    re, im = _parts(b).unbind(-1)
    columns = torch.stack([torch.stack([re, im], -1), torch.stack([-im, re], -1)], -3)  # (..., k, 2, n, 2)
    result = _of_floats(method, _parts(a).flatten(-2), columns.flatten(-4, -3).flatten(-2), None if addend is None else _parts(addend).flatten(-2), beta, alpha)
    return torch.view_as_complex(result.unflatten(-1, (-1, 2)))


def _product(method: str, a: Tensor, b: Tensor, addend: Tensor | None = None, beta=1, alpha=1) -> Tensor:
    """beta addend + alpha a b. Where both are 1 it is rounded once; otherwise the product is rounded, and multiplied, and so is the addend, and
    they are added, in the type that elements are computed in. A beta of 0 ignores the addend."""
    together("mm", a, b, *([] if addend is None else [addend]))
    if not a.dtype == b.dtype == (a if addend is None else addend).dtype:
        raise RuntimeError(f"expected matrices of one dtype, got {a.dtype} and {b.dtype}")
    if beta == 0:
        addend = None
    if any(isinstance(v, complex) for v in (beta, alpha)):
        raise Uncovered("mm: bitfold has no product with a complex beta or alpha")
    if a.dtype in FLOATS:
        return _of_floats(method, a, b, addend, beta, alpha)
    if a.dtype in _INTEGERS:
        return _of_integers(a, b, addend, beta, alpha)
    if a.dtype in _COMPLEX:
        return _of_complex(method, a, b, addend, beta, alpha)
    raise Uncovered(f"mm: bitfold has none of {a.dtype}")


def _fit(rank: int, a: Tensor, b: Tensor) -> None:
    if a.dim() != rank or b.dim() != rank or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise RuntimeError(f"matrices of {rank} dimensions that fit expected, got {list(a.shape)} and {list(b.shape)}")


def _fits(rank: int, x: Tensor) -> None:
    if x.dim() != rank:
        raise RuntimeError(f"a tensor of {rank} dimensions expected, got {list(x.shape)}")


def _of_two(rank: int) -> Callable:
    def product(method, x, y):
        _fit(rank, x, y)
        return _product(method, x, y)

    return product


def _added(rank: int) -> Callable:
    def product(method, x, a, b, *, beta=1, alpha=1):
        _fit(rank, a, b)
        return _product(method, a, b, x.expand(*a.shape[:-1], b.shape[-1]), beta, alpha)

    return product


_mm, _addmm = _of_two(2), _added(2)
for _rank, _names, _functions in ((2, ("mm", "addmm"), (_mm, _addmm)), (3, ("bmm", "baddbmm"), (_of_two(3), _added(3)))):
    for _name, _function in zip(_names, _functions):
        covers(_name)(_function)
    quick(_names[0])(lambda method, x, y, rank=_rank: None if method == "exact" else TENSORS.multiply_plain(rank, x, y, None))
    quick(_names[1])(lambda method, x, a, b, rank=_rank: None if method == "exact" else TENSORS.multiply_plain(rank, a, b, x))


@covers("addbmm")
def _addbmm(method, x, a, b, *, beta=1, alpha=1):
    """One product of rows as long as all of a batch's, rounded once."""
    _fit(3, a, b)
    a, b = a.transpose(0, 1).flatten(1), b.flatten(0, 1)
    return _product(method, a, b, x.expand(a.shape[0], b.shape[1]), beta, alpha)


@covers("mv")
def _mv(method, x, y):
    _fits(1, y)
    return _mm(method, x, y.unsqueeze(1)).squeeze(1)


@covers("addmv")
def _addmv(method, x, a, y, *, beta=1, alpha=1):
    _fits(1, y)
    _fit(2, a, y.unsqueeze(1))
    return _product(method, a, y.unsqueeze(1), x.expand(a.shape[0]).unsqueeze(1), beta, alpha).squeeze(1)


@covers("addr")
def _addr(method, x, a, b, *, beta=1, alpha=1):
    _fits(1, a), _fits(1, b)
    x, (a, b) = x.expand(len(a), len(b)), (a.unsqueeze(1), b.unsqueeze(0))
    dtype = torch.promote_types(torch.promote_types(x.dtype, a.dtype), b.dtype)
    return _product(method, a.to(dtype), b.to(dtype), x.to(dtype), beta, alpha)


@covers("_addmm_activation")
def _addmm_activation(method, x, a, b, *, beta=1, alpha=1, use_gelu=False):
    return (F.gelu if use_gelu else F.relu)(_addmm(method, x, a, b, beta=beta, alpha=alpha))


# ---- Layers that are one operator where no gradient is wanted ---------------------------------------


def _expect_dense(op: str, *tensors: Tensor | None) -> None:
    for x in tensors:
        if x is not None and (x.is_nested or x.layout is not torch.strided):
            raise Uncovered(f"{op}: bitfold has it of dense tensors alone")


def _masks(mask: Tensor | None, kind: int | None) -> dict[str, Tensor | None]:
    """For multi_head_attention_forward. `kind`: 0 of queries and keys, 1 of samples and keys, 2 of samples, heads, queries and keys."""
    if mask is None:
        return {"key_padding_mask": None, "attn_mask": None}
    mask = mask.to(torch.bool)
    if kind == 1:
        return {"key_padding_mask": mask, "attn_mask": None}
    return {"key_padding_mask": None, "attn_mask": mask.flatten(0, 1) if mask.dim() == 4 else mask}


@covers("_native_multi_head_attention")
def _attention(method, q, k, v, width, heads, qkv_w, qkv_b, out_w, out_b, mask=None, need_weights=True, average_attn_weights=True, mask_type=None):
    """As torch has it where a gradient is wanted."""
    _expect_dense("_native_multi_head_attention", q, k, v, mask)
    of_one = q is k and k is v
    q, k, v = (q.transpose(0, 1),) * 3 if of_one else (t.transpose(0, 1) for t in (q, k, v))
    out, weights = F.multi_head_attention_forward(
        q, k, v, width, heads, qkv_w, qkv_b, None, None, False, 0.0, out_w, out_b, training=False, need_weights=need_weights,
        average_attn_weights=average_attn_weights, **_masks(mask, mask_type),
    )  # fmt: skip
    return out.transpose(0, 1), weights


@covers("_transformer_encoder_layer_fwd")
def _encoder_layer(
    method, x, width, heads, qkv_w, qkv_b, out_w, out_b, use_gelu, norm_first, eps, norm_w1, norm_b1, norm_w2, norm_b2, w1, b1, w2, b2, mask=None, mask_type=None
):  # fmt: skip
    """As torch has it where a gradient is wanted."""
    _expect_dense("_transformer_encoder_layer_fwd", x, mask)

    def attended(x):
        return _attention(method, x, x, x, width, heads, qkv_w, qkv_b, out_w, out_b, mask, False, True, mask_type)[0]

    def fed(x):
        return F.linear((F.gelu if use_gelu else F.relu)(F.linear(x, w1, b1)), w2, b2)

    first, second = (lambda x, w=w, b=b: F.layer_norm(x, (width,), w, b, eps) for w, b in ((norm_w1, norm_b1), (norm_w2, norm_b2)))
    if norm_first:
        x = x + attended(first(x))
        return x + fed(second(x))
    x = first(x + attended(x))
    return second(x + fed(x))


# ---- What torch makes of products, as it should -----------------------------------------------------


@composite("linear")
def _linear(own, x, w, b=None):
    """torch adds the bias in the product where x and the bias lie in a row, and otherwise behind it, to what is rounded."""
    if b is not None and x.dim() != 2 and x.layout is torch.strided and w.dim() == 2:
        x = x.contiguous()
        if b.dim() < 2 and b.layout is torch.strided:
            b = (b if b.dim() else b.expand(len(w))).contiguous()
    return own(x, w, b)


def _lstm_layer(x: Tensor, h: Tensor, c: Tensor, w_ih, w_hh, b_ih, b_hh, w_hr, reverse: bool) -> tuple[list[Tensor], Tensor, Tensor]:
    """One way through the steps of x; operators and their order are those of torch's own function."""
    gates_of_x, out = F.linear(x, w_ih, b_ih).unbind(0), []
    for of_x in reversed(gates_of_x) if reverse else gates_of_x:
        i, f, g, o = (F.linear(h, w_hh, b_hh) + of_x).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        h = h if w_hr is None else F.linear(h, w_hr)
        out.append(h)
    return out[::-1] if reverse else out, h, c


def _lstm_layers(x, hx, params, has_biases, layers, dropout, train, bidirectional) -> tuple[Tensor, Tensor, Tensor]:
    """Of steps first."""
    ways, has_projections, last = 1 + bidirectional, hx[0].shape[2] != hx[1].shape[2], []
    size = len(params) // (layers * ways)
    for layer in range(layers):
        if layer and train and dropout:
            x = F.dropout(x, dropout)
        outs = []
        for way in range(ways):
            at = layer * ways + way
            w_ih, w_hh, *rest = params[at * size : (at + 1) * size]
            b_ih, b_hh = rest[:2] if has_biases else (None, None)
            out, *state = _lstm_layer(x, hx[0][at], hx[1][at], w_ih, w_hh, b_ih, b_hh, rest[-1] if has_projections else None, bool(way))
            outs.append(torch.stack(out))
            last.append(state)
        x = torch.cat(outs, -1) if bidirectional else outs[0]
    h, c = (torch.stack(states) for states in zip(*last))
    return x, h, c


# On CPUs torch itself goes step by step with float64 and with sequences of several lengths, and makes an operator of oneDNN's of others. On CUDA it
# makes one of cuDNN's of all.


@composite("lstm.input")
def _lstm(own, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    if x.dim() != 3 or not x.numel() or x.layout is not torch.strided or len(hx) != 2:
        return own(x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first)
    y, h, c = _lstm_layers(x.transpose(0, 1) if batch_first else x, hx, params, has_biases, layers, dropout, train, bidirectional)
    return y.transpose(0, 1) if batch_first else y, h, c


@composite("lstm.data")
def _packed_lstm(own, x, sizes, hx, params, has_biases, layers, dropout, train, bidirectional):
    if type(sizes) is not Tensor or not x.numel() or sizes[0] != sizes[-1] or len(hx) != 2:
        return own(x, sizes, hx, params, has_biases, layers, dropout, train, bidirectional)
    y, h, c = _lstm_layers(x.unflatten(0, (len(sizes), -1)), hx, params, has_biases, layers, dropout, train, bidirectional)
    return y.flatten(0, 1), h, c
