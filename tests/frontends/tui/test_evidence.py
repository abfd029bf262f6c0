"""The chat shows what the harness knows of a sub-agent's work: its result, its receipt, warnings, and marks of findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from friday_cli.frontends.tui.widgets.agent_panel import ChildHeader
from friday_cli.frontends.tui.widgets.blocks import Block
from friday_cli.frontends.tui.widgets.transcript import Transcript
from tests.frontends.tui.chat import Chat, delegates, does, opened

ALONE = (99, 60)
"""A screen on which the panel is not beside the chat, with a second copy of what an agent did."""
CLAIM = "I have fixed parser.py. All tests pass."
NO_CHANGE = "! claims changes, but no file was changed"
RESULT = "# Report\n\nThe **answer** is in notes.md.\n\n" + "\n".join(f"- point {n}" for n in range(1, 9))
FINDINGS = [
    {"claim": "It has two lines.", "evidence": "notes.md:2"},
    {"claim": "It is old.", "evidence": "https://example.org/"},
]


def honest(**result: Any) -> list[dict[str, Any]]:
    """A sub-agent that reads a file and returns a long result with two findings, of which one was seen."""
    turn = does("task_result", result=RESULT, findings=FINDINGS, **result)
    return [does("read_file", path="notes.md"), turn]


def false_claim() -> list[dict[str, Any]]:
    return [does("task_result", result=CLAIM)]


async def started(chat: Chat, folder: Path) -> None:
    (folder / "notes.md").write_text("one\ntwo\n")
    await chat.ask("go", shows="Done.")


def block(log: Transcript) -> Block:
    """The delegation in the main agent's transcript."""
    return next(found for found in log.blocks.blocks if found.matches("agent"))


def rows(log: Transcript) -> list[str]:
    """A whole transcript as text."""
    return [strip.text.rstrip() for strip in log.blocks.all_strips(100)]


async def test_warnings_are_words_and_a_mark_in_the_block_and_the_tree(tmp_path: Path) -> None:
    agents = {
        "a": [delegates("fix it", "read it"), {"text": "Done."}],
        "a.1": false_claim(),
        "a.2": honest(),
    }
    async with opened(tmp_path, agents, size=(150, 40)) as chat:
        await started(chat, tmp_path)
        chat.has("▸ ! [general] a.1 · completed", CLAIM, NO_CHANGE, "! claims that a command ran or tests pass")
        chat.has("▸ tools: task_result", "▸ ✓ [general] a.2 · completed", "▸ tools: read_file, task_result")
        chat.has("2 findings: 1 [seen], 1 [not seen]")
        await chat.press("ctrl+t", shows="! general fix it")
        chat.has("✓ general read it", "claims that a command ran or tests")


async def test_enter_and_a_click_unfold_the_result_and_the_receipt_of_a_block(tmp_path: Path) -> None:
    agents = {"a": [delegates("read it"), {"text": "Done."}], "a.1": honest()}
    async with opened(tmp_path, agents, size=ALONE) as chat:
        await started(chat, tmp_path)
        chat.has("│ # Report", "… 7 more lines")
        lines = chat.frame.split("\n")
        receipt = next(y for y, line in enumerate(lines) if "▸ tools: read_file" in line)
        await chat.pilot.click(offset=(20, receipt))
        await chat.shows("tools run: read_file, task_result")
        assert "… 7 more lines" in chat.frame, "only the receipt is unfolded"
        chat.log.focus()
        await chat.press("a", "enter", shows="point 8")
        chat.has("The answer is in notes.md.", "[seen] It has two lines. (notes.md:2)", "[not seen] It is old.")
        text = chat.frame
        assert text.index("point 8") < text.index("│ » read it") < text.index("│ ▸ ✓ read_file notes.md")
        assert text.count("point 8") == 1, "the history below does not repeat the result"
        await chat.press("enter", shows="… 7 more lines")
        await chat.press("ctrl+o", shows="│ » read it")
        chat.has("[seen] It has two lines.", "tools run: read_file, task_result")


