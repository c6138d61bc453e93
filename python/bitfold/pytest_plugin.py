"""Golden bits in pytest: a test says what its arrays are called, and fails where a bit of them moves.

    def test_logits(bits):
        bits.check("logits", model(x))

`pytest --bits-update` writes what the tests that ran and passed have checked; without it they are compared. The golden
file of `test_model.py` is `test_model.bits` beside it: text, in the order of the tests' names, made to be read in a review.
An array of up to 128 elements stands there whole, every element as the shortest decimal with its bits, or, where no decimal has
them (a NaN with a payload), as these bits in hex. Of a longer one there are a digest, which decides, and its smallest and largest element and
exact sum, for people; its elements are in `test_model.bits.npz`, which tells what moved and by how much (`ulps` needs it).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitfold
from bitfold import _arrays, _core
from bitfold._compare import farthest, write_whole

HEADER = "# bitfold bits 1. Written by `pytest --bits-update`, order version {order}: read what changed before you commit it.\n"
WHOLE = 128  # elements: an array of more is a digest
PER_LINE = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("bitfold").addoption(
        "--bits-update", action="store_true", help="write the golden bits of the tests that run and pass, in place of comparing"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--bits-update") and hasattr(config, "workerinput"):
        raise pytest.UsageError("--bits-update: one process writes a golden file; run it without -n")
    config.stash[_FILES] = {}
    config.stash[_UNWRITTEN] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    for golden in session.config.stash.get(_FILES, {}).values():
        try:
            golden.save()
        except Exception as e:  # such as a folder that may not be written: the others are written
            why = f"{golden.path}: not written: {type(e).__name__}: {e}"
            session.config.stash[_UNWRITTEN].append(why)
    if session.config.stash.get(_UNWRITTEN, []) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash.get(_UNWRITTEN, []):
        terminalreporter.write_line(line, red=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    __tracebackhide__ = True
    result = yield
    if (checker := item.stash.get(_CHECKER, None)) is not None:
        checker.compare_rest()
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
    path = request.node.path.with_suffix(".bits")
    files = config.stash[_FILES]
    if path not in files:
        files[path] = Golden(path, update)
    # What the file calls a test does not depend on where pytest was started.
    test = request.node.nodeid.partition("::")[2]
    checker = Bits(files[path], test, update)
    request.node.stash[_CHECKER] = checker
    return checker


class Bits:
    """The fixture `bits`."""

    def __init__(self, golden: Golden, test: str, update: bool) -> None:
        self._golden, self._test, self._update = golden, test, update
        self._seen: dict[str, np.ndarray] = {}
        self._made: dict[str, Entry] = {}  # of an update

    def check(self, name: str, value: Any, *, ulps: int = 0) -> None:
        """Fails the test unless `value` has the golden bits, or with `ulps` lies within so many steps of them.

        `value`: an array (NumPy, torch, anything with `__dlpack__`), a number, or dicts, lists and tuples of such, which are
        checked as `name/key`; a torch module is its state and gradients, `name/state/...` and `name/grad/...`. A dtype or shape that
        changed, an array that is new, is a difference at any `ulps`; one that is gone is found when the test has passed.

        Errors: ValueError of `ulps`, and where a name was checked before in this test, or two arrays of `value` have one; TypeError for what
        is no array of a type that bitfold has.
        """
        __tracebackhide__ = True
        if not isinstance(name, str):
            raise TypeError(f"name: {name!r} is no string")
        if not hasattr(ulps, "__index__") or ulps < 0:
            raise ValueError(f"ulps: {ulps!r} is no number of steps")
        arrays: dict[str, np.ndarray] = {}
        for each, array in _flat(name, value):
            if each in arrays:
                raise ValueError(f"value: {each!r} is the name of two of its arrays")
            if each in self._seen:
                raise ValueError(f"name: {each!r} was checked before in this test")
            arrays[each] = array.copy() if self._update else array  # a test may go on to change it
        if self._update:  # made here, where a fault is this test's
            self._made.update({each: Entry.of(array) for each, array in arrays.items()})
        self._seen.update(arrays)
        if self._update:
            return
        self._compare(arrays, ulps)

    def compare_rest(self) -> None:
        """At the test's end: what it recorded and has not checked is gone."""
        __tracebackhide__ = True
        if not self._update:
            self._compare([each for each in self._golden.of(self._test) if each not in self._seen])

    def _compare(self, names: Iterable[str], ulps: int = 0) -> None:
        __tracebackhide__ = True
        recorded = self._golden.of(self._test)
        rows = [row for each in names if (row := _moved(each, recorded.get(each), self._seen.get(each), ulps))]
        if not rows:
            return
        hint = f"{self._golden.path.name} has other bits" if recorded else f"{self._golden.path.name} has no bits of {self._test}"
        raise bitfold.BitsMoved([f"{hint}: if they are meant to move, pytest --bits-update", *_table(rows)])

    def keep(self) -> None:
        if self._update:
            self._golden.put(self._test, self._made)


