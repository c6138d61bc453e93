"""Reads a file of results (bench/results/README.md), for the scripts that print or compare them."""
import json


def read(path):
    """The header, and the other lines. ValueError: it is no such file."""
    with open(path) as f:
        lines = f.read().splitlines()
    try:
        header, *rest = map(json.loads, lines)
    except ValueError as e:
        raise ValueError("its lines are not JSON, or it is empty") from e
    if not isinstance(header, dict) or (header.get("format"), header.get("version")) != ("bitfold-results", 1):
        raise ValueError("its first line is no header of bitfold-results, version 1")
    for k, line in enumerate(rest):
        if not isinstance(line, dict):
            raise ValueError(f"line {k + 2}: is no JSON object")
    return header, rest


def measurements(lines):
    """{(case, n): {field: value}}, in the order of the file; n is None where a case has none."""
    out = {}
    for line in lines:
        if "case" not in line:
            continue
        fields = {name: x for name, x in line.items() if name not in ("case", "n")}
        at = [None]
        if "n" in line:
            at = line["n"]
            for name, x in line.items():
                if name != "case" and (not isinstance(x, list) or len(x) != len(at)):
                    raise ValueError(f"{line['case']}: {name}: is no list as long as n")
        for k, n in enumerate(at):
            if (line["case"], n) in out:
                raise ValueError(f"{line['case']}: is there twice")
            out[line["case"], n] = {name: x if n is None else x[k] for name, x in fields.items()}
    return out


def pairs(lines, peer):
    """[((call, n), bitfold's fields, the peer's)] of a bench whose cases are `bitfold:CALL` and `PEER:CALL`."""
    every = measurements(lines)
    return [((case.removeprefix("bitfold:"), n), ours, every[case.replace("bitfold", peer, 1), n])
            for (case, n), ours in every.items() if case.startswith("bitfold:")]
