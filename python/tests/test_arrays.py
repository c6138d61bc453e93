"""What is taken, what comes back, and what is refused."""

import ctypes
import importlib
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitfold
from arrays import DTYPES, arrays, axes, bits, unaligned

NUMPY_2 = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@given(st.data())
def test_shapes_are_numpys(data):
    x = data.draw(arrays([np.dtype("int32")]))
    axis, keepdims = data.draw(axes(x.ndim)), data.draw(st.booleans())
    ours, theirs = bitfold.sum(x, axis=axis, keepdims=keepdims), np.sum(x, axis=axis, keepdims=keepdims)
    assert type(ours) is type(theirs)
    assert bits(ours) == bits(theirs)  # of integers NumPy's values and types are the same


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types_of_results(dtype):
    x = np.ones(3, dtype)
    whole = dtype.kind in "iub"
    assert bitfold.max(x).dtype == dtype
    assert bitfold.any(x).dtype == bool and bitfold.any(x) == np.True_
    assert bitfold.argmax(x).dtype == bitfold.count_nonzero(x).dtype == np.int64
    assert bitfold.mean(x).dtype == (np.float64 if whole else dtype)
    assert bitfold.sum(x).dtype == (np.sum(x).dtype if whole else dtype)


def test_lists_scalars_and_subclasses(tmp_path):
    assert bits(bitfold.sum([[1, 2], [3, 4]], axis=0)) == bits(np.array([4, 6]))
    assert bits(bitfold.sum(2.5)) == bits(np.float64(2.5))
    assert bits(bitfold.sum(np.float16(2.5))) == bits(np.float16(2.5))
    assert bits(bitfold.max((True, False))) == bits(np.True_)
    matrix = np.array([[1, 2]]).view(np.matrix)
    assert bits(bitfold.sum(matrix, axis=1)) == bits(np.array([3]))
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(5,))
    mapped[:] = 2
    assert bits(bitfold.sum(mapped)) == bits(np.float32(10))


def test_other_spellings():
    wanted = bits(bitfold.sum(X, axis=1))
    assert (
        wanted
        == bits(bitfold.sum(X, 1))
        == bits(bitfold.sum(X, dim=1))
        == bits(bitfold.sum(X, dim=[1]))
        == bits(bitfold.reduce(X, "sum", dim=1))
    )
    assert (
        bits(bitfold.sum(X, keepdims=True))
        == bits(bitfold.sum(X, keepdim=True))
        == bits(bitfold.sum(X, dim=(), keepdim=True))
    )
    assert (
        bits(bitfold.dot(X, X, 0))
        == bits(bitfold.dot(X, X, dim=0))
        == bits(bitfold.dot(X, X, axis=0))
    )
    assert (
        bits(bitfold.var(X, dim=0, correction=1))
        == bits(bitfold.var(X, 0, ddof=1))
        == bits(bitfold.reduce(X, ("var", {"ddof": 1}), axis=0))
    )
    assert bitfold.sum(X, dim=0, out=(out := np.zeros((3, 4), np.float32))) is out and bits(
        out
    ) == bits(bitfold.sum(X, 0))
    for theirs, ours in (
        ("float64", "f64"),
        ("float32", "f32"),
        ("float16", "f16"),
        (ml_dtypes.bfloat16, "bf16"),
    ):
        assert bits(bitfold.sum(X, dtype=theirs)) == bits(bitfold.sum(X, dtype=ours))
    assert bits(bitfold.sum(np.arange(9), dtype="i32")) == bits(np.int32(36)) and bits(
        bitfold.sum(np.arange(9), dtype="i8")
    ) == bits(np.int64(36))


@pytest.mark.parametrize(
    "type_, dtype",
    [
        (ctypes.c_float, "f4"),
        (ctypes.c_double, "f8"),
        (ctypes.c_short, "i2"),
        (ctypes.c_long, "i8"),
        (ctypes.c_ubyte, "u1"),
        (ctypes.c_bool, "?"),
    ],
)
def test_ctypes(type_, dtype):
    x = ((type_ * 3) * 2)((1, 0, 1), (1, 1, 0))
    assert bits(bitfold.sum(x, 0)) == bits(bitfold.sum(np.array([[1, 0, 1], [1, 1, 0]], dtype), 0))
    assert bits(bitfold.max(type_(1))) == bits(np.dtype(dtype).type(1))


def test_fields_of_records():
    x = np.zeros(5, [("a", "f4"), ("b", "f4")])
    x["b"] = range(5)
    assert bits(bitfold.sum(x["b"])) == bits(np.float32(10))


