"""Exercises of the lab ipu_first: the CNN of gpu_first, ported to PopTorch in ten steps."""

from __future__ import annotations

from typing import Any, Iterator

import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset

import poptorch
from techlabs.data import digits
from techlabs.exercise import Exercise, Observation, Wrong
from techlabs.exercises import gpu_first
from techlabs.exercises.gpu_first import GOOD_ACCURACY, DigitsNet

DEVICE_CALLS = 300


class ReturnLoss(Exercise):
    """x1: steps 1 and 2, the loss moves into forward."""

    name = "x1"
    title = "forward returns the scores, and the loss too when it gets labels"
    hints = (
        "The IPU runs one compiled graph and trains on the loss that it finds in it. Where must the loss be?",
        "Without labels nothing changes: return scores. With labels, compute F.cross_entropy from the "
        "scores and the labels, and return two things.",
        "loss = F.cross_entropy(..., ...), then return scores, loss.",
    )
    cases = ({"rows": 6, "seed": 0}, {"rows": 9, "seed": 1})

    def observe(self, answer: Any, rows: int, seed: int) -> Observation:
        """`answer` is the class; it runs on the CPU first, then one step on the IPU."""
        torch.manual_seed(seed)
        model = answer()
        model.load_state_dict(gpu_first.weights(seed), strict=False)
        images, labels = gpu_first.images(rows, seed), torch.arange(rows) % 10
        alone, both = model(images), model(images, labels)
        seen = {"without labels": _kinds(alone), "with labels": _kinds(both)}
        if seen["without labels"] != ["Tensor"] or seen["with labels"] != ["Tensor", "Tensor"]:
            return seen
        seen.update(alone=alone, scores=both[0], loss=both[1])
        if list(both[0].shape) == [rows, 10] and both[1].dim() == 0:
            trainer = poptorch.trainingModel(model)
            seen["ipu loss"] = trainer(images, labels)[1]
            trainer.destroy()
        return seen

    def judge(self, seen: Observation, rows: int, seed: int) -> None:
        """What comes back, its shapes, its values, and the same on the IPU."""
        if seen["without labels"] != ["Tensor"]:
            raise Wrong(
                "the scores alone without labels",
                " and ".join(seen["without labels"]),
                "the loss needs labels: compute it only `if labels is not None`.",
            )
        if seen["with labels"] != ["Tensor", "Tensor"]:
            raise Wrong(
                "two tensors with labels: scores, loss",
                " and ".join(seen["with labels"]),
                "return both, separated by a comma.",
            )
        shapes = [list(seen[name].shape) for name in ("scores", "loss")]
        if shapes != [[rows, 10], []]:
            raise Wrong(
                f"shapes [{rows}, 10] and []",
                " and ".join(map(str, shapes)),
                "the order is scores, loss; the loss is one number, so keep the default reduction.",
            )
        expected = gpu_first.expected_scores(rows, seed)
        if not all(torch.allclose(seen[key], expected, atol=1e-4, rtol=1e-4) for key in ("alone", "scores")):
            raise Wrong(
                "the scores of the model you port",
                "other scores",
                "scores = super().forward(images), and return them as they are, with labels and without.",
            )
        wanted, loss = F.cross_entropy(seen["scores"], torch.arange(rows) % 10).item(), seen["loss"].item()
        if not abs(loss - wanted) <= 1e-4:
            raise Wrong(
                f"the cross entropy of the scores, {wanted:.4f}",
                f"{loss:.4f}",
                "cross_entropy takes the raw scores: no softmax before it, nothing after it.",
            )
        on_ipu = float(seen["ipu loss"])
        if not abs(on_ipu - loss) <= 1e-3:
            raise Wrong(
                f"{loss:.4f} on the IPU as on the CPU",
                f"{on_ipu:.4f}",
                "forward depends on something that was frozen when it was traced.",
            )


