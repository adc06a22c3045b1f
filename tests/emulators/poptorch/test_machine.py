"""The machines' published figures follow from their facts."""

import pytest
import torch

from poptorch.errors import Error
from poptorch.machine import BOW, GC2, GC200, machine_named, machine_of

HALF, SINGLE = torch.float16, torch.float32


@pytest.mark.parametrize(
    ("machine", "half_tflops", "single_tflops", "mebibytes"),
    [(GC2, 124.5, 31.1, 304), (GC200, 250, 62.5, 897), (BOW, 350, 87, 897)],
)
def test_peak_and_memory_are_the_data_sheets(machine, half_tflops, single_tflops, mebibytes):
    assert machine.peak_flops(HALF, HALF) / 1e12 == pytest.approx(half_tflops, rel=0.01)
    assert machine.peak_flops(SINGLE, SINGLE) / 1e12 == pytest.approx(single_tflops, rel=0.01)
    assert machine.memory / 2**20 == pytest.approx(mebibytes, rel=0.001)


def test_float_partials_halve_the_rate_of_half_precision():
    assert GC200.macs(HALF, SINGLE) * 2 == GC200.macs(HALF, HALF)
    assert GC200.macs(SINGLE, HALF) == GC200.macs(SINGLE, SINGLE)


def test_bow_is_a_gc200_with_a_faster_clock():
    assert BOW.tiles == GC200.tiles
    assert GC200.seconds(1000) / BOW.seconds(1000) == pytest.approx(1.85 / 1.33)


def test_s65_versions_and_names_choose_a_machine():
    assert [machine_of(version) for version in (1, 2, 21)] == [GC2, GC200, BOW]
    assert machine_named("Bow") is BOW


def test_an_unknown_machine_is_an_error_that_lists_those_there_are():
    with pytest.raises(Error, match="gc2, gc200, bow"):
        machine_named("gc3")


def test_s71_a_tile_has_638976_bytes():
    assert GC200.memory_per_tile == 638976
