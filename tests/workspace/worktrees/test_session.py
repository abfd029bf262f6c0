"""Worktrees in a whole session: from the call that creates one to the decision about its changes."""

from __future__ import annotations

import asyncio
import base64
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.displays import DiffsDisplay
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    PermissionAsked,
    Prefix,
    ToolFinished,
    WorktreeChanged,
)
from friday_cli.session.session import Session
from friday_cli.system.paths import data_dir
from friday_cli.view import SessionView
from friday_cli.view.tree import render_tree
from friday_cli.workspace.worktrees import apply, git_trees
from friday_cli.workspace.worktrees.create import WorktreeCreator
from tests.session.harness import Harness, delegates, does, says, wait_for
from tests.workspace.worktrees.repo_fixture import friday_branches, git, listing, own_state
from tests.workspace.worktrees.steps import (
    applies,
    bash,
    batch,
    discards,
    edits,
    isolated,
    metadata_files,
    ran,
    reads,
    resumes,
    states,
    writes,
)

DONE = says("Done.")
X_AND_Y = [writes("x", "x"), writes("y", "y"), DONE]


async def finished(session: Session, tool: str) -> None:
    """Wait until a call of a tool has finished."""
    async for envelope in session.events():
        if isinstance(envelope.event, ToolFinished) and envelope.event.tool == tool:
            return


async def test_a_child_works_in_a_worktree_and_its_changes_are_applied(harness: Harness) -> None:
    (harness.project / "b").write_text("uncommitted\n")
    child = [reads("b"), writes("new", "new\n"), edits("b", "uncommitted", "changed"), says("I changed b.")]
    session = await ran(harness, {"a": [isolated(), applies(), DONE], "a.1": child})
    envelopes = await harness.log(session.id)
    results = await harness.results(session.id, "a")
    assert listing(harness.project)["b"] == "changed\n"
    assert listing(harness.project)["new"] == "new\n"
    status, report = results[0]
    assert status == "ok"
    assert "branch friday/" in report
    assert "2 files changed. They are NOT in your files yet:" in report
    assert "- b +1 -1\n- new +1 -0 (new)" in report
    assert "-uncommitted\n+changed" in report
    assert "apply_delegation(id='a.1')" in report
    assert results[1][1].startswith("Applied the changes of a.1")
    event = next(e.event for e in envelopes if isinstance(e.event, ToolFinished) and e.event.tool == "apply_delegation")
    assert {f.path for f in event.facts.files} == {"b", "new"}
    assert all(len(f.sha256) == 64 for f in event.facts.files)
    assert isinstance(event.display, DiffsDisplay)
    assert [(d.path, d.added, d.removed) for d in event.display.files] == [("b", 1, 1), ("new", 1, 0)]
    assert await states(harness, session.id) == ["opened", "changed", "applied"]
    order = [type(e.event) for e in envelopes if e.agent == "a.1"]
    assert order.index(AgentStarted) < order.index(WorktreeChanged)
    assert (metadata_files(), friday_branches(harness.project)) == ([], [])
    assert "2 files changed +2 -1, applied" in "\n".join(render_tree(SessionView.of(envelopes)))


async def test_the_files_of_the_parent_do_not_change_before(harness: Harness) -> None:
    child = [writes("new", "x"), bash("echo 9 >> a; git branch --show-current; pwd"), DONE]
    before, files = own_state(harness.project), listing(harness.project)
    session = await ran(harness, {"a": [isolated(), reads("a"), DONE], "a.1": child})
    assert listing(harness.project) == files
    assert {name: own_state(harness.project).get(name) for name in before} == before
    folder = data_dir() / "worktrees" / session.id / f"{session.id[:8]}-1"
    assert f"friday/{session.id[:8]}-1\n{folder}\n" in (await harness.results(session.id, "a.1"))[1][1]
    assert (folder / "new").read_text() == "x"


async def test_an_unchanged_worktree_is_removed(harness: Harness) -> None:
    before = own_state(harness.project)
    session = await ran(harness, {"a": [isolated(), DONE], "a.1": [reads("a"), says("Nothing to do.")]})
    assert "nothing was changed in it; it is removed" in (await harness.results(session.id, "a"))[0][1]
    assert await states(harness, session.id) == ["opened", "unchanged"]
    assert own_state(harness.project) == before
    assert not (data_dir() / "worktrees" / session.id).exists()


