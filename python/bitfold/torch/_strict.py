"""strict: an operator that is not known to give the same bits whatever the batch, the threads and the timing is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from . import _collectives
from ._engine import HALF, is_real


class NotCovered(RuntimeError):
    """An operator whose bits may depend on the batch, on threads or on timing."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_LOSSES = "losses of elements that are torch's, reduced by bitfold"
_UNMARKED = "work on each element by itself, though torch does not mark them so"

#: Operators of torch's, beside those that it marks as elementwise and those that give a view or a
#: copy of one, each element of whose results is computed by itself, or moved, or exact in whatever
#: order.
INDEPENDENT: dict[str, tuple[str, ...]] = {
    "make new elements": _words(
        """_efficientzerotensor _new_zeros_with_same_feature_meta arange empty empty_like empty_permuted empty_strided
        eye fill fill_ full full_like linspace logspace new_empty new_empty_strided new_full new_ones new_zeros ones
        ones_like range scalar_tensor tril_indices triu_indices zero zero_ zeros zeros_like"""
    ),
    "draw them, by a seed": _words(
        """bernoulli bernoulli_ binomial cauchy cauchy_ exponential exponential_ geometric
        geometric_ log_normal log_normal_ multinomial native_dropout normal normal_
        normal_functional poisson rand rand_like randint randint_like randn randn_like random
        random_ randperm rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_functional uniform
        uniform_"""
    ),
    "move elements": _words(
        """_chunk_cat _pack_padded_sequence _pin_memory _reshape_alias _reshape_copy
        _resize_output_ _to_copy _unsafe_index _unsafe_masked_index _unsafe_view
        _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d alias
        as_strided_ as_strided_scatter block_diag bucketize cat channel_shuffle clone
        constant_pad_nd copy copy_ detach detach_ diag_embed diagonal_backward diagonal_scatter
        embedding flip gather im2col index index_copy index_copy_ index_fill index_fill_
        index_select lift lift_fresh lift_fresh_copy masked_fill masked_fill_ masked_scatter
        masked_scatter_ masked_scatter_backward masked_select max_unpool2d max_unpool3d
        narrow_copy nonzero nonzero_static pixel_shuffle pixel_unshuffle reflection_pad1d
        reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d
        replication_pad2d replication_pad3d resize_ resize_as_ roll rot90 scatter.src
        scatter.src_out scatter.value scatter.value_out scatter_.src scatter_.value searchsorted
        select_backward select_scatter set_ slice_backward slice_scatter split_with_sizes stack
        take tril tril_ triu triu_ unsafe_chunk unsafe_split unsafe_split_with_sizes
        upsample_nearest1d upsample_nearest2d upsample_nearest3d where"""
    ),
    "are exact": _words(
        """_unique _unique2 adaptive_max_pool2d adaptive_max_pool3d all allclose any
        count_nonzero cummax cummin equal fractional_max_pool2d hash_tensor isin kthvalue
        max_pool2d_with_indices max_pool3d_with_indices median mode nanmedian sort topk
        unique_consecutive unique_dim"""
    ),
    "are made of what is covered": _words("dist renorm"),
    _LOSSES: _words(
        "binary_cross_entropy binary_cross_entropy_with_logits huber_loss smooth_l1_loss soft_margin_loss"
    ),
    _UNMARKED: _words(
        """_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _conj_physical
        _foreach_copy_ _foreach_zero_ _fused_adagrad_ _fused_adam_ _fused_adamw_ _fused_sgd_
        _prelu_kernel _prelu_kernel_backward binary_cross_entropy_backward complex elu_backward
        floor_divide floor_divide_ glu glu_backward hardshrink_backward hardsigmoid_backward
        hardswish hardswish_ hardswish_backward hardtanh_backward huber_loss_backward
        leaky_relu leaky_relu_ leaky_relu_backward linalg_cross log_sigmoid_backward log_sigmoid_forward mish_backward
        mse_loss_backward native_dropout_backward nll_loss2d_backward nll_loss_backward polar
        rrelu_with_noise_backward rsub smooth_l1_loss_backward soft_margin_loss_backward
        softplus_backward softshrink_backward"""
    ),
    "ask, and compute nothing": _words(
        """_assert_async _assert_scalar _assert_tensor_metadata
        _has_compatible_shallow_copy_type _has_same_storage_numel _is_all_true _is_any_true _local_scalar_dense can_cast
        is_pinned is_same_size is_set_to item promote_types record_stream result_type sym_numel
        sym_size sym_storage_offset sym_stride"""
    ),
}

