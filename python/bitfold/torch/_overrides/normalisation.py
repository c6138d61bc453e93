"""Normalisation: of layers, groups and batches.

A layout says along which dimensions of x statistics are taken, and how a weight is spread over x. 1 / sqrt is a square root and a
division, each rounded as IEEE 754 has it; torch's rsqrt is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from .. import _engine
from .._engine import FLOATS, HALF, TENSORS, Channels, Extents, Rows, Uncovered, over, wide
from .common import among, ask, covers, fold, heading, quick, square_root

heading("normalisation")


def _check_parameters(op: str, x: Tensor, shape: Sequence[int], *parameters: Tensor | None) -> None:
    """They are of x's type, or, where it is a half type, of f32."""
    given, size = [t for t in parameters if t is not None], torch.Size(shape)
    for t in given:
        if t.shape != size:
            raise RuntimeError(f"{op}: Expected parameters of shape {list(shape)}, but got one of shape {list(t.shape)}")
    dtypes = {t.dtype for t in given}
    if not (dtypes <= {x.dtype} or x.dtype in HALF and dtypes == {torch.float32}):
        raise RuntimeError(f"{op}: mixed dtype: parameters of {', '.join(sorted(map(str, dtypes)))}, where the input is of {x.dtype}")


def _statistics(method: str, x: Tensor, dims: list[int], eps: float, keepdim: bool = True, var: bool = False) -> tuple[Tensor, ...]:
    """The mean, what it was rounded by, 1 / sqrt(var + eps) and, where wanted, var, all of x's wide type."""
    acc = wide(x.dtype)
    asked = [ask("mean", "kahan", torch.float64, acc), ask("std", method, torch.float64, acc)]
    exact, std, *more = _engine.reduce([*asked, ask("var", method, acc)] if var else asked, x, dim=dims, keepdim=keepdim)
    mean = exact.to(acc)
    return mean, (exact - mean).to(mean.dtype), _inverse_deviation(std, eps, mean.dtype), *more


