"""The README's picture of a run is drawn by what there is now."""

from __future__ import annotations

from docs import picture


def test_the_picture_of_a_run_is_drawn_by_what_there_is() -> None:
    drawn = picture.drawn()
    assert drawn == picture.PICTURE.read_text(encoding="utf-8"), "it has changed: `python -m docs.picture` redraws it"
    assert "researcher" in drawn
    assert "completed" in drawn
