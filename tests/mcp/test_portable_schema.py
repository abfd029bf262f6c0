"""Schemas of servers in the form that every model service accepts."""

from __future__ import annotations

from typing import Any

import pytest

from friday_cli.mcp.portable_schema import portable

TREE = {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "definitions": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({}, {"type": "object"}),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}]}}}, None),
        ({**TREE, "$defs": {"tree": TREE}},
         {"type": "object", "properties": {"left": {"type": "object", "properties": {"left": {}, "definitions": {"type": "string"}}},
                                           "definitions": {"type": "string"}}}),
        ({"properties": {"n": {"type": "number", "exclusiveMaximum": 1.5}}}, {"type": "object", "properties": {"n": {"type": "number", "maximum": 1.5}}}),
        ({"properties": {"a": {"$ref": "https://example.org/x"}}}, {"type": "object", "properties": {"a": {}}}),
    ],
)  # fmt: skip
def test_references_and_exclusive_limits(schema: dict[str, Any], sent: dict[str, Any] | None) -> None:
    assert portable(schema) == (schema if sent is None else sent, "")


def test_alternatives_become_one_object_and_a_sentence() -> None:
    by_name = {"properties": {"key": {"type": "string"}}, "required": ["key", "why"]}
    by_number = {"properties": {"key": {"type": "integer"}}, "required": ["n", "why"]}
    schema, told = portable({"oneOf": [by_name, by_number]})
    either = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert schema == {"type": "object", "properties": {"key": either}, "required": ["why"]}
    assert told.startswith('The arguments must also fit this JSON Schema: {"oneOf":')
    assert portable({"allOf": [by_name, by_number]})[0]["required"] == ["key", "n", "why"]


def test_references_that_multiply_end() -> None:
    names = {f"d{i}": {"properties": {k: {"$ref": f"#/$defs/d{i + 1}"} for k in "abcd"}} for i in range(40)}
    schema, _ = portable({"$defs": names, "properties": {"x": {"$ref": "#/$defs/d0"}}})
    assert schema["properties"]["x"]["properties"]["a"]
