"""A request for which the service did not use its cache is reported once in a run, with what changed."""

from __future__ import annotations

import msgspec
import pytest

from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol.events import Notice
from friday_cli.core.protocol.messages import Usage, user
from friday_cli.core.protocol.provider import Request
from tests.engine_fixture import Bench, Model, Say, call, make

WRITTEN = Usage(input=10, cache_write=5_000, output=5)
READ = Usage(input=10, cache_read=5_000, output=5)
LOST = Usage(input=5_100, output=5)


def changed(agent: Agent, what: str) -> None:
    match what:
        case "system":
            agent.conversation.system += " Be brief."
        case "tools":
            agent.conversation.specs = tuple(spec for spec in agent.conversation.specs if spec.name != "look")
        case "message":
            agent.conversation.history[0] = user("another task")


@pytest.mark.parametrize(
    ("what", "usages", "said"),
    [
        (
            "system",
            (WRITTEN, LOST, LOST),
            "5,000 tokens that fake/m had cached were not read from its cache: the system text changed.",
        ),
        ("tools", (WRITTEN, LOST), "the list of tools changed (look)."),
        ("message", (WRITTEN, LOST), "message 1 of the conversation changed."),
        ("nothing", (WRITTEN, LOST), "nothing in the request changed, so the service dropped them."),
        ("system", (WRITTEN, READ), ""),
        ("system", (msgspec.structs.replace(LOST, cached=False),) * 3, ""),  # the service reports no cache
        ("system", (Usage(input=10, cache_write=900), LOST), ""),  # less than a service caches
    ],
)
async def test_a_broken_prefix_is_a_notice_with_what_changed(what: str, usages: tuple[Usage, ...], said: str) -> None:
    benches: list[Bench] = []

    def play(request: Request, count: int) -> Say:
        changed(benches[0].root, what)
        last = count + 1 == len(usages)
        return Say("done" if last else "", [] if last else [call("look", text=str(count))], usage=usages[count])

    benches.append(Bench(Model(play), [make("look")]))
    assert (await benches[0].prompt()).status == "completed"
    notices = [notice.text for notice in benches[0].of(Notice)]
    assert len(notices) == bool(said)
    assert all(text.endswith(said) for text in notices)
