"""Products of matrices: by the steps of docs/definitions.md; shapes as NumPy's; what is refused."""

from fractions import Fraction

import numpy as np
import pytest

import bitfold
from arrays import FLOATS, bits, random_array
from definitions import TYPES, book

F32 = FLOATS[2]


@pytest.mark.parametrize("type", book["FLOATS"])
@pytest.mark.parametrize("seed", [1, 4])  # without and with infinities and NaNs
def test_definition(type, seed):
    dtype = np.dtype(TYPES[type])
    a, b = random_array(seed, (6, 41), dtype), random_array(2 * seed, (41, 7), dtype)
    b[:, 0] = 0
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for made, wanted, out in [
        (bitfold.matmul(a, b), book["PRODUCT_BITS"][type], type),
        (bitfold.matmul(a, b, dtype="float64", bits=33), 33, "f64"),
        (bitfold.matmul(a, b, dtype="float16", bits=12), 12, "f16"),
    ]:
        with np.errstate(invalid="ignore"):
            want = [[book["fixed_product"](row, column, wanted, out) for column in wide_b.T] for row in wide_a]
        assert made.view(f"u{made.itemsize}").tolist() == want


@pytest.mark.parametrize("type", book["FLOATS"])
def test_addend(type):
    dtype = np.dtype(TYPES[type])
    a, b, c = random_array(1, (5, 30), dtype), random_array(2, (30, 4), dtype), random_array(4, 4, dtype)
    made = bitfold.matmul(a, b, addend=c)
    wide_a, wide_b, wide_c = (x.astype(np.float64) for x in (a, b, c))
    bits_of_type = book["PRODUCT_BITS"][type]
    want = [[book["fixed_product"](row, column, bits_of_type, type, x) for column, x in zip(wide_b.T, wide_c)] for row in wide_a]
    assert made.view(f"u{made.itemsize}").tolist() == want


def test_shapes_are_numpys():
    for x, y in [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 1, 2, 3), (4, 3, 6)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]:
        a, b = np.arange(np.prod(x), dtype=F32).reshape(x), np.arange(np.prod(y), dtype=F32).reshape(y)
        made, want = bitfold.matmul(a, b), np.matmul(a, b)
        assert made.shape == want.shape and made.dtype == want.dtype
        assert np.array_equal(made, want)  # small integers are exact by both
    i = np.int8([[100, 100]])
    assert bitfold.matmul(i, i.T).tolist() == [[20000]]


def test_methods_are_dots():
    a, b = random_array(3, (3, 500), F32), random_array(4, (500, 2), F32)
    for method in ("tree", "kahan", "exact"):
        made = bitfold.matmul(a, b, method=method)
        want = [[bits(bitfold.dot(row, np.ascontiguousarray(column), method=method)) for column in b.T] for row in a]
        assert [[bits(x) for x in row] for row in made] == want


def test_layouts_and_batches_do_not_show():
    a, b = random_array(5, (4, 6, 300), F32), random_array(6, (300, 9), F32)
    made = bitfold.matmul(a, b)
    assert bits(bitfold.matmul(np.asfortranarray(a), b.T.copy().T)) == bits(made)
    assert bits(bitfold.matmul(a[2, 3:4], b)) == bits(made[2, 3:4])
    assert bits(np.swapaxes(bitfold.matmul(b.T, np.swapaxes(a, 1, 2)), 1, 2)) == bits(made)


def test_refusals():
    a = np.ones((2, 3), F32)
    for error, start, call in [
        (ValueError, "b: columns of 2 elements for rows of 3", lambda: bitfold.matmul(a, a)),
        (TypeError, "b: f64, and a is f32", lambda: bitfold.matmul(a, a.T.astype(np.float64))),
        (TypeError, "a: bool", lambda: bitfold.matmul(a > 0, a.T > 0)),
        (ValueError, "bits: 60", lambda: bitfold.matmul(a, a.T, bits=60)),
        (ValueError, "bits: 4294967312 is not from 8 to 58", lambda: bitfold.matmul(a, a.T, bits=2**32 + 16)),
        (ValueError, "dtype: i32 is an integer type", lambda: bitfold.matmul(a, a.T, dtype="int32")),
        (ValueError, "dtype: i32 is an integer type", lambda: bitfold.matmul(a, a.T, dtype="int32", method="tree")),
        (ValueError, "addend: extents 5 and 2", lambda: bitfold.matmul(a[:0], a.T, addend=np.ones(5, F32))),
        (ValueError, "addend: extents 5 and 2", lambda: bitfold.matmul(a, a.T, addend=np.ones(5, F32))),
        (ValueError, "method: 'loud'", lambda: bitfold.matmul(a, a.T, method="loud")),
        (TypeError, "method: NoneType, where a name is expected", lambda: bitfold.matmul(a, a.T, method=None)),
        (ValueError, "a.rank: 0", lambda: bitfold.matmul(np.zeros((), F32), a)),
    ]:
        with pytest.raises(error) as e:
            call()
        assert str(e.value).startswith(start)


def test_torch():
    torch = pytest.importorskip("torch")
    a, b = random_array(7, (3, 50), F32), random_array(8, (50, 4), F32)
    made = bitfold.matmul(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(made, torch.Tensor) and bits(made.numpy()) == bits(bitfold.matmul(a, b))
    half = torch.from_numpy(a).bfloat16()
    assert bitfold.matmul(half, half.T).dtype == torch.bfloat16


#: Bits of a significand.
SIGNIFICANT = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}


def is_exact(row, bits_of_type):
    integers, s = book["fixed_integers"](row, bits_of_type)
    return [Fraction(i) / Fraction(2) ** s == Fraction(float(x)) for i, x in zip(integers, row)]


@pytest.mark.parametrize("type", book["FLOATS"])
def test_exact_cases(type):
    """docs/products.md: elements from 2^(p + 2 - bits) of the row's largest on are exact, half of that not always, and so are integers up to L.
    Then the product is the true one."""
    bits_of_type, p, rng = book["PRODUCT_BITS"][type], SIGNIFICANT[type], np.random.default_rng(1)
    rows = []
    for largest in (1.0, 1.5, 63 / 32, 127 / 64):  # 2^s changes behind the third
        least = largest * 2.0 ** (p + 2 - bits_of_type)
        odd = least + 2.0 ** (np.floor(np.log2(least)) + 1 - p)  # by its last place
        rows.append(np.append(rng.uniform(least, largest, 297), [largest, least, odd]))
    limit = min(63 << (bits_of_type - 7), 60000 if type == "f16" else 1 << 60)
    rows.append(rng.integers(-limit, limit, 300, endpoint=True).astype(np.float64))
    rows = np.array(rows).astype(TYPES[type])
    assert all(all(is_exact(row, bits_of_type)) for row in rows)
    assert is_exact(np.array([127 / 64, (1 + 2.0 ** (1 - p)) * 2.0 ** (p + 1 - bits_of_type)]), bits_of_type) == [True, False]
    columns = rows[:, ::-1].T
    assert bits(bitfold.matmul(rows, columns)) == bits(bitfold.matmul(rows, columns, method="exact"))
