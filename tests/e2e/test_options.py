"""Options of `friday ask`: rights, models, sessions, profiles, trust and the amount of output."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from friday_cli.core.protocol.decode import decode_envelope
from tests.e2e.friday import KEY, Friday
from tests.servers.fake_model_server import WIRES, Say, Turn, Wire, thinking
from tests.servers.script_player import document

DOING = """
agents:
  a:
    - calls:
        - {name: write_file, arguments: {path: made.txt, content: made}}
        - {name: bash, arguments: {command: "echo ran > ran.txt"}}
        - {name: bash, arguments: {command: "echo hello"}}
        - {name: read_file, arguments: {path: a.txt}}
    - {text: "{results}"}
"""


@pytest.fixture
def doing(friday: Friday) -> Friday:
    (friday.project / "a.txt").write_text("alpha\n", encoding="utf-8")
    friday.plays(DOING)
    return friday


def test_a_command_of_ones_own_is_sent_with_what_stands_behind_it(doing: Friday) -> None:
    path = doing.home / "commands" / "made.md"
    path.parent.mkdir()
    path.write_text("---\nallowed-tools: Read, Bash(echo hello)\n---\nDo $1.", encoding="utf-8")
    ran = doing.json("/made it", "--yolo")
    assert sorted(p.name for p in doing.project.iterdir()) == ["a.txt"]
    assert len(ran.document["denials"]) == 2
    assert "alpha" in ran.document["result"]


@pytest.mark.parametrize(
    ("argv", "made", "ran", "denied"),
    [
        *((argv, False, False, 2) for argv in ((), ("--mode", "ask"), ("--mode", "plan"))),
        *((argv, True, True, 0) for argv in (("--mode", "edits"), ("--yolo",))),
        (("--yolo", "--deny", "bash"), True, False, 2),
        (("--yolo", "--deny", "write_file(*.txt)"), False, False, 2),
        (("--allow", "bash(echo *)"), False, False, 2),  # a redirection is more than the rule allows
        (("--allow", "write_file(made.*)", "--allow", "Bash(echo:*)"), True, False, 1),
        (("--allow", "bash(echo *)", "--deny", "bash(echo hello)"), False, False, 3),
    ],
)
def test_rights(doing: Friday, argv: tuple[str, ...], made: bool, ran: bool, denied: int) -> None:
    found = doing.json("do it", *argv)
    assert found.code == 0
    assert (doing.project / "made.txt").exists() is made
    assert (doing.project / "ran.txt").exists() is ran
    assert len(found.document["denials"]) == denied
    assert "alpha" in found.document["result"]
    said = doing("do it", *argv)
    assert sum("denied: a " in line for line in said.lines) == denied


def test_the_rights_of_a_child_are_never_more(friday: Friday) -> None:
    call = "{name: bash, arguments: {command: echo hello}}"
    friday.plays(f"""
agents:
  a: [{{calls: [{{name: delegate_task, arguments: {{profile: coder, task: run it}}}}]}}, {{text: "{{results}}"}}]
  a.1: [{{calls: [{call}]}}, {{text: "{{results}}"}}]
