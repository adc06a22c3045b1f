"""Options: setters, attributes, copies, freezing."""

import pytest
import torch

import poptorch
from poptorch import OutputMode, ReductionType


def test_setters_chain_and_values_read_as_attributes():
    options = poptorch.Options().deviceIterations(4).replicationFactor(2).outputMode(OutputMode.EveryN, 3)
    options.Training.gradientAccumulation(8).accumulationAndReplicationReductionType(ReductionType.Sum)
    assert (options.device_iterations, options.replication_factor) == (4, 2)
    assert (options.output_mode, options.output_return_period) == (OutputMode.EveryN, 3)
    assert options.Training.gradient_accumulation == 8
    assert options.Training.accumulation_and_replication_reduction_type == ReductionType.Sum


def test_values_can_be_assigned():
    options = poptorch.Options()
    options.replication_factor = 4
    assert options.replication_factor == 4


def test_unknown_names_are_refused():
    options = poptorch.Options()
    with pytest.raises(AttributeError, match="no option 'device_iteration'"):
        options.device_iteration = 3
    with pytest.raises(AttributeError):
        _ = options.device_iteration


@pytest.mark.parametrize("value", [2.0, "2", None, True])
def test_wrong_types_are_refused(value):
    with pytest.raises(AssertionError, match="int"):
        poptorch.Options().deviceIterations(value)
    with pytest.raises(AssertionError, match="int"):
        poptorch.Options().device_iterations = value


@pytest.mark.parametrize("value", [0, -1])
def test_counts_start_at_one(value):
    with pytest.raises(AssertionError, match="at least 1"):
        poptorch.Options().replicationFactor(value)


@pytest.mark.parametrize("period", [None, 0, -2])
def test_S12_every_n_needs_a_positive_period(period):
    with pytest.raises(AssertionError, match="positive"):
        poptorch.Options().outputMode(OutputMode.EveryN, period)


def test_S12_other_modes_ignore_the_period():
    assert poptorch.Options().outputMode(OutputMode.All, 5).output_return_period == 1


def test_S20_gradients_reduce_by_mean_or_sum():
    with pytest.raises(ValueError, match="NoReduction"):
        poptorch.Options().Training.accumulationAndReplicationReductionType(ReductionType.NoReduction)


def test_S38_random_seed_seeds_the_host():
    poptorch.Options().randomSeed(5)
    first = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(first, torch.rand(3))


def test_a_wrapped_model_freezes_its_options(classifier):
    options = poptorch.Options()
    model = poptorch.inferenceModel(classifier, options)
    for frozen in (options, model.options):
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            frozen.deviceIterations(2)
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            frozen.Training.gradientAccumulation(2)


def test_a_clone_can_be_changed_and_leaves_the_original():
    options = poptorch.Options().deviceIterations(3)
    options._freeze()
    clone = options.clone()
    clone.deviceIterations(5).Training.gradientAccumulation(7)
    assert (options.device_iterations, options.Training.gradient_accumulation) == (3, 1)
    assert (clone.device_iterations, clone.Training.gradient_accumulation) == (5, 7)


def test_enumerations_have_the_vendors_values():
    assert {mode.name: mode.value for mode in OutputMode} == {
        "Final": 0,
        "EveryN": 1,
        "All": 2,
        "Sum": 3,
        "Default": 4,
    }
    assert [ReductionType.Sum.value, ReductionType.Mean.value, ReductionType.NoReduction.value] == [0, 1, 2]
