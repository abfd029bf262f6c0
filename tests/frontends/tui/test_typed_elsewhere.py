"""What is typed while the focus is not in the prompt, all at once as a fast typist or a paste gives it."""

from __future__ import annotations

from pathlib import Path

from textual import events

from tests.frontends.tui.chat import Chat, delegates, opened

SLOW = {"text": "one two three four five six seven", "chunk_delay_s": 60.0}


def type_at_once(chat: Chat, text: str) -> None:
    """Give the app all keys of a text before it has handled the first."""
    for sign in text:
        chat.app.post_message(events.Key({"/": "slash"}.get(sign, sign), sign))


async def test_a_command_typed_in_the_tree_is_for_the_prompt_and_stops_no_agent(tmp_path: Path) -> None:
    agents = {"a": [delegates("first"), {"text": "Done."}], "a.*": [SLOW]}
    async with opened(tmp_path, agents, size=(120, 30)) as chat:
        await chat.say("go")
        await chat.until(lambda: len(chat.state.working) == 2)
        await chat.press("ctrl+t")
        await chat.until(lambda: chat.side.agents.has_focus)
        type_at_once(chat, "/context")  # of its letters x stops an agent, t takes it over
        await chat.until(lambda: chat.composer.text == "/context")
        assert len(chat.state.working) == 2


async def test_what_is_typed_after_a_slash_in_the_transcript_is_searched(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "the model is here"}]}) as chat:
        await chat.ask("go")
        chat.log.focus()
        await chat.until(lambda: chat.log.has_focus)
        type_at_once(chat, "/model")
        await chat.until(lambda: "1 match" in chat.frame)
        assert chat.composer.text == ""
