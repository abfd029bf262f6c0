"""Looking through what was changed: one difference by agent and file, put back or accepted."""

from __future__ import annotations

import subprocess

import pytest

from friday_cli.core.protocol.errors import UsageError
from tests.session.harness import Harness, delegates, does, says
from tests.session.test_rewind import everything, runs, writes


def read(path: str) -> tuple[str, dict[str, object]]:
    return "read_file", {"path": path}


async def test_each_agent_has_its_own_difference_of_a_file(harness: Harness) -> None:
    harness.profile("writer", "tools: [read_file, write_file, bash]")
    (harness.project / "a.txt").write_text("one\n")
    child = [does(read("a.txt")), does(writes("a.txt", "one\ntwo\nthree\n"), writes("b.txt", "b\n")), says("made")]
    mine = [
        does(read("a.txt")),
        does(writes("a.txt", "one\ntwo\n")),
        delegates("writer"),
        does(runs("rm b.txt")),
        says("done"),
    ]
    harness.plays({"a": mine, "a.1": child})
    async with harness.after_run(mode="yolo") as session:
        rows = await session.rewind.changes()
        found = [(r.agent, r.path, r.added, r.removed, r.newest) for r in rows]
        made = [("a", "a.txt", 1, 0, False), ("a.1", "a.txt", 1, 0, True)]
        assert found == made, "what was made and is gone again is not there"
        assert rows[0].diff.splitlines()[-1] == "+two"
        assert rows[1].diff.splitlines()[-1] == "+three"
        with pytest.raises(UsageError, match=r"a\.1 changed 'a\.txt' after a"):
            await session.rewind.restore_file("a.txt", "a")
        assert (await session.rewind.restore_file("a.txt", "a.1")).done
        assert (harness.project / "a.txt").read_text() == "one\ntwo\n"
        assert [(r.agent, r.newest) for r in await session.rewind.changes()] == [("a", True)]
        await session.rewind.undo()
        assert [(r.agent, r.added) for r in await session.rewind.changes()] == [("a", 1), ("a.1", 1)]
        assert (await session.rewind.restore_file("a.txt")).done
        assert everything(harness.project).keys() == {b"a.txt"}
        assert (harness.project / "a.txt").read_text() == "one\n"
        assert await session.rewind.changes() == []


async def test_what_is_accepted_is_not_shown_again_until_it_changes(harness: Harness) -> None:
    turns = [
        does(writes("a.txt", "1\n"), writes("b.txt", "1\n")),
        says("one"),
        does(writes("a.txt", "2\n")),
        says("two"),
    ]
    harness.plays({"a": turns})
    async with harness.after_run(mode="yolo") as session:
        await session.rewind.accept("a.txt")
        assert [r.path for r in await session.rewind.changes()] == ["b.txt"]
        with pytest.raises(UsageError, match="waits for a review"):
            await session.rewind.accept("a.txt")
        with pytest.raises(UsageError, match="waits for a review"):
            await session.rewind.restore_file("a.txt")
        await session.prompt("again")
        rows = await session.rewind.changes()
        found = [(r.path, r.kind, r.added, r.removed) for r in rows]
        assert found == [("a.txt", "changed", 1, 1), ("b.txt", "made", 1, 0)]
    async with harness.session(mode="yolo", resume=session.id) as again:
        assert await again.rewind.changes() == rows


async def test_a_rewind_empties_the_review_and_its_undo_fills_it(harness: Harness) -> None:
    harness.plays({"a": [does(writes("a.txt", "1\n")), says("one")]})
    async with harness.after_run(mode="yolo") as session:
        rows = await session.rewind.changes()
        await session.rewind.to(1, "files")
        assert await session.rewind.changes() == []
        await session.rewind.undo()
        assert await session.rewind.changes() == rows


async def test_what_the_person_made_of_it_is_marked_and_not_put_back_unasked(harness: Harness) -> None:
    (harness.project / "pic").write_bytes(b"\0\1")
    command = runs("printf '\\0\\2' > pic; chmod 600 pic; touch empty")
    harness.plays({"a": [does(writes("a.txt", "1\n"), command), says("one")]})
    async with harness.after_run(mode="yolo") as session:
        (harness.project / "a.txt").write_text("1\nmine\n")
        rows = {r.path: r for r in await session.rewind.changes()}
        assert rows["a.txt"].yours
        assert (rows["pic"].remark, rows["pic"].by) == ("binary", ("command",))
        assert (rows["empty"].kind, rows["empty"].diff) == ("made", "")
        asked = await session.rewind.restore_file("a.txt")
        assert not asked.done
        assert [c.reason for c in asked.conflicts] == ["it was changed since"]
        assert (await session.rewind.restore_file("a.txt", conflicts="overwrite")).done
        assert not (harness.project / "a.txt").exists()
        with pytest.raises(UsageError, match="did not change"):
            await session.rewind.restore_file("pic", "a.7")


async def test_the_work_of_a_worktree_counts_once_it_is_applied(harness: Harness) -> None:
    harness.profile("writer", "tools: [write_file]", "isolation: worktree")
    (harness.project / "a.txt").write_text("one\n")
    _repository(harness)
    apply = does(("apply_delegation", {"id": "a.1"}))
    child = [does(writes("new.txt", "n\n")), says("made")]
    harness.plays({"a": [delegates("writer"), apply, says("done")], "a.1": child})
    before = {k: v for k, v in everything(harness.project).items() if not k.startswith(b".git/")}
    async with harness.after_run(mode="yolo") as session:
        assert [(r.agent, r.path, r.kind) for r in await session.rewind.changes()] == [("a.1", "new.txt", "made")]
        assert (await session.rewind.to(1)).done
        assert {k: v for k, v in everything(harness.project).items() if not k.startswith(b".git/")} == before


def _repository(harness: Harness) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *args], cwd=harness.project, check=True)
