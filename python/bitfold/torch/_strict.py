"""strict: an operator that is not known to give the same bits whatever the batch, the threads and the timing is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves


class NotCovered(RuntimeError):
    """An operator whose bits may depend on the batch, on threads or on timing."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: Operators of torch's, beside those that it marks as elementwise and those that give a view, each element of whose results is
#: computed by itself, or moved, or exact in whatever order.
INDEPENDENT: dict[str, tuple[str, ...]] = {
    "make new elements": _words(
        """arange empty empty_like empty_permuted empty_strided eye fill fill_ full full_like linspace logspace new_empty
        new_empty_strided new_full new_ones new_zeros ones ones_like range scalar_tensor tril_indices triu_indices zero zero_
        zeros zeros_like"""
    ),
    "draw them, by a seed": _words(
        """bernoulli bernoulli_ exponential_ multinomial native_dropout normal normal_ normal_functional rand rand_like randint
        randint_like randn randn_like random random_ randperm rrelu_with_noise rrelu_with_noise_ uniform uniform_"""
    ),
    "move elements": _words(
        """_pin_memory _reshape_alias _resize_output_ _to_copy _unsafe_index _unsafe_view alias as_strided_ as_strided_scatter
        block_diag bucketize cat channel_shuffle clone constant_pad_nd copy copy_ detach detach_ diag_embed diagonal_backward
        diagonal_scatter embedding expand_copy flip gather im2col index index_copy index_copy_ index_fill index_fill_
        index_select lift lift_fresh masked_fill masked_fill_ masked_scatter masked_scatter_ masked_scatter_backward
        masked_select nonzero permute_copy pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d reflection_pad3d
        repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d resize_ resize_as_ roll rot90 scatter.src
        scatter.value scatter_.src scatter_.value searchsorted select_backward select_scatter set_ slice_backward
        slice_scatter split_with_sizes split_with_sizes_copy stack take tril tril_ triu triu_ unfold_copy unsafe_chunk
        unsafe_split unsafe_split_with_sizes upsample_nearest1d upsample_nearest2d upsample_nearest3d view_copy where"""
    ),
    "are exact": _words(
        """_unique _unique2 adaptive_max_pool2d adaptive_max_pool3d all any count_nonzero cummax cummin equal isin kthvalue
        max_pool2d_with_indices max_pool3d_with_indices median nanmedian sort topk unique_consecutive unique_dim"""
    ),
    "losses of elements that are torch's, reduced by bitfold": _words(
        "binary_cross_entropy binary_cross_entropy_with_logits huber_loss smooth_l1_loss soft_margin_loss"
    ),
    "work on each element by itself, though torch does not mark them so": _words(
        """_conj_physical _foreach_copy_ _foreach_zero_ _fused_adam_ _fused_adamw_ _fused_sgd_ _prelu_kernel
        _prelu_kernel_backward binary_cross_entropy_backward complex elu_backward floor_divide glu glu_backward
        hardshrink_backward hardsigmoid_backward hardswish hardswish_ hardswish_backward hardtanh_backward huber_loss_backward leaky_relu_backward
        log_sigmoid_backward log_sigmoid_forward mish_backward mse_loss_backward native_dropout_backward nll_loss2d_backward
        nll_loss_backward polar rrelu_with_noise_backward smooth_l1_loss_backward soft_margin_loss_backward softplus_backward
        softshrink_backward"""
    ),
    "ask, and compute nothing": _words(
        """_assert_async _assert_scalar _assert_tensor_metadata _has_compatible_shallow_copy_type _is_all_true _is_any_true
        _local_scalar_dense is_pinned is_same_size item record_stream sym_numel sym_size sym_storage_offset sym_stride"""
    ),
}

_HALF = (torch.float16, torch.bfloat16)
_TIMES = (0, 1, 2, 3, -1, -2)  # exponents that torch takes for products and quotients


def _alpha(op: torch._ops.OpOverload, args: tuple, kwargs: dict) -> float:
    at = [a.name for a in op._schema.arguments].index("alpha")
    return kwargs.get("alpha", args[at] if len(args) > at else 1)


