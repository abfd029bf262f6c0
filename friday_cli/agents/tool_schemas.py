"""What models are told about tools. The JSON Schemas are kept between starts, because to make them takes 7 ms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol import call_arguments, tool
from friday_cli.core.protocol.events import ToolSpec
from friday_cli.system import cache_file
from friday_cli.system.paths import cache_dir

_CODE = (Path(__file__).parents[1] / "tools", Path(tool.__file__), Path(call_arguments.__file__))
"""The code that the schemas are made from."""


class KeptSchemas:
    """The JSON Schemas of the arguments of tools, kept in the cache folder of `env`."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._path = cache_dir(env) / "tool-schemas"
        self._schemas: dict[str, dict[str, Any]] | None = None
        self._given: tuple[tool.Tool, ...] = ()
        self._newest: tuple[ToolSpec, ...] = ()

    def specs(self, tools: Iterable[tool.Tool]) -> tuple[ToolSpec, ...]:
        """What a model is told about `tools`, in their order."""
        given = tuple(tools)
        if given and given == self._given:
            return self._newest
        tools = tuple(one for one in given if one.schema is None)
        names = [f"{one.args.__module__}.{one.args.__qualname__}" for one in tools]
        if self._schemas is None:
            self._schemas = self._read()
        if new := {name: one for name, one in zip(names, tools, strict=True) if name not in self._schemas}:
            self._schemas |= {name: one.spec.schema for name, one in new.items()}
            cache_file.write(self._path, msgspec.json.encode([_made_by(), self._schemas]))
        made = {one.name: self._schemas[name] for name, one in zip(names, tools, strict=True)}
        specs = tuple(
            ToolSpec(one.name, one.description, made[one.name]) if one.schema is None else one.spec for one in given
        )
        if specs != self._newest:
            self._newest = specs
        self._given = given
        return self._newest  # the same for agents with the same tools: what is derived from it is kept by identity

    def _read(self) -> dict[str, dict[str, Any]]:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            made_by, schemas = msgspec.json.decode(
                cache_file.read(self._path) or b'["", {}]', type=tuple[str, dict[str, dict[str, Any]]]
            )
            if made_by == _made_by():
                return schemas
        return {}


def _made_by() -> str:
    return f"{msgspec.__version__} {cache_file.code_stamp(*_CODE)}"
