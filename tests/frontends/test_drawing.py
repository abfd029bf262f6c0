"""Drawing on a terminal: the live lines in their columns, the area that is drawn over, and the answer block by block."""

from __future__ import annotations

import asyncio
import io
import sys
from typing import Any

import pytest
from rich.cells import cell_len

from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    CallDelta,
    Envelope,
    MessageAdded,
    SessionStarted,
    StatusChanged,
    TextDelta,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from friday_cli.core.protocol.messages import Message, ToolCall, Usage
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.frontends.oneshot import terminal
from friday_cli.frontends.oneshot.progress import SILENT_S, ProgressLines
from friday_cli.frontends.oneshot.terminal import (
    BLOCK_CHARS,
    StatusArea,
    StreamedMarkdown,
    can_redraw,
    remark,
    truncate_line,
)
from friday_cli.view import SessionView
from tests.screen import Screen

# ---- the lines -------------------------------------------------------------------------


class Scene:
    """A session told in events, one second apart."""

    def __init__(self) -> None:
        self.state = SessionView()
        self.live = ProgressLines(self.state)
        self.now = 100.0
        self.tell("a", SessionStarted(1, "s", "/ws", "0"), AgentStarted(1, "friday", "go", "m"))

    def tell(self, path: str, *events: Any) -> Scene:
        for event in events:
            durable = not isinstance(event, TextDelta | CallDelta)
            self.state.apply(Envelope(int(self.now) if durable else None, self.now, path, event))
            self.live.last_event[path] = self.now
        return self

    def child(self, path: str, profile: str = "researcher", task: str = "dig") -> Scene:
        return self.tell(
            path, AgentStarted(1, profile, task, "m", path.rpartition(".")[0]), StatusChanged("running"), TurnStarted(1)
        )

    def lines(self, width: int = 79, *, later: float = 0.0) -> list[str]:
        return self.live.lines(width, self.now + later)

    @property
    def line(self) -> str:
        found = self.lines()
        assert len(found) == 1
        return found[0]


def test_the_root_has_a_line_while_it_works_alone_in_silence() -> None:
    scene = Scene().tell("a", TurnStarted(1))
    assert scene.lines(later=3) == ["▸ friday  thinking  3 s"]
    scene.tell("a", TextDelta(1, 1, 0, "Hello"))
    assert scene.lines() == []
    scene.tell("a", AgentFinished(1, "completed", "done"))
    assert scene.lines() == []


def test_a_child_has_a_line_from_start_to_end() -> None:
    scene = Scene().child("a.1", task="find it")
    assert scene.line.split() == ["▸", "a.1", "researcher", "find", "it", "thinking", "0", "s"]
    scene.tell("a.1", TextDelta(1, 1, 0, "I"))
    assert " writing " in scene.line
    scene.tell("a.1", CallDelta(1, 1, 0, "grep", 12))
    assert " calling grep " in scene.line
    call = ToolCall("c", "grep", {})
    scene.tell("a.1", MessageAdded(Message("assistant", (call,))), ToolStarted("c", "grep", "'x' in src"))
    assert " grep 'x' in src " in scene.line
    scene.tell("a.1", AgentFinished(1, "completed", "done"))
    assert not any("a.1" in row for row in scene.lines())


def test_a_child_that_ended_with_warnings_keeps_its_line() -> None:
    scene = Scene().child("a.1", task="find it").child("a.2")
    scene.tell("a.1", AgentFinished(1, "completed", "done", receipt=Receipt(warnings=("claims changes",))))
    for _ in range(2):
        second, first = scene.lines()
        assert first.split()[:5] == ["!", "a.1", "researcher", "find", "it"]
        assert "  claims changes  " in first
        assert second.startswith("▸ a.2 researcher")
        scene.tell("a.2", TurnStarted(2))
    scene.live.last_event.clear()  # as when it ended before this run
    assert scene.line.startswith("▸ a.2")


