"""Stands in for NumPy: what peers.py calls, adding one by one, so that only the caller can be wrong."""
import struct

__version__ = "a stand-in"


class Array:
    def __init__(self, kind, values):
        self.kind, self.values = kind, values

    def tobytes(self):
        return struct.pack(f"<{len(self.values)}{self.kind}", *self.values)


def frombuffer(data, kind):
    kind = {"<f2": "e", "<f4": "f", "<f8": "d"}[kind]
    return Array(kind, struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data))


def empty(n, kind):
    return frombuffer(bytes(n), kind)


def sum(x):
    total = 0.0
    for v in x.values:
        total += v
    return Array(x.kind, [total])
