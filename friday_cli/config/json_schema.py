"""Makes the JSON Schema of a configuration file, for editors: the docstrings of its fields become descriptions."""

from __future__ import annotations

from typing import Any

import msgspec

from .docs import documentation
from .settings import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def definitions(*structs: type[msgspec.Struct]) -> dict[str, Any]:
    """The definitions of `structs` and of all structs in them, by name."""
    (_, found) = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    for struct in _all(structs):
        schema = found[struct.__name__]
        texts = documentation(struct)
        for field in msgspec.structs.fields(struct):
            key = schema["properties"][field.encode_name]
            if field.name in texts:
                key["description"] = texts[field.name]
            if "pattern" in key:
                key["pattern"] = key["pattern"].replace(r"\Z", "$")  # JSON Schema has no \Z
            if isinstance(key.get("default"), msgspec.Struct) or "$ref" in key:
                key.pop("default", None)  # a whole table
        schema["description"] = " ".join((struct.__doc__ or "").split())
        if not schema["required"]:
            del schema["required"]
    return found


def document(title: str, top: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The schema of a whole file: `top` is the schema of its outermost object. JSON files may name their schema in `$schema`."""
    named = {"$schema": {"type": "string"}, **top.get("properties", {})}
    return {"$schema": DIALECT, **top, "title": title, "properties": named, "$defs": components}


def settings_schema() -> dict[str, Any]:
    """The schema of config.toml."""
    components = definitions(Settings)
    return {"$schema": DIALECT, **components.pop("Settings"), "title": "Settings of Friday", "$defs": components}


def _all(structs: tuple[type[msgspec.Struct], ...]) -> list[type[msgspec.Struct]]:
    """`structs` and all structs that their fields contain."""
    found: list[type[msgspec.Struct]] = []
    waiting: list[Any] = list(structs)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found.append(kind)
                waiting += [field.type for field in msgspec.structs.fields(kind)]
        else:
            waiting += getattr(kind, "__args__", ())
    return found
