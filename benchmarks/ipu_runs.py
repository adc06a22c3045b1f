"""The runs behind the published rows: which model, on which machine, how split, batched and replicated.

Settings that a source states are taken from it; what it leaves open is said beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import ipu_models as convolutional
import ipu_models_sequence as sequence
import torch
from torch import nn

import poptorch
from poptorch.capture.program import Program
from poptorch.cost.capturing import captured
from poptorch.cost.deployment import ADAM, LAMB, MOMENTUM, PLAIN, RMSPROP, Deployment, Update
from poptorch.cost.execution import Execution
from poptorch.machine import BOW, GC200, Machine

# SGD whose accumulator and velocity are one tensor ("sgd_combined"), which counts as the accumulator.
COMBINED_MOMENTUM = Update(3.0)
HALF, SINGLE = torch.float16, torch.float32
Inputs = tuple[torch.Tensor, ...]


def _images(n: int, channels: int, side: int, dtype: torch.dtype = SINGLE) -> torch.Tensor:
    return torch.empty(n, channels, side, side, dtype=dtype, device="meta")


def _indices(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=torch.int64, device="meta")


@dataclass(frozen=True)
class Run:
    """One configuration. `splits` name the layers at which IPUs begin; `recomputes` None is PopTorch's
    default.
    """

    model: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    micro_batch: int
    accumulation: int = 1
    replicas: int = 1
    iterations: int = 1
    splits: tuple[str, ...] = ()
    recomputes: bool | None = None
    partials: torch.dtype = HALF
    proportion: float = 0.6
    update: Update = PLAIN
    machine: Machine = BOW
    off_chip_state: bool = False
    sharded_state: bool = False
    accumulator_bytes: int = 2
    asynchronous: bool = True
    host_seconds: float = 0.0
    host_processes: int = 1
    synthetic: bool = False

    def execution(self) -> Execution:
        """The run, ready to be asked for its times."""
        program, trained = _captured(
            self.model, self.inputs, self.micro_batch, self.accumulation, self.iterations, self.splits,
            self.recomputes,
        )  # fmt: skip
        return Execution(
            program,
            Deployment(
                self.machine,
                self.replicas,
                self.partials,
                dict.fromkeys(range(len(self.splits) + 1), self.proportion),
                self.update,
                trained,
                self.accumulator_bytes,
                self.off_chip_state,
                self.sharded_state,
                self.asynchronous,
                self.host_seconds,
                self.host_processes,
                self.synthetic,
            ),
        )


@cache
def _captured(
    build: Callable[[], nn.Module],
    inputs: Callable[[int], Inputs],
    micro_batch: int,
    accumulation: int,
    iterations: int,
    splits: tuple[str, ...],
    recomputes: bool | None,
) -> tuple[Program, frozenset[str]]:
    model = build()
    for number, layer in enumerate(splits):
        poptorch.BeginBlock(model.get_submodule(layer), layer, ipu_id=number + 1)
    options = poptorch.Options()
    options.deviceIterations(iterations)
    options.Training.gradientAccumulation(accumulation)
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    if recomputes is not None:
        options._Popart.set("autoRecomputation", 3 if recomputes else 0)
    program = captured(model, inputs(micro_batch), options)
    return program, frozenset(name for name, _ in model.named_parameters(remove_duplicate=False))


class _FromBytes(nn.Module):
    """A model whose images come as bytes, and are made half-precision numbers on the device."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.model(x.half() / 255, y)


# --- EfficientNetV2-S on microstructure images (rows 1 to 13): single precision, as the script leaves it


def efficientnet_v2_s() -> nn.Module:
    """The model of arXiv 2404.10730."""
    return convolutional.meta(convolutional.EfficientNetV2S)


def _microstructures(n: int) -> Inputs:
    return _images(n, 3, 256), torch.empty(n, 1, device="meta")


# Layers of features on each IPU: [6, 2], [5, 1, 1, 1] and [1] * 8, as the logs list them.
_EFFICIENTNET_SPLITS = {2: (6,), 4: (5, 6, 7), 8: (1, 2, 3, 4, 5, 6, 7)}
# The host decodes and flips one image after the other, while the device waits. Set by rows 1 to 13, together
# with the modelled 0.41 ms that copying an image of 786 kB takes: 1.474 ms in all.
EFFICIENTNET_HOST_SECONDS = 1.06e-3


