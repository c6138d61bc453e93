"""Whether a case's results have the bits that they have of another layout and on another device."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from cases import Case
from operators import OPERATORS
from prepared import Prepared, flat, prepare

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits_of(results) -> list[torch.Tensor]:
    """On the CPU, as integers."""
    found = []
    for r in flat(results):
        r = torch.as_tensor(np.ascontiguousarray(r)) if isinstance(r, (np.ndarray, np.generic)) else r.detach().cpu().contiguous()
        found.append(r.view(_INTEGERS[r.element_size()]))
    return found


def _results(of: Prepared) -> list[torch.Tensor]:
    with of.ours.context():
        return bits_of(of.ours())


def differences(case: Case, device: str) -> Iterator[str]:
    here = _results(prepare(case, device))
    others = {"of a contiguous copy": (device, True)}
    if device != "cpu" and OPERATORS[case.op].same_on_gpus:
        others["on the CPU"] = ("cpu", False)
    for name, (other, in_rows) in others.items():
        there = _results(prepare(case, other, in_rows))
        if len(here) != len(there):
            yield f"{len(there)} results {name}, and not {len(here)}"
        for k, (a, b) in enumerate(zip(here, there)):
            if a.shape != b.shape or a.dtype != b.dtype:
                yield f"result {k} is of {list(b.shape)}, {b.dtype} {name}, and not of {list(a.shape)}, {a.dtype}"
            elif not torch.equal(a, b):
                yield f"result {k} has other bits {name}: {int((a != b).sum())} of {a.numel()}"
