"""`bitfold._core` by itself: whatever it is given, it raises an error or returns, and never ends the process; and arrays whose elements
do not lie at multiples of their size, which it copies."""

import importlib.util
import os
import socket
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import bitfold
from arrays import DTYPES, bits, random_array, unaligned
from bitfold import _core
from bitfold._arrays import RESULTS

X = np.arange(24, dtype=np.float32).reshape(4, 6)
SUM, EXACT = _core.Request("sum", "tree"), _core.Request("sum", "exact")


@pytest.mark.parametrize("given", [None, [None], (SUM, None), [1], ["sum"], 3, {}.keys], ids=repr)
def test_what_is_no_request(given):
    flat, list_ = X.ravel(), np.array([0, 24])
    for call in (lambda: _core.reduce(given, X, None, None, True, RESULTS),
                 lambda: _core.reduce_segments(given, flat, None, list_, False, RESULTS),
                 lambda: _core.reduce_by_key(given, flat, None, np.zeros(24, np.int64), 1, False, RESULTS),
                 lambda: _core.explain(given, X, None, None)):
        with pytest.raises(TypeError):
            call()


class OnTheFly:
    """A sequence that makes its items when it is asked, and keeps none."""

    def __init__(self, n, make):
        self.n, self.make = n, make

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        if k >= self.n:
            raise IndexError
        return self.make(k)


def test_items_are_kept_while_they_are_read():
    wanted = bits(bitfold.sum(X))
    for requests in ((_core.Request("sum", "tree") for _ in range(50)), OnTheFly(50, lambda k: _core.Request("sum", "tree"))):
        assert [bits(r) for r in _core.reduce(requests, X, None, None, False, RESULTS)] == [wanted] * 50
    pieces = OnTheFly(50, lambda k: np.full(1000, k, np.float64))
    assert _core.reduce_pieces(EXACT, pieces, RESULTS) == 1000 * 1225
    growing = bytearray(8 * 1000)
    array = _core.Array.from_buffer(growing)
    with pytest.raises(BufferError):
        growing.clear()
    assert array.shape == (8000,)


def read_only(x):
    x.flags.writeable = False
    return x


