"""One key through everything at once: the model, commands, sub-agents, failures that repeat it, logs and exports."""

from __future__ import annotations

import pytest

from tests.e2e.friday import KEY, Friday
from tests.servers.fake_model_server import Say, Turn, Wire, thinking
from tests.servers.script_player import Reply, document

LOOK = "env; tr '\\0' '\\n' </proc/$PPID/environ; cat /proc/$PPID/cmdline; git --version"


def repeats(turn: Turn) -> Say | Reply:
    """A service that says the key in its errors, and a model that looks for it."""
    if turn.tries == 0 and turn.turn == 1:
        return document({"error": {"type": "overloaded_error", "message": f"too many with {KEY}"}}, 529)
    if turn.agent == "kid":
        return Say(calls=[("bash", {"command": LOOK})]) if not turn.turn else Say("nothing found")
    steps = [
        Say(calls=[("bash", {"command": LOOK})]),
        Say(calls=[("delegate_task", {"profile": "general", "task": "#kid look"})]),
        Say(calls=[("bash", {"command": f"echo {KEY[:10]} >&2; env | grep -i key; exit 3"})]),
    ]
    return steps[turn.turn] if turn.turn < len(steps) else Say("done")


@pytest.mark.parametrize("wire", ["messages", "chat"])
def test_g10_the_key_stands_nowhere(friday: Friday, wire: Wire) -> None:
    """Standard output and error are looked at by every run, and all files by the fixture (tests/e2e/conftest.py)."""
    friday.hurry()
    with thinking(repeats, wire) as brain:
        friday.reach(brain)
        ran = friday.run("go", "--yolo", "--debug", "--output-format", "stream-json", timeout=60)
    assert (ran.code, brain.complaints) == (0, [])
    results = "".join(text for turn in brain.turns for text in turn.results)
    assert "PATH=" in results, "it did look"
    assert KEY not in results, "no command was given it"
    session = ran.out.split('"session":"')[1][:36]
    for form in ("md", "json", "atif"):
        shown = friday.run("export", session, "--format", form, model="", program=("-m", "friday_cli", "sessions"))
        assert shown.code == 0
        assert "git version" in shown.out
    refused = thinking(lambda turn: document({"error": {"message": f"no such key {KEY}"}}, 401), wire)
    with refused as brain:
        friday.reach(brain)
        assert friday.run("go", "--debug").code == 1
