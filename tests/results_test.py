#!/usr/bin/env python3
"""The files of results: scripts/compare-results, scripts/report-extract, bench/result_lines.py and, where it is built, what a
bench of Google Benchmark writes. Usage: results_test.py SOURCE [BITFOLD_BENCH_CPU]"""
import json
import os
import subprocess
import sys
import tempfile

source = sys.argv[1]
sys.path[:0] = [os.path.join(source, "bench"), os.path.join(source, "scripts")]
sys.dont_write_bytecode = True
import result_lines  # noqa: E402
import results  # noqa: E402


def check(good, what):
    if not good:
        sys.exit(f"results_test: {what}")


def call(script, *arguments):
    ran = subprocess.run([sys.executable, os.path.join(source, "scripts", script), *arguments], capture_output=True, text=True)
    check("Traceback" not in ran.stderr, ran.stderr)
    return ran.returncode, ran.stdout, ran.stderr


def refused(script, *arguments, says):
    status, out, err = call(script, *arguments)
    check(status not in (0,) and out == "" and err.count("\n") == 1 and says in err, f"{arguments}: {status} {out!r} {err!r}, not {says!r}")
    return status


def file(name, times, **header):
    """One whose cases' times are {(case, n): microseconds}."""
    cases = [result_lines.case(case, us * 1e-6, 1000, n) for (case, n), us in times.items()]
    result_lines.write(name, result_lines.header("gpu", gpu="A", **header), cases)
    return name


def lines_of(text, word):
    return [line.strip() for line in text.splitlines() if word in line]


def committed():
    """Those in git are small, and each can be read."""
    folder = os.path.join(source, "bench", "results")
    lines = 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as f:
            lines += len(f.readlines())
        if name.endswith(".jsonl"):
            results.measurements(results.read(os.path.join(folder, name))[1])
    check(0 < lines < 10_000, f"{lines} lines of results")


def bounds():
    """What ncu says becomes lines of kernels, those of one name together, and a table beside the times of bench/everywhere."""
    asked = ["gpu__time_duration.sum", "dram__bytes.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
             "lts__throughput.avg.pct_of_peak_sustained_elapsed", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
             "smsp__issue_active.avg.pct_of_peak_sustained_active", "sm__warps_active.avg.pct_of_peak_sustained_active",
             "launch__registers_per_thread"]  # fmt: skip
    marker, own, other, small = "at::spin_kernel(long)", "void bitfold::cuda::fold<int>(int)", "void at::native::copy<4>(int)", "bitfold::x<1>()"
    rows = [["Kernel Name", "device__attribute_display_name", *asked], ["", "", "ms", "Kbyte", *["%"] * 5, ""]]
    rows += [[marker, "A", *["1"] * 8], [own, "A", "1", "2,000", "10", "20", "30", "70.5", "50", "64"], [own, "A", "1", "2000", "30", "20", "30", "70.5", "50", "64"]]
    rows += [[small, "A", "0.01", *["1"] * 7], [marker, "A", *["1"] * 8], [other, "A", "3", "1", "1", "2", "3", "4", "5", "6"]]
    with open("raw.csv", "w") as f:
        f.write("==PROF== Connected\n" + "\n".join(",".join(f'"{v}"' for v in row) for row in rows) + "\n")
    with open("names", "w") as f:
        f.write("sum/f32/5/contiguous\nmax/f32/5/contiguous\n")
    ran = subprocess.run([sys.executable, os.path.join(source, "bench/everywhere/bounds.py"), "bounds.jsonl", "--read", "names", "raw.csv"], capture_output=True, text=True)
    check(ran.returncode == 0, ran.stderr)
    header, lines = results.read("bounds.jsonl")
    check(header["gpu"] == "A" and [(k["of"], k["kernel"], k["calls"], k["us"], k["mb"], k["memory"]) for k in lines]
          == [("sum/f32/5/contiguous", "fold", 2, 2000, 4, 20), ("max/f32/5/contiguous", "torch's copy", 1, 3000, 0.001, 1)], f"bounds: {lines}")  # fmt: skip
    times = [{"case": f"{op}/f32/5/contiguous", "subject": op, "us": us, "torch_us": 1.0} for op, us in (("sum", 2.0), ("max", 3.0), ("min", 1.1))]
    result_lines.write("times.jsonl", result_lines.header("everywhere", device="cuda", gpu="A", commit="c"), times)
    status, out, err = call("everywhere-table", "bounds.jsonl", "bounds", "9", "times.jsonl")
    check(status == 0 and lines_of(out, "contiguous") == ["| `torch's copy` | 1 | 3.00 | `max/f32/5/contiguous` | 1.00 | latency, 5 % of warps |",
                                                          "| `fold` | 1 | 2.00 | `sum/f32/5/contiguous` | 0.99 | instructions, 70 % |"], out + err)  # fmt: skip
    refused("everywhere-table", "times.jsonl", "bounds", "9", "times.jsonl", says="no file of bench/everywhere/bounds.py")

    # Kernels alone: those of slow cases, and what bounds them of another file.
    alone = [{"case": f"{op} fold", "of": f"{op}/f32/5/contiguous", "kernel": "fold", "us": 1.0, "share": 0.8} for op in ("max", "sum", "min")]
    result_lines.write("kernels.jsonl", result_lines.header("everywhere-bounds", device="cuda", gpu="A", commit="c", profiler="torch.profiler"), alone)
    status, out, err = call("everywhere-table", "kernels.jsonl", "bounds", "9", "times.jsonl", "bounds.jsonl")
    check(status == 0 and lines_of(out, "contiguous") == ["| `fold` | 2 | 3.00 | `max/f32/5/contiguous` | 0.80 | instructions, 70 % |"], out + err)
    check("bound by" not in call("everywhere-table", "kernels.jsonl", "bounds", "9", "times.jsonl")[1], "what bounds kernels alone")


