"""Layers and models that are made of products under bitfold.torch.deterministic(), on CPUs: their values, and that the bits of a sample know no
batch and those of a training no threads."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import bitfold.torch
from test_torch_mode import off_afterwards  # noqa: F401
from torch_helpers import SIZES, numbers, randn, same, threads

deterministic = bitfold.torch.deterministic
MATH = torch.nn.attention.SDPBackend.MATH

# ---- Layers --------------------------------------------------------------------------------------

RECURRENT = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
SIGMOID = ("sigmoid", "sigmoid_", "sigmoid_backward")
leaves = torch.utils._pytree.tree_leaves


def gradients(net, x, **options):
    """Of a recurrent layer, or of packed sequences."""
    given = x() if callable(x) else x
    y, state = net(given, **options)
    outs = leaves((y.data if isinstance(y, torch.nn.utils.rnn.PackedSequence) else y, state))
    return outs, torch.autograd.grad(outs, list(net.parameters()), [torch.ones_like(t) for t in outs])


def sigmoid_shows_strides() -> bool:
    """As it does with AVX2, where some elements go by vectors and others do not."""
    return any(not same(part.sigmoid(), part.contiguous().sigmoid()) for part in numbers(40, 18).chunk(3, 1))


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.25}, {"bias": False}, {"proj_size": 3}], ids=str)
@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.filterwarnings("ignore")
def test_recurrent_layers(kind, options):
    if "proj_size" in options and kind is not torch.nn.LSTM:
        pytest.skip("skipped: only LSTMs have projections")
    net, x = kind(5, 6, **options), numbers(3, 4, 5)
    lengths = torch.tensor([4, 2, 1] if net.batch_first else [3, 2, 1, 1])
    packed = lambda: torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=net.batch_first)

    def evaluated(mode):
        net.eval()
        with mode():
            results = leaves(net(x))
        net.train()
        return results

    def runs():
        results = []
        for given in (x, packed):
            torch.manual_seed(0)
            results += leaves(gradients(net, given))
        return results + evaluated(torch.no_grad)

    wanted, inferred = runs(), evaluated(torch.inference_mode)
    with deterministic():
        plain, plainly_inferred = runs(), evaluated(torch.inference_mode)
    with deterministic(strict=True, allow=SIGMOID):
        strict, strictly_inferred = runs(), evaluated(torch.inference_mode)
    assert all(map(same, plain, strict))
    # In inference mode torch hands strict the parts of a layer, and a GRU's sigmoids, which are torch's own, have other strides then.
    if not sigmoid_shows_strides():
        assert all(map(same, plainly_inferred, strictly_inferred))
    for got, want in zip(plain + plainly_inferred + strictly_inferred, wanted + inferred + inferred, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_an_lstm_is_its_cells():
    net, x = torch.nn.LSTM(20, 64), numbers(5, 3, 20)
    cell = torch.nn.LSTMCell(20, 64)
    cell.load_state_dict({name.removesuffix("_l0"): p for name, p in net.state_dict().items()})
    with deterministic(strict=True, allow=SIGMOID):
        y, (h, c) = net(x)
        packed, _ = net(torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 5, 5])))
        state, outs = None, []
        for at in x:
            state = cell(at, state)
            outs.append(state[0])
    assert same(y, torch.stack(outs)) and same(h[0], state[0]) and same(c[0], state[1]) and same(y.flatten(0, 1), packed.data)


def test_an_lstm_has_second_gradients():
    """oneDNN's has none."""
    net, x = torch.nn.LSTM(3, 4).double(), randn(2, 2, 3, dtype=torch.float64).requires_grad_()
    with deterministic():
        assert torch.autograd.gradgradcheck(lambda x: net(x)[0], [x])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masks", ["", "padding", "causal", "padding causal"])
