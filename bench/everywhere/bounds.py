#!/usr/bin/env python3
"""What bounds cases of bench/everywhere, as profilers have it: each case's call, caches and clocks as they are.

  python bench/everywhere/bounds.py OUT.jsonl [WHICH] [--commit COMMIT]                on a GPU, by ncu (Nsight Compute): of each kernel how
                                                                                     long it takes, and how busy it keeps what there is
  python bench/everywhere/bounds.py OUT.jsonl [WHICH] --kernels [--commit COMMIT]      how long each takes alone, by torch's profiler
  python bench/everywhere/bounds.py OUT.jsonl [WHICH] --device cpu [--commit COMMIT]   of each function the share of samples, by perf
  python bench/everywhere/bounds.py OUT.jsonl --read NAMES.txt RAW.csv ...             of what ncu said before

A line is a kernel that takes a twentieth of its case, or a function that takes an eighth; and the longest. ncu runs each process several
times, so that a case takes seconds, and keeps all that it has found until it ends. So it is run for some cases at a time, and OUT.jsonl
has after each what was found until then: with --but it goes on from there. Functions have names in a package whose build did not strip
them."""
from __future__ import annotations

import argparse
import bisect
import csv
import os
import re
import subprocess
import sys
import tempfile
import time
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
LEAST_SHARE = {"cuda": 0.05, "cpu": 0.125}
#: Above this many times the peer's a case is slow.
SLOW = 1.1
#: Below this share of what a plain read of its bytes takes memory is not what bounds a case.
READ = 0.93
#: Above this share a unit is what bounds a kernel; below it the kernel waits.
BOUND = 60
SAMPLES = 997  # a second, of perf
AT_ONCE = 4  # cases, by ncu
SECONDS = 1.0  # of a case's calls, for perf


def wanted(args: argparse.Namespace, device: str) -> Iterator:
    """The cases that are asked for."""
    import cases

    only = None
    if args.slow:
        only = {case for case, ratio in gate.ratios(results.read(args.slow)[1]).items() if ratio > SLOW}
    if args.unread:
        unread = {line["case"] for line in results.read(args.unread)[1] if line.get("read", 1) < READ}
        only = unread if only is None else only | unread
    known = {line["of"] for line in results.read(args.but)[1]} if args.but else set()
    for case in cases.cases(cases.SCALES[device], False):
        if not re.search(args.cases, case.name) or (only is not None and case.name not in only) or case.name in known:
            continue
        if device == "cpu" or case.on_gpus:
            yield case


def chosen(args: argparse.Namespace, device: str) -> Iterator[tuple[str, object]]:
    """Each case that is asked for, and what makes its call, which has run."""
    import warnings

    import bitfold.torch  # noqa: F401
    import torch

    from prepared import prepare

    warnings.simplefilter("ignore")
    for case in wanted(args, device):
        made = prepare(case, device)
        with made.ours.context():
            made.ours(), made.ours()
            yield case.name, made.ours
        del made
        if device == "cuda":
            torch.cuda.empty_cache()


def run_cases(args: argparse.Namespace) -> None:
    """Under ncu: each case once, and its name into the file."""
    import torch

    profiler = torch.cuda.cudart()
    with open(args.out, "w") as out:
        for name, call in chosen(args, "cuda"):
            torch.cuda.synchronize()
            profiler.cudaProfilerStart()
            torch.cuda._sleep(10)
            call()
            torch.cuda.synchronize()
            profiler.cudaProfilerStop()
            print(name, file=out, flush=True)


def repeat_cases(args: argparse.Namespace) -> None:
    """Under perf: each case again and again, and its name and from when to when it ran into the file."""
    with open(args.out, "w") as out:
        for name, call in chosen(args, "cpu"):
            begin = now = time.monotonic()
            while now < begin + SECONDS:
                call()
                now = time.monotonic()
            print(name, begin, now, file=out, flush=True)