def test_int_axis_types():
    assert bits(bitfold.sum(X, axis=np.int8(-1))) == bits(np.sum(X, axis=-1))
    assert bits(bitfold.sum(X, axis=())) == bits(X)
    for yes in (1, np.True_, np.int8(1)):
        assert bits(bitfold.sum(X, keepdims=yes)) == bits(np.sum(X, keepdims=True))
    assert bits(bitfold.sum(X, keepdims=np.False_)) == bits(np.sum(X))


REFUSED = [
    (TypeError, "x: >f4 is byte-swapped", lambda: bitfold.sum(np.zeros(3, ">f4"))),
    (TypeError, "x: complex128 is no", lambda: bitfold.sum(np.zeros(3, complex))),
    (TypeError, "x: object is no", lambda: bitfold.sum(None)),
    (TypeError, "x: object is no", lambda: bitfold.sum(object())),
    (TypeError, "x: .*str", lambda: bitfold.sum("abc")),
    (TypeError, "x: .*bytes", lambda: bitfold.sum(b"abc")),
    (TypeError, "x: datetime64", lambda: bitfold.sum(np.zeros(3, "M8[s]"))),
    (TypeError, "out: its elements do not lie at multiples of their size", lambda: bitfold.sum(X, axis=0, out=unaligned(np.zeros((3, 4), np.float32)))),
    (TypeError, "x: a masked array", lambda: bitfold.sum(np.ma.array([1, 2], mask=[0, 1]))),
    (ValueError, "x: 9 axes", lambda: bitfold.sum(np.zeros((1,) * 9))),
    (ValueError, "x: .*inhomogeneous", lambda: bitfold.sum([1, [2]])),
    (ValueError, "x: max of no elements", lambda: bitfold.max([])),
    (ValueError, "x: output 0: no elements, and argmin", lambda: bitfold.argmin(np.zeros((3, 0)), axis=1)),
    (TypeError, "y: None", lambda: bitfold.dot(X, None)),
    (ValueError, "y: f64, and x is f32", lambda: bitfold.dot(X, X.astype(float))),
    (ValueError, "y: extents", lambda: bitfold.dot(X, X[:, :2])),
    (ValueError, "axis: 3 of an array of 3 axes", lambda: bitfold.sum(X, axis=3)),
    (ValueError, "axis: -4 of an array of 3 axes", lambda: bitfold.sum(X, axis=(0, -4))),
    (ValueError, "axis: -3 is given twice", lambda: bitfold.sum(X, axis=(0, -3))),
    (TypeError, "axis: float", lambda: bitfold.sum(X, axis=1.0)),
    (TypeError, "axis: list", lambda: bitfold.sum(X, axis=[0])),
    (TypeError, "keepdims: 'no' is neither true nor false", lambda: bitfold.sum(X, keepdims="no")),
    (TypeError, "keepdims: None", lambda: bitfold.reduce(X, ["sum"], keepdims=None)),
    (ValueError, "method: 'best' is none of", lambda: bitfold.sum(X, method="best")),
    (TypeError, "method: int", lambda: bitfold.sum(X, method=1)),
    (ValueError, "method: logsumexp|method", lambda: bitfold.var(X, method="kahan")),
    (ValueError, "acc: method exact", lambda: bitfold.sum(X, method="exact", acc="float64")),
    (ValueError, "acc: ", lambda: bitfold.sum(X.astype(float), acc=np.float32)),
    (TypeError, "acc: ", lambda: bitfold.sum(X, acc=[])),
    (TypeError, "dtype: float128 is no", lambda: bitfold.sum(X, dtype=np.longdouble)),
    (TypeError, "dtype: complex", lambda: bitfold.sum(X, dtype=complex)),
    (ValueError, "dtype: i8 is an integer type", lambda: bitfold.sum(X, dtype=np.int8)),
    (ValueError, "ddof: -1 is negative", lambda: bitfold.var(X, ddof=-1)),
    (TypeError, "ddof: float", lambda: bitfold.var(X, ddof=0.5)),
    (ValueError, "correction: 0.5 is not whole", lambda: bitfold.var(X, correction=0.5)),
    (TypeError, "correction: given beside ddof", lambda: bitfold.var(X, ddof=1, correction=1)),
    (TypeError, r"sum\(\) got an unexpected keyword argument 'where': x\[where\] has",
     lambda: bitfold.sum(X, where=X > 1)),
    (TypeError, r"max\(\) got an unexpected keyword argument 'initial': add it",
     lambda: bitfold.max(X, initial=1)),
    (TypeError, "unexpected keyword argument 'method'", lambda: bitfold.max(X, method="tree")),
    (TypeError, "out: list", lambda: bitfold.sum(X, out=[0])),
    (ValueError, r"out: of shape \(3,\)", lambda: bitfold.sum(X, out=np.zeros(3))),
    (TypeError, "out: float64, where the result is int64", lambda: bitfold.argmax(X, out=np.zeros(()))),
    (ValueError, "out: elements of it share memory", lambda: bitfold.sum(X, axis=(0, 1), out=np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4,), (0,)))),
    (ValueError, "out: i16 is an integer type", lambda: bitfold.sum(X, axis=0, out=np.zeros(4, np.int16))),
    (TypeError, "out: complex128 is no element type", lambda: bitfold.sum(X, axis=0, out=np.zeros(4, complex))),
    (ValueError, "dtype: i16 is an integer type", lambda: bitfold.sum(X, axis=0, dtype=np.int16, out=np.zeros(4, np.int16))),
    (ValueError, "out: read-only", lambda: bitfold.sum(X, axis=0, out=np.broadcast_to(np.float32(0), (3, 4)))),
    (TypeError, "takes from 1 to 2 positional arguments", lambda: bitfold.sum(X, 0, True)),
    (ValueError, "dim: 3 of an array of 3 axes", lambda: bitfold.sum(X, dim=3)),
    (TypeError, "dim: str, where an integer", lambda: bitfold.sum(X, dim="time")),
    (TypeError, "dim: given beside axis", lambda: bitfold.sum(X, 0, dim=0)),
    (TypeError, "keepdim: given beside keepdims",
     lambda: bitfold.sum(X, keepdims=True, keepdim=True)),
    (TypeError, "keepdim: 'no' is neither", lambda: bitfold.reduce(X, ["sum"], keepdim="no")),
    (ValueError, "op: there is no 'mode'", lambda: bitfold.reduce(X, ["mode"])),
    (ValueError, "op: there is no 'median': it goes by order", lambda: bitfold.reduce(X, "median")),
    (AttributeError, "no attribute 'median': it goes by order", lambda: bitfold.median),
    (AttributeError, "no attribute 'jit': bitfold's functions take arrays", lambda: bitfold.jit),
    (AttributeError, "no attribute 'such'$", lambda: bitfold.such),
    (TypeError, "x: a masked array",
     lambda: bitfold.sum([[1.0], [np.ma.array([1, 2], mask=[0, 1])]])),
    (TypeError, "x: a masked array", lambda: bitfold.sum([1.0, np.ma.masked])),
    (TypeError, "x: generator, which is no array: list", lambda: bitfold.sum(i for i in range(3))),
    (TypeError, r"ops: \('sum',\), where a name", lambda: bitfold.reduce(X, [("sum",)])),
    (TypeError, "ops: 3, where a name", lambda: bitfold.reduce(X, [3])),
    (TypeError, "ops: None", lambda: bitfold.reduce(X, None)),
    (TypeError, "ddof: sum takes none", lambda: bitfold.reduce(X, [("sum", {"ddof": 1})])),
    (ValueError, ".*two inputs|.*takes", lambda: bitfold.reduce(X, ["dot"])),
    (ValueError, "x: 3 axes", lambda: bitfold.segment_reduce(X, [0, 1])),
    (ValueError, "x: its elements do not lie in a row", lambda: bitfold.segment_reduce(X.ravel()[::2], [0, 1])),
    (ValueError, "offsets", lambda: bitfold.segment_reduce(X.ravel(), [0, 3, 2])),
    (ValueError, "offsets", lambda: bitfold.segment_reduce(X.ravel(), [0, 25])),
    (ValueError, "offsets: none", lambda: bitfold.segment_reduce(X.ravel(), [])),
    (ValueError, "offsets: 0 axes, where one is taken", lambda: bitfold.segment_reduce(X.ravel(), 2)),
    (ValueError, "keys: 0 axes, where one is taken", lambda: bitfold.index_add(X.ravel()[:1], np.int64(0), 2)),
    (TypeError, "offsets: a masked array", lambda: bitfold.segment_reduce(X.ravel(), np.ma.array([0, 1, 3], mask=[0, 1, 0]))),
    (TypeError, "keys: >i8 is byte-swapped", lambda: bitfold.reduce_by_key(X.ravel()[:2], np.zeros(2, ">i8"), 1)),
    (TypeError, "outputs: NoneType", lambda: bitfold.reduce_by_key(X.ravel()[:2], [0, 0], None)),
    (ValueError, "y: dot takes two inputs", lambda: bitfold.segment_reduce(X.ravel(), [0, 3], "dot")),
    (ValueError, "y: dot takes two inputs", lambda: bitfold.explain(X, "dot")),
    (ValueError, "y: sum takes one input", lambda: bitfold.explain(X, "sum", X)),
    (TypeError, "offsets: float64", lambda: bitfold.segment_reduce(X.ravel(), [0.0, 1.0])),
    (ValueError, "keys: 2 of them for 24", lambda: bitfold.reduce_by_key(X.ravel(), [0, 1], 2)),
    (ValueError, "key", lambda: bitfold.index_add(X.ravel()[:2], [0, 2], 2)),
    (ValueError, "keys", lambda: bitfold.index_add(X.ravel()[:1], np.uint64([2**63]), 2)),
    (ValueError, "outputs: -1 is negative", lambda: bitfold.index_add(X.ravel()[:1], [0], -1)),
    (ValueError, "outputs: 4611686018427387904 is too large", lambda: bitfold.index_add(X.ravel()[:1], [0], 2**62)),
    (TypeError, "outputs: float", lambda: bitfold.index_add(X.ravel()[:1], [0], 1.0)),
    (TypeError, "takes .* positional", lambda: bitfold.segment_reduce(X.ravel(), [0, 1], "sum", None, True)),
    (TypeError, "takes .* positional", lambda: bitfold.index_add(X.ravel()[:1], [0], 1, True)),
    (ValueError, "n: ", lambda: bitfold.order(10**6)),
    (ValueError, "format: ", lambda: bitfold.order(3, format="png")),
    (TypeError, "^format: NoneType, where a name", lambda: bitfold.order(3, format=None)),
]