_FILES = pytest.StashKey[dict[Path, "Golden"]]()
_UNWRITTEN = pytest.StashKey[list[str]]()
_CHECKER = pytest.StashKey[Bits]()


# ---- What is checked -----------------------------------------------------------------------------


def _flat(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(f"{name}/{key}", each)
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from _flat(f"{name}/{i}", each)
    elif hasattr(value, "state_dict") and hasattr(value, "named_parameters"):
        yield from _flat(f"{name}/state", value.state_dict())
        yield from _flat(f"{name}/grad", {k: p.grad for k, p in value.named_parameters() if p.grad is not None})
    else:
        yield name, _arrays.host(value, name)


# ---- The golden file -----------------------------------------------------------------------------


@dataclass
class Entry:
    """An array as the golden file has it; `values` is None where they were not found."""

    dtype: str
    shape: tuple[int, ...]
    digest: str | None  # None: the values are in the text
    about: str
    values: np.ndarray | None

    @classmethod
    def of(cls, array: np.ndarray) -> Entry:
        if array.size <= WHOLE:
            return cls(array.dtype.name, array.shape, None, "", array)
        return cls(array.dtype.name, array.shape, _digest(array), _about(array), array)

    def same(self, array: np.ndarray) -> bool:
        if (self.dtype, self.shape) != (array.dtype.name, array.shape):
            return False
        return _digest(array) == self.digest if self.digest else self.values.tobytes() == array.tobytes()


def _digest(array: np.ndarray) -> str:
    return _core.digest(_arrays.row_major(array))


def _about(array: np.ndarray) -> str:
    """For people: what a reviewer sees of a long array beside its digest."""
    low, high = bitfold.reduce(array, ["min", "max"])
    return f"min {low} max {high} sum {bitfold.sum(array, method='exact')}"


class Golden:
    """The golden files of one test module: the text, and the values of its long arrays."""

    def __init__(self, path: Path, update: bool) -> None:
        self.path, self.values_path = path, path.with_name(path.name + ".npz")
        self.changed = False
        self.tests: dict[str, dict[str, Entry]] = {}
        if path.exists():
            self._read(update)

    def of(self, test: str) -> dict[str, Entry]:
        return self.tests.get(test, {})

    def put(self, test: str, entries: dict[str, Entry]) -> None:
        self.tests[test] = entries
        self.changed = True

    def save(self) -> None:
        if not self.changed:
            return
        lines = [HEADER.format(order=bitfold.order_version)]
        sidecar = {}
        for test in sorted(self.tests):
            lines.append(f"\n{test}\n")
            for name, e in self.tests[test].items():
                lines.append(f"  {json.dumps(name)} {e.dtype} {list(e.shape)}")
                if e.digest:
                    lines.append(f" digest {e.digest}" + (f" # {e.about}" if e.about else ""))
                    if e.values is not None:
                        sidecar[f"{test}\n{name}"] = _bits_of(e.values)
                lines.append("\n")
                if not e.digest:
                    words = [_word(x) for x in e.values.reshape(-1)]
                    lines += ["    " + " ".join(words[i : i + PER_LINE]) + "\n" for i in range(0, len(words), PER_LINE)]
        files = {self.path: "".join(lines).encode()}
        if sidecar:
            packed = io.BytesIO()
            np.savez_compressed(packed, **{f"{i:04}": v for i, v in enumerate(sidecar.values())}, names=np.array(list(sidecar)))
            files[self.values_path] = packed.getvalue()
        write_whole(files)
        if not sidecar:
            self.values_path.unlink(missing_ok=True)

    def _values(self) -> dict[str, np.ndarray]:
        """The sidecar, or nothing where there is none that can be read (damaged, a pointer of Git LFS): the digests decide."""
        try:
            with np.load(self.values_path) as packed:
                return {str(name): packed[f"{i:04}"] for i, name in enumerate(packed["names"])}
        except Exception:  # whatever zipfile, zlib and NumPy raise
            return {}

    def _refused(self, where: str, why: str) -> pytest.UsageError:
        return pytest.UsageError(f"{self.path}{where}: {why}. Mend it, or delete the file and record all of its tests: pytest --bits-update")

    def _read(self, update: bool) -> None:
        try:
            header, *lines = self.path.read_text(encoding="utf-8").splitlines() or [""]
        except UnicodeDecodeError as e:
            raise self._refused("", f"no text in UTF-8: {e}") from e
        if not header.startswith("# bitfold bits 1."):
            raise pytest.UsageError(f"{self.path}:1: no golden file of bitfold's, or of a version that this one does not know")
        if f"order version {bitfold.order_version}:" not in header:
            if update:
                return  # nothing that it holds is of this order
            raise pytest.UsageError(f"{self.path}:1: recorded with another order version: pytest --bits-update")
        values = self._values()
        test, words = "", None
        pending: list[tuple[int, Entry, list[str]]] = []
        for number, line in enumerate(lines, 2):
            if not line.strip() or line.startswith("#"):
                continue
            elif not line.startswith(" "):
                if line.startswith(("<<<<<<<", "|||||||", "=======", ">>>>>>>")) or line in self.tests:
                    raise self._refused(f":{number}", f"what a merge left, or a test for the second time: {line!r}")
                test, words = line, None
                self.tests[test] = {}
            elif line.startswith("    "):
                if words is None:
                    raise self._refused(f":{number}", f"values of no array: {line.strip()!r}")
                words.extend(line.split())
            else:
                try:
                    name, end = json.JSONDecoder().raw_decode(line.strip())
                    described, _, about = line.strip()[end:].partition("#")
                    fields = described.split(" digest ")
                    dtype, _, shape = fields[0].strip().partition(" ")
                    digest = fields[1].strip() if len(fields) == 2 else None
                    extents = json.loads(shape)
                    if not isinstance(name, str) or name in self.tests[test]:
                        raise ValueError(name)
                    if not isinstance(extents, list) or any(type(n) is not int or n < 0 for n in extents):
                        raise ValueError(shape)
                    entry = Entry(dtype, tuple(extents), digest, about.strip(), None)
                    _dtype(dtype)
                except (ValueError, TypeError, IndexError, KeyError) as e:
                    raise self._refused(f":{number}", f"no line of a golden file: {line.strip()!r}") from e
                self.tests[test][name] = entry
                if digest:
                    words = None
                    entry.values = _of_digest(values.get(f"{test}\n{name}"), entry)
                else:
                    words = []
                    pending.append((number, entry, words))
        for number, entry, words in pending:
            try:
                entry.values = _parse(words, _dtype(entry.dtype)).reshape(entry.shape)
            except (ValueError, TypeError, KeyError, OverflowError) as e:
                raise self._refused(f":{number}", f"these are no values of {entry.dtype} {list(entry.shape)}: {e}") from e


def _of_digest(kept: np.ndarray | None, entry: Entry) -> np.ndarray | None:
    """What the sidecar kept, if it is what the text tells of, and not of another commit."""
    try:
        array = kept.view(_dtype(entry.dtype)).reshape(entry.shape)
        return array if _digest(array) == entry.digest else None
    except (AttributeError, TypeError, ValueError):
        return None


def _dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _bits_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")


def _word(x: Any) -> str:
    """The shortest decimal of these bits, or they themselves."""
    array = np.asarray(x).reshape(1)
    text = str(x)
    if _parse([text], array.dtype).tobytes() == array.tobytes():
        return text
    return f"0x{int(_bits_of(array)[0]):0{2 * array.dtype.itemsize}x}"


def _parse(words: list[str], dtype: np.dtype) -> np.ndarray:
    out = np.zeros(len(words), dtype)
    for i, word in enumerate(words):
        if word.startswith("0x"):
            _bits_of(out[i : i + 1])[0] = int(word, 16)
        elif dtype.kind in "iu":
            out[i] = int(word)
        elif dtype.kind == "b":
            out[i] = {"True": True, "False": False}[word]
        else:
            out[i] = np.float64(word).astype(dtype)
    return out


# ---- What moved ----------------------------------------------------------------------------------


def _moved(name: str, recorded: Entry | None, array: np.ndarray | None, ulps: int) -> tuple[str, ...] | None:
    """A row of the table; None if it is the same."""
    if array is None:
        return name, "gone", "", "", ""
    if recorded is None:
        return name, "new", "", "", f"{array.dtype.name} {list(array.shape)}"
    if (recorded.dtype, recorded.shape) != (array.dtype.name, array.shape):
        was = f"{recorded.dtype} {list(recorded.shape)}"
        return name, "other type", "", "", f"{was} -> {array.dtype.name} {list(array.shape)}"
    if recorded.same(array):
        return None
    if recorded.values is None:
        needed = ", which ulps needs," if ulps else ""
        return name, "bits", "", "", f"digest {recorded.digest} -> {_digest(array)}; the golden values{needed} are not there"
    differs = _bits_of(recorded.values) != _bits_of(array)
    far = farthest(recorded.values, array)
    if ulps and far is not None and far <= ulps:
        return None
    first = int(np.flatnonzero(differs)[0])
    where = ", ".join(str(int(i)) for i in np.unravel_index(first, array.shape)) if array.ndim else ""
    was, now = recorded.values.reshape(-1)[first], array.reshape(-1)[first]
    moved = "no distance" if far is None else f"{far} ulps"
    return name, moved, f"{int(differs.sum())} of {array.size}", f"[{where}]", f"{_word(was)} -> {_word(now)}"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    rows = [("array", "moved", "elements", "first at", "golden -> now"), *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return ["  " + "  ".join([*(c.ljust(w) for c, w in zip(row, widths)), row[4]]).rstrip() for row in rows]
