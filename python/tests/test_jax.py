"""JAX's arrays on the CPU: the bits of NumPy's, and arrays of JAX for results. Those on a GPU are refused."""

import numpy as np
import pytest

import bitfold
from arrays import DTYPES, bits, random_array

jax = pytest.importorskip("jax")
jnp = jax.numpy

NAMES = ["sum", "mean", "var", "max", "argmax", "any", "logsumexp", "norm_l2"]


@pytest.fixture(params=[False, True], ids=["32 bits", "64 bits"], autouse=True)
def wide(request):
    """Whether JAX has types of 64 bits, which by default it has not."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    with jax.default_device(jax.devices("cpu")[0]):
        yield request.param
    jax.config.update("jax_enable_x64", before)


def has(dtype, wide):
    return wide or dtype.itemsize < 8


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_numpys(name, dtype, wide):
    if not has(dtype, wide):
        return
    x = random_array(3, (5, 300), dtype)
    there = jnp.asarray(x)
    assert there.dtype == dtype
    for axis in (None, 1, (0, 1)):
        wanted = np.asarray(getattr(bitfold, name)(x, axis=axis))
        if has(wanted.dtype, wide):
            made = getattr(bitfold, name)(there, axis=axis)
            assert isinstance(made, jax.Array) and bits(made) == bits(wanted)
        else:  # not 32 of its 64 bits in silence
            with pytest.raises(TypeError, match=f"^x: the result is {wanted.dtype}, and JAX makes .*32 of it without jax_enable_x64"):
                getattr(bitfold, name)(there, axis=axis)


def test_lists_and_several(wide):
    x = random_array(1, (300,), np.dtype("float32"))
    there, keys = jnp.asarray(x), np.arange(300) % 7
    for made, wanted in zip(bitfold.reduce(there, ["sum", "mean"]), bitfold.reduce(x, ["sum", "mean"]), strict=True):
        assert isinstance(made, jax.Array) and bits(made) == bits(wanted)
    assert bits(bitfold.dot(there, there[::-1])) == bits(bitfold.dot(x, x[::-1]))
    assert bits(bitfold.index_add(there, jnp.asarray(keys), 7)) == bits(bitfold.index_add(x, keys, 7))
    assert bits(bitfold.segment_reduce(there, jnp.asarray([0, 3, 300]), check=True)) == bits(bitfold.segment_reduce(x, [0, 3, 300]))


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
    with pytest.raises(Exception, match="(?i)trac"):
        jax.jit(bitfold.sum)(jnp.ones(3))


@pytest.mark.skipif(jax.default_backend() == "cpu", reason="no GPU for JAX")
def test_refused_on_a_gpu():
    with pytest.raises(TypeError, match="^x: JAX on CUDA"):
        bitfold.sum(jax.device_put(np.ones(3, np.float32), jax.devices()[0]))
