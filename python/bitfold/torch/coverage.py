"""What is covered, what torch does deterministically by itself, and what is neither: the tables of docs/pytorch.md.

    python -m bitfold.torch.coverage [--write docs/pytorch.md]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from ._collectives import MADE_OF_REDUCTIONS, NO_ARITHMETIC, REDUCTIONS
from ._mode import ACCUMULATING
from ._overrides import BY_A_NUMBER, COMPOSITE, HEADINGS
from ._strict import (
    BY_PLACE, EXACT_OF_COMPLEX, IN_SOME_CALLS, INDEPENDENT, NOT_COVERED, OF_INTEGERS,
)  # fmt: skip

BEGIN, END = "<!-- bitfold.torch.coverage -->\n", "<!-- end -->"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def tables() -> str:
    """In Markdown."""
    lines = ["| covered | operators of `aten`, each with its `out` and in-place forms |", "|---|---|"]
    lines += [f"| {text} | {_names(names)} |" for text, names in HEADINGS.items()]
    lines += [f"| with `accumulate=True` | {_names(ACCUMULATING)} |"]
    lines += [f"| made of others | {_names(COMPOSITE)} |", f"| on CUDA, by a number | {_names(BY_A_NUMBER)} |"]
    lines += [f"| over ranks, of a contribution of each ([which](distributed.md#in-pytorchs-mode)) | {_names((*REDUCTIONS, *MADE_OF_REDUCTIONS))} |", ""]
    lines += ["| torch's own, bits of each element by itself | |", "|---|---|"]
    marked = "all that torch marks so (`torch.Tag.pointwise`), and of lists (`_foreach_`)"
    lines += [f"| elementwise | {marked} |"]
    lines += ["| views, and their copies (`_copy`) | all |"]
    lines += [f"| {text} | {_names(names)} |" for text, names in INDEPENDENT.items()]
    lines += [f"| {text} | {_names(names)} |" for text, names in NO_ARITHMETIC.items()]
    lines += [f"| of integers and bool, exact in whatever order | {_names((*OF_INTEGERS, *REDUCTIONS))} |"]
    lines += [f"| {text} | {_names(names)} |" for text, (names, _) in IN_SOME_CALLS.items()]
    lines += ["", "| of these, on CPUs an element's bits may depend on its place: `strict` refuses them there | |", "|---|---|"]
    lines += [f"| {text} | {_names(names)} |" for text, (names, _) in BY_PLACE.items()]
    lines += [f"| of complex numbers, all but | {_names(EXACT_OF_COMPLEX)} |"]
    lines += ["", "| not covered | among others | what is promised |", "|---|---|---|"]
    lines += [f"| {text} | {_names(names)} | {known} |" for text, (names, known) in NOT_COVERED.items()]
    return "\n".join(lines) + "\n"


def put_into(text: str) -> str:
    """The page with the tables of this version. Errors: ValueError where it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"text: no line {BEGIN.strip()}, or none that ends it")
    return before + begin + tables() + end + after


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bitfold.torch.coverage", description="what bitfold.torch covers")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put it into this page")
    page = parser.parse_args().write
    if page is None:
        print(tables(), end="")
    else:
        page.write_text(put_into(page.read_text()))


if __name__ == "__main__":
    main()
