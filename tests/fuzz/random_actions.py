"""What a scene plays with: a journal with its delays, a machine with its failures, a model that replies by the dice."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from friday_cli.core.agent.compaction import PROMPT
from friday_cli.core.agent.supervision import INTENT, SYSTEM
from friday_cli.core.eventlog.log import MemoryJournal
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import ErrorKind, ProviderError, StoreError
from friday_cli.core.protocol.events import Envelope, Prefix
from friday_cli.core.protocol.messages import Message, Text, Thinking, ToolCall, Usage, estimate_message
from friday_cli.core.protocol.provider import (
    CallChunk,
    Chunk,
    ReplyDone,
    Request,
    Stop,
    TextChunk,
    ThinkingChunk,
    estimate_request,
)
from friday_cli.workspace.local import LocalWorkspace
from tests.engine_fixture import Model, Nowhere

if TYPE_CHECKING:
    from tests.fuzz.scenario import Scene

KINDS: tuple[ErrorKind, ...] = (
    "rate", "rate", "overloaded", "server", "network", "truncated", "stall", "garbled", "empty",
    "auth", "quota", "invalid", "not_found", "context", "refusal",
)  # fmt: skip
TOOLS = ("look", "look", "change", "change", "shell", "boom", "ask", "own_cancel")
SCHEMA = {"type": "object", "required": ["n"]}


def aside(request: Request) -> bool:
    """Whether a request is about an agent's conversation and no part of it; also the second one, after a reply with calls."""
    first = request.messages[-3:-2] if request.messages[-1].role == "tool" else request.messages[-1:]
    return request.system == SYSTEM or any(message.text.endswith(PROMPT) for message in first)


class Journal(MemoryJournal):
    """Keeps what it is given after a while, in order; may break for good at some event."""

    def __init__(self, rng: random.Random, kept: Sequence[Envelope] = ()) -> None:
        super().__init__()
        self.prefixes: dict[str, list[Prefix]] = {}
        self._index(kept)
        self.latency = rng.choice([0.0, 0.0, 0.0, 0.002, 0.2])
        self._rng = rng
        self._busy_until = 0.0
        self._queue: deque[tuple[list[Envelope], asyncio.Future[None]]] = deque()
        self.breaks_at = len(kept) + rng.randint(5, 80) if rng.random() < 0.04 else None
        self.broken = False

    def append(self, envelopes: Any, *, durable: bool = False) -> asyncio.Future[None]:
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
        self._index(envelopes)
        done.set_result(None)

    def _index(self, envelopes: Sequence[Envelope]) -> None:
        self.envelopes.extend(envelopes)
        for envelope in envelopes:
            if isinstance(envelope.event, Prefix):
                self.prefixes.setdefault(envelope.agent, []).append(envelope.event)


