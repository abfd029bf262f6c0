"""Renders Jupyter notebooks as text (cells in order, with their outputs), and changes cells."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from friday_cli.core.protocol.errors import ToolError

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


class CellEdits:
    """Changes cells of the notebook with the JSON `text`, counted from 1 as `render` counts; the number after the last one is a new code cell.
    Everything outside of these cells keeps its spelling. Methods raise ToolError."""

    def __init__(self, text: str) -> None:
        if render(text) is None:
            raise ToolError("This is not a notebook, so it has no cells.", hint="Leave out `cell`.")
        self._notebook = json.loads(text)
        self._end = text[len(text.rstrip("\n")) :]
        indentation = re.match(r"\{\n([ \t]*)", text)
        self._indent, self._escaped = indentation[1] if indentation else None, text.isascii()
        if self.text != text:
            raise ToolError(
                "Its JSON is not written as Jupyter writes it, so a cell cannot be changed alone.",
                hint="Leave out `cell`, and replace text of the JSON (see it with bash).",
            )

    @property
    def text(self) -> str:
        """The JSON of the notebook with the changes."""
        return json.dumps(self._notebook, indent=self._indent, ensure_ascii=self._escaped) + self._end

    def source(self, number: int) -> str:
        """The text of a cell, "" of a new one."""
        cells = self._notebook["cells"]
        if not 1 <= number <= len(cells) + 1:
            raise ToolError(f"There is no cell {number}: the notebook has {len(cells)}.")
        return _joined(cells[number - 1].get("source", "")) if number <= len(cells) else ""

    def replace(self, number: int, source: str) -> str:
        """Give a cell another text, without the outputs of the old one. Returns a remark."""
        cells: list[dict[str, Any]] = self._notebook["cells"]
        if number > len(cells):
            cell: dict[str, Any] = {"cell_type": "code", "execution_count": None}
            if any("id" in other for other in cells):
                cell["id"] = hashlib.sha256(f"{number} {source}".encode()).hexdigest()[:8]
            cells.append({**cell, "metadata": {}, "outputs": [], "source": source.splitlines(keepends=True)})
            return f"cell {number} is new"
        cell = cells[number - 1]
        cell["source"] = source if isinstance(cell.get("source"), str) else source.splitlines(keepends=True)
        dropped = bool(cell.get("outputs"))
        for name, empty in (("outputs", []), ("execution_count", None)):
            if name in cell:
                cell[name] = empty
        return f"the outputs of cell {number} were of the old text and are gone" if dropped else ""


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
