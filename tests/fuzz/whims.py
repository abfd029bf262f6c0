"""What a scene plays with: a journal with its delays, a machine with its failures, a model that replies by the dice."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from friday_cli.core.compaction import PROMPT
from friday_cli.core.errors import ErrorKind, ProviderError, StoreError
from friday_cli.core.events import Envelope
from friday_cli.core.log import MemoryJournal
from friday_cli.core.messages import Message, Text, Thinking, ToolCall, Usage, estimate_message
from friday_cli.core.provider import CallChunk, Chunk, Done, Request, Stop, TextChunk, ThinkingChunk, estimate_request
from tests.engine import Model, Nowhere

if TYPE_CHECKING:
    from .scene import Scene

KINDS: tuple[ErrorKind, ...] = (
    "rate", "rate", "overloaded", "server", "network", "truncated", "stall", "garbled", "empty",
    "auth", "quota", "invalid", "not_found", "context", "refusal",
)  # fmt: skip
TOOLS = ("look", "look", "change", "change", "shell", "boom", "ask", "own_cancel")


class Journal(MemoryJournal):
    """Keeps what it is given after a while, in order; may break for good at some event."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.latency = rng.choice([0.0, 0.0, 0.0, 0.002, 0.2])
        self._rng = rng
        self._busy_until = 0.0
        self._queue: deque[tuple[list[Envelope], asyncio.Future[None]]] = deque()
        self.breaks_at = rng.randint(5, 80) if rng.random() < 0.04 else None
        self.broken = False

    def append(self, envelopes: Any) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self.broken = self.broken or (self.breaks_at is not None and len(self.envelopes) >= self.breaks_at)
        if self.broken:
            done.set_exception(StoreError("disk full"))
        elif not self.latency:
            self._keep(list(envelopes), done)
        else:
            self._queue.append((list(envelopes), done))
            self._busy_until = max(self._busy_until, loop.time() + self._rng.random() * self.latency)
            loop.call_at(self._busy_until, self._next)
        return done

    def _next(self) -> None:
        self._keep(*self._queue.popleft())

    def _keep(self, envelopes: list[Envelope], done: asyncio.Future[None]) -> None:
        self.envelopes.extend(envelopes)
        done.set_result(None)


