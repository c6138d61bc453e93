"""Stands in for PyTorch: what peers.py calls on the CPU, so that only the caller can be wrong. With other
threads or in another mode than a contestant says it refuses."""
import struct
from types import SimpleNamespace

from stand_in import OPERATIONS

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
    def __init__(self, dtype, data):
        self.dtype, self.data = dtype, bytes(data)

    def to(self, device):
        assert device == "cpu"
        return self

    def detach(self):
        return self

    cpu = detach

    def reshape(self, n):
        assert n == 1
        return self

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


def of(operation, dtype=None):
    def call(*x):
        assert threads in (1, 2) and deterministic is not None
        value = OPERATIONS[operation](*(a.tolist() for a in x))
        out = dtype or x[0].dtype
        if operation in ("sum", "prod") and out == int32:
            out = int64
        return Tensor(out, struct.pack("<f", value)[2:] if out == bfloat16 else struct.pack("<" + out, value))
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


def cosine_similarity(x, y, dim):
    assert dim == 0
    return of("cosine")(x, y)


linalg = SimpleNamespace(vector_norm=lambda x, order=2: of(f"norm_{order}")(x))
nn = SimpleNamespace(functional=SimpleNamespace(
    mse_loss=of("mse"), l1_loss=of("mae"), cosine_similarity=cosine_similarity))
