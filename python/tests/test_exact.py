"""By method exact every result is the value over exact fractions, rounded once: here added up and rounded with nothing but Python's
integers, by what docs/operations.md says; of the package and of the command line, in whatever way the elements come."""

import functools
import json
import math
import os
import random
import struct
import subprocess
from fractions import Fraction

import numpy as np
import pytest

import bitfold
from arrays import DTYPES
from bitfold import _core

CLI = os.environ.get("BITFOLD_CLI")
NAMES = dict(zip(("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"), DTYPES))
FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}  # digits, exponents
OPS = [[op["name"] for op in _core.ops() if op["has_exact"] and op["inputs"] == k] for k in (1, 2)]
MINUS_ZERO = "-0"


# ---- The truth. A term is an integer in units of 2^-unit, MINUS_ZERO, or a float that is not finite.


def unit_of(t):
    return FORMATS[t][0] - 1 - FORMATS[t][1] if t in FORMATS else 0


def read(x, t):
    if t not in FORMATS:
        return [int(v) for v in x]
    terms = []
    for v in x.astype(np.float64).tolist():
        if not math.isfinite(v):
            terms.append(v)
        elif v == 0:
            terms.append(MINUS_ZERO if math.copysign(1, v) < 0 else 0)
        else:
            n, d = v.as_integer_ratio()
            terms.append((n << unit_of(t)) // d)
    return terms


def number(v):
    return 0 if v == MINUS_ZERO else v


def product(a, b):
    x, y = number(a), number(b)
    if isinstance(x, float) or isinstance(y, float):
        sign = lambda v: v if isinstance(v, float) else float((v > 0) - (v < 0))  # noqa: E731
        return sign(x) * sign(y)
    negative = (a == MINUS_ZERO or x < 0) != (b == MINUS_ZERO or y < 0)
    return x * y or (MINUS_ZERO if negative else 0)


def distance(a, b):
    x, y = number(a), number(b)
    if isinstance(x, float) or isinstance(y, float):
        return abs((x if isinstance(x, float) else 0.0) - (y if isinstance(y, float) else 0.0))
    return abs(x - y)


def add(terms, unit):
    special = {v for v in terms if isinstance(v, float)}
    if special:
        return sum(special)
    if terms and all(v == MINUS_ZERO for v in terms):
        return MINUS_ZERO
    return Fraction(sum(number(v) for v in terms), 1 << unit)


def over(value, n):
    return math.nan if n == 0 else value if not isinstance(value, Fraction) else value / n


class Root(Fraction):
    """Of which the square root is meant."""


def truth(op, t, x, y, ddof=0):
    unit, n = unit_of(t), len(x)
    if op in ("nansum", "nanmean"):
        numbers = [0 if v != v else v for v in x]
        return over(add(numbers, unit), sum(v == v for v in x)) if op == "nanmean" else add(numbers, unit)
    if op in ("sum", "mean"):
        return over(add(x, unit), n) if op == "mean" else add(x, unit)
    if op == "norm_l1":
        return add([distance(v, 0) for v in x], unit)
    if op == "mae":
        return over(add([distance(a, b) for a, b in zip(x, y)], unit), n)
    if op in ("squared_distance", "mse"):
        s = add([product(d, d) for d in map(distance, x, y)], 2 * unit)
        return over(s, n) if op == "mse" else s
    if op == "dot":
        return add([product(a, b) for a, b in zip(x, y)], 2 * unit)
    squares = add([product(v, v) for v in x], 2 * unit)
    if op == "sum_squares":
        return squares
    if op == "norm_l2":
        return Root(squares) if isinstance(squares, Fraction) else squares
    assert op in ("var", "std")
    s = add(x, unit)
    if n == 0 or isinstance(s, float) or isinstance(squares, float):
        return math.nan
    spread = squares * n - number(s) ** 2
    if n <= ddof:
        return math.inf if spread else math.nan
    return (Root if op == "std" else Fraction)(spread / (n * (n - ddof)))


def rounded(value, t):
    """Its bits as type t, to nearest even."""
    if t not in FORMATS:
        return int(number(value)) % (1 << 8 * NAMES[t].itemsize)
    digits, low, high = FORMATS[t]
    infinity, sign = (high - low + 2) << (digits - 1), 1 << 8 * NAMES[t].itemsize - 1
    if value == MINUS_ZERO:
        return sign
    if isinstance(value, float):
        return infinity | 1 << (digits - 2) if value != value else infinity | sign * (value < 0)
    negative, q = value < 0, abs(value)
    if q == 0:
        return 0
    if isinstance(value, Root):  # 64 digits or more, and half a unit where there is a rest
        k = 80 - (q.numerator.bit_length() - q.denominator.bit_length()) // 2
        scaled = Fraction(q) * Fraction(4) ** k
        r = math.isqrt(math.floor(scaled))
        q = (r + Fraction(r * r != scaled, 2)) / Fraction(2) ** k
    e = q.numerator.bit_length() - q.denominator.bit_length()
    e = max(e - (Fraction(2) ** e > q), low)
    m = round(q / Fraction(2) ** (e - digits + 1))  # half to even
    if m == 1 << digits:
        m, e = m >> 1, e + 1
    bits = infinity if e > high else m if m < 1 << (digits - 1) else ((e - low + 1) << (digits - 1)) + m - (1 << (digits - 1))
    return bits | sign * negative


def test_rounded():
    for t, cases in {"f64": [(Fraction(1, 3), 0x3FD5555555555555), (Fraction(-1, 1 << 1074), 1 << 63 | 1), (Fraction(1, 1 << 1075), 0),
                             (Fraction(3, 1 << 1076), 1), (Fraction((1 << 54) - 1, 1) * 2**970, 0x7FF << 52), (Root(2), 0x3FF6A09E667F3BCD)],
                     "f16": [(Fraction(65519), 0x7BFF), (Fraction(65520), 0x7C00), (Fraction(1023, 1 << 24), 0x3FF), (math.nan, 0x7E00)],
                     "bf16": [(Fraction(257), 0x4380), (Fraction(259), 0x4382), (-math.inf, 0xFF80), (MINUS_ZERO, 0x8000)]}.items():
        for value, bits in cases:
            assert rounded(value, t) == bits, (t, value)


# ---- The elements


def arrays(t, seed):
    """(x, y) of many lengths and kinds."""
    rng, dtype = np.random.default_rng(seed), NAMES[t]
    raw = lambda n: np.frombuffer(rng.bytes(n * dtype.itemsize), dtype)  # noqa: E731
    if t not in FORMATS:
        limits = np.iinfo(dtype)
        for n in (0, 1, 2, 1000):
            yield raw(n), raw(n)
        yield np.full(300, limits.max, dtype), np.full(300, limits.min, dtype)
        return
    digits, low, high = FORMATS[t]
    bits = np.dtype(f"u{dtype.itemsize}")
    sign, infinity = bits.type(1 << 8 * dtype.itemsize - 1), bits.type((high - low + 2) << (digits - 1))
    view = lambda b: b.astype(bits).view(dtype)  # noqa: E731
    finite = lambda n: np.where((f := raw(n)).view(bits) & infinity == infinity, dtype.type(1.5), f)  # noqa: E731
    near_one = lambda n: (rng.standard_normal(n)).astype(dtype)  # noqa: E731
    for n in (0, 1, 1, 2, 3, 17, 700):
        yield finite(n), finite(n)
        yield near_one(n), near_one(n)
    subnormal = view(rng.integers(0, 1 << (digits - 1), 300, np.uint64).astype(bits) | sign * rng.integers(0, 2, 300).astype(bits))
    yield subnormal, near_one(300)
    yield subnormal, finite(300)
    largest = np.full(300, view(np.array([infinity - 1], bits))[0])
    yield largest, -largest
    yield np.concatenate([largest, near_one(7), -largest]), np.concatenate([near_one(300), largest[:7], near_one(300)])
    wide = finite(400)
    yield np.concatenate([wide, -wide[::-1], subnormal[:1]]), near_one(801)  # cancels but for the least
    yield np.concatenate([wide, -wide]), np.concatenate([near_one(400)] * 2)  # cancels
    grid = (rng.integers(-4, 5, 500) * 0.25).astype(dtype)
    yield grid, grid[::-1]
    yield np.full(5, -0.0, dtype), np.full(5, 3, dtype)
    yield np.array([-0.0, 0.0, -0.0], dtype), np.zeros(3, dtype)
    tie = [1.0, 2.0 ** -digits]
    yield np.array(tie, dtype), np.array([1, 1], dtype)
    yield np.array([*tie, subnormal[0]], dtype), np.array([1, 1, 1], dtype)
    for specials in ([np.inf], [-np.inf], [np.inf, -np.inf], [np.nan], [np.inf, np.nan], [np.nan] * 20):
        x = near_one(20)
        x[rng.permutation(20)[:len(specials)]] = specials
        yield x, near_one(20)
        yield near_one(20), x
        yield x, np.where(np.isinf(x), dtype.type(0), x)
        yield x, x


def named(t):
    return {f"a{k:02}": pair for k, pair in enumerate(arrays(t, 1))}


def out_types(t):
    return ["f16", "bf16", "f32", "f64"] if t in FORMATS else ["f32", "f64"]


@pytest.mark.parametrize("t", NAMES)
def test_package(t):
    for k, (name, (x, y)) in enumerate(named(t).items()):
        terms = read(x, t), read(y, t)
        order = np.random.default_rng(2).permutation(len(x))
        for op in OPS[0] + OPS[1]:
            for ddof in (0, 3) if op in ("var", "std") else (0,):
                value = truth(op, t, *terms, ddof)
                for to in random.Random(k).sample(out_types(t), 2):
                    given = {"method": "exact", "dtype": NAMES[to], **({"ddof": ddof} if ddof else {})}
                    for a, b in ((x, y), (x[order], y[order])):
                        got = getattr(bitfold, op)(*((a,) if op in OPS[0] else (a, b)), **given)
                        assert int.from_bytes(got.tobytes(), "little") == rounded(value, to), (name, op, ddof, to, len(x))


# ---- The command line


def write_safetensors(path, tensors, t):
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": t.upper(), "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            f.write(x.tobytes())


@pytest.mark.skipif(not CLI, reason="skipped: BITFOLD_CLI names no command line")
@pytest.mark.parametrize("t", NAMES)
def test_command_line(t, tmp_path):
    pairs, rng = named(t), random.Random(3)
    terms = {name: (read(x, t), read(y, t)) for name, (x, y) in pairs.items()}
    finite = [k for k in pairs if not any(isinstance(v, float) for side in terms[k] for v in side)]
    terms["all"] = tuple([v for k in finite for v in terms[k][side]] for side in (0, 1))
    shuffled = {name: np.random.default_rng(4).permutation(len(x)) for name, (x, _) in pairs.items()}
    for side in (0, 1):
        write_safetensors(tmp_path / f"{side}.safetensors", {k: p[side] for k, p in pairs.items()}, t)
        write_safetensors(tmp_path / f"{side}s.safetensors", {k: p[side][shuffled[k]] for k, p in pairs.items()}, t)
        write_safetensors(tmp_path / f"{side}f.safetensors", {k: pairs[k][side][shuffled[k]] for k in finite}, t)
        for k, p in pairs.items():
            p[side].tofile(tmp_path / f"{k}.{side}.raw")
            if t != "bf16":
                np.save(tmp_path / f"{k}.{side}.npy", p[side])
    known = functools.cache(lambda name, op, ddof, to: rounded(truth(op, t, *terms[name], ddof), to))
    targets = json.loads(subprocess.run([CLI, "info", "--json"], capture_output=True, check=True).stdout)["cpu_targets"]

    def check(inputs, files, *options, stdin=None, name_of=None):
        to, ddof = rng.choice([*out_types(t), None]), rng.choice((0, 0, 1, 3))
        command = [CLI, "reduce", ",".join(OPS[inputs - 1]), "--method", "exact", "--json", *options, *files]
        command += ["--out-dtype", to] if to else []
        command += ["--ddof", str(ddof)] if ddof and inputs == 1 else []
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, stdin=stdin)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert len(lines) == len(OPS[inputs - 1]) * (len(pairs) if name_of is None else 1), command
        for line in lines:
            name = name_of or line["tensor"] or line["file"].split(".")[0]
            assert line["dtype"] == t and line["out_dtype"] == (to or line["out_dtype"])
            assert int(line["bits"], 16) == known(name, line["op"], line.get("ddof", 0), line["out_dtype"]), (command, line)

    files = lambda end, inputs, names=pairs: [f"{k}.{side}{end}" for k in names for side in range(inputs)]  # noqa: E731
    tensors = lambda what, inputs: [f"{side}{what}.safetensors" for side in range(inputs)]  # noqa: E731
    for inputs in (1, 2):
        check(inputs, tensors("", inputs))
        check(inputs, tensors("", inputs), "--target", rng.choice(targets), "--threads", "2")
        check(inputs, tensors("s", inputs), "--threads", "7")
        check(inputs, tensors("s", inputs), "--stream")
        check(inputs, files(".raw", inputs), "--dtype", t)
        check(inputs, files(".raw", inputs), "--dtype", t, "--stream")
        if t != "bf16":
            check(inputs, files(".npy", inputs))
        check(inputs, tensors("f", inputs), "--total", name_of="all")
        check(inputs, files(".raw", inputs, finite), "--dtype", t, "--total", "--stream", name_of="all")
    for name in list(pairs)[-2:]:
        with open(tmp_path / f"{name}.0.raw", "rb") as f:
            check(1, ["-"], "--dtype", t, stdin=f, name_of=name)
