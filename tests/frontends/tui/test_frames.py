"""The main screens at three sizes are those of docs/frames/, and the README's pictures show the present program."""

from __future__ import annotations

import pytest

from docs import picture as run_picture
from tests.frontends.tui import frames


@pytest.mark.parametrize("size", frames.SIZES, ids=lambda size: "{}x{}".format(*size))
async def test_the_screens_are_those_of_the_pages(size: tuple[int, int]) -> None:
    drawn = await frames.frames(size)
    kept = {name: frames.FRAMES / f"{name}-{size[0]}x{size[1]}.txt" for name in drawn}
    for name, path in kept.items():
        assert drawn[name] == path.read_text(encoding="utf-8"), f"{path.name} has changed: {frames.MADE_BY} rewrites it"
    others = {path for path in frames.FRAMES.iterdir() if path.stem.endswith("-{}x{}".format(*size))}
    assert others == set(kept.values())


async def test_the_picture_of_the_readme_is_drawn_by_what_there_is() -> None:
    assert await frames.picture() == frames.PICTURE.read_text(encoding="utf-8"), f"{frames.MADE_BY} redraws it"
    assert await frames.fleet_picture() == frames.FLEET_PICTURE.read_text(encoding="utf-8"), (
        f"{frames.MADE_BY} redraws it"
    )


def test_the_picture_of_a_run_is_drawn_by_what_there_is() -> None:
    drawn = run_picture.drawn()
    assert drawn == run_picture.PICTURE.read_text(encoding="utf-8"), "`python -m docs.picture` redraws it"
    assert "researcher" in drawn
    assert "completed" in drawn
