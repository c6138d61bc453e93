"""The steps of docs/definitions.md give the library's bits."""

import itertools
import re

import numpy as np
import pytest

from bitfold import _arrays, _core
from bitfold._registry import REGISTRY
from definitions import (
    CONSTANTS,
    FLOATS,
    KINDS,
    KINDS_OF_EXPONENTIALS,
    ROOT,
    TYPES,
    book,
    drawn,
    stored,
)

#: Of what takes long in Python, exponentials, the first few.
LENGTHS = (1, 2, 3, 6, 33, 64, 97, 257, 290, 600)
DRAWS = {True: 3, False: 1}  # of floats, of integers


def choices(op, t):
    """All that the operation takes of elements of this type: method, accumulator and output type,
    or None."""
    info, is_float = REGISTRY[op], t in FLOATS
    methods = ["tree", "pairwise", "kahan", "sequential"] if info["takes_method"] else [None]
    to = ["f64"] if is_float and info["takes_acc"] and info["types"] != "wide" else []
    outs = [None]
    if info["takes_dtype"]:
        outs += FLOATS if is_float or info["types"] != "additive" else TYPES
    for method in methods:
        yield from itertools.product([method], [None, *to], outs)
    if info["has_exact"]:
        yield from itertools.product(["exact"], [None], outs)


def settled(op, t, acc, out):
    """The types that stand for None: docs/operations.md, "Types"."""
    types, is_float = REGISTRY[op]["types"], t in FLOATS
    wide = types == "wide" or (types == "real" and not is_float)
    acc = acc or (
        "f64" if wide or t == "f64" else "f32" if is_float else "i64" if t[0] == "i" else "u64"
    )
    given = {
        "additive": t if is_float else acc,
        "real": t if is_float else "f64",
        "wide": t if is_float else "f64",
        "same": t,
        "place": "i64",
        "count": "i64",
        "truth": "u8",
    }
    return acc, out or given[types]


def by_the_library(op, x, y, method, acc, out, ddof, call=_core.reduce):
    describe = _arrays.NUMPY.describe
    made = np.asarray(
        call(
            _core.Request(op, method, acc, out, ddof),
            describe(x, "x"),
            None if y is None else describe(y, "y"),
            None,
            False,
            _arrays.RESULTS,
        )
    )
    return int(made.view(f"u{made.itemsize}")[()])


def by_the_book(op, x, y, t, method, acc, out, ddof):
    width = 8 * np.dtype(TYPES[out]).itemsize
    return (
        book["result"](op, stored(x), None if y is None else stored(y), t, method, acc, out, ddof)
        % 2**width
    )


def expect_same(op, t, x, y, method, acc, out, ddof, about):
    acc, out = settled(op, t, acc, out)
    if REGISTRY[op]["types"] == "additive" and t not in FLOATS and out in FLOATS and method != "exact":
        return  # Python adds those exactly
    want = by_the_book(op, x, y, t, method, acc, out, ddof)
    if acc not in ("f32", "f64") or method == "exact" or not REGISTRY[op]["takes_acc"]:
        acc = None
    for call in _core.reduce, _core._reference:
        got = by_the_library(op, x, y, method, acc, out, ddof, call)
        assert got == want, (op, t, method, acc, out, about, hex(got), hex(want))


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("op", REGISTRY)
def test_the_steps_give_the_bits(op, t):
    """Every choice there is, a few times, of other lengths and kinds of elements each."""
    of_exponentials = op in ("logsumexp", "softmax_denominator")
    kinds, lengths = (KINDS_OF_EXPONENTIALS, LENGTHS[:7]) if of_exponentials else (KINDS, LENGTHS)
    all_choices = [*choices(op, t)]
    rng = np.random.default_rng([*op.encode(), *t.encode()])
    for (method, acc, out), _ in itertools.product(all_choices, range(DRAWS[t in FLOATS])):
        kind, n, seed = str(rng.choice(kinds)), int(rng.choice(lengths)), int(rng.integers(2**32))
        x = drawn(kind, n, t, seed)
        y = drawn(kind, n, t, seed + 1) if REGISTRY[op]["inputs"] == 2 else None
        expect_same(
            op,
            t,
            x,
            y,
            method,
            acc,
            out,
            seed % 4 if REGISTRY[op]["takes_ddof"] else 0,
            (kind, n, seed),
        )


