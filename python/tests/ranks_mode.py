"""What ranks do under the mode, with torch's own collectives: `ranks.run("ranks_mode.NAME", ...)`."""

from __future__ import annotations

import datetime
import time
import unittest.mock
from collections.abc import Iterator

import bitfold.torch.distributed as over_ranks
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._C._distributed_c10d import _make_nccl_premul_sum
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn.parallel import DistributedDataParallel

import ranks
from bitfold.torch import NotCovered, deterministic
from bitfold.torch._engine import method_for
from bitfold.torch.distributed import _group
from ranks import BF16, BOOL, F16, F32, F64, I32, I64, U8, _error, _works, bits, here, numbers, ones

Op = dist.ReduceOp
OPS = {"sum": Op.SUM, "mean": Op.AVG, "min": Op.MIN, "max": Op.MAX, "prod": Op.PRODUCT}
#: torch's, bitfold's name of it, and types.
CASES = [
    *((op, dtype) for op in ("sum", "mean") for dtype in (F16, BF16, F32, F64)), *((op, dtype) for op in ("min", "max") for dtype in (BF16, F32, U8, BOOL)),
    ("prod", F32), ("prod", I64), ("sum", I32), ("sum", U8),
]  # fmt: skip
METHODS = ("tree", "kahan", "exact")
#: By their new names, or by the old ones.
SCATTER, SCATTER_SEVERAL = (
    getattr(functional, f"reduce_scatter_single{many}", None) or getattr(functional, f"reduce_scatter_tensor{many}") for many in ("", "_coalesced")
)


def _of_all(op: str, method: str, x: torch.Tensor) -> torch.Tensor:
    """The definition: of a contribution of each rank, in one process."""
    return over_ranks.reduce_contributions(x, op, method=method_for(op, method), dtype=x.dtype if op in ("sum", "prod") else None)


def collectives(rank: int, size: int) -> None:
    """Every one of torch.distributed's that reduces, each with every operation, by each method, in its group and in one of some ranks."""
    some = list(range(size - 1)) if size > 1 else [0]
    part = dist.new_group(some)
    for k, (op, dtype) in enumerate(CASES):
        method, theirs = METHODS[k % 3], OPS[op]
        x = numbers(dtype, size, 60 * size, seed=k)
        if dtype.is_floating_point:
            x[0, 5], x[-1, 6], x[:, 7] = float("nan"), float("inf"), -0.0
        wanted = _of_all(op, method, x)
        with deterministic(method, strict=bool(k % 2)):
            for name, found, right in _reduced(rank, size, x[rank], theirs, wanted):
                assert bits(found) == bits(right), (name, op, dtype, method)
            if rank in some:
                (mine,) = here(x[rank])
                dist.all_reduce(mine, theirs, group=part)
                assert bits(mine) == bits(_of_all(op, method, x[: len(some)]))