def test_what_is_read_only_is_not_written():
    rows, names = np.ones((3, 4), np.float32), ("x", "y", "w", "b", "mean", "rstd")

    def apply(function, out, **given):
        arrays = [given.get(name) for name in names]
        return _core.apply_rows(function, rows, *arrays[1:], 4, 1e-5, out, RESULTS)

    zeros = lambda *shape: np.zeros(shape, np.float32)
    gradient = [rows, rows, None, zeros(3), np.ones(3, np.float32), 4]
    refused = read_only(zeros(3, 4)), memoryview(bytes(48)).cast("f"), _core.Array.from_buffer(read_only(zeros(3, 4)))
    for out in refused:
        with pytest.raises(ValueError, match="^out: read-only"):
            apply("softmax", out)
    for name, call in {
        "mean": lambda: apply("layer_norm", None, mean=read_only(zeros(3)), rstd=zeros(3)),
        "rstd": lambda: apply("layer_norm", None, mean=zeros(3), rstd=read_only(zeros(3))),
        "dw": lambda: _core.parameter_gradients("layer_norm_backward", *gradient, read_only(zeros(4)), None, RESULTS),
        "db": lambda: _core.parameter_gradients("layer_norm_backward", *gradient, zeros(4), read_only(zeros(4)), RESULTS),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: read-only"):
            call()
    with pytest.raises(ValueError, match="^out: read-only"):
        _core.ulp_distances(rows, rows, read_only(np.zeros((3, 4), np.uint64)))
    out = zeros(3, 4)
    assert apply("softmax", out) is out and bits(out) == bits(bitfold.softmax(rows))


def test_a_refused_call_keeps_nothing():
    locked, many = read_only(np.zeros((4, 6), np.float32)), np.zeros((1,) * 9)
    for array, call in (
        (locked, lambda: _core.apply_rows("softmax", X, *[None] * 5, 6, 0, locked, RESULTS)),
        (many, lambda: _core.reduce(SUM, many, None, None, False, RESULTS)),
    ):
        count = sys.getrefcount(array)
        for _ in range(3):
            with pytest.raises(ValueError):
                call()
        assert sys.getrefcount(array) == count


def test_room_is_looked_at():
    for call, text in (
        (lambda: _core.ulp_distances(X, X, np.zeros(24, np.uint8)), "^out: u8, where u64"),
        (lambda: _core.Array(4096, "f32", [-1]), "^shape: -1"),
        (lambda: _core.Array(4096, "f32", [2**32, 2**32]), "^shape: more"),
        (lambda: _core.Array(0, "f32", [3]), "^pointer: null"),
        (lambda: _core.Array(4097, "f32", [3]), "^pointer: its elements"),
        (lambda: _core.Results(np.empty).add("f64", *[np.zeros((), np.float32)] * 2), "^cell: not of 8 bytes"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            call()
    assert _core.reduce(SUM, X, None, 0, False, _core.Results(np.empty)) is NotImplemented  # of no arrays that it knows


SWEEP = '''
import os, random, sys, tempfile
import numpy as np
from bitfold import _core
from bitfold._arrays import RESULTS

os.chdir(tempfile.mkdtemp())
random.seed(int(sys.argv[1]))
x = np.arange(12, dtype=np.float32)
locked = np.ones(4, np.float32)
locked.flags.writeable = False
packed = np.zeros(3, [("a", "u1"), ("b", "f4")])["b"]
# Addresses are what they are said to be; and what takes some is not called.
not_called = {"Array", "Tensors", "reduce_all_into", "synchronize", "write_files", "look_for_compiler_at", "compile_by", "compile_for_others"}
calls = [getattr(_core, name) for name in dir(_core) if name[0] != "_" and name not in not_called and callable(getattr(_core, name))]
calls += [_core._reference, _core.Array.from_buffer, _core.Array.from_dlpack, _core.Accumulator.from_bytes]
values = [None, True, 0, 1, 3, -1, 2**63, 1.5, b"", "", "sum", "dot", "max", "exact", "f32", "f64", "bool", "softmax", "layer_norm",
          "layer_norm_backward", "exp", [], (), [None], [1, 2], {}, object(), x, x.reshape(3, 4), x[::2], x[:0], np.float64(3), packed, locked,
          np.arange(12.0), np.arange(12), np.array([0, 3, 12]), np.array([5, -1]), np.ones(4, bool), np.zeros((3, 0)), bytearray(16),
          RESULTS, _core.Results(np.empty), lambda *a: None, lambda *a: (x, "x"), np.empty]
values += [made for made in map(_core.Array.from_buffer, (x, locked, np.arange(12), packed))]
for op in ("sum", "dot", "argmax", "var", "min", "count_distinct"):
    values += [_core.Request(op), _core.Reduction(op, None, "f32")]
values += [_core.Request("sum", "exact"), _core.Accumulator("f32", 1), _core.Functions(lambda *a: None, 0), _core.ResultsBy(lambda *a: 3, RESULTS)]
if "torch" in sys.argv[2:]:
    import torch
    from bitfold._tensors import TENSORS
    values += [TENSORS, torch.ones(3, 4), torch.arange(12), torch.ones(4), torch.empty(2, device="meta"), torch.nn.Parameter(torch.ones(3))]
    calls += [getattr(TENSORS, name) for name in dir(TENSORS) if name[0] != "_"]
fitting = {"family": [v for v in values if isinstance(v, _core.Family)]}
raised = returned = 0
for _ in range(10000):
    call = random.choice(calls)
    words = (call.__doc__ or "").partition("(")[2].partition(") ->")[0].count(": ")
    args = [random.choice(values) for _ in range(max(0, words + random.choice([0, 0, 0, 0, -1, 1])))]
    if random.random() < 0.8 and "family" in (call.__doc__ or "") and args:
        args[-1] = random.choice(fitting["family"])
    try:
        call(*args)
        returned += 1
    except Exception:
        raised += 1
    methods = [v for v in args if isinstance(v, (_core.Request, _core.Accumulator, _core.Results))]
    for v in methods[:1]:
        name = random.choice([n for n in dir(v) if n[0] != "_" and callable(getattr(v, n))])
        try:
            getattr(v, name)(*random.choices(values, k=random.choice([0, 1, 1, 2, 3])))
        except Exception:
            pass
print(raised, returned)
'''


@pytest.mark.parametrize("seed", range(2))
def test_no_call_ends_the_process(seed, tmp_path):
    script = tmp_path / "sweep.py"
    script.write_text(SWEEP)
    torch = ["torch"] if seed == 0 and importlib.util.find_spec("torch") else []
    done = subprocess.run([sys.executable, "-X", "faulthandler", script, str(seed), *torch], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    raised, returned = map(int, done.stdout.split()[-2:])
    assert raised > 1000 and returned > 100


# ---- Elements that do not lie at multiples of their size


def packed(x):
    """The same as a field of a record behind a byte."""
    records = np.zeros(x.shape, [("a", "u1"), ("x", x.dtype)])
    records["x"] = x
    return records["x"]


def bits_of(results):
    return [bits(r) for r in results] if isinstance(results, tuple) else bits(results)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unaligned_arrays_have_the_bits_of_aligned_ones(dtype):
    x, y = random_array(3, (5, 37), dtype), random_array(4, (5, 37), dtype)
    for other in (unaligned, packed):
        a, b = other(x), other(y)
        assert dtype.itemsize == 1 or not a.flags.aligned or any(s % dtype.itemsize for s in a.strides)
        for call in (bitfold.sum, bitfold.max, bitfold.count_distinct, lambda x: bitfold.sum(x, axis=0), lambda x: bitfold.max(x.T, axis=1),
                     lambda x: bitfold.reduce(x[:, ::-1], ["min", "argmax"], axis=1)):
            assert bits_of(call(a)) == bits_of(call(x))
        if dtype != bool:
            assert bits(bitfold.dot(a, b, axis=1)) == bits(bitfold.dot(x, y, axis=1))
        flat = bitfold.segment_reduce((other if dtype.itemsize > 1 else unaligned)(x.ravel()), unaligned(np.array([0, 7, 185])), "max")
        assert bits(flat) == bits(bitfold.segment_reduce(x.ravel(), [0, 7, 185], "max"))
        if dtype.kind == "f" and dtype.itemsize > 2:
            assert bits(bitfold.softmax(a)) == bits(bitfold.softmax(x))
            assert bits(bitfold.layer_norm(a, weight=other(y[0]))) == bits(bitfold.layer_norm(x, weight=y[0]))
            out = np.zeros_like(x)
            with pytest.raises(TypeError, match="^out: its elements do not lie at multiples of their size"):
                _core.apply_rows("softmax", x, None, None, None, None, None, 37, 0, other(out), RESULTS)


def test_unaligned_arrays_of_other_libraries():
    class Exporter:
        def __init__(self, x):
            self.x = x

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **options):
            return self.x.__dlpack__()

    x = random_array(1, (5, 37), np.dtype("float32"))
    wanted = bits(bitfold.sum(x, axis=0))
    assert bits(bitfold.sum(Exporter(unaligned(x)), axis=0)) == wanted
    torch = pytest.importorskip("torch")
    import torch_helpers

    t = torch_helpers.unaligned(torch.from_numpy(x))
    assert t.data_ptr() % 4 != 0
    assert bits(bitfold.sum(t, axis=0)) == wanted
    assert bits(bitfold.softmax(t)) == bits(bitfold.softmax(x))
    with pytest.raises(TypeError, match="^out: its elements do not lie at multiples of their size"):
        bitfold.sum(torch.ones(2, 5, 37), axis=0, out=t)


# ---- The interpreter's lock


def _ulp_distances():
    x = np.ones(1 << 20, np.float32)
    return lambda: _core.ulp_distances(x, x, np.empty(x.size, np.uint64))


def _count_distinct():
    x = np.zeros(1 << 20)
    return lambda: bitfold.count_distinct(x)


def _nll():
    torch = pytest.importorskip("torch")
    from bitfold._tensors import TENSORS

    x, target = torch.ones(1 << 18, 2), torch.zeros(1 << 18, dtype=torch.int64)
    total = _core.Request("sum")
    return lambda: TENSORS.nll_plain(total, x, target, True, -100)


@pytest.mark.parametrize("make", [_count_distinct, _ulp_distances, _nll])
def test_long_calls_let_other_threads_go_on(make):
    call = make()
    interval, go, went_on = sys.getswitchinterval(), threading.Event(), []
    thread = threading.Thread(target=lambda: (go.wait(), went_on.append(True)))
    thread.start()
    sys.setswitchinterval(1000)  # from now on nobody takes the lock that is not given
    try:
        go.set()
        for _ in range(300):
            call()
            if went_on:
                break
        found = bool(went_on)
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert found


def test_a_process_that_compiles_for_others():
    """It needs nothing but _core, answers with its error, and ends with who asks."""
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen([*bitfold._compiler_command(), ""], stdin=theirs, env={**os.environ, "BITFOLD_NVRTC": "/dev/null/none"}) as process:
        theirs.close()
        text = lambda of: struct.pack("Q", len(of)) + of
        ours.sendall(struct.pack("Q", 4) + b"".join(map(text, (b"void f();", b"f", b"9", b"0"))))
        answer = ours.recv(1 << 16)
        ours.close()
        assert process.wait(60) == 0
    assert answer.startswith(struct.pack("Q", 3) + text(b"4")) and b"no kernel can be compiled" in answer
