"""Regression-testing a model to the bit: what it gives, its loss, its gradients.

    pytest examples/python/regression                  # compares with test_model.bits
    pytest examples/python/regression --bits-update    # writes it: then read the difference, and commit it

The bits are the same on every x86-64 CPU: the reductions and the norm are bitfold's, and all else is + - * /, which IEEE 754
rounds. (An optimizer's step is not in it: with an FMA, where a CPU has one, `weights += rate * gradients` rounds once less.)
"""

import pytest
import torch
from torch import nn

import bitfold.torch


def values(*shape):
    n = torch.Size(shape).numel()
    return ((torch.arange(n) * 7919 % 1009 - 504) / 504).reshape(shape)


class Classifier(nn.Module):
    """Scores of 5 classes, for sentences of 12 words out of 40."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(40, 24), nn.LayerNorm(24)
        self.classes = nn.Parameter(values(5, 24))
        with torch.no_grad():
            self.words.weight.copy_(values(40, 24))

    def forward(self, sentences):
        meaning = self.norm(self.words(sentences)).mean(1)
        return torch.ops.bitfold.dot(meaning[:, None], self.classes, [-1])


@pytest.fixture(autouse=True)
def deterministic():
    with bitfold.torch.deterministic():
        yield


def sentences(count):
    return torch.arange(12 * count).reshape(count, 12) * 31 % 40


def test_outputs(bits):
    bits.check("log_probabilities", Classifier()(sentences(6)).log_softmax(-1))


def test_outputs_do_not_depend_on_the_batch(bits):
    model = Classifier()
    bits.check("log_probabilities", torch.cat([model(s[None]).log_softmax(-1) for s in sentences(6)]))


def test_gradients(bits):
    model = Classifier()
    loss = nn.functional.mse_loss(model(sentences(6)), torch.ones(6, 5))
    loss.backward()
    bits.check("loss", loss)
    bits.check("model", model)
