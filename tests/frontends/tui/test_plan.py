"""Mode plan has an end: the model hands in its plan, the person decides, and the next mode is the chosen one."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.core.permissions.decision import Mode
from friday_cli.session.commands import Compact
from tests.frontends.tui.chat import Chat, does, opened
from tests.frontends.tui.test_asking import asked, no_grace

__all__ = ["no_grace"]

PLAN = "# The plan\n\n1. Make **out.txt**\n2. Read it"
WRITES = does("write_file", path="out.txt", content="made\n")


async def test_a_person_is_not_told_what_the_model_is_to_do(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "Seen."}]}) as chat:
        await chat.say("/plan")
        await chat.ask("look", shows="Seen.")
        chat.has("The permission mode is now plan: look, think and answer;", "nothing that changes anything runs.")
        assert "hand in a plan" not in chat.frame


async def test_a_task_after_the_command_is_sent_in_mode_plan(tmp_path: Path, no_grace: None) -> None:
    async with opened(tmp_path, {"a": [does("ask_user", plan=PLAN), {"text": "Finished."}]}) as chat:
        await asked(chat, say="/plan make out.txt")
        assert (chat.state.mode, chat.state.root and chat.state.root.task) == ("plan", "make out.txt")
        chat.has("Friday hands in a plan")


async def handed_in(chat: Chat) -> None:
    await chat.say("/plan")
    await asked(chat, say="plan it")
    chat.has(
        "Friday hands in a plan", "The plan", "1 Make out.txt", "❯ 1 Do it; change files without asking (mode edits)"
    )
    chat.has(
        "2 Do it; ask about each change", "3 Keep planning, and say what to change", "4 Leave plan mode; do nothing"
    )


@pytest.mark.parametrize(
    ("keys", "mode", "said"),
    [
        ("1", "edits", "The user approved the plan. Mode edits applies"),
        ("3 m o r e enter", "plan", "keep planning, and hand in a better one. The user wrote: more"),
        ("escape", "plan", "keep planning, and hand in a better one."),
        ("4", "ask", "does not want the plan carried out"),
    ],
)
async def test_the_answer_decides_the_mode(tmp_path: Path, no_grace: None, keys: str, mode: Mode, said: str) -> None:
    agents = {"a": [does("ask_user", plan=PLAN), WRITES, {"text": "Finished."}]}
    async with opened(tmp_path, agents, size=(100, 40)) as chat:
        await handed_in(chat)
        await chat.press(*keys.split())
        if mode == "ask":
            await chat.until(lambda: any(ask.event.id.startswith("p") for ask in chat.state.asks.values()))
            await chat.press("n", "enter")
        await chat.idle()
        assert chat.state.mode == mode
        assert (tmp_path / "out.txt").exists() is (mode == "edits")
        run = next(iter(chat.state.agents["a"].calls.values()))
        assert said in run.text
        if mode == "edits":
            kept = run.text.rpartition("kept in ")[2].rstrip(".")
            assert Path(kept).read_text() == PLAN  # noqa: ASYNC240
            chat.has("Make out.txt", "└ The user approved the plan.")


async def test_with_each_change_asked_about_nothing_passes_and_the_plan_survives_compaction(
    tmp_path: Path, no_grace: None
) -> None:
    agents = {
        "a": [does("ask_user", plan=PLAN), WRITES, {"text": "Finished."}, {"text": "Summary."}, {"text": "Again."}]
    }
    async with opened(tmp_path, agents, size=(100, 40)) as chat:
        await handed_in(chat)
        await chat.press("2")
        await chat.until(lambda: any(ask.event.id.startswith("p") for ask in chat.state.asks.values()))
        await chat.press("n", "enter")
        await chat.idle()
        assert not (tmp_path / "out.txt").exists()
        for _ in range(2):
            await chat.session.do(Compact())
            history = chat.session._main.agent.conversation.history
            assert [m.text for m in history if "Make **out.txt**" in m.text] != []