def by_torch(args: argparse.Namespace) -> Iterator[dict]:
    """The kernels of each case, by torch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for name, call in chosen(args, "cuda"):
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            call()
            torch.cuda.synchronize()
        kernels = [{"kernel": short_name(e.key), "calls": e.count, "us": e.device_time_total} for e in p.key_averages() if e.device_time_total > 0]
        yield from shares(name, kernels)


def shares(case: str, parts: list[dict], device: str = "cuda") -> Iterator[dict]:
    """Lines of what takes that share of a case, or longest; what has one name together, the longest first."""
    whole = sum(k["us"] for k in parts)
    alike: dict[str, dict] = {}
    for k in parts:
        one = alike.setdefault(k["kernel"], {"calls": 0, "us": 0.0})
        one["calls"] += k["calls"]
        one["us"] += k["us"]
    for place, (kernel, k) in enumerate(sorted(alike.items(), key=lambda item: -item[1]["us"])):
        if place == 0 or k["us"] >= LEAST_SHARE[device] * whole:
            yield {"case": f"{case} {kernel}", "of": case, "kernel": kernel, **k, "us": rounded(k["us"]), "share": rounded(k["us"] / whole)}


def by_perf(args: argparse.Namespace, folder: str) -> Iterator[dict]:
    """The functions of each case, by perf."""
    data, names = os.path.join(folder, "perf.data"), os.path.join(folder, "names")
    record = ["perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-F", str(SAMPLES), "-o", data, "--"]
    subprocess.run([*record, sys.executable, __file__, names, *which(args), "--inside", "--device", "cpu"], check=True)
    said = subprocess.run(["perf", "script", "-i", data, "-F", "time,ip,sym,dso"], check=True, capture_output=True, text=True).stdout
    yield from lines_of_samples(Path(names).read_text(), said)


def lines_of_samples(names: str, said: str) -> Iterator[dict]:
    """`names`: a line with a case's name, its begin and its end. `said`: by perf script, a line of each sample."""
    found: dict[str, dict[str, int]] = {}
    spans = [(name, float(begin), float(end)) for name, begin, end in (line.rsplit(" ", 2) for line in names.splitlines())]
    begins = [begin for _, begin, _ in spans]
    for line in said.splitlines():
        match = re.match(r"\s*([\d.]+):\s+[0-9a-f]+ (.*) \((.*)\)$", line)
        k = bisect.bisect(begins, float(match[1])) - 1 if match else -1
        if k >= 0 and float(match[1]) <= spans[k][2]:
            of_case = found.setdefault(spans[k][0], {})
            function = short_function(match[2], match[3])
            of_case[function] = of_case.get(function, 0) + 1
    for name, functions in found.items():
        for line in shares(name, [{"kernel": f, "calls": 0, "us": n} for f, n in functions.items()], "cpu"):
            yield {field: line[field] for field in ("case", "of", "kernel", "share")}


def split_outside(name: str, at: str) -> list[str]:
    """Split where `at` stands outside of templates' arguments and of others."""
    parts, depth, begin, i = [], 0, 0, 0
    while i < len(name):
        depth += (name[i] in "<(") - (name[i] in ">)")
        if depth == 0 and name.startswith(at, i):
            parts.append(name[begin:i])
            begin = i = i + len(at)
        else:
            i += 1
    return [*parts, name[begin:]]


def short_function(symbol: str, library: str) -> str:
    """bitfold::cpu::N_AVX2::engine<bitfold::method::additive<tree>, float>::run(int) as engine<additive>::run."""
    name = re.sub(r"\(anonymous namespace\)::|\[clone.*|\+0x[0-9a-f]+$", "", symbol).strip().replace(" const::", "::")
    own = "bitfold" in name or "bitfold" in library
    parts = split_outside(split_outside(name.removesuffix(" const"), " ")[-1], "::")
    member = [part for part in parts if not part.startswith(("{", "operator"))][-2:]

    def plain(part: str) -> str:
        head, _, arguments = re.sub(r"\(.*", "", part).partition("<")
        first = re.split(r"[<,>]", re.sub(r"\w+::", "", arguments))[0]
        return f"{head}<{first}>" if first else head

    short = "::".join(plain(part) for part in member if "<" in part or part is member[-1])
    return short if own or "::" not in name else f"torch's {short}"


