"""Processes that are the ranks of a group, of gloo on CPUs, of NCCL with a GPU each, or of gloo with GPUs that they share: what each does is a
function of this file, or `MODULE.NAME`, which `run` starts."""

from __future__ import annotations

import datetime
import gc
import hashlib
import importlib
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
import traceback
import unittest.mock
from contextlib import contextmanager, nullcontext, suppress

import bitfold.torch.distributed as over_ranks
import torch
import torch._dynamo  # which optimizers import, in each process
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import bitfold
from bitfold.torch.distributed import _contributions, _host
from bitfold.torch.distributed._group import group_of

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I32, I64, U8, BOOL = torch.int32, torch.int64, torch.uint8, torch.bool

#: Where this process has its tensors.
DEVICE = torch.device("cpu")


def _rank(rank: int, size: int, folder: str, seconds: float, backend: str, wanted, results) -> None:
    global DEVICE
    torch.set_num_threads(1)
    if "cuda" in backend or "nccl" in backend:
        DEVICE = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(DEVICE)
    store = f"file://{folder}/store"
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds))
    while (what := wanted.get()) is not None:
        try:
            module, _, name = what.rpartition(".")
            result = getattr(importlib.import_module(module or __name__), name)(rank, size)
        except BaseException:
            result = "failed: " + traceback.format_exc()
        results.put((rank, result))
    results.close()
    results.join_thread()
    os._exit(0)  # the engines' threads may wait for ranks that are no more


class Ranks:
    """Processes that are the ranks of one group."""

    def __init__(self, size: int, seconds: float, backend: str) -> None:
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload(["ranks"])  # which imports torch once, if it finds it: Python 3.11 does not hand sys.path on
        self._folder = tempfile.TemporaryDirectory()
        self._results, self._wanted = processes.Queue(), [processes.Queue() for _ in range(size)]
        arguments = ((r, size, self._folder.name, seconds, backend, wanted, self._results) for r, wanted in enumerate(self._wanted))
        self._started = [processes.Process(target=_rank, args=a, daemon=True) for a in arguments]
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
            for p in self._started:
                p.start()

    def run(self, what: str, seconds: float, lost: int = 0) -> dict:
        for wanted in self._wanted:
            wanted.put(what)
        return dict(self._results.get(timeout=seconds) for _ in range(len(self._started) - lost))

    def end(self) -> None:
        for wanted in self._wanted:
            wanted.put(None)
        for p in self._started:
            p.join(5)
            p.kill()
        self._folder.cleanup()


_KEPT: dict[tuple[int, str], Ranks] = {}

#: Seconds that are waited for ranks, which may be slow: all may compile kernels, beside other tests.
PATIENCE = 600


def end_all() -> None:
    while _KEPT:
        _KEPT.popitem()[1].end()


def run(what: str, size: int, seconds: float | None = None, lost: int = 0, backend: str = "gloo") -> list:
    """What the function of that name returns on each rank, of processes that are kept for the next one. `seconds`: those of the group's timeout, of
    processes that end with the function. `lost`: how many of them end without a result; theirs is None."""
    kept = seconds is None
    by = _KEPT.pop((size, backend), None) if kept else None
    by = by or Ranks(size, seconds or PATIENCE, backend)
    results, failed = {}, []
    try:
        results = by.run(what, PATIENCE, lost)
        failed = [r for r in results.values() if isinstance(r, str) and r.startswith("failed: ")]
    finally:
        if kept and len(results) == size and not failed:
            _KEPT[size, backend] = by
        else:
            by.end()
    assert not failed, failed[0]
    return [results.get(r) for r in range(size)]


def bits(x: torch.Tensor) -> bytes:
    x = x.detach().cpu().contiguous()
    return x.as_strided((x.numel(),), (1,)).view(torch.uint8).numpy().tobytes()  # (of one element, of any stride)


def numbers(dtype: torch.dtype, *shape: int, seed: int) -> torch.Tensor:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 100
    return x > 0 if dtype is BOOL else x.to(torch.int64).to(dtype) if dtype is U8 else x.to(dtype)


