"""What servers answer, as text and images for a model, and as what a catalog keeps."""

from __future__ import annotations

import base64
import json
from typing import Any

import mcp_types as types

from friday_cli.core.protocol.messages import Image
from friday_cli.core.text.sanitize import sanitize_line

from .catalog import OfferedPrompt, OfferedTool
from .connection import Reply

IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
IMAGE_BYTES = 5_000_000
"""Bytes of the largest image that is passed on."""


def reply(result: types.CallToolResult) -> Reply:
    """The result of a tool. Structured content is JSON, unless the text has the same: as JSON, or as its only field."""
    parts = [part(content) for content in result.content]
    data = result.structured_content
    if data is not None and not _same(joined(parts).text, data) and not any(_same(one.text, data) for one in parts):
        parts.append(Reply(json.dumps(data, ensure_ascii=False)))
    whole = joined(parts)
    return Reply(whole.text or ("" if whole.images else "(no content)"), whole.images, bool(result.is_error))


def _same(text: str, data: object) -> bool:
    if isinstance(data, dict) and len(data) == 1 and next(iter(data.values())) == text:
        return True
    try:
        return bool(json.loads(text) == data)
    except ValueError:
        return False


def joined(parts: list[Reply]) -> Reply:
    text = "\n".join(one.text for one in parts if one.text)
    return Reply(text, tuple(image for one in parts for image in one.images))


def part(content: Any) -> Reply:
    if isinstance(content, types.TextContent):
        return Reply(content.text)
    if isinstance(content, types.ImageContent):
        return _image(content.mime_type, content.data)
    if isinstance(content, types.EmbeddedResource):
        return resource(content.resource)
    if isinstance(content, types.ResourceLink):
        return Reply(f"[resource {content.uri}: {content.title or content.name}]")
    kind = getattr(content, "mime_type", "") or content.type
    return Reply(f"[{content.type} {kind}: cannot be shown]")


def resource(content: Any) -> Reply:
    if isinstance(content, types.TextResourceContents):
        return Reply(content.text)
    kind = content.mime_type or "binary"
    return _image(kind, content.blob) if kind in IMAGES else Reply(f"[{content.uri}: {kind}, not text]")


def _image(kind: str, data: str) -> Reply:
    if kind not in IMAGES:
        return Reply(f"[image of type {kind}: cannot be shown]")
    try:
        size = len(base64.b64decode(data, validate=True))
    except ValueError:
        return Reply("[image that is not valid base64]")
    if size > IMAGE_BYTES:
        return Reply(f"[image of {size:,} bytes: larger than {IMAGE_BYTES:,}]")
    return Reply("", (Image(kind, data),))


def offered_tool(tool: types.Tool) -> OfferedTool:
    reads = tool.annotations is not None and tool.annotations.read_only_hint is True
    return OfferedTool(tool.name, (tool.description or tool.title or "").strip(), tool.input_schema, reads)


def offered_prompt(prompt: types.Prompt) -> OfferedPrompt:
    arguments = {argument.name: bool(argument.required) for argument in prompt.arguments or ()}
    return OfferedPrompt(prompt.name, sanitize_line(prompt.description or prompt.title or "", 300), arguments)
