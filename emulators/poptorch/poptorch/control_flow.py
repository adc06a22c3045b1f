"""Loops and branches that the device itself takes, in inference."""

from collections.abc import Callable
from typing import Any

import torch

from poptorch.capture.source import current_source, located
from poptorch.ops import tracing

Body = Callable[..., Any]


def for_loop(count: int, body: Body, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Apply `body` `count` times, each time to what it returned before, and return the last results.

    `body` takes the tensors of `inputs` one by one, as copies, and returns as many of the same shapes. The
    emulator unrolls the loop. ValueError unless `inputs` is a list of tensors; Error in training, or for
    other numbers, shapes or types of results.
    """
    _check_list(inputs, "for_loop")
    _check_inference("for_loop")
    values = [tensor.clone() for tensor in inputs]
    for _ in range(count):
        results = _as_list(body(*values))
        if [(r.shape, r.dtype) for r in results] != [(v.shape, v.dtype) for v in values]:
            raise located(
                f"A poptorch.for_loop's body must return as many tensors as it takes, of the same shapes and "
                f"types. It takes {_described(values)}, but returned {_described(results)}.",
                current_source(),
            )
        values = [tensor.clone() for tensor in results]
    return values


def cond(
    condition: torch.Tensor,
    then_body: Body,
    then_inps: list[torch.Tensor],
    else_body: Body,
    else_inps: list[torch.Tensor],
) -> list[torch.Tensor]:
    """The results of `then_body(*then_inps)` where `condition`, one boolean, is true, else `else_body`'s.

    The bodies get copies. On the host only the body that is chosen runs; the emulator computes both and
    chooses. ValueError for inputs that are no lists of tensors; Error in training, for a condition that is
    not one boolean, or when the bodies' results differ in number, shapes or types.
    """
    _check_list(then_inps, "cond")
    _check_list(else_inps, "cond")
    if tracing() is None:
        return _as_list(then_body(*then_inps) if bool(condition) else else_body(*else_inps))
    _check_inference("cond")
    if condition.dtype != torch.bool or condition.numel() != 1:
        raise located(
            f"poptorch.cond decides by one boolean, but got {_described([condition])}. Compare first: "
            "x.sum() > 0.",
            current_source(),
        )
    taken = _as_list(then_body(*[tensor.clone() for tensor in then_inps]))
    otherwise = _as_list(else_body(*[tensor.clone() for tensor in else_inps]))
    if [(t.shape, t.dtype) for t in taken] != [(o.shape, o.dtype) for o in otherwise]:
        raise located(
            "poptorch.cond's bodies must return the same number of tensors, of the same shapes and types. "
            f"then_body returned {_described(taken)}, else_body {_described(otherwise)}.",
            current_source(),
        )
    chosen = condition.reshape(())
    return [torch.where(chosen, a, b) for a, b in zip(taken, otherwise, strict=True)]


def _as_list(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _described(tensors: list[torch.Tensor]) -> str:
    return ", ".join(f"{tensor.dtype} {list(tensor.shape)}" for tensor in tensors) or "nothing"


def _check_list(inputs: Any, function: str) -> None:
    if not isinstance(inputs, list):
        raise ValueError(
            f"poptorch.{function} takes its tensors in a list. (Object is not list): it is a "
            f"{type(inputs).__name__}."
        )
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(
                f"poptorch.{function} takes tensors only. (Object contained in list at index {index} is "
                f"not torch.tensor): it is a {type(tensor).__name__}. A plain number can be used in the "
                "body as it is."
            )


def _check_inference(function: str) -> None:
    state = tracing()
    if state is not None and state.training:
        raise located(
            f"poptorch.{function}() is only supported in inference: the device has no backward pass for "
            "it. In a training model write a Python loop, which is unrolled, or torch.where.",
            current_source(),
        )
