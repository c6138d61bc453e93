"""The operations as functions, made from the library's registry."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from . import _arrays, _core
from ._arrays import RESULTS
from ._core import reduce as _reduce_numpy  # or NotImplemented
from ._registry import ALIASES, INSTEAD, REGISTRY, docstring, options, signature


def request(op: str, method: str | None = None, acc: Any = None, dtype: Any = None, ddof: int = 0) -> _core.Request:
    return _core.Request(op, method, acc if acc is None else _arrays.short_name(acc, "acc"),
                         dtype if dtype is None else _arrays.short_name(dtype), ddof)


def _reduce(wanted, x, y, axis, keepdims, out=None, of_out=False, call=_core.reduce):
    """Of any kind of array. `wanted`: a Request, or a list of them; `of_out`: whose dtype is that of `out`."""
    kind = _arrays.kind_of(x)
    with kind.context():
        x = kind.describe(x, "x")
        y = None if y is None else kind.describe(y, "y")
        family = kind.family() if out is None else kind.into(out, (x, y))
        try:
            made = call(wanted, x, y, axis, keepdims, family)
        except (TypeError, ValueError) as e:
            if not (of_out and str(e).startswith("dtype: ")):
                raise
            raise type(e)("out: " + str(e).removeprefix("dtype: ")) from None
        if out is None:
            return kind.finish(made)
        if made is not out:
            out[...] = made
        return out


def _ddof(ddof, correction):
    if ddof:
        raise TypeError("correction: given beside ddof, of which it is another name")
    try:
        whole = int(correction)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"correction: {correction!r} is no whole number") from None
    if whole != correction:
        raise ValueError(f"correction: {correction} is not whole")
    return whole


#: Words that NumPy's functions take and these do not, and what to do instead.
_INSTEAD = {
    "where": "x[where] has the elements that are meant, and reduce_by_key takes several results'",
    "initial": "add it to the result, or to x",
}


def _otherwise(name, function, inputs, axis, keepdims, given, others):
    """A call with other words: PyTorch's names of axis and keepdims, and what is not taken."""
    others = dict(others)
    dim, keepdim = others.pop("dim", None), others.pop("keepdim", None)
    for other in others:
        raise TypeError(
            f"{name}() got an unexpected keyword argument {other!r}"
            + (f": {_INSTEAD[other]}" if other in _INSTEAD else "")
        )
    if dim is not None and axis is not None:
        raise TypeError("dim: given beside axis, of which it is another name")
    if keepdim is not None and keepdims is not False:
        raise TypeError("keepdim: given beside keepdims, of which it is another name")
    if isinstance(dim, (list, tuple)):
        dim = tuple(dim) or None
    try:
        return function(
            *inputs,
            axis=axis if dim is None else dim,
            keepdims=keepdims if keepdim is None else keepdim,
            **given,
        )
    except (TypeError, ValueError) as e:
        for ours, theirs in (("axis: ", "dim: "), ("keepdims: ", "keepdim: ")):
            if str(e).startswith(ours):
                raise type(e)(theirs + str(e).removeprefix(ours)) from None
        raise


#: In place of a value of an option that the operation does not take.
_NOT_TAKEN = object()


class _Operation:
    """An operation's Requests, by the options given, and the calls that its function leaves to it."""

    def __init__(self, op: dict) -> None:
        self.name, self.options = op["name"], options(op)
        self.known: dict[tuple, _core.Request] = {}
        self.function = None

    def defaults(self, *names: str) -> Iterator[Any]:
        return (self.options.get(name, _NOT_TAKEN) for name in names)

    def request(self, **given: Any) -> _core.Request:
        for option, value in given.items():
            if value is not _NOT_TAKEN and option not in self.options:
                raise TypeError(f"{self.name}() got an unexpected keyword argument {option!r}")
        made = request(self.name, **{o: v for o, v in given.items() if o in self.options})
        if len(self.known) > 999:
            self.known.clear()
        with contextlib.suppress(TypeError):  # what has no hash is a new one every time
            self.known[tuple(given.values())] = made
        return made

    def call(self, x: Any, y: Any, axis: Any, keepdims: Any, given: dict, out: Any, others: dict) -> Any:
        """A call of any kind: with `out`, other words, or other arrays than NumPy's."""
        if others:
            given["out"] = out
            return _otherwise(self.name, self.function, (x,) if y is None else (x, y), axis, keepdims, given, others)
        of_out = out is not None and given.get("dtype", _NOT_TAKEN) is None and hasattr(out, "dtype")
        if of_out:
            given["dtype"] = out.dtype
            _arrays.short_name(out.dtype, "out")
        try:
            wanted = self.known[tuple(given.values())]
        except (KeyError, TypeError):
            wanted = None
        if wanted is None:
            wanted = self.request(**given)
        if out is None:
            made = _reduce_numpy(wanted, x, y, axis, keepdims, RESULTS)
            if made is not NotImplemented:
                return made
        return _reduce(wanted, x, y, axis, keepdims, out, of_out)


