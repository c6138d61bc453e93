"""strict: an operator that is not known to give the same bits whatever the batch, the threads and the timing is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterable

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
        randint_like randn randn_like random random_ randperm uniform uniform_"""
    ),
    "move elements": _words(
        """_reshape_alias _resize_output_ _to_copy _unsafe_view alias as_strided_ block_diag bucketize cat clone constant_pad_nd
        copy copy_ detach detach_ diag_embed diagonal_backward embedding expand_copy flip gather index index_copy index_copy_
        index_fill index_fill_ index_select lift lift_fresh masked_fill masked_fill_ masked_scatter masked_scatter_
        masked_select nonzero repeat repeat_interleave resize_ roll scatter.src scatter.value scatter_.src scatter_.value
        searchsorted select_backward select_scatter set_ slice_backward slice_scatter split_with_sizes stack take tril tril_
        triu triu_ unfold_copy unsafe_chunk unsafe_split where"""
    ),
    "are exact": _words(
        """_unique2 all any count_nonzero cummax cummin equal isin kthvalue max_pool2d_with_indices max_pool3d_with_indices median
        nanmedian sort topk unique_dim"""
    ),
    "work on each element by itself, though torch does not mark them so": _words(
        """_conj_physical _foreach_add _foreach_add_ _foreach_addcdiv_ _foreach_addcmul_ _foreach_clamp_max_ _foreach_clamp_min_
        _foreach_copy_ _foreach_div _foreach_div_ _foreach_lerp_ _foreach_maximum_ _foreach_mul _foreach_mul_ _foreach_neg
        _foreach_reciprocal_ _foreach_sqrt _foreach_sqrt_ _foreach_sub _foreach_sub_ _foreach_zero_ _fused_adam_ _fused_adamw_
        _fused_sgd_ binary_cross_entropy_backward glu glu_backward huber_loss_backward mse_loss_backward native_dropout_backward
        nll_loss2d_backward nll_loss_backward smooth_l1_loss_backward"""
    ),
    "ask, and compute nothing": _words(
        """_assert_async _assert_scalar _assert_tensor_metadata _has_compatible_shallow_copy_type _is_all_true _is_any_true
        _local_scalar_dense is_pinned is_same_size item record_stream sym_numel sym_size sym_storage_offset sym_stride"""
    ),
}

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


def _is_named(op: torch._ops.OpOverload, names: Iterable[str]) -> bool:
    name = op._schema.name.partition("::")[2]
    return name in names or f"{name}.{op._schema.overload_name}" in names


def is_independent(op: torch._ops.OpOverload) -> bool:
    """Whether each element of op's results depends on nothing but its own arguments."""
    if op.namespace in ("bitfold", "bitfold_aten", "profiler") or torch.Tag.pointwise in op.tags or op.is_view:
        return True
    return op.namespace in ("aten", "prim") and _is_named(op, _INDEPENDENT)


class Watcher(TorchDispatchMode):
    """Sees every operator of its thread, and of the backward passes that are started in it, and asks the setting of that time."""

    def __init__(self) -> None:
        super().__init__()
        from ._mode import _state, covered, covered_where_accumulating

        self._known = {*covered(), *covered_where_accumulating()}
        self._stack, self._thread = _state.stack, threading.get_ident()

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
            self._check(op, setting.allow, tree_leaves((args, kwargs)))
        return op(*args, **(kwargs or {}))

    def _check(self, op: torch._ops.OpOverload, allow: Iterable[str], arguments: list) -> None:
        if op not in self._known and not _is_named(op, allow):
            if not is_independent(op):
                name = op._schema.name.partition("::")[2]
                raise NotCovered(
                    f"{op.name()}: bitfold does not cover it, and its bits may depend on the batch, on threads or on timing "
                    f"(docs/pytorch.md); to run it all the same, allow=({name!r},)"
                )
            self._known.add(op)
        for x in arguments:
            if isinstance(x, torch.Tensor) and x.layout is not torch.strided:
                raise NotCovered(f"{op.name()}: of a tensor of layout {x.layout}, which bitfold does not cover")
