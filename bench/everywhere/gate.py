"""What became slower since a committed file. Of a case both have to have grown: its time over the peer's of the same run, and its
time itself, over what the peers' times have grown by, which is what another machine of the kind comes to."""
from __future__ import annotations

import statistics
from typing import NamedTuple

import results

PEERS = ("torch_us", "numpy_us")


class Times(NamedTuple):
    us: float
    peer: float

    @property
    def ratio(self) -> float:
        return self.us / self.peer


def peers_us(fields: dict) -> float:
    """0 where there is none."""
    return next((fields[name] for name in PEERS if name in fields), 0)


def times(lines: list[dict]) -> dict[str, Times]:
    """By case. ValueError: a line has none."""
    found = {}
    for (case, _), fields in results.measurements(lines).items():
        found[case] = Times(fields.get("us"), peers_us(fields))
        if not all(isinstance(t, (int, float)) and 0 < t < float("inf") for t in found[case]):
            raise ValueError(f"{case}: has no time, or its peer has none")
    return found


def ratios(lines: list[dict]) -> dict[str, float]:
    """Of the times over the peers', by case."""
    return {case: t.ratio for case, t in times(lines).items()}


def comparable(old: dict, new: dict, any_machine: bool) -> None:
    """ValueError: the headers are of files that say nothing of each other."""
    for field in ("bench", "device", "threads", "clock", "elements", *([] if any_machine else ["gpu", "cpu"])):
        if old.get(field) != new.get(field):
            raise ValueError(f"{field}: {old.get(field)} was, {new.get(field)} is")


class Gate:
    """ValueError: the files have no case in common."""

    def __init__(self, old: list[dict], new: list[dict], margin: float) -> None:
        self.old, self.new, self.margin = times(old), times(new), margin
        self.cases = [case for case in self.new if case in self.old]
        if not self.cases:
            raise ValueError("the files have no case in common")

    def measured_again(self, lines: list[dict]) -> None:
        """The lesser times count."""
        for case, t in times(lines).items():
            self.new[case] = Times(*map(min, t, self.new[case]))

    def slower(self) -> list[str]:
        """The cases, the worst first."""
        machine = statistics.median(self.new[case].peer / self.old[case].peer for case in self.cases)
        grown = {case: self._grown(case, machine) for case in self.cases}
        return sorted((case for case in self.cases if grown[case] > self.margin), key=grown.get, reverse=True)

    def _grown(self, case: str, machine: float) -> float:
        was, now = self.old[case], self.new[case]
        return min(now.ratio / was.ratio, now.us / was.us / machine)

    def report(self) -> str:
        slower = self.slower()
        lines = []
        for case in slower:
            was, now = self.old[case], self.new[case]
            lines.append(f"slower  {case}: {was.ratio:.3f} -> {now.ratio:.3f} times the peer's time, {was.us:.4g} -> {now.us:.4g} us")
        return "\n".join([*lines, f"{len(self.cases)} cases compared: {len(slower)} became slower by more than {self.margin:g} times"])
