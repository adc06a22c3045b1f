"""From the graph that was captured to the graph that is run: only what the device computes is left in it."""

import torch
from torch import fx

from poptorch.capture.aliasing import aliases, is_view, origin, writes
from poptorch.capture.listing import ATTRIBUTES, CHECKPOINT, OVERLAP
from poptorch.rules.refusals import operation_name

_SET_GRAD_REGION = "wrap_with_set_grad_enabled"
_CHECKS = {"_assert_tensor_metadata", "_assert_scalar", "_assert_async"}
_DROPOUT = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}
# Marks and the attribute that each leaves on the operation that made the marked tensor.
_MARKS = {
    "set_available_memory": "available_memory_proportion",
    "recomputation_checkpoint": CHECKPOINT,
    "overlap_input": OVERLAP,
    "overlap_output": OVERLAP,
}
_REDUCTIONS = {"sum": torch.ops.aten.sum.default, "mean": torch.ops.aten.mean.default}


def inline_gradient_regions(module: fx.GraphModule, keep: bool) -> None:
    """Put the bodies of `torch.no_grad` blocks, captured as graphs of their own, back into the graph.

    With `keep` the gradient mode is switched around each body; inference computes no gradients in the first
    place.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if getattr(node.target, "_name", "") != _SET_GRAD_REGION:
            continue
        enabled, region, *operands = node.args
        body = getattr(module, region.target)
        inline_gradient_regions(body, keep)
        inner = dict(zip([n for n in body.graph.nodes if n.op == "placeholder"], operands, strict=True))
        with graph.inserting_before(node):
            if keep:
                graph.call_function(torch._C._set_grad_enabled, (enabled,))
            results = graph.graph_copy(body.graph, inner)
            if keep:
                graph.call_function(torch._C._set_grad_enabled, (not enabled,))
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
        graph.erase_node(region)


def lower(module: fx.GraphModule, loss: fx.Node | None, frozen: set[str]) -> None:
    """Make the graph's function the one to run: add the loss to its outputs, freeze, drop what nothing needs.

    `frozen` names the placeholders of integer buffers, which are constants on the device.
    """
    graph = module.graph
    if loss is not None:
        output = graph.output_node()
        output.args = ((*output.args[0], loss),)
    for node in list(graph.nodes):
        if operation_name(node) in _CHECKS:
            graph.erase_node(node)
        elif operation_name(node) == "identity_loss":
            _reduce_directly(graph, node)
        elif operation_name(node) in _MARKS:
            _move_mark_to_producer(graph, node)
        elif operation_name(node) in _DROPOUT and not node.args[2]:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    graph.eliminate_dead_code()  # Casts of results that nothing reads would keep counters alive.
    _freeze(graph, frozen)
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        if node.op == "placeholder" and not node.users and not node.name.startswith("input"):
            graph.erase_node(node)


def _reduce_directly(graph: fx.Graph, node: fx.Node) -> None:
    value, reduction = node.args
    if reduction == "none":
        node.replace_all_uses_with(value)
    else:
        with graph.inserting_before(node):
            reduced = graph.call_function(_REDUCTIONS[reduction], (value,))
        reduced.meta = node.meta
        node.replace_all_uses_with(reduced)
    graph.erase_node(node)


def _move_mark_to_producer(graph: fx.Graph, mark: fx.Node) -> None:
    producer, *value = mark.args
    attributes = producer.meta.setdefault(ATTRIBUTES, {})
    attributes[_MARKS[operation_name(mark)]] = value[0] if value else True
    mark.replace_all_uses_with(producer)
    graph.erase_node(mark)


def _freeze(graph: fx.Graph, frozen: set[str]) -> None:
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        if node.name not in frozen:
            continue
        for user in list(node.users):
            # A counter that nothing reads, such as batch normalisation's, need not be counted.
            if writes(user, node) and not user.users:
                graph.erase_node(user)
        if any(writes(user, node) or is_view(user) for user in node.users):
            with graph.inserting_after(placeholders[-1]):
                scratch = graph.call_function(torch.ops.aten.clone.default, (node,))
            reader = next(iter(node.users))
            scratch.meta = {**node.meta, "custom": reader.meta.get("custom", {})}
            node.replace_all_uses_with(
                scratch, delete_user_cb=lambda user, scratch=scratch: user is not scratch
            )


def output_nodes(graph: fx.Graph) -> list[fx.Node]:
    """The nodes a run returns: the model's output tensors and, in training, the loss after them."""
    return list(graph.output_node().args[0])


def updated_buffers(graph: fx.Graph, names: dict[str, str]) -> set[str]:
    """Names of the weights that operations write to, directly or by a view; `names` is by placeholder."""
    written = set()
    for node in graph.nodes:
        for source, is_write in aliases(node):
            owner = origin(source)
            if is_write and owner.name in names:
                written.add(names[owner.name])
    return written


def may_alias_placeholder(node: fx.Node) -> bool:
    """Whether a result may share memory with an input or a weight, so that the host needs a copy."""
    return origin(node).op == "placeholder"


def uses_random_numbers(graph: fx.Graph) -> bool:
    """Whether any operation draws random numbers."""
    return any(
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
        for node in graph.nodes
    )
