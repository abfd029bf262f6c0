"""The person's own keys: `keys.toml` in Friday's config folder. Interface: `read()`."""

from __future__ import annotations

import tomllib

from friday_cli.paths import config_dir


def read() -> dict[str, str]:
    """Binding name -> keys. A file that cannot be read changes nothing."""
    try:
        data = tomllib.loads((config_dir() / "keys.toml").read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    return {name: keys for name, keys in data.items() if isinstance(keys, str)}
