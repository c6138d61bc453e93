#!/usr/bin/env python3
"""Runs `bitfold report` from end to end: a run that is interrupted and resumed, what it leaves behind, the
page from its report.json, and the comparison with itself. Usage: report_run_test.py BITFOLD FOLDER
(the folder is emptied; report.html stays there for the browser test)."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time


def check(condition, what):
    if not condition:
        sys.exit(f"report_run_test: {what}")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


bitfold, folder = sys.argv[1:]
shutil.rmtree(folder, ignore_errors=True)
out = os.path.join(folder, "out")
# Hostile names must reach the page as text.
array = os.path.join(folder, "<b>&amp;.npy")
os.makedirs(folder)
with open(array, "wb") as f:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }".ljust(117) + "\n"
    f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(12))
# Without the steps that take most of a run, but for one of each study and type. What they are depends on which peers Python has,
# so it has none.
os.environ["BITFOLD_PYTHON"] = "/bin/false"
heaviest = "2e6" if os.environ.get("BITFOLD_WHOLE", "0") in ("", "0") else "5e6"
command = [bitfold, "report", "--quick", "--device", "cpu", "--heaviest", heaviest, "--out", out, array]

# Interrupted as soon as something is kept. Its stderr is a terminal.
partial = os.path.join(out, "report.partial.jsonl")
terminal, stderr = pty.openpty()
first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
os.close(stderr)
seen = []


def watch():
    try:
        while part := os.read(terminal, 4096):
            seen.append(part)
    except OSError:  # the other end is closed
        pass


watcher = threading.Thread(target=watch)
watcher.start()
while first.poll() is None:
    try:
        with open(partial) as f:
            if sum(1 for _ in f) > 2:
                break
    except OSError:
        pass
    time.sleep(0.05)
beside = run(*command)
check(beside.returncode == 1 and "--out" in beside.stderr and beside.stderr.count("\n") == 1,
      f"a second run into the same folder: {beside.returncode} {beside.stderr}")
first.send_signal(signal.SIGINT)
first.wait()
watcher.join()
errors = re.sub("\x1b\\[[0-9;]*m", "", b"".join(seen).decode())  # without colours
check(first.returncode == 130, f"exit status after SIGINT is {first.returncode}: {errors}")
check("\nbitfold: interrupted; the same command goes on" in errors, f"no line of the interrupt: {errors}")
check(os.listdir(out) == ["report.partial.jsonl"], f"left behind: {os.listdir(out)}")
with open(partial) as f:
    kept = f.readlines()
began = json.loads(kept[0])["date"]
with open(partial, "a") as f:
    f.write(kept[-1][: len(kept[-1]) // 2])  # as a crash in the middle of a line would

second = run(*command)
check(second.returncode == 0, f"exit status {second.returncode}: {second.stderr}")
check(f"going on with an interrupted run: {len(kept) - 1} of" in second.stderr, second.stderr[:300])
check(sorted(os.listdir(out)) == ["report.html", "report.json"], f"left behind: {os.listdir(out)}")
check(second.stdout.rstrip().endswith("report.html"), "the output does not end with the page's path")

path = os.path.join(out, "report.json")
with open(path) as f:
    report = json.load(f)
check(report["date"] == began, f"began {began}, says {report['date']}")
check(report["findings"] == [], f"broken promises: {report['findings']}")
check(len(report["headlines"]) == 5, "not five headlines")
for rows in ("accuracy", "bits", "speed", "ceilings", "shapes", "batches", "products", "product_bits", "product_speed", "ranks", "missing"):
    check(report[rows], f"{rows} is empty")
keys = [(r["contestant"], r["study"], r["input"], r["in"], r["n"]) for r in report["accuracy"]]
check(len(keys) == len(set(keys)), "a row is there twice")
check(any(r["study"] == "files" for r in report["accuracy"]), "the file took no part")

again = run(bitfold, "report", "--from", path, "--out", os.path.join(folder, "again"))
check(again.returncode == 0, again.stderr)
with open(os.path.join(out, "report.html")) as a, open(os.path.join(folder, "again", "report.html")) as b:
    check(a.read() == b.read(), "--from makes another page")
same = run(bitfold, "report", "--compare", path, path)
check(same.returncode == 0 and "bits that are promised moved in 0" in same.stdout, same.stdout[-300:])
row = next(r for r in report["accuracy"] if r["contestant"] == "bitfold/sum/tree/f32/f32/f32/cpu")
row["bits"] = "00000000"
changed = os.path.join(folder, "changed.json")
with open(changed, "w") as f:
    json.dump(report, f)
worse = run(bitfold, "report", "--compare", path, changed)
check(worse.returncode == 1 and "WORSE  bits" in worse.stdout, worse.stdout[-300:])

# The page's made-up report is one.
fixture = os.path.join(folder, "fixture.json")
maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "report_page", "make_fixture.py")
for more, status in ([], 1), (["--kept"], 0):
    subprocess.run([sys.executable, maker, fixture, *more], check=True)
    made = run(bitfold, "report", "--from", fixture, "--out", os.path.join(folder, "fixture"))
    check(made.returncode == status, f"{more}: exit status {made.returncode}, not {status}: {made.stderr}")

integers = os.path.join(folder, "integers.npy")
with open(array, "rb") as a, open(integers, "wb") as b:
    b.write(a.read().replace(b"<f4", b"<i4"))
for arguments, status, word in (
        (["--quick"], 2, "--out"),
        (["--from", "nowhere.json"], 3, "nowhere.json"),
        (["--compare", path], 2, "--compare"),
        (["--from", path, "--quick"], 2, "--from"),
        (["--from", path, array], 2, "--from"),
        (["--seed", "-1", "--out", os.path.join(folder, "x")], 2, "--seed"),
        (["--seed", "99999999999999999999", "--out", os.path.join(folder, "x")], 2, "--seed"),
        (["--device", "cpu", "--out", os.path.join(folder, "x"), array, array], 2, "given twice"),
        (["--device", "cpu", "--out", os.path.join(folder, "x"), array, integers], 3, "integers.npy: no float array"),
        (["--device", "cpu", "--out", os.path.join(array, "x")], 1, "--out"),
        (["--from", path, "--out", os.path.join(array, "x")], 1, "--out"),
        (["--quick", "--device", "cuda", "--out", out], 4, "--device cuda"),
        (["--quick", "--out", os.path.join(folder, "x"), "nowhere.npy"], 3, "nowhere.npy")):
    if "cuda" in arguments and report["machine"]["gpus"]:
        continue
    got = run(bitfold, "report", *arguments)
    check(got.returncode == status, f"{arguments}: exit status {got.returncode}, not {status}")
    check(word in got.stderr and got.stderr.count("\n") == 1, f"{arguments}: {got.stderr}")
check(not os.path.exists(os.path.join(folder, "x")), "a failed run left a folder behind")
print("report_run_test: fine")
