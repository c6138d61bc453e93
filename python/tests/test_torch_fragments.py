"""The Python that the documents show, run as it stands behind what it is said here to stand after. What is a file of examples/, or is
run by another test, is named so."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import bitfold
from bitfold.pytest_plugin import Tolerance, _flat

torch = pytest.importorskip("torch")
importlib.import_module("bitfold.torch")
ROOT = Path(__file__).parents[2]

#: By the document and what the block begins with.
ELSEWHERE = {
    ("pytorch.md", "import sys, torch, bitfold.torch"),  # test_torch_examples.py
    ("distributed.md", 'torch.distributed.init_process_group("nccl")'),  # which takes GPUs: test_torch_distributed_cuda.py
    ("distributed.md", 'torch.distributed.init_process_group("cpu:gloo,cuda:gloo")'),  # likewise: test_torch_distributed_shared_gpus.py
}


def blocks():
    examples = {f.read_text() for f in (ROOT / "examples/python").glob("*.py")}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for m in re.finditer(r"^```python\n(.*?)^```$", page.read_text(), re.S | re.M):
            if page.name != "definitions.md" and m[1] not in examples and not any(page.name == p and m[1].startswith(b) for p, b in ELSEWHERE):
                yield pytest.param(page.name, m[1], id=f"{page.name}-{m[1].splitlines()[0][:30]}")


def before(page, code):
    """The names that a page's blocks take as given."""
    array, model, batches = np.linspace(0, 1, 12, dtype=np.float32), torch.nn.Linear(4, 2), torch.ones(2, 3, 4)
    names = {"bitfold": bitfold, "torch": torch, "numpy": np, "logits": array, "a": array, "b": array + 1, "y": array}
    names |= {"model": model, "optimizer": torch.optim.SGD(model.parameters(), 0.1), "x": batches[0]}
    names |= {"train": lambda: torch.nn.functional.gelu(model(batches[0])).sum().backward()}
    if page == "distributed.md":
        names |= {"over_ranks": importlib.import_module("bitfold.torch.distributed"), "gradient": torch.ones(5)}
        names |= {"mine": batches, "micro_batches": 2}
    if "ddp" in code:
        names["ddp"] = torch.nn.parallel.DistributedDataParallel(model)
    return names | {"loss": torch.sum if page == "distributed.md" else np.float32(3)}


@pytest.fixture
def group(tmp_path):
    """One rank, over gloo."""
    if not torch.distributed.is_available():
        pytest.skip("skipped: no torch.distributed")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'ranks'}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Checked:
    """In place of the fixture `bits`: what the test gives to it can be flattened, as it is before it is compared."""

    def check(self, name, value, **tolerance):
        Tolerance(**tolerance)
        assert dict(_flat(name, value))


@pytest.mark.parametrize("page, code", list(blocks()))
def test_block(page, code, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page == "distributed.md":
        request.getfixturevalue("group")
    names = before(page, code)
    exec(compile(code, page, "exec"), names)
    if test := names.get("test_logits"):
        names |= {"a": 1, "b": 2.5, "c": np.ones(3)}
        test(Checked())
