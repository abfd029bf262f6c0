"""Commands of every day: the list of models, settings and themes, status, hooks, skills, steps, undo and notes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from friday_cli import config
from friday_cli.frontends.tui.commands.command_table import OTHER_NAMES, find
from friday_cli.frontends.tui.widgets.status_bar import short_count
from friday_cli.session import lists
from friday_cli.session.commands import MeasureContext
from friday_cli.view import ResultItem
from tests.agents.hooks.hook_files import hook, own_hooks
from tests.frontends.tui.chat import Chat, delegates, does, opened
from tests.frontends.tui.terminal_fixture import Terminal
from tests.llm.models.test_local_servers import serving
from tests.servers.site import page, site

ONE = {"a": [{"text": "One."}, {"text": "Two."}]}
MODELS = {"/v1/models": {"data": [{"id": "big", "context_length": 90_000}, {"id": "small", "context_length": 8_000}]}}


def configure(text: str) -> None:
    path = Path(os.environ["FRIDAY_HOME"]) / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_models_of_every_configured_service_are_listed_with_window_and_price_and_searched(tmp_path: Path) -> None:
    async with serving(MODELS) as server:
        configure(f"""[providers.work]
base_url = "{server.url}/v1"
prices = {{ input = 3, output = 15 }}
""")
        async with opened(tmp_path, ONE, model="work/big") as chat:
            await chat.say("/model", shows="* work/big")
            chat.has("   90k  $3 / $15", "  work/small", "8k", "context window 90,000 tokens", "demo")
            await chat.type("sma")
            await chat.until(lambda: "* work/big" not in chat.frame)
            await chat.press("enter", shows="The session continues with work/small.")
            assert chat.session.facts.model == "work/small"
            await chat.say("/model", shows="* work/small")
            await chat.press("escape")
            await chat.until(lambda: "* work/small" not in chat.frame)
            assert chat.session.facts.model == "work/small"


async def test_the_list_of_models_is_there_before_the_services_answer_and_keeps_what_is_selected(
    tmp_path: Path,
) -> None:
    asked, answers = asyncio.Event(), asyncio.Event()
    whole = page("application/json", json.dumps(MODELS["/v1/models"]).encode())

    async def slow(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await answers.wait()
        await whole(writer)

    async with site({"/v1/models": slow}) as web:
        configure(f'[providers.work]\nbase_url = "{web.url("/v1")}"\n')
        async with opened(tmp_path, ONE, model="work/big") as chat:
            await chat.say("/model", shows="Asking your services ...")
            await asked.wait()
            await chat.press("down", shows="Offline demo: scripted")
            chat.has("* work/big")
            assert "work/small" not in chat.frame
            await chat.press("escape")  # while a service is asked
            await chat.until(lambda: not chat.app.screen_stack[1:])
            asked.clear()
            await chat.say("/model", shows="Asking your services ...")
            await asked.wait()
            await chat.press("down", shows="Offline demo: scripted")
            answers.set()
            await chat.until(lambda: "work/small" in chat.frame and "Asking your services" not in chat.frame)
            chat.has("Offline demo: scripted")
            await chat.press("escape")


async def test_the_free_context_is_that_of_the_chosen_model_before_its_first_request(tmp_path: Path) -> None:
    configure('[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\nwindow = 8000\n')
    async with opened(tmp_path, ONE, size=(120, 40)) as chat:
        await chat.ask("go", shows="free)")
        root = chat.state.root
        assert root is not None
        assert root.window != 8000
        await chat.say("/model work/small", shows=f"({short_count(max(8000 - root.context, 0))} free)")


async def test_a_theme_is_shown_while_it_is_selected_and_kept_only_when_it_is_chosen(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE) as chat:
        before = chat.app.theme
        await chat.say("/theme", shows="auto (in use)")
        await chat.type("nord")
        await chat.until(lambda: chat.app.theme == "nord")
        await chat.press("escape")
        await chat.until(lambda: chat.app.theme == before)
        assert config.load().settings.theme == "auto"
        await chat.say("/theme", shows="auto (in use)")
        await chat.type("nord")
        await chat.press("enter", shows="Theme: nord")
        assert (chat.app.theme, config.load().settings.theme) == ("nord", "nord")


async def test_settings_that_are_safe_are_changed_in_the_chat_and_others_are_not(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE) as chat:
        await chat.say("/config", shows="Which setting?")
        await chat.type("thinks")
        await chat.press("enter", shows="4 medium")
        await chat.press("4", shows="effort = medium, saved in ")
        assert config.load().settings.effort == "medium"
        await chat.say("/config limits.max_turns 7", shows="limits.max_turns = 7")
        await chat.say("/config limits.max_cost")
        await chat.until(lambda: chat.composer.text == "/config limits.max_cost ")
        chat.composer.clear()
        await chat.say("/config show", shows="limits.max_turns")
        await chat.say("/config sandbox.kind none", shows="sandbox.kind is not changed in the chat")
        await chat.say("/config limits.max_turns none", shows="limits.max_turns:")
        await chat.say("/config limits.max_turn 3", shows="There is no setting limits.max_turn")
        assert "sandbox" not in (Path(os.environ["FRIDAY_HOME"]) / "config.toml").read_text()


async def test_a_lone_question_mark_shows_the_help(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "Never."}]}, size=(100, 40)) as chat:
        await chat.type("?")
        await chat.press("enter", shows="what it does")
        assert chat.state.root is None


@pytest.mark.parametrize("word", ["exit", "quit ", ":q"])
async def test_a_lone_word_that_leaves_elsewhere_leaves(tmp_path: Path, word: str) -> None:
    async with opened(tmp_path, {"a": [{"text": "Never."}]}) as chat:
        await chat.type(word)
        await chat.press("enter")
        await chat.until(lambda: not chat.app.is_running)
        assert chat.state.root is None


async def test_cards_say_how_the_session_and_its_parts_are(tmp_path: Path) -> None:
    skill = Path(os.environ["FRIDAY_HOME"]) / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies the imports.\n---\nDo it.\n")
    steps = [{"text": "Read it", "status": "done"}, {"text": "Change it", "status": "active"}, {"text": "Test it"}]
    async with opened(tmp_path, {"a": [does("todo", items=steps), {"text": "Planned."}]}, size=(60, 40)) as chat:
        await chat.say("/hooks", shows="There are no hooks.")
        chat.has('{"hooks": {"PreToolUse": [', "friday config schema hooks")
        await chat.say("/todo", shows="There is no list of steps.")
        await chat.ask("plan it")
        for typed, shown in {
            "/todo": "2 [>] Change it",
            "/skills": "Tidies the imports.",
            "/status": "mode: ask",
        }.items():
            await chat.say(typed, shows=shown)
        chat.has("session: ", "folder:", "1 agent, 0 at work")


async def test_enter_in_a_list_of_levels_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, mode="edits") as chat:
        for typed in ("/mode", "/effort"):
            await chat.say(typed)
            await chat.until(lambda: chat.app.screen_stack[1:])
            await chat.press("enter")
            await chat.until(lambda: not chat.app.screen_stack[1:])
        assert (chat.app.controller.mode, chat.session.facts.effort) == ("edits", None)
        await chat.say("/effort low", shows="The effort is now low.")
        await chat.say("/effort", shows="The effort is low.")
        await chat.press("enter", shows="The effort is now low.")


async def test_hooks_say_what_they_can_do(tmp_path: Path) -> None:
    own_hooks({"PreToolUse": [hook("guard.sh", matcher="Bash", onFailure="block")], "Stop": [hook("look.sh")]})
    async with opened(tmp_path, ONE, size=(100, 40)) as chat:
        await chat.say("/hooks", shows="what it does")
        chat.has("may deny, ask, allow, rewrite a call; if it", "may send the agent back to work", "guard.sh from")


async def test_the_context_is_counted_by_part_right_after_a_rewind_and_its_card_folds(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs. " * 400)
    async with opened(tmp_path, ONE, size=(60, 40), trusted=True) as chat:
        await chat.ask("a long message " * 500)
        await chat.say("/context", shows="AGENTS.md and notes")
        size = await chat.session.do(MeasureContext())
        root = chat.state.root
        assert root is not None
        assert abs(size.used - root.context) < root.context / 10
        assert (size.memory > 1_000, size.messages > 1_500) == (True, True)
        chat.has(f"{size.messages:,}", f"{size.free:,} free", "STNM·")
        await chat.say("/rewind 1 conversation", shows="Went back")
        chat.composer.clear()
        await chat.say("/context", shows="system prompt")
        after = await chat.session.do(MeasureContext())
        assert (after.system, after.tools, after.memory) == (size.system, size.tools, size.memory)
        assert after.messages < 100 < after.used
        await chat.ask("hello")
        await chat.until(lambda: "▸ Context: about" in chat.frame)
        assert "system prompt" not in chat.frame


async def test_undo_takes_the_last_message_back_with_its_files(tmp_path: Path) -> None:
    writes = does("write_file", path="new.txt", content="x\n")
    async with opened(tmp_path, {"a": [{"text": "Hello."}, writes, {"text": "Written."}]}, mode="edits") as chat:
        await chat.say("/undo", shows="There is no message to take back yet.")
        await chat.ask("hello")
        await chat.ask("write it")
        await chat.say("/undo", shows="Go back to before: write it")
        await chat.press("1", shows="Undo it with /rewind undo")
        assert not (tmp_path / "new.txt").exists()
        assert "› hello" in chat.frame
        assert chat.composer.text == "write it"


async def test_a_review_is_done_by_the_reviewer_and_marks_what_it_opened(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    found = [{"claim": "x is never used", "evidence": "app.py:1"}, {"claim": "y is lost", "evidence": "gone.py:7"}]
    turns = {
        "a": [delegates("Review it", profile="reviewer"), {"text": "Two defects."}],
        "a.1": [does("read_file", path="app.py"), does("task_result", result="Two.", status="success", findings=found)],
    }
    async with opened(tmp_path, turns) as chat:
        await chat.say("/review --exec=x", shows="is not a branch or commit")
        chat.composer.clear()
        await chat.say("/review main")
        await chat.until(lambda: chat.state.root is not None and chat.state.root.ended)
        chat.has("main...HEAD`", "1 [seen], 1 [not seen]")
        assert await lists.title(chat.session.id) == "Review of main"
        agent = chat.state.agents["a.1"]
        assert agent.profile == "reviewer"
        assert [
            finding.seen for item in agent.transcript if isinstance(item, ResultItem) for finding in item.findings
        ] == [
            True,
            False,
        ]


async def keep(chat: Chat, note: str, key: str) -> None:
    await chat.say(note, shows="Keep this note for later sessions?")
    await chat.press(key)


async def test_a_note_is_kept_where_the_person_says(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE) as chat:
        await keep(chat, "# the port is 8080", "1")
        await chat.shows("Note 1 is kept in memory for this project.")
        await keep(chat, "#tabs, not blanks", "2")
        await chat.shows("Note 2 is kept in memory for all projects.")
        await chat.say("/memory", shows="tabs, not blanks, by you")
        assert chat.state.root is None
        await keep(chat, "# a heading", "escape")
        await chat.until(lambda: chat.composer.text == "# a heading")
        await keep(chat, "# a heading", "3")
        await chat.idle()
        await chat.ask("#12 is broken", shows="Two.")


async def test_a_wrong_command_names_the_nearest(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE) as chat:
        await chat.say("/compress", shows="No such command: /compress. In Friday it is: /compact.")
        await chat.say("/statsu", shows="No such command: /statsu. Did you mean /status?")


def test_plain_text_keeps_notes_and_lists_models(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo", "--plain") as terminal:
        terminal.until(b"/help lists the commands")
        terminal.type(b"# the port is 8080\n", until=b"Note 1 is kept in memory for this project.")
        terminal.type(b"/model\n", until=b"Write the command again, followed by one of them.")
        terminal.type(b"/status\n", until=b"- mode: ask")


async def test_cost_says_why_a_cache_was_lost(tmp_path: Path) -> None:
    wrote, lost = {"input": 10, "cache_write": 5_000}, {"input": 5_010}
    turns = [{"text": "One.", "usage": wrote}, {"text": "Two.", "usage": lost}]
    async with opened(tmp_path, {"a": turns}) as chat:
        await chat.ask("first")
        await chat.ask("second")
        await chat.say("/cost", shows="Not read from the cache again:")
        chat.has("had cached were not read from its cache", "so the service dropped them")


def test_a_name_of_other_assistants_is_none_of_ours_and_leads_to_one_that_exists() -> None:
    for name, here in OTHER_NAMES.items():
        assert find(name) is None, name
        assert not here.startswith("/") or find(here[1:].split()[0]), here
