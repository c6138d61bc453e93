"""Accumulators, comparisons, golden files, threads, processes."""

import copy
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitfold
from arrays import DTYPES, bits, random_array
from bitfold import _core

NUMBERS = DTYPES[:-1]


# ---- accumulator


@given(st.sampled_from(NUMBERS), st.integers(0, 2**32), st.data())
def test_accumulator_is_method_exact(dtype, seed, data):
    x = random_array(seed, 300, dtype)
    y = random_array(seed + 1, 300, dtype)
    cut = sorted(data.draw(st.lists(st.integers(0, 300), max_size=4)))
    whole, squares, products = bitfold.accumulator(dtype), bitfold.accumulator(dtype, degree=2), bitfold.accumulator(dtype, degree=2)
    parts = list(zip(np.split(x, cut), np.split(y, cut)))
    for a, b in data.draw(st.permutations(parts)):
        other = bitfold.accumulator(dtype)
        other.add(a)
        whole.merge(pickle.loads(pickle.dumps(other)))
        squares.add_squares(a)
        products.add_products(a, b)
    to = np.int64 if dtype.kind in "iu" else dtype
    to_float = "float64" if dtype.kind in "iu" else dtype
    assert bits(whole.round(to)) == bits(bitfold.sum(x, method="exact", dtype=to))
    assert bits(whole.round_quotient(300, to_float)) == bits(bitfold.mean(x, method="exact", dtype=to_float))
    assert bits(squares.round_root(to_float)) == bits(bitfold.norm_l2(x, method="exact", dtype=to_float))
    assert bits(products.round(to)) == bits(bitfold.dot(x, y, method="exact", dtype=to))
    assert copy.deepcopy(whole).to_bytes() == whole.to_bytes() == bitfold.accumulator.from_bytes(whole.to_bytes()).to_bytes()


def test_accumulator_values():
    a = bitfold.accumulator("float32")
    a.add(np.arange(6, dtype=np.float32).reshape(2, 3).T)
    a.subtract(np.float32([1, 2]))
    assert a.round() == 12 and a.dtype == "float32" and a.degree == 1
    b = copy.copy(a)
    b.add_magnitudes(np.float32([-1]))
    assert a < b and a <= b and b > a and a != b and not a == b
    b.subtract(a)
    assert b.round("float64") == 1
    nan = bitfold.accumulator("float32")
    nan.add(np.float32([np.nan]))
    assert nan != nan and not nan < a
    d = bitfold.accumulator("float64", degree=2)
    d.add_squared_differences(np.array([1e-200, 3.0]), np.array([0.0, 1.0]))
    assert d.round() == 4 and "degree=2" in repr(d)
    i = bitfold.accumulator(np.int8)
    i.add(np.full(2, 127, np.int8))
    assert i.round() == -2 and not i.fits("int8") and i.fits("int16") and i.round("int16") == 254


def test_accumulator_refuses():
    a = bitfold.accumulator("float32")
    for kind, text, call in [
        (TypeError, "x: f64, of an accumulator of f32", lambda: a.add([1.0])),
        (ValueError, "degree: 1", lambda: a.add_squares(np.float32([1]))),
        (ValueError, "degree: 3", lambda: bitfold.accumulator(degree=3)),
        (TypeError, "degree: str", lambda: bitfold.accumulator(degree="2")),
        (ValueError, "n: -1 is negative", lambda: a.round_quotient(-1)),
        (TypeError, "data: int", lambda: bitfold.accumulator.from_bytes(5)),
        (TypeError, "data: str", lambda: bitfold.accumulator.from_bytes("abc")),
        (TypeError, "dtype: ", lambda: bitfold.accumulator(complex)),
        (ValueError, "other: ", lambda: a.merge(bitfold.accumulator("float64"))),
        (TypeError, "other: int", lambda: a.merge(1)),
        (ValueError, "dtype: i8", lambda: a.round("int8")),
        (ValueError, "accumulator: length", lambda: bitfold.accumulator.from_bytes(b"")),
        (ValueError, "accumulator: magic", lambda: bitfold.accumulator.from_bytes(bytes(16))),
        (ValueError, r"y: of shape \(2,\)", lambda: bitfold.accumulator("float64", degree=2).add_products([1.0], [1.0, 2.0])),
    ]:
        with pytest.raises(kind, match=text):
            call()
    assert a.round() == 0


# ---- same_bits, ulp_distance, order


def test_same_bits():
    nan = np.float32([np.nan])
    assert bitfold.same_bits(nan, nan.copy()) and not bitfold.same_bits(nan, -nan)
    assert not bitfold.same_bits([1.0], [1]) and not bitfold.same_bits([1.0], [[1.0]])
    assert bitfold.same_bits(np.arange(6.0).reshape(2, 3).T, np.arange(6.0).reshape(2, 3).T.copy())