class FeedModel(Exercise):
    """x2: steps 3, 4 and 9, Options and the loader that multiplies batches."""

    name = "x2"
    title = "the loader feeds what one call of the IPU consumes"
    hints = (
        "Options say how much one call does; the loader reads them and collects as many images.",
        "Three settings: options.deviceIterations(...), options.Training.gradientAccumulation(...) for "
        "training only, and poptorch.DataLoader(options, dataset, batch_size=...). The batch_size of "
        "the loader is the micro-batch: it multiplies by itself.",
        "options = poptorch.Options(); options.deviceIterations(...); if training: "
        "options.Training.gradientAccumulation(...); return poptorch.DataLoader(options, dataset, "
        "batch_size=..., shuffle=...).",
    )
    cases = (
        {"images": 100, "micro_batch": 4, "device_iterations": 3, "accumulation": 2, "training": True},
        {"images": 100, "micro_batch": 4, "device_iterations": 5, "accumulation": 2, "training": False},
    )

    def observe(self, answer: Any, images: int, **case: Any) -> Observation:
        """`answer` is make_loader(dataset, micro_batch, device_iterations, accumulation, training)."""
        torch.manual_seed(0)
        dataset = TensorDataset(torch.zeros(images, 1, 8, 8), torch.arange(images))
        loader = answer(dataset, **case)
        if not isinstance(loader, poptorch.DataLoader):
            return {"kind": f"{type(loader).__module__}.{type(loader).__name__}"}
        calls = [labels.tolist() for _, labels in loader]
        return {
            "kind": "poptorch.DataLoader",
            "device iterations": loader.options.device_iterations,
            "accumulation": loader.options.Training.gradient_accumulation,
            "samples per call": loader.combinedBatchSize,
            "calls": calls,
        }

    def judge(
        self,
        seen: Observation,
        images: int,
        micro_batch: int,
        device_iterations: int,
        accumulation: int,
        training: bool,
    ) -> None:
        """The kind of loader, the three factors, then the order."""
        if seen["kind"] != "poptorch.DataLoader":
            raise Wrong(
                "a poptorch.DataLoader",
                seen["kind"],
                "torch's own loader doesn't know the options: it would feed one micro-batch a call.",
            )
        if seen["device iterations"] != device_iterations:
            raise Wrong(
                f"{device_iterations} device iterations",
                f"{seen['device iterations']}",
                "options.deviceIterations(...) was not called, or not on the options that the loader got.",
            )
        accumulation = accumulation if training else 1
        if seen["accumulation"] != accumulation:
            raise Wrong(
                f"gradient accumulation {accumulation} for training={training}",
                f"{seen['accumulation']}",
                "accumulation belongs to weight updates: set it for training, leave it out for testing.",
            )
        product = micro_batch * device_iterations * accumulation
        if seen["samples per call"] != product:
            raise Wrong(
                f"{micro_batch} x {device_iterations} x {accumulation} = {product} samples a call",
                f"{seen['samples per call']}",
                "batch_size is the micro-batch alone: poptorch.DataLoader multiplies by the other factors.",
            )
        order = [label for call in seen["calls"] for label in call]
        sizes = [len(call) for call in seen["calls"]]
        if sizes != [product] * (images // product) or len(set(order)) != len(order):
            raise Wrong(
                f"{images // product} calls of {product} different images each",
                f"calls of {sizes} images",
                "hand the whole data set to poptorch.DataLoader, and leave drop_last as it is.",
            )
        shuffled = order != list(range(len(order)))
        if shuffled != training:
            raise Wrong(
                "a shuffled order" if training else "the order of the data set",
                "shuffled" if shuffled else "the order of the data set",
                "shuffle should be True for training only.",
            )


class ReadTheError(Exercise):
    """x3: the last, short batch is filled up, since the compiled graph takes one shape only."""

    name = "x3"
    title = "fill_up repeats images until the rows are whole calls"
    hints = (
        "The message says which shape was compiled. What must the number of your rows be a multiple of?",
        "How many rows are missing? -len(images) % samples_per_call says it, and gives 0 when none is. "
        "Take that many of the images you have, and put them behind with torch.cat.",
        "missing = -len(images) % samples_per_call; filler = images[torch.arange(missing) % len(images)]; "
        "return torch.cat([..., ...]).",
    )
    cases = (
        {"rows": 100, "samples_per_call": 64},
        {"rows": 64, "samples_per_call": 32},
        {"rows": 5, "samples_per_call": 24},
    )

    def observe(self, answer: Any, rows: int, samples_per_call: int) -> Observation:
        """`answer` is fill_up(images, samples_per_call); the images are numbered from 1."""
        images = torch.arange(1.0, rows + 1).reshape(rows, 1, 1, 1).expand(rows, 1, 2, 2)
        filled = answer(images, samples_per_call)
        if not isinstance(filled, torch.Tensor):
            return {"kind": type(filled).__name__}
        return {"kind": "Tensor", "filled": filled}

    def judge(self, seen: Observation, rows: int, samples_per_call: int) -> None:
        """A multiple, no larger than needed, the images first, and real images behind them."""
        if seen["kind"] != "Tensor":
            raise Wrong("a tensor", f"a {seen['kind']}", "fill_up has no return statement.")
        filled = seen["filled"]
        numbers = filled.flatten(1)[:, 0].tolist() if filled.dim() > 1 else filled.tolist()
        asked = f"{rows} images and {samples_per_call} samples a call"
        needed = rows + -rows % samples_per_call
        if len(numbers) != needed:
            cause = "fill up to the next multiple; when the rows fit already, add none."
            if len(numbers) < rows:
                cause = "images were dropped: fill up, don't cut off."
            elif len(numbers) % samples_per_call:
                cause = "with few images one repeat isn't enough: take them again and again."
            raise Wrong(f"{needed} rows for {asked}", f"{len(numbers)}", cause)
        if list(filled.shape[1:]) != [1, 2, 2]:
            shape = list(filled.shape[1:])
            raise Wrong("images of the shape they had", f"{shape}", "join along dimension 0.")
        if numbers[:rows] != list(range(1, rows + 1)):
            raise Wrong("your images first, in their order", "another order", "put the filler behind.")
        if not set(numbers) <= set(range(1, rows + 1)):
            raise Wrong(
                "copies of real images as filler",
                f"an image that isn't one of yours for {asked}",
                "empty images would change the statistics of a batch: repeat real ones.",
            )


class TrainAndTest(Exercise):
    """x4: steps 5 to 8 and 10, judged by what comes out, the device calls, and what is left attached."""

    name = "x4"
    title = (
        f"test accuracy {GOOD_ACCURACY} or more, at most {DEVICE_CALLS} training calls, no IPU left attached"
    )
    hints = (
        "The order: optimizer, trainingModel, epochs, detach; then inferenceModel, test, detach.",
        "poptorch.trainingModel(model, options=..., optimizer=...) makes the trainer; calling it trains: no "
        "zero_grad, backward or step. The loaders carry their options as loader.options. "
        "model.train() and model.eval() come before wrapping.",
        "optimizer = poptorch.optim.Adam(model.parameters(), lr=0.003); trainer = poptorch.trainingModel("
        "model, options=..., optimizer=...); for ten epochs: scores, loss = trainer(images, labels); "
        "trainer.detachFromDevice(); the tester is the same with inferenceModel, test_loader and argmax(1).",
    )
    cases = ({"seed": 0, "micro_batch": 16, "test_batch": 12},)

    def observe(self, answer: Any, seed: int, micro_batch: int, test_batch: int) -> Observation:
        """`answer` is train_and_test(model, train_loader, test_loader) -> accuracy, trainer, tester."""
        torch.manual_seed(seed)
        train_set, test_set = digits()
        options = poptorch.Options().deviceIterations(4).randomSeed(seed)
        train_loader = _CountedLoader(options, train_set, batch_size=micro_batch, shuffle=True)
        options = poptorch.Options().deviceIterations(5)
        test_loader = _CountedLoader(options, test_set, batch_size=test_batch)
        model = _Net()
        result = answer(model, train_loader, test_loader)
        if not (isinstance(result, tuple) and len(result) == 3):
            return {"result": _kinds(result)}
        accuracy, trainer, tester = result
        if not all(isinstance(item, poptorch.PoplarExecutor) for item in (trainer, tester)):
            return {"result": _kinds(result)}
        attached = {"trainer": trainer.isAttachedToDevice(), "tester": tester.isAttachedToDevice()}
        # Reading the state brings the weights back from the device.
        trained = {name: value.clone() for name, value in model.state_dict().items()}
        trainer.destroy()
        return {
            "result": ["accuracy", "trainer", "tester"],
            "claimed": float(accuracy),
            "weights": trained,
            "calls": train_loader.calls,
            "tested": test_loader.calls,
            "attached": attached,
        }

    def judge(self, seen: Observation, seed: int, micro_batch: int, test_batch: int) -> None:
        """What was returned, what was learned, what was claimed, the cost, what is left attached."""
        if seen["result"] != ["accuracy", "trainer", "tester"]:
            raise Wrong(
                "accuracy, trainer, tester",
                ", ".join(seen["result"]),
                "return all three; trainer and tester are what trainingModel and inferenceModel gave you.",
            )
        actual = gpu_first.test_accuracy(seen["weights"])
        if not actual >= GOOD_ACCURACY:
            cause = "too few epochs, or a learning rate that is too large or too small."
            if not seen["calls"]:
                cause = "no batch of train_loader was used."
            raise Wrong(f"test accuracy {GOOD_ACCURACY} or more", f"{actual:.3f}", cause)
        if not seen["tested"] or not abs(seen["claimed"] - actual) <= 0.005:
            raise Wrong(
                f"the accuracy on all test images, {actual:.3f}, measured on the IPU",
                f"{seen['claimed']:.3f} after {seen['tested']} calls of test_loader",
                "it's a fraction of 1; add up the right answers of every batch of test_loader.",
            )
        if not 0 < seen["calls"] <= DEVICE_CALLS:
            raise Wrong(
                f"at most {DEVICE_CALLS} training calls",
                f"{seen['calls']}",
                "more epochs than needed. Each call is already four weight updates.",
            )
        left = [name for name, attached in seen["attached"].items() if attached]
        if left:
            raise Wrong(
                "both detached from the IPU",
                f"{' and '.join(left)} still attached",
                "call detachFromDevice() on each when it's done: an attached IPU is closed to everyone else.",
            )


class _CountedLoader(poptorch.DataLoader):
    """A poptorch.DataLoader that counts the batches it gave: one batch is one device call."""

    calls = 0

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            self.calls += 1
            yield batch


class _Net(DigitsNet):
    """The model of x1, so that x4 can be solved without it."""

    def forward(self, images: torch.Tensor, labels: torch.Tensor = None) -> Any:
        scores = super().forward(images)
        if labels is None:
            return scores
        return scores, F.cross_entropy(scores, labels)


def _kinds(result: Any) -> list[str]:
    items = result if isinstance(result, (tuple, list)) else [result]
    return ["nothing" if item is None else type(item).__name__ for item in items]


EXERCISES = (ReturnLoss(), FeedModel(), ReadTheError(), TrainAndTest())
