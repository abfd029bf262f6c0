"""What a server offers, kept in the cache folder, so that a session knows its tools without starting it."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct, field

from friday_cli.system import cache_file
from friday_cli.system.paths import cache_dir

from .entry import ServerEntry

DAY_S = 24 * 3600.0
"""Seconds for which a catalog holds if the server says nothing, or 0: libraries send that as their default."""


class OfferedTool(Struct, frozen=True, omit_defaults=True):
    """A tool as its server describes it. `read_only`: the server says that it changes nothing, which may be untrue."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    read_only: bool = field(default=False, name="reads")


class OfferedPrompt(Struct, frozen=True, omit_defaults=True):
    """A prompt of a server. `arguments`: name -> whether it is required."""

    name: str
    description: str = ""
    arguments: dict[str, bool] = {}


class Catalog(Struct, frozen=True, omit_defaults=True):
    """The tools, resources and prompts that one server offered at `fetched` (seconds since 1970), for `ttl_s` seconds. `tools` are sorted by name and at most
    `MOST_TOOLS`; `offered` counts all. `protocol` is the version spoken, `discovered` the answer to `server/discover` (None:
    the server needs a handshake)."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: bool = False
    instructions: str = ""
    server: str = ""
    version: str = ""
    protocol: str = ""
    discovered: dict[str, Any] | None = None
    fetched: float = 0.0
    ttl_s: float = DAY_S
    offered: int = 0

    def fresh(self, now: float | None = None) -> bool:
        """Whether it still holds."""
        age = (time.time() if now is None else now) - self.fetched
        return 0 <= age < self.ttl_s

    def offers_same(self, other: Self) -> bool:
        """Whether agents see no difference between this catalog and `other`."""
        return (self.tools, self.resources, self.instructions) == (other.tools, other.resources, other.instructions)


MOST_TOOLS = 512
"""Tools of one server that are used."""


class CatalogCache:
    """The catalogs in the cache folder of `env`."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._folder = cache_dir(env) / "mcp"

    def read(self, entry: ServerEntry) -> Catalog | None:
        """The catalog of a server, also an old one; None if there is none."""
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(cache_file.read(self._path(entry)) or b"", type=Catalog)
        return None

    def write(self, entry: ServerEntry, catalog: Catalog) -> None:
        """Keep the catalog of a server."""
        cache_file.write(self._path(entry), msgspec.json.encode(catalog))

    def _path(self, entry: ServerEntry) -> Path:
        return self._folder / f"{entry.catalog_key()}.json"