def short_name(kernel: str) -> str:
    """void bitfold::cuda::f<...>(...) as f, torch's as torch's f."""
    name = re.split(r"[<(]", kernel.removeprefix("void "))[0]
    if "gemm_i8i32" in name:  # of digits, which bitfold calls
        return "cuBLASLt's product of integers"
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
    """Of what ncu said. Kernels of one name together: their times are added up, and their shares are means, weighed by time."""
    with open(raw, newline="") as f:
        rows = list(csv.DictReader(line for line in f if line.startswith('"')))
    cases = Path(names).read_text().splitlines()  # one that was interrupted has no name
    for name, kernels in zip(cases, kernels_of(rows[1:], rows[0])):
        for line in shares(name, [{"calls": 1, **k} for k in kernels]):
            some = [k for k in kernels if k["kernel"] == line["kernel"]]
            us = sum(k["us"] for k in some)
            mean = {short: rounded(sum(k[short] * k["us"] for k in some) / us) for short in METRICS.values() if short not in ("us", "mb")}
            yield {**line, "mb": rounded(sum(k["mb"] for k in some)), **mean}


def rounded(x: float) -> float:
    return float(f"{x:.3g}")


def bound_of(line: dict) -> str:
    """The unit that is busiest, if that is busy; or that the kernel waits, and how many of the warps that there is room for do."""
    names = {"memory": "memory", "l2": "the second cache", "l1": "the first cache", "issue": "instructions"}
    unit = max(names, key=lambda u: line[u])
    return f"{names[unit]}, {line[unit]:.0f} %" if line[unit] >= BOUND else f"latency, {line['warps']:.0f} % of warps"


def read(path: str) -> tuple[dict, dict[str, list[dict]]]:
    """Of each case its lines. ValueError or OSError: the file is none of this bench's."""
    header, lines = results.read(path)
    if header.get("bench") != "everywhere-bounds":
        raise ValueError("is no file of bench/everywhere/bounds.py")
    of: dict[str, list[dict]] = {}
    for line in lines:
        of.setdefault(line["of"], []).append(line)
    return header, of


def table(path: str, times: str, most: int, units: str = "") -> str:
    """What takes longest of slow cases: in how many of them, and of the slowest beside its peer what bounds it. `times`: a file of
    bench/everywhere. `units`: one of ncu, where `path` has kernels alone."""
    header, of = read(path)
    ratios = gate.ratios(results.read(times)[1])
    of_units, with_units = read(units) if units else (header, of)
    busy = {case: lines[0] for case, lines in with_units.items() if "issue" in lines[0]}
    longest: dict[str, list[str]] = {}
    for case in sorted((c for c in of if ratios.get(c, 0) > SLOW), key=lambda c: -ratios[c]):
        longest.setdefault(of[case][0]["kernel"], []).append(case)
    what = "kernel" if header["device"] == "cuda" else "function"
    rows = [f"| {what} that takes longest | slow cases | times the peer's | of | its share |{' bound by |' if busy else ''}", "|--|--:|--:|--|--:|" + "--|" * bool(busy)]
    for kernel, cases in sorted(longest.items(), key=lambda item: (-len(item[1]), -ratios[item[1][0]]))[:most]:
        bound = next((bound_of(busy[c]) for c in [*cases, *busy] if c in busy and busy[c]["kernel"] == kernel), "")
        rows.append(f"| `{kernel}` | {len(cases)} | {ratios[cases[0]]:.2f} | `{cases[0]}` | {of[cases[0]][0]['share']:.2f} |" + f" {bound} |" * bool(busy))
    said = f"{header.get('gpu') or header['cpu']}, commit {header['commit']}, {header['date'][:10]}, by {header.get('profiler', 'ncu')}"
    return "\n".join([said + (f"; what bounds by {of_units.get('profiler', 'ncu')}, commit {of_units['commit']}\n" if units else "\n"), *rows])


