"""What slash commands show of the session and its parts, as Markdown that fits in 60 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.format import cost, is_demo, pluralize, price, seconds, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.tool_catalog import TODO
from friday_cli.session import lists
from friday_cli.system.paths import config_dir, with_tilde
from friday_cli.view import SessionView, ToolRun
from friday_cli.view.tree import shown_children

from .command_output import code, table

if TYPE_CHECKING:
    from friday_cli.extensions.hooks.hook import Hook
    from friday_cli.extensions.skills.lookup import Skills
    from friday_cli.session.context_size import ContextSize
    from friday_cli.session.port import SessionPort

    from ..controller import SessionController
    from ..loop import LoopPlan

CELLS = 50
"""Cells of the picture of the context window."""
HOOK_EFFECTS = {
    "SessionStart": "may add context",
    "UserPromptSubmit": "may block your message, add context",
    "PreToolUse": "may deny, ask, allow, rewrite a call",
    "PermissionRequest": "may answer the question",
    "PostToolUse": "may replace a result, add context",
    "PostToolUseFailure": "may replace a result, add context",
    "PostToolBatch": "may add context",
    "SubagentStart": "may refuse a sub-agent, lower its limits",
    "SubagentStop": "may send it back to work",
    "Stop": "may send the agent back to work",
    "PreCompact": "may block a compaction",
}
"""What hooks can change, by event; the answers of others are not used."""
STEP_MARKS = {"done": "x", "active": ">"}
"""Marks of steps by their state; a step that waits has none."""


async def status_card(controller: SessionController) -> str:
    """The session at a glance."""
    from friday_cli import __version__
    from friday_cli.config.loader import user_file

    state, session, options = controller.state, controller.shown, controller.options
    root, open_ = state.root, controller.session
    facts = open_.facts if open_ is not None else None
    title = await lists.title(session.id) if session is not None and (facts is None or facts.kept) else ""
    spent = state.totals
    rows = [
        ("Friday", __version__),
        ("session", f"{code(session.id[:8])} {code(title, 80)}" if session is not None else "none"),
        ("folder", code(with_tilde(options.cwd), 200)),
        ("model", f"{code(facts.model, 100)}{f', effort {facts.effort}' if facts.effort else ''}" if facts else ""),
        ("mode", f"{controller.mode or 'ask'}{f', sandbox: {facts.sandbox}' if facts else ''}"),
        ("context", f"{root.context:,} of {root.window:,} tokens" if root and root.context and root.window else ""),
        ("agents", f"{pluralize(len(state.agents), 'agent')}, {len(state.working)} at work" if state.agents else ""),
        (
            "used",
            f"{tokens(spent)} tokens, {'no cost (demo)' if root and is_demo(root.model) else cost(spent)}"
            if root
            else "",
        ),
        ("MCP servers", await _servers(open_)),
        ("settings", code(with_tilde(user_file()), 200)),
    ]
    return "**Status**\n\n" + "\n".join(f"- {name}: {text}" for name, text in rows if text)


async def _servers(session: SessionPort | None) -> str:
    """The MCP servers with their state, "" without any."""
    if session is None or session.facts.prompts is None:
        return ""
    from friday_cli.session.commands import ListServers

    return ", ".join(f"{code(row.name, 64)} {code(row.state)}" for row in await session.do(ListServers()))


def loop_card(plan: LoopPlan) -> str:
    """What a loop does, and what ends it."""
    what = f"until {code(plan.command, 200)} succeeds" if plan.command else f"every {seconds(plan.every_s)}"
    cap = f"{pluralize(plan.rounds, 'round')} or ${plan.dollars:.2f}"
    return f"**Loop** {what}: it ends after {cap} at most, and by Esc."


def hooks_card(hooks: Sequence[Hook], problems: Sequence[str]) -> str:
    """The hooks in the order in which their answers are composed."""
    if not hooks and not problems:
        return f"""\
There are no hooks. They are programs that run before or after what agents do. Yours are in {code(with_tilde(config_dir() / "hooks.json"), 200)}:

```json
{{"hooks": {{"PreToolUse": [{{"matcher": "bash", "hooks": [{{"type": "command", "command": "./guard.sh"}}]}}]}}}}
```

