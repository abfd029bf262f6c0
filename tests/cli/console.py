"""Running `friday` as a person does: in this process, in one of its own, and on a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.cli import run
from friday_cli.core.protocol.events import Envelope, SessionStarted
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests import scenarios
from tests.store.files import sql

ROOT = Path(__file__).parents[2]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class CommandResult:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "Traceback" not in self.out + self.err, self.err

    @property
    def document(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on standard error."""
        (line,) = self.err.splitlines()
        assert line.startswith("friday: "), line
        return line.removeprefix("friday: ")

    @property
    def rows(self) -> list[list[str]]:
        """A table's rows without its titles, cells parted by two blanks."""
        return [re.split(r"\s{2,}", line.strip()) for line in self.out.splitlines()[1:]]


class Console:
    """`console("sessions", "list")` runs a command here, in the folder `project`."""

    def __init__(self, project: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.project, self.home = project, home
        self.friday_home = home / "friday"
        self.config = self.friday_home / "config.toml"
        self._capsys = capsys

    def __call__(self, *argv: str) -> CommandResult:
        self._capsys.readouterr()
        code = run(list(argv))
        found = self._capsys.readouterr()
        ran = CommandResult(code, found.out, found.err)
        assert "\x1b" not in ran.out + ran.err
        return ran

    def ok(self, *argv: str) -> CommandResult:
        """Run a command that succeeds."""
        ran = self(*argv)
        assert ran.code == 0, ran
        return ran

    def refused(self, *argv: str, code: int = 2) -> str:
        """The one line on standard error of a command that fails and prints nothing else."""
        ran = self(*argv)
        assert (ran.code, ran.out) == (code, ""), ran
        return ran.error

    @property
    def env(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(ROOT)}

    def process(
        self, *argv: str, stdin: bytes = b"", program: Sequence[str] = ("-m", "friday_cli"), **env: str
    ) -> CommandResult:
        """Run it in a process of its own."""
        ran = subprocess.run(
            [sys.executable, *program, *argv],
            input=stdin,
            capture_output=True,
            cwd=self.project,
            env=self.env | env,
            timeout=60,
            check=False,
        )
        return CommandResult(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def terminal(
        self, *argv: str, says: Sequence[tuple[str, str | Callable[[], None]]] = (), columns: int = 80, **env: str
    ) -> CommandResult:
        """Run it on a terminal; `says` are (words to wait for, what is typed or done then). All that is shown is `out`.
        Ctrl+C is typed again where nothing comes of it: Python misses one that comes right before it waits for a
        line."""
        master, slave = pty.openpty()
        env = self.env | {"COLUMNS": str(columns), "LINES": "50", "TERM": "xterm-256color"} | env
        process = subprocess.Popen(
            [sys.executable, "-m", "friday_cli", *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self.project,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        shown, waiting, typed = b"", list(says), ""
        end = time.monotonic() + 120
        try:
            while time.monotonic() < end:
                if not select.select([master], [], [], 5.0)[0]:
                    if typed == "\x03":
                        os.write(master, typed.encode())
                    continue
                try:
                    piece = os.read(master, 65536)
                except OSError:  # the other end is closed
                    break
                if not piece:
                    break
                shown += piece
                if waiting and waiting[0][0].encode() in shown:
                    then = waiting.pop(0)[1]
                    typed = then if isinstance(then, str) else then() or ""
                    os.write(master, typed.encode())
        finally:
            os.close(master)
            code = process.wait(timeout=60)
        assert not waiting, shown
        return CommandResult(code, shown.decode().replace("\r\n", "\n"), "")

    # ---- what is there -------------------------------------------------------------

    def keep(self, make: Callable[[str], list[Envelope]] = scenarios.tree, *, cwd: Path | None = None) -> str:
        """Put a session into the store and give its id. Its folder is the project's unless told."""
        return asyncio.run(_keep(make, str(cwd or self.project)))

    def sql(self, *statements: str) -> list[Any]:
        """Run statements on the session file; gives the rows of the last one."""
        return sql(store_path(), *statements)

    def configure(self, text: str) -> None:
        """Write the settings."""
        self.friday_home.mkdir(exist_ok=True)
        self.config.write_text(text, encoding="utf-8")

    def owning(self, session: str) -> Any:
        """The session, owned by a living process while the context lasts."""
        return asyncio.run(Store(store_path()).own(session))

    def profile(self, folder: Path, name: str, *front: str) -> Path:
        """A profile file; `front` replaces what stands between name and prompt."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.md"
        lines = ["---", f"name: {name}", *(front or (f"description: The {name}.",)), "---", f"You are the {name}."]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


def plain(text: str) -> str:
    """What a terminal showed, without colours."""
    return ESCAPES.sub("", text)


async def _keep(make: Callable[[str], list[Envelope]], cwd: str) -> str:
    async with Store(store_path()) as store:
        session = await store.create_session(cwd)
        envelopes = [_moved(e, cwd) for e in make(session)]
        await store.journal(session).append(envelopes)
        return session


def _moved(envelope: Envelope, cwd: str) -> Envelope:
    if not isinstance(envelope.event, SessionStarted):
        return envelope
    return msgspec.structs.replace(envelope, event=msgspec.structs.replace(envelope.event, cwd=cwd))
