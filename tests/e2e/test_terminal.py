"""`friday ask` in a real pseudo-terminal: progress, the final screen, and text that must not reach the terminal."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from tests.e2e.friday import Friday
from tests.e2e.test_exits import linux
from tests.e2e.test_signals import NAP, asleep, until
from tests.screen import Terminal
from tests.screen import friday as command
from tests.servers import anthropic_events as claude
from tests.servers.fake_model_server import Say, Turn
from tests.servers.script_player import Reply, named
from tests.timing import paced

PLAY = """
agents:
  a:
    - text: "I hand it **on**.\\n"
      calls:
        - name: delegate_tasks
          arguments: {tasks: [
            {profile: researcher, task: "Find every place in which the configuration of the program is read from the environment"},
            {profile: analyst, task: count}, {profile: coder, task: build}]}
    - text: "# Findings\\n\\n- **one** of `a.py`\\n- two\\n\\n| name | size |\\n|---|---|\\n| a | 1 |\\n\\nThat is all."
      chunk_delay_s: 0.01
  a.1: [{delay_s: 0.4, calls: [{name: grep, arguments: {pattern: x}}]}, {delay_s: 0.3, text: "found"}]
  a.2: [{calls: [{name: bash, arguments: {command: "sleep 0.6"}}]}, {text: "three"}]
  a.3: [{delay_s: 0.1, fail: {kind: server, message: busy, retry_after: 0.4}}, {delay_s: 0.1, text: "done"}]
"""

SHORT = """
agents:
  a:
    - {calls: [{name: delegate_task, arguments: {profile: researcher, task: look}}]}
    - {text: "- **one** of `a.py`\\n\\nThat is all."}
  a.1: [{delay_s: 0.3, text: found}]
"""

SEARCH = {"SEARXNG_URL": "http://127.0.0.1:9"}
"""With a search service, no notice says that a researcher has none."""


def slower(play: str, pace: float) -> str:
    """The scenario `play` with `pace` times as long waits."""
    return re.sub(r"(_s: |after: |sleep )([0-9.]+)", lambda found: f"{found[1]}{float(found[2]) * pace:g}", play)


def shown(friday: Friday, *argv: str, model: str = "", **more: Any) -> Terminal:
    """A run in a terminal."""
    env = friday.env | more.pop("env", {})
    return Terminal(command("ask", "-m", model or friday.model, *argv), env=env, cwd=friday.project, **more)


@pytest.mark.parametrize("columns", [40, 80, 120])
@paced
def test_a_run_as_it_is_seen(friday: Friday, columns: int, pace: float) -> None:
    friday.plays(slower(PLAY, pace))
    with shown(friday, "look", "--yolo", columns=columns, env=SEARCH) as terminal:
        assert terminal.end() == 0
        assert terminal.clean
        screen, frames = terminal.screen, terminal.frames
    together = [f for f in frames if all(f" a.{n} " in f for n in (1, 2, 3))]
    assert together, "a line per agent"
    for frame in together:
        names = [row.split()[1] for row in frame.splitlines() if re.match(r"[▸◌◦·] a\.", row)]
        assert names == sorted(names)
    assert any(f"bash sleep {0.6 * pace:g}" in f for f in frames)
    if columns > 40:
        assert any(re.search(r"▸ a\.1 researcher +Find every", f) for f in frames)
        assert any(re.search(r"retrying in \d+ s", f) for f in frames)
        rows = [row for f in frames for row in f.splitlines() if row.startswith(("▸ a.", "◌ a."))]
        assert {len(row) for row in rows if row.endswith(" s")} == {columns - 9}, "columns that hold still"
    assert all(len(row) < columns for f in frames for row in f.splitlines() if row.startswith(("▸", "◌", "◦")))
    assert screen.wrapped == 0
    final = screen.text
    assert not re.search(r"[▸◌◦·] a", final), "nothing is left of the live lines"
    words = [
        "friday: scripted", "I hand it on.", "Findings", "one of a.py", "two", "name", "That is all.",
        "friday: session", "friday: 1 warning: a.3: no tool",
    ]  # fmt: skip
    assert [final.find(w) for w in words] == sorted(final.find(w) for w in words)
    assert final.find("friday: scripted") == 0
    assert "**" not in final
    assert "|" not in final
    assert not re.search(r"\n\n\n", final)
    assert re.search(r"3 sub-agents", final.replace("\n", " "))


def test_who_waits_for_tokens_is_seen_in_live_lines_and_in_the_tree(friday: Friday) -> None:
    """The second of two that share 20,000 tokens waits for the first; another process can look at the tree meanwhile."""
    friday.plays("""
