"""The switch: torch's own operators on bitfold, from enable() to disable()."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._pytree import tree_leaves

from bitfold import _core, _tensors

from . import _collectives
from ._engine import FLOATS, METHODS, Uncovered, has_tangent
from ._overrides import (
    ACCUMULATING, BY_A_NUMBER, COMPOSITE, GRADIENTS, IN_PLACE, OVERRIDES, QUICK, index_put, put,
)  # fmt: skip
from ._strict import NotCovered, Watcher, operators_named

_KEYS = ("CPU", "CUDA")
_LOCK = threading.RLock()


# ---- Which operators -----------------------------------------------------------------------------


def find(name: str) -> torch._ops.OpOverload | None:
    """`sum` or `sum.dim_IntList` of torch's operators; None where this torch has none."""
    packet, _, overload = name.partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:
        return None


def _plain(arguments: Iterable) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in arguments]


def forms(op: torch._ops.OpOverload) -> Iterator[torch._ops.OpOverload]:
    """Those that write what `op` returns to `out`, or to the place of self."""
    name = op._schema.name.removeprefix("aten::")
    wanted = _plain(op._schema.arguments)
    for packet in (name, name + "_"):
        for overload in getattr(torch.ops.aten, packet).overloads() if hasattr(torch.ops.aten, packet) else ():
            other = getattr(torch.ops.aten, packet)
            try:
                other = getattr(other, overload)
            except (AttributeError, RuntimeError):
                continue
            takes_tensors = all(str(a.type) == "Tensor" for a in other._schema.arguments if a.is_out)  # lists are torch's to fill
            same_inputs = _plain(a for a in other._schema.arguments if not a.is_out) == wanted
            if other is not op and other._schema.is_mutable and same_inputs and takes_tensors:
                yield other


def _outs(op: torch._ops.OpOverload) -> list[str]:
    return [a.name for a in op._schema.arguments if a.is_out]


def _given(op: torch._ops.OpOverload, args: tuple, kwargs: dict) -> dict:
    """The arguments by their names."""
    return {a.name: v for a, v in zip(op._schema.arguments, args)} | kwargs


_REFUSALS = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)


#: Parts of the names of operators whose own kernels do not check shapes and indices: what they do in
#: a wrong call is undefined.
_CHECK_NOTHING = ("norm_backward", "batch_norm", "embedding", "convolution_backward", "scaled_dot_product")


