"""The transformer of train_transformer.py, trained on several numbers of ranks: the bits of one process in every loss and weight.

    python examples/python/train_over_ranks.py [--device cpu|cuda] [--ranks 1,2,3,4] [--steps 100] [--out result.json]

A step has 12 contributions (micro-batches). One process makes them all and folds their gradients, by the definition. Then ranks make them, by
DistributedDataParallel and by FSDP2, in equal shares and in unequal ones. Half-way the most ranks stop, and fewer resume from their checkpoint.
Beside it stands what torch alone does on as many ranks, against torch alone in one process. On CPUs ranks meet by gloo; on GPUs, one for each, by
NCCL. Of more ranks than there are GPUs several share one, and meet by gloo. The exit status is 1 where a bit of bitfold's differs, and 2 where
something failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from multiprocessing import forkserver
from pathlib import Path

import bitfold.torch.distributed as over_ranks
import torch
import torch._dynamo  # which optimizers import, in each process
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing as processes
from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from train_transformer import ELEMENTWISE, Model, corpus, same, windows

import bitfold

SAMPLES = 4  # of a contribution


@dataclasses.dataclass(frozen=True)
class Run:
    """Steps of a training with bitfold or by torch alone; in one process without a group, or over ranks that have so many contributions each."""

    device: str
    on: bool
    way: str
    shares: tuple[int, ...]
    steps: range
    load: str = ""
    save: str = ""

    def name(self) -> str:
        size, several = len(self.shares), f" in shares of {' '.join(map(str, self.shares))}"
        return f"{size} rank{'s' * (size > 1)}, {self.way}" + several * (len(set(self.shares)) > 1)


# ---- One process, and what it does in a group of others -------------------------------------------


def over(run: Run, model: torch.nn.Module, mine: int) -> torch.nn.Module:
    """The model as ranks train it."""
    if run.way == "DDP":
        model = DistributedDataParallel(model)
        if run.on:
            model.register_comm_hook(over_ranks.Accumulation(mine), over_ranks.hook)
    elif run.way == "FSDP2":
        mesh = init_device_mesh(run.device, (len(run.shares),))
        for part in (*model.blocks, model):
            fully_shard(part, mesh=mesh)
        if run.on:
            over_ranks.shard_gradients(model, over_ranks.Accumulation(mine))
    return model


def backward(run: Run, model: torch.nn.Module, losses: list[Tensor], last: bool) -> None:
    """Of the latest loss. What a step has in the end are the gradients of the mean."""
    if run.on and run.way:
        losses[-1].backward()
    elif run.on and last:  # the definition
        parameters = list(model.parameters())
        for p, *of_each in zip(parameters, *(torch.autograd.grad(loss, parameters) for loss in losses)):
            p.grad = over_ranks.reduce_contributions(of_each, "mean") + 0.0  # over ranks -0 becomes +0
    elif not run.on:
        if run.way == "FSDP2":
            model.set_requires_gradient_sync(last)
        with model.no_sync() if run.way == "DDP" and not last else nullcontext():
            (losses[-1] * (len(run.shares) / sum(run.shares))).backward()  # ranks divide by their number


def mean(run: Run, losses: list[Tensor]) -> Tensor:
    if run.on and not run.way:
        return over_ranks.reduce_contributions(losses, "mean")
    out = sum(losses) / sum(run.shares)
    if run.on:
        over_ranks.all_reduce(out, "mean", contributions=losses)
    elif run.way:
        dist.all_reduce(out)
    return out


def train(run: Run, rank: int = 0) -> dict:
    """The losses, the weights, and how long a step takes among the later half."""
    torch.manual_seed(0)
    here, text = torch.device(run.device, torch.cuda.current_device() if run.device == "cuda" else None), corpus()
    first, mine = sum(run.shares[:rank]), run.shares[rank]
    model = over(run, Model().to(here), mine)
    parameters, losses, later, begin = list(model.parameters()), [], run.steps[len(run.steps) // 2 :], 0.0
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, foreach=False)  # the same kernels for shards and for the whole
    clip = (torch.nn.utils if not run.on else over_ranks if run.way == "FSDP2" else bitfold.torch).clip_grad_norm_  # of shards, or of the whole
    if run.load:
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
        checkpoint.load(state, checkpoint_id=run.load)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for step in run.steps:
        if step == later[0]:
            begin = finished(run)
        optimizer.zero_grad()
        of_each = []
        for k in range(first, first + mine):
            batch = windows(text, SAMPLES, torch.Generator().manual_seed(step * sum(run.shares) + k)).to(here)
            of_each.append(F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()))
            backward(run, model, of_each, k == first + mine - 1)
        clip(parameters, 1.0)
        optimizer.step()
        losses.append(mean(run, [loss.detach() for loss in of_each]))
    ms = 1000 * (finished(run) - begin) / len(later)
    if run.save:
        checkpoint.save(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer))), checkpoint_id=run.save)
    return {"losses": [loss.cpu() for loss in losses], "weights": [whole(run, p.detach()).cpu() for p in parameters], "ms": round(ms, 2)}


def whole(run: Run, parameter: Tensor) -> Tensor:
    """Of which FSDP2 gives each rank some rows. (By DTensor.full_tensor PyTorch 2.11 crashes over gloo on a GPU.)"""
    if run.way != "FSDP2":
        return parameter
    rows = [torch.empty(0)] * len(run.shares)
    dist.all_gather_object(rows, parameter.to_local().cpu())
    return torch.cat(rows)


def finished(run: Run) -> float:
    """When the device has done what it was asked for."""
    if run.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def allowed(device: str) -> tuple[str, ...]:
    return ELEMENTWISE if device == "cpu" else ()


def under_mode(run: Run, rank: int = 0) -> dict:
    with bitfold.torch.deterministic(strict=True, allow=allowed(run.device)) if run.on else nullcontext():
        return train(run, rank)


def of_rank(rank: int, runs: list[Run], folder: str) -> None:
    """What the process of a rank does. Its results go to a file."""
    try:
        torch.set_num_threads(1)
        backend, size, wait = "gloo", len(runs[0].shares), datetime.timedelta(minutes=5)
        if runs[0].device == "cuda":
            torch.cuda.set_device(rank % torch.cuda.device_count())
            backend = "cpu:gloo,cuda:nccl" if size <= torch.cuda.device_count() else "cpu:gloo,cuda:gloo"
        dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=wait)
        torch.save([under_mode(run, rank) for run in runs], f"{folder}/{rank}.pt")
        dist.all_reduce(torch.zeros(1))  # by way of CPUs: on no GPU is anything under way when a process ends
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # not by way of the engines' threads, which may wait for ranks that are no more
    os._exit(0)


# ---- All runs --------------------------------------------------------------------------------------


def on_ranks(runs: list[Run]) -> dict[Run, list[dict]]:
    """What each rank has of each run. Where one fails the others are ended."""
    size = len(runs[0].shares)
    with tempfile.TemporaryDirectory() as folder:
        processes.start_processes(of_rank, (runs, folder), nprocs=size, start_method="forkserver")
        return dict(zip(runs, zip(*(torch.load(f"{folder}/{rank}.pt") for rank in range(size)))))


def compared(run: Run, found: dict[Run, list[dict]], one: dict) -> dict:
    """In how many losses and weights some rank has other bits than one process; of a run that resumed another, from the other's first step on."""
    parts = [*(r for r in found if r.save and r.save == run.load), run]
    losses = [of_ranks for part in parts for of_ranks in zip(*(r["losses"] for r in found[part]))]
    weights = list(zip(*(r["weights"] for r in found[run])))
    assert (len(losses), len(weights)) == (len(one["losses"]), len(one["weights"]))

    def differ(several: list[tuple[Tensor, ...]], wanted: list[Tensor]) -> int:
        return sum(not all(same(x, right) for x in of_ranks) for of_ranks, right in zip(several, wanted))

    counts = {"losses": len(losses), "losses_that_differ": differ(losses, one["losses"])}
    counts |= {"weights": len(weights), "weights_that_differ": differ(weights, one["weights"])}
    return {"run": ", then ".join(part.name() for part in parts), **counts, "ms_per_step": found[run][0]["ms"]}


