"""Processes started from a notebook: their results come back, and their failures too."""

import os

import pytest
import torch
from torch import distributed

from techlabs.processes import run_together


def test_processes_know_each_other():
    def total(rank, processes):
        value = torch.tensor([rank + 1.0])
        distributed.all_reduce(value)
        return value.item()

    assert run_together(total, processes=2) == [3.0, 3.0]


def test_large_results_come_back_whole():
    assert [len(text) for text in run_together(lambda rank, processes: "x" * 1_000_000)] == [1_000_000] * 2


def test_a_failure_names_the_process_and_the_reason():
    def work(rank, processes):
        if rank == 1:
            raise ValueError("no such batch")
        return rank

    with pytest.raises(RuntimeError, match="process 1: ValueError: no such batch"):
        run_together(work)


def test_a_process_that_vanishes_is_noticed():
    with pytest.raises(RuntimeError, match="only 0 of 1 processes"):
        run_together(lambda rank, processes: os._exit(3), processes=1)


def test_processes_that_wait_for_ever_are_ended():
    def work(rank, processes):
        while True:
            pass

    with pytest.raises(RuntimeError, match="were at work after 2 s"):
        run_together(work, processes=1, seconds=2)
