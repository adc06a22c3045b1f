"""Matrix products and convolutions: how they are split over tiles, and what the best split costs.

Both are one thing to poplibs, whose planner this imitates: for every group and kernel tap a matrix of weights
(output by input channels) meets a vector of input channels at every position of a field. The tiles'
accumulating matrix product (AMP) unit takes the weights in blocks of 16 output by 16 input channels (8 in
single precision), loads a block, and runs all the tile's positions past it, six workers in turn. The planner
weighs splits of groups, output channels, input channels and positions: finer ones cost more exchange and more
block loads.
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from poptorch.cost import constants as c
from poptorch.cost.cycles import Cycles
from poptorch.machine import KIB, Machine


@dataclass(frozen=True)
class Contraction:
    """A grouped convolution; a matrix product is one with a single tap and its rows as positions.

    `images` x `height` x `width` output positions; `inputs` and `outputs` channels in each group. In a weight
    gradient the kernel's taps are positions, and as many as `shared` of them look at the same inputs.
    """

    groups: int
    inputs: int
    outputs: int
    images: int
    height: int = 1
    width: int = 1
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dtype: torch.dtype = torch.float16
    partials: torch.dtype = torch.float32
    shared: int = 1

    @property
    def taps(self) -> int:
        """Kernel positions."""
        return self.kernel[0] * self.kernel[1]

    @property
    def positions(self) -> int:
        """Output positions of one group and channel."""
        return self.images * self.height * self.width

    @property
    def flops(self) -> int:
        """Multiplications and additions together."""
        return 2 * self.groups * self.inputs * self.outputs * self.taps * self.positions


def matmul(groups: int, m: int, k: int, n: int, dtype: torch.dtype, partials: torch.dtype) -> Contraction:
    """`groups` products of an (m x k) matrix, taken for the weights, with a (k x n) one."""
    return Contraction(groups, inputs=k, outputs=m, images=n, dtype=dtype, partials=partials)


@cache
def cost(work: Contraction, machine: Machine, memory_proportion: float) -> Cycles:
    """The cheapest way to do `work`.

    `memory_proportion` bounds what a tile may use for inputs gathered and partial results.
    """
    budget = max(memory_proportion * machine.memory_per_tile, KIB)
    return min(
        (_planned(variant, machine, budget, work.inputs == work.outputs == 1) for variant in _variants(work)),
        key=lambda cycles: cycles.total,
    )


def _variants(work: Contraction) -> list[Contraction]:
    """The work as it is, and with kernel rows or the whole kernel gathered into the input channels.

    Gathering fills the unit when there are few input channels, as in a first layer.
    """
    rows, columns = work.kernel
    found = [work]
    if work.inputs < 16 and columns > 1 and work.groups == 1:
        found.append(replace(work, inputs=work.inputs * columns, kernel=(rows, 1)))
    if work.inputs < 16 and work.taps > 1 and work.groups == 1:
        found.append(replace(work, inputs=work.inputs * work.taps, kernel=(1, 1)))
    return found


def _splits(size: int, tiles: int) -> np.ndarray:
    """Numbers of parts worth trying: those for which the largest part gets smaller."""
    most = min(size, tiles)
    tried = np.unique(np.round(np.geomspace(1, most, num=min(most, 40))).astype(int))
    parts = np.ceil(size / np.ceil(size / tried)).astype(int)
    return np.unique(parts)


@dataclass(frozen=True)
class _Splits:
    """Ways to split a contraction, one in each element: the largest tile's share; whether sums cross tiles.

    `shared_weights`: the field is split, so that several tiles need the same weights.
    """

    groups: np.ndarray
    outputs: np.ndarray
    inputs: np.ndarray
    images: np.ndarray
    height: np.ndarray
    width: np.ndarray
    shared_weights: np.ndarray
    reducing: np.ndarray

    @property
    def positions(self) -> np.ndarray:
        """Output positions of the share."""
        return self.images * self.height * self.width


def _candidates(work: Contraction, machine: Machine, depthwise: bool) -> _Splits:
    half = work.dtype == torch.float16
    block_out, block_in = (1, 1) if depthwise else (16, 16 if half else 8)
    unit = (8 if half else 4) if depthwise else 1
    out_blocks, in_blocks = math.ceil(work.outputs / block_out), math.ceil(work.inputs / block_in)
    by_group, by_out, by_in, share = np.meshgrid(
        _splits(math.ceil(work.groups / unit), machine.tiles),
        _splits(out_blocks, machine.tiles),
        _splits(in_blocks, machine.tiles),
        np.array([1.0, 0.5]),
        indexing="ij",
    )
    field_tiles = np.floor(machine.tiles / (by_group * by_out * by_in) * share).astype(int)
    keep = field_tiles >= 1
    by_group, by_out, by_in, field_tiles = (a[keep] for a in (by_group, by_out, by_in, field_tiles))
    images, height, width, split = _field_share(work, field_tiles)
    return _Splits(
        groups=np.ceil(work.groups / unit / by_group) * unit,
        outputs=np.ceil(out_blocks / by_out) * block_out,
        inputs=np.ceil(in_blocks / by_in) * block_in,
        images=images,
        height=height,
        width=width,
        shared_weights=split > 1,
        reducing=by_in > 1,
    )


def _planned(work: Contraction, machine: Machine, budget: float, depthwise: bool) -> Cycles:
    """The best of all splits. Exchange: the field's inputs, weights that are shared, partial sums."""
    s = _candidates(work, machine, depthwise)
    size = work.dtype.itemsize
    images = s.images / np.minimum(work.shared, s.images)
    field_bytes = images * _reach(s.height, work, 0) * _reach(s.width, work, 1) * s.inputs * s.groups * size
    weight_bytes = s.shared_weights * s.groups * s.outputs * s.inputs * work.taps * size
    partial_bytes = s.positions * s.outputs * s.groups * work.partials.itemsize
    temporary = field_bytes + weight_bytes + np.where(s.reducing, 2, 1) * partial_bytes
    # What doesn't fit into the budget is done in several steps, each gathering the field's inputs again.
    steps = np.ceil(temporary / budget)
    received = steps * field_bytes + weight_bytes + s.reducing * partial_bytes
    exchange = received / machine.exchange_bytes + (steps + s.reducing) * c.EXCHANGE_START
    compute = _vertical_macs(work, s) if depthwise else _amp(work, machine, s)
    compute = compute + (steps - 1) * c.AMP_CALL
    compute = compute + s.reducing * (c.COMPUTE_SET + partial_bytes / 8)  # 8 bytes a cycle are added up.
    sync = (1 + steps + 2 * s.reducing) * machine.sync_cycles
    best = int(np.argmin(compute + exchange + sync))
    return Cycles(
        float(compute[best]),
        float(exchange[best]),
        float(sync[best]),
        work.flops,
        float(temporary[best] / steps[best]),
        int(steps[best] + s.reducing[best]),
    )


