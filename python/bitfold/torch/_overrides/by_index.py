"""Adding by index, and bags of embeddings: what goes to one place is one reduction, in the order in which it comes; then it
meets what lay there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bitfold import _arrays

from .. import _engine
from .._engine import FLOATS, HALF, TENSORS, Uncovered, dims_of, request, wide
from .common import NUMBERS, REAL, among, ask, can_look, checked, covers, fold, heading, quick, same_type

heading("adding by index")


#: What is done with the bytes of bools: true plus true is true.
_OF_TRUTHS = {"sum": "amax", "prod": "prod", "amax": "amax", "amin": "amin"}
#: Operations as the library scatters by them.
_SCATTERED = {"sum": "sum", "mean": "mean", "prod": "prod", "amax": "max", "amin": "min"}


#: Whose in-place form may pass `in_place`: then they may return x itself, where nothing more is to be copied.
IN_PLACE = ("scatter_add", "scatter_reduce.two", "index_add", "index_reduce")


def _scattered_at_once(
    method: str, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool, in_place: bool = False
) -> Tensor | None:
    """In one call of the library's; None where it has none for these."""
    if src.dtype is not x.dtype or x.dtype not in NUMBERS or not _engine.is_real(x):
        return None
    in_place = in_place and x.is_contiguous() and all(x.untyped_storage().data_ptr() != t.untyped_storage().data_ptr() for t in (index, src))
    x, src, lost = x.contiguous(), _in_a_row(src), x.new_empty((), dtype=torch.int32) if _on_gpu(x) else None
    scattered = TENSORS.scatter_plain(_SCATTERED[reduce], method, x, 0, dim, index, src, include_self, in_place, lost)
    if lost is not None and scattered is not None:
        torch._assert_async(lost == 0)  # as torch's own kernels do
    return scattered


def _on_gpu(x: Tensor) -> bool:
    return x.is_cuda and _engine.is_real(x)


def _in_a_row(x: Tensor) -> Tensor:
    """Where it is on a GPU, whose kernels take nothing else."""
    return x.contiguous() if _on_gpu(x) else x


def _rounds_once(method: str, x: Tensor, out: torch.dtype) -> bool:
    """Whether a sum goes to a half type, and not to f32 first."""
    return out is x.dtype and x.dtype in HALF and method in ("kahan", "exact")


def _summed_at_once(method: str, x: Tensor, keys: Tensor, outputs: int, out: torch.dtype) -> Tensor | None:
    """The same along dimension 0, onto zeros; what has a key that names no output is left out."""
    if _rounds_once(method, x, out) or not _engine.is_real(x):
        return None
    return TENSORS.scatter_plain("sum", method, None, outputs, 0, keys, _in_a_row(x.to(out)), False, False, None)


def _rows_by_key(method: str, x: Tensor, keys: Tensor, outputs: int, out: torch.dtype) -> Tensor:
    """x: rows of floats; keys: one for each, or `outputs`, and then the row is left out. Gives `outputs` rows of their sums."""
    op, width, keys = "sum", x.shape[1], keys.to(torch.int64)
    if (summed := _summed_at_once(method, x, keys.unsqueeze(1).expand(x.shape), outputs, out)) is not None:
        return summed
    at = (keys.unsqueeze(1) * width + torch.arange(width, device=x.device)).reshape(-1)
    return _engine.by_key(ask(op, method, out), x.reshape(-1), at, (outputs + 1) * width).reshape(outputs + 1, width)[:outputs].contiguous()


def _touched(at: Tensor, outputs: int) -> Tensor:
    return torch.zeros(outputs, dtype=torch.bool, device=at.device).index_fill_(0, at, True)


