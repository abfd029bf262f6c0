"""The end of `friday ask`: its exit code, one JSON document in every case, and one line of error for a person."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.friday import CommandResult, Friday

FIELDS = {
    "session_id", "status", "stop_reason", "result", "model", "usage", "cost_usd", "duration_s", "agents", "denials",
    "error", "exit_code",
}  # fmt: skip
AGENT_FIELDS = {
    "id", "path", "parent", "profile", "task", "model", "status", "stop_reason", "result", "result_chars", "truncated",
    "partial", "earlier_result", "error", "usage", "cost_usd", "duration_s", "receipt", "findings",
    "forecast",
}  # fmt: skip


def whole(ran: CommandResult, code: int, status: str, stop: str | None) -> dict[str, Any]:
    """The JSON document of a run, after a check of all its fields."""
    found = ran.document
    assert set(found) == FIELDS
    assert all(set(a) == AGENT_FIELDS for a in found["agents"])
    assert (ran.code, found["exit_code"], found["status"], found["stop_reason"]) == (code, code, status, stop), ran.err
    assert found["cost_usd"] is None or found["cost_usd"] >= 0
    return found


def said(ran: CommandResult, words: str) -> None:
    """Standard error is one line with `words`."""
    assert len(ran.lines) == 1, ran.err
    assert ran.lines[0].startswith("friday: ")
    assert words in ran.lines[0]


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, writes to /dev/full")
SPOKEN = "agents: {a: [{text: well}]}"


def test_0_done(friday: Friday) -> None:
    friday.plays(SPOKEN)
    found = whole(friday.json("hi"), 0, "completed", "done")
    assert (found["result"], found["model"], found["error"]) == ("well", "scripted/play", None)
    assert friday("hi").out == "well\n"


def test_1_failed(friday: Friday) -> None:
    friday.plays("agents: {a: [{text: so far, truncate_after: 1, fail: {kind: refusal, message: it broke}}]}")
    found = whole(friday.json("hi"), 1, "failed", "refusal")
    assert (found["result"], found["error"]) == ("so far", "it broke")
    ran = friday("hi")
    assert (ran.code, ran.out) == (1, "so far\n")
    assert any("partial" in line for line in ran.lines)
    assert any("it broke" in line for line in ran.lines)


def test_3_no_model(friday: Friday) -> None:
    document = friday.run("hi", "--output-format", "json", model="")
    whole(document, 3, "failed", None)
    for ran in (document, friday.run("hi", model="")):
        assert (ran.code, len(ran.lines)) == (3, 4)
        assert all(word in ran.err for word in ("ANTHROPIC_API_KEY", "friday models", "--model demo", "friday doctor"))


DENIED = """
agents:
  a:
    repeat: last
    turns: [{calls: [{name: bash, arguments: {command: make}}]}]
"""


def test_4_refusals_left_nothing(friday: Friday) -> None:
    friday.plays(DENIED)
    found = whole(friday.json("hi"), 4, "failed", "loop")
    assert found["result"] == ""
    assert {(d["agent"], d["tool"], d["subject"]) for d in found["denials"]} == {("a", "bash", "make")}
    assert all("no person can be asked here" in d["reason"] for d in found["denials"])


def test_4_refused_and_then_silent(friday: Friday) -> None:
    friday.hurry()
    empty = "{fail: {kind: empty, message: nothing was said}}"
    friday.plays(
        "agents: {a: {turns: [{calls: [{name: bash, arguments: {command: make}}]}, %s], repeat: last}}" % empty  # noqa: UP031
    )
    whole(friday.json("hi"), 4, "failed", "provider")


STEP = 'text: step, delay_s: 0.02, usage: {input: 1000, output: 100}, wrap_up: "the best so far", calls'
BATCH = (
    "{name: delegate_tasks, arguments: {tasks: [{profile: researcher, task: dig}, {profile: analyst, task: count}]}}"
)
PLENTY = f"""
price: {{input: 10.0, output: 10.0}}
agents:
  a:
    repeat: last
    turns:
      - {{{STEP}: [{{name: list_dir}}]}}
      - {{{STEP}: [{{name: glob, arguments: {{pattern: "*"}}}}]}}
      - {{{STEP}: [{BATCH}]}}
      - {{{STEP}: [{{name: list_sub_agents}}]}}
  a.*:
    repeat: last
    turns: [{{text: digging, delay_s: 0.02, usage: {{input: 2000, output: 100}}, calls: [{{name: list_dir}}]}}]
