#!/usr/bin/env python3
"""Type stubs of the package, whose functions are made from the registry. Usage: make_stub.py FOLDER_OF_CORE OUT.pyi"""
import ast
import sys
import types
from pathlib import Path

here = Path(__file__).parent / "bitfold"
package = types.ModuleType("bitfold")  # without its __init__, which needs NumPy
package.__path__ = [sys.argv[1], str(here)]
sys.modules["bitfold"] = package
from bitfold import _core  # noqa: E402
from bitfold import _registry as registry  # noqa: E402

HEAD = """from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

class _Exporter(Protocol):
    \"\"\"An array of another library's, such as a tensor of PyTorch's: results are of its type.\"\"\"

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

_Array = TypeVar("_Array", bound=_Exporter)
_Axis = int | tuple[int, ...] | None
_Op = str | tuple[str, dict[str, Any]]
"""
TYPES = {"axis": "_Axis", "keepdims": "bool", "ddof": "int", "correction": "float | None", "acc": "Any", "dtype": "Any",
         "dim": "int | Sequence[int] | None", "keepdim": "bool | None"}  # fmt: skip
#: Who calls it: NumPy's arrays and scalars, in full and along axes; other libraries' arrays; lists and numbers, whose results are NumPy's.
NUMPY = "NDArray[Any] | np.generic"

#: The functions of arrays that are no operations. {x} is who calls, {i} what its integers are in, {ops} one operation or several.
ROWS = "(x: {x}, /, axis: int = -1, *, {more}dim: int | None = None)"
ARRAYS = {
    "softmax": ROWS.replace("{more}", ""),
    "log_softmax": ROWS.replace("{more}", ""),
    "layer_norm": ROWS.replace("{more}", "weight: {x} | None = None, bias: {x} | None = None, eps: float = 1e-5, "),
    "rms_norm": ROWS.replace("{more}", "weight: {x} | None = None, eps: float = 1e-5, "),
    "exp": "(x: {x}, /)",
    "matmul": "(a: {x}, b: {x}, /, *, method: {methods} = 'fixed', dtype: Any = None, bits: int | None = None, addend: {x} | None = None)",
    "reduce": "(x: {x}, ops: {ops}, y: {x} | None = None, /, *, axis: {axis} = None, keepdims: {keep} = False, dim: {dim} = None, keepdim: {keepdim} = None)",
    "segment_reduce": "(x: {x}, offsets: {i}, ops: {ops} = 'sum', y: {x} | None = None, *, check: bool = False)",
    "reduce_by_key": "(x: {x}, keys: {i}, outputs: int, ops: {ops} = 'sum', y: {x} | None = None, *, check: bool = False)",
    "index_add": "(x: {x}, keys: {i}, outputs: int, *, check: bool = False, **options: Any)",
}


def method_type(op):
    """The names that it may be, beside None where the operation need not go by one."""
    names = [m["name"] for m in _core.methods()] if op["takes_method"] else []
    names = [name for name in names if op["has_exact"] or name != "exact"] or ["exact"]
    return f"Literal[{', '.join(map(repr, names))}]" + " | None" * (not op["takes_method"])


def parameters(op, x, out, whole):
    """With `whole` of calls without axis and keepdims."""
    kinds = TYPES | {"x": x, "y": x, "out": f"{out} | None", "method": method_type(op)}
    kinds |= {"axis": "None", "keepdims": "Literal[False]", "dim": "None", "keepdim": "None"} if whole else {}
    text = str(registry.signature(op))
    for name, kind in kinds.items():
        text = text.replace(f" {name}=", f" {name}: {kind} = ")
    return text.replace("(x, ", f"(x: {x}, ", 1).replace(" y, ", f" y: {x}, ", 1)


def overloads(op):
    scalar = {"truth": "np.bool_", "place": "np.int64", "count": "np.int64"}.get(op["types"], "np.number[Any]")
    name, doc = op["name"], registry.docstring(op).replace("\n", "\n    ")
    for x, result, whole in ((NUMPY, scalar, True), (NUMPY, "NDArray[Any]", False), ("_Array", "_Array", False),
                             ("ArrayLike", scalar, True), ("ArrayLike", "NDArray[Any]", False)):  # fmt: skip
        out = "_Array" if x == "_Array" else "None" if whole else "NDArray[Any]"
        text = parameters(op, x, out, whole).replace("None | None", "None")
        yield "@overload"
        yield f"def {name}{text} -> {result}:" + (f'\n    """{doc}"""' if doc else " ...")
        doc = ""


def array_overloads(name, text):
    """Of NumPy's arrays, other libraries' and lists; of several operations a tuple. Where no axis is left results are NumPy's scalars."""
    methods = ", ".join(repr(m) for m in ["fixed", *(m["name"] for m in _core.methods())])
    parts = {"axis": "_Axis", "keep": "bool", "dim": "int | Sequence[int] | None", "keepdim": "bool | None"}
    none = {"axis": "None", "keep": "Literal[False]", "dim": "None", "keepdim": "None"}
    for x, result in ((NUMPY, "NDArray[Any]"), ("_Array", "_Array"), ("ArrayLike", "NDArray[Any]")):
        for ops, several in (("_Op", False), ("Iterable[_Op]", True)):
            for whole in (True, False):
                if (several and "{ops}" not in text) or (whole and ("{axis}" not in text or x == "_Array")):
                    continue
                made = "Any" if whole or (result != "_Array" and name in ("exp", "matmul")) else result
                kinds = parts | (none if whole else {}) | {"x": x, "i": "_Array" if x == "_Array" else "ArrayLike", "ops": ops,
                                                           "methods": f"Literal[{methods}]"}  # fmt: skip
                yield "@overload"
                yield f"def {name}{text.format(**kinds)} -> {f'tuple[{made}, ...]' if several else made}: ..."


lines = [HEAD]
for statement in ast.parse((here / "__init__.py").read_text()).body:
    if isinstance(statement, ast.ImportFrom):
        given = [f"{a.name} as {a.asname or a.name}" for a in statement.names if a.name != "FUNCTIONS" and a.name not in ARRAYS]
        if given:
            lines.append(f"from .{statement.module} import {', '.join(given)}")
for op in registry.REGISTRY.values():
    lines += ["", *overloads(op)]
for name, text in ARRAYS.items():
    lines += ["", *array_overloads(name, text)]
lines += ["", *(f"{alias} = {name}" for alias, name in registry.ALIASES.items())]
Path(sys.argv[2]).write_text("\n".join(lines) + "\n")
