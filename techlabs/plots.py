"""The course's plots: one style, and an alternative text for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Callable

from techlabs.show import Picture, figure

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset

STYLE = str(Path(__file__).with_name("techlabs.mplstyle"))


def image_row(dataset: TensorDataset, count: int = 10) -> Picture:
    """The first images of a dataset side by side, each under its label."""
    import matplotlib.pyplot as plt

    with plt.style.context(STYLE):
        drawing, axes = plt.subplots(1, count, figsize=(0.8 * count, 1.1))
        for axis, (image, label) in zip(axes, dataset):
            axis.imshow(image.squeeze().numpy())
            axis.set_title(str(int(label)), loc="center")
            axis.axis("off")
    labels = ", ".join(str(int(dataset[i][1])) for i in range(count))
    return figure(
        drawing, f"{count} grey images of {len(image[0])} x {len(image[0])} pixels, labelled {labels}."
    )


def plateau(
    measured: dict[int, float], over: str, what: str, curve: Callable[[float], float] | None = None
) -> Picture:
    """Images per second over the batch size or the replicas, and a fitted curve beside them.

    Args:
        measured: images per second, by the value on the horizontal axis.
        over: the name of the horizontal axis.
        what: what was measured, and where the numbers are from.
        curve: images per second that a formula gives, or None before there is one.
    """
    import matplotlib.pyplot as plt
    import numpy

    points = ", ".join(f"{rate:g} at {x}" for x, rate in measured.items())
    alt = f"Images per second over {over}, {what}: {points}."
    with plt.style.context(STYLE):
        drawing, axis = plt.subplots()
        axis.plot(list(measured), list(measured.values()), linestyle="none", label=what)
        if curve is not None:
            across = numpy.geomspace(min(measured), 2 * max(measured), 100)
            axis.plot(across, [curve(x) for x in across], marker="", linestyle="--", label="your formula")
            alt += f" Your formula gives {curve(2 * max(measured)):.0f} at {2 * max(measured)}."
        axis.set_xlabel(over)
        axis.set_ylabel("images per second")
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, loc="lower right")
    return figure(drawing, alt)
