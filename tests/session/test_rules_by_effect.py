"""Deny and ask rules hold for what a call does, whichever tool does it and however it is spelled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from friday_cli.config.settings import RuleSetting
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import PermissionAsked
from friday_cli.frontends.options import map_tool
from friday_cli.session.session import Session
from friday_cli.system.paths import config_dir
from tests.session.harness import Harness, delegates, does, says
from tests.workspace.worktrees.repo_fixture import repository

SECRET = "CANARY-7f3a"
Call = tuple[str, Mapping[str, Any]]

NO_CODER = (
    "delegate_task(coder)",
    "delegate_task",
    "Task(coder)",
    "Agent(coder)",
    "delegate_task(cod*)",
    "delegate_*(coder)",
)
NO_PRIVATE = (
    "read_file(private/**)", "Read(private/**)", "Read(./private/**)", "read_file(**/private/**)", "Read(private/)",
    "read_file(private)", "Read(PRIVATE/**)", "read_file(src/../private/**)", "Read({root}/private/**)", "Read(/private/**)",
    "Read(/{root}/private/**)", "NotebookRead(private/**)", "read_*(private/**)",
)  # fmt: skip
NO_SRC = (
    "edit_file(src/**)",
    "Edit(src/**)",
    "MultiEdit(src/**)",
    "write_file(src/**)",
    "Write(src/**)",
    "Write(./src/**)",
)


def project(harness: Harness) -> None:
    """Files of which those below `private` are not for agents."""
    for name, text in {
        "private/key.txt": SECRET,
        "private/deep/notes.md": f"# {SECRET}",
        "public.txt": f"public {SECRET[:6]}",
        "src/a.py": "x = 1\n",
        "private/book.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": SECRET}], "nbformat": 4}),
    }.items():
        path = harness.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (harness.project / "link").symlink_to("private")
    (harness.project / "key-link.txt").symlink_to("private/key.txt")


async def results_of(harness: Harness, calls: Sequence[Call], **options: Any) -> list[tuple[str, str]]:
    """The results of calls that the main agent makes, one in a turn."""
    harness.plays({"a": [*(does(one) for one in calls), says("done")], "a.*": [says("fine")] * 9})
    session = await harness.ran(**{"mode": "yolo", **options})
    return await harness.results(session.id, "a")


def rules(decision: str, *texts: str) -> dict[str, Any]:
    return {"deny": texts} if decision == "deny" else {"flags": {"permissions.ask": texts}}


@pytest.mark.parametrize("decision", ["deny", "ask"])
@pytest.mark.parametrize("rule", NO_CODER)
async def test_a_rule_for_a_profile_holds_for_every_way_to_start_it(harness: Harness, rule: str, decision: str) -> None:
    task = {"profile": "coder", "task": "x"}
    calls: list[Call] = [
        ("delegate_task", task), ("delegate_task", {"subagent_type": "coder", "prompt": "x"}), ("delegate_tasks", {"tasks": [task]}),
        ("delegate_tasks", {"tasks": [{"profile": "general", "task": "y"}, task]}), ("delegate_tasks", {"tasks": json.dumps([task])}),
        ("map_tasks", {"profile": "coder", "task": "Look at {item}.", "items": ["a"], "max_cost": 1}),
        ("skill", {"name": "fork"}),
    ]  # fmt: skip
    folder = config_dir() / "skills/fork"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: fork\ndescription: Forks.\ncontext: fork\nagent: coder\n---\nDo.\n")
    given = rules(decision, rule)
    flags = {**given.pop("flags", {}), "agents.delegation.batches": True}
    found = await results_of(harness, calls, **given, flags=flags, map_tool=map_tool)
    assert [status for status, _ in found] == ["denied"] * len(calls), found


@pytest.mark.parametrize(
    "written",
    ["Senior Coder", "senior coder", "SENIOR-CODER", " senior-coder", '"senior-coder"', "@senior-coder", "Senior*"],
)
@pytest.mark.parametrize("form", ["Task({})", "delegate_tasks({})", "profile"])
async def test_a_rule_names_a_profile_as_its_file_does(harness: Harness, form: str, written: str) -> None:
    """The name of a file of Claude Code is changed to letters that names of profiles have."""
    folder = Path.home() / ".agents/agents"
    folder.mkdir(parents=True)
    (folder / "x.md").write_text("---\nname: Senior Coder\ndescription: x\ntools: Write\n---\nx\n")
    writes = ("write_file", {"path": "made", "content": "x"})
    harness.plays({"a": [delegates("senior-coder"), says("done")], "a.1": [does(writes), says("fine")]})
    rule = RuleSetting("write_file", "deny", profile=written)
    rule_options = {"flags": {"permissions.rules": (rule,)}} if form == "profile" else {"deny": (form.format(written),)}
    session = await harness.ran(mode="yolo", **rule_options)
    found = await harness.results(session.id, "a.1" if form == "profile" else "a")
    assert [status for status, _ in found] == ["denied"]


@pytest.mark.parametrize("rule", ["delegate_task(coder)", "Agent(coder)"])
async def test_a_child_of_that_profile_is_not_continued(harness: Harness, rule: str) -> None:
    harness.plays({"a": [delegates("coder"), says("done"), says("again")], "a.1": [says("fine")] * 3})
    first = await harness.ran(mode="yolo")
    more = [
        ("delegate_task", {"resume": "a.1", "task": "go on"}),
        ("delegate_task", {"resume": "a.1", "task": "x", "profile": "general"}),
    ]
    harness.plays({"a": [*(does(one) for one in more), says("done")], "a.1": [says("fine")] * 3})
    async with harness.session(mode="yolo", deny=(rule,), resume=first.id) as session:
        await session.prompt("go on")
    assert [status for status, _ in await harness.results(first.id, "a")][1:] == ["denied", "denied"]


@pytest.mark.parametrize(("rule", "glob", "words"), [
    ("delegate_task(estimate>0.50)", "src/**", "max_cost $1.00: the usual cost exceeds the rule delegate_task(estimate>0.50)"),
    ("read_file(private/**)", "private/**", "private/** matches 3 files that a rule keeps from you"),
    ("Read(private/**)", "**/*", "**/* matches 3 files that a rule keeps from you"),
])  # fmt: skip
@pytest.mark.parametrize("decision", ["deny", "ask"])
async def test_a_batch_is_held_by_rules_about_costs_and_files(
    harness: Harness, rule: str, glob: str, words: str, decision: str
) -> None:
    project(harness)
    call = ("map_tasks", {"profile": "coder", "task": "Look at {path}.", "glob": glob, "max_cost": 1})
    given = rules(decision, rule)
    flags = {**given.pop("flags", {}), "agents.delegation.batches": True}
    play = {"a": [does(call), says("done")], "a.*": [says("fine")]}
    harness.scenario.write_text(json.dumps({"price": {"input": 1.0, "output": 5.0}, "agents": play}))
    session = await harness.ran(mode="yolo", **given, flags=flags, map_tool=map_tool)
    ((status, text),) = await harness.results(session.id, "a")
    asked = decision == "ask" and "estimate" in rule
    assert status == "error"
    assert ("no person can be asked here" if asked else words) in text


READS: tuple[Call, ...] = (
    ("read_file", {"path": "private/key.txt"}), ("read_file", {"path": "./src/../private/key.txt"}),
    ("read_file", {"path": "{root}/private/key.txt"}), ("read_file", {"path": "link/key.txt"}), ("read_file", {"path": "key-link.txt"}),
    ("read_file", {"path": "private/book.ipynb"}), ("list_dir", {"path": "private"}), ("list_dir", {"path": "link"}),
    ("grep", {"pattern": "CANARY", "path": "private"}), ("grep", {"pattern": "CANARY", "path": "private/key.txt"}),
    ("grep", {"pattern": "CANARY", "path": "link"}), ("glob", {"pattern": "*.txt", "path": "private"}),
    ("document_query", {"path": "private/key.txt", "query": "CANARY"}), ("document_query", {"path": "key-link.txt", "query": "CANARY"}),
    ("document_query", {"path": "private/deep/notes.md", "query": "CANARY"}), ("bash", {"command": "cat private/key.txt"}),
)  # fmt: skip
SEARCHES: tuple[Call, ...] = (
    ("grep", {"pattern": "CANARY"}), ("grep", {"pattern": "CANARY", "glob": "**/*.txt"}), ("grep", {"pattern": "CANARY", "mode": "files"}),
    ("grep", {"pattern": "CANARY", "mode": "count"}), ("grep", {"pattern": "CANARY", "glob": "private/*"}), ("glob", {"pattern": "**/*"}),
    ("glob", {"pattern": "private/**"}), ("list_dir", {"path": "."}), ("grep", {"pattern": "public(?=.)|CANARY(?=.)"}),
)  # fmt: skip


def at(root: str, calls: Sequence[Call]) -> list[Call]:
    return [(name, {key: value.replace("{root}", root) for key, value in given.items()}) for name, given in calls]


@pytest.mark.parametrize("decision", ["deny", "ask"])
@pytest.mark.parametrize("rule", NO_PRIVATE)
async def test_a_rule_for_reading_holds_for_every_tool_that_reads(harness: Harness, rule: str, decision: str) -> None:
    project(harness)
    root = str(harness.project)
    found = await results_of(harness, at(root, READS), **rules(decision, rule.replace("{root}", root)))
    shown = {str(READS[i]): result for i, result in enumerate(found) if result[0] != "denied"}
    assert shown == {}
    found = await results_of(harness, SEARCHES, **rules(decision, rule.replace("{root}", root)))
    assert {status for status, _ in found} == {"ok"}
    assert [text for _, text in found if SECRET in text or "key.txt" in text or "notes.md" in text] == []
    assert "public.txt" in found[0][1]
    assert "omitted: a rule" in found[0][1]


@pytest.mark.parametrize("decision", ["deny", "ask"])
async def test_a_worktree_child_is_held_by_the_same_rules(harness: Harness, decision: str) -> None:
    """The child has its own copy of the files."""
    project(harness)
    files = {
        str(p.relative_to(harness.project)): p.read_text()
        for p in harness.project.rglob("*")
        if p.is_file() and not p.is_symlink()
    }
    repository(harness.project, **files)
    root = str(harness.project)
    child = [
        *(does(one) for one in at(root, (*READS[:2], *READS[6:]))),
        *(does(one) for one in SEARCHES[:2]),
        says("done"),
    ]
    harness.plays({"a": [delegates("coder", isolation="worktree"), says("done")], "a.1": child})
    for rule in (f"Read({root}/private/**)", "Read(private/**)"):
        session = await harness.ran(mode="yolo", **rules(decision, rule))
        found = await harness.results(session.id, "a.1")
        assert len(found) > 10
        assert [text for _, text in found if SECRET in text] == []


async def test_a_yes_to_a_search_in_a_folder_shows_what_was_asked_about(harness: Harness) -> None:
    project(harness)
    harness.plays({"a": [does(("grep", {"pattern": "CANARY", "path": "private"})), says("done")]})
    async with harness.session(attended=True, flags={"permissions.ask": ("read_file(private/**)",)}) as session:
        assert "private/key.txt" in await _answered(harness, session)


async def _answered(harness: Harness, session: Session) -> str:
    run = session.start("go")
    async for envelope in session.events():
        if isinstance(envelope.event, PermissionAsked):
            assert "it reads private" in envelope.event.reason
            assert await session.answer(envelope.event.id, ApprovalAnswer("allow"))
            break
    await session.result(run)
    return (await harness.results(session.id, "a"))[0][1]


WRITES: tuple[Call, ...] = (
    ("write_file", {"path": "src/a.py", "content": "y = 2\n"}), ("write_file", {"path": "src/new/b.py", "content": "y"}),
    ("edit_file", {"path": "src/a.py", "edits": [{"old": "x = 1", "new": "y = 2"}]}), ("edit_file", {"path": "./src/a.py", "old": "x", "new": "y"}),
    ("bash", {"command": "echo y > src/a.py"}), ("bash", {"command": "mv src/a.py b.py"}), ("bash", {"command": "rm src/a.py"}),
    ("bash", {"command": "sed -i s/x/y/ src/a.py"}),
)  # fmt: skip


@pytest.mark.parametrize("decision", ["deny", "ask"])
@pytest.mark.parametrize("rule", [*NO_SRC, "edit_file", "write_file", "Write"])
async def test_a_rule_for_writing_holds_for_every_tool_that_writes(harness: Harness, rule: str, decision: str) -> None:
    project(harness)
    calls = [("read_file", {"path": "src/a.py"}), *WRITES]
    found = await results_of(harness, calls, **rules(decision, rule))
    assert [status for status, _ in found] == ["ok", *(["denied"] * len(WRITES))], found
    assert (harness.project / "src/a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("decision", ["deny", "ask"])
async def test_what_a_prompt_names_is_not_attached_against_a_rule(harness: Harness, decision: str) -> None:
    project(harness)
    async with harness.session(mode="yolo", **rules(decision, "Read(private/**)")) as session:
        named = "see @private/key.txt and @key-link.txt and @link/key.txt and @private and @public.txt and @./"
        text, _, remarks = await session.attach(named)
    assert SECRET not in text
    assert "notes.md" not in text
    assert '<file path="public.txt">' in text
    assert [remark.partition(":")[0] for remark in remarks] == [
        "@private/key.txt",
        "@key-link.txt",
        "@link/key.txt",
        "@private",
    ]
    assert all("the rule read_file(private/**)" in remark for remark in remarks)


async def test_a_rule_that_names_one_tool_denies_that_tool(harness: Harness) -> None:
    project(harness)
    calls = [("grep", {"pattern": "x"}), ("glob", {"pattern": "*"}), ("read_file", {"path": "public.txt"})]
    found = await results_of(harness, calls, deny=("grep", "Glob(src)"))
    assert [status for status, _ in found] == ["denied", "ok", "ok"]


async def test_an_allow_rule_allows_what_it_names_and_no_more(harness: Harness) -> None:
    project(harness)
    calls = [
        ("read_file", {"path": "src/a.py"}),
        *WRITES[:2],
        ("edit_file", {"path": "src/a.py", "old": "x", "new": "y"}),
    ]
    found = await results_of(harness, calls, mode="ask", allow=("edit_file(src/**)",))
    assert [status for status, _ in found] == ["ok", "denied", "denied", "ok"]


@pytest.mark.parametrize(("rules", "offered"), [((), "write_file(new.txt)"), (("write_file",), "")])
async def test_no_rule_is_offered_where_a_rule_asks_which_would_win(
    harness: Harness, rules: tuple[str, ...], offered: str
) -> None:
    harness.plays({"a": [does(("write_file", {"path": "new.txt", "content": "x"})), says("done")]})
    (config_dir() / "config.toml").parent.mkdir(parents=True, exist_ok=True)
    (config_dir() / "config.toml").write_text(f"[permissions]\nask = {json.dumps(list(rules))}\n")
    async with harness.session(attended=True) as session:
        session.start("go")
        async for envelope in session.events():
            if isinstance(event := envelope.event, PermissionAsked):
                assert event.rule == offered
                await session.answer(event.id, ApprovalAnswer("allow"))
                break