async def test_a_profile_can_require_a_worktree_and_the_log_has_its_state(harness: Harness) -> None:
    session = await ran(harness, {"a": [delegates("hermit"), DONE], "a.1": [writes("new", "x"), DONE]})
    assert await states(harness, session.id) == ["opened", "changed"]
    assert not (harness.project / "new").exists()
    known = replay(await harness.log(session.id))["a.1"].worktree
    assert known is not None
    assert (known.state, [f.path for f in known.files]) == ("changed", ["new"])
    assert known.folder == str(metadata_files()[0].with_suffix(""))


async def test_the_prompt_of_the_child_names_its_folder(harness: Harness) -> None:
    session = await ran(harness, {"a": [isolated(), DONE], "a.1": [DONE]})
    prefix = next(e.event for e in await harness.log(session.id) if e.agent == "a.1" and isinstance(e.event, Prefix))
    name = f"{session.id[:8]}-1"
    assert f"Folder: {data_dir() / 'worktrees' / session.id / name}\n" in prefix.system
    assert f"a copy of {harness.project}" in prefix.system
    assert f"Git branch: friday/{name}" in prefix.system


async def test_tools_do_not_reach_the_main_checkout(harness: Harness) -> None:
    main = harness.project
    refused = [
        f"cat {main}/a",
        f"cd '{main}' && ls",
        f"git -C {main} status",
        f"git --git-dir={main}/.git log",
        "git --work-tree=.. status",
        "GIT_DIR=x git log",
    ]
    child = [
        reads(f"{main}/a"),
        writes(f"{main}/evil", "x"),
        writes("../../../../project/evil", "x"),
        does(("list_dir", {"path": str(main)})),
        *map(bash, refused),
        bash("git status"),
        bash('echo "$GIT_DIR$GIT_WORK_TREE"'),
        DONE,
    ]
    session = await ran(harness, {"a": [isolated(), DONE], "a.1": child})
    results = await harness.results(session.id, "a.1")
    assert [status for status, _ in results] == ["error"] * 10 + ["ok"] * 2
    assert all("outside the workspace" in text for _, text in results[:4])
    assert all("names a path outside your worktree" in text for _, text in results[4:10])
    assert not (main / "evil").exists()


async def test_git_variables_of_the_environment_do_not_reach_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(harness.project / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(harness.project))
    session = await ran(harness, {"a": [isolated(), DONE], "a.1": [bash("git rev-parse --show-toplevel"), DONE]})
    assert f"{session.id[:8]}-1\n" in (await harness.results(session.id, "a.1"))[0][1]


@pytest.mark.parametrize("nested", [False, True], ids=["same worktree", "own worktree"])
async def test_a_grandchild_works_in_its_parents_worktree_or_in_a_copy_of_it(harness: Harness, nested: bool) -> None:
    delegation = (
        [delegates("helper", "and two", isolation="worktree"), applies("a.1.1")]
        if nested
        else [delegates("helper", "and two")]
    )
    session = await ran(
        harness,
        {
            "a": [isolated(), applies(), DONE],
            "a.1": [writes("one", "1"), *delegation, DONE],
            "a.1.1": [reads("one"), writes("two", "2"), DONE],
        },
    )
    assert await states(harness, session.id, "a.1.1") == (["opened", "changed", "applied"] if nested else [])
    assert await states(harness, session.id) == ["opened", "changed", "applied"]
    assert {"one", "two"} <= listing(harness.project).keys()


async def test_children_of_a_batch_change_the_same_file(harness: Harness) -> None:
    session = await ran(
        harness,
        {
            "a": [
                batch(*(("worker", f"line {n}") for n in (2, 2, 8)), isolation="worktree"),
                applies("a.1"),
                applies("a.2"),
                applies("a.3"),
                discards("a.2", keep_branch=True),
                DONE,
            ],
            "a.1": [reads("a"), edits("a", "2", "two"), DONE],
            "a.2": [reads("a"), edits("a", "2", "zwei"), writes("also", "x"), DONE],
            "a.3": [reads("a"), edits("a", "8", "eight"), DONE],
        },
    )
    results = await harness.results(session.id, "a")
    assert await states(harness, session.id, "a.2") == ["opened", "changed", "kept"]
    assert [status for status, _ in results] == ["ok", "ok", "error", "ok", "ok"]
    assert "- a: it changed here as well, in the same place" in results[2][1]
    assert "+zwei" in results[2][1]
    assert "Merged with newer changes, check them: a" in results[3][1]
    assert listing(harness.project)["a"] == "1\ntwo\n3\n4\n5\n6\n7\neight\n"
    assert "also" not in listing(harness.project)
    assert git(harness.project, "show", f"friday/{session.id[:8]}-2:also") == "x"


