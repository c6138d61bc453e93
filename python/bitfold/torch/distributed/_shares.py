"""Reductions of what lies in parts on ranks: of one array, and norms of gradients (docs/distributed.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from bitfold import _core
from bitfold._tensors import DTYPES

from .._engine import FLOATS, OPS, TENSORS, method_for, name_of, request
from .._gradients import in_a_row, norm_named, scale
from ._contributions import bytes_of, expect
from ._group import Group, group_of


def _in_a_row(x: Tensor, argument: str) -> Tensor:
    """In the CPU's memory, where shares are made."""
    return expect(x, argument).detach().cpu().contiguous().view(-1)


def _current_gpu() -> torch.device | None:
    """On whose stream tensors may have work that is not done."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_initialized() else None


def _gather_bytes(by: Group, mine: bytes) -> list[bytes]:
    """Those of all ranks, of any lengths."""
    sizes = [int.from_bytes(n, "little") for n in by.gather(len(mine).to_bytes(8, "little"))]
    theirs = [torch.empty(n, dtype=torch.uint8, device="cpu") for n in sizes]
    theirs[by.rank] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
    by.exchange([[theirs[by.rank]]] * by.size, [[t] for t in theirs])
    return [t.numpy().tobytes() for t in theirs]


def _scalar(name: str, bits: int) -> Tensor:
    dtype = DTYPES[name]
    size = dtype.itemsize
    return torch.frombuffer(bytearray(bits.to_bytes(size, "little")), dtype=dtype)[0].clone()


def reduce_shares(ops: str | Sequence[str], x: Tensor, y: Tensor | None = None, group: dist.ProcessGroup | None = None, *,
                  method: str | None = None, dtype: torch.dtype | None = None, acc: torch.dtype | None = None, ddof: int = 0) -> Tensor | list[Tensor]:
    """On every rank the result for the whole array, of which `x` is this rank's share, perhaps an empty one: that of rank 0 comes first. `y`: for
    operations of two arrays, the share of the other one. Of a list of operations a list of results, in one pass. `method` is for those that
    take it. The bits are those of the whole array in one process.

    >>> reduce_shares(["mean", "argmax"], my_part)  # doctest: +SKIP

    Errors: Disagreement on every rank where calls differ, or where one rank refuses its arguments; ValueError where there is no result for no
    elements; those of the engine.
    """  # fmt: skip
    by = group_of(group)

    def describe() -> tuple[str, int, int]:
        nonlocal x, y, wanted, device
        names = [ops] if isinstance(ops, str) else list(ops)
        device = getattr(x, "device", None)
        x = _in_a_row(x, "x")
        y = None if y is None else _in_a_row(y, "y")
        wanted = [request(op, method_for(op, method) if op in OPS else None, dtype, acc, ddof) for op in names]
        _core.make_share(wanted, x[:0], None if y is None else y[:0], 0, TENSORS)
        if y is not None and y.numel() != x.numel():
            raise ValueError(f"y: {y.numel()} elements, and x has {x.numel()}")
        arrays = f"{x.dtype}{'' if y is None else ' and another array'}"
        return f"reduce_shares of {arrays}: {', '.join(names)}; method={method}, dtype={dtype}, acc={acc}, ddof={ddof}", x.numel(), 0

    def call() -> list[bytes]:
        lengths = by.agree(describe)
        first = sum(n for n, _ in lengths[: by.rank])
        return _gather_bytes(by, _core.make_share(wanted, x, y, first, TENSORS))

    wanted: list = []
    device: torch.device | None = None
    shares = by.run(call, _current_gpu())
    results = [_scalar(*one).to(device) for one in _core.reduce_shares(wanted, name_of(x.dtype), shares)]
    return results[0] if isinstance(ops, str) else results


# ---- Norms of gradients --------------------------------------------------------------------------


def _shards(parameters: Iterable[Tensor] | Tensor) -> tuple[list[Tensor], list[bool]]:
    """The gradients that lie here, and whether each counts: of what several ranks have, one rank's does."""
    from torch.distributed.tensor import DTensor

    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads, counts = [], []
    for g in (p.grad for p in parameters if p.grad is not None):
        counted = True
        if isinstance(g, DTensor):
            if any(p.is_partial() for p in g.placements):
                raise TypeError("parameters: a gradient that is not reduced yet: a DTensor with a placement Partial")
            where = g.device_mesh.get_coordinate() or []
            counted = all(at == 0 for p, at in zip(g.placements, where) if p.is_replicate())
            g = g.to_local()
        if g.dtype not in FLOATS:
            raise TypeError(f"parameters: a gradient of {g.dtype}")
        grads.append(expect(g, "parameters: a gradient"))
        counts.append(counted)
    return grads, counts


