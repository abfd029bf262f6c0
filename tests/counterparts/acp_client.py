"""A client of `friday acp` in one process: it records every frame, and answers by rules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
WAIT_S = 20.0

Answer = Callable[[str, dict[str, Any]], dict[str, Any]]
"""The result of a request of the agent: its method and parameters. It may block: each runs in a thread of its own."""


class AcpClient:
    """`frames`: what was sent so far, with the sender "client" or "agent". `noise`: lines of standard output that are no JSON."""

    def __init__(self, options: Sequence[str], *, cwd: Path, env: Mapping[str, str], answer: Answer) -> None:
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.noise: list[str] = []
        self._answer, self._next, self._changed = answer, 0, threading.Condition()
        command = [sys.executable, "-m", "friday_cli", "acp", *options]
        environ = {**os.environ, **env, "PYTHONPATH": str(PROJECT)}
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def __enter__(self) -> AcpClient:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.errors.append("it did not end with its input\n")
            self.process.kill()

    def start(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; returns its id."""
        with self._changed:
            self._next += 1
            ident = self._next
        self._send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        return ident

    def finish(self, ident: int) -> dict[str, Any]:
        """The answer to a request, as a frame. Raises TimeoutError."""
        return self.wait(lambda sender, frame: sender == "agent" and frame.get("id") == ident and "method" not in frame)

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a request. Raises RuntimeError for an error answer."""
        frame = self.finish(self.start(method, params))
        if "error" in frame:
            raise RuntimeError(f"{method}: {frame['error']}")
        return frame["result"]

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def wait(self, wanted: Callable[[str, dict[str, Any]], bool]) -> dict[str, Any]:
        """The first frame that was or will be sent and is wanted. Raises TimeoutError after `WAIT_S` seconds."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: next((frame for sender, frame in self.frames if wanted(sender, frame)), None), WAIT_S
            )
        if found is None:
            raise TimeoutError(f"no such frame; the last: {self.frames[-3:]}; standard error: {self.errors[-5:]}")
        return found

    def wait_update(self, session: str, **fields: Any) -> dict[str, Any]:
        """The first update of a session with these fields."""

        def wanted(sender: str, frame: dict[str, Any]) -> bool:
            params = frame.get("params", {}) if sender == "agent" else {}
            update = params.get("update", {})
            return params.get("sessionId") == session and all(update.get(k) == v for k, v in fields.items())

        return self.wait(wanted)

    def _send(self, frame: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with self._changed:
            self.frames.append(("client", frame))
            self.process.stdin.write(json.dumps(frame) + "\n")
            self.process.stdin.flush()
            self._changed.notify_all()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                frame = json.loads(line)
            except ValueError:
                self.noise.append(line)
                continue
            with self._changed:
                self.frames.append(("agent", frame))
                self._changed.notify_all()
            if "method" in frame and "id" in frame:
                threading.Thread(target=self._reply, args=(frame,), daemon=True).start()

    def _reply(self, frame: dict[str, Any]) -> None:
        result = self._answer(frame["method"], frame["params"])
        if self.process.poll() is None:
            self._send({"jsonrpc": "2.0", "id": frame["id"], "result": result})

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)
