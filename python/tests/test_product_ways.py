"""The ways of docs/products.md to multiply the integers of method fixed, as units for int8, f16, bf16 and f64 do it: what each
takes fits, every sum on the way is exact there, and all give the sums that big integers give."""

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


def by_doubles(a, b):
    a, b = digits(a, 14), digits(b, 14)
    products = (((i, j), p.astype(np.float64) @ q.astype(np.float64).T) for i, p in enumerate(a) for j, q in enumerate(b))
    return sum(np.vectorize(int, otypes=[object])(s) << (14 * (i + j)) for (i, j), s in products)


def by_float_units(a, b):
    """f16 or bf16 in, f32 sums, of 2^12 terms."""
    a, b, total = digits(a, 7), digits(b, 7), 0
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            for at in range(0, p.shape[1], 1 << 12):
                s = p[:, at:at + (1 << 12)].astype(np.float32) @ q[:, at:at + (1 << 12)].astype(np.float32).T
                total = total + (np.vectorize(int, otypes=[object])(s) << (7 * (i + j)))
    return total


@pytest.mark.parametrize("kind", ["drawn", "largest", "lowest"])
@pytest.mark.parametrize("k", [1, 100, 5000, 70000])
@pytest.mark.parametrize("type", BITS)
def test_ways(type, k, kind):
    bits = BITS[type]
    a, b = operands(bits, k, kind)
    want = a.astype(object) @ b.astype(object).T
    for way in (by_all_pairs, by_shared_pairs, by_doubles, by_float_units):
        assert (way(a, b) == want).all(), way.__name__
    assert (by_residues(a, b, bits) == want).all()
