"""What docs/pytorch.md writes in place of what strict refuses on a CPU, and what it says strict lets through there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import bitfold.torch
from test_torch_mode import off_afterwards, randn  # noqa: F401
from torch_helpers import same

NotCovered, deterministic = bitfold.torch.NotCovered, bitfold.torch.deterministic


def replacements():
    page = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
    table = page.partition("<!-- refused:")[2].partition("<!-- end -->")[0]
    for line in table.splitlines()[3:]:
        refused, write = (re.findall("`([^`]+)`", cell) for cell in line.split("|")[1:3])
        assert refused and len(write) == 1, line
        yield refused, write[0]


def ran(code, x, y, grad):
    x = x.clone().requires_grad_()
    out = eval(code, {"torch": torch, "F": F, "x": x, "y": y})
    out.backward(grad)
    return out.detach(), x.grad


def numbers_of(width, dtype):
    return [randn(129, width, seed=seed, dtype=dtype).mul(2 - seed / 2) for seed in range(3)]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


REPLACEMENTS = list(replacements())


def test_the_table_of_replacements_is_read():
    assert len(REPLACEMENTS) > 8


@pytest.mark.parametrize("refused, write", REPLACEMENTS, ids=[r[0][0] for r in REPLACEMENTS])
def test_what_to_write_in_place_of_what_is_refused(refused, write, threads):
    """It is the same function, and has one result for each sample, whatever the batch and the threads."""
    wide = numbers_of(37, torch.float64)
    wide[1].sigmoid_()
    for code in refused:
        with deterministic(strict=True), pytest.raises(NotCovered):
            ran(code, *wide)
        torch.testing.assert_close(ran(code, *wide), ran(write, *wide), rtol=1e-9, atol=1e-9)
    with deterministic(strict=True):
        for width, dtype in ((37, torch.float32), (101, torch.float32), (53, torch.float32), (53, torch.bfloat16), (53, torch.float64), (613, torch.float32)):
            inputs = numbers_of(width, dtype)
            threads(1)
            one = ran(write, *inputs)
            for count in (2, 4):
                threads(count)
                assert all(map(same, ran(write, *inputs), one)), (width, dtype, count)
            for i in range(0, 129, 1 if width == 37 else 16):
                alone = ran(write, *(t[i : i + 1] for t in inputs))
                assert all(same(a, b[i : i + 1]) for a, b in zip(alone, one)), (width, dtype, i)


def test_what_docs_write_for_whole_matrices():
    x, y = numbers_of(37, torch.float64)[:2]
    at, weights = torch.arange(129) % 7, x[:, 0]
    with deterministic(strict=True):
        written = x[:37].diagonal().sum(), torch.linalg.vector_norm(x[:, None] - y, dim=-1), weights.new_zeros(7).index_add(0, at, weights)
    for ours, refused in zip(written, (lambda: x[:37].trace(), lambda: torch.cdist(x, y), lambda: torch.bincount(at, weights))):
        with deterministic(strict=True), pytest.raises(NotCovered):
            refused()
        torch.testing.assert_close(ours, refused(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["SGD", "SGD foreach", "SGD fused", "Adam", "Adam foreach", "Adam fused", "AdamW", "AdamW foreach", "AdamW fused", "Adagrad fused"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_optimizers_that_strict_lets_through(name, dtype, threads):
    name, _, way = name.partition(" ")
    how = {"lr": 0.1, "weight_decay": 0.01, **({"momentum": 0.9} if name == "SGD" else {}), **({way: True} if way else {})}

    def stepped():
        weights = [torch.nn.Parameter(x.clone()) for x in numbers_of(613, dtype)[:2]]
        optimizer = getattr(torch.optim, name)(weights, **how)
        for _ in range(2):
            for p, grad in zip(weights, numbers_of(613, dtype)[1:]):
                p.grad = grad.clone()
            optimizer.step()
        return weights

    with deterministic(strict=True):
        if name != "AdamW" and way != "fused" and dtype is torch.bfloat16:
            with pytest.raises(NotCovered, match="aten::(_foreach_)?add"):
                stepped()
            return
        threads(1)
        one = stepped()
        for count in (2, 3, 4):
            threads(count)
            assert all(map(same, stepped(), one))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("op", [torch.add, torch.sub, torch.rsub])
def test_a_multiple_that_is_added_to_a_tensor_of_its_shape(op, dtype, threads):
    """Wherever it lies: at every length and place beside a vector's, in rows and columns, in place, by threads."""
    x, y = randn(60000, dtype=dtype), randn(60000, seed=1, dtype=dtype)
    f = lambda x, y: op(x, y, alpha=0.3)
    with deterministic(strict=True):
        each = torch.cat([f(a, b) for a, b in zip(x[:500].split(1), y[:500].split(1))])
        whole = f(x, y)
        assert same(whole[:500], each)
        for length in range(1, 70):
            at = slice(length % 13, length % 13 + length)
            assert same(f(x[at], y[at]), each[at])
            assert same(f(x[:500:7][:length], y[:500:7][:length]), each[::7][:length])
        for rows in (2, 5, 20):
            a, b, wanted = (t[:500].view(rows, -1).mT for t in (x, y, each))
            assert same(f(a, b), wanted) and same(f(a.contiguous(), b), wanted)
        assert same(torch.stack([f(a, b) for a, b in zip(x[:50], y[:50])]), each[:50])
        if op is not torch.rsub:
            assert same(getattr(x.clone(), f"{op.__name__}_")(y, alpha=0.3), whole)
        for count in (1, 2, 3):
            threads(count)
            assert same(f(x[1:], y[1:]), whole[1:])


def test_recurrent_layers_and_encoders_on_cpus():
    """What docs/pytorch.md says of them."""
    x = randn(2, 5, 12)
    for layer in (torch.nn.LSTM, torch.nn.GRU):
        with deterministic(strict=True), pytest.raises(NotCovered, match="aten::sigmoid"):
            layer(12, 12)(x)
    encoder = lambda **how: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(12, 2, 24, batch_first=True), 1, **how).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    sealed, nested = encoder(enable_nested_tensor=False), encoder()
    with deterministic(strict=True), torch.no_grad():
        torch.nn.RNN(12, 12)(x)
        with pytest.raises(NotCovered):
            nested(x, src_key_padding_mask=padding)
        together = sealed(x, src_key_padding_mask=padding)
        alone = torch.cat([sealed(x[i : i + 1], src_key_padding_mask=padding[i : i + 1]) for i in range(2)])
    assert same(together, alone)
