"""Children that write the same files without worktrees: one at a time, and never over a content they have not read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.session.harness import Harness, says, wait_for
from tests.workspace.worktrees.repo_fixture import listing
from tests.workspace.worktrees.steps import bash, batch, edits, ran, reads, writes

DONE = says("Done.")


async def both(harness: Harness, first: list[Any], second: list[Any]) -> list[list[tuple[str, str]]]:
    """The results of two children of a batch. Both run at the same time."""
    play = {
        "a": [batch(("worker", "part 1"), ("worker", "part 2")), DONE],
        "a.1": [*first, DONE],
        "a.2": [*second, DONE],
    }
    session = await ran(harness, play)
    return [await harness.results(session.id, path) for path in ("a.1", "a.2")]


def meets(mine: str, other: str) -> dict[str, Any]:
    """A command that creates a file and waits for the other child's."""
    return bash(f"touch {mine}; {wait_for(other)}")


@pytest.mark.parametrize(
    ("steps", "attempt", "content"),
    [
        ([reads("a"), writes("a", "by one\n")], writes("a", "by two\n"), "by one\n"),
        ([bash("printf changed > a")], edits("a", "2", "two"), "changed"),
        ([bash("rm a")], edits("a", "2", "two"), None),
    ],
    ids=["write", "command writes", "command deletes"],
)
async def test_a_file_that_another_child_changed_since_it_was_read_is_not_changed(
    harness: Harness, steps: list[Any], attempt: dict[str, Any], content: str | None
) -> None:
    first, second = await both(
        harness,
        [reads("a"), meets("one", "two"), *steps, bash("touch changed")],
        [reads("a"), meets("two", "one"), bash(wait_for("changed")), attempt],
    )
    assert {status for status, _ in first} == {"ok"}
    status, text = second[-1]
    assert status == "error"
    assert "changed since you read it" in text or (content is None and "No such file" in text)
    assert listing(harness.project).get("a") == content


async def test_an_edit_works_after_the_file_was_read_again(harness: Harness) -> None:
    _, second = await both(
        harness,
        [reads("a"), meets("one", "two"), edits("a", "2", "two"), bash("touch changed")],
        [
            reads("a"),
            meets("two", "one"),
            bash(wait_for("changed")),
            edits("a", "8", "eight"),
            reads("a"),
            edits("a", "8", "eight"),
        ],
    )
    assert "a changed since you read it" in second[3][1]
    assert "Read it again" in second[3][1]
    assert [status for status, _ in second[3:]] == ["error", "ok", "ok"]
    assert listing(harness.project)["a"] == "1\ntwo\n3\n4\n5\n6\n7\neight\n"


async def test_two_children_create_the_same_file(harness: Harness) -> None:
    first, second = await both(
        harness,
        [meets("one", "two"), writes("new/file", "by one\n")],
        [meets("two", "one"), writes("new/file", "by two\n")],
    )
    assert sorted((first[-1][0], second[-1][0])) == ["error", "ok"]
    lost = first[-1][1] if first[-1][0] == "error" else second[-1][1]
    refusals = ("exists and you have not read it", "it already exists", "another program has created it")
    assert any(words in lost for words in refusals), lost  # depends on how far the second one was
    assert listing(harness.project)["new/file"] == ("by one\n" if first[-1][0] == "ok" else "by two\n")


async def test_edits_at_the_same_moment_are_made_one_after_the_other(harness: Harness) -> None:
    """In any order: each edit is in the file, or its agent was told that it is not."""
    numbers = range(1, 9)
    (harness.project / "a").write_text("".join(f"line {n}\n" for n in numbers))
    play: dict[str, Any] = {"a": [batch(*(("worker", f"part {n}") for n in numbers)), DONE]}
    for n in numbers:
        play[f"a.{n}"] = [*[reads("a"), edits("a", f"line {n}\n", f"LINE {n}\n")] * 12, DONE]
    session = await ran(harness, play, flags={"agents.delegation.max_concurrent": 8})
    assert listing(harness.project)["a"] == "".join(f"LINE {n}\n" for n in numbers)
    for n in numbers:
        results = [text for _, text in await harness.results(session.id, f"a.{n}")][1::2]
        made = [text.startswith("Edited a") for text in results].index(True)
        assert all("changed since" in text for text in results[:made]), results


async def test_what_one_child_read_another_has_not(harness: Harness) -> None:
    """Each child must have read the files that it changes."""
    _, second = await both(harness, [reads("a"), bash("touch read")], [bash(wait_for("read")), edits("a", "2", "two")])
    assert (second[-1][0], "You have not read" in second[-1][1]) == ("error", True)
