"""Stands in for PyTorch: what peers.py calls on the CPU, so that only the caller can be wrong. With other
threads or in another mode than a contestant says it refuses."""
import struct
from types import SimpleNamespace

from stand_in import OPERATIONS, lines, product, transposed

__version__ = "a stand-in"
float16, bfloat16, float32, float64, uint8, int32, int64 = "e", "b", "f", "d", "B", "i", "q"
threads, deterministic = 2, None


def get_num_threads():
    return threads


def set_num_threads(n):
    global threads
    threads = n


def use_deterministic_algorithms(mode):
    global deterministic
    deterministic = mode


class Tensor:
    def __init__(self, dtype, data, shape=None):
        self.dtype, self.data, self.shape = dtype, bytes(data), shape

    def to(self, device):
        assert device == "cpu"
        return self

    def detach(self):
        return self

    cpu = detach

    def reshape(self, *shape):
        return Tensor(self.dtype, self.data, shape)

    def __getitem__(self, k):
        size = 2 if self.dtype == bfloat16 else struct.calcsize(self.dtype)
        if isinstance(k, slice):
            first, end, _ = k.indices(len(self.data) // size)
            return Tensor(self.dtype, self.data[first * size:end * size])
        assert len(self.shape) == 1
        return Tensor(self.dtype, self.data[k * size:(k + 1) * size])

    @property
    def T(self):
        return Tensor(self.dtype, packed(self.dtype, transposed(self.tolist(), self.shape)), self.shape[::-1])

    def view(self, dtype):
        return Tensor(dtype, self.data)

    def tolist(self):
        if self.dtype == bfloat16:  # the upper half of an f32
            halves = [self.data[i : i + 2] for i in range(0, len(self.data), 2)]
            return [struct.unpack("<f", bytes(2) + h)[0] for h in halves]
        return list(struct.unpack(f"<{len(self.data) // struct.calcsize(self.dtype)}{self.dtype}", self.data))


def frombuffer(data, dtype):
    return Tensor(dtype, data)


def empty(n, dtype):
    assert n == 0
    return Tensor(dtype, b"")


def packed(dtype, values):
    return b"".join(struct.pack("<f", v)[2:] if dtype == bfloat16 else struct.pack("<" + dtype, v) for v in values)


def matmul(x, y):
    assert threads in (1, 2, 3, 4) and deterministic is False
    return Tensor(x.dtype, packed(x.dtype, product(x.tolist(), x.shape, y.tolist(), y.shape)))


def of(operation, dtype=None):
    def call(*x, axis=None):
        assert threads in (1, 2) and deterministic is not None
        each = [[a.tolist() for a in x]] if axis is None else [[l] for l in lines(x[0].tolist(), x[0].shape, axis)]
        out = dtype or x[0].dtype
        if operation in ("sum", "prod") and out == int32:
            out = int64
        return Tensor(out, packed(out, [OPERATIONS[operation](*lists) for lists in each]))
    return call


sum, nansum, prod, mean, nanmean, min, max, dot = map(
    of, ("sum", "nansum", "prod", "mean", "nanmean", "min", "max", "dot"))
argmin, argmax, count_nonzero = (of(op, int64) for op in ("argmin", "argmax", "count_nonzero"))
any, all = (of(op, uint8) for op in ("any", "all"))


def var(x, correction):
    assert correction == 0
    return of("var")(x)


def std(x, correction):
    assert correction == 0
    return of("std")(x)


def logsumexp(x, dim):
    assert dim == 0
    return of("logsumexp")(x)


def cosine_similarity(x, y, dim):
    assert dim == 0
    return of("cosine")(x, y)


linalg = SimpleNamespace(vector_norm=lambda x, order=2: of(f"norm_{order}")(x))
nn = SimpleNamespace(functional=SimpleNamespace(
    mse_loss=of("mse"), l1_loss=of("mae"), cosine_similarity=cosine_similarity))
