"""strict: what it lets through, what it refuses, and that it changes no bits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold.torch
from bitfold.torch import _mode
from test_torch_mode import FAKES, FUNCTIONS, Log, randn
from torch_helpers import same

NotCovered, deterministic = bitfold.torch.NotCovered, bitfold.torch.deterministic

# ---- The same bits as without it -----------------------------------------------------------------


def every_function(xs, ws):
    outs = [f(x, w) for f, x, w in zip(FUNCTIONS.values(), xs, ws, strict=True)]
    return [[t for t in (out if isinstance(out, tuple) else (out,)) if t.is_floating_point()] for out in outs]


def with_gradients(run):
    n = len(FUNCTIONS)
    xs, ws = ([t.clone().requires_grad_() for _ in range(n)] for t in (randn(40, 27), 0.5 + randn(27, seed=1).abs()))
    outs = run(xs, ws)
    seeds = [torch.linspace(0.3, 1.7, t.numel()).reshape(t.shape) for out in outs for t in out]
    grads = torch.autograd.grad([t for out in outs for t in out], [*xs, *ws], seeds, allow_unused=True)
    return {name: [*outs[k], *(g for g in (grads[k], grads[n + k]) if g is not None)] for k, name in enumerate(FUNCTIONS)}


def every_operator(args):
    return [torch.utils._pytree.tree_leaves(_mode.find(name)(*a, **k)) for (name, _), (a, k) in zip(CALLS, args, strict=True)]


CALLS = [(name, call) for name, calls in FAKES.items() for call in calls if _mode.find(name)]


def strictly(run):
    def under_strict(*args):
        with Log() as log, deterministic(strict=True, allow="pow"):
            return run(*args), log

    return under_strict


def test_strict_and_compilers_change_no_bits():
    with deterministic():
        plain = with_gradients(every_function)
        compiled = with_gradients(torch.compile(every_function, backend="aot_eager", fullgraph=True))
    with deterministic(strict=True):
        strict = with_gradients(every_function)
    for other in (compiled, strict):
        differ = [name for name in FUNCTIONS if not all(map(same, plain[name], other[name]))]
        assert not differ