""")
    ran = friday.json("go", "--deny", "bash(echo *)", "--yolo")
    assert [(d["agent"], d["tool"]) for d in ran.document["denials"]] == [("a.1", "bash")]
    assert ran.agent("a.1")["receipt"]["denied"] == 1
    assert "calls denied: 1" in ran.document["result"]
    assert friday.json("go", "--allow", "bash(echo *)").document["denials"] == []


@pytest.mark.parametrize("wire", WIRES)
def test_the_fallback_model_is_used_and_said(friday: Friday, wire: Wire) -> None:
    friday.hurry()
    busy = document({"error": {"type": "overloaded_error", "message": "busy"}}, 529)
    with friday.meets(lambda t: busy if t.body["model"] != "second" else Say("from the second"), wire):
        second = friday.model.partition("/")[0] + "/second"
        ran = friday("hi", "--fallback-model", second)
        assert (ran.code, ran.out) == (0, "from the second\n")
        assert any(f"continuing with the fallback model {second}" in line for line in ran.lines)
        found = friday.json("hi", "--fallback-model", second)
        assert (found.document["model"], found.document["error"]) == (second, None)
        assert friday("hi").code == 75


@pytest.mark.parametrize("wire", WIRES)
def test_the_model_of_sub_agents(friday: Friday, wire: Wire) -> None:
    def rule(turn: Turn) -> Say:
        if turn.agent == "root":
            tasks = [{"profile": "researcher", "task": "#kid look"}, {"profile": "picky", "task": "#own look"}]
            return Say("done") if turn.turn else Say(calls=[("delegate_tasks", {"tasks": tasks})])
        return Say("seen")

    with friday.meets(rule, wire) as server:
        provider = friday.model.partition("/")[0]
        friday.profile("picky", f"model: {provider}/third", "allowedTools: []")
        ran = friday.json("go", "--subagent-model", f"{provider}/second")
    assert {t.agent: t.body["model"] for t in server.turns} == {
        "root": friday.model.partition("/")[2],
        "kid": "second",
        "own": "third",
    }
    assert ran.document["model"] == friday.model


@pytest.mark.parametrize("wire", WIRES)
def test_a_session_goes_on(friday: Friday, wire: Wire) -> None:
    (friday.project / "a.txt").write_text("alpha\n", encoding="utf-8")

    def rule(turn: Turn) -> Say:
        if turn.last.endswith("first"):
            return Say(thinking="hm", calls=[("read_file", {"path": "a.txt"})])
        return Say(f"{turn.turn} replies before this one", thinking="hm")

    with friday.meets(rule, wire) as server:
        first = friday.json("first").document
        other = friday.json("another").document
        again = friday.json("second", "-r", first["session_id"][:6]).document
        last = friday.json("third", "-c").document
        newest = friday.json("fourth", "--resume", other["session_id"]).document
    assert [d["result"][0] for d in (first, other, again, last, newest)] == ["1", "0", "2", "3", "1"]
    assert again["session_id"] == last["session_id"] == first["session_id"] != other["session_id"]
    prefix = [t for t in server.turns if t.last.endswith(("second", "third"))]
    assert prefix[1].messages[: len(prefix[0].messages)] == prefix[0].messages
    assert last["usage"]["output_tokens"] == 4 * 5


def test_another_model_goes_on_without_the_thoughts_of_the_first(friday: Friday) -> None:
    with friday.meets(lambda t: Say("well", thinking="secret thought")) as server:
        assert friday("hi").code == 0
        assert friday("hi again", "-c", model="anthropic/another").code == 0
        assert friday("and again", "-c", model="anthropic/another").code == 0
    assert ["secret thought" in json.dumps(t.body) for t in server.turns] == [False, False, True]


def test_trust(friday: Friday) -> None:
    folder = friday.project / ".friday" / "profiles"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text(
        "---\nname: mine\ndescription: of the project\n---\nYou are mine.", encoding="utf-8"
    )
    (friday.project / ".friday" / "config.toml").write_text('permissions.deny = ["grep"]\n', encoding="utf-8")
    (friday.project / "AGENTS.md").write_text("Use tabs.\n", encoding="utf-8")
    friday.plays("agents: {a: [{calls: [{name: grep, arguments: {pattern: x}}]}, {text: '{results}'}]}")
    ran = friday("hi")
    (line,) = [line for line in ran.lines if "trust" in line]
    assert line.endswith(
        "is not trusted. Not used: .friday/config.toml, .friday/profiles/mine.md. Information only: AGENTS.md. "
        "`friday trust` would allow this."
    )
    assert "Not permitted" not in ran.out
    assert friday("hi", "--profile", "mine").code == 2
    ran = friday("hi", "--trust")
    assert "Not permitted" in ran.out
    assert "is not trusted" not in ran.err
    assert friday("hi", "--trust", "--profile", "mine").code == 0
    assert friday("hi", "--profile", "mine").code == 2, "--trust is for one run"


def test_settings_of_a_project_cannot_move_the_key(friday: Friday) -> None:
    (friday.project / ".friday").mkdir()
    (friday.project / ".friday" / "config.toml").write_text('[providers.anthropic]\nbase_url = "http://127.0.0.1:9"\n')
    with friday.meets(lambda t: Say("safe")):
        ran = friday("hi", "--trust")
    assert (ran.out, ran.code) == ("safe\n", 0)
    assert "base_url" in ran.err or "providers" in ran.err


def test_quiet(doing: Friday) -> None:
    assert doing("do it", "-q", "--yolo").err == ""
    assert all(line.startswith("friday: denied: ") for line in doing("do it", "-q").lines)


def test_the_summary(friday: Friday) -> None:
    (friday.project / "a.txt").write_text("alpha\n", encoding="utf-8")

    def rule(turn: Turn) -> Say:
        if turn.agent == "root":
            call = ("delegate_task", {"profile": "researcher", "task": "#kid look"})
            return Say("done") if turn.turn else Say(calls=[call])
        return Say("seen", usage=(1000, 200, 0))

    with thinking(rule) as server:
        prices = "[providers.anthropic.prices]\ninput = 10.0\noutput = 10.0\n"
        friday.reach(server)
        friday.config.write_text(friday.config.read_text() + prices)
        ran = friday("go")
    *_, summary, warnings = ran.lines
    assert re.fullmatch(r"friday: session [0-9a-f]{8} · 1 sub-agent · 1\.3k tokens · \$0\.0131 · 0\.\d s", summary)
    assert warnings == "friday: 1 warning: a.1: no tool was run: nothing in this result was checked"
    friday.plays("agents: {a: [{text: well}]}")
    assert re.search(r"cost n/a", friday("hi").lines[-1])


def test_the_log_file_has_no_secrets(friday: Friday) -> None:
    friday.hurry()
    said = f"the key {KEY} and ghp_0123456789abcdefghijABCDEFGHIJ"
    bad = document({"error": {"type": "overloaded_error", "message": said}}, 529)
    with friday.meets(lambda t: bad if t.tries < 2 else Say("well")):
        ran = friday.run("hi", "--debug", timeout=60)
    assert (ran.code, ran.out) == (0, "well\n")
    path = Path(ran.lines[-1].removeprefix("friday: log file: "))
    assert path.is_relative_to(friday.home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "claude-test" in text
    assert KEY not in text
    assert "ghp_0123456789" not in text


def test_stream_json_is_the_events(friday: Friday) -> None:
    with friday.meets(lambda t: Say(("one ", "two")) if t.turn else Say(calls=[("list_dir", {})])):
        first = friday("hi", "--output-format", "stream-json")
        again = friday("hi again", "-c", "--output-format", "stream-json")
    for ran in (first, again):
        envelopes = [decode_envelope(line) for line in ran.out.splitlines()]
        kinds = [json.loads(line)["event"]["kind"] for line in ran.out.splitlines()]
        assert (kinds[0], kinds[-1]) == ("session_started", "agent_finished")
        assert json.loads(ran.out.splitlines()[0])["event"]["schema"] == 1
        numbers = [e.seq for e in envelopes if e.seq is not None]
        assert numbers[1:] == list(range(numbers[1], numbers[-1] + 1))
        assert "text_delta" in kinds or ran is again  # what was written before its replay was read is shown whole
        assert {e.agent for e in envelopes} == {"a"}
    assert first.out.splitlines()[0] == again.out.splitlines()[0]
