"""Loading in another process: the same data, in order, without loss."""

import math

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info

import poptorch
from poptorch import DataLoaderMode, SharingStrategy
from poptorch.loading.async_worker import rebatched
from poptorch.loading.partition import CombinedBatchSampler, PartitionedDataset
from poptorch.loading.ring_buffer import RingBuffer


class Broken(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise RuntimeError("no such picture")


class Counting(IterableDataset):
    def __init__(self, elements):
        self.start, self.stop = 0, elements

    def __iter__(self):
        return (torch.tensor(float(number)) for number in range(self.start, self.stop))


def take_part(worker):
    info = get_worker_info()
    share = math.ceil(info.dataset.stop / info.num_workers)
    info.dataset.start = share * worker
    info.dataset.stop = min(share * (worker + 1), info.dataset.stop)


def numbers(elements):
    return TensorDataset(torch.arange(float(elements)))


def options(iterations=2):
    return poptorch.Options().deviceIterations(iterations)


def asynchronous(dataset, mode=DataLoaderMode.Async, chosen=None, **arguments):
    # Forked workers start at once; what another way to start needs is tested once, below.
    quick = {"sharing_strategy": SharingStrategy.Fork}
    return poptorch.DataLoader(chosen or options(), dataset, mode=mode, async_options=quick, **arguments)


def test_S64_epochs_are_those_of_a_synchronous_loader():
    loader = asynchronous(numbers(9), batch_size=2)
    try:
        for _ in range(2):
            assert [batch.tolist() for (batch,) in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert len(loader) == 2
    finally:
        loader.terminate()


def test_S64_an_epoch_can_be_left_and_begun_again():
    loader = asynchronous(numbers(40), batch_size=2)
    try:
        for (batch,) in loader:
            if batch[0] == 8:
                break
        assert [int(batch[0]) for (batch,) in loader] == list(range(0, 40, 4))
    finally:
        loader.terminate()


def test_S64_tensors_are_used_again():
    loader = asynchronous(numbers(20), batch_size=1, chosen=options(1))
    try:
        iterator = iter(loader)
        (kept,) = next(iterator)
        copy = kept.clone()
        for _ in range(4):
            next(iterator)
        assert copy.tolist() == [0]
        assert kept.tolist() != [0]
    finally:
        loader.terminate()


def test_S64_a_fork_server_is_the_usual_way_to_start():
    loader = poptorch.DataLoader(options(), numbers(9), batch_size=2, mode=DataLoaderMode.Async)
    try:
        assert len(list(loader)) == 2
    finally:
        loader.terminate()
    with pytest.raises(poptorch.Error, match="was terminated"):
        iter(loader)


def test_S64_a_short_last_batch_is_kept_if_asked():
    loader = asynchronous(numbers(10), batch_size=2, drop_last=False)
    try:
        assert [len(batch) for (batch,) in loader] == [4, 4, 2]
        assert len(loader) == 3
    finally:
        loader.terminate()


def test_S64_rebatching_loses_nothing_at_the_end_of_workers_parts():
    loader = asynchronous(
        Counting(11),
        DataLoaderMode.AsyncRebatched,
        num_workers=3,
        worker_init_fn=take_part,
        rebatched_worker_size=1,
        batch_size=1,
    )
    try:
        seen = [int(number) for batch in loader for number in batch]
    finally:
        loader.terminate()
    assert len(seen) == 10
    assert len(set(seen)) == 10


@pytest.mark.parametrize("dataset", [Broken(), []])
def test_S64_data_that_cannot_be_loaded_is_an_error(dataset, capfd):
    with pytest.raises(poptorch.Error, match="worker thread failed to start"):
        poptorch.AsynchronousDataAccessor(dataset, sharing_strategy=SharingStrategy.Fork)


def test_S64_an_asynchronous_loader_is_not_wrapped_again():
    loader = asynchronous(numbers(9), batch_size=2)
    try:
        with pytest.raises(poptorch.Error, match="asynchronously already"):
            poptorch.AsynchronousDataAccessor(loader)
    finally:
        loader.terminate()


def test_S64_elements_become_batches_of_a_size():
    pieces = [torch.arange(float(start), float(stop)) for start, stop in [(0, 3), (3, 4), (4, 9), (9, 10)]]
    assert [batch.tolist() for batch in rebatched(iter(pieces), 4, True)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(batch) for batch in rebatched(iter(pieces), 4, False)] == [4, 4, 2]


def test_S64_elements_must_be_like_the_first():
    buffer = RingBuffer.like({"a": torch.ones(2, 3)}, 2)
    buffer.put({"a": torch.ones(1, 3)})
    with pytest.raises(poptorch.Error, match="structure of the first"):
        buffer.put({"b": torch.ones(2, 3)})
    with pytest.raises(poptorch.Error, match=r"shapes of the first, \[2, 3\]"):
        buffer.put({"a": torch.ones(2, 4)})
    with pytest.raises(poptorch.Error, match="tensors only"):
        RingBuffer.like({"a": "text"}, 2)


# --- Parts of the data


def part(process, processes, dataset, **arguments):
    chosen = options()
    chosen.Distributed.configureProcessId(process, processes)
    if "shuffle" in arguments:
        chosen.randomSeed(7)
    return poptorch.DataLoader(chosen, dataset, **arguments)


def test_S63_processes_take_consecutive_parts():
    seen = [
        int(number) for process in range(3) for (batch,) in part(process, 3, numbers(20)) for number in batch
    ]
    assert seen == list(range(18))


def test_S63_shuffled_parts_do_not_overlap_and_use_what_was_left_over():
    loaders = [part(process, 2, numbers(22), shuffle=True, batch_size=3) for process in range(2)]
    epochs = [[int(n) for loader in loaders for (batch,) in loader for n in batch] for _ in range(2)]
    for seen in epochs:
        assert len(seen) == len(set(seen)) == 12
    assert epochs[0] != epochs[1]
    left_over = set(range(22)) - set(epochs[0])
    assert len(left_over & set(epochs[1])) == 10


def test_S63_shuffling_alike_needs_a_seed():
    chosen = options()
    chosen.Distributed.configureProcessId(0, 2)
    with pytest.raises(AssertionError, match=r"options\.randomSeed"):
        poptorch.DataLoader(chosen, numbers(20), shuffle=True)


def test_S63_iterable_data_is_not_partitioned(caplog):
    with pytest.raises(AssertionError, match="auto_distributed_partitioning=False"):
        part(0, 2, Counting(20))
    assert part(0, 2, Counting(20), auto_distributed_partitioning=False) is not None
    poptorch.DataLoader(options(), Counting(20), num_workers=2)
    assert "come 2 times" in caplog.text


def test_S63_a_part_ends():
    dataset = PartitionedDataset(numbers(7), 1, 2, 1, None)
    assert len(dataset) == 3
    with pytest.raises(IndexError):
        dataset[3]


# --- Batches from a sampler


def test_S62_a_samplers_batches_are_joined_for_a_call():
    batches = [[5, 1], [2], [7, 0, 3], [4, 4]]
    loader = poptorch.DataLoader(options(), numbers(9), batch_sampler=batches)
    assert [batch.tolist() for (batch,) in loader] == [[5, 1, 2], [7, 0, 3, 4, 4]]
    assert len(loader) == 2


@pytest.mark.parametrize(("drop_last", "calls"), [(True, 1), (False, 2)])
def test_S62_an_incomplete_call_is_dropped_unless_asked_for(drop_last, calls):
    sampler = CombinedBatchSampler([[0], [1], [2]], 2, drop_last)
    assert len(sampler) == len(list(sampler)) == calls


@pytest.mark.parametrize("arguments", [{"batch_size": 2}, {"shuffle": True}])
def test_S62_a_sampler_excludes_other_ways_to_batch(arguments):
    with pytest.raises(poptorch.Error, match="leave out batch_size and shuffle"):
        poptorch.DataLoader(options(), numbers(9), batch_sampler=[[0]], **arguments)


def test_S62_a_sampler_is_not_partitioned():
    with pytest.raises(poptorch.Error, match="auto_distributed_partitioning=False"):
        part(0, 2, numbers(9), batch_sampler=[[0], [1]])