def _inverse_deviation(std: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """1 / sqrt(std^2 + eps) in f64, rounded once. Where the square leaves f64's range, as those of narrower types do not, and eps does not
    show beside it, 1 / std."""
    inverse = _inverse_root(std * std, eps)
    if dtype is not torch.float64:
        return inverse.to(dtype)
    alone = std > 2.0**500
    if eps == 0:
        alone |= std < 2.0**-500
    return torch.where(alone, std.reciprocal(), inverse)


def _inverse_root(var: Tensor, eps: float) -> Tensor:
    return square_root(var.add(eps)).reciprocal_()


def _scaled(x: Tensor, mean: Tensor | None, rstd: Tensor, rounded_by: Tensor | None = None) -> Tensor:
    x = x.to(wide(x.dtype))
    y = (x if mean is None else x - mean) * rstd
    return y if rounded_by is None else y.sub_(rounded_by * rstd)


def _affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        y = y * weight.to(y.dtype)
    return y if bias is None else y + bias.to(y.dtype)


def _input_gradient(method: str, g: Tensor, scaled: Tensor, rstd: Tensor, dims: list[int], centred: bool) -> Tensor:
    """Of y = scaled(x), whose statistics are x's own."""
    n = math.prod(g.shape[d] for d in dims)
    along = scaled * over(fold(method, "dot", g, scaled, dim=dims), n)
    return ((g - fold(method, "mean", g, dim=dims) if centred else g) - along) * rstd


def _weight_gradients(method: str, g: Tensor, scaled: Tensor, dims: list[int], shape, dtype, want: Sequence[bool]) -> list[Tensor | None]:
    """Of weight and bias: along all dimensions that they do not have."""
    weight = _column_fold(method, "dot", g, scaled, dims).reshape(shape).to(dtype) if want[0] else None
    bias = _column_fold(method, "sum", g, None, dims).reshape(shape).to(dtype) if want[1] else None
    return [weight, bias]


def _column_fold(method: str, op: str, g: Tensor, y: Tensor | None, dims: list[int]) -> Tensor:
    if not dims:  # every element is a gradient of its own
        return g * y if y is not None else g
    return fold(method, op, *([g] if y is None else [g, y]), dim=dims)


_BELOW_ALL_INTEGERS = -(1 << 62)  # what torch has below says where a symbolic one lies


def _sizes(x: Tensor, normalized: Sequence[int]) -> list[int]:
    """`normalized`, and of what is symbolic there x's own: torch has compared these, and hands them
    over unread as `int[]`."""
    last = x.shape[x.dim() - len(normalized) :]
    return [last[k] if n < _BELOW_ALL_INTEGERS else n for k, n in enumerate(normalized)]


def _batch_dims(x: Tensor, normalized: Sequence[int]) -> tuple[list[int], list[int]]:
    if not normalized:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got []")
    lead = x.dim() - len(normalized)
    if lead < 0 or list(x.shape[lead:]) != list(normalized):
        raise RuntimeError(f"Given normalized_shape={list(normalized)}, expected input with shape [*, {list(normalized)}], but got input of size {list(x.shape)}")
    return list(range(lead)), list(range(lead, x.dim()))


def _makes_a_row(n: int) -> bool:
    return 0 < n <= _engine.MOST_OF_A_ROW


def _are_rows(x: Tensor, dims: list[int]) -> bool:
    return _makes_a_row(math.prod(x.shape[d] for d in dims))


def _by_rows(method: str, x: Tensor, dims: list[int], *more: Tensor | None) -> bool:
    return method == "tree" and all(t is None or t.dtype is x.dtype for t in more) and _are_rows(x, dims)


def _rows_of(t: Tensor | None) -> Tensor | None:
    return None if t is None else t.contiguous()


def _parameters_of(t: Tensor | None, x: Tensor) -> Tensor | None:
    return None if t is None else _rows_of(t.to(x.dtype))


def _normalised_rows(
    function: str, x: Tensor, n: int, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float, inner: int = 0, channels: int = 0
) -> tuple[Tensor, ...]:
    """Of rows of n elements, whose statistics have that shape."""
    statistics = wide(x.dtype)
    mean = x.new_empty(shape, dtype=statistics) if function != "rms_norm" else None
    rstd = x.new_empty(shape, dtype=statistics)
    of = Rows(_rows_of(x), n, None, *(_parameters_of(t, x) for t in (weight, bias)), mean, rstd, eps, inner, channels)
    return of.apply(function), mean, rstd


@covers("native_layer_norm")
def _layer_norm(method, x, normalized_shape, weight, bias, eps):
    among(FLOATS, "layer_norm", x)
    _, dims = _batch_dims(x, normalized_shape)
    _check_parameters("layer_norm", x, normalized_shape, weight, bias)
    if _are_rows(x, dims):  # whatever the method, which moments have none of
        given = [x, weight, bias]
        if any(t is not None and t.dtype is not x.dtype for t in given):
            given = [None if t is None else t.to(wide(x.dtype)) for t in given]
        y, mean, rstd = _normalised_rows("layer_norm", given[0], math.prod(normalized_shape), _engine.result_shape(x.shape, dims, True), *given[1:], eps)
        return y.to(x.dtype), mean, rstd
    mean, rounded_by, rstd = _statistics(method, x, dims, eps)
    return _affine(_scaled(x, mean, rstd, rounded_by), weight, bias).to(x.dtype), mean, rstd


@quick("native_layer_norm")
def _quick_layer_norm(method, x, normalized_shape, weight, bias, eps):
    return TENSORS.norm_plain(x, normalized_shape, weight, bias, eps, True) if method == "tree" else None


@quick("native_layer_norm_backward")
def _quick_layer_norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, bias, output_mask):
    return TENSORS.norm_backward_plain(grad, x, normalized_shape, mean, rstd, weight, output_mask) if method == "tree" else None


@covers("native_layer_norm_backward")
def _layer_norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, bias, output_mask):
    return _norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, output_mask)


@cache
def _epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(wide(dtype)).eps


@quick("_fused_rms_norm")
def _quick_rms_norm(method, x, normalized_shape, weight, eps):
    if method != "tree" or not x.is_floating_point():
        return None
    return TENSORS.norm_plain(x, normalized_shape, weight, None, _epsilon(x.dtype) if eps is None else eps, False)


