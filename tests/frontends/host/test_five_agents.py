"""A tree of five agents whose terminal is closed: the same process goes on, and another terminal attaches to it."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from tests.frontends.host.world import Watcher, gone, until, world
from tests.frontends.tui.terminal_fixture import Terminal
from tests.servers.fake_model_server import Say, Turn

SETTINGS = '[fleet]\non_hangup = "detach"\n[permissions]\nask = ["bash(touch asked*)"]\n'
WAITS = "echo begun > {0}/begun-{1}; until test -e {0}/go; do sleep 0.05; done"
TASKS = ("in-background", "asks", "runs", "in-worktree")


@pytest.mark.timeout(300)
def test_five_agents_go_on_without_their_terminal(tmp_path_factory: pytest.TempPathFactory) -> None:
    marks = tmp_path_factory.mktemp("marks")

    def rule(turn: Turn) -> Say:
        if turn.agent not in TASKS:
            background, *others = (
                ("delegate_task", {"profile": "general", "task": f"#{name} work"} | more)
                for name, more in zip(TASKS, ({"background": True}, {}, {}, {"isolation": "worktree"}), strict=True)
            )
            return (Say(calls=[background]), Say(calls=others), Say("all five are done"))[min(turn.turn, 2)]
        if turn.turn:
            return Say(f"{turn.agent} is done")
        command = "touch asked" if turn.agent == "asks" else WAITS.format(marks, turn.agent)
        return Say(calls=[("bash", {"command": command})])

    with world(rule, SETTINGS) as place:
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
            subprocess.run([*git, *words], cwd=place.project, env=place.env, check=True)
        with Terminal(place.project, "--yolo", "-i", "go", **place.env) as first:
            first.until(b"touch asked")
            until(lambda: all((marks / f"begun-{name}").exists() for name in TASKS if name != "asks"), "three commands")
            ((session, before),) = place.rows().items()
            assert (before["at_work"], before["state"], before["reachable"]) == (5, "needs you", False)
            first.hang_up()
        after = until(lambda: (row := place.rows()[session])["reachable"] and row, "a session without a terminal")
        assert (after["pid"], after["at_work"], after["questions"]) == (before["pid"], 5, before["questions"])
        watcher = Watcher(session, place.env)
        with Terminal(place.project, "attach", session[:8], **place.env) as second:
            second.until(b"touch asked")
            second.until_quiet()
            second.type(b"1")
            until((place.project / "asked").exists, "the answered command")
            (marks / "go").touch()
            second.until(b"all five are done")
            second.type(b"\x04", until=b"friday: session ")
            assert second.end() == 0
        watcher.leave()
        until(lambda: gone(before["pid"]), "the end of the owner")
        assert place.processes() == []
        log = place.events(session)
        assert [seq for seq, *_ in log] == list(range(1, len(log) + 1))
        seen = watcher.end()
        assert [(e.seq, e.agent) for e in seen] == [(seq, agent) for seq, agent, *_ in log[: len(seen)]]
        asked = Counter((turn.agent, turn.turn) for turn in place.server.turns)
        assert set(asked.values()) == {1}
        assert place.rows()[session]["state"] == "ended"
    assert place.server.complaints == []