# The functions, by the kinds of parameters that operations take. Most calls are of NumPy's arrays and
# of options by default, or that were given before: these ask the library here, since one more call in
# Python takes a seventh of their time. Others are for `operation.call`.


def _without_options(operation: _Operation):
    wanted = operation.request()

    def function(x, /, axis=None, *, keepdims=False, out=None, **others):
        if out is None and not others:
            made = _reduce_numpy(wanted, x, None, axis, keepdims, RESULTS)
            return made if made is not NotImplemented else _reduce(wanted, x, None, axis, keepdims)
        return operation.call(x, None, axis, keepdims, {}, out, others)

    return function


def _with_options(operation: _Operation):
    known, usual, (usual_method, usual_acc) = operation.known, operation.request(), operation.defaults("method", "acc")

    def function(
        x, /, axis=None, *, keepdims=False,
        dtype=None, method=usual_method, acc=usual_acc, out=None, **others,
    ):  # fmt: skip
        if out is None and not others:
            try:
                by_default = method is usual_method and dtype is None and acc is usual_acc
                wanted = usual if by_default else known[dtype, method, acc]
            except (KeyError, TypeError):
                pass
            else:
                made = _reduce_numpy(wanted, x, None, axis, keepdims, RESULTS)
                return made if made is not NotImplemented else _reduce(wanted, x, None, axis, keepdims)
        given = {"dtype": dtype, "method": method, "acc": acc}
        return operation.call(x, None, axis, keepdims, given, out, others)

    return function


def _with_ddof(operation: _Operation):
    known, usual, (usual_method, usual_acc) = operation.known, operation.request(), operation.defaults("method", "acc")

    def function(
        x, /, axis=None, *, keepdims=False,
        dtype=None, ddof=0, correction=None, method=usual_method, acc=usual_acc, out=None, **others,
    ):  # fmt: skip
        if correction is not None:
            ddof = _ddof(ddof, correction)
        if type(ddof) is not int:  # 1.0 would be the same key as 1
            ddof = _arrays.integer("ddof", ddof)
        if out is None and not others:
            try:
                by_default = ddof == 0 and method is usual_method and dtype is None and acc is usual_acc
                wanted = usual if by_default else known[dtype, ddof, method, acc]
            except (KeyError, TypeError):
                pass
            else:
                made = _reduce_numpy(wanted, x, None, axis, keepdims, RESULTS)
                return made if made is not NotImplemented else _reduce(wanted, x, None, axis, keepdims)
        given = {"dtype": dtype, "ddof": ddof, "method": method, "acc": acc}
        return operation.call(x, None, axis, keepdims, given, out, others)

    return function


def _of_two(operation: _Operation):
    known, usual, (usual_method, usual_acc) = operation.known, operation.request(), operation.defaults("method", "acc")

    def function(
        x, y, /, axis=None, *, keepdims=False,
        dtype=None, method=usual_method, acc=usual_acc, out=None, **others,
    ):  # fmt: skip
        if y is None:
            raise TypeError("y: None, where an array is expected")
        if out is None and not others:
            try:
                by_default = method is usual_method and dtype is None and acc is usual_acc
                wanted = usual if by_default else known[dtype, method, acc]
            except (KeyError, TypeError):
                pass
            else:
                made = _reduce_numpy(wanted, x, y, axis, keepdims, RESULTS)
                return made if made is not NotImplemented else _reduce(wanted, x, y, axis, keepdims)
        given = {"dtype": dtype, "method": method, "acc": acc}
        return operation.call(x, y, axis, keepdims, given, out, others)

    return function


