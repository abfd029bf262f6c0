"""What a receipt tells of commands is true, or it says that it is not known."""

from __future__ import annotations

import asyncio
import os

import msgspec
import pytest

from friday_cli.core.protocol.evidence import checked
from friday_cli.core.protocol.receipt import CommandRun, Finding, Receipt
from friday_cli.workspace.checkpoints import write_hook
from friday_cli.workspace.checkpoints.snapshot import Snapshot
from tests.session.harness import Harness, does, says
from tests.session.test_rewind import runs, writes

SEEN = "seen while a command ran"
GONE = f"deleted or moved away, {SEEN}"


async def lines(harness: Harness, *commands: str) -> list[str]:
    """The receipt of an agent that ran these commands, without the commands and tools."""
    harness.plays({"a": [*(does(runs(command)) for command in commands), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        rows = session._main.agent.receipt.lines()
        return [row for row in rows if not row.startswith(("ran: ", "tools run: "))]


@pytest.mark.parametrize(("command", "rows"), [
    ("rm a.txt", [f"removed: a.txt +0 -2 ({GONE})"]),
    ("mv a.txt b.txt", [f"changed: b.txt +2 -0 ({SEEN})", f"removed: a.txt +0 -2 ({GONE})"]),
    ("mv a.txt ../away", [f"removed: a.txt +0 -2 ({GONE})"]),
    ("ln -s a.txt link", [f"changed: link (a link, {SEEN})"]),
    ("rm -r many", [f"removed: many/ (30 files) ({GONE})"]),
    ("rm -r many a.txt", [f"removed: many/ (30 files) ({GONE})", f"removed: a.txt +0 -2 ({GONE})"]),
    ("echo three >> a.txt", [f"changed: a.txt +1 -0 ({SEEN})"]),
    ("printf '\\0' > a.txt", [f"changed: a.txt ({SEEN})"]),
    ("echo x > new; rm new", []),
    ("echo x > empty", [f"changed: empty +1 -0 ({SEEN})"]),
    ("chmod 600 a.txt", [f"changed: a.txt ({SEEN})"]),
])  # fmt: skip
async def test_what_a_command_did_to_files(harness: Harness, command: str, rows: list[str]) -> None:
    (harness.project / "a.txt").write_text("one\ntwo\n")
    (harness.project / "a.txt").chmod(0o644)
    (harness.project / "empty").touch()
    (harness.project / "many").mkdir()
    for number in range(30):
        (harness.project / "many" / str(number)).write_text("x\n")
    assert await lines(harness, command) == rows


async def test_where_nothing_can_be_seen_the_receipt_says_so(harness: Harness) -> None:
    for number in range(4):
        (harness.project / f"{number}.txt").write_text("x")
    harness.plays({"a": [does(runs("rm 0.txt"), writes("new.txt", "x\n")), says("done")]})
    async with harness.session(mode="yolo") as session:
        scanner = session._parts.shared.services.workspace.write_hook.recorder._snapshot._scanner  # type: ignore[attr-defined]
        scanner.limits = msgspec.structs.replace(scanner.limits, files=3)
        await session.prompt("go")
        rows = session._main.agent.receipt.lines()
    assert "not known: files that commands removed: the folder has more than 3 files" in rows
    assert "changed: new.txt +1 -0" in rows


async def test_a_job_in_the_background_is_listed_once(harness: Harness) -> None:
    start = ("bash", {"command": "echo made > made.txt; exit 3", "background": True})
    other = runs("rm a.txt")
    (harness.project / "a.txt").write_text("x\n")
    wait = ("bash_output", {"id": "job-1", "wait_s": 20})
    harness.plays({"a": [does(start), does(wait), does(other), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        rows = session._main.agent.receipt.lines()
        assert [row for row in rows if row.startswith("ran: ")] == [
            "ran: echo made > made.txt; exit 3 -> exit 3",
            "ran: rm a.txt -> exit 0",
        ]
        assert {row.agent for row in await session.rewind.changes()} == {"a"}


@pytest.mark.parametrize(("evidence", "seen"), [
    ("f.py", True), ("f.py:1", True), ("f.py:2-4", True), ("f.py:4-5", False), ("f.py:99999", False), ("./f.py:3:7", True),
    ("h.py:3", True), ("h.py:1-4", True), ("h.py:5", False), ("h.py:3-7", False), ("h.py:6-8", True), ("h.py", True),
    ("f.py:7", True), ("f.py:1-7", False), ("g.py:1", False), ("f.py:1, f.py:9", False), ("new.py:2", True), ("new.py:9", False),
])  # fmt: skip
async def test_only_lines_that_were_shown_count_as_seen(harness: Harness, evidence: str, seen: bool) -> None:
    (harness.project / "h.py").write_text("".join(f"{'x' if n in (3, 7) else 'y'}\n" for n in range(1, 9)))
    (harness.project / "f.py").write_text("".join(f"{n}\n" for n in range(1, 9)))
    reads = [
        ("read_file", {"path": "f.py", "offset": first, "limit": count}) for first, count in ((1, 2), (3, 2), (7, 1))
    ]
    reads += [
        ("grep", {"pattern": "x", "glob": "h.py", "context": 1}),
        ("grep", {"pattern": "y", "path": "h.py", "limit": 1}),
    ]
    harness.plays({"a": [does(*reads, writes("new.py", "1\n2\n3\n")), says("done")]})
    async with harness.after_run(mode="yolo") as session:
        (found,) = checked((Finding("c", evidence),), session._main.agent.receipt)
    assert found.seen is seen


def test_a_receipt_of_an_older_session_is_read() -> None:
    old = msgspec.json.decode(b'{"tools":{"bash":1},"commands":[{"command":"true\\nrm x"}],"read":["f"]}', type=Receipt)
    assert old.lines()[-1] == "ran: true ⏎ rm x -> stopped"
    assert [one.seen for one in checked((Finding("c", "f"), Finding("c", "f:1")), old)] == [True, False]
    assert os.linesep not in old.short()


@pytest.mark.parametrize(("evidence", "seen"), [
    ("$ cd a; make, then", True), ("`cd a; make, then`", True), ("$ ls\n$ cd a; make, then", False), ("f; $ ls", True),
    ("f; make", False), ("grep", False), ("", False), (" ;  ", False),
])  # fmt: skip
def test_a_command_with_separators_is_compared_as_a_whole(evidence: str, seen: bool) -> None:
    commands = (CommandRun("cd a; make, then", 0), CommandRun("ls", 0))
    (found,) = checked((Finding("c", evidence),), Receipt({"grep": 1}, commands=commands, read=("f",)))
    assert found.seen is seen


@pytest.mark.parametrize(("profile", "expected"), [(None, True), ("reader", False)])
async def test_a_prompt_expects_commands_where_the_model_has_them(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, profile: str | None, expected: bool
) -> None:
    """Then the first snapshot of a large repository is taken beside its answer."""
    harness.profile("reader", "allowedTools: [read_file]")
    harness.plays({"a": [says("done")]})
    begun, loop = asyncio.Event(), asyncio.get_running_loop()
    monkeypatch.setattr(write_hook, "LATER_S", 0.0)
    monkeypatch.setattr(Snapshot, "take_early", lambda self, wanted: loop.call_soon_threadsafe(begun.set))
    async with harness.after_run(profile=profile):
        if expected:
            await asyncio.wait_for(begun.wait(), 10)
    assert begun.is_set() == expected
