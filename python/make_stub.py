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
from bitfold import _registry as registry  # noqa: E402

TYPES = {"x": "Any", "y": "Any", "axis": "int | tuple[int, ...] | None", "keepdims": "bool", "ddof": "int", "correction": "float | None",
         "method": "str | None", "acc": "Any", "dtype": "Any", "out": "Any"}


def typed(signature):
    for name, kind in TYPES.items():
        signature = signature.replace(f" {name}=", f" {name}: {kind} = ")
    return signature.replace("(x, ", "(x: Any, ", 1).replace(" y, ", " y: Any, ", 1)


lines = ["from typing import Any", ""]
for statement in ast.parse((here / "__init__.py").read_text()).body:
    if isinstance(statement, ast.ImportFrom):
        names = [a.asname or a.name for a in statement.names if a.name != "FUNCTIONS"]
        given = [f"{a.name} as {n}" for a, n in zip([a for a in statement.names if a.name != "FUNCTIONS"], names)]
        lines.append(f"from .{statement.module} import {', '.join(given)}")
for op in registry.REGISTRY.values():
    text = registry.docstring(op).replace("\n", "\n    ")
    lines += ["", f'def {op["name"]}{typed(str(registry.signature(op)))} -> Any:', f'    """{text}"""']
lines += ["", *(f"{alias} = {name}" for alias, name in registry.ALIASES.items())]
Path(sys.argv[2]).write_text("\n".join(lines) + "\n")
