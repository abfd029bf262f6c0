"""What agents, their receipts and their parents are told of a change. The server is a script."""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from friday_cli.agents import code_checks
from friday_cli.core.protocol.events import AgentFinished, Notice
from friday_cli.session.session import Session
from friday_cli.system.paths import config_dir
from tests.lsp.test_commands import entry, git, write
from tests.session.conftest import harness as harness
from tests.session.harness import Harness, does, says
from tests.session.test_rewind import runs, writes
from tests.workspace.sandbox.conftest import chosen
from tests.workspace.worktrees.steps import applies, isolated

TRUSTED: dict[str, Any] = {
    "mode": "yolo",
    "trusted": True,
    "flags": {"lsp.wait_s": 60, "lsp.end_s": 60, "sandbox.kind": "none"},
}
OLD, BROKEN, WHOLE = "BAD old\ndef area 1\n", "BAD old\ndef area 2\n", "def area 1\n"


def edits(old: str, new: str, path: str = "model.bad") -> tuple[str, dict[str, str]]:
    return "edit_file", {"path": path, "old": old, "new": new}


@pytest.fixture
def project(harness: Harness) -> Harness:
    """A project with an old problem, and a server for it: two closed files use what `model.bad` defines."""
    write(config_dir(), "lsp.json", {"script": entry("none")})
    files = {
        "model.bad": OLD,
        "one.bad": "use area 1\n",
        "two.bad": "use area 1\nBAD theirs\n",
        "other.bad": "use length 1\n",
    }
    for name, text in files.items():
        (harness.project / name).write_text(text)
    return harness


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of sandbox; skips where it does not work."""
    if request.param != "none" and isinstance(found := chosen(request.param), str):
        pytest.skip(f"NOT TESTED HERE: {found}")
    return str(request.param)


async def told(harness: Harness, *turns: Any, **options: Any) -> tuple[list[str], list[str], list[str]]:
    """The results of the agent's calls, its receipt, and its warnings."""
    harness.plays({"a": [*turns]})
    session = await harness.ran(**TRUSTED | options)
    events = await harness.log(session.id)
    end = next(e.event for e in events if isinstance(e.event, AgentFinished))
    code = [line for line in end.receipt.facts() if line.startswith("code: ")]
    return [text for _, text in await harness.results(session.id, "a")], code, list(end.receipt.warnings)


READS = [does(("read_file", {"path": name})) for name in ("model.bad", "one.bad", "two.bad")]
SED = {(old, new): does(runs(f"sed -i 's/area {old}/area {new}/' model.bad")) for old, new in ((1, 2), (2, 1))}
USERS = [f"{name}.bad:1 bad: use area 1 [bad]" for name in ("one", "two")]
TWO = ["2 new problems", *USERS]
WHOLE_REPLY = does(*(edits("area 1", "area 2", f"{name}.bad") for name in ("model", "one", "two")))


@pytest.mark.parametrize(
    ("turns", "said", "left"),
    [
        ([READS[0], does(edits("area 1", "area 2"))], [[], TWO], "2 new problems left"),
        ([*READS, WHOLE_REPLY], [[], [], [], [], [], ["no new problems (3 files)"]], "no new problems left (3 files)"),
        ([READS[0], does(edits("area 1", "area 2"), edits("nowhere", "x"))], [[], [], TWO], "2 new problems left"),
        (
            [SED[1, 2], SED[2, 1], does(runs("sed -i /BAD/d model.bad"))],
            [TWO, ["no new problems, 2 fixed (3 files)"], ["no new problems, 1 fixed (1 file)"]],
            "no new problems left, 1 fixed (3 files)",
        ),
        (
            [SED[1, 2], SED[2, 1]] * 3,
            [TWO, ["no new problems, 2 fixed (3 files)"]] * 2
            + [["2 new problems", "2 that you were told of before"], ["no new problems, 2 fixed (3 files)"]],
            "no new problems left (3 files)",
        ),
    ],
    ids=["a signature", "one check for a reply", "the last call failed", "commands", "told twice, then counted"],
)
async def test_what_results_and_receipt_say(
    turns: list[Any], said: list[list[str]], left: str, project: Harness
) -> None:
    results, code, _ = await told(project, *turns, says("done"))
    assert [text.partition("script: ")[2].splitlines() for text in results] == said
    assert code == [f"code: {line}" for line in (f"script: {left}", *(USERS if left.startswith("2") else ()))]