def _combined(method: str, base: Tensor, at: Tensor, values: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """`values` reduced into places `at` of base; all flat."""
    n = base.numel()
    if not base.is_complex():
        among(REAL, reduce, base)
    if base.dtype.is_complex:
        if reduce != "sum":
            raise Uncovered(f"{reduce}: bitfold has none of {base.dtype} by index")
        pairs = (at.unsqueeze(1) * 2 + torch.arange(2, device=at.device)).reshape(-1)
        parts = _combined(method, _parts(base).reshape(-1), pairs, _parts(values).reshape(-1), reduce, include_self)
        return torch.view_as_complex(parts.reshape(-1, 2))
    if base.dtype is torch.bool:  # true plus true is true
        if reduce not in _OF_TRUTHS:
            raise NotImplementedError(f"{reduce}: not implemented for torch.bool")
        as_bytes = _combined(method, base.to(torch.uint8), at, values.to(torch.uint8), _OF_TRUTHS[reduce], include_self)
        return as_bytes != 0
    if (combined := _scattered_at_once(method, base, 0, at, values, reduce, include_self)) is not None:
        return combined
    touched = _touched(at, n)
    if reduce in ("amax", "amin"):
        worst = _worst(base.dtype, reduce)
        kept = base if include_self else base.masked_fill(touched, worst)
        every = torch.cat([torch.arange(n, device=at.device), at])
        return _engine.by_key(ask(reduce[1:], method), torch.cat([kept, values.to(base.dtype)]), every, n)
    exact = not base.dtype.is_floating_point
    type_of_sum = torch.int64 if exact else wide(base.dtype)
    op = "prod" if reduce == "prod" else "sum"
    folded = _engine.by_key(ask(op, method, type_of_sum), values, at, n)
    if include_self:
        folded = base * folded if op == "prod" else base + folded
    if reduce == "mean":
        counts = _engine.by_key(request("count_nonzero"), torch.ones_like(at), at, n) + int(include_self)
        counts = counts.clamp_min(1)
        folded = torch.div(folded, counts, rounding_mode="floor") if exact else folded / counts.to(folded.dtype)
    return torch.where(touched, folded.to(base.dtype), base)


def _parts(x: Tensor) -> Tensor:
    """Of complex numbers their real and imaginary parts, along one more dimension."""
    return torch.view_as_real(x.resolve_conj())


def _worst(dtype: torch.dtype, reduce: str) -> float | int:
    if dtype.is_floating_point:
        return -math.inf if reduce == "amax" else math.inf
    limits = torch.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def _one_of(op: str, reduce: str, known: Sequence[str]) -> str:
    if reduce not in known:
        raise RuntimeError(f"{op}(): Expected reduce to be one of {', '.join(known)} but got {reduce}.")
    return reduce


def _index(op: str, index: Tensor) -> Tensor:
    if index.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index but got: {index.dtype}")
    return index.to(torch.int64)


def _scattered(method, x, dim, index, src, reduce, include_self=True, in_place=False):
    dims_of(x.dim(), dim)
    if not index.numel():
        return x.clone()
    if not x.dim():
        return _scattered(method, x.reshape(1), 0, index, src, reduce, include_self).reshape(())
    dim %= x.dim()
    index, src = (t if t.dim() else t.reshape(1) for t in (index, src))
    if not index.dim() == x.dim() == src.dim():
        raise RuntimeError("scatter(): Index, self and src must have the same number of dimensions")
    if any(n > m or n > k and d != dim for d, (n, m, k) in enumerate(zip(index.shape, src.shape, x.shape))):
        shapes = f"index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {dim}"
        raise RuntimeError(f"scatter(): Expected {shapes} and no larger than src {list(src.shape)}")
    index, src = _index("scatter", index), src if src.shape == index.shape else src[tuple(slice(n) for n in index.shape)]
    if x.is_complex() and reduce == "sum":
        pairs = index.unsqueeze(-1).expand(*index.shape, 2)
        return torch.view_as_complex(_scattered(method, _parts(x), dim, pairs, _parts(src), reduce, include_self))
    if x.dtype is torch.bool and reduce in _OF_TRUTHS:
        return _scattered(method, x.to(torch.uint8), dim, index, src.to(torch.uint8), _OF_TRUTHS[reduce], include_self) != 0
    if (scattered := _scattered_at_once(method, x, dim, index, src, reduce, include_self, in_place)) is not None:
        return scattered
    index = checked(index, x.shape[dim], "scatter")
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    here = places[tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))]
    at = here.gather(dim, index).reshape(-1)
    return _combined(method, x.reshape(-1), at, src.reshape(-1), reduce, include_self).reshape(x.shape)


