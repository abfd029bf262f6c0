"""Makes the hooks of a session from the files of the person and of a trusted project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from friday_cli.core.agent.agent import Agent, Hooks
from friday_cli.core.eventlog.log import Log
from friday_cli.core.permissions.approvals import ApprovalQueue
from friday_cli.core.protocol.events import Envelope, SessionStarted
from friday_cli.core.protocol.forecast import as_json
from friday_cli.core.subagents.node import AgentSummary, SpawnEstimate
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions.frontmatter import contents
from friday_cli.extensions.hooks.hook import Hook
from friday_cli.extensions.hooks.read import HookFile, HookFiles, read_hooks
from friday_cli.extensions.trust import HOOK_FILES, Trust, trusted_content
from friday_cli.system.paths import config_dir

from ..program import Program
from ..project_programs import ProjectPrograms
from ..spawn_estimates import SpawnEstimates
from .functions import HookFunctions, hook_functions
from .input import HookInputs
from .process import HookProcesses
from .runner import HookRunner
from .session_hooks import SessionHooks


def hook_files(env: Mapping[str, str], root: Path | None, trusted: Mapping[str, str], *, claude: bool) -> HookFiles:
    """The hooks files of the person and, if it is trusted (`root` is not None), of a project, whose trusted files are
    `trusted` with their sha256. `claude`: read those of Claude Code too."""
    found: list[HookFile] = []
    problems: list[str] = []
    own = config_dir(env) / "hooks.json"
    if own.is_file():
        raw = contents(own)
        if isinstance(raw, bytes):
            found.append(HookFile(own, raw, "user"))
        else:
            problems.append(str(raw))
    for name in (HOOK_FILES if claude else HOOK_FILES[:1]) if root is not None else ():
        if name in trusted and root is not None:
            raw = trusted_content(root / name, trusted[name])
            if isinstance(raw, bytes):
                found.append(HookFile(root / name, raw, "project", root, trusted))
            else:
                problems.append(str(raw))
    return HookFiles(tuple(found), tuple(problems))


def configured_hooks(trust: Trust | None, env: Mapping[str, str], *, claude: bool) -> tuple[list[Hook], list[str]]:
    """All hooks of the person and of a trusted project, and lines about those that cannot be used."""
    root = trust.root if trust is not None and trust.ok else None
    return read_hooks(hook_files(env, root, trust.files if trust is not None else {}, claude=claude))


class HookedSession(NamedTuple):
    """What the hooks of a session see of it."""

    id: str
    log: Log
    approvals: ApprovalQueue
    estimates: SpawnEstimates
    known: Callable[[str], AgentSummary | None]
    """What is known of a sub-agent."""


def make_hooks(
    programs: ProjectPrograms,
    program: Program | None,
    session: HookedSession,
    *,
    claude: bool,
    after_calls: Hooks | None = None,
) -> tuple[SessionHooks | None, list[str]]:
    """The hooks of a session, None if there are none, and lines for the person about those that cannot be used. `programs` says
    which of a project's may run. Those of the `program` that opened the session come last. `claude`: read those of Claude Code too.
    `after_calls` answers in place of those that run after calls."""
    hooks, problems = configured_hooks(programs.project, programs.env, claude=claude)
    workspace, estimates = programs.workspace, session.estimates
    if any(hook.source == "project" for hook in hooks) and not programs.unconfined and not workspace.sandbox_access(""):
        problems.append("No sandbox works here, so the project's hooks do not run.")
        hooks = [hook for hook in hooks if hook.source == "user" or hook.blocks]
    functions = hook_functions(program.hooks if program else {})
    can_use = program.can_use if program else None
    if not (hooks or functions or can_use):
        return None, problems

    async def estimate(agent: Agent, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The sub-agents that a call starts, the most that they may cost in US dollars (None if a price is unknown), and what
        each usually uses."""
        tasks = [task for task in arguments.get("tasks", [arguments]) if isinstance(task, dict)]
        wanted = [
            SpawnEstimate(agent.conversation.provider, str(task.get("profile", "")), _tokens(task)) for task in tasks
        ]
        prices = [estimates.highest_cost(one) for one in wanted]
        sizes = [len(str(task.get("task", ""))) for task in tasks]
        usual = [await estimates.forecast(one, size) for one, size in zip(wanted, sizes, strict=True)]
        cost = None if None in prices else sum(price for price in prices if price is not None)
        return {"agents": len(prices), "max_cost": cost, "usual": [as_json(forecast) for forecast in usual]}

    programs.begin(hooks, ())
    processes = HookFunctions(functions, HookProcesses(programs.env, programs))
    inputs = HookInputs(session.id, lambda: workspace.overflow.folder() / "hooks")
    runner = HookRunner([*hooks, *functions], processes, inputs, session.log)
    made = SessionHooks(
        runner, session.approvals, known=session.known, estimate=estimate, can_use=can_use, after_calls=after_calls
    )
    return made, problems


async def announce(hooks: Hooks, tree: SubagentTree, history: Sequence[Envelope]) -> list[str]:
    """Run the hooks of SessionStart. `history`: the events before this opening. Returns context for the model."""
    if not isinstance(hooks, SessionHooks):  # those of a replay have said it
        return []
    first = next((e.event for e in history if isinstance(e.event, SessionStarted)), None)
    source: Literal["startup", "resume", "fork"] = "startup" if first is None else "fork" if first.forked else "resume"
    return list(filter(None, [await hooks.session_started(tree.root, source)]))


def _tokens(task: Mapping[str, Any]) -> int | None:
    tokens = task.get("max_tokens")
    return tokens if isinstance(tokens, int) else None
