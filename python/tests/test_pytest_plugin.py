"""The pytest plugin, run in pytest's own sandbox: every test is first recorded, then seen to fail."""

from __future__ import annotations

import platform
import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

# Here, as pytest's sandbox forgets what was imported in it, and neither can be imported twice.
import bitfold.pytest_plugin

try:
    import torch  # noqa: F401
except ImportError:
    pass

pytest_plugins = ["pytester"]

MODULE = """
import numpy as np
import pytest
ml_dtypes = pytest.importorskip("ml_dtypes")

small = np.float32([[0.1, -0.0, 1e-45], [np.inf, 3, np.nan]])
small[1, 1] += {bump} * np.spacing(np.float32(3))
long = np.linspace(0, 1, 1000, dtype={dtype}).reshape(10, 100)
long[{at}] = np.nextafter(long[{at}], np.{dtype_name}(2)) if {bump} else long[{at}]

def test_one(bits):
    bits.check("small", small)
    bits.check("several", {{"long": long, "inner": [np.arange(3), True]}})

@pytest.mark.parametrize("kind", ["a b", "c::d"])
def test_two(bits, kind):
    bits.check("half", np.array([1.5, 2.25], dtype=ml_dtypes.bfloat16))
    bits.check("number", 3.5)
"""


def module(bump: int = 0, dtype: str = "float32", at: str = "3, 7") -> str:
    return MODULE.format(bump=bump, dtype=f"np.{dtype}", dtype_name=dtype, at=at)


@pytest.fixture
def run(pytester, monkeypatch):
    pytest.importorskip("ml_dtypes")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # Hypothesis's takes a second of each
    monkeypatch.delenv("CI", raising=False)
    # A file that is written anew within a second, as long as before, would be taken for the one that was compiled.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def run(text: str, *options: str, in_a_process: bool = False):
        path, how = pytester.makepyfile(test_model=text), pytester.runpytest_subprocess if in_a_process else pytester.runpytest_inprocess
        return how("-p", "bitfold.pytest_plugin", "-p", "no:cacheprovider", *options, path)

    return run


def test_recorded_and_same(pytester, run):
    run(module(), "--bits-update").assert_outcomes(passed=3)
    golden = (pytester.path / "test_model.bits").read_text()
    assert '"small" float32 [2, 3]\n    0.1 -0.0 1e-45 inf 3.0 nan\n' in golden
    assert '"several/long" float32 [10, 100] digest ' in golden and "# min 0.0 max 1.0 sum 500.0" in golden
    assert '"several/inner/0" int64 [3]\n    0 1 2\n' in golden
    run(module(), in_a_process=True).assert_outcomes(passed=3)
    run(module(), "--bits-update").assert_outcomes(passed=3)
    assert (pytester.path / "test_model.bits").read_text() == golden


def test_what_moved(run):
    run(module(), "--bits-update")
    result = run(module(bump=2))
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.re_match_lines(
        [
            r".*small +2 ulps +1 of 6 +\[1, 1\] +3\.0 -> 3\.0000005$",
            r".* +worst at \[1, 1\]: 3\.0 -> 3\.0000005, absolute 4\.77e-07, relative 1\.59e-07$",
        ],
        consecutive=True,
    )


def test_what_moved_in_a_long_array(run):
    run(module(), "--bits-update")
    text = module().replace("long[3, 7] = ", "long[3, 7] = 0.5; long[3, 8] = ")
    result = run(text)
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.re_match_lines([r".*several/long +\d+ ulps +2 of 1000 +\[3, 7\] +0\.\d+ -> 0\.5"])
    result = run(text.replace("long[3, 8] = ", "long[0, 1] = 0.0011; long[0, 2] = 1; long[3, 8] = "))
    result.stdout.re_match_lines([r".*several/long +\d+ ulps +4 of 1000 +\[0, 1\] +0\.001001001 -> 0\.0011$", r".* +worst at \[0, 2\]: 0\.002002002 -> 1\.0, absolute 0\.998, "])


def no_values(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def git_lfs_pointer(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-100])


def damaged(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 4] ^= 0xFF  # inside the compressed elements
    path.write_bytes(whole)


def of_another_shape(path):
    with np.load(path) as packed:
        values = dict(packed)
    np.savez(path, **{**values, "0000": values["0000"][:-1]})


def of_another_type(path):
    with np.load(path) as packed:
        values = dict(packed)
    np.savez(path, **{**values, "0000": np.array(["text"])})


