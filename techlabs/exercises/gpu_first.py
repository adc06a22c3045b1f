"""Exercises of the lab gpu_first: a small CNN on handwritten digits, with plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset

from techlabs.data import digits
from techlabs.exercise import Exercise, Observation, Wrong

# Measured on 6 seeds each: 10 epochs of the sample solution reach 0.958 to 0.981, 4 epochs 0.917 to 0.922.
GOOD_ACCURACY = 0.93
TRAINING_CALLS = 400


class BuildModel(Exercise):
    """x1: the forward pass of the CNN."""

    name = "x1"
    title = "the model turns a batch of images into one score a digit"
    hints = (
        "Read the comments: each gives the shape before and after. Which layer makes 32 channels?",
        "The first block is convolution, ReLU, pooling. The second block is the same with self.conv2. "
        "A linear layer wants one row an image: which tensor method flattens all but the first dimension?",
        "x = F.max_pool2d(F.relu(self.conv2(...)), ...), then return self.out(x.flatten(...)).",
    )
    cases = ({"rows": 7, "seed": 0}, {"rows": 12, "seed": 1})

    def observe(self, answer: Any, rows: int, seed: int) -> Observation:
        """`answer` is the class; rows is the batch size. It gets the weights that the judge knows."""
        torch.manual_seed(seed)
        model = answer()
        model.load_state_dict(weights(seed), strict=False)
        scores = model(images(rows, seed))
        if not isinstance(scores, torch.Tensor):
            return {"kind": type(scores).__name__}
        if scores.requires_grad:
            scores.sum().backward()
        untrained = [name for name, p in model.named_parameters() if p.grad is None]
        return {"kind": "Tensor", "scores": scores, "untrained": untrained}

    def judge(self, seen: Observation, rows: int, seed: int) -> None:
        """Shape first, then which layers took part, then values."""
        if seen["kind"] != "Tensor":
            raise Wrong("a tensor", f"a {seen['kind']}", "forward has no return statement.")
        shape = tuple(seen["scores"].shape)
        if shape != (rows, 10):
            raise Wrong(
                f"scores of shape ({rows}, 10) for {rows} images",
                f"shape {shape}",
                "the features of different images were mixed, or the last layer is missing. "
                "Flatten from dimension 1 on, so that dimension 0 stays the image.",
            )
        if seen["untrained"]:
            raise Wrong(
                "gradients in every parameter",
                f"none in {', '.join(seen['untrained'])}",
                "a layer is defined but not used in forward.",
            )
        if not torch.allclose(seen["scores"], expected_scores(rows, seed), atol=1e-4, rtol=1e-4):
            raise Wrong(
                "convolution, ReLU, pooling; twice; then the linear layer",
                "scores that these layers don't give",
                "ReLU or pooling is missing in the second block, or something follows the last layer "
                "(cross_entropy wants raw scores, without softmax).",
            )


class FeedModel(Exercise):
    """x2: a DataLoader for training and one for testing."""

    name = "x2"
    title = "the loader feeds whole shuffled batches to training, and every image to testing"
    hints = (
        "Training and testing want different things of the last, short batch. Which of the two may lose it?",
        "DataLoader has the arguments batch_size, shuffle and drop_last. Two of them depend on `training`.",
        "return DataLoader(dataset, batch_size=batch, shuffle=..., drop_last=...) with `training` in both.",
    )
    cases = (
        {"images": 50, "batch": 16, "training": True},
        {"images": 50, "batch": 16, "training": False},
        {"images": 33, "batch": 8, "training": True},
    )

    def observe(self, answer: Any, images: int, batch: int, training: bool) -> Observation:
        """`answer` is make_loader(dataset, batch, training); the dataset's labels count from 0."""
        torch.manual_seed(0)
        dataset = TensorDataset(torch.zeros(images, 1, 8, 8), torch.arange(images))
        loader = answer(dataset, batch, training)
        if loader is None:
            return {"kind": "None"}
        epochs = [[labels.tolist() for _, labels in loader] for _ in range(2)]
        return {"kind": type(loader).__name__, "epochs": epochs}

    def judge(self, seen: Observation, images: int, batch: int, training: bool) -> None:
        """Batch sizes, then which images come, then their order."""
        if "epochs" not in seen:
            raise Wrong("a DataLoader", seen["kind"], "make_loader has no return statement.")
        first, second = seen["epochs"]
        sizes = [len(rows) for rows in first]
        whole, rest = divmod(images, batch)
        expected = [batch] * whole + ([] if training or not rest else [rest])
        if sizes != expected:
            raise Wrong(
                f"batches of {expected} images for training={training}",
                f"{sizes}",
                "batch_size isn't `batch`."
                if sizes[:1] != [batch]
                else "training drops the last, short batch; testing must keep it, or images go untested.",
            )
        order = [label for rows in first for label in rows]
        if len(set(order)) != len(order) or not set(order) <= set(range(images)):
            raise Wrong(
                "every image at most once an epoch",
                "an image that came again, or isn't one of the data set's",
                "hand the data set itself to DataLoader; sampling with replacement repeats images.",
            )
        shuffled = order != sorted(order)
        if shuffled != training:
            raise Wrong(
                "a new order in every epoch" if training else "the order of the data set",
                "images in a shuffled order" if shuffled else "images in the order of the data set",
                "shuffle should be True for training only.",
            )
        if training and first == second:
            raise Wrong(
                "a new order in every epoch",
                "twice the same",
                "the order was drawn only once, not in every epoch.",
            )