#: Of those that work on each element by itself: which round otherwise in vectors than one by one, on CPUs, so that an element's
#: bits may change with its place in memory, and with that by the batch or the layout. By what they are of: the names, and whether
#: this call, of tensors of these types, is meant.
BY_PLACE: dict[str, tuple[tuple[str, ...], Callable]] = {
    "of floats": (
        _words(
            """atan2 atanh celu cosh elu elu_backward exp2 gelu gelu_backward glu glu_backward huber_loss_backward hypot igamma
            igammac ldexp logaddexp logaddexp2 logit mish mish_backward selu sigmoid silu silu_backward sinh
            smooth_l1_loss_backward soft_margin_loss_backward softplus softplus_backward softshrink"""
        ),
        lambda op, args, kwargs, types: True,
    ),
    "of half types": (_words("digamma rsqrt special_i0e"), lambda op, args, kwargs, types: not types.isdisjoint(_HALF)),
    "of half types or with a number, and `alpha`": (
        _words("add rsub sub"),
        lambda op, args, kwargs, types: abs(_alpha(op, args, kwargs)) != 1
        and (op._overloadname == "Scalar" or not types.isdisjoint(_HALF)),
    ),
    "but with the exponents " + ", ".join(map(str, _TIMES)): (
        ("pow",),
        lambda op, args, kwargs, types: isinstance(args[1], torch.Tensor) or args[1] not in _TIMES,
    ),
}

#: Of complex numbers, all that works on each element by itself, but what rounds each part once.
EXACT_OF_COMPLEX = _words("_conj_physical add clone conj_physical eq isfinite isinf isnan masked_fill ne neg sub where")

#: What is not covered, and what is known of it.
NOT_COVERED: dict[str, tuple[tuple[str, ...], str]] = {
    "matrix products": (
        _words("mm bmm addmm baddbmm addbmm mv addmv addr _scaled_mm"),
        "cuBLAS: the same bits run by run, of one shape, on GPUs of one architecture with as many multiprocessors, by one version, from "
        "one stream; from several streams with `CUBLAS_WORKSPACE_CONFIG=:4096:8`. Another batch size is another shape, and may take another kernel. "
        "Libraries of the CPU: of one shape, by as many threads, on one CPU, if they promise anything.",
    ),
    "convolutions": (
        _words("convolution convolution_backward _convolution cudnn_convolution mkldnn_convolution _slow_conv2d_forward _slow_conv2d_backward"),
        "cuDNN: the same bits run by run, of one shape, on GPUs of one architecture, with `torch.backends.cudnn.deterministic = True` and "
        "`torch.backends.cudnn.benchmark = False`.",
    ),
    "fused attention": (
        _words(
            """_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
            _scaled_dot_product_flash_attention_for_cpu _flash_attention_forward _efficient_attention_forward"""
        ),
        "Sums of its own; its backward may add by atomics on a GPU, unless `torch.use_deterministic_algorithms(True)`. Under "
        "`torch.nn.attention.sdpa_kernel(SDPBackend.MATH)` it is made of products and softmax, which is covered.",
    ),
    "running sums": (
        _words("cumsum cumprod logcumsumexp"),
        "On a GPU cumsum may differ run by run; `torch.use_deterministic_algorithms(True)` mends it.",
    ),
    "pooling by means; backwards of pooling, padding, interpolation": (
        _words(
            """avg_pool2d _adaptive_avg_pool2d max_pool2d_with_indices_backward reflection_pad2d_backward upsample_bilinear2d_backward
            grid_sampler_2d_backward"""
        ),
        "Many of these backwards add by atomics on a GPU; `torch.use_deterministic_algorithms(True)` refuses those.",
    ),
    "other sums": (
        _words("bincount histc _ctc_loss _cdist_forward renorm trace multi_margin_loss multilabel_margin_loss_forward"),
        "Nothing is known to us, or atomics on a GPU.",
    ),
}

_INDEPENDENT = {name for names in INDEPENDENT.values() for name in names}
_BY_PLACE = {name: is_meant for names, is_meant in BY_PLACE.values() for name in names}


def _is_named(op: torch._ops.OpOverload, names: Iterable[str]) -> bool:
    name = op._schema.name.partition("::")[2]
    return name in names or f"{name}.{op._schema.overload_name}" in names