#: Exact in whatever order where all is integers or bool.
OF_INTEGERS = _words(
    """_int_mm addbmm addmm addmv addr avg_pool2d avg_pool3d baddbmm bincount bmm convolution
    cumprod cumsum histc mm mv trace"""
)

_TIMES = (0, 1, 2, 3, -1, -2)  # exponents that torch takes for products and quotients


def _argument(op: torch._ops.OpOverload, name: str, args: tuple, kwargs: dict):
    """What a call has for it, or its default; None where the operator has none of that name."""
    for at, a in enumerate(op._schema.arguments):
        if a.name == name:
            return args[at] if at < len(args) else kwargs.get(name, a.default_value)
    return None


def _scales(op, args, kwargs) -> bool:
    return abs(_argument(op, "alpha", args, kwargs) or 0) not in (0, 1)


def _scales_by_place(op, args, kwargs, types) -> bool:
    """Of two tensors of one shape each element is contracted (or none is, by the CPU), whether it comes in a vector or alone. A number's
    product by alpha is rounded beforehand where elements come alone. Half types are f32 in vectors alone."""
    if not _scales(op, args, kwargs):
        return False
    if not types.isdisjoint(HALF):
        return True
    x, y = (_argument(op, name, args, kwargs) for name in ("self", "other"))
    pairs = zip(x, y) if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)) else [(x, y)]
    return not all(_are_alike(*pair) for pair in pairs)


def _are_alike(x, y) -> bool:
    tensors = all(isinstance(t, torch.Tensor) and 0 not in t.stride() for t in (x, y))
    return tensors and x.shape == y.shape


def _is_rounded_by_a_tensor(op, args, kwargs, types) -> bool:
    """By a tensor of one element they divide in f32, by one of more in the half type. (One without
    dimensions has one element whatever the batch.)"""
    mode, by = _argument(op, "rounding_mode", args, kwargs), args[1]
    rounds = mode is not None or op._schema.name.startswith("aten::floor")
    several = isinstance(by, torch.Tensor) and by.dim() > 0
    return rounds and several and not types.isdisjoint(HALF)


def _is_of_a_result_broadcast(op, args, kwargs, types) -> bool:
    grad, result = args[:2]
    return 0 in result.stride() or torch.broadcast_shapes(grad.shape, result.shape) != result.shape


#: Of those that work on each element by itself: which round otherwise in vectors than one by one,
#: or of many elements than of one, on CPUs, so that an element's bits may change with its place in
#: memory, and with that by the batch or the layout. By what they are of: the names, and whether
#: this call, of tensors of these types, is meant.
BY_PLACE: dict[str, tuple[tuple[str, ...], Callable]] = {
    "of floats": (
        _words(
            """atan2 atanh celu cosh elu elu_backward exp2 gelu gelu_backward glu glu_backward huber_loss_backward hypot igamma
            igammac ldexp logaddexp logaddexp2 logit logit_backward mish mish_backward selu sigmoid silu silu_backward sinh
            smooth_l1_loss_backward soft_margin_loss_backward softplus softplus_backward softshrink"""
        ),
        lambda op, args, kwargs, types: True,
    ),
    "of half types": (
        _words("digamma rsqrt special_i0e"),
        lambda op, args, kwargs, types: not types.isdisjoint(HALF),
    ),
    "of half types by a tensor, to an integer": (
        _words("div floor_divide"),
        _is_rounded_by_a_tensor,
    ),
    "of half types, by a number or where one is broadcast, with an `alpha` but 0, 1 and -1": (
        _words("add rsub sub"),
        _scales_by_place,
    ),
    "but with the exponents " + ", ".join(map(str, _TIMES)): (
        ("pow",),
        lambda op, args, kwargs, types: isinstance(args[1], torch.Tensor) or args[1] not in _TIMES,
    ),
    "of a result that is broadcast": (("tanh_backward",), _is_of_a_result_broadcast),
}

#: Of complex numbers, all that works on each element by itself, but what rounds each part once.
EXACT_OF_COMPLEX = _words(
    """_conj_physical _foreach_copy _foreach_zero add clone conj_physical eq equal isfinite isinf
    isnan masked_fill ne sub where"""
)

