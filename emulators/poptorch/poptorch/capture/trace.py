"""Capture: a model's `forward`, traced once on one micro-batch, becomes a list of operations and a function.

`torch.export` records the operations before autograd sees them, so what is recorded can be run and
differentiated at the speed of ordinary PyTorch. It runs the learner's Python exactly once.
"""

import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.blocks import placed_by
from poptorch.capture import lowering, notes, structures
from poptorch.capture.bindings import call_directly
from poptorch.capture.device_mode import DeviceMode
from poptorch.capture.listing import computed, operation, tensor_type
from poptorch.capture.placement import Placer
from poptorch.capture.program import Program
from poptorch.capture.scheduling import scheduled
from poptorch.capture.source import source_of_error, whole_stack_traces
from poptorch.log import logger
from poptorch.ops import Tracing, running_on_ipu
from poptorch.options import Options
from poptorch.rules import refusals as rules
from poptorch.rules.overlap import check_overlap
from poptorch.rules.supported import check_supported
from poptorch.run.float_exceptions import CheckedRun
from poptorch.run.precision import apply_precision
from poptorch.strategies import _IExecutionStrategy

ArgumentsOf = Callable[[tuple[torch.Tensor, ...]], tuple[tuple, dict[str, Any]]]


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
    """What a traced `forward` returned: leaves, `torch.Tensor` standing for each the device computes, and the
    tree they hang in.
    """

    leaves: list[Any] | None = None
    tree: pytree.TreeSpec | None = None


class _Traced(torch.nn.Module):
    """Takes and returns flat tuples of tensors: `torch.export` need not know the learner's structures."""

    def __init__(
        self,
        model: torch.nn.Module,
        arguments_of: ArgumentsOf,
        returned: _Returned,
        strategy: _IExecutionStrategy,
        tracing: Tracing,
    ):
        super().__init__()
        self.model = model
        self.arguments_of = arguments_of
        self.returned = returned
        self.strategy = strategy
        self.tracing = tracing

    def forward(self, *input: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = self.arguments_of(input)
        before = rules.weights_of(self.model)
        with _on_device(self.tracing, self.strategy):
            try:
                result = self.model(*args, **kwargs)
            except Exception as error:
                refusal = rules.refusal_of(error, source_of_error(error))
                if refusal is None:
                    raise
                raise refusal from None
        rules.check_weights_kept(before, self.model)
        leaves, self.returned.tree = structures.flatten(result)
        on_device = [_is_on_device(leaf) for leaf in leaves]
        self.returned.leaves = [
            torch.Tensor if traced else _told(leaf) for leaf, traced in zip(leaves, on_device, strict=True)
        ]
        return tuple(leaf for leaf, traced in zip(leaves, on_device, strict=True) if traced)


def _is_on_device(leaf: Any) -> bool:
    # Loaded by torch.export itself; at the top of the module it would make `import poptorch` slow.
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(leaf, FakeTensor)


def _kept(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _told(leaf: Any) -> Any:
    """A part of the result that no run changes, with a warning if it is a tensor."""
    if isinstance(leaf, torch.Tensor):
        logger.warning(
            "Output expected to be on the IPU but is on cpu: a tensor of shape %s that forward returns but "
            "the device has not computed. Every call returns it as it was when the model was traced.",
            list(leaf.shape),
        )
    return leaf


@contextmanager
def _on_device(tracing: Tracing, strategy: _IExecutionStrategy) -> Iterator[None]:
    """Make everything in a `forward` inside mean what it means on the device."""
    distribution = torch.distributions.Distribution
    validates = distribution._validate_args
    # Distributions look at their arguments' values, which there are none of yet.
    distribution.set_default_validate_args(False)
    try:
        with running_on_ipu(tracing), placed_by(Placer(strategy)), DeviceMode():
            yield
    finally:
        distribution.set_default_validate_args(validates)


def capture(
    model: ModelAtWrapping,
    weights: Mapping[str, torch.Tensor],
    arguments_of: ArgumentsOf,
    micro_batch: tuple[torch.Tensor, ...],
    training: bool,
    options: Options,
) -> Program:
    """Trace `model` on one micro-batch.

    `weights` are the device's parameters and buffers by name; `arguments_of` turns the micro-batch's tensors
    into the arguments of `forward`. Raises Error for what the chip refuses: control flow or shapes that
    depend on values, weights assigned anew, and in training a loss that cannot be found.
    """
    returned = _Returned()
    with model.holding(weights) as module:
        traced = _Traced(module, arguments_of, returned, options.execution_strategy, Tracing(training))
        exported = _export(traced, micro_batch)
    graph_module = exported.graph_module
    lowering.inline_gradient_regions(graph_module, keep=training)
    rules.check_operations(graph_module.graph)
    check_supported(graph_module.graph)
    check_overlap(graph_module.graph, options)
    sources = {spec.arg.name: spec.target for spec in exported.graph_signature.input_specs if spec.target}
    names = {placeholder: target.removeprefix("model.") for placeholder, target in sources.items()}
    loss = rules.find_loss(graph_module.graph) if training else None
    updated = lowering.updated_buffers(graph_module.graph, {p: n for p, n in names.items() if n in weights})
    lowering.lower(graph_module, loss, frozen={p for p, n in names.items() if _is_integer(weights.get(n))})
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    used = [node.name for node in placeholders if node.name in names]
    operations = tuple(map(operation, computed(graph_module.graph)))
    outputs = lowering.output_nodes(graph_module.graph)
    types = iter([tensor_type(node.meta["val"]) for node in outputs])
    return Program(
        operations=operations,
        inputs={node.name: tensor_type(node.meta["val"]) for node in placeholders if node.name not in names},
        weights={node.name: tensor_type(node.meta["val"]) for node in placeholders if node.name in names},
        weight_names=tuple(names[name] for name in used if names[name] in weights),
        constants=tuple(
            exported.constants[sources[name]].detach().clone() for name in used if names[name] not in weights
        ),
        updated_buffers=tuple(sorted({name for name in updated if not _is_integer(weights[name])})),
        loss=outputs[-1].name if training else None,
        output_leaves=tuple(next(types) if leaf is torch.Tensor else _kept(leaf) for leaf in returned.leaves),
        output_tree=returned.tree,
        aliasing_outputs=tuple(map(lowering.may_alias_placeholder, outputs[:-1] if training else outputs)),
        uses_random_numbers=lowering.uses_random_numbers(graph_module.graph)
        or options.Precision.stochastic_rounding,
        schedule=scheduled(graph_module.graph, operations, training, options),
        run=_runnable(graph_module, options),
    )


def _runnable(
    graph_module: torch.fx.GraphModule, options: Options
) -> Callable[..., tuple[torch.Tensor, ...]]:
    apply_precision(graph_module.graph, options)
    if options.Precision.floating_point_exceptions:
        return CheckedRun(graph_module).run
    call_directly(graph_module.graph)
    graph_module.recompile()
    return graph_module.forward


def _export(traced: _Traced, micro_batch: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=r"The tensor attribute.* assigned during export")
        # What these would log about data-dependent values, `rules` says in the chip's terms.
        for name in ("torch.fx.experimental.symbolic_shapes", "torch.export"):
            stack.enter_context(_quiet(logging.getLogger(name)))
        stack.enter_context(whole_stack_traces())
        stack.enter_context(notes.keeping())
        return torch.export.export(traced, micro_batch, strict=False)


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