@pytest.mark.parametrize(
    "op, t, method, out, kind, lengths",
    [
        (
            "dot",
            "f32",
            "kahan",
            "f64",
            "cancelling",
            (64, 97, 290),
        ),  # whose result shows the errors' last bits
        ("norm_l2", "f64", "tree", "f64", "scales", (3, 33, 97)),
        ("norm_l2", "f64", "kahan", "f64", "scales", (3, 33)),
        ("softmax_denominator", "f64", None, "f64", "near", (2, 3)),
        ("softmax_denominator", "f32", None, "f32", "near", (2, 3)),
        ("logsumexp", "f64", None, "f64", "near", (2, 3)),
        ("logsumexp", "f32", None, "f64", "near", (2, 33)),
    ],
)
def test_steps_that_show_seldom(op, t, method, out, kind, lengths):
    for seed in range(40):
        n = lengths[seed % len(lengths)]
        x = drawn(kind, n, t, seed)
        y = drawn(kind, n, t, seed + 1) if REGISTRY[op]["inputs"] == 2 else None
        expect_same(op, t, x, y, method, None, out, 0, (kind, n, seed))


@pytest.mark.parametrize(
    "op, t, method, out, x, y",
    [
        (
            "mean",
            "f64",
            "kahan",
            "f32",
            [np.finfo("f8").max, 2.0**969, 2.0**969],
            None,
        ),  # an infinity before it is divided
        ("dot", "f32", "exact", "f32", [-0.0, 0.0], [1, -1]),  # -0
        ("dot", "f32", "exact", "f32", [-0.0, 0.0], [1, 1]),
        ("dot", "i32", "exact", "f64", [-5], [0]),  # no -0
        ("norm_l2", "f64", "exact", "f16", [2049, 2.0**-100], None),  # next to a tie
        ("norm_l2", "f64", "exact", "f16", [2049, 0], None),
        ("mean", "f64", "tree", "f16", [4098, 2.0**-40], None),
        ("sum", "f64", "kahan", "f16", [2049, 2.0**-100], None),
        ("sum", "f64", "kahan", "f32", [2049, -(2.0**-100)], None),
    ],
)
def test_by_hand(op, t, method, out, x, y):
    expect_same(
        op,
        t,
        np.array(x, TYPES[t]),
        None if y is None else np.array(y, TYPES[t]),
        method,
        None,
        out,
        0,
        x,
    )


@pytest.mark.parametrize("op", REGISTRY)
def test_no_elements(op):
    for t in TYPES:
        x = np.empty(0, TYPES[t])
        for method, acc, out in choices(op, t):
            if op in book["REFUSED"]:
                with pytest.raises(ValueError, match="not defined"):
                    by_the_library(op, x, None, method, acc, out, 0)
            else:
                expect_same(
                    op,
                    t,
                    x,
                    x if REGISTRY[op]["inputs"] == 2 else None,
                    method,
                    acc,
                    out,
                    0,
                    "nothing",
                )


def test_the_constants_are_those_of_the_source():
    source = "".join(
        (ROOT / "include" / "bitfold" / name).read_text() for name in ("arith.hpp", "arith.inl")
    )
    number = r"[-+0-9a-fxp.]+(?: / [0-9.]+)?"

    def value(text):
        top, _, bottom = text.partition(" / ")
        top = float.fromhex(top) if "x" in top else float(top)
        return top / float(bottom) if bottom else top

    def same(source_texts, page, A):
        assert [float(A(value(text))) for text in source_texts] == [float.fromhex(c) for c in page]

    polynomials = [
        re.findall(number, p) for p in re.findall(r"polynomial\((?:r|q2), ([^)]*)\)", source)
    ]
    series, narrow, wide = sorted(polynomials, key=lambda p: ("/" not in p[0], len(p)))
    same(series, CONSTANTS["log"]["f64"]["series"], np.float64)
    same(narrow, CONSTANTS["exp"]["f32"]["polynomial"], np.float32)
    same(wide, CONSTANTS["exp"]["f64"]["polynomial"], np.float64)
    for name, pattern in (
        ("ln2_high", f"ln2_high =\\s.*?\\? ({number}) : ({number})"),
        ("ln2_low", f"ln2_low =\\s.*?\\? ({number})\\s*: ({number})"),
        ("floor", f"exp_floor = .*?\\? ({number}) : ({number})"),
        ("shift", f"narrow \\? ({number}) : ({number})"),
    ):
        ((f32, f64),) = re.findall(pattern, source, re.DOTALL)
        same([f32], [CONSTANTS["exp"]["f32"][name]], np.float32)
        same([f64], [CONSTANTS["exp"]["f64"][name]], np.float64)
    (log2_e,) = re.findall(rf"fma\(\w+, constant\(x, ({number})\)", source)
    same([log2_e], [CONSTANTS["exp"]["f32"]["log2_e"]], np.float32)
    same([log2_e], [CONSTANTS["exp"]["f64"]["log2_e"]], np.float64)
    assert all(
        CONSTANTS["log"]["f64"][name] == CONSTANTS["exp"]["f64"][name]
        for name in ("ln2_high", "ln2_low")
    )
