"""What `/status`, `/hooks`, `/skills` and `/todo` show, as Markdown lists: a table would not fit in 60 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.format import cost, is_demo, pluralize, tokens
from friday_cli.session import lists
from friday_cli.system.paths import with_tilde
from friday_cli.view import SessionView, ToolRun

from .command_output import code

if TYPE_CHECKING:
    from friday_cli.extensions.hooks.hook import Hook
    from friday_cli.extensions.skills.lookup import Skills

    from ..controller import SessionController

_DONE = {"done": "x", "active": ">"}
"""Marks of steps by their state; a step that waits has none."""


async def status_card(controller: SessionController) -> str:
    """The session at a glance."""
    from friday_cli import __version__
    from friday_cli.config.loader import user_file

    state, session, options = controller.state, controller.shown, controller.options
    root, open_ = state.root, controller.session
    title = await lists.title(session.id) if session is not None and (open_ is None or open_.kept) else ""
    spent = state.totals
    rows = [
        ("Friday", __version__),
        ("session", f"{code(session.id[:8])} {code(title, 80)}" if session is not None else "none"),
        ("folder", code(with_tilde(options.cwd), 200)),
        ("model", f"{code(open_.model, 100)}{f', effort {open_.effort}' if open_.effort else ''}" if open_ else ""),
        ("mode", f"{controller.mode or 'ask'}{f', sandbox: {open_.sandbox}' if open_ else ''}"),
        ("context", f"{root.context:,} of {root.window:,} tokens" if root and root.context and root.window else ""),
        ("agents", f"{pluralize(len(state.agents), 'agent')}, {len(state.working)} at work" if state.agents else ""),
        ("used", f"{tokens(spent)} tokens, {'no cost (demo)' if root and is_demo(root.model) else cost(spent)}" if root else ""),
        ("MCP servers", _servers(controller)),
        ("settings", code(with_tilde(user_file()), 200)),
    ]  # fmt: skip
    return "**Status**\n\n" + "\n".join(f"- {name}: {text}" for name, text in rows if text)


def _servers(controller: SessionController) -> str:
    pool = controller.session.servers if controller.session else None
    return ", ".join(f"{code(row.name, 64)} {code(row.state)}" for row in pool.rows()) if pool is not None else ""


def hooks_card(hooks: Sequence[Hook], problems: Sequence[str]) -> str:
    """The hooks in the order in which their answers are composed."""
    rows = [
        f"- {hook.event} {code(hook.matcher or '*', 60)}: {code(hook.name, 120)}, from {code(with_tilde(hook.file), 120)}"
        for hook in hooks
    ]
    rows += [f"- not used: {code(problem, 300)}" for problem in problems]
    return "**Hooks**: `friday hooks test EVENT` tries them.\n\n" + "\n".join(rows) if rows else (
        "There are no hooks. They are programs that run before or after what agents do; docs/hooks.md shows how to write one."
    )  # fmt: skip


def skills_card(found: Skills) -> str:
    """The skills that can be used, and why others cannot."""
    rows = []
    for skill in found.found.values():
        name = f"/{skill.name}" if skill.by_person else skill.name
        who = "" if skill.by_model else " (only you start it)"
        rows.append(f"- **{code(name, 64)}**{who}: {code(skill.description, 300)}, from {code(skill.origin)}")
    rows += [f"- not used: {code(str(problem), 300)}" for problem in found.problems]
    return "**Skills**\n\n" + "\n".join(rows) if rows else "There are no skills. `friday skills new NAME` makes one."


def todo_card(state: SessionView) -> str:
    """The main agent's list of steps, as it last wrote it."""
    items = [item for item in (state.root.transcript if state.root else ()) if isinstance(item, ToolRun)]
    shown = next((run.display for run in reversed(items) if run.tool == "todo" and run.status == "ok"), None)
    if not isinstance(shown, TableDisplay):
        return "There is no list of steps. The agent writes one for work of three or more steps."
    done = sum(status == "done" for status, _ in shown.rows)
    lines = [f"{n}. [{_DONE.get(status, ' ')}] {code(text, 300)}" for n, (status, text) in enumerate(shown.rows, 1)]
    return f"**Steps**: {done} of {len(shown.rows)} done\n\n" + "\n".join(lines)