class _Own:
    """The kernel that torch itself has for a device: it runs where bitfold does not cover the call,
    and says what is wrong with it where bitfold refuses it, so that errors are torch's."""

    def __init__(self, op: torch._ops.OpOverload, key: str) -> None:
        dispatched = getattr(torch._C.DispatchKey, key)
        self._op, self._keys = op, torch._C.DispatchKeySet(dispatched)
        try:
            self._kernel = torch.library.get_kernel(op, dispatched)
        except RuntimeError:  # it has none there
            self._kernel = None

    def __call__(self, /, *args, **kwargs):
        return self._kernel.call_boxed(self._keys, *args, **kwargs)

    def instead(self, error: Exception, args: tuple, kwargs: dict):
        """What comes of a call for which bitfold has an error."""
        if self._kernel is None or isinstance(error, (NotCovered, torch.OutOfMemoryError)):
            raise error
        if isinstance(error, Uncovered):
            if _state.watcher is not None:
                _state.watcher.refuse_uncovered(self._op, error, args, kwargs)
            return self(*args, **kwargs)
        if not self._can_be_asked(args, kwargs):
            raise error
        given = _given(self._op, args, kwargs)
        for a in self._op._schema.arguments:
            if a.alias_info is not None and a.alias_info.is_write and given.get(a.name) is not None:
                given[a.name] = given[a.name].clone()
        try:
            self(**given)
        except Exception as torchs:
            raise torchs from None
        raise error

    def _can_be_asked(self, args: tuple, kwargs: dict) -> bool:
        if any(part in self._op._schema.name for part in _CHECK_NOTHING):
            return False
        tensors = (t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
        return all(map(_tensors.has_memory, tensors))


def _or_own(kernel: Callable, own: _Own) -> Callable:
    def either(*args, **kwargs):
        try:
            return kernel(*args, **kwargs)
        except _REFUSALS as error:
            return own.instead(error, args, kwargs)

    return either


def _eager(name: str, function: Callable, own: _Own) -> Callable:
    quick = QUICK.get(name)
    if quick is None:
        return _or_own(lambda *args, **kwargs: function(_state.method, *args, **kwargs), own)

    def kernel(*args, **kwargs):  # those that come most: the same without one more call
        try:
            if not kwargs and (result := quick(_state.method, *args)) is not None:
                return result
            return function(_state.method, *args, **kwargs)
        except _REFUSALS as error:
            return own.instead(error, args, kwargs)

    return kernel


def _watched(function: Callable) -> Callable:
    """strict sees what the function calls, where it saw the operator that the function is of."""

    def watched(*args, **kwargs):
        if _state.watcher is None:
            return function(*args, **kwargs)
        with _state.watcher.inside():
            return function(*args, **kwargs)

    return watched


#: Whose `out` torch takes for the type in which it adds, where it is given none; and those that convert to `out`'s.
_OUT_IS_DTYPE, _CONVERTING = (
    ("sum.dim_IntList", "nansum", "mean", "mean.dim", "prod.dim_int"),
    ("max", "min", "logsumexp", "var.correction", "std.correction", "mse_loss"),
)


def _copied(result: torch.Tensor, out: torch.Tensor, exact_dtype: bool = False) -> torch.Tensor:
    from torch._prims_common.wrappers import _maybe_resize_out, _safe_copy_out

    return _safe_copy_out(copy_from=result, copy_to=_maybe_resize_out(out, result.shape), exact_dtype=exact_dtype)


def _into(name: str, outs: list[str], function: Callable, own: _Own) -> Callable:
    def into(*args, **kwargs):
        targets = [kwargs[name] for name in outs]
        kwargs = {name: v for name, v in kwargs.items() if name not in outs}
        adds_as_it_is = name.startswith("mean") and not (args[0].is_floating_point() or args[0].is_complex())
        if name in _OUT_IS_DTYPE and kwargs.get("dtype") is None and not adds_as_it_is:
            kwargs["dtype"] = targets[0].dtype
        results = function(_state.method, *args, **kwargs)
        for target, result in zip(targets, results if isinstance(results, tuple) else (results,)):
            _copied(result, target, exact_dtype=name not in _CONVERTING)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return _or_own(into, own)


def _in_place(name: str, function: Callable, own: _Own) -> Callable:
    how = {"in_place": True} if name in IN_PLACE else {}

    def in_place(x, *args, **kwargs):
        result = function(_state.method, x, *args, **kwargs, **how)
        return x if result is x else x.copy_(result)

    return _or_own(in_place, own)


def _where_accumulating(function: Callable, op: torch._ops.OpOverload, key: str) -> Callable:
    own = _Own(op, key)

    def either(*args, **kwargs):
        given = _given(op, args, kwargs)
        if not given.get("accumulate"):
            return own(*args, **kwargs)
        return function(_state.method, given.pop("self"), **given)

    return _or_own(either, own)


def _where_by_a_number(function: Callable, op: torch._ops.OpOverload) -> Callable:
    """On CUDA, where the second of two is a number, or one in a tensor on the CPU."""
    own = torch.library.get_kernel(op, "CUDA")

    def either(keys, x, y, **out):
        named = not isinstance(y, torch.Tensor)
        if x.is_cuda and x.is_floating_point() and (named or y.is_cpu and not y.dim()) and torch.result_type(x, y) is x.dtype:
            result = function(x, y)
            return _copied(result, out["out"]) if out else x.copy_(result) if op._schema.is_mutable else result
        return own.call_boxed(keys, x, torch.tensor(y, dtype=torch.result_type(x, y)) if named else y, **out)

    return either


_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)  # and not what others make of them, such as DTensor


