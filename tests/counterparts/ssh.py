"""`--host` through a real OpenSSH server on a loopback port, with keys that are made for it and thrown away.

`python -m tests.counterparts ssh` needs `openssh-server` from the system's packages. Nothing of the person's ssh is read or
changed: the client gets a configuration of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.frontends.tui.terminal_fixture import Terminal, scripted
from tests.session.harness import does

PACKAGES = ()
"""It needs nothing from npm."""
ASKS = {"a": [does(("bash", {"command": "touch made"})), {"text": "all done"}]}


def main() -> int:
    """Use a session of the "other machine" from here. Returns 1 if anything is not as expected."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if server is None:
        print("sshd is not installed: `apt install openssh-server`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="friday-ssh-") as name, other_machine(server, Path(name)) as (here, pid):
        model = scripted(here, ASKS)
        begun = subprocess.run(
            ["ssh", "--", "there", f"cd {here} && friday ask -b -m {model} 'make it'"], capture_output=True, text=True
        )
        assert "runs in the background" in begun.stdout, begun.stdout + begun.stderr
        row = until(lambda: next((row for row in rows() if row["questions"]), None))
        session, question = row["id"][:8], row["questions"][0]["id"]
        print(f"list: {row['state']}, {row['title']}", flush=True)
        for how in ("killed", "cut"):
            with Terminal(here, "attach", "--host", "there", session) as lost:
                lost.until(b"wants to run a command")
                for process in children(lost.pid if how == "killed" else pid):
                    os.kill(process, signal.SIGTERM)
                if how == "cut":
                    lost.until(b"the connection to there failed. What runs there keeps running.")
                assert lost.end() in (255, 128 + signal.SIGTERM)
                assert lost.is_clean()
        print("a lost connection: the terminal is as before", flush=True)
        assert [row["state"] for row in rows()] == ["needs you"]
        with Terminal(here, "attach", "--host", "there", session) as again:
            again.until(b"wants to run a command")
            (client,) = children(again.pid)
            os.kill(client, signal.SIGSTOP)  # a network that takes nothing
            assert "answered" in friday("agents", "--host", "there", "answer", session, question, "yes")
            until((here / "made").exists)
            os.kill(client, signal.SIGCONT)
            again.until(b"all done")
            again.type(b"\x04", until=b"friday: session ")
            assert again.end() == 0
        print("attached again, and answered by a script meanwhile", flush=True)
        until(lambda: [row["state"] for row in rows()] == ["ended"])
        assert "all done" in friday("agents", "--host=there", "logs", session)
        assert "the connection to nowhere failed" in friday("agents", "--host", "nowhere", code=255)
        closed_window(here, model)
    return 0


def closed_window(here: Path, model: str) -> None:
    """A chat over there, whose terminal here is closed, goes on."""
    (here / "ssh.py").write_text("import os, sys\nos.execvp('ssh', ['ssh', *sys.argv[1:]])\n")
    subprocess.run(["ssh", "--", "there", "friday config set fleet.on_hangup detach"], check=True)
    chat = f"cd {here} && friday -m {model} -i 'be left'"
    with Terminal(here, "-t", "--", "there", chat, script=str(here / "ssh.py")) as window:
        window.until(b"wants to run a command")
        window.hang_up()
    row = until(lambda: next((row for row in rows() if row["title"] == "be left" and row["reachable"]), None))
    assert row["state"] == "needs you"
    assert "1 agent stopped" in friday("agents", "--host", "there", "stop", row["id"])
    print("a closed window: the chat goes on there", flush=True)


def friday(*words: str, code: int = 0) -> str:
    """What a command here prints."""
    ran = subprocess.run([sys.executable, "-m", "friday_cli", *words], capture_output=True, text=True, timeout=120)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def rows() -> list[dict[str, Any]]:
    """The sessions there."""
    found: list[dict[str, Any]] = json.loads(friday("agents", "--host", "there", "--json").partition("\nWarning")[0])
    return found


def until(ready: Callable[[], Any]) -> Any:
    """Wait for it."""
    end = time.monotonic() + 60
    while not (found := ready()):
        assert time.monotonic() < end, "not reached"
        time.sleep(0.2)
    return found


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def other_machine(server: str, folder: Path) -> Iterator[tuple[Path, int]]:
    """A server whose users have another home of Friday than this process. Gives a folder for the work, and the server's process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for key in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    (folder / "server").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/mine.pub\n"
        f"StrictModes no\nPasswordAuthentication no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
        f"SetEnv FRIDAY_HOME={folder}/there PATH={path}\n"
    )
    (folder / "client").write_text(
        f"Host there\n HostName 127.0.0.1\n Port {port}\n IdentityFile {folder}/mine\n"
        f"Host *\n StrictHostKeyChecking no\n LogLevel ERROR\n UserKnownHostsFile {folder}/known\n"
    )
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/client "$@"\n')
    (folder / "bin" / "ssh").chmod(0o700)
    (folder / "work").mkdir()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # the server of Debian wants it
    os.environ |= {"PATH": f"{folder}/bin:{os.environ['PATH']}", "FRIDAY_HOME": f"{folder}/here"}
    running = subprocess.Popen([server, "-D", "-f", folder / "server"])
    try:
        until(lambda: subprocess.run(["ssh", "--", "there", "true"], capture_output=True).returncode == 0)
        yield folder / "work", running.pid
    finally:
        running.terminate()
        running.wait()