def here(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Copies where this process has its tensors."""
    return [t.detach().clone().to(DEVICE) for t in tensors]


def ones(*shape: int, **how) -> torch.Tensor:
    return torch.ones(*shape, device=DEVICE, **how)


def split(rng: random.Random, n: int, parts: int) -> list[int]:
    """n in so many parts, of which some may be 0."""
    cuts = sorted(rng.randint(0, n) for _ in range(parts - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, n])]


#: Operation, methods, types, and the type of results where it is another one.
CASES = [
    *(("sum", method, dtype, None) for method in ("tree", "pairwise", "kahan", "exact") for dtype in (F16, BF16, F32, F64)),
    *(("mean", method, dtype, None) for method in (None, "kahan", "exact") for dtype in (BF16, F32, F64)),
    *((op, None, dtype, None) for op in ("min", "max") for dtype in (F16, F32, I32, U8, BOOL)),
    *((op, None, dtype, None) for op in ("sum", "prod") for dtype in (I32, I64)),
    *((op, None, BOOL, None) for op in ("any", "all")),
    *((op, None, F32, None) for op in ("norm_l1", "norm_l2", "norm_inf", "sum_squares", "var", "logsumexp", "nansum")),
    *(("sum", method, BF16, F32) for method in ("tree", "exact")), ("argmax", None, F32, I64), ("count_nonzero", None, I32, I64),
]  # fmt: skip


def unaligned(x: torch.Tensor) -> torch.Tensor:
    if x.is_cuda:  # to 16 bytes, at least
        return torch.cat((x.reshape(-1)[:1], x.reshape(-1)))[1:].reshape(x.shape) if x.numel() else x
    room = torch.zeros(x.numel() * x.element_size() + 1, dtype=torch.uint8)
    room[1:] = x.reshape(-1).view(torch.uint8)
    return torch.frombuffer(room.numpy(), dtype=x.dtype, offset=1).reshape(x.shape) if x.numel() else x


def by_messages(size: int) -> dist.ProcessGroup:
    """A group whose ranks make nothing of being processes of one host."""
    group = dist.new_group(list(range(size)))
    _host.LOOKED_FOR = False
    over_ranks.first_of(0, group)  # (the first call makes bitfold's own)
    _host.LOOKED_FOR = True
    return group


def overlapping(rank: int, size: int) -> None:
    """Groups of neighbours, of which the inner ranks have two; and then one of torch's own."""
    for first in range(size - 1):
        group = dist.new_group(mine := [first, first + 1])
        if rank in mine:
            x = torch.full((3,), float(rank))
            over_ranks.all_reduce(x, group=group)
            assert x.tolist() == [2 * first + 1] * 3
    x = torch.ones(3)
    dist.all_reduce(x, group=dist.new_group(list(range(size))))
    assert x.tolist() == [size] * 3


def overlapping_as_named_before(rank: int, size: int) -> None:
    """As PyTorch 2.11 names groups: by how many groups this process is in."""
    c10d = dist.distributed_c10d

    def by_number(members: list[int]) -> str:
        return hashlib.sha1(repr((members, len(c10d._world.pg_names))).encode()).hexdigest()

    with unittest.mock.patch.object(c10d, "_hash_ranks_to_str", by_number):
        overlapping(rank, size)


def files_of_groups(rank: int, size: int) -> None:
    """A group that is no more leaves none behind."""
    before = _shared_files()
    for _ in range(2):
        group = dist.new_group(list(range(size)))
        over_ranks.all_reduce(torch.ones(3), group=group)
        assert _shared_files() > before
        dist.destroy_process_group(group)
        del group
        gc.collect()
        assert _shared_files() == before


def _shared_files() -> int:
    names = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the list itself
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum("memfd:bitfold" in name for name in names)


def contributions(rank: int, size: int) -> int:
    """Each case, of random lengths, numbers of contributions and ranks: by every collective."""
    rng, done, groups = random.Random(7), 0, (None, by_messages(size))
    for k, (op, method, dtype, given) in enumerate(CASES):
        n, m = rng.choice((0, 1, 5, 700, 3001, 20011)), rng.choice((size, 3, 7, 12, 33))
        all_of_them = numbers(dtype, m, n, seed=k)
        wanted = over_ranks.reduce_contributions(all_of_them, op, method=method, dtype=given)
        counts = split(rng, m, size)
        first = sum(counts[:rank])
        _contributions._PIECE[DEVICE.type] = rng.choice((1 << 21, 5000))  # in one piece, or in several
        mine, group = here(*all_of_them[first : first + counts[rank]]), rng.choice(groups)
        out = torch.zeros(n, dtype=wanted.dtype, device=DEVICE)
        assert over_ranks.all_reduce(out, op, group, method=method, contributions=mine, dtype=dtype) is None
        assert bits(out) == bits(wanted), (op, method, dtype, n, counts)

        kept = over_ranks.Contributions(op, method=method, dtype=wanted.dtype, first=first)
        for x in mine:
            kept.add(unaligned(x) if k % 2 else x)
            x.fill_(1)  # what was added was taken
        dst, out = rng.randrange(size), torch.zeros(2 * n, dtype=wanted.dtype, device=DEVICE)[::2]
        over_ranks.reduce(out, dst, op, group, method=method, contributions=kept, dtype=dtype)
        assert bits(out) == bits(wanted if rank == dst else torch.zeros_like(wanted))

        each = n // size
        out = torch.zeros(each, dtype=wanted.dtype, device=DEVICE)
        parts = [x[: each * size] for x in here(*all_of_them[first : first + counts[rank]])]
        over_ranks.reduce_scatter_tensor(out, None, op, group, method=method, contributions=parts, dtype=dtype)
        assert bits(out) == bits(wanted[rank * each : (rank + 1) * each])
        done += 1
    return done


def one_each_by_messages(rank: int, size: int) -> None:
    one_each(rank, size, by_messages(size), CASES[::4])


def one_each_of_some(rank: int, size: int) -> None:
    one_each(rank, size, None, CASES[1::4])


def one_each(rank: int, size: int, group: dist.ProcessGroup | None = None, cases: list = CASES) -> None:
    """A contribution a rank, as GPUs take it that write to one another's memory: all elements at once, in shares of which all get the results, and
    in shares of their own. Each is a kernel of its own, which takes half a second to compile: so most cases go one of these ways."""
    rng = random.Random(13)
    for k, (op, method, dtype, given) in enumerate(cases):
        for way in range(3) if k % 8 == 0 else (k % 3,):
            n = (rng.choice((1, 7, 16, 2999)), rng.randrange(300_000, 400_000), 16 * rng.randrange(1, 300) * size)[way]
            x = numbers(dtype, size, n, seed=k)
            wanted = over_ranks.reduce_contributions(x, op, method=method, dtype=given)
            (mine,), each = here(x[rank]), n // size
            out = torch.zeros(n + 1, dtype=wanted.dtype, device=DEVICE)[k % 2 :][: each if way == 2 else n]
            if way == 2:
                over_ranks.reduce_scatter_tensor(out, mine, op, group, method=method)
                wanted = wanted[rank * each : (rank + 1) * each]
            else:
                over_ranks.all_reduce(out, op, group, method=method, contributions=[mine])
            assert bits(out) == bits(wanted), (op, method, dtype, n, way)
            if way != 2 and wanted.dtype is dtype:
                over_ranks.all_reduce(mine, op, group, method=method)
                assert bits(mine) == bits(wanted)
    if DEVICE.type == "cuda" and group is None and size > 1:
        assert group_of(None).links(DEVICE), "no links, where they are tested"


def again(rank: int, size: int) -> None:
    """Calls that were made before, of which less is asked; and others in their place, on one rank or on all."""
    odd, x = rank == size - 1, numbers(F32, size, 3000, seed=1)
    wanted = over_ranks.reduce_contributions(x, "mean")

    def right(tensor: torch.Tensor) -> bool:
        over_ranks.all_reduce(tensor, "mean")
        return bits(tensor) == bits(wanted)

    for _ in range(5):
        assert right(*here(x[rank]))
    for theirs, text in (
        (lambda t: over_ranks.all_reduce(t, "max"), "mean of.*max of"),
        (lambda t: over_ranks.reduce(t, 0, "mean"), "all_reduce of.*reduce of"),
        (lambda t: over_ranks.all_reduce(t[:-1].clone(), "mean"), "of 3000 .*of 2999 "),
    ):
        with _error(over_ranks.Disagreement, text):
            theirs(*here(x[rank])) if odd else over_ranks.all_reduce(*here(x[rank]), "mean")
        assert right(*here(x[rank]))
    (mine,) = here(torch.cat((x[rank][:1], x[rank])))
    assert right(mine[1:] if odd else mine[1:].clone())
    leaf = here(x[rank])[0].requires_grad_(odd)
    assert right(leaf)
    work = over_ranks.all_reduce(*(late := here(x[rank])), "mean", async_op=True)
    assert right(*here(x[rank])) and work.wait() and bits(late[0]) == bits(wanted)


def scatter_again(rank: int, size: int) -> None:
    """As `again`, of calls that give each rank its part."""
    n, odd = 960, rank == size - 1
    x = numbers(F32, size, n * size, seed=1)
    wanted = over_ranks.reduce_contributions(x, "sum").split(n)

    def right(mine: torch.Tensor, out: torch.Tensor | None = None) -> bool:
        out = torch.empty(n, device=DEVICE) if out is None else out
        version = out._version
        over_ranks.reduce_scatter_tensor(out, mine)
        return bits(out) == bits(wanted[rank]) and out._version > version

    for _ in range(5):
        assert right(*here(x[rank]))
    with _error(over_ranks.Disagreement, "sum of.*max of"):
        over_ranks.reduce_scatter_tensor(torch.empty(n, device=DEVICE), *here(x[rank]), "max" if odd else "sum")
    (mine,) = here(x[rank])
    assert right(mine, mine.split(n)[rank])  # where a part of the input lies
    (mine,) = here(torch.cat((x[rank][:1], x[rank])))
    assert right(mine[1:] if odd else mine[1:].clone())
    assert right(here(x[rank])[0].requires_grad_(odd))
    for given in (F32, BF16):
        halves, out = numbers(BF16, size, n * size, seed=2), torch.empty(n, dtype=given, device=DEVICE)
        for _ in range(2):
            over_ranks.reduce_scatter_tensor(out, *here(halves[rank]))
            assert bits(out) == bits(over_ranks.reduce_contributions(halves, dtype=given).split(n)[rank])
    late = [torch.empty(n, device=DEVICE) for _ in range(3)]
    work = [over_ranks.reduce_scatter_tensor(out, *here(x[rank]), async_op=True) for out in late]
    assert right(*here(x[rank])) and all(w.wait() for w in work) and all(bits(out) == bits(wanted[rank]) for out in late)
    uneven = [n] * size
    uneven[0], uneven[-1] = n - 4, n + 4
    with bitfold.torch.deterministic(strict=True):
        for _ in range(2):
            for sizes in ([n] * size, uneven):
                out = torch.empty(sizes[rank], device=DEVICE)
                dist.reduce_scatter(out, [*here(x[rank])[0].split(sizes)])
                assert bits(out) == bits(over_ranks.reduce_contributions(x, "sum").split(sizes)[rank])


def in_place(rank: int, size: int) -> None:
    """One contribution a rank, as torch.distributed has it; several calls in flight, on two groups."""
    for op, theirs in (("sum", dist.ReduceOp.SUM), ("mean", dist.ReduceOp.AVG), ("max", dist.ReduceOp.MAX)):
        x = numbers(F32, size, 10007, seed=1)
        (mine,) = here(x[rank])
        version = mine._version
        over_ranks.all_reduce(mine, theirs)
        assert bits(mine) == bits(getattr(torch.ops.bitfold, op)(x, [0])) and mine._version > version
        x = numbers(F32, size, 12 * size, seed=1)
        mine = torch.empty(12, device=DEVICE)
        over_ranks.reduce_scatter_tensor(mine, *here(x[rank]), op)
        assert bits(mine) == bits(getattr(torch.ops.bitfold, op)(x, [0])[12 * rank : 12 * rank + 12])
    n = 1_500_001  # more than one piece, of memory that overlaps
    (mine,) = here(numbers(F32, n + 1, seed=rank))
    want = torch.ops.bitfold.sum(torch.stack([numbers(F32, n + 1, seed=r)[:-1] for r in range(size)]), [0])
    over_ranks.all_reduce(mine[1:], contributions=[mine[:-1]])
    assert bits(mine[1:]) == bits(want)
    with bitfold.torch.deterministic(strict=True):  # which takes the messages for what they are
        whole = [ones(100000), ones(3)]
        over_ranks.all_reduce(whole[0])
        over_ranks.all_reduce(whole[1], async_op=True).wait()
        assert all(t.eq(size).all() for t in whole) and over_ranks.reduce_shares("sum", whole[1]) == 3 * size * size
    other = dist.new_group(list(range(size)))
    x = [numbers(F32, size, n, seed=n) for n in (100000, 3, 50000, 17)]
    mine = here(*(t[rank] for t in x))
    work = [over_ranks.all_reduce(t, group=group, async_op=True) for t in mine for group in (None,)]
    beside = here(*(t[rank] for t in x))
    work += [over_ranks.all_reduce(t, group=other, async_op=True) for t in beside]
    theirs = ones(3)
    dist.all_reduce(theirs)  # torch's own, amid them
    (last,) = here(x[0][rank])
    over_ranks.all_reduce(last)
    for w in reversed(work):
        assert w.wait()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    assert all(w.is_completed() for w in work)
    wanted = [torch.ops.bitfold.sum(t, [0]) for t in x]
    assert [bits(t) for t in (*mine, *beside, last)] == [bits(t) for t in (*wanted, *wanted, wanted[0])]
    assert theirs.tolist() == [size] * 3
    some = list(range(max(1, size - 1)))  # a group of some ranks
    part = dist.new_group(some)
    if rank in some:
        (y,) = here(x[2][rank])
        over_ranks.all_reduce(y, group=part)
        assert bits(y) == bits(torch.ops.bitfold.sum(x[2][: len(some)], [0]))


ONE_ARRAY = ["sum", "mean", "norm_l1", "norm_l2", "norm_inf", "var", "std", "argmax", "argmin", "max", "logsumexp", "prod", "any", "kurtosis"]
TWO_ARRAYS = ["dot", "cosine", "mse"]


def shares(rank: int, size: int) -> int:
    rng, done = random.Random(11), 0
    for n in (1, 33, 255, 256, 1000, 9000, 70001):
        for dtype in (F32, BF16, F64, I32):
            x, y = numbers(dtype, n, seed=n), numbers(dtype, n, seed=n + 1)
            lengths = split(rng, n, size)
            begin = sum(lengths[:rank])
            mine = here(*(t[begin : begin + lengths[rank]] for t in (x, y)))
            method = rng.choice((None, "kahan", "exact", "pairwise"))
            for ops, inputs in ((ONE_ARRAY, 1), (TWO_ARRAYS, 2)):
                by = [method if bitfold.torch._engine.method_for(op, method) else None for op in ops]
                wanted = [getattr(torch.ops.bitfold, op)(*(x, y)[:inputs], method=m) for op, m in zip(ops, by)]
                found = over_ranks.reduce_shares(ops, *mine[:inputs], method=method)
                assert [(t.dtype, t.shape, bits(t)) for t in found] == [(t.dtype, t.shape, bits(t)) for t in wanted], (n, dtype, lengths, method)
                done += len(ops)
    one = over_ranks.reduce_shares("sum", ones(rank), dtype=F64)
    assert one.dtype is F64 and one == size * (size - 1) // 2
    assert one.device == DEVICE and over_ranks.reduce_shares("mean", ones(0)).isnan()
    with _error(ValueError, "x: no elements|n:|argmax"):
        over_ranks.reduce_shares("argmax", ones(0))
    return done


@contextmanager
def _error(kind: type, text: str):
    import re

    try:
        yield
    except kind as e:
        assert re.search(text, str(e)), str(e)
    else:
        raise AssertionError(f"no {kind.__name__}: {text}")


def disagreements(rank: int, size: int) -> None:
    """One rank makes another call, or a wrong one: an error on each rank, and the next call is right."""
    odd = rank == size - 1
    for mine, text in (
        (lambda: over_ranks.all_reduce(ones(3 + odd)), "of 3 elements.*of 4 elements"),
        (lambda: over_ranks.all_reduce(ones(3, dtype=F64 if odd else F32)), "float32.*float64"),
        (lambda: over_ranks.all_reduce(ones(3), "max" if odd else "sum"), "sum of.*max of"),
        (lambda: over_ranks.all_reduce(ones(3), method="kahan" if odd else None), "sum by kahan"),
        (lambda: over_ranks.reduce(ones(3), 1 if odd else 0), "to 0.*to 1"),
        (lambda: over_ranks.all_reduce(ones(3)) if odd else over_ranks.reduce_shares("sum", ones(3)), "reduce_shares of.*all_reduce of"),
        (lambda: over_ranks.all_reduce(ones(3), contributions=[]), "none, on all ranks"),
        (lambda: over_ranks.reduce_shares("dot", ones(3), None if odd else ones(3)), "and another array"),
        (lambda: over_ranks.all_reduce(ones(3), contributions=kept(rank + odd)), "begin at .*lie before them"),
    ):
        with _error(over_ranks.Disagreement, text):
            mine()
        _works(rank, size)
    # Of a rank's own wrong arguments it has its own error.
    for mine, kind, text in (
        (lambda: over_ranks.all_reduce(ones(3), "summ" if odd else "sum"), ValueError, "'summ'"),
        (lambda: over_ranks.all_reduce(ones(3), "argmax" if odd else "sum"), TypeError, "argmax of torch.float32 gives torch.int64"),
        (lambda: over_ranks.all_reduce(ones(3), "count_distinct" if odd else "sum"), Exception, "count_distinct"),
        (lambda: over_ranks.all_reduce(ones(3), contributions=[ones(2 + (not odd))]), ValueError, "one of 2 elements"),
        (lambda: over_ranks.all_reduce(ones(3), contributions=[ones(3, dtype=F64)] * odd + [ones(3)]), TypeError, "float64"),
        (lambda: over_ranks.reduce_shares("sum" if not odd else "count_distinct", ones(3)), ValueError, "count_distinct"),
        (lambda: over_ranks.all_reduce(ones(3), contributions=7 if odd else None), TypeError, "int"),
        (lambda: over_ranks.all_reduce([1.0] if odd else ones(1)), TypeError, "list, where a tensor is expected"),
        (lambda: over_ranks.reduce(ones(3), 9 if odd else 0), ValueError, "dst: 9 is none of 3 ranks"),
        (lambda: over_ranks.reduce_shares("sum", ones(3) if not odd else ones(3).to_sparse()), TypeError, "layout"),
        (lambda: over_ranks.reduce_shares("dot", ones(3), ones(3 + odd)), ValueError, "y: 4 elements, and x has 3"),
        (lambda: over_ranks.first_of(2.5 if odd else 2), TypeError, "float"),
        (lambda: over_ranks.Accumulation(0 if odd else 2), ValueError, "contributions: 0"),
    ):
        with _error(kind if odd else over_ranks.Disagreement, text):
            mine()
        _works(rank, size)
    for count, text in ((1, r"\[1, 1, 2\].*at least"), (2, r"\[2, 2, 3\].*FSDP2")):
        with _error(ValueError, text):
            over_ranks.shard_gradients(None, over_ranks.Accumulation(count + odd))


def elsewhere(rank: int, size: int) -> None:
    """Of a GPU's group: a rank whose tensor lies in the CPU's memory, and contributions that do."""
    odd = rank == size - 1
    with _error(over_ranks.Disagreement, "on GPUs"):
        over_ranks.all_reduce(torch.ones(3) if odd else ones(3))
    with _error(ValueError if odd else over_ranks.Disagreement, "contributions: one on cpu"):
        over_ranks.all_reduce(ones(3), contributions=[torch.ones(3) if odd else ones(3)])
    everywhere = torch.ones(3)
    over_ranks.all_reduce(everywhere)
    assert everywhere.tolist() == [size] * 3
    _works(rank, size)


def kept(first: int) -> over_ranks.Contributions:
    c = over_ranks.Contributions(first=first)
    c.add(ones(3))
    return c


def _works(rank: int, size: int) -> None:
    x = torch.full((3,), float(rank), device=DEVICE)
    over_ranks.all_reduce(x)
    assert x.tolist() == [size * (size - 1) / 2] * 3


def killed(rank: int, size: int) -> str | None:
    """The last rank ends amid calls. All others get the engine's error, and no result; and no call after it."""
    _works(rank, size)
    if rank == size - 1:
        os._exit(3)
    return _fails()


def refused_by_all(rank: int, size: int) -> None:
    """What one rank or all refuse, behind which the next call is right."""
    last = rank == size - 1
    kept = over_ranks.Contributions("sum", dtype=F64, first=4 * rank)
    for x in torch.arange(1.0, 5):
        kept.add(x)
    with _error(TypeError, "contributions: folded to torch.float64, where torch.float32 is expected"):
        over_ranks.all_reduce(torch.zeros(()), contributions=kept)
    _works(rank, size)
    with _error(ValueError, "first: -1 contributions before these"):
        over_ranks.Contributions("sum", first=-1)
    with _error(ValueError, "count: -3 contributions"):
        over_ranks.first_of(-3)
    with _error(TypeError, "float"):
        over_ranks.reduce(ones(3), dst=0.5)
    with _error(TypeError if last else over_ranks.Disagreement, ""):
        over_ranks.reduce_shares(7 if last else "sum", ones(3))
    with _error(ValueError if last else over_ranks.Disagreement, "tensor: several of its elements lie at one place"):
        over_ranks.all_reduce(ones(1).expand(3) if last else ones(3))
    _works(rank, size)

    def unencodable():
        yield ones(3)
        if last:
            raise ValueError("file \udc80.bin")

    def interrupted():
        yield ones(3)
        if last:
            raise KeyboardInterrupt

    def nested():
        over_ranks.all_reduce(ones(3))
        yield ones(3)

    for contributions, error, text in ((unencodable, ValueError, "file"), (interrupted, KeyboardInterrupt, "")):
        with _error(error if last else over_ranks.Disagreement, text):
            over_ranks.all_reduce(ones(3), contributions=contributions())
        _works(rank, size)
    with _error(RuntimeError, "amid the contributions of another one"):
        over_ranks.all_reduce(ones(3), contributions=nested())
    parameter = torch.nn.Parameter(ones(3))
    parameter.grad = ones(3)
    with _error(over_ranks.Disagreement, "to clip at 1.0.*to clip at 2.0"):
        over_ranks.clip_grad_norm_(parameter, 2.0 if last else 1.0)
    with _error(TypeError if last else over_ranks.Disagreement, "NoneType" if last else "refused: "):
        over_ranks.clip_grad_norm_(parameter, None if last else 1.0)
    with _error(TypeError if last else over_ranks.Disagreement, "tensor: ndarray, where a tensor is expected"):
        over_ranks.all_reduce(torch.ones(3).numpy() if last else ones(3))
    _works(rank, size)
    with torch.device("meta"):
        assert over_ranks.reduce_shares("sum", torch.ones(3, device=DEVICE)) == 3 * size
    several = [ones(3), ones(3)]
    work = over_ranks.all_reduce(out := ones(3), contributions=several, async_op=True)
    several[0] = ones(3) * 100
    work.wait()
    assert out.tolist() == [2 * size] * 3
    _works(rank, size)


def amid_callbacks(rank: int, size: int) -> None:
    """Calls in a callback of another one."""
    with bitfold.torch.deterministic():

        def twice(_) -> torch.Tensor:
            x = ones(3)
            dist.all_reduce(x)
            dist.all_reduce(x, async_op=True).get_future().wait()
            return x

        assert dist.all_reduce(ones(100000), async_op=True).get_future().then(twice).wait().tolist() == [size * size] * 3
    _works(rank, size)


def first_calls_by_two_threads(rank: int, size: int) -> None:
    group, own = dist.new_group(list(range(size))), dist.distributed_c10d._process_group_name
    found = [ones(3), ones(3)]
    threads = [threading.Thread(target=over_ranks.all_reduce, args=(x, "sum", group)) for x in found]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(x.eq(size).all() for x in found) and dist.distributed_c10d._process_group_name is own


def first_call_that_fails(rank: int, size: int) -> None:
    """Of a rank that comes too late. No call after it meets another one."""
    group = dist.new_group(list(range(size)), timeout=datetime.timedelta(seconds=2))
    if rank:
        time.sleep(5)
    for _ in range(2):
        with _error(RuntimeError, ""):
            over_ranks.all_reduce(ones(3), group=group)
    with _error(RuntimeError, "no calls on this group, as the first one failed" if rank == 0 else ""):
        over_ranks.all_reduce(ones(3), group=group)


def forked(rank: int, size: int) -> None:
    """A child's calls are not its rank's, before the first one and after it."""
    for _ in range(2):
        if rank == 0:
            child = os.fork()
            if child == 0:
                with suppress(RuntimeError):
                    over_ranks.all_reduce(torch.full((3,), 100.0))
                    os._exit(1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        _works(rank, size)


def callbacks_that_wait(rank: int, size: int) -> None:
    """In vain: for a call behind theirs, and crosswise on two groups. An error in place of a hang."""
    seconds = datetime.timedelta(seconds=3)
    a, b = (dist.new_group(list(range(size)), timeout=seconds) for _ in range(2))
    begun = threading.Event()

    def behind_it(_) -> None:
        begun.wait()
        with _error(RuntimeError, "a callback waits for a call on its group that comes behind it"):
            later[0].wait()

    def on(group: dist.ProcessGroup):
        def call(_) -> None:
            begun.wait()
            dist.all_reduce(ones(3), group=group)

        return call

    with bitfold.torch.deterministic():
        first = dist.all_reduce(ones(3_000_000), group=a, async_op=True).get_future().then(behind_it)
        later = [dist.all_reduce(ones(3), group=a, async_op=True)]
        begun.set()
        first.wait()
        later[0].wait()
        begun.clear()
        crosswise = [dist.all_reduce(ones(3_000_000), group=g, async_op=True).get_future().then(on(other)) for g, other in ((a, b), (b, a))]
        begun.set()
        errors = []
        for future in crosswise:
            try:
                future.wait()
            except RuntimeError as e:
                errors.append(str(e))
        assert errors


def hook_that_fails(rank: int, size: int) -> str | None:
    """Amid a call, on one rank: the group has no more calls there either."""
    model = DistributedDataParallel(Scaled().to(DEVICE))
    model.register_comm_hook(over_ranks.Accumulation(1), over_ranks.hook)
    broken = unittest.mock.patch.object(_contributions, "_room", side_effect=MemoryError("no room"))
    with broken if rank == 0 else nullcontext(), _error(Exception, "no room" if rank == 0 else ""):
        model(ones(2)).backward()
    with _error(RuntimeError, "no more calls on this group, as an earlier one failed: no room" if rank == 0 else ""):
        over_ranks.all_reduce(ones(3))


def unused(rank: int, size: int) -> None:
    """Models, of which not every pass uses all: an error, in place of gradients that are lost."""

    class Some(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(Scaled() for _ in range(2))

        def forward(self, x: torch.Tensor, all_of_them: bool) -> torch.Tensor:
            return sum(part(x) for part in self.parts[: 1 + all_of_them])

    state, other = over_ranks.Accumulation(2), DistributedDataParallel(Scaled().to(DEVICE))
    other.register_comm_hook(state, over_ranks.hook)
    other(ones(2)).backward()
    model = DistributedDataParallel(Some().to(DEVICE), find_unused_parameters=True)
    model.register_comm_hook(state, over_ranks.hook)
    with _error(Exception, "find_unused_parameters: with several contributions a rank"):
        model(ones(2), True).backward()
    for order in ((True, False), (False, True)):
        model = Some().to(DEVICE)
        for part in (*model.parts, model):
            fully_shard(part, mesh=init_device_mesh(DEVICE.type, (size,)))
        over_ranks.shard_gradients(model, over_ranks.Accumulation(2))
        with _error(RuntimeError, "each uses all parameters"):
            for both in order:
                model(ones(2), both).backward()


def broken_amid(rank: int, size: int) -> str | None:
    """A rank has an error of its own behind the agreement. It makes no more calls on the group, and all others have an error and no result."""
    _works(rank, size)
    if rank != 0:
        return _fails()
    x = torch.full((100000,), 7.0, device=DEVICE)
    with unittest.mock.patch.object(_contributions, "_room", side_effect=MemoryError("no room")), _error(MemoryError, "no room"):
        over_ranks.all_reduce(x)
    with _error(RuntimeError, "no more calls on this group, as an earlier one failed: no room"):
        over_ranks.all_reduce(x)
    assert x.eq(7).all()
    store = dist.distributed_c10d._get_default_store()
    store.wait(["others have failed"], datetime.timedelta(seconds=60))
    return None


def broken_amid_by_messages(rank: int, size: int) -> str | None:
    _host.LOOKED_FOR = False
    return broken_amid(rank, size)


def late(rank: int, size: int) -> str | None:
    """The last rank never makes the call."""
    _works(rank, size)
    if rank == size - 1:
        dist.distributed_c10d._get_default_store().wait(["others are done"], datetime.timedelta(seconds=60))
        return "late"
    error = _fails()
    store = dist.distributed_c10d._get_default_store()
    if store.add("ended", 1) == size - 1:
        store.set("others are done", "")
    return error


def _fails() -> str:
    x = torch.full((100000,), 7.0, device=DEVICE)
    try:
        for _ in range(3):
            over_ranks.all_reduce(x)
    except RuntimeError as e:
        assert not isinstance(e, over_ranks.Disagreement) and x.eq(7).all()
        with _error(RuntimeError, "no more calls on this group"):
            over_ranks.all_reduce(x)
        dist.distributed_c10d._get_default_store().set("others have failed", "")
        return str(e)
    raise AssertionError("a result without one of the ranks")


# ---- Training ------------------------------------------------------------------------------------

MICRO_BATCHES, STEPS = 12, 3


class Model(torch.nn.Sequential):
    def __init__(self) -> None:
        torch.manual_seed(3)
        super().__init__(torch.nn.Linear(13, 31), torch.nn.Tanh(), torch.nn.Linear(31, 17, bias=False), torch.nn.ReLU(), torch.nn.Linear(17, 3))


class Scaled(torch.nn.Module):
    """Whose gradient is what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.weight * x).sum()


def _train(model, parameters, mine: range, foreach: bool = False) -> None:
    # Steps by powers of two are exact, wherever torch multiplies and adds at once: so shards have the bits of the whole.
    optimizer = torch.optim.SGD(parameters, lr=0.25, momentum=0.5, foreach=foreach)
    for step in range(STEPS):
        optimizer.zero_grad()
        for k in mine:
            data = (numbers(F32, 5, 13, seed=1000 * step + k) / 100).to(DEVICE)
            model(data).square().mean().backward()
        optimizer.step()


def _range(rank: int, counts: list[int]) -> range:
    return range(sum(counts[:rank]), sum(counts[: rank + 1]))


def _counts(size: int, even: bool) -> list[int]:
    return [MICRO_BATCHES // size] * size if even else [MICRO_BATCHES - 2 * (size - 1)] + [2] * (size - 1)


def ddp(rank: int, size: int) -> list[bytes]:
    """The weights, of even and of uneven shares of micro-batches, by small buckets and by large ones."""
    found = []
    for even, bucket, method, views in ((True, 25, None, True), (False, 0.001, None, False), (True, 0.001, "exact", False)):
        counts, inner = _counts(size, even), Model().to(DEVICE)
        model = DistributedDataParallel(inner, bucket_cap_mb=bucket, gradient_as_bucket_view=views)
        model.register_comm_hook(over_ranks.Accumulation(counts[rank], method=method), over_ranks.hook)
        _train(model, inner.parameters(), _range(rank, counts))
        found.append(b"".join(map(bits, inner.parameters())))
    assert found[0] == found[1]
    return [found[0], found[2], _ddp_under_strict(rank, size) if DEVICE.type == "cpu" else None]  # (products on GPUs are not bitfold's)


def _ddp_under_strict(rank: int, size: int) -> bytes:
    """What DistributedDataParallel itself sends need not be allowed."""
    counts, inner = _counts(size, True), torch.nn.Sequential(*(m for m in Model() if not isinstance(m, torch.nn.Tanh)))
    with bitfold.torch.deterministic(strict=True):
        model = DistributedDataParallel(inner)
        model.register_comm_hook(over_ranks.Accumulation(counts[rank]), over_ranks.hook)
        _train(model, inner.parameters(), _range(rank, counts), foreach=True)
    return b"".join(map(bits, inner.parameters()))


def ddp_without_accumulation(rank: int, size: int) -> bytes:
    """The hook by itself: each backward pass is a contribution."""
    inner = Model().to(DEVICE)
    model = DistributedDataParallel(inner)
    model.register_comm_hook(None, over_ranks.hook)
    _train(model, inner.parameters(), range(rank, rank + 1))
    zero = Scaled().to(DEVICE)
    model = DistributedDataParallel(zero)
    model.register_comm_hook(None, over_ranks.hook)
    model(torch.tensor(-0.0, device=DEVICE)).backward()
    assert bits(zero.weight.grad) == bits(torch.zeros(2))
    return b"".join(map(bits, inner.parameters()))


def fsdp(rank: int, size: int) -> bytes:
    """Each pass gathers parameters: all ranks make as many."""
    counts, model, mesh = _counts(size, True), Model().to(DEVICE), init_device_mesh(DEVICE.type, (size,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    over_ranks.shard_gradients(model, over_ranks.Accumulation(counts[rank]))
    _train(model, model.parameters(), _range(rank, counts))
    norm = over_ranks.grad_norm(model.parameters())
    before = [p.grad.full_tensor() for p in model.parameters()]
    whole = [torch.nn.Parameter(torch.zeros_like(g)) for g in before]
    for p, g in zip(whole, before):
        p.grad = g.clone()
    assert bits(norm) == bits(bitfold.torch.grad_norm(whole))
    assert bits(over_ranks.clip_grad_norm_(model.parameters(), 0.5 * float(norm))) == bits(norm)
    bitfold.torch.clip_grad_norm_(whole, 0.5 * float(norm))
    assert [bits(p.grad.full_tensor()) for p in model.parameters()] == [bits(p.grad) for p in whole]
    return b"".join(bits(p.full_tensor()) for p in model.parameters())


def norms(rank: int, size: int) -> None:
    """Of plain shards, in random sizes and types, and of copies, which count once."""
    rng = random.Random(5)
    for types in ((F32,), (BF16,), (F32, BF16), (F64, F32), (F16,)):
        for kind in (1, 2, float("inf")):
            whole = [numbers(rng.choice(types), rng.choice((0, 1, 1000)), seed=k) for k in range(2 * size + 1)]
            counts = split(rng, len(whole), size)
            mine = here(*(whole[k] for k in _range(rank, counts)))
            assert bits(over_ranks.grad_norm(_with_gradients(mine), kind)) == bits(bitfold.torch.grad_norm(_with_gradients(whole), kind))
    mesh, x = init_device_mesh(DEVICE.type, (size,)), numbers(F32, 100, seed=1)
    copies = torch.nn.Parameter(distribute_tensor(torch.zeros(100, device=DEVICE), mesh, [Replicate()]))
    copies.grad = distribute_tensor(*here(x), mesh, [Replicate()])
    assert bits(over_ranks.grad_norm(copies)) == bits(bitfold.torch.grad_norm(_with_gradients([x])))


def _with_gradients(grads: list) -> list:
    made = [torch.nn.Parameter(torch.zeros_like(g)) for g in grads]
    for p, g in zip(made, grads):
        p.grad = g.clone()
    return made