agents:
  a:
    - calls: [{name: delegate_tasks, arguments: {tasks: [{profile: general, task: first}, {profile: general, task: second}]}}]
    - {text: "That is all."}
  a.*: [{delay_s: 600, text: found}]
""")
    with shown(friday, "look", "--max-tokens", "20000", columns=100) as terminal:
        terminal.until(lambda: re.search(r"^◔ a\.2 general  second +waits for tokens", terminal.screen.text, re.M))
        tree = friday.run("show", "--tree", program=("-m", "friday_cli", "sessions"), model="").out
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert "◔ a.2 general · waits for tokens · " in tree


def test_a_long_notice_wraps_between_words(friday: Friday) -> None:
    friday.plays(SHORT)
    with shown(friday, "look", columns=60) as terminal:
        assert terminal.end() == 0
        screen = terminal.screen
    assert screen.wrapped == 0
    assert "cannot use web_search: no search service" in " ".join(screen.text.split())
    assert (
        "friday: a.1 (researcher) cannot use web_search: no search\n  service is configured (SEARXNG_URL,"
        in screen.text
    )


@paced
def test_text_that_is_written_is_seen_at_once(friday: Friday, pace: float) -> None:
    friday.plays(f"agents: {{a: [{{text: 'one two three four five six seven', chunk_delay_s: {0.15 * pace}}}]}}")
    with shown(friday, "say") as terminal:
        terminal.shows("one two three")
        assert "seven" not in terminal.screen.text
        assert terminal.end() == 0
        assert terminal.screen.text.count("one two three four five six seven") == 1


def test_a_reply_that_breaks_off_is_not_doubled(friday: Friday) -> None:
    friday.plays("""
agents:
  a:
    - {text: "First part.\\n\\nSecond half", chunk_delay_s: 0.05, fail: {kind: truncated}, truncate_after: 3}
    - {text: "First part.\\n\\nSecond half and the rest."}
""")
    with shown(friday, "say") as terminal:
        assert terminal.end() == 0
        text = terminal.screen.text
    assert "[The reply was interrupted and is restarted.]" in text
    assert text.count("First part.") == 2
    assert text.count("Second half") == 1
    assert text.index("was interrupted") < text.rindex("First part.") < text.index("and the rest.")


@paced
@pytest.mark.parametrize("to_file", [False, True])
def test_no_color(friday: Friday, pace: float, to_file: bool) -> None:
    """Progress has styles and no colours. It is also shown while the answer goes into a file."""
    friday.plays(slower(SHORT, pace))
    with shown(friday, "look", env={"NO_COLOR": "1"}, stdout=not to_file) as terminal:
        assert terminal.end() == 0
        assert terminal.screen.codes <= {"0", "1", "2", "3", "4", "", "22", "23", "24"}
        assert any(" a.1 " in f for f in terminal.frames)
        assert ("That is all" not in terminal.raw) is to_file
        assert "friday: session" in terminal.screen.text


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_terminal_that_can_nothing(friday: Friday, term: str) -> None:
    friday.plays(SHORT)
    with shown(friday, "look", env={"TERM": term} | SEARCH) as terminal:
        assert terminal.end() == 0
        assert "\x1b[F" not in terminal.raw
        if term == "dumb":
            assert "\x1b" not in terminal.raw
        assert "That is all." in terminal.screen.text
        assert " a.1 " not in terminal.raw


@paced
def test_many_agents_do_not_fill_the_screen(friday: Friday, pace: float) -> None:
    tasks = ", ".join("{profile: researcher, task: dig}" for _ in range(14))
    friday.config.write_text("[agents.delegation]\nmax_batch = 20\nmax_concurrent = 14\n", encoding="utf-8")
    friday.plays(f"""
agents:
  a: [{{calls: [{{name: delegate_tasks, arguments: {{tasks: [{tasks}]}}}}]}}, {{text: well}}]
  "a.*": [{{delay_s: {0.5 * pace}, text: found}}]
""")
    with shown(friday, "look") as terminal:
        assert terminal.end() == 0
        assert any(re.search(r"▸ a\.9 .*\n  … and 5 more$", f) for f in terminal.frames)
        assert not any("a.10" in f for f in terminal.frames if "a.9 " in f)


WORKING = """
agents:
  a: [{text: "I hand it on.", calls: [{name: delegate_task, arguments: {profile: coder, task: build}}]}]
  a.1: [{calls: [{name: bash, arguments: {command: "NAP"}}]}]