def test_ulp_distance():
    one = np.float16(1)
    assert bits(bitfold.ulp_distance(one, np.nextafter(one, np.float16(2)))) == bits(np.uint64(1))
    a = np.array([1, -0.0, np.nan], ml_dtypes.bfloat16)
    b = np.array([2, 0.0, 1], ml_dtypes.bfloat16)
    assert bitfold.ulp_distance(a, b).tolist() == [128, 0, 2**64 - 1]
    assert bitfold.ulp_distance(np.int8([-128]), np.int8([127])).tolist() == [255]
    assert bitfold.ulp_distance(np.zeros((2, 0)), np.zeros((2, 0))).shape == (2, 0)
    with pytest.raises(ValueError, match="b: of shape"):
        bitfold.ulp_distance([1.0], [1.0, 2.0])
    with pytest.raises(TypeError, match="b: f64, and a is i64"):
        bitfold.ulp_distance([1], [1.0])


def test_order():
    assert bitfold.order(4, None) == bitfold.order(4)  # None is the default, as of reductions
    assert bitfold.order(4, "pairwise", "expression") == "((0 1) (2 3))\n"
    assert "digraph" in bitfold.order(2, format="dot")


# ---- golden files

MODEL = {"w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), "b": np.array([1.5, np.nan]), "ids": np.arange(3)}
OPS = ["sum", ("sum", {"method": "kahan", "dtype": "float64"}), ("var", {"ddof": 1}), "argmax", "any"]


def test_golden(tmp_path):
    golden = tmp_path / "golden.json"
    floats = {k: v for k, v in MODEL.items() if v.dtype.kind == "f"}
    bitfold.record(golden, floats, OPS)
    bitfold.check(golden, floats)
    bitfold.check(golden, {k: np.asfortranarray(v) for k, v in floats.items()}, file="golden.safetensors")
    moved = dict(floats, w=floats["w"].copy())
    moved["w"][1, 1] = np.nextafter(moved["w"][1, 1], np.float32(9))
    with pytest.raises(bitfold.BitsMoved) as e:
        bitfold.check(golden, moved)
    assert len(e.value.differences) == 1 and "moved w\n  content" in str(e.value)
    bitfold.check(golden, moved, ulps=2**63)
    with pytest.raises(bitfold.BitsMoved, match=r"moved w\n  sum kahan .* ulps"):
        bitfold.check(golden, moved, ulps=2**40)
    with pytest.raises(AssertionError, match="missing b"):
        bitfold.check(golden, {"w": floats["w"]})
    with pytest.raises(AssertionError, match="new c"):
        bitfold.check(golden, dict(floats, c=np.zeros(1)))
    with pytest.raises(AssertionError, match=r"changed w: f32\[3, 4\] -> f32\[12\]"):
        bitfold.check(golden, dict(floats, w=floats["w"].ravel()))
    with pytest.raises(ValueError, match="file: other"):
        bitfold.check(golden, floats, file="other")
    with pytest.raises(ValueError, match="ulps: -1"):
        bitfold.check(golden, floats, ulps=-1)
    golden.write_text("{}")
    with pytest.raises(ValueError, match="format: missing"):
        bitfold.check(golden, floats)


def test_ulps_do_not_excuse_nan(tmp_path):
    for a, b in (
        (np.float32([1, 2]), np.float32([1, np.nan])),
        (np.float32([1, np.nan]), np.float32([1, 2])),
    ):
        bitfold.record(tmp_path / "g", a)
        with pytest.raises(bitfold.BitsMoved, match="no distance"):
            bitfold.check(tmp_path / "g", b, ulps=2**64 - 1)
        bitfold.check(tmp_path / "g", a, ulps=0)
    bitfold.record(tmp_path / "g", np.uint64([0]))  # whose distance to 2^64 - 1 is one
    bitfold.check(tmp_path / "g", np.uint64([2**64 - 1]), ulps=2**64 - 1)
    with pytest.raises(bitfold.BitsMoved, match="18446744073709551615 ulps"):
        bitfold.check(tmp_path / "g", np.uint64([2**64 - 1]), ulps=2**64 - 2)
    for wrong in (1.5, "2"):
        with pytest.raises(TypeError, match="^ulps: .* integer is expected"):
            bitfold.check(tmp_path / "g", np.uint64([0]), ulps=wrong)


def test_bool_is_a_type_of_its_own(tmp_path):
    truths = np.array([True, False, True])
    bitfold.record(tmp_path / "g", {"x": truths}, ["sum", "max", "mean"])
    assert json.loads((tmp_path / "g").read_text())["files"][0]["arrays"][0]["dtype"] == "bool"
    for ulps in (None, 5):
        bitfold.check(tmp_path / "g", {"x": truths}, ulps=ulps)
        with pytest.raises(bitfold.BitsMoved, match=r"changed x: bool\[3\] -> u8\[3\]"):
            bitfold.check(tmp_path / "g", {"x": truths.view(np.uint8)}, ulps=ulps)
    strange = np.array([2, 0, 255], np.uint8).view(bool)  # the same truths by other bytes
    bitfold.check(tmp_path / "g", {"x": strange}, ulps=0)
    with pytest.raises(bitfold.BitsMoved, match="moved x\n  content"):
        bitfold.check(tmp_path / "g", {"x": strange})


def test_ulps_do_not_excuse_what_is_true_or_false(tmp_path):
    bitfold.record(tmp_path / "g", np.zeros(3), ["any"])
    with pytest.raises(bitfold.BitsMoved, match="any 0"):
        bitfold.check(tmp_path / "g", np.ones(3), ulps=5)


CLI = os.environ.get("BITFOLD_CLI")


@pytest.mark.skipif(not CLI, reason="skipped: BITFOLD_CLI names no command line")
def test_golden_files_are_those_of_the_command_line(tmp_path):
    x = MODEL["w"]
    np.save(tmp_path / "golden.npy", x)
    bitfold.record(tmp_path / "golden.json", x, ["sum", "mean", ("var", {"ddof": 1})])
    run = lambda *a: subprocess.run([CLI, *a], cwd=tmp_path, capture_output=True, text=True)  # noqa: E731
    assert run("check", "golden.json").returncode == 0
    assert run("record", "golden.npy", "--ops", "sum,mean,var", "--ddof", "1", "--out", "theirs.json").returncode == 0
    ours, theirs = (json.loads((tmp_path / name).read_text()) for name in ("golden.json", "theirs.json"))
    assert ours == theirs
    assert run("record", "golden.npy", "--ops", "all", "--method", "all", "--out", "all.json").returncode == 0
    bitfold.check(tmp_path / "all.json", x)
    np.save(tmp_path / "golden.npy", x + 1)
    assert run("check", "golden.json").returncode == 1
    with pytest.raises(bitfold.BitsMoved):
        bitfold.check(tmp_path / "all.json", x + 1)


@pytest.mark.skipif(not CLI, reason="skipped: BITFOLD_CLI names no command line")
def test_arrays_that_record_left_out_are_not_new(tmp_path):
    np.savez(tmp_path / "all.npz", **{"w.0": MODEL["w"], "w.1": MODEL["w"], "b": MODEL["w"]})
    subprocess.run([CLI, "record", "--tensor", "w.*", "--out", "golden.json", "all.npz"], cwd=tmp_path, check=True)
    both = {"w.0": MODEL["w"], "w.1": MODEL["w"]}
    bitfold.check(tmp_path / "golden.json", {**both, "b": MODEL["w"] + 1})
    with pytest.raises(bitfold.BitsMoved, match="^new w.2$"):
        bitfold.check(tmp_path / "golden.json", {**both, "w.2": MODEL["w"]})


# ---- threads and processes


def test_threads():
    arrays = [random_array(k, (50, 4000), np.dtype("float32")) for k in range(4)]
    calls = [lambda x: bitfold.sum(x), lambda x: bitfold.var(x, axis=0), lambda x: bitfold.logsumexp(x[:, :7], axis=1),
             lambda x: bitfold.sum(x[0, :9], dtype=np.float64), lambda x: bitfold.mean(x, method="exact")]
    wanted = [[bits(call(x)) for call in calls] for x in arrays]
    failures = []

    def work(k):
        for i in range(40):
            x = (k + i) % 4
            found = [bits(call(arrays[x])) for call in calls]
            if found != wanted[x]:
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


LARGE = random_array(3, (100, 5000), np.dtype("float32"))


def child(_):
    return bits(bitfold.sum(LARGE)), bits(bitfold.mean(LARGE, axis=0)), bits(bitfold.sum(LARGE[0, :5])), bitfold.count_distinct(LARGE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork():
    """While other threads are at work, whose locks a child then has for ever."""
    wanted, stop = child(None), threading.Event()

    def work():
        while not stop.is_set():
            bitfold.sum(LARGE)
            bitfold.mean(LARGE, axis=1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(60):
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                os._exit(0 if child(None) == wanted and _core._uses_one_thread() else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not _core._uses_one_thread()


def test_processes():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(child, range(4)) == [child(None)] * 4


# A shell's process in the background ignores interrupts.
INTERRUPT_SOON = ("signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                  "threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n")


def test_an_interrupt_is_raised_when_the_call_ends():
    code = ("import bitfold, numpy as np, os, signal, threading\n"
            "x = np.random.default_rng(0).random(1 << 22)\n"
            f"{INTERRUPT_SOON}"
            "try:\n"
            "    while True: bitfold.count_distinct(x)\n"
            "except KeyboardInterrupt: print('interrupted')\n")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout == "interrupted\n", run.stderr


def test_an_interrupted_accumulator_is_as_before():
    code = ("import bitfold, numpy as np, os, signal, threading\n"
            "x, a, done = np.ones(1 << 25, np.float32), bitfold.accumulator('float32'), 0\n"
            f"{INTERRUPT_SOON}"
            "try:\n"
            "    while True:\n"
            "        a.add(x)\n"
            "        done += 1\n"
            "except KeyboardInterrupt: print(int(a.round('float64')) == done << 25)\n")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout == "True\n", (run.stdout, run.stderr)


def test_registry():
    assert [op["name"] for op in _core.ops()] == list(bitfold._registry.REGISTRY)
    assert {m["name"] for m in _core.methods()} >= {"tree", "kahan", "exact"}
    assert isinstance(_core.cuda_devices(), list)
