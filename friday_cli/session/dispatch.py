"""Carries out the commands of frontends on an open session: one row for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.limits import Limits

from . import commands as c
from .attachments import PromptText

if TYPE_CHECKING:
    from friday_cli.agents.code_checks import CodeChecks
    from friday_cli.mcp.pool import ServerPool

R = TypeVar("R")
Session = Any
"""A `Session`, which imports this module and so cannot be named here."""
OnOutput = Callable[[str], None]


async def carry_out(session: Session, command: c.Command[R], on_output: OnOutput) -> R:
    """Carry out a command; see its class."""
    if isinstance(command, c.RunShell | c.RunConfined):
        confined = isinstance(command, c.RunConfined)
        ran = await session.run_command(command.command, on_output, confined=confined)
        return c.ShellResult(ran.exit_code, ran.output, ran.blocked)  # type: ignore[return-value]
    result: R = await _ROWS[type(command)](session, command)
    return result


async def _say(session: Session, say: c.Say) -> list[str]:
    body, named, remarks = await session.attach(say.text)
    assert isinstance(remarks, list)
    images = (*say.images, *named)
    body = "\n\n".join(text for text in (say.before, body, *say.after) if text)
    if await session.settled():
        session.start(body, task=say.task or say.text.text, images=images, restriction=say.restriction)
    else:
        await session.send("a", body)
        remarks += ["The agent is at work: the pictures were not sent with it."] if images else []
    return remarks


async def _tell(session: Session, tell: c.Tell) -> None:
    if tell.path == "a":
        await _say(session, c.Say(PromptText(tell.text)))
    elif any(run.agent == tell.path for run in session.running(tell.path)):
        await session.send(tell.path, tell.text)
    else:
        await session.start_agent(tell.path, tell.text, limits=Limits(tokens=tell.max_tokens))


def _servers(session: Session) -> ServerPool:
    servers: ServerPool | None = session.servers
    if servers is None:
        raise UsageError("This session has no MCP servers.", hint="`friday mcp add` adds one.")
    return servers


def _code(session: Session) -> CodeChecks:
    code: CodeChecks | None = session.code
    if code is None:
        hint = "They start in trusted folders (`friday trust`) for languages that `friday lsp list` shows; lsp.enabled = false turns them off."
        raise UsageError("This session has no language servers.", hint=hint)
    return code


async def _at_once(value: R) -> R:
    return value


_ROWS: dict[type, Callable[[Session, Any], Awaitable[Any]]] = {
    c.Say: _say,
    c.Tell: _tell,
    c.LoadSkill: lambda session, do: session.skills.load(do.skill, do.arguments),
    c.AnswerQuestion: lambda session, do: session.answer(do.ask_id, do.answer),
    c.ExplainQuestion: lambda session, do: _at_once(session.approvals.explain(do.ask_id)),
    c.Stop: lambda session, do: session.stop(do.path, level=do.level, keep_background=do.keep_background),
    c.SendToBackground: lambda session, do: session.detach(do.path),
    c.TakeOver: lambda session, do: session.takeover.begin(do.path),
    c.HandBack: lambda session, do: session.takeover.end(do.path, do.result),
    c.MeasureContext: lambda session, do: _at_once(session.context_size),
    c.Compact: lambda session, do: session.compact(do.instructions),
    c.ApplyWorktree: lambda session, do: session.apply_worktree(do.path),
    c.DiscardWorktree: lambda session, do: session.discard_worktree(do.path, keep_branch=do.keep_branch),
    c.SetMode: lambda session, do: session.approvals.choose_mode(do.mode),
    c.ListRules: lambda session, do: _at_once(session.permissions.rules()),
    c.RevokeRule: lambda session, do: session.permissions.revoke(do.rule),
    c.ListSubAgents: lambda session, do: _at_once(session.sub_agents.rows()),
    c.ChooseSubAgents: lambda session, do: session.sub_agents.choose(do.names),
    c.ListServers: lambda session, do: _at_once(_servers(session).rows()),
    c.ReconnectServer: lambda session, do: _servers(session).reconnect(do.name),
    c.ListLanguageServers: lambda session, do: _code(session).rows(),
    c.SwitchLanguageServers: lambda session, do: _code(session).switch(do.action, do.name),
    c.RewindTo: lambda session, do: session.rewind.to(do.number, do.what, dry_run=do.dry_run, conflicts=do.conflicts),
    c.UndoRewind: lambda session, do: session.rewind.undo(dry_run=do.dry_run, conflicts=do.conflicts),
    c.RestoreFile: lambda session, do: session.rewind.restore_file(do.key, do.agent, conflicts=do.conflicts),
    c.AcceptChanges: lambda session, do: session.rewind.accept(do.key),
    c.Fork: lambda session, do: session.rewind.fork(do.at),
}
