"""A whole session with a sandbox: what passes, what is asked, what the model and the person are told."""

from __future__ import annotations

import asyncio

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Denied, Notice, PermissionAsked, ToolFinished, ToolOutput
from friday_cli.core.protocol.messages import ToolResult
from friday_cli.session.session import Session
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.session.harness import Harness, does, says, wait_for
from tests.workspace.sandbox.conftest import choice, git

__all__ = ["choice"]


async def play(
    harness: Harness, kind: str, *calls: dict[str, object], allow: bool | None = None, network: bool = False
) -> Session:
    """A session in mode auto in which bash is called so, its questions answered with `allow` (None: nobody is there)."""
    harness.plays({"a": [*(does(("bash", call)) for call in calls), says("done")]})
    flags = {"sandbox.kind": kind, "sandbox.network": network}
    async with harness.session(attended=allow is not None, mode="auto", flags=flags) as session:
        answering = asyncio.create_task(_answers(session, allow is True))
        await session.prompt("go")
    await answering
    return session


async def _answers(session: Session, allow: bool) -> None:
    async for envelope in session.events():
        if isinstance(envelope.event, PermissionAsked):
            await session.answer(envelope.event.id, ApprovalAnswer("allow" if allow else "deny"))


def results(session: Session) -> list[ToolResult]:
    return [result for message in session._main.agent.conversation.history for result in message.results]


async def test_in_mode_auto_only_confined_commands_pass_unasked(harness: Harness, choice: SandboxChoice) -> None:
    out = harness.project.parent / "out"
    session = await play(
        harness,
        choice.kind,
        {"command": "echo in > in"},
        {"command": f"echo x > {out}"},
        {"command": f"echo x > {out}", "outside": True, "reason": "wanted there"},
        {"command": f"echo x > {out}", "outside": True},
    )
    first, second, third, fourth = results(session)
    assert session.sandbox == choice.kind
    assert first.status == "ok"
    assert (harness.project / "in").read_text() == "in\n"
    assert third.status == "denied"
    assert "outside the sandbox" in third.text
    assert "need a `reason`" in fourth.text
    assert not out.exists()
    assert second.status == ("ok" if choice.kind == "bubblewrap" and str(out).startswith("/tmp/") else "error")
    denied = [e.event for e in await harness.log(session.id) if isinstance(e.event, Denied)]
    assert len(denied) == 1  # without a reason nobody is even asked


async def test_a_person_can_let_a_command_out(harness: Harness, choice: SandboxChoice) -> None:
    out = harness.project.parent / "out"
    call = {"command": f"echo x > {out}", "outside": True, "reason": "wanted there"}
    session = await play(harness, choice.kind, call, allow=False)
    assert results(session)[0].status == "denied"
    session = await play(harness, choice.kind, call, allow=True)
    assert results(session)[0].status == "ok"
    assert out.read_text() == "x\n"
    asked = [e.event for e in await harness.log(session.id) if isinstance(e.event, PermissionAsked)]
    assert ['because: "wanted there"' in event.reason for event in asked] == [True]


async def test_without_a_sandbox_mode_auto_asks_and_says_so(harness: Harness) -> None:
    session = await play(harness, "none", {"command": "make all"})
    assert session.sandbox == "none"
    assert results(session)[0].status == "denied"
    notices = [e.event.text for e in await harness.log(session.id) if isinstance(e.event, Notice)]
    assert len([text for text in notices if text.startswith("sandbox: none (switched off in the settings)")]) == 1
    assert "outside" not in str(session._main.agent.conversation.tools["bash"].spec.schema)
    assert "run in a sandbox" not in session._main.agent.conversation.system


async def test_a_kind_that_does_not_work_opens_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="bubblewrap does not work here"):
        await play(harness, "bubblewrap")


async def test_changed_protected_files_are_reported_to_the_person_and_the_model(
    harness: Harness, choice: SandboxChoice
) -> None:
    (harness.project / "evil.sh").write_text("mkdir -p .git/x && echo ../evil > .git/commondir\n")
    session = await play(harness, choice.kind, {"command": "sh evil.sh"})
    assert "Protected files changed while this ran: .git/commondir" in results(session)[0].text
    notices = [e.event.text for e in await harness.log(session.id) if isinstance(e.event, Notice)]
    assert any(".git/commondir changed while a command ran" in text for text in notices)


