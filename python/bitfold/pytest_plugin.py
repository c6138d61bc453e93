"""Golden bits in pytest: a test says what its arrays are called, and fails where a bit of them moves.

    def test_logits(bits):
        bits.check("logits", model(x))

The first run of a test writes what it has checked, says so, and fails; later ones compare. `pytest --bits-update` writes anew what
the tests that ran and passed have checked. The golden file of `test_model.py` is `test_model.bits` beside it: text, in the order
of the tests' names, made to be read in a review.
An array of up to 128 elements stands there whole, every element as the shortest decimal with its bits, or, where no decimal has
them (a NaN with a payload), as these bits in hex. Of a longer one there are a digest, which decides, and its smallest and largest element and
exact sum, for people; its elements are in `test_model.bits.npz`, which tells what moved and by how much (a tolerance needs it).
"""

from __future__ import annotations

import numbers
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitfold
from bitfold import _arrays
from bitfold._compare import NO_DISTANCE
from bitfold._golden_bits import Entry, Golden, Plain, Value, bits_of, digest_of, entry_of, word


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bitfold")
    group.addoption(
        "--bits-update", action="store_true", help="write the golden bits of the tests that run and pass, in place of comparing"
    )
    about = "golden files of this platform's own, test_model.NAME.bits; 'auto' is such as linux-x86_64"
    group.addoption("--bits-platform", metavar="NAME", help=about)
    parser.addini("bits_platform", about)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--bits-update") and hasattr(config, "workerinput"):
        raise pytest.UsageError("--bits-update: one process writes a golden file; run it without -n")
    config.stash[_FILES] = {}
    config.stash[_UNWRITTEN] = []
    config.stash[_PLATFORM] = _platform(config)


def _platform(config: pytest.Config) -> str:
    name = config.getoption("--bits-platform")
    if name is None:
        name = config.getini("bits_platform")
    if name and not re.fullmatch(r"[\w.+-]+", name):
        raise pytest.UsageError(f"--bits-platform: {name!r} is no part of a file's name")
    return f"{sys.platform}-{platform.machine().lower()}" if name == "auto" else name


