"""torch.distributed's own collectives under the mode: 2 and 3 processes of a gloo group (ranks_mode.py says what each does)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import ranks
from bitfold.torch import _collectives

SIZES = (2, 3)


def test_every_operator_is_known():
    """Of those that torch has for groups, whether it computes."""
    spaces = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "fsdp")
    there = {s.name for s in torch._C._jit_get_all_schemas() if s.name.partition("::")[0] in spaces}
    known = {*_collectives.REDUCTIONS, *_collectives.MADE_OF_REDUCTIONS, *(name for names in _collectives.NO_ARITHMETIC.values() for name in names)}
    assert there and there <= known, there - known


@pytest.mark.parametrize("size", SIZES)
def test_they_have_the_bits_of_contributions(size):
    ranks.run("ranks_mode.collectives", size)


@pytest.mark.parametrize("size", SIZES)
def test_so_have_functional_ones_and_dtensors(size):
    ranks.run("ranks_mode.functional_collectives", size)


@pytest.mark.parametrize("size", SIZES)
def test_strict_refuses_what_is_not_covered_alone(size):
    ranks.run("ranks_mode.strict", size)


@pytest.mark.parametrize("size", SIZES)
def test_errors_are_bitfolds(size):
    ranks.run("ranks_mode.errors", size)


# ---- Training, and torch.compile -----------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_data_parallel_without_a_hook(size):
    ranks.run("ranks_mode.data_parallel", size)


def test_compiled():
    ranks.run("ranks_mode.compiled", 2)
    ranks.run("ranks_mode.compiled_models", 2)