#: What is not covered, and what is known of it.
NOT_COVERED: dict[str, tuple[tuple[str, ...], str]] = {
    "products beside those of matrices": (
        _words("_trilinear _euclidean_dist _scaled_mm _grouped_mm"),
        "Nothing is known to us.",
    ),
    "recurrent layers by name of a library, and fused ones": (
        _words("mkldnn_rnn_layer mkldnn_rnn_layer_backward _cudnn_rnn _cudnn_rnn_backward _thnn_fused_lstm_cell _thnn_fused_gru_cell"),
        "Nothing is known to us. `nn.LSTM` comes down to `mkldnn_rnn_layer`, or `_cudnn_rnn`, without the mode, and where torch.compile looks into it. On CUDA other "
        "recurrent layers do so under the mode, too, and so does an LSTM of sequences of several lengths.",
    ),
    "convolutions by name of a library": (
        _words("cudnn_convolution mkldnn_convolution _slow_conv2d_forward _slow_conv2d_backward"),
        "Nothing is known to us. cuDNN's: the same bits run by run, of one shape, on GPUs of one architecture, with `torch.backends.cudnn.deterministic = True` "
        "and `torch.backends.cudnn.benchmark = False`.",
    ),
    "attention by name of a library": (
        _words("_flash_attention_forward _efficient_attention_forward"),
        "Sums of its own; its backward may add by atomics on a GPU, unless `torch.use_deterministic_algorithms(True)`.",
    ),
    "running sums": (
        _words("cumsum cumprod logcumsumexp"),
        "On a GPU cumsum may differ run by run; `torch.use_deterministic_algorithms(True)` mends it.",
    ),
    "pooling by means, and its backwards, but as above; backwards of padding, interpolation": (
        _words(
            """avg_pool2d _adaptive_avg_pool2d max_pool2d_with_indices_backward reflection_pad2d_backward upsample_bilinear2d_backward
            grid_sampler_2d_backward"""
        ),
        "Many of these backwards add by atomics on a GPU; `torch.use_deterministic_algorithms(True)` refuses those.",
    ),
    "other sums": (
        _words(
            """bincount histc trace _ctc_loss _cdist_forward multi_margin_loss
            multilabel_margin_loss_forward"""
        ),
        "Nothing is known to us, or atomics on a GPU.",
    ),
}

_INDEPENDENT = {name for names in INDEPENDENT.values() for name in names}
_BY_PLACE = {name: is_meant for names, is_meant in BY_PLACE.values() for name in names}
_FLOATS_OF_INTEGERS = {*BY_PLACE["of floats"][0], *BY_PLACE["of half types"][0]}


def _name(op: torch._ops.OpOverload) -> str:
    return op._schema.name.partition("::")[2]


def _is_named(op: torch._ops.OpOverload, names: Iterable[str]) -> bool:
    return _name(op) in names or f"{_name(op)}.{op._schema.overload_name}" in names


def _inputs(op: torch._ops.OpOverload) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]


def _overloads(name: str) -> list[torch._ops.OpOverload]:
    packet = getattr(torch.ops.aten, name, None)
    return [getattr(packet, overload) for overload in packet.overloads()] if packet else []


def _is_elementwise(op: torch._ops.OpOverload) -> bool:
    """Whether torch marks it so, or what it is a form of, or what it does to each of a list."""
    if torch.Tag.pointwise in op.tags or op.namespace != "aten":
        return torch.Tag.pointwise in op.tags
    name = _name(op).removesuffix("_")
    each = _overloads(name.removeprefix("_foreach_"))
    if not name.startswith("_foreach_"):
        each = [o for o in each if op._schema.is_mutable and _inputs(o) == _inputs(op)]
    return any(torch.Tag.pointwise in o.tags for o in each)


def _is_of_a_view(op: torch._ops.OpOverload) -> bool:
    """Such as squeeze_, after which the tensor itself is a view, and squeeze_copy."""
    for suffix in ("_", "_copy"):
        if _name(op).endswith(suffix):
            others = _overloads(_name(op).removesuffix(suffix))
            views = [o.is_view for o in others if "out" not in o._overloadname]
            if views and all(views):
                return True
    return False


@cache
def is_independent(op: torch._ops.OpOverload) -> bool:
    """Whether each element of op's results depends on nothing but its own arguments."""
    if op.namespace in ("bitfold", "bitfold_aten", "profiler") or _is_elementwise(op) or op.is_view or _collectives.moves(op):
        return True
    return op.namespace in ("aten", "prim") and (_is_named(op, _INDEPENDENT) or _is_of_a_view(op))


