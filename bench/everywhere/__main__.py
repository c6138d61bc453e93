#!/usr/bin/env python3
"""Every operation of bitfold's and every covered operator of torch's under bitfold.torch.deterministic(), forward and backward, on
layouts and types that people have, beside torch by itself and NumPy, in one run (the list is cases.py).

  python bench/everywhere OUT.jsonl                     measures: some minutes on a CPU, fewer on a GPU (--device cuda); on a CPU
                                                        that others use too with --threads 1 --cpu-time
  python bench/everywhere OUT.jsonl --gate OLD.jsonl    and exits with 1 where a case became slower than in OLD by the margin
  python bench/everywhere --from NEW.jsonl --gate OLD.jsonl      the same of a file that is there
  python bench/everywhere --bits                        instead: whether each case has the bits that it has of a contiguous copy and,
                                                        with --device cuda, on the CPU; exits with 1 where one has not
  python bench/everywhere --smoke [--bits]              each case once, of a few elements
  python bench/everywhere --table FILE.jsonl            the tables of a file"""
from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "scripts")]

import gate  # noqa: E402
import results  # noqa: E402
import summary  # noqa: E402

MARGINS = {"cpu": 1.3, "cuda": 1.15}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/everywhere", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", metavar="OUT.jsonl", help="where the results go")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, help="of torch on a CPU (default: what torch takes)")
    parser.add_argument("--cpu-time", action="store_true", help="for a CPU that others use too: of all threads together, so with --threads 1")
    parser.add_argument("--cases", default="", metavar="REGEX", help="those whose names it is found in")
    parser.add_argument("--more", action="store_true", help="each layout in each type and way, and three times as long")
    parser.add_argument("--smoke", action="store_true", help="of a few elements, each call once")
    parser.add_argument("--bits", action="store_true", help="compare bits, and measure nothing")
    parser.add_argument("--commit", default="?", help="for the header")
    parser.add_argument("--gate", metavar="OLD.jsonl", help="the file that no case may be slower than")
    parser.add_argument("--from", dest="given", metavar="NEW.jsonl", help="gate this file, and measure nothing")
    parser.add_argument("--margin", type=float, help=f"how many times as long a case may take (default: {MARGINS})")
    parser.add_argument("--any-machine", action="store_true", help="gate a file of another machine too")
    parser.add_argument("--table", metavar="FILE.jsonl", help="print its tables, and measure nothing")
    args = parser.parse_args()
    if sum(map(bool, (args.out, args.bits, args.smoke, args.given, args.table))) == 0:
        parser.error("OUT.jsonl, --bits, --smoke, --from or --table is needed")
    if args.given and not args.gate:
        parser.error("--from: goes with --gate")
    return args


def refuse(what: object) -> None:
    print(f"everywhere: {what}", file=sys.stderr)
    sys.exit(2)


def gated(args: argparse.Namespace, header: dict, lines: list[dict], again=None) -> bool:
    """Whether nothing became slower. `again` measures those that did once more."""
    old_header, old_lines = results.read(args.gate)
    gate.comparable(old_header, header, args.any_machine)
    compared = gate.Gate(old_lines, lines, args.margin or MARGINS[header["device"]])
    for _ in range(2 if again else 0):
        if slower := compared.slower():
            compared.measured_again(again(slower))
    print(compared.report())
    return not compared.slower()


def started(args: argparse.Namespace):
    """A Run, if what it is to be compared with can be. (torch takes seconds to import, which tables need not wait for.)"""
    import running

    run = running.Run(args)
    if args.gate:  # before minutes are spent
        header, lines = results.read(args.gate)
        gate.comparable(header, run.header(), args.any_machine)
        gate.times(lines)
    return run


def main() -> int:
    args = arguments()
    try:
        re.compile(args.cases)
        if args.table:
            print("\n\n".join(summary.table(args.table, what, 40) for what in ("subjects", "worst", "best")))
            return 0
        if args.given:
            return 0 if gated(args, *results.read(args.given)) else 1
        begin = time.perf_counter()
        run = started(args)
    except (OSError, ValueError, re.error) as e:
        refuse(e)
    if args.bits:
        return run.compare_bits()
    if args.smoke:
        return run.smoke()
    lines = run.measure(run.cases, args.out)
    print("\n".join([*summary.subjects(lines), "", *summary.worst(lines, 20)]))
    print(f"{len(lines)} cases in {time.perf_counter() - begin:.0f} s{run.first_calls()}; failed: {', '.join(run.failed) or 'none'}")
    status = 1 if run.failed else 0
    if args.gate:
        try:
            status |= 0 if gated(args, run.header(), lines, run.measure_again) else 1
        except ValueError as e:
            refuse(e)
    return status


if __name__ == "__main__":
    sys.exit(main())
