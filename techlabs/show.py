"""Texts, tables and figures as a notebook shows them, each with a plain text for everything else."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Sequence

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Text:
    """A text with a title, on the page and in a terminal."""

    body: str
    title: str = ""
    code: bool = False

    def __repr__(self) -> str:
        return f"{self.title}\n{self.body}" if self.title else self.body

    def _repr_html_(self) -> str:
        body = html.escape(self.body)
        body = f"<pre>{body}</pre>" if self.code else body.replace("\n", "<br>")
        title = f"<b>{html.escape(self.title)}</b><br>" if self.title else ""
        return f'<div style="border-left:5px solid #56B4E9;padding:4px 12px">{title}{body}</div>'


@dataclass(frozen=True)
class Picture:
    """Something with an HTML form and a plain text that says the same."""

    markup: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.markup


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Picture:
    """A table; the first column holds the names of the rows."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)) for row in [head, *rows]]
    markup = "".join(
        "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in row) + "</tr>"
        for tag, row in [("th", head), *(("td", row) for row in rows)]
    )
    return Picture(f"<table>{markup}</table>", "\n".join(line.rstrip() for line in lines))


def figure(drawing: Figure, alt: str) -> Picture:
    """A matplotlib figure with an alternative text: the finding in words, for who can't see it."""
    import matplotlib.pyplot as plt

    stream = io.BytesIO()
    # No date and no version in the file: the same figure gives the same bytes.
    drawing.savefig(stream, format="png", bbox_inches="tight", metadata={"Software": None})
    plt.close(drawing)
    data = base64.b64encode(stream.getvalue()).decode()
    text = html.escape(alt, quote=True)
    return Picture(f'<img alt="{text}" src="data:image/png;base64,{data}">', alt)


def svg(drawing: str, alt: str) -> Picture:
    """An SVG drawing with an alternative text."""
    data = base64.b64encode(drawing.encode()).decode()
    text = html.escape(alt, quote=True)
    return Picture(f'<img alt="{text}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">', alt)
