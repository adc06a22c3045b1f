"""The compiled program as a list in PopART's vocabulary, for logs and for looking operations up."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from poptorch.capture.program import Operation, Program
from poptorch.log import TRACE, logger
from poptorch.optim import LAMB
from poptorch.options import Options
from poptorch.update.recipe import Recipe

_EXPORT = "POPTORCH_EXPORT_PROTO_FILE"
_TYPES = {
    "addmm": "MatMul",
    "bmm": "MatMul",
    "convolution": "Conv",
    "linear": "MatMul",
    "matmul": "MatMul",
    "mm": "MatMul",
    "recomputation_checkpoint": "Checkpoint",
}
_UPDATES = {
    torch.optim.Adam: ("AdamUpdater", "AdamVarUpdate"),
    torch.optim.AdamW: ("AdamUpdater", "AdamVarUpdate"),
    torch.optim.RMSprop: ("AdaptiveUpdater", "ScaledVarUpdate"),
    LAMB: ("AdamUpdater", "LambSquare", "AdamVarUpdate"),
}


def listing(program: Program, options: Options, recipe: Recipe | None) -> str:
    """JSON: {"maingraph": [{"type", "name", "inputs", "outputs", "attributes"}, ...]}.

    Operations of the forward pass; what a pipeline keeps for the backward pass; in training the updates.
    """
    nodes = [_node(operation, options) for operation in program.operations]
    nodes += [{"type": "Stash", "name": f"Stash/{name}"} for name in _stashed(program)]
    if recipe is not None:
        names = [name for members, _ in recipe.groups for name in members]
        nodes += [
            {"type": kind, "name": f"{kind}/{name}"} for name in names for kind in _update_types(recipe)
        ]
    return json.dumps({"maingraph": nodes}, separators=(",", ":"))


def _update_types(recipe: Recipe) -> tuple[str, ...]:
    return _UPDATES.get(recipe.kind, (f"{recipe.kind_name}VarUpdate",))


def _stashed(program: Program) -> list[str]:
    """Tensors kept from the forward to the backward pass of a pipeline that computes the others again."""
    schedule = program.schedule
    if not schedule.recomputes or len(schedule.parts) < 2:
        return []
    early = {name for part in schedule.parts[:-1] for name in part.operations}
    read = {name for op in program.operations if op.name in early for name in op.inputs}
    return [*(name for name in program.inputs if name in read), *schedule.checkpoints]


def _node(operation: Operation, options: Options) -> dict[str, Any]:
    kind = _type_of(operation)
    scopes = (
        [part for part in operation.module.split(".") if part] if options.module_namescope_enabled else []
    )
    return {
        "type": kind,
        "name": "/".join([*scopes, kind]),
        "inputs": list(operation.inputs),
        "outputs": [
            {"shape": list(result.shape), "type": str(result.dtype).removeprefix("torch.")}
            for result in operation.outputs
        ],
        "attributes": _attributes(kind, options),
    }


def _type_of(operation: Operation) -> str:
    name = operation.op.split(".")[1] if "." in operation.op else operation.op
    if name.startswith("conv"):
        return "Conv"
    plain = name.rstrip("123d") if name.endswith(("1d", "2d", "3d")) else name
    return _TYPES.get(name) or "".join(word.capitalize() for word in plain.split("_"))


def _attributes(kind: str, options: Options) -> dict[str, str]:
    half = options.Precision.partials_type == torch.float16
    if kind == "MatMul":
        return {"partialsType": "MatMulPartialsType::" + ("HALF" if half else "FLOAT")}
    if kind == "Conv":
        return {"partialsType[0]": "half" if half else "float"}
    return {}


def show(program: Program, options: Options, recipe: Recipe | None, weights: dict[str, torch.Tensor]) -> None:
    """Log the program at level TRACE, and write it where POPTORCH_EXPORT_PROTO_FILE says."""
    logger.debug("Graph lowered to PopART: %d operations", len(program.operations))
    if logger.isEnabledFor(TRACE):
        for name, tensor in weights.items():
            logger.log(TRACE, "%%%s : %s -> %s", name, _jit_type(tensor), name)
        logger.log(TRACE, "%s", listing(program, options, recipe))
    if os.environ.get(_EXPORT):
        path = Path(os.environ[_EXPORT])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(listing(program, options, recipe))
        logger.warning("%s: %s holds the operations as JSON, not as an ONNX model.", _EXPORT, path)


def _jit_type(tensor: torch.Tensor) -> str:
    """A type as PyTorch's own listings have it."""
    kind = tensor.type().split(".")[-1].removesuffix("Tensor")
    facts = [*map(str, tensor.shape), f"strides={list(tensor.stride())}"]
    facts += [f"requires_grad={int(tensor.requires_grad)}", "device=ipu:0"]
    return f"{kind}({', '.join(facts)})"
