"""NumPy's namespace with bitfold's reductions put in, for array-api-tests (see scripts/array-api-tests). NumPy's own are left for what
bitfold refuses: complex numbers, and corrections that are not whole."""
import numpy as np
from numpy import *  # noqa: F403

import bitfold

__array_api_version__ = np.__array_api_version__
REPLACED = ["sum", "prod", "mean", "var", "std", "max", "min", "argmax", "argmin", "any", "all", "count_nonzero"]


def _put_in(name):
    ours, theirs = getattr(bitfold, name), getattr(np, name)

    def function(x, /, **options):
        refused = x.dtype.kind == "c" or options.get("correction", 0) % 1 != 0
        return (theirs if refused else ours)(x, **options)

    return function


globals().update({name: _put_in(name) for name in REPLACED})


def __getattr__(name):
    return getattr(np, name)
