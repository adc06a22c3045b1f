"""Which published rows the model predicts, and how; which it doesn't, and why."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import ipu_runs as runs
import torch

from poptorch.cost import contraction
from poptorch.cost.compilation import compilation_seconds
from poptorch.cost.products import PRODUCTS
from poptorch.machine import BOW, GC2, GC200

Predict = Callable[[], float]

# Packing several short sequences into one (graphcore/examples nlp/bert/pytorch configuration: factor 1.17).
_PACKED = 1.17


@dataclass(frozen=True)
class Row:
    """One published figure: its number in ipu_published.csv, what was run, the value, and how it is
    predicted.
    """

    number: int
    group: str
    configuration: str
    value: float
    unit: str
    predict: Predict


def _throughput(run: Callable[..., runs.Run], *arguments: object) -> Predict:
    return lambda: run(*arguments).execution().throughput


def _efficientnet(stages: int, replicas: int) -> Predict:
    """The median over the accumulations that were run; with eight stages 10 is refused."""
    counts = (20, 40, 60) if stages == 8 else (10, 20, 40, 60)
    return lambda: statistics.median(
        runs.efficientnet(stages, replicas, count).execution().throughput for count in counts
    )


def _accumulation(count: int) -> Predict:
    return lambda: 1e3 / runs.efficientnet(4, 1, count).execution().throughput


def _compilation(stages: int, replicas: int) -> Predict:
    return lambda: compilation_seconds(runs.efficientnet(stages, 1, 20).execution().program, replicas)


def _packed_bert() -> float:
    return _PACKED * runs.bert_large(4, 128, 8, 54784).execution().throughput


def _keras(replicas: int, steps: int) -> Predict:
    return lambda: 1e3 * runs.keras(replicas, steps).execution().seconds / steps


PREDICTED: dict[int, Predict] = {
    **{
        number: _efficientnet(stages, replicas)
        for number, (stages, replicas) in enumerate(
            [(2, 1), (2, 2), (2, 4), (2, 8), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2)], start=1
        )
    },
    **{
        number: _accumulation(count) for number, count in zip((10, 11, 12, 13), (10, 20, 40, 60), strict=True)
    },
    17: _compilation(2, 1),
    18: _compilation(4, 1),
    19: _compilation(8, 1),
    20: _compilation(2, 8),
    21: _compilation(4, 4),
    22: _compilation(8, 2),
    **{number: _throughput(runs.autoencoder, r) for number, r in enumerate((1, 2, 4, 8, 16), start=23)},
    83: _throughput(runs.resnet50, 16, 3520, 20),
    84: _throughput(runs.resnet50, 16, 16384, 18),
    85: _throughput(runs.resnet50, 64, 5120, 20),
    86: _throughput(runs.resnet50, 256, 10240, 20),
    87: _throughput(runs.efficientnet_b4, 8, 6144),
    88: _throughput(runs.efficientnet_b4, 32, 6144),
    89: _throughput(runs.efficientnet_b4, 128, 6144),
    90: _throughput(runs.efficientnet_b4, 8, 1024),
    91: _throughput(runs.resnext101),
    92: _throughput(runs.vit, 4),
    93: _throughput(runs.vit, 16),
    94: _throughput(runs.bert_large, 4, 128, 8, 65536),
    95: _throughput(runs.bert_large, 16, 128, 8, 65536),
    96: _throughput(runs.bert_large, 4, 384, 2, 16384),
    97: _packed_bert,
    98: _throughput(runs.bert_large, 2, 384, 4, 256, False),
    99: _throughput(runs.bert_base),
    100: _throughput(runs.swin),
    101: _throughput(runs.unet),
    **{
        number: _throughput(runs.conformer, machine, ipus)
        for number, (machine, ipus) in enumerate(
            [(GC200, 4), (GC200, 16), (GC200, 64), (BOW, 4), (BOW, 16), (BOW, 64)], start=102
        )
    },
    112: _throughput(runs.tutorial, 1, True),
    113: _throughput(runs.tutorial, 1, False),
    114: _throughput(runs.tutorial, 2, True),
    115: _throughput(runs.tutorial, 2, False),
    116: _keras(1, 1),
    117: _keras(1, 937),
    118: _keras(2, 468),
}

# The machine's own figures that follow from others: shown apart, they say nothing about programs.
FACTS: dict[int, Predict] = {
    144: lambda: GC2.memory_bandwidth / 1e12,
    145: lambda: GC2.load_bytes * GC2.tiles * GC2.clock_hz / 1e12,
    147: lambda: GC2.peak_flops(torch.float16, torch.float16) / 1e12,
    148: lambda: GC2.peak_flops(torch.float32, torch.float32) / 1e12,
    150: lambda: GC200.peak_flops(torch.float16, torch.float16) / 1e12,
    151: lambda: GC200.memory_bandwidth / 1e12,
    152: lambda: GC200.exchange_bandwidth / 1e12,
    155: lambda: 4 * BOW.peak_flops(torch.float16, torch.float16) / 1e12,
    156: lambda: BOW.memory / 2**20,
}

_NOT_PREDICTED = {
    "AE-GPU": "a GPU, not an IPU",
    "GEMM-GPU": "a GPU, not an IPU",
    "SPARSE": "PopTorch has no sparse product",
    "MLPERF": "the number of epochs to the target isn't published with it",
    "BSP": "vertices written in C++, not operations of a captured program; sync and exchange rates are facts",
    "MEM": "a fact the model starts from, or of C++ vertices",
    "EXCH": "a latency the model doesn't use",
    "LINK": "a fact the model starts from",
    "TARGET": "a fact the model starts from, or of a vertex it has no formula for",
    "EM": "a rule that PopTorch checks: tested in tests/emulators/poptorch",
    "IO": "of the host, or a fact the model starts from",
}


def reason(group: str) -> str:
    """Why a row that is in neither table isn't predicted."""
    return _NOT_PREDICTED.get(group, "no operation of a captured program")


def size(run: runs.Run) -> tuple[float, float]:
    """Millions of parameters, and 10^9 operations of products and convolutions for one image, forward."""
    forward = [
        PRODUCTS[call.name](call)[0] for call in run.execution().calls.values() if call.name in PRODUCTS
    ]
    flops = sum(
        work.flops for works in forward for work in works if isinstance(work, contraction.Contraction)
    )
    return runs.convolutional.parameters(run.model()) / 1e6, flops / run.micro_batch / 1e9


def matmul(dtype: torch.dtype, side: int, columns: int) -> float:
    """TFLOPS of one product (side x side)(side x columns) on a Bow, partials in the operands' type."""
    work = contraction.matmul(1, side, side, columns, dtype, dtype)
    cycles = contraction.cost(work, BOW, memory_proportion=0.6)
    return cycles.flops / BOW.seconds(cycles.total) / 1e12
