"""Tables of a file of results: the worst, the best, and geometric means by subject."""
from __future__ import annotations

import math

import gate
import results


def where(header: dict) -> str:
    software = [f"{name} {header[key]}" for key, name in (("torch", "PyTorch"), ("numpy", "NumPy")) if key in header]
    threads = [f"{header['threads']} threads"] if "threads" in header else []
    return ", ".join([header.get("gpu") or header["cpu"], f"commit {header['commit']}", header["date"][:10], *threads, *software])


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _ordered(lines: list[dict], most: int, worst: bool) -> list[str]:
    by_ratio = sorted(gate.ratios(lines).items(), key=lambda item: item[1], reverse=worst)[:most]
    fields = {line["case"]: line for line in lines}
    rows = ["| case | us | the peer's us | times as long |", "|--|--:|--:|--:|"]
    for case, ratio in by_ratio:
        us, peers = (f"{t:.{0 if t >= 100 else 1}f}" for t in (fields[case]["us"], gate.peers_us(fields[case])))
        rows.append(f"| `{case}` | {us} | {peers} | {ratio:.2f} |")
    return rows


def worst(lines: list[dict], most: int) -> list[str]:
    return _ordered(lines, most, True)


def best(lines: list[dict], most: int) -> list[str]:
    return _ordered(lines, most, False)


def subjects(lines: list[dict], most: int = 0) -> list[str]:
    """Of all of them, however many."""
    ratios = gate.ratios(lines)
    groups: dict[str, dict[str, float]] = {}
    subject_of = {line["case"]: line["subject"] for line in lines}
    for case, ratio in ratios.items():
        groups.setdefault(subject_of[case], {})[case] = ratio
    if len(groups) > 1:
        groups["all"] = ratios
    rows = ["| subject | cases | cases longer than 1.1 times | geometric mean, times | least, times | most, times | of |", "|--|--:|--:|--:|--:|--:|--|"]
    for subject, cases in groups.items():
        longest = max(cases, key=cases.get)
        behind = sum(r > 1.1 for r in cases.values())
        mean, least, most = geometric_mean([*cases.values()]), min(cases.values()), cases[longest]
        rows.append(f"| {subject} | {len(cases)} | {behind} | {mean:.2f} | {least:.2f} | {most:.2f} | `{longest}` |")
    return rows


def reads(lines: list[dict], most: int) -> list[str]:
    """What takes longest beside a read of as many bytes."""
    read = sorted((line["read"], line["case"]) for line in lines if "read" in line)[:most]
    return ["| case | share of the speed of a read |", "|--|--:|", *(f"| `{case}` | {share:.2f} |" for share, case in read)]


TABLES = {"subjects": subjects, "worst": worst, "best": best, "reads": reads}


def table(path: str, what: str, most: int) -> str:
    """ValueError or OSError: the file is none of this bench's."""
    header, lines = results.read(path)
    if header.get("bench") != "everywhere":
        raise ValueError("is no file of bench/everywhere")
    return "\n".join([f"{where(header)}: times over the peer's, above 1 is slower\n", *TABLES[what](lines, most)])