def efficientnet(stages: int, replicas: int, accumulation: int) -> Run:
    """Optimizer state lies off chip (the script keeps it on the chip for 16 stages only)."""
    return Run(
        efficientnet_v2_s, _microstructures, micro_batch=2, accumulation=accumulation, replicas=replicas,
        iterations=10, splits=tuple(f"features.{n}" for n in _EFFICIENTNET_SPLITS[stages]), update=ADAM,
        off_chip_state=True, accumulator_bytes=4, asynchronous=False, host_seconds=EFFICIENTNET_HOST_SECONDS,
    )  # fmt: skip


# --- The 2022 autoencoder (rows 23 to 27): Keras, single precision, a whole epoch of 70,000 images a call


def _digits(n: int) -> Inputs:
    return _images(n, 1, 28), _images(n, 1, 28)


# TensorFlow's host feeds one image after the other: set by rows 23 to 27 (3.65 s an epoch).
AUTOENCODER_HOST_SECONDS = 50e-6


def autoencoder(replicas: int) -> Run:
    """Micro-batch 10 and Adam; the accumulated steps of an epoch are device iterations."""
    return Run(
        lambda: convolutional.meta(convolutional.Autoencoder), _digits, micro_batch=10, replicas=replicas,
        iterations=7000 // replicas, partials=SINGLE, update=ADAM, machine=GC200, asynchronous=False,
        accumulator_bytes=4, host_seconds=AUTOENCODER_HOST_SECONDS,
    )  # fmt: skip


# --- Small networks of the vendor's tutorials (rows 112 to 118): "Mk2", taken for a GC200


def tutorial(replicas: int, synthetic: bool) -> Run:
    """Micro-batch 16, 50 device iterations, SGD with momentum, single precision."""
    return Run(
        lambda: convolutional.meta(convolutional.TutorialCNN), lambda n: (_images(n, 1, 128), _indices(n)),
        micro_batch=16, replicas=replicas, iterations=50, partials=SINGLE, update=MOMENTUM, machine=GC200,
        accumulator_bytes=4, asynchronous=False, synthetic=synthetic,
    )  # fmt: skip


def keras(replicas: int, steps: int) -> Run:
    """Micro-batch 64, `steps` a call, Adam, single precision; the loader works ahead."""
    return Run(
        lambda: convolutional.meta(convolutional.KerasCNN), lambda n: (_images(n, 1, 28), _indices(n)),
        micro_batch=64, replicas=replicas, iterations=steps, partials=SINGLE, update=ADAM, machine=GC200,
        accumulator_bytes=4,
    )  # fmt: skip


# --- Images on Bow Pods (rows 83 to 93, 100, 101): loaders work ahead, bytes are normalised on the device.
# PopRun starts several host processes; one for each IPU-Machine is assumed for all pods.


def _photographs(side: int) -> Callable[[int], Inputs]:
    return lambda n: (_images(n, 3, side, torch.uint8), _indices(n))


_IMAGENET, _IMAGENET_380 = _photographs(224), _photographs(380)


def _resnet50() -> nn.Module:
    return _FromBytes(convolutional.meta(convolutional.ResNet, half=True))


def _resnext101() -> nn.Module:
    return _FromBytes(convolutional.meta(convolutional.ResNet, (3, 4, 23, 3), 32, 4, half=True))


def resnet50(replicas: int, global_batch: int, micro_batch: int) -> Run:
    """graphcore/examples vision/cnns/pytorch: micro-batch 18, recomputation with checkpoints, proportion
    0.16.
    """
    return Run(
        _resnet50, _IMAGENET, micro_batch, global_batch // replicas // micro_batch, replicas,
        recomputes=True, proportion=0.16, update=COMBINED_MOMENTUM, host_processes=replicas // 4,
    )  # fmt: skip


def resnext101() -> Run:
    """One IPU a replica, micro-batch 6: both taken from the global batch of 768, the source is silent."""
    return Run(
        _resnext101,
        _IMAGENET,
        6,
        8,
        16,
        recomputes=True,
        proportion=0.16,
        update=COMBINED_MOMENTUM,
        host_processes=4,
    )


def _efficientnet_b4() -> nn.Module:
    return _FromBytes(convolutional.meta(convolutional.EfficientNetB4G16, half=True))


