"""Questions of a server to a person: a form with a few fields, or an address to open. Declined where nobody can answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.sanitize import sanitize, sanitize_line

from .connection import ServerCall

DECLINE = "Decline"
SKIP = "Leave empty"
DEFAULT = "Default"
"""The beginning of the choice that takes the server's default for a field."""
TRIES = 3
"""Answers to one question that may be invalid."""
MOST_FIELDS = 20
"""Fields of a form. A longer one is declined."""
MOST_QUESTIONS = 20
"""Questions of a server in one call. The others are declined."""
MOST_LINES = 12
"""Lines of a server's message that are shown."""

Value = str | int | float | bool | list[str] | None


async def ask_url(call: ServerCall, who: str, message: str, url: str) -> bool:
    """Whether the person has opened the address."""
    try:
        address = urlsplit(url)
        if address.scheme not in ("http", "https"):
            return False
        host = sanitize_line(str(address.hostname), 200)
        question = f"{who} asks you to open an address of {host}:\n{_quoted(message)}\n{sanitize_line(url, 2000)}"
        return await call.ask(question, ("I opened it", DECLINE)) == "I opened it"
    except (ToolError, ValueError):  # ValueError: no address
        return False


async def ask_form(call: ServerCall, who: str, message: str, schema: Mapping[str, Any]) -> dict[str, Value] | None:
    """The person's values for the fields of `schema`, None if they declined or nobody can answer, or if it is not a schema. Each field
    is a question."""
    values: dict[str, Value] = {}
    head = f"{who} asks:\n{_quoted(message)}"
    try:
        fields: Mapping[str, Any] = schema.get("properties") or {}
        required = set(schema.get("required") or ())
        if len(fields) > MOST_FIELDS:
            return None
        if not fields:
            return {} if await call.ask(head, ("Accept", DECLINE)) == "Accept" else None
        for number, (name, field) in enumerate(fields.items(), 1):
            need = "required" if name in required else "may be left empty"
            where = (
                f"{head}\nField {number} of {len(fields)}, {need}:" if len(fields) > 1 else f"{head}\nField, {need}:"
            )
            answer = await _field(call, where, name, field if isinstance(field, dict) else {}, name in required)
            if answer is DECLINED:
                return None
            if answer is not LEFT_OUT:
                values[name] = answer
    except (ToolError, AttributeError, TypeError, ValueError):  # all but the first: the server sent no valid schema
        return None
    return values


class _Mark:
    """An answer that is not a value."""


DECLINED, LEFT_OUT = _Mark(), _Mark()


async def _field(call: ServerCall, head: str, name: str, field: Mapping[str, Any], required: bool) -> Any:
    """The value of one field, DECLINED or LEFT_OUT. Raises ToolError."""
    about = sanitize_line(
        " - ".join(filter(None, (str(field.get("title") or name), str(field.get("description") or "")))), 500
    )
    options = _options(field)
    default = field.get("default")
    usual = (
        isinstance(default, str | int | float | list) and f"{DEFAULT}: {sanitize_line(_words(default, options), 200)}"
    )
    choices = (*((usual,) if usual else ()), *(options or ("",)), *(() if usual or required else (SKIP,)), DECLINE)
    many = " (one or more, separated by commas)" if field.get("type") == "array" else ""
    problem = ""
    for _ in range(TRIES):
        text = (await call.ask(f"{head}\n| {about}{many}{problem}", choices)).strip()
        if text == DECLINE:
            return DECLINED
        if usual and text in ("", usual):
            return default
        if text in ("", SKIP) and not required:
            return LEFT_OUT
        try:
            if not text:
                raise ValueError("An answer is needed.")
            return _value(text, field, options)
        except ValueError as error:
            problem = f"\n({error})"
    return DECLINED


def _options(field: Mapping[str, Any]) -> dict[str, Value]:
    """The values that a field can have, by the words for them; {} for any value."""
    if field.get("type") == "boolean":
        return {"Yes": True, "No": False}
    source = field.get("items") if field.get("type") == "array" else field
    source = source if isinstance(source, dict) else {}
    titled = source.get("oneOf") or source.get("anyOf") or ()
    if titled:
        return {sanitize_line(str(one.get("title") or one.get("const")), 200): one.get("const") for one in titled}
    values: Sequence[Any] = source.get("enum") or ()
    names: Sequence[Any] = source.get("enumNames") or values
    return {sanitize_line(str(word), 200): value for word, value in zip(names, values, strict=False)}


def _value(text: str, field: Mapping[str, Any], options: Mapping[str, Value]) -> Value:
    """`text` as the type of a field. Raises ValueError."""
    kind = field.get("type")
    if kind == "array":
        words = [word.strip() for word in text.split(",") if word.strip()]
        return [str(_one(word, options)) for word in words]
    if options:
        return _one(text, options)
    if kind in ("integer", "number"):
        try:
            number = int(text) if kind == "integer" else float(text)
        except ValueError:
            raise ValueError("A number is needed.") from None
        least, most = field.get("minimum", number), field.get("maximum", number)
        if not least <= number <= most:
            raise ValueError(f"It must be between {field.get('minimum', '-')} and {field.get('maximum', '-')}.")
        return number
    if not field.get("minLength", 0) <= len(text) <= field.get("maxLength", len(text)):
        raise ValueError("It is too short or too long.")
    return text


def _words(value: Any, options: Mapping[str, Value]) -> str:
    """A value as the person would choose or type it."""
    named = next((word for word, one in options.items() if one == value and type(one) is type(value)), str(value))
    return ", ".join(map(str, value)) if isinstance(value, list) else named


def _one(text: str, options: Mapping[str, Value]) -> Value:
    if not options:
        return text
    found = next((word for word in options if word.casefold() == text.casefold()), None)
    if found is None:
        raise ValueError(f"It must be one of: {', '.join(options)}.")
    return options[found]


def _quoted(message: str) -> str:
    """The words of a server, marked on each line and bounded, so that they neither look like Friday's own nor move the line that
    names the server out of sight."""
    lines = [line for line in sanitize(message)[:2000].splitlines() if line.strip()]
    more = [f"[{len(lines) - MOST_LINES} more lines]"] if len(lines) > MOST_LINES else []
    return "\n".join([*(f"| {line}" for line in lines[:MOST_LINES]), *more])


def asker(server: str, agents: Iterable[str]) -> str:
    """The words for who asks: the server, and the agents whose calls are open at it."""
    names = list(dict.fromkeys(filter(None, agents)))
    return f"MCP server {server}" + (f" (called by agent {' or '.join(names)})" if names else "")