def _reduced(rank: int, size: int, x: torch.Tensor, op, wanted: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """By each function what came, and what is to come."""
    part = wanted.chunk(size)[rank]
    (mine,) = here(x)
    before = mine._version
    assert dist.all_reduce(mine, op) is None and mine._version == before
    yield "all_reduce", mine, wanted

    mine = ones(2, len(x)).to(x.dtype)
    work = [dist.all_reduce(row.copy_(x), op, async_op=True) for row in mine]
    assert all(w.wait() for w in work)
    yield "two at a time", mine, wanted.expand(2, -1)

    (mine,) = here(x)
    dist.reduce(mine, size - 1, op)
    yield "reduce", mine, wanted if rank == size - 1 else x

    (out,) = here(torch.zeros_like(part))
    dist.reduce_scatter_tensor(out, *here(x), op)
    yield "reduce_scatter_tensor", out, part

    lengths = [10 + 5 * r for r in range(size)]
    out, rest = here(torch.zeros_like(x[: lengths[rank]]), x[: sum(lengths)])
    dist.reduce_scatter(out, list(rest.split(lengths)), op)
    yield "reduce_scatter", out, wanted[: sum(lengths)].split(lengths)[rank]

    both, several = here(x, x[:3]), dist.AllreduceCoalescedOptions()
    several.reduceOp = op
    dist.group.WORLD.allreduce_coalesced(both, several).wait()
    yield "all_reduce_coalesced", torch.cat(both), torch.cat((wanted, wanted[:3]))


def functional_collectives(rank: int, size: int) -> None:
    """Those that return tensors, and what DTensor makes of them; of these torch's names of operations are those of ReduceOp."""
    mesh = init_device_mesh(ranks.DEVICE.type, (size,))
    names = {"sum": "sum", "mean": "avg", "min": "min", "max": "max", "prod": "product"}
    for k, (op, dtype) in enumerate(CASES):
        method, theirs = METHODS[k % 3], names[op]
        x = numbers(dtype, size, 60 * size, seed=k)
        wanted, group = _of_all(op, method, x), dist.group.WORLD
        part = wanted.chunk(size)[rank]
        (mine,) = here(x[rank])
        with deterministic(method, strict=bool(k % 2)):
            found = {
                "all_reduce": (functional.all_reduce(mine, theirs, group), wanted),
                "reduce_scatter": (SCATTER(mine, theirs, 0, group), part),
                **{f"all_reduce_coalesced {i}": (y, wanted) for i, y in enumerate(functional.all_reduce_coalesced([mine, mine], theirs, group))},
                **{
                    f"reduce_scatter_coalesced {i}": (y, part)
                    for i, y in enumerate(SCATTER_SEVERAL([mine, mine], theirs, [0, 0], group))
                },
                "replicate": (_partial(mine, mesh, theirs).redistribute(mesh, [Replicate()]).to_local(), wanted),
                "shard": (_partial(mine, mesh, theirs).redistribute(mesh, [Shard(0)]).to_local(), part),
            }
            name = group.group_name
            in_place = torch.ops._c10d_functional.all_reduce_(mine.clone(), theirs, name)
            found["all_reduce_"] = torch.ops._c10d_functional.wait_tensor(in_place), wanted
        for name, (y, right) in found.items():
            assert bits(functional.wait_tensor(y) if isinstance(y, functional.AsyncCollectiveTensor) else y) == bits(right), (name, op, dtype, method)
        assert bits(mine) == bits(x[rank])


def _partial(x: torch.Tensor, mesh, op: str) -> DTensor:
    return DTensor.from_local(x, mesh, [Partial(op)])


def strict(rank: int, size: int) -> None:
    """What moves elements passes, what bitfold has not is refused by its name, on each rank before anything is sent; and allowed it is torch's."""
    x, many, sparse = ones(4), [ones(4) for _ in range(size)], torch.sparse_coo_tensor([[0]], [1.0], (4,), check_invariants=True)
    with deterministic(strict=True):
        gathered = ones(4 * size)
        dist.all_gather_into_tensor(gathered, x)
        dist.all_gather(many, x)
        dist.broadcast(x, 0)
        dist.all_to_all_single(ones(2 * size), ones(2 * size))
        dist.scatter(ones(4), many if rank == 0 else None)
        dist.gather(x, many if rank == 0 else None)
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0) if rank == 1 else None
        dist.barrier()
        gather = getattr(functional, "all_gather_single", functional.all_gather_tensor)  # as it was called before
        assert functional.wait_tensor(gather(x, 0, dist.group.WORLD)).numel() == 4 * size
        dist.all_gather_object([None] * size, "anything")
        mine = torch.full((4,), 3 + rank, dtype=I64)
        dist.all_reduce(mine, Op.BAND)  # of integers, exact in whatever order
        assert mine.eq(3 & 4 if size == 2 else 0).all()
        z = torch.full((3,), 1 + 2j)
        dist.all_reduce(z)  # which torch makes a sum of real numbers of
        assert z.eq(size * (1 + 2j)).all()
        for f, why in (
            (lambda: dist.all_reduce(ones(4), _make_nccl_premul_sum(0.5)), "PREMUL_SUM"),
            (lambda: dist.reduce_scatter_tensor(ones(4, dtype=torch.complex64).real, ones(4 * size), Op.BAND), "BAND"),
            (lambda: dist.all_reduce(ones(4, dtype=torch.float8_e5m2)), "float8_e5m2"),
            (lambda: functional.all_reduce(ones(4), "bxor", dist.group.WORLD), "BXOR"),
            (lambda: dist.all_reduce(sparse), "sparse"),
        ):
            with _error(NotCovered, f"c10d::.*{why}"):
                f()
        _works(rank, size)
    with deterministic(strict=True, allow="c10d::allreduce_"), _error(RuntimeError, "(?i)gloo|type"):
        dist.all_reduce(ones(4, dtype=torch.float8_e5m2))


