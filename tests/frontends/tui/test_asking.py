"""Permissions and questions: who asks, what exactly, and that nothing is approved by accident."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from friday_cli.frontends.tui.widgets import approval_panel
from friday_cli.frontends.tui.widgets.approval_panel import Approval
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.agents.test_agent_factory import QUERIES, Vendor, search, vendor
from tests.engine_fixture import Say, batch
from tests.frontends.tui.chat import Chat, delegates, does, opened
from tests.timing import paced
from tests.workspace.sandbox.conftest import choice

__all__ = ["choice", "vendor"]

ONE = {"a": [does("bash", command="echo first > out.txt"), {"text": "Finished."}]}


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_panel, "GRACE_S", 0.0)


async def asked(chat: Chat, count: int = 1, *, say: str = "") -> Approval:
    """Wait for so many asks, after a message."""
    if say:
        await chat.say(say)
    await chat.until(lambda: len(chat.state.asks) == count and chat.app.refresher.quiet)
    return chat.app.query_one(Approval)


async def test_a_call_is_asked_about_in_full_and_runs_after_a_yes(tmp_path: Path, no_grace: None) -> None:
    agents = {"a": [does("bash", command="echo first > out.txt # \u202e; rm x"), {"text": "Finished."}]}
    async with opened(tmp_path, agents) as chat:
        panel = await asked(chat, say="go")
        assert panel.has_focus
        assert "Friday wants to run a command" in chat.frame
        assert "echo first > out.txt # \\u202e; rm x" in chat.frame, "invisible characters are spelled out"
        assert "1 needs you" in chat.frame
        await chat.press("1")
        await chat.idle()
        assert (tmp_path / "out.txt").read_text() == "first\n"
        assert not panel.display


async def test_a_command_that_failed_where_it_can_only_look_is_asked_about_with_the_reason(
    tmp_path: Path, no_grace: None, choice: SandboxChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRIDAY_SANDBOX", choice.kind)
    (tmp_path / ".env").write_text("KEY=1\n")
    agents = {"a": [does("bash", command="find . -name '.e*' -type f -exec wc -l {} +"), {"text": "Finished."}]}
    async with opened(tmp_path, agents) as chat:
        await asked(chat, say="go")
        told = " ".join(chat.frame.replace("│", " ").split())
        assert "it ran read-only, and failed: wc: ./.env: Permission denied" in told
        await chat.press("1")
        await chat.idle()
        run = next(iter(chat.state.agents["a"].calls.values()))
        assert run.status == "ok"
        assert "1 ./.env" in run.text


async def test_a_call_in_the_spelling_of_another_program_is_asked_about_as_it_is_understood(
    tmp_path: Path, no_grace: None
) -> None:
    (tmp_path / "f.txt").write_text("one\ntwo\n")
    edit = does("edit_file", file_path="f.txt", old_string="two", new_string="2", instruction="A digit.")
    async with opened(tmp_path, {"a": [does("read_file", file_path="f.txt"), edit, {"text": "Finished."}]}) as chat:
        await asked(chat, say="go")
        assert "old_string" not in chat.frame
        assert re.search(r"-\s*two", chat.frame)
        assert re.search(r"\+\s*2\b", chat.frame)
        await chat.press("1")
        await chat.idle()
        assert (tmp_path / "f.txt").read_text() == "one\n2\n"


async def test_a_no_carries_its_reason_to_the_agent(tmp_path: Path, no_grace: None) -> None:
    async with opened(tmp_path, ONE) as chat:
        await asked(chat, say="go")
        await chat.press("down", "enter", shows="Enter answers · Up: the choices")
        chat.app.query_one("#ask-words", Input).value = "use a file in "
        for key in ("x", "backspace", "b", "u", "i", "l", "d", "slash"):  # all at once
            chat.app.post_message(events.Key(key, {"backspace": None, "slash": "/"}.get(key, key)))
        await chat.pilot.pause()
        await chat.press("enter")
        await chat.idle()
        assert chat.state.denials[0].reason == "use a file in build/"
        assert not (tmp_path / "out.txt").exists()


async def test_a_rule_for_the_session_holds_until_it_is_removed(tmp_path: Path, no_grace: None) -> None:
    call = does("bash", command="touch it")
    async with opened(tmp_path, {"a": [call, call, {"text": "Both ran."}]}) as chat:
        await chat.say("/permissions remove", shows="No rule was allowed")
        await asked(chat, say="go")
        assert "Yes, and `touch it` in this session" in chat.frame
        await chat.press("2")
        await chat.idle()
        assert "Both ran." in chat.frame
        await chat.say("/permissions", shows="this session")
        await chat.say("/permissions remove", shows="1 bash(touch it)")
        await chat.press("1")
        await chat.until(lambda: chat.state.rules == [])
        session_id = chat.session.id
    async with opened(tmp_path, {"a": [call, {"text": "Again."}]}, resume=session_id) as chat:
        await chat.say("again")
        await asked(chat)


async def test_a_search_by_the_service_is_asked_about_once_with_a_yes_for_the_session(
    tmp_path: Path, no_grace: None, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-0123456789")
    vendor.script = {
        "a": [Say(calls=[batch({"profile": "researcher", "task": "look"})]), Say("Both were found.")],
        "a.1": [search(QUERIES[0]), search(QUERIES[1]), Say("found")],
    }
    async with opened(tmp_path, {}, model="anthropic/x") as chat:
        await asked(chat, say="go")
        chat.has("researcher", "web_search", QUERIES[0], "Yes, and web_search in this session")
        assert vendor.queries == []
        await chat.press("2")
        await chat.idle()
        assert vendor.queries == QUERIES
        chat.has("Both were found.")


async def test_what_is_always_allowed_is_kept_in_the_settings_until_it_is_removed(
    tmp_path: Path, no_grace: None, home: Path
) -> None:
    settings = home / "friday" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('# mine\n[permissions]\nallow = ["bash(make)"]\n')
    call = does("bash", command="touch it")
    async with opened(tmp_path, {"a": [call, {"text": "It ran."}, call]}, deny=("bash(rm *)",)) as chat:
        await asked(chat, say="go")
        await chat.press("3")
        await chat.idle()
        assert "touch it" in settings.read_text()
        await chat.say("/permissions")
        await chat.until(lambda: "~/friday/config.toml:3" in chat.frame)
        await chat.say("/permissions remove", shows="bash(make) (~/friday/config.toml:3)")
        await chat.press("escape")
        await chat.say("/permissions remove bash(rm *)", shows="No such rule")
        await chat.say("/permissions remove bash(touch it)")
        await chat.until(lambda: "touch it" not in settings.read_text())
        assert "# mine" in settings.read_text()
        assert "bash(make)" in settings.read_text()
        await asked(chat, say="go")


async def test_a_yes_for_the_session_answers_the_same_question_of_others(tmp_path: Path, no_grace: None) -> None:
    agents = {
        "a": [delegates("one", "two", "rm", profile="coder"), {"text": "All done."}],
        "a.*": [does("bash", command="touch it"), {"text": "Mine is done."}],
        "a.3": [does("bash", command="touch other"), {"text": "Mine is done."}],
    }
    async with opened(tmp_path, agents) as chat:
        await asked(chat, 3, say="go")
        await chat.press("left", shows="touch other")
        await chat.press("right", shows="`touch it` in this session")
        await chat.press("2")
        await chat.until(lambda: len(chat.state.asks) == 1 and "wants to run a command" in chat.frame)
        assert [ask.agent for ask in chat.state.asks.values()] == ["a.3"]
        await chat.press("1")
        await chat.idle()
        assert (tmp_path / "it").exists()


async def test_a_question_offers_its_choices(tmp_path: Path, no_grace: None) -> None:
    question = does("ask_user", question="Which way?", choices=["left", "right"])
    agents = {"a": [question, {"text": "You said: {results[0]}"}]}
    async with opened(tmp_path, agents) as chat:
        await asked(chat, say="go")
        assert "Which way?" in chat.frame
        await chat.shows("? ask_user Which way? · waits for you")
        await chat.press("2")
        await chat.idle()
        assert "✓ ask_user Which way?" in chat.frame
        assert "right" in chat.log.blocks.blocks[-1].text()
        assert "└ The user answered: right" in chat.frame


async def test_on_a_small_screen_all_choices_and_the_field_for_words_are_seen(tmp_path: Path, no_grace: None) -> None:
    task = "Write it down, line by line, as it was told"
    writes = does("write_file", path="out.txt", content="".join(f"line {n}\n" for n in range(30)))
    agents = {"a": [delegates(task, profile="coder"), {"text": "Done."}], "a.1": [writes, {"text": "Done."}]}
    async with opened(tmp_path, agents, size=(60, 20)) as chat:
        panel = await asked(chat, say="go")
        await chat.shows("the rest of it")
        for seen in (
            "New file: 30 lines",
            "+ line 0",
            "❯ y 1 Yes",
            "2 Yes, and all file changes of this session (mode",
            "edits)",
            "n   No",
        ):
            assert seen in chat.frame
        assert f"for: {task}" in chat.frame
        await chat.pilot.click("#ask-choices", offset=(6, 2))  # the second row of the second
        await chat.shows("❯   2")
        await chat.press("n")
        await chat.until(lambda: "Why not?" in chat.frame and "+ line 0" in chat.frame and panel.region.bottom <= 16)
        await chat.stop()
        await chat.idle()
        assert chat.composer.area.has_focus, "what was asked is settled: the prompt has the keys"


async def test_a_question_with_more_choices_than_rows_shows_the_chosen(tmp_path: Path, no_grace: None) -> None:
    question = does("ask_user", question="Which way?", choices=[f"way {n}: {'on and on ' * 8}" for n in range(6)])
    agents = {"a": [question, {"text": "Done."}]}
    async with opened(tmp_path, agents, size=(60, 20)) as chat:
        await asked(chat, say="go")
        for key, seen in (("down", "❯ 2 way 1"), ("up", "❯ 1 way 0"), ("up", "❯ 7 In my own words")):
            await chat.press(key)
            await chat.until(lambda seen=seen: seen in chat.frame)  # type: ignore[misc]
            assert "Which way?" in chat.frame


@paced
async def test_a_question_does_not_take_the_keys_from_somebody_who_types(tmp_path: Path, pace: float) -> None:
    agents = {"a": [does("bash", command="echo x > out.txt") | {"delay_s": 0.8 * pace}, {"text": "Finished."}]}
    async with opened(tmp_path, agents) as chat:
        await chat.say("go")
        await chat.type("my next")
        assert not chat.state.asks
        await asked(chat)
        await chat.type("1 thought")
        assert chat.composer.text == "my next1 thought"
        assert chat.state.asks


async def test_words_that_come_faster_than_the_focus_approve_nothing_and_are_the_reason_after_n(
    tmp_path: Path, no_grace: None
) -> None:
    async with opened(tmp_path, ONE) as chat:
        panel = await asked(chat, say="go")
        words = {"space": " ", "enter": "\r"}
        for key in ("o", "k", "space", "1", "j", "y", "enter"):  # all of them before anything can move the focus
            panel.post_message(events.Key(key, words.get(key, key)))
        await chat.until(lambda: "ok 1jy" in chat.frame and not chat.composer.text)  # sent: it waits in the queue
        assert chat.state.asks
        await chat.press("ctrl+y")
        for key in ("n", "o", "t", "space", "y", "1", "enter"):  # no, and why
            panel.post_message(events.Key(key, words.get(key, key)))
        await chat.idle()
        assert chat.state.denials[0].reason == "ot y1"
        assert not (tmp_path / "out.txt").exists()


async def test_y_means_yes_once_and_only_after_the_grace(tmp_path: Path, no_grace: None) -> None:
    async with opened(tmp_path, ONE) as chat:
        panel = await asked(chat, say="go")
        panel.grace.until += 1e6
        await chat.press("1", "enter", "y")
        await chat.until(lambda: chat.composer.text == "y")
        assert chat.state.asks
        panel.grace.until = 0.0
        await chat.press("ctrl+y", "y")
        await chat.idle()
        assert (tmp_path / "out.txt").exists()
        assert not chat.state.rules


async def test_a_yes_right_after_the_key_that_goes_to_the_question_is_not_for_the_prompt(
    tmp_path: Path, no_grace: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = {"a": [delegates("first task", profile="coder"), {"text": "All done."}], "a.1": ONE["a"]}
    async with opened(tmp_path, agents, size=(130, 40)) as chat:
        panel = await asked(chat, say="go")
        await chat.press("ctrl+t", "home", "down", shows="a answers")
        with monkeypatch.context() as patch:
            patch.setattr(approval_panel, "GRACE_S", 1e6)
            await chat.press("a", "y")
        assert (chat.composer.text, panel.has_focus, len(chat.state.asks)) == ("", True, 1)
        panel.grace.until = 0.0
        await chat.press("y")
        await chat.idle()
        assert (tmp_path / "out.txt").exists()


async def test_no_key_answers_a_question_that_is_not_on_the_screen_yet(
    tmp_path: Path, no_grace: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the picture of a long transcript takes a second: the key was pressed for something else."""
    drawn: list[Callable[[], object]] = []

    def later(panel: Approval, callback: Callable[[], object]) -> bool:
        drawn.append(callback)
        return True

    async with opened(tmp_path, ONE) as chat:
        monkeypatch.setattr(Approval, "call_after_refresh", later)
        panel = await asked(chat, say="go")
        for key in ("1", "enter"):
            await chat.pilot.press(key)
        await chat.pilot.click("#ask-choices", offset=(4, 0), times=2)
        assert chat.state.asks
        assert panel.asked
        for callback in drawn:
            callback()
        await chat.press("1")
        await chat.idle()
        assert (tmp_path / "out.txt").exists()


