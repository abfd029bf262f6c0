"""Replaces `${VAR}` and `${VAR:-default}` in the configuration of MCP servers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from friday_cli.core.text.known_keys import mask_keys
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.workspace.process.environment import is_secret

_VARIABLE = pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ExpandError(ValueError):
    """A variable cannot be replaced. `hint` says what to do."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


def is_secret_header(key: str, value: str) -> bool:
    """Whether a header carries a secret, by its name or its value."""
    return key.lower() in ("authorization", "proxy-authorization") or is_secret(key.replace("-", "_"), value)


class Expander:
    """Replaces variables by their values in `env`. `confined`: for a project's text, which gets no variable that looks
    like a secret. `secrets` collects the values that were inserted and look like one."""

    def __init__(self, env: Mapping[str, str], *, confined: bool) -> None:
        self._env, self._confined = env, confined
        self.secrets: set[str] = set()

    def text(self, written: str) -> str:
        """`written` with its variables replaced. Raises ExpandError."""
        return _VARIABLE().sub(self._value, written) if "${" in written else written

    def _value(self, found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        value = self._env.get(name)
        secret = is_secret(name, value or "") or mask_keys(value or "") != (value or "")
        if secret and self._confined:
            raise ExpandError(
                f"a project cannot use the variable {name}, which looks like a secret.",
                "Put the server in your own mcp.json.",
            )
        if default is not None and not value:
            return default
        if value is None:
            raise ExpandError(
                f"the variable {name} is not set.", f"Set it, or write ${{{name}:-default}} for a default."
            )
        if secret:
            self.secrets.add(value)
        return value
