"""The side pane: every agent in the tree, its transcript, and what a person does to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.core.protocol.agent_path import is_under
from friday_cli.view import MessageItem
from tests.frontends.tui.chat import Chat, delegates, does, opened

SLOW = {"text": "one two three four five six seven", "chunk_delay_s": 60.0}


TWO = {"a": [delegates("first", "second"), {"text": "Done."}], "a.*": [SLOW]}


async def begun(chat: Chat) -> None:
    """Both sub-agents have begun."""
    await chat.say("go")
    await chat.until(lambda: len(chat.state.agents) == 3)


@pytest.mark.parametrize(("width", "shown"), [(100, True), (99, False), (60, False)])
async def test_the_pane_opens_by_itself_where_there_is_room(tmp_path: Path, width: int, shown: bool) -> None:
    async with opened(tmp_path, TWO, size=(width, 30)) as chat:
        assert not chat.side.has_class("shown")
        await begun(chat)
        await chat.until(lambda: chat.side.has_class("shown") is shown)
        if not shown:
            assert "at work" in chat.frame
            await chat.press("ctrl+t", shows="general first")
            await chat.press("escape")
            assert not chat.side.has_class("shown")


async def test_who_waits_for_tokens_is_seen(tmp_path: Path) -> None:
    """Both share 20,000 tokens, which is too little for two requests at once."""
    async with opened(tmp_path, TWO, size=(130, 30), flags={"limits.max_tokens": 20_000}) as chat:
        await chat.say("go")
        await chat.until(lambda: {"running", "waiting_budget"} <= {a.status for a in chat.state.agents.values()})
        await chat.until(lambda: "◔ general second" in chat.frame)
        await chat.until(lambda: chat.frame.count("waits for tokens") >= 2)  # its row, and its block in the transcript
        await chat.until(lambda: "1 agent at work, 2 waiting" in chat.frame)
        await chat.stop("a.1")
        await chat.until(lambda: chat.state.agents["a.2"].status == "running")
        await chat.until(lambda: "waits for tokens" not in chat.frame)


async def test_abort_names_the_descendants_and_wants_a_second_press(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, size=(130, 30)) as chat:
        await begun(chat)
        await chat.press("ctrl+t", "home", "X", shows="2 agents below a would end too")
        assert chat.app.controller.working
        await chat.press("X")
        await chat.idle()
        assert {agent.status for agent in chat.state.agents.values()} == {"cancelled"}
        await chat.until(lambda: "would end too" not in chat.frame)  # answered by the second press


async def test_one_sub_agent_is_aborted_and_the_others_go_on(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, size=(130, 30)) as chat:
        await begun(chat)
        await chat.press("ctrl+t", "home", "down", "X")
        state = chat.state
        await chat.until(lambda: state.agents["a.1"].ended)
        assert not state.agents["a.2"].ended
        await chat.press("up", "m")
        await chat.until(lambda: chat.composer.area.has_focus)
        await chat.type("hurry")
        await chat.press("enter", shows="» at its next turn: hurry")
        assert "■ general first" in chat.frame  # it stays in the tree
        assert await chat.session.stop("a.2")
        await chat.until(lambda: state.agents["a.2"].ended and "at its next turn" not in chat.frame)


async def test_enter_opens_a_transcript_and_a_second_one_fills_the_screen(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, size=(130, 30)) as chat:
        await begun(chat)
        await chat.press("ctrl+t", "home", "down", "enter")
        assert chat.side.child == "a.1"
        assert chat.side.log_view.has_focus
        assert "[general] a.1" in chat.frame
        await chat.press("enter")
        await chat.until(lambda: chat.side.has_class("full"))
        assert chat.side.log_view.size.width > 120
        await chat.press("escape")
        assert not chat.side.has_class("full")


async def test_the_result_of_a_sub_agent_is_copied_and_it_is_written_to(tmp_path: Path) -> None:
    agents = {
        "a": [delegates("first"), {"text": "Done."}],
        "a.1": [{"text": "Mine."}, {"text": "I was asked again."}],
    }
    async with opened(tmp_path, agents, size=(130, 30)) as chat:
        await chat.ask("go")
        await chat.press("ctrl+t", "home", "down", "c")
        await chat.until(lambda: chat.app.clipboard == "Mine.")
        await chat.press("m")
        await chat.until(lambda: chat.composer.area.has_focus)
        await chat.type("once more")
        assert "to a.1 general" in chat.frame
        await chat.press("enter", shows="I was asked again.")
        await chat.idle()
        assert chat.state.agents["a.1"].task == "first"
        await chat.press("escape")
        assert "to a.1" not in chat.frame


async def test_a_command_is_for_the_chat_also_while_the_prompt_is_for_a_sub_agent(tmp_path: Path) -> None:
    agents = {"a": [delegates("first"), {"text": "Done."}], "a.1": [{"text": "Mine."}, {"text": "Again."}]}
    async with opened(tmp_path, agents, size=(130, 30)) as chat:
        await chat.ask("go")
        await chat.press("ctrl+t", "home", "down", "m", shows="to a.1 general")
        await chat.say("/status", shows="session: ")
        assert chat.state.agents["a.1"].run == 1
        await chat.say("/tmp/x is it", shows="Again.")  # a path begins a message


async def test_a_waited_for_sub_agent_goes_to_the_background(tmp_path: Path) -> None:
    agents = {"a": [delegates("first"), {"text": "I go on."}], "a.1": [SLOW]}
    async with opened(tmp_path, agents, size=(130, 30)) as chat:
        await chat.say("go")
        await chat.until(lambda: "a.1" in chat.state.agents)
        await chat.press("ctrl+b", shows="I go on.")
        assert "bg" in chat.frame
        await chat.stop("a.1")


async def test_the_tree_is_filtered_sorted_and_folded(tmp_path: Path) -> None:
    agents = {
        "a": [delegates("first", "second"), {"text": "Done."}],
        "a.1": [{"fail": {"kind": "config", "message": "no such model"}}],
        "a.2": [{"text": "Fine."}],
    }
    async with opened(tmp_path, agents, size=(130, 30)) as chat:
        await chat.ask("go")
        await chat.press("ctrl+t", "home", "f", "f")
        assert chat.side.agents.paths == ["a.1"]
        await chat.press("s", shows="failed: 1 · by cost")
        await chat.press("f", "f", "s", "s", "home")
        assert not chat.app.query_one("#tree-head").display
        await chat.press("space")
        assert chat.side.agents.paths == ["a"]
        assert all(is_under(path, "a") for path in chat.state.agents)


@pytest.mark.parametrize(
    ("width", "keys"),
    [(130, ["ctrl+t", "ctrl+t"]), (99, ["ctrl+t", "home", "down", "enter", "escape"])],
    ids=["hidden", "left"],
)
async def test_hiding_or_leaving_the_pane_of_a_child_at_work_wants_a_second_press(
    tmp_path: Path, width: int, keys: list[str]
) -> None:
    async with opened(tmp_path, TWO, size=(width, 30)) as chat:
        await chat.say("go")
        await chat.until(lambda: "a.1" in chat.state.agents)
        await chat.press(*keys, shows="still running")
        assert chat.side.has_class("shown")
        await chat.press(keys[-1])
        assert not chat.side.has_class("shown")
        assert not chat.state.agents["a.1"].ended


async def test_a_stop_takes_back_the_note_about_hiding_the_pane(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, size=(130, 30)) as chat:
        await chat.say("go")
        await chat.until(lambda: "a.1" in chat.state.agents)
        await chat.press("ctrl+t", "ctrl+t", shows="still running")
        await chat.press("ctrl+c", shows="Press Ctrl+C again to quit.")
        assert "still running" not in chat.frame


async def test_the_width_of_the_pane_and_the_theme_are_found_again(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, size=(130, 30)) as chat:
        await chat.app.input.use_theme("ansi-dark")
        chat.app.action_tree()
        await chat.pilot.pause()
        chat.app.action_wider(10)
        await chat.pilot.pause()
        width = chat.side.size.width
    async with opened(tmp_path, TWO, size=(130, 30)) as chat:
        assert chat.app.theme == "ansi-dark"
        chat.app.action_tree()
        await chat.pilot.pause()
        assert chat.side.size.width == width


async def test_a_message_that_begins_with_a_sub_agent_goes_there(tmp_path: Path) -> None:
    """The main agent reads of it with its next message."""
    turns = [delegates("first"), {"text": "Done."}, {"text": "Over."}]
    agents = {"a": turns, "a.1": [{"text": "found it"}, {"text": "and more"}]}
    async with opened(tmp_path, agents, size=(120, 40)) as chat:
        await chat.ask("go")
        await chat.say("@a.1 once more", shows="and more")
        assert (chat.state.agents["a.1"].run, chat.state.agents["a"].run) == (2, 1)
        sent = chat.state.agents["a.1"].transcript
        assert "once more" in [item.text for item in sent if isinstance(item, MessageItem)]
        await chat.ask("go on", shows="Over.")
        chat.has("· To the agent: The user has continued your sub-agent a.1 (general)")
        assert "Note of the harness" not in chat.frame


async def test_a_sub_agent_that_spent_its_tokens_is_given_more(tmp_path: Path) -> None:
    """Its earlier result stays in sight also when the continuation fails."""
    agents = {
        "a": [delegates("first"), {"text": "Done."}],
        "a.1": [
            {"text": "found it", "usage": {"input": 99_000}},
            {"fail": {"kind": "auth", "message": "no key"}},
            {"text": "and more"},
        ],
    }
    async with opened(tmp_path, agents, size=(120, 40)) as chat:
        await chat.ask("go")
        await chat.press("ctrl+t", "home", "down", "m")
        await chat.until(lambda: chat.app.chat.composer.area.has_focus)
        await chat.type("once more")
        await chat.press("enter", shows="How many more tokens?")
        assert "a.1 was not continued: " in chat.frame
        await chat.press("escape")
        await chat.until(lambda: chat.app.chat.composer.text == "once more")
        assert chat.state.agents["a.1"].run == 1, "nothing was run"
        await chat.press("enter", shows="How many more tokens?")
        await chat.type("20000")
        await chat.press("enter")
        await chat.until(lambda: chat.state.agents["a.1"].ended and chat.state.agents["a.1"].run == 2)
        await chat.shows("│ found it")
        chat.has("Earlier result:")
        assert chat.state.agents["a.1"].newest_start.tokens == 99_000 + 20_000
        await chat.press("ctrl+t", "home", "down", "c")
        await chat.until(lambda: chat.app.clipboard == "found it")


async def test_a_person_takes_a_sub_agent_over_and_hands_it_back(tmp_path: Path) -> None:
    waits = does("bash", command="until test -e go; do sleep 0.05; done")
    play = {"a": [delegates("first"), {"text": "Done."}], "a.1": [waits, {"text": "looked"}]}
    async with opened(tmp_path, play, size=(130, 30), allow=("bash",)) as chat:
        await chat.say("go")
        await chat.until(lambda: "a.1" in chat.state.agents)
        await chat.press("ctrl+t", "home", "down", "t")
        await chat.until(lambda: chat.state.agents["a.1"].taken_over)
        (tmp_path / "go").touch()
        await chat.until(lambda: chat.state.agents["a.1"].status == "waiting_user")
        await chat.until(lambda: "taken over by you" in chat.frame)
        await chat.say("look there")
        await chat.until(lambda: "looked" in chat.frame)
        await chat.say("/handback my own words")
        await chat.idle()
        end = chat.state.agents["a.1"].end
        assert end is not None
        assert end.text == "my own words"
        await chat.say("/handback", shows="You have not taken over a sub-agent.")


async def test_a_tree_without_agents_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "One."}]}, size=(80, 24)) as chat:
        await chat.say("/agents", shows="No agent has run yet.")
        await chat.press("escape")
        await chat.ask("go", shows="One.")
        await chat.press("ctrl+t")
        await chat.until(lambda: chat.side.agents.has_focus and "friday go" in chat.frame)
        assert "No agent has run yet." not in chat.frame
