"""What a frontend can ask of a session, as data: one struct a command, each with the type of its result.

`Session.do` carries them out; a session of another process gets the same structs through its socket. Paths name agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.permissions.rule import Rule
from friday_cli.core.protocol.code_check import LanguageServerRow
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.extensions.skills.skill import Skill
from friday_cli.extensions.tool_lists import Restriction

from .attachments import PromptText
from .rewind_result import Resolve, RewindResult, What

if TYPE_CHECKING:
    from friday_cli.agents.sub_agents import SubAgentRow  # noqa: F401 - in the type of a result
    from friday_cli.mcp.pool import ServerRow  # noqa: F401

    from .context_size import ContextSize  # noqa: F401

R = TypeVar("R")


class Command(msgspec.Struct, Generic[R], frozen=True, tag_field="do", omit_defaults=True):
    """A command with a result of type `R`."""


# ---- messages --------------------------------------------------------------------------------------------------------


class Say(Command[list[str]], frozen=True, tag="say"):
    """Send a message of the person to the main agent, which starts with it, or reads it at its next turn. The result: remarks
    for the person. Raises UsageError if the agent cannot delegate to the profile that the message begins with."""

    text: PromptText
    task: str = ""
    """What the person typed, if the message has more."""
    before: str = ""
    """Text before the message, in which no files are looked for."""
    after: tuple[str, ...] = ()
    """Texts after it, likewise."""
    images: tuple[Image, ...] = ()
    """Sent only with a message that starts a run."""
    restriction: Restriction | None = None
    """Of the tools in the run that it starts."""


class Tell(Command[None], frozen=True, tag="tell"):
    """Send a message to an agent; one that has ended resumes with it. Raises UsageError if it cannot, BudgetSpent if it needs
    more tokens."""

    path: str
    text: str
    max_tokens: int | None = None
    """Replaces what is left of the token budget of one that has ended."""


class LoadSkill(Command[tuple[str, str, str]], frozen=True, tag="load_skill"):
    """Load a skill for the main agent. The result: text before the message, the message, a remark for the person."""

    skill: Skill
    arguments: str


class AnswerQuestion(Command[bool], frozen=True, tag="answer"):
    """Answer a permission request or a question; False if it is no longer open."""

    ask_id: str
    answer: ApprovalAnswer | str


class ExplainQuestion(Command[list[str]], frozen=True, tag="explain"):
    """What an open permission request is about: what would run, what it reaches, which rule or mode asked. Lines of untrusted
    text; none if it is no longer open."""

    ask_id: str


class ShellResult(msgspec.Struct, frozen=True):
    """How a command of the person ended. `exit_code`: None if it was stopped. `blocked`: why its sandbox seems to be the reason, "" if it does
    not."""

    exit_code: int | None
    output: str
    blocked: str = ""


class RunShell(Command[ShellResult], frozen=True, tag="run_shell"):
    """Run a command of the person in the session's folder, without a sandbox. Its output is also given while it runs."""

    command: str


class RunConfined(Command[ShellResult], frozen=True, tag="run_confined"):
    """Run a command that the person wrote once and that runs what agents have changed since: in the sandbox, if there is one."""

    command: str


# ---- agents ----------------------------------------------------------------------------------------------------------


class Stop(Command[int], frozen=True, tag="stop"):
    """Stop an agent and all below it; the result is the number of runs that ended."""

    path: str = "a"
    level: Literal["cancel", "abort"] = "abort"
    keep_background: bool = False
    """Whether sub-agents in the background continue."""


class SendToBackground(Command[bool], frozen=True, tag="send_to_background"):
    """Let a sub-agent that its parent waits for continue in the background; False if it cannot."""

    path: str


class TakeOver(Command[None], frozen=True, tag="take_over"):
    """Work with a running sub-agent in place of its parent; one that has ended is resumed for it. Raises UsageError, BudgetSpent."""

    path: str


class HandBack(Command[None], frozen=True, tag="hand_back"):
    """Hand it back to its parent, with a result of the person, or with its own if that is "". Raises UsageError."""

    path: str
    result: str = ""


class MeasureContext(Command["ContextSize"], frozen=True, tag="measure_context"):
    """What the context window of the main agent holds now, in tokens by part."""


class Compact(Command[tuple[int, int]], frozen=True, tag="compact"):
    """Replace the main agent's history by a summary. The result: tokens before and after. Raises UsageError, FridayError."""

    instructions: str = ""


