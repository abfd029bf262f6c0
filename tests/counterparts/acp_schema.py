"""Validates frames of the Agent Client Protocol against the schemas that are published with its TypeScript SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

UNSTABLE_UPDATES = ("subagent_update", "session_message")
"""Updates that only the unstable schema has."""
UNSTABLE_FIELDS = {"session/prompt": ("usage",)}
"""Fields of results that only the unstable schema has."""


class Frames:
    """The definitions of one schema file. A field that it does not have is an error, except in `_meta`."""

    def __init__(self, path: Path) -> None:
        self._schema = json.loads(path.read_text(encoding="utf-8"))
        self._names: dict[tuple[str, str], str] = {}
        for name, definition in self._schema["$defs"].items():
            if "x-method" in definition:
                kind = "result" if name.endswith("Response") else "params"
                self._names[definition["x-method"], kind] = name
        for definition in self._schema["$defs"].values():
            _close(definition)
        self._validators: dict[str, Draft202012Validator] = {}

    def problem(self, method: str, kind: str, data: Any) -> str:
        """What is wrong with the `params` or the `result` (`kind`) of a method, "" if nothing is."""
        name = "Error" if kind == "error" else self._names.get((method, kind))
        if name is None:
            return f"{method}: the schema has no such method"
        if name not in self._validators:
            root = {"$defs": self._schema["$defs"], "$ref": f"#/$defs/{name}", "unevaluatedProperties": False}
            self._validators[name] = Draft202012Validator(root)
        error = best_match(self._validators[name].iter_errors(data))
        return f"{method} {kind}: {error.json_path}: {error.message[:300]}" if error else ""


def _close(schema: Any) -> None:
    """Forbid unknown fields in the objects that are fields or items of `schema`."""
    if isinstance(schema, list):
        for one in schema:
            _close(one)
    if not isinstance(schema, dict):
        return
    fields = schema.get("properties")
    inner = [schema["items"]] if isinstance(schema.get("items"), dict) else []
    for one in [*inner, *(fields.values() if isinstance(fields, dict) else ())]:
        if isinstance(one, dict) and {"$ref", "allOf", "anyOf", "oneOf"} & one.keys():
            one["unevaluatedProperties"] = False
    for key, value in schema.items():
        if key == "properties":
            for one in value.values():
                _close(one)
        elif key in ("allOf", "anyOf", "oneOf", "items"):
            _close(value)


def problems(frames: list[tuple[str, dict[str, Any]]], stable: Frames, unstable: Frames) -> Iterator[str]:
    """What is wrong with recorded frames. Each is "client" or "agent", and what that one sent."""
    methods: dict[tuple[str, Any], str] = {}
    for sender, frame in frames:
        if frame.get("jsonrpc") != "2.0":
            yield f"no JSON-RPC 2.0: {str(frame)[:200]}"
        if "method" in frame:
            method, kind = frame["method"], "params"
            if "id" in frame:
                methods[sender, frame["id"]] = method
        else:
            other = "agent" if sender == "client" else "client"
            method, kind = methods[other, frame["id"]], "error" if "error" in frame else "result"
        data = frame.get(kind, {})
        if found := unstable.problem(method, kind, data):
            yield f"{sender}: unstable schema: {found}"
        update = data.get("update", {}) if isinstance(data, dict) else {}
        if sender == "agent" and update.get("sessionUpdate") not in UNSTABLE_UPDATES:
            left = {key: value for key, value in data.items() if key not in UNSTABLE_FIELDS.get(method, ())}
            if found := stable.problem(method, kind, left):
                yield f"{sender}: stable schema: {found}"
