"""Keys of the person's own, and commands that offer a choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.frontends.tui.keys import keys
from friday_cli.frontends.tui.state import keymap
from tests.frontends.tui.chat import does, opened

TWO = {"a": [{"text": "One."}, {"text": "Two."}]}


def put(home: Path, text: str) -> None:
    path = home / "friday" / "keys.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_a_key_of_one_s_own_works_in_place_of_the_old_and_is_shown(tmp_path: Path, home: Path) -> None:
    put(home, '"app.tree" = "f7"\nprompt.newline = "ctrl+n"\n')
    async with opened(tmp_path, TWO, size=(130, 30)) as chat:
        await chat.type("a")
        await chat.press("ctrl+n", "b")
        assert chat.composer.text == "a\nb"
        await chat.press("ctrl+t")
        assert not chat.side.has_class("shown")
        await chat.press("f7")
        assert chat.side.has_class("shown")
        await chat.shows("Enter opens · x stops · m writes")
        chat.composer.clear()
        await chat.press("f7")
        await chat.say("/keys", shows="Everywhere")
        shown = "\n".join(block.text() for block in chat.log.blocks.blocks)
        assert "| `F7` | The tree of agents: show, go there, hide (yours) | `app.tree` |" in shown


async def test_what_is_wrong_with_the_file_is_said_and_the_rest_holds(tmp_path: Path, home: Path) -> None:
    put(home, '"app.tree" = "f7"\n"app.nothing" = "f8"\n"app.help" = "the big key"\n')
    async with opened(tmp_path, TWO, size=(200, 50)) as chat:
        await chat.shows("'app.nothing';")
        assert '"ctrl+f,slash",' in chat.frame
        await chat.press("f7")
        assert chat.side.has_class("shown")
        await chat.press("f1", shows="/permissions")
        chat.composer.area.focus()
        chat.app.clear_notifications()  # they are in front of the page
        await chat.say("/keys")  # longer than the screen: from its beginning
        await chat.until(lambda: "Everywhere" in chat.frame and "Your own keys" not in chat.frame)
        await chat.say("and now?", shows="One.")


async def test_a_file_that_is_no_toml_changes_nothing(tmp_path: Path, home: Path) -> None:
    put(home, "app.tree = \n")
    async with opened(tmp_path, TWO, size=(160, 30)) as chat:
        await chat.shows("Invalid")
        await chat.press("ctrl+t")
        assert chat.side.has_class("shown")


def test_hints_name_the_keys_that_hold() -> None:
    mine = {"app.tree": "f7,f8", "agent.cancel": "ctrl+k"}
    assert keys.respelled("Ctrl+T agents · Esc stops", mine) == "F7 agents · Esc stops"
    assert keys.respelled("Enter opens · x stops · Esc", mine) == "Enter opens · Ctrl+K stops · Esc"
    page = keys.keys_page()
    for words, name in keys.HINTED.items():
        row = next(row for row in page.splitlines() if row.endswith(f"| `{name}` |"))
        assert words.split(" ")[0].replace("Esc", "Escape") in row.split("`")[1].split(", ")


def test_every_key_has_a_name_of_its_own() -> None:
    named = [binding.id for _, bindings in keys.places() for binding in bindings]
    assert None not in named
    assert len(named) == len(set(named))


async def test_a_mode_and_a_model_are_chosen_from_a_list(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        await chat.ask("hello")
        await chat.say("/model")
        await chat.until(lambda: "* scripted" in chat.frame and "demo" in chat.frame)
        chat.app.screen.dismiss("demo")
        await chat.until(lambda: "demo: scripted" in chat.frame and "› hello" in chat.frame)
        await chat.say("/mode", shows="2 edits: Reads and edits")
        await chat.press("2")
        await chat.until(lambda: chat.state.mode == "edits")
        await chat.say("/mode everything", shows="Unknown mode 'everything'")


async def test_notes_are_promoted_and_forgotten_by_number(tmp_path: Path) -> None:
    save = does("memory_save", text="The tests need Python 3.11.")
    async with opened(tmp_path, {"a": [save, {"text": "Kept."}]}, mode="edits") as chat:
        await chat.ask("keep it")
        await chat.say("/memory", shows="The tests need Python 3.11.")
        await chat.say("/memory forget 1", shows="1 note forgotten.")
        await chat.say("/memory forget 1")
        await chat.until(lambda: "There is no note" in chat.frame or "no note" in chat.frame)
        await chat.say("/memory burn", shows="Write /memory promote ID")


def test_without_a_file_the_names_of_all_keys_are_not_looked_up(home: Path) -> None:
    def names() -> set[str]:
        raise AssertionError("it loads every widget")

    assert keymap.read(names) == keymap.Keys()
    put(home, '"app.tree" = "f7"\n')
    with pytest.raises(AssertionError):
        keymap.read(names)
