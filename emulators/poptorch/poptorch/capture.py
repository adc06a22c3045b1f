"""Capture: a model's `forward`, traced once on one micro-batch, becomes a list of operations and a function.

`torch.export` records the operations before autograd sees them, so what is recorded can be run and
differentiated at the speed of ordinary PyTorch. It runs the learner's Python exactly once.
"""

import copy
import logging
import operator
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch.utils import _pytree as pytree

from poptorch import lowering, rules
from poptorch.ops import running_on_ipu
from poptorch.program import Operation, Program, SourceLine, TensorType, Value

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n\s*(?P<text>.*)')
ArgumentsOf = Callable[[tuple[torch.Tensor, ...]], tuple[tuple, dict[str, Any]]]
_NOT_THE_LEARNERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


class ModelAtWrapping:
    """A model as it was when it was wrapped.

    The copy is shallow: it shares sub-modules, parameters and buffers with the learner's model, but
    attributes set on that later, and `train()` or `eval()` called on it, do not reach the device.
    """

    def __init__(self, model: torch.nn.Module):
        self.module = copy.copy(model)
        self.modes = {module: module.training for module in self.module.modules()}

    @contextmanager
    def holding(self, weights: Mapping[str, torch.Tensor]) -> Iterator[torch.nn.Module]:
        """The module with the device's tensors in place of the host's, and in the modes it was wrapped in."""
        with ExitStack() as undo:
            for prefix, module in self.module.named_modules(remove_duplicate=False):
                for members in (module._parameters, module._buffers):
                    undo.callback(members.update, dict(members))
                    for name, tensor in members.items():
                        if tensor is not None:
                            members[name] = weights[f"{prefix}.{name}" if prefix else name]
            for module, training in self.modes.items():
                undo.callback(setattr, module, "training", module.training)
                module.training = training
            yield self.module


@dataclass
class _Returned:
    """What a traced `forward` returned: leaves, `torch.Tensor` standing for each tensor, and their tree."""

    leaves: list[Any] | None = None
    tree: pytree.TreeSpec | None = None


