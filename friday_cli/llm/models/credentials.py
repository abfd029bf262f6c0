"""API keys from the environment, else from auth.toml in the config folder. A key is never printed or logged."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from friday_cli.config.loader import text as settings_text
from friday_cli.config.settings import ProviderSettings
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.text import known_keys
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.system import atomic_file
from friday_cli.system.paths import config_dir

from ..transport.endpoint import Endpoint, parse_headers
from .presets import ModelService, key_variables, service_names

_SEARCH_KEYS = ("BRAVE_API_KEY", "TAVILY_API_KEY")
_HEADER_LISTS = ("ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS")
"""Variables with headers, which can contain keys."""
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Key:
    """An API key whose `repr` hides it. `source` is the name of its variable, or "auth.toml".

    `note` is a message for the user.
    """

    __slots__ = ("_value", "note", "source")

    def __init__(self, value: str, source: str, *, note: str = "") -> None:
        self._value, self.source, self.note = value, source, note

    def reveal(self) -> str:
        """The key, only for the header of a request."""
        return self._value

    def __repr__(self) -> str:
        return f"Key(…, {self.source!r})"

    def __reduce__(self) -> str:
        raise TypeError("a key cannot be pickled")


class KeyRow(msgspec.Struct, frozen=True):
    """A key of a provider: where it is stored, and whether it is used (False if another source comes first)."""

    provider: str
    source: str
    used: bool


class _KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: dict[str, str] = {}


def find_key(service: ModelService, env: Mapping[str, str]) -> Key | None:
    """The key of a service, from the environment or from auth.toml. Raises UsageError for an invalid key.

    A cloud platform gets only the key that its settings name, never the vendor's key.
    """
    for name in service.keys:
        if value := env.get(name, "").strip():
            return Key(_validated(value, name), name)
    if service.settings.platform:
        return None
    path = auth_path(env)
    note = _restrict_mode(path)
    if value := _read(path).get(service.name, "").strip():
        return Key(_validated(value, f"{path}: keys.{service.name}"), "auth.toml", note=note)
    return None


def remember_keys(providers: Mapping[str, ProviderSettings], env: Mapping[str, str]) -> None:
    """Mask all keys of this person by their value from now on: those of the environment, of auth.toml and of the headers
    in the settings. Their variables are not passed to child processes."""
    names = {v for name in service_names(providers) for v in key_variables(name, providers)}.union(_SEARCH_KEYS)
    headers = [settings.headers for settings in providers.values()]
    headers += [parse_headers(env.get(name, "")) for name in _HEADER_LISTS]
    values = [env.get(name, "").strip() for name in names]
    for group in headers:
        values += Endpoint(service="", base_url="", headers=group).secrets
    with suppress(FileError):  # reported when the key is needed
        values += (value.strip() for value in _read(auth_path(env)).values())
    known_keys.remember(values, names.union(_HEADER_LISTS))


def list_keys(providers: Mapping[str, ProviderSettings], env: Mapping[str, str]) -> list[KeyRow]:
    """The services that have a key and its source, without the keys."""
    path = auth_path(env)
    _restrict_mode(path)
    stored = _read(path)
    rows = []
    for name in dict.fromkeys((*service_names(providers), *sorted(stored))):
        sources = [v for v in key_variables(name, providers) if env.get(v, "").strip()]
        sources += ["auth.toml"] if stored.get(name) else []
        rows += [KeyRow(name, source, index == 0) for index, source in enumerate(sources)]
    return rows


def set_key(provider: str, key: str, *, env: Mapping[str, str] | None = None) -> Path:
    """Store the key of `provider` in auth.toml (mode 0600) and return its path. Safe with concurrent processes."""
    if not _NAME().fullmatch(provider):
        raise UsageError(f"{provider!r} is not a valid provider name.")
    value = _validated(key.strip(), f"the key of {provider}")
    path = auth_path(env)
    _change(path, lambda stored: stored.update({provider: value}))
    return path


def remove_key(provider: str, *, env: Mapping[str, str] | None = None) -> bool:
    """Remove the key of `provider` from auth.toml; False if there is none."""
    path = auth_path(env)
    if provider not in _read(path):
        return False
    _change(path, lambda stored: stored.pop(provider, None))
    return True


def auth_path(env: Mapping[str, str] | None = None) -> Path:
    """The file with the stored keys."""
    return config_dir(env) / "auth.toml"


def _validated(value: str, where: str) -> str:
    if not value:
        raise UsageError(f"{where} is empty.")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise UsageError(f"{where} contains spaces, line breaks or non-ASCII characters.", hint="Copy it again.")
    return value


def _read(path: Path) -> dict[str, str]:
    if not (content := settings_text(path)):
        return {}
    import tomllib  # takes 2 ms; most runs read no such file

    try:
        return msgspec.convert(tomllib.loads(content), _KeyFile).keys
    except (tomllib.TOMLDecodeError, msgspec.ValidationError):
        # `from None` and without the error's text: it could quote a key
        raise FileError(
            str(path),
            "is not a list of keys.",
            hint='Write lines such as anthropic = "..." under [keys], or remove it and use `friday auth set`.',
        ) from None


def _restrict_mode(path: Path) -> str:
    """Make a file private that others can read. Returns a message about it, or "".

    Raises FileError if its mode cannot be changed.
    """
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return ""
    if not mode & 0o077:
        return ""
    try:
        path.chmod(0o600)
    except OSError as error:
        raise FileError(
            str(path),
            f"others can read your keys (mode {mode:04o}) and it cannot be changed: {error.strerror}.",
            hint=f"Run: chmod 600 {path}",
        ) from None
    return f"{path} could be read by others (mode {mode:04o}); it is 0600 now. Consider new keys."


def _change(path: Path, change: Callable[[dict[str, str]], object]) -> None:
    """Change the stored keys under a lock. The folder becomes private too."""
    try:
        with atomic_file.locked(path):
            if path.parent.stat().st_mode & 0o077 and path.parent != Path.home():
                path.parent.chmod(0o700)
            stored = _read(path)
            change(stored)
            import tomli_w

            text = "# API keys of Friday. Keep this file private.\n" + tomli_w.dumps(
                {"keys": dict(sorted(stored.items()))}
            )
            target = Path(os.path.realpath(path))  # keep a symlink, for example into a dotfiles repository
            atomic_file.replace(target, text, mode=0o600)
    except OSError as error:
        raise FileError(str(path), f"the key could not be saved: {error.strerror}.") from None
