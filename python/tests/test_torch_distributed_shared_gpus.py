"""Ranks that share GPUs, of which one is enough: processes that write to one another's memory there, or send messages by gloo, where NCCL would want
a GPU for each."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available() and torch.cuda.is_available()):
    pytest.skip("no GPU, or no gloo", allow_module_level=True)

import ranks

SHARED = "cpu:gloo,cuda:gloo"


@pytest.fixture(scope="module", autouse=True)
def processes():
    yield
    ranks.end_all()


@pytest.mark.parametrize("size", (3, 4, 8))
def test_one_contribution_a_rank_over_links(size):
    ranks.run("one_each" if size == 4 else "one_each_of_some", size, backend=SHARED)


@pytest.mark.parametrize("size", (2, 4))
@pytest.mark.parametrize(
    "what", ("one_each_by_messages", "contributions", "in_place", "again", "scatter_again", "shares", "norms", "ranks_mode.collectives", "elsewhere")
)
def test_as_with_a_gpu_for_each_rank(what, size):
    ranks.run(what, size, backend=SHARED)


def test_faults():
    ranks.run("disagreements", 3, backend=SHARED)
    assert all(ranks.run("killed", 4, seconds=30, lost=1, backend=SHARED)[:-1])
    errors = ranks.run("late", 4, seconds=20, backend=SHARED)
    assert errors[-1] == "late" and all(errors)


def test_weights_do_not_depend_on_ranks():
    by_size = {size: ranks.run("ddp", size, backend=SHARED) for size in (1, 2, 4)}
    assert len({tuple(w) for found in by_size.values() for w in found}) == 1
