"""What is done with each case of the list."""
from __future__ import annotations

import gc
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator

import bitfold.torch
import numpy as np
import torch

import bits
import cases
import gate
import result_lines
from measure import Clock, Graphs, NoCollection, keep_memory
from prepared import Call, Prepared, prepare


class Run:
    """ValueError: there is no such device here."""

    def __init__(self, args) -> None:
        if args.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("--device cuda: there is no GPU that torch sees")
        warnings.simplefilter("ignore")  # torch's, of its own functions
        self.device, self.commit = args.device, args.commit
        scale = "smoke" if args.smoke else "bits" if args.bits else args.device
        self.scale = cases.SCALES[scale]
        here = (c for c in cases.cases(self.scale, args.more) if self.device == "cpu" or c.on_gpus)
        self.cases = [c for c in here if re.search(args.cases, c.name)]
        if args.threads:
            torch.set_num_threads(args.threads)
        seconds = 3 if args.more else 1
        now = time.process_time if args.cpu_time else time.perf_counter
        self.clock = Graphs(0.1 * seconds) if self.device == "cuda" else Clock(seconds, now)
        if self.device == "cuda":
            torch.cuda.set_stream(torch.cuda.Stream())  # a graph is not captured from the default one
        self.reads: dict[int, float] = {}
        self.failed: list[str] = []

    def _each(self, some: list[cases.Case], what: Callable[[cases.Case], Iterable]) -> Iterator:
        """What comes of each; a case that raises something is said, and the others go on."""
        for case in some:
            try:
                yield from what(case)
            except Exception as error:  # noqa: BLE001  of torch or bitfold, whichever
                if isinstance(error, torch.OutOfMemoryError):
                    torch.cuda.empty_cache()
                self.failed.append(case.name)
                print(f"{case.name}: failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)

    def compare_bits(self) -> int:
        wrong = 0
        with bitfold.torch.deterministic():  # once, as it takes milliseconds
            for what in self._each(self.cases, self._differences):
                wrong += 1
                print(what, flush=True)
        print(f"{len(self.cases)} cases: {wrong} differences in bits, {len(self.failed)} failed")
        return 1 if wrong or self.failed else 0

    def _differences(self, case: cases.Case) -> Iterator[str]:
        return (f"{case.name}: {what}" for what in bits.differences(case, self.device))

    def smoke(self) -> int:
        ran = sum(self._each(self.cases, self._once))
        print(f"{ran} cases ran, {len(self.failed)} failed")
        return 1 if self.failed else 0

    def _once(self, case: cases.Case) -> Iterator[int]:
        made = prepare(case, self.device)
        for call in (made.ours, made.peer):
            with call.context():
                call()
        yield 1

    def measure(self, some: list[cases.Case], path: str | None = None) -> list[dict]:
        """The lines, which go into a file as they come: it has them, too, where a run is stopped."""
        if self.device == "cpu":
            keep_memory()
        if path is not None:
            result_lines.write(path, self.header(), [])
        lines = []
        with NoCollection(), open(path or os.devnull, "a") as out:
            for line in self._each(some, self._lines):
                out.write(json.dumps(line, separators=(",", ":")) + "\n")
                out.flush()
                lines.append(line)
        return lines

    def _lines(self, case: cases.Case) -> Iterator[dict]:
        line = self._line(case)
        peer = gate.peers_us(line)
        print(f"{case.name:72} {line['us']:12.2f} {peer:12.2f} us {line['us'] / peer:8.2f}", flush=True)
        yield line

    def measure_again(self, names) -> list[dict]:
        self.clock.seconds *= 2
        return self.measure([c for c in self.cases if c.name in names])

    def _line(self, case: cases.Case) -> dict:
        gc.collect()
        made = prepare(case, self.device)
        times = self.clock.times(made)
        line = {"case": case.name, "subject": case.subject, "us": times.ours * 1e6, f"{made.of}_us": times.peer * 1e6}
        if not times.captured:
            line["events"] = True
        if made.bytes:
            line["read"] = self._read(made.bytes) / times.ours
        return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in line.items()}

    def _read(self, size: int) -> float:
        """Seconds of the fastest read of as many bytes that there is here: torch's sum or maximum, or bitfold's sum, of a row."""
        if size not in self.reads:
            x = torch.ones(max(1, size // 4), device=self.device)
            ours = Call(lambda: torch.ops.bitfold.sum(x), mode=False)
            peers = [Call(x.sum, mode=False), Call(x.amax, mode=False)]
            self.reads[size] = min(t for peer in peers for t in self.clock.times(Prepared(ours, peer, "torch", size))[:2])
        return self.reads[size]

    def header(self) -> dict:
        if self.device == "cuda":
            on = {"gpu": torch.cuda.get_device_name()}
        else:
            on = {"cpu": result_lines.cpu(), "threads": torch.get_num_threads(), "cores": os.cpu_count(), "clock": self.clock.now.__name__}
        software = {"torch": torch.__version__, "numpy": np.__version__}
        return result_lines.header("everywhere", device=self.device, commit=self.commit, **on, **software, elements=self.scale.elements)

    def first_calls(self) -> str:
        """What they took on a GPU, which compiles kernels in them."""
        return f", first calls {self.clock.first_calls:.0f} s" if self.device == "cuda" else ""
