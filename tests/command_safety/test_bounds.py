"""The judge does a bounded amount of work: what goes beyond is asked about, and the reason says so."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from friday_cli.command_safety import MAX_BYTES, analyze, network_targets
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.permissions.taint import UNREAD
from tests.command_safety import workspace_fixture
from tests.command_safety.workspace_fixture import passes


def fill(text: str) -> str:
    return text * (99_000 // len(text))


NAMES = map("".join, itertools.islice(itertools.product("abcdefghijklmnopqrstuvwxyz0123456789", repeat=3), 21_000))
TOO_LONG = {
    "echo aaa;" * 110_000: "990,000 bytes",
    "echo '" + "\u00e4" * 60_000 + "'": "120,007 bytes",
    "eval " * 1_000 + "ls": "400,000 characters",
    "bash -c " * 700 + "ls": "400,000 characters",
    "env " * 1_000 + "ls": "400,000 characters",
    fill("eval "): "400,000 characters",
    fill("sudo b "): "400,000 characters",
    ";".join(NAMES): "20,000 commands",
    "; ".join(f"cd a{at}" for at in range(45)): "16 folders",
    "cd a; cd b; cd c; ls " + " ".join(map(str, range(900))): "5,000 paths",
}


@pytest.mark.parametrize("command", TOO_LONG, ids=TOO_LONG.values())
def test_what_is_too_long_is_asked_about_in_every_mode_with_its_size(root: Path, command: str) -> None:
    call = workspace_fixture.bash(command, workspace_fixture.context(root))
    for mode in ("ask", "yolo"):
        permission = Rules(mode=mode).decide(call)  # type: ignore[arg-type]
        assert permission.decision == "ask"
        assert "it is too long to be checked" in permission.reason
        assert TOO_LONG[command] in permission.reason


@pytest.mark.parametrize(
    "command",
    [
        "curl " + fill("a."),
        "curl " + fill("a-"),
        fill("a@"),
        "curl " + fill("http://a.b/ "),
        "x=aaaaaaaaa; " + "x=$x$x; " * 500 + "cat $x",
        fill(":(){ "),
        fill("then "),
        fill("'"),
        fill("\\\n"),
        "set " + "-e " * 60 + "x",
        "cat " + "*/" * 900,
        "$(" * 900,
        "if ls; then " * 400,
        "sed 's/" + "[" * 5_000 + "/x/'",
        "awk '" + "print " * 900 + "| x'",
        "cat > x <<'E'\n" + fill("if (a) { b(c); }\n")[:60_000] + "\nE",
    ],
    ids=lambda command: ascii(command)[:40],
)
def test_no_text_takes_long(root: Path, command: str) -> None:
    """Without their bounds each of these takes minutes."""
    assert not passes(command, root) or "*/" in command
    assert isinstance(network_targets(command), tuple)


def test_a_long_command_of_the_past_contacted_an_unknown_host() -> None:
    assert network_targets("a" * (MAX_BYTES + 1)) == ((UNREAD, ""),)


def test_nesting_is_no_error_where_the_stack_is_already_deep(root: Path) -> None:
    context = workspace_fixture.context(root)

    def analyzed(frames: int, command: str) -> bool:
        return analyzed(frames - 1, command) if frames else bool(analyze(command, context).steps)

    for command in ("env " * 300 + "ls", "bash -c " * 300 + "ls", "(" * 300 + "ls" + ")" * 300, "nice " * 12 + "ls"):
        assert analyzed(600, command)


def test_a_hostile_folder_makes_no_more_work(root: Path) -> None:
    """Thousands of secrets, hidden folders, long ignore files and settings in one line."""
    (root / "many").mkdir()
    for at in range(150):
        (root / f"many/{at}.pem").write_text("")
        (root / f"many/.h{at}").mkdir()
    (root / ".gitignore").write_text("a\n" * 30_000)
    assert not passes("rg x", root)
    assert not passes("; ".join(f"grep -r x docs src{at}" for at in range(9)), root)
    (root / ".git/config").write_text("[a]" * 100_000)
    assert not passes("git status", root)
