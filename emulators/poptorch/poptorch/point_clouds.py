"""Operations on sets of points: farthest point sampling and nearest neighbours; and what is not emulated."""

import itertools

import torch

from poptorch.capture.source import current_source, located
from poptorch.errors import Error


def fps(src: torch.Tensor, ptr: list[int], ratio: float = 0.5, random_start: bool = False) -> torch.Tensor:
    """Indices of points far from each other: of each set of points, a `ratio` of them, rounded up.

    `src` is (points, features); `ptr` the bounds of the sets in it: set i is `src[ptr[i]:ptr[i + 1]]`. The
    first point of a set is its first, or with `random_start` a random one. Error for a ratio outside 0 to 1.
    """
    if not 0 < ratio <= 1:
        raise located(f"fps takes a ratio between 0 and 1, but got {ratio}.", current_source())
    chosen = []
    for begin, end in itertools.pairwise(ptr):
        points = src[begin:end]
        count = -(-int((end - begin) * ratio * 1000) // 1000)
        last = torch.randint(0, end - begin, (1,)) if random_start else torch.zeros(1, dtype=torch.int32)
        distance = torch.full((end - begin,), float("inf"), device=src.device)
        for _ in range(count):
            chosen.append(last + begin)
            distance = torch.minimum(distance, (points - points.index_select(0, last)).square().sum(1))
            last = distance.argmax().reshape(1)
    return torch.cat(chosen)


def nearest(
    x: torch.Tensor,
    y: torch.Tensor,
    batch_x: list[int] | torch.Tensor | None = None,
    batch_y: list[int] | torch.Tensor | None = None,
) -> torch.Tensor:
    """For each point of `x` (n, features) the index of the nearest of `y` (m, features).

    With `batch_x` (n) and `batch_y` (m), which number the sets that points belong to, only points of the same
    set are compared. Error when one of them is given alone.
    """
    if (batch_x is None) != (batch_y is None):
        raise located("nearest takes both batch_x and batch_y, or neither.", current_source())
    distances = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1)
    if batch_x is not None:
        sets = [
            batch if isinstance(batch, torch.Tensor) else torch.tensor(batch, device=x.device)
            for batch in (batch_x, batch_y)
        ]
        apart = sets[0].unsqueeze(1) != sets[1].unsqueeze(0)
        distances = distances.masked_fill(apart, float("inf"))
    return distances.argmin(1)


def ctc_beam_search_decoder(
    probs: torch.Tensor, lengths: torch.Tensor, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> list[torch.Tensor]:
    """Error: beam search is not emulated."""
    raise Error(
        "poptorch.ctc_beam_search_decoder is not emulated: only the real machine has it. Return the "
        "log-probabilities from the model and decode them on the host."
    )