def samples():
    """perf's samples go to the case that ran, by function, the rare ones left out."""
    sys.path.insert(0, os.path.join(source, "bench", "everywhere"))
    import bounds

    own = "bitfold::cpu::N_AVX2::(anonymous namespace)::engine<bitfold::method::additive<bitfold::tree>, float>::run(bitfold::inputs) const"
    at = [(1.5, own, "a.so")] * 16 + [(2.0, "memmove+0x1f", "/lib/libc.so.6")] * 4 + [(2.5, "rare", "a.so"), (3.5, own, "a.so"), (5.0, "at::native::copy<float>(int)", "t.so")]
    said = "".join(f" {time:.6f}:     7f00deadbeef {symbol} ({library})\n" for time, symbol, library in at)
    lines = list(bounds.lines_of_samples("sum/f32 1.0 3.0\nmax/f32 4.0 6.0\n", said + "\n"))
    check([(k["of"], k["kernel"], k["share"]) for k in lines] == [("sum/f32", "engine<additive>::run", 0.762), ("sum/f32", "memmove", 0.19),
                                                                 ("max/f32", "torch's copy<float>", 1)], lines)  # fmt: skip
    for symbol, name in (("void bitfold::run<int>(std::function<void (int)>)", "run<int>"), ("[unknown]", "[unknown]"),
                         ("bitfold::matrix::copy(long) const::{lambda(auto:1)#1}::operator()<int>(int) const", "copy"),
                         ("bitfold::each<bitfold::f(int)::{lambda(int)#1}>(int)::{lambda(int)#1}::operator()(int) const", "each<f>")):  # fmt: skip
        check(bounds.short_function(symbol, "a.so") == name, bounds.short_function(symbol, "a.so"))