def _quick_scatter(method, x, dim, index, src, reduce):
    """On a CPU, of an index that is as large as src, and as x but along `dim`."""
    shape = index.shape
    rank = len(shape)
    if _on_gpu(x) or shape != src.shape or rank != x.dim() or not -rank <= dim < rank or not index.numel() or not x.numel():
        return None
    dim %= rank
    if shape[:dim] != x.shape[:dim] or shape[dim + 1 :] != x.shape[dim + 1 :] or reduce not in _SCATTERED:
        return None
    return _scattered_at_once(method, x, dim, index, src, reduce, True)


quick("scatter_add")(lambda method, x, dim, index, src: _quick_scatter(method, x, dim, index, src, "sum"))
quick("scatter_reduce.two")(_quick_scatter)


@quick("index_add")
def _quick_index_add(method, x, dim, index, source):
    rank = source.dim()
    if index.dim() != 1 or not -rank <= dim < rank or index.numel() != source.shape[dim]:
        return None
    return _quick_scatter(method, x, dim, index.view([-1 if d == dim % rank else 1 for d in range(rank)]).expand(source.shape), source, "sum")


@covers("scatter_add")
def _scatter_add(method, x, dim, index, src, *, in_place=False):
    same_type(x, src, "scatter")
    return _scattered(method, x, dim, index, src, "sum", in_place=in_place)


@covers("scatter_reduce.two")
def _scatter_reduce(method, x, dim, index, src, reduce, *, include_self=True, in_place=False):
    if _one_of("scatter_reduce", reduce, ("sum", "prod", "mean", "amax", "amin")) == "mean":
        among(NUMBERS, "scatter_reduce", x)
    same_type(x, src, "scatter")
    return _scattered(method, x, dim, index, src, reduce, include_self, in_place)


@covers("scatter.reduce")
def _scatter_named(method, x, dim, index, src, *, reduce):
    same_type(x, src, "scatter")
    return _scattered(method, x, dim, index, src, {"add": "sum", "multiply": "prod"}[_one_of("scatter", reduce, ("add", "multiply"))])


@covers("scatter.value_reduce")
def _scatter_value(method, x, dim, index, value, *, reduce):
    src = torch.full(index.shape, value, dtype=x.dtype, device=x.device)
    return _scatter_named(method, x, dim, index, src, reduce=reduce)


def _indexed(method, x, dim, index, source, reduce, include_self=True, in_place=False):
    dims_of(x.dim(), dim)
    if index.dim() > 1:
        raise IndexError("index_add_(): Index is supposed to be a vector")
    if not x.dim() and not source.dim():
        x, source = x.reshape(1), source.reshape(1)
        return _indexed(method, x, 0, index, source, reduce, include_self).reshape(())
    shape = list(x.shape)
    if x.dim():
        shape[dim] = index.numel()
    if list(source.shape) != shape:
        raise RuntimeError(f"index_add_(): source of shape {list(source.shape)}, where {shape} is expected")
    if source.numel() and not x.numel():
        raise Uncovered("index_add_(): bitfold has none into no elements")
    if _on_gpu(x) and dim % max(x.dim(), 1):  # rows with one key each, which are not taken apart
        x, source = x.movedim(dim, 0), source.movedim(dim, 0)
        return _indexed(method, x, 0, index, source, reduce, include_self).movedim(0, dim).contiguous()
    view = [1] * x.dim()
    view[dim] = -1
    return _scattered(method, x, dim, index.reshape(view).expand(shape), source, reduce, include_self, in_place)


