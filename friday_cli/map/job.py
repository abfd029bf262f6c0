"""What a batch does: its command line as data, and the names that follow from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from friday_cli.extensions.profiles import Profile

from .caps import Cap

Source = Literal["items", "glob", "over", "list", "eval"]


class MapJob(msgspec.Struct, frozen=True):
    """A batch, as its command line says it."""

    folder: str
    """Where it runs."""
    profile: str
    source: Source
    """How `items` names them: a file of JSON lines, a pattern for files, a command whose output lines they are, (`list`)
    a JSON list, or (`eval`) a suite of tasks for `friday eval`."""
    items: str
    template: str
    """Makes the task of an item."""
    cost: float | None = None
    """US dollars for the whole batch."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of each result."""
    check: str = ""
    """The command that must exit with 0 for each result."""
    reduce: str = ""
    """The profile that combines the results."""
    isolation: bool = False
    """Each item works in a git worktree."""
    item_cost: float | None = None
    """US dollars for one item; None: a share of `cost`."""
    parallel: int = 8
    sample: int = 5
    """Items that run before the question."""
    output: str = ""
    options: dict[str, Any] = {}
    """Options of the session by name."""
    engine: Literal["embedded", "ray"] = "embedded"
    tokens: int | None = None
    """Tokens for the whole batch."""
    item_tokens: int | None = None
    """Tokens for one item; None: a share of `tokens`."""
    query: str = ""
    """The select that gives the items of a SQLite file."""
    table: str = ""
    """The table in `output` for the results."""
    deferred: int = 0
    """The most requests of an item that go by batches of the service; 0 for none."""
    wait: bool = True
    """Without it, deferred requests are left at the service."""

    @property
    def cap(self) -> Cap:
        """The most that the batch may spend, in US dollars and tokens."""
        return Cap(self.cost, self.tokens)

    @property
    def id(self) -> str:
        """The name of the batch: the same command in the same folder has the same one, whatever its limits and
        its engine are."""
        limits: dict[str, Any] = {
            "cost": 0.0,
            "item_cost": None,
            "parallel": 0,
            "sample": 0,
            "output": "",
            "engine": "embedded",
        }
        limits["options"] = {
            name: value for name, value in self.options.items() if name not in ("assume_price", "service_tier")
        }
        named = msgspec.to_builtins(msgspec.structs.replace(self, **limits))
        for name in ("tokens", "item_tokens", "table", "deferred", "wait", *(() if self.query else ("query",))):
            del named[name]  # an older Friday did not have these
        return digest(named)[:8]


def digest(value: object) -> str:
    """A hash of a JSON value or struct."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def profile_digest(profile: Profile) -> str:
    """A hash of what a profile says; where its file is does not count."""
    said = msgspec.to_builtins(msgspec.structs.replace(profile, path="", origin="user", notices=()))
    for name in ("external", "models", "check", "ladder", "service_tier"):  # an older Friday did not have these
        if not said.get(name):
            said.pop(name, None)
    return digest(said)


def item_key(job: MapJob, task: str, content: str, *, profile: str, model: str) -> str:
    """The name of an item's work, by what decides its result. Its position in the batch does not. `content`: a hash of the
    file that the task only names. `profile` is its `profile_digest`."""
    return digest((task, content, profile, model, job.schema, job.check, job.isolation))


def as_row(values: Mapping[str, Any]) -> str:
    """The fields of an item as one line of JSON."""
    return msgspec.json.encode(values).decode()
