"""Children that write the same files without worktrees: one after the other, and never over what they have not seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.session.harness import Stage, does, says, wait_for
from tests.workspace.worktrees.repo_fixture import listing

BOTH = does(("delegate_tasks", {"tasks": [{"profile": "worker", "task": f"part {n}"} for n in (1, 2)]}))


def meets(mine: str, other: str) -> dict[str, Any]:
    """A command that makes a file and waits for the other's."""
    return does(("bash", {"command": f"touch {mine}; {wait_for(other)}"}))


def waits(name: str) -> dict[str, Any]:
    return does(("bash", {"command": wait_for(name)}))


def marks(name: str) -> dict[str, Any]:
    return does(("bash", {"command": f"touch {name}"}))


def reads(path: str = "a") -> dict[str, Any]:
    return does(("read_file", {"path": path}))


def edits(old: str, new: str, path: str = "a") -> dict[str, Any]:
    return does(("edit_file", {"path": path, "edits": [{"old": old, "new": new}]}))


def writes(content: str, path: str = "a") -> dict[str, Any]:
    return does(("write_file", {"path": path, "content": content}))


async def test_an_edit_on_a_stale_read_is_refused_and_works_after_another_look(stage: Stage) -> None:
    stage.plays({
        "a": [BOTH, says("Done.")],
        "a.1": [reads(), meets("one", "two"), edits("2", "two"), marks("edited"), says("ok")],
        "a.2": [reads(), meets("two", "one"), waits("edited"), edits("8", "eight"), reads(), edits("8", "eight"), says("ok")],
    })  # fmt: skip
    async with stage.session(mode="yolo") as session:
        await session.prompt("go")
        first, second = [await stage.results(session.id, path) for path in ("a.1", "a.2")]
    assert [status for status, _ in first] == ["ok"] * 4
    assert [status for status, _ in second] == ["ok", "ok", "ok", "error", "ok", "ok"]
    assert "a changed since you read it" in second[3][1]
    assert "Read it again" in second[3][1]
    assert listing(stage.project)["a"] == "1\ntwo\n3\n4\n5\n6\n7\neight\n"


async def test_a_whole_file_written_on_a_stale_read_is_refused(stage: Stage) -> None:
    stage.plays({
        "a": [BOTH, says("Done.")],
        "a.1": [reads(), meets("one", "two"), writes("by one\n"), marks("written"), says("ok")],
        "a.2": [reads(), meets("two", "one"), waits("written"), writes("by two\n"), says("ok")],
    })  # fmt: skip
    async with stage.session(mode="yolo") as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a.2")
    assert (results[-1][0], "changed since you read it" in results[-1][1]) == ("error", True)
    assert listing(stage.project)["a"] == "by one\n"


async def test_two_make_the_same_new_file(stage: Stage) -> None:
    stage.plays({
        "a": [BOTH, says("Done.")],
        "a.1": [meets("one", "two"), writes("by one\n", "new/file"), says("ok")],
        "a.2": [meets("two", "one"), writes("by two\n", "new/file"), says("ok")],
    })  # fmt: skip
    async with stage.session(mode="yolo") as session:
        await session.prompt("go")
        ends = [(await stage.results(session.id, path))[-1] for path in ("a.1", "a.2")]
    assert sorted(status for status, _ in ends) == ["error", "ok"]
    lost = next(text for status, text in ends if status == "error")
    refusals = ("exists and you have not read it", "it exists already", "created by another program")
    assert any(words in lost for words in refusals), lost  # by where the second one was when the first had written
    assert listing(stage.project)["new/file"] == ("by one\n" if ends[0][0] == "ok" else "by two\n")


async def test_edits_at_the_same_moment_are_made_one_after_the_other(stage: Stage) -> None:
    """However they fall together: each edit is in the file, or its agent was told that it is not."""
    numbers = range(1, 9)
    (stage.project / "a").write_text("".join(f"line {n}\n" for n in numbers))
    tasks = [{"profile": "worker", "task": f"part {n}"} for n in numbers]
    play: dict[str, Any] = {"a": [does(("delegate_tasks", {"tasks": tasks})), says("Done.")]}
    for n in numbers:
        again = [reads(), edits(f"line {n}\n", f"LINE {n}\n")]
        play[f"a.{n}"] = [*again * 12, says("ok")]
    stage.plays(play)
    flags = {"agents.delegation.max_concurrent": 8}
    async with stage.session(mode="yolo", flags=flags) as session:
        await session.prompt("go")
        told = {n: [text for _, text in await stage.results(session.id, f"a.{n}")] for n in numbers}
    lines = listing(stage.project)["a"].splitlines()
    assert len(lines) == 8
    for n in numbers:
        written = any(text.startswith("Edited a") for text in told[n])
        assert (lines[n - 1] == f"LINE {n}") is written
        assert written, told[n]
        edited = told[n][1::2]
        refused = edited[: next(i for i, text in enumerate(edited) if text.startswith("Edited a"))]
        assert all("changed since" in text for text in refused), refused


@pytest.mark.parametrize("command", ["printf changed > a", "rm a"])
async def test_what_a_command_of_another_changed_counts_as_well(stage: Stage, command: str) -> None:
    stage.plays({
        "a": [BOTH, says("Done.")],
        "a.1": [meets("one", "two"), does(("bash", {"command": command})), marks("changed"), says("ok")],
        "a.2": [reads(), meets("two", "one"), waits("changed"), edits("2", "two"), says("ok")],
    })  # fmt: skip
    before = (stage.project / "a").read_text()
    async with stage.session(mode="yolo") as session:
        await session.prompt("go")
        status, text = (await stage.results(session.id, "a.2"))[-1]
    assert status == "error"
    assert "changed since you read it" in text or "No such file" in text
    assert listing(stage.project).get("a") in (("changed",) if "printf" in command else (None,))
    assert before != "changed"


async def test_what_one_child_read_another_has_not(stage: Stage) -> None:
    """Two children share no memory of files: each must have read what it changes."""
    stage.plays({
        "a": [BOTH, says("Done.")],
        "a.1": [reads(), marks("read"), says("ok")],
        "a.2": [waits("read"), edits("2", "two"), says("ok")],
    })  # fmt: skip
    async with stage.session(mode="yolo") as session:
        await session.prompt("go")
        status, text = (await stage.results(session.id, "a.2"))[-1]
    assert (status, "You have not read" in text) == ("error", True)