def _with_gradient(function: type[torch.autograd.Function], op: torch._ops.OpOverload, key: str) -> Callable:
    """In reverse mode. In forward mode, and by functorch's transforms, which would not get through it, with torch's own."""
    own, names = torch.library.get_kernel(op, key), [a.name for a in op._schema.arguments]
    of = names.index(getattr(function, "of", names[0]))
    defaults = [a.default_value for a in op._schema.arguments]

    def either(keys, *args, **kwargs):
        if not torch.is_grad_enabled() or not args[of].requires_grad:  # most calls, of which each test is a share
            return own.call_boxed(keys, *args, **kwargs)
        ours = all(type(t) in _TENSORS for t in args if isinstance(t, torch.Tensor))
        floats = args[of].dtype in FLOATS and (kwargs.get("dtype") or args[of].dtype) in FLOATS
        transformed = torch._C._are_functorch_transforms_active() or has_tangent(*args)
        if not ours or not floats or transformed:
            return own.call_boxed(keys, *args, **kwargs)
        return function.apply(*args, *map(kwargs.get, names[len(args) :], defaults[len(args) :]))

    return either


def _made_of_others(function: Callable, own: torch._C._SafeKernelFunction) -> Callable:
    return lambda keys, *args, **kwargs: function(partial(own.call_boxed, keys), *args, **kwargs)


def covered_where_accumulating() -> list[torch._ops.OpOverload]:
    """Those that bitfold takes over where `accumulate` is true."""
    ops = [find(name) for name in (*ACCUMULATING, *_ACCUMULATING_FUNCTIONAL)]
    return [op for op in {*ops, *(form for op in ops if op for form in forms(op))} if op]


def covered_of_others() -> list[torch._ops.OpOverload]:
    """Those that torch makes of others, and the mode too, in a way of its own."""
    return [op for op in map(find, COMPOSITE) if op]


def covered_over_ranks() -> list[torch._ops.OpOverload]:
    """Reductions over ranks, and what is made of them; none in a torch without torch.distributed."""
    return _collectives.operators([*_collectives.REDUCTIONS, *_collectives.MADE_OF_REDUCTIONS])


@cache
def covered() -> dict[torch._ops.OpOverload, Callable[[_Own], Callable]]:
    """Every operator that this torch has and bitfold takes over, with what makes its kernel."""
    all_of_them: dict[torch._ops.OpOverload, Callable[[_Own], Callable]] = {}
    for name, function in OVERRIDES.items():
        op = find(name)
        if op is None:
            continue
        function = _watched(function)
        all_of_them[op] = partial(_eager, name, function)
        for form in forms(op):
            make = partial(_into, name, _outs(form)) if _outs(form) else partial(_in_place, name)
            all_of_them.setdefault(form, partial(make, function))
    return all_of_them


# ---- torch.compile -------------------------------------------------------------------------------
#
# A compiler's own reductions are none of torch's operators. So each operator that is taken over is one of bitfold's too, which
# a compiler leaves whole: `bitfold_aten::NAME`, with the method as an argument. While the mode is on, the compiler's table of
# decompositions leads from the one to the other.

_COMPILED = torch.library.Library("bitfold_aten", "DEF")
_SECRETLY_MUTABLE = ("native_batch_norm", "cudnn_batch_norm")  # a compiler sees their functional forms
_OF_ONE_TENSOR = ("_foreach_norm.Scalar",)  # whose results are parts of it
_ACCUMULATING_FUNCTIONAL = {"index_put": index_put, "_unsafe_index_put": index_put, "put": put}


def _with_method(schema: str) -> str:
    schema = schema.removeprefix("aten::")
    head, _, returns = schema.partition(") -> ")
    return f"{head}, {'' if '*, ' in head else '*, '}str method) -> {returns}"


def _define(op: torch._ops.OpOverload, function: Callable) -> Callable:
    _COMPILED.define(_with_method(str(op._schema)), tags=(torch.Tag.pt2_compliant_tag,))
    name = op._schema.name.removeprefix("aten::") + (f".{op._schema.overload_name}" if op._schema.overload_name else "")
    watched = _watched(function)
    kernel = lambda *args, method, **kwargs: watched(method, *args, **kwargs)
    for key in _KEYS:
        _COMPILED.impl(name, kernel, key)
    torch.library.register_fake(f"bitfold_aten::{name}", kernel, lib=_COMPILED)
    return getattr(getattr(torch.ops.bitfold_aten, op._schema.name.removeprefix("aten::")), op._overloadname)