def _norm(by: Group, parameters: Iterable[Tensor] | Tensor, norm_type: float, what_for: Callable[[], str] = str) -> tuple[Tensor, list[Tensor]]:
    def describe() -> tuple[str, int, int]:
        nonlocal grads, counts
        grads, counts = _shards(parameters)
        return f"norm of gradients, {norm_named(norm_type)}{what_for()}", 0, 0

    def call() -> tuple[Tensor, list[Tensor]]:
        # The types of all ranks, one bit each: known before anything is added, as only sums of one type can be merged.
        by.agree(describe)
        mine = sum(1 << k for k, dtype in enumerate(FLOATS) if any(g.dtype is dtype for g in grads))
        masks = [m[0] for m in by.gather(bytes([mine]))]
        types = [dtype for k, dtype in enumerate(FLOATS) if any(m >> k & 1 for m in masks)]
        out = torch.float64 if torch.float64 in types else torch.float32
        taken = types[0] if len(types) == 1 else out
        local = [g.to(taken) for g, counted in zip(grads, counts) if counted]
        norm = _joined(by, norm_named(norm_type), local, taken, out)
        return norm.to(grads[0].device) if grads else norm

    grads: list[Tensor] = []
    counts: list[bool] = []
    return by.run(call, _current_gpu()), grads


def _joined(by: Group, op: str, grads: list[Tensor], taken: torch.dtype, out: torch.dtype) -> Tensor:
    short = name_of(taken)
    if op == "norm_inf":  # whose order is nothing
        of_each = [torch.ops.bitfold.norm_inf(g) for g in grads if g.numel()] or [torch.zeros((), dtype=taken, device="cpu")]
        mine = torch.ops.bitfold.norm_inf(torch.stack(of_each).to(out)).reshape(1).cpu()  # (of a NaN its bits, too)
        theirs = [torch.frombuffer(bytearray(t), dtype=mine.dtype) for t in by.gather(bytes_of(mine).numpy().tobytes())]
        return torch.ops.bitfold.norm_inf(torch.cat(theirs))
    wanted = request(op, "exact", out)
    mine = torch.zeros(_core.contribution_state_bytes(wanted, short), dtype=torch.uint8, device=grads[0].device if grads else "cpu")
    if grads:
        _core.fold_pieces(wanted, [g.detach() if g.is_contiguous() else in_a_row(g.detach()) for g in grads], mine, TENSORS)
    theirs = [torch.frombuffer(bytearray(t), dtype=torch.uint8) for t in by.gather(mine.cpu().numpy().tobytes())]
    norm = torch.empty(1, dtype=out, device="cpu")
    _core.fold_contributions(wanted, short, [(r, 1, t.data_ptr(), False) for r, t in enumerate(theirs)], 1, bytes_of(norm), True, TENSORS)
    return norm[0]


def grad_norm(parameters: Iterable[Tensor] | Tensor, norm_type: float = 2.0, group: dist.ProcessGroup | None = None) -> Tensor:
    """bitfold.torch.grad_norm of gradients that lie in shards on the ranks of a group: on every rank the same, with the bits of all of them in
    one process. A gradient that is a DTensor has its shard here, of which copies count once (`group`: all ranks of its mesh); another
    tensor is a shard of its own.

    Errors: Disagreement, TypeError, ValueError; those of the engine.
    """
    return _norm(group_of(group), parameters, norm_type)[0]


@torch.no_grad()
def clip_grad_norm_(parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    group: dist.ProcessGroup | None = None) -> Tensor:
    """Scales the shards of gradients in place, so that their grad_norm is at most `max_norm`; returns what it was.

    Errors: those of grad_norm; RuntimeError where the norm is not finite and `error_if_nonfinite`.
    """  # fmt: skip
    how = lambda: f", to clip at {float(max_norm)!r}, error_if_nonfinite={bool(error_if_nonfinite)}"
    norm, grads = _norm(group_of(group), parameters, norm_type, how)
    scale(grads, norm, max_norm, error_if_nonfinite)
    return norm
