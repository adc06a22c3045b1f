"""How many IPUs a model takes."""

from poptorch.capture.schedule import Part
from poptorch.enums import ConnectionType
from poptorch.errors import Error
from poptorch.executable.device import MOST_IPUS, Target
from poptorch.log import logger
from poptorch.options import Options


def reserved_ipus(parts: tuple[Part, ...], options: Options) -> int:
    """IPUs to reserve for a model of these parts.

    Error when that is more than a process can have, not a power of two while rounding up is off, or more
    than the chosen device has. Only hardware comes in powers of two: a program that is compiled for later, or
    for the IPU model, takes what it uses.
    """
    used = {part.ipu for part in parts} or {0}
    wanted = max(len(used), max(used) + 1) * options.replication_factor
    reserved = 1 << (wanted - 1).bit_length()
    if wanted > MOST_IPUS:
        raise Error(
            f"Too many IPUs requested ({wanted}). Experiments that need more than {MOST_IPUS} IPUs have to "
            "be spread over several processes, for instance with PopRun. Use fewer replicas or fewer IPUs "
            "for each."
        )
    if options.connection_type is ConnectionType.Never or Target(options).is_model:
        return wanted
    if wanted != reserved and not options.auto_round_num_ipus:
        raise Error(
            f"The model specifies the use of {wanted} IPUs, however PopTorch must reserve a minimum of "
            f"{reserved} in order to allow the model to run, because PopTorch must reserve a power of 2 or "
            f"maximum of {MOST_IPUS} IPUs per process. Please reconfigure your model to use a different "
            "number of IPUs or set poptorch.Options().autoRoundNumIPUs(True)."
        )
    if wanted != reserved:
        logger.warning(
            "The model uses %d IPUs and %d are reserved, a power of two; the rest are idle.", wanted, reserved
        )
    if options.ipu_id is not None and reserved > 1:
        raise Error(
            f"Device {options.ipu_id}, chosen with useIpuId, is a single IPU, but the model needs "
            f"{reserved}. Choose a device with as many IPUs, or leave out useIpuId."
        )
    return reserved
