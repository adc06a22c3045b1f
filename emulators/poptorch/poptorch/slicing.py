"""Slices whose place is known only when the program runs, and matrix products done in slices."""

import torch

from poptorch.capture import notes
from poptorch.capture.source import current_source, located
from poptorch.enums import MatMulSerializationMode


def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """Every `step`-th of the `size` elements of dimension `dim` from `start` on, one integer in a tensor.

    A slice past the end goes on at the beginning. Error for arguments of other types, or for a size that is
    not a factor of the dimension.
    """
    _check_start("dynamic_slice", tensor, dim, start, size)
    if not isinstance(step, int) or step < 1:
        raise located(f"dynamic_slice's step must be a positive int, but got {step!r}.", current_source())
    if tensor.shape[dim] % size:
        raise located(
            f"The size of the slice ({size}) must be a factor of the slicing dimension "
            f"({tensor.shape[dim]}).",
            current_source(),
        )
    return tensor.index_select(dim, _positions(tensor, dim, start, size)[::step])


def dynamic_update(
    input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int
) -> torch.Tensor:
    """A copy of `input` in which `src` replaces `size` elements of dimension `dim` from `start` on.

    Error for arguments of other types, or for tensors of different rank or type.
    """
    _check_start("dynamic_update", input, dim, start, size)
    for what, ours, theirs in (("rank", input.dim(), src.dim()), ("dtype", input.dtype, src.dtype)):
        if ours != theirs:
            raise located(
                f"dynamic_update: input and src tensor must have same {what}. ({ours} vs {theirs})",
                current_source(),
            )
    if src.shape[dim] != size:
        raise located(
            f"dynamic_update's src has {src.shape[dim]} elements in dimension {dim}, but size is {size}.",
            current_source(),
        )
    return input.index_copy(dim, _positions(input, dim, start, size), src)


def _positions(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> torch.Tensor:
    return (start.reshape(()) + torch.arange(size, device=tensor.device)) % tensor.shape[dim]


def _check_start(function: str, tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> None:
    def refuse(message: str) -> None:
        raise located(f"{function}: {message}", current_source())

    if not isinstance(dim, int):
        refuse(f"dim must be an int, but got {dim!r}.")
    if not isinstance(size, int):
        refuse(f"size must be an int, known when the program is compiled, but got {size!r}.")
    if not isinstance(start, torch.Tensor) or start.is_floating_point():
        refuse(f"start must be a tensor of one integer, but got {start!r}.")
    if start.numel() != 1:
        refuse(f"start must be a tensor of one integer, but has shape {list(start.shape)}.")
    if size == 0:
        raise located("The start and end of a slice must be different.", current_source())
    if size < 0:
        raise located(
            "Taking a slice of a tensor with the end less than the start is not supported.", current_source()
        )


# The dimension that each mode divides, as (operand, dimension from the end).
_SERIALISED_DIMENSION = {
    MatMulSerializationMode.InputChannels: (0, -2),
    MatMulSerializationMode.ReducingDim: (0, -1),
    MatMulSerializationMode.OutputChannels: (1, -1),
}


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """The matrix product of `lhs` (..., N, K) and `rhs` (..., K, M), done in `factor` slices to save memory.

    `mode` names the dimension that is cut: N, K or M. AssertionError for another mode; Error when `factor`
    doesn't divide the dimension.
    """
    assert isinstance(mode, MatMulSerializationMode), (
        f"mode must be a poptorch.MatMulSerializationMode, but got {mode!r}."
    )
    if mode is MatMulSerializationMode.Disabled:
        return torch.matmul(lhs, rhs)
    operand, dimension = _SERIALISED_DIMENSION[mode]
    size = (lhs, rhs)[operand].shape[dimension]
    if factor < 1 or size % factor:
        raise located(
            f"serializedMatMul can't cut {mode.name}, a dimension of {size}, into {factor} slices of equal "
            "size. Choose a factor that divides it.",
            current_source(),
        )
    notes.note(serialised=(mode.value, factor, keep_precision))
    try:
        return torch.matmul(lhs, rhs)
    finally:
        notes.note(serialised=None)
