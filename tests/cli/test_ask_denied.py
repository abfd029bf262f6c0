"""`friday ask` on a terminal: what was denied because nobody is asked there can be allowed, and it says how."""

from __future__ import annotations

import json

import pytest

from tests.cli.console import Console, plain


@pytest.mark.parametrize(
    ("call", "option"),
    [
        ({"name": "bash", "arguments": {"command": "make all"}}, "--allow 'bash(make all)'"),
        ({"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}, "--mode edits"),
    ],
)
def test_a_person_at_the_terminal_is_told_how_to_allow_it(console: Console, call: object, option: str) -> None:
    scenario = console.project / "play.json"
    scenario.write_text(json.dumps({"agents": {"a": [{"calls": [call]}, {"text": "Not done."}]}}))
    argv = ("ask", "-m", f"scripted:{scenario}", "go")
    shown = " ".join(plain(console.terminal(*argv, columns=200).out).split())
    assert f"to allow it, run again with {option}; or continue in the chat, which asks you: friday -c" in shown
    assert "run again with" not in console.process(*argv).err
