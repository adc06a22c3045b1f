"""The machine at hand: whether hardware or the IPU model is asked for, and which devices models hold."""

import atexit
import os
import time
import weakref

from poptorch.enums import ConnectionType
from poptorch.errors import Error
from poptorch.log import logger
from poptorch.options import Options

# Generations by the names POPTORCH_IPU_MODEL_VERSION takes, with their numbers and tiles
# (Graphcore, "IPU Programmer's Guide"): ipu1 the GC2, ipu2 the GC200, ipu21 the Bow.
GENERATIONS = {"ipu1": (1, 1216), "ipu2": (2, 1472), "ipu21": (21, 1472)}
SMALL_MODEL_TILES = 4
_WAIT_BETWEEN_ATTEMPTS_S = 15.0
# A process can hold at most this many: one Pod64 partition (PopTorch user guide, "Execution strategies").
MOST_IPUS = 64


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


def _model_is_asked_for() -> bool:
    return _is_set("POPTORCH_IPU_MODEL") or _is_set("POPTORCH_SMALL_IPU_MODEL")


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether a device of `num_ipus` IPUs can be had.

    The emulated machine counts as one; as with the real one, asking for the IPU model by environment variable
    makes the answer False.
    """
    return not _model_is_asked_for() and num_ipus <= MOST_IPUS


def ipuHardwareVersion() -> int:
    """The generation of the emulated hardware: 2, the GC200. AssertionError where none is available."""
    assert ipuHardwareIsAvailable(), (
        "There is no hardware to ask: POPTORCH_IPU_MODEL or POPTORCH_SMALL_IPU_MODEL is set."
    )
    return GENERATIONS["ipu2"][0]


class Target:
    """What a model is compiled for.

    Attributes: `is_model`, whether that is the IPU model instead of hardware; `version`, the generation (1, 2
    or 21); `tiles`, on each IPU. The options come before POPTORCH_IPU_MODEL, and that before
    POPTORCH_SMALL_IPU_MODEL.
    """

    def __init__(self, options: Options):
        offline = options.connection_type == ConnectionType.Never
        wanted = options.ipu_model
        if wanted is not None:
            logger.info("From the user configuration: Ipu model: %s", "Enabled" if wanted else "Disabled")
        self.is_model = not offline and (_model_is_asked_for() if wanted is None else wanted)
        self.version, self.tiles = next(
            facts for facts in GENERATIONS.values() if facts[0] == options.ipu_version
        )
        if self.is_model:
            small = wanted is None and not _is_set("POPTORCH_IPU_MODEL")
            self.version, self.tiles = _modelled_generation()
            self.tiles = SMALL_MODEL_TILES if small else self.tiles


def _modelled_generation() -> tuple[int, int]:
    name = os.environ.get("POPTORCH_IPU_MODEL_VERSION", "ipu2")
    if name not in GENERATIONS:
        raise Error(
            f"POPTORCH_IPU_MODEL_VERSION is {name!r}, but the IPU model knows {', '.join(GENERATIONS)}."
        )
    return GENERATIONS[name]


# Which model holds which device of hardware. The emulated machine has as many as are asked for.
_holders: "weakref.WeakValueDictionary[int, object]" = weakref.WeakValueDictionary()


def acquire(holder: object, num_ipus: int, device: int | None) -> int:
    """Take a free device, or the one named, for a model; returns its id.

    Error when another model holds that one; with POPTORCH_WAIT_FOR_IPU it is tried again until it is free.
    """
    if device is None:
        device = next(number for number in range(len(_holders) + 1) if number not in _holders)
    while device in _holders and _holders[device] is not holder:
        if not _is_set("POPTORCH_WAIT_FOR_IPU"):
            raise Error(
                f"Failed to acquire {num_ipus} IPU(s): device {device} is held by another model. Call "
                "detachFromDevice() or destroy() on that model, choose another device with useIpuId, or set "
                "POPTORCH_WAIT_FOR_IPU=1 to wait for it."
            )
        logger.info("Device %d is in use; trying again in %d s.", device, _WAIT_BETWEEN_ATTEMPTS_S)
        time.sleep(_WAIT_BETWEEN_ATTEMPTS_S)
    _holders[device] = holder
    logger.debug("Acquired %d IPU(s): running on device Id %d.", num_ipus, device)
    logger.debug("Attached to device %d", device)
    return device


def release(holder: object) -> None:
    """Let go of the device that a model holds."""
    for device, its_holder in list(_holders.items()):
        if its_holder is holder:
            del _holders[device]
            logger.debug("Detached from device %d", device)


def poptorchAtExit() -> None:
    """Let go of all devices; runs by itself when the interpreter ends."""
    _holders.clear()


atexit.register(poptorchAtExit)