def _apart(function: Callable) -> Callable:
    """Each result in memory of its own, as torch.library wants them."""
    return lambda method, *args, **kwargs: [y.clone() for y in function(method, *args, **kwargs)]


def _compiled_ops() -> dict[torch._ops.OpOverload, torch._ops.OpOverload]:
    functional = {**OVERRIDES, **_ACCUMULATING_FUNCTIONAL}
    functional |= {name: _apart(functional[name]) for name in _OF_ONE_TENSOR}
    found = {name: op for name in functional if name not in _SECRETLY_MUTABLE and (op := find(name)) and not op._schema.is_mutable}
    return {op: _define(op, functional[name]) for name, op in found.items()}


_COMPILED_OPS = _compiled_ops()


def _decomposition(op: torch._ops.OpOverload, ours: torch._ops.OpOverload, method: str) -> Callable:
    accumulates = op._schema.name.removeprefix("aten::") in _ACCUMULATING_FUNCTIONAL

    def decomposition(*args, **kwargs):
        if accumulates and not _given(op, args, kwargs).get("accumulate", False):
            return NotImplemented
        try:
            return ours(*args, **kwargs, method=method)
        except Uncovered:
            return NotImplemented

    return decomposition


class _Compiler:
    """torch.compile while the mode is on: the decompositions, the key of its caches, and nothing compiled before or after."""

    _INDUCTOR = "torch._inductor.decomposition"
    LOWERING = "torch._inductor.lowering"  # which, as it is imported, wants the table as torch has it

    def __init__(self, method: str) -> None:
        self._table = {op: _decomposition(op, ours, method) for op, ours in _COMPILED_OPS.items()}
        self._tag = f"bitfold {_core.version}, {method}"
        self._before: dict = {}

    def on(self) -> None:
        config = sys.modules.get("torch.compiler.config") or importlib.import_module("torch.compiler.config")
        self._old_tag, config.cache_key_tag = config.cache_key_tag, f"{config.cache_key_tag}|{self._tag}"
        self.patch()
        if self.LOWERING not in sys.modules:  # it takes seconds to import, which who does not compile need not wait for
            _AFTER_IMPORT.on = self
        _forget()

    def off(self) -> None:
        sys.modules["torch.compiler.config"].cache_key_tag = self._old_tag
        _AFTER_IMPORT.on = None
        self.restore()
        _forget()

    def patch(self) -> None:
        if (inductor := sys.modules.get(self._INDUCTOR)) is not None:
            self._before = {op: inductor.decompositions[op] for op in self._table if op in inductor.decompositions}
            inductor.decompositions.update(self._table)
            inductor.fast_random_decomps.cache_clear()

    def restore(self) -> None:
        if (inductor := sys.modules.get(self._INDUCTOR)) is not None:
            for op in self._table:
                inductor.decompositions.pop(op, None)
            inductor.decompositions.update(self._before)
            inductor.fast_random_decomps.cache_clear()


class _AfterImport(importlib.abc.MetaPathFinder):
    """Patches inductor when it is imported while the mode is on."""

    on: _Compiler | None = None

    def find_spec(self, name, path=None, target=None):
        if name != _Compiler.LOWERING or self.on is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        execute, compiler = spec.loader.exec_module, self.on

        def exec_module(module):
            compiler.restore()
            execute(module)
            compiler.patch()

        spec.loader.exec_module = exec_module
        return spec


_AFTER_IMPORT = _AfterImport()
sys.meta_path.insert(0, _AFTER_IMPORT)


def _forget() -> None:
    """Nothing that was compiled under one setting runs under another: no guard of torch's sees the difference. And which kernel
    an operator has while a compiler traces it, torch looks up but once."""
    for op in (*_COMPILED_OPS, *covered_of_others()):
        op._dispatch_cache.clear()
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


# ---- The switch ----------------------------------------------------------------------------------


@dataclass
class _Setting:
    method: str
    strict: bool
    allow: frozenset[str]


class _State:
    def __init__(self) -> None:
        self.stack: list[_Setting] = []
        self.method = ""  # the last one's
        self.libraries: list[torch.library.Library] = []
        self.compiler: _Compiler | None = None
        self.watcher: Watcher | None = None


_state = _State()