async def test_what_a_server_says_of_a_file_that_the_agent_may_not_read_is_not_shown(project: Harness) -> None:
    results, code, _ = await told(project, SED[1, 2], says("done"), deny=("read_file(one.bad)",))
    hidden = f"one.bad:1 {code_checks.NOT_SHOWN} [bad]"
    assert results[0].partition("script: ")[2].splitlines() == ["2 new problems", hidden, USERS[1]]
    assert f"code: {hidden}" in code


@pytest.mark.parametrize(("report", "reached"), [("error", 0), ("off", 2)])
async def test_a_model_that_reads_it_mends_before_the_next_run_of_the_tests(
    report: str, reached: int, project: Harness
) -> None:
    """Twenty refactorings with a real server: `python -m tests.counterparts lsp --only refactorings`."""
    mends = does(runs("sed -i 's/area 1/area 2/' one.bad two.bad"))
    tests = does(runs("cat *.bad | grep -c 'use area 1'"))
    change = does(runs("sed -i 's/area 1/area 2/' model.bad"))
    flags = TRUSTED["flags"] | {"lsp.report": report}
    results, _, _ = await told(project, {"when": "one.bad:1 ", **mends}, change, tests, says("done"), flags=flags)
    assert results[-1].startswith(f"{reached}\n")


async def test_the_person_sees_new_problems(project: Harness) -> None:
    project.plays({"a": [does(writes("new.bad", "BAD new\n")), says("done")]})
    session = await project.ran(**TRUSTED)
    notices = [e.event.text for e in await project.log(session.id) if isinstance(e.event, Notice)]
    assert "script: 1 new problem: new.bad:1 bad: BAD new [bad]" in notices


async def test_the_person_is_told_what_restored_files_broke(project: Harness) -> None:
    changes = does(runs("sed -i 's/area 1/area 2/' model.bad one.bad two.bad"))
    project.plays({"a": [changes, says("done")]})
    async with project.after_run(**TRUSTED) as session:
        (key,) = [row.key for row in await session.rewind.changes() if row.key.endswith("model.bad")]
        told = asyncio.create_task(_notice(session, "Files were restored."))
        assert (await session.rewind.restore_file(key)).done
        text = await asyncio.wait_for(told, 60)
    assert text == "Files were restored. script: 2 new problems: one.bad:1 bad: use area 2 [bad]"


async def _notice(session: Session, begin: str) -> str:
    async for envelope in session.events():
        if isinstance(envelope.event, Notice) and envelope.event.text.startswith(begin):
            return envelope.event.text
    raise AssertionError("the session ended")


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("There are no errors left.", True),
        ("Everything type-checks now.", True),
        ("Es gibt keine Fehler mehr.", True),
        ("It does not compile yet.", False),
        ("Run the checker until there are no errors.", False),
        ("I changed the arity.", False),
    ],
)
async def test_a_claim_that_no_errors_are_left(text: str, warned: bool, project: Harness) -> None:
    broke = does(runs("sed -i 's/area 1/area 2/' model.bad"))
    _, _, warnings = await told(project, broke, says(text))
    false = "claims that no errors are left, but script sees 2 new problems: one.bad:1 bad: use area 1 [bad]"
    assert (false in warnings) is warned
    mended = does(runs("sed -i 's/area 2/area 1/' model.bad"))
    (project.project / "model.bad").write_text(OLD)
    assert false not in (await told(project, broke, mended, says(text)))[2]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("silent", "no answer within 0.2 s"),
        ("never_starts", "it is still starting"),
    ],
)
async def test_no_answer_is_said_and_the_work_goes_on(fault: str, reason: str, project: Harness) -> None:
    write(config_dir(), "lsp.json", {"script": entry(fault)})
    flags = TRUSTED["flags"] | {"lsp.wait_s": 0.2, "lsp.end_s": 0.1}
    results, code, warnings = await told(
        project, does(writes("new.bad", "BAD\n")), says("No errors left."), flags=flags
    )
    assert "script: it is not known whether there are new problems" in results[0]
    assert reason in results[0] or "starting" in results[0]
    assert any("not known" in line for line in code)
    assert not any("no errors" in text for text in warnings)