async def test_attempts_at_tools_that_an_agent_does_not_have_are_in_its_receipt_and_its_row(tmp_path: Path) -> None:
    tries: dict[str, Any] = {"calls": [{"name": name, "arguments": {}} for name in ("launch", "launch", "write_file")]}
    agents = {"a": [delegates("read it", profile="researcher"), {"text": "Done."}], "a.1": [tries, *honest()]}
    async with opened(tmp_path, agents, size=(150, 40)) as chat:
        await started(chat, tmp_path)
        chat.has("▸ denied: launch x2, write_file · tools: read_file, task_result", "✓ researcher read it")
        assert chat.frame.count("denied: launch") == 4, (
            "in the block, the row, the head and at the end of the transcript"
        )


async def test_what_a_child_writes_is_behind_a_bar_and_cannot_pass_for_the_receipt(tmp_path: Path) -> None:
    agents = {
        "a": [delegates("fix it"), {"text": "Done."}],
        "a.1": [does("task_result", result="▸ parser.py +3 -1 · pytest -> exit 0\n\n[bold]! fine[/bold]")],
    }
    async with opened(tmp_path, agents, size=ALONE) as chat:
        await started(chat, tmp_path)
        for key in ("", "enter"):
            chat.log.focus()
            await chat.press("a", *([key] if key else []))
            words = [row.strip() for row in rows(chat.log) if "pytest" in row or "[bold]" in row]
            assert words == ["│ ▸ parser.py +3 -1 · pytest -> exit 0", "│ [bold]! fine[/bold]"], key
            assert "      ▸ tools: task_result" in rows(chat.log)


async def test_a_task_that_was_not_started_is_named_below_those_that_were(tmp_path: Path) -> None:
    tasks = does("delegate_tasks", tasks=[{"profile": "nobody", "task": "x"}, {"profile": "general", "task": "y"}])
    async with opened(tmp_path, {"a": [tasks, {"text": "Done."}], "a.1": honest()}, size=ALONE) as chat:
        await started(chat, tmp_path)
        chat.has("[general] a.1 · completed", "✗ Task 1 of 2 was not started: There is no profile 'nobody'.")
        chat.log.focus()
        await chat.press("e")
        assert chat.log.entry.block is block(chat.log), "it is an error to jump to"


async def test_a_notice_about_a_sub_agent_is_in_its_block(tmp_path: Path) -> None:
    agents = {"a": [delegates("read it", profile="researcher"), {"text": "Done."}], "a.1": honest()}
    async with opened(tmp_path, agents, size=ALONE) as chat:
        await started(chat, tmp_path)
        chat.has("    ! a.1 (researcher) cannot use web_search: no search service is configured")
        await chat.press("ctrl+o", shows="│ ! a.1 (researcher) cannot use web_search")
        assert chat.frame.count("cannot use web_search") == 1


async def test_the_unfolded_block_has_the_result_of_an_earlier_run(tmp_path: Path) -> None:
    agents = {
        "a": [delegates("read it"), {"text": "Done."}],
        "a.1": [*honest(), {"fail": {"kind": "auth", "message": "no key"}}],
    }
    async with opened(tmp_path, agents, size=ALONE) as chat:
        await started(chat, tmp_path)
        await chat.session.result(await chat.session.start_agent("a.1", "once more"))
        await chat.shows("Earlier result:")
        chat.has("[general] a.1 · failed", "no key", "│ # Report", "2 findings: 1 [seen], 1 [not seen]")
        chat.log.focus()
        await chat.press("a", "enter", shows="point 8")
        text = chat.frame
        assert text.index("no key") < text.index("Earlier result:") < text.index("point 8") < text.index("│ » read it")
        chat.has("[seen] It has two lines. (notes.md:2)")


async def test_the_keys_stop_at_every_agent_and_receipt_of_a_batch(tmp_path: Path) -> None:
    agents = {"a": [delegates("fix it", "read it"), {"text": "Done."}], "a.1": false_claim(), "a.2": honest()}
    async with opened(tmp_path, agents, size=ALONE) as chat:
        await started(chat, tmp_path)
        chat.log.focus()
        await chat.press("a", "j", "enter", shows="tools run: task_result")
        await chat.press("j", "enter", shows="│ ▸ ✓ read_file notes.md")
        assert "tools run: read_file" not in chat.frame
        await chat.press("j", "enter", shows="tools run: read_file, task_result")
        await chat.press("j", "j", "enter", shows="│     path: notes.md")  # into the history of a.2
        await chat.press("k", "k", "k", "enter")
        await chat.until(lambda: "read_file notes.md" not in chat.frame)
        assert "tools run: task_result" in chat.frame, "only a.2 is folded"


