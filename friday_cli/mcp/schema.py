"""The JSON Schema of files with MCP servers."""

from __future__ import annotations

from typing import Any

from friday_cli.config import json_schema

from .entry import WrittenEntry
from .parse import TABLE


def servers_schema() -> dict[str, Any]:
    """The schema of mcp.json."""
    components = json_schema.definitions(WrittenEntry)
    entry = components["WrittenEntry"]
    entry["properties"]["type"]["enum"].remove("")
    del entry["properties"]["type"]["default"]
    disabled = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
    entry["oneOf"] = [
        {"required": ["command"]},
        {"required": ["url"]},
        disabled | {"not": {"anyOf": [{"required": [key]} for key in ("command", "url")]}},
    ]
    table = {
        "type": "object",
        "description": "Servers by name.",
        "additionalProperties": {"$ref": "#/$defs/WrittenEntry"},
    }
    top = {"type": "object", "properties": {TABLE: table}, "required": [TABLE]}
    return json_schema.document("MCP servers of Friday", top, components)
