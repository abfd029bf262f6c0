"""`friday hooks`: lists the hooks, and runs those of an event on an example."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import typer

from friday_cli.agents.hooks.process import HookProcesses
from friday_cli.agents.hooks.setup import configured_hooks
from friday_cli.agents.project_programs import ProjectPrograms
from friday_cli.command_safety import AnalysisContext, analyze
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.tool_catalog import BASH, TOOLS
from friday_cli.extensions.hooks.answer import Answer
from friday_cli.extensions.hooks.claude_names import matched_names
from friday_cli.extensions.hooks.hook import EVENTS, Hook
from friday_cli.extensions.hooks.samples import sample, subjects_of
from friday_cli.session.sandbox import sandbox_policy
from friday_cli.system.paths import cache_dir, config_dir, with_tilde, working_folder
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import detect_sandbox

from .help import add_family
from .output import remark, show_json, show_table
from .project_context import ProjectContext, load_context
from .session_args import JSON


def register(app: typer.Typer, about: str) -> None:
    """Add the family `hooks`."""
    add_family(app, "hooks", about, {"list": list_, "test": run_test})


def list_(as_json: bool = JSON) -> None:
    """List the hooks in the order in which their answers are combined."""
    context = load_context()
    hooks, problems = _hooks(context)
    if as_json:
        show_json({"hooks": [_plain(hook) for hook in hooks], "problems": problems})
        return
    if hooks:
        rows = [(hook.event, hook.matcher or "*", hook.name, hook.source, with_tilde(hook.file)) for hook in hooks]
        show_table(("EVENT", "MATCHER", "COMMAND", "WHOSE", "FILE"), rows, wide=("COMMAND", "FILE"))
    elif not problems:
        file = with_tilde(config_dir() / "hooks.json")
        remark(f"no hooks; they are written in {file}, which `friday config schema hooks` describes")
    if not context.trust_status.ok and not context.trust_status.files.keys().isdisjoint([".friday/hooks.json"]):
        remark("the hooks of this project are not used: it is not trusted (`friday trust`)")
    for problem in problems:
        remark(problem)


def run_test(
    event: str = typer.Argument(metavar="EVENT", help="The event, such as PreToolUse."),
    agent: str = typer.Option("a", "--agent", metavar="PATH", help="The agent: a, or a sub-agent such as a.1."),
    profile: str = typer.Option("friday", "--profile", metavar="NAME", help="The profile of the agent."),
    given: str = typer.Option(
        "", "--input", metavar="FILE", help="A JSON object to change the example with; - is standard input."
    ),
    as_json: bool = JSON,
) -> None:
    """Run the hooks of an event on an example, and show what they answer.

    Nothing else happens: no session, no call. `--input` has fields such as tool_name and tool_input.
    """
    if event not in EVENTS:
        raise UsageError(f"Unknown event {event!r}.", hint=f"Events: {', '.join(EVENTS)}.")
    context = load_context()
    hooks, problems = _hooks(context)
    text = {**sample(event, str(working_folder()), agent, profile), **_read(given)}
    name = str(text.get("tool_name", ""))
    ours = next(iter(TOOLS.named(name)), name)
    subjects = tuple(dict.fromkeys((name, *matched_names(ours)))) if name else subjects_of(event, text)
    wanted = _wanted(ours, text.get("tool_input"))
    found = [hook for hook in hooks if hook.event == event and hook.matches(subjects) and hook.applies(wanted)]
    answers = asyncio.run(_run(context, found, text))
    if as_json:
        rows = [
            {
                **_plain(a.hook),
                "decision": a.decision,
                "reason": a.reason,
                "context": a.context,
                "updatedInput": a.arguments,
                "problem": a.problem,
                "ms": ms,
            }
            for a, ms in answers
        ]
        show_json({"input": text, "answers": rows, "problems": problems})
        return
    table = [
        (a.hook.name, (a.problem and "failed") or a.decision or "nothing", f"{ms:.0f}", _said(a)) for a, ms in answers
    ]
    if table:
        show_table(("COMMAND", "DECISION", "MS", "ANSWER"), table, wide=("COMMAND", "ANSWER"))
    else:
        remark(f"no hook runs on {event} for {name or profile}")
    for problem in problems:
        remark(problem)


def _hooks(context: ProjectContext) -> tuple[list[Hook], list[str]]:
    return configured_hooks(context.trust_status, os.environ, claude=context.settings.hooks.claude)


def _plain(hook: Hook) -> dict[str, Any]:
    return {
        "event": hook.event,
        "matcher": hook.matcher,
        "command": hook.name,
        "source": hook.source,
        "file": hook.file,
        "if": hook.entry.condition,
        "timeout": hook.entry.timeout,
        "onFailure": hook.entry.on_failure,
        "async": hook.entry.run_async,
    }


def _said(answer: Answer) -> str:
    rewritten = f"input {json.dumps(answer.arguments)}" if answer.arguments is not None else ""
    return "; ".join(filter(None, (answer.problem, answer.reason, rewritten, answer.context, answer.message)))


def _wanted(tool: str, given: object) -> RuleInput | None:
    """The call that conditions of hooks are compared with, None if there is none."""
    effect = TOOLS.effect(tool)
    if effect is None or not isinstance(given, dict):
        return None
    workspace = LocalWorkspace(working_folder())
    if tool == BASH:
        command = str(given.get("command", ""))
        return RuleInput(tool, effect, (command,), analyze(command, AnalysisContext(workspace)))
    path = given.get("file_path", given.get("path"))
    return RuleInput(tool, effect, (workspace.label(path),) if isinstance(path, str) else ())


def _read(name: str) -> dict[str, Any]:
    """The fields in a file. Raises UsageError."""
    if not name:
        return {}
    try:
        found = json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {error}.") from None
    if not isinstance(found, dict):
        raise UsageError(f"{name} must contain a JSON object.")
    return found


async def _run(context: ProjectContext, hooks: list[Hook], text: dict[str, Any]) -> list[tuple[Answer, float]]:
    kind = context.settings.sandbox.kind
    choice = await asyncio.to_thread(detect_sandbox, kind, os.environ, cache=cache_dir(os.environ))
    policy = sandbox_policy(context.settings, choice, os.environ)
    workspace = LocalWorkspace(working_folder(), CommandHost(sandbox=policy))
    unconfined = kind == "none"
    programs = ProjectPrograms(context.trust_status, workspace, os.environ, unconfined=unconfined)
    processes = HookProcesses(os.environ, programs)
    found = []
    try:
        for hook in hooks:
            begun = time.perf_counter()
            answer = await processes.run(hook, json.dumps(text).encode(), workspace, "a")
            found.append((answer, (time.perf_counter() - begun) * 1000))
    finally:
        await workspace.close()
    return found