def _function(op: dict):
    operation = _Operation(op)
    make = _of_two if op["inputs"] == 2 else _with_ddof if op["takes_ddof"] else _with_options if operation.options else _without_options
    operation.function = function = make(operation)
    function.__code__ = function.__code__.replace(co_name=op["name"])  # for tracebacks and profiles
    function.__name__ = function.__qualname__ = op["name"]
    function.__module__ = "bitfold"
    function.__doc__ = docstring(op)
    function.__signature__ = signature(op)
    function._torchdynamo_disable = True  # torch.compile calls it, and sees no further into it
    return function


FUNCTIONS = {name: _function(op) for name, op in REGISTRY.items()}
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in ALIASES.items()}


def _is_pair(op: Any) -> bool:
    return isinstance(op, (tuple, list)) and len(op) == 2 and isinstance(op[0], str) and isinstance(op[1], dict)


def request_of(op: Any) -> _core.Request:
    """Of what `reduce` takes: a name, or a name and options."""
    name, given = (op, {}) if isinstance(op, str) else op if _is_pair(op) else (None, None)
    if name is None:
        raise TypeError(f"ops: {op!r}, where a name, or a pair of a name and a dictionary, is expected")
    name = ALIASES.get(name, name)
    if name not in REGISTRY:
        raise ValueError(
            f"op: there is no {name!r}" + (f": {INSTEAD[name]}" if name in INSTEAD else "")
        )
    known = options(REGISTRY[name])
    for option in given:
        if option not in known:
            raise TypeError(f"{option}: {name} takes none")
    given = dict(given)
    if "correction" in given:
        given["ddof"] = _ddof(given.get("ddof", 0), given.pop("correction"))
    if "method" not in given and REGISTRY[name]["takes_method"]:
        given["method"] = "tree"
    return request(name, **given)


def _is_one(ops: Any) -> bool:
    return isinstance(ops, str) or _is_pair(ops)


def requests_of(ops: Any) -> list[_core.Request]:
    """Of a list of what `reduce` takes, or of one."""
    try:
        listed = [ops] if _is_one(ops) else list(ops)
    except TypeError:
        raise TypeError(f"ops: {ops!r}, where a list of operations is expected") from None
    return [request_of(op) for op in listed]


def _wanted(ops: Any) -> _core.Request | list[_core.Request]:
    return request_of(ops) if _is_one(ops) else requests_of(ops)


def reduce(
    x: Any,
    ops: Any,
    y: Any = None,
    /,
    *,
    axis: Any = None,
    keepdims: bool = False,
    dim: Any = None,
    keepdim: bool | None = None,
) -> Any:
    """Several operations of the same elements in one pass: a tuple of results, each with the bits that it has alone.

    ops: names of operations, or pairs of a name and a dictionary of its options; of one that is in
    no list, its result. y: the second input, of operations of two. axis, keepdims, dim, keepdim: as
    the operations take them.

    >>> total, mean, spread = reduce([1.0, 2.0, 6.0], ["sum", "mean", ("std", {"ddof": 1})])
    >>> total, mean
    (np.float64(9.0), np.float64(3.0))

    Errors: as those of the operations; ValueError for operations of one input beside those of two.
    """
    if dim is not None or keepdim is not None:
        return _otherwise(
            "reduce", reduce, (x, ops, y), axis, keepdims, {}, {"dim": dim, "keepdim": keepdim}
        )
    wanted = _wanted(ops)
    return () if wanted == [] else _reduce(wanted, x, y, axis, keepdims)


def _of_a_gpu(call: Any, ops: Any, x: Any, y: Any, axis: Any) -> Any:
    kind = _arrays.kind_of(x)
    with kind.context():
        described = [None if a is None else kind.describe(a, name) for a, name in ((x, "x"), (y, "y"))]
        return call(_wanted(ops), *described, axis)


def explain(x: Any, ops: Any, y: Any = None, /, *, axis: Any = None) -> str:
    """What a GPU does to reduce such arrays, which need not be there: a line for each pass (its kernel, what it computes, its grid,
    what it reads), and one for the workspace. Operations and axis as `reduce` takes them; of a method exact it asks the GPU.

    >>> import numpy as np
    >>> print(explain(np.zeros((64, 1000), np.float32), "sum", axis=1))  # doctest: +ELLIPSIS
    pass 1: ... sum by tree; ...
    """
    return _of_a_gpu(_core.explain, ops, x, y, axis)


