"""torch.distributed under the mode: its reductions over ranks are bitfold.torch.distributed's, with one contribution a rank.

What torch's functions, its functional collectives, DTensor and DistributedDataParallel ask of a group comes down to operators of
`c10d`. Those that reduce are taken over; the others move elements, and stay torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ._engine import Uncovered, method_for

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work

    from .distributed._contributions import Call
    from .distributed._group import Group


def _of(namespace: str, names: str) -> tuple[str, ...]:
    return tuple(f"{namespace}::{name}" for name in names.split())


#: Made of REDUCTIONS, below: strict has nothing to ask of them.
MADE_OF_REDUCTIONS = (
    *_of("_c10d_functional", "all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_ reduce_scatter_tensor reduce_scatter_tensor_out"),
    *_of("_c10d_functional", "reduce_scatter_tensor_coalesced"),
    *_of("_c10d_functional_autograd", "reduce_scatter_tensor"),
)

#: What strict lets through, by why: no element of a result is made of several. (Not every torch has all of them.)
NO_ARITHMETIC: dict[str, tuple[str, ...]] = {
    "send elements to other ranks, or lay them out for it": (
        *_of("c10d", "allgather_ _allgather_base_ allgather_coalesced_ allgather_into_tensor_coalesced_ alltoall_ alltoall_base_ broadcast_"),
        *_of("c10d", "gather_ gather_into_tensor_ scatter_ send recv_ recv_any_source_"),
        *_of("_c10d_functional", "all_gather_into_tensor all_gather_into_tensor_coalesced all_gather_into_tensor_out all_to_all_single"),
        *_of("_c10d_functional", "batch_p2p_ops broadcast broadcast_ irecv isend"),
        *_of("_c10d_functional_autograd", "all_gather_into_tensor all_to_all_single"),
        *_of("_dtensor", "shard_dim_alltoall"),
        *_of("fsdp", "all_gather_copy_in chunk_cat chunk_cat_mixed_dtype copy_ split_with_sizes_copy"),
    ),
    "wait for other ranks, or ask, and compute nothing": (
        *_of("c10d", "barrier check_for_nan monitored_barrier_"),
        *_of("_c10d_functional", "_wrap_tensor_autograd wait_tensor wait_tensors"),
        "_dtensor::mesh_get_process_group",
        "fsdp::record_grad_output_stream",
    ),
}

_OF_NO_ARITHMETIC = frozenset(name for names in NO_ARITHMETIC.values() for name in names)
_ENGINES = {"cpu": ("gloo",), "cuda": ("nccl", "gloo")}  # by which bitfold's messages go


def moves(op: torch._ops.OpOverload) -> bool:
    """Whether it sends elements, or waits, and computes nothing."""
    return op._schema.name in _OF_NO_ARITHMETIC


# ---- What is reduced -----------------------------------------------------------------------------


class Reduction(NamedTuple):
    """One array: this rank's contribution, and where the result goes. `parts`: how many such results there are, one for each rank, or their sizes."""

    out: Tensor
    contribution: Tensor
    parts: int | Sequence[int] | None = None


def _expect_one(tensors: Sequence) -> Sequence:
    if len(tensors) != 1:
        raise Uncovered(f"{len(tensors)} tensors of one rank, of which bitfold takes one")
    return tensors


def _unversioned(x: Tensor) -> Tensor:
    """The same memory. torch's collectives do not count what they write as changes, by which autograd would refuse a backward pass."""
    return x.data


def _in_place(tensors: Sequence[Tensor]) -> Iterator[Reduction]:
    for x in map(_unversioned, tensors):
        yield Reduction(x, x)


def _pairs(outs: Sequence, inputs: Sequence) -> Iterator[tuple]:
    if len(outs) != len(inputs):
        raise Uncovered(f"{len(outs)} outputs for {len(inputs)} inputs")
    return zip(outs, inputs, strict=True)


def _of_lists(outs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]]) -> Iterator[Reduction]:
    for out, parts in _pairs(outs, inputs):
        if not parts:
            raise Uncovered("reduce_scatter: no parts")
        if len({p.dtype for p in parts}) > 1:
            raise Uncovered("reduce_scatter: parts of several types")
        yield Reduction(_unversioned(out), torch.cat([p.detach().reshape(-1) for p in parts]), [p.numel() for p in parts])


def _of_tensors(outs: Sequence[Tensor], inputs: Sequence[Tensor], ranks: int) -> Iterator[Reduction]:
    for out, x in _pairs(outs, inputs):
        yield Reduction(_unversioned(out), x.detach(), ranks)


#: The operators that are taken over: what is to be reduced, of the arguments by name and the number of ranks.
REDUCTIONS: dict[str, Callable[[dict, int], Iterator[Reduction]]] = {
    "c10d::allreduce_": lambda given, ranks: _in_place(_expect_one(given["tensors"])),
    "c10d::allreduce_coalesced_": lambda given, ranks: _in_place(given["tensors"]),
    "c10d::reduce_": lambda given, ranks: _in_place(_expect_one(given["tensors"])),
    "c10d::reduce_scatter_": lambda given, ranks: _of_lists(_expect_one(given["output_tensors"]), given["input_tensors"]),
    "c10d::_reduce_scatter_base_": lambda given, ranks: _of_tensors([given["output_tensor"]], [given["input_tensor"]], ranks),
    "c10d::reduce_scatter_tensor_coalesced_": lambda given, ranks: _of_tensors(given["outputs"], given["inputs"], ranks),
}


