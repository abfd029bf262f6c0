"""`friday ask` on a terminal: what was denied because nobody is asked there can be allowed, and it says how."""

from __future__ import annotations

import json

import pytest

from tests.cli.console import Console, plain

MAKE = {"name": "bash", "arguments": {"command": "make all"}}
WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}


@pytest.mark.parametrize(
    ("calls", "option"),
    [
        ([MAKE], "it, run again with --allow 'bash(make all)'"),
        ([WRITE], "it, run again with --mode edits"),
        ([WRITE, MAKE, MAKE], "them, run again with --mode edits --allow 'bash(make all)'"),
    ],
)
def test_a_person_at_the_terminal_is_told_how_to_allow_it(console: Console, calls: list[object], option: str) -> None:
    scenario = console.project / "play.json"
    scenario.write_text(json.dumps({"agents": {"a": [{"calls": calls}, {"text": "Not done."}]}}))
    argv = ("ask", "-m", f"scripted:{scenario}", "go")
    shown = " ".join(plain(console.terminal(*argv, columns=200).out).split())
    assert f"to allow {option}; or continue in the chat, which asks you: friday -c" in shown
    assert "run again with" not in console.process(*argv).err
