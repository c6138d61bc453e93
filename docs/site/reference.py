"""Writes the pages of the reference that are made from the package's docstrings and from the commands' --help.
Usage: reference.py FOLDER BITFOLD   (with the package in PYTHONPATH; BITFOLD is the command line's program)"""
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import bitfold
from bitfold._registry import ALIASES, REGISTRY

#: The functions that are no operations of the registry, in the order in which a reader meets them.
GROUPS = {
    "Several operations at once, segments and keys": ["reduce", "segment_reduce", "reduce_by_key", "index_add"],
    "Functions of rows": ["softmax", "log_softmax", "layer_norm", "rms_norm", "exp"],
    "Products of matrices": ["matmul"],
    "Exact sums as values": ["accumulator"],
    "Comparing and golden files": ["same_bits", "ulp_distance", "record", "check", "BitsMoved"],
    "The order, and what a GPU would do": ["order", "order_version", "explain", "prepare"],
}
#: Of bitfold.torch, where PyTorch is installed.
TORCH = ["deterministic", "enable", "disable", "is_enabled", "NotCovered", "grad_norm", "clip_grad_norm_"]
#: Of bitfold.torch.distributed.
RANKS = {
    "As torch.distributed's": ["all_reduce", "reduce", "reduce_scatter_tensor", "Work"],
    "One array in shares": ["reduce_shares", "grad_norm", "clip_grad_norm_"],
    "Trainings": ["hook", "Accumulation", "shard_gradients", "first_of"],
    "Contributions on one rank": ["reduce_contributions", "Contributions"],
    "What ranks do not agree on": ["Disagreement"],
}
#: What holds for all entries.
SHARED = """The bits of a result depend neither on threads, layout and batch, nor on whether a CPU or a GPU computes it, unless an entry says
otherwise ([semantics.md](../docs/semantics.md)). [results.md](../docs/results.md) has what calls cost.

"""
ROOT = Path(__file__).resolve().parents[2]


def signature(name, thing):
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return name
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", text).replace("(self, ", "(").replace("(self)", "()")


def markdown(docstring):
    """A docstring's paragraphs; a line `name: text` begins an item, and an example is code."""
    out = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring or "")):
        if block.startswith(">>>"):
            out.append(f"```python\n{block}\n```")
            continue
        lines, items = [], 0
        for line in block.splitlines():
            item = re.match(r"((?:[a-z_]+(?:, )?)+|Result|Errors[^:]*|Of no elements): ", line)
            items += bool(item)
            text = line.replace("*", r"\*").replace("<", r"\<")
            lines.append(f"- **{item[1]}**: {text[item.end():]}" if item else ("  " if items else "") + text)
        out.append("\n".join(lines))
    return "\n\n".join(out)


def source(thing):
    """Where a function or class stands, with a link as pages of the reference have it; "" where it was made from the registry."""
    try:
        file = Path(inspect.getsourcefile(thing)).resolve().relative_to(ROOT)
        line = inspect.getsourcelines(thing)[1]
    except (OSError, TypeError, ValueError):
        return ""
    return f"Defined in [{file}](../{file}), line {line}.\n\n" if file.is_relative_to("python") else ""


def of_operation(name):
    """Where the registry's operation of this name is defined."""
    op = ALIASES.get(name, name)
    return f"[The operation](../docs/operations.md#{op}), [its steps](../docs/definitions.md).\n\n" if op in REGISTRY else ""


def members(name, kind, level):
    for member in sorted(n for n in vars(kind) if not n.startswith("_")):
        value = inspect.getattr_static(kind, member)
        yield entry(f"{name}.{member}", getattr(kind, member) if callable(getattr(kind, member)) else value, level)


def entry(name, thing, level):
    """A heading, the signature of what can be called, and the docstring; of a number its value."""
    text = f"{'#' * level} `{name}`\n\n"
    if callable(thing):
        text += f"```python\n{signature(name.rsplit('.')[-1], thing)}\n```\n\n"
    text += (f"{thing}" if isinstance(thing, int) else markdown(thing.__doc__)) + "\n\n"
    if callable(thing) and level <= 3:
        text += (of_operation(name.removeprefix("bitfold.")) or source(thing))
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        text += "".join(members(name, thing, level + 1))
    return text


