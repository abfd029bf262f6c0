"""The models Friday knows: their windows, limits, quirks, aliases and last days. Read from models.toml."""

from __future__ import annotations

import functools
import os
import tomllib
from datetime import date, timedelta
from typing import Literal

import msgspec

from friday_cli.core.protocol.provider import EFFORTS, Effort
from friday_cli.core.text.lazy_regex import pattern

from . import prices

WINDOW, MAX_OUTPUT = 128_000, 16_000
"""What is taken for a hosted model that is not known, in tokens."""
LOCAL_WINDOW, LOCAL_MAX_OUTPUT = 32_768, 8_192
"""The same for a model on one's own machine."""
OUTDATED = timedelta(days=90)
"""How long after its last confirmation the table is called out of date."""

_DATED = pattern(r"[-@](20\d{6}|20\d\d-\d\d-\d\d|latest)$")
_CLOUD = pattern(r"^(?:[a-z]{2,6}\.)?anthropic\.|(?:-v\d+)?(?::\d+)?$")


class ModelQuirks(msgspec.Struct, frozen=True):
    """What a model's service refuses or wants; the defaults refuse nothing. models.toml explains each."""

    efforts: tuple[Effort, ...] = ()
    thinking: Literal["", "adaptive", "budget", "reasoning", "none"] = ""
    off: Literal["", "disabled", "between_tools", "effort", "never"] = ""
    chat: Literal["any", "no_effort", "never"] = "any"


class Model(msgspec.Struct, frozen=True):
    """A model of a service; `window` and `max_output` are tokens. `known` is False for one that is only assumed.

    `ends` is its announced last day, `confirmed` the day on which the table last agreed with its vendor.
    """

    provider: str
    id: str
    window: int
    max_output: int
    quirks: ModelQuirks = ModelQuirks()
    ends: date | None = None
    confirmed: date | None = None
    known: bool = True


class _ModelFamily(ModelQuirks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    provider: str
    confirmed: date
    models: tuple[str, ...]
    window: int = 0
    max_output: int


class _CatalogFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    aliases: dict[str, str]
    defaults: dict[str, str]
    prefixes: dict[str, tuple[str, ...]]
    ends: dict[str, date]
    family: tuple[_ModelFamily, ...]


@functools.cache
def _file() -> _CatalogFile:
    with open(os.path.join(os.path.dirname(__file__), "models.toml"), "rb") as f:
        return msgspec.convert(tomllib.load(f), _CatalogFile)


@functools.cache
def known() -> dict[tuple[str, str], Model]:
    """The table, by (provider, id), in the order of the file: newest first. A window of 0 stands in prices.json."""
    ends = _file().ends
    table = {}
    for family in _file().family:
        quirks = msgspec.convert(family, ModelQuirks, from_attributes=True)
        for name in family.models:
            table[family.provider, name] = Model(
                family.provider, name, family.window, family.max_output, quirks,
                ends=ends.get(name), confirmed=family.confirmed,
            )  # fmt: skip
    return table


def today() -> date:
    """The date of today, in local time."""
    return date.today()


def confirmed() -> date:
    """The day since which the whole table is confirmed: that of its oldest entry."""
    return min(model.confirmed for model in known().values() if model.confirmed)


def outdated() -> str:
    """A sentence for a person where the table was confirmed more than 90 days ago, "" otherwise."""
    age = today() - confirmed()
    if age <= OUTDATED:
        return ""
    return (
        f"the table of models was last confirmed on {confirmed()}, {age.days} days ago: models may be missing, and "
        "limits, prices and last days may have changed. Install a newer version of Friday; until then, set "
        "`window`, `max_output` and `prices` under [providers.NAME] in the config where they differ."
    )


def aliases() -> dict[str, str]:
    """Short names -> `provider/model`."""
    return _file().aliases


def default(provider: str) -> str:
    """The model that is used where only `provider` is known; "" where there is none."""
    return _file().defaults.get(provider, "")


def models_of(provider: str) -> tuple[str, ...]:
    """The ids known of a provider."""
    return tuple(name for owner, name in known() if owner == provider)


def provider_of(model: str) -> str:
    """The service a bare id belongs to, by the table or by how the id begins; "" where nothing tells."""
    for owner, name in known():
        if name == model:
            return owner
    for owner, starts in _file().prefixes.items():
        if model.lower().startswith(starts):
            return owner
    return ""


def find(provider: str, model: str, *, platform: str = "", local: bool = False) -> Model:
    """What is known of a model; an unknown one gets careful defaults, smaller ones on a `local` server.

    A dated or cloud id (`claude-haiku-4-5-20251001`, `us.anthropic.claude-opus-5-5-v1:0`) is found by its plain name.
    """
    for name in (model, _DATED().sub("", _CLOUD().sub("", model) if platform else model)):
        if found := known().get((provider, name)):
            size = found.window or prices.window(provider, name) or WINDOW
            return msgspec.structs.replace(found, id=model, window=size)
    size = prices.window(provider, model, platform=platform)
    window = size or (LOCAL_WINDOW if local else WINDOW)
    longest = min(LOCAL_MAX_OUTPUT if local else MAX_OUTPUT, window // 4)
    return Model(provider, model, window, longest, known=bool(size))


def split_effort(name: str) -> tuple[str, Effort | None]:
    """A name without its `:effort`, and that effort.

    The part behind an `ollama/` model's first colon is its tag (`ollama/phi3:medium`), so an effort is its second.
    """
    head, colon, tail = name.rpartition(":")
    if not colon or tail not in EFFORTS or (name.startswith("ollama/") and ":" not in head):
        return name, None
    return head, tail
