"""What of a graded notebook may reach somebody's browser: text, plain HTML, pictures, nothing that runs."""

from __future__ import annotations

import re
from typing import Any

from nbconvert.filters import markdown2html
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_PICTURES = ("image/png", "image/jpeg")
_TAGS = [
    *(
        "a",
        "b",
        "blockquote",
        "br",
        "code",
        "del",
        "div",
        "em",
        "hr",
        "i",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "span",
    ),
    *("h1", "h2", "h3", "h4", "h5", "h6", "s", "span", "strong", "sub", "sup", "ul"),
    *("table", "tbody", "td", "th", "thead", "tr"),
]


class SanitizeFeedback(SanitizeHTML):
    """nbconvert's SanitizeHTML for a page that others wrote parts of.

    Markdown is turned into HTML first: only there do links and tags show what they are. Pictures from
    elsewhere don't come along, since loading one tells its owner who reads the page.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enabled = self.strip = True
        self.tags = _TAGS
        self.attributes = {"*": ["style", "role", "class"], "a": ["href", "title"]}
        self.styles = ["border-left", "color", "padding", "text-align"]

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Clean one cell's text or outputs."""
        if cell.cell_type == "markdown":
            cell.source = self._html(cell.source)
            cell.pop("attachments", None)
            return cell, resources
        return super().preprocess_cell(cell, resources, index)

    def sanitize_code_outputs(self, outputs: list[NotebookNode]) -> list[NotebookNode]:
        """Keep text, cleaned HTML, and pictures that are nothing else."""
        for output in outputs:
            if "data" in output:
                output.metadata = NotebookNode()
                output.data = NotebookNode(self._data(output.data))
        return outputs

    def _data(self, data: dict[str, Any]) -> dict[str, str]:
        kept = {kind: str(data[kind]) for kind in ("text/plain", *_PICTURES) if kind in data}
        for kind in _PICTURES:
            if not _BASE64.fullmatch(kept.get(kind, "")):
                del kept[kind]
        if "text/html" in data:
            kept["text/html"] = self.sanitize_html_tags(str(data["text/html"]))
        elif "text/markdown" in data:
            kept["text/html"] = self._html(str(data["text/markdown"]))
        return kept

    def _html(self, markdown: str) -> str:
        # An empty line would end the HTML block, and what follows would be read as Markdown again.
        clean = self.sanitize_html_tags(markdown2html(markdown))
        return re.sub(r"\n(?=\n)", "\n&#10;", f"<div>{clean}</div>")
