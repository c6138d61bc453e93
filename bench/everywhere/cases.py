"""The list of cases. A line of it is a subject, operators of it (operators.py), a shape, the axes, layouts (layouts.py), types, and
ways: forward, or backward, which is forward and backward together.

In a shape N stands for as many as fill the device. What is measured of a line is the first of its layouts, types and ways, and with
two of these each other of the third; with --more it is each with each."""
from __future__ import annotations

import itertools
import math
from typing import NamedTuple


class Scale(NamedTuple):
    """How large things are: elements of a shape with an N, and the most that any other extent is, by the number of axes."""

    elements: int
    most: dict[int, int] | None = None


SCALES = {
    "cuda": Scale(1 << 26),
    "cpu": Scale(1 << 22),
    "bits": Scale(1 << 16, {1: 1 << 16, 2: 4099, 3: 64, 4: 48}),
    "smoke": Scale(500, {1: 500, 2: 40, 3: 9, 4: 6}),
}


class Case(NamedTuple):
    subject: str
    op: str
    shape: tuple[int, ...]
    over: tuple[int, ...] | None
    layout: str
    dtype: str
    backward: bool

    @property
    def name(self) -> str:
        over = "" if self.over is None else f"({','.join(map(str, self.over))})"
        return f"{self.op}{over}{'+backward' * self.backward}/{self.dtype}/{'x'.join(map(str, self.shape))}/{self.layout}"

    @property
    def on_gpus(self) -> bool:
        """torch's batch_norm_no_update is on CPUs alone."""
        return self.subject not in ("NumPy", "products") and "no_update" not in self.op


class Line(NamedTuple):
    subject: str
    ops: str
    shape: str
    over: tuple[int, ...] | None
    layouts: str = "contiguous"
    types: str = "f32"
    ways: str = "forward"


ARRAY = "contiguous transposed sliced every_other expanded"
IMAGES = "contiguous channels_last sliced"
HALF = "f32 bf16 f16"
FLOATS = "f32 f16 bf16 f64"
BOTH = "backward forward"

