"""Exercises of the lab gpu_feeding: loading beside computing, with plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from techlabs.exercise import Exercise, Observation, Wrong, cause_of


class EpochTime(Exercise):
    """x1: how long an epoch takes when loading and computing take turns, and when they overlap."""

    name = "x1"
    title = "epoch_ms says how long an epoch takes, with loader workers and without"
    hints = (
        "Without workers nothing happens at the same time. With workers, draw two lines, one for loading "
        "and one for computing, and see where the second has to wait.",
        "With workers there are three parts: the first batch has to be loaded, then the slower of the two "
        "sets the pace for the others, then the last batch has to be computed.",
        "pace = max(load / workers, compute); then load + (batches - 1) * ... + compute.",
    )
    cases = (
        {"batches": 10, "load": 5.0, "compute": 2.0, "workers": 0},
        {"batches": 10, "load": 5.0, "compute": 2.0, "workers": 1},
        {"batches": 7, "load": 9.0, "compute": 2.0, "workers": 3},
        {"batches": 4, "load": 3.0, "compute": 8.0, "workers": 2},
    )

    def observe(self, answer: Any, **case: Any) -> Observation:
        """`answer` is epoch_ms(batches, load, compute, workers), all times in milliseconds."""
        return {"ms": answer(**case)}

    def judge(self, seen: Observation, batches: int, load: float, compute: float, workers: int) -> None:
        """The time, against two lines that overlap; the cause by the formula that gives the wrong time."""
        ms, serial = seen["ms"], batches * (load + compute)
        expected = serial
        if workers:
            expected = load + (batches - 1) * max(load / workers, compute) + compute
        if isinstance(ms, (int, float)) and abs(ms - expected) < 1e-6:
            return
        causes = {
            serial: "with workers, loading and computing happen at the same time.",
            batches * max(load, compute): "the first load and the last computation have nothing beside them.",
            load
            + (batches - 1) * max(load, compute)
            + compute: "the workers share the loading: load / workers.",
        }
        if not workers:
            causes[batches * load] = "the computation is missing."
        raise Wrong(
            f"{expected:g} ms for {batches} batches, load {load:g}, compute {compute:g}, workers={workers}",
            "nothing" if ms is None else f"{ms}",
            cause_of(
                ms, causes, 1e-6, "without workers: load, compute, load, compute, ... and nothing beside."
            ),
        )


class OverlapLoading(Exercise):
    """x2: a DataLoader that loads beside the computation."""

    name = "x2"
    title = "the loader works beside the training, and is ready for a GPU"
    hints = (
        "Look at the arguments of torch's DataLoader: three of them are about how data arrive.",
        "num_workers starts processes, pin_memory prepares the copy to a GPU (only of use with one), "
        "persistent_workers keeps the processes from epoch to epoch (and wants at least one).",
        "DataLoader(dataset, batch_size=..., num_workers=..., pin_memory=..., persistent_workers=... > 0).",
    )
    cases = (
        {"images": 20, "batch": 6, "workers": 0, "cuda": False},
        {"images": 20, "batch": 6, "workers": 2, "cuda": False},
        {"images": 35, "batch": 8, "workers": 3, "cuda": True},
    )

    def observe(self, answer: Any, images: int, batch: int, workers: int, cuda: bool) -> Observation:
        """`answer` is make_loader(dataset, batch, workers, cuda); its settings are read, not its speed."""
        loader = answer(TensorDataset(torch.arange(images)), batch, workers, cuda)
        if not isinstance(loader, DataLoader):
            return {"kind": type(loader).__name__}
        return {
            "kind": "DataLoader",
            "batch_size": loader.batch_size,
            "num_workers": loader.num_workers,
            "pin_memory": loader.pin_memory,
            "persistent_workers": loader.persistent_workers,
        }

    def judge(self, seen: Observation, images: int, batch: int, workers: int, cuda: bool) -> None:
        """Each setting in turn."""
        if seen["kind"] != "DataLoader":
            raise Wrong("a DataLoader", seen["kind"], "make_loader has no return statement.")
        expected = {
            "batch_size": (batch, "batch_size should be `batch`, whatever the number of workers."),
            "num_workers": (workers, "num_workers should be `workers`: without it loading blocks training."),
            "pin_memory": (cuda, "pinned memory makes copies to a GPU faster; without a GPU it only costs."),
            "persistent_workers": (
                workers > 0,
                "without it every epoch starts its processes anew; without workers there are none to keep.",
            ),
        }
        for setting, (value, cause) in expected.items():
            if seen[setting] != value:
                raise Wrong(
                    f"{setting}={value} for workers={workers}, cuda={cuda}", f"{seen[setting]}", cause
                )


class ShareTheStream(Exercise):
    """x3: every worker of a streamed dataset gets its own part."""

    name = "x3"
    title = "my_share gives each worker its own records: none twice, none lost"
    hints = (
        "Every worker runs the same code on the same records. What differs between them is `worker`.",
        "Take every workers-th record, and let each worker start at another one.",
        "range(...) takes a start, a stop and a step: start at worker, step by ...",
    )
    cases = ({"records": 10, "workers": 1}, {"records": 10, "workers": 3}, {"records": 2, "workers": 4})

    def observe(self, answer: Any, records: int, workers: int) -> Observation:
        """`answer` is my_share(records, worker, workers) -> numbers of records."""
        shares = [answer(records, worker, workers) for worker in range(workers)]
        return {"shares": [None if share is None else [int(number) for number in share] for share in shares]}

    def judge(self, seen: Observation, records: int, workers: int) -> None:
        """Nothing twice, nothing lost, fair shares."""
        asked = f"{records} records and {workers} workers"
        if None in seen["shares"]:
            raise Wrong("a list of record numbers", "nothing", "my_share has no return statement.")
        given = sorted(number for share in seen["shares"] for number in share)
        if len(set(given)) < len(given):
            twice = sorted({number for number in given if given.count(number) > 1})
            raise Wrong(
                f"each record once for {asked}",
                f"{twice} more than once",
                "the shares overlap: does each worker start at its own record?",
            )
        if given != list(range(records)):
            lost = sorted(set(range(records)) - set(given))
            raise Wrong(
                f"records 0 to {records - 1} for {asked}",
                f"{lost} never read" if lost else f"{given}",
                "records // workers rounds down: the rest belongs to somebody.",
            )
        sizes = [len(share) for share in seen["shares"]]
        if max(sizes) - min(sizes) > 1:
            raise Wrong(
                f"shares that differ by one record at most for {asked}",
                f"shares of {sizes}",
                "the epoch ends with the slowest worker: spread the rest.",
            )


class ExplainPlateau(Exercise):
    """x4: fixed and per-image time of a step, from throughputs at several batch sizes."""

    name = "x4"
    title = "explain finds the fixed and the per-image time behind a plateau"
    hints = (
        "Throughput is a quotient. Turn it round: how many milliseconds does one step take?",
        "step = 1000 * batch / images_per_second. Over the batch this is a straight line: its height at "
        "batch 0 is the fixed time, its slope the time per image.",
        "slope, height = numpy.polyfit(batches, steps, 1); return height, slope.",
    )
    cases = (
        {"fixed": 20.0, "per_image": 0.5, "batches": [4, 16, 64]},
        {"fixed": 3.0, "per_image": 0.02, "batches": [10, 128, 256, 512]},
    )

    def observe(self, answer: Any, fixed: float, per_image: float, batches: list[int]) -> Observation:
        """`answer` is explain(batches, images_per_second) -> (fixed ms, ms per image)."""
        rates = [1000 * batch / (fixed + per_image * batch) for batch in batches]
        found = answer(list(batches), rates)
        try:
            first, second = (float(value) for value in found)
        except (TypeError, ValueError):
            return {"found": None, "kind": type(found).__name__}
        return {"found": [first, second]}

    def judge(self, seen: Observation, fixed: float, per_image: float, batches: list[int]) -> None:
        """Both times, to one part in a thousand."""
        if seen["found"] is None:
            raise Wrong(
                "two numbers: fixed ms, ms per image", f"a {seen['kind']}", "return both, in that order."
            )
        expected = [fixed, per_image]
        if all(abs(got - want) < 1e-3 * want for got, want in zip(seen["found"], expected)):
            return
        cause = "fit a straight line to milliseconds per step over the batch, not to images per second."
        if all(abs(got - want) < 1e-3 * want for got, want in zip(seen["found"], reversed(expected))):
            cause = "the order is fixed first: polyfit gives the slope first."
        elif all(abs(1000 * got - want) < 1e-3 * want for got, want in zip(seen["found"], expected)):
            cause = "these are seconds: the answer is in milliseconds."
        raise Wrong(
            f"{fixed:g} ms and {per_image:g} ms per image",
            " and ".join(f"{value:.4g}" for value in seen["found"]),
            cause,
        )


EXERCISES = (EpochTime(), OverlapLoading(), ShareTheStream(), ExplainPlateau())