def enable(method: str = "tree", *, strict: bool = False, allow: Iterable[str] = ()) -> None:
    """From here on torch's reductions, and their gradients, are bitfold's: in every thread, until disable().

    `method`: one of bitfold's methods, for the operations that take it; the others have their own way. With `strict`, an
    operator that is not covered and whose bits may depend on the batch, on threads or on timing raises NotCovered, unless
    `allow` has its name ("cumsum", or with its namespace, as "mylib::myop"). So do, on CPUs, elementwise
    functions that torch rounds otherwise in vectors than one by one, such as gelu. strict looks at the
    thread that first asks for it, and its backward passes.

    What torch.compile made before is forgotten, as it would go on as it was: enable once, not in every step.

    Errors: ValueError or TypeError, naming the argument; RuntimeError where another thread's strict still holds.
    """
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is none of {', '.join(METHODS)}")
    allow = operators_named(allow)
    with _LOCK:
        if strict and _state.watcher is not None:
            _state.watcher.check_thread()
        _leave()
        _state.stack.append(_Setting(method, strict, allow))
        _enter()


def disable() -> None:
    """Takes the last enable() back. After the first of them torch is as it was.

    Errors: RuntimeError without one, and where it ends strict in another thread or inside a TorchDispatchMode entered since.
    """
    with _LOCK:
        if not _state.stack:
            raise RuntimeError("disable: bitfold.torch is not enabled")
        if _state.watcher is not None and not any(setting.strict for setting in _state.stack[:-1]):
            _state.watcher.leave()
            _state.watcher = None
        _leave()
        _state.stack.pop()
        _enter()


@contextmanager
def deterministic(method: str = "tree", *, strict: bool = False, allow: Iterable[str] = ()) -> Iterator[None]:
    """enable() as long as the block runs. See there."""
    enable(method, strict=strict, allow=allow)
    try:
        yield
    finally:
        disable()


def is_enabled() -> bool:
    """Whether torch's reductions are on bitfold now, by `enable` or `deterministic`."""
    return bool(_state.stack)


def _enter() -> None:
    if not _state.stack:
        return
    setting = _state.stack[-1]
    _state.method = setting.method
    if not _state.libraries:
        _state.libraries = [_registered(), _registered_over_ranks()]
    _state.compiler = _Compiler(setting.method)
    _state.compiler.on()
    if setting.strict and _state.watcher is None:
        _state.watcher = Watcher()
        _state.watcher.__enter__()


def _leave() -> None:
    """What depends on the setting; the overrides too, if it is the last."""
    if _state.compiler is not None:
        _state.compiler.off()
        _state.compiler = None
    if len(_state.stack) <= 1:
        for library in _state.libraries:
            library._destroy()
        _state.libraries = []


def _registered() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*[Oo]verriding a previously registered kernel")
        for key in _KEYS:
            for name, function in ACCUMULATING.items():
                op = find(name)
                either = _where_accumulating(_watched(function), op, key)
                library.impl(op, either, key, allow_override=True)
            for op, kernel in covered().items():
                library.impl(op, kernel(_Own(op, key)), key, allow_override=True)
            for name, function in GRADIENTS.items():
                op = find(name)
                library.impl(op, _with_gradient(function, op, "Autograd" + key), "Autograd" + key, with_keyset=True, allow_override=True)
        for name, function in COMPOSITE.items():
            op = find(name)
            for device in _KEYS:
                own = torch.library.get_kernel(op, device)
                for key in ("Autograd" + device, device):
                    library.impl(op, _made_of_others(_watched(function), own), key, with_keyset=True, allow_override=True)
        for name, function in BY_A_NUMBER.items() if torch.cuda.is_available() else ():
            op = find(name)
            for one in (op, *forms(op)):
                either = _where_by_a_number(_watched(function), one)
                library.impl(one, either, "CUDA", with_keyset=True, allow_override=True)
    return library


def _registered_over_ranks() -> torch.library.Library:
    library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*[Oo]verriding a previously registered kernel")
        for op in _collectives.operators([*_collectives.REDUCTIONS]):
            for key in _KEYS:
                own = _Own(op, key)
                library.impl(op, _collectives.kernel(op, lambda: _state.method, own, own.instead), key, allow_override=True)
    return library
