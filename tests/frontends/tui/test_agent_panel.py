"""The side pane: worktrees, the keys in a sub-agent's own transcript, its order, and its width by mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from friday_cli.frontends.tui.state import preferences
from tests.frontends.tui.chat import Chat, delegates, does, opened
from tests.workspace.worktrees.repo_fixture import git, repository

SLOW = {"text": "one two three four five six seven", "chunk_delay_s": 60.0}


def apart(text: str) -> dict[str, Any]:
    return {
        "a": [delegates("write it", profile="coder", isolation="worktree"), {"text": "Done."}],
        "a.1": [does("write_file", path="made.txt", content=text), {"text": "Written."}],
    }


async def decided(chat: Chat) -> None:
    """A child wrote a file in a worktree of its own, and the person wants to decide on it."""
    await chat.ask("go")
    assert not (Path(chat.app.controller.options.cwd) / "made.txt").exists()
    await chat.press("ctrl+t", "home", "down", shows="worktree")
    await chat.press("w", shows="Apply all changes to the folder")
    assert "made.txt" in chat.frame


async def test_the_work_of_a_worktree_is_applied_from_the_tree(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo")
    async with opened(folder, apart("new"), size=(130, 30), mode="edits") as chat:
        await decided(chat)
        await chat.press("1", shows="1 file of a.1 applied.")
        assert (folder / "made.txt").read_text() == "new"
        await chat.press("w", shows="has no worktree now")


async def test_work_that_conflicts_is_told_in_full_and_kept_from_the_sub_agent_s_own_view(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo")
    async with opened(folder, apart("new"), size=(100, 30), mode="edits") as chat:
        await decided(chat)
        (folder / "made.txt").write_text("mine")
        await chat.press("1", shows="Nothing was applied: 1 of 1 changed files conflict.")
        assert "made.txt: it was created here as well" in chat.frame
        await chat.shows("+new")
        await chat.press("1")  # decide later
        assert (folder / "made.txt").read_text() == "mine"
        assert chat.state.agents["a.1"].worktree.state == "changed"  # type: ignore[union-attr]
        await chat.until(lambda: "conflict" not in chat.frame)
        await chat.press("enter")
        await chat.until(lambda: chat.side.inside and "worktree: w" in chat.frame)
        await chat.press("w", shows="1 Apply")
        await chat.press("1", shows="1 Decide later")
        await chat.press("3")
        await chat.until(lambda: chat.state.agents["a.1"].worktree.state == "kept")  # type: ignore[union-attr]
        assert "friday/" in git(folder, "branch", "--list")


async def test_discarding_work_asks_once_more(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo")
    async with opened(folder, apart("new"), size=(130, 30), mode="edits") as chat:
        await decided(chat)
        await chat.press("3", shows="Yes, discard 1 changed file")
        await chat.press("enter")  # the first choice keeps it
        assert chat.state.agents["a.1"].worktree.state == "changed"  # type: ignore[union-attr]
        await chat.press("w", shows="3 Discard it")
        await chat.press("3", shows="2 Yes, discard")
        await chat.press("2", shows="is discarded.")
        assert not (folder / "made.txt").exists()
        assert "friday/" not in git(folder, "branch", "--list")


async def test_keys_work_in_the_sub_agent_s_transcript_too(tmp_path: Path) -> None:
    agents = {"a": [delegates("first", "second"), {"text": "Done."}], "a.1": [{"text": "The result."}], "a.2": [SLOW]}
    async with opened(tmp_path, agents, size=(130, 30)) as chat:
        await chat.say("go")
        state = chat.state
        await chat.until(lambda: "a.1" in state.agents and state.agents["a.1"].ended)
        await chat.press("ctrl+t", "end", "enter", "r")
        await chat.until(lambda: chat.app.clipboard == "The result.")
        await chat.press("ctrl+t", "up", "enter")
        assert chat.side.child == "a.2"
        assert chat.side.inside
        await chat.press("X")
        await chat.until(lambda: state.agents["a.2"].ended)
        await chat.idle()
        assert chat.composer.text == ""


async def test_a_delegation_is_seen_while_its_call_is_written_and_its_end_in_the_parents_chat(tmp_path: Path) -> None:
    calls = [*delegates("first")["calls"], *delegates("second")["calls"]]
    writing = {"a": [{"calls": calls, "chunk_delay_s": 60.0}]}
    async with opened(tmp_path, writing, size=(130, 30)) as chat:
        await chat.say("go", shows="Preparing to delegate")
        await chat.stop("a")
    failing = {
        "a": [delegates("first", "second"), {"text": "Done."}],
        "a.1": [{"text": "The result."}],
        "a.2": [{"fail": {"kind": "config", "message": "no such model"}}],
    }
    async with opened(tmp_path, failing, size=(130, 30)) as chat:
        await chat.ask("go")
        chat.has("! [general] a.1 · completed", "│ The result.", "✗ [general] a.2 · failed")


async def test_the_pane_goes_with_the_session_that_had_sub_agents(tmp_path: Path) -> None:
    agents = {"a": [delegates("first"), {"text": "Done."}], "a.*": [{"text": "Fine."}]}
    async with opened(tmp_path, agents, size=(130, 30)) as chat:
        assert not chat.side.has_class("shown")
        assert chat.log.size.width > 120
        await chat.say("go")
        await chat.until(lambda: chat.side.has_class("shown"))
        await chat.idle()
        await chat.say("/new")
        await chat.until(lambda: not chat.side.has_class("shown") and "Done." not in chat.frame)
        assert chat.log.size.width > 120


async def test_the_width_of_the_docked_pane_is_dragged_and_kept(tmp_path: Path) -> None:
    agents = {"a": [delegates("first"), {"text": "Done."}], "a.*": [{"text": "Fine."}]}
    async with opened(tmp_path, agents, size=(130, 30)) as chat:
        await chat.ask("go")
        await chat.until(lambda: chat.side.has_class("shown"))
        left, right = chat.side.region.x, chat.side.region.right
        await chat.pilot.mouse_down(offset=(left, 5))
        await chat.pilot.hover(offset=(right - 50, 5))
        await chat.pilot.mouse_up(offset=(right - 50, 5))
        assert preferences.read().side == 50
        await chat.pilot.hover(offset=(left, 5))  # the button is released: nothing moves
        await chat.until(lambda: chat.side.region.width == 50)
        await chat.press("ctrl+t", "home", "down", "enter")
        await chat.until(lambda: chat.side.log_view.has_focus)
        await chat.press("enter")
        await chat.until(lambda: chat.side.region.width == 130)  # full screen
        await chat.press("escape")
        await chat.pilot.resize_terminal(60, 20)
        await chat.until(lambda: chat.side.region.width == 60)
        await chat.pilot.resize_terminal(80, 20)
        await chat.until(lambda: chat.side.region.width < 60)
        await chat.pilot.resize_terminal(120, 30)
        await chat.until(lambda: chat.side.region.width == 50)


async def test_the_pane_shows_the_sub_agent_that_asks_until_the_person_chooses_one(tmp_path: Path) -> None:
    ask = does("ask_user", question="Which way?", choices=["left", "right"])
    agents = {"a": [delegates("first", "second"), {"text": "Done."}], "a.1": [ask], "a.2": [SLOW]}
    async with opened(tmp_path, agents, size=(120, 30)) as chat:
        await chat.say("go", shows="2 right")
        await chat.until(lambda: chat.side.child == "a.1")
        await chat.press("ctrl+t", "end")
        await chat.until(lambda: chat.side.agents.selected == "a.2" and chat.side.child == "a.2")


async def test_on_a_small_screen_a_question_leaves_the_rows_to_the_tree_one_looks_at(tmp_path: Path) -> None:
    ask = does("ask_user", question="Which way?", choices=["left", "right"])
    agents = {"a": [delegates("first", "second"), {"text": "Done."}], "a.1": [ask], "a.2": [SLOW]}
    async with opened(tmp_path, agents, size=(60, 20)) as chat:
        await chat.say("go", shows="2 right")
        await chat.press("ctrl+t")
        await chat.until(lambda: "2 right" not in chat.frame and "Which way?" in chat.frame)
        await chat.until(lambda: chat.side.agents.region.height >= 6)
        await chat.press("ctrl+y", shows="2 right")


async def test_where_few_rows_are_left_the_tree_and_a_transcript_take_turns(tmp_path: Path) -> None:
    agents = {"a": [delegates("first", "second"), {"text": "Done."}], "a.*": [SLOW]}
    async with opened(tmp_path, agents, size=(90, 16)) as chat:
        await chat.say("go")
        await chat.until(lambda: len(chat.state.agents) == 3)
        await chat.press("ctrl+t", "home", "down")
        await chat.until(lambda: chat.side.agents.region.height > 10 and not chat.side.log_view.region.height)
        await chat.press("enter")
        await chat.until(lambda: chat.side.log_view.region.height > 5 and not chat.side.agents.region.height)
        assert chat.side.log_view.has_focus
        await chat.press("enter", shows="Enter shows the chat again")
        await chat.press("ctrl+t")  # from a transcript to the tree, not away from both
        await chat.until(lambda: chat.side.agents.has_focus and chat.side.agents.region.height > 10)
        await chat.press("enter")
        await chat.until(lambda: chat.side.log_view.has_focus)
        await chat.press("escape")
        await chat.until(lambda: chat.side.agents.has_focus)
        await chat.press("escape")
        await chat.until(lambda: not chat.side.has_class("shown"))
        await chat.press("ctrl+t")
        chat.composer.area.focus()
        await chat.until(lambda: chat.composer.area.has_focus)
        await chat.press("escape")  # from the prompt it stops what runs first
        await chat.idle()
        assert chat.side.has_class("shown")
        await chat.press("escape")
        assert not chat.side.has_class("shown")


async def test_a_note_about_the_worktree_does_not_repeat_the_result_in_the_block(tmp_path: Path) -> None:
    folder, agents = repository(tmp_path / "repo"), apart("new")
    agents["a.1"][1] = does("task_result", result="Written, as asked.")
    async with opened(folder, agents, size=(99, 60), mode="edits") as chat:
        await chat.ask("go", shows="Done.")
        assert chat.state.agents["a.1"].worktree.state == "changed"  # type: ignore[union-attr]
        chat.log.focus()
        await chat.press("a", "enter", shows="│ » write it")
        assert chat.frame.count("Written, as asked.") == 1
