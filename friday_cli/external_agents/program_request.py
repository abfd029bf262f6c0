"""A request of a program to its model: which ones are forwarded, what it asks for, and how long its reply may be."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.extensions.profiles.profile import Wire

REPLY = 8_000
"""Tokens of a reply to a request that sets no limit."""
_LEAST_THINKING = 1024
"""Anthropic takes no smaller budget of thinking, and only one below the limit of the reply."""
_LIMITS = ("max_tokens", "max_output_tokens", "max_completion_tokens")
_OPTIONS = (("generationConfig", "maxOutputTokens"), ("generation_config", "max_output_tokens"))
"""Where Gemini has its limit: it reads both forms."""

_PATHS = {
    "anthropic": pattern(r"/v1/messages(/count_tokens)?"),
    "openai": pattern(r"/v1/(chat/completions|completions|responses(/compact)?)"),
    "gemini": pattern(r"/v1(beta|alpha)?/models/[\w.-]+:(generateContent|streamGenerateContent|countTokens)", re.A),
}
_ALLOWED = {
    "anthropic": "/v1/messages and /v1/messages/count_tokens",
    "openai": "/v1/chat/completions, /v1/completions, /v1/responses and /v1/responses/compact",
    "gemini": "/v1beta/models/MODEL:generateContent, :streamGenerateContent and :countTokens",
}


def refusal(wire: Wire, method: str, target: str) -> str:
    """Why a request is not one to a model, whatever is in it; "" if it is one."""
    if method == "POST" and _PATHS[wire]().fullmatch(target.partition("?")[0]):
        return ""
    return f"Only requests to a model are forwarded: POST to {_ALLOWED[wire]}."


class ProgramRequest(NamedTuple):
    """A request of the program. `turn`: it offers tools to the model, as each request of an agent's own work does; `free`: it only counts
    tokens. `most` is the longest reply that it asks for, in tokens."""

    path: str
    model: str
    size: int
    most: int
    turn: bool
    free: bool
    fields: dict[str, Any]

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
        model = path.partition("/models/")[2].partition(":")[0] or fields.get("model") or ""
        free = path.endswith(("/count_tokens", ":countTokens"))
        given = [fields.get(key) for key in _LIMITS]
        given += [part.get(key) for name, key in _OPTIONS if isinstance(part := fields.get(name), dict)]
        most = 0 if free else max((limit for limit in given if type(limit) is int and limit > 0), default=REPLY)
        turn = not free and _offers_tools(fields)
        return ProgramRequest(path, str(model), len(body), most, turn=turn, free=free, fields=fields)

    def limited(self, output: int) -> bytes:
        """The body for a reply of at most `output` tokens."""
        changed = self.fields | _lowered(self.fields, _LIMITS, output)
        for name, key in _OPTIONS:
            if isinstance(part := changed.get(name), dict):
                changed[name] = part | _lowered(part, (key,), output)
        self._add_limit(changed, output)
        thinking = changed.get("thinking")
        if isinstance(thinking, dict) and _is_limit(thinking.get("budget_tokens")):
            if output <= _LEAST_THINKING:
                changed["thinking"] = {"type": "disabled"}
            elif thinking["budget_tokens"] >= output:
                changed["thinking"] = thinking | {"budget_tokens": max(_LEAST_THINKING, output // 2)}
        return json.dumps(changed).encode()

    def _add_limit(self, changed: dict[str, Any], output: int) -> None:
        """Add the limit that the service reads at this path, if it is not there."""
        if "/models/" in self.path:
            if not any(isinstance(part := changed.get(name), dict) and part.get(key) for name, key in _OPTIONS):
                name, key = next((one for one in _OPTIONS if isinstance(changed.get(one[0]), dict)), _OPTIONS[0])
                changed[name] = (changed.get(name) or {}) | {key: output}
            return
        keys = {
            "/v1/chat/completions": ("max_completion_tokens", "max_tokens"),
            "/v1/responses": ("max_output_tokens",),
            "/v1/responses/compact": (),  # takes none
        }.get(self.path, ("max_tokens",))
        if keys and not any(changed.get(key) for key in keys):
            changed[keys[0]] = output


def _is_limit(value: Any) -> bool:
    return type(value) is int and value > 0


def _lowered(fields: dict[str, Any], keys: tuple[str, ...], output: int) -> dict[str, Any]:
    """The limits among `fields`, each at most `output`."""
    given = {key: fields[key] for key in keys if fields.get(key) is not None}
    return {key: min(value, output) if _is_limit(value) else output for key, value in given.items()}


def _offers_tools(fields: dict[str, Any]) -> bool:
    """Whether a request offers tools to its model: in its own list, or in an item of its input, as newer models of OpenAI take them."""
    items = fields.get("input")
    rows = items if isinstance(items, list) else []
    return bool(fields.get("tools")) or any(isinstance(row, dict) and row.get("tools") for row in rows)
