"""A service on this machine that goes away in the middle of a run, and comes back."""

from __future__ import annotations

import re
from collections import Counter

from tests.e2e.friday import Friday, ended
from tests.servers.fake_model_server import Say, Turn

CHILDREN = 5


def test_an_outage_ends_nothing_and_is_said_where_no_countdown_is_seen(friday: Friday) -> None:
    """All sub-agents lose their connection; the port is closed until the words about it are read."""

    def rule(turn: Turn) -> Say:
        if turn.agent == "root":
            tasks = [{"profile": "general", "task": f"#c{n} look"} for n in range(CHILDREN)]
            return Say(turn.last) if turn.turn else Say(calls=[("delegate_tasks", {"tasks": tasks})])
        if turn.turn:
            return Say(f"found {turn.agent}")
        if not turn.tries and sum(not t.turn for t in server.turns if t.agent != "root") == CHILDREN:
            server.offline()
        return Say(calls=[("list_dir", {"path": "."})], meet=0 if turn.tries else CHILDREN + 1)

    with friday.meets(rule, "chat") as server:
        process = friday.start("go")
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        server.online()
        ran = ended(process, timeout=20)
    assert re.fullmatch(r"friday: a\.\d: Cannot reach own at .*\. Retrying in [12]\.\d s\.\n", said)
    assert ran.code == 0
    assert ran.lines[-1].startswith("friday: session"), ran.err
    assert [n for n in range(CHILDREN) if f"found c{n}\n" not in ran.out] == []
    asked = Counter((turn.agent, turn.turn) for turn in server.turns)
    assert asked.total() == 2 + 2 * CHILDREN + CHILDREN, "only replies that were cut are asked for again"
    assert set(asked.values()) == {1, 2}
