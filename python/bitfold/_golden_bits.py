"""The golden file of the pytest plugin: text, one line for what a test checks and its values below it (docs/regression.md)."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitfold

from . import _arrays, _core
from ._compare import write_whole

HEADER = "# bitfold bits 1. Written by `pytest --bits-update`, order version {order}: read what changed before you commit it.\n"
WHOLE = 128  # elements: an array of more is a digest
PER_LINE = 8

#: What is checked: an array, or a plain value that is none.
Value = np.ndarray | str | None


@dataclass
class Plain:
    """A text, or None, as the golden file has it."""

    value: str | None

    def same(self, now: Value) -> bool:
        return isinstance(now, type(self.value)) and now == self.value

    def __str__(self) -> str:
        return "none" if self.value is None else f"text {json.dumps(self.value)}"

    @classmethod
    def read(cls, text: str) -> Plain | None:
        """None: it is the line of an array."""
        if text == "none":
            return cls(None)
        if not text.startswith("text "):
            return None
        value = json.loads(text.removeprefix("text "))
        if not isinstance(value, str):
            raise ValueError(text)
        return cls(value)


@dataclass
class Entry:
    """An array as the golden file has it; `values` is None where they were not found."""

    dtype: str
    shape: tuple[int, ...]
    digest: str | None  # None: the values are in the text
    about: str
    values: np.ndarray | None

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"

    @classmethod
    def of(cls, array: np.ndarray) -> Entry:
        if array.size <= WHOLE:
            return cls(array.dtype.name, array.shape, None, "", array)
        return cls(array.dtype.name, array.shape, digest_of(array), _about(array), array)

    def same(self, array: Value) -> bool:
        if not isinstance(array, np.ndarray) or (self.dtype, self.shape) != (array.dtype.name, array.shape):
            return False
        return digest_of(array) == self.digest if self.digest else self.values.tobytes() == array.tobytes()


def entry_of(value: Value) -> Entry | Plain:
    return Entry.of(value) if isinstance(value, np.ndarray) else Plain(value)


def digest_of(array: np.ndarray) -> str:
    return _core.digest(_arrays.row_major(array))


def _about(array: np.ndarray) -> str:
    """For people: what a reviewer sees of a long array beside its digest."""
    low, high = bitfold.reduce(array, ["min", "max"])
    return f"min {low} max {high} sum {bitfold.sum(array, method='exact')}"


class Golden:
    """The golden files of one test module: the text, and the values of its long arrays."""

    def __init__(self, path: Path, update: bool) -> None:
        self.path, self.values_path = path, path.with_name(path.name + ".npz")
        self.recorded: list[str] = []  # tests, since it was read
        self.tests: dict[str, dict[str, Entry | Plain]] = {}
        if path.exists():
            self._read(update)

    def of(self, test: str) -> dict[str, Entry | Plain]:
        return self.tests.get(test, {})

    def put(self, test: str, entries: dict[str, Entry | Plain]) -> None:
        self.tests[test] = entries
        self.recorded.append(test)

    def save(self) -> None:
        if not self.recorded:
            return
        lines = [HEADER.format(order=bitfold.order_version)]
        sidecar = {}
        for test in sorted(self.tests):
            lines.append(f"\n{test}\n")
            for name, e in self.tests[test].items():
                lines.append(f"  {json.dumps(name)} {e}")
                if isinstance(e, Plain):
                    lines.append("\n")
                    continue
                if e.digest:
                    lines.append(f" digest {e.digest}" + (f" # {e.about}" if e.about else ""))
                    if e.values is not None:
                        sidecar[f"{test}\n{name}"] = bits_of(e.values)
                lines.append("\n")
                if not e.digest:
                    words = [word(x) for x in e.values.reshape(-1)]
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
                    if not isinstance(name, str) or name in self.tests[test]:
                        raise ValueError(name)
                    if (plain := Plain.read(line.strip()[end:].strip())) is not None:
                        self.tests[test][name], words = plain, None
                        continue
                    described, _, about = line.strip()[end:].partition("#")
                    fields = described.split(" digest ")
                    dtype, _, shape = fields[0].strip().partition(" ")
                    digest = fields[1].strip() if len(fields) == 2 else None
                    extents = json.loads(shape)
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
                entry.values = parse(words, _dtype(entry.dtype)).reshape(entry.shape)
            except (ValueError, TypeError, KeyError, OverflowError) as e:
                raise self._refused(f":{number}", f"these are no values of {entry.dtype} {list(entry.shape)}: {e}") from e


def _of_digest(kept: np.ndarray | None, entry: Entry) -> np.ndarray | None:
    """What the sidecar kept, if it is what the text tells of, and not of another commit."""
    try:
        array = kept.view(_dtype(entry.dtype)).reshape(entry.shape)
        return array if digest_of(array) == entry.digest else None
    except (AttributeError, TypeError, ValueError):
        return None


def _dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def bits_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")


def word(x: Any) -> str:
    """The shortest decimal of these bits, or they themselves."""
    array = np.asarray(x).reshape(1)
    text = str(x)
    if parse([text], array.dtype).tobytes() == array.tobytes():
        return text
    return f"0x{int(bits_of(array)[0]):0{2 * array.dtype.itemsize}x}"


def parse(words: list[str], dtype: np.dtype) -> np.ndarray:
    out = np.zeros(len(words), dtype)
    for i, word in enumerate(words):
        if word.startswith("0x"):
            bits_of(out[i : i + 1])[0] = int(word, 16)
        elif dtype.kind in "iu":
            out[i] = int(word)
        elif dtype.kind == "b":
            out[i] = {"True": True, "False": False}[word]
        else:
            out[i] = np.float64(word).astype(dtype)
    return out