def python_page():
    grouped = {name for names in GROUPS.values() for name in names}
    public = {n: getattr(bitfold, n) for n in dir(bitfold) if not n.startswith("_") and not inspect.ismodule(getattr(bitfold, n))}
    missing = grouped - public.keys()
    if missing:
        sys.exit(f"reference: the package has no {', '.join(sorted(missing))}")
    text = "# The Python package, function by function\n\nThis page is made from the docstrings. [python.md](../docs/python.md) explains what they share.\n\n" + SHARED
    text += "## Operations\n\n" + "".join(entry(f"bitfold.{n}", f, 3) for n, f in sorted(public.items()) if n not in grouped)
    for title, names in GROUPS.items():
        text += f"## {title}\n\n" + "".join(entry(f"bitfold.{n}", public[n], 3) for n in names)
    text += "## In pytest\n\n"
    text += "[regression.md](../docs/regression.md#pytest) shows the fixture `bits`, which has `check`.\n\n"
    from bitfold.pytest_plugin import Bits

    return text + entry("bits.check", Bits.check, 3)


def listed(prefix, module, names):
    """The entries of all that the module says is public."""
    if set(names) != set(module.__all__):
        sys.exit(f"reference: of {prefix} {', '.join(sorted(set(names) ^ set(module.__all__)))}")
    if bare := [n for n in names if not getattr(module, n).__doc__]:
        sys.exit(f"reference: of {prefix} {', '.join(bare)} have no docstring")
    return {n: entry(f"{prefix}.{n}", getattr(module, n), 3) for n in names}


def torch_page():
    text = "# The PyTorch package, function by function\n\n"
    try:
        torch, ranks = importlib.import_module("bitfold.torch"), importlib.import_module("bitfold.torch.distributed")
    except ImportError:
        return text + "This page was made without PyTorch, and so is empty.\n"
    text += "This page is made from the docstrings. [pytorch.md](../docs/pytorch.md) and [distributed.md](../docs/distributed.md) explain them.\n\n" + SHARED
    text += "## `bitfold.torch`\n\n" + "".join(listed("bitfold.torch", torch, TORCH).values())
    entries = listed("bitfold.torch.distributed", ranks, [n for names in RANKS.values() for n in names])
    for title, names in RANKS.items():
        text += f"## {title}\n\n" + "".join(entries[n] for n in names)
    return text


def numpy_page():
    import bitfold.numpy as space

    text = "# In place of NumPy, function by function\n\n"
    text += "This page is made from the docstrings of `bitfold.numpy`. [python.md](../docs/python.md#in-place-of-numpy) says what is NumPy's own.\n\n" + SHARED
    names = [n for n in space.__all__ if n != "linalg"]
    text += "## The namespace\n\n" + "".join(entry(f"bitfold.numpy.{n}", getattr(space, n), 3) for n in names)
    return text + "## Linear algebra\n\n" + "".join(listed("bitfold.numpy.linalg", space.linalg, space.linalg.__all__).values())


def commands_page(program):
    def help_of(*command):
        return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True).stdout

    overview = help_of()
    text = "# The commands, option by option\n\nThis page is what `--help` prints. [command-line.md](../docs/command-line.md) has examples.\n\n"
    text += f"```text\n{overview}```\n\n"
    for name in re.findall(r"^  (\w+) {2,}", overview.split("Subcommands:")[1], re.M):
        text += f"## `bitfold {name}`\n\n```text\n{help_of(name)}```\n\n"
    return text


def main():
    folder, program = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "python.md").write_text(python_page())
    (Path(folder) / "pytorch.md").write_text(torch_page())
    (Path(folder) / "numpy.md").write_text(numpy_page())
    (Path(folder) / "commands.md").write_text(commands_page(program))


if __name__ == "__main__":
    main()