def _comes_down(op: torch._ops.OpOverload) -> bool:
    """Whether it is made of other operators, without a kernel of its own."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)


def _is_of_integers(op, args: tuple, kwargs: dict, tensors: list[torch.Tensor]) -> bool:
    asked = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.dtype)]
    types = [*asked, *(t.dtype for t in tensors)]
    return bool(tensors) and not any(t.is_floating_point or t.is_complex for t in types)


def _is_outer(op, args, kwargs, tensors) -> bool:
    """No sum. But not all of f32 may go into a product, and a product of zero may have another sign
    where a factor is negative."""
    x, y = args[:2]
    exact = x.dtype is not torch.float32 or torch.get_float32_matmul_precision() == "highest"
    if x.shape[-1] != 1 or not x.is_floating_point() or not is_real(x) or not exact:
        return False
    return not (torch.signbit(x).any() or torch.signbit(y).any())


def _has_all_counts(op, args, kwargs, tensors) -> bool:
    return args[0].is_floating_point() and args[0].numel() <= 2 / torch.finfo(args[0].dtype).eps


def _is_on_cpus(op, args, kwargs, tensors) -> bool:
    return all(t.is_cpu for t in tensors)


def _is_in_a_row_on_cpus(op, args, kwargs, tensors) -> bool:
    return all(t.is_cpu and t.is_contiguous() for t in tensors)


def _is_dense(op, args, kwargs, tensors) -> bool:
    return not _argument(op, "sparse", args, kwargs)


#: What is independent in some calls, and not in all, beside OF_INTEGERS: by what they are, the
#: names, and whether this call is meant.
IN_SOME_CALLS: dict[str, tuple[tuple[str, ...], Callable]] = {
    "of one column by one row, neither with a negative number (the angles of rotary embeddings)": (
        ("mm", "bmm"),
        _is_outer,
    ),
    "of no more elements than the type counts (f32: 2^24)": (("histc",), _has_all_counts),
    "but with `sparse`": (("_embedding_bag_backward",), _is_dense),
    "on CPUs, where each plane's windows come in order": (
        _words(
            """avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward
            adaptive_max_pool2d_backward adaptive_max_pool3d_backward fractional_max_pool2d_backward"""
        ),
        _is_on_cpus,
    ),
    "on CPUs, of tensors in a row (with channels last the order is another one)": (
        _words("_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward"),
        _is_in_a_row_on_cpus,
    ),
}


def is_independent_here(
    op: torch._ops.OpOverload, args: tuple, kwargs: dict, tensors: list[torch.Tensor]
) -> bool:
    """Whether in this call, as not in all. `tensors`: those of its arguments."""
    if op._schema.name in _collectives.REDUCTIONS:
        return _is_of_integers(op, args, kwargs, tensors)
    tables = ((OF_INTEGERS, _is_of_integers), *IN_SOME_CALLS.values())
    asked = [is_meant for names, is_meant in tables if _name(op).removesuffix("_") in names]
    return op.namespace == "aten" and any(f(op, args, kwargs, tensors) for f in asked)


def differs_by_place(op: torch._ops.OpOverload, args: tuple, kwargs: dict, tensors: list[torch.Tensor]) -> bool:
    """Whether an element of this call's results may have other bits at another place of memory. `tensors`: those of its arguments."""
    tensors = [t for t in tensors if t.is_cpu]
    if not tensors:
        return False
    name = _name(op).removesuffix("_")
    if any(t.is_complex() for t in tensors):
        named = _is_named(op, (*INDEPENDENT[_LOSSES], *INDEPENDENT[_UNMARKED]))
        rounds = name not in EXACT_OF_COMPLEX or _scales(op, args, kwargs)
        return rounds and (named or _is_elementwise(op))
    # Of lists, too: threads cut each tensor, and move the places by that.
    is_meant = _BY_PLACE.get(name := name.removeprefix("_foreach_"))
    if is_meant is None:
        return False
    types = {t.dtype for t in tensors if t.is_floating_point()}
    numbers = any(isinstance(v, float) for v in (*args, *kwargs.values()))
    if not types and tensors and (numbers or name in _FLOATS_OF_INTEGERS):
        types = {torch.get_default_dtype()}  # what it makes of integers
    return bool(types) and is_meant(op, args, kwargs, types)


# ---- What is allowed -----------------------------------------------------------------------------


def operators_named(allow: Iterable[str] | str) -> frozenset[str]:
    """Such as `mm`, `aten::mm.out` and `c10d::allgather_`, with their namespaces.

    Errors: TypeError, ValueError, naming the argument.
    """
    try:
        allow = [allow] if isinstance(allow, str) else list(allow)
    except TypeError:
        raise TypeError(f"allow: {allow!r}, where names of operators are expected") from None
    for name in allow:
        if not isinstance(name, str):
            raise TypeError(f"allow: {name!r}, where names of operators are expected")
    named = {name: name if "::" in name else f"aten::{name}" for name in allow}
    if unknown := [name for name, full in sorted(named.items()) if not _is_known(full)]:
        raise ValueError(f"allow: torch has no operator {', '.join(unknown)}")
    return frozenset(named.values())


