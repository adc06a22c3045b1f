"""The course's plots: one style, and an alternative text for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