@pytest.mark.parametrize("spoil", [no_values, empty, git_lfs_pointer, cut_short, damaged, of_another_shape, of_another_type])
def test_without_the_values_of_long_arrays(pytester, run, spoil):
    run(module(), "--bits-update")
    values = pytester.path / "test_model.bits.npz"
    spoil(values)
    run(module()).assert_outcomes(passed=3)
    result = run(module().replace("long[3, 7] = ", "long[3, 7] = 0.5; long[3, 8] = "))
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.re_match_lines([r".*several/long +bits +digest \w+ -> \w+; the golden values are not there$"])
    run(module(), "--bits-update").assert_outcomes(passed=3)
    with np.load(values) as packed:
        assert packed["0000"].shape == (1000,)


def test_a_tolerance_of_a_long_array_needs_its_values(pytester, run):
    loose = lambda text: text.replace("True]}", "True]}, ulps=4")
    run(loose(module()), "--bits-update")
    moved = loose(module(bump=1)).replace("small[1, 1] +=", "0 *")
    run(moved).assert_outcomes(passed=3)
    (pytester.path / "test_model.bits.npz").unlink()
    run(loose(module())).assert_outcomes(passed=3)
    result = run(moved)
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.re_match_lines([r".*several/long +bits +digest \w+ -> \w+; the golden values, which a tolerance needs, are not there$"])


@pytest.mark.parametrize("ulps, passes", [(1, False), (2, True)])
def test_a_tolerance(run, ulps, passes):
    loose = lambda text: text.replace('"small", small', f'"small", small, ulps={ulps}')
    run(loose(module()), "--bits-update")
    run(loose(module(bump=2)).replace("if 2 else", "if 0 else")).assert_outcomes(**{"passed": 3} if passes else {"passed": 2, "failed": 1})


NEAR = """
import numpy as np
def test(bits):
    x = np.float32([1, 100, 0, np.nan, np.inf])
    x[:3] += {moved}
    bits.check("x", x, {tolerance})
    bits.check("integers", np.array([10**18, -100]) + np.int64({shift}), {tolerance})
    bits.check("half", np.float16([1000, 100]) + np.float16({shift}), {tolerance})
"""


@pytest.mark.parametrize(
    "tolerance, moved, shift, far",
    [
        ("rtol=0.01", [0.01, 1, 0], 1, None),
        ("rtol=0.01", [0.011, 1, 0], 1, r"x +\d+ ulps +1 of 5 +\[0\] +1\.0 -> 1\.011"),
        ("rtol=0.01", [0, 0, 1e-9], 1, r"x +\d+ ulps +1 of 5 +\[2\] +0\.0 -> 1e-09"),
        ("rtol=0.01", [0, 0, 0], 2, r"integers +2 ulps +1 of 2 +\[1\] +-100 -> -98"),
        ("atol=1", [1, 1, 1], 1, None),
        ("atol=1", [0, 0, 0], 2, r"integers +2 ulps +2 of 2 +\[0\]"),
        ("atol=1, ulps=4", [0, 0, 0], 2, r"half +32 ulps +1 of 2 +\[1\] +100\.0 -> 102\.0"),
        ("atol=0.5, rtol=0.01", [0.51, 1.5, 0.5], 0, None),
        ("atol=0.5, rtol=0.01", [0, 1.6, 0.5], 0, r"x +\d+ ulps +1 of 5 +\[1\]"),
        ("ulps=4", [4 * 2**-23, 0, 0], 0, None),
        ("ulps=3", [4 * 2**-23, 0, 0], 0, r"x +4 ulps +1 of 5 +\[0\]"),
    ],
)
def test_relative_and_absolute_tolerances(run, tolerance, moved, shift, far):
    run(NEAR.format(tolerance=tolerance, moved=[0, 0, 0], shift=0), "--bits-update").assert_outcomes(passed=1)
    result = run(NEAR.format(tolerance=tolerance, moved=moved, shift=shift))
    result.assert_outcomes(**{"failed" if far else "passed": 1})
    if far:
        result.stdout.re_match_lines([f".* {far}"])


