"""bitfold.accumulator: the exact sum as a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _core


class accumulator:
    """The exact sum of elements (degree 1), or of products, squares and squared differences (degree 2), of one type.

    Its value depends on what was added and on nothing else: not on order, pieces or machines. Up to 2^60 terms. Two threads
    must not change the same one. docs/exact.md has more.

    >>> total = accumulator("float32")
    >>> total.add(np.float32([1e30, 1, -1e30]))
    >>> total.round()
    np.float32(1.0)
    >>> import pickle
    >>> pickle.loads(pickle.dumps(total)) == total
    True

    Arrays on GPUs, and of other layouts than row-major, are copied first.
    Errors: TypeError where an array is of another type; ValueError for a term of the other degree.
    """

    __slots__ = ("_sum",)
    __hash__ = None

    def __init__(self, dtype: Any = "float64", *, degree: int = 1):
        self._sum = _core.Accumulator(_arrays.short_name(dtype), _arrays.integer("degree", degree, 2**31))

    @property
    def dtype(self) -> str:
        """The name of the elements' type."""
        return _arrays.PUBLIC[self._sum.dtype]

    @property
    def degree(self) -> int:
        return self._sum.degree

    # ---- Adding

    def add(self, x: Any) -> None:
        """Adds the elements of an array of any shape."""
        self._add("element", x)

    def add_magnitudes(self, x: Any) -> None:
        self._add("magnitude", x)

    def add_squares(self, x: Any) -> None:
        """Degree 2."""
        self._add("square", x)

    def add_products(self, x: Any, y: Any) -> None:
        """Degree 2: x[i] y[i]; arrays of one shape."""
        self._add("product", x, y)

    def add_squared_differences(self, x: Any, y: Any) -> None:
        """Degree 2: (x[i] - y[i])^2, of the true difference; arrays of one shape."""
        self._add("squared_difference", x, y)

    def subtract(self, x: Any) -> None:
        """Takes away the elements of an array, or what another accumulator has."""
        if not isinstance(x, accumulator):
            other = accumulator(self.dtype, degree=self.degree)
            other.add(x)
            x = other
        self._sum.subtract(x._sum)

    def merge(self, other: accumulator) -> None:
        """Adds what another accumulator of this type and degree has."""
        if not isinstance(other, accumulator):
            raise TypeError(f"other: {type(other).__name__}, where an accumulator is expected")
        self._sum.merge(other._sum)

    def _add(self, term: str, x: Any, y: Any = None) -> None:
        x = _arrays.row_major(x, "x")
        if y is not None:
            y = _arrays.row_major(y, "y")
            if x.shape != y.shape:
                raise ValueError(f"y: of shape {y.shape}, and x has {x.shape}")
        self._sum.add(term, x, y)

    # ---- The value, rounded once to nearest even

    def round(self, dtype: Any = None) -> Any:
        """The sum, as a NumPy scalar of `dtype` (default: that of the elements). Of integers to an integer type modulo 2^bits."""
        return self._scalar(self._sum.round(_short(dtype)))

    def round_quotient(self, n: int, dtype: Any = None) -> Any:
        """The sum over n, as a float: of n elements their mean. NaN for n = 0."""
        return self._scalar(self._sum.round_quotient(_arrays.integer("n", n, 2**64), _short(dtype)))

    def round_root(self, dtype: Any = None) -> Any:
        """The square root of the sum, as a float: of squares their norm. NaN for a negative sum."""
        return self._scalar(self._sum.round_root(_short(dtype)))

    def fits(self, dtype: Any) -> bool:
        """Whether round(dtype) is the sum itself. Of integers."""
        return self._sum.fits(_arrays.short_name(dtype))

    @staticmethod
    def _scalar(value: tuple[str, int]) -> Any:
        return _arrays.RESULTS.scalar(*value)

    # ---- Comparing: by value, -0 is +0, and nothing compares with NaN

    def _compare(self, other: Any, holds) -> Any:
        if not isinstance(other, accumulator) or (self.dtype, self.degree) != (other.dtype, other.degree):
            return NotImplemented
        order = self._sum.compare(other._sum)
        return order is not None and holds(order)

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, lambda order: order == 0)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, lambda order: order < 0)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, lambda order: order <= 0)

    # ---- As bytes: equal sums have equal bytes, but nothing, +0 and -0 differ (docs/exact.md has the format)

    def to_bytes(self) -> bytes:
        return self._sum.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> accumulator:
        """Errors: ValueError, naming the field, for what to_bytes does not write."""
        if isinstance(data, int | str):
            raise TypeError(f"data: {type(data).__name__}, where bytes are expected")
        made = cls.__new__(cls)
        made._sum = _core.Accumulator.from_bytes(bytes(data))
        return made

    def __reduce__(self):
        return accumulator.from_bytes, (self.to_bytes(),)

    def __copy__(self):
        return accumulator.from_bytes(self.to_bytes())

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __repr__(self):
        degree = ", degree=2" if self.degree == 2 else ""
        return f"<accumulator {self.dtype}{degree}: {_core.to_string(*self._sum.round('f64'))}>"


def _short(dtype: Any) -> str | None:
    return None if dtype is None else _arrays.short_name(dtype)
