"""What the emulated PopTorch costs beside plain PyTorch, measured on this machine.

    python benchmarks/poptorch_overhead.py [--json FILE]

The same model takes the same micro-batches emulated and in eager PyTorch, in turns, in one process with one
thread; the table has medians of processor time, which other processes don't disturb, and their ratio. Peak
memory is that of a process that only trains. Targets, missing one exits 1:

    training step, emulated / plain                    1.05
    inference call, emulated / plain                   1.05
    first call (capture and compile), 34 k parameters  3 s
    first call, EfficientNetV2-S                       15 s
    peak memory of training, emulated / plain          1.5
"""

import argparse
import copy
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import poptorch

MOST_RATIO, MOST_MEMORY_RATIO = 1.05, 1.5
MOST_SECONDS_SMALL, MOST_SECONDS_LARGE = 3.0, 15.0
# Rounds of emulated and plain calls in turns; enough for medians to settle within about 1 %.
ROUNDS = 60
LEARNING_RATE = 0.01


class WithLoss(nn.Module):
    """A classifier that also computes its loss when it is given labels."""

    def __init__(self, classifier: nn.Module):
        super().__init__()
        self.classifier = classifier

    def forward(self, images: torch.Tensor, labels: torch.Tensor | None = None):
        """Logits, and with labels the loss after them."""
        logits = self.classifier(images)
        return logits if labels is None else (logits, F.cross_entropy(logits, labels))


def digits_cnn() -> nn.Module:
    """The network of the first labs, for 8 x 8 digits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def small_cnn() -> nn.Module:
    """A network of 34 k parameters for 28 x 28 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 36),
        nn.ReLU(),
        nn.Linear(36, 10),
    )


class MBConv(nn.Module):
    """An inverted residual block; fused, its expansion and depthwise convolution are one."""

    def __init__(self, inside: int, outside: int, expansion: int, stride: int, fused: bool):
        super().__init__()
        wide = inside * expansion
        self.residual = stride == 1 and inside == outside
        if fused:
            layers = [convolution(inside, wide, 3, stride)]
        else:
            layers = [convolution(inside, wide, 1), convolution(wide, wide, 3, stride, groups=wide)]
            layers += [SqueezeExcitation(wide, max(1, inside // 4))]
        project = nn.Sequential(nn.Conv2d(wide, outside, 1, bias=False), nn.BatchNorm2d(outside))
        self.layers = nn.Sequential(*layers, project)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) to the same, or smaller by the stride."""
        return x + self.layers(x) if self.residual else self.layers(x)


class SqueezeExcitation(nn.Module):
    """Scales channels by what their means say."""

    def __init__(self, channels: int, squeezed: int):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) to the same."""
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


def convolution(inside: int, outside: int, size: int, stride: int = 1, groups: int = 1) -> nn.Module:
    """Convolution, batch normalisation and SiLU."""
    layer = nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outside), nn.SiLU())


def efficientnet(first: int, stages: list[tuple[int, int, int, int, bool]], last: int) -> nn.Module:
    """EfficientNetV2: `stages` are (blocks, channels, expansion, stride, fused)."""
    layers, channels = [convolution(3, first, 3, 2)], first
    for blocks, outside, expansion, stride, fused in stages:
        for block in range(blocks):
            layers.append(MBConv(channels, outside, expansion, stride if block == 0 else 1, fused))
            channels = outside
    head = [convolution(channels, last, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 10)]
    return nn.Sequential(*layers, *head)


def efficientnet_mini() -> nn.Module:
    """Eight blocks of EfficientNetV2."""
    return efficientnet(
        16, [(2, 16, 1, 1, True), (2, 24, 4, 2, True), (2, 32, 4, 2, False), (2, 48, 4, 2, False)], 128
    )


def efficientnet_v2_s() -> nn.Module:
    """EfficientNetV2-S (Tan and Le 2021, table 4)."""
    stages = [
        (2, 24, 1, 1, True),
        (4, 48, 4, 2, True),
        (4, 64, 4, 2, True),
        (6, 128, 4, 2, False),
        (9, 160, 6, 1, False),
        (15, 256, 6, 2, False),
    ]
    return efficientnet(24, stages, 1280)


