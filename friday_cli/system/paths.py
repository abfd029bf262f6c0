"""The folders of Friday: those of the system, or everything under FRIDAY_HOME.

With FRIDAY_HOME, config files are in that folder itself, other files in its subfolders `data`, `state` and `cache`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from friday_cli.core.protocol.errors import ToolError, UsageError

FolderKind = Literal["config", "data", "state", "cache"]


def config_dir(env: Mapping[str, str] | None = None) -> Path:
    """Settings, keys and profiles of the user."""
    return _folder("config", env)


def data_dir(env: Mapping[str, str] | None = None) -> Path:
    """Sessions and memories."""
    return _folder("data", env)


def eval_dir(env: Mapping[str, str] | None = None) -> Path:
    """The folder where the trials of evals work, and where what they changed is kept."""
    return data_dir(env) / "eval"


def state_dir(env: Mapping[str, str] | None = None) -> Path:
    """Logs, input history, trust decisions."""
    return _folder("state", env)


def cache_dir(env: Mapping[str, str] | None = None) -> Path:
    """Files that can be recreated."""
    return _folder("cache", env)


def store_path(env: Mapping[str, str] | None = None) -> Path:
    """The file with all sessions."""
    return data_dir(env) / "friday.db"


def existing_store_path() -> Path | None:
    """The file with all sessions; None if it does not exist."""
    path = store_path()
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass  # opening the store reports the error
    return path


def with_tilde(path: str | Path) -> str:
    """A path for display, with `~` for the home folder."""
    text, home = str(path), os.path.expanduser("~").rstrip("/")
    return "~" + text[len(home) :] if home and (text == home or text.startswith(home + "/")) else text


def text_of(path: str | bytes | Path) -> str:
    """A path as valid UTF-8 for people, JSON and the database; other bytes are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _folder(kind: FolderKind, env: Mapping[str, str] | None) -> Path:
    home = (os.environ if env is None else env).get("FRIDAY_HOME", "")
    if home:
        top = Path(os.path.abspath(os.path.expanduser(home)))
        return top if kind == "config" else top / kind
    import platformdirs  # takes 11 ms

    find = {
        "config": platformdirs.user_config_path,
        "data": platformdirs.user_data_path,
        "state": platformdirs.user_state_path,
        "cache": platformdirs.user_cache_path,
    }[kind]
    return find(appname="friday", appauthor=False)


def working_folder(named: str | None = None) -> Path:
    """The folder `named`, else the current folder, with links resolved. Raises UsageError if it no longer exists."""
    try:
        return Path(os.path.realpath(named or "."))
    except OSError:
        raise UsageError("The current folder no longer exists.", hint="Change to another folder.") from None


def writable_below(folder: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """The folders that a project's file names as those that a program of it may write. Raises ToolError for one that is a link or
    leads through one: agents can make links, also to places outside. Blocks."""
    real = Path(os.path.realpath(folder))
    for name in names:
        if os.path.realpath(real / name) != os.path.normpath(real / name):
            raise ToolError(f"Not started: it may write {name}, which is a link or leads through one.")
    return tuple(real / name for name in names)


def is_below(path: str) -> bool:
    """Whether a path that a file names is relative and names something below its folder."""
    return not (os.path.isabs(path) or path in ("", ".") or ".." in Path(path).parts or "\0" in path)
