"""Blocks: how a model is marked, and what the marks mean under each strategy."""

import copy
import pickle

import pytest
import torch
from torch import nn

import poptorch

AUTO_INCREMENT = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Chain(nn.Module):
    """Three layers, each a multiplication by a number of its own."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Scale(2), Scale(3), Scale(4))

    def forward(self, x):
        return self.layers(x)


class Calls(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, x):
        return self.compute(x)


def compiled(model, strategy=None, iterations=8):
    options = poptorch.Options().deviceIterations(iterations).autoRoundNumIPUs(True)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    model = poptorch.inferenceModel(model, options)
    model.compile(torch.ones(iterations, 5))
    return model


def places(model):
    return [(each.place.stage, each.place.ipu) for each in model.program.operations]


def test_S53_layers_belong_to_the_last_block_begun():
    model = Chain()
    assert poptorch.BeginBlock(model.layers[1], ipu_id=1) is model.layers[1]
    assert places(compiled(model)) == [(0, 0), (1, 1), (1, 1)]


def test_S53_blocks_in_forward():
    def compute(x):
        with poptorch.Block("first", ipu_id=0):
            x = x * 2
        with poptorch.Block("second", ipu_id=1):
            return x + 1

    model = compiled(Calls(compute))
    assert places(model) == [(0, 0), (1, 1)]
    assert [each.place.block for each in model.program.operations] == ["first", "second"]


def test_S53_a_block_without_a_scope_lasts_until_the_next():
    def compute(x):
        x = x * 2
        poptorch.Block.start(ipu_id=1)
        x = x * 3
        x = x * 4
        poptorch.Block.start(ipu_id=2)
        return x * 5

    assert places(compiled(Calls(compute))) == [(0, 0), (1, 1), (1, 1), (2, 2)]


def test_S53_a_function_can_be_a_block():
    @poptorch.BlockFunction(ipu_id=0)
    def double(x):
        return x * 2

    @poptorch.BlockFunction(ipu_id=1)
    def triple(x):
        return x * 3

    assert places(compiled(Calls(lambda x: triple(double(x))))) == [(0, 0), (1, 1)]


def test_S53_functions_wrapped_by_begin_block():
    triple = poptorch.BeginBlock(lambda x: x * 3, "triple", 1)
    assert triple(2) == 6
    assert places(compiled(Calls(lambda x: triple(x * 2)))) == [(0, 0), (1, 1)]


def test_S53_an_operation_outside_all_blocks_is_refused():
    def compute(x):
        with poptorch.Block(ipu_id=0):
            x = x * 2
        return x * 3  # outside

    with pytest.raises(
        poptorch.Error, match="No active Block, all the ops must belong to a Block"
    ) as refused:
        compiled(Calls(compute))
    assert refused.value.message.endswith("# outside")


def test_S53_a_layer_begins_one_block_only():
    model = Chain()
    poptorch.BeginBlock(model.layers[1], ipu_id=1)
    with pytest.raises(poptorch.Error, match="already been assigned to a block"):
        poptorch.BeginBlock(model.layers[1], ipu_id=2)
    poptorch.removeBlocks(model)
    poptorch.BeginBlock(model.layers[1], ipu_id=3)
    assert places(compiled(model))[1] == (3, 3)


def test_S53_on_the_host_blocks_do_nothing():
    model = Chain()
    poptorch.BeginBlock(model.layers[0], ipu_id=7)
    with poptorch.Block("any", ipu_id=9):
        assert model(torch.ones(1)).item() == 24


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_S53_copies_keep_their_blocks(duplicate):
    model = Chain()
    names = list(model.state_dict())
    poptorch.BeginBlock(model.layers[2], "last", 1)
    twin = duplicate(model)
    assert "(2): BeginBlock(user_id=last, ipu_id=1) Scale()" in poptorch.module_repr(twin)
    assert list(model.state_dict()) == names


def test_module_repr_without_blocks_is_the_modules_own():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
    assert poptorch.module_repr(model) == repr(model)


def test_S54_same_as_ipu_needs_an_ipu():
    with pytest.raises(AssertionError, match=r"needs an ipu_id.*AutoIncrement"):
        compiled(Calls(lambda x: poptorch.BeginBlock(Scale(2), "a")(x)))


def test_S54_same_as_ipu_cannot_go_back():
    model = Chain()
    poptorch.BeginBlock(model.layers[1], ipu_id=1)
    poptorch.BeginBlock(model.layers[2], ipu_id=0)
    with pytest.raises(poptorch.Error, match=r"can't be scheduled.*later stage 1"):
        compiled(model)


def test_S54_auto_increment_gives_each_block_the_next_stage():
    model = Chain()
    for layer, ipu in zip(model.layers, (0, 1, 0), strict=True):
        poptorch.BeginBlock(layer, ipu_id=ipu)
    assert places(compiled(model, AUTO_INCREMENT)) == [(1, 0), (2, 1), (3, 0)]


def test_S54_auto_ids_start_again():
    def compute(x):
        poptorch.Block.useAutoId()
        with poptorch.Block(ipu_id=0):
            x = x * 2
        with poptorch.Block(ipu_id=1):
            return x * 3

    model = compiled(Calls(compute), poptorch.PipelinedExecution("0", "1"))
    assert places(model) == [(0, 0), (1, 1)]


def test_S54_a_stage_lists_blocks_that_exist():
    strategy = poptorch.PipelinedExecution(poptorch.Stage("a"))
    with pytest.raises(AssertionError, match=r"Unknown block 'b'.*'a'"):
        compiled(Calls(lambda x: poptorch.BeginBlock(Scale(2), "b")(x)), strategy)
    with pytest.raises(AssertionError, match="Unknown block 'c'"):
        strategy.stage("c")


def test_S54_a_block_is_in_one_stage():
    with pytest.raises(AssertionError, match="'a' is in two stages"):
        poptorch.PipelinedExecution(poptorch.Stage("a", "b"), poptorch.Stage("c", "a"))


@pytest.mark.parametrize("ids", [(), (1,), ("a", None)])
def test_S54_block_ids_of_a_stage_are_strings(ids):
    with pytest.raises(AssertionError, match="strings"):
        poptorch.Stage(*ids)


def two_blocks(x):
    with poptorch.Block("a", ipu_id=0):
        x = x * 2
    with poptorch.Block("b", ipu_id=1):
        return x * 3


def test_S58_a_stages_ipu_overrides_the_blocks():
    strategy = poptorch.ShardedExecution(poptorch.Stage("a").ipu(1), poptorch.Stage("b").ipu(0))
    assert places(compiled(Calls(two_blocks), strategy)) == [(0, 1), (1, 0)]


def test_S58_consecutive_stages_on_one_ipu_merge():
    strategy = poptorch.PipelinedExecution(poptorch.Stage("a").ipu(0), poptorch.Stage("b").ipu(0))
    parts = compiled(Calls(two_blocks), strategy).program.schedule.parts
    assert [(part.ipu, part.stages, len(part.operations)) for part in parts] == [(0, (0, 1), 2)]
