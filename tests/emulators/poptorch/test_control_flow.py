"""Loops, branches, host code, custom operations, dynamic slices and marks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch


class Calls(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, *inputs):
        return self.compute(*inputs)


def on_device(compute, *inputs):
    return poptorch.inferenceModel(Calls(compute))(*inputs)


def compiled(compute, *inputs):
    model = poptorch.inferenceModel(Calls(compute))
    model.compile(*inputs)
    return model.program


class Trains(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute, self.layer = compute, nn.Linear(3, 3)

    def forward(self, x):
        return poptorch.identity_loss(self.compute(self.layer(x)), "sum")


# --- Loops and branches


def test_S46_a_loop_hands_results_on():
    result = on_device(
        lambda x, y: poptorch.for_loop(3, lambda a, b: (a * b, b + 1), [x, y]), *torch.ones(2, 1)
    )
    assert [each.item() for each in result] == [6, 4]


def test_S46_bodies_work_on_copies():
    def compute(x):
        x = x + 0

        def body(a):
            a += 1
            return a

        return [*poptorch.for_loop(2, body, [x]), x]

    assert [each.item() for each in on_device(compute, torch.zeros(1))] == [2, 0]


@pytest.mark.parametrize(
    ("inputs", "said"), [((1,), "Object is not list"), ([1], "at index 0 is not torch.tensor")]
)
def test_S46_inputs_are_a_list_of_tensors(inputs, said):
    with pytest.raises(ValueError, match=said):
        poptorch.for_loop(2, lambda x: x, inputs)
    with pytest.raises(ValueError, match=said):
        poptorch.cond(torch.tensor(True), lambda x: x, inputs, lambda x: x, [torch.ones(1)])


def test_S46_a_loop_keeps_shapes():
    with pytest.raises(poptorch.Error, match="body must return as many tensors"):
        on_device(lambda x: poptorch.for_loop(2, lambda a: torch.cat([a, a]), [x]), torch.ones(1))


@pytest.mark.parametrize("condition", [True, False])
def test_S46_a_branch_is_taken_when_the_program_runs(condition):
    def compute(decides, x):
        return poptorch.cond(decides, lambda a: a + 1, [x], lambda a: a * 10, [x])[0]

    model = poptorch.inferenceModel(Calls(compute))
    model.compile(torch.tensor([True]), torch.ones(2))
    arguments = torch.tensor([condition]), torch.full((2,), 3.0)
    assert model(*arguments).tolist() == compute(*arguments).tolist() == ([4, 4] if condition else [30, 30])


def test_S46_both_branches_return_alike():
    def compute(x):
        return poptorch.cond(x.sum() > 0, lambda a: (a, a), [x], lambda a: a, [x])

    with pytest.raises(poptorch.Error, match="same number of tensors"):
        on_device(compute, torch.ones(1))


def test_S46_a_condition_is_one_boolean():
    with pytest.raises(poptorch.Error, match="one boolean"):
        on_device(lambda x: poptorch.cond(x, lambda a: a, [x], lambda a: a, [x]), torch.ones(2))


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (lambda x: poptorch.for_loop(2, lambda a: a, [x])[0], "for_loop"),
        (lambda x: poptorch.cond(x.sum() > 0, lambda a: a, [x], lambda a: a, [x])[0], "cond"),
    ],
)
def test_S46_not_in_training(compute, name):
    with pytest.raises(poptorch.Error, match=rf"poptorch.{name}\(\) is only supported in inference"):
        poptorch.trainingModel(Trains(compute)).compile(torch.ones(2, 3))


# --- Host code and custom operations


def test_S47_host_code_runs_with_every_micro_batch():
    seen = []

    def on_host(x):
        seen.append(x.tolist())
        return torch.from_numpy(x.numpy() * 2), x.sum()

    host = poptorch.CPU(on_host, "host")
    model = poptorch.inferenceModel(Calls(lambda x: host(x + 1)), poptorch.Options().deviceIterations(2))
    doubled, total = model(torch.tensor([1.0, 2.0]))
    assert seen[-2:] == [[2.0], [3.0]]
    assert (doubled.tolist(), total.tolist()) == ([4, 6], [2, 3])
    assert host(torch.ones(1))[0].item() == 2, "on the host it is the callable"


def test_S47_host_code_is_not_differentiated():
    host = poptorch.CPU(torch.exp, "host")
    with pytest.raises(poptorch.Error, match=r"poptorch.CPU is only supported in inference"):
        poptorch.trainingModel(Trains(host)).compile(torch.ones(2, 3))


def cube(inputs, attributes):
    return [attributes["scale"] * inputs[0] ** 3]


def test_custom_operations_run_what_is_registered():
    poptorch.register_custom_op("Cube", "test.ops", cube)

    def compute(x):
        return poptorch.custom_op((x,), "Cube", "test.ops", 1, (x,), {"scale": 2.0})[0]

    assert on_device(compute, torch.tensor([1.0, 2.0])).tolist() == [2, 16]
    model = Trains(compute)
    reference = model.layer.weight.detach().clone()
    poptorch.trainingModel(model)(torch.ones(2, 3))
    assert not torch.equal(model.layer.weight.detach(), reference), "it is differentiated"


def test_custom_operations_must_be_registered():
    with pytest.raises(poptorch.Error, match=r"no custom operation test.ops.Missing.*register_custom_op"):
        on_device(lambda x: poptorch.custom_op((x,), "Missing", "test.ops", 1, (x,))[0], torch.ones(1))


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        ([1, 2.0], ValueError, "one of these"),
        ({}, ValueError, "one of these"),
        ([], ValueError, "empty list"),
        ("\u00e9t\u00e9", ValueError, "non-ASCII"),
        (1e39, poptorch.Error, "too high for a Popart float"),
        (-(2**63) - 1, poptorch.Error, "too low for a Popart int"),
    ],
)
def test_custom_operations_attributes(value, error, said):
    with pytest.raises(error, match=said):
        poptorch.custom_op((), "Cube", "test.ops", 1, (), {"attribute": value})


# --- Slices and products


def test_S43_a_dynamic_slice_starts_where_a_tensor_says():
    model = poptorch.inferenceModel(Calls(lambda x, start: poptorch.dynamic_slice(x, 1, start, 4, 2)))
    x = torch.arange(16.0).reshape(2, 8)
    model.compile(x, torch.tensor(0))
    assert model(x, torch.tensor(3)).tolist() == [[3, 5], [11, 13]]
    assert model(x, torch.tensor(6)).tolist() == [[6, 0], [14, 8]], "past the end it goes on at the beginning"


def test_S43_bounds_that_differ_by_a_constant_make_a_slice():
    def compute(x, i):
        return x[:, i - 1 + 3 : 1 + i + 5], x[i : i.long() + 1, 2:4]

    x = torch.arange(32.0).reshape(4, 8)
    model = poptorch.inferenceModel(Calls(compute))
    model.compile(x, torch.tensor([0]))
    wide, small = model(x, torch.tensor([2]))
    assert wide[0].tolist() == [4, 5, 6, 7]
    assert small.tolist() == [[18, 19]]


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        (lambda x, i: x[i : i * 2], "related by a constant"),
        (lambda x, i: x[i:4], "related by a constant"),
        (lambda x, i: x[i:i], "must be different"),
        (lambda x, i: x[i : i - 2], "end less than the start"),
        (lambda x, i: x[i : i + 3], "must be a factor"),
    ],
)
def test_S43_bounds_of_slices(compute, said):
    with pytest.raises(poptorch.Error, match=said) as refused:
        on_device(compute, torch.ones(8), torch.tensor(1))
    assert refused.value.location.startswith(__file__)


def test_S42_bounds_on_the_host_are_constants():
    start = torch.tensor([2])
    assert on_device(lambda x: x[start : start + 2], torch.arange(4.0)).tolist() == [2, 3]


def test_a_dynamic_update_writes_where_a_tensor_says():
    def compute(x, src, start):
        return poptorch.dynamic_update(x, src, 0, start, 2)

    x = torch.zeros(6)
    assert on_device(compute, x, torch.ones(2), torch.tensor([3])).tolist() == [0, 0, 0, 1, 1, 0]
    assert x.tolist() == [0] * 6


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "start and end of a slice must be different"),
        (-2, "end less than the start"),
        (3, r"size of the slice \(3\) must be a factor of the slicing dimension \(8\)"),
        (1.5, "size must be an int"),
    ],
)
def test_S43_sizes_of_slices(size, said):
    with pytest.raises(poptorch.Error, match=said):
        poptorch.dynamic_slice(torch.ones(8), 0, torch.tensor([0]), size, 1)


def test_a_serialised_product_is_the_product():
    a, b = torch.randn(4, 6), torch.randn(6, 8)
    mode = poptorch.MatMulSerializationMode.ReducingDim

    def compute(a, b):
        return poptorch.serializedMatMul(a, b, mode, 3)

    torch.testing.assert_close(on_device(compute, a, b), a @ b, check_dtype=False)
    (product,) = compiled(compute, a, b).operations
    assert product.attributes["serialised"] == ("reducing_dim", 3, False)
    with pytest.raises(poptorch.Error, match="can't cut ReducingDim, a dimension of 6, into 4 slices"):
        on_device(lambda a, b: poptorch.serializedMatMul(a, b, mode, 4), a, b)


# --- Marks


def test_marks_change_nothing_and_are_noted():
    def compute(x, weight):
        with poptorch.NameScope("encoder"), poptorch.Attribute(__outline={"layer": "a"}):
            product = x @ weight
        return poptorch.nop(poptorch.set_available_memory(product, 0.2)) + 1

    x, weight = torch.randn(2, 3), torch.randn(3, 2)
    torch.testing.assert_close(on_device(compute, x, weight), x @ weight + 1, check_dtype=False)
    product, *others = compiled(compute, x, weight).operations
    assert product.attributes["available_memory_proportion"] == 0.2
    assert product.attributes["scope"] == ("encoder",)
    assert product.attributes["attributes"] == {"__outline": {"layer": "a"}}
    assert all("scope" not in other.attributes for other in others)


def test_available_memory_is_a_fraction():
    with pytest.raises(ValueError, match="between 0 and 1"):
        poptorch.set_available_memory(torch.ones(1), 1.5)


def test_a_checkpoint_takes_tensors_or_one_list():
    a, b = torch.ones(1), torch.ones(2)
    assert poptorch.recomputationCheckpoint(a) is a
    assert poptorch.recomputationCheckpoint(a, b) == (a, b)
    assert poptorch.recomputationCheckpoint([a, b]) == [a, b]
    with pytest.raises(ValueError, match="takes tensors"):
        poptorch.recomputationCheckpoint(a, [b])


def test_tensors_are_printed_when_the_program_runs(capsys):
    model = poptorch.inferenceModel(Calls(lambda x: poptorch.ipu_print_tensor(x, "x") + 1))
    model.compile(torch.ones(2))
    assert capsys.readouterr().err == ""
    model(torch.tensor([[1.5, 2.0]]).reshape(2))
    assert capsys.readouterr().err == "x: (1.500, 2.000)\n"


def test_gradients_are_printed_too(capsys):
    poptorch.trainingModel(Trains(lambda x: poptorch.ipu_print_tensor(x, "x")))(torch.ones(1, 3))
    assert "x_gradient: (\n (1.000, 1.000, 1.000)\n)\n" in capsys.readouterr().err


def test_S47_multi_convolutions():
    first, second = nn.Conv2d(1, 2, 3), nn.Conv2d(1, 2, 3)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x):
            with poptorch.MultiConv().availableMemoryProportions([0.1, 0.2]):
                return self.first(x), self.second(x)

    x = torch.randn(1, 1, 4, 4)
    model = poptorch.inferenceModel(Model())
    for result, layer in zip(model(x), (first, second), strict=True):
        torch.testing.assert_close(result.as_subclass(torch.Tensor), layer(x).detach())
    settings = {"available_memory_proportions": [0.1, 0.2]}
    assert [each.attributes["multi_conv"] for each in model.program.operations] == [settings] * 2


def nested(x):
    with poptorch.MultiConv(), poptorch.MultiConv():
        return F.conv1d(x, x)


def empty(x):
    with poptorch.MultiConv():
        return x + 1


def unequal(x):
    with poptorch.MultiConv().enableConvDithering([True, False]):
        return F.conv1d(x, x)


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        (nested, "Nested poptorch.MultiConv is not supported"),
        (empty, "Unexpected end_multi_conv"),
        (unequal, r"has 1 convolution\(s\), but convolution_dithering lists 2"),
    ],
)
def test_S47_wrong_multi_convolutions(compute, said):
    with pytest.raises(poptorch.Error, match=said):
        on_device(compute, torch.ones(1, 1, 2))


def test_S47_multi_convolution_settings_are_checked():
    with pytest.raises(ValueError, match="Invalid partials types"):
        poptorch.MultiConv().partialsTypes("half")
    with pytest.raises(AssertionError, match="Invalid plan type"):
        poptorch.MultiConv().planType("parallel")


def test_farthest_points():
    points = torch.tensor([[0.0], [1.0], [10.0], [4.0]])
    assert on_device(lambda x: poptorch.fps(x, [0, 4], 0.75), points).tolist() == [0, 2, 3]


def test_nearest_points():
    x, y = torch.tensor([[0.0], [9.0]]), torch.tensor([[1.0], [8.0], [20.0]])
    assert on_device(poptorch.nearest, x, y).tolist() == [0, 1]
    assert on_device(lambda x, y: poptorch.nearest(x, y, [0, 1], [0, 0, 1]), x, y).tolist() == [0, 2]


def test_beam_search_is_not_emulated():
    with pytest.raises(poptorch.Error, match="not emulated"):
        poptorch.ctc_beam_search_decoder(torch.ones(1), torch.ones(1))


# --- Overlapped transfers

BESIDE = poptorch.OverlapMode.OverlapAccumulationLoop


def overlapping(io_tiles=32, strategy=None, mode=poptorch.OutputMode.All):
    options = poptorch.Options().outputMode(mode)
    options.setExecutionStrategy(strategy or poptorch.ShardedExecution())
    if io_tiles:
        options.TensorLocations.numIOTiles(io_tiles)
    return options


def marked(x):
    return poptorch.set_overlap_for_output(poptorch.set_overlap_for_input(x, BESIDE) + 1, BESIDE)


def test_S48_overlap_is_noted():
    model = poptorch.inferenceModel(Calls(marked), overlapping())
    assert model(torch.ones(2)).tolist() == [2, 2]
    assert model.program.operations[0].attributes["overlap"] == "overlap_accumulation_loop"


def test_S48_dicts_and_tuples_are_marked_through():
    assert poptorch.set_overlap_for_input({"a": (torch.ones(1),)}, BESIDE)["a"][0].item() == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            lambda: overlapping(strategy=poptorch.PipelinedExecution()),
            "not supported with poptorch.PipelinedExecution",
        ),
        (lambda: overlapping(io_tiles=0), "No IO tiles allocated"),
        (lambda: overlapping(mode=poptorch.OutputMode.Final), "OutputMode.All or OutputMode.Sum"),
    ],
)
def test_S48_options_that_overlap_needs(options, said):
    with pytest.raises(poptorch.Error, match=said):
        poptorch.inferenceModel(Calls(marked), options()).compile(torch.ones(2))


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        (lambda x: poptorch.set_overlap_for_input(x + 1, BESIDE) + 1, "not a tensor input"),
        (
            lambda x: (x + 1, poptorch.set_overlap_for_input(x, BESIDE) + 1),
            "only op applied to an input.*input 0",
        ),
        (lambda x: poptorch.set_overlap_for_output(x + 1, BESIDE) + 1, "not a tensor output"),
        (lambda x: [poptorch.set_overlap_for_output(x + 1, BESIDE)] * 2, "returned twice"),
    ],
)
def test_S48_what_is_marked(compute, said):
    with pytest.raises(poptorch.Error, match=said):
        poptorch.inferenceModel(Calls(compute), overlapping()).compile(torch.ones(2))
