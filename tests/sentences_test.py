#!/usr/bin/env python3
"""What scripts/sentences counts, and when it fails. Usage: sentences_test.py SOURCE"""
import os
import subprocess
import sys
import tempfile

script = os.path.join(sys.argv[1], "scripts", "sentences")


def check(text, sentences, mean, longest, status, name="page.md"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            f.write(text)
        ran = subprocess.run([sys.executable, script, path], capture_output=True, text=True)
    got = ran.stdout.splitlines()[1].split()[1:4]
    if (got, ran.returncode) != ([str(sentences), f"{mean:.1f}", str(longest)], status):
        sys.exit(f"sentences_test: {text[:60]!r}...: {got}, status {ran.returncode}")


def of(words):
    return " ".join(["Word", *["word"] * (words - 1)]) + ". "


check(of(3) + of(5), 2, 4, 5, 0)
check(of(35), 1, 35, 35, 1)  # the mean
check(of(35) + of(9), 2, 22, 35, 0)
check(of(36) + of(4), 2, 20, 36, 1)
check(of(22), 1, 22, 22, 0)
check(of(23), 1, 23, 23, 1)
check("Label. " + of(4), 1, 4, 4, 0)
# What is no prose.
aside = of(40)
for block in (f"```sh\n{aside}\n```", f"| a |\n|--|\n| {aside} |", f"<!-- begin: x -->\n{aside}\n<!-- end -->", f"# {aside}",
              f"1. ```\n   {aside}\n   ```"):
    check(f"{of(4)}\n\n{block}\n\n{of(6)}", 2, 5, 6, 0)
# What ends a sentence, and what does not.
check("- One two three\n- four five six seven\n  eight nine\n\nTen one two three", 3, 4.3, 6, 0)
check("Less than 2.5 of it, e.g. This one: a; b. bitfold adds `a. B c` up. `Code` is one word. (As here it is.) Yes it is?", 5, 5, 10, 0)
check("[Words of a link](https://example.org/a b) count, **but** not its address.", 1, 9, 9, 0)
check("It is said above. [docs/own.md](own.md#a) has more of it.", 2, 4.5, 5, 0)
check(f"Head of it all.\n\n## 2\n\n{of(5)}\n\n## 1\n\n{aside}", 2, 4.5, 5, 0, "CHANGELOG.md")
