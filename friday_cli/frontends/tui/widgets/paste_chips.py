"""Placeholders in the prompt for long pastes and pictures: `[Pasted #1 +40 lines]`, `[Image #1 a.png]`."""

from __future__ import annotations

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.messages import Image
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize_line

LINES, CHARS = 10, 1_000
"""A paste with more than this becomes a chip."""
_NAMED = pattern(r"@\S+")
"""What would name a file."""
_PASTE = pattern(r"\[Pasted #(\d+) \+\d+ lines?\]")
_IMAGE = pattern(r"\[Image #(\d+)(?: [^\]\n]*)?\]")


class PasteChips:
    """The chips of one prompt."""

    def __init__(self) -> None:
        self._pastes: dict[int, str] = {}
        self._images: dict[int, Image] = {}
        self.names: list[str] = []
        """What short pastes have of the form `@name`: it does not name files."""

    def add_paste(self, text: str) -> str:
        """The text to insert for a paste: the paste itself, or a chip if it is long."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= LINES and len(text) <= CHARS:
            self.names += _NAMED().findall(text)
            return text
        number = max(self._pastes, default=0) + 1
        self._pastes[number] = text
        return f"[Pasted #{number} +{pluralize(lines, 'line')}]"

    def add_image(self, image: Image, name: str = "") -> str:
        """The chip to insert for a picture. Its number is not reused, so that a queued message keeps its picture."""
        number = max(self._images, default=0) + 1
        self._images[number] = image
        return f"[Image #{number}{' ' + sanitize_line(name, 40).replace(']', ')') if name else ''}]"

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where the chips of a line begin and end, in characters."""
        found = [*_PASTE().finditer(line), *_IMAGE().finditer(line)]
        return [m.span() for m in found if int(m[1]) in (self._pastes if m.re is _PASTE() else self._images)]

    def full(self, text: str) -> str:
        """`text` with pastes in place of their chips."""
        return _PASTE().sub(lambda found: self._pastes.get(int(found[1]), found[0]), text)

    def typed(self, text: str) -> str | None:
        """`text` without the chips of pastes and without the names in short ones; None if there are none."""
        bare = _PASTE().sub(lambda found: "" if int(found[1]) in self._pastes else found[0], text).strip("\n")
        for name in self.names:
            bare = bare.replace(name, "", 1)
        return None if bare == text.strip("\n") else bare

    def images(self, text: str) -> tuple[Image, ...]:
        """The pictures whose chips are in `text`."""
        numbers = dict.fromkeys(int(found[1]) for found in _IMAGE().finditer(text))
        return tuple(self._images[number] for number in numbers if number in self._images)

    def bare(self, text: str) -> str:
        """`text` with pastes in place of their chips, and without the chips of pictures."""
        return _IMAGE().sub(lambda found: "" if int(found[1]) in self._images else found[0], self.full(text)).strip(" ")

    def pasted_names(self) -> list[str]:
        """The names in all pastes, for a text in which chips are replaced by what was pasted."""
        return [*self.names, *(name for text in self._pastes.values() for name in _NAMED().findall(text))]

    def clear(self) -> None:
        """Forget the pastes: the prompt is empty."""
        self.names.clear()
        self._pastes.clear()
