#!/usr/bin/env python3
"""Writes a report.json (docs/report-format.md, version 1) for the tests of the report's page. Its numbers
are made up, and the same on every run. Usage: make_fixture.py OUT.json [--size small|full] [--kept]"""
import argparse
import json
import math
import random

HOSTILE = '</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> "quoted", \u2028 {{page.js}} $rows'
DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
INPUTS = ["uniform", "normal", "lognormal60", "positive", "alternating", "relu_sparse", "sorted_up", "sorted_down", "stagnation",
          "f16_overflow", "f16_underflow", "lecture_1e20", "lecture_1000", "anderson", "heavy_tail", "cancel_1e2", "cancel_1e4",
          "cancel_1e8", "cancel_1e16", "constant", "powers", "harmonic", "gradient", "integers", "zeros"]

# name, family, method, devices, element types, accumulator ("" unknown, "=" the element type), depth of the error
# (see depth()), GB/s of one CPU or of the GPU
WHO = [
    ("bitfold tree", "bitfold", "tree", "both", "all", "f32", "log", 60),
    ("bitfold pairwise", "bitfold", "pairwise", "both", "all", "f32", "log", 55),
    ("bitfold kahan", "bitfold", "kahan", "both", "all", "f32", "none", 52),
    ("bitfold sequential", "bitfold", "sequential", "cpu", "all", "f32", "n", 3.4),
    ("bitfold exact", "bitfold", "exact", "both", "all", "exact", "none", 54),
    ("plain <i>&amp;</i>", "plain", None, "cpu", "all", "=", "n", 3.3),
    ("NumPy sum", "NumPy", None, "cpu", ["f16", "f32", "f64"], "", "log", 11),
    ("PyTorch sum", "PyTorch", None, "both", "all", "f32", "log", 48),
    ("PyTorch sum, deterministic", "PyTorch", None, "both", "all", "f32", "log", 47),
    ("OpenBLAS asum", "OpenBLAS", None, "cpu", ["f32", "f64"], "=", "sqrt", 22),
    ("xsum", "xsum", None, "cpu", ["f64"], "exact", "none", 4.1),
    ("ReproBLAS", "ReproBLAS", None, "cpu", ["f32", "f64"], "", "none", 6.5),
    ("CUB not_guaranteed", "CUB", None, "cuda", "all", "f32", "log", 66),
    ("CUB run_to_run", "CUB", None, "cuda", "all", "f32", "log", 61),
    ("CUB gpu_to_gpu", "CUB", None, "cuda", ["f32", "f64"], "", "none", 38),
    ("cuBLAS dot", "cuBLAS", None, "cuda", ["f32", "f64"], "", "log", 58),
] + [(f"road {k:02}", "road", None, "cuda", ["f32"], "f32", "sqrt", 3 + 4 * k) for k in range(1, 15)]


def depth(kind, n):
    return {"none": 0.1, "log": math.log2(n) / 3, "sqrt": math.sqrt(n) / 4, "n": n / 40}[kind]


