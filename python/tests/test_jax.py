"""JAX's arrays on the CPU and on a GPU: the bits of NumPy's, and arrays of JAX on that device for results."""

import os

import numpy as np
import pytest

import bitfold
from arrays import DTYPES, bits, random_array
from bitfold import _core

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # there are others on the GPU
jax = pytest.importorskip("jax")
jnp = jax.numpy

NAMES = ["sum", "mean", "var", "max", "argmax", "any", "logsumexp", "norm_l2"]
ON_GPU = bool(_core.cuda_devices()) and jax.default_backend() != "cpu"


@pytest.fixture(params=["cpu", *([pytest.param("gpu", marks=pytest.mark.cuda)] if ON_GPU else [])], autouse=True)
def device(request):
    device = jax.devices(request.param)[-1]  # of several GPUs not the current one
    with jax.default_device(device):
        yield device


@pytest.fixture(params=[False, True], ids=["32 bits", "64 bits"], autouse=True)
def wide(request):
    """Whether JAX has types of 64 bits, which by default it has not."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    yield request.param
    jax.config.update("jax_enable_x64", before)


def is_there(made, device):
    return isinstance(made, jax.Array) and made.devices() == {device}


def has(dtype, wide):
    return wide or dtype.itemsize < 8


def test_a_result_is_there_when_it_is_given(device):
    """However long what computes it takes."""
    n = 1 << (20 if device.platform == "cpu" else 28)
    x = jnp.zeros(n, "float32").at[-1].set(1)
    for _ in range(5):
        made = bitfold.reduce(x, ["sum", "kurtosis", "norm_l1", "logsumexp"])[0]
        assert float(made) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_numpys(name, dtype, device, wide):
    if not has(dtype, wide):
        return
    x = random_array(3, (5, 300), dtype)
    there = jnp.asarray(x)
    assert there.dtype == dtype
    for axis in (None, 1, (0, 1)):
        wanted = np.asarray(getattr(bitfold, name)(x, axis=axis))
        if has(wanted.dtype, wide):
            made = getattr(bitfold, name)(there, axis=axis)
            assert is_there(made, device) and bits(made) == bits(wanted)
        else:  # not 32 of its 64 bits in silence
            with pytest.raises(TypeError, match=f"^x: the result is {wanted.dtype}, and JAX makes .*32 of it without jax_enable_x64"):
                getattr(bitfold, name)(there, axis=axis)


def test_lists_and_several(device, wide):
    x = random_array(1, (300,), np.dtype("float32"))
    there, keys = jnp.asarray(x), np.arange(300) % 7
    for made, wanted in zip(bitfold.reduce(there, ["sum", "mean"]), bitfold.reduce(x, ["sum", "mean"]), strict=True):
        assert is_there(made, device) and bits(made) == bits(wanted)
    assert bits(bitfold.dot(there, there[::-1])) == bits(bitfold.dot(x, x[::-1]))
    for dtype in DTYPES:
        if dtype.kind in "iu" and dtype != np.uint64 and has(dtype, wide):
            assert bits(bitfold.index_add(there, jnp.asarray(keys.astype(dtype)), 7)) == bits(bitfold.index_add(x, keys, 7))
            offsets = [0, 3, 120]
            assert bits(bitfold.segment_reduce(there, jnp.asarray(offsets, dtype), check=True)) == bits(bitfold.segment_reduce(x, offsets))
    for key, dtype in ((-1, np.int8), (-1, np.int32), (2**31 + 5, np.uint32), (2**32 - 1, np.uint32)):
        with pytest.raises(ValueError, match=rf"^keys\[299\]: {key} "):
            bitfold.index_add(there, jnp.asarray(np.append(keys[:-1], key).astype(dtype)), 7, check=True)


def test_memory_that_is_given_back_at_once(device, wide):
    x = np.random.default_rng(4).standard_normal((200, 1000)).astype(np.float32)
    there = jnp.asarray(x)
    wanted = [bits(bitfold.sum(x * np.float32(2**k), axis=1)) for k in range(8)]
    made = [bitfold.sum(there * np.float32(2 ** (k % 8)), axis=1) * 1 for k in range(64)]  # JAX's work on what came, too
    assert [bits(m) for m in made] == wanted * 8


def test_a_result_that_takes_a_while(device, wide):
    n = 1 << (20 if device.platform == "cpu" else 27)
    there = jnp.arange(n, dtype=jnp.int32)
    assert int(bitfold.max(there)) == n - 1
    assert bits(bitfold.sum(there.astype(jnp.float32))) == bits(bitfold.sum(np.arange(n, dtype=np.float32)))


def test_layouts_and_comparing():
    x = random_array(2, (4, 5, 6), np.dtype("float32"))
    assert bits(bitfold.sum(jnp.asarray(x).transpose(2, 0, 1)[::2], axis=1)) == bits(bitfold.sum(x.transpose(2, 0, 1)[::2], axis=1))
    assert bitfold.same_bits(jnp.asarray(x), x) and bitfold.ulp_distance(jnp.asarray(x), x).max() == 0


def test_refused(wide):
    with pytest.raises(TypeError, match="^out: not taken for arrays of JAX"):
        bitfold.sum(jnp.ones(3), out=np.zeros((), np.float32))
    with pytest.raises(TypeError, match="^y: list, and x is of JAX"):
        bitfold.dot(jnp.ones(3), [1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="^x: .*complex|^x: elements of DLPack's type code 5"):
        bitfold.sum(jnp.ones(3, jnp.complex64))


def test_inside_a_traced_function():
    for transform in (jax.jit, jax.vmap, jax.grad):
        for function in (bitfold.sum, bitfold.softmax):
            with pytest.raises(
                TypeError, match="^x: a Tracer of JAX, which has no elements: .* jax.pure_callback"
            ):
                transform(function)(jnp.ones((3, 3)))


def test_functions_of_rows(device, wide):
    for dtype in DTYPES[:4]:
        if has(dtype, wide):
            x, w = random_array(1, (5, 300), dtype), random_array(2, 300, dtype)
            there = jnp.asarray(x)
            for function in (bitfold.softmax, bitfold.log_softmax, bitfold.rms_norm):
                for axis in (-1, 0):
                    made = function(there, axis)
                    assert is_there(made, device) and bits(made) == bits(function(x, axis))
            assert bits(
                bitfold.layer_norm(there, weight=jnp.asarray(w), bias=jnp.asarray(w))
            ) == bits(bitfold.layer_norm(x, weight=w, bias=w))
            assert bits(bitfold.exp(there)) == bits(bitfold.exp(x))