def compares():
    old = {("bitfold:sum/f32", 1024): 1.0, ("bitfold:sum/f32", 4096): 2.0, ("load_only/f32", None): 5.0, ("gone/f32", 16): 1.0}
    a = file("a.jsonl", old)
    header, lines = results.read(a)
    check(len(lines) == 3 and header["bench"] == "gpu", lines)
    check(results.measurements(lines)["bitfold:sum/f32", 4096] == {"us": 2.0, "gbps": 0.5}, lines)
    check(call("compare-results", a, a)[0] == 0, "a file is slower than itself")

    # At the limit nothing is slower; above it, and only there, something is.
    same = {k: v for k, v in old.items() if k[0] != "gone/f32"}
    for factor, status in ((1.02, 0), (1.0201, 1)):
        b = file("b.jsonl", {**same, ("bitfold:sum/f32", 4096): 2.0 * factor, ("new/f32", None): 1.0})
        got, out, _ = call("compare-results", a, b)
        check(got == status, out)
        check(lines_of(out, "only in") == ["only in old  gone/f32, n = 16", "only in new  new/f32"], out)
        check(len(lines_of(out, "->")) == status, out)
    check(call("compare-results", a, b, "--limit", "1.03")[0] == 0, "--limit is not heard")
    check(call("compare-results", a, b, "--cases", "load_only")[0] == 0, "--cases is not heard")

    # The worst stands first; what became faster is said too, and is no failure.
    b = file("b.jsonl", {("bitfold:sum/f32", 1024): 1.5, ("bitfold:sum/f32", 4096): 4.0, ("load_only/f32", None): 1.0})
    status, out, _ = call("compare-results", a, b)
    check(status == 1 and [line.split()[0] for line in lines_of(out, "->")] == ["2.000", "1.500", "0.200"], out)
    check(call("compare-results", a, b, "--cases", "load")[0] == 0, "what became faster fails")

    # What cannot be compared.
    check(refused("compare-results", a, file("b.jsonl", old, target="x"), says="target: ") == 2, "status")
    check(call("compare-results", a, "b.jsonl", "--any-machine")[0] == 0, "--any-machine is not heard")
    median, fastest = (file(f"{kept}.jsonl", old, of_repetitions=kept) for kept in ("median", "fastest"))
    refused("compare-results", median, fastest, says="of_repetitions: ")
    check(call("compare-results", a, median)[0] == 0, "repetitions cannot be compared with a single time")
    for name, us in (("a", 3.0), ("b", 4.0)):
        case = {**result_lines.case("bitfold:sum/f32/8x8", 1e-6), "host_us": us}
        result_lines.write(f"host_{name}.jsonl", result_lines.header("torch_mode", gpu="A"), [case])
    status, out, _ = call("compare-results", "host_a.jsonl", "host_b.jsonl")
    check(status == 1 and "bitfold:sum/f32/8x8, host_us: 3 -> 4" in out, out)
    refused("compare-results", a, file("b.jsonl", {("other/f32", None): 1.0}), says="no case in common")
    refused("compare-results", a, file("b.jsonl", {("load_only/f32", None): float("nan")}), says="is no time")
    refused("compare-results", a, a, "--limit", "0.9", says="--limit")
    refused("compare-results", a, a, "--cases", "(", says="--cases")
    refused("compare-results", a, "nothing.jsonl", says="nothing.jsonl")
    with open("a.jsonl") as f:
        text = f.read()
    for change, says in ((lambda t: "", "is empty"), (lambda t: t.replace("bitfold-results", "x"), "header"),
                         (lambda t: t.replace('"bench":"gpu"', '"bench":"cpu"'), "bench: "),
                         (lambda t: t + "1\n", "line 5"), (lambda t: t.replace("[1024,4096]", "[1024]"), "us: is no list"),
                         (lambda t: t + t.splitlines()[1] + "\n", "is there twice")):
        check(change(text) != text, says)
        with open("b.jsonl", "w") as f:
            f.write(change(text))
        refused("compare-results", a, "b.jsonl", says=says)


