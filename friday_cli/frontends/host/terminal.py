"""The chat as two processes, so that one of them can go on without the terminal.

The shell waits for the first, which only passes signals on and ends with the code of the second. It is forked before anything
large is imported. The second is the chat. To let go of the terminal, it starts a session of its own and lets the first end.
"""

from __future__ import annotations

import os
import signal
import sys

_OFF = b"\x1b[?2004l\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[0m\x1b[?7h"
"""Switches off what the chat switches on: pastes, mouse, focus, keys, its screen; and on what it switches off."""
_waiting = 0
"""The process that the shell waits for; 0 in a process without one."""
_life = -1
"""Reads the end of file when that process has ended."""


def start() -> None:
    """Fork, and return in the second process. The first never returns. Without a terminal nothing is forked."""
    global _waiting, _life
    if not (os.isatty(0) and os.isatty(1)):
        return
    sys.stdout.flush()
    first = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(reading)
        _wait(child)
    os.close(writing)
    _waiting, _life = first, reading


def can_let_go() -> bool:
    """Whether this process can go on without its terminal."""
    return bool(_waiting)


def life() -> int:
    """A file descriptor that can be read when the shell no longer waits; -1 if it never did."""
    return _life


def let_go() -> None:
    """Go on without the terminal, which the shell has again. The screen must be restored before."""
    global _waiting
    first, _waiting = _waiting, 0
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    if os.getppid() == first:
        os.kill(first, signal.SIGUSR1)


def _wait(child: int) -> None:
    """Be what the shell sees of `child`: stopped when it is, and ended as it was."""
    import termios

    before = termios.tcgetattr(0)

    def give_back() -> None:
        """Restore the terminal where the child could not, as one that was killed."""
        try:
            if os.tcgetpgrp(0) != os.getpgrp():  # a shell has it, as after Ctrl+Z and bg
                return
            if termios.tcgetattr(0) != before:
                termios.tcsetattr(0, termios.TCSANOW, before)
                os.write(1, _OFF)
        except (OSError, termios.error):
            pass  # it is closed

    def pass_on(number: int, frame: object) -> None:
        os.kill(child, number)

    for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGTTOU):
        signal.signal(ignored, signal.SIG_IGN)  # the terminal sends them to both
    for passed in (signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(passed, pass_on)
    signal.signal(signal.SIGUSR1, lambda number, frame: os._exit(0))  # it goes on without the terminal
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.kill(os.getpid(), signal.SIGSTOP)
            os.kill(child, signal.SIGCONT)  # the shell has resumed this one
        elif os.WIFSIGNALED(status):
            give_back()
            number = os.WTERMSIG(status)
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            os._exit(128 + number)
        else:
            give_back()
            os._exit(os.WEXITSTATUS(status))
