"""`friday map` with bad input, full disks, interruptions and several commands at once."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from pathlib import Path

import pytest

from friday_cli.core.limits import rate_limit
from friday_cli.core.protocol.errors import Unwritable
from friday_cli.frontends.options import session_options
from friday_cli.map import sources
from friday_cli.map.engine import EmbeddedEngine, ItemResult, ItemTask
from friday_cli.map.job import MapJob
from friday_cli.map.run import MapRun, prepare
from friday_cli.map.scheduler import Progress
from friday_cli.map.store import BatchRow, Counts, MapStore
from friday_cli.store import locks
from tests.cli.console import Console
from tests.cli.test_map import batch, forget_the_ends, service, states
from tests.map import random_batches
from tests.map.service import TASK, Service, item_of, lines
from tests.servers.fake_model_server import Say, Turn
from tests.servers.script_player import Reply, document
from tests.workspace.worktrees.repo_fixture import repository

__all__ = ["service"]
SCHEMA = ("--schema", '{"type": "object"}')


def test_an_infinite_cap_is_refused_and_leaves_the_other_batches_readable(console: Console, service: Service) -> None:
    (console.project / "items.jsonl").write_text(lines(2))
    for options in (("--max-cost", "inf"), ("--max-cost", "nan"), ("--max-cost", "1", "--per-item-cost", "inf")):
        argv = ("map", "summarizer", "--items", "items.jsonl", "--task", TASK, "--yes", *options)
        assert "cost must be a number above 0" in console.refused(*argv)
    assert console.ok("map", "status").out == "No batches in this folder.\n"


def test_items_of_a_pipe_are_read_once(console: Console, service: Service) -> None:
    reader, writer = os.pipe()
    os.write(writer, lines(3).encode())
    os.close(writer)
    argv = ("--items", f"/dev/fd/{reader}", "--task", TASK, "--max-cost", "5", "--yes")
    assert states(console.ok("map", "summarizer", *argv)) == ["done"] * 3
    os.close(reader)


def test_lines_of_a_command_lose_their_ends_and_are_bounded(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ("--task", "<<{line}>>", "--max-cost", "5", "--yes")
    monkeypatch.setattr(sources, "LONGEST", 10)
    ran = console("map", "summarizer", "--over", r"printf 'a\r\n\r\nb\n%020d\n'", *argv)
    assert [json.loads(line)["fields"].get("line") for line in ran.out.splitlines()] == ["a", "b", None]
    assert (ran.code, states(ran)) == (1, ["done", "done", "skipped"])
    monkeypatch.setattr(sources, "MOST_OUTPUT", 100_000)
    assert "prints more than 100,000 bytes" in console.refused("map", "summarizer", "--over", "yes", *argv)


def test_no_secret_and_nothing_outside_is_an_item_of_a_pattern(console: Console, service: Service) -> None:
    seen: list[str] = []

    def say(turn: Turn) -> Say:
        seen.append(json.dumps(turn.body))
        return Say("fin")

    service.say = say
    (console.project / "keys").mkdir()
    for name in ("server.pem", "keys/id_rsa", "a.tfstate", ".env"):
        (console.project / name).write_text("HIDDEN")
    (console.project / "a.txt").write_text("alpha")
    (console.project / "b.txt").symlink_to("/etc/passwd")
    argv = ("--task", "<<{path}>> {content}", "--max-cost", "5", "--yes")
    ran = console("map", "summarizer", "--glob", "{**/*,.env}", *argv)
    assert states(ran).count("done") == 1
    assert (len(seen), "alpha" in seen[0], "HIDDEN" in ran.out) == (1, True, False)
    for name in ("server.pem", "keys/id_rsa", "a.tfstate", ".env"):
        assert f"{name}: cannot be used: its name is that of a file with secrets" in ran.err


def test_items_without_an_end_and_endless_lines_are_refused(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_OUTPUT", 100_000)
    argv = ("map", "summarizer", "--task", TASK, "--max-cost", "5", "--yes", "--items")
    assert "--items: /dev/zero gives more than 100,000 bytes. Nothing was started." in console.refused(
        *argv, "/dev/zero"
    )
    monkeypatch.setattr(sources, "LONGEST", 1_000)
    (console.project / "long.jsonl").write_text("x" * 50_000 + "\n" + lines(1))
    ran = console(*argv, "long.jsonl")
    assert states(ran) == ["skipped", "done"]
    assert "long.jsonl:1: is larger than" in ran.err


def test_a_disk_that_is_full_when_a_batch_continues_hides_no_results(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert states(batch(console, lines(3))) == ["done"] * 3

    async def full(*given: object) -> None:
        raise Unwritable("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(MapStore, "put_places", full)
        assert "The disk is full." in batch(console, lines(3)).err
    assert "   3        0  " in console.ok("map", "status").out
    assert states(batch(console, lines(2))) == ["done"] * 2
    assert service.requests == 3


def test_a_file_of_results_is_tried_before_anything_is_spent(console: Console, service: Service) -> None:
    (console.project / "dangling").symlink_to("none/x")
    (console.project / "file").write_text("kept")
    for name in ("dangling", "file/x", "."):
        assert f"--output: {name} cannot be written" in batch(console, lines(1), "--output", name).err
    assert service.requests == 0
    ran = batch(console, lines(1), "--output", "/dev/full")
    assert (ran.code, ran.out) == (1, "")
    assert "--output: /dev/full could not be written: No space left on device" in ran.err.splitlines()[-1]
    assert "`friday map results " in ran.err.splitlines()[-1]
    (console.project / "items.jsonl").write_text(lines(1))
    console("map", "summarizer", "--items", "items.jsonl", "--task", "Else.", "--max-cost", "1", "--output", "new")
    assert not (console.project / "new").exists()


def test_a_batch_that_runs_is_not_renewed_and_one_that_ended_not_cancelled(console: Console, service: Service) -> None:
    service.say = lambda turn: Say("found it") if service.requests > 1 else Say("no JSON")
    ran = batch(console, lines(1), *SCHEMA)
    assert states(ran) == ["failed"]
    name = console("map", "status").rows[0][0]
    assert ran.err.splitlines()[-1] == f"friday: to try the failed items again: friday map retry {name}"
    found = Path(os.environ["FRIDAY_HOME"], "data", "map.db")
    with locks.own(found.parent / "map", name):
        assert "is running in another friday process" in console.refused("map", "retry", name, "--yes")
        assert "failed  items.jsonl:1" in console("map", "status", name).out
    assert console.ok("map", "cancel", name).err == f"friday: batch {name} has ended already\n"
    assert console("map", "status").out.split()[:2] == ["ID", "CHANGED"]
    row = console("map", "status").rows[0]
    assert (row[2], row[-1]) == ("ended", "$0.000225 of $5.00")
    forget_the_ends("1")
    with locks.own(found.parent / "map", name):
        assert "; started, no end yet; " in console("map", "status", name).out
    assert "; started, no end yet; " not in console("map", "status", name).out


def test_what_an_agent_without_a_result_said_is_the_reason(console: Console, service: Service) -> None:
    service.say = lambda turn: Say(calls=[("task_result", {"status": "error", "result": "There is\nno such file."})])
    ran = batch(console, lines(1))
    assert states(ran) == ["failed"]
    assert "failed  items.jsonl:1: failed (reported): There is no such file; $0." in ran.err


def test_the_results_of_a_schema_stay_readable(console: Console, service: Service) -> None:
    fenced = '```json\n{"found": 1}\n```'
    service.say = lambda turn: Say('{"found": NaN}' if "<<i1>>" in turn.asked_for else fenced)
    first = batch(console, lines(2), *SCHEMA)
    results = [json.loads(line)["result"] for line in first.out.splitlines()]
    assert results == [{"found": 1}, '{"found": NaN}']
    name = console("map", "status").rows[0][0]
    forget_the_ends("1")
    batch(console, lines(1), task="Another <<{id}>>.")  # recovers what the first batch had logged
    assert json.loads(console("map", "results", name).out.splitlines()[0])["result"] == {"found": 1}


def test_the_branch_of_a_recovered_item_is_named(console: Console, service: Service) -> None:
    repository(console.project, **{"a.txt": "text"})
    service.say = lambda turn: (
        Say(calls=[("write_file", {"path": "b.txt", "content": "b"})])
        if "i0" in turn.asked_for and not turn.turn
        else Say("It is.")
    )
    options = ("--isolation", "worktree", "--mode", "edits")
    first = batch(console, lines(2), *options, profile="coder")
    forget_the_ends("1")
    again = batch(console, lines(2), *options, profile="coder")
    branches = [[json.loads(line)["branch"] for line in ran.out.splitlines()] for ran in (first, again)]
    assert branches[0] == branches[1]
    assert [bool(name) for name in branches[0]] == [True, False]


def test_what_a_schema_refers_to_is_not_read(console: Console, service: Service) -> None:
    (console.project / "other.json").write_text('{"type": "string"}')
    other = {"$ref": (console.project / "other.json").as_uri()}
    ran = batch(console, lines(1), "--schema", json.dumps(other))
    assert ran.err == f"friday: The JSON schema refers to {other['$ref']}, which is not in it.\n"
    assert service.requests == 0
    service.say = lambda turn: Say('{"found": 1}')
    ran = batch(console, lines(1), "--schema", json.dumps({"properties": {"found": other}}))
    assert states(ran) == ["failed"]
    assert f"it cannot be checked: the schema refers to {other['$ref']}, which is not in it" in ran.err


def test_output_of_a_check_does_not_fill_the_disk(console: Console, service: Service) -> None:
    ran = batch(console, lines(2), "--check", "head -c 100000 /dev/zero | tr '\\0' x; test -s \"$FRIDAY_RESULT\"")
    assert states(ran) == ["done", "done"]
    data = Path(os.environ["FRIDAY_HOME"], "data")
    assert not [path for path in data.rglob("output-*") if path.stat().st_size > 50_000]


def test_the_completed_items_of_a_batch_are_one_line_of_its_session(console: Console, service: Service) -> None:
    service.say = lambda turn: Say("", stop="refusal") if "<<i3>>" in turn.asked_for else Say("found it")
    batch(console, lines(8))
    shown = console("sessions", "show", console("sessions", "list").rows[0][0]).out
    assert "7 completed items of a batch" in shown
    assert shown.count(" summarizer ") == 1


def test_the_rate_does_not_count_the_time_of_the_answer(console: Console, service: Service) -> None:
    begun: set[float] = set()

    class SlowPerson(random_batches.QuietFrontend):
        async def confirm(self, question: str) -> bool:
            loop = asyncio.get_running_loop()
            clock = loop.time
            loop.time = lambda: clock() + 3600  # type: ignore[method-assign]
            return True

        def progress(self, progress: Progress, left: int) -> None:
            begun.add(progress.begun)

    async def run() -> None:
        job = MapJob(str(console.project), "summarizer", "items", "items.jsonl", TASK, 1.0, sample=1)
        store = MapStore(job.folder, os.environ)
        batch = MapRun(prepare(job, os.environ), store, SlowPerson())
        await batch.run(session_options({}, console.project, resume=None))
        await store.close()

    (console.project / "items.jsonl").write_text(lines(3))
    asyncio.run(run())
    assert max(begun) - min(begun) >= 3600


def test_ctrl_c_while_the_items_are_read_starts_nothing(console: Console, service: Service) -> None:
    (console.project / "items.jsonl").write_text(lines(900))
    batches: list[MapRun] = []

    def reading(what: str, count: int) -> None:
        if batches:  # the second time, when they are stored
            batches[0].interrupt("it was interrupted")

    async def run() -> tuple[BatchRow, Counts]:
        job = MapJob(str(console.project), "summarizer", "items", "items.jsonl", TASK, 1.0)
        store = MapStore(job.folder, os.environ)
        batches.append(MapRun(prepare(job, os.environ, reading), store, random_batches.QuietFrontend()))
        ended = await batches[0].run(session_options({}, console.project, resume=None))
        await store.close()
        return ended

    batch, counts = asyncio.run(run())
    assert (batch.state, batch.reason, service.requests) == ("open", "it was interrupted", 0)
    assert counts.total < 900


def test_reading_many_files_says_how_far_it_is(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.cli.map_progress.SILENT_S", 0.0)
    (console.project / "one.txt").write_text("one")
    ran = console.ok(
        "map", "summarizer", "--glob", "*.txt", "--task", "Look at <<{path}>>.", "--max-cost", "1", "--yes"
    )
    assert "reading the files: 1 so far" in ran.err


def test_ctrl_c_at_the_question_ends_the_batch(console: Console, service: Service) -> None:
    (console.project / "items.jsonl").write_text(lines(9))
    service.say = lambda turn: Say(
        calls=[("task_result", {"status": "success" if service.requests > 1 else "error", "result": "Done."})]
    )
    argv = ("map", "summarizer", "--items", "items.jsonl", "--task", TASK, "--max-cost", "1", "--sample", "2")
    ran = console.terminal(*argv, says=[("Run them? [y/N]", "\x03")], columns=200)
    assert ran.code == 130, ran
    assert service.requests == 2
    assert "1 of the sample failed" in ran.out
    assert "stopped: it was interrupted" in ran.out
    with sqlite3.connect(Path(os.environ["FRIDAY_HOME"], "data", "map.db")) as db:
        assert db.execute("SELECT approved FROM batches").fetchone() == (0,)


def unwell(*status: int) -> Reply:
    """A service that failed."""
    return document({"type": "error", "error": {"type": "api_error", "message": "no"}}, *status)


def test_a_service_that_fails_is_waited_for_and_the_batch_goes_on_by_itself(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "BACKOFF_S", 0.01)
    well, asked = service.say, []

    def say(turn: Turn) -> Say | Reply:
        asked.append(item_of(turn))
        return unwell(500) if 3 <= service.requests <= 20 else well(turn)

    service.say = say
    ran = batch(console, lines(12), "--parallel", "4")
    assert (ran.code, states(ran)) == (0, ["done"] * 12)
    assert len(set(asked[-12:])) > 3
    assert set(asked[10:20]) == set(asked[2:6]), "each probe is another item's request, and no other item starts"


def test_a_service_that_stays_unwell_leaves_the_items_waiting(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "BACKOFF_S", 0.01)
    console.configure(service.settings() + "\n[limits]\ntimeout = 1\n")
    for status in (500, 503):
        service.say = lambda turn, status=status: unwell(status)  # type: ignore[misc]
        ran = batch(console, lines(9), "--parallel", "4", task=f"{status} {TASK}")
        assert (ran.code, states(ran)) == (1, ["waiting"] * 9), (status, ran.err)
        assert f"({status})" in ran.err
        assert len({name for name in service.asked if service.asked[name]}) <= 4
        service.asked.clear()
    service.say = lambda turn: Say("found it")
    assert states(batch(console, lines(9), task=f"500 {TASK}")) == ["done"] * 9


def test_an_item_that_the_service_fails_on_while_others_succeed_has_failed(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "BACKOFF_S", 0.01)
    service.say = lambda turn: unwell(500) if item_of(turn) == "i7" else Say("found it")
    ran = batch(console, lines(8), "--parallel", "2")
    assert (ran.code, sorted(states(ran))) == (1, ["done"] * 7 + ["failed"])


def test_continue_means_the_conversation_and_not_the_batch(console: Console, service: Service) -> None:
    assert console("ask", "MY CONVERSATION").code == 0
    batch(console, lines(2))
    assert console("ask", "-c", "go on").code == 0
    assert "MY CONVERSATION" in json.dumps(service.model_server.turns[-1].body)
    with sqlite3.connect(Path(os.environ["FRIDAY_HOME"], "data", "friday.db")) as db:
        db.execute("UPDATE sessions SET updated = updated + 400 * 86400 WHERE title = 'MY CONVERSATION'")
    assert console("ask", "A LATER ONE").code == 0
    assert console("ask", "-c", "and on").code == 0
    assert "A LATER ONE" in json.dumps(service.model_server.turns[-1].body)


def test_what_runs_ends_where_the_work_of_an_item_raises(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of Friday: nothing starts after it, and what began before it is done and kept."""
    run, begun = EmbeddedEngine.run, asyncio.Event()

    async def fails(engine: EmbeddedEngine, work: ItemTask) -> ItemResult:
        if "<<i1>>" in work.task:
            await begun.wait()
            raise KeyError("oh")
        if "<<i2>>" in work.task:
            begun.set()
            await asyncio.sleep(0)
        return await run(engine, work)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedEngine, "run", fails)
        ran = batch(console, lines(4), "--parallel", "2", "--sample", "1")
    assert (ran.code, "Friday itself failed: KeyError: 'oh'" in ran.err) == (1, True), ran
    assert (service.asked["i0"], service.asked["i2"], service.asked["i3"]) == (1, 1, 0)
    assert states(batch(console, lines(4))) == ["done"] * 4
    assert dict(service.asked) == {"i0": 1, "i1": 1, "i2": 1, "i3": 1}


def test_an_outage_is_shown_while_it_lasts(console: Console, service: Service) -> None:
    overloaded = document({"error": {"type": "overloaded", "message": "no"}}, 503)
    service.say = lambda turn: overloaded if service.requests > 1 else Say("found it")

    def mend() -> None:
        service.say = lambda turn: Say("found it")

    (console.project / "items.jsonl").write_text(lines(4))
    argv = ("map", "summarizer", "--items", "items.jsonl", "--task", TASK, "--max-cost", "1", "--yes")
    ran = console.terminal(*argv, says=[("status 503", mend)], columns=120)
    assert ran.code == 0
    assert "4 items: 4 done" in ran.out
