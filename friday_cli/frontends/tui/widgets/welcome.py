"""The first run, without a configured model: paste a key, use a local server, or try the demo."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import sanitize_line

from .chat_request import ChatRequest
from .text_input import TextField

_PREFIXES = (
    ("sk-ant-", "anthropic"), ("sk-or-", "openrouter"), ("gsk_", "groq"), ("AIza", "gemini"), ("sk-", "openai"),
)  # fmt: skip
_TITLE = "Welcome to Friday. No model is configured yet; choose one of three ways:"
_WAYS = (
    "a key: paste it. It is kept in a file that only you can read; or set ANTHROPIC_API_KEY (OPENAI_API_KEY, ...) "
    "before you start Friday",
    "a local server, if one is listed here",
    "the offline demo: a script plays the model; tools, sub-agents and your folder are real",
)
FIRST_S, LATER_S, PAUSE_S = 0.3, 2.0, 1.0
"""Seconds in which a server must answer at the first look and at later ones, and between two looks."""
MOST_MODELS = 6
"""Models of local servers that are listed."""


class Welcome(Vertical):
    """See the module."""

    @dataclass
    class Chosen(ChatRequest):
        """Open a session with `model`, None for the configured one; `first` is the first message, "" for none."""

        model: str | None
        first: str = ""

    def __init__(self) -> None:
        super().__init__()
        self._models = ["demo"]
        self._chosen = False
        """Whether a choice was made: a second press of the same key means that one."""

    def compose(self) -> ComposeResult:
        ways = Table.grid(padding=(0, 1))
        for way in _WAYS:
            ways.add_row("•", Text(way))
        yield Static(Text(_TITLE + "\n"))
        yield Static(ways)
        yield OptionList(Option("Try the offline demo", id="demo"), compact=True, id="ways")
        yield Static(Text("Looking for local servers ...", style="dim"), id="search")
        yield TextField(placeholder="Paste a key and press Enter", password=True, compact=True, id="key")
        yield Static(id="trouble")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self._look_for_servers()

    def on_paste(self, event: events.Paste) -> None:
        """Put a pasted key into the field, which needs no focus first."""
        self._put_key(event, event.text.strip().partition("\n")[0])

    def on_key(self, event: events.Key) -> None:
        """Put a typed key into the field, too."""
        if event.is_printable and event.character and event.character != " ":
            self._put_key(event, event.character)

    def _put_key(self, event: events.Event, text: str) -> None:
        if not self.key.has_focus:
            event.stop()
            self.key.focus()
            self.key.insert_text_at_cursor(text)

    @property
    def key(self) -> Input:
        return self.query_one("#key", Input)

    @work
    async def _look_for_servers(self) -> None:
        """Look for servers on this machine for as long as the card stands, and list the models of each when it answers."""
        seconds = FIRST_S
        while self.is_attached:
            try:
                found = await _local_models(seconds)
            except FridayError as error:
                return self._say_search(f"Local servers: {error}")
            self._list(found)
            seconds = LATER_S
            self._say_search("" if len(self._models) > 1 else "No local server answers yet; still looking.")
            await asyncio.sleep(PAUSE_S)

    def _list(self, found: list[str]) -> None:
        """Add models that are not listed yet."""
        new = [name for name in found if name not in self._models][: MOST_MODELS + 1 - len(self._models)]
        self._models += new
        for ways in self.query(OptionList):  # none if the card was removed meanwhile
            ways.add_options([Option(Content(f"Use {sanitize_line(name, 80)}, on this machine")) for name in new])

    def _say_search(self, text: str) -> None:
        for line in self.query("#search").results(Static):
            line.update(Text(text, style="dim"))

    def choose(self) -> None:
        """Take the choice that is selected, for an Enter that came before the card was there."""
        self.query_one(OptionList).action_select()

    async def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self._chosen:
            return
        self._chosen = True
        model = self._models[event.option_index]
        if model != "demo":
            from friday_cli.config.edit import set_value

            try:
                await asyncio.to_thread(set_value, "model", model)
            except FridayError as error:
                self._show_error(str(error))
        from friday_cli.llm.models.presets import DEMO_PROMPT  # the first screen does not need the models

        self.post_message(self.Chosen(model, DEMO_PROMPT if model == "demo" else ""))

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        key = event.value.strip()
        provider = next((name for prefix, name in _PREFIXES if key.startswith(prefix)), "")
        if not provider:
            self._show_error("Unknown kind of key. For another service, use `friday auth set PROVIDER`.")
            return
        from friday_cli.llm.models.credentials import set_key

        try:
            path = await asyncio.to_thread(set_key, provider, key)
        except FridayError as error:
            self._show_error(str(error))
            return
        self.notify(f"Key for {provider} saved in {path}.", markup=False, timeout=6)
        self.post_message(self.Chosen(None))

    def _show_error(self, text: str) -> None:
        if not self.is_attached:
            return self.notify(text, severity="error", markup=False)
        self.query_one("#trouble", Static).update(Text(text, style="bold"))


async def _local_models(seconds: float) -> list[str]:
    """The full names of the models of servers on this machine that answer within some seconds."""
    from friday_cli import config
    from friday_cli.llm.models.local_servers import probe

    settings = await asyncio.to_thread(config.load)
    found = await probe(settings.settings.providers, os.environ, seconds=seconds)
    return [f"{server.provider}/{model.id}" for server in found.servers for model in server.models]
