"""One drawing a machine, in one grammar: memory is a box, compute is a circle, movement is an arrow."""

from __future__ import annotations

import html

from techlabs.show import Picture, svg

# Okabe-Ito colours; every shape also carries a word or differs in form.
_MEMORY, _COMPUTE, _MOVE, _INK = "#56B4E9", "#E69F00", "#D55E00", "#222222"


def gpu() -> Picture:
    """A host and a GPU: two memories, one copy between them, one kernel launched after another."""
    drawing = [
        *_box(20, 60, 190, 130, "host memory", "your tensors start here"),
        *_circle(115, 240, 26, "CPU"),
        *_arrow(210, 110, 330, 110, ".to(device)"),
        *_arrow(330, 150, 210, 150, ".to('cpu')"),
        *_box(330, 60, 190, 130, "GPU memory", "weights, batch, results"),
        *_arrow(141, 240, 640, 240, "launches one kernel after another"),
        *_arrow(520, 110, 620, 110, "read"),
        *_arrow(620, 150, 520, 150, "write"),
    ]
    for row in range(3):
        for column in range(2):
            drawing += _circle(660 + 60 * column, 85 + 50 * row, 20, "")
    drawing += _label(690, 50, "multiprocessors")
    alt = (
        "A GPU beside its host. Tensors are copied from host memory to GPU memory and back. The GPU's "
        "multiprocessors read and write GPU memory. The CPU launches one kernel after another."
    )
    return svg(_drawing(drawing), alt)


def ipu() -> Picture:
    """A host and an IPU: memory and compute in every tile, one compiled program for all of them."""
    drawing = [
        *_box(20, 60, 190, 130, "host memory", "images and labels wait here"),
        *_circle(115, 240, 26, "CPU"),
        *_arrow(210, 110, 330, 110, "one call's samples"),
        *_arrow(330, 150, 210, 150, "results"),
        *_arrow(141, 240, 350, 240, "one compiled program"),
        f'<rect x="330" y="40" width="440" height="230" rx="8" fill="none" stroke="{_INK}"/>',
        *_label(550, 32, "IPU: 1472 tiles, each with 624 KiB"),
    ]
    for row in range(3):
        for column in range(5):
            x, y = 360 + 80 * column, 60 + 62 * row
            drawing += _box(x, y, 62, 44, "", "")
            drawing += _circle(x + 31, y + 22, 13, "")
    drawing += _label(555, 258, "exchange: tiles pass data, all at the same time")
    alt = (
        "An IPU beside its host. The IPU is a field of tiles; each tile has its own memory and its own "
        "compute inside. The host sends the samples of a whole call and gets results back. One compiled "
        "program runs on all tiles, and tiles pass data to each other in an exchange."
    )
    return svg(_drawing(drawing), alt)


def ring() -> Picture:
    """Four devices that combine a gradient: each sends to its neighbour only."""
    drawing = []
    for device in range(4):
        x = 30 + 190 * device
        drawing += _box(x, 70, 120, 90, f"device {device}", "model, gradient")
        drawing += _circle(x + 60, 190, 20, "")
        if device < 3:
            drawing += _arrow(x + 122, 115, x + 188, 115, "1/4")
    drawing.append(
        f'<path d="M 660 70 C 660 10, 90 10, 90 66" fill="none" stroke="{_MOVE}" stroke-width="2" '
        'marker-end="url(#head)"/>'
    )
    drawing += _label(375, 40, "1/4 of the gradient in each round")
    drawing += _label(375, 250, "n - 1 rounds add the parts up, n - 1 rounds hand the sums round")
    alt = (
        "Four devices in a ring, each with the whole model and its own gradient. In each round every device "
        "sends a quarter of the gradient to its neighbour; the last one sends to the first. Three rounds add "
        "the parts up, three more hand the sums round."
    )
    return svg(_drawing(drawing), alt)


def pipeline() -> Picture:
    """Three pieces of a model on three IPUs, and five micro-batches on their way through."""
    drawing = []
    for piece in range(3):
        drawing += _label(58, 82 + 60 * piece, f"IPU {piece}", bold=True)
        for micro_batch in range(5):
            drawing += _bar(100 + 90 * (piece + micro_batch), 60 + 60 * piece, 84, f"{micro_batch}", _COMPUTE)
    drawing += _label(190, 262, "fills")
    drawing += _label(640, 262, "drains")
    drawing += _arrow(100, 240, 730, 240, "steps")
    alt = (
        "Three IPUs, each with a piece of the model, and five micro-batches, 0 to 4. Micro-batch 0 is on "
        "IPU 0 in the first step, on IPU 1 in the second, on IPU 2 in the third; each further one follows a "
        "step later. In the first two steps and in the last two some IPUs have nothing to do."
    )
    return svg(_drawing(drawing), alt)


def feeding(machine: str) -> Picture:
    """Three batches without loader processes and with one: turns, or side by side."""
    drawing = [
        *_label(100, 40, "no workers", bold=True),
        *_label(100, 150, "one worker", bold=True),
        *_label(72, 192, "worker"),
        *_label(72, 247, machine),
    ]
    for batch in range(3):
        drawing += _bar(110 + 200 * batch, 50, 150, "load", _MEMORY)
        drawing += _bar(260 + 200 * batch, 50, 50, machine, _COMPUTE)
        drawing += _bar(110 + 150 * batch, 170, 150, "load", _MEMORY)
        drawing += _bar(260 + 150 * batch, 225, 50, machine, _COMPUTE)
    drawing += _arrow(110, 118, 710, 118, "600 ms")
    drawing += _arrow(110, 282, 610, 282, "500 ms")
    alt = (
        f"Two timelines of three batches on a {machine}. Without workers, loading and computing take turns: "
        "load, compute, load, compute, load, compute, 600 ms. With one worker the loads follow each other "
        "without a gap and each computation runs beside the next load: 500 ms."
    )
    return svg(_drawing(drawing), alt)


def _drawing(parts: list[str]) -> str:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 790 290" font-family="sans-serif" '
        'font-size="13" width="790"><defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" '
        f'refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{_MOVE}"/></marker></defs>'
        f'<rect width="790" height="290" fill="white"/>{"".join(parts)}</svg>'
    )


def _box(x: int, y: int, width: int, height: int, name: str, note: str) -> list[str]:
    centre, middle = x + width // 2, y + height // 2
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{_MEMORY}" '
        f'fill-opacity="0.45" stroke="{_INK}"/>',
        *_label(centre, middle - 4, name, bold=True),
        *_label(centre, middle + 16, note),
    ]


def _circle(x: int, y: int, radius: int, name: str) -> list[str]:
    shape = f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{_COMPUTE}" stroke="{_INK}"/>'
    return [shape, *_label(x, y + 5, name)]


def _bar(x: int, y: int, width: int, name: str, colour: str) -> list[str]:
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="34" fill="{colour}" stroke="{_INK}"/>'
    return [shape, *_label(x + width // 2, y + 22, name)]


def _arrow(x1: int, y1: int, x2: int, y2: int, name: str) -> list[str]:
    line = (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{_MOVE}" stroke-width="2" '
        'marker-end="url(#head)"/>'
    )
    return [line, *_label((x1 + x2) // 2, min(y1, y2) - 6, name)]


def _label(x: int, y: int, text: str, bold: bool = False) -> list[str]:
    if not text:
        return []
    weight = ' font-weight="bold"' if bold else ""
    return [f'<text x="{x}" y="{y}" text-anchor="middle" fill="{_INK}"{weight}>{html.escape(text)}</text>']
