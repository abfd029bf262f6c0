"""The arms of an eval, from the flags of `friday ask`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import UsageError
from friday_cli.frontends.oneshot import options as of_ask
from friday_cli.frontends.options import Option, parse, session_options

if TYPE_CHECKING:
    from friday_cli.evals.arm import Arm

TAKEN = (
    "model", "effort", "service_tier", "fallback_model", "subagent_model", "profile", "mode", "allow", "deny", "mcp_config", "config",
    "max_turns", "max_tokens", "max_cost", "assume_price", "timeout",
)  # fmt: skip
"""Options of `friday ask` that an arm can have. The others say where the work is done, or how its result is shown."""
_SETTINGS = {
    "fallback_model": "fallback_model",
    "subagent_model": "subagent_model",
    "service_tier": "service_tier",
    "assume_price": "limits.assume_price",
    "max_turns": "limits.max_turns",
    "max_tokens": "limits.max_tokens",
}
STEERING = Option(("--steering",), "text", "Folder with the files that steer agents.", "FOLDER")
OPTIONS = (*(option for option in of_ask.OPTIONS if option.dest in TAKEN), STEERING)


def with_again(flags: Mapping[str, str]) -> dict[str, str]:
    """The arms with the first one a second time, after it. Raises UsageError if an arm has its name."""
    from friday_cli.evals.arm import AGAIN

    (name, text), *rest = flags.items()
    if name + AGAIN in flags:
        raise UsageError(f"--aa: the second run of {name} is called {name}{AGAIN}, as another arm is.")
    return dict(((name, text), (name + AGAIN, text), *rest))


def read_arm(name: str, flags: str, *, again: bool = False) -> Arm:
    """The arm with these flags. Raises UsageError for flags that an arm cannot have."""
    from friday_cli.evals.arm import Arm

    if not re.fullmatch(r"[\w.-]{1,40}", name):
        raise UsageError(f"--arm: the name {name[:40]!r} may only contain letters, digits, '.', '-' and '_'.")
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise UsageError(f"--arm {name}: {flags!r}: {error}.") from None
    values = parse(words, OPTIONS)
    if values is None:
        names = ", ".join(option.names[0] for option in OPTIONS)
        raise UsageError(f"--arm {name}: {flags!r} cannot be read.", hint=f"An arm takes {names}.")
    steering = Path(values["steering"]).resolve() if values["steering"] else None
    if steering is not None and not steering.is_dir():
        raise UsageError(f"--arm {name}: --steering {steering} is not a folder.")
    settings = {key: values[dest] for dest, key in _SETTINGS.items() if values[dest] not in (None, False)}
    config = Path(values["config"]).resolve() if values["config"] else None
    options = session_options(values, Path(), resume=None, config_file=config, flags=settings, steering=steering)
    return Arm(name, flags, options, values["max_cost"], values["timeout"], again=again)
