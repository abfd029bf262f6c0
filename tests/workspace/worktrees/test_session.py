"""Worktrees through a whole session: from the call that asks for one to what becomes of the work."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.displays import DiffsDisplay
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentStarted, PermissionAsked, Prefix, ToolFinished, WorktreeChanged
from friday_cli.paths import data_dir
from friday_cli.session.session import Session
from friday_cli.view import SessionView, render_tree
from friday_cli.workspace.worktrees import apply, git_trees
from friday_cli.workspace.worktrees.create import WorktreeCreator
from tests.session.harness import Stage, delegates, does, says, wait_for
from tests.workspace.worktrees.repo_fixture import git, listing, own_state

YOLO = {"mode": "yolo"}


def writes(path: str, content: str) -> dict[str, Any]:
    return does(("write_file", {"path": path, "content": content}))


def applies(path: str = "a.1") -> dict[str, Any]:
    return does(("apply_delegation", {"id": path}))


def discards(path: str = "a.1", **more: Any) -> dict[str, Any]:
    return does(("discard_delegation", {"id": path, **more}))


def apart(task: str = "look", **more: Any) -> dict[str, Any]:
    return delegates("worker", task, isolation="worktree", **more)


async def states(stage: Stage, session: str, path: str = "a.1") -> list[str]:
    return [e.event.state for e in await stage.log(session) if e.agent == path and isinstance(e.event, WorktreeChanged)]


def metadata_files() -> list[Path]:
    return sorted((data_dir() / "worktrees").glob("*/*.json"))


async def test_a_child_works_apart_and_its_work_is_taken_over(stage: Stage) -> None:
    (stage.project / "b").write_text("uncommitted\n")
    stage.plays({
        "a": [apart(), applies(), says("Done.")],
        "a.1": [
            does(("read_file", {"path": "b"})),
            writes("new", "new\n"),
            does(("edit_file", {"path": "b", "edits": [{"old": "uncommitted", "new": "changed"}]})),
            says("I changed b."),
        ],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        envelopes = await stage.log(session.id)
        results = await stage.results(session.id, "a")
    assert listing(stage.project)["b"] == "changed\n"
    assert listing(stage.project)["new"] == "new\n"
    status, report = results[0]
    assert status == "ok"
    assert "branch friday/" in report
    assert "2 files changed. They are NOT in your files yet:" in report
    assert "- b +1 -1\n- new +1 -0 (new)" in report
    assert "-uncommitted\n+changed" in report
    assert "apply_delegation(id='a.1')" in report
    assert results[1][1].startswith("Applied the changes of a.1")
    finished = [e.event for e in envelopes if isinstance(e.event, ToolFinished) and e.event.tool == "apply_delegation"]
    assert {f.path for f in finished[0].facts.files} == {"b", "new"}
    assert all(len(f.sha256) == 64 for f in finished[0].facts.files)
    assert isinstance(finished[0].display, DiffsDisplay)
    assert [(d.path, d.added, d.removed) for d in finished[0].display.files] == [("b", 1, 1), ("new", 1, 0)]
    assert await states(stage, session.id) == ["opened", "changed", "applied"]
    order = [type(e.event) for e in envelopes if e.agent == "a.1"]
    assert order.index(AgentStarted) < order.index(WorktreeChanged)
    assert metadata_files() == []
    assert git(stage.project, "for-each-ref", "refs/heads/friday") == ""
    view = SessionView.of(envelopes)
    assert "2 files changed +2 -1, applied" in "\n".join(render_tree(view))


async def test_until_then_the_parents_files_stay_as_they_are(stage: Stage) -> None:
    stage.plays({
        "a": [apart(), does(("read_file", {"path": "a"})), says("Done.")],
        "a.1": [writes("new", "x"), does(("bash", {"command": "echo 9 >> a; git branch --show-current; pwd"})), says("ok")],
    })  # fmt: skip
    before, files = own_state(stage.project), listing(stage.project)
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a.1")
        assert listing(stage.project) == files
        assert {name: own_state(stage.project).get(name) for name in before} == before
    folder = data_dir() / "worktrees" / session.id / f"{session.id[:8]}-1"
    assert f"friday/{session.id[:8]}-1\n{folder}\n" in results[1][1]
    assert (folder / "new").read_text() == "x"


async def test_nothing_changed_and_it_is_gone(stage: Stage) -> None:
    before = own_state(stage.project)
    stage.plays({"a": [apart(), says("Done.")], "a.1": [does(("read_file", {"path": "a"})), says("Nothing to do.")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert "nothing was changed in it; it is removed" in (await stage.results(session.id, "a"))[0][1]
        assert await states(stage, session.id) == ["opened", "unchanged"]
        assert own_state(stage.project) == before
    assert not (data_dir() / "worktrees" / session.id).exists()


async def test_a_profile_can_ask_for_it(stage: Stage) -> None:
    stage.plays({"a": [delegates("hermit"), says("Done.")], "a.1": [writes("new", "x"), says("ok")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert await states(stage, session.id) == ["opened", "changed"]
        assert not (stage.project / "new").exists()


async def test_the_child_is_told_where_it_is(stage: Stage) -> None:
    stage.plays({"a": [apart(), says("Done.")], "a.1": [says("ok")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        prefix = next(e.event for e in await stage.log(session.id) if e.agent == "a.1" and isinstance(e.event, Prefix))
    folder = data_dir() / "worktrees" / session.id / f"{session.id[:8]}-1"
    assert f"Folder: {folder}\n" in prefix.system
    assert f"a copy of {stage.project}" in prefix.system
    assert f"Git branch: friday/{session.id[:8]}-1" in prefix.system


async def test_tools_do_not_reach_the_main_checkout(stage: Stage) -> None:
    main = stage.project
    commands = [
        f"cat {main}/a",
        f"cd '{main}' && ls",
        f"git -C {main} status",
        f"git --git-dir={main}/.git log",
        "git --work-tree=.. status",
        "GIT_DIR=x git log",
        "git status",
        'echo "$GIT_DIR$GIT_WORK_TREE"',
    ]
    stage.plays({
        "a": [apart(), says("Done.")],
        "a.1": [
            does(("read_file", {"path": f"{main}/a"})),
            writes(f"{main}/evil", "x"),
            writes("../../../../project/evil", "x"),
            does(("list_dir", {"path": str(main)})),
            *(does(("bash", {"command": command})) for command in commands),
            says("ok"),
        ],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a.1")
    assert [status for status, _ in results] == ["error"] * 10 + ["ok"] * 2
    assert all("outside the workspace" in text for _, text in results[:4])
    assert all("names a path outside your worktree" in text for _, text in results[4:10])
    assert not (main / "evil").exists()


async def test_git_variables_of_the_environment_do_not_reach_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(stage.project / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(stage.project))
    stage.plays(
        {
            "a": [apart(), says("Done.")],
            "a.1": [does(("bash", {"command": "git rev-parse --show-toplevel"})), says("ok")],
        }
    )
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert f"{session.id[:8]}-1\n" in (await stage.results(session.id, "a.1"))[0][1]


async def test_its_own_children_work_in_the_same_place(stage: Stage) -> None:
    stage.plays({
        "a": [apart(), applies(), says("Done.")],
        "a.1": [writes("one", "1"), delegates("helper", "and two"), says("ok")],
        "a.1.1": [does(("read_file", {"path": "one"})), writes("two", "2"), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert await states(stage, session.id, "a.1.1") == []
        assert await states(stage, session.id) == ["opened", "changed", "applied"]
    assert {"one", "two"} <= listing(stage.project).keys()


async def test_a_child_apart_from_a_child_apart(stage: Stage) -> None:
    stage.plays({
        "a": [apart(), applies(), says("Done.")],
        "a.1": [writes("one", "1"), delegates("helper", "and two", isolation="worktree"), applies("a.1.1"), says("ok")],
        "a.1.1": [does(("read_file", {"path": "one"})), writes("two", "2"), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert await states(stage, session.id, "a.1.1") == ["opened", "changed", "applied"]
    assert {"one", "two"} <= listing(stage.project).keys()


async def test_two_of_a_batch_change_the_same_file(stage: Stage) -> None:
    tasks = [{"profile": "worker", "task": f"line {n}", "isolation": "worktree"} for n in (2, 2, 8)]
    edit = lambda old, new: does(("edit_file", {"path": "a", "edits": [{"old": old, "new": new}]}))  # noqa: E731
    read = does(("read_file", {"path": "a"}))
    stage.plays({
        "a": [does(("delegate_tasks", {"tasks": tasks})), applies("a.1"), applies("a.2"), applies("a.3"),
              discards("a.2", keep_branch=True), says("Done.")],
        "a.1": [read, edit("2", "two"), says("ok")],
        "a.2": [read, edit("2", "zwei"), writes("also", "x"), says("ok")],
        "a.3": [read, edit("8", "eight"), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a")
        assert await states(stage, session.id, "a.2") == ["opened", "changed", "kept"]
    assert [status for status, _ in results] == ["ok", "ok", "error", "ok", "ok"]
    assert "- a: it changed here as well, in the same place" in results[2][1]
    assert "+zwei" in results[2][1]
    assert "Merged with newer changes, check them: a" in results[3][1]
    assert listing(stage.project)["a"] == "1\ntwo\n3\n4\n5\n6\n7\neight\n"
    assert "also" not in listing(stage.project)
    assert git(stage.project, "show", f"friday/{session.id[:8]}-2:also") == "x"


# ---- permissions -----------------------------------------------------------------


@pytest.mark.parametrize("rule", ["apply_delegation(src/**)", "edit_file(src/**)", "write_file(src/**)"])
async def test_rules_about_files_hold_for_applying(stage: Stage, rule: str) -> None:
    stage.plays(
        {
            "a": [apart(), applies(), says("Done.")],
            "a.1": [does(("bash", {"command": "mkdir src; touch src/x y"})), says("ok")],
        }
    )
    async with stage.session(**YOLO, deny=(rule,)) as session:
        await session.prompt("go")
        status, text = (await stage.results(session.id, "a"))[1]
        assert status == "denied"
        assert "src/" in text
        assert await states(stage, session.id) == ["opened", "changed"]
    assert {"src/x", "y"}.isdisjoint(listing(stage.project))


async def test_rules_that_ask_about_files_hold_and_a_deny_comes_first(stage: Stage) -> None:
    stage.plays({"a": [apart(), applies(), says("Done.")], "a.1": [writes("x", "x"), writes("y", "y"), says("ok")]})
    flags = {"permissions.ask": ("edit_file(x)",)}
    async with stage.session(**YOLO, flags=flags) as session:
        await session.prompt("go")
        assert "no person can be asked here" in (await stage.results(session.id, "a"))[1][1]
    async with stage.session(**YOLO, flags=flags, deny=("edit_file(y)",), attended=True) as session:
        await session.prompt("go")
        status, text = (await stage.results(session.id, "a"))[1]
        assert (status, text.startswith("Not permitted: y: ")) == ("denied", True)
    assert {"x", "y"}.isdisjoint(listing(stage.project))


async def test_protected_files_are_asked_about_in_every_mode(stage: Stage) -> None:
    stage.plays(
        {
            "a": [apart(), applies(), says("Done.")],
            "a.1": [does(("bash", {"command": "touch .envrc y"})), says("ok")],
        }
    )
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        status, text = (await stage.results(session.id, "a"))[1]
    assert (status, ".envrc is protected" in text) == ("denied", True)
    assert "y" not in listing(stage.project)


async def test_a_person_sees_every_path_before(stage: Stage) -> None:
    stage.plays({"a": [apart(), applies(), says("Done.")], "a.1": [writes("x", "x"), writes("y", "y"), says("ok")]})
    allow = ("write_file", "edit_file")
    async with stage.session(mode="ask", attended=True, allow=allow) as session:
        node = session.start("go")
        asked = None
        async for envelope in session.events():
            if isinstance(envelope.event, PermissionAsked):
                asked = envelope.event
                await session.answer(asked.id, ApprovalAnswer("allow"))
                break
        await node.finished()
    assert asked is not None
    assert (asked.tool, asked.subject) == ("apply_delegation", "x\ny")
    assert {"x", "y"} <= listing(stage.project).keys()


async def test_plan_mode_applies_nothing(stage: Stage) -> None:
    stage.plays({"a": [apart(), says("Done."), applies(), says("Done.")], "a.1": [writes("x", "x"), says("ok")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        await session.permissions.set_mode("plan")
        await session.prompt("apply")
        assert (await stage.results(session.id, "a"))[1][0] == "denied"
    assert "x" not in listing(stage.project)


async def test_only_what_is_below_the_caller(stage: Stage) -> None:
    stage.plays({
        "a": [apart(), delegates("worker"), says("Done.")],
        "a.1": [writes("x", "x"), says("ok")],
        "a.2": [delegates("helper", "a part"), applies("a.1"), discards("a.1"), applies("a.2"), applies("a.2.1"), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a.2")
    assert all(status == "error" and "has no worktree" in text for status, text in results[1:])
    assert "x" not in listing(stage.project)


# ---- failures ---------------------------------------------------------------------


async def test_without_a_repository(stage: Stage) -> None:
    shutil.rmtree(stage.project / ".git")
    tasks = [{"profile": "hermit", "task": "x"}, {"profile": "worker", "task": "y"}]
    stage.plays({"a": [apart(), does(("delegate_tasks", {"tasks": tasks})), says("Done.")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a")
        started = [e.agent for e in await stage.log(session.id) if isinstance(e.event, AgentStarted)]
    assert results[0][0] == "error"
    assert "is not in a git repository" in results[0][1]
    assert results[1][1].count("is not in a git repository") == 1
    assert started == ["a", "a.1"]
    assert metadata_files() == []


async def test_a_child_that_may_not_start_leaves_no_worktree(stage: Stage) -> None:
    stage.plays({"a": [delegates("nobody", isolation="worktree"), says("Done.")]})
    before = own_state(stage.project)
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert (await stage.results(session.id, "a"))[0][0] == "error"
        assert metadata_files() == []
    assert own_state(stage.project) == before


@pytest.mark.parametrize("level", ["cancel", "abort"])
async def test_a_stopped_child_keeps_what_it_did(stage: Stage, level: Any) -> None:
    stage.plays({
        "a": [apart(background=True), says("Waiting."), says("Heard.")],
        "a.1": [writes("x", "x"), does(("bash", {"command": "touch there; sleep 20"})), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        node = session.start("go")
        async for envelope in session.events():
            if (
                envelope.agent == "a.1"
                and getattr(envelope.event, "tool", "") == "write_file"
                and isinstance(envelope.event, ToolFinished)
            ):
                break
        await session.stop("a.1", level=level)
        await node.finished()
        assert (await states(stage, session.id))[:2] == ["opened", "changed"]
        await session.apply_worktree("a.1")
    assert listing(stage.project)["x"] == "x"


async def test_a_stopped_parent_loses_nothing_and_the_next_process_applies_it(stage: Stage) -> None:
    stage.plays({
        "a": [apart(), says("Done.")],
        "a.1": [writes("x", "x"), does(("bash", {"command": "sleep 20"})), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        session.start("go")
        async for envelope in session.events():
            if isinstance(envelope.event, ToolFinished) and envelope.event.tool == "write_file":
                break
        await session.stop()
        assert await states(stage, session.id) == ["opened", "changed"]
    assert len(metadata_files()) == 1
    async with stage.session(**YOLO, resume=session.id) as again:
        files = await again.apply_worktree("a.1")
        assert [f.path for f in files] == ["x"]
        with pytest.raises(UsageError, match="applied already"):
            await again.apply_worktree("a.1")
    assert listing(stage.project)["x"] == "x"
    assert await states(stage, session.id) == ["opened", "changed", "applied"]
    assert metadata_files() == []


async def test_a_person_discards_or_keeps(stage: Stage) -> None:
    stage.plays({"a": [apart(), apart(), says("Done.")], "*": [writes("x", "x"), says("ok")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        await session.discard_worktree("a.1")
        await session.discard_worktree("a.2", keep_branch=True)
        with pytest.raises(UsageError, match="has no worktree"):
            await session.discard_worktree("a.9")
        assert await states(stage, session.id, "a.2") == ["opened", "changed", "kept"]
    assert git(stage.project, "for-each-ref", "--format=%(refname:short)", "refs/heads/friday").split() == [
        f"friday/{session.id[:8]}-2"
    ]


# ---- going on -----------------------------------------------------------------------


async def _resumed(stage: Stage, session: Session) -> list[tuple[str, str]]:
    await session.prompt("and on")
    return await stage.results(session.id, "a.1")


async def test_a_continued_child_finds_its_worktree_again(stage: Stage) -> None:
    where = does(("bash", {"command": "pwd; cat x"}))
    stage.plays({
        "a": [apart(), does(("delegate_task", {"resume": "a.1", "task": "more"})), applies(), says("Done.")],
        "a.1": [writes("x", "first"), says("ok"), where, writes("y", "second"), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a.1")
        assert await states(stage, session.id) == ["opened", "changed", "opened", "changed", "applied"]
    assert f"{session.id[:8]}-1\nfirst" in results[1][1]
    assert {"x", "y"} <= listing(stage.project).keys()


async def test_a_continued_child_whose_worktree_is_gone_gets_a_new_one_in_the_same_place(stage: Stage) -> None:
    where = does(("bash", {"command": "pwd; cat x"}))
    stage.plays({
        "a": [apart(), applies(), does(("delegate_task", {"resume": "a.1", "task": "more"})), applies(), says("Done.")],
        "a.1": [writes("x", "first"), says("ok"), where, writes("y", "second"), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a.1")
    assert f"{session.id[:8]}-1\nfirst" in results[1][1]
    assert listing(stage.project)["y"] == "second"


async def test_a_child_of_an_earlier_process_goes_on_apart(stage: Stage) -> None:
    stage.plays({"a": [apart(), says("Done.")], "a.1": [says("Nothing yet.")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
    stage.plays({"a.1": [does(("bash", {"command": "pwd"})), writes("x", "x"), says("ok")]})
    async with stage.session(**YOLO, resume=session.id) as again:
        await again.resume_agent("a.1", "go on")
        assert f"{session.id[:8]}-1\n" in (await stage.results(session.id, "a.1"))[0][1]
        assert "x" not in listing(stage.project)
        assert await states(stage, session.id) == ["opened", "unchanged", "opened", "changed"]


async def test_where_a_child_works_cannot_change(stage: Stage) -> None:
    stage.plays({
        "a": [delegates("worker"), does(("delegate_task", {"resume": "a.1", "task": "more", "isolation": "worktree"})), says("Done.")],
        "a.1": [says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        status, text = (await stage.results(session.id, "a"))[1]
    assert status == "error"
    assert "isolation cannot be set with resume" in text


async def test_a_fork_apart_is_told_its_folder(stage: Stage) -> None:
    stage.plays({"a": [apart(fork=True), says("Done.")], "a.1": [writes("x", "x"), says("ok")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert await states(stage, session.id) == ["opened", "changed"]
        told = [e for e in await stage.log(session.id) if e.agent == "a.1" and "Your folder is now" in str(e.event)]
        assert told
    assert "x" not in listing(stage.project)


async def test_the_config_names_ignored_files_to_take_along(stage: Stage) -> None:
    (stage.project / ".gitignore").write_text(".env*\n")
    (stage.project / ".env.local").write_text("A=1\n")
    stage.plays({"a": [apart(), says("Done.")], "a.1": [does(("bash", {"command": "cat .env.local"})), says("ok")]})
    flags = {"agents.delegation.worktree_include": (".env.local",)}
    async with stage.session(**YOLO, flags=flags) as session:
        await session.prompt("go")
        assert "A=1" in (await stage.results(session.id, "a.1"))[0][1]


# ---- the rest ------------------------------------------------------------------------


async def test_it_is_looked_at_when_the_last_one_in_it_has_ended(stage: Stage) -> None:
    mark = stage.project.parent / "go"
    late = does(("bash", {"command": f"{wait_for(mark)} && echo late > late"}))
    stage.plays({
        "a": [apart(), applies(), says("Waiting."), applies(), says("Done.")],
        "a.1": [writes("early", "x"), delegates("helper", "the rest of it", background=True), says("ok")],
        "a.1.1": [late, says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        running = asyncio.create_task(session.prompt("go"))
        async for envelope in session.events():
            if isinstance(envelope.event, ToolFinished) and envelope.event.tool == "apply_delegation":
                break
        mark.touch()
        await running
        results = await stage.results(session.id, "a")
        assert await states(stage, session.id) == ["opened", "changed", "applied"]
    assert "still in use by a.1.1" in results[0][1]
    assert (results[1][0], "a.1.1 still works in that worktree" in results[1][1]) == ("error", True)
    assert {"early", "late"} <= listing(stage.project).keys()


async def test_work_that_waits_is_in_the_list_and_outlives_a_compaction(stage: Stage) -> None:
    stage.plays({"a": [apart(), does(("list_sub_agents", {})), says("Done.")], "a.1": [writes("x", "x"), says("ok")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        assert "its changes wait in its worktree" in (await stage.results(session.id, "a"))[1][1]
        assert "a.1: its changes wait in its worktree" in session._main.agent.subagent_notes()
        await session.discard_worktree("a.1")
        assert "worktree" not in session._main.agent.subagent_notes()


async def test_what_cannot_be_compared_is_said_and_stays(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_trees, "MOST_BYTES", 10_000)
    stage.plays({
        "a": [apart(), applies(), says("Done.")],
        "a.1": [does(("bash", {"command": "head -c 20000 /dev/zero > big"})), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a")
        assert "its changes could not be determined" in results[0][1]
        assert results[1][0] == "error"
        assert len(metadata_files()) == 1
        monkeypatch.setattr(git_trees, "MOST_BYTES", 1_000_000)
        assert [f.path for f in await session.apply_worktree("a.1")] == ["big"]


async def test_stopped_while_the_worktree_is_made(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def fill(*args: Any, **more: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(WorktreeCreator, "fill", fill)
    before = own_state(stage.project)
    stage.plays({"a": [apart(), says("never")]})
    async with stage.session(**YOLO) as session:
        node = session.start("go")
        await begun.wait()
        await session.stop()
        await node.finished()
        assert node.outcome.status == "cancelled"
        assert metadata_files() == []
    assert own_state(stage.project) == before


async def test_too_many_changed_files_are_left_to_git(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "MOST", 3)
    monkeypatch.setattr(git_trees, "LISTED", 2)
    stage.plays({
        "a": [apart(), applies(), discards(keep_branch=True), says("Done.")],
        "a.1": [does(("bash", {"command": "touch f1 f2 f3 f4"})), says("ok")],
    })  # fmt: skip
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a")
    assert "(2 more files)" in results[0][1]
    assert (results[1][0], "4 files changed in the worktree, more than the 3" in results[1][1]) == ("error", True)
    assert results[2][0] == "ok"


async def test_the_log_knows_how_it_stands(stage: Stage) -> None:
    stage.plays({"a": [apart(), says("Done.")], "a.1": [writes("x", "x"), says("ok")]})
    async with stage.session(**YOLO) as session:
        await session.prompt("go")
    known = replay(await stage.log(session.id))["a.1"].worktree
    assert known is not None
    assert (known.state, [f.path for f in known.files]) == ("changed", ["x"])
    assert known.folder == str(metadata_files()[0].with_suffix(""))
