"""Marking text with the keyboard, and links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from friday_cli.frontends.tui.terminal.clipboard import takers
from friday_cli.frontends.tui.widgets.transcript import Transcript
from tests.frontends.tui.chat import Chat, opened

TEXT = "alpha beta\n\ngamma delta\n\nsee <https://example.org/a_b?c=1>, and (https://example.com/x)."
ONE: dict[str, Any] = {"a": [{"text": TEXT}]}


async def reading(chat: Chat) -> Transcript:
    """The answer is the current entry, so that marking begins at its first character."""
    await chat.ask("go")
    chat.log.focus()
    await chat.press("j", "j")
    return chat.log


@pytest.mark.parametrize(
    ("keys", "copied"),
    [
        (["v", *["right"] * 4, "c"], "alpha"),
        (["v", *["right"] * 6, "v", "shift+down", "shift+down", "y"], "beta\n\ng"),
        (["shift+right", "end", "y"], "alpha beta"),
        (["v", *["right"] * 8, "v", "home", "c"], "alpha bet"),
    ],
)
async def test_text_is_marked_with_keys_and_copied(tmp_path: Path, keys: list[str], copied: str) -> None:
    async with opened(tmp_path, ONE) as chat:
        reader = await reading(chat)
        await chat.press(*keys[:-1], shows="c copies")
        await chat.press(keys[-1])
        await chat.until(lambda: chat.app.clipboard == copied)
        assert reader.marker.caret is None
        assert chat.app.screen.get_selected_text() is None


async def test_esc_leaves_marking_and_changes_nothing_else(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE) as chat:
        reader = await reading(chat)
        await chat.press("v", "down", "escape")
        assert reader.marker.caret is None
        assert reader.has_focus
        assert chat.composer.text == ""


async def test_the_caret_goes_out_of_view_and_the_view_follows(tmp_path: Path) -> None:
    many = {"a": [{"text": "\n\n".join(f"line {n}" for n in range(60))}]}
    async with opened(tmp_path, many) as chat:
        reader = await reading(chat)
        await chat.press("v", "pagedown", "pagedown", *["down"] * 4)
        assert reader.scroll_y > 20
        await chat.press(*["pageup"] * 6, "c")
        await chat.until(lambda: chat.app.clipboard != "")


async def test_a_link_is_chosen_opened_and_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url, *_, **__: went.append(url))
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setenv("PATH", "")
    async with opened(tmp_path, ONE) as chat:
        await reading(chat)
        await chat.press("l", shows="2 https://example.com/x")
        await chat.press("1")
        await chat.until(lambda: chat.app.clipboard == "https://example.org/a_b?c=1")
        assert went == ["https://example.org/a_b?c=1"]


@pytest.mark.parametrize(("name", "taker"), [("WAYLAND_DISPLAY", "wl-copy"), ("DISPLAY", "xclip"), ("", "")])
def test_the_program_of_the_desktop_that_is_there_takes_what_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs_in_temporary_folders: None, name: str, taker: str
) -> None:
    for known in ("WAYLAND_DISPLAY", "DISPLAY", "WSL_DISTRO_NAME", "TMUX"):
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    for program in ("wl-copy", "xclip", "xsel", "pbcopy"):
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    if name:
        monkeypatch.setenv(name, "there")
    assert [command[0] for command in takers()] == [str(tmp_path / taker)] * bool(taker)
