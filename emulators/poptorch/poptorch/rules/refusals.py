"""What the chip refuses, each refusal beside the words it is told in."""

import itertools
from collections.abc import Iterable

import torch
from torch import fx
from torch.utils import _pytree as pytree

from poptorch.capture.source import SourceLine, located, source_of
from poptorch.errors import Error

# Names of the ATen operations behind PyTorch's loss functions, and our marker for home-made ones.
LOSS_OPERATIONS = {
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy_loss",
    "ctc_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "identity_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "nll_loss",
    "nll_loss2d",
    "nll_loss_nd",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
}


def operation_name(node: fx.Node) -> str:
    """The operation's name without its overload, `item` for `aten.item.default`; empty for Python's own."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    return node.target._schema.name.split("::")[1]


# --- Values that are not known when the program is compiled


def _reads_value(operation: str, source: SourceLine | None) -> Error:
    return located(
        f"aten::{operation} is only supported in eager mode: forward is traced once, before any data exists, "
        "so a tensor's value can't become a Python number (.item(), .tolist(), float(tensor), an f-string). "
        "Keep the value in a tensor, or return it and read it after the call.",
        source,
    )


def _shape_unknown(operation: str, source: SourceLine | None) -> Error:
    return located(
        f"aten::{operation} makes a tensor whose shape depends on values, and shapes are fixed when the "
        "program is compiled. Keep the full size and mask instead: torch.where(mask, x, 0), or multiply by "
        "the mask.",
        source,
    )


def _branches_on_value(source: SourceLine | None) -> Error:
    return located(
        "An `if`, a loop or an index in forward depends on a tensor's value, but forward is traced once, "
        "before any data exists. Compute both sides and choose with torch.where(condition, a, b), or decide "
        "on the host.",
        source,
    )


def _leaves_device(source: SourceLine | None) -> Error:
    return located(
        "Illegal move to CPU: forward turns a tensor into a NumPy array, but runs on the device. Use the "
        "torch function of the same purpose, or return the tensor and convert it after the call.",
        source,
    )


def check_operations(graph: fx.Graph) -> None:
    """Error for the first operation that needs a value to be known before the program runs."""
    for node in graph.nodes:
        name = operation_name(node)
        if name in ("item", "_local_scalar_dense"):
            raise _reads_value("item", source_of(node))
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and any(
                isinstance(size, torch.SymInt) for size in value.shape
            ):
                raise _shape_unknown(name, source_of(node))


def refusal_of(error: Exception, source: SourceLine | None) -> Error | None:
    """The chip's words for what `torch.export` could not trace; None for an ordinary mistake in forward."""
    # Loaded by torch.export itself; at the top of the module they would make `import poptorch` slow.
    from torch._dynamo.exc import UserError
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    if isinstance(error, GuardOnDataDependentSymNode):
        return _branches_on_value(source)
    if isinstance(error, DynamicOutputShapeException):
        return _shape_unknown(str(error.func).split(".")[1], source)
    if isinstance(error, DataDependentOutputException):
        return _reads_value(str(error.func).split(".")[1], source)
    if isinstance(error, RuntimeError) and ".numpy() is not supported for tensor subclasses" in str(error):
        return _leaves_device(source)
    if isinstance(error, UserError):
        return located(f"The model's forward can't be traced: {error}", source)
    return None


# --- Weights that forward may not replace


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, batch-normalisation layers' aside: those may replace their counters."""
    names = {}
    for prefix, module in model.named_modules():
        if not isinstance(module, torch.nn.modules.batchnorm._NormBase):
            members = itertools.chain(module._parameters.items(), module._buffers.items())
            names.update(
                {f"{prefix}.{name}".lstrip("."): tensor for name, tensor in members if tensor is not None}
            )
    return names


def check_weights_kept(before: dict[str, torch.Tensor], model: torch.nn.Module) -> None:
    """Error when `forward` gave a parameter or buffer a new tensor, or took it away."""
    after = weights_of(model)
    for name, tensor in before.items():
        kind = "Parameter" if isinstance(tensor, torch.nn.Parameter) else "Buffer"
        if name not in after:
            raise Error(
                f"{kind} {name} is removed from the model when calling the forward method. The device's "
                "weights can't come and go: set it to zeros instead, or use it in another way."
            )
        if after[name] is not tensor:
            raise Error(
                f"{kind} {name} is reassigned within the model when calling the forward method. This is "
                f"not supported. Consider using self.{name}.copy_(src) to copy data from a source tensor, "
                "where src is the name of the source tensor."
            )


# --- The loss


def find_loss(graph: fx.Graph) -> fx.Node:
    """The one loss to back-propagate from: the marked operation that feeds no other marked one."""
    marked = [node for node in graph.nodes if operation_name(node) in LOSS_OPERATIONS]
    if not marked:
        raise Error(
            "Couldn't find a loss in graph! Training needs forward to compute the loss, with one of "
            "PyTorch's loss functions or with poptorch.identity_loss(value, reduction='mean') around your "
            "own, and to return it."
        )
    final = [node for node in marked if not _feeds_any(node, set(marked) - {node})]
    if len(final) > 1:
        lines = "".join(f"\n  {operation_name(node)} at {source_of(node)}" for node in final)
        raise Error(
            "Multiple independent losses found in graph, and only one can be back-propagated from. Add them "
            f"up and mark the sum: poptorch.identity_loss(loss_1 + loss_2, reduction='none').{lines}"
        )
    return final[0]


def _feeds_any(node: fx.Node, others: set[fx.Node]) -> bool:
    reached, frontier = set(), [node]
    while frontier:
        for user in frontier.pop().users:
            if user in others:
                return True
            if user not in reached:
                reached.add(user)
                frontier.append(user)
    return False


# --- Replicas


def check_replicated_buffers(updated: Iterable[str], replicas: int, broadcast_buffers: bool) -> None:
    """Error when replicas that share their buffers would update them."""
    names = list(updated)
    if names and replicas > 1 and broadcast_buffers:
        raise Error(
            "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers "
            "becoming out of sync between replicas, you can disable buffer broadcasting using "
            "poptorch.Options.broadcastBuffers(False). Otherwise put the model in eval mode, or leave out "
            f"what updates {', '.join(names)}: each of the {replicas} replicas would write its own value."
        )
