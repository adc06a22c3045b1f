"""Exercises of the lab ipu_scaling: one model over several IPUs."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from techlabs.exercise import Exercise, Observation, Wrong, cause_of


class SameNumbers(Exercise):
    """x1: a model cut into pipeline stages, with the numbers of the model in one piece."""

    name = "x1"
    title = "split cuts the model at the given layers, and the training gives the same numbers"
    hints = (
        "poptorch.BeginBlock marks a layer: it and all layers after it belong to a new block.",
        "The first layers need no mark: they go to IPU 0. Layer cuts[0] begins IPU 1, cuts[1] begins IPU 2. "
        "enumerate(cuts, start=1) gives both numbers.",
        "for ipu, layer in enumerate(cuts, start=1): poptorch.BeginBlock(model.layers[layer], ipu_id=...).",
    )
    # Two and four IPUs: PopTorch takes powers of two.
    cases = ({"cuts": [2], "seed": 0}, {"cuts": [1, 3, 4], "seed": 1})

    def observe(self, answer: Any, cuts: list[int], seed: int) -> Observation:
        """`answer` is split(model, cuts) -> model. Too little accumulation is refused only in a pipeline."""
        stages = 2 * len(cuts) + 1
        split = answer(StackedNet(seed), list(cuts))
        if not isinstance(split, nn.Module):
            return {"kind": type(split).__name__}
        refused = False
        try:
            _trained(split, stages - 1, seed)
        except poptorch.Error:
            refused = True
        return {
            "kind": "Module",
            "refused": refused,
            "weights": _trained(answer(StackedNet(seed), list(cuts)), stages, seed),
        }

    def judge(self, seen: Observation, cuts: list[int], seed: int) -> None:
        """The number of stages, by what a pipeline of that many refuses; then the numbers."""
        if seen["kind"] != "Module":
            raise Wrong("the model", f"a {seen['kind']}", "return the model when it's marked.")
        if not seen["refused"]:
            raise Wrong(
                f"a pipeline of {len(cuts) + 1} stages for cuts={cuts}",
                "a model that runs where such a pipeline is refused",
                "a cut is missing, or two blocks went to one IPU: each cut begins the next IPU.",
            )
        expected = _trained(StackedNet(seed), 2 * len(cuts) + 1, seed)
        if set(seen["weights"]) != set(expected):
            raise Wrong("the parameters of the model", "others", "mark layers in place, don't replace them.")
        worst = max((seen["weights"][name] - value).abs().max().item() for name, value in expected.items())
        if not worst < 1e-5:
            raise Wrong(
                "the weights of the model in one piece, after one update",
                f"a difference of {worst:.2g}",
                "marking a layer must not change what it computes.",
            )


class StackedNet(nn.Module):
    """Five layers in `layers`, and a loss when there are labels."""

    def __init__(self, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        sizes = [(64, 24), (24, 24), (24, 24), (24, 24), (24, 10)]
        self.layers = nn.ModuleList(nn.Linear(*size) for size in sizes)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 5)

    def forward(self, images: torch.Tensor, labels: torch.Tensor = None) -> Any:
        """Images [N, 1, 8, 8] to scores [N, 10], with labels to (scores, loss)."""
        x = images.flatten(1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        scores = self.layers[-1](x)
        return scores if labels is None else (scores, F.cross_entropy(scores, labels))


def _trained(model: nn.Module, accumulation: int, seed: int) -> dict[str, torch.Tensor]:
    """Weights after one update over `accumulation` micro-batches of four images."""
    options = poptorch.Options()
    options.Training.gradientAccumulation(accumulation)
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(4 * accumulation, 1, 8, 8, generator=generator)
    labels = torch.randint(0, 10, (4 * accumulation,), generator=generator)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    trainer = poptorch.trainingModel(model, options, optimizer)
    trainer(images, labels)
    trainer.destroy()
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


class Efficiency(Exercise):
    """x2: what filling and draining a pipeline costs."""

    name = "x2"
    title = "efficiency says which share of the time a pipeline works"
    hints = (
        "Draw it: three stages, five micro-batches. How many steps until the last one is through?",
        "The first micro-batch takes `stages` steps, each further one a single step. Of all these steps, a "
        "stage works in as many as there are micro-batches.",
        "accumulation / (accumulation + ... - 1).",
    )
    cases = (
        {"accumulation": 8, "stages": 4},
        {"accumulation": 40, "stages": 2},
        {"accumulation": 6, "stages": 1},
    )

    def observe(self, answer: Any, **case: int) -> Observation:
        """`answer` is efficiency(accumulation, stages)."""
        return {"share": answer(**case)}

    def judge(self, seen: Observation, accumulation: int, stages: int) -> None:
        """The share, between 0 and 1."""
        share, expected = seen["share"], accumulation / (accumulation + stages - 1)
        if isinstance(share, (int, float)) and abs(share - expected) < 1e-6:
            return
        causes = {
            accumulation
            / (accumulation + stages): "the first one is no idle step: there are stages - 1 idle steps.",
            accumulation / (accumulation + 2 * stages - 2): "fill and drain overlap for the stages between.",
            1 / expected: "this is more than 1: divide the other way round.",
            100 * expected: "a share of 1, not a percentage.",
            accumulation // (accumulation + stages - 1): "// rounds down to a whole number: use /.",
        }
        raise Wrong(
            f"{expected:.3f} for accumulation {accumulation} and {stages} stages",
            "nothing" if share is None else f"{share}",
            cause_of(share, causes, 1e-6, "steps that a stage works, divided by all steps."),
        )


class FeedThePipeline(Exercise):
    """x3: the least accumulation that a pipeline takes, and that is efficient enough."""

    name = "x3"
    title = "least_accumulation obeys the rule, and reaches the efficiency"
    hints = (
        "Two conditions have to hold: the rule in the message, and the efficiency. Which one is stricter?",
        "The rule counts forward and backward stages: 2 * stages - 1. For the efficiency count upwards from "
        "there until x2's formula reaches the target.",
        "accumulation = 2 * stages - 1; while accumulation / (accumulation + stages - 1) < target: add 1.",
    )
    cases = (
        {"stages": 4, "target": 0.5},
        {"stages": 4, "target": 0.9},
        {"stages": 8, "target": 0.75},
        {"stages": 1, "target": 0.99},
    )

    def observe(self, answer: Any, **case: Any) -> Observation:
        """`answer` is least_accumulation(stages, target) -> int."""
        return {"accumulation": answer(**case)}

    def judge(self, seen: Observation, stages: int, target: float) -> None:
        """The smallest number that meets both conditions."""
        got, least = seen["accumulation"], 2 * stages - 1
        expected = least
        while expected / (expected + stages - 1) < target:
            expected += 1
        asked = f"{stages} stages and an efficiency of {target}"
        if type(got) is not int:
            raise Wrong(
                f"an int for {asked}", f"{got!r}", "accumulation counts micro-batches: return an int."
            )
        if got == expected:
            return
        cause = "a smaller number meets both conditions too."
        if got < least:
            cause = f"a pipeline of {stages} stages takes {least} or more in training: forward and backward."
        elif got < expected:
            cause = f"with {got} the efficiency is {got / (got + stages - 1):.3f}."
        raise Wrong(f"{expected} for {asked}", f"{got}", cause)


class ChooseTheSplit(Exercise):
    """x4: layers over IPUs, so that the slowest stage is as fast as it can be."""

    name = "x4"
    title = "balance spreads the blocks so that no other split has a faster slowest stage"
    hints = (
        "The slowest stage sets the pace. What is the least that it can be? At least the slowest block.",
        "There are few ways to cut 8 blocks: try them all. itertools.combinations(range(1, len(times)), "
        "ipus - 1) gives every choice of cuts.",
        "For each choice of cuts: edges = [0, *cuts, len(times)]; the sizes are the differences of "
        "neighbouring edges; keep the choice whose largest sum of times is smallest.",
    )
    cases = (
        {"times": [1.0, 1.0, 1.0, 3.0], "ipus": 2},
        {"times": [2.0, 3.0, 1.0, 1.0, 4.0, 2.0], "ipus": 3},
        {"times": [5.0, 1.0, 1.0, 1.0], "ipus": 4},
    )

    def observe(self, answer: Any, times: list[float], ipus: int) -> Observation:
        """`answer` is balance(times, ipus) -> number of consecutive blocks on each IPU."""
        sizes = answer(list(times), ipus)
        return {"sizes": None if sizes is None else [int(size) for size in sizes]}

    def judge(self, seen: Observation, times: list[float], ipus: int) -> None:
        """A split of all blocks, on all IPUs, as balanced as any."""
        sizes, asked = seen["sizes"], f"{times} on {ipus} IPUs"
        if sizes is None:
            raise Wrong("a list of sizes", "nothing", "balance has no return statement.")
        if len(sizes) != ipus or min(sizes) < 1:
            raise Wrong(f"{ipus} sizes of 1 or more for {asked}", f"{sizes}", "every IPU gets a block.")
        if sum(sizes) != len(times):
            raise Wrong(
                f"{len(times)} blocks in all for {asked}", f"{sum(sizes)} in {sizes}", "no block is left out."
            )
        best = min(
            _slowest(times, [*cuts, len(times)])
            for cuts in itertools.combinations(range(1, len(times)), ipus - 1)
        )
        got = _slowest(times, list(itertools.accumulate(sizes)))
        if got > best + 1e-9:
            cause = "balance the times of the blocks, not their number."
            if len(set(sizes)) > 1:
                cause = "another cut makes the slowest stage faster: try all cuts."
            raise Wrong(f"a slowest stage of {best:g} for {asked}", f"{got:g} with {sizes}", cause)


def _slowest(times: list[float], edges: list[int]) -> float:
    return max(sum(times[begin:end]) for begin, end in zip([0, *edges], edges))


EXERCISES = (SameNumbers(), Efficiency(), FeedThePipeline(), ChooseTheSplit())