class Machine(Nowhere, LocalWorkspace):
    """Ending processes takes a moment and sometimes goes wrong. Nothing of a real machine is ever set up."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene, self._rng = scene, scene.rng

    async def release(self, agent: str) -> tuple[str, ...]:
        if agent == "a" and self._rng.random() < 0.1:
            asyncio.get_running_loop().call_later(0.005, self._scene.cancel_from_outside)
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.01, 0.4]))
        if self._rng.random() < 0.02:
            raise OSError("no such process")
        self.released.append(agent)
        return ()

    async def close(self) -> None:
        """There is nothing to close."""


class RandomModel(Model):
    """A provider that replies by the dice. It looks at each request as a strict server does, and tells the scene."""

    def __init__(self, scene: Scene, *, model: str, window: int) -> None:
        super().__init__({}, model=model, window=window, max_output=2000, price=scene.price)
        self._scene = scene

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        count = self._asked[request.agent] = self._asked.get(request.agent, 0) + 1
        rng = random.Random(f"{self._scene.seed}:{self._scene.since}:{self.model}:{request.agent}:{count}")
        self._scene.served(request)
        said = ""
        self.open.add(request.agent)
        try:
            with self._scene.works(request.agent, needs_place=False):
                await asyncio.sleep(rng.random() * 2)
                async for chunk in self._reply(request, rng):
                    said += chunk.text if isinstance(chunk, TextChunk) else ""
                    yield chunk
        except asyncio.CancelledError:
            if said.strip() and not aside(request):
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
        calls = self._calls(request, rng) if rng.random() < (0.1 if request.text_only else 0.7) else ()
        if rng.random() < 0.8 and (wanted := self._wanted(request, rng)):
            words, calls = wanted, ()
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
        yield ReplyDone(message, self._usage(request, message, rng), stop, "it said no" if stop == "refusal" else "")

    def _wanted(self, request: Request, rng: random.Random) -> str:
        """What the harness just asked for, in its form; "" when it asked for nothing."""
        last = request.messages[-1].text
        if request.system == SYSTEM:
            return f'{{"verdict":"{rng.choice(["accept", "redo", "redo", "pause"])}","reason":"so"}}'
        if last == INTENT:
            return f'{{"goal":"g","changes":{rng.choice(["[]", "[]", """["x"]"""])}}}'
        return '{"n":1}' if "required schema" in last else ""

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
        name = f"{request.agent}-{self._scene.since}-{self.model}-{self._asked[request.agent]}"
        return tuple(self._call(rng, request.agent, f"{name}-{i}") for i in range(rng.randint(1, 3)))

    def _call(self, rng: random.Random, path: str, call_id: str) -> ToolCall:
        dice = rng.random() * rng.choice([0.7, 1.0])
        if (copies := self._scene.copies) is not None and (there := [w for w in copies.all if w.path]):
            apart = random.Random(f"{self._scene.seed}:{call_id}")
            if apart.random() < 0.25:
                below = [w for w in there if is_under(w.path, path) and w.path != path]
                waiting = [w for w in below if w.state == "changed"]
                one = apart.choice((apart.random() < 0.8 and waiting) or below or there).path
                if apart.random() < 0.7:
                    return ToolCall(call_id, "apply_delegation", {"id": one})
                return ToolCall(call_id, "discard_delegation", {"id": one, "keep_branch": apart.random() < 0.5})
        if dice < 0.3:
            return ToolCall(call_id, "delegate_task", self._task(rng) | {"background": rng.random() < 0.35})
        if dice < 0.4:
            return ToolCall(call_id, "delegate_tasks", {"tasks": [self._task(rng)] * rng.randint(1, 4)})
        if dice < 0.52:
            return self._about(rng, path, call_id)
        if dice < 0.55:
            return ToolCall(call_id, rng.choice(["ghost", "hidden", "look"]), {}, "it is no JSON", "{")
        if dice < 0.57:
            return ToolCall(call_id, "hidden", {})
        if dice < 0.58:
            return ToolCall(call_id, "look", {"seconds": "many"})
        if dice < 0.61:
            return ToolCall(call_id, "task_result", {"text": "the result", "fail": rng.random() < 0.3})
        arguments = {"text": f"f{rng.randint(0, 3)}", "seconds": rng.random() * 3, "fail": rng.random() < 0.1}
        return ToolCall(call_id, rng.choice(TOOLS), arguments)

    def _task(self, rng: random.Random) -> dict[str, Any]:
        task: dict[str, Any] = {
            "profile": rng.choice(["one", "one", "one", "two", "three", "ghost"]),
            "task": f"do {rng.randint(0, 9)}",
        }
        if rng.random() < 0.2:
            task |= {"timeout_s": rng.choice([0.5, 3.0]), "max_tokens": rng.choice([1, 600, 3000])}
        if rng.random() < 0.12:
            task["fork"] = True
        if rng.random() < 0.08:
            task["schema"] = rng.choice([SCHEMA, SCHEMA, SCHEMA, {"type": "nothing there is"}])
        if self._scene.copies is not None and random.Random(str(task) + str(self._asked)).random() < 0.4:
            task["isolation"] = "worktree"
        return task

    def _about(self, rng: random.Random, path: str, call_id: str) -> ToolCall:
        """A call about an agent that was started before, mostly one's own."""
        ids = [known.path for known in self._scene.bench.tree.below(path)] or ["a.1"]
        one = rng.choice(ids) if rng.random() < 0.95 else rng.choice(["a", "a.1", path, "a.9.9"])
        match rng.choice(["resume", "resume", "resume", "message", "message", "cancel", "result", "list"]):
            case "resume":
                more = {"max_tokens": rng.choice([700, 5000])} if rng.random() < 0.4 else {}
                again = {"resume": one, "task": f"go on {call_id}", "background": rng.random() < 0.3}
                return ToolCall(call_id, "delegate_task", again | more)
            case "message":
                return ToolCall(call_id, "message_sub_agent", {"id": one, "text": f"mind this {call_id}"})
            case "cancel":
                return ToolCall(call_id, "cancel_sub_agent", {"id": one, "mode": rng.choice(["cancel", "abort"])})
            case "result":
                return ToolCall(call_id, "get_delegation_result", {"id": one})
        return ToolCall(call_id, "list_sub_agents", {})