class ApplyWorktree(Command[tuple[FileChange, ...]], frozen=True, tag="apply_worktree"):
    """Apply what an ended agent changed in its worktree to the session's files. Raises UsageError."""

    path: str


class DiscardWorktree(Command[None], frozen=True, tag="discard_worktree"):
    """Remove the worktree of an ended agent, and its changes unless they are kept on the branch. Raises UsageError."""

    path: str
    keep_branch: bool = False


# ---- rights, profiles, servers ---------------------------------------------------------------------------------------


class SetMode(Command[None], frozen=True, tag="set_mode"):
    """Change the permission mode."""

    mode: Mode


class ListRules(Command[list[Rule]], frozen=True, tag="list_rules"):
    """The permission rules of the settings, of the command line and of this session."""


class RevokeRule(Command[None], frozen=True, tag="revoke_rule"):
    """Remove a rule that a person granted. Raises UsageError, FridayError."""

    rule: Rule


class ListSubAgents(Command["list[SubAgentRow]"], frozen=True, tag="list_sub_agents"):
    """All profiles by name, and which of them the main agent may delegate to."""


class ChooseSubAgents(Command[None], frozen=True, tag="choose_sub_agents"):
    """Let the main agent delegate to these profiles only. Raises UsageError."""

    names: tuple[str, ...]


class ListServers(Command["list[ServerRow]"], frozen=True, tag="list_servers"):
    """The MCP servers. Raises UsageError if the session has none."""


class ReconnectServer(Command[None], frozen=True, tag="reconnect_server"):
    """Connect to an MCP server again. Raises UsageError, ServerError."""

    name: str


class ListLanguageServers(Command[list[LanguageServerRow]], frozen=True, tag="list_language_servers"):
    """The language servers that were needed so far. Raises UsageError if the session has none."""


class SwitchLanguageServers(Command[str], frozen=True, tag="switch_language_servers"):
    """End a language server (all without a `name`), so that it starts again when it is needed, or switch the checks of changes off or
    on. The result: what was done. Raises UsageError."""

    action: Literal["restart", "off", "on"]
    name: str = ""


# ---- going back ------------------------------------------------------------------------------------------------------


class RewindTo(Command[RewindResult], frozen=True, tag="rewind_to"):
    """See `Rewinder.to`."""

    number: int
    what: What = "both"
    dry_run: bool = False
    conflicts: Resolve = "ask"


class UndoRewind(Command[RewindResult], frozen=True, tag="undo_rewind"):
    """See `Rewinder.undo`."""

    dry_run: bool = False
    conflicts: Resolve = "ask"


class RestoreFile(Command[RewindResult], frozen=True, tag="restore_file"):
    """See `Rewinder.restore_file`."""

    key: str
    agent: str | None = None
    conflicts: Resolve = "ask"


class AcceptChanges(Command[None], frozen=True, tag="accept_changes"):
    """See `Rewinder.accept`."""

    key: str


class Fork(Command[str], frozen=True, tag="fork"):
    """See `Rewinder.fork`. The result: the id of the new session."""

    at: int | None = None


AnyCommand = (
    Say
    | Tell
    | LoadSkill
    | AnswerQuestion
    | ExplainQuestion
    | RunShell
    | RunConfined
    | Stop
    | SendToBackground
    | TakeOver
    | HandBack
    | Compact
    | ApplyWorktree
    | DiscardWorktree
    | SetMode
    | ListRules
    | RevokeRule
    | ListSubAgents
    | ChooseSubAgents
    | ListServers
    | ReconnectServer
    | ListLanguageServers
    | SwitchLanguageServers
    | RewindTo
    | UndoRewind
    | RestoreFile
    | AcceptChanges
    | Fork
    | MeasureContext
)


def result_type(command: Command[Any]) -> Any:
    """The type of the result of a command."""
    from friday_cli.agents.sub_agents import SubAgentRow
    from friday_cli.mcp.pool import ServerRow

    from .context_size import ContextSize

    named = {"list[SubAgentRow]": list[SubAgentRow], "list[ServerRow]": list[ServerRow], "ContextSize": ContextSize}
    (found,) = type(command).__orig_bases__[0].__args__  # type: ignore[attr-defined]
    return named.get(getattr(found, "__forward_arg__", ""), found)


def encoded(value: Any) -> Any:
    """A command or a result as what JSON can hold."""
    return msgspec.to_builtins(value, enc_hook=str)


def decoded(value: Any, kind: Any) -> Any:
    """What `encoded` made. Raises msgspec.ValidationError."""
    return msgspec.convert(value, kind, dec_hook=lambda kind, text: kind(text))
