"""Batches in the size a call consumes."""

import pytest
import torch
from torch.utils.data import TensorDataset

import poptorch


def dataset(elements):
    return TensorDataset(torch.arange(float(elements)), torch.zeros(elements))


def options(iterations=2, replicas=3, accumulation=5):
    chosen = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    chosen.Training.gradientAccumulation(accumulation)
    return chosen


def test_S61_combined_batch_size_is_the_product_of_all_factors():
    loader = poptorch.DataLoader(options(), dataset(130), batch_size=2)
    assert loader.combinedBatchSize == 60
    assert [len(batch) for batch, _ in loader] == [60, 60]


def test_S61_an_incomplete_batch_is_dropped_by_default():
    assert len(poptorch.DataLoader(options(), dataset(130), batch_size=2)) == 2


def test_S61_keeping_an_incomplete_batch_warns(caplog):
    loader = poptorch.DataLoader(options(), dataset(130), batch_size=2, drop_last=False)
    assert [len(batch) for batch, _ in loader] == [60, 60, 10]
    assert "last batch of 10" in caplog.text


def test_S61_a_data_set_may_make_the_batches():
    loader = poptorch.DataLoader(options(), dataset(4), batch_size=None)
    assert loader.combinedBatchSize is None
    assert len(list(loader)) == 4


def test_S62_the_loader_freezes_its_options():
    chosen = options()
    loader = poptorch.DataLoader(chosen, dataset(60))
    assert loader.options is chosen
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        chosen.deviceIterations(4)


def test_shuffling_is_left_to_pytorch():
    loader = poptorch.DataLoader(options(1, 1, 1), dataset(50), batch_size=50, shuffle=True)
    (values, _), *_ = loader
    assert values.tolist() != list(range(50))
    assert sorted(values.tolist()) == list(range(50))


def test_terminate_does_nothing_in_sync_mode():
    loader = poptorch.DataLoader(options(1, 1, 1), dataset(4))
    loader.terminate()
    assert len(list(loader)) == 4
