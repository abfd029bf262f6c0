"""What a day costs by list prices, in a model of the services' caches: `python -m tests.benchmarks.cost`.

The engine, the providers' requests and the prices are Friday's own; the service is `tests.servers.prompt_cache` on a virtual clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Chunk, Request
from friday_cli.llm.models import prices
from friday_cli.llm.providers.anthropic_request import AnthropicQuirks, messages_request
from friday_cli.llm.providers.openai_parts import OpenAIQuirks
from friday_cli.llm.providers.openai_responses import responses_request
from friday_cli.llm.providers.service_provider import ServedModel
from tests.engine_fixture import Arguments, Bench, Model, Profile, Say, batch, call, make, pieces
from tests.servers.prompt_cache import KEPT_S, PromptCache
from tests.virtual import VirtualLoop

ROUNDS, CALLS, CHILDREN = 200, 12, 10
WAIT_S = 1200.0
VENDORS = {"claude-opus-5-5": "anthropic", "gpt-6.1-sol": "openai"}
FOLDER = "You are a careful engineer. " * 120 + "\n\n# Environment\n\n" + "Folder: /project. " * 40


class CachedModel(Model):
    """A `Model` whose usage is that of a service with a cache, for the bytes that Friday's provider sends."""

    def __init__(self, play: Callable[[Request, int], Say], model: str, window: int = 1_000_000) -> None:
        super().__init__(play, model=model, window=window)
        self.cache = PromptCache(lambda: asyncio.get_running_loop().time())
        self.spent = Usage()
        self.refreshed: list[float] = []
        """When the cache was refreshed (loop time)."""
        self.model = model

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of a request."""
        model = ServedModel("fake", self.model, self.window, 1000)
        if VENDORS[self.model] == "anthropic":
            quirks = AnthropicQuirks(("low", "high"), "adaptive", "never", "never", short_ids=False)
            return messages_request(request, model, quirks)
        return responses_request(request, model, OpenAIQuirks(cache_key=True))

    @property
    def cache_kept_s(self) -> float:
        """See `CacheRefresher`."""
        return KEPT_S["messages" if VENDORS[self.model] == "anthropic" else "responses"]

    async def refresh_cache(self, request: Request) -> Usage:
        """See `CacheRefresher`."""
        usage = Usage(*self.cache.usage(self.body(request)))
        priced = msgspec.structs.replace(usage, cost_usd=self.cost(usage))
        self.spent += priced
        self.refreshed.append(asyncio.get_running_loop().time())
        return priced

    def cost(self, usage: Usage) -> float | None:
        return prices.cost(VENDORS[self.model], self.model, usage)

    def billed(self, request: Request, say: Say) -> Usage:
        """The usage of a request with this reply."""
        fresh, read, written = self.cache.usage(self.body(request))
        usage = Usage(fresh, read, written, 20 + len(say.text) // 4 + 20 * len(say.calls))
        self.spent += (priced := Usage(fresh, read, written, usage.output, cost_usd=self.cost(usage)))
        return priced

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        count = self._asked.get(request.agent, 0)
        self._asked[request.agent] = count + 1
        say = self._play(request, count)
        usage = self.billed(request, say)
        async for chunk in pieces(Say(say.text, say.calls, say.stop, usage)):
            yield chunk
        await asyncio.sleep(10)


def day(model: str, *, waits: int = 6) -> CachedModel:
    """A session of 200 rounds with twelve calls each, two compactions, six waits of 20 minutes and a fan-out of ten."""
    at_waits = {ROUNDS * (i + 1) // (waits + 1) for i in range(waits)}

    def play(request: Request, count: int) -> Say:
        if any("Write a summary" in message.text for message in request.messages[-3:]):
            return Say("A summary of what was done. " * 40)
        if request.agent != "a":
            return Say("", [call("look", text=f"child {request.agent} {count}")]) if count < 3 else Say("found it")
        if count == ROUNDS // 2:
            return Say("", [batch(*[{"profile": "worker", "task": f"part {i}"} for i in range(CHILDREN)])])
        if count >= ROUNDS:
            return Say("done")
        if count in at_waits:
            return Say("", [call("wait", text="x")])
        return Say("", [call("look", text=f"{count} {i}") for i in range(CALLS)])

    async def look(ctx: object, args: Arguments) -> str:
        return f"{args.text}: " + "a line of a file " * 18

    async def wait(ctx: object, args: Arguments) -> str:
        await asyncio.sleep(WAIT_S)
        return "the children are done"

    found = CachedModel(play, model, window=60_000)

    async def go() -> None:
        look_tool, wait_tool = make("look", look), make("wait", wait)
        bench = Bench(
            found,
            [look_tool, wait_tool],
            profiles={"worker": Profile(tokens=10**8, time_s=0)},
            me=Profile(turns=500, time_s=0, tokens=0),
        )
        bench.root.conversation.system = FOLDER
        outcome = await bench.prompt("do the day's work")
        assert outcome.status == "completed", outcome

    run(go)
    return found


def children(model: str) -> CachedModel:
    """Ten children of one profile with five rounds of twelve calls each."""

    def play(request: Request, count: int) -> Say:
        if request.agent == "a":
            tasks = [{"profile": "worker", "task": f"part {i}"} for i in range(CHILDREN)]
            return Say("", [batch(*tasks)]) if count == 0 else Say("done")
        return (
            Say("", [call("look", text=f"{request.agent} {count} {i}") for i in range(CALLS)])
            if count < 5
            else Say("found")
        )

    async def look(ctx: object, args: Arguments) -> str:
        return f"{args.text}: " + "a line of a file " * 18

    found = CachedModel(play, model)

    async def go() -> None:
        bench = Bench(
            found,
            [make("look", look)],
            profiles={"worker": Profile(tokens=10**8, time_s=0, tools=("look",))},
            me=Profile(time_s=0, tokens=0),
        )
        assert (await bench.prompt("ten parts")).status == "completed"

    run(go)
    return found


def run(go: Callable[[], Any]) -> None:
    """Run to its end on a virtual clock."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(go())
    finally:
        loop.close()


def main() -> None:
    """Print a line for each model and kind of work."""
    for model in VENDORS:
        for kind in (day, children):
            found = kind(model)
            share, spent = found.cache.read / max(1, found.cache.repeatable), found.spent
            parts = (
                f"${found.cost(Usage(**{name: 1_000})) * getattr(spent, name) / 1_000:.2f} {name}"  # type: ignore[operator]
                for name in ("input", "cache_read", "cache_write", "output")
            )
            print(
                f"{model} {kind.__name__}: {len(found.requests)} requests, {len(found.refreshed)} refreshes, ${spent.cost_usd:.2f}"
            )
            print(f"    {', '.join(parts)}; {share:.1%} of what repeats read")


if __name__ == "__main__":
    main()