# ---- permissions -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "denied"),
    [
        ({"deny": ("apply_delegation(src/**)",)}, "src/"),
        ({"deny": ("edit_file(src/**)",)}, "src/"),
        ({"deny": ("write_file(src/**)",)}, "src/"),
        ({"flags": {"permissions.ask": ("edit_file(x)",)}}, "no person can be asked here"),
        ({"flags": {"permissions.ask": ("edit_file(x)",)}, "deny": ("edit_file(y)",), "attended": True}, "it changes y, denied by the rule"),
        ({}, ".envrc is protected"),
    ],
)  # fmt: skip
async def test_rules_for_files_apply_to_an_apply(harness: Harness, options: Mapping[str, Any], denied: str) -> None:
    names = ["src/x", "x", "y", *([] if options else [".envrc"])]
    hidden = base64.b64encode(" ".join(names).encode()).decode()  # rules do not see these names
    made = f'[(os.makedirs("s" + "rc", exist_ok=True), open(n, "w")) for n in base64.b64decode("{hidden}").decode().split()]'
    command = f"python3 -c 'import base64, os; {made}'"
    session = await ran(harness, {"a": [isolated(), applies(), DONE], "a.1": [bash(command), DONE]}, **options)
    status, text = (await harness.results(session.id, "a"))[1]
    assert (status, denied in text) == ("denied", True)
    assert await states(harness, session.id) == ["opened", "changed"]
    assert {"src/x", "x", "y"}.isdisjoint(listing(harness.project))


@pytest.mark.parametrize("decision", ["deny", "ask"])
async def test_a_difference_with_a_file_that_a_rule_keeps_from_the_parent_is_not_shown(
    harness: Harness, decision: str
) -> None:
    rule = ("read_file(b)",)
    options: dict[str, Any] = {"deny": rule} if decision == "deny" else {"flags": {"permissions.ask": rule}}
    child = [bash("echo more >> b"), writes("x", "x\n"), DONE]
    (harness.project / "b").write_text("CANARY\n")
    session = await ran(harness, {"a": [isolated(), says("go on"), DONE], "a.1": child}, **options)
    report = (await harness.results(session.id, "a"))[0][1]
    assert "- b +1 -0" in report
    assert "CANARY" not in report
    assert "The difference is not shown: a rule denies reading b, or asks first." in report


async def test_the_question_to_a_person_lists_every_path(harness: Harness) -> None:
    harness.plays({"a": [isolated(), applies(), DONE], "a.1": X_AND_Y})
    async with harness.session(mode="ask", attended=True, allow=("write_file", "edit_file")) as session:
        node = session.start("go")
        asked = None
        async for envelope in session.events():
            if isinstance(envelope.event, PermissionAsked):
                asked = envelope.event
                await session.answer(asked.id, ApprovalAnswer("allow"))
                break
        await session.result(node)
    assert asked is not None
    assert (asked.tool, asked.subject) == ("apply_delegation", "x\ny")
    assert {"x", "y"} <= listing(harness.project).keys()


async def test_plan_mode_applies_nothing(harness: Harness) -> None:
    harness.plays({"a": [isolated(), DONE, applies(), DONE], "a.1": X_AND_Y})
    async with harness.after_run(mode="yolo") as session:
        await session.approvals.choose_mode("plan")
        await session.prompt("apply")
        assert (await harness.results(session.id, "a"))[1][0] == "denied"
    assert "x" not in listing(harness.project)


async def test_an_agent_decides_only_about_its_own_children(harness: Harness) -> None:
    decisions = [applies("a.1"), discards("a.1"), applies("a.2"), applies("a.2.1")]
    session = await ran(
        harness,
        {
            "a": [isolated(), delegates("worker"), DONE],
            "a.1": X_AND_Y,
            "a.2": [delegates("helper", "a part"), *decisions, DONE],
        },
    )
    results = await harness.results(session.id, "a.2")
    assert all(status == "error" and "has no worktree" in text for status, text in results[1:])
    assert "x" not in listing(harness.project)


# ---- failures ---------------------------------------------------------------------