def number(x):
    if math.isnan(x):
        return "nan"
    return x if math.isfinite(x) else "inf" if x > 0 else "-inf"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--kept", action="store_true", help="no broken promise")
    args = parser.parse_args()
    rnd = random.Random(1)

    contestants, model = [], {}
    for name, family, method, devices, types, acc, kind, gbps in WHO:
        for dev in ["cpu", "cuda"] if devices == "both" else [devices]:
            for t in DIGITS if types == "all" else types:
                first = "f64" if t == "f64" and acc == "f32" else t if acc == "=" else acc
                choices = [(first, t)]
                if family == "bitfold":
                    if method == "exact":
                        choices += [(first, o) for o in ("f32", "f64") if o != t]
                    else:
                        choices += [(a, o) for a, o in [(first, "f32"), (first, "f64"), ("f64", t), ("f64", "f64")] if (a, o) != (first, t)]
                for a, o in choices:
                    c = {"id": f"{name.replace(' ', '/')}/{t}/{a or 'unknown'}/{o}/{dev}", "name": name, "family": family, "method": method,
                         "device": dev, "in": t, "acc": a, "out": o, "promise": family == "bitfold", "main": (a, o) == (first, t),
                         "about": f"{name}, as its makers recommend it."}
                    contestants.append(c)
                    model[c["id"]] = (kind, gbps * (60 if dev == "cuda" else 1))

    def accuracy(c, study, name, n, condition):
        kind, gbps = model[c["id"]]
        u_acc = 2.0 ** -DIGITS.get(c["acc"], 24 if c["in"] != "f64" else 53)
        u_out = 2.0 ** -DIGITS[c["out"]]
        relative = condition * u_acc * depth(kind, n) * rnd.uniform(0.2, 1) + u_out * rnd.uniform(0.1, 0.9)
        bound = condition * u_acc * {"none": 0.02, "log": math.log2(n) + 2, "sqrt": n, "n": n}[kind] + 2 * u_out
        if name in ("zeros", "integers", "powers") or rnd.random() < 0.01:
            relative = 0.0
        if name == "f16_overflow" and c["out"] == "f16":
            relative = math.inf if rnd.random() < 0.8 else math.nan
        ulps = relative / (2 * u_out)
        exact = 0.0 if name == "zeros" else rnd.uniform(1, 2) * 2.0 ** rnd.randint(-3, 12)
        return {
            "contestant": c["id"], "input": name, "in": c["in"], "n": n, "study": study, "samples": 3, "condition": number(condition),
            "value": repr(exact * (1 + relative)), "bits": f"{rnd.getrandbits(8 * BYTES[c['out']]):0{2 * BYTES[c['out']]}x}",
            "exact": repr(exact), "ulps": number(ulps), "ulps_mean": number(ulps * 0.6), "bias_ulps": number(ulps * rnd.uniform(-0.5, 0.5)),
            "relative": number(relative),
            "correct_bits": 0.0 if not relative < 1 else float(DIGITS[c["out"]]) if relative == 0 else min(DIGITS[c["out"]], -math.log2(relative)),
            "bound_relative": number(bound) if c["promise"] or c["family"] == "plain" else None,
            "bound_ratio": number(relative / bound) if c["promise"] else None,
            "running_ratio": number(min(1, relative / bound * 5)) if c["promise"] else None,
            "stagnations": rnd.randint(0, 9) if name == "stagnation" else 0, "overflows": 3 if relative == math.inf else 0,
            "permutations": {"tried": 20, "distinct": 1 if c["method"] == "exact" else rnd.randint(1, 20)} if study == "inputs" else None,
            "gbps": gbps * rnd.uniform(0.9, 1.1) if study == "inputs" and c["family"] != "ReproBLAS" else None,
        }

    inputs = [{"id": name, "about": f"Made-up description of {name}.", "kind": "generated"} for name in INPUTS]
    chief = [c for c in contestants if c["main"]]
    rows = []
    for c in chief:
        for i, name in enumerate(INPUTS):
            rows.append(accuracy(c, "inputs", name, 1 << 20, 10.0 ** (i - 14) if name.startswith("cancel") else 1 + i * i))
        for name in ["uniform", "normal"]:
            for k in range(4, 25, 2):
                rows.append(accuracy(c, "length", name, 1 << k, 1.0 if name == "uniform" else 2.0 ** (k / 2)))
        for k in range(0, 41, 2):
            if k <= 8 or c["in"] != "f16":
                rows.append(accuracy(c, "condition", f"condition_1e{k}", 4096, 10.0**k))
    inputs += [{"id": f"condition_1e{k}", "about": f"Its condition number is within a factor of 2 of 1e{k}.", "kind": "generated"} for k in range(0, 41, 2)]
    for c in contestants:
        for name in ["uniform", "stagnation", "f16_overflow"]:
            rows.append(accuracy(c, "types", name, 65536, 1.0))
    tensors = [f"model.safetensors:layers.{i}.weight" for i in range(200 if args.size == "full" else 12)] + [HOSTILE, "=1+1"]
    inputs += [{"id": t, "about": "shape [64, 128]", "kind": "file"} for t in tensors]
    for c in chief:
        if c["in"] == "f32":
            rows += [accuracy(c, "files", t, 8192, 300.0) for t in tensors]

    # Other operations, of which a peer has some.
    others = []
    for name, family, method, devices, types, acc, kind, gbps in WHO:
        if name not in ("bitfold tree", "bitfold kahan", "bitfold exact", "NumPy sum", "PyTorch sum"):
            continue
        for op in ["mean", "max", "argmax", "dot"]:
            if op in ("max", "argmax") and method in ("kahan", "exact") or op == "dot" and family == "NumPy":
                continue
            for dev in ["cpu", "cuda"] if devices == "both" else [devices]:
                for t in DIGITS if types == "all" else types:
                    out = "i64" if op == "argmax" else t
                    c = {"id": f"{family}/{op}/{method}/{t}/{dev}", "name": f"{family} {op}", "family": family, "method": method if op in ("mean", "dot") else None,
                         "device": dev, "in": t, "acc": acc, "out": out, "promise": family == "bitfold", "main": False, "about": f"{op}, <i>made up</i>", "op": op}
                    others.append(c)
                    model[c["id"]] = (kind, gbps * (60 if dev == "cuda" else 1))
                    for name_of_input in ["uniform", "normal"]:
                        if op == "argmax":
                            exact = {"value": "7", "exact": "7", "ulps": 0.0, "ulps_mean": 0.0, "bias_ulps": None, "relative": None, "bound_relative": None, "bound_ratio": None}
                            rows.append({**accuracy({**c, "out": t}, "operations", name_of_input, 10007, 1.0), **exact})
                        else:
                            rows.append(accuracy(c, "operations", name_of_input, 10007, 1.0))
    contestants += others

    bits = []
    for c in contestants:
        ways = ["default", "blocks 33", "blocks 264, threads 512"] if c["device"] == "cuda" else [
            f"{target}, {threads} threads" for target in ["scalar", "avx2"] for threads in [1, 2, 3, 16]] if c["promise"] else ["default"]
        same = random.Random(c["name"] + c["in"] + c["acc"] + c["out"])
        reference = f"{same.getrandbits(128):032x}"
        stable = c["promise"] or c["family"] not in ("road", "cuBLAS") and "not_guaranteed" not in c["name"]
        for way in ways:
            broken = not args.kept and c["name"] == "bitfold sequential" and c["in"] == "f32" and c["main"] and way == "avx2, 3 threads"
            bits.append({"contestant": c["id"], "device_name": "Example GPU 9" if c["device"] == "cuda" else "Example CPU 5000", "variation": way,
                         "arrays": 40, "repeats": 5, "digest": reference if stable and not broken else f"{rnd.getrandbits(128):032x}",
                         "distinct": 1 if stable else rnd.randint(1, 5), "equal": (not broken) if c["promise"] else None})

    speed, ceilings = [], []
    for device, peaks, start in [("cpu", {1: 14.0, 0: 70.0}, 2e-7), ("cuda", {None: 4600.0}, 1.5e-6)]:
        for k in range(10, 29, 2):
            for threads, peak in peaks.items():
                ceilings.append({"device": device, "threads": threads, "bytes": 4 << k, "gbps": (4 << k) / (start + (4 << k) / peak / 1e9) / 1e9})
    for c in chief + others:
        kind, gbps = model[c["id"]]
        for threads in [None] if c["device"] == "cuda" else [1, 0] if c["promise"] and c["method"] != "sequential" else [1]:
            peak = min(gbps, 13.0) if threads == 1 else gbps
            for k in range(10, 29, 2) if c["main"] else [20]:
                size = BYTES[c["in"]] << k
                took = ((2e-6 if c["device"] == "cuda" else 3e-7) + size / peak / 1e9) * rnd.uniform(1, 1.15)
                speed.append({"contestant": c["id"], "in": c["in"], "n": 1 << k, "bytes": size,
                              "variation": "default" if threads is None else "1 thread" if threads == 1 else "all cores", "threads": threads,
                              "seconds": took, "cv": 0.01, "gbps": size / took / 1e9, "ceiling_ratio": rnd.uniform(0.3, 1)})

    shapes, batches = [], []
    for c in chief:
        if c["family"] not in ("bitfold", "NumPy", "PyTorch"):
            continue
        threads = None if c["device"] == "cuda" else 0
        for layout in ("rows", "columns"):
            for length in (16, 256, 4096, 65536):
                gbps = model[c["id"]][1] * rnd.uniform(0.3, 1) * (60 if c["device"] == "cuda" else 1)
                at = {"contestant": c["id"], "in": c["in"], "layout": layout, "length": length, "variation": "default"}
                shapes.append({**at, "outputs": (1 << 20) // length, "bytes": BYTES[c["in"]] << 20, "threads": threads,
                               "seconds": (BYTES[c["in"]] << 20) / gbps / 1e9, "gbps": gbps, "ceiling_ratio": 0.5})
                shows = c["family"] != "bitfold" and layout == "columns"
                batches.append({**at, "batches": 4, "largest": 1024, "distinct": 2 if shows else 1, "changed": 64 if shows else None})

    # Products of matrices, and sums over ranks: those of a peer and of a model have other bits.
    product_inputs = ["normal", "uniform", "outlier-single", "outlier-column", "dots-1e4", "dots-1e8", "dots-1e16"]
    inputs += [{"id": i, "about": f"products: {i}", "kind": "generated"} for i in product_inputs if i not in INPUTS]
    products, product_bits, product_speed, ranks = [], [], [], []

    def entry(family, op, name, method, t):
        c = {"id": f"{family}/{op}/{method or name}/{t}", "name": name, "family": family, "method": method, "device": "cpu", "in": t, "acc": "f32", "out": t,
             "promise": family == "bitfold", "main": False, "about": f"{name}, <i>made up</i>", "op": op}
        contestants.append(c)
        return c

    for t in ["f32", "bf16"]:
        for family, name, method in [("bitfold", "bitfold matmul fixed", "fixed"), ("bitfold", "bitfold matmul tree", "tree"),
                                     ("bitfold", "bitfold matmul exact", "exact"), ("PyTorch", "PyTorch matmul <b>", None), ("plain", "plain loops", None)]:
            c = entry(family, "matmul", name, method, t)
            shape = {"rows": 16, "inner": 1003, "columns": 16}
            for k, name_of_input in enumerate(product_inputs):
                error = 2.0 ** -DIGITS[t] * rnd.uniform(0.1, 3)
                products.append({
                    "contestant": c["id"], "input": name_of_input, "in": t, **shape, "elements": 16 if k > 3 else 256, "condition": 10.0 ** k,
                    "digest": f"{rnd.getrandbits(128):032x}", "ulps": "inf" if name_of_input == "dots-1e16" and family == "plain" else error * 10.0 ** k,
                    "ulps_median": 0.25, "relative": error, "relative_median": error / 4,
                    "bound_ratio": None if family == "PyTorch" else 0.01 * k, "overflows": 0})
            shows = family == "PyTorch"
            product_bits.append({
                "contestant": c["id"], "in": t, "rows": 64, "inner": 500, "columns": 48, "ways": 1 if family == "plain" else 9, "way_results": 2 if shows else 1, "batches": 5,
                "batch_results": 3 if shows else 1, "changed": 2 if shows else None, "layouts": 4, "layout_results": 1,
                "equal": True if family == "bitfold" else None})
            for threads in [0, 1]:
                product_speed.append({
                    "contestant": c["id"], "in": t, "rows": 256, "inner": 256, "columns": 256, "variation": f"{threads} threads", "threads": threads,
                    "seconds": 1e-3, "gflops": rnd.uniform(1, 300), "noisy": shows and threads == 0})
        for family, name, method in [("bitfold", "bitfold ranks tree", "tree"), ("bitfold", "bitfold ranks exact", "exact"), ("plain", "ring (model)", None)]:
            c = entry(family, "all_reduce", name, method, t)
            for name_of_input in ["normal", "uniform"]:
                for k in [1, 2, 3, 4, 8]:
                    ranks.append({
                        "contestant": c["id"], "input": name_of_input, "in": t, "ranks": k, "contributions": 32, "results": 1024,
                        "changed": 0 if family == "bitfold" or k == 1 else 100 * k, "digest": f"{k:032x}", "ulps": 0.5 * k, "ulps_median": 0.3,
                        "bound_ratio": 0.1 if family == "bitfold" else None})

    broken = next(c for c in chief if c["name"] == "bitfold sequential" and c["in"] == "f32")
    report = {
        "format": "bitfold-report", "version": 1, "mode": "full", "date": "2026-11-21T12:00:00Z",
        "command": "bitfold report --out out --full model.safetensors", "seed": 1,
        "bitfold": {"version": "0.1.0", "order_version": 1, "commit": "0123456789abcdef0123456789abcdef01234567"},
        "machine": {"system": "Linux 6.1", "cpu": "Example CPU 5000", "cores": 16, "cpu_targets": ["scalar", "avx2"], "gpus": ["Example GPU 9"],
                    "compiler": "g++ 12.2.0", "cuda": "13.0"},
        "software": [{"name": "NumPy", "version": "2.4.6"}, {"name": "PyTorch", "version": "2.9.1"}],
        "missing": [{"name": "BLIS", "why": "libblis was not found <b>here</b>"}],
        "failures": [{"contestant": contestants[-1]["id"], "where": "inputs: zeros", "why": "out of <b>memory</b>"}],
        "wrong": [{"contestant": c["id"], "variation": "2 threads", "where": "f32[1000]", "expected": "106", "got": "<b>123</b>"}
                  for c in contestants if c["family"] == "OpenBLAS" and c["in"] == "f32"],
        "headlines": [
            {"value": "1 of 1", "label": "different results", "note": "of bitfold tree over every device, thread count and launch shape"},
            {"value": "98 %", "label": "of the read ceiling", "note": "bitfold tree, f32, 2^28 elements on Example GPU 9"},
            {"value": "0.5 ulps", "label": "largest error of bitfold kahan", "note": "over inputs with a condition number up to 1e6"},
            {"value": "17×", "label": "faster than left to right", "note": "bitfold tree on 16 cores, f32, 2^20 elements"},
            {"value": "1.04×", "label": "tree's time is the price of the truth", "note": "exact, f32, 2^28 elements on Example GPU 9"}],
        "findings": [] if args.kept else [
            {"contestant": broken["id"], "kind": "bits", "where": "normal, 1048576 elements, avx2, 3 threads", "expected": "0x42c80000", "got": "0x42c80001"}],
        "contestants": contestants, "inputs": inputs, "accuracy": rows, "bits": bits, "speed": speed, "ceilings": ceilings,
        "shapes": shapes, "batches": batches, "products": products, "product_bits": product_bits, "product_speed": product_speed, "ranks": ranks,
    }
    with open(args.out, "w", encoding="utf-8") as f:
        f.write("{")
        for i, (key, value) in enumerate(report.items()):
            f.write((",\n" if i else "\n") + json.dumps(key) + ": ")
            if isinstance(value, list) and value:
                f.write("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in value) + "\n]")
            else:
                f.write(json.dumps(value, allow_nan=False))
        f.write("\n}\n")


if __name__ == "__main__":
    main()
