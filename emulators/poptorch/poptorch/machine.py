"""The machines: what the cost and memory models know about one IPU of each generation, and where it is from.

Sources, by the letters in the comments below:
  D  vendor's data sheets and documentation (docs.graphcore.ai: IPU Programmer's Guide, Bow-2000 and M2000)
  J  Jia et al. 2019, "Dissecting the Graphcore IPU Architecture via Microbenchmarking" (arXiv 1912.03413)
  P  poplibs (MIT licence): cycle formulas of the convolution vertices and the planner
  T  getters of Poplar's Target class for the second generation
  L  Louw's stencil experiments on 1 to 16 GC2 (github thorbenlouw/lbm-graphcore)
"""

from dataclasses import dataclass, replace

import torch

from poptorch.errors import Error

KIB = 1024
# An IPU-Machine (M2000, Bow-2000) has four, which share its link to the host (D).
IPUS_PER_MACHINE = 4


@dataclass(frozen=True)
class Machine:
    """One IPU. Cycles are of its clock; bytes per cycle and memory are of one tile unless said otherwise.

    `version` is what PopTorch calls the generation. Bandwidths are in bytes a second in one direction:
    `link_bandwidth` of all the chip's IPU-Links, `neighbour_bandwidth` of those to one other chip,
    `streaming_bandwidth` of the machine's DDR.
    """

    name: str
    version: int
    tiles: int
    workers: int
    memory_per_tile: int
    clock_hz: float
    half_macs: int
    float_macs: int
    load_bytes: int
    store_bytes: int
    exchange_bytes: float
    sync_cycles: int
    sync_cycles_across: int
    link_bandwidth: float
    neighbour_bandwidth: float
    host_bandwidth: float
    streaming_bandwidth: float

    @property
    def memory(self) -> int:
        """Bytes of SRAM on the chip."""
        return self.tiles * self.memory_per_tile

    def macs(self, dtype: torch.dtype, partials: torch.dtype) -> int:
        """Multiply-accumulates a cycle and tile; half precision with float partials runs at half the rate."""
        if dtype != torch.float16:
            return self.float_macs
        return self.half_macs if partials == torch.float16 else self.half_macs // 2

    def peak_flops(self, dtype: torch.dtype, partials: torch.dtype) -> float:
        """Floating-point operations a second of the whole chip, a multiply-accumulate counted as two."""
        return 2 * self.macs(dtype, partials) * self.tiles * self.clock_hz

    @property
    def memory_bandwidth(self) -> float:
        """Bytes a second that all tiles can load and store together."""
        return (self.load_bytes + self.store_bytes) * self.tiles * self.clock_hz

    @property
    def exchange_bandwidth(self) -> float:
        """Bytes a second that all tiles can receive together."""
        return self.exchange_bytes * self.tiles * self.clock_hz

    def seconds(self, cycles: float) -> float:
        """How long so many cycles take."""
        return cycles / self.clock_hz


GC200 = Machine(
    name="GC200",
    version=2,
    tiles=1472,  # D
    workers=6,  # D
    memory_per_tile=624 * KIB,  # D
    clock_hz=1.33e9,  # D
    half_macs=64,  # D: 250 TFLOPS; P: 16 units of 4 half-precision products
    float_macs=16,  # D: 62.5 TFLOPS; P: 8 units of 2 single-precision products
    load_bytes=16,  # J, D: 47.5 TB/s is 24 bytes a cycle and tile, two loads and one store of 8
    store_bytes=8,
    exchange_bytes=4,  # D: 8 TB/s; T
    sync_cycles=126,  # T: the longest delay of a sync on the chip; L: 64 to 117 on GC2
    sync_cycles_across=600,  # T: global sync; L: 500 to 642 over 16 IPUs
    link_bandwidth=160e9,  # D: ten IPU-Links, 320 GB/s both directions together
    neighbour_bandwidth=32e9,  # D: 512 Gbit/s in a group of links, both directions together
    host_bandwidth=5.5e9,  # D: through an M2000's gateway (vision/efficientdet README of graphcore/examples)
    # D: PCIe Gen4 x16 to the machine's gateway, 64 GB/s both directions together. D gives no figure for the
    # DDR behind it; 20 GB/s is often quoted, and slower than rows 10 to 13 of the benchmark allow.
    streaming_bandwidth=32e9,
)

# D: the same silicon, bonded to a wafer that feeds it better, clocked at 1.85 GHz.
BOW = replace(GC200, name="Bow", version=21, clock_hz=1.85e9)

GC2 = replace(
    GC200,
    name="GC2",
    version=1,
    tiles=1216,  # D
    memory_per_tile=256 * KIB,  # D
    clock_hz=1.6e9,  # D
    half_macs=32,  # D, J: 124.5 TFLOPS mixed precision
    float_macs=8,  # D, J: 31.1 TFLOPS
    sync_cycles=117,  # L
)

MACHINES = {"gc2": GC2, "gc200": GC200, "bow": BOW}


def machine_of(version: int) -> Machine:
    """The machine of a generation: 1, 2 or 21."""
    return next(machine for machine in MACHINES.values() if machine.version == version)


def machine_named(name: str) -> Machine:
    """The machine called gc2, gc200 or bow, in any case. Error for another name."""
    if name.lower() not in MACHINES:
        raise Error(f"There is no IPU {name!r} to model; there are {', '.join(MACHINES)}.")
    return MACHINES[name.lower()]
