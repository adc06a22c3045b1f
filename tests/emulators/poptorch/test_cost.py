"""What operations cost: properties that hold whatever the fitted constants are, and what is not modelled."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from poptorch.capture.schedule import Pass, Work
from poptorch.cost import contraction
from poptorch.cost.capturing import captured
from poptorch.cost.contraction import Contraction, matmul
from poptorch.cost.deployment import ADAM, Deployment
from poptorch.cost.execution import Execution
from poptorch.machine import BOW, GC200

HALF, SINGLE = torch.float16, torch.float32


def cycles(work: Contraction, proportion: float = 0.6) -> float:
    return contraction.cost(work, BOW, proportion).total


class Layers(nn.Module):
    def __init__(self, width: int = 64, layers: int = 4):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))

    def forward(self, x, y):
        return F.mse_loss(self.layers(x), y)


def execution(model, *inputs, options=None, training=True, **deployment) -> Execution:
    options = poptorch.Options() if options is None else options
    program = captured(model.train(training), inputs, options, training)
    trained = frozenset(name for name, _ in model.named_parameters()) if training else frozenset()
    return Execution(program, Deployment(deployment.pop("machine", BOW), trained=trained, **deployment))


def pipelined(layers: int, accumulation: int, width: int = 256) -> Execution:
    """A pipeline of equal stages, one layer each."""
    model = Layers(width, layers)
    for number, layer in enumerate(model.layers):
        poptorch.BeginBlock(layer, f"layer{number}", ipu_id=number)
    options = poptorch.Options()
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    options.Training.gradientAccumulation(accumulation)
    return execution(model, torch.empty(8, width), torch.empty(8, width), options=options)


# --- Products and convolutions


@pytest.mark.parametrize("dtype", [HALF, SINGLE])
def test_large_products_come_near_the_peak_and_never_above(dtype):
    work = matmul(1, 2048, 2048, 8192, dtype, dtype)
    share = work.flops / BOW.seconds(cycles(work)) / BOW.peak_flops(dtype, dtype)
    assert 0.5 < share < 1


@pytest.mark.parametrize("side", [256, 1024, 4096])
def test_a_larger_product_never_takes_less_time(side):
    times = [cycles(matmul(1, side, side, columns, HALF, HALF)) for columns in (1, 7, 64, 500, 2048)]
    assert times == sorted(times)


def test_partials_and_precision_cost_time():
    half, mixed, single = (
        cycles(matmul(1, 1024, 1024, 1024, dtype, partials))
        for dtype, partials in ((HALF, HALF), (HALF, SINGLE), (SINGLE, SINGLE))
    )
    assert half < mixed < single


def test_depthwise_costs_more_for_each_multiplication_than_groups_of_16():
    sizes = {"images": 4, "height": 32, "width": 32, "kernel": (3, 3), "dtype": HALF, "partials": HALF}
    depthwise = Contraction(256, 1, 1, **sizes)
    grouped = Contraction(16, 16, 16, **sizes)
    assert cycles(depthwise) / depthwise.flops > 3 * cycles(grouped) / grouped.flops


def test_a_first_layer_with_few_channels_gathers_its_kernel():
    plain = Contraction(1, 3, 64, 8, 112, 112, (7, 7), (2, 2), HALF, HALF)
    wide = Contraction(1, 16, 64, 8, 112, 112, (7, 7), (2, 2), HALF, HALF)
    assert cycles(plain) < 0.5 * cycles(wide)


@pytest.mark.parametrize("proportion", [0.6, 0.2, 0.05])
def test_the_memory_proportion_bounds_temporaries(proportion):
    cost = contraction.cost(matmul(1, 4096, 4096, 4096, HALF, HALF), BOW, proportion)
    assert cost.temporary <= proportion * BOW.memory_per_tile


def test_less_memory_for_products_costs_time():
    work = matmul(1, 4096, 4096, 4096, HALF, HALF)
    assert cycles(work, 0.6) <= cycles(work, 0.2) < cycles(work, 0.05)


# --- Operations


def test_floating_point_operations_are_counted_by_the_textbook():
    run = execution(nn.Sequential(nn.Conv2d(3, 8, 3, bias=False)), torch.empty(2, 3, 10, 10), training=False)
    assert run.prices["conv2d"].forward.flops == 2 * 2 * 8 * 8 * 8 * 3 * 9


def test_the_backward_pass_of_products_is_two_products():
    run = execution(Layers(width=512), torch.empty(64, 512), torch.empty(64, 512))
    first, *others = [price for name, price in run.prices.items() if name.startswith("linear")]
    for price in others:
        assert price.backward.flops == pytest.approx(2 * price.forward.flops, rel=0.01)
    # Nobody asks for the gradient of the input.
    assert first.backward.flops == pytest.approx(first.forward.flops, rel=0.01)


def test_inference_has_no_backward_pass_and_frozen_weights_no_gradients():
    run = execution(nn.Sequential(nn.Linear(8, 8)), torch.empty(4, 8), training=False)
    assert run.part_cycles(0, Pass.BACKWARD).total == 0


def test_no_gradient_goes_through_detach():
    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x, y):
            return F.mse_loss(self.second(self.first(x).detach()), y)

    run = execution(Detached(), torch.empty(4, 8), torch.empty(4, 8))
    assert run.calls["linear_1"]["weight"].wants_gradient
    assert not run.calls["linear_1"]["input"].wants_gradient


def test_recurrent_layers_take_a_product_for_every_step():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(32, 64, batch_first=True)

        def forward(self, x):
            return self.layer(x)[0]

    short, long = (
        execution(Recurrent(), torch.empty(4, steps, 32), training=False).part_cycles(0, Pass.FORWARD)
        for steps in (10, 20)
    )
    assert short.flops >= 2 * 10 * 4 * 4 * 64 * (32 + 64)
    assert long.total == pytest.approx(2 * short.total, rel=0.1)


def test_views_cost_nothing():
    class Views(nn.Module):
        def forward(self, x):
            return x.view(4, 8).unsqueeze(0)[:, 1:3]

    assert execution(Views(), torch.empty(32), training=False).part_cycles(0, Pass.FORWARD).total == 0


def test_an_unknown_operation_is_counted_and_never_silently_zero():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x) + torch.relu(x)

    run = execution(Odd(), torch.empty(64), training=False)
    assert run.not_modelled == {"special_bessel_j0": 1}
    assert run.share_not_modelled == pytest.approx(1 / 3)


# --- Time of a call


def busiest_part(run: Execution) -> float:
    """Seconds that the slowest part works on a micro-batch."""
    kinds = (Pass.FORWARD, Pass.RECOMPUTE, Pass.BACKWARD)
    last = len(run.program.schedule.parts) - 1
    return max(
        sum(
            run.work_seconds(Work(part, 0, kind))
            for kind in kinds
            if part < last or kind is not Pass.RECOMPUTE
        )
        for part in range(last + 1)
    )


@pytest.mark.parametrize("accumulation", [7, 20, 100])
def test_s55_a_pipeline_of_equal_stages_has_the_textbook_efficiency(accumulation):
    run = pipelined(4, accumulation)
    ideal = accumulation * busiest_part(run)
    assert ideal / run.micro_batches_seconds == pytest.approx(accumulation / (accumulation + 3), rel=0.1)


def test_the_slowest_stage_sets_the_pace():
    few, many = pipelined(4, 100), pipelined(4, 200)
    pace = (many.micro_batches_seconds - few.micro_batches_seconds) / 100
    assert pace == pytest.approx(busiest_part(few))


def test_replicas_share_the_work_and_pay_for_the_reduction():
    alone, four = (
        execution(
            Layers(1024), torch.empty(64, 1024), torch.empty(64, 1024), replicas=replicas, synthetic=True
        )
        for replicas in (1, 4)
    )
    assert four.items == 4 * alone.items
    assert four.update_seconds > alone.update_seconds
    assert four.throughput < 4 * alone.throughput


def test_asynchronous_loading_hides_the_shorter_of_host_and_device():
    serial, ahead = (
        execution(
            Layers(), torch.empty(8, 64), torch.empty(8, 64), host_seconds=1e-3, asynchronous=asynchronous
        )
        for asynchronous in (False, True)
    )
    hidden = min(serial.host_seconds, serial.device_seconds)
    assert serial.seconds - ahead.seconds == pytest.approx(hidden)


def test_streaming_optimizer_state_costs_time():
    on, off = (
        execution(
            Layers(1024), torch.empty(8, 1024), torch.empty(8, 1024), update=ADAM, off_chip_state=off_chip
        )
        for off_chip in (False, True)
    )
    assert off.update_seconds > on.update_seconds


def test_recomputation_is_paid_for_by_a_forward_pass():
    options = poptorch.Options()
    options._Popart.set("autoRecomputation", 3)
    inputs = torch.empty(8, 64), torch.empty(8, 64)
    plain, again = execution(Layers(), *inputs), execution(Layers(), *inputs, options=options)
    extra = again.deployment.machine.seconds(again.part_cycles(0, Pass.RECOMPUTE).total)
    assert again.micro_batches_seconds - plain.micro_batches_seconds == pytest.approx(extra)


def test_bow_gains_less_than_its_clock():
    slow, fast = (
        execution(Layers(), torch.empty(8, 64), torch.empty(8, 64), machine=machine)
        for machine in (GC200, BOW)
    )
    assert 1 < fast.throughput / slow.throughput < 1.85 / 1.33
