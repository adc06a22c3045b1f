"""How a call's rows divide into micro-batches."""

import copy

import pytest
import torch
from torch import nn

import poptorch


class Numbered(nn.Module):
    """Adds to each row a counter of the micro-batches seen so far, kept on the device."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x * 0 + self.count


def options(iterations=1, replicas=1, accumulation=1):
    chosen = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    chosen.Training.gradientAccumulation(accumulation)
    return chosen


def test_S1_rows_must_divide_by_all_factors(classifier, batch):
    model = poptorch.trainingModel(classifier, options(iterations=2, replicas=3, accumulation=4))
    with pytest.raises(AssertionError) as refused:
        model(*batch(30))
    message = str(refused.value)
    for said in (
        "[30, 4]",
        "24",
        "deviceIterations 2",
        "replicationFactor 3",
        "gradientAccumulation 4",
        "Efficient",
    ):
        assert said in message


def test_S1_a_scalar_input_counts_as_one_row():
    class Scaled(nn.Module):
        def forward(self, x, factor):
            return x * factor

    x, factor = torch.ones(2, 3), torch.tensor(2.0)
    assert torch.equal(poptorch.inferenceModel(Scaled())(x, factor), x * 2)
    with pytest.raises(AssertionError):
        poptorch.inferenceModel(Scaled(), options(iterations=2))(x, factor)


def test_S2_forward_sees_one_micro_batch():
    seen = []

    class Looks(nn.Module):
        def forward(self, x):
            seen.append(tuple(x.shape))
            return x

    poptorch.inferenceModel(Looks(), options(iterations=4))(torch.ones(12, 5))
    assert seen == [(3, 5)]


def test_S2_batch_normalisation_normalises_each_micro_batch():
    norm = nn.BatchNorm1d(3)
    x = torch.randn(8, 3)
    expected = torch.cat([copy.deepcopy(norm)(half) for half in x.chunk(2)])
    actual = poptorch.inferenceModel(norm, options(iterations=2))(x)
    torch.testing.assert_close(actual, expected)


def test_S3_micro_batches_are_read_from_the_first_row_on():
    out = poptorch.inferenceModel(Numbered(), options(iterations=3))(torch.zeros(6))
    assert out.tolist() == [1, 1, 2, 2, 3, 3]


def test_S3_replicas_are_innermost():
    chosen = options(iterations=2, replicas=2).broadcastBuffers(False)
    out = poptorch.inferenceModel(Numbered(), chosen)(torch.zeros(4))
    assert out.tolist() == [1, 1, 2, 2], (
        "each replica counts its own micro-batches: rows 0 and 2, rows 1 and 3"
    )


def test_S4_inference_has_no_gradient_accumulation(classifier):
    with pytest.raises(poptorch.Error, match="gradientAccumulation to 1 or leave it"):
        poptorch.inferenceModel(classifier, options(accumulation=2))


@pytest.mark.parametrize(
    ("iterations", "replicas", "accumulation"), [(1, 1, 1), (3, 1, 1), (1, 1, 4), (2, 4, 3)]
)
@pytest.mark.parametrize("mean", [True, False])
def test_S19_S20_one_update_per_device_iteration(
    classifier, batch, train_plainly, assert_same_weights, iterations, replicas, accumulation, mean
):
    reference = copy.deepcopy(classifier)
    inputs = batch(2 * iterations * replicas * accumulation)
    chosen = options(iterations, replicas, accumulation)
    reduction = poptorch.ReductionType.Mean if mean else poptorch.ReductionType.Sum
    chosen.Training.accumulationAndReplicationReductionType(reduction)

    model = poptorch.trainingModel(classifier, chosen, poptorch.optim.SGD(classifier.parameters(), lr=0.1))
    _, loss = model(*inputs)

    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    losses = train_plainly(reference, optimizer, inputs, iterations, accumulation * replicas, mean)
    assert_same_weights(classifier, reference)
    torch.testing.assert_close(loss.reshape(-1), torch.stack(losses[-replicas:]))


def test_S35_replicas_that_share_buffers_may_not_update_them():
    with pytest.raises(poptorch.Error, match=r"broadcastBuffers\(False\).*count"):
        poptorch.inferenceModel(Numbered(), options(replicas=2))(torch.zeros(2))
