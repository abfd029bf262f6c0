"""Checks the results of a server's tools against its own schemas, for a limited time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcp.client.session import ClientSession

from friday_cli.system.time_limit import SCHEMA_S, TOO_SLOW, TookTooLong, time_limit


class _LimitedValidator:
    """A validator of `jsonschema` whose check ends in time."""

    def __init__(self, validator: Any) -> None:
        self._validator = validator

    def iter_errors(self, document: Any) -> Iterator[Any]:
        """All errors. Raises RuntimeError, as the library does for a result that does not fit."""
        try:
            with time_limit(SCHEMA_S):
                return iter(list(self._validator.iter_errors(document)))
        except TookTooLong:
            raise RuntimeError(f"The result does not fit: {TOO_SLOW}") from None


def limit_checks(session: ClientSession) -> None:
    """Limit the time of the checks that `session` makes of results. The library has no setting for it (tests/mcp/test_connection.py notices
    when its method has another name)."""
    made = session._output_schema_validator
    limited = lambda name, schema: _LimitedValidator(made(name, schema))  # noqa: E731
    session._output_schema_validator = limited  # type: ignore[method-assign,assignment]
