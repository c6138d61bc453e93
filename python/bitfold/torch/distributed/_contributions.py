"""Arrays of one shape that are combined element by element, in a tree over contributions (docs/distributed.md)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import forward_ad

from bitfold import _core, _tensors

from .._engine import OPS, TENSORS, name_of, request, result_dtype
from ._group import Copied, Disagreement, Group, Job, group_of
from ._host import Host

OPS_OF = {"SUM": "sum", "AVG": "mean", "MIN": "min", "MAX": "max", "PRODUCT": "prod"}
_MOST_KNOWN = 1 << 12  # calls that may be made again
#: Bytes of states that are sent at once; and up to which every rank folds all elements: one exchange, where there would be two.
_PIECE = {"cpu": 1 << 21, "cuda": 1 << 25}
_SMALL = {"cpu": 1 << 14, "cuda": 1 << 19}
_TOGETHER = 64  # elements: parts begin at multiples of them, where GPUs read 16 bytes at once


class Node(NamedTuple):
    """What is known of neighbouring contributions: the elements of one, or states, as bytes one behind the other."""

    first: int
    count: int
    data: Tensor
    is_elements: bool

    def slice(self, rule: Rule, begin: int, end: int) -> Tensor:
        size = rule.bytes_of(self.is_elements)
        return self.data[begin * size : end * size]


class Rule(NamedTuple):
    """How contributions of a type are combined to results of a type."""

    op: str
    method: str | None
    taken: torch.dtype
    given: torch.dtype

    def request(self) -> _core.Request:
        return request(self.op, self.method, self.given if OPS[self.op]["takes_dtype"] else None)

    @cache
    def state_bytes(self) -> int:
        return _core.contribution_state_bytes(self.request(), name_of(self.taken))

    def bytes_of(self, is_elements: bool) -> int:
        return self.taken.itemsize if is_elements else self.state_bytes()

    @cache
    def check(self) -> None:
        """Errors: bitfold's for what it has not; TypeError for another type of results."""
        made = result_dtype(self.request(), self.taken)
        if made is not self.given:
            raise TypeError(f"tensor: {self.given}, and {self.op} of {self.taken} gives {made}")
        self.state_bytes()

    @cache
    def goes_over_links(self) -> bool:
        return _core.LinkedRanks.takes(self.request(), name_of(self.taken))

    def fold(self, nodes: Sequence[Node], n: int) -> Node:
        """The node that some of one tree make together."""
        if len(nodes) == 1:
            return nodes[0]
        states = nodes[0].data.new_empty(n * self.state_bytes())
        self._fold(nodes, n, states, False)
        return Node(nodes[0].first, sum(node.count for node in nodes), states, False)

    def finish(self, nodes: Sequence[Node], out: Tensor) -> None:
        """The results of all contributions, as bytes."""
        self._fold(nodes, out.numel() // self.given.itemsize, out, True)

    def _fold(self, nodes: Sequence[Node], n: int, out: Tensor, finish: bool) -> None:
        addresses = [(node.first, node.count, node.data.data_ptr(), node.is_elements) for node in nodes]
        _core.fold_contributions(self.request(), name_of(self.taken), addresses, n, out, finish, TENSORS)

    @cache
    def __str__(self) -> str:
        by = f" by {self.method}" if self.method else ""
        return f"{self.op}{by} of {self.taken}, to {self.given}"


def rule_of(op, method: str | None, taken: torch.dtype, given: torch.dtype | None = None) -> Rule:
    """`op`: a name of bitfold's, or one of torch.distributed.ReduceOp's. A method is for what takes one, as everywhere in bitfold.torch."""
    name = op if isinstance(op, str) else OPS_OF.get(getattr(op, "name", None) or str(op).rpartition(".")[2])
    if name not in OPS:
        raise ValueError(f"op: {op!r} is none of bitfold's operations")
    if given is None:
        given = result_dtype(request(name, method), taken)
    rule = Rule(name, method, taken, given)
    rule.check()
    return rule


def bytes_of(x: Tensor) -> Tensor:
    """Its elements as bytes, one behind the other; itself where it has them so."""
    x = x.detach().contiguous()
    return _memory(x.to(torch.uint8) if x.dtype is torch.bool else x)


def _memory(x: Tensor) -> Tensor:
    """The bytes of a contiguous tensor. (Of one element it may have any stride.)"""
    return x.as_strided((x.numel(),), (1,)).view(torch.uint8)


def expect(x: Tensor, argument: str) -> Tensor:
    """A tensor of numbers in the memory of a CPU or of one of CUDA's GPUs."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{argument}: {type(x).__name__}, where a tensor is expected")
    _tensors.expect_elements(x, argument)
    if x.device.type not in ("cpu", "cuda"):
        raise TypeError(f"{argument}: on {x.device}, where bitfold.torch.distributed takes tensors in the memory of a CPU, or of CUDA's GPUs")
    name_of(x.dtype)
    return x.resolve_neg()


# ---- The tree over contributions -----------------------------------------------------------------


def _as_nodes(rule: Rule, nodes: Sequence[Node], cover: Sequence[tuple[int, int]], n: int) -> list[Node]:
    return [rule.fold([x for x in nodes if first <= x.first < first + count], n) for first, count in cover]


class Contributions:
    """Some neighbouring contributions, folded as they come: after k of them there are states of at most 2 log2(k) + 1 nodes. `first`: how many
    there are before them, on ranks before this one (`first_of`).

    >>> gradients = Contributions("mean")
    >>> for i in range(3):
    ...     gradients.add(torch.full((2,), float(i)))
    >>> gradients.result()
    tensor([1., 1.])
    """

    def __init__(self, op="sum", *, method: str | None = None, dtype: torch.dtype | None = None, first: int = 0) -> None:
        self.op, self.method, self.dtype, self.first = op, method, dtype, first
        self.count, self.shape, self.rule, self.device, self.nodes = 0, None, None, None, []
        if operator.index(first) < 0:
            raise ValueError(f"first: {first} contributions before these")

    def add(self, x: Tensor) -> None:
        """The next one. Errors: TypeError, ValueError where it has another type or shape than those before it."""
        x = expect(x, "x")
        if self.rule is None:
            self.rule, self.shape, self.device = rule_of(self.op, self.method, x.dtype, self.dtype), x.shape, x.device
        if x.dtype is not self.rule.taken:
            raise TypeError(f"x: {x.dtype}, where those before it are {self.rule.taken}")
        if x.shape != self.shape:
            raise ValueError(f"x: of shape {tuple(x.shape)}, where those before it have {tuple(self.shape)}")
        if x.device != self.device:
            raise ValueError(f"x: on {x.device}, where those before it are on {self.device}")
        last, n = Node(self.first + self.count, 1, bytes_of(x), True), x.numel()
        joined = [last]
        size = 1
        while self.nodes and self.nodes[-1].count == size and (joined[0].first & size):
            joined.insert(0, self.nodes.pop())
            size *= 2
        self.nodes.append(self._joined(joined, n))
        self.count += 1

    def _joined(self, nodes: list[Node], n: int) -> Node:
        if len(nodes) == 1:
            return nodes[0]._replace(data=nodes[0].data.clone())
        return self.rule.fold(nodes, n)

    def result(self) -> Tensor:
        """Where these are all there are. Errors: ValueError where there are none, or others before them."""
        if not self.nodes:
            raise ValueError("contributions: none")
        out = torch.empty(self.shape, dtype=self.rule.given, device=self.device)
        self.rule.finish(self.nodes, _memory(out))
        return out


def reduce_contributions(contributions: Sequence[Tensor] | Tensor, op="sum", *, method: str | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """What all_reduce gives for these contributions, in one process: tensors of one shape and type, or one tensor that stacks them along its
    first axis. Up to 32 of them it is the operation along that axis."""
    nodes = [expect(x, "contributions") for x in contributions]
    if not nodes:
        raise ValueError("contributions: none")
    _expect_alike(nodes, nodes[0].numel(), nodes[0].device)
    rule = rule_of(op, method, nodes[0].dtype, dtype)
    out = torch.empty(nodes[0].shape, dtype=rule.given, device=nodes[0].device)
    rule.finish([Node(i, 1, bytes_of(x), True) for i, x in enumerate(nodes)], _memory(out))
    return out


def _expect_alike(contributions: Sequence[Tensor], n: int, device: torch.device) -> None:
    for x in contributions:
        if x.device != device:
            raise ValueError(f"contributions: one on {x.device}, where {device} is expected")
        if x.dtype is not contributions[0].dtype:
            raise TypeError(f"contributions: of {x.dtype} and of {contributions[0].dtype}")
        if x.numel() != n:
            raise ValueError(f"contributions: one of {x.numel()} elements, where {n} are expected")


# ---- The collectives -----------------------------------------------------------------------------


class Call:
    """One call of a collective, on this rank: checked, and agreed on. `parts`: how many times as many elements as `out` contributions have, or how many
    are each rank's."""

    def __init__(self, kind: str, group: Group, out: Tensor, op, method: str | None, contributions, dtype: torch.dtype | None = None,
                 parts: int | Sequence[int] = 1, dst: int = 0) -> None:
        self.kind, self.group, self.out, self.parts, self.dst = kind, group, out, parts, dst
        # A list may be another one when its turn comes; a generator makes its own when it is asked.
        self.contributions = [*contributions] if isinstance(contributions, (list, tuple)) else contributions
        self.op, self.method, self.dtype = op, method, dtype

    def describe(self) -> tuple[str, int, int]:
        out = expect(self.out, "tensor")
        if torch._debug_has_internal_overlap(out) == 1:
            raise ValueError("tensor: several of its elements lie at one place")
        if not 0 <= operator.index(self.dst) < self.group.size:
            raise ValueError(f"dst: {self.dst} is none of {self.group.size} ranks")
        self.sizes = [out.numel()] * self.parts if isinstance(self.parts, int) else [*self.parts]
        if (len(self.sizes) > 1 or not isinstance(self.parts, int)) and (len(self.sizes) != self.group.size or self.sizes[self.group.rank] != out.numel()):
            raise ValueError(f"output: of {out.numel()} elements, where the input's parts for {self.group.size} ranks have {self.sizes}")
        self.n, self.device = sum(self.sizes), out.device
        if out.is_cuda and self.group.gpu not in (None, out.device):  # with which the other ranks' GPUs are linked
            raise ValueError(f"tensor: on {out.device}, and calls on this group were on {self.group.gpu}")
        if isinstance(self.contributions, Contributions):
            kept = self.contributions
            taken = kept.rule.taken if kept.rule else self.dtype or out.dtype
            if kept.rule and kept.shape.numel() != self.n:
                raise ValueError(f"contributions: of {kept.shape.numel()} elements, where {self.n} are expected")
            if kept.rule and kept.device != out.device:
                raise ValueError(f"contributions: on {kept.device}, where {out.device} is expected")
            if kept.rule and kept.rule.given is not out.dtype:
                raise TypeError(f"contributions: folded to {kept.rule.given}, where {out.dtype} is expected")
            if kept.rule and (kept.rule.op, kept.rule.method) != rule_of(self.op, self.method, taken, kept.rule.given)[:2]:
                raise ValueError(f"contributions: folded by {kept.rule}, where {self.op} is asked for")
        else:
            given = self.contributions = [expect(x, "contributions") for x in self.contributions]
            _expect_alike(given, self.n, out.device)
            taken = given[0].dtype if given else self.dtype or out.dtype
        self.rule = rule_of(self.op, self.method, taken, out.dtype)
        count, first = (kept.count, kept.first) if isinstance(self.contributions, Contributions) else (len(given), -1)
        where = ", on GPUs" if out.is_cuda else ""
        parts = "" if self.is_even() else f" in parts of {self.sizes}"
        return f"{self.kind} of {self.n} elements{parts}, {self.rule}, to {self.dst}{where}", count, first

    def is_even(self) -> bool:
        return len({*self.sizes}) == 1

    def _nodes(self, first: int) -> list[Node]:
        if isinstance(self.contributions, Contributions):
            return self.contributions.nodes
        return [Node(first + i, 1, _beside(bytes_of(x), self.out), True) for i, x in enumerate(self.contributions)]

    def agree(self) -> None:
        numbers = self.group.agree(self.describe)
        firsts = list(accumulate((c for c, _ in numbers), initial=0))
        for r, (_, planned) in enumerate(numbers):
            if planned not in (-1, firsts[r]) and numbers[r][0]:
                raise Disagreement(f"bitfold: contributions: those of rank {r} begin at {planned}, and {firsts[r]} lie before them")
        if firsts[-1] == 0:
            raise Disagreement("bitfold: contributions: none, on all ranks")
        self.covers = [_core.covering(a, b, firsts[-1]) for a, b in zip(firsts, firsts[1:])]
        nodes = self._nodes(firsts[self.group.rank])
        self.mine = _as_nodes(self.rule, nodes, self.covers[self.group.rank], self.n)
        if self.device.type == "cuda":  # where they may be gone before this stream has read them
            self.group.gpu = self.device
            given = [] if isinstance(self.contributions, Contributions) else self.contributions
            for data in (self.out, *given, *(node.data for node in (*nodes, *self.mine))):
                data.record_stream(torch.cuda.current_stream(self.device))

    def go_over_links(self, out: Tensor, scatter: bool = False) -> bool:
        """Where each rank has one contribution, and the GPUs see one another's memory: to `out`, bytes of results. Whether it was done."""
        rule, n = self.rule, out.numel() // self.rule.given.itemsize
        size = n * rule.taken.itemsize
        if self.device.type == "cpu" or self.group.size == 1 or any(cover != [(r, 1)] for r, cover in enumerate(self.covers)):
            return False
        if size == 0 or (scatter and (size % 16 or not self.is_even())) or not rule.goes_over_links():
            return False
        links = self.group.links(self.device)
        if links is None:
            return False
        x, to = (t if t.data_ptr() % 16 == 0 else t.clone() for t in (self.mine[0].data, out))
        links.reduce(rule.request(), name_of(rule.taken), x, n, to, scatter, TENSORS)
        if to is not out:
            out.copy_(to)
        return True

    def reduce(self, bounds: Sequence[tuple[int, int]], out: Tensor, first: int = 0, gather: bool = False) -> None:
        """To `out`, bytes of results from that of element `first` on, those of the elements that this rank has of `bounds`; `gather`: and from
        the others theirs."""
        if self.device.type == "cpu" and self.group.host:
            self._reduce_in_the_host(self.group.host, bounds, out, first, gather)
        else:
            self._reduce_by_messages(bounds, out, first, gather)

    def _reduce_in_the_host(self, host: Host, bounds: Sequence[tuple[int, int]], out: Tensor, first: int, gather: bool) -> None:
        """Piece by piece: each rank writes to the others what they fold. When a piece is folded, and the next one written, all meet."""
        group, rule, rank = self.group, self.rule, self.group.rank
        sizes = [[rule.bytes_of(count == 1) for _, count in cover] for cover in self.covers]
        most_nodes = sum(map(len, sizes))
        together = max(sum(map(sum, sizes[:r] + sizes[r + 1 :])) for r in range(group.size))  # bytes of an element's nodes that come
        room = host.room(rank, 0).numel() - 64 * most_nodes
        of_results = host.results(rank, 0).numel()
        piece = max(1, min(_PIECE["cpu"] // max(rule.state_bytes(), rule.taken.itemsize), room // max(together, 1), of_results // rule.given.itemsize))
        steps, size = -(-max(end - begin for begin, end in bounds) // piece), rule.given.itemsize
        results_of = lambda begin, end: out[(begin - first) * size : (end - first) * size]
        part = [[(min(begin + k * piece, end), min((k + 1) * piece + begin, end)) for begin, end in bounds] for k in range(steps)]

        def rooms(of: int, which: int, n: int) -> list[list[Tensor]]:
            """For n elements of each node of the other ranks."""
            at, room, found = 0, host.room(of, which), []
            for r, of_rank in enumerate(sizes):
                found.append([])
                for s in of_rank if r != of else ():
                    found[-1].append(room[at : at + n * s])
                    at += _rounded_up(piece * s, 64)
            return found

        def write(k: int) -> None:
            for r, (begin, end) in enumerate(part[k]):
                if r != rank and begin < end:
                    for node, to in zip(self.mine, rooms(r, k % 2, end - begin)[rank]):
                        to.copy_(node.slice(rule, begin, end))

        if steps:
            write(0)
            group.meet()
        for k in range(steps):
            begin, end = part[k][rank]
            if begin < end:
                theirs = [
                    [node._replace(data=node.slice(rule, begin, end)) for node in self.mine]
                    if r == rank
                    else [Node(*node, data, node[1] == 1) for node, data in zip(cover, of_rank)]
                    for r, (cover, of_rank) in enumerate(zip(self.covers, rooms(rank, k % 2, end - begin)))
                ]
                rule.finish([node for of_rank in theirs for node in of_rank], results_of(begin, end))
                if gather:
                    host.results(rank, k % 2)[: (end - begin) * size].copy_(results_of(begin, end))
            if k + 1 < steps:
                write(k + 1)
            if gather or k + 1 < steps:
                group.meet()
            for r, (begin, end) in enumerate(part[k]) if gather else ():
                if r != rank and begin < end:
                    results_of(begin, end).copy_(host.results(r, k % 2)[: (end - begin) * size])

    def _reduce_by_messages(self, bounds: Sequence[tuple[int, int]], out: Tensor, first: int, gather: bool) -> None:
        """Piece by piece: while one is folded the next one comes."""
        self.group.greet(self.device)
        group, rule, rank = self.group, self.rule, self.group.rank
        most = max(end - begin for begin, end in bounds)
        piece = _TOGETHER * max(1, _PIECE[self.device.type] // _TOGETHER // max(rule.state_bytes(), rule.taken.itemsize))
        steps, size = -(-most // piece), rule.given.itemsize
        results_of = lambda begin, end: out[(begin - first) * size : (end - first) * size]
        part = [[(min(begin + k * piece, end), min((k + 1) * piece + begin, end)) for begin, end in bounds] for k in range(steps)]
        rooms = [self._rooms(which, min(piece, most)) for which in range(min(steps, 2))]

        def begin_at(k: int) -> list[dist.Work | Copied]:
            here = part[k][rank][1] - part[k][rank][0]
            send = [[node.slice(rule, *part[k][r]) for node in self.mine] for r in range(group.size)]
            return group.begin(send, [[node.slice(rule, 0, here) for node in nodes] for nodes in rooms[k % 2]])

        contributions, results = begin_at(0) if steps else [], []
        for k in range(steps):
            following = begin_at(k + 1) if k + 1 < steps else []
            group.end(contributions)
            begin, end = part[k][rank]
            if begin < end:
                nodes = [*rooms[k % 2]]
                nodes[rank] = [node._replace(data=node.slice(rule, begin, end)) for node in self.mine]
                rule.finish([node for of_rank in nodes for node in of_rank], results_of(begin, end))
            if gather:
                pieces = [[results_of(*bounds_of)] for bounds_of in part[k]]
                results += group.begin([pieces[rank]] * group.size, pieces)
                if self.device.type == "cuda" and not group.has_nccl:  # copies on the CPU, of no more than a piece
                    group.end(results)
                    results = []
            contributions = following
        group.end(results)

    def _rooms(self, which: int, n: int) -> list[list[Node]]:
        """For n elements of the nodes of all other ranks."""
        rule, rank = self.rule, self.group.rank
        sizes = [_rounded_up(n * rule.bytes_of(count == 1), 16) for r, cover in enumerate(self.covers) if r != rank for _, count in cover]
        rooms = iter(self.group.room(which, sum(sizes), self.device).split(sizes))
        return [[Node(*node, next(rooms), node[1] == 1) for node in cover] if r != rank else [] for r, cover in enumerate(self.covers)]

    def even_bounds(self) -> list[tuple[int, int]]:
        """Every rank folds a part of the elements; of few each folds all."""
        if self.n * self.rule.state_bytes() <= _SMALL[self.device.type]:
            return [(0, self.n)] * self.group.size
        each = _rounded_up(-(-self.n // self.group.size), _TOGETHER)
        return [(min(r * each, self.n), min((r + 1) * each, self.n)) for r in range(self.group.size)]


def _rounded_up(n: int, to: int) -> int:
    return -(-n // to) * to


def _written(out: Tensor, results: Tensor) -> None:
    if results.data_ptr() != out.data_ptr():
        out.detach().copy_(results.view(out.dtype).view(out.shape))
    elif not out.is_inference():
        torch.autograd.graph.increment_version(out)


def _is_apart(x: Tensor, out: Tensor) -> bool:
    """Whether no element of `x`, a contiguous tensor, lies in the memory that `out` is a part of."""
    of_out = out.untyped_storage()
    begin, end = x.data_ptr(), x.data_ptr() + x.nbytes
    return end <= of_out.data_ptr() or of_out.data_ptr() + of_out.nbytes() <= begin


def _beside(mine: Tensor, out: Tensor) -> Tensor:
    """What may be read while results are written to `out`: that very memory too, but a copy where the two overlap otherwise."""
    same = mine.data_ptr() == out.data_ptr() and mine.nbytes == out.nbytes and out.is_contiguous()
    return mine if same or _is_apart(mine, out) else mine.clone()


def _room(out: Tensor) -> Tensor:
    """Where results go: the memory of `out`, if they lie there in a row."""
    return _memory(out.detach() if out.is_contiguous() and not out.is_neg() else torch.empty(out.shape, dtype=out.dtype, device=out.device))


class _Quick(NamedTuple):
    """What is known of a call over links, of plain tensors, when it was done once: an all_reduce, a reduce_scatter_tensor, or one that a hook makes."""

    header: bytes
    rule: Rule
    links: _core.LinkedRanks
    is_scatter: bool


def _key(call: Call, x: Tensor) -> tuple:
    op, parts, out = call.op, call.parts, call.out
    return (call.kind, op if isinstance(op, str) else str(op), str(call.method), parts if isinstance(parts, int) else tuple(parts),
            x.dtype, x.numel(), x.device, out.dtype, out.numel(), out.device)  # fmt: skip


def _is_plain(tensor: Tensor) -> bool:
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.requires_grad or not tensor.is_contiguous() or tensor.data_ptr() % 16:
        return False
    hidden = tensor.is_neg() or tensor.is_inference() or torch._C._len_torch_dispatch_stack() or forward_ad._current_level >= 0
    return not hidden and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _only_contribution(call: Call) -> Tensor | None:
    """Of this rank, a plain tensor, where results go to another one or to that very one."""
    given, out = call.contributions, call.out
    if not isinstance(given, list) or len(given) != 1 or call.dtype is not None or not _is_plain(out):
        return None
    x = given[0]
    return x if x is out or (_is_plain(x) and _is_apart(x, out)) else None


def _again(call: Call) -> bool:
    """Of a call whose turn it is, as _all_reduce or _reduce_scatter does it, where that is known; whether it was done."""
    by, out, x = call.group, call.out, _only_contribution(call) if call.group.quick else None
    known = by.quick.get(_key(call, x)) if x is not None else None
    if known is None or not by.agree_on(known.header, out.device):
        return False
    known.links.reduce(known.rule.request(), name_of(x.dtype), x, out.numel(), out, known.is_scatter, TENSORS)
    torch.autograd.graph.increment_version(out)
    return True


def quickly(call: Call) -> bool:
    """On the current stream, of a call that is not asynchronous, where none is under way: whether it was done as one that was made before."""
    by = call.group
    if not by.quick or not by.is_idle() or by.is_amid_another():
        return False
    with by.lock:
        return by.to_its_end(_again, call)


def _again_elsewhere(call: Call) -> bool:
    """_again, on a stream that the tensors were not made on."""
    if not _again(call):
        return False
    for x in {call.out, *call.contributions}:
        x.record_stream(torch.cuda.current_stream(x.device))
    return True


def _remember(call: Call, is_scatter: bool = False) -> None:
    x, quick = _only_contribution(call), call.group.quick
    if x is not None and torch.bool not in (x.dtype, call.out.dtype) and len(quick) < _MOST_KNOWN:
        header = call.group.header(*call.describe())
        quick[_key(call, x)] = _Quick(header, call.rule, call.group.links(call.device), is_scatter)


def _all_reduce(call: Call) -> None:
    if _again_elsewhere(call):
        return
    # The only contribution of a rank may lie where results go: no result of an element comes before it was sent and read.
    call.agree()
    bounds, room = call.even_bounds(), _room(call.out)
    if call.go_over_links(room):
        _remember(call)
    else:
        call.reduce(bounds, room, gather=bounds[-1] != (0, call.n))
    _written(call.out, room)


def _reduce(call: Call) -> None:
    call.agree()
    here = call.group.rank == call.dst
    room = _room(call.out) if here else torch.empty(0, dtype=torch.uint8, device=call.device)
    call.reduce([(0, call.n if r == call.dst else 0) for r in range(call.group.size)], room)
    if here:
        _written(call.out, room)


def _reduce_scatter(call: Call) -> None:
    if _again_elsewhere(call):
        return
    call.agree()
    ends, room = [0, *accumulate(call.sizes)], _room(call.out)
    if call.go_over_links(room, scatter=True):
        _remember(call, is_scatter=True)
    else:
        call.reduce([*zip(ends, ends[1:])], room, ends[call.group.rank])
    _written(call.out, room)


class Work:
    """A collective under way; calls on a group run in the order in which they were made. After `wait` what is enqueued on the current stream of a
    GPU comes behind it."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def wait(self) -> bool:
        self._job.result()
        return True

    def is_completed(self) -> bool:
        return self._job.done()


def _made(async_op: bool, make, call: Call) -> Work | None:
    device = call.out.device if isinstance(call.out, Tensor) else None
    if async_op:
        return Work(call.group.start(lambda: make(call), device))
    if not quickly(call):
        call.group.run(lambda: make(call), device)
    return None


def first_of(count: int, group: dist.ProcessGroup | None = None) -> int:
    """How many contributions the ranks before this one have, where it has `count`."""
    def describe() -> tuple[str, int, int]:
        if operator.index(count) < 0:
            raise ValueError(f"count: {count} contributions")
        return "first_of", count, 0

    by = group_of(group)
    counts = by.run(lambda: by.agree(describe))
    return sum(c for c, _ in counts[: by.rank])


def all_reduce(tensor: Tensor, op="sum", group: dist.ProcessGroup | None = None, *, method: str | None = None,
               contributions: Sequence[Tensor] | Contributions | None = None, dtype: torch.dtype | None = None, async_op: bool = False) -> Work | None:
    """To `tensor`, on every rank, what reduce_contributions gives for all ranks' contributions: those of rank 0 come first.

    `contributions`: what this rank has of them, tensors of as many elements; none: `tensor` itself is its only one. A rank may have none,
    of `dtype` (default: that of `tensor`). The bits are the same for any number of ranks and whichever rank has which.

    Errors: Disagreement on every rank where calls differ, or where one rank refuses its arguments (which has its own error); those of the
    engine, its timeout among them.
    """  # fmt: skip
    by = group_of(group)
    call = Call("all_reduce", by, tensor, op, method, [tensor] if contributions is None else contributions, dtype)
    return _made(async_op, _all_reduce, call)


def reduce(tensor: Tensor, dst: int = 0, op="sum", group: dist.ProcessGroup | None = None, *, method: str | None = None,
           contributions: Sequence[Tensor] | Contributions | None = None, dtype: torch.dtype | None = None, async_op: bool = False) -> Work | None:
    """all_reduce, on rank `dst` of the group alone. On others `tensor` stays as it is."""  # fmt: skip
    by = group_of(group)
    call = Call("reduce", by, tensor, op, method, [tensor] if contributions is None else contributions, dtype, dst=dst)
    return _made(async_op, _reduce, call)


def reduce_scatter_tensor(output: Tensor, input: Tensor | None = None, op="sum", group: dist.ProcessGroup | None = None, *, method: str | None = None,
                          contributions: Sequence[Tensor] | Contributions | None = None, dtype: torch.dtype | None = None,
                          async_op: bool = False) -> Work | None:
    """To `output` its part of what all_reduce would give: of `input`, or each of `contributions`, there is a part for each rank, one behind
    the other."""  # fmt: skip
    by = group_of(group)
    call = Call("reduce_scatter_tensor", by, output, op, method, [input] if contributions is None else contributions, dtype, parts=by.size)
    return _made(async_op, _reduce_scatter, call)
