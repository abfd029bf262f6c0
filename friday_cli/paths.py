"""Where Friday keeps its files: the system's own folders, or everything under FRIDAY_HOME.

With FRIDAY_HOME set, what a person writes lies in that folder itself and the rest in `data`, `state` and `cache` below.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from friday_cli.core.protocol.errors import UsageError

Kind = Literal["config", "data", "state", "cache"]


def config_dir(env: Mapping[str, str] | None = None) -> Path:
    """Settings, keys and your own profiles: what a person writes or would back up."""
    return _folder("config", env)


def data_dir(env: Mapping[str, str] | None = None) -> Path:
    """Sessions and memories."""
    return _folder("data", env)


def state_dir(env: Mapping[str, str] | None = None) -> Path:
    """Logs, input history, what was trusted."""
    return _folder("state", env)


def cache_dir(env: Mapping[str, str] | None = None) -> Path:
    """What can be made again."""
    return _folder("cache", env)


def store_path(env: Mapping[str, str] | None = None) -> Path:
    """The file that holds all sessions."""
    return data_dir(env) / "friday.db"


def kept_store_path() -> Path | None:
    """The file that holds all sessions; None where no session was ever kept."""
    path = store_path()
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass  # the store says what is wrong
    return path


def with_tilde(path: str | Path) -> str:
    """A path for people: the home folder is `~`."""
    text, home = str(path), os.path.expanduser("~").rstrip("/")
    return "~" + text[len(home) :] if home and (text == home or text.startswith(home + "/")) else text


def text_of(path: str | Path) -> str:
    """A path as JSON and a database can hold it, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _folder(kind: Kind, env: Mapping[str, str] | None) -> Path:
    home = (os.environ if env is None else env).get("FRIDAY_HOME", "")
    if home:
        top = Path(os.path.abspath(os.path.expanduser(home)))
        return top if kind == "config" else top / kind
    import platformdirs  # 11 ms that FRIDAY_HOME saves

    find = {
        "config": platformdirs.user_config_path,
        "data": platformdirs.user_data_path,
        "state": platformdirs.user_state_path,
        "cache": platformdirs.user_cache_path,
    }[kind]
    return find(appname="friday", appauthor=False)


def working_folder(named: str | None = None) -> Path:
    """The folder `named`, else the one Friday was called in, without links. Raises UsageError when that one is gone."""
    try:
        return Path(os.path.realpath(named or "."))
    except OSError:
        raise UsageError("The folder you are in does not exist any more.", hint="Go to another one.") from None
