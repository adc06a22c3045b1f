"""The report that profiling writes: this package's own JSON, which PopVision does not read."""

import json
import os
from pathlib import Path
from typing import Any

from poptorch.cost.execution import Execution
from poptorch.executable.anchors import operation_tensor
from poptorch.log import logger
from poptorch.options import Options

_ENGINE_OPTIONS = "POPLAR_ENGINE_OPTIONS"
_FORMAT = "Report of an emulated IPU, as JSON; cycles are modelled. It is not a Poplar profile."


def folder_of(options: Options, training: bool) -> Path | None:
    """Where the report of a model goes, None when none was asked for.

    POPLAR_ENGINE_OPTIONS comes before `enableProfiling`, with a warning where they differ.
    """
    chosen = options.profile_dir
    engine = json.loads(os.environ.get(_ENGINE_OPTIONS) or "{}")
    if engine.get("autoReport.all") == "true" or "autoReport.directory" in engine:
        folder = engine.get("autoReport.directory", chosen or ".")
        if chosen not in (None, folder):
            logger.warning(
                "%s sends the report to %s, not to %s as enableProfiling asks for.",
                _ENGINE_OPTIONS,
                folder,
                chosen,
            )
        chosen = folder
    if chosen is None:
        return None
    return Path(chosen) / (options.model_name or ("training" if training else "inference"))


def write(folder: Path, execution: Execution) -> None:
    """Write `profile.pop`: the machine, the operations with their places and modelled cycles, the total."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = execution.deployment.machine
    content = {
        "format": _FORMAT,
        "machine": {"name": machine.name, "tiles": machine.tiles, "clock_hz": machine.clock_hz},
        "ipus": execution.program.schedule.ipus,
        "cycles_of_call": execution.device_cycles,
        "operations_not_modelled": execution.not_modelled,
        "operations": listed(execution),
    }
    (folder / "profile.pop").write_text(json.dumps(content, indent=1))


def listed(execution: Execution) -> list[dict[str, Any]]:
    """One row for each operation, with the cycles of its passes over a micro-batch."""
    return [
        {
            "name": operation_tensor(operation),
            "op": operation.op,
            "source": str(operation.source) if operation.source else None,
            "ipu": operation.place.ipu,
            "cycles": round(execution.prices[operation.name].forward.total),
            "backward_cycles": round(execution.prices[operation.name].backward.total),
            "modelled": execution.prices[operation.name].modelled,
        }
        for operation in execution.program.operations
    ]
