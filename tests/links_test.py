#!/usr/bin/env python3
"""What scripts/links finds. Usage: links_test.py SOURCE"""
import os
import subprocess
import sys
import tempfile

script = os.path.join(sys.argv[1], "scripts", "links")
GOOD = {
    "README.md": "# A `b`, c\n[x](docs/own.md#part-1-one) [a folder](docs) [web](https://example.org/nothing) `[code](nowhere)`\n[up](#a-b-c)\n```\n[code](no)\n```\n",
    "docs/index.md": "# I\n[p](own.md), [r](../README.md)\n",
    "docs/own.md": "# Own\n## Part 1: [one](own.md)\n## Part\n## Part\n[second](#part-1)\n",
}


def check(files, says):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w") as f:
                f.write(text)
        ran = subprocess.run([sys.executable, script, root], capture_output=True, text=True)
    if (ran.stdout.splitlines(), ran.returncode) != (says, bool(says)):
        sys.exit(f"links_test: {ran.stdout!r}, status {ran.returncode}, not {says}; {ran.stderr}")


check(GOOD, [])
check({**GOOD, "docs/more.md": "# M\n"}, ["docs/index.md: does not name more.md"])
for link in ("gone.md", "own.md#part-3", "#x", "README.md", "../docs/gone/", "index.md#i-1"):
    check({**GOOD, "docs/own.md": GOOD["docs/own.md"] + f"[x]({link})\n"}, [f"docs/own.md: {link} leads nowhere"])
