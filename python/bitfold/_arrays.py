"""What a user's array is: NumPy's arrays of any layout, exporters of DLPack (PyTorch, CuPy, JAX, ...) on CPUs and CUDA
devices, and whatever np.asarray takes. Each family of arrays is a `Kind`, which reads arguments and makes results."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import warnings
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np

from . import _core

# bitfold's name of a type by the name that NumPy, PyTorch, CuPy and JAX have for it, and back.
NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "bool": "bool"} | {
    f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
PUBLIC = {short: name for name, short in NAMES.items()}

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


def numpy_dtype(short: str) -> np.dtype:
    if short == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("dtype: bfloat16 needs the package ml_dtypes") from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(PUBLIC[short])


RESULTS = _core.Results(np.empty)
for _short in PUBLIC:
    if _short != "bf16":
        _cell = np.zeros((), PUBLIC[_short])
        RESULTS.add(_short, _cell, _cell)
with contextlib.suppress(TypeError):
    _cell = np.zeros((), np.uint16)
    RESULTS.add("bf16", _cell, _cell.view(numpy_dtype("bf16")))

_short_names: dict[Any, str] = {}


def short_name(dtype: Any, argument: str = "dtype") -> str:
    """bitfold's name of a dtype of any library, of what np.dtype takes, or of itself.
    TypeError: not a type that bitfold has."""
    try:
        return _short_names[dtype]
    except (KeyError, TypeError):
        pass
    if isinstance(dtype, str) and dtype in PUBLIC and dtype not in ("i8", "u8"):
        return dtype  # those are of 8 bytes to NumPy
    text = str(dtype).removeprefix("torch.")
    if text not in NAMES:
        try:
            made = np.dtype(dtype)
        except TypeError:
            raise TypeError(f"{argument}: {dtype!r} is no element type of bitfold") from None
        if not made.isnative:
            raise TypeError(f"{argument}: {made.str} is byte-swapped")
        text = made.name
    if text not in NAMES:
        raise TypeError(f"{argument}: {text} is no element type of bitfold") from None
    with contextlib.suppress(TypeError):
        _short_names[dtype] = NAMES[text]
    return NAMES[text]


def integer(name: str, value: Any, end: int | None = None) -> int:
    """An integer; with `end` from 0 to end - 1."""
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {type(value).__name__}, where an integer is expected") from None
    if end is not None and value < 0:
        raise ValueError(f"{name}: {value} is negative")
    if end is not None and value >= end:
        raise ValueError(f"{name}: {value} is too large")
    return value


_PLAIN = (int, float, np.generic)  # of which a list has no more to tell


def _what_is_lost(x: Any) -> str | None:
    """What np.asarray would leave out in silence: the mask of a masked array, what is NA or null;
    in lists too."""
    kind = type(x)
    if kind is np.ndarray or issubclass(kind, _PLAIN):
        return None
    if issubclass(kind, (list, tuple)):
        if all(t is np.ndarray or issubclass(t, _PLAIN) for t in set(map(type, x))):
            return None
        return next(filter(None, map(_what_is_lost, x)), None)
    of_dask = getattr(x, "_meta", None)
    if issubclass(kind, np.ma.MaskedArray) or isinstance(of_dask, np.ma.MaskedArray):
        return "a masked array; its mask would be ignored"
    if _has_nulls(x, kind.__module__.partition(".")[0]):
        return (f"{kind.__name__} with NA or null, which no number stands for; fill or drop them "
                "first (NaN is a number here)")
    return None


def _has_nulls(x: Any, library: str) -> bool:
    if library == "pandas":
        types = getattr(x, "dtypes", None)
        if not hasattr(types, "__iter__"):
            types = [getattr(x, "dtype", None)]
        may_be_na = any(getattr(t, "na_value", None) is sys.modules["pandas"].NA for t in types)
        return may_be_na and bool(np.any(x.isna()))
    if library == "pyarrow":
        return any(getattr(c, "null_count", 0) for c in getattr(x, "columns", [x]))
    if library == "polars":
        nulls = x.null_count()
        return any(nulls.row(0)) if hasattr(nulls, "row") else type(nulls) is int and nulls > 0
    return False


def _as_array(x: Any, argument: str) -> np.ndarray:
    if (lost := _what_is_lost(x)) is not None:
        raise TypeError(f"{argument}: {lost}")
    try:
        made = np.asarray(x)
    except (TypeError, RuntimeError, ValueError) as e:
        if (why := why_not(x)) is not None:
            raise TypeError(f"{argument}: {why}") from None
        raise (TypeError if isinstance(e, TypeError) else ValueError)(f"{argument}: {e}") from None
    if made.dtype == object and (why := why_not(x)) is not None:
        raise TypeError(f"{argument}: {why}")
    return made


def why_not(x: Any) -> str | None:
    """Of what is no array with elements in memory: what it is, and what to do instead; None where
    it is none of these."""
    if getattr(x, "requires_grad", False):
        return ("a tensor that requires a gradient: x.detach(); torch.ops.bitfold has operators "
                "with gradients")
    library = type(x).__module__.partition(".")[0]
    if library == "jax" and "Tracer" in {c.__name__ for c in type(x).__mro__}:
        return ("a Tracer of JAX, which has no elements: call bitfold outside of jit, vmap and "
                "grad (axis= says what vmap would), or by jax.pure_callback")
    if hasattr(x, "toarray"):
        return f"{type(x).__name__}, which is sparse: x.toarray()"
    if library == "pandas":
        return "of several types, or of one that bitfold has not: x.to_numpy(dtype=float)"
    if isinstance(x, (Iterator, Set)):
        return f"{type(x).__name__}, which is no array: list(x)"
    name = str(getattr(x, "dtype", "float32")).removeprefix("torch.")
    known = name in NAMES or isinstance(x, np.ndarray)
    return None if known else f"{name} is no element type of bitfold"


def repeats(strides: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether elements of such an array may lie at one place."""
    reach = 0
    for stride, n in sorted((abs(s), n) for s, n in zip(strides, shape) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (n - 1)
    return False


def expect_integers(where: _core.Array, argument: str) -> None:
    if where.dtype not in ("i8", "i16", "i32", "i64", "u8", "u16", "u32"):
        raise TypeError(f"{argument}: {where.dtype}, where integers are expected")


_NOTHING = contextlib.nullcontext()


class Kind:
    """NumPy, and what np.asarray takes."""

    name = "NumPy"
    through_numpy = False  # whether results are NumPy's first

    def describe(self, x: Any, argument: str) -> _core.Array:
        """Where x lies, or a copy of it whose elements lie at multiples of their size. TypeError: an array that bitfold does not
        take."""
        x = _as_array(x, argument)
        short = short_name(x.dtype, argument)
        return _core.Array.from_buffer(x.view(np.uint16) if short == "bf16" else x, short, argument)

    def family(self) -> _core.Family:
        """What makes the results, and says where the work runs."""
        return RESULTS

    def indices(self, x: Any, argument: str) -> _core.Array:
        """Of integers of any type, as int64."""
        x = _as_array(x, argument)
        if x.dtype.kind not in "iu" and x.size:
            raise TypeError(f"{argument}: {x.dtype}, where integers are expected")
        if not x.dtype.isnative:
            raise TypeError(f"{argument}: {x.dtype.str} is byte-swapped")
        if x.dtype == np.uint64 and x.size and int(x.max()) >= 2**63:
            raise ValueError(f"{argument}: {x.max()} is too large")
        return self.describe(np.asarray(x, np.int64, order="C"), argument)

    def is_one(self, x: Any) -> bool:
        return isinstance(x, np.ndarray)

    def empty_like(self, out: Any) -> Any:
        return np.empty(out.shape, out.dtype)

    def expect_writable(self, out: Any) -> None:
        if not out.flags.writeable:
            raise ValueError("out: read-only")

    def writes(self, out: Any) -> None:
        """Before it is written."""

    def into(self, out: Any, inputs: tuple) -> _core.Family:
        """The same, with a result that goes to `out`: itself, or where it cannot be written as it comes, an array to be copied."""

        def make(shape: tuple, short: str):
            if not self.is_one(out):
                raise TypeError(f"out: {type(out).__name__}, where an array of {self.name} is expected")
            where = self.describe(out, "out")
            if where.shape != shape:
                raise ValueError(f"out: of shape {where.shape}, where the result has {shape}")
            if where.dtype != short:
                raise TypeError(f"out: {PUBLIC[where.dtype]}, where the result is {PUBLIC[short]}")
            if (where.device_type, where.device) != (inputs[0].device_type, inputs[0].device):
                raise ValueError("out: on another device than x")
            self.expect_writable(out)
            if where.is_copy:
                raise TypeError("out: its elements do not lie at multiples of their size")
            if repeats(where.strides, where.shape):
                raise ValueError("out: elements of it share memory")
            if where.is_row_major and not any(where.overlaps(x) for x in inputs if x is not None):
                self.writes(out)
                return out, where.pointer
            made = self.empty_like(out)
            return made, self.describe(made, "out").pointer

        return _core.ResultsBy(make, self.family())

    def finish(self, made: Any) -> Any:
        """A result as the user gets it."""
        return made

    def in_a_row(self, x: Any, axis: int | None) -> Any:
        """x with that axis as its last, and its elements one behind the other: a copy where they do
        not lie so."""
        x = _as_array(x, "x")
        return np.asarray(x if axis is None else np.moveaxis(x, axis, -1), order="C")

    def moved_back(self, made: Any, axis: int) -> Any:
        return np.moveaxis(made, -1, axis)

    def context(self):
        return _NOTHING

    def host(self, x: Any, argument: str = "x") -> np.ndarray:
        """x, or a copy of it, as NumPy has it."""
        self.describe(x, argument)
        return np.asarray(x)


class DLPack(Kind):
    """An exporter of DLPack: its results are its namespace's, on its device."""

    def __init__(self, x: Any, argument: str = "x"):
        self.x = x
        self.module = type(x).__module__.partition(".")[0]
        self.name = {"cupy": "CuPy", "jax": "JAX", "jaxlib": "JAX"}.get(self.module, type(x).__name__)
        self.device_type, self.device = map(int, x.__dlpack_device__())
        if self.device_type not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
            raise TypeError(f"{argument}: on a device of DLPack's type {self.device_type}; bitfold has "
                            "CPUs and CUDA")
        self.on_gpu = self.device_type in (CUDA, CUDA_MANAGED)
        self.through_numpy = not self.on_gpu

    @property
    def stream(self) -> int:
        return 0

    def _is_alike(self, x: Any) -> bool:
        return hasattr(x, "__dlpack__")

    def describe(self, x: Any, argument: str) -> _core.Array:
        if not self._is_alike(x):
            raise TypeError(f"{argument}: {type(x).__name__}, and x is of {self.name}")
        if tuple(map(int, x.__dlpack_device__())) != (self.device_type, self.device):
            raise ValueError(f"{argument}: on another device than x")
        options = {"stream": self.stream or 1} if self.on_gpu else {}
        try:
            try:
                capsule = x.__dlpack__(max_version=(1, 0), **options)
            except TypeError:  # of DLPack before 1.0
                capsule = x.__dlpack__(**options)
            return _core.Array.from_dlpack(capsule, argument)
        except Exception as e:
            if (why := why_not(x)) is not None:
                raise TypeError(f"{argument}: {why}") from None
            if not isinstance(e, (BufferError, TypeError)) or str(e).startswith(f"{argument}: "):
                raise
            raise TypeError(f"{argument}: {e}") from None

    def indices(self, x: Any, argument: str) -> _core.Array:
        where = self.describe(x, argument)
        expect_integers(where, argument)
        return where if where.dtype == "i64" else self._as_int64(x, argument)

    def _as_int64(self, x: Any, argument: str) -> _core.Array:
        return NUMPY.indices(np.from_dlpack(x), argument)

    def into(self, out: Any, inputs: tuple) -> _core.Family:
        raise TypeError(f"out: not taken for arrays of {self.name}")

    def finish(self, made: Any) -> Any:
        if isinstance(made, tuple):
            return tuple(self.finish(m) for m in made)
        namespace = getattr(self.x, "__array_namespace__", None)
        return made if namespace is None else self._theirs(namespace(), np.asarray(made))

    def _theirs(self, namespace: Any, made: np.ndarray) -> Any:
        """A result of NumPy's as the namespace's. TypeError where it would come as another type, as JAX has it."""
        if made.dtype.name == "bfloat16":  # which NumPy does not export
            return namespace.from_dlpack(made.view(np.uint16)).view(namespace.bfloat16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX's of what is an error here
            result = namespace.from_dlpack(made)
        self._expect_type(str(getattr(result, "dtype", made.dtype)), made.dtype.name)
        return result

    def _expect_type(self, came: str, wanted: str) -> None:
        if came != wanted:
            how = " without jax_enable_x64" if self.name == "JAX" else ""
            raise TypeError(f"x: the result is {wanted}, and {self.name} makes {came} of it{how}; np.asarray(x) has NumPy's result")

    def host(self, x: Any, argument: str = "x") -> np.ndarray:
        return np.asarray(x) if hasattr(x, "__array__") else np.from_dlpack(x)


class CuPy(DLPack):
    """CuPy's arrays. Work is enqueued on its current stream."""

    def __init__(self, x: Any):
        super().__init__(x)
        self.cupy = sys.modules["cupy"]
        self.through_numpy = False

    def family(self) -> _core.Family:
        return _core.Functions(self._empty, self.stream)

    @property
    def stream(self) -> int:
        return self.cupy.cuda.get_current_stream().ptr if self.on_gpu else 0

    def context(self):
        return self.cupy.cuda.Device(self.device) if self.on_gpu else _NOTHING

    def _is_alike(self, x: Any) -> bool:
        return self.is_one(x)

    def is_one(self, x: Any) -> bool:
        return isinstance(x, self.cupy.ndarray)

    def _as_int64(self, x: Any, argument: str) -> _core.Array:
        return self.describe(x.astype("int64"), argument)

    def _empty(self, shape: tuple, short: str):
        made = self.cupy.empty(shape, numpy_dtype(short))
        return made, made.data.ptr

    def empty_like(self, out: Any) -> Any:
        return self.cupy.empty(out.shape, out.dtype)

    def expect_writable(self, out: Any) -> None:
        """It has no others."""

    into = Kind.into

    def finish(self, made: Any) -> Any:
        return made

    def in_a_row(self, x: Any, axis: int | None) -> Any:
        return self.cupy.ascontiguousarray(x if axis is None else self.cupy.moveaxis(x, axis, -1))

    def moved_back(self, made: Any, axis: int) -> Any:
        return self.cupy.moveaxis(made, -1, axis)

    def host(self, x: Any, argument: str = "x") -> np.ndarray:
        return self.cupy.asnumpy(x)


class JAXOnCUDA(DLPack):
    """JAX's arrays on a GPU. Work is enqueued on the stream that JAX has for others. JAX does not wait for it, neither before it reads a
    result nor before it gives memory back: so a call does."""

    def __init__(self, x: Any):
        super().__init__(x)
        self.jax = sys.modules["jax"]
        (self.owner,) = x.devices()
        self._stream = int(self.owner.get_stream_for_external_ready_events())
        self._kept: list[_core.Array] = []  # arrays of our own, whose memory Python would give back before `finish`

    def _address(self, made: Any) -> int:
        self._kept.append(self.describe(made, "out"))
        return self._kept[-1].pointer

    @property
    def stream(self) -> int:
        return self._stream

    def context(self):
        return self.jax.default_device(self.owner)

    def indices(self, x: Any, argument: str) -> _core.Array:
        where = self.describe(x, argument)
        if where.dtype not in ("i8", "i16", "i32", "u8", "u16", "u32"):
            return super().indices(x, argument)
        jnp, lax = self.jax.numpy, self.jax.lax  # JAX has int64 by an option only: the words of it
        low = lax.bitcast_convert_type(x, jnp.int32) if where.dtype == "u32" else x.astype(jnp.int32)
        words = jnp.stack([low, jnp.zeros_like(low) if where.dtype == "u32" else low >> 31], -1)
        return _core.Array(self._address(words), "i64", list(where.shape), None, self.device_type, self.device)

    def in_a_row(self, x: Any, axis: int | None) -> Any:
        # JAX has no other layouts.
        return x if axis is None else self.jax.numpy.moveaxis(x, axis, -1)

    def moved_back(self, made: Any, axis: int) -> Any:
        return self.jax.numpy.moveaxis(made, -1, axis)

    def family(self) -> _core.Family:
        return _core.Functions(self._empty, self._stream)

    def _empty(self, shape: tuple, short: str):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is an error here
            made = self.jax.numpy.empty(shape, numpy_dtype(short))
        self._expect_type(str(made.dtype), PUBLIC[short])
        return made, self._address(made)

    def finish(self, made: Any) -> Any:
        _core.synchronize(self._stream)
        return made


NUMPY = Kind()


@functools.cache
def _torchs_kinds():
    from . import _tensors  # which imports torch

    return _tensors.kind_of


def kind_of(x: Any, argument: str = "x") -> Kind:
    """The family of arrays that x belongs to."""
    if isinstance(x, (np.ndarray, np.generic)):
        return NUMPY
    torch = sys.modules.get("torch")
    if torch and isinstance(x, torch.Tensor):
        return _torchs_kinds()(x)
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        return NUMPY
    if type(x).__module__.partition(".")[0] == "cupy":
        return CuPy(x)
    kind = DLPack(x, argument)
    if not kind.on_gpu:
        return kind
    if kind.name == "JAX":
        return JAXOnCUDA(x)
    raise TypeError(f"{argument}: {kind.name} on CUDA; bitfold can allocate there with PyTorch, CuPy "
                    "and JAX only")


def host(x: Any, argument: str = "x") -> np.ndarray:
    """x in row-major order on the CPU, as NumPy has it: a copy where it is not.
    TypeError: elements of a type that bitfold has not."""
    try:
        made = np.asarray(kind_of(x, argument).host(x, argument), order="C")
    except (TypeError, RuntimeError) as e:  # of a type that NumPy, or the exporter, does not have
        if str(e).startswith(f"{argument}: "):
            raise
        raise TypeError(f"{argument}: {why_not(x) or e}") from None
    short_name(made.dtype, argument)
    return made


def row_major(x: Any, argument: str = "x") -> _core.Array:
    """The same described."""
    return NUMPY.describe(host(x, argument), argument)
