"""Renders Jupyter notebooks as text (cells in order, with their outputs), and changes one cell of a notebook."""

from __future__ import annotations

import hashlib
import json
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


_FORMS = tuple((indent, ascii_only) for indent in (1, 2, 4, None) for ascii_only in (False, True))
"""The ways in which Jupyter and other programs write the JSON of a notebook: its indentation, and whether other letters are
escaped."""


class CellEdit:
    """One cell of the notebook with the JSON `text`, counted from 1 as `render` counts; the number after the last one is a new
    code cell. Everything outside the cell keeps its spelling. Raises ToolError."""

    def __init__(self, text: str, number: int) -> None:
        if render(text) is None:
            raise ToolError("This is not a notebook, so it has no cells.", hint="Leave out `cell`.")
        self._notebook = json.loads(text)
        self._end = text[len(text.rstrip("\n")) :]
        form = next((form for form in _FORMS if _dumped(self._notebook, *form) + self._end == text), None)
        if form is None:
            raise ToolError(
                "Its JSON is not written as Jupyter writes it, so a cell cannot be changed alone.",
                hint="Leave out `cell`, and replace text of the JSON (see it with bash).",
            )
        self._form = form
        self.number, cells = number, self._notebook["cells"]
        if not 1 <= number <= len(cells) + 1:
            raise ToolError(f"There is no cell {number}: the notebook has {len(cells)}.")
        self._is_new = number > len(cells)
        self.source = "" if self._is_new else _joined(cells[number - 1].get("source", ""))

    def replaced(self, source: str) -> tuple[str, str]:
        """The JSON of the notebook with another text of the cell, and a remark. The outputs of the old text are dropped."""
        cells: list[dict[str, Any]] = self._notebook["cells"]
        if self._is_new:
            cell: dict[str, Any] = {"cell_type": "code", "execution_count": None}
            if any("id" in other for other in cells):
                cell["id"] = hashlib.sha256(f"{self.number} {source}".encode()).hexdigest()[:8]
            cells.append({**cell, "metadata": {}, "outputs": [], "source": source.splitlines(keepends=True)})
            return self._written(), f"cell {self.number} is new"
        cell = cells[self.number - 1]
        cell["source"] = source if isinstance(cell.get("source"), str) else source.splitlines(keepends=True)
        dropped = bool(cell.get("outputs"))
        for name, empty in (("outputs", []), ("execution_count", None)):
            if name in cell:
                cell[name] = empty
        return (
            self._written(),
            f"the outputs of cell {self.number} were of the old text and are gone" if dropped else "",
        )

    def _written(self) -> str:
        return _dumped(self._notebook, *self._form) + self._end


def _dumped(notebook: Any, indent: int | None, ascii_only: bool) -> str:
    return json.dumps(notebook, indent=indent, ensure_ascii=ascii_only)


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