def read_ncu(files: list[str]) -> tuple[str, list[dict]]:
    """The GPU and the lines of `files`: names of cases, and what ncu said of them, in turn."""
    with open(files[1], newline="") as f:
        rows = list(csv.DictReader(line for line in f if line.startswith('"')))
    gpu = rows[1]["device__attribute_display_name"] if len(rows) > 1 else "?"
    return gpu, [line for names, raw in zip(files[::2], files[1::2]) for line in lines_of(names, raw)]


def by_ncu(args: argparse.Namespace, folder: str) -> Iterator[tuple[str, list[dict]]]:
    """The GPU, and the lines of some cases at a time."""
    names, raw = os.path.join(folder, "names"), os.path.join(folder, "raw.csv")
    # It runs the process again and again: kernel by kernel it would restore all that one has written before each run, which is gigabytes.
    ncu = ["ncu", "--profile-from-start", "off", "--replay-mode", "application", "--cache-control", "none", "--clock-control", "none"]
    ncu += ["--csv", "--page", "raw"]
    asked = ["--metrics", ",".join(METRICS), "--log-file", raw, "--force-overwrite"]
    all_names = [case.name for case in wanted(args, "cuda")]
    if not all_names:
        sys.exit("bounds.py: no such case")
    for first in range(0, len(all_names), AT_ONCE):
        these = "^(" + "|".join(map(re.escape, all_names[first : first + AT_ONCE])) + ")$"
        subprocess.run([*ncu, *asked, sys.executable, __file__, names, "--cases", these, "--inside"], check=True)
        yield read_ncu([names, raw])


def which(args: argparse.Namespace) -> list[str]:
    files = {"--slow": args.slow, "--unread": args.unread, "--but": args.but}
    return ["--cases", args.cases, *(word for name, file in files.items() if file for word in (name, file))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/everywhere/bounds.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", metavar="OUT.jsonl")
    parser.add_argument("--cases", default="", metavar="REGEX", help="WHICH: those whose names it is found in")
    parser.add_argument("--slow", metavar="RESULT.jsonl", help=f"WHICH: those that take more than {SLOW} times the peer's in a file of bench/everywhere")
    parser.add_argument("--unread", metavar="RESULT.jsonl", help=f"WHICH: and those that read at less than {READ} of a plain read's speed there")
    parser.add_argument("--but", metavar="BOUNDS.jsonl", help="WHICH: but for those that this file of the same kind has")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--kernels", action="store_true", help="their times alone")
    parser.add_argument("--commit", default="?", help="for the header")
    parser.add_argument("--read", nargs="+", metavar="FILE", help="names of cases, and what ncu said of them, in turn")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        (repeat_cases if args.device == "cpu" else run_cases)(args)
        return 0
    if args.read and len(args.read) % 2:
        parser.error("--read: names and what ncu said, in turn")
    header = {"device": args.device, "commit": args.commit}

    def write(lines: Iterable[dict], **more: str) -> None:
        result_lines.write(args.out, result_lines.header("everywhere-bounds", **header, **more), list(lines))

    with tempfile.TemporaryDirectory() as folder:
        try:
            if args.device == "cpu":
                write(by_perf(args, folder), cpu=result_lines.cpu(), profiler="perf")
            elif args.kernels:
                import torch

                write(by_torch(args), gpu=torch.cuda.get_device_name(), profiler="torch.profiler")
            else:
                lines: list[dict] = []
                for gpu, some in [read_ncu(args.read)] if args.read else by_ncu(args, folder):
                    lines += some
                    write(lines, gpu=gpu, profiler="ncu")
        except subprocess.CalledProcessError as e:
            print(f"bounds.py: {e.cmd[0]} exits with {e.returncode}", file=sys.stderr)
            return 1
        except FileNotFoundError as e:
            print(f"bounds.py: {e.filename}: no such file or program", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
