#!/usr/bin/env python3
"""What bounds cases of bench/everywhere on a GPU, as ncu (Nsight Compute) has it: each case's call once, caches and clocks as they are.

  python bench/everywhere/bounds.py OUT.jsonl --cases REGEX [--commit COMMIT]    a line for each kernel that takes a twentieth of its case
  python bench/everywhere/bounds.py OUT.jsonl --read NAMES.txt RAW.csv ...       of what ncu said before
  perf record python bench/everywhere/bounds.py --repeat 2 --cases '^CASE$'      on a CPU: calls for so many seconds, and writes nothing

ncu keeps all that it has found until it ends, and runs each kernel several times: some tens of cases take minutes."""
from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "scripts")]

import gate  # noqa: E402
import result_lines  # noqa: E402
import results  # noqa: E402

#: What is asked of ncu, and what it is called in a line: shares of what the GPU could do, in percent, but for the first two and the last.
METRICS = {
    "gpu__time_duration.sum": "us",
    "dram__bytes.sum": "mb",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "l2",
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": "l1",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps",
    "launch__registers_per_thread": "registers",
}
SCALES = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}
SCALES |= {"byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1, "Gbyte": 1e3}
MARKER = "spin_kernel"  # torch's, which runs ahead of each case
LEAST_SHARE = 0.05
#: Above this share a unit is what bounds a kernel; below it the kernel waits.
BOUND = 60


def run_cases(pattern: str, names: str) -> None:
    """Under ncu: each case once, after it has run, and its name into the file."""
    import warnings

    import bitfold.torch  # noqa: F401
    import torch

    import cases
    from prepared import prepare

    warnings.simplefilter("ignore")
    profiler = torch.cuda.cudart()
    with open(names, "w") as out:
        for case in cases.cases(cases.SCALES["cuda"], False):
            if not re.search(pattern, case.name) or not case.on_gpus:
                continue
            made = prepare(case, "cuda")
            with made.ours.context():
                made.ours(), made.ours()
                torch.cuda.synchronize()
                profiler.cudaProfilerStart()
                torch.cuda._sleep(10)
                made.ours()
                torch.cuda.synchronize()
                profiler.cudaProfilerStop()
            print(case.name, file=out, flush=True)
            del made
            torch.cuda.empty_cache()


def repeat(pattern: str, seconds: float) -> None:
    """On a CPU, for a profiler: each case's call again and again."""
    import time
    import warnings

    import bitfold.torch  # noqa: F401

    import cases
    from prepared import prepare

    warnings.simplefilter("ignore")
    for case in cases.cases(cases.SCALES["cpu"], False):
        if re.search(pattern, case.name):
            made = prepare(case, "cpu")
            with made.ours.context():
                end = time.perf_counter() + seconds
                while time.perf_counter() < end:
                    made.ours()


def short_name(kernel: str) -> str:
    """void bitfold::cuda::f<...>(...) as f, torch's as torch's f."""
    name = re.split(r"[<(]", kernel.removeprefix("void "))[0]
    own = name.startswith("bitfold")
    return name.split("::")[-1] if own else f"torch's {name.split('::')[-1]}"


def kernels_of(rows: Iterable[dict], units: dict) -> Iterator[list[dict]]:
    """Of each case its kernels, in order."""
    case: list[dict] | None = None
    for row in rows:
        if MARKER in row["Kernel Name"]:
            if case is not None:
                yield case
            case = []
        elif case is not None:
            values = {short: float(row[metric].replace(",", "")) * SCALES.get(units[metric], 1) for metric, short in METRICS.items()}
            case.append({"kernel": short_name(row["Kernel Name"]), **values})
    if case is not None:
        yield case


def lines_of(names: str, raw: str) -> Iterator[dict]:
    """Kernels of one name together: their times are added up, and their shares are means, weighed by time."""
    with open(raw, newline="") as f:
        rows = list(csv.DictReader(line for line in f if line.startswith('"')))
    cases = Path(names).read_text().split("\n")
    for name, kernels in zip(cases, kernels_of(rows[1:], rows[0])):
        whole = sum(k["us"] for k in kernels)
        alike: dict[str, list[dict]] = {}
        for k in kernels:
            alike.setdefault(k["kernel"], []).append(k)
        for kernel, some in sorted(alike.items(), key=lambda item: -sum(k["us"] for k in item[1])):
            us = sum(k["us"] for k in some)
            if us < LEAST_SHARE * whole:
                continue
            mean = {short: sum(k[short] * k["us"] for k in some) / us for short in METRICS.values() if short not in ("us", "mb")}
            line = {"case": f"{name} {kernel}", "of": name, "kernel": kernel, "calls": len(some), "us": us, "share": us / whole, "mb": sum(k["mb"] for k in some), **mean}
            yield {k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in line.items()}


def bound_of(line: dict) -> str:
    """The unit that is busiest, if that is busy; or that the kernel waits, and how many of the warps that there is room for do."""
    names = {"memory": "memory", "l2": "the second cache", "l1": "the first cache", "issue": "instructions"}
    unit = max(names, key=lambda u: line[u])
    return f"{names[unit]}, {line[unit]:.0f} %" if line[unit] >= BOUND else f"latency, {line['warps']:.0f} % of warps"


def table(path: str, times: str, most: int) -> str:
    """Of each case, the slowest beside the peer first, the kernel that takes longest. `times`: a file of bench/everywhere. ValueError or
    OSError: a file is none of theirs."""
    header, lines = results.read(path)
    if header.get("bench") != "everywhere-bounds":
        raise ValueError("is no file of bench/everywhere/bounds.py")
    ratios = gate.ratios(results.read(times)[1])
    longest: dict[str, dict] = {}
    for line in lines:
        longest.setdefault(line["of"], line)
    rows = ["| case | times the peer's | kernel that takes longest | its share | registers of 32 bits | bound by |", "|--|--:|--|--:|--:|--|"]
    for case in sorted((c for c in longest if c in ratios), key=lambda c: -ratios[c])[:most]:
        k = longest[case]
        rows.append(f"| `{case}` | {ratios[case]:.2f} | `{k['kernel']}` | {k['share']:.2f} | {k['registers']:.0f} | {bound_of(k)} |")
    return "\n".join([f"{header['gpu']}, commit {header['commit']}, {header['date'][:10]}, by ncu\n", *rows])


def write(out: str, commit: str, files: list[str]) -> None:
    """`files`: names of cases, and what ncu said of them, in turn."""
    with open(files[1], newline="") as f:
        rows = list(csv.DictReader(line for line in f if line.startswith('"')))
    gpu = rows[1]["device__attribute_display_name"] if len(rows) > 1 else "?"
    lines = [line for names, raw in zip(files[::2], files[1::2]) for line in lines_of(names, raw)]
    result_lines.write(out, result_lines.header("everywhere-bounds", device="cuda", gpu=gpu, commit=commit), lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/everywhere/bounds.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", metavar="OUT.jsonl")
    parser.add_argument("--cases", default="", metavar="REGEX", help="those whose names it is found in")
    parser.add_argument("--commit", default="?", help="for the header")
    parser.add_argument("--read", nargs="+", metavar="FILE", help="names of cases, and what ncu said of them, in turn")
    parser.add_argument("--repeat", type=float, metavar="SECONDS", help="on a CPU, and write nothing")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.repeat:
        repeat(args.cases, args.repeat)
        return 0
    if not args.out:
        parser.error("OUT.jsonl or --repeat is needed")
    if args.inside:
        run_cases(args.cases, args.out)
        return 0
    if args.read:
        if len(args.read) % 2:
            parser.error("--read: names and what ncu said, in turn")
        write(args.out, args.commit, args.read)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        names, raw = os.path.join(folder, "names"), os.path.join(folder, "raw.csv")
        ncu = ["ncu", "--profile-from-start", "off", "--cache-control", "none", "--clock-control", "none", "--csv", "--page", "raw"]
        asked = ["--metrics", ",".join(METRICS), "--log-file", raw]
        status = subprocess.run([*ncu, *asked, sys.executable, __file__, names, "--cases", args.cases, "--inside"]).returncode
        if status:
            return status
        write(args.out, args.commit, [names, raw])
    return 0


if __name__ == "__main__":
    sys.exit(main())
