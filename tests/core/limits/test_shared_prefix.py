"""The first of several agents whose requests begin alike is sent ahead, so that the others read its prefix from the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Request
from tests.engine_fixture import Bench, Model, Profile, Say, batch, make, until

WRITES = Usage(input=10, cache_write=2_000, output=5)
NO_CACHE = Usage(input=2_000, output=5, cached=False)
THREE = batch(*[{"profile": "worker"}] * 3)


class Timed(Model):
    """A model that notes when each child's request arrives: agent -> virtual seconds since the first of them."""

    def __init__(
        self, children: Sequence[Say], *, usage: Usage = WRITES, root: Sequence[Say] = (), root_s: float = 0.0
    ) -> None:
        self.times: dict[str, list[float]] = {}
        first = Say("", [THREE], usage=usage, delay_s=root_s)
        super().__init__({"a": [first, *root], "*": children}, price=1.0)

    async def stream(self, request: Request):  # type: ignore[no-untyped-def,override]
        now = asyncio.get_running_loop().time()
        if request.agent != "a":
            self.times.setdefault(request.agent, []).append(round(now, 3))
        async for chunk in super().stream(request):
            yield chunk

    @property
    def sent(self) -> list[float]:
        """When the children sent their first requests, since the first one."""
        times = [self.times[path][0] for path in sorted(self.times)]
        return [round(at - min(times), 3) for at in times]


SECOND = Say("done", delay_s=1.0)


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (Timed([SECOND]), [0, 1, 1]),
        (Timed([SECOND], usage=NO_CACHE), [0, 0, 0]),  # no cache is known
        (Timed([SECOND], root_s=2.5), [0, 0, 0]),  # a reply took more than 2 s to begin
        (Timed([Say("done", delay_s=9.0)]), [0, 2, 2]),  # the reply does not begin within 2 s
        (Timed([SECOND], root=[Say("", [THREE])]), [0, 1, 1, 2, 2, 2]),  # the later three do not wait
    ],
)
async def test_siblings_wait_until_the_first_reply_begins(model: Timed, sent: list[float]) -> None:
    bench = Bench(model)
    assert (await bench.prompt()).status == "completed"
    assert model.sent == sent
    assert all(bench.finished(path).duration_s <= 9 for path in model.times), "the wait is no work"


async def test_when_the_first_one_fails_the_next_is_sent_ahead() -> None:
    model = Timed([])
    refused = Say(fail=ProviderError("auth", "no"), delay_s=0.5)
    model._play = lambda request, count: {
        "a": Say("", [THREE], usage=WRITES) if not count else Say("end"),
        "a.1": refused,
    }.get(request.agent, SECOND)
    bench = Bench(model)
    assert (await bench.prompt()).status == "completed"
    assert model.sent == [0, 0.5, 1.5]
    assert [bench.finished(f"a.{n}").status for n in (1, 2, 3)] == ["failed", "completed", "completed"]


async def test_when_the_first_one_is_cancelled_nobody_is_left_waiting() -> None:
    model = Timed([Say("done", delay_s=1.5)])
    bench = Bench(model, [make("look")], {"worker": Profile()}, policy=Policy(max_concurrent=1))
    node = bench.begin()
    await until(lambda: "a.1" in model.times)
    assert set(model.times) == {"a.1"}
    await bench.tree.stop("a.1")
    await until(lambda: "a.2" in model.times)
    await bench.tree.stop("a.3", level="cancel", why="cancelled")  # while it waits
    await node.finished()
    assert [bench.finished(f"a.{n}").status for n in (1, 2, 3)] == ["cancelled", "completed", "cancelled"]
    assert bench.services.rate_limiters["fake"].in_flight == 0
