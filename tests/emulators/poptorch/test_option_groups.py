"""Groups of options, and options from text and from the environment."""

import copy
import pickle

import pytest
import torch

import poptorch


def test_precision():
    options = poptorch.Options()
    options.Precision.setPartialsType(torch.half).enableStochasticRounding(True)
    assert options.Precision.partials_type == torch.float16
    assert options.Precision.stochastic_rounding
    with pytest.raises(ValueError, match="Partial sums"):
        options.Precision.setPartialsType(torch.int32)


def test_deprecated_options_warn_and_change_nothing(caplog):
    options = poptorch.Options()
    options.Precision.halfFloatCasting(poptorch.HalfFloatCastingBehavior.HalfUpcastToFloat)
    options.Precision.runningStatisticsAlwaysFloat(False)
    options.Jit.traceModel(False)
    assert caplog.text.count("deprecated") == 3
    with pytest.raises(ValueError, match=r"torch\.jit\.trace"):
        options.Jit.traceModel(True)
    with pytest.raises(ValueError, match="True or False"):
        options.Precision.runningStatisticsAlwaysFloat(1)


@pytest.mark.parametrize("tiles", [10, 33, 194])
def test_S48_io_tiles_are_even_and_within_limits(tiles):
    with pytest.raises(AssertionError, match="even number between 32 and 192"):
        poptorch.Options().TensorLocations.numIOTiles(tiles)


def test_tensor_locations_read_as_dictionaries():
    options = poptorch.Options()
    options.TensorLocations.setOptimizerLocation(
        poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(4)
    )
    assert options.TensorLocations.location_optimizer == {"onChip": False, "minElementsForOffChip": 4}


def test_distributed_processes_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    options = poptorch.Options()
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (2, 4)
    options.Distributed.disable()
    assert options.Distributed.numProcesses == 1
    options.Distributed.configureProcessId(1, 3)
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (1, 3)


def test_available_memory_is_given_by_ipu():
    options = poptorch.Options().setAvailableMemoryProportion({"IPU0": 0.5, "IPU12": 0.1})
    assert options.available_memory_proportion == {0: 0.5, 12: 0.1}
    with pytest.raises(AssertionError, match="such as 'IPU0'"):
        options.setAvailableMemoryProportion({"0": 0.5})


def test_S60_input_groups_divide_the_replicas():
    options = poptorch.Options().replicationFactor(8)
    options.inputReplicaGrouping(4, poptorch.CommGroupType.Orthogonal)
    assert options._micro_batches_per_call() == 2
    with pytest.raises(ValueError, match="factor of replicationFactor"):
        options.inputReplicaGrouping(3, poptorch.CommGroupType.Consecutive)
    with pytest.raises(ValueError, match="no input would be split"):
        options.inputReplicaGrouping(2, poptorch.CommGroupType.All)


def test_execution_strategies_only():
    assert poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    with pytest.raises(AssertionError, match="strategy must be of type"):
        poptorch.Options().setExecutionStrategy(poptorch.AutoStage.SameAsIpu)


def test_freezing_reaches_all_groups_and_no_copy():
    options = poptorch.Options()
    options._freeze()
    changes = [
        lambda o: o.Precision.enableStochasticRounding(True),
        lambda o: o.TensorLocations.numIOTiles(32),
        lambda o: o.Distributed.configureProcessId(0, 2),
        lambda o: o._Popart.set("autoRecomputation", 1),
        lambda o: o.anchorTensor("a", "b"),
        lambda o: o.set(random_seed=4),
    ]
    for change in changes:
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            change(options)
        change(copy.deepcopy(options))


def test_options_show_all_values_and_can_be_pickled():
    options = poptorch.Options().replicationFactor(4)
    options.Precision.enableStochasticRounding(True)
    text = repr(options)
    assert text.startswith("Options(")
    assert "replication_factor=4" in text
    assert "stochastic_rounding=True" in text
    assert repr(pickle.loads(pickle.dumps(options))) == text


def test_S72_options_from_json():
    options = poptorch.Options()
    options.from_json(
        '{"deviceIterations": 3, "Training.gradientAccumulation": 8, '
        '"outputMode": ["OutputMode.EveryN", 4], "setAvailableMemoryProportion": {"IPU0": 0.2}}'
    )
    assert options.device_iterations == 3
    assert options.Training.gradient_accumulation == 8
    assert (options.output_mode, options.output_return_period) == (poptorch.OutputMode.EveryN, 4)
    assert options.available_memory_proportion == {0: 0.2}


def test_S65_options_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", '{"deviceIterations": 5}')
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(tmp_path))
    options = poptorch.Options()
    assert options.device_iterations == 5
    assert options.cache_dir == str(tmp_path)


def test_S72_options_from_a_file(tmp_path):
    file = tmp_path / "fast.conf"
    file.write_text("# for the demo\n deviceIterations(4) # many\n\noutputMode(poptorch.OutputMode.All)\n")
    options = poptorch.Options().loadFromFile(file)
    assert options.device_iterations == 4
    assert options.output_mode == poptorch.OutputMode.All


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("deviceIterations(", "SyntaxError at line 2 of bad.conf: unexpected EOF while parsing"),
        ("deviceIterations(0)", "AssertionError at line 2 of bad.conf: deviceIterations must be at least 1"),
        ("deviceIteration(3)", "AttributeError at line 2 of bad.conf: Options has no option"),
    ],
)
def test_S72_a_bad_line_is_named(tmp_path, line, said):
    file = tmp_path / "bad.conf"
    file.write_text(f"replicationFactor(2)\n# a comment\n{line}\n")
    with pytest.raises(poptorch.ConfigFileError) as raised:
        poptorch.Options().loadFromFile(file)
    assert said in str(raised.value)
    assert str(raised.value).endswith(f"> options.{line}")


def test_popart_options_are_checked_when_a_model_is_compiled():
    for key, value, said in [
        ("outlineTreshold", 1.0, "Unknown PopART option 'outlineTreshold'"),
        ("outlineThreshold", torch.ones(1), "Unknown value type"),
    ]:
        options = poptorch.Options()
        options._Popart.set(key, value)
        with pytest.raises(poptorch.Error, match=said):
            poptorch.inferenceModel(torch.nn.ReLU(), options).compile(torch.ones(1))


def test_the_compiler_is_told_every_option(caplog):
    poptorch.setLogLevel("DEBUG")
    try:
        options = poptorch.Options().deviceIterations(2).enableExecutableCaching(None)
        options._Popart.set("dotChecks", ["FINAL"]).setEngineOptions({"debug.x": "true"})
        poptorch.inferenceModel(torch.nn.ReLU(), options).compile(torch.ones(2))
    finally:
        poptorch.setLogLevel("WARN")
    for line in (
        "set device_iterations to value 2",
        "set execution_mode to value 0",
        "added FINAL to dotChecks",
        "set engineOptions[debug.x] to true",
    ):
        assert f"poptorch.Options {line}" in caplog.text
