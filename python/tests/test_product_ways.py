"""The ways of docs/products.md to multiply the integers of method fixed, as units for int32, int16, int8, f16, bf16, fp8 and f64 do it: what
each takes fits, every sum on the way is exact there, and all give the sums that big integers give."""

import math

import numpy as np
import pytest

BITS = {"bf16": 16, "f16": 21, "f32": 28, "f64": 58}


def operands(bits, k, kind):
    """Rows and columns of integers up to 63 * 2^(bits - 7)."""
    limit, rng = 63 << (bits - 7), np.random.default_rng(bits + k)
    if kind == "drawn":
        return (rng.integers(-limit, limit, (4, k), endpoint=True) for _ in range(2))
    if kind == "largest":
        return np.full((4, k), limit), np.where(np.arange(4)[:, None] % 2, -limit, limit) + np.zeros((4, k), np.int64)
    low = -128 * ((1 << (bits - 1) // 8 * 8) - 1) // 255  # of digits -128
    return np.full((4, k), low), np.where(np.arange(k) % 2, low, -limit) + np.zeros((4, 1), np.int64)


def digits(x, width):
    """From -2^(width - 1) to 2^(width - 1) - 1, the lowest first; as many as the largest operand has."""
    result, half = [], 1 << (width - 1)
    while True:
        low = (x + half) % (2 * half) - half
        result.append(low)
        x = (x - low) >> width
        if not x.any():
            return result


def int8_product(a, b):
    """As cuBLASLt, VNNI and AMX have it: int8 in, int32 sums."""
    assert max(np.abs(a).max(), np.abs(b).max()) <= 128 and a.max() <= 127 and b.max() <= 127
    made = a.astype(np.int64) @ b.astype(np.int64).T
    assert np.abs(made).max() < 2**31
    return made.astype(object)


def by_all_pairs(a, b):
    a, b = digits(a, 8), digits(b, 8)
    return sum(int8_product(p, q) << (8 * (i + j)) for i, p in enumerate(a) for j, q in enumerate(b))


def by_shared_pairs(a, b):
    a, b = digits(a, 7), digits(b, 7)
    count = max(len(a), len(b))
    a, b = (x + [np.zeros_like(x[0])] * (count - len(x)) for x in (a, b))
    alone = [int8_product(p, q) for p, q in zip(a, b)]
    total = sum(s << (14 * i) for i, s in enumerate(alone))
    for i in range(count):
        for j in range(i):
            total += (int8_product(a[i] + a[j], b[i] + b[j]) - alone[i] - alone[j]) << (7 * (i + j))
    return total


def by_residues(a, b, bits):
    moduli, wanted = [], 2 * a.shape[1] * (63 << (bits - 7)) ** 2
    for m in range(256, 1, -1):
        if math.prod(moduli) > wanted:
            break
        if all(math.gcd(m, other) == 1 for other in moduli):
            moduli.append(m)
    whole, total = math.prod(moduli), 0
    for m in moduli:
        residue = lambda x: (x + m // 2) % m - m // 2  # noqa: E731, B023
        rest = whole // m
        total = total + int8_product(residue(a), residue(b)) % m * (rest * pow(rest, -1, m))
    return (total + whole // 2) % whole - whole // 2


def in_parts(a, b, width_a, width_b, terms, product):
    """All pairs of digits, whose sums are of so many terms; `product` makes these, of all parts at once, and says what fits."""

    def cut(x):
        terms_of_a_part = min(terms, x.shape[1])
        padded = np.pad(x, ((0, 0), (0, -x.shape[1] % terms_of_a_part)))
        return padded.reshape(len(x), -1, terms_of_a_part).swapaxes(0, 1)  # parts, rows, terms

    a, b = (list(map(cut, digits(x, width))) for x, width in ((a, width_a), (b, width_b)))
    return sum(product(p, q).astype(object).sum(0) << (width_a * i + width_b * j) for i, p in enumerate(a) for j, q in enumerate(b))


def size_of_sums(p, q):
    """The largest, whatever their signs: so no order of additions makes a larger one."""
    assert int(np.abs(p).max()) * int(np.abs(q).max()) * p.shape[-1] < 2**63
    return (np.abs(p) @ np.abs(q).mT).max()


def in_floats(unit, bits):
    """Of integers of so many bits and a sign, in sums of a type."""

    def product(p, q):
        assert max(np.abs(p).max(), np.abs(q).max()) <= 2**bits
        assert size_of_sums(p, q) <= 2 ** (np.finfo(unit).nmant + 1)
        return (p.astype(unit) @ q.astype(unit).mT).astype(np.int64)

    return product


def in_integers(to, *of):
    """Of integers of two types, in sums of another."""

    def product(p, q):
        for x, type in zip((p, q), of):
            assert np.iinfo(type).min <= x.min() and x.max() <= np.iinfo(type).max
        assert size_of_sums(p, q) <= np.iinfo(to).max
        return p @ q.mT

    return product


def by_doubles(a, b):
    return in_parts(a, b, 14, 14, 1 << 27, in_floats(np.float64, 13))


def by_longer_doubles(a, b):
    return in_parts(a, b, 21, 21, 1 << 13, in_floats(np.float64, 20))


def by_float_units(a, b):
    """f16 or bf16 in, f32 sums."""
    return in_parts(a, b, 7, 7, 1 << 12, in_floats(np.float32, 8))


def by_fp8(a, b):
    """e4m3 in, f32 sums."""
    return in_parts(a, b, 4, 4, 1 << 18, in_floats(np.float32, 4))


def by_pairs_of_16_bits(a, b):
    """As CPUs have it of integers of 16 bits: rows as they are, columns in digits."""
    return in_parts(a, b, 16, 8, 1 << 9, in_integers(np.int32, np.int16, np.int8))


def by_short_digits(a, b):
    return in_parts(a, b, 8, 8, 1 << 16, in_integers(np.int32, np.int16, np.int16))


def by_long_digits(a, b):
    return in_parts(a, b, 14, 14, 1 << 4, in_integers(np.int32, np.int16, np.int16))


def by_long_integers(a, b):
    """As CPUs have it of more bits."""
    return in_parts(a, b, 29, 29, 1 << 7, in_integers(np.int64, np.int32, np.int32))


@pytest.mark.parametrize("kind", ["drawn", "largest", "lowest"])
@pytest.mark.parametrize("k", [1, 100, 5000, 70000])
@pytest.mark.parametrize("type", BITS)
def test_ways(type, k, kind):
    bits = BITS[type]
    a, b = operands(bits, k, kind)
    want = a.astype(object) @ b.astype(object).T
    for way in (by_all_pairs, by_shared_pairs, by_doubles, by_longer_doubles, by_float_units, by_fp8, by_short_digits, by_long_digits, by_long_integers):
        assert (way(a, b) == want).all(), way.__name__
    if bits <= 16:
        assert (by_pairs_of_16_bits(a, b) == want).all()
    assert (by_residues(a, b, bits) == want).all()


@pytest.mark.parametrize("width, terms, product", [(14, 1 << 5, in_integers(np.int32, np.int16, np.int16)), (7, 1 << 13, in_floats(np.float32, 8))])
def test_longer_sums_do_not_fit(width, terms, product):
    a = np.full((1, terms), -(1 << (width - 1)))
    with pytest.raises(AssertionError):
        in_parts(a, a, width, width, terms, product)
