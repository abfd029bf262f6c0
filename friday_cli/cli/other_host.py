"""`--host HOST` of `friday agents` and `friday attach`: the same command on another machine, through the person's ssh."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from friday_cli.core.protocol.errors import UsageError

HELP = "Another machine, as ssh names it; its own Friday does everything, and no port is opened."


def run_there(argv: list[str]) -> int | None:
    """The exit code of the command on the machine that `--host` names; None without that option. Raises UsageError."""
    host, rest = "", []
    words = iter(argv)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == "--host" or word.startswith("--host="):
            host = word.partition("=")[2] or next(words, "")
            if not host or host.startswith("-"):
                raise UsageError("--host needs the name of a machine.", hint="Example: --host build.example.org")
        else:
            rest.append(word)
    if not host:
        return None
    terminal = ["-t"] if os.isatty(0) and os.isatty(1) else []
    try:
        code = subprocess.call(["ssh", *terminal, "--", host, f"exec friday {shlex.join(rest)}"])
    except FileNotFoundError:
        raise UsageError("ssh was not found.", hint="Install OpenSSH's client.") from None
    if code == 127:
        print(f"friday: {host} has no `friday` on the PATH of a command by ssh.", file=sys.stderr)
    return code
