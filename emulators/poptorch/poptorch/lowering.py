"""From the graph that was captured to the graph that is run: only what the device computes is left in it."""

import operator

import torch
from torch import fx

from poptorch.rules import operation_name

_SET_GRAD_REGION = "wrap_with_set_grad_enabled"
_CHECKS = {"_assert_tensor_metadata", "_assert_scalar", "_assert_async"}
# Operations that update the tensors at these positions without saying so in their schema.
_NORMALISATION_STATISTICS = {"batch_norm": (3, 4), "instance_norm": (3, 4)}
_DROPOUT = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}
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
        elif operation_name(node) in _DROPOUT and not node.args[2]:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    _freeze(graph, frozen)
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        if node.op == "placeholder" and not node.users and not node.name.startswith("input"):
            graph.erase_node(node)
    module.recompile()


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


def _freeze(graph: fx.Graph, frozen: set[str]) -> None:
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        if node.name not in frozen:
            continue
        for user in list(node.users):
            # A counter that nothing reads, such as batch normalisation's, need not be counted.
            if _writes(user, node) and not user.users:
                graph.erase_node(user)
        if any(_writes(user, node) or _is_view(user) for user in node.users):
            with graph.inserting_after(placeholders[-1]):
                scratch = graph.call_function(torch.ops.aten.clone.default, (node,))
            scratch.meta = node.meta
            node.replace_all_uses_with(
                scratch, delete_user_cb=lambda user, scratch=scratch: user is not scratch
            )


def output_nodes(graph: fx.Graph) -> list[fx.Node]:
    """The nodes a run returns: the model's output tensors and, in training, the loss after them."""
    return list(graph.output_node().args[0])


def _aliases(node: fx.Node) -> list[tuple[fx.Node, bool]]:
    """Arguments whose memory a node's result may share, each with whether the node writes to it."""
    if node.target is operator.getitem:
        return [(node.args[0], False)]
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    found = []
    for position, argument in enumerate(node.target._schema.arguments):
        value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        if isinstance(value, fx.Node) and argument.alias_info is not None:
            found.append((value, argument.alias_info.is_write))
    name = operation_name(node)
    for position in _NORMALISATION_STATISTICS.get(name, ()):
        if isinstance(node.args[position], fx.Node) and node.args[5]:
            found.append((node.args[position], True))
    return found


def _writes(node: fx.Node, to: fx.Node) -> bool:
    return any(source is to and is_write for source, is_write in _aliases(node))


def _is_view(node: fx.Node) -> bool:
    return any(not is_write for _, is_write in _aliases(node))


def _origin(node: fx.Node) -> fx.Node:
    """The tensor whose memory `node` may be a view of, itself if it has memory of its own."""
    while node.op != "placeholder":
        sources = _aliases(node)
        if not sources or operation_name(node) in _NORMALISATION_STATISTICS:
            return node
        node = sources[0][0]
    return node


def updated_buffers(graph: fx.Graph, names: dict[str, str]) -> set[str]:
    """Names of the weights that operations write to, directly or by a view; `names` is by placeholder."""
    written = set()
    for node in graph.nodes:
        for source, is_write in _aliases(node):
            origin = _origin(source)
            if is_write and origin.name in names:
                written.add(names[origin.name])
    return written


def may_alias_placeholder(node: fx.Node) -> bool:
    """Whether a result may share memory with an input or a weight, so that the host needs a copy."""
    return _origin(node).op == "placeholder"


def uses_random_numbers(graph: fx.Graph) -> bool:
    """Whether any operation draws random numbers."""
    return any(
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
        for node in graph.nodes
    )