def prepare(x: Any, ops: Any, y: Any = None, /, *, axis: Any = None) -> None:
    """Compiles the kernels for such arrays that are not there yet, several at a time, for the current GPU: `reduce` of them then
    launches at once, also while a graph is captured. Errors: RuntimeError without a GPU or a compiler.
    """
    _of_a_gpu(_core.prepare, ops, x, y, axis)


def _listed(call: Any, ops: Any, x: Any, y: Any, integers: tuple, *more: Any) -> Any:
    """Of what a list of integers says which elements belong together; `integers` is its name and it."""
    kind = _arrays.kind_of(x)
    with kind.context():
        described = [None if a is None else kind.describe(a, name) for a, name in ((x, "x"), (y, "y"))]
        name, given = integers
        return kind.finish(
            call(
                _wanted(ops),
                *described,
                kind.indices(given, name),
                *more,
                kind.family(),
            )
        )


def segment_reduce(x: Any, offsets: Any, ops: Any = "sum", y: Any = None, *, check: bool = False) -> Any:
    """Of segments of an array of one axis: segment k has elements offsets[k] to offsets[k + 1] - 1, which may be none.

    x, y: of one axis, their elements one behind the other (np.ascontiguousarray). ops: an operation as in `reduce` (a name, or a
    pair), or a list of them, whose result is a tuple. offsets: integers, one more than segments, of x's kind and on its device.
    Result: of shape (segments,), of the type that the operation gives.

    check: whether to look at offsets on a GPU first, which copies them to the host and waits for the stream, so that the call cannot be
    captured in a graph. Without it, offsets on a GPU that fall or leave the array are undefined behaviour. On the CPU they are always
    looked at.

    >>> segment_reduce([1.0, 2.0, 3.0, 4.0], [0, 1, 1, 4])
    array([1., 0., 9.])

    Errors: ValueError where offsets fall or leave the array, or x has not one axis with its elements in a row; where a segment has no
    elements and the operation no result for none (on a GPU that result is 0).
    """
    return _listed(_core.reduce_segments, ops, x, y, ("offsets", offsets), bool(check))


def reduce_by_key(x: Any, keys: Any, outputs: int, ops: Any = "sum", y: Any = None, *, check: bool = False) -> Any:
    """Of the elements of each key: output k is of those whose key is k, in the order in which they lie; x of one axis.

    x, y, ops: as in `segment_reduce`. keys: as many integers as elements, of x's kind and on its device. Result: of shape (outputs,), of
    the type that the operation gives.

    check: whether to look at keys on a GPU first, which copies them to the host and waits for the stream, so that the call cannot be
    captured in a graph. Without it, elements on a GPU whose key names no output are left out. On the CPU keys are always looked at.

    >>> reduce_by_key([1.0, 2.0, 3.0], [2, 0, 2], 4, ["sum", "count_nonzero"])
    (array([2., 0., 4., 0.]), array([1, 0, 2, 0]))

    Errors: ValueError for more than 2^48 outputs; for a key that is negative or not below `outputs`; where no element has a key and the
    operation no result for none (on a GPU that result is 0).
    """
    return _listed(_core.reduce_by_key, ops, x, y, ("keys", keys), _arrays.integer("outputs", outputs, 2**48 + 1), bool(check))


def index_add(x: Any, keys: Any, outputs: int, *, check: bool = False, **options: Any) -> Any:
    """The sums by key: x added onto `outputs` zeros at keys. check: as in `reduce_by_key`. options: those of `sum` (method, acc, dtype).

    >>> index_add([1.0, 2.0, 3.0], [2, 0, 2], 4)
    array([2., 0., 4., 0.])

    Errors: those of `reduce_by_key`; TypeError for an option that `sum` does not take.
    """
    made, = reduce_by_key(x, keys, outputs, [("sum", options)], check=check)
    return made


def order(n: int, method: str = "tree", format: str = "text") -> str:
    """The tree in which n elements are added. format: text, expression or dot.

    >>> print(order(3, format="expression"), end="")
    ((0 1) 2)

    Errors: ValueError for more elements than can be printed.
    """
    return _core.order(_arrays.integer("n", n, 2**64), method, format)