def test_a_tolerance_makes_no_nan_and_no_infinity_a_number(run):
    text = "import numpy as np\ndef test(bits): bits.check('x', np.float64([{}]), {})\n"
    nan = "ulps=2**64, atol=1e300"
    run(text.format("np.nan, 1", nan), "--bits-update").assert_outcomes(passed=1)
    result = run(text.format("0, 1", nan))
    result.stdout.re_match_lines([r".* x +no distance +1 of 2 +\[0\] +nan -> 0\.0$", r".* +worst at \[0\]: nan -> 0\.0$"])
    infinite = "rtol=0.5, atol=1e300"
    run(text.format("np.inf, 1", infinite), "--bits-update").assert_outcomes(passed=1)
    result = run(text.format("5, 2", infinite))
    result.stdout.re_match_lines([r".* x +\d+ ulps +1 of 2 +\[0\] +inf -> 5\.0$", r".* +worst at \[0\]: inf -> 5\.0$"])
    run(text.format("np.inf, 2", infinite)).assert_outcomes(passed=1)


PLAIN = """
def test(bits):
    bits.check("config", {"name": "A # b\\u2028 \\"c\\"", "none": None, "empty": "", "yes": True, "rate": 0.5, "betas": (0.9, 0.99)})
    bits.check("number", 3.5)
"""


def test_texts_truths_and_none(pytester, run):
    run(PLAIN, "--bits-update").assert_outcomes(passed=1)
    golden = (pytester.path / "test_model.bits").read_text()
    assert '"config/none" none\n' in golden and '"config/empty" text ""\n' in golden
    assert '"config/yes" bool []\n    True\n' in golden
    run(PLAIN).assert_outcomes(passed=1)
    run(PLAIN + "\ndef test_more(bits): pass\n", "--bits-update", "-k", "more")
    assert (pytester.path / "test_model.bits").read_text() == golden + "\ntest_more\n"
    changed = PLAIN.replace("None", "'None'").replace('"empty": ""', '"empty": 0').replace("True", "False").replace("3.5", "None")
    result = run(changed)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r".*config/none +other +none -> text \"None\"$", r".*config/empty +other +text \"\" -> int64 \[\]$",
                                  r".*config/yes +1 ulp +1 of 1 +\[\] +True -> False$"])
    run(changed.replace("'None'", "None")).stdout.re_match_lines([r".*config/yes"])


def test_none_in_place_of_an_array(run):
    text = "def test(bits): bits.check('x', {})"
    run(text.format("3.5"), "--bits-update")
    run(text.format("None")).stdout.re_match_lines([r".* x +other type +float64 \[\] -> none$"])


def test_what_has_a_state_dict(run):
    """As an optimizer has it (test_torch_examples.py has torch's own)."""
    text = """
import numpy as np
class Optimizer:
    def state_dict(self):
        return {{"state": {{0: {{"step": 1.0, "exp_avg": np.ones(3)}}}}, "param_groups": [{{"lr": {}, "maximize": False, "fused": None}}]}}
def test(bits):
    bits.check("optimizer", Optimizer())
"""
    run(text.format(0.1), "--bits-update").assert_outcomes(passed=1)
    run(text.format(0.1)).assert_outcomes(passed=1)
    result = run(text.format(0.2))
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r".*optimizer/param_groups/0/lr +\d+ ulps +1 of 1 .* 0\.1 -> 0\.2"])


def test_a_first_run_records_and_says_so(pytester, run, monkeypatch):
    golden = pytester.path / "test_model.bits"
    monkeypatch.setenv("CI", "true")
    result = run(module())
    result.assert_outcomes(failed=3)
    assert not golden.exists() and "has no bits of test_one: nothing was recorded for it. Run it without CI" in result.stdout.str()
    assert "meant to move" not in result.stdout.str()
    monkeypatch.setenv("CI", "false")
    result = run(module())
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*test_model.bits had no bits of test_one: 4 values recorded. Look at them*", "*test_model.bits: recorded 3 tests; commit it"])
    written = golden.read_text()
    run(module()).assert_outcomes(passed=3)
    run(module(), "--bits-update")
    assert golden.read_text() == written
    # A test that fails, and one that was recorded, write nothing.
    result = run(module(bump=1) + "\ndef test_three(bits):\n    bits.check('x', 1.0)\n    assert False\n")
    result.assert_outcomes(passed=2, failed=2)
    assert golden.read_text() == written


