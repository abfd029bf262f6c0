"""Real services of a person, tried from confined commands: tmux, ssh-agent, the session bus, and another process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from friday_cli.config.settings import SandboxSettings
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox import system_call_filter
from friday_cli.workspace.sandbox.detect import SandboxChoice
from friday_cli.workspace.sandbox.policy import SandboxPolicy

SERVICES = {
    "tmux": (
        ("tmux", "-S", "{top}/s", "-f", "/dev/null", "-D"),
        "tmux -S {top}/s new-session -d 'touch {top}/MARK'; sleep 0.5; test -e {top}/MARK",
    ),
    "ssh-agent": (
        ("ssh-agent", "-D", "-a", "{top}/s"),
        "SSH_AUTH_SOCK={top}/s ssh-add -l 2>&1 | grep -q 'no identities'",
    ),
    "dbus-daemon": (
        ("dbus-daemon", "--session", "--nofork", "--address=unix:path={top}/s"),
        "dbus-send --bus=unix:path={top}/s --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames",
    ),
    "sleep": (
        ("sleep", "60"),
        "cat /proc/{pid}/environ /proc/{pid}/cwd/KEY /proc/{pid}/root{top}/KEY 2>/dev/null | grep -q .",
    ),
}


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest, outside_tmp: Path) -> Iterator[str]:
    """A command that succeeds if it reaches a service, which runs."""
    words, command = SERVICES[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"NOT TESTED HERE: {words[0]} is not installed")
    (outside_tmp / "KEY").write_text("key")
    (outside_tmp / "KEY").chmod(0o600)
    given = [word.format(top=outside_tmp) for word in words]
    process = subprocess.Popen(given, cwd=outside_tmp, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield command.format(top=outside_tmp, pid=process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()


async def test_no_service_of_the_person_is_reached(
    service: str, workspace: LocalWorkspace, unconfined: LocalWorkspace, choice: SandboxChoice, outside_tmp: Path
) -> None:
    if choice.kind == "seatbelt" or not system_call_filter.supported():
        pytest.skip("NOT TESTED HERE: local sockets are not held")
    listening = (
        "true" if "/proc/" in service else f"for i in $(seq 500); do test -S {outside_tmp}/s && break; sleep 0.02; done"
    )
    ready = await unconfined.run(listening, agent="a", timeout_s=30, on_output=lambda text: None)
    assert ready.exit_code == 0
    ran = await workspace.run(service, agent="a", timeout_s=30, on_output=lambda text: None)
    assert ran.exit_code != 0, ran.output
    ran = await unconfined.run(service, agent="a", timeout_s=30, on_output=lambda text: None)
    assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize(
    ("kind", "network", "command", "access"),
    [
        ("seatbelt", True, "tmux run-shell x", ""), ("seatbelt", True, "ls && /usr/bin/docker run x", ""), ("seatbelt", True, "ls", "confined"),
        ("seatbelt", False, "tmux run-shell x", "confined"), ("bubblewrap", True, "tmux run-shell x", "confined"), ("landlock", True, "ssh-add -l", "filter"),
    ],
)  # fmt: skip
def test_a_program_of_a_service_is_asked_about_where_the_sandbox_cannot_hold_sockets(
    kind: str, network: bool, command: str, access: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = SandboxPolicy(SandboxChoice(kind), SandboxSettings(network=network), environ=os.environ)  # type: ignore[arg-type]
    if access == "filter":
        assert policy.sandbox_access("", command) == ("confined" if system_call_filter.supported() else "")
        monkeypatch.setattr(system_call_filter, "supported", lambda: False)
        access = ""
    assert policy.sandbox_access("", command) == access