@quick("_fused_rms_norm_backward")
def _quick_rms_norm_backward(method, grad, x, normalized_shape, rstd, weight, output_mask):
    return TENSORS.norm_backward_plain(grad, x, normalized_shape, None, rstd, weight, output_mask) if method == "tree" else None


@covers("_fused_rms_norm")
def _rms_norm(method, x, normalized_shape, weight, eps):
    among(FLOATS, "rms_norm", x)
    normalized_shape = _sizes(x, normalized_shape)
    _, dims = _batch_dims(x, normalized_shape)
    eps = _epsilon(x.dtype) if eps is None else eps
    if _by_rows(method, x, dims, weight):
        y, _, rstd = _normalised_rows("rms_norm", x, math.prod(normalized_shape), _engine.result_shape(x.shape, dims, True), weight, None, eps)
        return y, rstd
    square = over(fold(method, "sum_squares", x, dim=dims, out=wide(x.dtype)), math.prod(normalized_shape))
    rstd = _inverse_root(square, eps)
    return _affine(_scaled(x, None, rstd), weight, None).to(x.dtype), rstd


@covers("_fused_rms_norm_backward")
def _rms_norm_backward(method, grad, x, normalized_shape, rstd, weight, output_mask):
    normalized_shape = _sizes(x, normalized_shape)
    return _norm_backward(method, grad, x, normalized_shape, None, rstd, weight, [*output_mask, False])[:2]


def _norm_backward(method, grad, x, normalized_shape, mean, rstd, weight, output_mask):
    batch, dims = _batch_dims(x, normalized_shape)
    n = math.prod(normalized_shape)
    if _by_rows(method, x, dims, grad, weight) and x.numel() <= n * _engine.MOST_OF_A_ROW:
        function = "rms_norm_backward" if mean is None else "layer_norm_backward"
        of = Rows(_rows_of(grad), n, y=_rows_of(x), w=_rows_of(weight), mean=_rows_of(mean), rstd=_rows_of(rstd))
        parameters = of.parameter_gradients(function, normalized_shape, output_mask[1:]) if any(output_mask[1:]) else [None, None]
        return tuple(None if t is None else t.to(x.dtype) for t in (of.apply(function) if output_mask[0] else None, *parameters))
    g, scaled = grad.to(wide(x.dtype)), _scaled(x, mean, rstd)
    dx = None
    if output_mask[0]:
        dx = _input_gradient(method, _affine(g, weight, None), scaled, rstd, dims, mean is not None).to(x.dtype)
    dtype = x.dtype if weight is None else weight.dtype
    return (dx, *_weight_gradients(method, g, scaled, batch, normalized_shape, dtype, output_mask[1:]))


