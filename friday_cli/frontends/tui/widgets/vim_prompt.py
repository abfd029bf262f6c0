"""Gives the prompt the keys of vim. `vim_keys` is loaded for those who want them."""

from __future__ import annotations

from .composer import Composer


def use_vim(composer: Composer, wanted: bool) -> None:
    """Read the keys of the prompt in vim's way from now on, or no longer."""
    area = composer.area
    if wanted == (area.vim is not None):
        return
    from .vim_keys import VimKeys, VimText

    def beyond(letter: str) -> bool:
        if letter == "k":
            return composer.up(first_row=area.cursor_at_first_line)
        return composer.down(last_row=area.cursor_at_last_line)

    def show(mode: str) -> None:
        area.border_subtitle = mode

    text = VimText(area, lambda at, left: area.outside(at, left=left), beyond, show)
    area.vim = VimKeys(text) if wanted else None
    show(area.vim.shown if area.vim else "")


async def switch_vim(composer: Composer, wanted: bool | None) -> str:
    """As `use_vim`, and keep it in the settings; None changes it. Returns what to tell the user. Raises FridayError."""
    import asyncio

    from friday_cli.config.edit import set_value

    use_vim(composer, composer.area.vim is None if wanted is None else wanted)
    on = composer.area.vim is not None
    await asyncio.to_thread(set_value, "tui.vim", "true" if on else "false")
    return "Vim keys: on. Esc is normal mode, i insert mode." if on else "Vim keys: off."