def test_an_encoder_layer_has_the_bits_that_it_has_where_a_gradient_is_wanted(masks, norm_first):
    net, x = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first).eval(), numbers(3, 4, 16)
    options = {}
    if "padding" in masks:
        options["src_key_padding_mask"] = torch.arange(4) >= torch.tensor([[4], [2], [3]])
    if "causal" in masks:
        options["src_mask"] = torch.nn.Transformer.generate_square_subsequent_mask(4)
    with torch.no_grad():
        wanted = net(x, **options)
    with torch.nn.attention.sdpa_kernel(MATH), deterministic(strict=True):
        slow = net(x, **options)
        with torch.no_grad():
            fast = net(x, **options)
    assert same(slow, fast)
    torch.testing.assert_close(fast, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("need_weights, average", [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("of_one", [False, True])
def test_attention_layers(of_one, need_weights, average):
    net, x = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval(), numbers(3, 4, 16)
    options = {"need_weights": need_weights, "average_attn_weights": average, "key_padding_mask": torch.arange(4) >= torch.tensor([[4], [2], [3]])}
    run = lambda: net(x, *((x, x) if of_one else (x.flip(1), x.flip(1))), **options)
    with torch.no_grad():
        wanted = run()
    with torch.nn.attention.sdpa_kernel(MATH), deterministic(strict=True):
        slow = run()
        with torch.no_grad():
            fast = run()
    for a, b, c in zip(wanted, slow, fast):
        assert a is c is None or same(b, c)
        torch.testing.assert_close(c, a, rtol=1e-4, atol=1e-5)


# ---- Models --------------------------------------------------------------------------------------


class Recurrent(torch.nn.Module):
    """Of samples first. Its width is what vectors hold: torch's sigmoid rounds what is left over otherwise."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(24, 64, batch_first=True), torch.nn.Linear(64, 7)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


#: Each with what strict has to allow: elementwise functions.
MODELS = {
    "MLP": (lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(120, 75), torch.nn.ReLU(), torch.nn.Linear(75, 7)), ()),
    "LSTM": (Recurrent, SIGMOID),
    "encoder": (lambda: torch.nn.TransformerEncoderLayer(24, 4, 75, dropout=0.0, batch_first=True), ()),
    "encoder first": (lambda: torch.nn.TransformerEncoderLayer(24, 4, 75, dropout=0.0, batch_first=True, norm_first=True, activation=torch.tanh), ()),
}


def made(name):
    torch.manual_seed(0)
    return MODELS[name][0]()


@pytest.mark.parametrize("name", MODELS)
def test_a_samples_result_and_gradient_know_no_batch(name):
    net, x = made(name), numbers(max(SIZES), 5, 24)
    with torch.nn.attention.sdpa_kernel(MATH), deterministic(strict=True, allow=MODELS[name][1]):
        y, g = of_inputs(net, x)
        for size in SIZES:
            with threads(1 + size % 4):
                for at in {0, len(x) - size, (len(x) - size) // 3}:
                    found = of_inputs(net, x[at : at + size], at)
                    assert all(map(same, found, (y[at : at + size], g[at : at + size]))), (size, at)


def of_inputs(net, x, at=0):
    x = x.clone().requires_grad_()
    y = net(x)
    seeds = randn(max(SIZES), *y.shape[1:], seed=3)[at : at + len(x)]
    return y, torch.autograd.grad(y, x, seeds)[0]


def trained(name, dtype=torch.float32):
    net, x = made(name).to(dtype), numbers(16, 5, 24, dtype=dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(10):
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


@pytest.mark.parametrize("name", MODELS)
def test_a_training_knows_no_threads(name):
    with torch.nn.attention.sdpa_kernel(MATH), deterministic(strict=True, allow=(*MODELS[name][1], "add_")):
        found = []
        for n in (1, 2, 4):
            with threads(n):
                found.append(trained(name))
    assert not same(found[0][0], next(made(name).parameters()).detach())
    assert all(all(map(same, other, found[0])) for other in found[1:])
