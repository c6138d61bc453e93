"""Samples of cases alike: always the same ones, and all of them by BITFOLD_WHOLE=1."""

import os


def whole():
    return os.environ.get("BITFOLD_WHOLE", "0") not in ("", "0")


def some_of(cases, one_in):
    """The first two, and of the others one in so many."""
    cases = list(cases)
    return cases if whole() else [*cases[:2], *cases[2 + one_in // 2 :: one_in]]
