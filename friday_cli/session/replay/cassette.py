"""Cassettes: recorded sessions as text files in a project, cleaned of keys and of what differs between machines.

A cassette NAME is `NAME.jsonl`, its events a line each. The parts of system texts and the tools of all cassettes of a folder are in `texts.json`,
each once, as lines: a text that changed is one change there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol import events
from friday_cli.core.protocol.decode import decode_envelope
from friday_cli.core.protocol.displays import DelegationDisplay
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.core.text.sanitize import clean
from friday_cli.core.text.suggest import closest_match
from friday_cli.extensions.trust import CASSETTES
from friday_cli.system import safe_files
from friday_cli.system.atomic_file import replace_bytes

from .compare import canonical

FOLDER = Path(CASSETTES)
TEXTS = "texts.json"
MOST_BYTES = 20_000_000
"""Largest cassette that is read."""
MOST_S = 1e9
"""Seconds since the beginning of a session that are a time."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_SESSION = "00000000-0000-4000-8000-000000000000"
_PART = re.compile(r"\n\n(?=# )")
_LEFT_OUT = (events.Notice, events.StatusChanged, events.Checkpoint, events.Reviewed)


class Cassettes:
    """The cassettes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._texts: dict[str, Any] | None = None

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl") if _NAME.fullmatch(path.stem))

    def path(self, name: str) -> Path:
        """The file of a cassette. Raises UsageError for a name that is not a file name."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a name for a cassette.", hint="Use letters, digits, '.', '_' and '-'.")
        return self.folder / f"{name}.jsonl"

    def read(self, name: str, place: Path) -> list[Envelope]:
        """The events of a cassette, as if it had been recorded in the folder `place`. Raises UsageError, FileError."""
        path = self.path(name)
        if not path.is_file():
            near = closest_match(name, self.names())
            raise UsageError(
                f"There is no cassette {name!r} in {self.folder}.",
                hint=f"Did you mean {near}?" if near else "`friday cassette list` lists them.",
            )
        here = json.dumps(str(place))[1:-1]
        found = []
        for number, line in enumerate(safe_files.read_linked_text(path, MOST_BYTES).splitlines(), 1):
            try:
                data = json.loads(line.replace("<folder>", here))
                if data["event"]["kind"] == "prefix":
                    data["event"] |= self._whole(data["event"])
                found.append(decode_envelope(json.dumps(data).encode()))
                if not abs(found[-1].at) < MOST_S:
                    raise ValueError(f"at: {found[-1].at:g} is not a time")
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, msgspec.DecodeError) as error:
                raise FileError(str(path), f"is not an event of a cassette: {error}", line=number) from None
        return found

    def write(self, name: str, envelopes: Sequence[Envelope]) -> Path:
        """Write a cassette of a session, and the texts that are new. Raises UsageError, OSError."""
        path = self.path(name)
        if self.folder == FOLDER and not self.folder.resolve().is_relative_to(Path.cwd()):
            raise UsageError(
                f"{FOLDER} leads out of this folder.", hint="Name the place with --from, or remove that link."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        texts = dict(self._known)
        lines = [json.dumps(row, ensure_ascii=False, sort_keys=False) for row in _rows(envelopes, texts)]
        self._save(texts)
        replace_bytes(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), mode=0o644)
        return path

    def remove_unused(self) -> None:
        """Drop the texts that no cassette has any more."""
        used = set[str]()
        for name in self.names():
            for line in safe_files.read_linked_text(self.path(name), MOST_BYTES).splitlines():
                if '"kind": "prefix"' in line:
                    event = json.loads(line)["event"]
                    used |= {*event["system"], *event["tools"]}
        self._save({name: text for name, text in self._known.items() if name in used})

    @property
    def _known(self) -> dict[str, Any]:
        if self._texts is None:
            path = self.folder / TEXTS
            try:
                self._texts = json.loads(safe_files.read_linked_text(path, MOST_BYTES)) if path.is_file() else {}
            except ValueError as error:
                raise FileError(str(path), f"is not JSON: {error}") from None
        return self._texts

    def _save(self, texts: dict[str, Any]) -> None:
        if texts != self._known or not (self.folder / TEXTS).is_file():
            data = json.dumps(dict(sorted(texts.items())), ensure_ascii=False, indent=1) + "\n"
            replace_bytes(self.folder / TEXTS, data.encode("utf-8", "replace"), mode=0o644)
        self._texts = texts

    def _whole(self, event: dict[str, Any]) -> dict[str, Any]:
        """The system text and the tools that the names in `event` stand for."""
        texts = self._known
        tools = [texts[name] for name in event["tools"]]
        return {
            "system": "\n\n".join("\n".join(texts[name]) for name in event["system"]),
            "tools": [{**tool, "description": "\n".join(tool["description"])} for tool in tools],
        }


def _rows(envelopes: Sequence[Envelope], texts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events as rows; the texts of prefixes are added to `texts`."""
    first = envelopes[0].event
    assert isinstance(first, events.SessionStarted)
    session, began = first.session, envelopes[0].at
    places = ((first.cwd, "<folder>"), (session, _SESSION), (str(Path.home()), "~"))
    for envelope in envelopes:
        if isinstance(envelope.event, _LEFT_OUT):
            continue
        event = clean(_replaced(msgspec.to_builtins(_short(envelope.event)), places))
        if isinstance(envelope.event, events.Prefix):
            parts = [part.split("\n") for part in _PART.split(event["system"])]
            event["system"] = [_kept(texts, f"text {rows[0].removeprefix('# ')[:40].strip()}", rows) for rows in parts]
            event["tools"] = [
                _kept(texts, f"tool {tool['name']}", {**tool, "description": tool["description"].split("\n")})
                for tool in event["tools"]
            ]
        yield {"seq": envelope.seq, "at": round(envelope.at - began, 3), "agent": envelope.agent, "event": event}


def _short(event: events.AnyEvent) -> events.AnyEvent:
    """An event without what no replay needs."""
    replace = msgspec.structs.replace
    match event:
        case events.AgentFinished():
            return replace(event, receipt=Receipt(), findings=())
        case events.AgentStarted():
            return replace(event, forecast=None, traceparent="")
        case events.ToolFinished() if not isinstance(event.display, DelegationDisplay):
            return replace(event, display=None)
        case events.Requested():
            return replace(event, digest="")
        case events.Prefix():
            return replace(event, system=canonical(())(event.system))
    return event


def _replaced(value: Any, places: Sequence[tuple[str, str]]) -> Any:
    """`value` with paths and ids replaced in all its texts."""
    if isinstance(value, str):
        for old, new in places:
            value = value.replace(old, new) if len(old) > 1 else value
        return value
    if isinstance(value, dict):
        return {_replaced(key, places): _replaced(item, places) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, places) for item in value]
    return value


def _kept(texts: dict[str, Any], title: str, content: Any) -> str:
    """The name of a text or tool in `texts`, where it is added."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{title} {digest}"
    texts[name] = content
    return name
