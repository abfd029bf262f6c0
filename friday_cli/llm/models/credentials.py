"""Keys: from the environment, else from auth.toml in the config folder. A key is shown to nobody."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from friday_cli import atomic_file
from friday_cli.config.settings import ProviderSettings
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.paths import config_dir

from .presets import ModelService, key_names, names

_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Key:
    """A secret that prints as dots. `source` says where it is from: a variable's name, or "auth.toml".

    `token` is True for a bearer token (ANTHROPIC_AUTH_TOKEN); `note` is a remark for the user.
    """

    __slots__ = ("_value", "note", "source", "token")

    def __init__(self, value: str, source: str, *, token: bool = False, note: str = "") -> None:
        self._value = value
        self.source = source
        self.token = token
        self.note = note

    def reveal(self) -> str:
        """The key itself, for the header of a request and nothing else."""
        return self._value

    def __repr__(self) -> str:
        return f"Key(…, {self.source!r})"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written anywhere")


class KeyRow(msgspec.Struct, frozen=True):
    """One place that has a key: `used` is False where another place comes first."""

    provider: str
    source: str
    used: bool


class _KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: dict[str, str] = {}


def find_key(of: ModelService, env: Mapping[str, str]) -> Key | None:
    """The key of a service: the environment first, then auth.toml. Raises UsageError for one that cannot be sent.

    A cloud gets only the key that its settings name: a vendor's key is not for it.
    """
    for name in of.keys:
        if value := env.get(name, "").strip():
            return Key(_sound(value, name), name, token=name.endswith("_AUTH_TOKEN"))
    if of.own.platform:
        return None
    path = auth_path(env)
    note = _repair(path)
    if value := _read(path).get(of.name, "").strip():
        return Key(_sound(value, f"{path}: keys.{of.name}"), "auth.toml", note=note)
    return None


def list_keys(providers: Mapping[str, ProviderSettings], env: Mapping[str, str]) -> list[KeyRow]:
    """Which services have a key and from where; never the keys."""
    path = auth_path(env)
    _repair(path)
    kept = _read(path)
    rows = []
    for name in dict.fromkeys((*names(providers), *sorted(kept))):
        places = [v for v in key_names(name, providers) if env.get(v, "").strip()]
        places += ["auth.toml"] if kept.get(name) else []
        rows += [KeyRow(name, place, index == 0) for index, place in enumerate(places)]
    return rows


def set_key(provider: str, key: str, *, env: Mapping[str, str] | None = None) -> Path:
    """Keep the key of `provider` in auth.toml (mode 0600) and return its path. Safe with many processes at once."""
    if not _NAME().fullmatch(provider):
        raise UsageError(f"{provider!r} is no provider's name.")
    value = _sound(key.strip(), f"the key of {provider}")
    path = auth_path(env)
    _change(path, lambda kept: kept.update({provider: value}))
    return path


def remove_key(provider: str, *, env: Mapping[str, str] | None = None) -> bool:
    """Forget the key of `provider` in auth.toml; False where there was none."""
    path = auth_path(env)
    if provider not in _read(path):
        return False
    _change(path, lambda kept: kept.pop(provider, None))
    return True


def auth_path(env: Mapping[str, str] | None = None) -> Path:
    """The file that keeps the keys."""
    return config_dir(env) / "auth.toml"


def _sound(value: str, where: str) -> str:
    if not value:
        raise UsageError(f"{where} is empty.")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise UsageError(f"{where} holds a blank, a line break or a letter that no key has.", hint="Copy it again.")
    return value


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as f:
            return msgspec.convert(tomllib.load(f), _KeyFile).keys
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FileError(str(path), f"cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError):
        # `from None`, and none of its words: they could quote a key
        raise FileError(
            str(path), 'is no list of keys.', hint='Write lines such as anthropic = "..." under [keys], or remove it '
            "and use `friday auth set`.",
        ) from None  # fmt: skip


def _repair(path: Path) -> str:
    """Close a file that others can read; the sentence that says so, or "". Refuses one that is not ours to close."""
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
            str(path), f"others can read your keys (mode {mode:04o}) and it cannot be changed: {error.strerror}.",
            hint=f"Run: chmod 600 {path}",
        ) from None  # fmt: skip
    return f"{path} could be read by others (mode {mode:04o}); it is 0600 now. Consider new keys."


def _change(path: Path, change: Callable[[dict[str, str]], object]) -> None:
    """Change what is kept, while nobody else does; the folder is closed to others."""
    try:
        with atomic_file.locked(path):
            if path.parent.stat().st_mode & 0o077 and path.parent != Path.home():
                path.parent.chmod(0o700)
            kept = _read(path)
            change(kept)
            import tomli_w

            text = "# Keys of Friday. Keep this file to yourself.\n" + tomli_w.dumps(
                {"keys": dict(sorted(kept.items()))}
            )
            target = Path(os.path.realpath(path))  # a link into somebody's dotfiles stays one
            atomic_file.replace(target, text, mode=0o600)
    except OSError as error:
        raise FileError(str(path), f"the key could not be kept: {error.strerror}.") from None