def _field_share(work: Contraction, tiles: np.ndarray) -> tuple[np.ndarray, ...]:
    """Images, rows and columns of the largest tile's share, and into how many parts the field is split."""
    by_image = np.minimum(work.images, tiles)
    by_row = np.minimum(work.height, tiles // by_image)
    by_column = np.minimum(work.width, tiles // (by_image * by_row))
    shares = [
        np.ceil(size / parts)
        for size, parts in ((work.images, by_image), (work.height, by_row), (work.width, by_column))
    ]
    return *shares, by_image * by_row * by_column


def _reach(positions: np.ndarray, work: Contraction, axis: int) -> np.ndarray:
    """Input positions that so many output positions in a row look at."""
    return np.maximum((positions - 1) * work.stride[axis] + work.kernel[axis], positions)


def _amp(work: Contraction, machine: Machine, s: _Splits) -> np.ndarray:
    """Cycles of the AMP unit for one tile's share (P: the poplibs formulas in the reference of `machine`)."""
    half = work.dtype == torch.float16
    block_out, block_in = 16, (16 if half else 8)
    # Cycles that a worker's block of weights takes for one position; six workers interleave.
    core = block_out * block_in / machine.macs(work.dtype, work.partials)
    blocks = s.groups * work.taps * (s.outputs / block_out) * (s.inputs / block_in)
    # The six workers share out the positions; one that is left over makes the others wait.
    each = np.ceil(s.positions / machine.workers)
    start = 37 if half else 46  # P: a worker with up to three positions
    worker = machine.workers * (start + np.maximum(0, each - 3) * core)
    load = block_out * block_in * work.dtype.itemsize / machine.load_bytes
    return c.AMP_CALL + blocks * (load + worker)


def _vertical_macs(work: Contraction, s: _Splits) -> np.ndarray:
    """Cycles of depthwise convolution, which the AMP unit is of no use to (P: vertical-MAC vertex).

    Three cycles for each tap and 8 channels (4 in single precision) at a position.
    """
    lanes = 8 if work.dtype == torch.float16 else 4
    each = np.ceil(s.positions * s.groups / lanes / 6)
    return 6 * (61 + 14 + each * (3 * work.taps + c.VERTICAL_LOOP)) + c.AMP_CALL
