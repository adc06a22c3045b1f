"""At the level DEBUG: every operation of a compiled program and its place, under the compiler's names."""

from collections import Counter

from poptorch.capture.program import Operation
from poptorch.log import logger

# PopART's names where they are not the ATen operation's in camel case.
_NAMES = {
    "addmm": "Gemm",
    "bmm": "MatMul",
    "chunk": "Slice",
    "conv1d": "Conv",
    "conv2d": "Conv",
    "conv3d": "Conv",
    "cross_entropy_loss": "Nll",
    "l1_loss": "L1",
    "linear": "MatMul",
    "matmul": "MatMul",
    "mm": "MatMul",
    "nll_loss": "Nll",
    "split": "Slice",
}


def log_operations(operations: tuple[Operation, ...], mode: str) -> None:
    """Log each operation's name, type and shape, mode, IPU, and stage or phase."""
    seen: Counter[str] = Counter()
    for operation in operations:
        name = _name(operation)
        number = f"/{seen[name]}" if seen[name] else ""
        seen[name] += 1
        place = operation.place
        group = f"phase({place.phase})" if mode == "Phased" else f"stage({place.stage})"
        results = ", ".join(map(str, operation.outputs))
        logger.debug("%s:0%s [%s, mode(%s), ipu(%d), %s]", name, number, results, mode, place.ipu, group)


def _name(operation: Operation) -> str:
    kind = operation.op.split(".")[1] if "." in operation.op else operation.op
    camel_case = "".join(word.capitalize() for word in kind.strip("_").split("_"))
    parts = (*operation.attributes.get("scope", ()), *filter(None, operation.module.split(".")))
    return "/".join((*parts, _NAMES.get(kind, camel_case)))