def extracts():
    contestants = [{"id": f"{family}/{dtype}", "family": family, "in": dtype, "main": True}
                   for family in ("bitfold", "road") for dtype in ("f32", "f64")]
    contestants.append({"id": "hidden", "family": "bitfold", "in": "f32", "main": False})
    rows = [{"contestant": c["id"], "input": "uniform", "study": study} for c in contestants for study in ("inputs", "length")]
    report = {"format": "bitfold-report", "version": 1, "mode": "quick", "date": "d", "command": "c", "seed": 1, "headlines": [{"value": "1"}],
              "findings": [], "failures": [{"contestant": "hidden"}], "contestants": contestants,
              "inputs": [{"id": "uniform"}, {"id": "normal"}], "accuracy": rows, "bits": rows[:1], "speed": rows[:1],
              "ceilings": [{"gbps": 1}], "shapes": rows, "batches": rows, "products": rows, "ranks": rows}
    with open("report.json", "w") as f:
        json.dump(report, f)
    check(call("report-extract", "report.json", "extract.json", "--accuracy", "f32", "--shapes", "f64")[0] == 0, "report-extract")
    with open("extract.json") as f:
        text = f.read()
    made = json.loads(text)
    check(made["accuracy"] == [{"contestant": "bitfold/f32", "input": "uniform", "study": "inputs"}], made["accuracy"])
    for name in ("shapes", "batches"):
        check({r["contestant"] for r in made[name]} == {"bitfold/f64"}, made[name])
    check(made["bits"] == made["speed"] == made["ceilings"] == made["products"] == made["ranks"] == [], made)
    check([c["id"] for c in made["contestants"]] == ["bitfold/f32", "bitfold/f64", "hidden"], made["contestants"])
    check(made["inputs"] == [{"id": "uniform"}] and made["headlines"] == report["headlines"], made)
    check("f32" in made["extract"] and text.count("\n{") == sum(len(v) for v in made.values() if isinstance(v, list)), text)
    refused("report-extract", "extract.json", "again.json", "--accuracy", "f32", says="is an extract already")
    refused("report-extract", "report.json", "again.json", "--accuracy", "f33", says="no contestant of f33")


def benches(program):
    def run(*arguments):
        return subprocess.run([program, "--benchmark_filter=^(bitfold_tree|load_only)@1/f32/10*/real_time$", "--benchmark_min_time=0.001",
                               *arguments], capture_output=True, text=True)

    for repetitions in ("1", "3"):
        ran = run("--benchmark_enable_random_interleaving=true", f"--benchmark_repetitions={repetitions}", "--benchmark_out=cpu.jsonl")
        check(ran.returncode == 0, ran.stderr)
        header, lines = results.read("cpu.jsonl")
        check(header["bench"] == "cpu" and {"date", "commit", "cpu", "target", "command"} <= header.keys(), header)
        check(header.get("of_repetitions") == (None if repetitions == "1" else "median"), header)
        fields = {"us", "gbps", "cpu_us", *([] if repetitions == "1" else ["cv"])}
        check([line["case"] for line in lines] == ["load_only@1/f32", "bitfold_tree@1/f32"], lines)
        check(all(line["n"] == [1000, 10_000, 100_000, 1_000_000, 10_000_000] for line in lines), lines)
        for (case, n), x in results.measurements(lines).items():
            check(x.keys() == fields and abs(x["us"] * x["gbps"] / (n * 4e-3) - 1) < 1e-6, (case, n, x))
        check(call("bench-table", "cpu.jsonl")[0] == 0, "bench-table")
    for option in ("--benchmark_out_format=json", "--benchmark_report_aggregates_only=true", "--benchmark_nothing"):
        ran = run("--benchmark_out=other.jsonl", option)
        check(ran.returncode == 2 and option.split("=")[0] in ran.stderr and not os.path.exists("other.jsonl"), ran.stderr)
    ran = run("--benchmark_out=/dev/full")
    check(ran.returncode == 1 and "cannot be written" in ran.stderr, ran.stderr)


with tempfile.TemporaryDirectory() as folder:
    committed()
    os.chdir(folder)
    bounds()
    samples()
    compares()
    extracts()
    if len(sys.argv) > 2:
        benches(sys.argv[2])