@covers("index_add")
def _index_add(method, x, dim, index, source, *, alpha=1, in_place=False):
    same_type(x, source, "index_add_")
    if isinstance(alpha, complex) and not x.is_complex():
        raise Uncovered(f"index_add: bitfold has no complex alpha for {x.dtype}")
    if alpha != 1:
        if not (x.is_floating_point() or x.is_complex()):
            alpha = x.new_full((), alpha)  # which has to fit
        source = source.to(wide(x.dtype)) * alpha
    return _indexed(method, x, dim, index, source, "sum", in_place=in_place)


@covers("index_reduce")
def _index_reduce(method, x, dim, index, source, reduce, *, include_self=True, in_place=False):
    among(NUMBERS, "index_reduce", x)
    _one_of("index_reduce", reduce, ("prod", "mean", "amax", "amin"))
    same_type(x, source, "index_reduce")
    return _indexed(method, x, dim, index, source, reduce, include_self, in_place)


def _put_rows(method: str, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, in_place: bool = False) -> Tensor | None:
    """Where all of the first dimensions are indexed by numbers, and no other: what is added are rows, each at one place of one dimension."""
    given = [i for i in indices if i is not None]
    if not given or any(i is None for i in indices[: len(given)]):
        return None
    if any(i.dtype is not torch.int64 or not _engine.is_real(i) or not i.numel() for i in given):
        return None
    place = None
    for i, n in zip(torch.broadcast_tensors(*given), x.shape):
        if len(given) > 1 and not can_look(i):
            torch._assert_async(((i >= -n) & (i < n)).all())
        elif len(given) > 1 and not (-n <= i.numpy().min() and i.numpy().max() < n):
            return None
        i = torch.where(i < 0, i + n, i)
        place = i if place is None else place * n + i
    rest = x.shape[len(given) :]
    rows, values = x.reshape(-1, rest.numel()), values.expand(*place.shape, *rest).reshape(-1, rest.numel())
    added = _scattered_at_once(method, rows, 0, place.reshape(-1, 1).expand(values.shape), values, "sum", True, in_place and x.is_contiguous())
    return x if added is rows and in_place else None if added is None else added.reshape(x.shape)


def index_put(method, x, indices, values, accumulate=False, unsafe=False):
    """With accumulate; without it there is nothing to add, and torch's own runs."""
    same_type(x, values, "index_put")
    if x.numel() and (added := _put_rows(method, x, indices, values)) is not None:
        return added
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    return _put(method, x.reshape(-1), places, indices, values).reshape(x.shape)


def _put(
    method: str, row: Tensor, places: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """`row` with `values` added at places[indices] of it."""
    at = places[tuple(slice(None) if i is None else i for i in indices)]
    same_type(row, values, "index_put")
    return _combined(method, row, at.reshape(-1), values.expand(at.shape).reshape(-1), "sum")


def index_put_(method, x, indices, values, accumulate=False, unsafe=False):
    """In place. Elements of x may lie at one place, as an expanded tensor's do: what goes to any of
    them goes to it."""
    if not x.numel() or not _arrays.repeats(x.stride(), x.shape):
        same_type(x, values, "index_put")
        added = _put_rows(method, x, indices, values, in_place=True) if x.numel() else None
        return x if added is x else x.copy_(index_put(method, x, indices, values) if added is None else added)
    extent = 1 + sum(s * (n - 1) for s, n in zip(x.stride(), x.shape))
    row = x.as_strided((extent,), (1,))
    places = torch.arange(extent, device=x.device).as_strided(x.shape, x.stride())
    row.copy_(_put(method, row, places, indices, values))
    return x


def put_(method, x, index, source, accumulate=False):
    return x.copy_(put(method, x, index, source))


def put(method, x, index, source, accumulate=False):
    n = x.numel()
    same_type(x, source, "put_")
    if index.dtype is not torch.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype}")
    if index.numel() != source.numel():
        raise IndexError(f"put_(): Expected as many elements of source as of index, but got {source.numel()} and {index.numel()}")
    index = index.reshape(-1)
    return _combined(method, x.reshape(-1), torch.where(index < 0, index + n, index), source.reshape(-1), "sum").reshape(x.shape)


#: In place, and by bitfold only where `accumulate` is true.
ACCUMULATING: dict[str, Callable] = {"_index_put_impl_": index_put_, "put_": put_}


