"""Weights of which groups of replicas have values of their own."""

import pytest
import torch
from torch import nn

import poptorch
from poptorch import CommGroupType, VariableRetrievalMode
from poptorch.weights.device_weights import ReplicaGrouping


class Product(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        y = x @ self.weight
        return y, poptorch.identity_loss(y, "sum")


@pytest.mark.parametrize(
    ("kind", "size", "groups"),
    [
        (CommGroupType.Consecutive, 2, [0, 0, 1, 1, 2, 2, 3, 3]),
        (CommGroupType.Orthogonal, 2, [0, 1, 2, 3, 0, 1, 2, 3]),
        (CommGroupType.NoGrouping, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (CommGroupType.All, 0, [0] * 8),
    ],
)
def test_S60_which_replicas_share(kind, size, groups):
    grouping = ReplicaGrouping(kind, size, VariableRetrievalMode.OnePerGroup)
    assert [grouping.group_of(replica, 8) for replica in range(8)] == groups


def test_S60_each_group_computes_with_and_trains_its_own_value():
    weight = torch.stack([torch.eye(2), 10 * torch.eye(2)])
    model = Product(weight.clone())
    options = poptorch.Options().replicationFactor(4).outputMode(poptorch.OutputMode.All)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
    training = poptorch.trainingModel(model, options, optimizer)
    training.weight.replicaGrouping(CommGroupType.Consecutive, 2, VariableRetrievalMode.OnePerGroup)
    x = torch.arange(1.0, 9.0).reshape(4, 2)
    y, _ = training(x)
    torch.testing.assert_close(y, torch.cat([x[:2], 10 * x[2:]]))
    # The gradient of a sum is x for every column; a group adds its replicas', all replicas make the mean.
    gradient = torch.stack([x[:2].sum(0), x[2:].sum(0)]).unsqueeze(-1).expand(2, 2, 2) / 4
    torch.testing.assert_close(model.weight.detach(), weight - gradient)
    for moment in optimizer.state_dict()["ipu_state"].values():
        assert moment.shape[0] == 2


def test_S60_a_scalar_cannot_be_grouped():
    training = poptorch.trainingModel(Product(torch.tensor(2.0)))
    with pytest.raises(poptorch.Error, match="scalar"):
        training.weight.replicaGrouping(CommGroupType.NoGrouping, 0, VariableRetrievalMode.OnePerGroup)


@pytest.mark.parametrize(
    ("size", "said"), [(3, "can't be divided into groups of 3"), (1, "makes 4 groups of 4 replicas")]
)
def test_S60_groups_must_fit_replicas_and_values(size, said):
    options = poptorch.Options().replicationFactor(4)
    training = poptorch.trainingModel(Product(torch.ones(2, 2, 2)), options)
    training.weight.replicaGrouping(CommGroupType.Consecutive, size, VariableRetrievalMode.OnePerGroup)
    with pytest.raises(poptorch.Error, match=said):
        training(torch.ones(4, 2))


def test_S60_inference_too_and_the_wrapper_shows_the_models_memory():
    model = Product(torch.stack([torch.eye(2), 3 * torch.eye(2)]))
    inference = poptorch.inferenceModel(model, poptorch.Options().replicationFactor(2))
    inference.weight.replicaGrouping(CommGroupType.NoGrouping, 0, VariableRetrievalMode.OnePerGroup)
    y, _ = inference(torch.ones(2, 2))
    assert y.tolist() == [[1, 1], [3, 3]]
    inference.weight.data.fill_(2)
    assert model.weight.unique().tolist() == [2]


def test_S35_each_replica_keeps_its_own_buffers():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(1))

        def forward(self, x):
            self.total += x
            return self.total

    options = poptorch.Options().replicationFactor(2).broadcastBuffers(False)
    model = poptorch.inferenceModel(Counter(), options)
    assert model(torch.tensor([1.0, 10.0])).tolist() == [1, 10]
    assert model(torch.tensor([1.0, 10.0])).tolist() == [2, 20]
