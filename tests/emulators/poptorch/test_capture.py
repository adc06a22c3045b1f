"""What is captured, and what can't be."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 2, 3)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(8, 3)

    def forward(self, x, labels):
        x = F.relu(self.convolution(x))
        x = self.out(self.dropout(x.flatten(1)))
        return x, F.cross_entropy(x, labels)


@pytest.fixture
def program():
    model = poptorch.trainingModel(Small(), poptorch.Options().deviceIterations(2))
    model.compile(torch.ones(10, 1, 4, 4), torch.zeros(10, dtype=torch.int64))
    return model.program


def test_a_program_lists_its_operations(program):
    names = [operation.op.split(".")[1] for operation in program.operations]
    assert names == ["conv2d", "relu", "flatten", "dropout", "linear", "cross_entropy_loss"]


def test_an_operation_knows_its_place(program):
    convolution = program.operations[0]
    assert convolution.outputs[0].shape == (5, 2, 2, 2), "of one micro-batch"
    assert convolution.outputs[0].dtype == torch.float32
    assert convolution.module == "convolution"
    assert convolution.source.file == __file__
    assert convolution.source.text == "x = F.relu(self.convolution(x))"
    assert program.operations[1].inputs == (convolution.name,)


def test_a_program_knows_its_loss_and_weights(program):
    assert program.loss == program.operations[-1].name
    assert set(program.weight_names) == {
        "convolution.weight",
        "convolution.bias",
        "out.weight",
        "out.bias",
    }
    assert program.uses_random_numbers


def test_what_is_not_needed_is_not_run():
    class Wasteful(nn.Module):
        def forward(self, x):
            _ = x.exp()
            return F.dropout(x, training=False) + 1

    model = poptorch.inferenceModel(Wasteful())
    model.compile(torch.ones(2))
    assert [operation.op for operation in model.program.operations] == ["aten.add.Tensor"]
    assert not model.program.uses_random_numbers


def test_S26_no_grad_and_detach_are_respected():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Parameter(torch.ones(2)) for _ in range(3))

        def forward(self, x):
            with torch.no_grad():
                blocked = self.a * x
            return F.mse_loss(blocked + (self.b * x).detach() + self.c * x, torch.zeros(2))

    model = Partly()
    poptorch.trainingModel(model)(torch.ones(2))
    assert model.a.tolist() == model.b.tolist() == [1, 1]
    assert model.c.tolist() != [1, 1]


def test_recurrent_layers_train(train_plainly, assert_same_weights):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4, batch_first=True)

        def forward(self, x, target):
            out, _ = self.lstm(x)
            return out, F.mse_loss(out, target)

    model = Recurrent()
    reference = copy.deepcopy(model)
    inputs = torch.randn(2, 5, 3), torch.randn(2, 5, 4)
    poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))(*inputs)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.1), inputs)
    assert_same_weights(model, reference)


class Refused(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, x):
        return self.compute(x)


def branches(x):
    if x.sum() > 0:  # the branch
        return x
    return -x


def loops(x):
    for _ in range(int(x.sum())):  # the loop
        x = x + 1
    return x


def reads(x):
    return x * x.sum().item()  # the reading


def lists(x):
    return x * x.tolist()[0]  # the list


def masks(x):
    return x[x > 0]  # the mask


def finds(x):
    return torch.nonzero(x)  # the search


def converts(x):
    return x.numpy()  # the array


@pytest.mark.parametrize(
    ("compute", "said", "line"),
    [
        (branches, "depends on a tensor's value.*torch.where", "# the branch"),
        (loops, "depends on a tensor's value", "# the loop"),
        (reads, "aten::item is only supported in eager mode", "# the reading"),
        (lists, "aten::item is only supported in eager mode", "# the list"),
        (masks, "aten::index makes a tensor whose shape depends on values", "# the mask"),
        (finds, "aten::nonzero makes a tensor whose shape depends on values", "# the search"),
        (converts, "Illegal move to CPU", "# the array"),
    ],
)
def test_S41_S43_what_depends_on_values_is_refused_at_the_learners_line(compute, said, line, capfd):
    with pytest.raises(poptorch.Error, match=said) as refused:
        poptorch.inferenceModel(Refused(compute))(torch.ones(3))
    assert refused.value.message.rstrip().endswith(line)
    assert refused.value.location.startswith(__file__)
    assert capfd.readouterr() == ("", ""), "nothing but the error is said"


def test_a_mistake_in_forward_is_reported_as_it_is():
    with pytest.raises(TypeError, match="linear"):
        poptorch.inferenceModel(Refused(lambda x: F.linear(x, "weights")))(torch.ones(3))