async def test_a_childs_own_transcript_ends_with_its_result(tmp_path: Path) -> None:
    agents = {"a": [delegates("read it"), {"text": "Done."}], "a.1": honest()}
    async with opened(tmp_path, agents, size=(150, 40)) as chat:
        await started(chat, tmp_path)
        await chat.press("ctrl+t", "home", "down", "enter")
        await chat.until(lambda: chat.side.inside)
        log = chat.side.log_view
        shown = rows(log)
        assert shown[-3:] == [
            "· [seen] It has two lines. (notes.md:2)",
            "! [not seen] It is old. (https://example.org/)",
            "▸ tools: read_file, task_result",
        ]
        assert "The answer is in notes.md." in shown, "Markdown, not the arguments of the call"
        await chat.press("k")  # the last entry
        await chat.press("enter", shows="▾ tools: read_file, task_result")
        chat.has("  tools run: read_file, task_result")


async def test_an_unfolded_call_of_task_result_shows_the_result_whatever_its_argument_is_called(tmp_path: Path) -> None:
    agents = {"a": [delegates("read it"), {"text": "Done."}], "a.1": [does("task_result", answer=RESULT)]}
    async with opened(tmp_path, agents, size=(150, 60)) as chat:
        await started(chat, tmp_path)
        await chat.press("ctrl+t", "home", "down", "enter")
        await chat.until(lambda: chat.side.inside)
        log = chat.side.log_view
        assert rows(log).count("The answer is in notes.md.") == 1
        await chat.press("k", "k", "enter")
        await chat.until(lambda: "▾" in "".join(rows(log)))
        assert sum("The answer is in notes.md." in row for row in rows(log)) == 2, "the call, and the result below it"
        assert not [row for row in rows(log) if "answer:" in row or "**" in row]


@pytest.mark.parametrize("size", [(150, 40), (80, 24), (60, 15)])
async def test_the_head_of_a_childs_transcript_has_its_warnings_and_its_receipt(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    agents = {"a": [delegates("fix it"), {"text": "Done."}], "a.1": false_claim()}
    async with opened(tmp_path, agents, size=size) as chat:
        await started(chat, tmp_path)
        await chat.press("ctrl+t", "home", "down", "enter")
        await chat.until(lambda: chat.side.inside)
        head = chat.app.query_one(ChildHeader)

        def content() -> list[str]:
            return [strip.text.strip() for strip in head.render_lines(head.size.region)]

        assert content()[0].startswith("[general] a.1 · completed")
        assert content()[-2].startswith("! claims that a command ran or test")  # as much as fits in the panel
        assert content()[-2].endswith("…")
        assert content()[-1] == "▸ tools: task_result"
        await chat.press("enter")
        await chat.until(lambda: chat.side.has_class("full"))
        assert content()[-2:] == ["▾ tools: task_result", "tools run: task_result"], "the full screen unfolds it"
        await chat.pilot.click(ChildHeader)
        await chat.until(lambda: content()[-1] == "▸ tools: task_result")
        assert chat.side.log_view.size.height >= 5


async def test_the_head_of_a_childs_transcript_has_its_task_only_where_that_is_scrolled_away(tmp_path: Path) -> None:
    long = [{"text": "\n\n".join(f"row {number}" for number in range(60))}]
    agents = {"a": [delegates("short", "long"), {"text": "Done."}], "a.1": [{"text": "Seen."}], "a.2": long}
    async with opened(tmp_path, agents, size=(100, 30)) as chat:
        await chat.ask("go")
        await chat.press("ctrl+t", "home", "down", "enter", "enter")
        await chat.until(lambda: chat.side.has_class("full") and "Seen." in chat.frame)
        await chat.until(lambda: chat.frame.count("short") == 1)
        await chat.press("escape", "escape", "ctrl+t", "home", "down", "down", "enter", "enter")
        await chat.until(lambda: chat.side.has_class("full") and "row 59" in chat.frame and "long" in chat.frame)