@pytest.mark.parametrize(
    ("status", "detail", "later", "words"),
    [
        ("queued", (), 0.0, "waiting for a slot"),
        ("waiting_child", (None, None, ("a.1.1", "a.1.2")), 0.0, "waiting for sub-agents"),
        ("waiting_user", (), 0.0, "waiting for an answer"),
        ("waiting_budget", ("tokens",), 0.0, "waits for tokens"),
        ("waiting_budget", ("cost",), 0.0, "waits for cost budget"),
        ("waiting_rate", (None, 12.0), 0.0, "rate limit: 12 s"),
        ("waiting_rate", (None, 12.0), 4.5, "rate limit: 8 s"),
        ("waiting_rate", (None, 12.0), 13.0, "waiting for its turn"),
        ("waiting_rate", ("server", 2.0), 0.5, "retrying in 2 s"),
        ("waiting_rate", (), 0.5, "waiting for its turn"),
    ],
)
def test_what_an_agent_waits_for(status: Any, detail: tuple[Any, ...], later: float, words: str) -> None:
    scene = Scene().child("a.1").tell("a.1", StatusChanged(status, *detail))
    assert f"  {words}  " in scene.lines(later=later)[0]


def test_one_line_says_when_the_network_is_tried_again_for_all() -> None:
    scene = Scene().child("a.1").child("a.2").tell("a.1", StatusChanged("waiting_rate", "network", 8.0))
    scene.tell("a.2", StatusChanged("waiting_rate", "network", 1.0))
    line, first, second = scene.lines(later=0.5)
    assert line == "  no connection, trying again in 8 s"
    assert "  no connection  " in first
    assert "  no connection  " in second
    assert scene.lines(later=9)[0] == "  connecting again"
    scene.tell("a.1", StatusChanged("running")).tell("a.2", StatusChanged("running"))
    assert len(scene.lines()) == 2


def test_a_long_silence_is_said() -> None:
    scene = Scene().child("a.1")
    assert "thinking" in scene.lines(later=SILENT_S)[0]
    assert "no response for 25 s" in scene.lines(later=25)[0]


def test_the_columns_hold_still_and_nothing_is_too_wide() -> None:
    scene = Scene().child("a.1", task="文字" * 50).child("a.2", "summarizer", "short")
    scene.child("a.2.1", "analyst", "a\x1b[31mb\tc\nd")
    call = ToolCall("c", "bash", {})
    scene.tell("a.2", MessageAdded(Message("assistant", (call,))), ToolStarted("c", "bash", "make " * 40))
    for width in (120, 79, 60, 50, 40, 20, 5, 1):
        for later in (0, 61, 3700):
            rows = scene.lines(width, later=later)
            assert len(rows) == 3
            assert all(cell_len(row) <= width for row in rows)
    rows = scene.lines(79)
    assert len({cell_len(row[: row.index("0 s")]) for row in rows}) == 1
    assert len({row.index(word) for row, word in zip(rows, ("文", "short", "ab c d"), strict=True)}) == 1
    assert "0:01:01" not in "".join(scene.lines(79, later=61))
    assert "1:01" in scene.lines(79, later=61)[0]
    assert "1:01:40" in scene.lines(79, later=3700)[0]


def test_tokens_and_cost_are_estimated_while_a_reply_streams() -> None:
    begun = TurnStarted(2, request=Usage(input=600, cost_usd=0.006, estimated=True), output_usd=0.00001)
    scene = Scene().child("a.1").tell("a.1", begun)
    assert "$" not in scene.line
    scene.tell("a.1", TextDelta(2, 1, 0, "x" * 2_400))
    assert scene.line.split()[-2:] == ["~1.2k", "~$0.012"]
    scene.tell("a.1", TurnFinished(2, Usage(input=1000, output=500, cost_usd=0.02)))
    assert scene.line.split()[-2:] == ["1.5k", "$0.020"]


def test_of_many_agents_it_is_said_how_many() -> None:
    scene = Scene()
    for n in range(1, 11):
        scene.child(f"a.{n}")
    assert len(scene.lines()) == 10
    scene.child("a.11")
    rows = scene.lines()
    assert len(rows) == 10
    assert rows[-1] == "  … and 2 more"


