"""NumPy's namespace with bitfold's reductions in place of its own, under NumPy's signatures: for other people's tests.

What bitfold refuses by name stays NumPy's: elements that it has not (complex, longdouble, objects, masked and byte-swapped ones), the arguments `where`, `initial` and `mean`, and corrections that are not whole. As a plugin of pytest it puts them into NumPy itself.
"""

import functools
import os

import numpy
import pytest

import bitfold

ADDITIVE = ["sum", "nansum", "prod", "mean", "nanmean"]
POSITIONAL = {name: ["axis", "dtype", "out"] for name in ADDITIVE} | {name: ["axis", "dtype", "out", "ddof"] for name in ("var", "std")}
NAMES = [*POSITIONAL, "max", "min", "amax", "amin", "nanmax", "nanmin", "argmax", "argmin", "any", "all", "count_nonzero"]
TYPES = {numpy.dtype(t) for t in "efd?bhilqBHILQ"}
refused = dict.fromkeys(NAMES, 0)  # calls that stayed NumPy's
taken = dict.fromkeys(NAMES, 0)


def is_taken(x, named):
    array = numpy.asanyarray(x)
    return not (isinstance(x, numpy.ma.MaskedArray) or named.keys() & {"where", "initial", "mean"} or named.get("correction", 0) % 1
                or array.dtype not in TYPES or numpy.dtype(named.get("dtype") or "f") not in TYPES)


def replaced(name):
    own, others = getattr(bitfold, name), getattr(numpy, name)

    @functools.wraps(others)
    def function(*args, **kwargs):
        named = dict(zip(["a", *POSITIONAL.get(name, ["axis", "out"])], args)) | kwargs
        x = named.pop("a", named.pop("x", None))
        if not is_taken(x, named):
            refused[name] += 1
            return others(*args, **kwargs)
        taken[name] += 1
        if named.get("keepdims") is numpy._NoValue:
            del named["keepdims"]
        return own(x, **named)

    return function


globals().update({name: replaced(name) for name in NAMES})


def __getattr__(name):
    return getattr(numpy, name)


def pytest_configure(config):
    if config.pluginmanager.has_plugin("numpy_with_bitfold"):
        for name in NAMES:
            setattr(numpy, name, globals()[name])


def pytest_collection_modifyitems(items):
    missing = [name for name in os.environ.get("ASKED_FOR", "").split() if not any(name in item.nodeid for item in items)]
    if missing:
        raise pytest.UsageError(f"NumPy has no such tests any more: {', '.join(missing)}")
    # Where tests call an array's methods by functions of their own.
    for module in {item.module for item in items}:
        for name in ("mean", "var", "std"):
            if hasattr(module, f"_{name}"):
                setattr(module, f"_{name}", globals()[name])


def pytest_terminal_summary(terminalreporter):
    each = ", ".join(f"{name} {n}" for name, n in taken.items() if n)
    terminalreporter.write_line(f"bitfold took {sum_of(taken)} calls, and left {sum_of(refused)} to NumPy: {each}")


def sum_of(counts):
    return functools.reduce(int.__add__, counts.values())
