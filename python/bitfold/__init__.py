"""Deterministic reductions: the same bits on every CPU and GPU, whatever the batch, the layout and the threads."""

from ._core import order_version, version as __version__
from ._ops import FUNCTIONS as _functions

globals().update(_functions)
__all__ = [*_functions, "order_version"]