def test_golden_files_of_a_platform(pytester, run):
    text = "def test(bits): bits.check('x', {})\n"
    run(text.format(1.0), "--bits-update")
    run(text.format(2.0), "--bits-update", "--bits-platform=other").assert_outcomes(passed=1)
    run(text.format(1.0)).assert_outcomes(passed=1)
    run(text.format(2.0), "--bits-platform=other").assert_outcomes(passed=1)
    run(text.format(1.0), "--bits-platform=other").assert_outcomes(failed=1)
    pytester.makeini("[pytest]\nbits_platform = auto\n")
    run(text.format(3.0), "--bits-update").assert_outcomes(passed=1)
    machine = platform.machine().lower()
    assert {p.name for p in pytester.path.glob("*.bits")} == {"test_model.bits", "test_model.other.bits", f"test_model.{sys.platform}-{machine}.bits"}
    run(text.format(3.0)).assert_outcomes(passed=1)
    result = run(text.format(3.0), "--bits-platform=a/b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_types_and_names_are_bits_too(run):
    run(module(), "--bits-update")
    result = run(module(dtype="float64").replace('"inner"', '"other"'))
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.re_match_lines_random(
        [
            r".*several/long +other type +float32 \[10, 100\] -> float64 \[10, 100\]",
            r".*several/other/0 +new +int64 \[3\]",
        ]
    )


CHECKS = ['    bits.check("a", 1.0)', '    bits.check("a/b", 2.0)', '    bits.check("c", {"d": 3.0, "e": 4.0})']


@pytest.mark.parametrize("checks, gone", [(CHECKS[:2], ["c/d", "c/e"]), (CHECKS[::2], ["a/b"]), (["    pass"], ["a", "a/b", "c/d", "c/e"])])
def test_what_is_gone(run, checks, gone):
    test = lambda checks: "\n".join(["def test(bits):", *checks])
    run(test(CHECKS), "--bits-update").assert_outcomes(passed=1)
    run(test(CHECKS)).assert_outcomes(passed=1)
    result = run(test(checks))
    result.assert_outcomes(failed=1)
    head = [r".*BitsMoved: test_model\.bits has other bits", r".*array +moved"]
    result.stdout.re_match_lines([*head, *(rf".* {name} +gone$" for name in gone)], consecutive=True)
    run(test([*checks, "    import pytest; pytest.skip()"])).assert_outcomes(skipped=1)


def test_a_key_is_gone(run):
    run(module(), "--bits-update")
    result = run(module().replace(", True]", "]"))
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.re_match_lines([r".*several/inner/1 +gone$"])


def test_what_is_gone_beside_what_moved(run):
    """In one table; what a later check may have is not called gone."""
    text = "def test(bits):\n    bits.check('x', {})\n    bits.check('y', 1.0)\n"
    run(text.format("{'a': 1.0, 'b': [2.0, 3.0]}"), "--bits-update").assert_outcomes(passed=1)
    result = run(text.format("{'a': 1.5, 'b': [2.0]}"))
    result.assert_outcomes(failed=1)
    head = [r".*BitsMoved: test_model\.bits has other bits: if they are meant to move", r".*array +moved"]
    result.stdout.re_match_lines([*head, r".* x/a +\d+ ulps", r".* worst at", r".* x/b/1 +gone$"], consecutive=True)
    assert not re.search(r" y +gone", result.stdout.str())


def test_a_failed_test_is_not_recorded(pytester, run):
    run(module(), "--bits-update")
    before = (pytester.path / "test_model.bits").read_text()
    run(module(bump=1) + "    assert False\n", "--bits-update", "-k", "test_two")
    assert (pytester.path / "test_model.bits").read_text() == before


def test_a_part_keeps_the_rest(pytester, run):
    run(module(), "--bits-update")
    run(module(bump=1), "--bits-update", "-k", "test_two")
    run(module()).assert_outcomes(passed=3)


def test_a_name_with_a_number_sign(pytester, run):
    text = "import numpy as np\ndef test_1(bits): bits.check('a # b', np.arange(200))\ndef test_2(bits): pass\n"
    run(text, "--bits-update").assert_outcomes(passed=2)
    golden = (pytester.path / "test_model.bits").read_text()
    run(text).assert_outcomes(passed=2)
    run(text, "--bits-update", "-k", "test_2").assert_outcomes(passed=1, deselected=1)
    assert (pytester.path / "test_model.bits").read_text() == golden


def test_the_file_is_utf_8_in_any_locale(pytester, run, monkeypatch):
    run(module(), "--bits-update")
    with open(pytester.path / "test_model.bits", "a", encoding="utf-8") as golden:
        golden.write("# größer\n")
    for name, value in {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "LC_ALL": "C"}.items():
        monkeypatch.setenv(name, value)
    run(module(), in_a_process=True).assert_outcomes(passed=3)


def test_the_same_name_twice(run):
    result = run("def test(bits):\n    bits.check('x', 1.0)\n    bits.check('x', 1.0)\n", "--bits-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ValueError: name: 'x' was checked before in this test"])