def errors(rank: int, size: int) -> None:
    """Calls that differ are bitfold's error; later ones are right, bitfold's own group is left alone, and torch has its own when the mode has ended."""
    odd = rank == size - 1
    with deterministic():
        with _error(over_ranks.Disagreement, "of 3 elements.*of 4 elements"):
            dist.all_reduce(ones(3 + odd))
        lengths = [2, 1, 3][:size] if odd else [1, 2, 3][:size]
        with _error(over_ranks.Disagreement, "in parts of"):
            dist.reduce_scatter(ones(lengths[rank]), [ones(n) for n in lengths])
        with _error(ValueError, r"parts for . ranks have \[3\]"):
            dist.reduce_scatter(ones(3), [ones(3)])
        work = dist.all_reduce(ones(3), Op.MAX if odd else Op.SUM, async_op=True)
        for wait in (work.wait, lambda: work.wait(datetime.timedelta(seconds=9))):
            with _error(over_ranks.Disagreement, "sum by.*max"):
                wait()
        with _error(RuntimeError, "Disagreement.*sum by.*max"):
            work.get_future().wait()
        with _error(over_ranks.Disagreement, "sum by.*max"):
            functional.wait_tensor(torch.ops._c10d_functional.all_reduce(ones(3), "max" if odd else "sum", dist.group.WORLD.group_name))
        time.sleep(0.2 * odd)  # whoever waits leaves Python to the thread of the call
        x = ones(3)
        dist.all_reduce(x, async_op=True).wait()
        assert x.eq(size).all()
        assert functional.all_reduce(ones(3), "sum", dist.group.WORLD).eq(size).all()
        by = _group.group_of(None)
        dist.all_reduce(x, group=by._engine)  # as bitfold's own group has it
        assert x.eq(size * size).all() and by._engine not in _group._GROUPS
    before = by._calls
    dist.all_reduce(x)
    assert x.eq(size**3).all() and by._calls == before


# ---- Training, and torch.compile -----------------------------------------------------------------


def data_parallel(rank: int, size: int) -> None:
    """Without hooks: a rank's contribution is its gradient, of DistributedDataParallel that times 1 / size, as it has it. strict has nothing to
    refuse."""
    x = numbers(F32, size, 2, seed=3)
    for strict in (False, True):
        with deterministic("exact", strict=strict):
            model = DistributedDataParallel(ranks.Scaled())
            model(x[rank]).backward()
        assert bits(model.module.weight.grad) == bits(_of_all("sum", "exact", x * (1 / size)))
        with deterministic("exact", strict=strict):
            model = fully_shard(ranks.Scaled(), mesh=init_device_mesh("cpu", (size,)))
            model(x[rank]).backward()
            found = model.weight.grad.full_tensor()
        assert bits(found) == bits(_of_all("mean", "exact", x))


def compiled(rank: int, size: int) -> None:
    """Functional collectives, and torch.distributed's that a compiler makes such of: the same bits as without it, and so have their gradients."""
    group, by = dist.group.WORLD, _group.group_of(None)
    x, calls = numbers(BF16, size, 12 * size, seed=5), by._calls

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        dist.all_reduce(y)
        return y, functional.all_reduce(x, "avg", group) * 1, SCATTER(x, "max", 0, group) * 1

    g = torch.compile(f, backend="aot_eager", fullgraph=True)
    for method in ("tree", "exact"):
        with deterministic(method):
            wanted = [_of_all("sum", method, x * 2), _of_all("mean", method, x), _of_all("max", method, x).chunk(size)[rank]]
            assert [*map(bits, g(x[rank]))] == [*map(bits, f(x[rank]))] == [*map(bits, wanted)]
            assert by._calls == (calls := calls + 6)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x * x, "sum", group).square().sum()

    def gradient(f) -> bytes:
        mine = x[rank].clone().requires_grad_()
        f(mine).backward()
        return bits(mine.grad)

    with deterministic():
        assert gradient(torch.compile(loss, backend="aot_eager")) == gradient(loss)
        assert by._calls == calls + 4  # forward and backward


def compiled_models(rank: int, size: int) -> None:
    """DistributedDataParallel with bitfold's hook, in several buckets, and FSDP2: the weights that they have without a compiler."""
    counts, buckets = ranks._counts(size, True), set()

    def ddp(compiled: bool) -> bytes:
        inner = ranks.Model()
        model = DistributedDataParallel(inner, bucket_cap_mb=0.001)
        model.register_comm_hook(over_ranks.Accumulation(counts[rank]), lambda state, bucket: buckets.add(bucket.index()) or over_ranks.hook(state, bucket))
        ranks._train(torch.compile(model, backend="aot_eager") if compiled else model, inner.parameters(), ranks._range(rank, counts))
        assert len(buckets) > 1
        return b"".join(map(bits, inner.parameters()))

    def fsdp(compiled: bool) -> bytes:
        model = ranks.Model()
        fully_shard(model[0], mesh=init_device_mesh("cpu", (size,)))
        fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
        over_ranks.shard_gradients(model, over_ranks.Accumulation(counts[rank]))
        ranks._train(torch.compile(model, backend="aot_eager") if compiled else model, model.parameters(), ranks._range(rank, counts))
        return b"".join(bits(p.full_tensor()) for p in model.parameters())

    with deterministic(), unittest.mock.patch.object(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 500):  # at which dynamo cuts its graphs, too
        assert len({f(compiled) for f in (ddp, fsdp) for compiled in (False, True)}) == 1
