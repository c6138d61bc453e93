"""The type stubs: that they parse, and have every public function with its parameters."""

import ast
import inspect
from pathlib import Path

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
    defined, known = {}, set()
    for statement in ast.parse((STUBS / "__init__.pyi").read_text()).body:
        if isinstance(statement, ast.FunctionDef):
            assert ast.get_docstring(statement) == inspect.getdoc(getattr(bitfold, statement.name))
            defined[statement.name] = parameters_of(statement)
        elif isinstance(statement, ast.ImportFrom):
            known |= {a.asname or a.name for a in statement.names}
        elif isinstance(statement, ast.Assign):
            defined[statement.targets[0].id] = defined[statement.value.id]
    assert set(bitfold.__all__) <= known | set(defined)
    assert set(REGISTRY) <= set(defined)
    for name, parameters in defined.items():
        assert parameters == plain(inspect.signature(getattr(bitfold, name))), name


def test_stubs_of_the_compiled_module():
    tree = ast.parse((STUBS / "_core.pyi").read_text())
    names = {s.name for s in tree.body if isinstance(s, (ast.ClassDef, ast.FunctionDef))}
    assert {name for name, of in vars(bitfold._core).items() if callable(of) and not name.startswith("_")} <= names
    for wanted, function in (("check", "reduce_segments"), ("check", "reduce_by_key")):
        definition = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == function)
        assert wanted in [a.arg for a in definition.args.args]