@covers("native_group_norm")
def _group_norm(method, x, weight, bias, N, C, HxW, group, eps):
    among(FLOATS, "group_norm", x)
    _check_parameters("group_norm", x, [C], weight, bias)
    n = C // group * HxW
    if _makes_a_row(n):
        same = all(t is None or t.dtype is x.dtype for t in (weight, bias))
        y, mean, rstd = _normalised_rows("group_norm", x if same else x.to(wide(x.dtype)), n, (N, group), weight, bias, eps, HxW, C)
        return y.to(x.dtype), mean, rstd
    groups = x.reshape(N, group, C // group, HxW).contiguous()
    mean, rounded_by, rstd = _statistics(method, groups, [2, 3], eps)
    of = Channels(Extents(N, C, HxW, C // group, True), groups, None, *(_wide_of(t, x) for t in (weight, bias, mean, rstd, rounded_by)))
    return of.apply("channel_norm").to(x.dtype).reshape(x.shape), mean.reshape(N, group), rstd.reshape(N, group)


@covers("native_group_norm_backward")
def _group_norm_backward(method, grad, x, mean, rstd, weight, N, C, HxW, group, output_mask):
    of = Extents(N, C, HxW, C // group, True)
    return _channel_gradients(method, grad.contiguous(), x.contiguous(), of, mean, rstd, weight, output_mask)


# ---- Channels


def _channels_of(x: Tensor) -> tuple[Extents, bool]:
    """How they lie; and whether that is in the last place."""
    if x.dim() > 2 and not x.is_contiguous() and x.movedim(1, -1).is_contiguous():
        return Extents(x.numel() // max(x.shape[1], 1), x.shape[1], 1), True
    return Extents(x.shape[0], x.shape[1], math.prod(x.shape[2:])), False


def _laid(x: Tensor, last: bool) -> Tensor:
    return (x.movedim(1, -1) if last else x).contiguous()


def _relaid(rows: Tensor, last: bool) -> Tensor:
    return rows.movedim(-1, 1) if last else rows


def _wide_of(t: Tensor | None, x: Tensor) -> Tensor | None:
    return None if t is None else t.to(wide(x.dtype)).contiguous()


def _channel_gradients(method, g, x, extents, mean, rstd, weight, output_mask, at_rest=False):
    """Of x, which lies as `extents` say, of weight and bias."""
    dtypes = x.dtype, x.dtype if weight is None else weight.dtype
    if g.dtype is not x.dtype:
        g, x = g.to(wide(x.dtype)), x.to(wide(x.dtype))
    of = Channels(extents, g, x, *(_wide_of(t, x) for t in (weight, None, mean, rstd)))
    want = [output_mask[0] and not at_rest, *output_mask[1:]]
    sums = [None] * 4
    if any(want):
        sums = of.gradient_sums(*want) if method == "tree" and x.numel() else _sums_by_definition(method, of)
    dx = None
    if output_mask[0]:
        function = "channel_norm_at_rest_backward" if at_rest else "channel_norm_backward"
        dx = of._replace(mean_g=sums[0], slope=sums[1]).apply(function).to(dtypes[0])
    return (dx, *(t.to(dtypes[1]) if wanted else None for t, wanted in zip(sums[2:], want[1:])))


def _sums_by_definition(method: str, of: Channels) -> list[Tensor]:
    """As Channels.gradient_sums has them, by any method."""
    e = of.extents
    shape = e.outer, e.channels // e.sharing, e.sharing, e.inner
    dims = [2, 3] if e.of_each_outer else [0, 2, 3]
    g, x = (t.reshape(shape).to(of.mean.dtype) for t in (of.x, of.y))
    mean, rstd = (t.reshape(-1, shape[1], 1, 1) for t in (of.mean, of.rstd))
    z = (x - mean) * rstd
    weighted = g if of.w is None else g * of.w.reshape(1, *shape[1:3], 1)
    slope = over(fold(method, "dot", weighted, z, dim=dims), math.prod(shape[d] for d in dims))
    sums = fold(method, "mean", weighted, dim=dims), slope, fold(method, "dot", g, z, dim=[0, 3]), fold(method, "sum", g, dim=[0, 3])
    return [t.flatten() for t in sums]


def _other_dims(x: Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


def _normalised_batch(method, x, weight, bias, running_mean, running_var, training, momentum, eps):
    """y, the batch's mean and 1 / std (nothing where it is not training), and the running statistics thereafter."""
    among(FLOATS, "batch_norm", x)
    if not x.dim():
        raise RuntimeError("batch_norm: Expected an input of channels, but got one of no dimension")
    for pair in ((weight, bias), (running_mean, running_var)):
        if any(t is not None and t.dim() != 1 and t.numel() == x.shape[1] for t in pair):
            raise Uncovered("batch_norm: bitfold has none of parameters that are no vectors")
        _check_parameters("batch_norm", x, [x.shape[1]], *pair)
    if training and not x.numel():
        raise RuntimeError(f"input tensor must have at least one element, but got input_sizes = {list(x.shape)}")
    if not training and (running_mean is None or running_var is None):
        raise ValueError("running_mean and running_var must be defined in evaluation mode")
    if training:
        dims = _other_dims(x)
        n = math.prod(x.shape[d] for d in dims)
        mean, rounded_by, rstd, *var = _statistics(method, x, dims, eps, keepdim=False, var=running_var is not None)
        saved = mean, rstd
        if running_mean is not None:
            running_mean = _moved(running_mean, mean, momentum)
        if running_var is not None:
            running_var = _moved(running_var, var[0] * (n / (n - 1) if n > 1 else math.nan), momentum)
    else:
        rounded_by = None
        mean, rstd = _wide_of(running_mean, x), _inverse_root(_wide_of(running_var, x), eps)
        saved = mean.new_empty(0), mean.new_empty(0)
    extents, last = _channels_of(x)
    of = Channels(extents, _laid(x, last), None, *(_wide_of(t, x) for t in (weight, bias, mean, rstd, rounded_by)))
    y = _relaid(of.apply("channel_norm" if training else "channel_norm_at_rest"), last)
    return y, *saved, running_mean, running_var


def _moved(running: Tensor, now: Tensor, momentum: float) -> Tensor:
    return (running * (1 - momentum) + now * momentum).to(running.dtype)


@covers("native_batch_norm", "_native_batch_norm_legit")
def _batch_norm(method, x, weight, bias, running_mean, running_var, training, momentum, eps):
    *results, mean, var = _normalised_batch(method, x, weight, bias, running_mean, running_var, training, momentum, eps)
    if training:
        for kept, now in ((running_mean, mean), (running_var, var)):
            if kept is not None:
                kept.copy_(now)
    return tuple(results)


@covers("_native_batch_norm_legit.no_stats")
def _batch_norm_of_this(method, x, weight, bias, training, momentum, eps):
    return _normalised_batch(method, x, weight, bias, None, None, True, momentum, eps)[:3]


@covers("_native_batch_norm_legit_no_training")
def _batch_norm_at_rest(method, x, weight, bias, running_mean, running_var, momentum, eps):
    return _normalised_batch(method, x, weight, bias, running_mean, running_var, False, momentum, eps)[:3]


@covers("_native_batch_norm_legit_functional")
def _batch_norm_functional(method, x, weight, bias, running_mean, running_var, training, momentum, eps):
    results = _normalised_batch(method, x, weight, bias, running_mean, running_var, training, momentum, eps)
    return (*results[:3], *(new if new is not old else old.clone() for new, old in zip(results[3:], (running_mean, running_var))))


@covers("_batch_norm_with_update")
def _batch_norm_with_update(method, x, weight, bias, running_mean, running_var, momentum, eps):
    return (*_batch_norm(method, x, weight, bias, running_mean, running_var, True, momentum, eps), x.new_empty(0, dtype=torch.uint8))


@covers("_batch_norm_with_update_functional")
def _batch_norm_with_update_functional(method, x, weight, bias, running_mean, running_var, momentum, eps):
    y, mean, rstd, *running = _normalised_batch(method, x, weight, bias, running_mean, running_var, True, momentum, eps)
    return y, mean, rstd, x.new_empty(0, dtype=torch.uint8), *running


@covers("_batch_norm_no_update")
def _batch_norm_no_update(method, x, weight, bias, running_mean, running_var, momentum, eps):
    results = _normalised_batch(method, x, weight, bias, running_mean, running_var, running_mean is None, momentum, eps)
    return *results[:3], x.new_empty(0, dtype=torch.uint8)


@covers("cudnn_batch_norm")
def _cudnn_batch_norm(method, x, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    results = _batch_norm(method, x, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon)
    return *results, x.new_empty(0, dtype=torch.uint8)


@covers("native_batch_norm_backward")
def _batch_norm_backward(method, grad, x, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask):
    if train:
        mean, rstd = save_mean, save_invstd
    else:
        mean, rstd = running_mean, _inverse_root(_wide_of(running_var, x), eps)
    extents, last = _channels_of(x)
    of = (_laid(grad, last), _laid(x, last), extents, mean, rstd, weight)
    dx, *parameters = _channel_gradients(method, *of, output_mask, at_rest=not train)
    return (None if dx is None else _relaid(dx, last), *parameters)


@covers("batch_norm_backward")
def _batch_norm_backward_2(method, grad, x, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask, reserve):
    return _batch_norm_backward(method, grad, x, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask)


@covers("cudnn_batch_norm_backward")
def _cudnn_batch_norm_backward(method, x, grad, weight, running_mean, running_var, save_mean, save_var, epsilon, reserveSpace):
    return _batch_norm_backward(method, grad, x, weight, running_mean, running_var, save_mean, save_var, True, epsilon, [True] * 3)
