"""The schema of a server's tool in a form that every model service accepts: one object, without references, without alternatives at its top.

Anthropic and OpenAI refuse every request with a tool whose schema has `anyOf`, `oneOf` or `allOf` at the top level; Gemini refuses `$ref`
and `exclusiveMinimum` (error messages of the services; Gemini API, "Schema"). What the changed schema cannot say is told in
the tool's description; the server checks the arguments against its own schema.
"""

from __future__ import annotations

import json
from typing import Any

_CHOICES = ("anyOf", "oneOf", "allOf")
_LIMITS = {"exclusiveMinimum": ("minimum", 1), "exclusiveMaximum": ("maximum", -1)}
_DEFINITIONS = ("$defs", "definitions")
_MOST_NODES = 20_000
"""Parts of a schema after which references are no longer resolved: each may name several others."""
_MOST_TOLD = 2_000
"""Characters of a condition that are told."""


def portable(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The schema to send, and a sentence with what it no longer says ("": nothing)."""
    resolver = _Resolver(schema)
    top = resolver.resolved(schema, ())
    chosen = {key: top.pop(key) for key in _CHOICES if isinstance(top.get(key), list)}
    if not chosen:
        return {**top, "type": "object"}, ""
    properties, required = dict(_table(top.get("properties"))), list(top.get("required") or ())
    for key, branches in chosen.items():
        objects = [branch for branch in branches if isinstance(branch, dict)]
        for branch in objects:
            for name, value in _table(branch.get("properties")).items():
                properties[name] = _either(properties[name], value) if name in properties else value
        needed = [set(branch.get("required") or ()) for branch in objects]
        always = set[str]().union(*needed) if key == "allOf" else set.intersection(*needed) if needed else set()
        required += sorted(always - set(required))
    whole = {**top, "type": "object", "properties": properties, **({"required": required} if required else {})}
    told = json.dumps(chosen, ensure_ascii=False, separators=(",", ":"))
    return whole, f"The arguments must also fit this JSON Schema: {told}" if len(told) <= _MOST_TOLD else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _either(known: Any, value: Any) -> Any:
    """A schema for what one of two accepts."""
    if known == value:
        return known
    kinds = known["anyOf"] if isinstance(known, dict) and set(known) == {"anyOf"} else [known]
    return {"anyOf": kinds if value in kinds else [*kinds, value]}


class _Resolver:
    """Copies parts of the schema `top`: references become what they name, exclusive limits become others. A reference inside of
    what it names accepts any value."""

    def __init__(self, top: dict[str, Any]) -> None:
        self._top = top
        self._left = _MOST_NODES

    def resolved(self, node: Any, inside: tuple[str, ...], *, names: bool = False) -> Any:
        """A copy of `node`, which is within what the references `inside` name. `names`: the keys of `node` are names of a
        person's choice, such as those of properties."""
        self._left -= 1
        if isinstance(node, list):
            return [self.resolved(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        if names:
            return {name: self.resolved(value, inside) for name, value in node.items()}
        if isinstance(reference := node.get("$ref"), str):
            found = {} if reference in inside or self._left < 0 else _table(self._named(reference))
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return self.resolved({**found, **rest}, (*inside, reference))
        out = {
            key: self.resolved(value, inside, names=key in ("properties", "patternProperties"))
            for key, value in node.items()
            if key not in _DEFINITIONS
        }
        for key, (inclusive, step) in _LIMITS.items():
            limit = out.get(key)
            if isinstance(limit, int | float) and not isinstance(limit, bool):
                del out[key]
                whole = node.get("type") == "integer" and float(limit).is_integer()
                out.setdefault(inclusive, int(limit) + step if whole else limit)
        return out

    def _named(self, reference: str) -> Any:
        """What a reference such as `#/$defs/point` names; None for a reference to something else."""
        found: Any = self._top if reference.startswith("#") else None
        for key in reference.removeprefix("#").split("/")[1:]:
            found = _table(found).get(key.replace("~1", "/").replace("~0", "~"))
        return found