def measure(device: str, numbers: list[int], steps: int, contributions: int, folder: str) -> Iterator[dict]:
    def runs_on(size: int, steps: range, which: tuple[bool, ...] = (True,), **how: str) -> list[Run]:
        shares = tuple(contributions * (r + 1) // size - contributions * r // size for r in range(size))
        ways = ("DDP", "FSDP2") if len(set(shares)) == 1 else ("DDP",)  # FSDP2 wants equal shares
        return [Run(device, on, way, shares, steps, **how) for way in ways for on in which]

    most, before, after = max(numbers), range(steps // 2), range(steps // 2, steps)
    fewer = max((n for n in numbers if 2 * n <= most), default=min(numbers))
    one = {on: under_mode(Run(device, on, "", (contributions,), range(steps))) for on in (True, False)}
    ends = [one[True]["losses"][k].item() for k in (0, -1)]
    yield {"run": "one process", "first_loss": ends[0], "last_loss": ends[1], "ms_per_step": one[True]["ms"], "alone": one[False]["ms"]}
    found: dict[Run, list[dict]] = {}
    for size in numbers:
        runs = runs_on(size, range(steps), (True, False))
        if device == "cuda" and torch.cuda.device_count() < size:
            runs = [r for r in runs if r.on or r.way == "DDP"]  # torch's own sums of shards want NCCL there
        if size == most:
            runs += [dataclasses.replace(r, save=f"{folder}/{r.way}") for r in runs_on(size, before)]
            runs += [Run(device, True, "DDP", (*(2,) * (size - 1), contributions - 2 * (size - 1)), range(steps))]
        runs = list(dict.fromkeys(runs))  # those shares may be the equal ones
        found |= on_ranks(runs)
        for run in runs:
            if run.on and not run.save:
                alone = dataclasses.replace(run, on=False)
                yield {**compared(run, found, one[True]), "alone": compared(alone, found, one[False]) if alone in found else None}
    runs = [resumed for r in found if r.save for resumed in runs_on(fewer, after, load=r.save)]
    found |= on_ranks(runs)
    for run in runs:
        yield {**compared(run, found, one[True]), "alone": None}


def shown(r: dict) -> str:
    if "first_loss" in r:
        return "{run}: loss {first_loss:.4f} to {last_loss:.4f}, {ms_per_step} ms a step; torch alone: {alone} ms".format(**r)
    alone = "; torch alone: {losses_that_differ} losses, {weights_that_differ} weights, {ms_per_step} ms".format(**r["alone"]) if r["alone"] else ""
    return "{run}: {losses_that_differ} of {losses} losses differ, {weights_that_differ} of {weights} weights, {ms_per_step} ms a step".format(**r) + alone


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ranks", default="1,2,3,4", help="numbers of ranks (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--contributions", type=int, default=12, help="of a step, two for each rank at least (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="the results as JSON")
    options = parser.parse_args(arguments)
    numbers = [int(n) if n.isdecimal() else 0 for n in options.ranks.split(",")]
    if min(numbers) < 1 or len(set(numbers)) < len(numbers):
        parser.error(f"argument --ranks: {options.ranks}, where different numbers are wanted, such as 1,2,4")
    if options.contributions < 2 * max(numbers):
        parser.error(f"argument --contributions: {options.contributions}, where {max(numbers)} ranks want two each at least")
    if options.steps < 2:
        parser.error(f"argument --steps: {options.steps}, where two at least are wanted, to stop between them")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("argument --device: there is no GPU here that torch sees")

    head = {"torch": torch.__version__, "bitfold": bitfold.__version__, "machine": platform.processor() or platform.machine()}
    if options.device == "cuda":
        head |= {"gpus": torch.cuda.device_count(), "gpu": torch.cuda.get_device_name(), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    head["allow"] = " ".join(allowed(options.device)) or "nothing"
    print(", ".join(f"{name} {value}" for name, value in head.items()), flush=True)
    torch.set_num_threads(1)
    forkserver.set_forkserver_preload(["torch._dynamo", "torch.distributed.checkpoint", "torch.distributed.fsdp", "bitfold.torch.distributed"])
    forkserver.ensure_running()  # it imports while one process trains
    results = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for r in measure(options.device, numbers, options.steps, options.contributions, folder):
                results.append(r)
                print(shown(r), flush=True)
        except processes.ProcessExitedException as e:
            print(f"train_over_ranks: rank {e.error_index} failed ({e}), and the others were ended", file=sys.stderr)
            return 2
    if options.out:
        options.out.write_text(json.dumps({**head, "contributions": options.contributions, "results": results}, indent=1) + "\n")
    return int(any(r["losses_that_differ"] or r["weights_that_differ"] for r in results[1:]))


if __name__ == "__main__":
    sys.exit(main())
