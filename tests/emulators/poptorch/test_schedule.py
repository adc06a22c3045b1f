"""Which part works when, and the rules about micro-batches and IPUs that follow from it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from poptorch.capture.schedule import Pass

FORWARD, RECOMPUTE, BACKWARD = Pass.FORWARD, Pass.RECOMPUTE, Pass.BACKWARD


class Deep(nn.Module):
    """As many linear layers as asked for, each on an IPU of its own, and a loss on the last."""

    def __init__(self, ipus):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(ipus)])
        for ipu, layer in enumerate(self.layers):
            poptorch.BeginBlock(layer, str(ipu), ipu)

    def forward(self, x, target=None):
        for layer in self.layers:
            x = layer(x)
        return x if target is None else (x, F.mse_loss(x, target))


def inference(ipus, iterations, strategy=None, **setters):
    options = poptorch.Options().deviceIterations(iterations)
    return compiled(Deep(ipus), options, strategy, setters, poptorch.inferenceModel, iterations, 1)


def training(ipus, accumulation, strategy=None, iterations=1, **setters):
    options = poptorch.Options().deviceIterations(iterations)
    options.Training.gradientAccumulation(accumulation)
    return compiled(
        Deep(ipus), options, strategy, setters, poptorch.trainingModel, iterations * accumulation, 2
    )


def compiled(model, options, strategy, setters, wrap, micro_batches, arguments):
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    for setter, value in setters.items():
        getattr(options, setter)(value)
    wrapped = wrap(model, options)
    wrapped.compile(*[torch.ones(micro_batches * options.replication_factor, 4)] * arguments)
    return wrapped.program.schedule


def shown(schedule):
    """Each step as a set of (part, micro-batch, pass)."""
    return [[(work.part, work.micro_batch, work.kind) for work in step] for step in schedule.steps()]


def test_one_ipu_takes_one_micro_batch_after_the_other():
    schedule = training(1, 2)
    assert not schedule.pipelined
    assert shown(schedule) == [[(0, m, FORWARD), (0, m, BACKWARD)] for m in range(2)]
    assert (schedule.fill, schedule.ipus, schedule.recomputes) == (0, 1, False)


def test_S55_inference_fills_and_drains_one_stage_an_ipu():
    schedule = inference(2, 3)
    assert shown(schedule) == [
        [(0, 0, FORWARD)],
        [(0, 1, FORWARD), (1, 0, FORWARD)],
        [(0, 2, FORWARD), (1, 1, FORWARD)],
        [(1, 2, FORWARD)],
    ]
    assert (schedule.rounds, schedule.micro_batches, schedule.pipeline_stages, schedule.fill) == (1, 3, 2, 1)


def test_S55_training_has_a_stage_more_for_every_backward_part():
    schedule = training(2, 3, iterations=5)
    assert shown(schedule) == [
        [(0, 0, FORWARD)],
        [(0, 1, FORWARD), (1, 0, FORWARD), (1, 0, BACKWARD)],
        [(0, 2, FORWARD), (1, 1, FORWARD), (1, 1, BACKWARD), (0, 0, RECOMPUTE), (0, 0, BACKWARD)],
        [(1, 2, FORWARD), (1, 2, BACKWARD), (0, 1, RECOMPUTE), (0, 1, BACKWARD)],
        [(0, 2, RECOMPUTE), (0, 2, BACKWARD)],
    ]
    assert (schedule.rounds, schedule.micro_batches, schedule.pipeline_stages, schedule.fill) == (5, 3, 3, 2)


def test_S57_pipelines_stash_inputs_of_parts_for_the_micro_batches_in_flight():
    schedule = training(4, 7, autoRoundNumIPUs=True)
    assert schedule.recomputes
    assert [schedule.stashed(part) for part in range(4)] == [7, 5, 3, 1]
    assert inference(4, 4).stashed(0) == 0


def test_S57_recomputation_can_be_switched_off():
    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    options._Popart.set("autoRecomputation", 0)
    schedule = compiled(Deep(2), options, None, {}, poptorch.trainingModel, 3, 2)
    assert not any(kind is RECOMPUTE for step in shown(schedule) for _, _, kind in step)


def test_S57_checkpoints_are_kept():
    class Checkpointed(Deep):
        def forward(self, x, target):
            x = self.layers[0](x).relu()
            x = poptorch.recomputationCheckpoint(x)
            x = self.layers[1](x.exp())
            return x, F.mse_loss(x, target)

    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    model = poptorch.trainingModel(Checkpointed(2), options)
    model.compile(torch.ones(3, 4), torch.ones(3, 4))
    relu = next(each for each in model.program.operations if each.op == "aten.relu.default")
    assert model.program.schedule.checkpoints == (relu.name,)


def test_sharded_parts_work_in_turn():
    schedule = training(2, 2, poptorch.ShardedExecution())
    once = [[(0, FORWARD)], [(1, FORWARD)], [(1, BACKWARD)], [(0, BACKWARD)]]
    assert [[(part, kind) for part, _, kind in step] for step in shown(schedule)] == once * 2
    assert not schedule.recomputes


@pytest.mark.parametrize(("ipus", "accumulation"), [(4, 6), (2, 2), (2, 1)])
def test_S55_a_pipeline_that_trains_needs_enough_gradient_accumulation(ipus, accumulation):
    stages, more = 2 * ipus - 1, ipus - 1
    with pytest.raises(poptorch.Error) as refused:
        training(ipus, accumulation)
    assert f"number of pipeline stages ({stages})" in refused.value.message
    assert f"a model with {ipus} pipeline stages" in refused.value.message
    assert f"additional {more} stages when training" in refused.value.message
    training(ipus, stages)
    training(ipus, accumulation, poptorch.ShardedExecution())


def test_S55_a_pipeline_that_infers_needs_enough_device_iterations():
    with pytest.raises(poptorch.Error, match=r"deviceIterations must be greater.*stages \(4\).*but it is 3"):
        inference(4, 3)
    inference(4, 3, poptorch.ShardedExecution())


def test_S56_ipus_come_in_powers_of_two():
    with pytest.raises(poptorch.Error, match=r"use of 3 IPUs.*minimum of 4.*autoRoundNumIPUs\(True\)"):
        inference(3, 3)


def test_S56_rounding_up_is_said(caplog):
    assert inference(3, 3, autoRoundNumIPUs=True).ipus == 4
    assert "3 IPUs and 4 are reserved" in caplog.text


def test_S56_replicas_have_ipus_of_their_own():
    assert inference(2, 2, replicationFactor=4).ipus == 8


def test_S56_unused_ids_count():
    model = Deep(1)
    poptorch.removeBlocks(model)
    poptorch.BeginBlock(model.layers[0], ipu_id=3)
    wrapped = poptorch.inferenceModel(model)
    wrapped.compile(torch.ones(1, 4))
    assert wrapped.program.schedule.ipus == 4


def test_S56_a_process_has_64_ipus():
    with pytest.raises(poptorch.Error, match=r"Too many IPUs requested \(128\)"):
        inference(1, 1, replicationFactor=128)


def test_S56_a_chosen_device_must_be_large_enough():
    with pytest.raises(poptorch.Error, match="needs 2"):
        inference(2, 2, useIpuId=5)


# --- Phased execution


def phased(strategy):
    return training(4, 1, strategy)


def test_phases_go_forward_and_back():
    strategy = poptorch.SerialPhasedExecution(["0", "1"], ["2", "3"])
    strategy.phase(0).ipus(0)
    strategy.phase(1).ipus(0)
    schedule = phased(strategy)
    assert schedule.off_chip
    assert [(part.phase, part.ipu) for part in schedule.parts] == [(0, 0), (1, 0)]
    assert [[(part, kind) for part, _, kind in step] for step in shown(schedule)] == [
        [(0, FORWARD)],
        [(1, FORWARD)],
        [(1, BACKWARD)],
        [(0, BACKWARD)],
    ]


def test_stages_of_a_phase_run_side_by_side():
    strategy = poptorch.SerialPhasedExecution(
        poptorch.Phase(poptorch.Stage("0"), poptorch.Stage("1")),
        poptorch.Phase(poptorch.Stage("2"), poptorch.Stage("3")),
    )
    strategy.phase(0).ipus(0, 1)
    strategy.phase(1).ipus(0, 1)
    schedule = phased(strategy)
    assert [(part.phase, part.ipu) for part in schedule.parts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [[part for part, _, _ in step] for step in shown(schedule)] == [[0, 1], [2, 3], [2, 3], [0, 1]]


def test_S57_parallel_phases_alternate_between_even_and_odd_ipus():
    phases = [[poptorch.Stage("0"), poptorch.Stage("1")], [poptorch.Stage("2"), poptorch.Stage("3")]]
    strategy = poptorch.ParallelPhasedExecution(*phases)
    strategy.phase(0).ipus(0, 2)
    strategy.phase(1).ipus(1, 3)
    assert [part.ipu for part in phased(strategy).parts] == [0, 2, 1, 3]
    strategy.phase(1).ipus(2, 3)
    with pytest.raises(poptorch.Error, match=r"Phase 1 has a stage on IPU 2.*even phases run on even IPUs"):
        phased(strategy)


def test_phases_are_made_of_stages_ids_or_lists():
    for phases in (["a", "b"], [poptorch.Stage("a"), poptorch.Stage("b")], [["a"], ["b"]]):
        strategy = poptorch.SerialPhasedExecution(*phases)
        assert strategy.stage("b") is strategy.phase(1).stage(0)
    with pytest.raises(AssertionError, match="phases"):
        poptorch.SerialPhasedExecution()
    with pytest.raises(AssertionError, match="mixture"):
        poptorch.Phase(poptorch.Stage("a"), "b")
    with pytest.raises(AssertionError, match="as many IPUs"):
        poptorch.Phase("a").ipus(0, 1)
    with pytest.raises(AssertionError, match="phases 0 to 0"):
        poptorch.SerialPhasedExecution("a").phase(1)


# --- Numbers


@pytest.mark.parametrize(
    "strategy",
    [
        None,
        poptorch.ShardedExecution(),
        poptorch.PipelinedExecution("0", "1"),
        poptorch.SerialPhasedExecution("0", "1"),
        poptorch.ParallelPhasedExecution(
            poptorch.Phase(poptorch.Stage("0").ipu(0)), poptorch.Phase(poptorch.Stage("1").ipu(1))
        ),
    ],
)
def test_S59_every_strategy_computes_the_sequential_model(strategy, train_plainly, assert_same_weights):
    model = Deep(2)
    reference = Deep(2)
    reference.load_state_dict(model.state_dict())
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(3)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    inputs = torch.randn(12, 4), torch.randn(12, 4)
    poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))(*inputs)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.1), inputs, 2, 3)
    assert_same_weights(model, reference)