Exit code 2 refuses the call. `friday hooks test EVENT` tries them, `friday config schema hooks` describes the file."""
    rows = [
        (
            f"{hook.event} {code(hook.matcher, 60)}",
            _effect_of(hook),
            f"{code(hook.name, 120)} from {code(with_tilde(hook.file), 120)}",
        )
        for hook in hooks
    ]
    tail = "".join(f"\n- not used: {code(problem, 300)}" for problem in problems)
    shown = table(("when", "what it does", "command"), rows) + "\n" if rows else ""
    return f"**Hooks**: `friday hooks test EVENT` tries them.\n\n{shown}{tail}"


def _effect_of(hook: Hook) -> str:
    """What a hook can change, in a few words."""
    effect = "" if hook.entry.run_async else HOOK_EFFECTS.get(hook.event, "")
    if effect and hook.source == "project":
        effect = "may refuse, ask, add context"
    return (effect or "only runs") + ("; if it fails, that denies" if hook.blocks and effect else "")


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
    shown = next((run.display for run in reversed(items) if run.tool == TODO and run.status == "ok"), None)
    if not isinstance(shown, TableDisplay):
        return "There is no list of steps. The agent writes one for work of three or more steps."
    done = sum(status == "done" for status, _ in shown.rows)
    lines = [
        f"{n}. [{STEP_MARKS.get(status, ' ')}] {code(text, 300)}" for n, (status, text) in enumerate(shown.rows, 1)
    ]
    return f"**Steps**: {done} of {len(shown.rows)} done\n\n" + "\n".join(lines)


def context_card(size: ContextSize) -> str:
    """What the context window of the main agent holds: one row of cells, a letter for each part, and the tokens of each."""
    parts = [
        ("S", "system prompt", size.system),
        ("T", "tools", size.tools),
        ("K", "skills", size.skills),
        ("N", "AGENTS.md and notes", size.memory),
        ("M", "messages", size.messages),
        ("·", "free", size.free),
    ]
    whole = size.window or size.used
    cells = "".join(letter * _cells(count, whole) for letter, _, count in parts[:-1])[:CELLS]
    rows = [
        (f"`{letter}`", name, f"{count:,}", f"{count / whole:.0%}" if whole else "")
        for letter, name, count in parts
        if count
    ]
    share = f" of {size.window:,}, {size.free:,} free" if size.window else ""
    picture = cells.ljust(CELLS, "·") if size.window else cells
    head = f"**Context**: about {size.used:,} tokens{share}."
    return f"{head}\n\n`{picture}`\n\n" + table(("", "part", "tokens", "share"), rows)


def _cells(count: int, whole: int) -> int:
    """The cells of a part of the window; one at least if it holds anything."""
    return max(1, round(count * CELLS / whole)) if count and whole else 0


def cost_card(state: SessionView) -> str:
    """Tokens and cost of every agent and of all."""
    agents = [agent for agent in state.agents.values() if agent.run]
    priced = any(state.usage_of(a.path).cost_usd is not None and not is_demo(a.model) for a in agents)
    together = [shown_children([state.agents[path] for path in a.children])[1] for a in agents]
    hidden = {item.path for items in together for item in items}
    rows = []
    for a in agents:
        own, whole = price(a.model, a.usage), price(a.model, state.usage_of(a.path))
        cell = own if own == whole else f"{own} ({whole} with its sub-agents)"
        if a.path not in hidden:
            rows.append(_cost_row(f"{code(a.path, 30)} {code(a.profile, 20)}", a.usage, cell))
    for items in filter(None, together):
        usage = sum((state.usage_of(item.path) for item in items), Usage())
        rows.append(_cost_row(f"{pluralize(len(items), 'item')} of a batch", usage, price(items[0].model, usage)))
    if not priced:
        rows = [row[:-1] for row in rows]
    root = state.root
    spent = "no cost (demo)" if root is not None and is_demo(root.model) else cost(state.totals)
    head = f"**Session**: {tokens(state.totals)} tokens that count toward limits, {spent}."
    columns = ("agent", "input", "cached", "output", *(["cost"] if priced else []))
    lost = [f"- {code(path, 30)}: {code(note.text, 300)}" for path, note in state.notices if note.topic == "cache"]
    tail = "\n\nNot read from the cache again:\n\n" + "\n".join(lost[-10:]) if lost else ""
    return f"{head}\n\n{table(columns, rows)}{tail}" if rows else "Nothing has run yet."


def _cost_row(name: str, usage: Usage, cost: str) -> tuple[str, ...]:
    return name, _short(usage.input), _short(usage.cache_read), _short(usage.output), cost


def _short(count: int) -> str:
    """A number of tokens in few characters."""
    return f"{count:,}" if count < 10_000 else f"{count / 1_000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.1f}M"


def rules_card(mode: str, state: SessionView, rules: Sequence[tuple[str, str, str]]) -> str:
    """The mode and the rules, each with its decision and source; "" is a rule of this session."""
    rows = [f"- {decision} {code(rule)}, from {code(place) or 'this session'}" for rule, decision, place in rules]
    body = "\n".join(rows) or "There are no rules: only the mode decides."
    denied = [f"- {code(d.tool, 30)} {code(d.subject)} ({code(d.reason, 200)})" for d in state.denials[-10:]]
    tail = "\n\nRefused recently:\n\n" + "\n".join(denied) if denied else ""
    return f"**Mode** `{mode or 'ask'}`. Deny beats ask, ask beats allow.\n\n{body}{tail}"
