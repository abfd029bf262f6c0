"""What one sees while the agent works: one line with time, tokens and the key that stops, the steps, the ends of outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.permissions.decision import Mode
from friday_cli.core.protocol.format import tokens
from tests.frontends.tui.chat import delegates, does, opened
from tests.frontends.tui.test_asking import no_grace

__all__ = ["no_grace"]

STEPS = [
    ("Read the parser", "done"),
    ("Change the parser", "active"),
    *((f"Step {n}", "pending") for n in range(3, 12)),
]
TODO = does("todo", items=[{"text": text, "status": status} for text, status in STEPS])
SLOW = {"text": "one two three four " * 50, "chunk_delay_s": 0.05}


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (100, 30), (160, 45)])
async def test_one_line_says_what_it_does_for_how_long_and_what_stops_it(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(tmp_path, {"a": [TODO, SLOW]}, size=size) as chat:
        assert "Esc stops" not in chat.frame.split("Ask, or")[0]
        await chat.say("go")
        await chat.until(lambda: re.search(r"✶ writes · \d.* tok · Esc stops", chat.frame))
        chat.has("▸ Change the parser")
        if size[1] >= 24:
            chat.has("✓ Read the parser", "○ Step 3", "(1 of 11 done)")
        await chat.press("escape")
        await chat.idle()
        assert "✶" not in chat.frame
        assert "○ Step 3" not in chat.frame


async def test_the_line_has_no_seconds_while_all_wait_for_a_person(tmp_path: Path, no_grace: None) -> None:
    ask = does("ask_user", question="Which?", choices=["left", "right"])
    agents = {"a": [delegates("first"), {"text": "Done."}], "a.1": [ask, SLOW]}
    async with opened(tmp_path, agents, size=(90, 24)) as chat:
        await chat.say("go")
        await chat.until(lambda: f"✶ waits for a.1 · {tokens(chat.state.totals)} tok · Esc stops" in chat.frame)
        await chat.press("enter")
        await chat.until(lambda: re.search(r"✶ waits for a\.1 · \d.* s · .*Esc stops", chat.frame))


PRINTS: dict[str, tuple[str, list[str], list[str]]] = {
    "success": ("seq 101 120", ["116", "120"], ["115"]),
    "failure": ("seq 101 120; false", ["111", "120"], ["110"]),
}


@pytest.mark.parametrize("ends", PRINTS)
async def test_a_command_shows_its_last_lines(tmp_path: Path, ends: str) -> None:
    command, shown, hidden = PRINTS[ends]
    mode: Mode = "yolo"
    agents: dict[str, Any] = {"a": [does("bash", command=command), {"text": "Done."}]}
    async with opened(tmp_path, agents, mode=mode, size=(100, 40)) as chat:
        await chat.ask("go", shows="Done.")
        chat.has(*shown)
        assert not [line for line in hidden if re.search(rf"^\s+{line}$", chat.frame, re.M)]


@pytest.mark.parametrize(
    ("command", "marked"),
    [
        ("sh -c 'echo Traceback...; echo 3 failed; exit 1' 2>&1 | tail -2", True),
        ("cd . && no-such-program 2>&1 | head -3", True),
        ("sh -c 'echo 3 passed' | tail -2", False),
        ("cat log.txt | tail -2", False),
        ("set -o pipefail; sh -c 'echo 3 failed' | tail -2", False),
    ],
)
async def test_a_pipe_whose_first_part_failed_is_marked(tmp_path: Path, command: str, marked: bool) -> None:
    (tmp_path / "log.txt").write_text("3 failed\n")
    turns = [does("bash", command=command), {"text": "{results}"}]
    async with opened(tmp_path, {"a": turns}, size=(100, 30), mode="yolo") as chat:
        await chat.ask("go")
        words = " ".join(chat.frame.split())
        assert ("an earlier part of the pipe seems to have failed." in words) is marked
        assert ("▸ ! bash" in words) is marked
        assert ("exit 0 of " in words) is marked


async def test_a_long_call_on_a_small_screen_says_how_it_ended_and_that_it_waits(tmp_path: Path) -> None:
    long = "a question of many words " * 4
    turns = [does("bash", command=f"echo '{long}'; exit 3"), does("ask_user", question=long), {"text": "Done."}]
    async with opened(tmp_path, {"a": turns}, size=(60, 30), mode="yolo") as chat:
        await chat.say("go", shows="Friday asks")
        heads = [row for row in chat.frame.splitlines() if row.startswith((" ▸ ✗ bash", " ▸ ? ask_user"))]
        assert ["…" in head for head in heads] == [True, True]
        assert "… · exit 3" in heads[0]
        assert "… · waits for you" in heads[1]


async def test_a_test_command_that_ran_no_test_is_a_warning(tmp_path: Path) -> None:
    commands = [
        does("bash", command="echo 'no tests ran in 0.01s' # pytest | tail -1"),
        {"text": "All tests pass."},
        {"text": "Goodbye."},
    ]
    async with opened(tmp_path, {"a": commands}, mode="yolo") as chat:
        await chat.ask("go", shows="All tests pass.")
        chat.has("ran no test")
        await chat.ask("thanks", shows="Goodbye.")
        assert chat.frame.count("ran no test") == 1, "not again with the next answer"