class _Traced(torch.nn.Module):
    """Takes and returns flat tuples of tensors: `torch.export` need not know the learner's structures."""

    def __init__(self, model: torch.nn.Module, arguments_of: ArgumentsOf, returned: _Returned):
        super().__init__()
        self.model = model
        self.arguments_of = arguments_of
        self.returned = returned

    def forward(self, *input: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = self.arguments_of(input)
        before = rules.weights_of(self.model)
        with running_on_ipu():
            try:
                result = self.model(*args, **kwargs)
            except Exception as error:
                refusal = rules.refusal_of(error, _source_of_error(error))
                if refusal is None:
                    raise
                raise refusal from None
        rules.check_weights_kept(before, self.model)
        leaves, self.returned.tree = pytree.tree_flatten(result)
        self.returned.leaves = [torch.Tensor if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def capture(
    model: ModelAtWrapping,
    weights: Mapping[str, torch.Tensor],
    arguments_of: ArgumentsOf,
    micro_batch: tuple[torch.Tensor, ...],
    training: bool,
) -> Program:
    """Trace `model` on one micro-batch.

    `weights` are the device's parameters and buffers by name; `arguments_of` turns the micro-batch's tensors
    into the arguments of `forward`. Raises Error for what the chip refuses: control flow or shapes that
    depend on values, weights assigned anew, and in training a loss that cannot be found.
    """
    returned = _Returned()
    with model.holding(weights) as module:
        exported = _export(_Traced(module, arguments_of, returned), micro_batch)
    graph_module = exported.graph_module
    lowering.inline_gradient_regions(graph_module, keep=training)
    rules.check_operations(graph_module.graph, source_of)
    sources = {spec.arg.name: spec.target for spec in exported.graph_signature.input_specs if spec.target}
    names = {placeholder: target.removeprefix("model.") for placeholder, target in sources.items()}
    loss = rules.find_loss(graph_module.graph, source_of) if training else None
    updated = lowering.updated_buffers(graph_module.graph, {p: n for p, n in names.items() if n in weights})
    lowering.lower(graph_module, loss, frozen={p for p, n in names.items() if _is_integer(weights.get(n))})
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    used = [node.name for node in placeholders if node.name in names]
    computed = [
        node for node in graph_module.graph.nodes if node.op == "call_function" and "val" in node.meta
    ]
    outputs = lowering.output_nodes(graph_module.graph)
    types = iter([tensor_type(node.meta["val"]) for node in outputs])
    return Program(
        operations=tuple(map(_operation, computed)),
        inputs={node.name: tensor_type(node.meta["val"]) for node in placeholders if node.name not in names},
        weight_names=tuple(names[name] for name in used if names[name] in weights),
        constants=tuple(
            exported.constants[sources[name]].detach().clone() for name in used if names[name] not in weights
        ),
        updated_buffers=tuple(sorted({name for name in updated if not _is_integer(weights[name])})),
        loss=outputs[-1].name if training else None,
        output_leaves=tuple(next(types) if leaf is torch.Tensor else leaf for leaf in returned.leaves),
        output_tree=returned.tree,
        aliasing_outputs=tuple(map(lowering.may_alias_placeholder, outputs[:-1] if training else outputs)),
        uses_random_numbers=lowering.uses_random_numbers(graph_module.graph),
        run=graph_module.forward,
    )


def _export(traced: _Traced, micro_batch: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=r"The tensor attribute.* assigned during export")
        # What these would log about data-dependent values, `rules` says in the chip's terms.
        for name in ("torch.fx.experimental.symbolic_shapes", "torch.export"):
            stack.enter_context(_quiet(logging.getLogger(name)))
        stack.enter_context(_whole_stack_traces())
        return torch.export.export(traced, micro_batch, strict=False)


@contextmanager
def _whole_stack_traces() -> Iterator[None]:
    """Have operations remember all the learner's frames; PyTorch keeps those of functions called forward."""

    def filtered(_tracer: fx.Tracer, stack: traceback.StackSummary) -> traceback.StackSummary:
        return traceback.StackSummary.from_list(_learners_frames(stack))

    with mock.patch.object(fx.proxy.TracerBase, "_filter_traceback_frames", filtered):
        yield


def _learners_frames(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames below `_Traced.forward` that are neither PyTorch's nor ours, the innermost last."""
    ours = [index for index, frame in enumerate(stack) if frame.filename == __file__]
    below = stack[ours[-1] + 1 :] if ours else []
    return [frame for frame in below if not frame.filename.startswith(_NOT_THE_LEARNERS)]


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _is_integer(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and not tensor.is_floating_point() and not tensor.is_complex()


def tensor_type(value: torch.Tensor) -> TensorType:
    """Shape and element type of a traced tensor."""
    return TensorType(tuple(value.shape), value.dtype)


def _operation(node: fx.Node) -> Operation:
    results = pytree.tree_leaves(node.meta["val"])
    modules = list(node.meta.get("nn_module_stack", {}).values())
    path = modules[-1][0] if modules else ""
    return Operation(
        name=node.name,
        op="getitem" if node.target is operator.getitem else str(node.target),
        arguments=fx.map_arg((node.args, node.kwargs), lambda argument: Value(argument.name)),
        outputs=tuple(tensor_type(result) for result in results if isinstance(result, torch.Tensor)),
        module=path.removeprefix("model").removeprefix("."),
        source=source_of(node),
    )


def source_of(node: fx.Node) -> SourceLine | None:
    """The innermost line of the learner's code that led to a node."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return None
    file, line, function, text = frames[-1].group("file", "line", "function", "text")
    return SourceLine(file, int(line), function, text.strip())


def _source_of_error(error: BaseException) -> SourceLine | None:
    """The innermost line of the learner's code on the way to an exception."""
    frames = _learners_frames(traceback.extract_tb(error.__traceback__))
    if not frames:
        return None
    innermost = frames[-1]
    return SourceLine(innermost.filename, innermost.lineno or 0, innermost.name, innermost.line or "")
