"""Renders Jupyter notebooks as text: cells in order, with their outputs."""

from __future__ import annotations

import json
from typing import Any

MAX_OUTPUT = 2000
"""Characters shown of one output."""


def render(text: str) -> str | None:
    """The cells of a notebook; None if `text` is not a notebook."""
    try:
        notebook = json.loads(text)
        cells = notebook["cells"]
        shown = [_cell(number, cell) for number, cell in enumerate(cells, 1)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return "\n\n".join(shown) if shown else "(a notebook without cells)"


def _cell(number: int, cell: dict[str, Any]) -> str:
    count = cell.get("execution_count")
    kind = f"{cell['cell_type']}{f', run {count}' if count else ''}"
    outputs = [_output(output) for output in cell.get("outputs", ())]
    return "\n".join((f"--- cell {number} ({kind}) ---", _joined(cell.get("source", "")), *outputs))


def _output(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    elif "text" in output:
        text = _joined(output["text"])
    else:
        data = output.get("data", {})
        pictures = [kind for kind in data if kind.startswith("image/")]
        text = _joined(data.get("text/plain", ""))
        if pictures:
            text = f"{text}\n[{pictures[0]} omitted]".strip()
    if len(text) > MAX_OUTPUT:
        text = f"{text[:MAX_OUTPUT]} [truncated: {len(text):,} characters]"
    return f"--- output ---\n{text.rstrip()}"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