def _is_elementwise(op: torch._ops.OpOverload) -> bool:
    """Whether torch marks it so, or what it does to each of a list of tensors."""
    of_each = op._schema.name.removeprefix("aten::_foreach_").removesuffix("_")
    packet = getattr(torch.ops.aten, of_each, None) if of_each != op._schema.name.removesuffix("_") else None
    each = [getattr(packet, overload) for overload in packet.overloads()] if packet else [op]
    return any(torch.Tag.pointwise in one.tags for one in each)


def is_independent(op: torch._ops.OpOverload) -> bool:
    """Whether each element of op's results depends on nothing but its own arguments."""
    if op.namespace in ("bitfold", "bitfold_aten", "profiler") or _is_elementwise(op) or op.is_view:
        return True
    return op.namespace in ("aten", "prim") and (_is_named(op, _INDEPENDENT) or _is_view_in_place(op))


def _is_view_in_place(op: torch._ops.OpOverload) -> bool:
    """Such as squeeze_: what it is of is a view afterwards."""
    name = op._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
    return packet is not None and all(getattr(packet, overload).is_view for overload in packet.overloads() if overload != "out")


def differs_by_place(op: torch._ops.OpOverload, args: tuple, kwargs: dict, tensors: list[torch.Tensor]) -> bool:
    """Whether an element of this call's results may have other bits at another place of memory. `tensors`: those of its arguments."""
    tensors = [t for t in tensors if t.is_cpu]
    name = op._schema.name.removeprefix("aten::").removesuffix("_")
    if any(t.is_complex() for t in tensors):
        scaled = any(a.name == "alpha" for a in op._schema.arguments) and abs(_alpha(op, args, kwargs)) != 1
        return _is_elementwise(op) and (scaled or name not in EXACT_OF_COMPLEX)
    is_meant = _BY_PLACE.get(name)
    if is_meant is None:
        return False
    types = {t.dtype for t in tensors if t.is_floating_point()}
    if not types and tensors and name in BY_PLACE["of floats"][0]:
        types = {torch.get_default_dtype()}  # what it makes of integers
    return bool(types) and is_meant(op, args, kwargs, types)


class Watcher(TorchDispatchMode):
    """Sees every operator of its thread, and of the backward passes that are started in it, and asks the setting of that time."""

    def __init__(self) -> None:
        super().__init__()
        from ._mode import _state, covered, covered_where_accumulating

        self._known = {*covered(), *covered_where_accumulating()}
        self._stack, self._thread = _state.stack, threading.get_ident()

    @staticmethod
    def _refuse(op: torch._ops.OpOverload, why: str) -> None:
        name = op._schema.name.partition("::")[2]
        raise NotCovered(f"{op.name()}: {why} (docs/pytorch.md); to run it all the same, allow=({name!r},)")

    def refuse_uncovered(self, op: torch._ops.OpOverload, error: Exception) -> None:
        """Of a call that is torch's own after all, though bitfold covers the operator: see `error`."""
        setting, in_backward = self._stack[-1], torch._C._current_graph_task_id() != -1
        is_here = in_backward or threading.get_ident() == self._thread
        allowed = [name.removeprefix("aten::") for name in setting.allow]
        if setting.strict and is_here and not _is_named(op, allowed):
            why = "and its bits may depend on the batch, on threads or on timing"
            self._refuse(op, f"{error}, {why}")

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
        setting = self._stack[-1]
        if setting.strict:
            self._check(op, setting.allow, args, kwargs or {})
        return op(*args, **(kwargs or {}))

    def _check(self, op: torch._ops.OpOverload, allow: Iterable[str], args: tuple, kwargs: dict) -> None:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if not _is_named(op, allow):
            if op not in self._known:
                if not is_independent(op):
                    self._refuse(op, "bitfold does not cover it, and its bits may depend on the batch, on threads or on timing")
                self._known.add(op)
            if differs_by_place(op, args, kwargs, tensors):
                self._refuse(op, "on CPUs an element's bits may depend on its place in memory, and so on the batch")
        for x in tensors:
            if x.layout is not torch.strided:
                raise NotCovered(f"{op.name()}: of a tensor of layout {x.layout}, which bitfold does not cover")
