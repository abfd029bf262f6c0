"""Reads the YAML front matter of Markdown files, with limits, and with the line number of each key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.lazy_regex import pattern

MAX_BYTES = 256_000
"""Largest file."""
MAX_BLOCK = 16_000
"""Longest front matter, in characters."""
MAX_DEPTH = 5
"""Deepest nesting in front matter."""

_FENCE = pattern(r"---[ \t]*$")
_UNPRINTABLE = pattern("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_LENIENT_KEY = pattern(r"[A-Za-z_][A-Za-z0-9_-]*")
_NAME = pattern(r"""^\s*[{]?\s*["']?name["']?\s*:""", re.M)


class MarkdownFile(msgspec.Struct, frozen=True):
    """A parsed Markdown file: the keys of its front matter, the line of each (from 1), and the text below."""

    keys: dict[str, Any]
    lines: dict[str, int]
    body: str


def contents(path: Path) -> bytes | FileError:
    """The content of a file (at most MAX_BYTES + 1), or the error why it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        return FileError(str(path), f"cannot be read: {error.strerror}.")


def decode(path: str, raw: bytes) -> str:
    """Decode a file: no byte order mark, line ends as `\\n`. Raises FileError."""
    if len(raw) > MAX_BYTES:
        raise FileError(path, f"is larger than {MAX_BYTES:,} bytes.", hint="Shorten the prompt to a few hundred lines.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileError(path, "is not UTF-8 text.", line=line, hint="Save it as UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split(text: str) -> tuple[str, str] | None:
    """The front matter and the text below it; None without front matter."""
    lines = text.split("\n")
    if not _FENCE().match(lines[0]):
        return None
    for number, line in enumerate(lines[1:], 1):
        if _FENCE().match(line):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return None


def has_name(text: str) -> bool:
    """Whether `text` is intended as a profile: its front matter has a `name`."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    parts = split(text)
    return parts is not None and _NAME().search(parts[0]) is not None


def read(path: str, text: str, *, known: Collection[str] | None = None) -> MarkdownFile:
    """Parse `text` (see `decode`). With `known`, the keys of such files, text that is not YAML is read as other tools do:
    values may have unquoted colons and run over several lines. Raises FileError with line and field."""
    parts = split(text)
    if parts is None:
        if _FENCE().match(text.split("\n", 1)[0]):
            raise FileError(path, "the front matter is not closed.", line=1, hint="End it with a line `---`.")
        hint = "Start the file with ---, name: and description:, ---."
        raise FileError(path, "has no front matter.", line=1, hint=hint)
    block, body = parts
    if len(block) > MAX_BLOCK:
        raise FileError(path, f"the front matter is longer than {MAX_BLOCK:,} characters.", line=1)
    if bad := _UNPRINTABLE().search(block):
        line = block.count("\n", 0, bad.start()) + 2
        raise FileError(path, "the front matter contains control characters.", line=line, hint="Remove them.")
    if (page := _parse_simple(block, body)) is not None:
        return page
    try:
        return _parse_yaml(path, block, body)
    except FileError:
        if known is not None and (page := _parse_lenient(block, body, known)) is not None:
            return page
        raise


_KEY = pattern(r"([A-Za-z_][A-Za-z0-9_-]*):(?:[ ]+(.*))?$")
_ITEM = pattern(r"([ ]*)-[ ]+(.+)$")
_PLAIN = pattern(r"[A-Za-z][^#:?\[\]{}&*!|>%@`\"',\t\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029]*")
_PROSE = pattern(r"[A-Za-z](?:[^#:\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029]|:(?=[^\s\x85])|(?<=\S)#)*")
_QUOTED = pattern(r"\"[^\"\\\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029]*\"|'[^'\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029]*'")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def _parse_simple(block: str, body: str) -> MarkdownFile | None:
    """Parse simple front matter without the YAML parser, whose import is slow; None if anything is not simple."""
    keys: dict[str, Any] = {}
    lines: dict[str, int] = {}
    items: list[Any] | None = None
    indent = 0
    for number, line in enumerate(block.split("\n"), 2):
        line = line.rstrip(" ")
        if not line or line.startswith("#"):
            continue
        if item := _ITEM().match(line):
            value = _scalar(item.group(2).strip(" "))
            if items is None or value is None or (items and len(item.group(1)) != indent):
                return None
            indent = len(item.group(1))
            items.append(value)
            continue
        key = _KEY().match(line)
        if key is None or key.group(1) in keys or key.group(1).lower() in _WORDS or (items is not None and not items):
            return None
        name, rest = key.group(1), (key.group(2) or "").strip(" ")
        lines[name] = number
        items = None
        if not rest:
            keys[name] = items = []
        elif rest.startswith("[") and rest.endswith("]"):
            inner = rest[1:-1].strip(" ")
            values = [_scalar(part.strip(" "), _PLAIN()) for part in inner.split(",")] if inner else []
            if None in values:
                return None
            keys[name] = values
        else:
            value = _scalar(rest)
            if value is None:
                return None
            keys[name] = value
    if (items is not None and not items) or not keys:
        return None
    return MarkdownFile(keys, lines, body)


def _scalar(text: str, plain: re.Pattern[str] | None = None) -> str | int | float | bool | None:
    """A value that YAML certainly reads the same way, else None."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"0|[1-9][0-9]{0,15}", text):
        return int(text)
    if re.fullmatch(r"(?:0|[1-9][0-9]{0,8})\.[0-9]{1,8}", text):
        return float(text)
    if _QUOTED().fullmatch(text):
        return text[1:-1]
    if (plain or _PROSE()).fullmatch(text) and not text.endswith((":", " ")) and text.lower() not in _WORDS:
        return text
    return None


def _parse_yaml(path: str, block: str, body: str) -> MarkdownFile:
    import yaml

    loader = yaml.SafeLoader(block)
    try:
        _check_events(path, block)
        node = loader.get_single_node()
        if node is None:
            return MarkdownFile({}, {}, body)
        if not isinstance(node, yaml.MappingNode):
            raise FileError(path, "the front matter is not a list of `key: value` lines.", line=2)
        lines = _lines(path, node)
        keys = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark else 1
        raise FileError(path, f"is not YAML: {error.problem or error.context}.", line=line, hint=_YAML_HINT) from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        # SafeLoader raises these for values such as 2024-99-99 or !!int x
        raise FileError(path, f"is not YAML: {str(error) or type(error).__name__}.", line=1, hint=_YAML_HINT) from None
    finally:
        loader.dispose()
    return MarkdownFile(keys, lines, body)


_YAML_HINT = 'Quote text that contains : # or quotes, as in description: "a: b".'


def _check_events(path: str, block: str) -> None:
    """Refuse anchors and deep nesting before any object is built. Raises FileError."""
    import yaml

    depth = 0
    for event in yaml.parse(block, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 2 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problem = "the front matter uses YAML anchors (& and *)."
            raise FileError(path, problem, line=line, hint="Write out the value, or quote it.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise FileError(path, f"the front matter is nested deeper than {MAX_DEPTH} levels.", line=line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _lines(path: str, node: Any) -> dict[str, int]:
    """The line of each top-level key. Raises FileError for keys that are not text, and for duplicates."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line, name = key.start_mark.line + 2, str(key.value)
        if key.tag == "tag:yaml.org,2002:bool":
            problem = f"the key {name} means true or false in YAML."
            raise FileError(path, problem, line=line, field=name, hint="Quote it.")
        if key.tag != "tag:yaml.org,2002:str":
            raise FileError(path, "a key is not text.", line=line, hint="Keys are words such as name or allowedTools.")
        if name in lines:
            problem = f"is a duplicate; first in line {lines[name]}."
            raise FileError(path, problem, line=line, field=name, hint="Keep one.")
        lines[name] = line
    return lines


def _parse_lenient(block: str, body: str, known: Collection[str]) -> MarkdownFile | None:
    """Parse `key: anything` lines; each value is literal text, or a list of `- item` lines or `[item, item]`."""
    keys: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for number, line, more in _logical_lines(block, known):
        key, colon, value = line.partition(":")
        if not colon or not _LENIENT_KEY().fullmatch(key) or key in keys:
            return None
        keys[key] = _lenient_value(value.strip(), more)
        lines[key] = number
    return MarkdownFile(keys, lines, body) if keys else None


def _lenient_value(value: str, more: list[str]) -> Any:
    if not value and more and all(line.startswith("- ") for line in more):
        return [line[2:].strip().strip("\"'") for line in more]
    if value[:1] == "[" and value[-1:] == "]" and not more:
        return [item.strip().strip("\"'") for item in value[1:-1].split(",") if item.strip()]
    value = " ".join((value, *more))
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _logical_lines(block: str, known: Collection[str]) -> Iterator[tuple[int, str, list[str]]]:
    """The lines that begin a key, with their number and the lines that continue the value: indented ones, ones that are no
    `key:` line, and ones with a repeated key. After such a line only a key in `known` begins a value. This is for the examples
    in a description, which have lines such as `user: Hello`."""
    start, first, prose = 0, "", False
    more: list[str] = []
    found = [line.partition(":")[0] if ":" in line else "" for line in block.split("\n")]
    keys = Counter(key for key in found if _LENIENT_KEY().fullmatch(key))
    for number, (line, key) in enumerate(zip(block.split("\n"), found, strict=True), 2):
        if key in keys and (key in known or (not prose and keys[key] == 1)):
            if first:
                yield start, first, more
            start, first, more, prose = number, line.rstrip(), [], False
        elif first and line.strip() and (line[:1] in (" ", "\t") or not line.startswith("#")):
            more.append(line.strip())
            prose = prose or line[:1] not in (" ", "\t", "-")
        elif line.strip() and not line.startswith("#"):
            yield number, line, []
    if first:
        yield start, first, more
