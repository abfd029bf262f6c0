"""Runs `friday ask` in this process or in another one, against the model of `tests.servers.fake_model_server`."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from friday_cli.cli import run
from friday_cli.core.limits import rate_limit, retry
from friday_cli.frontends.oneshot.options import parse
from friday_cli.frontends.oneshot.run import ask
from friday_cli.llm.transport import http, sdk
from friday_cli.llm.transport.idle_timeout import IdleTimeout
from friday_cli.system.project_search import CEILINGS
from tests.servers.fake_model_server import FakeModelServer, Rule, Wire, thinking

KEY = "sk-canary-0123456789abcdefghij"
ROOT = Path(__file__).parents[2]
_PASSED = (
    "PATH",
    "HOME",
    "FRIDAY_SANDBOX",
    "LC_ALL",
    "TMPDIR",
    "PYTHONDONTWRITEBYTECODE",
    "COVERAGE_PROCESS_START",
    CEILINGS,
)
MODELS = {"messages": "anthropic/claude-test", "responses": "own/m-1", "chat": "own/m-1"}


@dataclass
class CommandResult:
    """The exit code and output of a run."""

    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "Traceback" not in self.out + self.err, self.err
        assert KEY not in self.out + self.err
        assert "\x1b" not in self.out + self.err

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as the one JSON document it must be."""
        assert self.out.count("\n") == 1
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def lines(self) -> list[str]:
        """The lines of standard error."""
        return self.err.splitlines()

    def agent(self, path: str) -> dict[str, Any]:
        """An agent of the JSON document."""
        return next(a for a in self.document["agents"] if a["path"] == path)


def ended(process: subprocess.Popen[bytes], input: bytes | None = None, timeout: float = 60) -> CommandResult:
    """Wait for the end of a process and return its output."""
    out, err = process.communicate(input, timeout=timeout)
    return CommandResult(process.returncode, (out or b"").decode(), (err or b"").decode())


class Friday:
    """`friday(...)` runs `friday ask ...` in this process; `start(...)` and `run(...)` start another process."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.project = path / "home", path / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.config = self.home / "config.toml"
        self.model = "scripted"
        self._capsys, self._patch = capsys, monkeypatch
        self._started: list[subprocess.Popen[bytes]] = []
        self.env = {k: v for k, v in os.environ.items() if k in _PASSED}
        self.env |= {"FRIDAY_HOME": str(self.home), "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        for name in set(os.environ) - set(_PASSED):
            if not name.startswith(("PYTEST", "COV")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("FRIDAY_HOME", str(self.home))
        monkeypatch.chdir(self.project)

    # ---- settings and services -------------------------------------------------------------

    def reach(self, server: FakeModelServer, *, transport: str = "http", extra: str = "") -> None:
        """Write the settings that lead to `server`; `extra` is more of the file."""
        name = MODELS[server.wire].partition("/")[0]
        self.model = MODELS[server.wire]
        api = f'api = "{server.wire}"\n' if name == "own" else ""
        self.config.write_text(
            f'{extra}\n[providers.{name}]\nbase_url = "{server.base}"\ntransport = "{transport}"\n{api}',
            encoding="utf-8",
        )
        self.setenv("ANTHROPIC_API_KEY" if name == "anthropic" else "OWN_API_KEY", KEY)

    @contextmanager
    def meets(
        self, rule: Rule, wire: Wire = "messages", *, transport: str = "http", extra: str = ""
    ) -> Iterator[FakeModelServer]:
        """A service that answers by `rule` and is the one in the settings; every request to it was sound."""
        with thinking(rule, wire) as server:
            self.reach(server, transport=transport, extra=extra)
            yield server
        assert server.complaints == []

    def plays(self, text: str) -> None:
        """Use the scripted model with a scenario in YAML."""
        path = self.home / "play.yaml"
        path.write_text(text, encoding="utf-8")
        self.model = f"scripted:{path}"

    def profile(self, name: str, *front: str) -> None:
        """Write a profile of the user; `front` are more lines of its front matter."""
        lines = ["---", f"name: {name}", f"description: The {name}.", *front, "---", f"You are the {name}."]
        folder = self.home / "profiles"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def setenv(self, name: str, value: str) -> None:
        """An environment variable, here and for processes."""
        self.env[name] = value
        self._patch.setenv(name, value)

    def hurry(self, *, offline_s: float = 0.2) -> None:
        """Make the waits between tries short, and the longest one without a network (in this process)."""
        self._patch.setattr(rate_limit, "BACKOFF_S", 0.001)
        self._patch.setattr(retry, "OFFLINE_S", offline_s)

    def impatient(self, idle_s: float = 0.2) -> None:
        """Wait no longer than this for a silent service, and three times as long for one that only pings."""
        for module in (http, sdk):
            self._patch.setattr(module, "IdleTimeout", lambda *limits: IdleTimeout(idle_s, 3 * idle_s))

    # ---- running -------------------------------------------------------------------

    def __call__(self, *argv: str, model: str = "") -> CommandResult:
        values = parse(["-m", model or self.model, *argv])
        assert values is not None, argv
        self._capsys.readouterr()
        code = ask(values)
        found = self._capsys.readouterr()
        return CommandResult(code, found.out, found.err)

    def json(self, *argv: str, **more: Any) -> CommandResult:
        """Run with `--output-format json`."""
        return self(*argv, "--output-format", "json", **more)

    def show(self, *argv: str) -> CommandResult:
        """`friday sessions show` in this process, of the last session unless one is named."""
        self._capsys.readouterr()
        code = run(["sessions", "show", *argv])
        found = self._capsys.readouterr()
        assert code == 0, found.err
        return CommandResult(code, found.out, found.err)

    def read_by(self, path: str) -> list[str]:
        """What the calls of an agent of the last session returned to it, as "status: text"."""
        items = json.loads(self.show(f":{path}", "--json").out)["conversation"]
        return [f"{item['status']}: {item['text']}" for item in items if item["kind"] == "tool"]

    def start(
        self,
        *argv: str,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | IO[Any] = subprocess.PIPE,
        model: str | None = None,
        program: Sequence[str] = ("-m", "friday_cli", "ask"),
        **env: str,
    ) -> subprocess.Popen[bytes]:
        """`friday ask`, or another `program` for Python with its arguments, in its own process and session."""
        given = ["-m", self.model] if model is None else ["-m", model] if model else []
        process = subprocess.Popen(
            [sys.executable, *program, *given, *argv],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self.project,
            env=self.env | env,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(self, *argv: str, input: bytes | None = None, timeout: float = 60, **more: Any) -> CommandResult:
        """Run it in another process to its end."""
        if input is not None:
            more["stdin"] = subprocess.PIPE
        return ended(self.start(*argv, **more), input, timeout)

    def shell(self, script: str) -> CommandResult:
        """Run a Bash script in which FRIDAY stands for `friday ask hi`."""
        script = script.replace("FRIDAY", f"{sys.executable} -m friday_cli ask -m {self.model} hi")
        ran = subprocess.run(["bash", "-c", script], cwd=self.project, env=self.env, capture_output=True, timeout=60)
        return CommandResult(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def attempts(self) -> str:
        """The failed tries in the store, for the message of an assertion."""
        with closing(sqlite3.connect(self.home / "data" / "friday.db")) as db:
            rows = db.execute("SELECT agent, body FROM events WHERE kind = 'attempt_failed' ORDER BY seq")
            return "\n".join(f"{agent} {body}" for agent, body in rows)

    def stop(self) -> None:
        """End what was started and still runs."""
        for process in self._started:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