@pytest.mark.parametrize(("path", "more"), [
    (".git/hooks/pre-commit", {}), (".idea/run.xml", {}), (".vscode/tasks.json", {}), ("deep/down/.envrc", {}), (".drone.yml", {}),
    (".git/modules/logs/hooks/pre-commit", {}),
    (".husky/pre-commit", {"background": True}), (".git/config", {"background": True}), (".envrc", {"timeout_s": 1}), (".venv/bin/python", {}), ("node_modules/.bin/tsc", {}),
    ("sub/.git/hooks/pre-commit", {}), ("sub/.vscode/tasks.json", {}), ("sub/deep/.venv/bin/python", {}), (".hg/hgrc", {}),
])  # fmt: skip
async def test_files_that_run_code_later_are_told_whether_anyone_reads_the_result_and_a_rewind_restores_them(
    harness: Harness, choice: SandboxChoice, path: str, more: dict[str, object]
) -> None:
    if choice.kind != "landlock" and path.startswith(".git/"):
        pytest.skip(f"NOT TESTED HERE: {choice.kind} prevents it")
    await git(harness.project, "init", "-q")
    await git(harness.project, "init", "-q", "sub")
    (harness.project / ".gitignore").write_text(".vscode/\n.venv\n")
    changed, ready = harness.project / path, harness.project / "ready"
    before = changed.read_text() if changed.exists() else None
    wait = "; sleep 60" if more else ""
    (harness.project / "evil.sh").write_text(f"mkdir -p $(dirname {path}); echo bad >> {path}; touch ready{wait}\n")
    calls: list[dict[str, object]] = [{"command": "sh evil.sh", **more}]
    if more.get("background"):  # its result is never read
        calls.append({"command": wait_for(ready)})
    harness.plays({"a": [*(does(("bash", call)) for call in calls), says("done")]})
    async with harness.after_run(mode="auto", flags={"sandbox.kind": choice.kind}) as session:
        notices = [e.event.text for e in await harness.log(session.id) if isinstance(e.event, Notice)]
        own = [text for text in notices if text.startswith(f"{path} changed") and text.endswith("(sh evil.sh)")]
        assert len(own) == 1, notices
        assert changed.read_text().endswith("bad\n")
        assert (await session.rewind.to(1, "files")).lost == ()
        assert (changed.read_text() if changed.exists() else None) == before


async def test_what_a_command_changed_before_it_was_stopped_is_told(harness: Harness, choice: SandboxChoice) -> None:
    (harness.project / "evil.sh").write_text("echo bad > .envrc; echo ready; sleep 60\n")
    harness.plays({"a": [does(("bash", {"command": "sh evil.sh"})), says("done")]})
    async with harness.session(mode="auto", flags={"sandbox.kind": choice.kind}) as session:
        run = asyncio.create_task(session.prompt("go"))
        async for envelope in session.events():
            if isinstance(envelope.event, ToolOutput | ToolFinished):
                break
        await session.stop()
        await run
    notices = [e.event.text for e in await harness.log(session.id) if isinstance(e.event, Notice)]
    assert any(text.startswith(".envrc changed while a command ran") for text in notices)


async def test_the_model_knows(harness: Harness, choice: SandboxChoice) -> None:
    session = await play(harness, choice.kind)
    assert "Commands run in a sandbox" in session._main.agent.conversation.system
    assert "network is off" in session._main.agent.conversation.system
    session = await play(harness, choice.kind, network=True)
    assert "network is off" not in session._main.agent.conversation.system


async def test_friday_s_own_folders_are_closed_to_commands(harness: Harness, choice: SandboxChoice) -> None:
    command = 'cat "$FRIDAY_HOME"/data/friday.db; ls -R "$FRIDAY_HOME"/data; true'
    session = await play(harness, choice.kind, {"command": command})
    assert "SQLite" not in results(session)[0].text
    if choice.kind == "bubblewrap":
        assert "friday.db\n" not in results(session)[0].text.replace("data/friday.db", "")
