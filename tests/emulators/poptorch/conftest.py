"""Small models and data that many of these tests share."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Classifier(nn.Module):
    """Two linear layers; returns logits, and with labels the loss after them."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x, labels=None):
        logits = self.out(F.relu(self.hidden(x)))
        if labels is None:
            return logits
        return logits, F.cross_entropy(logits, labels)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(7)


@pytest.fixture
def classifier():
    return Classifier()


@pytest.fixture
def batch():
    """A function from a number of rows to that many inputs and labels."""

    def make(rows):
        return torch.randn(rows, 4), torch.randint(0, 3, (rows,))

    return make


@pytest.fixture
def train_plainly():
    """Plain PyTorch: one update per iteration, from the sum or mean of its micro-batches' gradients."""

    def train(model, optimizer, inputs, iterations=1, micro_batches=1, mean=True):
        pieces = zip(*[tensor.chunk(iterations * micro_batches) for tensor in inputs], strict=True)
        losses = []
        for _ in range(iterations):
            optimizer.zero_grad()
            for _ in range(micro_batches):
                loss = model(*next(pieces))[1]
                (loss / micro_batches if mean else loss).backward()
                losses.append(loss.detach())
            optimizer.step()
        return losses

    return train


@pytest.fixture
def assert_same_weights():
    """A function that compares two models' parameters and float buffers."""

    def compare(model, reference):
        expected = reference.state_dict()
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                torch.testing.assert_close(
                    value, expected[name], msg=lambda text, name=name: f"{name}: {text}"
                )

    return compare
