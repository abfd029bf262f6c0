"""Checks answers against JSON Schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.system.time_limit import SCHEMA_S, TOO_SLOW, TookTooLong, time_limit

_FENCED = pattern(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.S)


def unfenced(answer: str) -> str:
    """The answer without the Markdown code fence that models put around JSON."""
    match = _FENCED().fullmatch(answer)
    return match[1] if match else answer


def checker(schema: dict[str, Any]) -> Callable[[str], str]:
    """A function that returns what is wrong with an answer, "" if it fits. A schema may come from a model: what it refers to outside of
    itself is never read, and what is too slow is given up. Raises UsageError for an invalid schema."""
    import jsonschema
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import EMPTY_REGISTRY

    validator = jsonschema.validators.validator_for(schema)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise UsageError(f"The JSON schema is not valid: {error.message}.") from None
    except RecursionError:
        raise UsageError("The JSON schema is nested too deeply to be checked.", hint="Use a flatter one.") from None
    check = validator(schema, registry=EMPTY_REGISTRY)
    with suppress(RecursionError, TookTooLong):
        try:
            with time_limit(SCHEMA_S):
                check.is_valid({})
        except Unresolvable as error:
            raise UsageError(f"The JSON schema refers to {error.ref}, which is not in it.") from None

    def complaint(answer: str) -> str:
        try:
            document = json.loads(unfenced(answer))
        except ValueError as problem:
            return f"it is not JSON ({problem})"
        except RecursionError:
            return "it is nested too deeply to be checked"
        try:
            with time_limit(SCHEMA_S):
                wrong = jsonschema.exceptions.best_match(check.iter_errors(document))
        except TookTooLong:
            return TOO_SLOW
        except RecursionError:
            return "it cannot be checked: it or the schema is nested too deeply"
        except Unresolvable as error:
            return f"it cannot be checked: the schema refers to {error.ref}, which is not in it"
        return "" if wrong is None else f"at {wrong.json_path}: {wrong.message}"

    return complaint


_newest: tuple[dict[str, Any], Callable[[str], str]] | None = None
"""The schema object that the newest agents share, as the items of a batch do, and its checker."""


def shared_checker(schema: dict[str, Any]) -> Callable[[str], str]:
    """`checker`, made once for one schema object."""
    global _newest
    if _newest is None or _newest[0] is not schema:
        _newest = schema, checker(schema)
    return _newest[1]


def read_schema(text: str | None, option: str) -> dict[str, Any] | None:
    """The JSON Schema that is the value of `option`: its text, or a file. Raises UsageError."""
    if text is None:
        return None
    try:
        content = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8-sig")
        schema = json.loads(content)
    except OSError as error:
        raise UsageError(f"{option}: {text} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{option}: not JSON: {error}.") from None
    if not isinstance(schema, dict):
        raise UsageError(f"{option}: the schema must be a JSON object.")
    return schema
