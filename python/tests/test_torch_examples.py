"""The examples of README.md and docs/pytorch.md, as their reader runs them."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import types
from importlib.metadata import entry_points
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
EXAMPLES, DOCS = Path(__file__).parents[2] / "examples" / "python", Path(__file__).parents[2] / "docs"


def test_the_readme_prints_what_it_shows():
    """bitfold's sums, that is; torch's are those of one machine."""
    page = (Path(__file__).parents[2] / "README.md").read_text()
    code = (EXAMPLES / "seven_sums.py").read_text()
    shown = page.partition(f"```python\n{code}```\n\n```\n")[2].partition("```")[0]
    ran = subprocess.run([sys.executable, EXAMPLES / "seven_sums.py"], check=True, capture_output=True, text=True)
    sums = [[line.split()[2] for line in text.splitlines()] for text in (shown, ran.stdout)]
    assert len(sums[0]) == 7 and sums[0] == sums[1]


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_a_model_has_its_golden_bits(capability):
    """Whatever the vectors of torch's own operators."""
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", EXAMPLES, EXAMPLES / "regression"]
    plugin = [] if any(e.name == "bitfold" for e in entry_points(group="pytest11")) else ["-p", "bitfold.pytest_plugin"]
    subprocess.run([sys.executable, *command, *plugin], check=True, env={**os.environ, "ATEN_CPU_CAPABILITY": capability})


def test_what_the_pytest_plugin_takes_of_an_optimizer_and_a_scheduler():
    from bitfold.pytest_plugin import _flat

    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    weight.sum().backward()
    optimizer.step(), rates.step()
    values = dict(_flat("o", optimizer))
    assert values["o/state/0/exp_avg"].shape == (3,) and values["o/param_groups/0/foreach"] is None
    assert values["o/param_groups/0/lr"] == rates.get_last_lr()[0] == dict(_flat("r", rates))["r/_last_lr/0"]


def test_the_shortest_training(tmp_path, monkeypatch):
    """As docs/pytorch.md has it, by other numbers of threads; what safetensors writes is taken here."""
    code = (DOCS / "pytorch.md").read_text().partition("## A training\n")[2].partition("```python\n")[2].partition("```")[0]
    saved, threads = {}, torch.get_num_threads()
    writer = types.SimpleNamespace(save_file=lambda tensors, path: saved.update({path: {k: t.numpy().tobytes() for k, t in tensors.items()}}))
    monkeypatch.setitem(sys.modules, "safetensors", types.SimpleNamespace(torch=writer))
    monkeypatch.setitem(sys.modules, "safetensors.torch", writer)
    try:
        for count in (1, 2, 3, 4):
            torch.set_num_threads(count)
            monkeypatch.setattr(sys, "argv", ["train.py", f"run{count}"])
            exec(compile(code, "train.py", "exec"), {})
    finally:
        torch.set_num_threads(threads)
    assert len(saved["run1"]) == 4 and all(weights == saved["run1"] for weights in saved.values())


def test_the_transformer_of_another_text(tmp_path, monkeypatch, capsys):
    """By a copy of the example that lies beside no documents."""
    copy = tmp_path / "a" / "b" / "train_elsewhere.py"
    copy.parent.mkdir(parents=True)
    copy.write_text((EXAMPLES / "train_transformer.py").read_text())
    monkeypatch.syspath_prepend(copy.parent)
    example = importlib.import_module("train_elsewhere")
    text, short = tmp_path / "text", tmp_path / "short"
    text.write_bytes(bytes(range(100)))
    short.write_bytes(b"short")
    monkeypatch.setattr(example, "measure", lambda text, *_: sys.exit(f"{len(text)} bytes"))
    for options, says in (
        ([], r"no documents beside this file \(.*README.md\): --text FILE"),
        (["--text", str(short)], r"--text: .*short: 5 bytes, where a sample has 65"),
        (["--text", str(tmp_path / "none")], r"--text: .*none: No such file"),
    ):
        monkeypatch.setattr(sys, "argv", ["train_elsewhere.py", *options])
        with pytest.raises(SystemExit, match="^2$"):
            example.main()
        assert re.search(says, capsys.readouterr().err)
    monkeypatch.setattr(sys, "argv", ["train_elsewhere.py", "--text", str(text)])
    with pytest.raises(SystemExit, match="^100 bytes$"):
        example.main()


def test_the_transformer(tmp_path):
    out = tmp_path / "result.json"
    subprocess.run([sys.executable, EXAMPLES / "train_transformer.py", "--steps", "3", "--device", "cpu", "--out", out], check=True)
    off, on = json.loads(out.read_text())["results"]
    assert (off["mode"], on["mode"]) == (False, True)
    assert on["losses_that_differ"] == on["weights_that_differ"] == 0
    assert on["losses_that_differ_by_threads"] == on["weights_that_differ_by_threads"] == 0
    assert on["changed_by_batch"] == 0


@pytest.fixture
def train_over_ranks(monkeypatch):
    if not torch.distributed.is_available():
        pytest.skip("a PyTorch without torch.distributed")
    monkeypatch.syspath_prepend(EXAMPLES)
    threads = torch.get_num_threads()
    yield importlib.import_module("train_over_ranks")
    torch.set_num_threads(threads)


def test_the_transformer_over_ranks(train_over_ranks, tmp_path):
    """As one process has it: on 1 and 2 ranks, by DDP and FSDP2, and stopped by either and resumed by either on fewer."""
    out = tmp_path / "result.json"
    assert train_over_ranks.main(["--contributions", "4", "--steps", "3", "--ranks", "1,2", "--out", str(out)]) == 0
    one, *others = json.loads(out.read_text())["results"]
    assert one["first_loss"] > one["last_loss"] and len(others) == 8
    assert all((r["losses"], r["losses_that_differ"], r["weights"], r["weights_that_differ"]) == (3, 0, 28, 0) for r in others)


def test_a_bit_of_one_rank_is_seen(train_over_ranks):
    """In a loss, and in a weight; of a run that was resumed in the part before, too."""
    before, run = (train_over_ranks.Run("cpu", True, "DDP", (2, 2), range(2), **how) for how in ({"save": "there"}, {"load": "there"}))
    zero, minus = torch.zeros(1), torch.tensor([-0.0])
    one = {"losses": [zero] * 4, "weights": [zero] * 3}
    right = {"losses": [zero] * 2, "weights": [zero] * 3, "ms": 1}
    for earlier, later, differ in (
        (right, right, (0, 0)),
        ({**right, "losses": [minus, zero]}, right, (1, 0)),
        (right, {**right, "losses": [minus, minus], "weights": [zero, minus, zero]}, (2, 1)),
    ):
        r = train_over_ranks.compared(run, {before: [right, earlier], run: [later, right]}, one)
        assert (r["losses_that_differ"], r["weights_that_differ"]) == differ and r["run"] == "2 ranks, DDP, then 2 ranks, DDP"