@pytest.mark.parametrize("kind, text, call", REFUSED, ids=[text for _, text, _ in REFUSED])
def test_refused(kind, text, call):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("check", [False, True])
def test_offsets_and_keys_on_the_cpu_are_always_checked(check):
    x = X.ravel()
    for offsets, what in (([0, 3, 2], r"offsets\[2\]: 2 is below"), ([-1, 3], r"offsets\[0\]: -1"), ([0, 25], r"offsets\[1\]: 25 of 24")):
        with pytest.raises(ValueError, match=what):
            bitfold.segment_reduce(x, offsets, check=check)
    for key in (-1, 4):
        keys = np.array([0, 1, key] + [0] * 21)
        for call in (bitfold.reduce_by_key, bitfold.index_add):
            with pytest.raises(ValueError, match=rf"keys\[2\]: {key} is not from 0 to 3"):
                call(x, keys, 4, check=check)
    assert bits(bitfold.segment_reduce(x, [0, 1, 24], check=check)) == bits(np.array([x[0], x[1:].sum()]))
    assert bits(bitfold.index_add(x, np.arange(24) // 12, 2, check=check, dtype=np.float64)) == bits(x.reshape(2, 12).sum(axis=1, dtype=float))


def test_without_a_gpu_a_gpus_array_is_a_runtime_error():
    if bitfold._core.cuda_devices():
        pytest.skip("there is a GPU")
    somewhere = bitfold._core.Array(4096, "f32", [8], None, 2)
    make = lambda shape, short: (np.empty(shape), 0)
    with pytest.raises(RuntimeError, match="^cuda: no usable GPU on this machine"):
        bitfold._core.reduce(bitfold._ops.request_of("sum"), somewhere, None, None, False, bitfold._core.Functions(make, 0))


@pytest.mark.parametrize("version", ["2.10.1", "1.13.0", None])
def test_another_pytorch_is_one_clear_sentence(version, tmp_path):
    """By a package that stands in for an old PyTorch, or for none."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        f"__version__ = {version!r}\nclass Tensor: pass" if version else "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    code = f"import sys; sys.path[:0] = {[str(tmp_path), str(Path(bitfold.__file__).parents[1])]}; import bitfold.torch"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.splitlines()[-1]
    assert told == ("ImportError: bitfold.torch needs PyTorch 2.11 or newer, and " + (f"this is {version}" if version else "there is none"))


@pytest.mark.parametrize("name, told", [("numpy", "ModuleNotFoundError: No module named 'numpy'"),
                                        ("ml_dtypes", "TypeError: dtype: bf16 needs the package ml_dtypes")])
def test_a_package_that_is_not_there_is_one_clear_sentence(name, told, tmp_path):
    (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')")
    code = (f"import sys; sys.path[:0] = {[str(tmp_path), str(Path(bitfold.__file__).parents[1])]}; import bitfold\n"
            "assert bitfold.sum([1.0, 2.0]) == 3; bitfold.sum([1.0], dtype='bfloat16')")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.splitlines()[-1] == told


def test_a_library_for_another_python_is_one_clear_sentence(tmp_path):
    shutil.copytree(Path(bitfold.__file__).parent, tmp_path / "bitfold", ignore=lambda _, names: [n for n in names if n.startswith(("_core", "__pycache__"))])
    (tmp_path / "bitfold" / "_core.cpython-27-x86_64-linux-gnu.so").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import bitfold"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.splitlines()[-1]
    assert told == (f"ImportError: bitfold has no library for this Python, {sys.implementation.cache_tag} "
                    "(there is _core.cpython-27-x86_64-linux-gnu.so): install it with this Python's pip")


# ---- out


@given(st.data())
def test_out(data):
    x = data.draw(arrays([np.dtype(t) for t in ("float32", "float16", ml_dtypes.bfloat16, "int8")]))
    axis, keepdims = data.draw(axes(x.ndim)), data.draw(st.booleans())
    wanted = np.asarray(bitfold.sum(x, axis=axis, keepdims=keepdims))
    out = np.zeros([2 * n for n in wanted.shape], wanted.dtype)[(..., *(slice(0, 2 * n, 2) for n in wanted.shape))]
    if data.draw(st.booleans()):
        out = np.zeros(wanted.shape, wanted.dtype)
    assert bitfold.sum(x, axis=axis, keepdims=keepdims, out=out) is out
    assert bits(out) == bits(wanted)


def test_out_says_the_type_where_dtype_does_not():
    x = np.float16([60000, 60000])
    out = np.zeros((), np.float32)
    assert bits(bitfold.sum(x, out=out)) == bits(np.float32(120000))


def test_out_may_lie_in_x():
    x = X.copy()
    bitfold.sum(x, axis=0, out=x[1])
    assert bits(x[1]) == bits(np.sum(X, axis=0))
    x = np.arange(100_000.0).reshape(1000, 100)
    wanted = bitfold.sum(x, axis=1)
    last = x.reshape(-1)[-1000:]  # which is read after the first results are there
    assert bits(bitfold.sum(x, axis=1, out=last)) == bits(wanted)


def test_a_refused_call_leaves_out_alone():
    out = np.full((3,), 7.0)
    with pytest.raises(ValueError):
        bitfold.max(np.zeros((3, 0)), axis=1, out=out)
    assert (out == 7).all()


# ---- DLPack


class Exporter:
    """An array library that is known by DLPack alone."""

    def __init__(self, x, device=(1, 0)):
        self.x, self.device, self.asked = x, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None):  # of DLPack before 1.0
        self.asked.append(stream)
        return self.x.__dlpack__()


class Newer(Exporter):
    def __dlpack__(self, *, max_version=None, stream=None):
        self.asked.append((max_version, stream))
        return self.x.__dlpack__(max_version=max_version) if NUMPY_2 else self.x.__dlpack__()

    def __array_namespace__(self):
        class Namespace:
            @staticmethod
            def from_dlpack(x):
                return Newer(np.from_dlpack(x))
        return Namespace


def test_dlpack():
    x = X.transpose(2, 0, 1)[::-1]
    assert bits(bitfold.sum(Exporter(x), axis=1)) == bits(bitfold.sum(x, axis=1))
    ours = bitfold.sum(Newer(x), axis=1)
    assert type(ours) is Newer and bits(ours.x) == bits(bitfold.sum(x, axis=1))
    both = bitfold.reduce(Newer(x), ["sum", "max"], axis=1)
    assert [bits(r.x) for r in both] == [bits(r) for r in bitfold.reduce(x, ["sum", "max"], axis=1)]
    locked = x.copy()
    locked.flags.writeable = not NUMPY_2  # older ones cannot say so
    assert bits(bitfold.sum(Newer(locked)).x) == bits(bitfold.sum(x))
    assert bits(bitfold.dot(Exporter(x), Exporter(x))) == bits(bitfold.dot(x, x))
    assert bits(bitfold.index_add(Exporter(X.ravel()), Exporter(np.arange(24) // 2), 12)) == bits(X.reshape(12, 2).sum(axis=1))
    assert bits(bitfold.segment_reduce(Exporter(X.ravel()), Exporter(np.int32([0, 2])))) == bits(np.float32([1]))


def test_dlpack_keeps_the_memory_while_it_is_read_and_no_longer():
    x = np.ones(1 << 22)
    count = sys.getrefcount(x)
    assert bitfold.sum(Exporter(x)) == 1 << 22
    assert sys.getrefcount(x) == count

    class Temporary(Exporter):  # of memory that the capsule alone owns
        def __dlpack__(self, **options):
            return self.x.copy().__dlpack__()

    assert bitfold.sum(Temporary(x)) == 1 << 22


def test_dlpack_refused():
    with pytest.raises(TypeError, match="^x: on a device of DLPack's type 8"):
        bitfold.sum(Exporter(X, (8, 0)))
    with pytest.raises(TypeError, match="^x: Exporter on CUDA"):
        bitfold.sum(Exporter(X, (2, 0)))
    with pytest.raises(TypeError, match="^y: list, and x is of Exporter"):
        bitfold.dot(Exporter(X), [1.0])
    with pytest.raises(TypeError, match="^x: elements of DLPack's type code 5"):
        bitfold.sum(Exporter(np.zeros(3, complex)))
    byte_swapped = np.zeros(3, ">f4")  # which NumPy does not export
    with pytest.raises(TypeError, match="^x: DLPack only supports"):
        bitfold.sum(Exporter(byte_swapped))
    with pytest.raises(TypeError, match="^out: not taken"):
        bitfold.sum(Exporter(X), out=np.zeros((), np.float32))
    with pytest.raises(ValueError, match="^y: "):
        bitfold._core.reduce(bitfold._ops.request_of("dot"), bitfold._core.Array(0, "f32", [0]),
                             bitfold._core.Array(0, "f32", [0], None, 2), None, False, bitfold._arrays.RESULTS)


def test_the_negative_bit_of_a_tensor():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1 + 2j, 3 - 5j]).conj().imag
    assert x.is_neg() and bitfold.sum(x) == x.sum() == 3
    assert bitfold.same_bits(x, np.float32([-2, 5]))
    with pytest.raises(ValueError, match="out: a view with its signs reversed"):
        bitfold.sum(torch.ones(3, 2), axis=0, out=x)

def test_pytorch_without_dlpacks_c_exchange_api(monkeypatch):
    """As before 2.11."""
    torch = pytest.importorskip("torch")
    bitfold.sum(torch.ones(3))
    tensors = importlib.import_module("bitfold._tensors")
    calls = [
        lambda x: bitfold.sum(x), lambda x: bitfold.mean(x.T, axis=0), lambda x: bitfold.dot(x, x, axis=1),
        lambda x: bitfold.sum(x.to(torch.bfloat16), axis=1), lambda x: bitfold.any(x > 1, axis=1), lambda x: bitfold.softmax(x, 0),
        lambda x: bitfold.reduce(x, ["max", "argmax"], axis=0)[1], lambda x: bitfold.sum(x, axis=0, out=torch.empty(4)),
        lambda x: bitfold.reduce_by_key(x[0], torch.tensor([0, 1, 1, 0], dtype=torch.int32), 2),
    ]  # fmt: skip
    x = torch.arange(12.0).reshape(3, 4)
    wanted = [call(x) for call in calls]
    monkeypatch.setattr(tensors, "TENSORS", None)
    for call, want in zip(calls, wanted):
        got = call(x)
        assert type(got) is torch.Tensor and got.dtype is want.dtype and got.shape == want.shape and bitfold.same_bits(got, want)
    for wrong, what in ((x.requires_grad_(), "a tensor that requires a gradient"), (torch.ones(3, dtype=torch.complex64), "complex64 is no")):
        with pytest.raises(TypeError, match=f"^x: {what}"):
            bitfold.sum(wrong)


def test_tensors_are_reduced_on_torchs_threads():
    pytest.importorskip("torch")
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one core, on which there is one thread")
    count = (
        "import os, torch, bitfold\n"
        "torch.set_num_threads(1)\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "before = (bitfold.sum(torch.ones(3)), threads())[1]\n"
        "bitfold.sum(torch.ones(1 << 22))\n"
        "print(bitfold._tensors._torchs_threads()[0] == 0 or threads() == before)\n"
    )
    assert subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout == "True\n"


def test_pytorch_beside_others():
    torch = pytest.importorskip("torch")
    for call in (lambda: bitfold.dot(torch.ones(3), np.ones(3, np.float32)), lambda: bitfold.reduce_by_key(torch.ones(3), np.zeros(3, int), 1)):
        with pytest.raises(TypeError, match="^(y|keys): ndarray, and x is of PyTorch"):
            call()
    with pytest.raises(ValueError, match="^out: elements of it share memory"):
        bitfold.sum(torch.ones(3, 4), axis=0, out=torch.zeros(1).expand(4))



def test_tensors_that_are_refused():
    """With what to do instead, and not in the words of whom bitfold asks."""
    torch = pytest.importorskip("torch")
    refused = [
        (
            torch.nn.Parameter(torch.ones(3)),
            r"a tensor that requires a gradient: x.detach\(\); torch.ops.bitfold",
        ),
        (
            torch.eye(3).to_sparse(),
            r"a tensor of layout torch.sparse_coo, .* x.to_dense\(\) has them",
        ),
        (
            torch.ones(3, device="meta"),
            r"a tensor of type Tensor that has no elements .* \(device meta\); torch.ops",
        ),
        (torch.ones(3, dtype=torch.complex64), "complex64 is no element type of bitfold"),
        (torch.ones(3).to(torch.float8_e5m2), "float8_e5m2 is no element type of bitfold"),
    ]
    for x, why in refused:
        for call in (
            bitfold.sum,
            bitfold.softmax,
            lambda x: bitfold.reduce(x, ["sum"]),
            *[lambda x: bitfold.same_bits(x, x)] * (not x.requires_grad),
        ):
            with pytest.raises(TypeError, match=f"^[xa]: {why}"):
                call(x)
    within = [
        (
            lambda f: torch.vmap(f)(torch.ones(3, 4)),
            "a tensor inside a transform of torch.func, .* instead of vmap, axis=",
        ),
        (
            lambda f: torch.func.grad(f)(torch.ones(3)),
            "a tensor inside a transform of torch.func, .* torch.ops",
        ),
        (
            lambda f: torch.func.jvp(f, (torch.ones(3),), (torch.ones(3),)),
            "a tensor inside a transform of torch.func, .* torch.ops",
        ),
    ]
    for transform, why in within:
        with pytest.raises(TypeError, match=f"^x: {why}"):
            transform(lambda x: bitfold.sum(x))
    with pytest.MonkeyPatch.context() as patch:  # as torch.jit.trace has it, which takes seconds
        patch.setattr(torch.jit, "is_tracing", lambda: True)
        with pytest.raises(
            TypeError, match="^x: within torch.jit.trace or torch.compile; torch.ops.bitfold has"
        ):
            bitfold.sum(torch.ones(3))


def test_what_stands_for_no_number_is_refused():
    """By stand-ins for pandas, PyArrow, Polars and dask, which are not installed with bitfold."""
    na = object()
    pandas = types.SimpleNamespace(NA=na)

    def stand_in(library, **members):
        array = lambda self, dtype=None, copy=None: np.ones(3)  # what they give in silence
        return type("Stand", (), {"__module__": library, "__array__": array, **members})()

    dtype = types.SimpleNamespace(na_value=na)
    given = [
        stand_in("pandas.core", dtype=dtype, isna=lambda self: np.array([False, True])),
        stand_in(
            "pandas", dtypes=[np.dtype(float), dtype], isna=lambda self: np.array([[False, True]])
        ),
        stand_in("polars.series", null_count=lambda self: 1),
        stand_in("pyarrow.lib", null_count=1),
        stand_in(
            "pyarrow.lib",
            columns=[types.SimpleNamespace(null_count=0), types.SimpleNamespace(null_count=2)],
        ),
        stand_in("dask.array", _meta=np.ma.array([1.0])),
    ]
    whole = [
        stand_in("pandas.core", dtype=dtype, isna=lambda self: np.array([False, False])),
        stand_in("pandas.core", dtype=np.dtype(float), isna=lambda self: np.array([True])),  # a NaN
        stand_in("polars.series", null_count=lambda self: 0),
        stand_in("pyarrow.lib", null_count=0),
        stand_in("dask.array", _meta=np.array([1.0])),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pandas", pandas)
        for x in given:
            for argument in (x, [x], [[1.0, 2.0, 3.0], x]):
                with pytest.raises(TypeError, match="^x: (Stand with NA or null|a masked array)"):
                    bitfold.sum(argument)
        for x in whole:
            assert bitfold.sum(x) == 3 and bitfold.sum([x, x]) == 6


def test_subclasses_of_tensors_are_tensors():
    torch = pytest.importorskip("torch")
    mine = type("Mine", (torch.Tensor,), {})
    for call in bitfold.sum, bitfold.exp:
        assert type(call(torch.ones(3).as_subclass(mine))) is torch.Tensor


def test_bool_is_no_type_of_a_result():
    for call in (lambda: bitfold.sum(np.ones(3), dtype=bool), lambda: bitfold.sum(np.ones(3), acc="bool"), lambda: bitfold.accumulator("bool"),
                 lambda: bitfold.accumulator("int64").round(bool)):
        with pytest.raises(TypeError, match="bool, where a type of numbers is expected"):
            call()
    assert not bitfold.same_bits(np.array([True]), np.array([1], np.uint8))
    with pytest.raises(TypeError, match="^b: "):
        bitfold.ulp_distance(np.array([True]), np.array([1], np.uint8))


def test_an_exception_in_an_argument_is_its_own():
    class Broken:
        def __index__(self):
            raise ZeroDivisionError

    for call in (lambda: bitfold.sum(np.ones(3), axis=Broken()), lambda: bitfold.sum(np.ones(3), keepdims=Broken()),
                 lambda: bitfold.reduce(np.ones(3), ["sum"], keepdim=Broken())):
        with pytest.raises(ZeroDivisionError):
            call()


def test_whole_numbers():
    x = np.arange(5.0)
    bitfold.var(x, ddof=1)
    with pytest.raises(TypeError, match="ddof: float"):
        bitfold.var(x, ddof=1.0)
    for wrong in (float("nan"), float("inf"), np.ones(2), 0.5, "a"):
        with pytest.raises(ValueError, match="^correction: "):
            bitfold.var(x, correction=wrong)


def test_accumulators_of_other_types_are_not_equal():
    assert bitfold.accumulator("float32") != bitfold.accumulator("float64") and bitfold.accumulator("float32") == bitfold.accumulator("float32")
    with pytest.raises(TypeError):
        bitfold.accumulator("float32") < bitfold.accumulator("float64")


@pytest.mark.skipif("BITFOLD_CLI" not in os.environ, reason="skipped: BITFOLD_CLI names no command line")
def test_a_golden_file_of_two_inputs(tmp_path):
    np.save(tmp_path / "x.npy", np.float32([1, 2, 3]))
    golden = tmp_path / "golden.json"
    subprocess.run([os.environ["BITFOLD_CLI"], "record", "--ops", "dot", "--out", golden, *[tmp_path / "x.npy"] * 2], check=True)
    with pytest.raises(ValueError, match="golden.json: files.0..file2: recorded of two inputs"):
        bitfold.check(golden, np.float32([1, 2, 3]))


def test_record_says_that_mappings_lie_in_mappings(tmp_path):
    with pytest.raises(TypeError, match="arrays: 'model' is a mapping"):
        bitfold.record(tmp_path / "golden.json", {"model": {"weight": np.ones(3)}})
    assert not list(tmp_path.iterdir())


def test_record_keeps_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "golden.json"
    link.symlink_to(tmp_path / "there" / "golden.json")
    bitfold.record(link, np.ones(3), ["sum"])
    assert link.is_symlink()
    bitfold.check(link, np.ones(3))
    with pytest.raises(ValueError, match="^ops: none"):
        bitfold.record(link, np.ones(3), [])
    bitfold.record(link, np.ones(3), "sum")
    bitfold.check(link, np.ones(3))
    with pytest.raises(ValueError, match="^bad: .*no elements"):
        bitfold.record(link, {"good": np.ones(3), "bad": np.ones(0)}, ["max"])
    with pytest.raises(FileNotFoundError, match="/nowhere/golden.json'$"):
        bitfold.record(tmp_path / "nowhere" / "golden.json", np.ones(3), ["sum"])


def test_record_writes_as_the_command_line_does(tmp_path):
    """Whole, beside what else is there; a file keeps its mode, what is no file is written to."""
    golden = tmp_path / "golden.json"
    (tmp_path / "golden.json.part").write_text("precious")
    golden.write_text("old")
    golden.chmod(0o600)
    bitfold.record(golden, np.ones(3))
    bitfold.check(golden, np.ones(3))
    assert golden.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["golden.json", "golden.json.part"]
    assert (tmp_path / "golden.json.part").read_text() == "precious"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    bitfold.record(pipe, np.ones(3), file="golden.npy")
    assert reader.communicate()[0] == golden.read_bytes() and pipe.is_fifo()
    code = ("import bitfold; print('first', flush=True)\n"
            "bitfold.record('/dev/stdout', [1.0], file='x'); print('last')")
    with open(tmp_path / "log", "w") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "first" and lines[-1] == "last" and '"format": "bitfold-golden",' in lines
    with pytest.raises(ValueError, match="^path: has a zero byte"):
        bitfold.record("a\0b", np.ones(3), file="f")
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(PermissionError, match="golden.json'$"):
            bitfold.record(tmp_path / "locked" / "golden.json", np.ones(3))


def test_processes_that_record_the_same_file(tmp_path):
    """What is there at any time is whole."""
    arrays = f"{{f'array_{{i}}': np.full(3, float(i)) for i in range(100)}}"
    code = (
        f"import bitfold, numpy as np\nfor _ in range(20): bitfold.record('golden.json', {arrays})"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    found = 0
    while any(w.poll() is None for w in writers):
        if (tmp_path / "golden.json").exists():
            found = len(json.loads((tmp_path / "golden.json").read_text())["files"][0]["arrays"])
            assert found == 100
    assert [w.communicate()[1] for w in writers] == [b""] * 3 and found == 100
    assert [p.name for p in tmp_path.iterdir()] == ["golden.json"]
