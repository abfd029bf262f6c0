"""The models that Friday knows, from models.toml: context windows, limits, quirks, aliases and last days.

Annotations are not texts here, for the reason in `extensions/profiles/profile.py`."""

import functools
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli import __version__
from friday_cli.core.protocol.provider import EFFORTS, Effort
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.system import cache_file
from friday_cli.system.paths import cache_dir

from . import prices

WINDOW, MAX_OUTPUT = 128_000, 16_000
"""Defaults for an unknown hosted model, in tokens."""
LOCAL_WINDOW, LOCAL_MAX_OUTPUT = 32_768, 8_192
"""Defaults for an unknown model on the user's machine, in tokens."""
OUTDATED = timedelta(days=90)
"""Age of the oldest confirmation after which models.toml counts as outdated."""

_DATED = pattern(r"[-@](20\d{6}|20\d\d-\d\d-\d\d|latest)$")
_CLOUD = pattern(r"^(?:[a-z]{2,6}\.)?anthropic\.|(?:-v\d+)?(?::\d+)?$")


class ModelQuirks(msgspec.Struct, frozen=True):
    """Differences between models that a request must respect. models.toml explains each field."""

    efforts: tuple[Effort, ...] = ()
    thinking: Literal["", "adaptive", "budget", "reasoning", "none"] = ""
    off: Literal["", "disabled", "between_tools", "effort", "never"] = ""
    chat: Literal["any", "no_effort", "never"] = "any"
    temperature: Literal["any", "no_effort", "never"] = "any"
    caching: Literal["", "marks"] = ""
    task_budget: bool = False


class Model(msgspec.Struct, frozen=True):
    """A model of a service; `window` and `max_output` are tokens. `known` is False if they are defaults.

    `ends` is its announced last day, `confirmed` the day of its last comparison with the vendor without a difference.
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
    classes: dict[str, dict[str, str]]
    prefixes: dict[str, tuple[str, ...]]
    ends: dict[str, date]
    family: tuple[_ModelFamily, ...]


@functools.cache
def _file() -> _CatalogFile:
    """models.toml, kept in the cache folder as JSON: reading TOML takes 4 ms."""
    path, kept = Path(__file__).with_name("models.toml"), cache_dir() / "models.json"
    facts = path.stat()
    stamp = f"{__version__} {facts.st_size} {facts.st_mtime_ns}"
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        made_of, catalog = msgspec.json.decode(cache_file.read(kept) or b"", type=tuple[str, _CatalogFile])
        if made_of == stamp:
            return catalog
    import tomllib

    data = tomllib.loads(path.read_text(encoding="utf-8"))
    cache_file.write(kept, msgspec.json.encode([stamp, data]))
    return msgspec.convert(data, _CatalogFile)


@functools.cache
def known() -> dict[tuple[str, str], Model]:
    """All models by (provider, id), in the order of the file: newest first. A window of 0 means: use prices.json."""
    ends = _file().ends
    table = {}
    for family in _file().family:
        quirks = msgspec.convert(family, ModelQuirks, from_attributes=True)
        for name in family.models:
            table[family.provider, name] = Model(
                family.provider,
                name,
                family.window,
                family.max_output,
                quirks,
                ends=ends.get(name),
                confirmed=family.confirmed,
            )
    return table


def today() -> date:
    """Today's date in local time."""
    return date.today()


def confirmed() -> date:
    """The oldest confirmation date in the table."""
    return min(model.confirmed for model in known().values() if model.confirmed)


def outdated() -> str:
    """A message for the user if the table was confirmed more than 90 days ago, else ""."""
    age = today() - confirmed()
    if age <= OUTDATED:
        return ""
    return (
        f"the table of models was last confirmed on {confirmed()}, {age.days} days ago: models may be missing, and "
        "limits, prices and last days may have changed. Install a newer version of Friday; until then, set "
        "`window`, `max_output` and `prices` under [providers.NAME] in the config where they differ."
    )


def aliases() -> dict[str, str]:
    """Short names and the `provider/model` they mean."""
    return _file().aliases


def default(provider: str) -> str:
    """The default model of a provider; "" if it has none."""
    return _file().defaults.get(provider, "")


def classes(provider: str) -> dict[str, str]:
    """The models of a provider for the names `opus`, `sonnet` and `haiku`."""
    return _file().classes.get(provider, {})


def models_of(provider: str) -> tuple[str, ...]:
    """The known model ids of a provider."""
    return tuple(name for owner, name in known() if owner == provider)


def provider_of(model: str) -> str:
    """The provider of a model id without a provider, from the table or the id's prefix; "" if unknown."""
    for owner, name in known():
        if name == model:
            return owner
    for owner, starts in _file().prefixes.items():
        if model.lower().startswith(starts):
            return owner
    return ""


def find(provider: str, model: str, *, platform: str = "", local: bool = False) -> Model:
    """The limits and quirks of a model. An unknown model gets conservative defaults, smaller ones on a `local` server.

    A dated or cloud id (`claude-haiku-4-5-20251001`, `us.anthropic.claude-opus-5-5-v1:0`) is found by its base name.
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
    """A model name without `:effort`, and the effort (None if it has none).

    After the first colon of an `ollama/` model comes its tag (`ollama/phi3:medium`), so its effort needs a second one.
    """
    head, colon, tail = name.rpartition(":")
    if not colon or tail not in EFFORTS or (name.startswith("ollama/") and ":" not in head):
        return name, None
    return head, tail
