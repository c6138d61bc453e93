"""The type stubs: that they parse, and have every public function with its parameters."""

import ast
import inspect
import os
from pathlib import Path

import pytest

import bitfold
from bitfold._registry import REGISTRY

STUBS = Path(bitfold._core.__file__).parent


def parameters_of(definition):
    """Of a function's definition: name, kind and default of each parameter, as inspect.signature has them."""
    space = {}
    definition.body, definition.decorator_list, definition.returns = [ast.Pass()], [], None
    for a in ast.walk(definition.args):
        if isinstance(a, ast.arg):
            a.annotation = None
    exec(compile(ast.fix_missing_locations(ast.Module([definition], [])), "stub", "exec"), space)
    return plain(inspect.signature(space[definition.name]))


def plain(signature):
    return [(p.name, p.kind, p.default) for p in signature.parameters.values()]


def test_stubs_have_every_public_function():
    defined, known, documented = {}, set(), set()
    for statement in ast.parse((STUBS / "__init__.pyi").read_text()).body:
        if isinstance(statement, ast.FunctionDef):  # several of each name: of the kinds of arrays
            if text := ast.get_docstring(statement):
                assert text == inspect.getdoc(getattr(bitfold, statement.name))
                documented.add(statement.name)
            parameters = parameters_of(statement)
            assert defined.setdefault(statement.name, parameters) == parameters
        elif isinstance(statement, ast.ImportFrom):
            known |= {a.asname or a.name for a in statement.names}
        elif isinstance(statement, ast.Assign) and getattr(statement.value, "id", None) in defined:
            defined[statement.targets[0].id] = defined[statement.value.id]
    assert set(bitfold.__all__) <= known | set(defined)
    assert set(REGISTRY) <= documented
    for name, parameters in defined.items():
        assert parameters == plain(inspect.signature(getattr(bitfold, name))), name


USES = """
from typing import Any
import numpy as np
from numpy.typing import NDArray
import bitfold

class Tensor:
    def __dlpack__(self, *, stream: int | None = None) -> object: ...

x = np.ones((2, 3), np.float32)
a: float = float(bitfold.sum(x, method="kahan"))
b: NDArray[Any] = bitfold.var(x, axis=0, ddof=1, method="exact")
c: NDArray[Any] = bitfold.max([[1, 2]], keepdims=True)
d: np.bool_ = bitfold.any(x)
e: Tensor = bitfold.dot(Tensor(), Tensor(), dim=-1)
g: NDArray[Any] = bitfold.softmax(x)
h: Tensor = bitfold.layer_norm(Tensor(), weight=Tensor())
i: NDArray[Any] = bitfold.rms_norm([[1.0, 2.0]], dim=0)
j: Tensor = bitfold.matmul(Tensor(), Tensor(), method="kahan")
k: float = bitfold.matmul(x[0], x[0])
l: NDArray[Any] = bitfold.reduce(x, ("std", {"ddof": 1}), axis=0)
m, n = bitfold.reduce(x, ["sum", ("std", {"ddof": 1})])
o: tuple[NDArray[Any], ...] = bitfold.reduce(x, ["sum", "any"], axis=0)
p: tuple[Tensor, ...] = bitfold.reduce(Tensor(), ["sum"])
q: NDArray[Any] = bitfold.segment_reduce(x[0], [0, 1, 3])
r: tuple[Tensor, ...] = bitfold.reduce_by_key(Tensor(), Tensor(), 3, ["sum", "max"])
s: Tensor = bitfold.index_add(Tensor(), Tensor(), 3, method="exact")
"""
MISUSES = ['bitfold.sum(x, method="kahn")', 'bitfold.var(x, method="kahan")', "bitfold.max(x, dtype=np.float32)", "bitfold.sum(object())",
           "f: list[int] = bitfold.sum(x, axis=0)", "t: NDArray[Any] = bitfold.sum(Tensor(), axis=0)", "u: NDArray[Any] = bitfold.softmax(Tensor())",
           "bitfold.matmul(x, x, method='fast')", "bitfold.reduce(x, 3)", "v: NDArray[Any] = bitfold.reduce(x, ['sum'], axis=0)",
           "w: Tensor = bitfold.reduce_by_key(x, [0, 1], 2)"]  # fmt: skip


def test_what_a_type_checker_says_of_them(tmp_path):
    api = pytest.importorskip("mypy.api", reason="skipped: no mypy")
    (tmp_path / "use.py").write_text(USES + "\n".join(MISUSES))
    package = tmp_path / "bitfold"  # the stubs alone, as of an installed package
    package.mkdir()
    for name in ("__init__.pyi", "_core.pyi"):
        (package / name).write_text((STUBS / name).read_text())
    options = ["--follow-imports=silent", "--ignore-missing-imports", "--no-incremental", "--cache-dir", str(tmp_path / "cache")]
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        said, _, _ = api.run([*options, "use.py"])
    finally:
        os.chdir(before)
    lines = {int(line.split(":")[1]) for line in said.splitlines() if line.startswith("use.py:") and ": error:" in line}
    first = USES.count("\n") + 1
    assert lines == set(range(first, first + len(MISUSES))), said


def test_functions_of_the_numpy_namespace_have_types_and_texts():
    import bitfold.numpy

    for space in (bitfold.numpy, bitfold.numpy.linalg):
        for name in space.__all__:
            if inspect.isfunction(function := getattr(space, name)):
                assert "return" in function.__annotations__ and function.__doc__, name


def test_stubs_of_the_compiled_module():
    tree = ast.parse((STUBS / "_core.pyi").read_text())
    names = {s.name for s in tree.body if isinstance(s, (ast.ClassDef, ast.FunctionDef))}
    assert {name for name, of in vars(bitfold._core).items() if callable(of) and not name.startswith("_")} <= names
    for wanted, function in (("check", "reduce_segments"), ("check", "reduce_by_key")):
        definition = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == function)
        assert wanted in [a.arg for a in definition.args.args]
