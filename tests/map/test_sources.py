"""Files that are items: what a walk found is judged again when it is read."""

from __future__ import annotations

import os
from pathlib import Path

from friday_cli.map.job import MapJob
from friday_cli.map.sources import Items
from friday_cli.map.template import Template


def test_a_link_put_in_place_after_the_walk_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    project = tmp_path / "project"
    for folder in (outside, project / "a", project / "b"):
        folder.mkdir(parents=True)
    (outside / "x.txt").write_text("private")
    for name in ("a/x.txt", "b/x.txt", "b/y.txt", "b/.env"):
        (project / name).write_text(name)
    task = "{path}: {content}"
    items = iter(Items(MapJob(str(project), "summarizer", "glob", "**/{*.txt,.env}", task, 1.0), Template(task)))
    first = next(items)  # the walk is over
    os.remove(project / "b/x.txt")
    os.symlink(outside / "x.txt", project / "b/x.txt")
    rest = list(items)
    assert (first.where, first.fields["content"]) == ("a/x.txt", "a/x.txt")
    assert [(item.where, item.fields.get("content")) for item in rest] == [
        ("b/.env", None),
        ("b/x.txt", None),
        ("b/y.txt", "b/y.txt"),
    ]
    assert [bool(item.problem) for item in rest] == [True, True, False]
    assert "secrets" in rest[0].problem

    os.rename(project / "b", tmp_path / "moved")
    os.symlink(outside, project / "b")
    assert [
        item.where for item in Items(MapJob(str(project), "summarizer", "glob", "**/*.txt", task, 1.0), Template(task))
    ] == ["a/x.txt"]
