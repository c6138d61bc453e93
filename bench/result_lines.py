"""What the benches in Python share: writing a file of results (bench/results/README.md)."""
import datetime
import json
import platform
import sys


def rounded(x):
    """Nine significant digits: more than a time is known to, and than a table shows."""
    return float(f"{x:.9g}") if isinstance(x, float) else x


def cpu():
    """Its name, and its family and model where they are told: some names are those of several generations."""
    with open("/proc/cpuinfo") as f:
        said = dict([part.strip() for part in line.split(":", 1)] for line in f if ":" in line)
    name = said.get("model name", platform.machine())
    return f"{name}, family {said['cpu family']} model {said['model']}" if "cpu family" in said and "model" in said else name


def header(bench, **fields):
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"format": "bitfold-results", "version": 1, "bench": bench, "date": now.strftime("%Y-%m-%dT%H:%M:%SZ"), **fields,
            "command": " ".join(sys.argv)}


def case(name, seconds, size=None, n=None):
    """One measurement of the case `name`: of n elements, where it has several; of `size` bytes, where that says something."""
    return {"case": name, **({} if n is None else {"n": n}), "us": seconds * 1e6,
            **({} if size is None else {"gbps": size / seconds * 1e-9})}


def write(path, header, cases):
    """Those with an `n` stand on one line by name, with a list for each field."""
    lines = {}
    for c in cases:
        line = lines.setdefault(c["case"], {"case": c["case"]})
        for field, value in c.items():
            if "n" not in c:
                line[field] = rounded(value)
            elif field != "case":
                line.setdefault(field, []).append(rounded(value))
    with open(path, "w") as f:
        for line in [header, *lines.values()]:
            f.write(json.dumps(line, separators=(",", ":")) + "\n")
