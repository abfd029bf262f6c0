"""The environment of commands: no secrets, and nothing that waits for user input."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from friday_cli.core.protocol.trace_context import TRACEPARENT
from friday_cli.core.text.known_keys import is_key_variable, without_keys
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import mask

_SECRET_NAME = pattern(
    r"(?:^|_)[A-Z0-9]*(?:TOKENS?|SECRETS?|KEYS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIES?)(?:_|$)"
    r"|^OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS$|(?:^|[_/:])(?:PASS|PWD|PAT|DSN)$|(?:TOKEN|SECRET|PASSWORD|CREDENTIAL|APIKEY)(?:S|$)"
)

PLAIN = {
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR"), "true"),
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
}
"""Set for every command: no pager, no editor, no prompt, no colour."""
_PROMPTERS = frozenset(("GIT_ASKPASS", "SSH_ASKPASS", "FORCE_COLOR", "CLICOLOR_FORCE"))
ELSEWHERE = frozenset(
    (
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
        "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE",
        "GIT_INDEX_FILE", "GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE",
    )
)  # fmt: skip
"""Variables that point git to another repository than that of the folder it runs in."""


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is that of a known key, or looks like a key or password by its name or its value."""
    if name in ("PWD", "OLDPWD"):
        return False
    if is_key_variable(name) or _SECRET_NAME().search(name.upper()):
        return True
    # a proxy's URL may contain a password, but without it no command reaches the network
    return mask(value) != value and not name.upper().endswith("_PROXY")


DEPTH = "FRIDAY_DEPTH"
"""The variable that tells how deep a program of a command is nested below Friday's agents: 1 for a command of a main
agent. It adds up over the Fridays in between."""


def nesting_depth(environ: Mapping[str, str]) -> int:
    """How deep this process is nested below agents of Friday, 0 if it is not."""
    value = environ.get(DEPTH, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 4 else 0


def with_trace(environ: Mapping[str, str]) -> Mapping[str, str]:
    """`environ` with the trace context of the current call, if there is telemetry."""
    traceparent = TRACEPARENT.get()
    return {**environ, "TRACEPARENT": traceparent} if traceparent else environ


def cleaned(environ: Mapping[str, str], *, keep: Collection[str] = ()) -> dict[str, str]:
    """The part of `environ` that commands get, with `PLAIN` added. Variables named in `keep` pass unless they hold a key
    that Friday knows."""
    dropped = {name for name, value in environ.items() if name in _PROMPTERS or is_secret(name, value)}.difference(keep)
    return {**{name: value for name, value in without_keys(environ).items() if name not in dropped}, **PLAIN}
