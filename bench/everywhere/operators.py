"""What the operators of the cases are: a call of torch's, which is measured by itself and under bitfold.torch.deterministic(); or a
call of bitfold's, beside one of torch's or NumPy's that computes the same."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import bitfold
import bitfold.torch
import numpy as np
import torch
from torch.nn import functional as F

aten, own = torch.ops.aten, torch.ops.bitfold


def _none(x, over, draw):
    return ()


class Operator(NamedTuple):
    """`call` is of x, the axes, what `parameters` makes, which want gradients as x does, and what `others` makes."""

    call: Callable
    parameters: Callable = _none
    others: Callable = _none
    peer: Callable | None = None  # of the same arguments; None: the call itself, without bitfold
    reads: bool = False  # whether each element is read once, and hardly anything is written
    near_one: bool = False  # whether the elements are, whose product else is nothing
    same_on_gpus: bool = True  # whether that is promised: not of what has a function of torch's in it that CPUs and CUDA round differently


def _along(name: str, of_one: bool = False, **more) -> Callable:
    """A tensor's method, of all elements where there are no axes."""
    def call(x, over, *_):
        return getattr(x, name)(**more) if over is None else getattr(x, name)(over[0] if of_one else over, **more)

    return call


def _reads(call: Callable, **more) -> Operator:
    return Operator(call, reads=True, **more)


def _floats_like(x, over, draw):
    return (draw.floats(x.shape, x.dtype),)


# ---- Reductions ----------------------------------------------------------------------------------


def _norm(order, **more):
    return _reads(lambda x, over: torch.linalg.vector_norm(x, order, over), **more)


REDUCTIONS = {
    **{name: _reads(_along(name)) for name in ("sum", "mean", "nansum", "amax", "amin", "var", "std", "logsumexp")},
    **{name: _reads(_along(name, True)) for name in ("argmax", "argmin", "max", "min")},
    "prod": _reads(_along("prod", True), near_one=True),
    "aminmax": _reads(lambda x, over: x.aminmax(dim=over[0])),
    "var_mean": _reads(lambda x, over: torch.var_mean(x, over)),
    "std_mean": _reads(lambda x, over: torch.std_mean(x, over)),
    "norm": _norm(2),
    "norm0": _norm(0),
    "norm1": _norm(1),
    "norm3": _norm(3, same_on_gpus=False),
    "norm_inf": _norm(math.inf),
    "aten.norm": _reads(lambda x, over: aten.norm.Scalar(x, 2)),
    "aten.norm.dim": _reads(lambda x, over: aten.norm.ScalarOpt_dim(x, 2, over)),
    "foreach_norm": _reads(lambda x, over: torch._foreach_norm(list(x))),
    "dot": Operator(lambda x, over, y: torch.dot(x, y), _floats_like),
    "vdot": Operator(lambda x, over, y: torch.vdot(x, y), _floats_like),
}

# ---- Functions of rows ---------------------------------------------------------------------------


def _row_parameters(count):
    return lambda x, over, draw: [draw.floats(x.shape[over[0] :], x.dtype) for _ in range(count)]


def _channel_parameters(x, over, draw):
    """As autocast leaves them: of f32 for half types."""
    return [draw.floats(x.shape[1:2], torch.float32 if x.element_size() == 2 else x.dtype) for _ in range(2)]


def _running(x, over, draw):
    like = _channel_parameters(x, over, draw)
    return torch.zeros_like(like[0]), torch.ones_like(like[1])


def _of_type(call):
    """Its parameters have x's type."""
    return Operator(call, lambda x, over, draw: [draw.floats(x.shape[1:2], x.dtype) for _ in range(2)])


def _groups(x):
    return 32 if x.shape[1] % 32 == 0 else 2


def _batch_norm(call):
    return Operator(call, _channel_parameters, _running)