@pytest.mark.parametrize("value", ["{1: 1.0, '1': 2.0}", "{'a/b': 1.0, 'a': {'b': 2.0}}"])
def test_two_arrays_of_one_name(run, value):
    result = run(f"def test(bits):\n    bits.check('x', {value})\n", "--bits-update")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r".*ValueError: value: 'x/(1|a/b)' is the name of two of its arrays$"])


def test_an_array_that_is_changed_after_its_check(run):
    text = "import numpy as np\ndef test(bits):\n    x = np.ones(3)\n    bits.check('x', x)\n    x += 1\n"
    run(text, "--bits-update").assert_outcomes(passed=1)
    run(text).assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", ["5, 1.0", "'x', 1.0, ulps=-1", "'x', 1.0, ulps='x'", "'x', 1.0, rtol=-1", "'x', 1.0, atol=float('nan')", "'x', 1.0, rtol='x'"])
def test_arguments_that_are_none(run, arguments):
    run("def test(bits): bits.check('x', 1.0)", "--bits-update").assert_outcomes(passed=1)
    result = run(f"def test(bits): bits.check({arguments})")
    result.stdout.re_match_lines([r".*(TypeError: name: 5 is no string|ValueError: ulps: (-1|'x') is no number of steps|ValueError: [ar]tol: (-1|nan|'x') is no tolerance)$"])


FAULTS = """
import numpy as np, torch
def test_complex(bits):
    bits.check("x", torch.ones(3, dtype=torch.complex64))
def test_long_complex(bits):
    bits.check("x", [1.0, torch.ones(300, dtype=torch.complex64)])
def test_float8(bits):
    bits.check("x", torch.ones(300).to(torch.float8_e5m2))
def test_names(bits):
    bits.check("a\\nb", np.arange(300.0))
def test_sound(bits):
    bits.check("x", torch.ones(3, dtype=torch.bfloat16, requires_grad=True))
"""


def test_one_arrays_fault_is_its_tests(pytester, run):
    pytest.importorskip("torch")
    result = run(FAULTS, "--bits-update")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.re_match_lines_random(
        [
            r".*TypeError: x: complex64 is no element type",
            r".*TypeError: x/1: complex64 is no",
            r".*TypeError: x: float8_e5m2",
        ]
    )
    result = run(FAULTS)
    result.assert_outcomes(passed=2, failed=3)
    assert "INTERNALERROR" not in result.stdout.str()


def test_a_file_that_cannot_be_written_is_its_own(pytester, run):
    """And the session fails, though its tests have passed."""
    other = pytester.makepyfile(test_other="def test(bits): bits.check('x', 1.0)")
    (pytester.path / "test_model.bits.npz").mkdir()
    result = run(module(), "--bits-update", other)
    result.assert_outcomes(passed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED and "INTERNALERROR" not in result.stdout.str()
    result.stdout.re_match_lines(
        [r".*test_model\.bits: not written: IsADirectoryError: .*test_model\.bits\.npz"]
    )
    assert (pytester.path / "test_other.bits").exists() and not (
        pytester.path / "test_model.bits"
    ).exists()


def test_files_are_written_as_by_the_command_line(pytester, run):
    """A linked file is written where it is; what is called .part is nothing to it."""
    (pytester.path / "there").mkdir()
    for name in ("test_model.bits", "test_model.bits.npz"):
        (pytester.path / name).symlink_to(pytester.path / "there" / name)
        (pytester.path / f"{name}.part").write_text("precious")
    run(module(), "--bits-update").assert_outcomes(passed=3)
    run(module()).assert_outcomes(passed=3)
    for name in ("test_model.bits", "test_model.bits.npz"):
        assert (pytester.path / name).is_symlink() and (
            pytester.path / "there" / name
        ).stat().st_size > 100
        assert (pytester.path / f"{name}.part").read_text() == "precious"


def test_no_array(run):
    result = run("def test(bits):\n    bits.check('x', object())\n", "--bits-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TypeError: x: *"])


@pytest.mark.parametrize("text", ["", "{}", "# bitfold bits 2. \n", "# bitfold bits 1. order version 0:\n"])
def test_a_file_that_is_none(pytester, run, text):
    (pytester.path / "test_model.bits").write_text(text)
    result = run(module())
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*test_model.bits:1:*"])


