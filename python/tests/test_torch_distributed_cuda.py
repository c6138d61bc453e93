"""Reductions over ranks that have a GPU each, by NCCL: the bits of the CPU's definition, on 1, 2 and 4 of them (ranks.py says what each rank
does). Where there are fewer than two GPUs all is skipped."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not (torch.distributed.is_available() and torch.distributed.is_nccl_available() and torch.cuda.device_count() >= 2):
    pytest.skip("fewer than two GPUs, or no NCCL", allow_module_level=True)

import bitfold.torch.distributed as over_ranks
import ranks
from torch_helpers import same

SIZES = [size for size in (1, 2, 4) if size <= torch.cuda.device_count()]
NCCL, BOTH = "nccl", "cpu:gloo,cuda:nccl"


@pytest.fixture(scope="module", autouse=True)
def processes():
    yield
    ranks.end_all()


@pytest.mark.parametrize("op, method, dtype, given", ranks.CASES)
def test_contributions_on_a_gpu_are_those_on_a_cpu(op, method, dtype, given):
    for m in (2, 7, 13, 100):
        x = ranks.numbers(dtype, m, 1003, seed=m)
        if dtype.is_floating_point:
            x[0, 5], x[-1, 6], x[:, 7] = float("nan"), float("inf"), -0.0
        want = over_ranks.reduce_contributions(x, op, method=method, dtype=given)
        assert same(over_ranks.reduce_contributions(x.cuda(), op, method=method, dtype=given).cpu(), want), m
    kept = over_ranks.Contributions(op, method=method, dtype=given)
    for one in x.cuda():
        kept.add(one)
    assert same(kept.result().cpu(), want)


@pytest.mark.parametrize("size", SIZES)
def test_bits_do_not_depend_on_ranks(size):
    assert ranks.run("contributions", size, backend=NCCL) == [len(ranks.CASES)] * size


@pytest.mark.parametrize("size", SIZES)
def test_one_contribution_a_rank_over_links_and_by_messages(size):
    ranks.run("one_each", size, backend=NCCL)
    ranks.run("one_each_by_messages", size, backend=NCCL)


@pytest.mark.parametrize("size", SIZES)
def test_one_contribution_a_rank_and_several_calls_in_flight(size):
    ranks.run("in_place", size, backend=NCCL)


@pytest.mark.parametrize("size", SIZES)
def test_torchs_own_under_the_mode(size):
    ranks.run("ranks_mode.collectives", size, backend=NCCL)
    ranks.run("ranks_mode.functional_collectives", size, backend=NCCL)


@pytest.mark.parametrize("size", SIZES)
def test_shares_of_one_array(size):
    assert all(ranks.run("shares", size, backend=NCCL))


@pytest.mark.parametrize("size", SIZES)
def test_norms_of_shards(size):
    ranks.run("norms", size, backend=NCCL)


@pytest.mark.parametrize("size", SIZES[1:])
def test_calls_that_were_made_before(size):
    ranks.run("again", size, backend=NCCL)
    ranks.run("scatter_again", size, backend=NCCL)


def test_a_group_of_two_engines():
    ranks.run("in_place", 2, backend=BOTH)


# ---- Faults --------------------------------------------------------------------------------------


@pytest.mark.skipif(SIZES[-1] < 4, reason="fewer than four GPUs")
def test_calls_that_differ_are_one_error():
    ranks.run("disagreements", 3, backend=NCCL)


def test_tensors_that_lie_elsewhere_are_refused():
    ranks.run("elsewhere", 2, backend=NCCL)


def test_a_killed_rank_is_an_error_of_the_engine():
    assert all(ranks.run("killed", 2, seconds=30, lost=1, backend=NCCL)[:1])


def test_a_late_rank_is_a_timeout():
    errors = ranks.run("late", 2, seconds=20, backend=NCCL)
    assert errors[1] == "late" and all(errors)


# ---- Training ------------------------------------------------------------------------------------


def test_weights_do_not_depend_on_ranks():
    by_size = {size: ranks.run("ddp", size, backend=NCCL) for size in SIZES}
    weights = {tuple(w) for found in by_size.values() for w in found}
    assert len(weights) == 1
    tree, exact, _ = weights.pop()
    assert tree != exact
    assert {w for size in SIZES for w in ranks.run("fsdp", size, backend=NCCL)} == {tree}


def test_the_hook_alone():
    first, other = ranks.run("ddp_without_accumulation", 2, backend=NCCL)
    assert first == other