ROWS = {
    "softmax": Operator(lambda x, over: F.softmax(x, over[0])),
    "log_softmax": Operator(lambda x, over: F.log_softmax(x, over[0])),
    "safe_softmax": Operator(lambda x, over: torch._safe_softmax(x, over[0])),
    "layer_norm": Operator(lambda x, over, w, b: F.layer_norm(x, x.shape[over[0] :], w, b), _row_parameters(2)),
    "rms_norm": Operator(lambda x, over, w: F.rms_norm(x, x.shape[over[0] :], w, 1e-5), _row_parameters(1)),
    "batch_norm": _batch_norm(lambda x, over, w, b, mean, var: F.batch_norm(x, mean, var, w, b, True)),
    "batch_norm_eval": _batch_norm(lambda x, over, w, b, mean, var: F.batch_norm(x, mean, var, w, b, False)),
    "group_norm": _of_type(lambda x, over, w, b: F.group_norm(x, _groups(x), w, b)),
    "instance_norm": _of_type(lambda x, over, w, b: F.instance_norm(x, weight=w, bias=b)),
    "aten.batch_norm_no_stats": _of_type(lambda x, over, w, b: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)),
    **{
        "aten." + name: _batch_norm(call)
        for name, call in {
            "batch_norm_functional": lambda x, over, *of: aten._native_batch_norm_legit_functional(x, *of, True, 0.1, 1e-5),
            "batch_norm_at_rest": lambda x, over, *of: aten._native_batch_norm_legit_no_training(x, *of, 0.1, 1e-5),
            "batch_norm_with_update": lambda x, over, *of: aten._batch_norm_with_update(x, *of, 0.1, 1e-5),
            "batch_norm_with_update_functional": lambda x, over, *of: aten._batch_norm_with_update_functional(x, *of, 0.1, 1e-5),
            "batch_norm_no_update": lambda x, over, *of: aten._batch_norm_no_update(x, *of, 0.1, 1e-5),
        }.items()
    },
}

# ---- Products ------------------------------------------------------------------------------------


def _weights(x, over, draw):
    """Of a layer of as many outputs as it has inputs."""
    return (draw.floats(2 * x.shape[-1:], x.dtype),)


def _vector(x, over, draw):
    return (draw.floats(x.shape[-1:], x.dtype),)


def _column(x, over, draw):
    return draw.floats(x.shape[:1], x.dtype), *_vector(x, over, draw)


def _layer(x, over, draw):
    return *_weights(x, over, draw), *_vector(x, over, draw)


def _heads(x):
    return 4 if x.shape[-1] % 4 == 0 else 1


def _attention_parameters(x, over, draw):
    n = x.shape[-1]
    return [draw.floats(shape, x.dtype) for shape in ((3 * n, n), (3 * n,), (n, n), (n,))]


def _encoder(x, over, *of):
    one = torch.ones_like(of[3])
    w, b = of[2:]
    return aten._transformer_encoder_layer_fwd(x, x.shape[-1], _heads(x), *of, False, False, 1e-5, one, one, one, one, w, b, w, b)


def _lstm(x, over, w, b):
    n = x.shape[-1]
    state = x.new_zeros((1, x.shape[1], n))
    w, b = w.repeat(4, 1), b.repeat(4)
    return torch.lstm(x, (state, state), (w, w, b, b), True, 1, 0.0, True, False, False)[0]


PRODUCTS = {
    "mm": Operator(lambda x, over, w: x @ w, _weights),
    "addmm": Operator(lambda x, over, w: torch.addmm(x, x, w, beta=0.5), _weights),
    "linear": Operator(lambda x, over, w, b: F.linear(x, w, b), _layer),
    "bmm": Operator(lambda x, over, y: torch.bmm(x, y.mT), _floats_like),
    "baddbmm": Operator(lambda x, over, y: torch.baddbmm(x[:, :1, :1], x, y.mT), _floats_like),
    "addbmm": Operator(lambda x, over, y: torch.addbmm(x[0, :1, :1], x, y.mT), _floats_like),
    "mv": Operator(lambda x, over, y: torch.mv(x, y), _vector),
    "addmv": Operator(lambda x, over, c, y: torch.addmv(c, x, y), _column),
    "addr": Operator(lambda x, over, a, b: torch.addr(x, a, b), _column),
    "aten.addmm_activation": Operator(lambda x, over, w, b: torch._addmm_activation(b, x, w), _layer),
    "attention_layer": Operator(
        lambda x, over, *of: aten._native_multi_head_attention(x, x, x, x.shape[-1], _heads(x), *of, None, False)[0], _attention_parameters,
    ),
    "encoder_layer": Operator(_encoder, _attention_parameters),
    "lstm": Operator(_lstm, _layer),
}

# ---- Convolutions and attention ---------------------------------------------------------------------


