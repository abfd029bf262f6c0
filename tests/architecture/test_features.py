"""docs/features.md has forty rows, and each names a test and screens that there are."""

from __future__ import annotations

import re

from tests.architecture.test_reliability import PROJECT, TEST, found_in
from tests.frontends.tui.frames import SIZES

ROWS = re.findall(r"^\| (\d+) \|(.*)\|$", (PROJECT / "docs" / "features.md").read_text(encoding="utf-8"), re.M)


def test_every_row_names_a_test_and_screens_that_there_are() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 41))
    for number, shown in ROWS:
        (named,) = TEST.findall(shown)
        assert named[1] in found_in(named[0]), f"row {number}: {named}"
        frames = re.findall(r"\((frames/[\w.-]+)\)", shown)
        assert len(frames) == len(SIZES), f"row {number}"
        assert all((PROJECT / "docs" / frame).is_file() for frame in frames), f"row {number}: {frames}"
