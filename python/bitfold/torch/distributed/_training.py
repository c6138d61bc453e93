"""Gradients over ranks, micro-batch by micro-batch: a hook for DistributedDataParallel, and one for FSDP2 (docs/distributed.md)."""

# (DistributedDataParallel looks at the annotations of a hook, which are no strings therefore.)
import gc
import operator

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ._contributions import Call, Contributions, Node, _all_reduce, _reduce_scatter, quickly
from ._group import Group, group_of, text_of


class Accumulation:
    """What `hook` keeps of a rank's micro-batches until the last one of a step: `contributions` of them, each a backward pass. Made by all ranks
    of the group at once. The gradient is `op` over the micro-batches of all ranks, those of rank 0 first.

    Errors: ValueError for no contributions, and on every rank where some have one and others more; Disagreement where another rank has an error.
    """

    def __init__(self, contributions: int = 1, group: dist.ProcessGroup | None = None, *, op="mean", method: str | None = None) -> None:
        def describe() -> tuple[str, int, int]:
            if contributions < 1:
                raise ValueError(f"contributions: {contributions}, where each rank has one at least")
            return "Accumulation", operator.index(contributions), 0

        self.contributions, self.op, self.method = contributions, op, method
        self.by: Group = group_of(group)
        self.counts = [count for count, _ in self.by.run(lambda: self.by.agree(describe))]
        if min(self.counts) == 1 < max(self.counts):
            # Else they wait for ever: DistributedDataParallel's first two forward passes are of all ranks, and the one's backward is of all contributions.
            raise ValueError(f"contributions: ranks have {self.counts}, where all have one, or each has two at least")
        self.first = sum(self.counts[: self.by.rank])
        self._kept: dict[int, Contributions] = {}
        self._looked_at, self._in_this_pass, self._passes = set(), set(), {}

    def clear(self) -> None:
        """Forgets what was kept, of a step that is not ended."""
        self._kept.clear()
        self._in_this_pass.clear()
        self._passes.clear()

    def look_at_the_model_of(self, parameter: Tensor) -> None:
        """Once for a model. Errors: ValueError for a DistributedDataParallel that leaves out gradients of what the last pass does not use."""
        if id(parameter) in self._looked_at:
            return
        self._looked_at.add(id(parameter))
        for module in gc.get_objects():
            if issubclass(type(module), DistributedDataParallel) and any(p is parameter for p in module.parameters()):
                if module.find_unused_parameters:
                    raise ValueError("find_unused_parameters: with several contributions a rank DistributedDataParallel drops gradients")
                self._looked_at.update(map(id, module.parameters()))

    def _end_pass(self) -> None:
        """Errors: RuntimeError where it has not the gradients that a pass before it in the step had with one of its own."""
        these = frozenset(self._in_this_pass)
        self._in_this_pass.clear()
        others = next((before for key in these if (before := self._passes.setdefault(key, these)) != these), these)
        for key in these - self._kept.keys():  # which were taken
            del self._passes[key]
        if others != these:
            self.clear()
            raise RuntimeError(f"bitfold: a pass has {len(these)} gradients, and one before it in the step {len(others)}: each uses all parameters")

    def keep(self, key: int, gradient: Tensor) -> bool:
        """Whether that was the last one of the step."""
        if not self._in_this_pass:
            torch.autograd.Variable._execution_engine.queue_callback(self._end_pass)
        self._in_this_pass.add(key)
        kept = self._kept.setdefault(key, Contributions(self.op, method=self.method, first=self.first))
        kept.add(gradient)
        return kept.count == self.contributions

    def taken(self, *keys: int) -> Contributions:
        """What was kept of these, one behind the other; it is kept no longer."""
        all_of_them = [self._kept.pop(key) for key in keys]
        if len(all_of_them) == 1:
            return all_of_them[0]
        whole = Contributions(self.op, method=self.method, first=self.first)
        whole.rule, whole.count, whole.device = all_of_them[0].rule, all_of_them[0].count, all_of_them[0].device
        whole.shape = torch.Size([sum(c.shape.numel() for c in all_of_them)])
        for of_each in zip(*(c.nodes for c in all_of_them)):
            whole.nodes.append(Node(of_each[0].first, of_each[0].count, torch.cat([node.data for node in of_each]), of_each[0].is_elements))
        return whole


