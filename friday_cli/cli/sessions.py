"""`friday sessions`: list, show, export, delete, rename, stats; going back is in `back`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import typer

from friday_cli.paths import with_tilde

from . import rewind
from .help import HelpCommand, HelpGroup
from .session_args import JSON, LAST, NAME
from .session_lookup import awaited

if TYPE_CHECKING:
    from friday_cli.store.records import StatRow
    from friday_cli.view import SessionView


def register(app: typer.Typer) -> None:
    """Add the family `sessions`."""
    family = typer.Typer(
        cls=HelpGroup, help="What was done: list, show, diff, rewind, export, stats.", rich_markup_mode=None
    )
    for name, function in (
        ("list", list_),
        ("show", show),
        ("export", export),
        ("diff", rewind.diff),
        ("rewind", rewind.rewind),
        ("fork", rewind.fork),
        ("rename", rename),
        ("delete", delete),
        ("stats", stats),
        ("repair", repair),
    ):
        family.command(name, cls=HelpCommand)(function)
    app.add_typer(family, name="sessions")


def list_(
    everywhere: bool = typer.Option(False, "--all", "-a", help="Those of every folder, not only of this one."),
    as_json: bool = JSON,
) -> None:
    """List the sessions of this folder, the newest first.

    Each counts with its sub-agents: tokens and cost are those of the whole tree.
    """
    from friday_cli.core.protocol.format import tokens
    from friday_cli.core.protocol.messages import Usage
    from friday_cli.paths import text_of, with_tilde, working_folder
    from friday_cli.store.listing import short_ids

    from .output import TableColumn, on_terminal, remark, show_json, show_table, when
    from .session_lookup import listed

    rows = listed(None if everywhere else text_of(working_folder()))
    if as_json:
        import msgspec

        show_json(msgspec.to_builtins(rows))
        return
    if not rows:
        remark("no sessions yet." if everywhere else "no sessions of this folder; --all lists those of every folder.")
        return
    columns = [
        TableColumn("ID"),
        TableColumn("LAST USED"),
        TableColumn("STATUS", wide=True),
        TableColumn("AGENTS", right=True),
    ]
    columns += [TableColumn("TOKENS", right=True), TableColumn("COST", right=True), TableColumn("TITLE", wide=True)]
    short = short_ids([row.id for row in rows])
    groups: list[str] = []
    if everywhere and on_terminal():  # a path has no room in a line
        groups = [with_tilde(row.cwd) for row in rows]
    elif everywhere:
        columns.append(TableColumn("FOLDER"))
    show_table(
        columns,
        [
            (
                short[row.id],
                when(row.updated, short=on_terminal()),
                _status(row.status, row.stop_reason),
                str(row.agents or "-"),
                tokens(Usage(input=row.tokens)),
                _price(row.model, row.cost_usd),
                row.title,
                *([row.cwd] if everywhere and not groups else []),
            )
            for row in rows
        ],
        groups=groups,
    )


def show(
    name: str = LAST,
    tree: bool = typer.Option(False, "--tree", help="The agents with status, tokens, cost, time and receipt."),
    agent: str | None = typer.Option(
        None, "--agent", metavar="PATH", help="The conversation of this agent, such as a.2.", show_default=False
    ),
    follow: bool = typer.Option(False, "--follow", help="Go on showing what happens while it runs."),
    as_json: bool = JSON,
) -> None:
    """Show the conversation, the tools that ran, the agents.

    \b
    friday sessions show [7f3a]           the conversation; without an ID the last
    friday sessions show 7f3a --tree      who did what, and what it took
    friday sessions show 7f3a:a.2         the conversation of agent a.2
    friday sessions show 7f3a --follow    what it does now, until it is done
    """
    from friday_cli.view import render_tree

    from . import output
    from .session_follow import follow as follow_
    from .session_lookup import read
    from .transcript_text import conversation, summary
    from .transcript_text import show as show_line

    if follow:
        if as_json:
            from friday_cli.core.protocol.errors import UsageError

            raise UsageError("--follow shows text.", hint="`friday ask --output-format stream-json` gives events.")
        awaited(follow_(name, agent=agent, tree=tree))
        return
    record = awaited(read(name, agent=agent, last=True))
    state, now = record.state, time.time()
    top = state.agents.get(record.agent or "a")
    if as_json:
        output.show_json(_document(record.id, record.title, state, record.agent, tree))
        return
    output.show_hanging(10, (f"{record.id[:8]}  ", "cyan"), (record.title or "(untitled)", "bold"))
    output.show_hanging(2, (f"{with_tilde(state.cwd)} · {output.when(state.at)}", "dim"))
    if top is None:
        output.show("\nNothing ran in this session.")
        return
    if tree:
        print()
        heads = set(render_tree(state, now=now, receipts=False, top=record.agent))
        for row in render_tree(state, now=now, top=record.agent):
            output.show(output.clipped(row) if row in heads else row)
        return
    output.show_hanging(2, (summary(state, top, now=now), "dim"))
    if record.agent and record.agent != "a":
        output.show_painted((f"agent {top.path} ({top.profile})", "dim"))
    print()
    for parts in conversation(top, room=output.places() if output.on_terminal() else 0):
        show_line(parts)
    if top.children:
        output.show_painted(("\nAgents", "bold"))
        for row in render_tree(state, now=now, receipts=False, top=record.agent):
            output.show(output.clipped(row))
        print()
        output.show_painted((f"`friday sessions show {record.id[:8]}:{top.children[0]}` shows what one did.", "dim"))


def export(
    name: str = NAME,
    form: Literal["md", "json", "atif"] = typer.Option(
        "md",
        "--format",
        "-f",
        help="Markdown, Friday's own JSON with every event, or ATIF (a common trajectory format).",
    ),
    file: str | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file; standard output otherwise.",
        show_default=False,
    ),
) -> None:
    """Write a whole session as Markdown, JSON or ATIF.

    What looks like a key or password is masked; read it before you publish it all the same.
    """
    from friday_cli import __version__
    from friday_cli.core.protocol.errors import FridayError, UsageError
    from friday_cli.view.export import export as exported

    from .output import remark
    from .session_lookup import read

    record = awaited(read(name))
    if record.agent:
        raise UsageError("A session is exported with all its agents.", hint=f"Write {record.id[:8]}.")
    text = exported(record.envelopes, form, version=__version__)
    if file is None or file == "-":
        print(text, end="")
        return
    try:
        with open(file, "w", encoding="utf-8", newline="\n") as target:
            target.write(text)
    except OSError as error:
        raise FridayError(f"{file} cannot be written: {error.strerror}.") from None
    remark(f"session {record.id[:8]} is in {file}")


def rename(
    name: str = NAME, title: str = typer.Argument(metavar="TITLE", help="The new title.", show_default=False)
) -> None:
    """Give a session another title."""
    from friday_cli.core.protocol.errors import UsageError
    from friday_cli.core.text.sanitize import sanitize_line

    from .output import remark

    if not sanitize_line(title):
        raise UsageError("The title is empty.")
    session = awaited(_rename(name, title))
    remark(f"session {session[:8]} is called {sanitize_line(title)!r} now")


def delete(name: str = NAME, yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask.")) -> None:
    """Delete a session with all its agents. This cannot be undone."""
    from friday_cli.core.protocol.format import pluralize

    from .output import confirm, remark
    from .session_lookup import read

    record = awaited(read(name))
    if record.agent:
        from friday_cli.core.protocol.errors import UsageError

        raise UsageError("A session is deleted with all its agents.", hint=f"Write {record.id[:8]}.")
    count = max(0, len(record.state.agents) - 1)
    agents = f" and its {pluralize(count, 'sub-agent')}" if count else ""
    what = f"session {record.id[:8]} ({record.title or 'untitled'}){agents}"
    if not confirm(f"Delete {what}?", yes=yes, otherwise="Nothing was deleted"):
        remark("nothing was deleted")
        return
    awaited(_delete(record.id))
    remark(f"deleted {what}")


def stats(as_json: bool = JSON) -> None:
    """Show how every profile did with every model.

    A run that was cut short by a limit is no success. p50 and p95: half of the runs, and 95 of 100, took no longer.
    """
    from friday_cli.core.protocol.format import seconds, tokens
    from friday_cli.core.protocol.messages import Usage

    from .output import TableColumn, remark, show_json, show_table

    rows = awaited(_stats())
    if as_json:
        import msgspec

        show_json(msgspec.to_builtins(rows))
        return
    if not rows:
        remark("no sessions yet.")
        return
    columns = [
        TableColumn("PROFILE"),
        TableColumn("MODEL", wide=True),
        TableColumn("RUNS", right=True),
        TableColumn("SUCCESS", right=True),
    ]
    columns += [TableColumn(title, right=True) for title in ("TOKENS", "COST", "P50", "P95")]
    columns.append(TableColumn("ENDED BY", wide=True))
    show_table(
        columns,
        [
            (
                row.profile,
                row.model,
                str(row.runs),
                "-" if row.success_rate is None else f"{row.success_rate:.0%}",
                tokens(Usage(input=row.tokens)),
                _price(row.model, row.cost_usd),
                seconds(row.p50_s) if row.runs else "-",
                seconds(row.p95_s) if row.runs else "-",
                ", ".join(f"{reason} {count}" for reason, count in row.stop_reasons.items()) or "-",
            )
            for row in rows
        ],
    )


def repair() -> None:
    """Save what can be read of a damaged session file. The damaged one is kept under another name."""
    from friday_cli.paths import store_path, with_tilde
    from friday_cli.store.repair import repair as repaired

    from .output import remark

    path = store_path()
    if not path.exists():
        remark("no sessions yet, so there is nothing to repair.")
        return
    found = repaired(path)
    if found.kept is None:
        remark(f"{with_tilde(str(path))} is whole; nothing was changed")
        return
    gone = f"; {found.missing} events of them could not be read" if found.missing else ""
    remark(f"saved {found.sessions} sessions with {found.events} events, and {found.notes} notes{gone}")
    remark(f"the damaged file is kept as {with_tilde(str(found.kept))}")


# ---- the store --------------------------------------------------------------------------------------------------


async def _rename(name: str, title: str) -> str:
    from friday_cli.core.protocol.errors import UsageError

    from .session_lookup import find, opened

    async with opened() as store:
        session, agent = await find(store, name)
        if agent:
            raise UsageError("Only a session has a title.", hint=f"Write {session[:8]}.")
        assert store is not None
        await store.rename(session, title)
    return session


async def _delete(session: str) -> None:
    import shutil

    from friday_cli.paths import data_dir

    from .session_lookup import opened

    async with opened() as store:
        assert store is not None
        await store.delete(session)
    for kept in ("spill", "checkpoints"):
        shutil.rmtree(data_dir() / kept / session, ignore_errors=True)


async def _stats() -> list[StatRow]:
    from .session_lookup import opened

    async with opened() as store:
        if store is None:
            return []
        await store.reconcile()
        return list(await store.stats())


# ---- words ------------------------------------------------------------------------------------------------------


def _document(session: str, title: str, state: SessionView, path: str, tree: bool) -> dict[str, Any]:
    from friday_cli.core.protocol.agent_path import is_under
    from friday_cli.view.export import agent_json

    from .transcript_text import as_data

    top = path or "a"
    agents = [agent_json(state, a) for a in state.agents.values() if a.run and is_under(a.path, top)]
    document = {"session_id": session, "title": title, "cwd": state.cwd, "version": state.version, "agents": agents}
    if not tree:
        document["agent"] = top
        document["conversation"] = as_data(state.agents[top]) if top in state.agents else []
    return document


def _price(model: str, cost_usd: float | None) -> str:
    """US dollars for a table; the demo's model costs nothing and says so."""
    from friday_cli.core.protocol.format import price
    from friday_cli.core.protocol.messages import Usage

    return price(model, Usage(cost_usd=cost_usd)).removeprefix("cost ")


def _status(status: str, reason: str) -> str:
    words = status.replace("_", " ")
    return words if reason in ("", "done", status, "process", "aborted") else f"{words} ({reason})"