async def test_an_answer_that_is_late_comes_with_a_later_result(project: Harness) -> None:
    """Also with that of a call that changes nothing; and each server says itself that it is late."""
    both = {"first": entry("late"), "second": entry("late")}
    write(config_dir(), "lsp.json", {"ruff": {**both["first"]}, "script": both["second"]})
    flags = TRUSTED["flags"] | {"lsp.wait_s": 0}
    (project.project / "ruff.toml").touch()
    waits = does(runs("sleep 3"))
    reads = does(("read_file", {"path": "other.bad"}))
    results, code, _ = await told(project, does(writes("new.bad", "BAD\n")), waits, reads, says("done"), flags=flags)
    late = "it is not known whether there are new problems: it is still starting; a later result will report it"
    assert results[0].splitlines()[1:] == [f"script: {late}", f"ruff: {late}"]
    answers = [f"{name}: 1 new problem\nnew.bad:1 bad: BAD [bad]" for name in ("script", "ruff")]
    assert all(answer in results[1] + results[2] for answer in answers)
    assert {f"code: {name}: 1 new problem left" for name in ("script", "ruff")} < set(code)


async def test_what_reading_a_changed_file_took_is_not_waited_again(
    project: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_checks, "time", SimpleNamespace(monotonic=count(step=100).__next__))  # seconds
    results, _, _ = await told(project, does(writes("new.bad", "BAD\n")), says("done"))
    assert "a later result will report it" in results[0]


async def test_what_a_server_could_not_answer_is_asked_again_with_the_next_change(project: Harness) -> None:
    pids = str(project.project.parent / "pids")
    write(config_dir(), "lsp.json", {"script": entry("dies_once", env={"SCRIPTED_PIDS": pids})})
    results, code, _ = await told(
        project, *(does(writes(f"{name}.bad", f"BAD {name}\n")) for name in "ab"), says("done")
    )
    assert "not known whether there are new problems: its process has ended" in results[0]
    assert "script: 2 new problems\na.bad:1 bad: BAD a [bad]\nb.bad:1 bad: BAD b [bad]" in results[1]
    assert code[0] == "code: script: 2 new problems left"
    await asyncio.to_thread(os.unlink, pids)
    _, code, _ = await told(project, does(writes("c.bad", "BAD c\n")), says("done"))
    assert code == ["code: script: 1 new problem left", "code: c.bad:1 bad: BAD c [bad]"], "the end asks again"


@pytest.mark.parametrize(
    "last",
    [
        writes("../../outside.bad", "x"),
        ("write_file", {"path": 3}),
        runs("yes | head -c 1000001 > new.bad"),
    ],
)
async def test_whatever_the_last_call_does_the_reply_has_an_answer(last: tuple[str, Any], project: Harness) -> None:
    """Denied, not understood, or a file that is too large: then it is not known for good."""
    results, code, _ = await told(
        project, does(writes("a.bad", "BAD a\n"), last), does(writes("b.bad", "b\n")), says("done")
    )
    large = "yes" in str(last)
    assert ("new.bad: is larger than" if large else "script: 1 new problem\na.bad:1 bad: BAD a [bad]") in results[1]
    assert ("is larger than" if large else "1 new problem left") in code[0]


