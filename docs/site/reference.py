"""Writes the pages of the reference that are made from the package's docstrings and from the commands' --help.
Usage: reference.py FOLDER BITFOLD   (with the package in PYTHONPATH; BITFOLD is the command line's program)"""
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import bitfold

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
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        text += "".join(members(name, thing, level + 1))
    return text


def python_page():
    grouped = {name for names in GROUPS.values() for name in names}
    public = {n: getattr(bitfold, n) for n in dir(bitfold) if not n.startswith("_") and not inspect.ismodule(getattr(bitfold, n))}
    missing = grouped - public.keys()
    if missing:
        sys.exit(f"reference: the package has no {', '.join(sorted(missing))}")
    text = "# The Python package, function by function\n\nThis page is made from the docstrings. [python.md](../docs/python.md) explains what they share.\n\n"
    text += "## Operations\n\n" + "".join(entry(f"bitfold.{n}", f, 3) for n, f in sorted(public.items()) if n not in grouped)
    for title, names in GROUPS.items():
        text += f"## {title}\n\n" + "".join(entry(f"bitfold.{n}", public[n], 3) for n in names)
    try:
        torch = importlib.import_module("bitfold.torch")
    except ImportError:
        return text
    return text + "## PyTorch\n\n" + "".join(entry(f"bitfold.torch.{n}", getattr(torch, n), 3) for n in TORCH)


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
    (Path(folder) / "commands.md").write_text(commands_page(program))


if __name__ == "__main__":
    main()
