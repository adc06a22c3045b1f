"""Exercises of the lab gpu_scaling: several processes train one model."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from techlabs.exercise import Exercise, Observation, Wrong, cause_of


class SameNumbers(Exercise):
    """x1: gradients of several shards become the gradient of the whole batch."""

    name = "x1"
    title = "combine turns the shards' gradients into the gradient of the whole batch"
    hints = (
        "Each shard's gradient is a mean over its own rows. When is the mean of means the mean of all?",
        "A shard with more rows has to count for more: weight each gradient with its share of the rows.",
        "sum(gradient * number / sum(rows) for gradient, number in zip(gradients, rows)).",
    )
    cases = ({"rows": [4, 4], "seed": 0}, {"rows": [3, 5, 8], "seed": 1})

    def observe(self, answer: Any, rows: list[int], seed: int) -> Observation:
        """`answer` is combine(gradients, rows) -> gradient; shard i has rows[i] rows."""
        combined = answer(_shard_gradients(rows, seed), list(rows))
        return {"combined": combined if isinstance(combined, torch.Tensor) else None}

    def judge(self, seen: Observation, rows: list[int], seed: int) -> None:
        """The gradient, against one computed on the whole batch."""
        combined, gradients = seen["combined"], _shard_gradients(rows, seed)
        expected = _shard_gradients([sum(rows)], seed)[0]
        if combined is None or combined.shape != expected.shape:
            raise Wrong(
                f"a gradient of shape {tuple(expected.shape)}",
                "no tensor" if combined is None else f"shape {tuple(combined.shape)}",
                "return one tensor of the shape of each gradient.",
            )
        if torch.allclose(combined, expected, atol=1e-6):
            return
        cause = "weight each gradient with its shard's share of all rows."
        if torch.allclose(combined, sum(gradients), atol=1e-6):
            cause = "this is the sum: the loss is a mean over rows, so the gradient has to be one too."
        elif torch.allclose(combined, sum(gradients) / len(rows), atol=1e-6):
            cause = "the plain mean is right only when all shards have the same number of rows."
        difference = (combined - expected).abs().max().item()
        raise Wrong(f"the gradient of all {sum(rows)} rows", f"a difference of {difference:.2g}", cause)


def _shard_gradients(rows: list[int], seed: int) -> list[torch.Tensor]:
    """Gradient of the mean loss of a linear model, for each shard of one batch."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(sum(rows), 6, generator=generator)
    labels = torch.randint(0, 3, (sum(rows),), generator=generator)
    start = torch.randn(3, 6, generator=generator)
    gradients, first = [], 0
    for number in rows:
        weight = start.clone().requires_grad_()
        part = slice(first, first + number)
        F.cross_entropy(inputs[part] @ weight.T, labels[part]).backward()
        gradients.append(weight.grad)
        first += number
    return gradients


class Efficiency(Exercise):
    """x2: what a split costs in bytes, and what is left of the added devices."""

    name = "x2"
    title = "bytes_sent counts what each process sends to combine one gradient"
    hints = (
        "In each round of a ring every process sends one n-th of the gradient on. How many rounds are there?",
        "n - 1 rounds add the parts up, n - 1 more hand the sums round: 2 (n - 1) rounds of one n-th each. "
        "One process alone sends nothing.",
        "2 * (processes - 1) / processes * parameters * bytes_each.",
    )
    cases = (
        {"parameters": 900, "bytes_each": 4, "processes": 3},
        {"parameters": 1200, "bytes_each": 2, "processes": 4},
        {"parameters": 500, "bytes_each": 4, "processes": 1},
    )

    def observe(self, answer: Any, **case: int) -> Observation:
        """`answer` is bytes_sent(parameters, bytes_each, processes)."""
        return {"bytes": answer(**case)}

    def judge(self, seen: Observation, parameters: int, bytes_each: int, processes: int) -> None:
        """The bytes of a ring all-reduce."""
        sent, size = seen["bytes"], parameters * bytes_each
        expected = 2 * (processes - 1) / processes * size
        if isinstance(sent, (int, float)) and abs(sent - expected) < 0.5:
            return
        causes = {
            size: "each process sends the gradient in parts, and not only once.",
            expected / 2: "the sums have to come back to everybody: a second n - 1 rounds.",
            2 * size: "that is the limit for many processes: each sends (n - 1) / n of it, twice.",
            2 * (processes - 1) * size: "a round carries one n-th of the gradient, not all of it.",
            expected / bytes_each: "these are numbers, not bytes.",
        }
        raise Wrong(
            f"{expected:g} bytes for {parameters} parameters of {bytes_each} bytes, {processes} processes",
            "nothing" if sent is None else f"{sent}",
            cause_of(sent, causes, 0.5, "2 (n - 1) rounds, each with one n-th of the gradient."),
        )


