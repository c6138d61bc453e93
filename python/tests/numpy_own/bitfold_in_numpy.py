"""A pytest plugin for NumPy's own tests of reductions (see scripts/numpy-tests): np.sum and its like are bitfold's where bitfold
has what is asked for. NumPy's are left for other types and subclasses, and for where, initial, and options that bitfold refuses."""
import collections

import numpy as np
import pytest

import bitfold

OPS = ["sum", "prod", "mean", "var", "std", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "count_nonzero", "nansum",
       "nanmean", "nanmax", "nanmin"]
calls = collections.Counter()


# Of tests that would fail for what bitfold says it does otherwise.
SKIPPED = {
    "TestNanFunctions_MinMax.test_allnans": "NumPy warns of a result that is NaN",
    "TestNanFunctions_MeanVarStd.test_allnans": "NumPy warns of a result that is NaN",
    "TestStats.test_ddof_too_big": "NumPy warns of it",
    "TestNonarrayArgs.test_std_with_mean_keyword_keepdims_false": "NumPy's own bits, with those that it has for mean=",
    "TestNonarrayArgs.test_var_with_mean_keyword_keepdims_false": "NumPy's own bits, with those that it has for mean=",
    "TestNonzero.test_count_nonzero_axis": "bitfold raises ValueError, where NumPy raises AxisError",
    "TestNanFunctions_MeanVarStd.test_dtype_error": "bitfold raises ValueError, where NumPy raises TypeError",
}


def _taken(name, x, given):
    """Whether bitfold has it."""
    if not (x.dtype.isnative and x.dtype.kind in "fiub" and x.dtype.itemsize <= 8 and x.size and x.flags.aligned):
        return False
    if any(given.get(k, 0) % 1 != 0 for k in ("ddof", "correction")) or len(given.keys() & {"ddof", "correction"}) == 2:
        return False
    dtype = np.dtype(given.get("dtype", x.dtype))
    fits = dtype == x.dtype or (dtype.kind == x.dtype.kind == "f" and dtype.itemsize <= 8)
    return fits and given.keys() <= {"axis", "keepdims", "ddof", "correction", "dtype"}


def _put_in(name):
    ours, theirs = getattr(bitfold, name), getattr(np, name)

    def function(a, *arguments, **options):
        given = {k: v for k, v in options.items() if v is not np._NoValue and v is not None}
        ours_too = type(a) is np.ndarray and not arguments and _taken(name, a, given)
        calls[name, "bitfold" if ours_too else "NumPy"] += 1
        return ours(a, **given) if ours_too else theirs(a, *arguments, **options)

    function.__wrapped__, function.__name__ = theirs, name
    return function


for _name in OPS:
    setattr(np, _name, _put_in(_name))


def pytest_collection_modifyitems(items):
    for item in items:
        reason = SKIPPED.get(f"{item.cls.__name__ if item.cls else ''}.{getattr(item, 'originalname', item.name)}")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    # Where tests call an array's methods by a function of their own.
    for module in {item.module for item in items}:
        for name in ("mean", "var", "std"):
            if hasattr(module, f"_{name}"):
                setattr(module, f"_{name}", lambda a, req=None, _f=getattr(np, name), **options: _f(a, **options))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line("calls: " + ", ".join(f"{name} by {who} {count}" for (name, who), count in sorted(calls.items())))
