"""`friday map`: the work of many items under one cap."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from friday_cli.core.protocol.errors import FridayError, Unwritable, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.frontends.oneshot.signals import TWICE_S
from friday_cli.system import event_loop
from friday_cli.system.blocked_process import BlockedWatch
from friday_cli.system.paths import text_of, working_folder

from .map_options import OPTIONS, job_of
from .output import on_terminal, remark, show, show_table, when
from .parameters import parameter, quick_command, set_parameters

if TYPE_CHECKING:
    from friday_cli.map.job import MapJob
    from friday_cli.map.store import MapStore

HELP = """Run one task for each of many items, within a cost cap.

\b
  friday map PROFILE --glob '**/*.py' --task 'Review {path}.' --max-cost 5
  friday map status [ID]     the batches of this folder, or all items of one
  friday map results ID      the results as JSON lines
  friday map report ID -f html > batch.html   a web page of the items
  friday map retry ID        try the failed items again
  friday map cancel ID       start no more items of a batch

The same command continues a batch that was stopped. What is done is not paid again, in this batch or another: an item is
named by its content, task, profile, model, schema and check.

Exit codes: 0 all items are done, 1 some are missing, 2 usage error."""

QUOTES = "Put the pattern of --glob in quotes, or the shell makes names of it."
ACTIONS = ("status", "results", "report", "retry", "cancel")


def register(app: typer.Typer, _: str) -> None:
    """Add the command `map`."""

    def command(**values: Any) -> None:
        raise typer.Exit(_map(values))

    what = typer.Argument(
        None, metavar="PROFILE", help="Profile of the agents; or status, results, report, retry, cancel."
    )
    batch = typer.Argument(None, metavar="ID", help="The batch, for all but PROFILE.")
    set_parameters(command, [parameter("what", str | None, what), parameter("batch", str | None, batch)], OPTIONS)
    app.command("map", cls=quick_command(OPTIONS, "what", "batch"), help=HELP)(command)


def _map(values: dict[str, Any]) -> int:
    from friday_cli.map.store import MapStore  # the help does not need it

    folder = text_of(working_folder(values["cwd"]))
    what, batch = values["what"], values["batch"]
    if what is None:
        raise UsageError("The profile is missing.", hint="See `friday map --help`.")
    if what in ACTIONS:
        _refuse_options(what, values)
    if what == "retry":
        return _run(asyncio.run(_renewed(MapStore(folder, os.environ), batch or "")), yes=values["yes"])
    if what in ACTIONS:
        return asyncio.run(_with_store(MapStore(folder, os.environ), what, batch or ""))
    if values["format"]:
        raise UsageError(
            "--format is for `friday map report`.", hint="`friday map report ID -f html` writes a web page."
        )
    if batch is not None:
        raise UsageError(
            f"Unexpected argument {batch!r}.", hint=f"The items follow --items, --glob or --over. {QUOTES}"
        )
    return _run(job_of(values, folder), yes=values["yes"])


def _refuse_options(action: str, values: dict[str, Any]) -> None:
    """A batch runs as it was begun. Raises UsageError for options that would do nothing."""
    taken = {"retry": {"cwd", "yes"}, "report": {"cwd", "format"}}.get(action, {"cwd"})
    given = [option.names[0] for option in OPTIONS if option.dest not in taken and values[option.dest]]
    if given:
        raise UsageError(
            f"{', '.join(given)}: `friday map {action}` takes no such option; the batch has its own.",
            hint="To change them, give the whole command again: what is done is not paid again.",
        )


def _run(job: MapJob, *, yes: bool) -> int:
    from friday_cli.map.run import prepare

    from .map_progress import progress_frontend

    frontend = progress_frontend(yes=yes)
    try:  # before the event loop: it reads files and runs commands
        prepared = prepare(job, os.environ, frontend.reading)
    finally:
        frontend.close()
    for item in prepared.bad[:20]:
        frontend.note(f"{item.where}: {item.problem}; it is skipped")
    if more := len(prepared.bad) - 20:
        frontend.note(f"{more:,} more items are skipped") if more > 0 else None
    return event_loop.run(_execute(prepared, frontend))


async def _execute(prepared: Any, frontend: Any) -> int:
    from friday_cli.map import report
    from friday_cli.map.run import MapRun
    from friday_cli.map.store import MapStore

    job = prepared.job
    store = MapStore(job.folder, os.environ)
    run = MapRun(prepared, store, frontend)
    gc.freeze()  # imported modules stay; only objects of the batch are collected from here on
    gc.set_threshold(20_000)
    gc.enable()
    code = watch_signals(run, frontend)
    try:
        batch, counts = await run.run(_options(job))
        frontend.close()
        async for line in report.lines(store, batch, counts):
            frontend.note(line)
        await _put_results(store, batch.id, job, run.reduced)
        if job.output or on_terminal():
            frontend.note(f"results: {job.output or f'friday map results {batch.id}'}")
        whole = counts.done == counts.total and (not job.reduce or run.reduced)
        left_there = not job.wait and run.at_service and not counts.failed
        return code() or (0 if whole or left_there else 1)
    finally:
        frontend.close()
        await store.close()


def watch_signals(run: Any, frontend: Any) -> Any:
    """At the first SIGINT no item starts any more, at the second one or another signal what runs is stopped, then the process
    is ended. Where requests wait at the service, the first one asks what becomes of them. Returns what gives the exit code of the signal, 0 without one."""
    received: list[int] = []
    stopping: list[asyncio.Task[None]] = []
    at = 0.0

    def on(number: int) -> None:
        nonlocal at
        before, at = at, time.monotonic()
        if received[-1:] == [128 + number] and at - before < TWICE_S:
            return
        received.append(128 + number)
        withdrawn = frontend.withdraw()
        if stopping:
            return None if withdrawn else os._exit(received[0])
        run.interrupt("it was interrupted")
        if run.at_service:
            stopping.append(asyncio.get_running_loop().create_task(_leave(run, frontend, ask=number == signal.SIGINT)))
        elif len(received) == 1 and number == signal.SIGINT:
            if not withdrawn:  # nothing runs while it asks
                frontend.note("no more items start; press Ctrl+C again to stop those that are running")
        else:
            watch.stopping(received[0])
            stopping.append(asyncio.get_running_loop().create_task(run.stop()))

    watch = BlockedWatch()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with suppress(NotImplementedError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(number, on, int(number))
    return lambda: received[0] if received else 0


async def _leave(run: Any, frontend: Any, *, ask: bool) -> None:
    """Stop a batch whose requests wait at the service, and cancel them there if the person says so."""
    try:
        if ask and await frontend.cancel_at_service(run.at_service):
            await run.cancel_at_service()
            frontend.note("cancelled at the service; its answers so far are charged; the same command collects them")
        else:
            frontend.note("the requests stay at the service: the same command collects the answers")
    except FridayError as error:
        frontend.note(str(error))
    await run.stop()


def _options(job: MapJob) -> Any:
    from friday_cli.frontends.options import session_options

    values = job.options
    file = Path(values["config"]) if values.get("config") else None
    keys = {"subagent_model": "subagent_model", "service_tier": "service_tier", "assume_price": "limits.assume_price"}
    flags = {key: values[name] for name, key in keys.items() if values.get(name)}
    if job.deferred:
        flags["service_tier"] = "standard"  # a batch has a price of its own
    return session_options(values, Path(job.folder), resume=None, config_file=file, flags=flags, below=job.profile)


async def _put_results(store: MapStore, batch: str, job: MapJob, reduced: str) -> None:
    """Write the results: to the file, else to standard output; a terminal gets only the reduced one."""
    from friday_cli.map import results

    if job.output:
        await results.write(store, batch, job)
    elif not job.reduce and not on_terminal():
        async for row in results.as_rows(store, batch, job):
            print(results.as_line(row))
    if reduced:
        show(reduced)


async def _renewed(store: MapStore, name: str) -> MapJob:
    """The job of a batch whose failed items may be tried again."""
    try:
        batch = await store.batch(name)
        with store.own(batch.id):
            count = await store.renew(batch.id)
        words = f"{pluralize(count, 'failed item')} {'is' if count == 1 else 'are'} tried again"
        remark(f"batch {batch.id}: {words if count else 'no item has failed'}")
        return batch.job
    finally:
        await store.close()


async def _with_store(store: MapStore, action: str, name: str) -> int:
    from friday_cli.map import recovery, report, results

    try:
        with suppress(Unwritable):  # what a dead process left stays as it is until there is room
            await recovery.recover(store, os.environ)
        if action == "status" and not name:
            return await _list(store)
        batch = await store.batch(name)
        counts = await store.counts(batch.id)
        if action == "status":
            if store.runs(batch.id):
                show("running")
            async for line in report.lines(store, batch, counts, whole=True):
                show(line)
        elif action == "results":
            async for row in results.as_rows(store, batch.id, batch.job):
                print(results.as_line(row))
            if batch.reduced:
                print(json.dumps({"reduced": batch.reduced}, ensure_ascii=False))
        elif action == "report":
            from friday_cli.map.page import as_html

            print(await as_html(store, batch, counts), end="")
        elif batch.state == "ended":
            remark(f"batch {batch.id} has ended already")
            return 0
        else:
            await store.update(batch.id, state="cancelled", reason="it was cancelled")
            remark(f"batch {batch.id}: no more items start")
            if there := await _cancel_at_service(store, batch.id):
                remark(f"cancelled {there} at the service; what was answered before is charged")
            return 0
        return 0 if counts.done == counts.total else 1
    finally:
        await store.close()


async def _cancel_at_service(store: MapStore, batch: str) -> str:
    """Cancel the batches of the service that hold requests of a batch. Returns how many there were, in words; "" for none."""
    from friday_cli.llm.models.factory import batches_at
    from friday_cli.llm.transport import aclose_all
    from friday_cli.map.requests import RequestStore

    from .project_context import load_context

    sent = [one for one in await RequestStore(store).open_batches(batch) if one.remote]
    if sent:
        settings = load_context().settings
        try:
            for one in sent:
                await batches_at(one.provider, settings, os.environ).cancel(one.remote)
        finally:
            await aclose_all()
    return f"{len(sent)} batch{'es' if len(sent) > 1 else ''}" if sent else ""


async def _list(store: MapStore) -> int:
    from friday_cli.map.report import spent

    rows = []
    for batch in await store.batches():
        if batch.job.source == "eval" or not (
            batch.approved or batch.approved_tokens or batch.spent or batch.state == "ended" or store.runs(batch.id)
        ):
            continue  # it was never agreed to
        counts = await store.counts(batch.id)
        state = "running" if store.runs(batch.id) else "stopped" if batch.state == "open" else batch.state
        missing = counts.total - counts.done
        cells = (
            batch.id,
            when(batch.updated, short=True),
            state,
            batch.job.profile,
            f"{counts.done:,}",
            f"{missing:,}",
        )
        rows.append((*cells, spent(batch)))
    if rows:
        show_table(
            ("ID", "CHANGED", "STATE", "PROFILE", "DONE", "MISSING", "SPENT"), rows, right=("DONE", "MISSING", "SPENT")
        )
    else:
        await store.check()
        show("No batches in this folder.")
    return 0