class ReadTheError(Exercise):
    """x3: the number of features that a picture of another size leaves for the linear layer."""

    name = "x3"
    title = "flat_features gives the input size of the linear layer for any picture"
    hints = (
        "The message names two shapes. Which number comes from the picture, which from nn.Linear?",
        "Each pooling halves the side and rounds down. There are two. The picture has two dimensions.",
        "side = side // 2, twice; then channels * side * side.",
    )
    cases = (
        {"side": 8, "channels": 32},
        {"side": 20, "channels": 6},
        {"side": 13, "channels": 5},
    )

    def observe(self, answer: Any, side: int, channels: int) -> Observation:
        """`answer` is flat_features(side, channels) -> int."""
        return {"features": answer(side, channels)}

    def judge(self, seen: Observation, side: int, channels: int) -> None:
        """The number, against two poolings of the picture."""
        features, left = seen["features"], side // 2 // 2
        if type(features) is int and features == channels * left * left:
            return
        cause = "each of the two poolings halves both dimensions, whatever the size."
        if type(features) is not int:
            cause = "use // to divide: / gives a float, and nn.Linear wants an int."
        elif features == channels * (side // 2) ** 2:
            cause = "there are two poolings, you counted one."
        elif features == channels * left:
            cause = "a picture has two dimensions: the side counts twice."
        elif features == left * left:
            cause = "the channels are missing: each channel has a picture of its own."
        elif side % 4:
            cause = "pooling rounds down after each halving."
        raise Wrong(f"{channels * left * left} for side={side}, channels={channels}", f"{features!r}", cause)


class TrainAndTest(Exercise):
    """x4: the whole training, judged by what comes out and by how often the device was asked."""

    name = "x4"
    title = f"a trained model in host memory, test accuracy {GOOD_ACCURACY} or more"
    hints = (
        "Five parts: move the model, loop over epochs and batches, update, test, move the model back.",
        "Adam with a learning rate of 0.003, batches of 64 and ten epochs are enough: 220 calls. Both the "
        "images and the labels of every batch go to the device. Test with model.eval() and torch.no_grad().",
        "After the loop: count correct answers batch by batch with scores.argmax(1) == labels, divide by the "
        "number of test images, and end with model.to('cpu').",
    )
    cases = ({"seed": 0},)

    def observe(self, answer: Any, seed: int) -> Observation:
        """`answer` is train_and_test(model, train_set, test_set, device) -> accuracy."""
        torch.manual_seed(seed)
        train_set, test_set = digits()
        model = DigitsNet()
        calls = {"training": 0}

        def count(module: Any, *_: Any) -> None:
            calls["training"] += module.training

        model.register_forward_hook(count)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        accuracy = answer(model, train_set, test_set, device)
        return {
            "claimed": float(accuracy) if isinstance(accuracy, (int, float, torch.Tensor)) else None,
            "calls": calls["training"],
            "places": sorted({str(p.device) for p in model.parameters()}),
            "left in training": model.training,
            "weights": model.state_dict(),
        }

    def judge(self, seen: Observation, seed: int) -> None:
        """What was learned, then what was claimed, then the cost, then what was left behind."""
        actual = test_accuracy(seen["weights"])
        if not actual >= GOOD_ACCURACY:
            cause = "too few epochs, or a learning rate that is too large or too small."
            if actual < 0.2:
                cause = "the weights never changed: is optimizer.step() called after loss.backward()?"
            raise Wrong(f"test accuracy {GOOD_ACCURACY} or more", f"{actual:.3f}", cause)
        claimed = seen["claimed"]
        if claimed is None or not abs(claimed - actual) <= 0.005:
            raise Wrong(
                f"the accuracy on all test images, {actual:.3f}",
                "nothing" if claimed is None else f"{claimed:.3f}",
                "it's a fraction of 1; count every test image once, in eval mode, after the last update.",
            )
        if not 0 < seen["calls"] <= TRAINING_CALLS:
            raise Wrong(
                f"at most {TRAINING_CALLS} training calls",
                f"{seen['calls']}",
                "more epochs than needed, or batches that are too small."
                if seen["calls"]
                else "train in training mode: model.train() before the loop.",
            )
        if seen["places"] != ["cpu"] or seen["left in training"]:
            raise Wrong(
                "a model on the CPU, in eval mode",
                f"on {', '.join(seen['places'])}, {'training' if seen['left in training'] else 'eval'} mode",
                "end with model.eval() and model.to('cpu'): the next user needs the device.",
            )


class DigitsNet(torch.nn.Module):
    """The model that x1 asks for, so that x4 can be solved without it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.out = torch.nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images [N, 1, 8, 8] to scores [N, 10]."""
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.out(x.flatten(1))


def images(rows: int, seed: int) -> torch.Tensor:
    """Images [rows, 1, 8, 8] of a case, whatever random numbers were drawn before."""
    return torch.rand(rows, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def weights(seed: int) -> dict[str, torch.Tensor]:
    """Weights of a DigitsNet for a case, likewise."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {name: value.shape for name, value in DigitsNet().state_dict().items()}
    return {name: torch.randn(shape, generator=generator) / 5 for name, shape in shapes.items()}


def expected_scores(rows: int, seed: int) -> torch.Tensor:
    """What a DigitsNet with the weights of a case makes of its images."""
    return _with(weights(seed))(images(rows, seed)).detach()


def test_accuracy(state: dict[str, torch.Tensor]) -> float:
    """The share of test images that a DigitsNet with these weights gets right."""
    pictures, labels = digits()[1].tensors
    with torch.no_grad():
        return (_with(state).eval()(pictures).argmax(1) == labels).float().mean().item()


def _with(state: dict[str, torch.Tensor]) -> DigitsNet:
    model = DigitsNet()
    model.load_state_dict(state)
    return model


EXERCISES = (BuildModel(), FeedModel(), ReadTheError(), TrainAndTest())
