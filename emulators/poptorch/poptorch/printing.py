"""Printing tensors while the program runs, in the device's format."""

import sys

import numpy as np
import torch

from poptorch.ops import tracing

_library = torch.library.Library("poptorch_emulated", "FRAGMENT")
_library.define(
    "print_tensor(Tensor(a) x, str title, bool print_gradient, int summarise_threshold, int edge_items, "
    "int max_line_width, int digits, str float_format, str separator, str open_bracket, str close_bracket) "
    "-> Tensor(a)"
)


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """`tensor` itself, printed to the standard error stream whenever the device computes it.

    The result must be used, or nothing is printed. With `print_gradient` the gradient is printed too, in the
    backward pass. Tensors of more than `summarise_threshold` elements show `edge_items` at each end;
    `float_format` is "auto", "fixed", "scientific" or "none". ValueError for another one.
    """
    if float_format not in ("auto", "fixed", "scientific", "none"):
        raise ValueError(
            "ipu_print_tensor knows the float formats auto, fixed, scientific and none, but got "
            f"{float_format!r}."
        )
    return torch.ops.poptorch_emulated.print_tensor(
        tensor,
        title,
        print_gradient,
        summarise_threshold,
        edge_items,
        max_line_width,
        digits,
        float_format,
        separator,
        open_bracket,
        close_bracket,
    )


def _print(x: torch.Tensor, title: str, print_gradient: bool, *layout: int | str) -> torch.Tensor:
    result = x.view_as(x)
    if tracing() is not None:
        return result
    sys.stderr.write(f"{_headed(title, x, *layout)}\n")
    if print_gradient and result.requires_grad:
        label = f"{title}_gradient" if title else "gradient"
        result.register_hook(
            lambda gradient: print(_headed(label, gradient, *layout), file=sys.stderr) or None
        )
    return result


_library.impl("print_tensor", _print, "CompositeImplicitAutograd")


def _headed(title: str, tensor: torch.Tensor, *layout: int | str) -> str:
    return f"{title}: {_formatted(tensor, *layout)}"


def _formatted(
    tensor: torch.Tensor,
    summarise_threshold: int,
    edge_items: int,
    max_line_width: int,
    digits: int,
    float_format: str,
    separator: str,
    open_bracket: str,
    close_bracket: str,
) -> str:
    values = tensor.detach().float().numpy() if tensor.is_floating_point() else tensor.detach().numpy()
    shown = _number_format(values, digits, float_format)
    edge = edge_items if values.size > summarise_threshold else 0

    def lines(array: np.ndarray, depth: int) -> str:
        if array.ndim == 0:
            return shown(array.item())
        pieces: list[str] = []
        for index in _shown_indices(len(array), edge):
            pieces.append("..." if index is None else lines(array[index], depth + 1))
        if array.ndim == 1:
            inside = _broken(pieces, separator, max_line_width, " " * (depth + 1))
            return f"{open_bracket}{inside}{close_bracket}"
        rows = "\n".join(" " * (depth + 1) + piece for piece in pieces)
        return f"{open_bracket}\n{rows}\n{' ' * depth}{close_bracket}"

    return lines(values, 0)


def _shown_indices(length: int, edge: int) -> list[int | None]:
    if not edge or length <= 2 * edge:
        return list(range(length))
    return [*range(edge), None, *range(length - edge, length)]


def _broken(pieces: list[str], separator: str, width: int, indent: str) -> str:
    """Pieces on as many lines as the width asks for, later ones indented under the first."""
    text, column = "", len(indent) + 1
    for index, piece in enumerate(pieces):
        ending = separator if index + 1 < len(pieces) else ""
        if index and column + len(piece) + len(ending) > width:
            text, column = f"{text.rstrip()}\n{indent} ", len(indent) + 1
        text, column = f"{text}{piece}{ending}", column + len(piece) + len(ending)
    return text


def _number_format(values: np.ndarray, digits: int, float_format: str):
    if values.dtype.kind != "f":
        return str
    if float_format == "scientific":
        return lambda value: f"{value:.{digits - 1}e}"
    if float_format == "none":
        return repr
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    too_wide = sizes.size and (sizes.max() >= 1e8 or sizes.min() < 1e-4 or sizes.max() / sizes.min() > 1e3)
    if float_format == "auto" and too_wide:
        return lambda value: f"{value:.{digits - 1}e}"
    whole = len(str(int(sizes.max()))) if sizes.size else 1
    return lambda value: f"{value:.{max(digits - whole, 0)}f}"
