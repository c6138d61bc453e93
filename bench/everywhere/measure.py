"""Times of two calls that compute the same, measured in turn: the least of several. On a CPU by the clock, on a GPU the device's time
inside a CUDA graph that holds enough calls to fill two milliseconds, or 50."""
from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from prepared import Call, Prepared


class Times(NamedTuple):
    """Seconds of a call."""

    ours: float
    peer: float
    captured: bool = True  # whether they are a graph's, where there are graphs


class Least:
    """The least of the times of a call."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def add(self, t: float) -> None:
        self.times = sorted([*self.times, t])[:2]

    @property
    def time(self) -> float:
        return self.times[0]

    @property
    def agree(self) -> bool:
        """Whether the two least do, so that neither was disturbed."""
        return len(self.times) == 2 and self.times[1] < 1.03 * self.times[0]


class Clock:
    """On a CPU. `seconds` is what a case may take where its times do not agree, but for calls that take longer. Calls are timed one by one,
    short ones in batches, and several in a round: of these, too, the least counts, which nothing disturbed."""

    batch, round, rounds, most_rounds = 5e-5, 2e-3, 8, 100

    def __init__(self, seconds: float, now: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self.now = seconds, now

    def _batch(self, call: Call, number: int) -> float:
        begin = self.now()
        for _ in range(number):
            call()
        return (self.now() - begin) / number

    def _round(self, call: Call, about: float) -> float:
        number = max(1, int(self.batch / about))
        with call.context():
            if about < self.seconds:
                call()  # where the mode was entered, torch looks up anew what it calls, for milliseconds
            return min(self._batch(call, number) for _ in range(max(1, int(self.round / (number * about)))))

    def times(self, of: Prepared) -> Times:
        calls, least = (of.ours, of.peer), (Least(), Least())
        for call, found in zip(calls, least):
            with call.context():
                call()
                found.add(max(self._batch(call, 1), 1e-7))
        begin = time.perf_counter()
        for k in range(self.most_rounds):
            settled = k >= self.rounds and all(found.agree for found in least)
            late = time.perf_counter() - begin > self.seconds and (k > 2 or sum(found.time for found in least) > self.seconds)
            if settled or late:
                break
            for call, found in zip(calls, least):
                found.add(self._round(call, found.time))
        return Times(*(found.time for found in least))


class Graphs:
    """On a GPU. All that is measured runs on one stream, which has to be current where the arrays are made."""

    batch, most_copies, rounds, most_rounds = 2e-3, 50, 3, 15

    def __init__(self, seconds: float) -> None:
        self.seconds, self.first_calls = seconds, 0.0

    def times(self, of: Prepared) -> Times:
        """The first call compiles kernels, by NVRTC; it is in none of the times."""
        if torch.cuda.memory_reserved() > torch.cuda.get_device_properties().total_memory // 2:
            torch.cuda.empty_cache()  # of graphs that were
        begin = time.perf_counter()
        estimates = [self._eager(call, 1) for call in (of.ours, of.peer)]
        self.first_calls += time.perf_counter() - begin
        copies = [max(1, min(self.most_copies, int(self.batch / max(t, 1e-7)))) for t in estimates]
        try:
            for call in (of.ours, of.peer):
                self._refuse_waiting(call)
            graphs = [self._graph(call, n) for call, n in zip((of.ours, of.peer), copies)]
        except RuntimeError:  # something of it waits for the device, which no graph does
            torch.cuda.synchronize()
            return Times(*(min(self._eager(call, n) for _ in range(3)) for call, n in zip((of.ours, of.peer), copies)), captured=False)
        least, begin = (Least(), Least()), time.perf_counter()
        for k in range(self.most_rounds):
            if k >= self.rounds and (all(found.agree for found in least) or time.perf_counter() - begin > self.seconds):
                break
            for graph, found, n in zip(graphs, least, copies):
                found.add(self._event_time(graph.replay) / n)
        return Times(*(found.time for found in least))

    @staticmethod
    def _event_time(call: Callable) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def _eager(self, call: Call, number: int) -> float:
        """The host's time too, where it is the longer."""
        with call.context():
            call()
            torch.cuda.synchronize()

            def all_of_them():
                for _ in range(number):
                    call()

            return self._event_time(all_of_them) / number

    @staticmethod
    def _refuse_waiting(call: Call) -> None:
        """RuntimeError, before a capture fails, which leaves torch's allocator with a capture that does not end."""
        with call.context():
            torch.cuda.set_sync_debug_mode("error")
            try:
                call()
            finally:
                torch.cuda.set_sync_debug_mode("default")

    @staticmethod
    def _graph(call: Call, copies: int) -> torch.cuda.CUDAGraph:
        """Not by torch.cuda.graph, which gives all cached memory back first."""
        graph = torch.cuda.CUDAGraph()
        with call.context():
            call()
            torch.cuda.synchronize()
            graph.capture_begin()
            try:
                for _ in range(copies):
                    call()
            finally:
                graph.capture_end()
            graph.replay()  # which loads it onto the device
            torch.cuda.synchronize()
        return graph


_MMAP_MAX, _TRIM_THRESHOLD = -4, -1  # of glibc's malloc.h


def keep_memory() -> None:
    """What is freed is not given back to the system, whose pages else come into the times of some calls, four times as long so, and not of
    others, as it happens."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, -1)


class NoCollection:
    """Python's garbage collector in no time that is measured."""

    def __enter__(self):
        gc.collect()
        gc.freeze()
        gc.disable()

    def __exit__(self, *_):
        gc.enable()
        gc.unfreeze()
