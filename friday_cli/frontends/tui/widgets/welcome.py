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

    def compose(self) -> ComposeResult:
        ways = Table.grid(padding=(0, 1))
        for way in _WAYS:
            ways.add_row("•", Text(way))
        yield Static(Text(_TITLE + "\n"))
        yield Static(ways)
        yield OptionList(Option("Try the offline demo", id="demo"), compact=True, id="ways")
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
        try:
            found = await _local_models()
        except FridayError:
            return
        ways = self.query_one(OptionList)
        self._models += found[:6]
        ways.add_options([Option(Content(f"Use {sanitize_line(name, 80)}, on this machine")) for name in found[:6]])

    async def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
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
        self.query_one("#trouble", Static).update(Text(text, style="bold"))


async def _local_models() -> list[str]:
    """The full names of the models of servers on this machine."""
    from friday_cli import config
    from friday_cli.llm.models.local_servers import probe

    settings = await asyncio.to_thread(config.load)
    found = await probe(settings.settings.providers, os.environ)
    return [f"{server.provider}/{model.id}" for server in found.servers for model in server.models]
