#!/usr/bin/env python3
"""The GitHub Action, step by step as GitHub runs it, and the hook of pre-commit. Usage: workflows_test.py SOURCE BITFOLD"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, BITFOLD = (Path(argument).resolve() for argument in sys.argv[1:3])
ACTION = (SOURCE / "action/action.yml").read_text()


def inputs_of(text):
    """Each input with its default; None where it is required."""
    inputs = text[text.index("inputs:\n") : text.index("runs:\n")]
    return {name: None if "required: true" in body else re.search(r"default: '(.*)'", body)[1]
            for name, body in re.findall(r"^  (\w+):\n((?:    .*\n)+)", inputs, re.M)}  # fmt: skip


def steps_of(text):
    for step in text.split("    - name: ")[1:]:
        yield re.search(r"run: (.*)", step)[1], dict(re.findall(r"^        (\w+): \$\{\{ inputs\.(\w+) \}\}$", step, re.M))


class Workflows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()
        (self.folder / "bin/bitfold").symlink_to(BITFOLD)
        self.environment = {**os.environ, "PATH": f"{self.folder}/bin:/usr/bin:/bin", "GITHUB_ACTION_PATH": str(SOURCE / "action"),
                            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md")}  # fmt: skip
        for name in ("a", "b"):
            (self.folder / name).write_bytes(bytes(range(9)))
        self.run_in(BITFOLD, "record", "--dtype", "u8", "--out", "golden.json", "a", "b")

    def run_in(self, *command, **options):
        return subprocess.run([str(c) for c in command], cwd=self.folder, env=self.environment, text=True, capture_output=True, **options)

    def action(self, **given):
        """The status and the output of its steps, until one fails."""
        inputs = inputs_of(ACTION)
        self.assertLessEqual(set(given), set(inputs))
        values = {name: given.get(name, default) for name, default in inputs.items()}
        self.assertNotIn(None, values.values())
        output = ""
        for command, variables in steps_of(ACTION):
            self.environment |= {variable: values[name] for variable, name in variables.items()}
            ran = self.run_in("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", command)
            output += ran.stdout + ran.stderr
            if ran.returncode:
                break
        return ran.returncode, output

    def test_the_action_has_its_inputs_and_steps(self):
        self.assertEqual(inputs_of(ACTION), {"golden": None, "files": "", "ulps": "", "junit": "", "package": ""})
        used = [set(variables.values()) for _, variables in steps_of(ACTION)]
        self.assertEqual(used, [{"package"}, {"golden", "files", "ulps", "junit"}])

    def test_all_is_the_same(self):
        status, output = self.action(golden="golden.json")
        self.assertEqual((status, output), (0, "2 files, 2 arrays: 2 same\n"))
        self.assertIn("2 same", (self.folder / "summary.md").read_text())

    def test_what_moved_is_annotated(self):
        (self.folder / "b").write_bytes(bytes(range(1, 10)))
        status, output = self.action(golden="golden.json", files="[ab]\n", junit="report.xml")
        self.assertEqual(status, 1)
        self.assertIn("\n::error title=bitfold check::moved   b\n", output)
        self.assertEqual(output.count("::error"), 1)
        self.assertIn('failures="1"', (self.folder / "report.xml").read_text())
        self.assertEqual(self.action(golden="golden.json", ulps="9")[0], 0)
        self.assertEqual(self.action(golden="golden.json", ulps="8")[0], 1)

    def test_what_is_not_there(self):
        status, output = self.action(golden="golden.json", files="a\nc*")
        self.assertEqual((status, output), (2, "::error title=bitfold check::files: nothing is called c*\n"))
        status, output = self.action(golden="none.json")
        self.assertEqual(status, 3)
        self.assertIn("::error title=bitfold check::bitfold: none.json", output)
        (self.folder / "bin/bitfold").unlink()
        status, output = self.action(golden="golden.json")
        self.assertEqual(status, 2)
        self.assertIn("there is no bitfold on the PATH", output)

    def test_the_hook(self):
        hook = dict(re.findall(r"^(?:- |  )(\w+): (.*)$", (SOURCE / ".pre-commit-hooks.yaml").read_text(), re.M))
        self.assertEqual((hook["id"], hook["pass_filenames"]), ("bitfold-check", "false"))
        for name in ("x/a.npy", "golden.json", "model.safetensors"):
            self.assertTrue(re.search(hook["files"], name))
        self.assertFalse(re.search(hook["files"], "a.py"))
        entry = [*shlex.split(hook["entry"]), "golden.json"]
        self.assertEqual(self.run_in(*entry).returncode, 0)
        (self.folder / "a").write_bytes(bytes(9))
        ran = self.run_in(*entry)
        self.assertEqual((ran.returncode, ran.stdout[:10]), (1, "moved   a\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