# ---- the area ----------------------------------------------------------------------------


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def size(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The size of the terminal, to be changed."""
    found = {"columns": 40, "lines": 10}
    monkeypatch.setattr("shutil.get_terminal_size", lambda: terminal.os.terminal_size(found.values()))
    monkeypatch.setattr(terminal, "REFRESH_S", 0.0)
    return found


async def drawn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_area_is_drawn_over_and_erased(size: dict[str, int]) -> None:
    stream, screen = Tty(), Screen(40, 10)
    stream.write("before\n")
    area = StatusArea(stream)
    rows = ["one", "two " * 30, "th\x1b[2Jree"]
    area.update(lambda width: rows)
    await drawn()
    screen.feed(stream.getvalue())
    assert screen.text.split("\n") == ["before", "one", ("two " * 30)[:38] + "…", "three"]
    stream.seek(0)
    stream.truncate()
    rows.pop()
    await drawn()
    area.erase()
    stream.write("between\n")
    await drawn()
    area.close()
    await drawn()
    stream.write("after\n")
    screen.feed(stream.getvalue())
    assert screen.text == "before\nbetween\nafter"
    assert screen.wrapped == 0


async def test_a_terminal_that_becomes_narrower_is_cleaned_all_the_same(size: dict[str, int]) -> None:
    stream = Tty()
    area = StatusArea(stream)
    area.update(lambda width: ["x" * width])
    await drawn()
    size["columns"] = 20
    area.erase()
    assert stream.getvalue().endswith("\x1b[2F\x1b[J"), "39 signs take two rows of 20"
    area.close()


async def test_more_lines_than_rows(size: dict[str, int]) -> None:
    stream, screen = Tty(), Screen(40, 10)
    area = StatusArea(stream)
    area.update(lambda width: [f"row {n}" for n in range(30)])
    await drawn()
    area.close()
    screen.feed(stream.getvalue())
    assert screen.text == ""


async def test_a_terminal_that_went_away_is_no_failure(size: dict[str, int]) -> None:
    class Gone(Tty):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    area = StatusArea(Gone())
    area.update(lambda width: ["row"])
    await drawn()
    area.close()


@pytest.mark.parametrize(
    ("term", "able"), [("xterm", True), ("dumb", False), ("unknown", False), ("", False), (None, False)]
)
def test_which_terminals_can_be_drawn_over(term: str | None, able: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert can_redraw(Tty()) is able
    assert not can_redraw(io.StringIO())


def test_a_remark_that_nobody_reads(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    remark("odd \x1b[2J words")
    assert capsys.readouterr().err == "friday: odd  words\n"

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    remark("nobody hears this")


def test_clipping() -> None:
    assert truncate_line("abc", 3) == "abc"
    assert truncate_line("abcd", 3) == "ab…"
    assert cell_len(truncate_line("文字文字", 4)) <= 4
    assert truncate_line("a\tb\nc", 9) == "a b c"


# ---- the answer ----------------------------------------------------------------------------

TEXT = """\
# Head
Under the head, **bold**.

- one
- two
  more of two

```python
# not a head

x = "**"
```
after the fence
| a | b |
|---|---|
| 1 | 2 |

~~~
```
~~~

last *line*"""


def printed(capsys: pytest.CaptureFixture[str], pieces: list[str]) -> str:
    answer = StreamedMarkdown(None)
    for piece in pieces:
        answer.feed(piece, attempt=(1, 1))
    answer.finish_reply(TEXT)
    return capsys.readouterr().out


def test_the_answer_is_the_same_however_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    whole = printed(capsys, [TEXT])
    assert printed(capsys, []) == whole, "also where nothing was streamed"
    for size in (1, 2, 3, 7, 50):
        assert printed(capsys, [TEXT[i : i + size] for i in range(0, len(TEXT), size)]) == whole
    assert "**bold**" not in whole
    assert '"**"' in whole
    assert "\n\n\n" not in whole


def test_what_is_not_whole_yet_is_the_tail() -> None:
    answer = StreamedMarkdown(None)
    assert answer.tail(20) == []
    answer.feed("First paragraph, done.\n\nSecond one that is longer than a row of", attempt=(1, 1))
    assert answer.tail(20) == ["Second one that is", "longer than a row of"]
    answer.feed("\n".join(f"line {n}" for n in range(9)), attempt=(1, 1))
    assert answer.tail(20) == [f"line {n}" for n in range(3, 9)]
    answer.finish_reply("")
    assert answer.tail(20) == []


def test_a_second_attempt_begins_anew(capsys: pytest.CaptureFixture[str]) -> None:
    answer = StreamedMarkdown(None)
    answer.feed("whole\n\nbro", attempt=(1, 1))
    answer.feed("whole\n\nunbroken", attempt=(1, 2))
    answer.finish_reply("whole\n\nunbroken")
    answer.feed("next turn", attempt=(2, 1))
    answer.finish_reply("next turn")
    text = " ".join(capsys.readouterr().out.split())
    assert text == "whole [The reply was interrupted and is restarted.] whole unbroken next turn"


def test_a_huge_block_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    answer = StreamedMarkdown(None)
    answer.feed("**x** " * BLOCK_CHARS, attempt=(1, 1))
    answer.finish_reply("")
    assert capsys.readouterr().out.count("**x**") == BLOCK_CHARS