""".replace("NAP", NAP)


@linux
def test_ctrl_c_leaves_a_clean_terminal(friday: Friday) -> None:
    friday.plays(WORKING)
    with shown(friday, "go", "--yolo") as terminal:
        terminal.shows(f"bash {NAP}")
        os.killpg(terminal.process.pid, signal.SIGINT)  # what the terminal does to its foreground processes
        assert terminal.end() == 130
        assert terminal.clean
        final = terminal.screen.text
    assert "I hand it on." in final
    assert "friday: stopped" in final
    assert "a.1" not in final
    until(lambda: not asleep(), "the end of the command")


EVIL = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]52;c;ZXZpbA==\x1b\\\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b2J\x9d0;x\x9c\x1bc\x1b[6n"
    "\x1b_apc\x1b\\\x1bPdcs\x1b\\\x07\x08\x08\x08\rover\u202egnp.exe\u2066\u200b\U000e0041[@click=app.quit]x[/] [/nope] [bold]b[/bold]"
)
FORBIDDEN = (
    "\x07",
    "\x08",
    "\x9b",
    "\x9d",
    "\u202e",
    "\u2066",
    "\u200b",
    "\U000e0041",
    "\x1b]",
    "\x1bc",
    "\x1bP",
    "\x1b_",
    "\x1b[6n",
    "\x1b[2J",
)


def evil(turn: Turn) -> Say:
    """A model that writes EVIL into every text that a model can write."""
    if turn.agent == "kid":
        return (
            Say(EVIL, calls=[("bash", {"command": f"echo {EVIL}"}), (f"t{EVIL}", {})])
            if not turn.turn
            else Say(f"kid {EVIL}")
        )
    if turn.turn == 0:
        call = ("delegate_task", {"profile": "general", "task": f"#kid {EVIL} do it"})
        return Say(
            (f"Text {EVIL}\n\n", f"```\n{EVIL}\n```\n"),
            calls=[call, ("grep", {"pattern": EVIL}), ("read_file", {"path": f"x{EVIL}"})],
        )
    return Say([*f"# Head {EVIL}\n\n[link](javascript:x) <b>html</b> ![pic](http://127.0.0.1:9/x.png) {EVIL}\n"])


@pytest.mark.parametrize("way", ["terminal", "pipe", "json"])
def test_foreign_sequences_never_reach_the_terminal(friday: Friday, way: str) -> None:
    (friday.project / f"file-{EVIL.replace('/', '')[:80]}.txt").write_text("x", encoding="utf-8")
    with friday.meets(evil):
        if way == "terminal":
            with shown(friday, "go", "--deny", "bash") as terminal:  # the screen refuses any sequence but ours
                assert terminal.end() == 0
                assert terminal.clean
                raw = terminal.raw
                assert "[@click=app.quit]x[/]" in terminal.screen.text.replace("\n", "")
                assert "[bold]b[/bold]" in terminal.screen.text.replace("\n", "")
        else:
            ran = friday.run("go", "--deny", "bash", *(("--output-format", "json") if way == "json" else ()))
            assert ran.code == 0
            raw = ran.out + ran.err
            assert "\x1b" not in raw
            raw = raw if way == "pipe" else ran.err
    assert [f for f in FORBIDDEN if f in raw] == []
    assert "]8;" not in raw
    if way != "json":
        assert "denied: a.1 bash echo" in raw.replace("\r\n", "")


def test_a_hostile_folder_name(friday: Friday) -> None:
    friday.plays("agents: {a: [{text: well}]}")
    folder = friday.project / "d\x1b]0;x\x07\u202e"
    folder.mkdir()
    ran = friday("hi", "-c", "-C", str(folder))
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert not any(f in ran.err for f in FORBIDDEN)


def test_html_and_sources_are_seen(friday: Friday) -> None:
    friday.plays(r"""
agents:
  a:
    - text: "The type is List<String>.\n\n<details>\nInside\n</details>\n\nSources:\n\n[1]: https://example.com/a\n"
      chunk_delay_s: 0.002
""")
    with shown(friday, "say") as terminal:
        assert terminal.end() == 0
        for text in ("List<String>.", "<details> Inside </details>", "[1]: https://example.com/a"):
            assert text in terminal.screen.text


def test_a_reply_that_begins_again_is_not_glued_to_the_old_text(friday: Friday) -> None:
    """A second `message_start` in one stream."""
    events = [claude.start("msg_1"), *claude.text(0, "A paragraph.\n\nThe weather is"), claude.start("msg_2")]
    stream = Reply(named(*events, *claude.text(0, "It is sunny."), *claude.end()))
    with friday.meets(lambda turn: stream), shown(friday, "say") as terminal:
        assert terminal.end() == 0
        text = terminal.screen.text
    assert "The weather is" not in text
    assert re.search(r"^\[The reply was interrupted and is restarted.\]\n+It is sunny.$", text, re.M)
