#!/usr/bin/env python3
"""Which columns of a table scripts/units refuses. Usage: units_test.py SOURCE"""
import os
import subprocess
import sys
import tempfile

script = os.path.join(sys.argv[1], "scripts", "units")


def check(refused, *rows):
    """`refused`: how many columns of the table of these rows, headings first."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.md")
        with open(path, "w") as f:
            f.write("\n".join(["Text.", "", rows[0], "|" + "--|" * (rows[0].count("|") - 1), *rows[1:], "", "More."]))
        ran = subprocess.run([sys.executable, script, path], capture_output=True, text=True)
    if (ran.stdout.count("units: "), ran.returncode) != (refused, int(refused > 0)):
        sys.exit(f"units_test: {rows}: status {ran.returncode}\n{ran.stdout}{ran.stderr}")


check(1, "| who | speed |", "| a | 3 |")
check(2, "| n | speed |", "| 1,000 | 0.5 (0.9) |", "| 2^20 | ~3e+04 |")
check(0, "| who | speed, GB/s |", "| a | 3 |")
check(0, "| who | speed |", "| a | 3 GB/s |", "| b | 5 % |", "| c | 2× |")
check(0, "| threads | what |", "| 3 | three |")
check(0, "| who; cells: us | a | b |", "| x | 3 | 4 |")
check(1, "| 7; cells: us | a |", "| 3 | 4 |")  # the first column is none of these cells
check(1, "| who; cells: things | a |", "| x | 3 |")
check(1, "| who | speed |", "| a | 3 |", "| b | fast |")
check(0, "| who | speed |", "| a | 3 |", "| b | fast |", "| c | faster |")
check(0, "| who | how |", "| a | `3` |", "| b | 2x3 of them |", "| c | |")
check(0, "```", "| who | speed |", "|--|--|", "| a | 3 |", "```")