class ShareTheRows(Exercise):
    """x3: which rows a process trains on in an epoch."""

    name = "x3"
    title = "my_rows shares a shuffled epoch: the same number each, no row twice, new every epoch"
    hints = (
        "All processes have to agree on one order without talking. What can they all compute alike?",
        "Seed a generator with the epoch, the same in every process; shuffle; drop what can't be shared "
        "equally; then take every n-th row, starting at your own rank.",
        "order = torch.randperm(rows, generator=torch.Generator().manual_seed(epoch)); "
        "order[: rows // processes * processes][rank::processes].",
    )
    cases = ({"rows": 12, "processes": 3}, {"rows": 23, "processes": 4})

    def observe(self, answer: Any, rows: int, processes: int) -> Observation:
        """`answer` is my_rows(rows, rank, processes, epoch); each process draws other numbers before."""
        epochs = []
        for epoch in range(2):
            shares = []
            for rank in range(processes):
                torch.manual_seed(100 * epoch + rank)  # processes don't share a random state
                share = answer(rows, rank, processes, epoch)
                shares.append(None if share is None else [int(row) for row in share])
            epochs.append(shares)
        return {"epochs": epochs}

    def judge(self, seen: Observation, rows: int, processes: int) -> None:
        """Equal shares, no row twice, as many as possible, shuffled, and new in the next epoch."""
        first, second = seen["epochs"]
        if None in first:
            raise Wrong("row numbers", "nothing", "my_rows has no return statement.")
        asked = f"{rows} rows and {processes} processes"
        sizes = [len(share) for share in first]
        if len(set(sizes)) > 1:
            raise Wrong(
                f"shares of {rows // processes} for {asked}",
                f"{sizes}",
                "a process with more batches waits for ever for the others: drop what can't be shared.",
            )
        given = [row for share in first for row in share]
        if len(set(given)) < len(given):
            raise Wrong(
                f"no row twice for {asked}",
                f"{len(given) - len(set(given))} rows came again",
                "each process shuffled for itself: seed a generator of its own with the epoch, nothing else.",
            )
        if sizes[0] != rows // processes or not set(given) <= set(range(rows)):
            raise Wrong(
                f"{rows // processes} rows each for {asked}", f"{sizes[0]}", "drop the remainder only."
            )
        if all(share == sorted(share) for share in first):
            raise Wrong("a shuffled order", "rows in their order", "shuffle before sharing: torch.randperm.")
        if first == second:
            raise Wrong(
                "another order in the next epoch", "the same", "the seed has to change with the epoch."
            )


class ChooseTheSplit(Exercise):
    """x4: the most devices that are still used well."""

    name = "x4"
    title = "choose takes the most devices whose efficiency is still good enough"
    hints = (
        "Efficiency: how much of n times the throughput of one device is left?",
        "efficiency(n) = throughput(n) / (n * throughput(1)). Keep the counts that reach the target.",
        "max(n for n, rate in images_per_second.items() if rate / (n * ...) >= target).",
    )
    cases = (
        {"images_per_second": {"1": 274, "2": 306, "4": 360}, "target": 0.5},
        {"images_per_second": {"1": 100, "2": 190, "4": 340, "8": 400}, "target": 0.8},
    )

    def observe(self, answer: Any, images_per_second: dict[str, float], target: float) -> Observation:
        """`answer` is choose(images_per_second, target) -> number of devices."""
        measured = {int(devices): rate for devices, rate in images_per_second.items()}
        return {"devices": answer(measured, target)}

    def judge(self, seen: Observation, images_per_second: dict[str, float], target: float) -> None:
        """The largest number that reaches the target."""
        measured = {int(devices): rate for devices, rate in images_per_second.items()}
        efficiency = {devices: rate / (devices * measured[1]) for devices, rate in measured.items()}
        expected = max(devices for devices, value in efficiency.items() if value >= target)
        got = seen["devices"]
        if got == expected:
            return
        cause = "divide the throughput by devices times the throughput of one device."
        if got == max(measured):
            cause = "the most images per second isn't the question: what does each added device bring?"
        elif got in efficiency and efficiency[got] >= target:
            cause = "a larger number of devices reaches the target too."
        elif got in efficiency:
            cause = f"with {got} devices the efficiency is {efficiency[got]:.2f}."
        raise Wrong(f"{expected} devices for a target of {target}", f"{got}", cause)


EXERCISES = (SameNumbers(), Efficiency(), ShareTheRows(), ChooseTheSplit())
