"""Reductions over ranks: 1 to 4 processes of a gloo group (ranks.py says what each does)."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import bitfold.torch.distributed as over_ranks
import ranks
from bitfold.torch._engine import OPS
from bitfold.torch.distributed import _host
from torch_helpers import same

SIZES = (1, 2, 3, 4)

# ---- The definition ------------------------------------------------------------------------------


def methods(op):
    return [None, *(("tree", "pairwise", "kahan") if OPS[op]["takes_method"] else ()), *(("exact",) if OPS[op]["has_exact"] else ())]


@pytest.mark.parametrize("op", [op for op in OPS if OPS[op]["inputs"] == 1 and op != "count_distinct"])
def test_up_to_32_contributions_are_a_column(op):
    for method in methods(op):
        for dtype in (ranks.F16, ranks.BF16, ranks.F32, ranks.F64, ranks.I32, ranks.U8, ranks.BOOL):
            for m in (1, 2, 5, 31, 32):
                x = ranks.numbers(dtype, m, 70, seed=m)
                if dtype.is_floating_point:
                    x[0, 5], x[-1, 6], x[:, 7] = float("nan"), float("inf"), -0.0
                column = getattr(torch.ops.bitfold, op)(x, [0], method=method)
                assert same(over_ranks.reduce_contributions(x, op, method=method), column), (method, dtype, m)


def fold(items, merge):
    """Adjacent pairs, level by level."""
    while len(items) > 1:
        items = [merge(*items[i : i + 2]) if i + 1 < len(items) else items[i] for i in range(0, len(items), 2)]
    return items[0]


@pytest.mark.parametrize("m", (33, 45, 64, 100, 257))
def test_beyond_it_is_a_tree_over_contributions(m):
    x = ranks.numbers(torch.float32, m, 50, seed=m)
    tree = fold(list(x), torch.add)
    assert same(over_ranks.reduce_contributions(x), tree)
    assert not same(tree, torch.ops.bitfold.sum(x, [0]))
    half = x.bfloat16()
    assert same(over_ranks.reduce_contributions(half), fold(list(half.float()), torch.add).bfloat16())
    assert same(over_ranks.reduce_contributions(x, "mean"), (tree.double() / m).float())
    for op, method in (("sum", "exact"), ("mean", "exact"), ("max", None), ("argmin", None), ("norm_inf", None)):
        assert same(over_ranks.reduce_contributions(x, op, method=method), getattr(torch.ops.bitfold, op)(x, [0], method=method))
    kept = over_ranks.Contributions()
    for one in x:
        kept.add(one)
    assert same(kept.result(), tree) and len(kept.nodes) == m.bit_count()


def test_contributions_refuse_what_is_unlike():
    kept = over_ranks.Contributions()
    with pytest.raises(ValueError, match="contributions: none"):
        kept.result()
    kept.add(torch.ones(3))
    with pytest.raises(TypeError, match=r"float64.*float32"):
        kept.add(torch.ones(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="shape"):
        kept.add(torch.ones(4))
    with pytest.raises(ValueError, match="missing"):
        late = over_ranks.Contributions(first=1)
        late.add(torch.ones(3))
        late.result()
    with pytest.raises(ValueError, match="contributions: none"):
        over_ranks.reduce_contributions([])
    with pytest.raises(ValueError, match="dot takes two inputs"):
        over_ranks.reduce_contributions(torch.ones(2, 3), "dot")
    with pytest.raises(ValueError, match="sum has no order of pairs"):
        over_ranks.reduce_contributions(torch.ones(2, 3), method="sequential")


# ---- Over ranks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_bits_do_not_depend_on_ranks(size):
    assert ranks.run("contributions", size) == [len(ranks.CASES)] * size


@pytest.mark.parametrize("size", SIZES)
def test_one_contribution_a_rank_and_several_calls_in_flight(size):
    ranks.run("in_place", size)


def test_calls_that_were_made_before():
    ranks.run("again", 2)
    ranks.run("scatter_again", 2)


@pytest.mark.parametrize("size", SIZES)
def test_shares_of_one_array(size):
    assert all(ranks.run("shares", size))


@pytest.mark.parametrize("size", (1, 3))
def test_norms_of_shards(size):
    ranks.run("norms", size)


# ---- Faults --------------------------------------------------------------------------------------


def test_calls_that_differ_are_one_error():
    ranks.run("disagreements", 3)


def test_a_killed_rank_is_an_error_of_the_engine():
    assert all(ranks.run("killed", 3, seconds=10, lost=1)[:2])


def test_a_late_rank_is_a_timeout():
    errors = ranks.run("late", 3, seconds=5)
    assert errors[2] == "late" and all(errors)


def test_an_error_amid_a_call_ends_it_on_all_ranks():
    errors = ranks.run("broken_amid", 3, seconds=30)
    assert errors[0] is None and all("rank 0 has ended, or had an error amid a call" in e for e in errors[1:])
    errors = ranks.run("broken_amid_by_messages", 3, seconds=5)
    assert errors[0] is None and all(errors[1:])


@pytest.mark.parametrize("what", ("refused_by_all", "amid_callbacks", "first_calls_by_two_threads"))
def test_calls_of_people(what):
    ranks.run(what, 2)


@pytest.mark.parametrize("what", ("first_call_that_fails", "forked", "callbacks_that_wait", "hook_that_fails", "unused"))
def test_faults_of_people(what):
    ranks.run(what, 2, seconds=20)


def test_groups_overlap():
    ranks.run("overlapping", 3, seconds=20)
    ranks.run("overlapping_as_named_before", 3, seconds=20)


def test_a_group_that_is_no_more_leaves_no_file():
    ranks.run("files_of_groups", 2)


def test_the_file_of_another_host_is_left_alone(tmp_path):
    """Rank 0 names a process and a file of its own host; here they are another file, which is large enough."""
    with open(tmp_path / "theirs", "w+b") as theirs:
        theirs.truncate(_host.Host.bytes(2))
        where = _host._WHERE.pack(os.getpid(), theirs.fileno(), b"t" * 16)
        files = os.listdir("/proc/self/fd")
        opened = []
        with pytest.MonkeyPatch.context() as here:
            here.setattr(os, "open", lambda *how: opened.append(how))
            assert _host.host_of(1, 2, 1, lambda mine: [where if len(mine) > 1 else b"\1", mine]) is None
        assert not opened and os.listdir("/proc/self/fd") == files


def test_without_a_group_it_says_so():
    with pytest.raises(ValueError, match="init_process_group"):
        over_ranks.all_reduce(torch.ones(3))


# ---- Training ------------------------------------------------------------------------------------


def test_weights_do_not_depend_on_ranks():
    """The same 12 micro-batches on 1 to 4 ranks, by DDP, under strict too; and by FSDP2 the same weights again."""
    by_size = {size: ranks.run("ddp", size) for size in SIZES}
    weights = {tuple(w) for found in by_size.values() for w in found}
    assert len(weights) == 1
    tree, exact, _ = weights.pop()
    assert tree != exact
    assert {w for size in SIZES for w in ranks.run("fsdp", size)} == {tree}


def test_the_hook_alone():
    first, *others = ranks.run("ddp_without_accumulation", 3)
    assert others == [first] * 2
