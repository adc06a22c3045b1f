"""Replicas: buffers and groups of weights of their own, and inputs that groups share."""

import copy

import pytest
import torch
from torch import nn

import poptorch

CONSECUTIVE, ORTHOGONAL = poptorch.CommGroupType.Consecutive, poptorch.CommGroupType.Orthogonal
ONE_PER_GROUP = poptorch.VariableRetrievalMode.OnePerGroup


class Counts(nn.Module):
    """Adds what it is given to a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1))

    def forward(self, x):
        self.total += x
        return self.total + 0


class Scales(nn.Module):
    """Multiplies by a weight; the loss is the sum."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        scaled = self.weight * x
        return scaled, poptorch.identity_loss(scaled, "sum")


class Passes(nn.Module):
    def forward(self, x):
        return x * 1


def test_S35_each_replica_keeps_its_buffers():
    options = poptorch.Options().replicationFactor(2).broadcastBuffers(False)
    model = poptorch.inferenceModel(Counts(), options)
    for calls in (1, 2, 3):
        assert model(torch.tensor([9.0, 2.0])).tolist() == [9 * calls, 2 * calls]


@pytest.mark.parametrize(
    ("group", "expected"),
    [(CONSECUTIVE, [0, 0, 2, 2, 1, 1, 3, 3]), (ORTHOGONAL, [0, 2, 0, 2, 1, 3, 1, 3])],
)
def test_S3_groups_of_replicas_share_a_slab_of_the_input(group, expected):
    options = poptorch.Options().replicationFactor(4).deviceIterations(2).inputReplicaGrouping(2, group)
    assert poptorch.inferenceModel(Passes(), options)(torch.arange(4.0)).tolist() == expected


def test_S1_groups_count_in_the_batch_dimension():
    options = poptorch.Options().replicationFactor(4).inputReplicaGrouping(2, CONSECUTIVE)
    with pytest.raises(
        AssertionError, match=r"not a multiple of 2 .*replicationFactor 4 / input_group_size 2"
    ):
        poptorch.inferenceModel(Passes(), options)(torch.ones(3))


def train_grouped(group, size, weight, x):
    options = poptorch.Options().replicationFactor(4).outputMode(poptorch.OutputMode.All)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    model = Scales(weight)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=1.0))
    training.weight.replicaGrouping(group, size, ONE_PER_GROUP)
    scaled, _ = training(x)
    return scaled.tolist(), model.weight.detach().tolist()


@pytest.mark.parametrize(
    ("group", "used", "left"),
    [
        (CONSECUTIVE, [10, 20, 60, 80], [[10 - 3], [20 - 7]]),
        (ORTHOGONAL, [10, 40, 30, 80], [[10 - 4], [20 - 6]]),
    ],
)
def test_S60_groups_of_replicas_have_weights_of_their_own(group, used, left):
    scaled, weight = train_grouped(
        group, 2, torch.tensor([[10.0], [20.0]]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    )
    assert scaled == used
    assert weight == left, "gradients add up within a group"


def test_S60_a_scalar_cannot_be_grouped():
    with pytest.raises(poptorch.Error, match="scalar"):
        train_grouped(CONSECUTIVE, 2, torch.tensor(1.0), torch.ones(4))


def test_S20_replicas_gradients_are_reduced_together(train_plainly, classifier, batch, assert_same_weights):
    reference, inputs = copy.deepcopy(classifier), batch(16)
    options = poptorch.Options().replicationFactor(2).deviceIterations(2)
    options.Training.gradientAccumulation(2)
    optimizer = poptorch.optim.SGD(classifier.parameters(), lr=0.1)
    poptorch.trainingModel(classifier, options, optimizer)(*inputs)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.1), inputs, 2, 4)
    assert_same_weights(classifier, reference)
