"""The JSON Schema of files with MCP servers, for editors. `docs/mcp.schema.json` is made of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from friday_cli.config.docs import documentation

from .entry import OAuthSettings, WrittenEntry
from .parse import TABLE


def document() -> dict[str, Any]:
    """The schema of a whole file."""
    (_, components) = msgspec.json.schema_components((WrittenEntry,), ref_template="#/$defs/{name}")
    for struct in (WrittenEntry, OAuthSettings):
        schema = components[struct.__name__]
        texts = documentation(struct)
        for field in msgspec.structs.fields(struct):
            schema["properties"][field.encode_name]["description"] = texts[field.name]
        schema["description"] = " ".join((struct.__doc__ or "").split())
        schema.pop("required")
    entry = components["WrittenEntry"]
    entry["properties"]["type"]["enum"].remove("")
    del entry["properties"]["type"]["default"]
    disabled = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
    entry["oneOf"] = [{"required": ["command"]}, {"required": ["url"]}, disabled | {"not": {"anyOf": [{"required": [key]} for key in ("command", "url")]}}]  # fmt: skip
    table = {
        "type": "object",
        "description": "Servers by name.",
        "additionalProperties": {"$ref": "#/$defs/WrittenEntry"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "MCP servers of Friday", "type": "object",
        "properties": {"$schema": {"type": "string"}, TABLE: table}, "required": [TABLE], "$defs": components,
    }  # fmt: skip


def text() -> str:
    """The schema as the text of a file."""
    return json.dumps(json.loads(msgspec.json.encode(document())), indent=2, ensure_ascii=False) + "\n"
