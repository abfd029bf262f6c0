"""`--host HOST` of `friday agents` and `friday attach`: the same command on another machine, through the person's ssh."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import termios
from contextlib import suppress

from friday_cli.core.protocol.errors import UsageError
from friday_cli.system.other_machine import REACHED_AS

HELP = "Another machine, as ssh names it; its own Friday does everything, and no port is opened."
NO_CONNECTION, NOT_FOUND = 255, 127
"""Exit codes: ssh could not connect, or lost its connection; the shell there found no program of that name."""
_PLAIN = b"\x1b[<u\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?1049l\x1b[?25h\x1b[23;0t"
"""Turns off what a screen turned on that could not end by itself: keys, mouse, focus, pastes, sizes, the other screen, its title."""


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
    screen = os.isatty(0) and os.isatty(1)
    given = None if os.isatty(0) else subprocess.DEVNULL  # the input of a script is not for ssh
    before = termios.tcgetattr(0) if screen else None
    sent = f"exec env {REACHED_AS}={shlex.quote(host)} friday {shlex.join(rest)}"
    try:
        ssh = subprocess.Popen(["ssh", *["-t"] * screen, "--", host, sent], stdin=given)
    except FileNotFoundError:
        raise UsageError("ssh was not found.", hint="Install OpenSSH's client.") from None
    signal.signal(signal.SIGTERM, lambda number, frame: ssh.terminate())
    code = ssh.wait()
    if before is not None and (code == NO_CONNECTION or code < 0):
        with suppress(OSError, termios.error):  # the terminal is closed
            termios.tcsetattr(0, termios.TCSANOW, before)
            os.write(1, _PLAIN)
    if code == NOT_FOUND:
        print(f"friday: {host} has no `friday` on the PATH of a command by ssh.", file=sys.stderr)
    elif code == NO_CONNECTION:
        print(f"friday: the connection to {host} failed. What runs there keeps running.", file=sys.stderr)
    return code if code >= 0 else 128 - code