def pytest_sessionfinish(session: pytest.Session) -> None:
    for golden in session.config.stash.get(_FILES, {}).values():
        try:
            golden.save()
        except Exception as e:  # such as a folder that may not be written: the others are written
            why = f"{golden.path}: not written: {type(e).__name__}: {e}"
            session.config.stash[_UNWRITTEN].append(why)
            golden.recorded.clear()
    if session.config.stash.get(_UNWRITTEN, []) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash.get(_UNWRITTEN, []):
        terminalreporter.write_line(line, red=True)
    for golden in config.stash.get(_FILES, {}).values():
        if golden.recorded:
            terminalreporter.write_line(f"{golden.path}: recorded {_count(len(golden.recorded), 'test')}; commit it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    __tracebackhide__ = True
    result = yield
    if (checker := item.stash.get(_CHECKER, None)) is not None:
        checker.finish()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    checker = item.stash.get(_CHECKER, None)
    if checker is not None and report.when == "call" and report.passed:
        checker.keep()
    return report


@pytest.fixture
def bits(request: pytest.FixtureRequest) -> Bits:
    """Compares arrays with the golden bits of this test: see Bits.check."""
    config = request.config
    update = config.getoption("--bits-update")
    of_platform = config.stash[_PLATFORM]
    path = request.node.path.with_suffix(f".{of_platform}.bits" if of_platform else ".bits")
    files = config.stash[_FILES]
    if path not in files:
        files[path] = Golden(path, update)
    # What the file calls a test does not depend on where pytest was started.
    test = request.node.nodeid.partition("::")[2]
    # Where nobody is there to commit a file, and where several processes would write one, a test that was never recorded fails alone.
    unattended = os.environ.get("CI", "").lower() not in ("", "0", "false") or hasattr(config, "workerinput")
    first = not files[path].of(test) and not unattended
    checker = Bits(files[path], test, update, first and not update)
    request.node.stash[_CHECKER] = checker
    return checker


@dataclass
class Tolerance:
    """How far an element may be from its golden value."""

    ulps: int = 0
    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        if not hasattr(self.ulps, "__index__") or self.ulps < 0:
            raise ValueError(f"ulps: {self.ulps!r} is no number of steps")
        for name in ("rtol", "atol"):
            if not isinstance(value := getattr(self, name), numbers.Real) or not 0 <= value < float("inf"):
                raise ValueError(f"{name}: {value!r} is no tolerance")

    def __bool__(self) -> bool:
        return bool(self.ulps or self.rtol or self.atol)


class Bits:
    """The fixture `bits`."""

    def __init__(self, golden: Golden, test: str, update: bool, first: bool = False) -> None:
        self._golden, self._test, self._update, self._first = golden, test, update, first
        self._seen: dict[str, Value] = {}
        self._made: dict[str, Entry | Plain] = {}  # of an update, and of a first run

    def check(self, name: str, value: Any, *, ulps: int = 0, rtol: float = 0.0, atol: float = 0.0) -> None:
        """Fails the test unless `value` has the golden bits, or lies near them: each element within `ulps` steps of its type, or
        within `atol + rtol * |golden|`, as in NumPy's isclose with a NaN that equals a NaN.

        `value`: an array (NumPy, torch, anything with `__dlpack__`), a number, a string, None, or dicts, lists and tuples of such,
        which are checked as `name/key`; a torch module is its state and gradients, `name/state/...` and `name/grad/...`, and what
        else has a `state_dict` (an optimizer, a scheduler) is that. A dtype or shape that changed, an array that is new, a string
        or None that is another, is a difference at any tolerance; one that is gone is found when the test has passed.

        Errors: ValueError of a tolerance, and where a name was checked before in this test, or two arrays of `value` have one;
        TypeError for what is no array of a type that bitfold has.
        """
        __tracebackhide__ = True
        if not isinstance(name, str):
            raise TypeError(f"name: {name!r} is no string")
        tolerance = Tolerance(ulps, rtol, atol)
        writes = self._update or self._first
        values: dict[str, Value] = {}
        for each, now in _flat(name, value):
            if each in values:
                raise ValueError(f"value: {each!r} is the name of two of its arrays")
            if each in self._seen:
                raise ValueError(f"name: {each!r} was checked before in this test")
            values[each] = now.copy() if writes and isinstance(now, np.ndarray) else now  # a test may go on to change it
        if writes:  # made here, where a fault is this test's
            self._made.update({each: entry_of(now) for each, now in values.items()})
        self._seen.update(values)
        if not writes:
            self._compare(values, tolerance, [each for each in self._golden.of(self._test) if each.startswith(f"{name}/") and each not in self._seen])

    def finish(self) -> None:
        """At the end of a test that passed so far: what it recorded and has not checked is gone, and what was never recorded is."""
        __tracebackhide__ = True
        if self._first and self._made:
            self._golden.put(self._test, self._made)
            values = _count(len(self._made), "value")
            pytest.fail(
                f"{self._golden.path.name} had no bits of {self._test}: {values} recorded. Look at them, commit the file, and run again: "
                "the next run compares",
                pytrace=False,
            )
        elif not self._update:
            self._compare([each for each in self._golden.of(self._test) if each not in self._seen])

    def _compare(self, names: Iterable[str], tolerance: Tolerance | None = None, absent: Iterable[str] = ()) -> None:
        """`absent`: recorded names that may be gone. They are told of beside what moved, and by themselves no earlier than in finish(), as
        a later check may have them."""
        __tracebackhide__ = True
        recorded = self._golden.of(self._test)
        rows = [
            row
            for each in names
            if (row := _moved(each, recorded.get(each), self._seen.get(each, _GONE), tolerance or Tolerance()))
        ]
        if not rows:
            return
        rows += [_moved(each, recorded[each], _GONE, Tolerance()) for each in absent]
        file = self._golden.path.name
        hint = f"{file} has other bits: if they are meant to move, pytest --bits-update"
        if not recorded:
            hint = f"{file} has no bits of {self._test}: nothing was recorded for it. Run it without CI and without -n, and commit {file} and {file}.npz"
        raise bitfold.BitsMoved([hint, *_table(rows)])

    def keep(self) -> None:
        if self._update:
            self._golden.put(self._test, self._made)


_FILES = pytest.StashKey[dict[Path, Golden]]()
_UNWRITTEN = pytest.StashKey[list[str]]()
_PLATFORM = pytest.StashKey[str]()
_CHECKER = pytest.StashKey[Bits]()
_GONE: Any = object()


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


# ---- What is checked -----------------------------------------------------------------------------


def _flat(name: str, value: Any) -> Iterator[tuple[str, Value]]:
    if value is None or isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(f"{name}/{key}", each)
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from _flat(f"{name}/{i}", each)
    elif hasattr(value, "state_dict") and hasattr(value, "named_parameters"):
        yield from _flat(f"{name}/state", value.state_dict())
        yield from _flat(f"{name}/grad", {k: p.grad for k, p in value.named_parameters() if p.grad is not None})
    elif hasattr(value, "state_dict"):
        yield from _flat(name, value.state_dict())
    else:
        yield name, _arrays.host(value, name)


# ---- What moved ----------------------------------------------------------------------------------


def _described(value: Value) -> str:
    return f"{value.dtype.name} {list(value.shape)}" if isinstance(value, np.ndarray) else str(Plain(value))


def _moved(name: str, recorded: Entry | Plain | None, now: Value, tolerance: Tolerance) -> tuple[str, ...] | None:
    """A row of the table, and what else is said of it; None if it is the same."""
    if now is _GONE:
        return name, "gone", "", "", ""
    if recorded is None:
        return name, "new", "", "", _described(now)
    if recorded.same(now):
        return None
    if isinstance(recorded, Plain):
        return name, "other", "", "", f"{recorded} -> {_described(now)}"
    if not isinstance(now, np.ndarray) or (recorded.dtype, recorded.shape) != (now.dtype.name, now.shape):
        return name, "other type", "", "", f"{recorded} -> {_described(now)}"
    if recorded.values is None:
        needed = ", which a tolerance needs," if tolerance else ""
        return name, "bits", "", "", f"digest {recorded.digest} -> {digest_of(now)}; the golden values{needed} are not there"
    return _elements(name, recorded.values, now, tolerance)


def _elements(name: str, golden: np.ndarray, now: np.ndarray, tolerance: Tolerance) -> tuple[str, ...] | None:
    """Of arrays of one type and shape, whose bits differ."""
    was, new = golden.reshape(-1), now.reshape(-1)
    steps = bitfold.ulp_distance(was, new)
    far = bits_of(was) != bits_of(new)
    if tolerance:
        far &= ~_near(was, new, steps, tolerance)
    if not far.any():
        return None
    first, worst = int(np.flatnonzero(far)[0]), int(np.argmax(np.where(far, steps, 0)))
    if not steps[worst]:  # NaNs, or zeros
        worst = first
    said = "no distance" if _apart(was, steps[worst]) else _count(int(steps[worst]), "ulp")
    row = name, said, f"{int(far.sum())} of {now.size}", _place(first, now.shape), f"{word(was[first])} -> {word(new[first])}"
    return *row, f"worst at {_place(worst, now.shape)}: {word(was[worst])} -> {word(new[worst])}{_distances(was[worst], new[worst])}"


def _near(was: np.ndarray, new: np.ndarray, steps: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    apart = _apart(was, steps)
    near = (steps <= tolerance.ulps) & ~apart
    if not (tolerance.rtol or tolerance.atol):
        return near
    wide = was.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = steps if was.dtype.kind in "iub" else np.abs(new.astype(np.float64) - wide)
        return near | (difference <= tolerance.atol + tolerance.rtol * np.abs(wide)) & np.isfinite(wide)


def _apart(was: np.ndarray, steps: Any) -> Any:
    """Where a NaN and a number have no distance; of integers the largest one is a distance like others."""
    return (steps == NO_DISTANCE) & (was.dtype.kind not in "iub")


def _place(at: int, shape: tuple[int, ...]) -> str:
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(at, shape))}]" if shape else "[]"


def _distances(was: Any, now: Any) -> str:
    """The absolute and the relative distance of two floats, in double."""
    a, b = float(was), float(now)
    if was.dtype.kind in "iub" or not (np.isfinite(a) and np.isfinite(b)):
        return ""
    relative = f", relative {abs(b - a) / abs(a):.3g}" if a else ""
    return f", absolute {abs(b - a):.3g}{relative}"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    titles = ("array", "moved", "elements", "first at", "golden -> now")
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(4)]
    lines = []
    for row in [titles, *rows]:
        lines.append("  " + "  ".join([*(c.ljust(w) for c, w in zip(row, widths)), row[4]]).rstrip())
        lines += [f"      {more}" for more in row[5:]]
    return lines
