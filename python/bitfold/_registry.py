"""The library's registry of operations as Python functions: their parameters and docstrings. (Without NumPy: the type stubs are
made of it at build time.)"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

from . import _core

REGISTRY = {op["name"]: op for op in _core.ops()}
#: Other names that NumPy and the array API have.
ALIASES = {"amax": "max", "amin": "min"}

#: What others have by these names and bitfold has not, and what to do instead.
INSTEAD = {
    **dict.fromkeys(
        ("median", "nanmedian", "quantile", "nanquantile", "percentile", "nanpercentile", "mode",
         "sort", "argsort", "topk", "unique"),
        "it goes by order, where little or nothing is added up; NumPy and PyTorch have it",
    ),
    **dict.fromkeys(
        ("cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod"),
        "bitfold has no scans",
    ),
    "diff": "bitfold has no scans; the command `bitfold diff` compares two files",
    **dict.fromkeys(
        ("matmul", "einsum", "tensordot", "vecdot", "inner", "vdot", "mm", "bmm"),
        "matmul multiplies matrices; dot(x, y, axis=...) is of inputs that broadcast",
    ),
    **dict.fromkeys(("norm", "vector_norm", "linalg"), "there are norm_l1, norm_l2 and norm_inf"),
    **dict.fromkeys(
        ("where", "jit", "vmap", "grad"),
        "bitfold's functions take arrays, along axis=; torch.ops.bitfold has PyTorch's operators",
    ),
    "average": "dot(x, weights) / sum(weights)",
    "ptp": "reduce(x, ['max', 'min']) has both in one pass",
    "nanvar": "var(x[~np.isnan(x)])",
    "nanstd": "std(x[~np.isnan(x)])",
    "product": "prod",
    "bincount": "index_add(weights, x, outputs), or reduce_by_key",
    "histogram": "reduce_by_key",
    "torch": "import bitfold.torch",
    "numpy": "import bitfold.numpy",
}


def options(op: dict) -> dict[str, Any]:
    """What the operation's function takes besides x, y, axis, keepdims, out and torch's names, with
    the defaults."""
    taken: dict[str, Any] = {}
    if op["takes_dtype"]:
        taken["dtype"] = None
    if op["takes_ddof"]:
        taken |= {"ddof": 0, "correction": None}
    if op["takes_method"] or op["has_exact"]:
        taken["method"] = "tree" if op["takes_method"] else None
    if op["takes_acc"]:
        taken["acc"] = None
    return taken


def signature(op: dict) -> Signature:
    named = {"keepdims": False, **options(op), "out": None, "dim": None, "keepdim": None}
    return Signature(
        [
            *(Parameter(x, Parameter.POSITIONAL_ONLY) for x in ("x", "y")[: op["inputs"]]),
            Parameter("axis", Parameter.POSITIONAL_OR_KEYWORD, default=None),
            *(Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in named.items()),
        ]
    )


_TYPES = {
    "additive": "of floats the type of x, or any float type by `dtype`; of integers int64 or uint64 (modulo 2^64), of bool int64",
    "real": "of floats the type of x, of integers float64; any float type by `dtype`",
    "wide": "of floats the type of x, of integers float64; any float type by `dtype`",
    "same": "that of x",
    "place": "int64, counted in row-major order of the reduced axes",
    "count": "int64",
    "truth": "bool",
}

#: What each gives along axis 1 of these.
_X, _Y = "[[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]]", "[[1.0, 0.0, 2.0], [3.0, 4.0, 6.0]]"
EXAMPLES = {
    "sum": "array([ 9., 15.])",
    "nansum": "array([ 9., 15.])",
    "prod": "array([12., 96.])",
    "mean": "array([3., 5.])",
    "nanmean": "array([3., 5.])",
    "min": "array([1., 3.])",
    "max": "array([6., 8.])",
    "nanmin": "array([1., 3.])",
    "nanmax": "array([6., 8.])",
    "argmin": "array([0, 0])",
    "argmax": "array([2, 2])",
    "any": "array([ True,  True])",
    "all": "array([ True,  True])",
    "count_nonzero": "array([3, 3])",
    "count_distinct": "array([3, 3])",
    "sum_squares": "array([41., 89.])",
    "norm_l1": "array([ 9., 15.])",
    "norm_l2": "array([6.40312424, 9.43398113])",
    "norm_inf": "array([6., 8.])",
    "var": "array([4.66666667, 4.66666667])",
    "std": "array([2.1602469, 2.1602469])",
    "skewness": "array([0.59517006, 0.59517006])",
    "kurtosis": "array([-1.5, -1.5])",
    "logsumexp": "array([6.02474489, 8.02474489])",
    "softmax_denominator": "array([1.02505359, 1.02505359])",
    "dot": "array([13., 73.])",
    "squared_distance": "array([20.,  4.])",
    "mse": "array([6.66666667, 1.33333333])",
    "mae": "array([2.        , 0.66666667])",
    "cosine": "array([0.90795938, 0.9907474 ])",
}


def docstring(op: dict) -> str:
    two = op["inputs"] == 2
    lines = [f"{op['summary'][0].upper()}{op['summary'][1:]}, along the axes.", ""]
    lines += [f"x{', y' if two else ''}: array{'s of one type, whose shapes broadcast' if two else ' of any shape'}, of at most 8 axes.",
              "axis: an int, a tuple of them, or None for all axes; negative ones count from the last.",
              "keepdims: whether the reduced axes stay, with length 1.",
              "dim, keepdim: PyTorch's names of these two; dim may be a list; of none it is all axes.",
              f"Result: of {'the common' if two else 'x' + chr(39) + 's'} shape without the reduced axes; where none is left a scalar of NumPy's, or another kind's array of no axes. Type: {_TYPES[op['types']]}.",
              f"Of no elements: {op['empty']}." if op["empty"] != "refused" else "Of no elements: ValueError."]
    if op["takes_dtype"]:
        lines.append("dtype: the type of the result, as np.dtype takes it or PyTorch names it; what "
                     "is computed with on the way to it is no narrower.")
    if op["takes_acc"]:
        lines.append("acc: the accumulator, float32 or float64 (default: float64 for float64, by "
                     "dtype too, and float32 for narrower floats).")
    if op["takes_method"]:
        lines.append(f"method: {', '.join(m['name'] + ' (on CPUs)' * (not m['on_gpu']) for m in _core.methods() if op['has_exact'] or m['name'] != 'exact')}.")
    elif op["has_exact"]:
        lines.append("method: None, or exact.")
    if op["takes_ddof"]:
        lines += ["ddof: what is subtracted from the number of elements: a whole number, 0 or more, of type int.",
                  "correction: the array API's name of it: a whole number, of any type (1.0 is 1); not beside ddof."]
    lines.append("out: an array of the result's shape and type, into which it goes, and which is returned; it may overlap x.")
    lines.append("Errors, naming the argument: TypeError (x of a type that bitfold has not, an argument of a wrong type), ValueError (an axis, a "
                 "shape or a choice that does not fit). docs/operations.md defines the operation.")
    if op["name"] in EXAMPLES:
        lines += ["", f">>> {op['name']}({_X}, {f'{_Y}, ' * two}axis=1)", EXAMPLES[op["name"]]]
    return "\n".join(lines)
