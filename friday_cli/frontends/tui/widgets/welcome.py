"""The first run, without a configured model: paste a key, use a local server, or try the demo."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line

from .chat_request import ChatRequest
from .text_field import TextField
from .transcript_messages import TextTyped

_PREFIXES = (
    ("sk-ant-", "anthropic"),
    ("sk-or-", "openrouter"),
    ("gsk_", "groq"),
    ("AIza", "gemini"),
    ("xai-", "xai"),
    ("csk-", "cerebras"),
)
"""Beginnings of keys that only one service has."""
_KEY_STARTS = ("sk-", *(start for start, _ in _PREFIXES))
"""How a word begins that is taken for a key whatever its length."""
_OTHER = "custom"
"""The provider for a service whose address is typed here."""
_TITLE = "Welcome to Friday. No model is configured yet; choose one of three ways:"
_WAYS = (
    "a key: paste it. It is kept in a file that only you can read; or set ANTHROPIC_API_KEY (OPENAI_API_KEY, ...) "
    "before you start Friday",
    "a local server, if one is listed here",
    "the offline demo: a script plays the model; tools, sub-agents and your folder are real",
)
FIRST_S, LATER_S, PAUSE_S = 0.3, 2.0, 1.0
"""Seconds in which a server must answer at the first look and at later ones, and between two looks."""
SHORTEST_KEY = 16
"""Characters from which any pasted word is taken for a key."""
MOST_MODELS = 6
"""Models of local servers that are listed."""


class _Ways(OptionList):
    """The ways without a key. Below the last one the key field gets the keys."""

    typed = False
    """Whether letters for the prompt came since it has the keys: an Enter that comes with them is for the prompt, too."""

    def on_focus(self) -> None:
        self.typed = False

    def on_key(self, event: events.Key) -> None:
        self.typed = self.typed or event.is_printable

    def action_select(self) -> None:
        if self.typed:
            self.post_message(TextTyped("\r"))
        else:
            super().action_select()

    def action_cursor_down(self) -> None:
        if self.highlighted == self.option_count - 1:
            self.screen.query_one("#key").focus()
        else:
            super().action_cursor_down()


class _KeyField(TextField):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("up", "app.focus_previous", show=False)]


class Welcome(Vertical):
    """The card of the first run, without a configured model: a key, a local server, or the demo."""

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
        self._key_of_other = ""
        """The key of another service, while its address is asked for."""

    def compose(self) -> ComposeResult:
        ways = Table.grid(padding=(0, 1))
        for way in _WAYS:
            ways.add_row("•", Text(way))
        yield Static(Text(_TITLE + "\n"))
        yield Static(ways)
        yield _Ways(Option("Try the offline demo", id="demo"), compact=True, id="ways")
        yield Static(Text("Looking for local servers ...", style="dim"), id="search")
        yield _KeyField(placeholder="Paste a key and press Enter", password=True, compact=True, id="key")
        yield Static(id="trouble")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self._look_for_servers()

    def takes(self, pasted: str) -> bool:
        """Put a key that is pasted anywhere into its field: in the prompt it would be shown, and sent to a model."""
        text = pasted.strip()
        if (
            not self.query("#key")
            or self.key.has_focus
            or (len(text) < SHORTEST_KEY and not text.startswith(_KEY_STARTS))
            or not (text.isascii() and text.isprintable())
            or " " in text
        ):
            return False
        self.key.focus()
        self.key.insert_text_at_cursor(text)
        return True

    def on_paste(self, event: events.Paste) -> None:
        if not self.key.has_focus:
            event.stop()
            if not self.takes(event.text):
                self.post_message(TextTyped(event.text))

    def on_key(self, event: events.Key) -> None:
        """Put what is typed elsewhere into the prompt: a key is pasted, or typed into its field."""
        if event.is_printable and event.character and not self.key.has_focus:
            event.stop()
            self.post_message(TextTyped(event.character))

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

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self._take(event.value.strip())

    @work(exclusive=True, group="key")
    async def _take(self, typed: str) -> None:
        """Try a key, or the key of another service at the address that was typed; keep it unless it is refused."""
        from friday_cli.llm.models.presets import PRESETS

        from .choice_dialog import Chooser  # the first screen does not need it

        if self._key_of_other:
            return await self._keep(_OTHER, self._key_of_other, typed)
        provider = next((name for prefix, name in _PREFIXES if typed.startswith(prefix)), None)
        if provider is None:
            services = [(name, preset.title) for name, preset in PRESETS.items() if preset.keys]
            choices = [*services, (_OTHER, "Another service: its address")]
            at = [name for name, _ in choices].index("openai")
            provider = await self.app.push_screen_wait(Chooser("Which service is this key for?", choices, at=at))
        if provider == _OTHER:
            self._key_of_other = typed
            self.key.password, self.key.value = False, ""
            self.key.placeholder = "Its address, such as https://models.example.com/v1"
            self.key.focus()
        elif provider:
            await self._keep(provider, typed)

    async def _keep(self, provider: str, key: str, address: str = "") -> None:
        from friday_cli.config.edit import set_value
        from friday_cli.llm.models.credentials import set_key

        self._show_error("Trying the key ...")
        try:
            said, models = await _try(provider, key, address)
            model = await self._choose_model(models) if address else None
            if address and model is None:
                return self._show_error("No model was chosen; nothing is saved.")
            path = await asyncio.to_thread(set_key, provider, key)
            if model is not None:
                await asyncio.to_thread(set_value, f"providers.{provider}.base_url", address)
                await asyncio.to_thread(set_value, "model", f"{provider}/{model}")
        except FridayError as error:
            return self._show_error(str(error))
        self.notify(f"{said} Key for {provider} saved in {path}.", markup=False, timeout=6)
        self.post_message(self.Chosen(f"{provider}/{model}" if model is not None else None))

    async def _choose_model(self, models: tuple[str, ...]) -> str | None:
        from .choice_dialog import Chooser

        rows = [(name, name) for name in models[:50]]
        return await self.app.push_screen_wait(Chooser("Which of its models?", rows)) if rows else None

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


async def _try(provider: str, key: str, address: str) -> tuple[str, tuple[str, ...]]:
    """What trying a key showed, and the models that the service lists. Raises FridayError when the service refuses the key, or
    does not answer as a model service at an address that was typed."""
    from msgspec import structs

    from friday_cli import config
    from friday_cli.config.settings import ProviderSettings
    from friday_cli.core.protocol.errors import ProviderError, UsageError
    from friday_cli.llm.models.gateways import try_key

    settings = (await asyncio.to_thread(config.load)).settings
    if address:
        settings = structs.replace(
            settings, providers={**settings.providers, provider: ProviderSettings(base_url=address)}
        )
    try:
        models = await try_key(provider, key, settings, os.environ)
    except (ProviderError, ValueError) as error:
        if isinstance(error, ProviderError) and error.kind == "auth":
            raise
        if address:
            raise UsageError(f"{address} did not list its models: {error}", hint="Type another address.") from error
        return "The key could not be tried now.", ()
    if provider == "openrouter":  # it lists its models without a key
        return "The key is tried with the first message.", models
    return f"The key works: {pluralize(len(models), 'model')}.", models
