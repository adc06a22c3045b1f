"""Floating-point exceptions: a run that stops at the operation that overflows or makes a NaN."""

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from poptorch.capture.source import located, source_of
from poptorch.errors import Error

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum"}


class CheckedRun(fx.Interpreter):
    """Runs a program and its backward pass one operation at a time, with an Error at the first bad number.

    That is an infinity or NaN made of finite numbers, 0 x inf, inf - inf, or a comparison with NaN.
    """

    def __reduce__(self) -> tuple:
        return CheckedRun, (self.module,)

    def run_node(self, node: fx.Node) -> Any:
        """Compute one operation and look at its result."""
        result = super().run_node(node)
        if node.op == "call_function":
            needed = [
                leaf for leaf in pytree.tree_leaves(self.fetch_args_kwargs_from_env(node)) if _floats(leaf)
            ]
            name = str(node.target).split(".")[1] if "." in str(node.target) else ""
            if name in _COMPARISONS and any(tensor.isnan().any() for tensor in needed):
                raise _exception("it compares with NaN", node)
            for tensor in filter(_floats, pytree.tree_leaves(result)):
                self._check(tensor, needed, node)
        return result

    def _check(self, tensor: torch.Tensor, needed: list[torch.Tensor], node: fx.Node) -> None:
        finite = all(each.isfinite().all() for each in needed)
        if tensor.isnan().any() and not any(each.isnan().any() for each in needed):
            raise _exception("its result is not a number", node)
        if finite and not tensor.isfinite().all():
            raise _exception("its result is infinite: a division by zero, or an overflow", node)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: _check_gradient(gradient, node))


def _floats(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def _check_gradient(gradient: torch.Tensor, node: fx.Node) -> None:
    if not gradient.isfinite().all():
        raise _exception("the gradient of its result is infinite or not a number; lower loss_scaling", node)


def _exception(what: str, node: fx.Node) -> Error:
    return located(
        f"Floating-point exception in {node.target}: {what}. Look at its inputs, for instance with "
        "poptorch.ipu_print_tensor, or turn this check off: "
        "options.Precision.enableFloatingPointExceptions(False).",
        source_of(node),
    )
