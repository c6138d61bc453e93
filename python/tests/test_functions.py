"""The functions made from the registry: what they take, how they are named, and that the registry's answers hold."""

import inspect
import itertools
import pickle
import traceback

import numpy as np
import pytest

import bitfold
from bitfold import _core
from bitfold._registry import ALIASES, REGISTRY, options

X, Y = np.float32([1, 2, 4]), np.float32([3, 2, 1])
EVERY_OPTION = {"dtype": "f64", "ddof": 1, "correction": 1, "method": "exact", "acc": "f64"}


def inputs_of(name):
    return (X, Y)[: REGISTRY[name]["inputs"]]


@pytest.mark.parametrize("name", REGISTRY)
def test_options_are_those_of_the_signature(name):
    function, taken = getattr(bitfold, name), options(REGISTRY[name])
    by_default = function(*inputs_of(name))
    for option, value in EVERY_OPTION.items():
        if option not in taken:
            for given in (value, None):
                with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument '{option}'$"):
                    function(*inputs_of(name), **{option: given})
            continue
        assert bitfold.same_bits(function(*inputs_of(name), **{option: taken[option]}), by_default)
        if option != "method" or REGISTRY[name]["has_exact"]:
            for _ in range(2):  # the first time, and when it is known
                shown = function(*inputs_of(name), **{option: value})
                assert bitfold.same_bits(shown, bitfold.reduce(X, (name, {option: value}), *inputs_of(name)[1:]))
    parameters = inspect.signature(function).parameters
    assert {p: parameters[p].default for p in parameters if p in EVERY_OPTION} == taken
    assert list(parameters)[: REGISTRY[name]["inputs"]] == ["x", "y"][: REGISTRY[name]["inputs"]]


@pytest.mark.parametrize("name", [*REGISTRY, *ALIASES])
def test_names(name):
    function, known_as = getattr(bitfold, name), ALIASES.get(name, name)
    assert inspect.isfunction(function)
    assert (function.__name__, function.__qualname__, function.__module__) == (known_as, known_as, "bitfold")
    assert pickle.loads(pickle.dumps(function)) is function
    with pytest.raises(TypeError, match=rf"^{known_as}\(\) missing"):
        function()
    with pytest.raises(TypeError) as refused:
        function(*(object(),) * REGISTRY[known_as]["inputs"])
    assert known_as in [frame.name for frame in traceback.extract_tb(refused.value.__traceback__)]


def test_what_is_offered_is_made_and_the_rest_is_refused():
    dtypes = [name for name, *_ in _core.dtypes()]
    methods = [None, *(m["name"] for m in _core.methods())]
    count = 0
    for op, method, of in itertools.product(REGISTRY, methods, [*dtypes, "bool"]):
        for acc, out, ddof in [(None, None, 0), (None, None, 1), *((a, None, 0) for a in dtypes), *((None, o, 0) for o in dtypes), ("f64", "f32", 0)]:
            try:
                _core.Reduction(op, method, of, acc, out, ddof)
                made = True
            except ValueError:
                made = False
            assert _core.offers(op, method, of, acc, out, ddof) == made, (op, method, of, acc, out, ddof)
            count += made
    assert count > 5000


def test_explain_says_what_a_gpu_would_do_where_there_is_none():
    x = np.zeros((64, 1000), np.float32)
    lines = bitfold.explain(x, ["sum", "max"], axis=1).splitlines()
    assert lines[0].startswith("pass 1: ") and "sum by tree + max; " in lines[0] and "256000 bytes" in lines[0]
    assert lines[-2] == "workspace: 0 bytes"
    assert lines[-1].startswith("for ") and "compute capability" in lines[-1]
    assert "two inputs" in bitfold.explain(x, "dot", x)
    with pytest.raises(ValueError, match="axis: 2 of an array of 2 axes"):
        bitfold.explain(x, "sum", axis=2)


def test_prepare_wants_a_gpu():
    if bitfold._core.cuda_devices():
        bitfold.prepare(np.zeros(1000, np.float32), "sum")
        return
    with pytest.raises(RuntimeError, match="^cuda: no usable GPU on this machine"):
        bitfold.prepare(np.zeros(1000, np.float32), "sum")