async def test_without_a_repository(harness: Harness) -> None:
    shutil.rmtree(harness.project / ".git")
    session = await ran(harness, {"a": [isolated(), batch(("hermit", "x"), ("worker", "y")), DONE]})
    results = await harness.results(session.id, "a")
    started = [e.agent for e in await harness.log(session.id) if isinstance(e.event, AgentStarted)]
    assert results[0][0] == "error"
    assert "Worktrees need a git repository" in results[0][1]
    assert results[1][1].count("Worktrees need a git repository") == 1
    assert started == ["a", "a.1"]
    assert metadata_files() == []


async def test_a_child_that_cannot_start_leaves_no_worktree(harness: Harness) -> None:
    before = own_state(harness.project)
    session = await ran(harness, {"a": [delegates("unknown", isolation="worktree"), DONE]})
    assert (await harness.results(session.id, "a"))[0][0] == "error"
    assert metadata_files() == []
    assert own_state(harness.project) == before


@pytest.mark.parametrize("stop", ["cancel", "abort", "session"])
async def test_the_changes_of_a_stopped_child_can_be_applied(harness: Harness, stop: Any) -> None:
    harness.plays(
        {
            "a": [isolated(background=True), says("Waiting."), DONE],
            "a.1": [writes("x", "x"), bash("sleep 20"), DONE],
        }
    )
    async with harness.session(mode="yolo") as session:
        node = session.start("go")
        await finished(session, "write_file")
        if stop == "session":
            await session.stop()
        else:
            await session.stop("a.1", level=stop)
            with suppress(UsageError):  # it has ended already
                await session.result(node)
            await session.apply_worktree("a.1")
        assert (await states(harness, session.id))[:2] == ["opened", "changed"]
    if stop == "session":  # the next process applies them
        assert len(metadata_files()) == 1
        async with harness.session(mode="yolo", resume=session.id) as resumed:
            assert [f.path for f in await resumed.apply_worktree("a.1")] == ["x"]
            with pytest.raises(UsageError, match="already applied"):
                await resumed.apply_worktree("a.1")
    assert listing(harness.project)["x"] == "x"
    assert (await states(harness, session.id))[-1] == "applied"
    assert metadata_files() == []


async def test_a_person_discards_a_worktree_or_keeps_its_branch(harness: Harness) -> None:
    harness.plays({"a": [isolated(), isolated(), DONE], "*": X_AND_Y})
    async with harness.after_run(mode="yolo") as session:
        await session.discard_worktree("a.1")
        await session.discard_worktree("a.2", keep_branch=True)
        with pytest.raises(UsageError, match="has no worktree"):
            await session.discard_worktree("a.9")
        assert await states(harness, session.id, "a.2") == ["opened", "changed", "kept"]
    assert friday_branches(harness.project) == [f"friday/{session.id[:8]}-2"]


# ---- resumed children ---------------------------------------------------------------


@pytest.mark.parametrize("removed", [False, True], ids=["existing worktree", "new worktree in the same folder"])
async def test_a_resumed_child_works_in_its_folder_again(harness: Harness, removed: bool) -> None:
    decisions = [applies(), resumes()] if removed else [resumes(), applies()]
    session = await ran(
        harness,
        {
            "a": [isolated(), *decisions, DONE],
            "a.1": [writes("x", "first"), DONE, bash("pwd; cat x"), writes("y", "second"), DONE],
        },
    )
    assert f"{session.id[:8]}-1\nfirst" in (await harness.results(session.id, "a.1"))[1][1]
    last = ["applied", "opened", "changed"] if removed else ["opened", "changed", "applied"]
    assert await states(harness, session.id) == ["opened", "changed", *last]
    assert {"x", "y"} - listing(harness.project).keys() == ({"y"} if removed else set())


async def test_a_child_of_an_earlier_process_resumes_in_a_worktree(harness: Harness) -> None:
    session = await ran(harness, {"a": [isolated(), DONE], "a.1": [says("Nothing yet.")]})
    harness.plays({"a.1": [bash("pwd"), writes("x", "x"), DONE]})
    async with harness.session(mode="yolo", resume=session.id) as resumed:
        await resumed.result(await resumed.start_agent("a.1", "continue"))
        assert f"{session.id[:8]}-1\n" in (await harness.results(session.id, "a.1"))[0][1]
        assert "x" not in listing(harness.project)
        assert await states(harness, session.id) == ["opened", "unchanged", "opened", "changed"]


async def test_the_isolation_of_a_child_cannot_change(harness: Harness) -> None:
    session = await ran(harness, {"a": [delegates("worker"), resumes(isolation="worktree"), DONE], "a.1": [DONE]})
    status, text = (await harness.results(session.id, "a"))[1]
    assert (status, "isolation cannot be set with resume" in text) == ("error", True)


