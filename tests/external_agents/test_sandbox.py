"""An external agent in the sandbox: what it and its commands reach, and which of its commands were seen to start."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from friday_cli.core.protocol.receipt import Receipt
from friday_cli.external_agents.evidence import starts_of
from friday_cli.workspace.process.server import Executed
from friday_cli.workspace.sandbox import system_call_filter
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.external_agents.conftest import Robot
from tests.external_agents.test_meter import asks, service  # noqa: F401
from tests.servers.fake_model_server import FakeModelServer
from tests.workspace.sandbox.conftest import choice, outside_tmp  # noqa: F401
from tests.workspace.sandbox.test_confined import ATTEMPTS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not system_call_filter.supported(), reason="a filter of system calls"
)


@pytest.fixture
def confined(robot: Robot, choice: SandboxChoice, outside_tmp: Path) -> Robot:  # noqa: F811
    if choice.kind == "seatbelt":
        pytest.skip("NOT TESTED HERE: seatbelt records no programs")
    robot.setenv("FRIDAY_SANDBOX", choice.kind)
    robot.scripts = outside_tmp
    robot.in_git()
    return robot


@pytest.fixture
def other() -> Iterator[socket.socket]:
    """A service of the person."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setblocking(False)
        yield made


def _tries(other: socket.socket) -> list[dict[str, object]]:
    port = other.getsockname()[1]
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
    return [{"connect": port}, {"run_quietly": f'{sys.executable} -c "{code}"'}]


def _reached(other: socket.socket) -> int:
    count = 0
    while True:
        try:
            other.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_it_reaches_its_meter_and_nothing_else(
    confined: Robot,
    service: FakeModelServer,  # noqa: F811
    other: socket.socket,
) -> None:
    confined.plays([asks(), *_tries(other), {"say": " done"}], wire="anthropic")
    ran = confined.ask("go", "--mode", "auto")
    assert ran.document["result"] == "[200][no] done"
    assert (len(service.turns), _reached(other)) == (1, 0)


def test_the_settings_of_the_user_open_its_network(
    confined: Robot,
    service: FakeModelServer,  # noqa: F811
    other: socket.socket,
) -> None:
    confined.config.write_text(confined.config.read_text() + "\n[sandbox]\nnetwork = true\n")
    confined.plays([asks(), *_tries(other), {"say": " done"}], wire="anthropic")
    assert confined.ask("go", "--mode", "auto").document["result"] == "[200][reached] done"
    assert _reached(other) == 2


def test_with_a_login_of_its_own_its_network_is_open(confined: Robot, other: socket.socket) -> None:
    confined.plays([*_tries(other), {"say": " done"}])
    assert confined.ask("go", "--mode", "auto").document["result"] == "[reached] done"


@pytest.mark.parametrize("writes", [True, False])
def test_its_own_shell_writes_nothing_outside_and_nothing_at_all_without_a_tool_for_it(
    confined: Robot, writes: bool
) -> None:
    assert confined.scripts is not None
    outside = confined.scripts / "outside"
    outside.mkdir()
    (outside / "file").write_text("as it was\n")
    (confined.project / "a.txt").write_text("as it was\n")
    tries = f"""
    for name in {confined.project} "$HOME/../.." /tmp /var/tmp; do
        echo bad > "$name/new"; echo bad >> "$name/a.txt"; (cd "$name" && echo bad > inside)
    done
    echo in the worktree > mine.txt
    """
    for number, attempt in enumerate(ATTEMPTS):
        tries += f"(mkdir {number}; cd {number}; {attempt.format(outside=outside)})\n"
    front = () if writes else ("allowedTools: [read_file]",)
    confined.plays([{"run_quietly": f"exec 2> /dev/null\n{tries}"}, {"say": "done"}], front=front)
    ran = confined.ask("go", "--mode", "auto")
    assert ran.document["result"] == "done", ran.agent("a.1")["error"]
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("file", "as it was\n")]
    left = {path.name: path.read_text() for path in confined.project.iterdir() if path.is_file()}
    assert left == {"a.txt": "as it was\n"}
    changed = [row["path"] for row in ran.agent("a.1")["receipt"].get("files", ())]
    assert ("mine.txt" in changed) is writes
    assert writes or changed == []


def test_the_receipt_tells_which_commands_were_seen_to_start(confined: Robot) -> None:
    command = "touch made; /bin/echo 'it is'"
    confined.plays(
        [
            {"run": command},
            {"run_quietly": "/bin/echo hidden; /bin/echo 2"},
            {"run_quietly": "/bin/echo hidden; /bin/echo 2"},
            {"claim_run": "pytest -q"},
            {"claim_edit": "never.txt"},
            {"say": "All tests pass."},
        ]
    )
    ran = confined.ask("go", "--mode", "auto")
    receipt = ran.agent("a.1")["receipt"]
    assert [row["path"] for row in receipt["files"]] == ["made"]
    said = f"ran {command} -> ok"
    assert receipt["reported"] == [said, "ran pytest -q -> ok", "changed never.txt"]
    assert receipt["confirmed"] == [said]
    hidden = "/bin/sh -c '/bin/echo hidden; /bin/echo 2' x2"
    assert receipt["unreported"] == [hidden, "/bin/echo hidden x2", "/bin/echo 2 x2"]
    assert receipt["warnings"] == [
        "robot says that it changed never.txt, and no change was seen",
        "robot says that it ran pytest -q, and it was not seen to start",
    ]
    rows = msgspec.convert(receipt, Receipt).facts()
    assert {f"reported by it: {said} (seen to start)", f"started without a report: {hidden}"} < set(rows)


@pytest.mark.parametrize(
    ("command", "words", "seen"),
    [
        ("pytest -q", ["/usr/bin/pytest", "-q"], True),
        ("pytest -q", ["pytest", "-q", "x"], False),
        ("pytest -q", ["/bin/bash", "-lc", "pytest -q"], True),
        ("pytest -q", ["/bin/bash", "-c", "source /x/snapshot && eval 'pytest -q' < /dev/null && pwd >| /x/cwd"], True),
        ("echo 'a b'", ["bash", "-c", """eval 'echo '"'"'a b'"'"'' < /dev/null"""], True),
        ("echo 'a b'", ["bash", "-c", r"eval 'echo '\''a b'\'''"], True),
        ("ls", ["bash", "-c", "false; cat tools"], False),
        ("ls", ["/bin/false"], False),
        ("ls", ["cat", "ls -la"], False),
        ("make test", ["timeout", "60", "make test"], True),
        ("", ["sh", "-c", "x"], False),
        ("'", ["sh", "-c", "'"], True),
        ("x" * 5000, ["sh", "-c", "x" * 4096], True),
    ],
)
def test_a_command_is_found_among_the_started_programs(command: str, words: list[str], seen: bool) -> None:
    assert bool(starts_of(command, [Executed(1, [], ["agent"]), Executed(2, [1], words)])) is seen