def _convolution(call, size: int, grown: int = 1, depthwise: bool = False) -> Operator:
    """With as many channels again, or `grown` times as many, and a square kernel."""

    def parameters(x, over, draw):
        c = x.shape[1]
        return [draw.floats((grown * c, 1 if depthwise else c, size, size), x.dtype), draw.floats((grown * c,), x.dtype)]

    return Operator(lambda x, over, w, b: call(x, w, b), parameters, same_on_gpus=False)


def _attention(**options) -> Operator:
    keys = lambda x, over, draw: [draw.floats(x.shape, x.dtype) for _ in range(2)]  # noqa: E731
    return Operator(lambda x, over, k, v: F.scaled_dot_product_attention(x, k, v, **options), keys, same_on_gpus=False)


_ONE = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
CONVOLUTIONS = {
    "conv3x3": _convolution(lambda x, w, b: F.conv2d(x, w, b, padding=1), 3),
    "conv3x3_strided": _convolution(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), 3, grown=2),
    "conv1x1": _convolution(lambda x, w, b: F.conv2d(x, w, b), 1, grown=4),
    "conv_depthwise": _convolution(lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=x.shape[1]), 3, depthwise=True),
    "conv_transposed": _convolution(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1), 3),
    "aten._convolution": _convolution(lambda x, w, b: aten._convolution(x, w, b, *_ONE, False, True, True, True), 3),
    "attention": _attention(),
    "attention_causal": _attention(is_causal=True),
}

# ---- Losses --------------------------------------------------------------------------------------


def _classes(x, over, draw):
    return (draw.integers((x.shape[0], *x.shape[2:]), x.shape[1]),)


LOSSES = {
    "cross_entropy": Operator(lambda x, over, at: F.cross_entropy(x, at), others=_classes),
    "nll_loss": Operator(lambda x, over, at: F.nll_loss(x, at), others=_classes),
    "mse_loss": Operator(lambda x, over, y: F.mse_loss(x, y), others=_floats_like),
    "l1_loss": Operator(lambda x, over, y: F.l1_loss(x, y), others=_floats_like),
    "huber_loss": Operator(lambda x, over, y: F.huber_loss(x, y), others=_floats_like, same_on_gpus=False),
    "kl_div": Operator(
        lambda x, over, y: F.kl_div(x, y, reduction="batchmean"), others=lambda x, over, draw: [draw.floats(x.shape, x.dtype).abs()],
        same_on_gpus=False,
    ),
}

# ---- By index ------------------------------------------------------------------------------------