class Machine(Nowhere):
    """Ending processes takes a moment and sometimes goes wrong."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene, self._rng = scene, scene.rng

    async def release(self, agent: str) -> None:
        if agent == "a" and self._rng.random() < 0.1:
            asyncio.get_running_loop().call_later(0.005, self._scene.cancel_from_outside)
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.01, 0.4]))
        if self._rng.random() < 0.02:
            raise OSError("no such process")
        self.released.append(agent)


class Whim(Model):
    """A provider that replies by the dice. It looks at each request as a strict server does, and tells the scene."""

    def __init__(self, scene: Scene, *, model: str, window: int) -> None:
        super().__init__({}, model=model, window=window, max_output=2000, price=scene.price)
        self._scene = scene

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        count = self._asked[request.agent] = self._asked.get(request.agent, 0) + 1
        rng = random.Random(f"{self._scene.seed}:{self.model}:{request.agent}:{count}")
        self._scene.served(request)
        said = ""
        self.open.add(request.agent)
        try:
            with self._scene.works(request.agent, hurried=request.tool_choice == "none"):
                await asyncio.sleep(rng.random() * 2)
                async for chunk in self._reply(request, rng):
                    said += chunk.text if isinstance(chunk, TextChunk) else ""
                    yield chunk
        except asyncio.CancelledError:
            if said.strip() and not request.messages[-1].text.endswith(PROMPT):
                self._scene.cut.append((request.agent, said.strip()))
            raise
        finally:
            try:
                with self._scene.cleans_up():
                    await asyncio.sleep(rng.choice([0.0, 0.005]))
            finally:
                self.open.discard(request.agent)
                self._scene.in_flight.pop(request.agent, None)

    async def _reply(self, request: Request, rng: random.Random) -> AsyncIterator[Chunk]:
        words = f"{request.agent} says {rng.randint(0, 999)}" if rng.random() < 0.8 else ""
        thinking = "hm" if rng.random() < 0.2 else ""
        calls = self._calls(request, rng) if rng.random() < (0.1 if request.tool_choice == "none" else 0.7) else ()
        if not calls and not words:
            words = "so be it"
        if rng.random() < self._scene.trouble_rate:
            for _ in range(rng.randint(0, 2)):
                yield TextChunk("broken ")
                await asyncio.sleep(rng.random())
            if rng.random() < 0.2:
                return  # a stream that ends without its end mark
            if rng.random() < 0.05:
                raise RuntimeError("a defect of the provider")
            wait = rng.choice([None, None, 0.0, 1.0, 20.0, 90.0])
            usage = rng.choice([None, Usage(input=10, output=3)])
            raise ProviderError(rng.choice(KINDS), "no luck", retry_after=wait, usage=usage)
        if thinking:
            yield ThinkingChunk(thinking)
        for piece in words.split(" ") if words else ():
            yield TextChunk(piece)
            if rng.random() < 0.3:
                await asyncio.sleep(rng.random())
        for index, wish in enumerate(calls):
            yield CallChunk(index, wish.name, 5)
        parts: list[Any] = [Thinking(thinking, self.model)] if thinking else []
        parts += [Text(words)] if words else []
        message = Message("assistant", (*parts, *calls))
        stop: Stop = "tool_use" if calls else "end_turn"
        if rng.random() < 0.08:
            stop = rng.choice(["max_tokens", "pause_turn", "refusal", "context", "other"])
        yield Done(message, self._usage(request, message, rng), stop, "it said no" if stop == "refusal" else "")

    def _usage(self, request: Request, message: Message, rng: random.Random) -> Usage:
        usage = self._used(request, message, rng)
        self._scene.spent(request, usage)
        return usage

    def _used(self, request: Request, message: Message, rng: random.Random) -> Usage:
        full, output = estimate_request(request), estimate_message(message)
        if not self._scene.honest and rng.random() < 0.2:
            return rng.choice([Usage(), Usage(input=full * 3, output=output * 20), Usage(output=output)])
        if self._scene.caches:
            known = full * 3 // 4
            return Usage(input=full - known, cache_read=known, output=output)
        return Usage(input=full, output=output, cached=False)

    def _calls(self, request: Request, rng: random.Random) -> tuple[ToolCall, ...]:
        return tuple(
            self._call(rng, f"{request.agent}-{self._asked[request.agent]}-{i}") for i in range(rng.randint(1, 3))
        )

    def _call(self, rng: random.Random, call_id: str) -> ToolCall:
        dice = rng.random() * rng.choice([0.6, 1.0])
        task: dict[str, Any] = {
            "profile": rng.choice(["one", "one", "one", "two", "ghost"]),
            "task": f"do {rng.randint(0, 9)}",
        }
        if rng.random() < 0.2:
            task |= {"timeout_s": rng.choice([0.5, 3.0]), "max_tokens": rng.choice([1, 600, 3000])}
        if dice < 0.34:
            return ToolCall(call_id, "delegate_task", task)
        if dice < 0.44:
            return ToolCall(call_id, "delegate_tasks", {"tasks": [task] * rng.randint(1, 4)})
        if dice < 0.47:
            return ToolCall(call_id, rng.choice(["ghost", "hidden", "look"]), {}, "it is no JSON", "{")
        if dice < 0.49:
            return ToolCall(call_id, "hidden", {})
        if dice < 0.50:
            return ToolCall(call_id, "look", {"seconds": "many"})
        if dice < 0.53:
            return ToolCall(call_id, "task_result", {"text": "the result", "fail": rng.random() < 0.3})
        arguments = {"text": f"f{rng.randint(0, 3)}", "seconds": rng.random() * 3, "fail": rng.random() < 0.1}
        return ToolCall(call_id, rng.choice(TOOLS), arguments)