async def test_a_change_is_asked_about_and_shown_as_a_diff(tmp_path: Path, no_grace: None) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    edit = does("edit_file", path="notes.txt", edits=[{"old": "two", "new": "three"}])
    agents = {"a": [does("read_file", path="notes.txt"), edit, {"text": "Finished."}]}
    async with opened(tmp_path, agents) as chat:
        await asked(chat, say="go")
        chat.has("- two", "+ three")
        await chat.press("1")
        await chat.idle()
        chat.has("2 - two", "2 + three")


async def test_what_a_delegation_usually_uses_is_in_the_question_and_on_its_card(
    tmp_path: Path, no_grace: None
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("[agents.delegation]\nask_above = 0\n")
    agents = {
        "a": [
            delegates("first", profile="coder"),
            {"text": "One."},
            delegates("second", "third", profile="coder"),
            {"text": "Two."},
        ],
        "a.1": [{"text": "Done."}],
        "a.*": [{"text": "Done.", "delay_s": 30}],
    }
    async with opened(tmp_path, agents, size=(180, 40), config_file=settings) as chat:
        await asked(chat, say="go")
        assert "usual cost unknown (no runs yet)" in chat.frame
        await chat.press("1", shows="One.")
        await chat.idle()
        await asked(chat, say="go on")
        await chat.shows(" last time; suggested budget")
        assert "coder on scripted/.scenario: took " in chat.frame
        await chat.press("1")
        await chat.until(lambda: not chat.state.asks)
        await chat.shows("last time")
        once = r"a\.2 · .*\n.*second.*\n.*coder: took .* last time.*\n.*a\.3 · .*\n.*third"
        assert re.search(once, chat.frame)
        assert len(re.findall("coder: took", chat.frame)) == 1


async def test_asks_of_several_agents_are_answered_from_the_tree_and_from_a_child_s_own_view(
    tmp_path: Path, no_grace: None
) -> None:
    agents = {
        "a": [delegates("first task", "second task", profile="coder"), {"text": "All done."}],
        "a.*": [does("bash", command="echo {task} >> out.txt"), {"text": "Mine is done."}],
    }
    async with opened(tmp_path, agents, size=(130, 40)) as chat:
        await asked(chat, 2, say="go")
        chat.has("Sub-agent a.1 (coder) wants to run a command · 1 of 2", "for: first task")
        await chat.press("right")
        assert "Sub-agent a.2 (coder) wants to run a command · 2 of 2" in chat.frame
        await chat.press("left", "ctrl+t", "home")
        await chat.until(lambda: "Enter opens · x stops" in chat.frame and "a answers" not in chat.frame)
        await chat.press("down", "down", shows="a answers · Enter opens · x stops")
        for words in ("note one", "note two", "note two", "note three"):
            chat.app.notify(words, timeout=600)

        def above() -> list[str]:
            """What stands at the left above the line of the run, which is above the panel."""
            rows = chat.frame.splitlines()
            panel = next((number for number, row in enumerate(rows) if "wants to run a command" in row), 3)
            return [row[:14].strip(" ▌") for row in rows[panel - 4 : panel - 2]]

        await chat.until(lambda: above() == ["note two", "note three"] and "note one" not in chat.frame)
        chat.app.clear_notifications()
        await chat.press("a")
        assert "Sub-agent a.2 (coder) wants to run a command" in chat.frame
        await chat.press("1")
        await asked(chat, 1)
        out = tmp_path / "out.txt"
        await chat.until(lambda: out.exists() and out.read_text() == "second task\n")
        await chat.press("ctrl+t", "home", "down", "enter", "ctrl+y")
        assert "Sub-agent a.1 (coder) wants to run a command" in chat.frame
        assert chat.app.query_one(Approval).has_focus
        await chat.press("1")
        await chat.idle()
        assert "All done." in chat.frame


async def test_neither_a_single_click_nor_the_one_that_brings_the_window_back_answers(
    tmp_path: Path, no_grace: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, ONE) as chat:
        await asked(chat, say="go")
        await chat.pilot.click("#ask-choices", offset=(4, 0))
        assert chat.state.asks, "a single click only selects"
        monkeypatch.setattr(approval_panel, "GRACE_S", 60.0)
        chat.app.post_message(events.AppBlur())
        chat.app.post_message(events.AppFocus())
        await chat.pilot.pause()
        await chat.pilot.click("#ask-choices", offset=(4, 0), times=2)
        await chat.press("1")
        assert chat.state.asks
        assert not (tmp_path / "out.txt").exists()


async def test_yes_to_a_long_command_counts_after_its_fold_was_opened(tmp_path: Path, no_grace: None) -> None:
    lines = "\n".join(f"line {number}" for number in range(40))
    command = f"true first\ncat > out.txt <<'EOF'\n{lines}\nEOF\nchmod +x out.txt\nrm -rf ~/work # the tail"
    agents = {"a": [does("bash", command=command), {"text": "Finished."}]}
    async with opened(tmp_path, agents, size=(80, 24)) as chat:
        await asked(chat, say="go")
        chat.has("recursive delete", "true first", "# the tail", "See all of it first: PgDn opens the fold")
        assert re.search(r"… \d+ lines, \d+ characters folded: here-document", chat.frame)
        rows = chat.frame.splitlines()
        assert next(n for n, row in enumerate(rows) if "recursive delete" in row) < next(
            n for n, row in enumerate(rows) if "│ true first" in row
        ), "the reason stands first"
        await chat.press("n", "enter")
        await chat.idle()


@pytest.mark.parametrize("key", ["1", "y", "enter"])
async def test_no_yes_key_agrees_to_what_was_not_seen(tmp_path: Path, no_grace: None, key: str) -> None:
    command = f"echo {'x' * 900} > out.txt"
    async with opened(tmp_path, {"a": [does("bash", command=command), {"text": "Finished."}]}, size=(80, 24)) as chat:
        await asked(chat, say="go")
        await chat.press(key)
        await chat.until(lambda: "folded" not in chat.frame)
        assert chat.state.asks
        await chat.press(key)
        await chat.idle()
        assert (tmp_path / "out.txt").exists()


async def test_on_a_low_screen_yes_waits_until_the_end_was_scrolled_to(tmp_path: Path, no_grace: None) -> None:
    command = "echo one\necho two\necho three > out.txt"
    async with opened(tmp_path, {"a": [does("bash", command=command), {"text": "Finished."}]}, size=(60, 11)) as chat:
        await asked(chat, say="go")
        await chat.shows("See all of it first: PgDn shows the end")
        await chat.press("tab", shows="See all of it first: Ctrl+Y PgDn shows the end")  # there it scrolls the chat
        await chat.press("ctrl+y", shows="See all of it first: PgDn shows the end")
        end = "│ echo three > out.txt"
        assert end not in chat.frame
        while "See all of it" in chat.frame:
            await chat.press("pagedown")
            assert chat.state.asks
        assert end in chat.frame
        await chat.press("1")
        await chat.idle()
        assert (tmp_path / "out.txt").exists()


async def test_letters_that_look_latin_are_marked_in_a_command(tmp_path: Path, no_grace: None) -> None:
    command = "touch b\u0430ckup\u2800x привет"
    async with opened(tmp_path, {"a": [does("bash", command=command), {"text": "Finished."}]}) as chat:
        await asked(chat, say="go")
        chat.has("touch b\\u0430ckup\\u2800x привет", "\\u0430 CYRILLIC SMALL", "BRAILLE PATTERN BLANK")
        await chat.press("n", "enter")
        await chat.idle()
