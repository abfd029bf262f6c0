"""A request of a program to its model: which ones are forwarded, what it asks for, and how long its reply may be."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.extensions.profiles.profile import Wire
from friday_cli.llm.transport.text import dict_in, dicts_in

from .usage import BYTES_PER_TOKEN

REPLY = 16_000
"""Tokens of a reply to a request that sets no limit."""
PICTURE = 1_500
"""Tokens of a picture, however long its text is."""
_LEAST_THINKING = 1024
"""Anthropic takes no smaller budget of thinking, and only one below the limit of the reply."""
_PICTURES = pattern(
    r'(?<!\\)"(?:(?:image_)?url": "data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]{2000,}'
    r'|(?:media_type|mimeType|mime_type)": "image/[\w.+-]+", "data": "[A-Za-z0-9+/=]{2000,}'
    r'|data": "[A-Za-z0-9+/=]{2000,}", "(?:media_type|mimeType|mime_type)": "image/)'
)
"""A picture in the JSON of a request, as the three services take it. Inside a text its quotes are escaped: there it is read as text."""

_PATHS: dict[Wire, tuple[str, ...]] = {
    "anthropic": ("/v1/messages", "/v1/messages/count_tokens"),
    "openai": ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/compact"),
    "gemini": tuple(
        f"/v1beta/models/MODEL:{verb}" for verb in ("generateContent", "streamGenerateContent", "countTokens")
    ),
}
_OF_MODEL = pattern(r"/v1(?:beta|alpha)?/models/([\w.-]+):(\w+)", re.A)
_Limit = tuple[str, str]
"""A limit of the reply: the object of the request that has it ("": the request itself), and its name."""
_LIMITS: dict[str, tuple[_Limit, ...]] = {
    "/v1/chat/completions": (("", "max_completion_tokens"), ("", "max_tokens")),
    "/v1/responses": (("", "max_output_tokens"),),
    "/v1/responses/compact": (),  # takes none
}
"""Those that count at a path; at others it is `max_tokens`."""
_GEMINI: tuple[_Limit, ...] = (("generationConfig", "maxOutputTokens"), ("generation_config", "max_output_tokens"))
"""It reads both forms."""
_ALL: tuple[_Limit, ...] = (("", "max_tokens"), ("", "max_completion_tokens"), ("", "max_output_tokens"), *_GEMINI)
"""Lowered wherever they are: a gateway may read others than the service."""


def refusal(wire: Wire, method: str, target: str) -> str:
    """Why a request is not one to a model, whatever is in it; "" if it is one."""
    path = target.partition("?")[0]
    if found := _OF_MODEL().fullmatch(path):
        path = f"/v1beta/models/MODEL:{found[2]}"
    if method == "POST" and path in _PATHS[wire]:
        return ""
    return f"Only requests to a model are forwarded: POST to {', '.join(_PATHS[wire])}."


class ProgramRequest(NamedTuple):
    """A request of the program. `turn`: it offers tools to the model, as each request of an agent's own work does; `free`: it only counts
    tokens. `most` is the longest reply that it asks for, in tokens. `parts` has the bytes of its parts, each of which the service may know
    from an earlier request, by the hash of the part."""

    model: str
    most: int
    turn: bool
    free: bool
    fields: dict[str, Any]
    limits: tuple[_Limit, ...]
    parts: dict[int, int]

    @staticmethod
    def read(target: str, body: bytes) -> ProgramRequest | None:
        """The request to `target`; None if its body is not a JSON object."""
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(fields, dict):
            return None
        path = target.partition("?")[0]
        named = _OF_MODEL().fullmatch(path)
        free = path.endswith(("/count_tokens", ":countTokens"))
        limits = _LIMITS.get(path, (("", "max_tokens"),))
        if named:  # first the form that it uses itself
            limits = tuple(sorted(_GEMINI, key=lambda one: not isinstance(fields.get(one[0]), dict)))
        given = [value for one in limits if _is_limit(value := _value(fields, one))]
        rows = (fields, *dicts_in(fields.get("input")))  # newer models of OpenAI take tools in an item of the input
        return ProgramRequest(
            str(named[1] if named else fields.get("model") or ""),
            0 if free else max(given, default=REPLY),
            turn=not free and any(row.get("tools") for row in rows),
            free=free,
            fields=fields,
            limits=limits,
            parts=_parts(fields),
        )

    def limited(self, output: int) -> bytes:
        """The body for a reply of at most `output` tokens."""
        changed = dict(self.fields)
        given = [one for one in _ALL if _value(changed, one) is not None]
        if not any(_value(changed, one) for one in self.limits):
            given += self.limits[:1]
        for name, key in given:
            value = _value(changed, (name, key))
            lower = min(value, output) if _is_limit(value) else output
            changed |= {name: dict_in(changed.get(name)) | {key: lower}} if name else {key: lower}
        thinking = changed.get("thinking")
        if isinstance(thinking, dict) and _is_limit(thinking.get("budget_tokens")):
            if output <= _LEAST_THINKING:
                changed["thinking"] = {"type": "disabled"}
            elif thinking["budget_tokens"] >= output:
                changed["thinking"] = thinking | {"budget_tokens": max(_LEAST_THINKING, output // 2)}
        return json.dumps(changed).encode()


def _value(fields: dict[str, Any], limit: _Limit) -> Any:
    name, key = limit
    return (dict_in(fields.get(name)) if name else fields).get(key)


def _is_limit(value: Any) -> bool:
    return type(value) is int and value > 0


def _parts(fields: dict[str, Any]) -> dict[int, int]:
    found = dict[int, int]()
    for name, value in fields.items():
        for part in value if isinstance(value, list) else (value,):
            text = json.dumps(part)
            rest, pictures = _PICTURES().subn("", text)
            part_of = hash((name, text))  # the same message may be there more than once
            found[part_of] = found.get(part_of, 0) + len(rest) + pictures * PICTURE * BYTES_PER_TOKEN
    return found