async def test_another_agents_edit_is_not_blamed(project: Harness) -> None:
    project.profile("worker", 'allowedTools: "*"')
    child = [does(writes("child.bad", "BAD child\n")), says("done")]
    mine = does(writes("mine.bad", "BAD mine\n"))
    delegate = does(("delegate_task", {"profile": "worker", "task": "go"}))
    project.plays({"a": [delegate, mine, says("done")], "a.1": child})
    session = await project.ran(**TRUSTED)
    assert (await project.results(session.id, "a.1"))[0][1].endswith(
        "new.bad:1 bad: BAD child [bad]".replace("new", "child")
    )
    delegated, own = (text for _, text in await project.results(session.id, "a"))
    assert "code: child.bad:1 bad: BAD child [bad]" in delegated, "its parent sees it"
    assert own.splitlines()[1:] == ["script: 1 new problem", "mine.bad:1 bad: BAD mine [bad]"]


async def test_two_clean_children_that_are_broken_together(project: Harness) -> None:
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        await asyncio.to_thread(git, project.project, *words)
    project.profile("worker", 'allowedTools: "*"')
    read = does(("read_file", {"path": "model.bad"}))
    defines = [
        read,
        does(edits("area 1", "area 2")),
        does(runs("sed -i 's/area 1/area 2/' one.bad two.bad")),
        says("done"),
    ]
    uses = [does(writes("three.bad", "use area 1\n")), says("done")]
    turns = [isolated(), isolated(), applies("a.1"), applies("a.2"), says("done")]
    project.plays({"a": turns, "a.1": defines, "a.2": uses})
    session = await project.ran(**TRUSTED)
    results = [text for _, text in await project.results(session.id, "a")]
    assert "script: no new problems" in (await project.results(session.id, "a.2"))[0][1]
    assert "three.bad:1 bad: use area 1 [bad]" in results[3], results


@pytest.mark.parametrize(
    ("modules", "kind", "said"),
    [
        (True, "none", "script: no new problems (1 file)"),
        (False, "none", "new.bad:1 bad: BAD new [2307]"),
        (True, "bubblewrap", "new.bad:1 bad: BAD new [bad]"),
    ],
    indirect=["kind"],
)
async def test_modules_that_only_the_main_folder_has(modules: bool, kind: str, said: str, project: Harness) -> None:
    """A server in a worktree sees them with bubblewrap; else imports that it does not find are no problems."""
    confined = kind != "none"
    script = entry("imports", extensionToLanguage={".bad": "typescript"}, sandbox=confined)
    write(config_dir(), "lsp.json", {"script": script})
    (project.project / ".gitignore").write_text("node_modules/\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        await asyncio.to_thread(git, project.project, *words)
    if modules:
        (project.project / "node_modules" / "dep").mkdir(parents=True)
    project.profile("worker", 'allowedTools: "*"')
    project.plays({"a": [isolated(), says("done")], "a.1": [does(writes("new.bad", "BAD new\n")), says("done")]})
    session = await project.ran(**TRUSTED | {"flags": TRUSTED["flags"] | {"sandbox.kind": kind}})
    ((_, text),) = await project.results(session.id, "a.1")
    assert said in text
    told = [e.event.text for e in await project.log(session.id) if isinstance(e.event, Notice)]
    assert any("sees no node_modules in worktrees" in line for line in told) is (modules and not confined)


async def test_nothing_of_it_runs_or_is_loaded_without_trust(project: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = project.project / "started"
    script = f"import pathlib; pathlib.Path({str(trace)!r}).touch()"
    write(config_dir(), "lsp.json", {"script": entry("none", args=["-c", script])})
    for name in [name for name in sys.modules if name.startswith("friday_cli.lsp")]:
        monkeypatch.delitem(sys.modules, name)
    results, code, _ = await told(project, does(writes("new.bad", "BAD\n")), says("done"), trusted=False)
    assert (len(results), code) == (1, [])
    assert "problem" not in results[0]
    off = TRUSTED["flags"] | {"lsp.enabled": False}
    await told(project, does(writes("more.bad", "BAD\n")), says("done"), flags=off)
    assert not trace.exists()
    assert not [name for name in sys.modules if name.startswith("friday_cli.lsp")]
