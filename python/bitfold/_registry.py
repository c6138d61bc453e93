"""The library's registry of operations as Python functions: their parameters and docstrings. (Without NumPy: the type stubs are
made of it at build time.)"""

from . import _core

REGISTRY = {op["name"]: op for op in _core.ops()}
#: Other names that NumPy and the array API have.
ALIASES = {"amax": "max", "amin": "min"}


def options(op: dict) -> dict[str, str]:
    """What the operation's function takes besides x, y, axis, keepdims and out, with the defaults."""
    taken = {}
    if op["takes_dtype"]:
        taken["dtype"] = "None"
    if op["takes_ddof"]:
        taken |= {"ddof": "0", "correction": "None"}
    if op["takes_method"] or op["has_exact"]:
        taken["method"] = "'tree'" if op["takes_method"] else "None"
    if op["takes_acc"]:
        taken["acc"] = "None"
    return taken


def signature(op: dict) -> str:
    taken = "".join(f"{name}={default}, " for name, default in options(op).items())
    return f"x, {'y, ' * (op['inputs'] == 2)}/, *, axis=None, keepdims=False, {taken}out=None"


_TYPES = {
    "additive": "of floats the type of x, or any float type by `dtype`; of integers int64 or uint64 (modulo 2^64), of bool int64",
    "real": "of floats the type of x, of integers float64; any float type by `dtype`",
    "wide": "of floats the type of x, of integers float64; any float type by `dtype`",
    "same": "that of x",
    "place": "int64",
    "count": "int64",
    "truth": "bool",
}


def docstring(op: dict) -> str:
    two = op["inputs"] == 2
    lines = [f"{op['summary'][0].upper()}{op['summary'][1:]}, along the axes.", ""]
    lines += [f"x{', y' if two else ''}: array{'s that broadcast, of one type' if two else ''}; axis: an int, a tuple, or None for all axes.",
              f"Result: type {_TYPES[op['types']]}.", f"Of no elements: {op['empty']}." if op["empty"] != "refused" else
              "Of no elements: ValueError."]
    if op["takes_acc"]:
        lines.append("acc: the accumulator, float32 or float64 (default: float64 for float64, float32 for narrower floats).")
    if op["takes_method"]:
        lines.append(f"method: {', '.join(m['name'] for m in _core.methods() if op['has_exact'] or m['name'] != 'exact')}.")
    elif op["has_exact"]:
        lines.append("method: None, or exact.")
    if op["takes_ddof"]:
        lines.append("ddof: what is subtracted from the number of elements; correction: the array API's name of it.")
    lines.append("Errors: TypeError and ValueError, naming the argument. docs/operations.md defines the operation.")
    return "\n".join(lines)