async def test_the_prompt_of_a_fork_names_its_folder(harness: Harness) -> None:
    session = await ran(harness, {"a": [isolated(fork=True), DONE], "a.1": X_AND_Y})
    assert await states(harness, session.id) == ["opened", "changed"]
    log = await harness.log(session.id)
    assert any(e.agent == "a.1" and "Your folder is now" in str(e.event) for e in log)
    assert "x" not in listing(harness.project)


async def test_ignored_files_that_the_config_names_are_copied(harness: Harness) -> None:
    (harness.project / ".gitignore").write_text(".env*\n")
    (harness.project / ".env.local").write_text("A=1\n")
    flags = {"agents.delegation.worktree_include": (".env.local",)}
    session = await ran(harness, {"a": [isolated(), DONE], "a.1": [bash("cat .env.local"), DONE]}, flags=flags)
    assert "A=1" in (await harness.results(session.id, "a.1"))[0][1]


# ---- other cases ---------------------------------------------------------------------


async def test_changes_are_determined_when_the_last_agent_in_it_has_ended(harness: Harness) -> None:
    mark = harness.project.parent / "go"
    harness.plays(
        {
            "a": [isolated(), applies(), says("Waiting."), applies(), DONE],
            "a.1": [writes("early", "x"), delegates("helper", "the rest of it", background=True), DONE],
            "a.1.1": [bash(f"{wait_for(mark)} && echo late > late"), DONE],
        }
    )
    async with harness.session(mode="yolo") as session:
        running = asyncio.create_task(session.prompt("go"))
        await finished(session, "apply_delegation")
        mark.touch()
        await running
        results = await harness.results(session.id, "a")
        assert await states(harness, session.id) == ["opened", "changed", "applied"]
    assert "still in use by a.1.1" in results[0][1]
    assert (results[1][0], "a.1.1 still works in that worktree" in results[1][1]) == ("error", True)
    assert {"early", "late"} <= listing(harness.project).keys()


async def test_unapplied_changes_are_in_the_list_and_in_the_notes_after_a_compaction(harness: Harness) -> None:
    harness.plays({"a": [isolated(), does(("list_sub_agents", {})), DONE], "a.1": X_AND_Y})
    async with harness.after_run(mode="yolo") as session:
        assert "its changes wait in its worktree" in (await harness.results(session.id, "a"))[1][1]
        assert "a.1: its changes wait in its worktree" in session._main.agent.subagent_notes()
        await session.discard_worktree("a.1")
        assert "worktree" not in session._main.agent.subagent_notes()


async def test_a_worktree_that_cannot_be_compared_is_reported_and_kept(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_trees, "MOST_BYTES", 10_000)
    harness.plays({"a": [isolated(), applies(), DONE], "a.1": [bash("head -c 20000 /dev/zero > big"), DONE]})
    async with harness.after_run(mode="yolo") as session:
        results = await harness.results(session.id, "a")
        assert "its changes could not be determined" in results[0][1]
        assert results[1][0] == "error"
        assert len(metadata_files()) == 1
        monkeypatch.setattr(git_trees, "MOST_BYTES", 1_000_000)
        assert [f.path for f in await session.apply_worktree("a.1")] == ["big"]


async def test_a_stop_while_the_worktree_is_created(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def fill(*args: Any, **more: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(WorktreeCreator, "fill", fill)
    before = own_state(harness.project)
    harness.plays({"a": [isolated(), says("never")]})
    async with harness.session(mode="yolo") as session:
        node = session.start("go")
        await begun.wait()
        await session.stop()
        await session.result(node)
        ends = [
            e.event for e in await session.history() if isinstance(e.event, AgentFinished) and e.agent == node.agent
        ]
        assert [end.status for end in ends] == ["cancelled"]
        assert metadata_files() == []
    assert own_state(harness.project) == before


async def test_too_many_changed_files_are_not_applied(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "MOST", 3)
    monkeypatch.setattr(git_trees, "LISTED", 2)
    decisions = [applies(), discards(keep_branch=True)]
    session = await ran(harness, {"a": [isolated(), *decisions, DONE], "a.1": [bash("touch f1 f2 f3 f4"), DONE]})
    results = await harness.results(session.id, "a")
    assert "(2 more files)" in results[0][1]
    assert (results[1][0], "4 files changed in the worktree, more than the 3" in results[1][1]) == ("error", True)
    assert results[2][0] == "ok"