def efficientnet_b4(replicas: int, global_batch: int) -> Run:
    """graphcore/examples vision/cnns/pytorch: two IPUs, micro-batch 4, proportion 0.1, split in the fourth
    stage.
    """
    return Run(
        _efficientnet_b4, _IMAGENET_380, 4, max(3, global_batch // replicas // 4), replicas,
        splits=("model.blocks.3.0.block.1",), proportion=0.1, update=RMSPROP, sharded_state=True,
        host_processes=replicas // 2,
    )  # fmt: skip


def _vit() -> nn.Module:
    return _FromBytes(sequence.meta(sequence.ViT, half=True))


def vit(replicas: int) -> Run:
    """graphcore/examples vision/vit/pytorch: four IPUs, micro-batch 8, three layers an IPU."""
    return Run(
        _vit, _IMAGENET, 8, 65536 // replicas // 8, replicas,
        splits=("model.layers.3", "model.layers.6", "model.layers.9"),
        proportion=0.3, update=LAMB, sharded_state=True, accumulator_bytes=4,
        host_processes=replicas,
    )  # fmt: skip


def swin() -> Run:
    """graphcore/examples vision/swin/pytorch: four IPUs, layers [2, 3, 5, 2], micro-batch 4, single
    precision.
    """
    return Run(
        lambda: sequence.meta(sequence.SwinTiny), lambda n: (_images(n, 3, 224), _indices(n)), 4, 64, 4,
        splits=("layers.2", "layers.5", "layers.10"), partials=SINGLE, update=ADAM, accumulator_bytes=4,
        host_processes=4,
    )  # fmt: skip


def unet() -> Run:
    """graphcore/examples vision/unet_medical/tensorflow2: four IPUs, micro-batch 1, accumulation 24.

    The split is one level of the U and what is next to it on an IPU, as its picture shows.
    """
    return Run(
        lambda: convolutional.meta(convolutional.UNet, half=True),
        lambda n: (_images(n, 1, 572, HALF), _indices(n, 388, 388)),
        1, 24, 1, splits=("levels.1", "levels.7", "levels.8"), proportion=0.2, update=ADAM,
    )  # fmt: skip


# --- BERT (rows 94 to 99)


def _text(length: int, masked: int) -> Callable[[int], Inputs]:
    def inputs(n: int) -> Inputs:
        tokens = [torch.empty(n, length, dtype=torch.int32, device="meta") for _ in range(3)]
        return *tokens, _indices(n, masked), _indices(n)

    return inputs


_TEXT_128, _TEXT_384 = _text(128, 20), _text(384, 56)


@cache
def _bert(**settings: int | bool) -> Callable[[], nn.Module]:
    return lambda: sequence.meta(sequence.Bert, half=True, **settings)


def bert_large(
    replicas: int, length: int, micro_batch: int, global_batch: int, pretraining: bool = True
) -> Run:
    """graphcore/examples nlp/bert/pytorch: four IPUs with 3, 7, 7, 7 layers; the embedding on the first."""
    return Run(
        _bert(length=length, masked=20 if length == 128 else 56, pretraining=pretraining),
        _TEXT_128 if length == 128 else _TEXT_384,
        micro_batch, global_batch // replicas // micro_batch, replicas,
        splits=("layers.3", "layers.10", "layers.17"), proportion=0.25, update=LAMB if pretraining else ADAM,
        off_chip_state=True, sharded_state=True, host_processes=replicas,
    )  # fmt: skip


def bert_base() -> Run:
    """The same with 0, 4, 4, 4 layers and micro-batch 32."""
    return Run(
        _bert(width=768, layers=12, heads=12), _TEXT_128, 32, 512, 4,
        splits=("layers.0", "layers.4", "layers.8"), proportion=0.25, update=LAMB, off_chip_state=True,
        sharded_state=True, host_processes=4,
    )  # fmt: skip


# --- Conformer (rows 102 to 107)


def _conformer() -> nn.Module:
    return sequence.meta(sequence.Conformer, half=True)


def _speech(n: int) -> Inputs:
    half = lambda *shape: torch.empty(*shape, dtype=HALF, device="meta")  # noqa: E731
    words = torch.empty(n, 48, dtype=torch.int32, device="meta")
    return half(n, 1220, 80), half(n, 304, 256), words, half(48, 48), _indices(n, 48)


def conformer(machine: Machine, ipus: int) -> Run:
    """graphcore/examples speech/conformer/pytorch: four IPUs, micro-batch 4, global batch 16128, proportion
    0.3.
    """
    replicas = ipus // 4
    return Run(
        _conformer, _speech, 4, 16128 // replicas // 4, replicas,
        splits=("encoder.2", "encoder.6", "encoder.11"), proportion=0.3, update=ADAM, machine=machine,
        host_processes=replicas,
    )  # fmt: skip
