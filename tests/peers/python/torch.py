"""Stands in for PyTorch: what peers.py calls on the CPU, adding one by one, so that only the caller can
be wrong. A sum with other threads or in another mode than its contestant says is refused."""
import struct

__version__ = "a stand-in"
float16, bfloat16, float32, float64, uint8 = "e", "b", "f", "d", "B"
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


def sum(x):
    assert threads in (1, 2) and deterministic is not None
    total = 0.0
    for v in x.tolist():
        total += v
    return Tensor(x.dtype, struct.pack("<f", total)[2:] if x.dtype == bfloat16 else struct.pack("<" + x.dtype, total))