def test_an_update_begins_a_file_of_another_order_anew(pytester, run):
    run(module(), "--bits-update")
    path = pytester.path / "test_model.bits"
    golden = path.read_text()
    path.write_text(re.sub(r"order version \d+:", "order version 0:", golden))
    run(module()).assert_outcomes(errors=3)
    run(module(), "--bits-update").assert_outcomes(passed=3)
    assert path.read_text() == golden


def test_an_update_leaves_a_file_that_is_none(pytester, run):
    (pytester.path / "test_model.bits").write_text("{}")
    run(module(), "--bits-update").assert_outcomes(errors=3)
    assert (pytester.path / "test_model.bits").read_text() == "{}"


@pytest.mark.parametrize(
    "was, now, says",
    [
        ('"number" float64', '"number" float65', "no line of a golden file"),
        ('  "number" float64', '<<<<<<< ours\n  "number" float64', "what a merge left, or a test for the second time: '<<<<<<< ours'"),
        ('  "number" float64 []', '  "number" float64 []\n    0.5\n  "number" float64 []', "no line of a golden file"),
        ("test_one", "test_two", "what a merge left, or a test for the second time: 'test_two'"),
        ("True", "Maybe", "these are no values of bool [2]:"),
        (" 300", " 30000000000", "these are no values of int16 [2]:"),
        ("0.5", "0.5 0.5", "these are no values of float64 []:"),
        ('  "number" float64 []\n', "", "values of no array: '0.5'"),
        ('  "number" float64 []', '  "number" float64 [2.5]', "no line of a golden file"),
        ('  "number" float64 []', "  1 float64 []", "no line of a golden file"),
    ],
)
def test_a_damaged_line(pytester, run, was, now, says):
    text = """
import numpy as np
def test_one(bits):
    bits.check("number", 0.5)
    bits.check("truths", np.array([True, False]))
def test_two(bits):
    bits.check("integers", np.int16([7, 300]))
"""
    run(text, "--bits-update").assert_outcomes(passed=2)
    path = pytester.path / "test_model.bits"
    spoilt = path.read_text().replace(was, now, 1)
    assert spoilt != path.read_text()
    path.write_text(spoilt)
    for options in ([], ["--bits-update"]):  # which would lose what it cannot read
        result = run(text, *options)
        result.assert_outcomes(errors=2)
        assert re.search(rf"test_model\.bits:\d+: {re.escape(says)}.*Mend it, or delete the file", result.stdout.str())
        assert path.read_text() == spoilt


def test_a_file_that_is_no_text(pytester, run):
    run(module(), "--bits-update")
    path = pytester.path / "test_model.bits"
    path.write_bytes(path.read_bytes() + b"\xff")
    result = run(module())
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*test_model.bits: no text in UTF-8*"])


def test_junit(pytester, run):
    run(module(), "--bits-update")
    run(module(bump=2), "--junit-xml=report.xml")
    failure = ET.parse(pytester.path / "report.xml").find(".//testcase[@name='test_one']/failure")
    assert "small" in failure.text and "2 ulps" in failure.text


def test_a_nan_with_a_payload(run):
    text = "import numpy as np\ndef test(bits):\n    bits.check('x', np.uint32([0x7fc00000, {}]).view(np.float32))\n"
    run(text.format("0xffc00001"), "--bits-update")
    run(text.format("0xffc00001")).assert_outcomes(passed=1)
    result = run(text.format("0xffc00002"))
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r".*x +0 ulps +1 of 2 +\[1\] +0xffc00001 -> 0xffc00002"])


def test_a_torch_module(run):
    pytest.importorskip("torch")
    text = """
import torch
def test(bits):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
    model.weight.data[0, 1] {}= 2
    model(torch.ones(1, 3, dtype=torch.bfloat16)).sum().backward()
    bits.check("model", model)
"""
    run(text.format("*"), "--bits-update").assert_outcomes(passed=1)
    run(text.format("*")).assert_outcomes(passed=1)
    result = run(text.format("/"))
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r".*model/state/weight +256 ulps +1 of 6 +\[0, 1\].*"])


def test_values_of_all_types_are_read_back():
    from bitfold import _golden_bits as p

    r = np.random.default_rng(0)
    for dtype in ("float16", "float32", "float64", "int8", "uint64", "bool"):
        raw = r.integers(0, 2 if dtype == "bool" else 256, 4000 * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
        words = [p.word(x) for x in raw]
        assert p.parse(words, raw.dtype).tobytes() == raw.tobytes()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    raw = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert p.parse([p.word(x) for x in raw], raw.dtype).tobytes() == raw.tobytes()