def _places(x, over):
    """As many as there are a fourth of elements to go to them."""
    return max(2, x.shape[over[0]] // 4)


def _elements_go(x, over, draw):
    shape = list(x.shape)
    shape[over[0]] = _places(x, over)
    return torch.ones(shape, dtype=x.dtype, device=x.device), draw.integers(x.shape, shape[over[0]])


def _rows_go(places=_places):
    def others(x, over, draw):
        n = places(x, over)
        return torch.ones((n, *x.shape[1:]), dtype=x.dtype, device=x.device), draw.integers(x.shape[:1], n)

    return others


def _scatter(reduce):
    return Operator(lambda x, over, into, at: into.scatter_reduce(over[0], at, x, reduce), others=_elements_go)


def _index_reduce(reduce):
    return Operator(lambda x, over, into, at: into.index_reduce(0, at, x, reduce), others=_rows_go())


def _tokens(count):
    return lambda x, over, draw: (draw.integers((2 * x.shape[0],), count(x)),)


def _bags(mode):
    """Of 16 tokens each."""
    def call(x, over, tokens):
        return F.embedding_bag(tokens.reshape(-1, 16), x, mode=mode)

    return Operator(call, others=lambda x, over, draw: (draw.integers((4 * x.shape[0] // 16 * 16,), x.shape[0]),))


BY_INDEX = {
    "scatter_add": Operator(lambda x, over, into, at: into.scatter_add(over[0], at, x), others=_elements_go),
    "scatter_named": Operator(lambda x, over, into, at: torch.scatter(into, over[0], at, x, reduce="add"), others=_elements_go),
    "scatter_value": Operator(lambda x, over, into, at: torch.scatter(into, over[0], at, 3.0, reduce="add"), others=_elements_go),
    **{"scatter_" + reduce: _scatter(reduce) for reduce in ("amax", "mean", "prod")},
    "index_add": Operator(lambda x, over, into, at: into.index_add(0, at, x), others=_rows_go()),
    "index_add_hot": Operator(lambda x, over, into, at: into.index_add(0, at, x), others=_rows_go(lambda x, over: 16)),
    "index_amax": _index_reduce("amax"),
    "index_mean": _index_reduce("mean"),
    "index_put": Operator(lambda x, over, into, at: into.index_put((at,), x, accumulate=True), others=_rows_go()),
    "put": Operator(lambda x, over, into, at: into.put(at, x, accumulate=True), others=_rows_go()),
    "embedding": Operator(lambda x, over, at: F.embedding(at, x), others=_tokens(lambda x: x.shape[0])),
    "embedding_hot": Operator(lambda x, over, at: F.embedding(at, x), others=_tokens(lambda x: min(16, x.shape[0]))),
    **{"bag_" + mode: _bags(mode) for mode in ("sum", "mean", "max")},
    "bag_weighted": Operator(
        lambda x, over, weights, tokens: F.embedding_bag(tokens.reshape(-1, 16), x, mode="sum", per_sample_weights=weights.reshape(-1, 16)),
        lambda x, over, draw: (draw.floats((4 * x.shape[0] // 16 * 16,), x.dtype),),
        lambda x, over, draw: (draw.integers((4 * x.shape[0] // 16 * 16,), x.shape[0]),),
    ),
}

# ---- Operations of bitfold's ---------------------------------------------------------------------


def _operation(name: str, peer: Callable, inputs: int = 1, **options) -> Operator:
    function = getattr(own, name)
    if inputs == 1:
        return Operator(lambda x, over: function(x, over, **options), peer=peer, reads=True)
    return Operator(lambda x, over, y: function(x, y, over, **options), _floats_like, peer=peer)


def _moment(order):
    def peer(x, over):
        d = x - x.mean(over, keepdim=True)
        return (d**order).mean(over) / (d * d).mean(over) ** (order / 2)

    return peer


def _nan_as(value, name):
    return lambda x, over: getattr(x.nan_to_num(nan=value), name)(over)


def _distinct(x, over):
    ordered = x.sort(over[0]).values
    return (ordered.diff(dim=over[0]) != 0).sum(over) + 1


OPERATIONS = {
    "nanmean": _operation("nanmean", _along("nanmean")),
    "nanmin": _operation("nanmin", _nan_as(math.inf, "amin")),
    "nanmax": _operation("nanmax", _nan_as(-math.inf, "amax")),
    "any": _operation("any", _along("any")),
    "all": _operation("all", _along("all")),
    "count_nonzero": _operation("count_nonzero", lambda x, over: x.count_nonzero(over)),
    "count_distinct": _operation("count_distinct", _distinct),
    "sum_squares": _operation("sum_squares", lambda x, over: (x * x).sum(over)),
    "norm_l1": _operation("norm_l1", lambda x, over: torch.linalg.vector_norm(x, 1, over)),
    "softmax_denominator": _operation("softmax_denominator", lambda x, over: (x - x.amax(over, keepdim=True)).exp().sum(over)),
    "skewness": _operation("skewness", _moment(3)),
    "kurtosis": _operation("kurtosis", _moment(4)),
    "dot": _operation("dot", lambda x, over, y: (x * y).sum(over), 2),
    "squared_distance": _operation("squared_distance", lambda x, over, y: (x - y).square().sum(over), 2),
    "mse": _operation("mse", lambda x, over, y: (x - y).square().mean(over), 2),
    "mae": _operation("mae", lambda x, over, y: (x - y).abs().mean(over), 2),
    "cosine": _operation("cosine", lambda x, over, y: F.cosine_similarity(x, y, over[0]), 2),
    "norm_l2": _operation("norm_l2", REDUCTIONS["norm"].call),
    "norm_inf": _operation("norm_inf", REDUCTIONS["norm_inf"].call),
    **{name: _operation(name, REDUCTIONS[name].call) for name in ("sum", "nansum", "mean", "argmin", "argmax", "var", "std", "logsumexp")},
    **{name: _operation(name, REDUCTIONS["a" + name].call) for name in ("min", "max")},
    "prod": _operation("prod", REDUCTIONS["prod"].call)._replace(near_one=True),
    "exact_sum": _operation("sum", _along("sum"), method="exact"),
    "exact_mean": _operation("mean", _along("mean"), method="exact"),
    "exact_norm": _operation("norm_l2", REDUCTIONS["norm"].call, method="exact"),
    "exact_dot": _operation("dot", lambda x, over, y: (x * y).sum(over), 2, method="exact"),
    "kahan_sum": _operation("sum", _along("sum"), method="kahan"),
    "exp": Operator(lambda x, over: own.exp(x), peer=lambda x, over: x.exp()),
}

FIVE = ["sum", "min", "max", "mean", "std"]


def _five(x, over):
    return x.sum(over), x.amin(over or ()), x.amax(over or ()), x.mean(over), x.std(over)


def _offsets(mean_length):
    """Of segments that are all as long."""
    return lambda x, over, draw: (torch.arange(0, x.numel() + 1, min(mean_length, x.numel()), device=x.device),)


def _ragged(x, over, draw):
    """Some of no element, most of some dozens, few of thousands."""
    lengths = 2.0 ** (4 * draw.floats((max(16, x.numel() // 8),), torch.float64).abs()).clamp(max=16)
    ends = lengths.floor().to(torch.int64).cumsum(0) - 1
    ends = ends[: int((ends <= x.numel()).sum())]
    return (torch.cat([ends.new_zeros(1), ends, ends.new_full((1,), x.numel())]),)


def _by_segment(ops, peer, offsets):
    return Operator(lambda x, over, at: bitfold.segment_reduce(x, at, ops), others=offsets, peer=peer)


def _segments(op):
    return lambda x, over, at: torch.segment_reduce(x, op, offsets=at, unsafe=True)


def _keys(x, over, draw):
    return (draw.integers(x.shape, max(2, x.numel() // 64)),)


def _outputs(x):
    return max(2, x.numel() // 64)


def _with_gradients(x):
    """Parameters, of whose gradients x has a row each: the same in every call."""
    if not hasattr(x, "parameters"):
        x.parameters = [torch.nn.Parameter(torch.empty_like(row)) for row in x.detach()]
        for parameter, row in zip(x.parameters, x.detach()):
            parameter.grad = row
    return x.parameters


TOGETHER = {
    "five": Operator(lambda x, over: bitfold.reduce(x, FIVE, axis=over), peer=_five, reads=True),
    "mean_and_var": Operator(
        lambda x, over: bitfold.reduce(x, ["mean", "var"], axis=over), peer=lambda x, over: torch.var_mean(x, over), reads=True
    ),
    "grad_norm": Operator(
        lambda x, over: bitfold.torch.grad_norm(_with_gradients(x)), peer=lambda x, over: torch.nn.utils.get_total_norm(list(x)), reads=True
    ),
    **{f"segments_of_{n}": _by_segment("sum", _segments("sum"), _offsets(n)) for n in (8, 64, 4096)},
    "ragged": _by_segment("sum", _segments("sum"), _ragged),
    "ragged_max": _by_segment("max", _segments("max"), _ragged),
    "ragged_five": _by_segment(FIVE[:4], lambda x, over, at: [_segments(op)(x, over, at) for op in FIVE[:4]], _ragged),
    "by_key": Operator(
        lambda x, over, at: bitfold.index_add(x, at, _outputs(x)), others=_keys,
        peer=lambda x, over, at: x.new_zeros(_outputs(x)).index_add_(0, at, x),
    ),
}


# ---- NumPy's -------------------------------------------------------------------------------------


def _numpy(name, peer=None, inputs=1):
    ours, peer = getattr(bitfold, name), peer or getattr(np, name)
    if inputs == 1:
        return Operator(lambda x, over: ours(x, _axis(over)), peer=lambda x, over: peer(x, axis=_axis(over)), reads=True)
    return Operator(lambda x, over, y: ours(x, y, _axis(over)), others=_floats_like, peer=lambda x, over, y: peer(x, y, axis=_axis(over)))


def _axis(over):
    return over if over is None or len(over) > 1 else over[0]


NUMPY = {
    **{
        f"np.{name}": _numpy(name)
        for name in ("sum", "mean", "max", "argmax", "var", "std", "any", "all", "count_nonzero", "nansum", "nanmean", "nanmax")
    },
    "np.prod": _numpy("prod")._replace(near_one=True),
    "np.norm": _numpy("norm_l2", np.linalg.norm),
    "np.dot": _numpy("dot", lambda x, y, axis: np.sum(x * y, axis=axis), 2),
}

OPERATORS = {
    **REDUCTIONS, **ROWS, **PRODUCTS, **CONVOLUTIONS, **LOSSES, **BY_INDEX, **TOGETHER, **NUMPY,
    **{f"bitfold.{name}": operator for name, operator in OPERATIONS.items()},
}  # fmt: skip
