"""A small transformer language model, trained on this repository's documents, with and without bitfold.torch.deterministic().

    python examples/python/train_transformer.py [--steps 300] [--device cpu,cuda] [--text FILE] [--out result.json]

It reads the documents of the checkout that it is in, or the text that is named. For every device it says, without the mode and with it,
- whether two trainings, and one by another number of threads, have the same bits in every loss and in every weight,
- a digest of these bits, to compare with another machine's,
- of how many samples the outputs change with the size of the batch.

The mode is strict: nothing runs whose bits may depend on the batch, on threads or on timing, but for the gelu that is allowed on CPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import platform
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import bitfold.torch

#: What strict is to let through on CPUs: functions of an element, which torch may round there by its place.
ELEMENTWISE = ("gelu", "gelu_backward")
CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 64, 4, 2, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.before_attention(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.tokens(text) + self.places.weight)))


def corpus(pages: list[Path] | None = None) -> Tensor:
    """The bytes of `pages`; by default of this checkout's documents."""
    if pages is None:
        root = Path(__file__).parents[2]
        pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return torch.frombuffer(bytearray(b"".join(p.read_bytes() for p in pages)), dtype=torch.uint8).long()


def windows(text: Tensor, count: int, generator: torch.Generator) -> Tensor:
    at = torch.randint(len(text) - CONTEXT, (count, 1), generator=generator)
    return text[at + torch.arange(CONTEXT + 1)]


def train(text: Tensor, steps: int, device: str) -> tuple[Model, list[Tensor], float]:
    """The model, the losses, and seconds for each step."""
    torch.manual_seed(0)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    losses = []
    begin = time.perf_counter()
    for _ in range(steps):
        batch = windows(text, BATCH, generator).to(device)
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        bitfold.torch.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    losses = [loss.cpu() for loss in losses]
    return model, losses, (time.perf_counter() - begin) / steps


def same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.detach().cpu().view(torch.int32), b.detach().cpu().view(torch.int32))


def digest(tensors: list[Tensor]) -> str:
    return hashlib.sha256(b"".join(t.detach().cpu().numpy().tobytes() for t in tensors)).hexdigest()[:16]


def changed_by_batch(model: Model, samples: Tensor) -> int:
    """Samples whose outputs have other bits alone, in twos or in fives than among all."""
    with torch.no_grad():
        together = model(samples)
        changed = set()
        for size in (1, 2, 5):
            apart = torch.cat([model(part) for part in samples.split(size)])
            changed |= {i for i in range(len(samples)) if not same(apart[i], together[i])}
    return len(changed)


@contextlib.contextmanager
def other_threads():
    """Others than before: their number is what is yielded."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if before > 1 else 2)
    yield torch.get_num_threads()
    torch.set_num_threads(before)


def measure(text: Tensor, steps: int, device: str, on: bool) -> tuple[dict, list[Tensor]]:
    samples = windows(text, BATCH, torch.Generator().manual_seed(2))[:, :-1].to(device)
    allow = ELEMENTWISE if device == "cpu" else ()
    with bitfold.torch.deterministic(strict=True, allow=allow) if on else contextlib.nullcontext():
        (model, losses, _), (other, other_losses, seconds) = train(text, steps, device), train(text, steps, device)
        weights = list(zip(model.parameters(), other.parameters()))
        with other_threads() as threads:
            by_threads, losses_by_threads, _ = train(text, steps, device)
        result = {
            "device": device,
            "mode": on,
            "steps": steps,
            "first_loss": losses[0].item(),
            "last_loss": losses[-1].item(),
            "losses_that_differ": sum(not same(a, b) for a, b in zip(losses, other_losses)),
            "weights": len(weights),
            "weights_that_differ": sum(not same(a, b) for a, b in weights),
            "threads": [torch.get_num_threads(), threads],
            "losses_that_differ_by_threads": sum(not same(a, b) for a, b in zip(losses, losses_by_threads)),
            "weights_that_differ_by_threads": sum(not same(a, b) for a, b in zip(model.parameters(), by_threads.parameters())),
            "digest": digest([*losses, *model.parameters()]),
            "samples": BATCH,
            "changed_by_batch": changed_by_batch(model, samples),
            "ms_per_step": round(1000 * seconds, 2),
        }
    return result, losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cpu,cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--text", type=Path, help="what to train on; by default this checkout's documents")
    parser.add_argument("--out", type=Path, help="the results as JSON")
    options = parser.parse_args()
    try:
        text = corpus(options.text and [options.text])
    except OSError as e:
        parser.error(f"--text: {e.filename}: {e.strerror}" if options.text else f"no documents beside this file ({e.filename}): --text FILE names another text")
    if len(text) <= CONTEXT + 1:
        parser.error(f"--text: {options.text}: {len(text)} bytes, where a sample has {CONTEXT + 1}")

    versions = {"torch": torch.__version__, "bitfold": bitfold.__version__, "machine": platform.processor() or platform.machine()}
    if torch.cuda.is_available():
        versions["gpu"] = torch.cuda.get_device_name()
    print(", ".join(f"{name} {value}" for name, value in versions.items()), flush=True)
    results, curves = [], {}
    for device in options.device.split(","):
        for on in (False, True):
            r, curves[device, on] = measure(text, options.steps, device, on)
            results.append(r)
            print(
                f"{device:4} {'with bitfold' if on else 'torch alone ':12}  loss {r['first_loss']:.4f} to {r['last_loss']:.4f}, {r['ms_per_step']} ms a step\n"
                f"{'':19}two runs: {r['losses_that_differ']} of {r['steps']} losses differ, {r['weights_that_differ']} of {r['weights']} weights\n"
                f"{'':19}{r['threads'][0]} and {r['threads'][1]} threads: {r['losses_that_differ_by_threads']} losses differ, "
                f"{r['weights_that_differ_by_threads']} weights\n"
                f"{'':19}digest of losses and weights: {r['digest']}\n"
                f"{'':19}by the batch's size change {r['changed_by_batch']} of {r['samples']} samples",
                flush=True,
            )
    across = {}
    if ("cuda", True) in curves and ("cpu", True) in curves:
        for on in (False, True):
            pairs = list(zip(curves["cpu", on], curves["cuda", on]))
            across[str(on)] = next((i for i, (a, b) in enumerate(pairs) if not same(a, b)), len(pairs))
        print(f"CPU and CUDA: the first loss that differs is number {across['False']} without, {across['True']} with")
    if options.out:
        options.out.write_text(json.dumps({**versions, "results": results, "first_difference_across_devices": across}, indent=1) + "\n")


if __name__ == "__main__":
    main()