def _is_known(name: str) -> bool:
    name, _, overload = name.partition(".")
    schemas = torch._C._jit_get_schemas_for_operator(name)
    return any(overload in ("", schema.overload_name or "default") for schema in schemas)


def is_allowed(op: torch._ops.OpOverload, allow: frozenset[str]) -> bool:
    name = op._schema.name
    return name in allow or f"{name}.{op._overloadname}" in allow


def _tensors(arguments: Iterable) -> list[torch.Tensor]:
    found = []
    for given in arguments:
        if isinstance(given, torch.Tensor):
            found.append(given)
        elif isinstance(given, (list, tuple)):
            found += _tensors(given)
    return found


_MAY_DEPEND = "and its bits may depend on the batch, on threads or on timing"


class _Here(threading.local):
    """Of a thread: the operator that strict lets through at the moment, and the one in whose
    function it is."""

    seen: torch._ops.OpOverload | None = None
    within: torch._ops.OpOverload | None = None


class Watcher(TorchDispatchMode):
    """Sees every operator of its thread, and of the backward passes that are started in it, and asks the setting of that time."""

    def __init__(self) -> None:
        super().__init__()
        from ._mode import _state, covered, covered_of_others, covered_over_ranks, covered_where_accumulating

        self._covered = {*covered(), *covered_of_others(), *covered_where_accumulating(), *covered_over_ranks()}
        self._stack, self._thread = _state.stack, threading.get_ident()
        self._here = _Here()

    def _refuse(self, op: torch._ops.OpOverload, why: str) -> None:
        by = self._here.within
        what = op.name() if by is None else f"{op.name()}, which {by.name()} calls"
        name = (by or op)._schema.name.removeprefix("aten::")
        advice = f"to run it all the same, allow=({name!r},)"
        raise NotCovered(f"{what}: {why} (docs/pytorch.md#refused); {advice}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """In a function that stands for an operator: what it calls is seen, too, if the operator's
        call was."""
        by, self._here.seen = self._here.seen, None
        if by is None:
            yield
            return
        before = self._here.within
        self._here.within = before or by
        try:
            with self:
                yield
        finally:
            self._here.within = before

    def refuse_uncovered(self, op: torch._ops.OpOverload, error: Exception, args: tuple, kwargs: dict) -> None:
        """Refuses a call that torch's own kernel is to run, though bitfold covers the operator;
        `error` says why bitfold does not run it."""
        if is_independent_here(op, args, kwargs, [*_tensors(args), *_tensors(kwargs.values())]):
            return
        setting, in_backward = self._stack[-1], torch._C._current_graph_task_id() != -1
        is_here = in_backward or threading.get_ident() == self._thread
        if setting.strict and is_here and not is_allowed(op, setting.allow):
            self._refuse(op, f"{error}, {_MAY_DEPEND}")

    def check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("bitfold.torch: strict holds in the thread that enabled it, and is to be disabled there")

    def leave(self) -> None:
        """Errors: RuntimeError, before anything changes."""
        self.check_thread()
        if _get_current_dispatch_mode() is not self:
            raise RuntimeError("bitfold.torch: disable() inside another TorchDispatchMode, which is to be left first")
        self.__exit__(None, None, None)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        setting, kwargs = self._stack[-1], kwargs or {}
        if not setting.strict:
            return op(*args, **kwargs)
        allowed = bool(setting.allow) and is_allowed(op, setting.allow)
        known = allowed or self._knows(op)
        if not known and _comes_down(op):
            # As it is here in inference mode, and called by functions of the mode's.
            with self:
                return op.decompose(*args, **kwargs)
        self._check(op, allowed, known, args, kwargs)
        before, self._here.seen = self._here.seen, None if allowed else op
        try:
            return op(*args, **kwargs)
        finally:
            self._here.seen = before

    def _knows(self, op: torch._ops.OpOverload) -> bool:
        return op in self._covered or is_independent(op)

    def _check(self, op: torch._ops.OpOverload, allowed: bool, known: bool, args: tuple, kwargs: dict) -> None:
        tensors = _tensors(args)
        if kwargs:
            tensors += _tensors(kwargs.values())
        if not allowed:
            if not known and not is_independent_here(op, args, kwargs, tensors):
                self._refuse(op, f"bitfold does not cover it, {_MAY_DEPEND}")
            if differs_by_place(op, args, kwargs, tensors):
                self._refuse(op, "on CPUs an element's bits may depend on its place in memory, and so on the batch")
        for x in tensors:
            if x.layout is not torch.strided:
                raise NotCovered(f"{op.name()}: of a tensor of layout {x.layout}, which bitfold does not cover")
