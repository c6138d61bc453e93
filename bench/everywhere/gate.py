"""What became slower since a committed file. What is compared are times over the peer's of the same run, so that another machine of
the kind serves as well."""
from __future__ import annotations

import results

PEERS = ("torch_us", "numpy_us")


def peers_us(fields: dict) -> float:
    """0 where there is none."""
    return next((fields[name] for name in PEERS if name in fields), 0)


def ratios(lines: list[dict]) -> dict[str, float]:
    """{case: the time over the peer's}. ValueError: a line has none."""
    found = {}
    for (case, _), fields in results.measurements(lines).items():
        times = fields.get("us"), peers_us(fields)
        if not all(isinstance(t, (int, float)) and 0 < t < float("inf") for t in times):
            raise ValueError(f"{case}: has no time, or its peer has none")
        found[case] = times[0] / times[1]
    return found


def comparable(old: dict, new: dict, any_machine: bool) -> None:
    """ValueError: the headers are of files that say nothing of each other."""
    for field in ("bench", "device", "threads", "clock", "elements", *([] if any_machine else ["gpu", "cpu"])):
        if old.get(field) != new.get(field):
            raise ValueError(f"{field}: {old.get(field)} was, {new.get(field)} is")


def slower(old: dict[str, float], new: dict[str, float], margin: float) -> dict[str, tuple[float, float]]:
    """{case: its ratio then and now} of those that grew by more than the margin, the worst first."""
    grown = {case: (old[case], ratio) for case, ratio in new.items() if case in old and ratio > old[case] * margin}
    return dict(sorted(grown.items(), key=lambda item: item[1][0] / item[1][1]))


def report(grown: dict[str, tuple[float, float]], compared: int, margin: float) -> str:
    lines = [f"slower  {case}: {was:.3f} -> {now:.3f} times the peer's time" for case, (was, now) in grown.items()]
    return "\n".join([*lines, f"{compared} cases compared: {len(grown)} became slower by more than {margin:g} times"])
