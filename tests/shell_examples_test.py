#!/usr/bin/env python3
"""The commands that the documents show behind a `$`, run in a folder that has their files; what takes a GPU, another program or
minutes is left out. Usage: shell_examples_test.py ROOT BITFOLD"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PAGES = ("README.md", "docs/command-line.md", "docs/exact.md", "docs/regression.md", "docs/shapes.md", "docs/cuda.md", "docs/pytorch.md")
LEFT_OUT = r"--device cuda|bitfold report |kernels make|--pack kernels|train\.py|zstd |man -l|source <|^size |\.config/fish|run1\.safetensors"
DIFFERS = 1  # the status of `diff` where something moved


def npy(path, shape, letter, code, values):
    head = str({"descr": code, "fortran_order": False, "shape": shape})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{letter}", *values))


def safetensors(path, tensors):
    data, head = b"", {}
    for name, values in tensors.items():
        added = struct.pack(f"<{len(values)}f", *values)
        head[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(added)]}
        data += added
    text = json.dumps(head).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make_files(folder):
    def floats(name, *shape):
        n = 1
        for extent in shape:
            n *= extent
        npy(folder / name, shape, "f", "<f4", [k / 7 for k in range(n)])

    for name in ("data.npy", "x.npy", "w.npy"):
        floats(name, 2, 3, 4)
    for name in ("a.npy", "b.npy"):
        floats(name, 3, 3)
    for name in ("logits.npy", "huge.npy", "v.npy"):
        floats(name, 10)
    npy(folder / "counts.npy", (3,), "q", "<i8", [1, 2, 3])
    npy(folder / "keys.npy", (10,), "q", "<i8", [k % 4 for k in range(10)])
    npy(folder / "offsets.npy", (4,), "q", "<i8", [0, 3, 3, 10])
    tensors = {"layers.0.w": [1, 2, 3], "layers.1.w": [4, 5]}
    for name in ("weights", "model", "old", "new", "before", "after", "step-100", "again/step-100"):
        safetensors(folder / f"{name}.safetensors", tensors)
    safetensors(folder / "new.safetensors", tensors | {"layers.1.w": [4, 6]})
    for k, name in enumerate(tensors):
        for shard in ("shard", "shard-"):
            safetensors(folder / f"{shard}{k}.safetensors", {name: tensors[name]})
    places = {name: f"shard-{k}.safetensors" for k, name in enumerate(tensors)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def commands(text):
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M):
        for line in re.findall(r"^\$ (.*)$", block, re.M):
            if not re.search(LEFT_OUT, line):
                yield line


def main(root, bitfold):
    ran, failed = 0, []
    environment = {**os.environ, "PATH": f"{Path(bitfold).resolve().parent}:{os.environ['PATH']}"}
    for page in PAGES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_files(folder)
            for line in commands((Path(root) / page).read_text()):
                shape = (10,) if "--keys" in line else (2, 3, 4)
                npy(folder / "data.npy", shape, "f", "<f4", [k / 7 for k in range(10 if "--keys" in line else 24)])
                did = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True)
                ran += 1
                if did.returncode not in ((0, DIFFERS) if " diff " in line else (0,)) or did.stderr:
                    failed.append(f"{page}: {line}\n  status {did.returncode}: {did.stderr}")
    print("\n".join(failed) or f"{ran} commands ran")
    sys.exit(1 if failed or ran < 30 else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
