"""bench/everywhere: its list has every operator that is covered, each case runs and has its bits, and its gate falls."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

import bitfold.torch
from bitfold._registry import REGISTRY
from bitfold.torch import _mode
from bitfold.torch._overrides import ACCUMULATING, OVERRIDES
from samples import whole

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench" / "everywhere"
sys.path[:0] = [str(BENCH)]
cases, bits, prepared = map(importlib.import_module, ("cases", "bits", "prepared"))

LIST = cases.cases(cases.SCALES["smoke"])
#: What this test does not see though cases have it: what torch calls on a GPU alone, and what it calls behind its dispatcher's modes.
UNSEEN = {
    "cudnn_batch_norm", "cudnn_batch_norm_backward", "batch_norm_backward",
    *(f"_scaled_dot_product_{kind}_attention{way}" for kind in ("flash", "efficient", "cudnn") for way in ("", "_backward")),
    "_fused_rms_norm", "_fused_rms_norm_backward", "_embedding_bag_dense_backward",
}  # fmt: skip


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(BENCH), *arguments], capture_output=True, text=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subject", dict.fromkeys(case.subject for case in LIST))
def test_each_case_has_the_bits_of_a_contiguous_copy(subject):
    """Of each operator the first case, and of all others every second."""
    some, seen = [], set()
    for k, case in enumerate(case for case in LIST if case.subject == subject):
        if whole() or k % 2 == 0 or case.op not in seen:
            some.append(case)
        seen.add(case.op)
    with bitfold.torch.deterministic():
        assert {case.name: found for case in some if (found := list(bits.differences(case, "cpu")))} == {}


def test_other_bits_are_seen(monkeypatch):
    case = next(case for case in LIST if case.name.startswith("sum(1)/f32") and case.layout == "transposed")
    monkeypatch.setattr(prepared, "in_a_row", lambda x: x.contiguous() * 1.5)
    assert [what for what in bits.differences(case, "cpu") if "has other bits of a contiguous copy" in what]


class Called(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.ops: set[torch._ops.OpOverload] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.add(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.filterwarnings("ignore")
def test_the_list_has_what_is_covered():
    """The functions, each by one of its operators."""
    with Called() as called:
        for case in LIST:
            if prepared.OPERATORS[case.op].peer is None:
                prepared.prepare(case, "cpu").peer()
    forms = {form: name for name in OVERRIDES if (op := _mode.find(name)) for form in (op, *_mode.forms(op))}
    reached = {OVERRIDES[forms[op]] for op in called.ops if op in forms}
    assert {name for name, function in OVERRIDES.items() if function not in reached} == UNSEEN
    assert {name.strip("_").removesuffix("_impl") for name in ACCUMULATING} <= {op._schema.name.removeprefix("aten::") for op in called.ops}


def test_the_list_has_every_operation():
    listed = {case.op.partition(".")[2] for case in LIST if case.op.startswith("bitfold.")}
    assert REGISTRY.keys() <= listed


def test_the_list_has_a_case_of_every_operator_and_layout():
    assert {case.op for case in LIST} == prepared.OPERATORS.keys()
    assert {case.layout for case in LIST} == prepared.LAYOUTS.keys()


# ---- The gate ------------------------------------------------------------------------------------


def edited(path: Path, into: Path, change) -> str:
    header, *lines = map(json.loads, path.read_text().splitlines())
    for line in lines:
        change(line)
    into.write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))
    return str(into)


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """Of three cases, of few elements."""
    path = tmp_path_factory.mktemp("everywhere") / "new.jsonl"
    ran = run(str(path), "--cases", r"^sum/.*/100/|^np\.(sum|max)/f32/100/")
    assert ran.returncode == 0, ran.stderr
    return path


def test_the_gate(measured, tmp_path):
    new, old = str(measured), tmp_path / "old.jsonl"
    cases_of_it = ["sum/f32/100/contiguous", "np.sum/f32/100/contiguous", "np.max/f32/100/contiguous"]

    def gated(field, factor, of=cases_of_it) -> subprocess.CompletedProcess:
        """Of the same file, but that a field of these cases has grown."""

        def change(line):
            line.update({k: v * factor for k, v in line.items() if k.endswith(field) and line["case"] in of})

        return run("--from", edited(measured, old, change), "--gate", new, "--margin", "1.2")

    assert gated("us", 1).returncode == 0
    assert gated("us", 2).returncode == 0  # another machine of the kind
    for case in cases_of_it:
        # Its time alone grows, at the margin and beyond it.
        slower, within = (edit_time(measured, tmp_path / f"{k}.jsonl", case, factor) for k, factor in enumerate((1.21, 1.19)))
        ran = run("--from", slower, "--gate", new, "--margin", "1.2")
        assert ran.returncode == 1 and f"slower  {case}: " in ran.stdout and "3 cases compared: 1 became" in ran.stdout
        assert run("--from", within, "--gate", new, "--margin", "1.2").returncode == 0
    assert gated("torch_us", 0.5).returncode == 0  # the peer became faster, which is no fault of ours
    everything = edit_time(measured, tmp_path / "all.jsonl", "", 1.21)
    ran = run("--from", everything, "--gate", new, "--margin", "1.2")
    assert ran.returncode == 1 and "3 cases compared: 3 became" in ran.stdout


def edit_time(path: Path, into: Path, case: str, factor: float) -> str:
    return edited(path, into, lambda line: line.update(us=line["us"] * factor) if case in ("", line["case"]) else None)


def test_what_cannot_be_gated(measured, tmp_path):
    new, old = str(measured), tmp_path / "old.jsonl"
    assert run("--from", new, "--gate", str(tmp_path / "nothing")).returncode == 2
    for change, says in (
        (lambda text: text.replace('"everywhere"', '"shapes"', 1), "bench: "),
        (lambda text: text.replace('"device":"cpu"', '"device":"cuda"'), "device: "),
        (lambda text: text.replace('"threads":', '"threads":9'), "threads: "),
        (lambda text: text.replace('"us":', '"us":-', 1), "has no time"),
        (lambda text: text.replace("/100/", "/101/"), "no case in common"),
    ):
        assert (changed := change(measured.read_text())) != measured.read_text()
        old.write_text(changed)
        ran = run("--from", new, "--gate", str(old))
        assert ran.returncode == 2 and says in ran.stderr, ran


def test_tables(measured):
    script = str(ROOT / "scripts" / "everywhere-table")
    for what, column in (("subjects", "geometric mean"), ("worst", "times as long"), ("best", "times as long"), ("reads", "of a read")):
        ran = subprocess.run([sys.executable, script, str(measured), what, "2"], capture_output=True, text=True)
        assert ran.returncode == 0 and column in ran.stdout, ran.stderr
    assert run("--table", str(measured)).stdout.count("|\n|") > 5
