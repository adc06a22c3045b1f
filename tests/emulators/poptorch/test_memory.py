"""What a tile has to hold, and what is said when it can't."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from poptorch.cost.capturing import captured
from poptorch.cost.deployment import ADAM, Deployment
from poptorch.cost.execution import Execution
from poptorch.machine import GC200
from poptorch.memory import IpuMemory
from poptorch.memory_check import check_fits, remedies


class Stack(nn.Module):
    def __init__(self, width: int, layers: int):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers))
        )

    def forward(self, x, y):
        return F.mse_loss(self.layers(x), y)


def execution(
    width=256, layers=4, rows=64, recompute=False, accumulation=1, ipus=1, training=True, **deployment
):
    with torch.device("meta"):
        model = Stack(width, layers)
        inputs = torch.empty(rows, width), torch.empty(rows, width)
    for ipu in range(1, ipus):
        poptorch.BeginBlock(model.layers[ipu * layers // ipus], f"ipu{ipu}", ipu_id=ipu)
    options = poptorch.Options()
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    if training:
        options.Training.gradientAccumulation(accumulation)
    if recompute:
        options._Popart.set("autoRecomputation", 3)
    trained = frozenset(name for name, _ in model.named_parameters()) if training else frozenset()
    program = captured(model.train(training), inputs, options, training)
    return Execution(program, Deployment(GC200, trained=trained, **deployment))


def by_kind(*args, ipu=0, **kwargs):
    return IpuMemory(execution(*args, **kwargs), ipu).by_kind()


def test_weights_accumulators_and_state_are_as_large_as_the_model():
    kinds = by_kind(accumulation=4, update=ADAM)
    parameters = 4 * (256 * 256 + 256)
    assert kinds["weight"] == 4 * parameters
    assert kinds["gradient accumulator"] == 4 * parameters
    assert kinds["optimizer state"] == 8 * parameters


def test_without_accumulation_there_are_no_accumulators():
    assert "gradient accumulator" not in by_kind(accumulation=1)


def test_state_moves_off_the_chip_or_is_shared_by_replicas():
    whole = by_kind(update=ADAM)["optimizer state"]
    assert "optimizer state" not in by_kind(update=ADAM, off_chip_state=True)
    shared = by_kind(update=ADAM, sharded_state=True, replicas=4)["optimizer state"]
    assert shared == pytest.approx(whole / 4)


def test_training_keeps_activations_that_inference_lets_go():
    training, inference = by_kind(layers=8), by_kind(layers=8, training=False)
    assert training["stash"] > 8 * 64 * 256 * 4 * 0.9
    assert inference["activation"] <= 3 * 64 * 256 * 4


def test_recomputation_keeps_only_the_inputs():
    kept, again = by_kind(layers=8), by_kind(layers=8, recompute=True)
    assert again["stash"] < kept["stash"] / 3


def test_s57_a_pipeline_stashes_more_the_earlier_the_part():
    run = execution(layers=8, ipus=4, accumulation=16)
    copies = []
    for ipu in range(4):
        stash = [held for held in IpuMemory(run, ipu).peak.live if held.kind == "stash"]
        copies.append(max((held.copies for held in stash), default=0))
    assert copies == [7, 5, 3, 1]


def test_the_peak_is_the_largest_moment_and_names_its_tensors():
    memory = IpuMemory(execution(layers=6), 0)
    assert memory.peak.bytes == max(moment.bytes for moment in memory.moments)
    assert all(held.bytes > 0 for held in memory.peak.live)


def test_small_tensors_pile_up_on_the_first_tiles():
    tiles = IpuMemory(execution(width=16, layers=8), 0).tiles
    assert tiles.argmax() == 0
    assert len(tiles) == GC200.tiles


def test_s71_what_fits_passes_and_what_does_not_is_told_with_numbers_and_remedies():
    check_fits(execution())
    too_large = execution(width=4096, layers=16, rows=512, accumulation=2, update=ADAM)
    with pytest.raises(poptorch.Error) as caught:
        check_fits(too_large)
    text = caught.value.message
    assert text.startswith("Out of memory on tile 0: ")
    assert "bytes used but tiles only have 638976 bytes of memory" in text
    assert text.count("MiB") == 5
    assert text.count("saves about") == 3


def test_remedies_save_what_they_say():
    tight = {"width": 2048, "layers": 8, "rows": 4096, "update": ADAM}
    memory = IpuMemory(execution(**tight), 0)
    advised = {remedy.advice.split()[0]: remedy.saving for remedy in remedies(memory, count=9)}
    assert {"recompute", "halve", "move", "half", "twice"} <= set(advised)
    after = IpuMemory(execution(**tight, off_chip_state=True), 0)
    assert advised["move"] == pytest.approx(memory.tiles.max() - after.tiles.max())
