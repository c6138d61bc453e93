"""Stands in for NumPy: what peers.py calls, so that only the caller can be wrong."""
import struct
from types import SimpleNamespace

from stand_in import OPERATIONS, lines, product, transposed

__version__ = "a stand-in"
inf = float("inf")
CODES = {"<f2": "e", "<f4": "f", "<f8": "d", "<i1": "b", "<i2": "h", "<i4": "i", "<i8": "q",
         "<u1": "B", "<u2": "H", "<u4": "I", "<u8": "Q"}


class Array:
    def __init__(self, kind, values, shape=None):
        self.kind, self.values, self.shape = kind, list(values), shape

    def reshape(self, *shape):
        return Array(self.kind, self.values, shape)

    def __getitem__(self, k):
        return Array(self.kind, self.values[k] if isinstance(k, slice) else [self.values[k]])

    @property
    def T(self):
        return Array(self.kind, transposed(self.values, self.shape), self.shape[::-1])

    def tobytes(self):
        return struct.pack(f"<{len(self.values)}{self.kind}", *self.values)


def frombuffer(data, kind):
    kind = CODES[kind]
    return Array(kind, struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data))


def empty(n, kind):
    return frombuffer(bytes(n), kind)


def asarray(x):
    return x


def of(operation, kind):
    def call(*x, axis=None):
        each = [[a.values for a in x]] if axis is None else [[l] for l in lines(x[0].values, x[0].shape, axis)]
        return Array(kind(x[0].kind), [OPERATIONS[operation](*values) for values in each])
    return call


def adds(kind):
    return kind if kind in "efd" else "q" if kind.islower() else "Q"


def averages(kind):
    return kind if kind in "efd" else "d"


sum, nansum, prod, dot = (of(op, adds) for op in ("sum", "nansum", "prod", "dot"))
mean, nanmean, var, std = (of(op, averages) for op in ("mean", "nanmean", "var", "std"))
min, max, nanmin, nanmax = (of(op, lambda kind: kind) for op in ("min", "max", "nanmin", "nanmax"))
argmin, argmax, count_nonzero = (of(op, lambda kind: "q") for op in ("argmin", "argmax", "count_nonzero"))
any, all = (of(op, lambda kind: "?") for op in ("any", "all"))


def matmul(x, y):
    return Array(x.kind, product(x.values, x.shape, y.values, y.shape))


def unique(x):
    return SimpleNamespace(size=of("count_distinct", lambda kind: "q")(x))


linalg = SimpleNamespace(norm=lambda x, order=2: of(f"norm_{order}", averages)(x))