@dataclass(frozen=True)
class Case:
    """A model and how one call divides: device iterations x accumulation x micro-batch."""

    name: str
    make: Callable[[], nn.Module]
    image: tuple[int, int, int]
    micro_batch: int
    accumulation: int
    iterations: int

    def model(self) -> WithLoss:
        """The model, the same every time."""
        torch.manual_seed(1)
        return WithLoss(self.make())

    def inputs(self, micro_batches: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels for so many micro-batches."""
        rows = micro_batches * self.micro_batch
        return torch.randn(rows, *self.image), torch.randint(0, 10, (rows,))


CASES = [
    Case("digits CNN (first labs)", digits_cnn, (1, 8, 8), 16, 2, 4),
    Case("CNN, 34 k parameters", small_cnn, (1, 28, 28), 16, 2, 2),
    Case("EfficientNetV2-mini", efficientnet_mini, (3, 32, 32), 8, 2, 1),
]
LARGE = Case("EfficientNetV2-S", efficientnet_v2_s, (3, 64, 64), 2, 1, 1)


def emulated_training(case: Case) -> tuple[Callable[[], object], float]:
    """One training call, and the seconds that the first took."""
    options = poptorch.Options().deviceIterations(case.iterations)
    options.Training.gradientAccumulation(case.accumulation)
    model = case.model()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    training = poptorch.trainingModel(model, options, optimizer)
    inputs = case.inputs(case.iterations * case.accumulation)
    start = time.process_time()
    training(*inputs)
    return lambda: training(*inputs), time.process_time() - start


def plain_training(case: Case) -> Callable[[], object]:
    """The same updates in eager PyTorch."""
    model = case.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    images, labels = case.inputs(case.iterations * case.accumulation)

    def train() -> None:
        pieces = zip(images.split(case.micro_batch), labels.split(case.micro_batch), strict=True)
        for _ in range(case.iterations):
            optimizer.zero_grad()
            for _ in range(case.accumulation):
                _, loss = model(*next(pieces))
                (loss / case.accumulation).backward()
            optimizer.step()

    return train


def emulated_inference(case: Case) -> Callable[[], object]:
    """One inference call."""
    model = poptorch.inferenceModel(case.model().eval(), poptorch.Options().deviceIterations(case.iterations))
    images, _ = case.inputs(case.iterations)
    model(images)
    return lambda: model(images)


def plain_inference(case: Case) -> Callable[[], object]:
    """The same micro-batches in eager PyTorch."""
    model = copy.deepcopy(case.model()).eval()
    images, _ = case.inputs(case.iterations)

    def infer() -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([model(piece) for piece in images.split(case.micro_batch)])

    return infer


def medians(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of two functions called in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for round_number in range(ROUNDS + 5):
        for function, seconds in zip((first, second), times, strict=True):
            start = time.process_time()
            function()
            # The first rounds warm up.
            if round_number >= 5:
                seconds.append(time.process_time() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def peak_memory(kind: str) -> float:
    """Peak resident MiB of a process that trains the large model for some steps."""
    command = [sys.executable, __file__, "--train", kind]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def train_and_tell_memory(kind: str) -> None:
    """Print this process's peak resident MiB after training the large model."""
    train = emulated_training(LARGE)[0] if kind == "emulated" else plain_training(LARGE)
    for _ in range(3):
        train()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


@dataclass(frozen=True)
class Row:
    """A line of the table; `limit` is for the ratio, or for `emulated` where there is nothing to compare."""

    what: str
    unit: str
    emulated: float
    plain: float | None
    limit: float

    @property
    def figure(self) -> float:
        """What is compared with the limit."""
        return self.emulated if self.plain is None else self.emulated / self.plain

    @property
    def kept(self) -> bool:
        """Whether the target is met."""
        return self.figure <= self.limit


def measure() -> list[Row]:
    """All rows of the table."""
    # First, while this process is small: a new process's peak starts at that of the one it comes from.
    memory = [peak_memory(kind) for kind in ("emulated", "plain")]
    rows = [Row(f"{LARGE.name}: peak memory of training", "MiB", *memory, MOST_MEMORY_RATIO)]
    for case in CASES:
        training, first_call = emulated_training(case)
        if case.make is small_cnn:
            rows.append(Row(f"{case.name}: first call", "s", first_call, None, MOST_SECONDS_SMALL))
        emulated, plain = medians(training, plain_training(case))
        rows.append(Row(f"{case.name}: training call", "ms", emulated * 1e3, plain * 1e3, MOST_RATIO))
        emulated, plain = medians(emulated_inference(case), plain_inference(case))
        rows.append(Row(f"{case.name}: inference call", "ms", emulated * 1e3, plain * 1e3, MOST_RATIO))
    _, first_call = emulated_training(LARGE)
    rows.append(Row(f"{LARGE.name}: first call", "s", first_call, None, MOST_SECONDS_LARGE))
    return rows


def show(rows: list[Row]) -> None:
    """Print the table."""
    print(f"{'measured on this machine':<42}{'emulated':>12}{'plain':>10}{'ratio':>8}{'limit':>8}")
    for row in rows:
        plain = "" if row.plain is None else f"{row.plain:.2f}"
        ratio = "" if row.plain is None else f"{row.figure:.3f}"
        missed = "" if row.kept else "  missed"
        emulated = f"{row.emulated:.2f} {row.unit}"
        print(f"{row.what:<42}{emulated:>12}{plain:>10}{ratio:>8}{row.limit:>8}{missed}")


def main() -> int:
    """Measure, print, and tell by the exit status whether every target is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--train", choices=("emulated", "plain"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.train:
        train_and_tell_memory(arguments.train)
        return 0
    rows = measure()
    show(rows)
    if arguments.json:
        figures = [{**asdict(row), "figure": row.figure, "kept": row.kept} for row in rows]
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