@covers("embedding_dense_backward")
def _embedding_backward(method, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    keys = _index("embedding_dense_backward", indices).reshape(-1)
    rows = grad.reshape(keys.numel(), grad.shape[-1])
    return _summed_rows(method, rows, keys, num_weights, padding_idx, scale_grad_by_freq).to(grad.dtype)


def _summed_rows(method, rows, keys, num_weights, padding_idx, scale_grad_by_freq):
    if padding_idx >= 0:  # such rows are left out
        keys = torch.where(keys == padding_idx, torch.full_like(keys, num_weights), keys)
    if scale_grad_by_freq:
        counts = _engine.by_key(request("count_nonzero"), torch.ones_like(keys), keys, num_weights + 1)
        rows = rows.to(wide(rows.dtype)) / counts[keys].unsqueeze(1)
    return _rows_by_key(method, rows, keys, num_weights, rows.dtype)


# ---- Bags ----------------------------------------------------------------------------------------

heading("bags of embeddings")

_BAG_SUM, _BAG_MEAN, _BAG_MAX = range(3)
_MOST_OF_BAGS = 1 << 17  # elements that are brought together at one time


def _in_a_row_and_aligned(x: Tensor) -> Tensor:
    """As a call takes it that makes no copies: elements one behind the other, at addresses aligned to themselves."""
    x = x.contiguous().resolve_neg()
    return x.clone() if x.data_ptr() % x.element_size() else x


def _bags_at_once(
    method: str, weight: Tensor, indices: Tensor, ends: Tensor, mode: int, weights: Tensor | None, padding_idx: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Of rows that are read where they lie: bags, how many are in each, and, on a GPU, of the largest from which row they come."""
    n, bags = indices.numel(), ends.numel() - 1
    if _on_gpu(weight):  # or else they were looked at
        if n:
            least, most = torch.aminmax(indices)
            torch._assert_async((least >= 0) & (most < weight.shape[0]))
        torch._assert_async((ends[0] == 0) & (ends[-1] <= n) & (ends[1:] >= ends[:-1]).all())
    if padding_idx >= 0:  # what is left of the others is brought together; what is left out goes behind them all
        stays = indices != padding_idx
        before = torch.cat([ends.new_zeros(1), stays.cumsum(0)])
        at = torch.where(stays, before[:-1], n)
        indices, weights = (None if t is None else t.new_empty(n + 1).scatter_(0, at, t)[:n] for t in (indices, weights))
        ends = before[ends]
    weight, indices, weights = (None if t is None else _in_a_row_and_aligned(t) for t in (weight, indices, weights))
    op = {_BAG_SUM: "sum", _BAG_MEAN: "mean", _BAG_MAX: "max"}[mode]
    made = TENSORS.scatter_rows(op, method, weight, indices, weights, None, _in_a_row_and_aligned(ends), bags, mode == _BAG_MAX)
    y, which = made if mode == _BAG_MAX else (made, None)
    return y, ends[1:] - ends[:-1], which


def _length_of_all(offsets: Tensor, n: int, with_last: bool) -> int:
    """How many of n rows are in each bag, where they are as many in all, and every row is in one; or else 0."""
    bags = offsets.numel() - int(with_last)
    length = n // bags if bags and n % bags == 0 else 0
    return length if length and torch.equal(offsets, torch.arange(0, n + int(with_last), length, dtype=offsets.dtype)) else 0


def _largest_of_alike_bags(method: str, weight: Tensor, indices: Tensor, bags: int) -> tuple[Tensor, Tensor]:
    """On a CPU, of bags of as many rows each: some at a time, so that their rows stay in a cache. The results, and of which row of the weights
    each is the first: -1 of a NaN."""
    length, width = indices.numel() // bags, weight.shape[1]
    at_once, parts = max(1, _MOST_OF_BAGS // (length * width)), []
    for k in range(0, bags, at_once):
        part = slice(k * length, (k + at_once) * length)
        rows = weight.index_select(0, indices[part]).unflatten(0, (-1, length))
        best, place = (fold(method, op, rows, dim=1, keepdim=False) for op in ("max", "argmax"))
        which = indices[part].unflatten(0, (-1, length)).gather(1, place)
        parts.append((best, torch.where(best == best, which, -1)))
    best, which = (torch.cat(p) for p in zip(*parts))
    return best, which


@covers("_embedding_bag")
def _embedding_bag(
    method, weight, indices, offsets, scale_grad_by_freq=False, mode=_BAG_SUM, sparse=False, per_sample_weights=None, include_last_offset=False,
    padding_idx=-1, *, for_gradients=True,
):  # fmt: skip
    """`for_gradients`: with the bag of each row; or else perhaps with none."""
    among(FLOATS, "embedding_bag", weight)
    bags, n, width = offsets.numel() - int(include_last_offset), indices.numel(), weight.shape[1]
    if bags < 0:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    common = torch.promote_types(indices.dtype, offsets.dtype)
    indices, offsets = indices.reshape(-1).to(common), offsets.to(common)
    per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    indices = checked(_index("embedding_bag", indices), weight.shape[0], "embedding_bag")
    if can_look(offsets):
        if not (int(offsets[0]) == 0 and int(offsets[-1]) <= n):
            raise RuntimeError(f"embedding_bag: offsets go from 0 to at most input's length {n}, but got {int(offsets[0])} and {int(offsets[-1])}")
        if len(falls := (offsets[1:] < offsets[:-1]).nonzero()):
            raise RuntimeError(f"embedding_bag: offsets[{int(falls[0]) + 1}] is below the one before")
    if per_sample_weights is not None:
        same_type(weight, per_sample_weights, "embedding_bag")
        if mode != _BAG_SUM:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    # (On a GPU nobody looks: their length is 0.)
    length = _length_of_all(offsets, n, include_last_offset) if can_look(offsets) else 0
    at_once = (method != "exact" if _on_gpu(weight) else mode != _BAG_MAX and can_look(offsets)) and weight.numel() and bags
    if at_once and not for_gradients:
        bag = indices.new_empty(0)
    elif length:
        bag = torch.arange(bags).unsqueeze(1).expand(bags, length).reshape(-1).contiguous()
    else:
        # What lies behind the last offset, where that ends a bag, is in bag number `bags`, which is dropped.
        bag = torch.bucketize(torch.arange(n, device=indices.device), _index("embedding_bag", offsets), right=True) - 1
        if not offsets.numel():
            bag = torch.zeros_like(bag)  # there is none, but that
    if at_once:
        ends = offsets if include_last_offset else torch.cat([offsets, offsets.new_full((1,), n)])
        y, sizes, which = _bags_at_once(method, weight, indices, ends.to(torch.int64), mode, per_sample_weights, padding_idx)
        return y, bag, sizes, sizes.clone() if which is None else which
    if mode == _BAG_MAX and length and width and padding_idx < 0:
        y, which = _largest_of_alike_bags(method, weight, indices, bags)
        return y, bag, torch.full((bags,), length, dtype=torch.int64), which
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows.to(wide(rows.dtype)) * per_sample_weights.unsqueeze(1)
    keys = bag if padding_idx < 0 else torch.where(indices == padding_idx, bags, bag)  # padding goes to a bag that is dropped
    sizes = _engine.by_key(request("count_nonzero"), torch.ones_like(keys), keys, bags + 1)[:bags].contiguous()
    if mode == _BAG_MAX:
        at = (keys.unsqueeze(1) * width + torch.arange(width, device=keys.device)).reshape(-1)
        nothing = torch.zeros((bags + 1) * width, dtype=weight.dtype, device=weight.device)
        best = _combined(method, nothing, at, rows.reshape(-1), "amax", include_self=False)
        first = torch.where(rows.reshape(-1) == best[at], torch.arange(n, device=at.device).repeat_interleave(width), n)
        which = _combined(method, torch.full_like(nothing, n, dtype=torch.int64), at, first, "amin")
        which = torch.where(which < n, torch.cat([indices, indices.new_full((1,), -1)])[which], -1)
        best, which = (t.reshape(bags + 1, width)[:bags].contiguous() for t in (best, which))
        return best, bag, sizes, which
    y = _rows_by_key(method, rows, keys, bags, wide(weight.dtype))
    if mode == _BAG_MEAN:
        y = y / sizes.clamp_min(1).unsqueeze(1).to(y.dtype)
    return y.to(weight.dtype).contiguous(), bag, sizes, sizes.clone()


@covers("_embedding_bag_forward_only")
def _embedding_bag_alone(*args, **options):
    """Without the bag of each row, which gradients alone want: so many elements as a compiler, which sees no offsets, expects."""
    y, bag, sizes, which = _embedding_bag(*args, **options, for_gradients=False)
    return y, bag.new_empty(0), sizes, which


@covers("_embedding_bag_dense_backward")
def _embedding_bag_backward(
    method, grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx=-1
):
    among(FLOATS, "embedding_bag_backward", grad)
    dtype = grad.dtype
    if mode == _BAG_MAX:
        bags, width = grad.shape
        if (summed := _summed_at_once(method, grad, maximum_indices.to(torch.int64), num_weights, grad.dtype)) is not None:
            return summed
        keys = torch.where(maximum_indices < 0, num_weights, maximum_indices)
        at = (keys * width + torch.arange(width, device=keys.device)).reshape(-1)
        summed = _engine.by_key(ask("sum", method, grad.dtype), grad.reshape(-1), at, (num_weights + 1) * width)
        return summed.reshape(num_weights + 1, width)[:num_weights].contiguous()
    within = offset2bag < grad.shape[0]
    offset2bag, keys = offset2bag.where(within, 0), indices.to(torch.int64).where(within, num_weights)
    at_once = _on_gpu(grad) or can_look(offset2bag)
    if at_once and method != "exact" and not scale_grad_by_freq and grad.numel():
        if not _on_gpu(grad):  # rows are read where they are said to be
            offset2bag = checked(offset2bag, grad.shape[0], "embedding_bag_backward")
        if padding_idx >= 0:
            keys = keys.where(indices != padding_idx, num_weights)
        if mode == _BAG_MEAN:  # of each bag, before its rows are
            grad = grad.to(wide(grad.dtype)) / bag_size.clamp_min(1).unsqueeze(1).to(wide(grad.dtype))
        weights = None if per_sample_weights is None else per_sample_weights.to(grad.dtype)
        rows, bags, weights, keys = (
            None if t is None else _in_a_row_and_aligned(t) for t in (grad, offset2bag.to(torch.int64), weights, keys)
        )
        summed = TENSORS.scatter_rows("sum", method, rows, bags, weights, keys, None, num_weights, False)
        return summed.to(dtype)
    rows = grad[offset2bag].to(wide(grad.dtype))
    if mode == _BAG_MEAN:
        rows = rows / bag_size.clamp_min(1)[offset2bag].unsqueeze(1).to(rows.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return _summed_rows(method, rows, keys, num_weights, padding_idx, scale_grad_by_freq).to(dtype)


@covers("_embedding_bag_per_sample_weights_backward")
def _bag_weights_backward(method, grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    among(FLOATS, "embedding_bag_backward", grad)
    within = offset2bag < grad.shape[0]
    bag = offset2bag.where(within, 0)

    def dots(some: slice) -> Tensor:
        rows = grad.index_select(0, bag[some]), weight.index_select(0, indices[some])
        return fold(method, "dot", *rows, dim=1, keepdim=False, out=grad.dtype)

    if can_look(indices):  # on a CPU some at a time, so that their rows stay in a cache
        at_once = max(1, _MOST_OF_BAGS // max(1, grad.shape[1]))
        per_sample = torch.cat([dots(slice(k, k + at_once)) for k in range(0, indices.numel(), at_once)])
    else:
        per_sample = dots(slice(None))
    return per_sample.where(within if padding_idx < 0 else within & (indices != padding_idx), 0)