LINES = [
    # ---- Sums ----
    Line("sums", "sum", "N,4096", (1,), ARRAY, FLOATS + " i32 i64 u8 bool"),
    Line("sums", "sum", "N,4096", (0,), ARRAY, FLOATS + " i32"),
    Line("sums", "mean", "N,4096", (1,), "contiguous transposed sliced", HALF, BOTH),
    Line("sums", "mean", "N,4096", (0,), "contiguous transposed sliced", HALF, BOTH),
    Line("sums", "sum", "N,16", (1,), "contiguous transposed sliced", HALF),
    Line("sums", "sum", "N,64", (1,), "contiguous every_other", HALF),
    Line("sums", "sum", "N,1000", (1,), "contiguous sliced", HALF),
    Line("sums", "sum", "N,50257", (1,), "contiguous sliced", HALF),
    Line("sums", "sum", "N,5001", (1,), "contiguous", "f32 f16"),
    Line("sums", "sum", "N,64", (0,), "contiguous every_other", HALF),
    Line("sums", "sum", "256,N", (0,), "contiguous sliced", HALF),
    Line("sums", "sum", "1000000,3", (1,), "contiguous transposed", "f32 f16"),
    Line("sums", "sum", "3,1000000", (0,), "contiguous", "f32 f16"),
    Line("sums", "sum", "N,64,56,56", (1,), IMAGES, HALF),
    Line("sums", "sum mean", "N,64,56,56", (2, 3), IMAGES, "f32"),
    Line("sums", "sum", "N,64,56,56", (0, 2, 3), IMAGES, HALF),
    Line("sums", "sum", "N,12,512,64", (3,), "transposed attention", HALF),
    Line("sums", "sum", "N,12,512,64", (0, 2, 3), "transposed attention", "f32 bf16"),
    Line("sums", "sum", "N,12,512,64", (1, 3), "attention transposed", "f32 bf16"),
    Line("sums", "sum", "N,12,512,64", (1,), "attention", "f32 bf16"),
    Line("sums", "sum", "1,4096", (1,), "contiguous", HALF),
    Line("sums", "sum", "64,4096", (1,), "contiguous transposed", HALF),
    Line("sums", "sum", "64,4096", (0,), "contiguous", HALF),
    Line("sums", "sum mean nansum", "N", None, "contiguous every_other", "f32 f16"),
    Line("sums", "sum", "100", None),
    Line("sums", "nansum", "N,4096", (1,), "contiguous transposed", "f32 f16"),
    Line("sums", "prod", "N,4096", (1,), "contiguous transposed sliced", "f32 bf16", BOTH),
    Line("sums", "prod", "N,4096", (0,), "contiguous", "f32 bf16", BOTH),
    Line("sums", "prod", "N", None, "contiguous", "f32 i64", BOTH),
    Line("sums", "dot vdot", "N", None, "contiguous every_other", "f32 f16", BOTH),
    # ---- Extrema ----
    Line("extrema", "amax argmax", "N,4096", (1,), "contiguous transposed sliced every_other", "f32 f16 i32"),
    Line("extrema", "amax argmax", "N,4096", (0,), "contiguous transposed sliced", "f32 f16 i32"),
    Line("extrema", "max", "N,4096", (1,), "contiguous transposed", HALF, BOTH),
    Line("extrema", "max", "N,4096", (0,), "contiguous", "f32 f16", BOTH),
    Line("extrema", "amax", "N,4096", (1,), "contiguous", "f32", "backward"),
    Line("extrema", "amin argmin min aminmax", "N,4096", (1,), "contiguous", "f32 bf16"),
    Line("extrema", "amax argmax", "N,64,56,56", (1,), IMAGES, "f32 f16"),
    Line("extrema", "amax", "N,64,56,56", (0, 2, 3), IMAGES, "f32 f16"),
    Line("extrema", "amax argmax", "N,12,512,64", (3,), "transposed attention", "f32 bf16"),
    Line("extrema", "amax", "N,12,512,64", (1, 3), "transposed attention"),
    Line("extrema", "amax argmax", "N,64", (1,), "contiguous", "f32 f16"),
    Line("extrema", "amax argmax", "N,50257", (1,), "contiguous", "f32 f16"),
    Line("extrema", "amax argmax", "1,4096", (1,)),
    Line("extrema", "amax argmax", "N", None, "contiguous every_other", "f32 f16 i64"),
    Line("extrema", "max min", "N", None),
    # ---- Variances ----
    Line("variances", "var", "N,4096", (1,), ARRAY, FLOATS, BOTH),
    Line("variances", "var", "N,4096", (0,), "contiguous transposed sliced", HALF),
    Line("variances", "std", "N,4096", (1,), "contiguous", "f32 bf16", BOTH),
    Line("variances", "var_mean", "N,4096", (1,), "contiguous transposed", "f32 bf16"),
    Line("variances", "var_mean std_mean", "N,64,56,56", (0, 2, 3), "contiguous channels_last", "f32 f16"),
    Line("variances", "var", "N,64,56,56", (1,), IMAGES, "f32 f16"),
    Line("variances", "var", "N,12,512,64", (3,), "transposed attention", "f32 bf16"),
    Line("variances", "var", "N,12,512,64", (0, 2, 3), "transposed attention"),
    Line("variances", "var", "N,12,512,64", (1, 3), "transposed attention"),
    Line("variances", "var", "N,64", (1,), "contiguous", "f32 f16"),
    Line("variances", "var", "1,4096", (1,)),
    Line("variances", "var", "N", None, "contiguous every_other", "f32 f16"),
    # ---- Norms ----
    Line("norms", "norm", "N,4096", (1,), "contiguous transposed sliced", FLOATS, BOTH),
    Line("norms", "norm", "N,4096", (0,), "contiguous transposed", "f32 f16", BOTH),
    Line("norms", "norm1 norm_inf", "N,4096", (1,), "contiguous transposed", "f32 f16"),
    Line("norms", "norm3 norm0", "N,4096", (1,)),
    Line("norms", "norm", "N,64", (1,), "contiguous", "f32 f16", BOTH),
    Line("norms", "norm", "N", None, "contiguous every_other", "f32 f16", BOTH),
    Line("norms", "aten.norm aten.norm.dim", "N,4096", (1,)),
    Line("norms", "foreach_norm grad_norm", "100,N", None, "contiguous", "f32 bf16"),
    # ---- Softmax ----
    Line("softmax", "softmax log_softmax", "N,4096", (1,), "contiguous transposed sliced", FLOATS, BOTH),
    Line("softmax", "softmax log_softmax", "N,4096", (0,), "contiguous transposed", "f32 f16", BOTH),
    Line("softmax", "softmax", "N,64,56,56", (1,), "contiguous channels_last", "f32 f16", BOTH),
    Line("softmax", "softmax", "N,12,512,64", (3,), "attention transposed", "f32 bf16"),
    Line("softmax", "softmax", "N,16", (1,), "contiguous", HALF, BOTH),
    Line("softmax", "softmax", "N,64", (1,), "contiguous", HALF, BOTH),
    Line("softmax", "softmax", "N,1000", (1,), "contiguous", HALF, BOTH),
    Line("softmax", "softmax log_softmax", "N,50257", (1,), "contiguous", HALF, BOTH),
    Line("softmax", "softmax log_softmax", "N,5001", (1,), "contiguous", "f32 f16", BOTH),
    Line("softmax", "softmax", "64,4096", (1,), "contiguous", "f32 bf16", BOTH),
    Line("softmax", "softmax", "1,4096", (1,), "contiguous", "f32 bf16"),
    Line("softmax", "safe_softmax", "N,512,512", (2,), "contiguous", "f32 bf16"),
    Line("softmax", "logsumexp", "N,4096", (1,), "contiguous transposed sliced", "f32 bf16 f64", BOTH),
    Line("softmax", "logsumexp", "N,4096", (0,), "contiguous", "f32 bf16"),
    Line("softmax", "logsumexp", "N,50257", (1,), "contiguous", "f32 bf16", BOTH),
    # ---- Normalisation ----
    Line("normalisation", "layer_norm", "N,4096", (1,), "contiguous transposed sliced expanded", FLOATS, BOTH),
    Line("normalisation", "rms_norm", "N,4096", (1,), "contiguous transposed sliced", FLOATS, BOTH),
    Line("normalisation", "layer_norm rms_norm", "N,1000", (1,), "contiguous", HALF, BOTH),
    Line("normalisation", "layer_norm rms_norm", "N,5001", (1,), "contiguous", "f32 f16", BOTH),
    Line("normalisation", "layer_norm rms_norm", "N,64", (1,), "contiguous", HALF, BOTH),
    Line("normalisation", "layer_norm rms_norm", "64,4096", (1,), "contiguous", "f32 bf16", BOTH),
    Line("normalisation", "layer_norm", "N,12,512,64", (3,), "attention", "f32 bf16", BOTH),
    Line("normalisation", "batch_norm", "N,64,56,56", None, IMAGES, HALF, BOTH),
    Line("normalisation", "batch_norm", "N,512,7,7", None, "contiguous channels_last", "f32 f16", BOTH),
    Line("normalisation", "batch_norm", "N,1024", None, "contiguous transposed", "f32", BOTH),
    Line("normalisation", "batch_norm_eval", "N,64,56,56", None, "contiguous channels_last", "f32 f16", BOTH),
    Line("normalisation", "group_norm", "N,64,56,56", None, IMAGES, HALF, BOTH),
    Line("normalisation", "instance_norm", "N,64,56,56", None, IMAGES, "f32 f16", BOTH),
    Line("normalisation", "aten.batch_norm_with_update aten.batch_norm_with_update_functional aten.batch_norm_functional", "N,64,56,56", None),
    Line("normalisation", "aten.batch_norm_no_update aten.batch_norm_no_stats aten.batch_norm_at_rest", "N,64,56,56", None),
    # ---- Products of matrices, on CPUs ----
    Line("products", "linear", "64,1024", None, "contiguous transposed sliced", FLOATS, BOTH),
    Line("products", "linear", "1,4096", None, "contiguous", HALF, BOTH),
    Line("products", "linear", "8,1024", None, "contiguous", "f32 bf16", BOTH),
    Line("products", "linear mm", "N,1024", None, "contiguous", "f32 bf16", BOTH),
    Line("products", "mm addmm", "64,1024", None, "contiguous transposed", "f32 bf16", BOTH),
    Line("products", "mm linear", "32,32", None, "contiguous", "f32 bf16", BOTH),
    Line("products", "bmm baddbmm", "64,128,64", None, "contiguous", "f32 bf16", BOTH),
    Line("products", "addbmm", "64,128,64", None, "contiguous", "f32 bf16"),
    Line("products", "mv addmv", "4096,1024", None, "contiguous transposed", "f32 bf16", BOTH),
    Line("products", "addr", "1024,1024", None, "contiguous", "f32 bf16"),
    Line("products", "aten.addmm_activation", "64,1024", None),
    Line("products", "attention_layer encoder_layer", "8,64,256", None, "contiguous", "f32 bf16"),
    Line("products", "lstm", "32,16,128", None, "contiguous", "f32 bf16", BOTH),
    # ---- Convolutions and attention ----
    Line("convolutions", "conv3x3 conv1x1", "N,64,56,56", None, "contiguous channels_last", "f32 bf16", BOTH),
    Line("convolutions", "conv3x3", "N,256,14,14", None, "contiguous channels_last", "f32", BOTH),
    Line("convolutions", "conv3x3_strided conv_depthwise conv_transposed", "N,128,28,28", None, "contiguous channels_last", "f32", BOTH),
    Line("convolutions", "aten._convolution", "N,64,28,28", None),
    Line("attention", "attention attention_causal", "N,8,512,64", None, "attention contiguous", "f32 bf16", BOTH),
    Line("attention", "attention", "N,8,64,64", None, "attention", "f32", BOTH),
    # ---- Losses ----
    Line("losses", "cross_entropy", "N,1000", None, "contiguous sliced transposed", HALF, BOTH),
    Line("losses", "cross_entropy", "N,50257", None, "contiguous", HALF, BOTH),
    Line("losses", "cross_entropy", "N,16,64,64", None, "contiguous channels_last", "f32 bf16", BOTH),
    Line("losses", "nll_loss", "N,1000", None, "contiguous transposed", "f32 bf16", BOTH),
    Line("losses", "mse_loss", "N,4096", None, "contiguous transposed sliced", HALF, BOTH),
    Line("losses", "mse_loss", "N", None, "contiguous", "f32 bf16", BOTH),
    Line("losses", "l1_loss huber_loss kl_div", "N,4096", None, "contiguous", "f32", BOTH),
    # ---- By index ----
    Line("by index", "scatter_add scatter_amax", "N,64", (0,), "contiguous transposed", "f32 f16", BOTH),
    Line("by index", "scatter_add", "N,64", (1,), "contiguous", "f32"),
    Line("by index", "scatter_add scatter_amax", "N", (0,), "contiguous", "f32 i64"),
    Line("by index", "scatter_mean scatter_prod scatter_named scatter_value", "N,64", (0,)),
    Line("by index", "index_add", "N,256", (0,), "contiguous transposed sliced", HALF, BOTH),
    Line("by index", "index_add", "N", (0,), "contiguous", "f32 i64"),
    Line("by index", "index_add_hot", "N,256", (0,), "contiguous", "f32 bf16"),
    Line("by index", "index_amax index_mean", "N,256", (0,), "contiguous", "f32 bf16", BOTH),
    Line("by index", "index_put", "N,256", (0,), "contiguous transposed", "f32 bf16"),
    Line("by index", "index_put put", "N", (0,)),
    Line("by index", "embedding", "N,1024", None, "contiguous", HALF, "backward"),
    Line("by index", "embedding", "N,64", None, "contiguous", "f32 bf16", "backward"),
    Line("by index", "embedding_hot", "N,1024", None, "contiguous", "f32 bf16", "backward"),
    Line("by index", "bag_sum bag_mean bag_max", "N,64", None, "contiguous", "f32", BOTH),
    Line("by index", "bag_weighted", "N,64", None, "contiguous", "f32", BOTH),
    # ---- Whole arrays ----
    Line("whole arrays", "sum amax", "8192,8192", None, "contiguous transposed sliced every_other expanded", "f32 f16"),
    Line("whole arrays", "mean argmax var norm", "8192,8192", None, "transposed"),
    Line("whole arrays", "sum amax", "64,64,128,128", None, "channels_last contiguous", "f32 bf16"),
    Line("whole arrays", "sum", "64,64,128,128", (0, 2, 3), "channels_last", "f32 bf16"),
    # ---- Operations of bitfold's, beside what torch makes of its own ----
    Line("operations", "bitfold.nanmean bitfold.nanmin bitfold.nanmax", "N,4096", (1,), "contiguous", "f32 f16"),
    Line("operations", "bitfold.any bitfold.all bitfold.count_nonzero", "N,4096", (1,), "contiguous", "f32 f16"),
    Line("operations", "bitfold.count_distinct bitfold.sum_squares bitfold.norm_l1", "N,4096", (1,), "contiguous", "f32 f16"),
    Line("operations", "bitfold.softmax_denominator bitfold.skewness bitfold.kurtosis", "N,4096", (1,), "contiguous transposed", "f32 f16"),
    Line("operations", "bitfold.dot bitfold.cosine", "N,4096", (1,), "contiguous transposed", "f32 f16"),
    Line("operations", "bitfold.dot bitfold.cosine", "N,64", (1,), "contiguous", "f32 f16"),
    Line("operations", "bitfold.dot", "N,65", (1,), "contiguous", "f32"),
    Line("operations", "bitfold.dot", "N,1000", (1,), "contiguous", "f32"),
    Line("operations", "bitfold.squared_distance bitfold.mse bitfold.mae", "N,4096", (1,), "contiguous", "f32 f16"),
    Line("operations", "bitfold.sum bitfold.nansum bitfold.prod bitfold.mean bitfold.min bitfold.max", "N,4096", (1,)),
    Line("operations", "bitfold.argmin bitfold.argmax bitfold.norm_l2 bitfold.norm_inf bitfold.var bitfold.std bitfold.logsumexp", "N,4096", (1,)),
    Line("operations", "bitfold.dot bitfold.cosine", "N,4096", (0,), "contiguous", "f32 f16"),
    Line("operations", "bitfold.dot", "N,4096", (1,), "contiguous", "f32 bf16", "backward"),
    Line("operations", "bitfold.exp", "N,4096", None, "contiguous", "f32 bf16"),
    Line("exact", "bitfold.exact_sum bitfold.exact_mean bitfold.exact_norm", "N", None, "contiguous every_other", "f32 f16 f64"),
    Line("exact", "bitfold.exact_sum", "N,4096", (1,), "contiguous transposed sliced", "f32 f16 f64"),
    Line("exact", "bitfold.exact_sum", "N,64", (1,), "contiguous", "f32 f16"),
    Line("exact", "bitfold.exact_sum", "N,4096", (0,), "contiguous", "f32 f16"),
    Line("exact", "bitfold.exact_dot bitfold.kahan_sum", "N,4096", (1,), "contiguous", "f32 f64"),
    Line("several", "five", "N,4096", (1,), "contiguous transposed sliced", HALF),
    Line("several", "five", "N,4096", (0,), "contiguous", "f32 f16"),
    Line("several", "five", "N,64,56,56", (0, 2, 3), "contiguous channels_last"),
    Line("several", "five mean_and_var", "N", None, "contiguous every_other", "f32 f16"),
    Line("segments", "segments_of_8 segments_of_64 segments_of_4096 ragged", "N", None, "contiguous", "f32 f16"),
    Line("segments", "ragged_max ragged_five", "N", None),
    Line("segments", "by_key", "N", None, "contiguous", "f32 i64"),
    # ---- NumPy's arrays ----
    Line("NumPy", "np.sum np.max np.var", "N,4096", (1,), "contiguous transposed sliced every_other flipped", "f32 f16 i64"),
    Line("NumPy", "np.sum np.max np.var", "N,4096", (0,), "contiguous transposed", "f32 f64"),
    Line("NumPy", "np.sum np.mean np.argmax", "N", None, "contiguous every_other flipped", "f32 f64 i64"),
    Line("NumPy", "np.sum np.max", "8192,8192", None, "transposed contiguous"),
    Line("NumPy", "np.sum np.argmax", "N,16", (1,), "contiguous", "f32 f16"),
    Line("NumPy", "np.any np.all np.count_nonzero np.prod np.norm", "N,4096", (1,), "contiguous transposed"),
    Line("NumPy", "np.nansum np.nanmean np.nanmax np.std np.dot", "N,4096", (1,), "contiguous transposed"),
    Line("NumPy", "np.sum np.max np.mean", "100", None, "contiguous", "f32 i64"),
    Line("NumPy", "np.sum", "N,64,56,56", (1,), "contiguous channels_last", "f32 f64"),
]


def extents(shape: str, scale: Scale) -> tuple[int, ...]:
    names = shape.split(",")
    fixed = {k: int(n) for k, n in enumerate(names) if n != "N"}
    if scale.most is not None:
        fixed = {k: min(n, scale.most[len(names)]) for k, n in fixed.items()}
    free = max(2, scale.elements // math.prod(fixed.values()))
    return tuple(fixed.get(k, free) for k in range(len(names)))


def _combinations(line: Line, more: bool) -> list[tuple[str, ...]]:
    """(layout, type, way)"""
    choices = [line.layouts.split(), line.types.split(), line.ways.split()]
    every, first = itertools.product(*choices), tuple(c[0] for c in choices)
    return [chosen for chosen in every if more or sum(x != y for x, y in zip(chosen, first)) <= 1]


def cases(scale: Scale, more: bool = False) -> list[Case]:
    """All that the lines come to, each once."""
    listed = [
        Case(line.subject, op, extents(line.shape, scale), line.over, layout, dtype, way == "backward")
        for line in LINES for op in line.ops.split() for layout, dtype, way in _combinations(line, more)
    ]  # fmt: skip
    return list({case.name: case for case in listed if not (case.backward and case.dtype[0] in "iub")}.values())