def find(name: str) -> torch._ops.OpOverload | None:
    namespace, _, name = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return packet and packet.default


def operators(names: Sequence[str]) -> list[torch._ops.OpOverload]:
    """Those that this torch has; none without torch.distributed."""
    return [op for op in map(find, names) if op]


# ---- How -----------------------------------------------------------------------------------------

_KINDS = ("SUM", "AVG", "MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")


def _kind(op: object) -> str:
    """As torch.distributed.ReduceOp names it."""
    from torch.distributed import ReduceOp

    return next((name for name in _KINDS if op == getattr(ReduceOp, name)), "an operation of one's own")


def _kind_of(boxed: torch.ScriptObject) -> str:
    """Of the reduction that an operator is given."""
    from torch.distributed import ReduceOp

    if hasattr(ReduceOp, "unbox"):
        return _kind(ReduceOp.unbox(boxed))
    number = boxed.op()  # PyTorch 2.11 has no more
    return next((name for name in _KINDS if int(getattr(ReduceOp, name)) == number), "an operation of one's own")


def _group_for(group, device: torch.device) -> Group:
    """bitfold's group of the same ranks. Made by the first call, as all ranks make that call."""
    from .distributed._group import engines_of, group_of

    try:
        engine = engines_of(group).get(device.type)
    except (KeyError, TypeError, ValueError):
        raise Uncovered("a group that torch.distributed has no name for") from None
    if engine not in (taken := _ENGINES.get(device.type, ())):
        raise Uncovered(f"on {device.type} bitfold's messages go by {' or '.join(taken) or 'no engine'}, and the group's is {engine}")
    return group_of(group)


def kernel(op: torch._ops.OpOverload, method: Callable[[], str], own: Callable, instead: Callable) -> Callable:
    """Of an operator of REDUCTIONS. `method`: the mode's; `own`: torch's kernel, and `instead` what comes of a call that is not covered."""
    names = [a.name for a in op._schema.arguments]
    reductions, has_result = REDUCTIONS[op._schema.name], len(op._schema.returns) == 2

    def either(*args, **kwargs):
        given = dict(zip(names, args)) | kwargs
        try:
            calls = _called(reductions, method(), given)
        except Uncovered as error:
            return instead(error, args, kwargs)
        if calls is None:
            return own(*args, **kwargs)
        written = args[0] if isinstance(args[0], list) else [args[0]]
        work = _begun(calls, written, given.get("async_op", given.get("asyncOp", True))).boxed()
        return (args[0], work) if has_result else work

    return either


def _called(reductions: Callable, method: str, given: dict) -> list[tuple[Callable, Call]] | None:
    """The calls of bitfold's, and what makes them; None where it is bitfold's own group that is asked. Errors: Uncovered, before anything is sent."""
    from torch._C._distributed_c10d import ProcessGroup

    from .distributed import _contributions as ours
    from .distributed import _group

    group, kind = ProcessGroup.unbox(given["process_group"]), _kind_of(given["reduce_op"])
    if group in _group.ENGINES:
        return None
    op = ours.OPS_OF.get(kind)
    if op is None:
        raise Uncovered(f"bitfold has no {kind} over ranks")
    if given.get("sparse_indices") is not None:
        raise Uncovered("bitfold has no reductions of sparse tensors over ranks")
    wanted, by = list(reductions(given, group.size())), method_for(op, method)
    for r in wanted:
        try:
            ours.rule_of(op, by, r.contribution.dtype, r.out.dtype)
        except (TypeError, ValueError) as e:
            raise Uncovered(str(e)) from None
    if not wanted:
        raise Uncovered("no tensors")
    ranks, root = _group_for(group, wanted[0].out.device), given.get("root_rank")

    def call(r: Reduction) -> tuple[Callable, Call]:
        of = (ranks, r.out, op, by, [r.contribution])
        if r.parts is not None:
            return ours._reduce_scatter, ours.Call("reduce_scatter_tensor", *of, parts=r.parts)
        if root is not None:
            return ours._reduce, ours.Call("reduce", *of, dst=root)
        return ours._all_reduce, ours.Call("all_reduce", *of)

    return [call(r) for r in wanted]


def _begun(calls: list[tuple[Callable, Call]], written: list[Tensor], is_async: bool) -> Work:
    """Of a call that is not asynchronous an error is raised here, and of another one where it is waited for."""
    from .distributed import _work
    from .distributed._contributions import quickly

    group, device = calls[0][1].group, calls[0][1].out.device
    if not is_async:
        for make, call in calls:
            if not quickly(call):
                group.run(partial(make, call), device)
        return _work.ended(written)
    future = _work.future_on(device)

    def run() -> None:
        error = None
        try:
            for make, call in calls:
                make(call)
        except BaseException as e:
            error = e
            raise
        finally:
            future.set_result(error)

    def result(future: torch.futures.Future) -> list[Tensor]:
        if (error := future.value()) is not None:  # (what Future.set_exception sets is a result to whoever waits in C++)
            raise error
        return written

    results = future.then(result)
    return _work.under_way(group.start(run, device), results)