"""


@pytest.mark.parametrize(("limit", "stop"), [
    (("--max-turns", "2"), "iterations"), (("--max-tokens", "30000"), "tokens"), (("--max-cost", "0.3"), "cost"),
    (("--timeout", "0.3"), "time"),
])  # fmt: skip
def test_5_limits_over_the_whole_tree(friday: Friday, limit: tuple[str, str], stop: str) -> None:
    friday.plays(PLENTY)
    ran = friday.json("dig", *limit)
    found = whole(ran, 5, "timeout" if stop == "time" else "completed", stop)
    assert found["result"] == "the best so far"
    assert all(a["stop_reason"] for a in found["agents"]), "everything has ended"
    spent = sum(a["usage"]["input_tokens"] + a["usage"]["output_tokens"] for a in found["agents"])
    if stop == "tokens":
        assert spent <= 30_000
        assert len(found["agents"]) == 3
    if stop == "cost":
        assert found["cost_usd"] == pytest.approx(spent * 1e-5)
        assert found["cost_usd"] <= 0.3
    ran = friday("dig", *limit)
    assert (ran.code, ran.out) == (5, "the best so far\n")
    word = "turns" if stop == "iterations" else stop
    assert f"stopped: the {word} limit was reached" in ran.err


@pytest.mark.parametrize(("limit", "words"), [
    ("--max-turns=0", "a whole number >= 1"), ("--max-turns=-1", "a whole number >= 1"),
    ("--max-tokens=0", "a whole number >= 1"), ("--max-cost=-1", "a number >= 0"), ("--max-cost=nan", "a number >= 0"),
    ("--timeout=0", "a number > 0"), ("--timeout=nan", "a number > 0"), ("--timeout=600000", "looks like milliseconds"),
    ("--timeout=inf", "looks like milliseconds"),
])  # fmt: skip
def test_2_limits_that_are_none(friday: Friday, limit: str, words: str) -> None:
    friday.plays(SPOKEN)
    ran = friday.json("hi", limit)
    whole(ran, 2, "failed", None)
    said(ran, words)
    assert limit.partition("=")[0] in ran.err


@pytest.mark.parametrize("limit", ["--max-tokens=1", "--max-tokens=3000", "--max-cost=0"])
def test_5_limits_that_leave_no_room_at_all(friday: Friday, limit: str) -> None:
    friday.plays("{price: {input: 1.0, output: 1.0}, agents: {a: [{text: well}]}}")
    found = whole(friday.json("hi", limit), 5, "failed", "cost" if "cost" in limit else "tokens")
    assert (found["result"], found["usage"]["output_tokens"]) == ("", 0)


def damaged_store(friday: Friday) -> tuple[str, ...]:
    (friday.home / "data").mkdir()
    (friday.home / "data" / "friday.db").write_bytes(b"this is no database" * 400)
    return ()


def bad_scenario(friday: Friday) -> tuple[str, ...]:
    friday.plays("agents: {a: [{txt: typo}]}")
    return ()


WRONG: dict[str, tuple[tuple[str, ...] | bytes | Callable[[Friday], tuple[str, ...]], int, str]] = {
    "model": (("-m", "gtp-9"), 2, "Unknown model 'gtp-9'"),
    "provider": (("-m", "opnai/gpt"), 2, "Unknown provider 'opnai'. Did you mean 'openai'?"),
    "scenario without its file": (("-m", "scripted/tour"), 2, "Write scripted:FILE"),
    "scenario": (("-m", "scripted:/nowhere.yaml"), 2, "/nowhere.yaml"),
    "bad scenario": (bad_scenario, 2, "play.yaml:1: agents.a[0].txt: no such key"),
    "profile": (("--profile", "reseracher"), 2, "There is no profile 'reseracher'"),
    "session": (("-r", "abc123"), 2, "There is no session 'abc123'"),
    "session without a name": (("-r", ""), 2, "There is no session ''"),
    "odd session": (("-r", "../../etc"), 2, "There is no session"),
    "no last session": (("-c",), 2, "to resume"),
    "both sessions": (("-c", "-r", "a"), 2, "cannot be combined"),
    "allow rule": (("--allow", "bash(("), 2, "Invalid permission rule"),
    "deny rule": (("--deny", "!!"), 2, "Invalid permission rule"),
    "folder": (("-C", "nowhere"), 2, "is not a folder"),
    "folder that is a file": (("-C", "a.txt"), 2, "is not a folder"),
    "added folder": (("--add-dir", "nowhere"), 2, "nowhere"),
    "schema": (("--json-schema", "{"), 2, "not JSON"),
    "schema file": (("--json-schema", "none.json"), 2, "none.json cannot be read"),
    "schema of no sense": (("--json-schema", '{"type": "cow"}'), 2, "schema is not valid"),
    "schema that is a list": (("--json-schema", "list.json"), 2, "must be a JSON object"),
    "schema that is nested": (("--json-schema", '{"not": ' * 150 + "{}" + "}" * 150), 2, "nested too deeply"),
    "config file": (("--config", "none.toml"), 2, "none.toml"),
    "broken config": (b"model = [", 2, "config.toml:"),
    "unknown key": (b'mode = "ask"\nmodle = "opus"\n', 2, "config.toml:2: modle: unknown key. Did you mean model?"),
    "unknown tool in a rule": (
        b'mode = "ask"\n[permissions]\ndeny = [\n  "bsh(rm *)",\n]\n', 2,
        "config.toml:4: permissions.deny: The rule bsh(rm *) does not name a known tool. Did you",
    ),
    "unknown model of sub-agents": (b'subagent_model = "gtp-9"\n', 2, "subagent_model: Unknown model 'gtp-9'"),
    "binary config": (b"\xff\xfe\x00model", 2, "config.toml"),
    "store": (damaged_store, 1, "friday.db"),
    "empty prompt": ((), 2, "The prompt is empty"),
}  # fmt: skip
"""Arguments, content of the settings or a function that prepares the run; exit code; words of the error."""


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_one_line(friday: Friday, name: str) -> None:
    (friday.project / "a.txt").write_text("a", encoding="utf-8")
    (friday.project / "list.json").write_text("[]", encoding="utf-8")
    friday.plays(SPOKEN)
    given, code, words = WRONG[name]
    if isinstance(given, bytes):
        friday.config.write_bytes(given)
    argv = given(friday) if callable(given) else () if isinstance(given, bytes) else given
    prompt = " " if name == "empty prompt" else "hi"
    ran = friday.json(prompt, *argv)
    whole(ran, code, "failed", None)
    said(ran, words)
    ran = friday(prompt, *argv)
    assert (ran.code, ran.out) == (code, "")


@pytest.mark.parametrize("argv", [("--nope",), ("a", "b"), ("--max-turns", "many")])
def test_2_words_that_make_no_sense(friday: Friday, argv: tuple[str, ...]) -> None:
    ran = friday.run("hi", "--output-format", "json", *argv)
    whole(ran, 2, "failed", None)
    said(ran, "See `friday ask --help`.")
    assert ("Put a prompt of several words in quotes" in ran.err) == (argv == ("a", "b"))


def test_where_nothing_can_be_kept_the_run_goes_on_in_memory_and_says_so(friday: Friday) -> None:
    (friday.home / "data").write_text("a file where a folder belongs", encoding="utf-8")
    friday.plays(SPOKEN)
    ran = friday("hi")
    assert (ran.code, ran.out) == (0, "well\n")
    _, warning, summary = ran.lines
    assert warning.startswith(f"friday: This session is not saved: Sessions cannot be saved in {friday.home}")
    assert "set FRIDAY_HOME" in warning
    assert summary.startswith("friday: session not saved · ")
    ran = friday.json("hi")
    whole(ran, 0, "completed", "done")
    said(ran, "This session is not saved")
    again = friday("more", "-r", "7f")
    assert (again.code, again.out) == (1, "")
    said(again, "Sessions cannot be saved")


def test_closed_standard_output(friday: Friday) -> None:
    friday.plays("agents: {a: [{text: '%s'}]}" % ("word " * 50_000))
    ran = friday.shell("FRIDAY | head -c 5; exit ${PIPESTATUS[0]}")
    assert (ran.out, ran.code) == ("word ", 0)
    assert all(line.startswith("friday: ") for line in ran.lines)


def test_nobody_reads_the_stream_any_more(friday: Friday) -> None:
    """The run is stopped: a reply that nothing reads would still be paid for."""
    friday.plays(
        "agents: {a: [{calls: [{name: bash, arguments: {command: until test -e go || test $SECONDS -ge 20; do sleep 0.02; done}}]}, {delay_s: 600, text: never}]}"
    )
    process = friday.start("hi", "--output-format", "stream-json", "--yolo")
    assert process.stdout
    assert process.stdout.readline().startswith(b'{"seq":1')
    process.stdout.close()
    process.stdout = None
    (friday.project / "go").touch()  # the next output meets the closed stream
    assert process.wait(60) == 0
    assert process.stderr
    assert process.stderr.read() == b""


@linux
@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_standard_output_on_a_full_disk(friday: Friday, output: str) -> None:
    friday.plays(SPOKEN)
    with Path("/dev/full").open("wb") as full:
        ran = friday.run("hi", "-q", "--output-format", output, stdout=full)
    assert ran.code == 1
    said(ran, "standard output: No space left on device")


@linux
def test_standard_error_that_cannot_be_written(friday: Friday) -> None:
    friday.plays(SPOKEN)
    with Path("/dev/full").open("wb") as full:
        ran = friday.run("hi", "--debug", stderr=full)
    assert (ran.code, ran.out) == (0, "well\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_never_open(friday: Friday, closed: str) -> None:
    friday.plays(SPOKEN)
    ran = friday.shell(f"exec FRIDAY {closed}")
    assert (ran.code, ran.out) == (0, "" if ">&- " in closed + " " and closed != "2>&-" else "well\n")


@pytest.mark.parametrize("blocks", range(84, 140, 8))
def test_the_store_on_a_full_disk(friday: Friday, blocks: int) -> None:
    """The answer comes, with a warning that nothing is saved, wherever the disk becomes full."""
    friday.plays("agents: {a: [{text: '%s', calls: [{name: list_dir}]}, {text: well}]}" % ("x" * 135_000))
    ran = friday.shell(f"ulimit -f {blocks}; exec FRIDAY")
    assert (ran.code, ran.out) == (0, "well\n")
    assert "is not saved" in ran.err or "no longer saved" in ran.err


@pytest.mark.parametrize("form", [("--output-format", "stream-json"), ("--output-format", "json"), ("--quiet",)])
def test_a_session_that_cannot_be_saved_is_told_on_standard_error_whatever_the_output(
    friday: Friday, form: tuple[str, ...]
) -> None:
    friday.plays("agents: {a: [{text: '%s', calls: [{name: list_dir}]}, {text: well}]}" % ("x" * 135_000))
    ran = friday.shell(f"ulimit -f 108; exec FRIDAY {' '.join(form)}")
    assert ran.code == 0
    assert ran.err.count("saved") == 1
