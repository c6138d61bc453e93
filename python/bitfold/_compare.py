"""Comparing bits: of two arrays, and of arrays with a golden file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _arrays, _core, _ops

#: What ulp_distance says of a NaN and a number: no tolerance admits it.
NO_DISTANCE = 2**64 - 1


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays have one type, one shape and the same bits: +0 and -0 differ, and a NaN equals itself.

    >>> same_bits(np.float32([0.0, np.nan]), np.float32([0.0, np.nan]))
    True
    >>> same_bits(0.0, -0.0)
    False
    """
    a, b = _arrays.host(a, "a"), _arrays.host(b, "b")
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def ulp_distance(a: Any, b: Any) -> Any:
    """How many steps of their type lie between the elements of two arrays of one type and shape, as uint64.

    +0 and -0 are 0 apart, and so are two NaNs; infinity is one step beyond the largest number; a NaN and a number are
    2^64 - 1 apart. Of integers it is the difference.

    >>> ulp_distance(np.float32(1), np.float32(1.0000001))
    np.uint64(1)

    Errors: TypeError, ValueError where types or shapes differ.
    """
    a, b = _arrays.host(a, "a"), _arrays.host(b, "b")
    if a.shape != b.shape:
        raise ValueError(f"b: of shape {b.shape}, and a has {a.shape}")
    out = np.empty(a.shape, np.uint64)
    _core.ulp_distances(_arrays.NUMPY.describe(a, "a"), _arrays.NUMPY.describe(b, "b"), out)
    return out[()]


class BitsMoved(AssertionError):
    """What `check` found; `differences` has a line for each array that differs."""

    def __init__(self, differences: list[str]):
        super().__init__("\n".join(differences))
        self.differences = differences


def record(path: str | os.PathLike, arrays: Any, ops: Iterable = ("sum",), *, file: str | None = None) -> None:
    """Writes a golden file: a digest of each array, and the bits of its reductions.

    arrays: one array, or a mapping of names to arrays; ops: as `reduce` takes them, of one input,
    at least one. The file is the one that `bitfold record` writes (docs/regression.md), of arrays in
    `file` (default: beside it, NAME.npy or NAME.safetensors), so that `bitfold check` compares such
    a file with it. Arrays on GPUs are copied to the host.

    >>> import os, tempfile
    >>> golden = os.path.join(tempfile.mkdtemp(), "golden.json")
    >>> record(golden, {"logits": np.float32([1, 2, 3])}, ["sum", ("mean", {"method": "kahan"})])
    >>> check(golden, {"logits": np.float32([1, 2, 3])})
    """
    named = _named(arrays)
    form = "safetensors" if isinstance(arrays, Mapping) else "npy"
    requests = _ops.requests_of(ops)
    if not requests:
        raise ValueError("ops: none, where at least one is recorded")
    entries = []
    for name, array in named.items():
        x = _arrays.row_major(array, name or "arrays")
        try:
            wanted = [request.of(x.dtype) for request in requests]
            entries.append((name, x.dtype, x.shape, _core.digest(x), _results(wanted, x)))
        except ValueError as e:  # such as no elements
            raise ValueError(f"{name or 'arrays'}: {e}") from None
    text = _core.golden_text(file or f"{Path(path).stem}.{form}", form, entries)
    write_whole({path: text.encode()})


def check(path: str | os.PathLike, arrays: Any, *, ulps: int | None = None, file: str | None = None) -> None:
    """Compares arrays with a golden file that `record`, or `bitfold record`, wrote.

    arrays: one array, or a mapping of names to arrays, which are those of `file` (default: the only one that was recorded).
    Every bit of them and of their results has to be the same; with `ulps`, results may move by so many steps of their type
    (what is true or false may not, and no number may become NaN), and contents as they like.

    Errors: BitsMoved, an AssertionError with a line for each array that differs, is missing or new; ValueError where the
    golden file is none, or is of operations of two inputs, which are for `bitfold check`.
    """
    if ulps is not None and (ulps := _arrays.integer("ulps", ulps)) < 0:
        raise ValueError(f"ulps: {ulps} is negative")
    named = _named(arrays)
    files, chosen = _core.read_golden(os.fspath(path), list(named))
    recorded = {name: entries for name, _, entries in files}
    if file is None and len(recorded) != 1:
        raise ValueError(f"file: which of {', '.join(recorded)}?")
    if file is not None and file not in recorded:
        raise ValueError(f"file: {file} is not in {os.fspath(path)}")
    entries = recorded[file] if file is not None else next(iter(recorded.values()))
    named = {name: named[name] for name in chosen}  # less those that `record --tensor` left out
    differences = []
    for name, dtype, shape, digest, results in entries:
        shown = name or "array"
        if name not in named:
            differences.append(f"missing {shown}")
            continue
        x = _arrays.row_major(named.pop(name), shown)
        if (x.dtype, x.shape) != (dtype, shape):
            differences.append(f"changed {shown}: {dtype}{list(shape)} -> {x.dtype}{list(x.shape)}")
            continue
        found = _core.digest(x)
        counts = ulps is None or not results
        moved = [f"  content {digest} -> {found}"] if counts and found != digest else []
        for (what, old), (_, new) in zip(results, _results([r for r, _ in results], x)):
            distance = farthest(
                _arrays.RESULTS.scalar(what.out, old), _arrays.RESULTS.scalar(what.out, new)
            )
            exact = ulps is None or _ops.REGISTRY[what.op]["types"] == "truth"
            if old != new if exact else distance is None or distance > ulps:
                text = [f"{_core.to_string(what.out, bits)} ({_core.to_hex(what.out, bits)})" for bits in (old, new)]
                steps = "no distance" if distance is None else f"{distance} ulps"
                moved.append(f"  {what.op} {what.method or ''}".rstrip() + f" {text[0]} -> {text[1]}  {steps}")
        if moved:
            differences.append("\n".join([f"moved {shown}", *moved]))
    differences += [f"new {name or 'array'}" for name in named]
    if differences:
        raise BitsMoved(differences)


def farthest(a: Any, b: Any) -> int | None:
    """The largest distance between elements; None where a NaN and a number have none."""
    far = int(np.max(ulp_distance(a, b)))
    of_integers = np.asarray(a).dtype.kind in "iu"  # of which it is a difference like others
    return None if far == NO_DISTANCE and not of_integers else far


def write_whole(files: Mapping[str | os.PathLike, bytes]) -> None:
    """All of the files or, where it raises, none: as the command line writes them."""
    _core.write_files([(os.fsencode(path), content) for path, content in files.items()])


def _named(arrays: Any) -> dict[str, Any]:
    named = dict(arrays) if isinstance(arrays, Mapping) else {"": arrays}
    for name in named:
        if not isinstance(name, str):
            raise TypeError(f"arrays: {name!r} is no name")
        if isinstance(named[name], Mapping):
            raise TypeError(f"arrays: {name!r} is a mapping, where an array is expected: name each of its arrays")
    return named


def _results(wanted: list, x: _core.Array) -> list[tuple]:
    room = np.zeros(len(wanted), np.uint64)  # little-endian, of which a result takes the lowest bytes
    first = _arrays.NUMPY.describe(room, "room").pointer
    _core.reduce_all_into(wanted, x, [first + 8 * k for k in range(len(wanted))])
    return [(what, int(bits)) for what, bits in zip(wanted, room)]
