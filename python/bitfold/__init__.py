"""Deterministic reductions: the same bits on x86-64 CPUs and NVIDIA GPUs, whatever the batch, the layout and the threads.

>>> import numpy as np, bitfold
>>> x = np.float32([[1, 2, 3], [4, 5, 6]])
>>> bitfold.sum(x, axis=0)
array([5., 7., 9.], dtype=float32)
>>> bitfold.mean(x[::-1].T, method="exact")
np.float32(3.5)

Every operation of the registry is a function of its name (docs/operations.md); docs/python.md has the rest.
"""

import numpy as _numpy  # noqa: F401  before bitfold's library: after it, PyTorch 2.11 was seen to abort as it was imported

try:
    import bitfold._core as _core
except ModuleNotFoundError as _error:  # of whom imports it next, Python's own words would be of a circular import
    import sys as _sys
    from pathlib import Path as _Path

    if _error.name != "bitfold._core":
        raise
    _there = ", ".join(path.name for path in _Path(__file__).parent.glob("_core*.*") if path.suffix != ".pyi") or "none"
    raise ImportError(
        f"bitfold has no library for this Python, {_sys.implementation.cache_tag} (there is {_there}): install it with this Python's pip"
    ) from None

from ._accumulator import accumulator
from ._compare import BitsMoved, check, record, same_bits, ulp_distance
from ._core import order_version, version as __version__
from ._matmul import matmul
from ._ops import FUNCTIONS as _functions, explain, index_add, order, prepare, reduce, reduce_by_key, segment_reduce
from ._registry import INSTEAD as _instead
from ._rows import exp, layer_norm, log_softmax, rms_norm, softmax

globals().update(_functions)


def _find_libraries() -> None:
    """Kernels for GPUs are compiled by NVRTC, and matrices multiplied by cuBLASLt: those of PyPI's packages, as PyTorch has them, lie where no
    loader looks."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("nvidia")
    roots = [Path(root) for root in spec.submodule_search_locations or ()] if spec else []
    for library, look_at in ("nvrtc", _core.look_for_compiler_at), ("cublasLt", _core.look_for_products_at):
        found = [p for root in roots for p in sorted(root.glob(f"*/lib/lib{library}.so.1[23]"), reverse=True)]
        if found:
            look_at(str(found[0]))


def _compiler_command() -> list[str]:
    """Of processes that compile several kernels at once (docs/kernels.md). None where Python is embedded in another program, which cannot be started so."""
    import os
    import sys

    code = (
        "import importlib.util as of, sys; core = of.spec_from_file_location('_core', sys.argv[1]); module = of.module_from_spec(core);"
        "core.loader.exec_module(module); sys.exit(module.compile_for_others(sys.argv[2]))"
    )
    is_python = os.path.basename(sys.executable or "").startswith("python")
    return [sys.executable, "-I", "-S", "-c", code, _core.__file__] if is_python else []


_find_libraries()
_core.compile_by(_compiler_command())
__all__ = [
    *_functions,
    "BitsMoved",
    "accumulator",
    "check",
    "exp",
    "explain",
    "index_add",
    "layer_norm",
    "log_softmax",
    "matmul",
    "order",
    "order_version",
    "prepare",
    "record",
    "reduce",
    "reduce_by_key",
    "rms_norm",
    "same_bits",
    "segment_reduce",
    "softmax",
    "ulp_distance",
]


def __getattr__(name: str):
    raise AttributeError(
        f"module 'bitfold' has no attribute {name!r}"
        + (f": {_instead[name]}" if name in _instead else ""),
        name=name,
    )