def _reduced(by: Group, out: Tensor, op, method: str | None, contributions) -> Tensor:
    _all_reduce(Call("gradients", by, out, op, method, contributions))
    return _without_minus_zeros(out)


def _without_minus_zeros(gradient: Tensor) -> Tensor:
    """In place. A rank's first gradient of a step may be -0; to later ones autograd adds the zeros that are there, which makes them +0. So whether all
    are -0 depends on how many a rank has, and must not show."""
    return gradient.add_(0.0)


def hook(state: Accumulation | dist.ProcessGroup | None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """For DistributedDataParallel.register_comm_hook. `state`: an Accumulation; or a group (None: that of all ranks), where each backward pass is the
    only micro-batch of its rank. With an Accumulation, gradients are 0 until the last micro-batch of a step."""
    out = bucket.buffer()
    future = torch.futures.Future(devices=[out.device] if out.is_cuda else None)
    if isinstance(state, Accumulation) and state.contributions == 1:
        by, op, method, contributions = state.by, state.op, state.method, [out]
    elif isinstance(state, Accumulation):
        by, op, method = state.by, state.op, state.method
        state.look_at_the_model_of(bucket.parameters()[0])
        keys = [id(p) for p in bucket.parameters()]
        if not all([state.keep(key, g) for key, g in zip(keys, bucket.gradients())]):
            future.set_result(out.zero_())
            return future
        contributions = state.taken(*keys)
    else:
        by, op, method, contributions = group_of(state), "mean", None, [out]

    def call() -> None:  # on its own stream, which whoever waits for the future waits for
        try:
            future.set_result(_reduced(by, out, op, method, contributions))
        except BaseException as e:
            future.set_exception(e if isinstance(e, Exception) else RuntimeError(text_of(e)))
            raise

    by.start(call, out.device)
    return future


class _ReduceScatter:
    """FSDP2's reduce-scatter of the parameters of one module."""

    def __init__(self, state: Accumulation) -> None:
        self.state = state

    def allocate(self, size, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op, async_op: bool = False) -> None:
        state = self.state
        if state.contributions == 1:
            contributions = [input_tensor]
        elif not state.keep(id(self), input_tensor):
            output_tensor.zero_()
            return
        else:
            contributions = state.taken(id(self))
        call = Call("gradients of shards", state.by, output_tensor, state.op, state.method, contributions, parts=state.by.size)
        if not quickly(call):
            state.by.run(lambda: _reduce_scatter(call), output_tensor.device)
        _without_minus_zeros(output_tensor)

    def on_one_rank(self, gradient: Tensor) -> None:
        """Where FSDP2 scatters nothing."""
        if self.state.keep(id(self), gradient):
            _without_minus_zeros(gradient.copy_(self.state.taken(id(self)).result()))
        else:
            gradient.zero_()


def shard_gradients(model: torch.nn.Module, state: Accumulation) -> None:
    """Puts the gradients of all parts of a model that `fully_shard` was called on in the order of contributions; of one mesh axis, whose ranks are
    those of the Accumulation's group. FSDP2 divides by nothing then: what `state.op` gives is the gradient. Gradients are 0 until the last
    micro-batch of a step; each is reduced (no set_requires_gradient_sync(False)).

    Errors: ValueError where ranks have different numbers of micro-batches, as each pass gathers parameters."""
    from torch.distributed.fsdp import FSDPModule

    if len(set(state.counts)) > 1:
        raise ValueError(f"state: ranks have {state.counts} contributions, and FSDP2 wants as many of each")
    for module in model.modules():
        if isinstance(module, FSDPModule):
            scatter = _ReduceScatter(state)
            module.set_gradient_divide_factor(1.0)
            module.set_custom_reduce_scatter(scatter)
            if state.by.size == 1:
                module.set_all_reduce_hook(scatter.on_one_rank)
