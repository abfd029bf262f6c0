"""What ACP calls content: blocks of a prompt, and tool calls with their kinds, places and diffs."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from friday_cli.core.protocol.displays import AnyDisplay, CommandDisplay, DiffDisplay, DiffsDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.messages import Image
from friday_cli.core.text.sanitize import code_block, sanitize, sanitize_line
from friday_cli.core.text.untrusted import wrap_untrusted
from friday_cli.core.tool_catalog import BASH, GLOB, GREP, LIST_DIR, TOOLS
from friday_cli.tools.files import picture
from friday_cli.view.items import ToolRun

MOST_CHARS = 100_000
"""Characters of an embedded resource, and of the output of a tool."""
_OF_ADDRESSES = ":/?#[]!$&'()*+,;=%"
"""Characters that stay in an address as they are; `@` would name a file."""
_SEARCHES = frozenset((GREP, GLOB, LIST_DIR, "web_search"))
_KINDS = {"read": "read", "write": "edit", "run": "execute", "net": "fetch", "spawn": "think", "own": "think"}


def text_block(text: str) -> dict[str, Any]:
    """A block of text without escape sequences."""
    return {"type": "text", "text": sanitize(text)}


def prompt_of(blocks: Sequence[Any], cwd: str) -> tuple[str, str, tuple[Image, ...]]:
    """The text, the embedded resources and the images of the blocks of a prompt. A link to a file of the session's folder becomes
    `@path`, whose content is attached. A resource is text of others, so it does not name files. Raises ValueError for a block of
    another kind."""
    texts: list[str] = []
    resources: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "data": str(data)}:
                images.append(_image(data))
            case {"type": "resource_link", "uri": str(uri)}:
                texts.append(_link(uri, cwd))
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                resources.append(wrap_untrusted(text[:MOST_CHARS], source=sanitize_line(uri, 500)))
            case {"type": "resource", "resource": {"blob": str(data), "mimeType": str(media)}} if media.startswith(
                "image/"
            ):
                images.append(_image(data))
            case {"type": kind}:
                raise ValueError(f"prompt: content of the type {kind!r} cannot be read.")
            case _:
                raise ValueError("prompt: expected blocks with a type.")
    return "".join(texts), "\n\n".join(resources), tuple(images)


def _image(data: str) -> Image:
    """An image that services read: one that they refuse would be in all later requests. Raises ValueError."""
    try:
        content = base64.b64decode(data, validate=True)
        if not picture.media_type(content):
            raise ValueError("It is not a PNG, JPEG, GIF or WebP.")
        return picture.image(content)[0]
    except (ValueError, ToolError) as error:
        why = error.message if isinstance(error, ToolError) else str(error)
        raise ValueError(f"prompt: an image cannot be used: {why}") from None


def _link(uri: str, cwd: str) -> str:
    """A link to a file of the folder as `@path`. Another one is text that does not name a file or a command, whatever is in it."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme != "file" or '"' in path or "\n" in path:
        return f"<{quote(uri[:2_000], safe=_OF_ADDRESSES)}>"
    inside = os.path.relpath(path, cwd)
    name = path if inside.startswith("..") else inside
    return f'@"{f"./{name}" if ":" in name else name}"'  # a colon could name a resource of a server


def kind_of(tool: str) -> str:
    """The ACP kind of a tool."""
    if tool in _SEARCHES:
        return "search"
    return _KINDS.get(TOOLS.effect(tool) or "", "other")


def call_fields(run: ToolRun, cwd: str) -> dict[str, Any]:
    """A call as both `tool_call` and a question about it show it."""
    title = sanitize_line(run.title or _subject(run.arguments), 200)
    places = locations(run.arguments, cwd)
    return {
        "toolCallId": run.call_id,
        "title": title if run.tool == BASH and title else f"{sanitize_line(run.label, 64)} {title}".rstrip(),
        "name": sanitize_line(run.tool, 64),
        "kind": kind_of(run.tool),
        "rawInput": run.arguments,
        "_meta": {"tool_name": sanitize_line(run.tool, 64)},
        **({"locations": places} if places else {}),
    }


def _subject(arguments: dict[str, Any]) -> str:
    """What a call is about before it has a title: its first text, such as a command or a path."""
    named = ("command", "path", "pattern", "url", "query", "task")
    return next((value for name in named if isinstance(value := arguments.get(name), str)), "")


def locations(arguments: dict[str, Any], cwd: str) -> list[dict[str, Any]]:
    """The file that a call is about, with an absolute path; lines begin with 1."""
    path = arguments.get("path")
    if not isinstance(path, str) or not path or "\0" in path:
        return []
    line = arguments.get("offset")
    return [
        {
            "path": os.path.normpath(os.path.join(cwd, path)),
            **({"line": line} if isinstance(line, int) and line > 0 else {}),
        }
    ]


def call_content(display: AnyDisplay | None, text: str, cwd: str) -> list[dict[str, Any]]:
    """What a finished call shows: diffs, the output of a command, or its text."""
    if isinstance(display, DiffDisplay):
        return [_diff(display, cwd)]
    if isinstance(display, DiffsDisplay):
        return [_diff(one, cwd) for one in display.files]
    if isinstance(display, CommandDisplay):
        shown = code_block(sanitize(display.output[-MOST_CHARS:]), "console")
        return [{"type": "content", "content": {"type": "text", "text": shown}}]
    return [{"type": "content", "content": text_block(text[:MOST_CHARS])}] if text else []


def _diff(display: DiffDisplay, cwd: str) -> dict[str, Any]:
    """A diff as the lines before and after, which is what ACP has."""
    old, new = [], []
    begun = False
    for line in display.diff.splitlines():
        if line.startswith("@@"):
            begun = True
            continue
        if not begun or line.startswith("\\"):
            continue
        if not line.startswith("+"):
            old.append(line[1:])
        if not line.startswith("-"):
            new.append(line[1:])
    path = os.path.normpath(os.path.join(cwd, display.path))
    return {
        "type": "diff",
        "path": path,
        "oldText": sanitize("\n".join(old)) if old else None,
        "newText": sanitize("\n".join(new)),
    }
