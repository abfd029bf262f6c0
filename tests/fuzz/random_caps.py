"""Random sessions with sub-agents under a cap, against a service that counts what it charges: whatever it answers, a cap of money holds.

python -m tests.fuzz.random_caps [RUNS] [SEED]
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import friday_cli.api as friday
from friday_cli.core.protocol.errors import FridayError
from tests.servers import anthropic_events as claude
from tests.servers.fake_model_server import Turn, sse, thinking
from tests.servers.prompt_cache import PromptCache
from tests.servers.script_player import DROP, Reply, Wait, document

SETTINGS = """
model = "anthropic/claude-test"
fallback_model = "dear/claude-dear"
[providers.anthropic]
base_url = "{url}"
window = {window}
max_output = {max_output}
prices = {{ input = 1.0, output = 5.0, cache_read = 0.1, cache_write = 1.25 }}
[providers.dear]
base_url = "{url}"
api = "messages"
key_env = "ANTHROPIC_API_KEY"
prices = {{ input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75 }}
[agents.delegation]
supervision = "{supervision}"
"""
LEAST_CAP, MOST_CAP = 0.02, 0.4
WORDS = "Read it and say what is in it. "


class Counted(msgspec.Struct):
    """What the service counted: US dollars, and tokens that were not read from its cache."""

    cost: float = 0.0
    tokens: int = 0
    requests: int = 0
    broken: int = 0


class CountingService:
    """Answers at random, and counts what it charges: `factor` times the tokens that a request has by its length."""

    def __init__(self, rng: random.Random, files: Sequence[str]) -> None:
        self.counted = Counted()
        self._rng, self._files, self._cache = rng, files, PromptCache(time.monotonic)
        self._factor = rng.uniform(0.6, 1.1)
        self._long, self._faults = rng.choice((0.1, 0.3, 0.6)), rng.choice((0.0, 0.0, 0.1, 0.3))
        self._calls, self._spawns = rng.choice((0.2, 0.6, 0.8)), rng.choice((0.0, 0.5, 0.9))
        self._lock = threading.Lock()

    def reply(self, turn: Turn) -> Reply:
        """The reply to a request."""
        with self._lock:
            return self._reply(turn)

    def _reply(self, turn: Turn) -> Reply:
        rng, body = self._rng, turn.body
        if rng.random() < self._faults / 2:
            status, kind = rng.choice(((429, "rate_limit_error"), (500, "api_error"), (529, "overloaded_error")))
            return document({"type": "error", "error": {"type": kind, "message": "Not now."}}, status)
        plain, read, written = (int(n * self._factor) for n in self._cache.usage(body))
        most = int(body["max_tokens"])
        output = most if rng.random() < self._long else min(most, int(rng.lognormvariate(5, 1.2)) + 1)
        calls = self._calls_of(turn)
        broken = rng.random() < self._faults / 2
        if broken:
            output = rng.randint(1, min(output, 2000))
        text = "" if calls else "x" * (4 * output if broken else 40)
        self._charge(str(body["model"]), plain, read, written, output)
        begun = claude.start(
            input_tokens=plain, cache_read_input_tokens=read, cache_creation_input_tokens=written, output_tokens=1
        )
        blocks = claude.text(0, text) if text else []
        for number, (name, given) in enumerate(calls):
            blocks += claude.call(number, f"toolu_{rng.getrandbits(60)}", name, msgspec.json.encode(given).decode())
        before = [Wait(rng.choice((0.02, 0.05, 0.2)))]
        if broken:
            self.counted.broken += 1
            return Reply(*before, sse("messages", [begun, *blocks]), DROP)
        stop = "max_tokens" if output == most and not calls else "tool_use" if calls else "end_turn"
        return Reply(*before, sse("messages", [begun, *blocks, *claude.end(stop, output=output)]))

    def _charge(self, model: str, plain: int, read: int, written: int, output: int) -> None:
        times = 3.0 if "dear" in model else 1.0
        self.counted.cost += times * (plain + 0.1 * read + 1.25 * written + 5 * output) / 1e6
        self.counted.tokens += plain + written + output
        self.counted.requests += 1

    def _calls_of(self, turn: Turn) -> list[tuple[str, dict[str, Any]]]:
        rng = self._rng
        if turn.forbidden or turn.turn > 6:
            return []
        if "delegate_tasks" in turn.tools and rng.random() < self._spawns:
            tasks = [self._task() for _ in range(rng.randint(2, 4))]
            return [("delegate_tasks", {"tasks": tasks})]
        if "delegate_task" in turn.tools and rng.random() < self._spawns:
            return [("delegate_task", self._task() | {"background": rng.random() < 0.5})]
        if "read_file" in turn.tools and rng.random() < self._calls:
            return [("read_file", {"path": rng.choice(self._files)}) for _ in range(rng.randint(1, 3))]
        return []

    def _task(self) -> dict[str, Any]:
        profile = self._rng.choice(("analyst", "general", "researcher", "summarizer"))
        return {"profile": profile, "task": WORDS * self._rng.randint(1, 40)}


class Outcome(msgspec.Struct, frozen=True):
    """A session that ended: its caps, what the service counted, what Friday says, and how it ended."""

    cost: float | None
    tokens: int | None
    counted: Counted
    said: float
    agents: int
    how: str

    @property
    def share(self) -> float:
        """The largest share of a cap that was used."""
        cost = self.counted.cost / self.cost if self.cost else 0.0
        return max(cost, self.counted.tokens / self.tokens if self.tokens else 0.0)


async def _session(rng: random.Random, folder: Path, cost: float | None, tokens: int | None) -> tuple[float, int, str]:
    options: dict[str, Any] = {"cwd": str(folder), "mode": "auto", "max_cost": cost, "max_tokens": tokens}
    said, agents, how = 0.0, 0, ""
    async with friday.open(**options) as session:
        for _ in range(rng.randint(1, 3)):
            try:
                async with asyncio.timeout(60):
                    done = await session.prompt("Look into the files. " * rng.randint(1, 20))
                how += f"{done.status}/{done.reason} "
            except TimeoutError:
                how += "timed out "
                break
            except FridayError as error:
                how += f"{error} "
                break
        totals, agents = session.view.totals, len(session.view.agents)
        said = totals.cost_usd or 0.0
    return said, agents, how


def one(seed: int) -> Outcome:
    """A random session."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as top:
        home, folder = Path(top, "home"), Path(top, "project")
        home.mkdir()
        folder.mkdir()
        files = [f"f{n}.txt" for n in range(8)]
        for name in files:
            (folder / name).write_text(f"{name} {rng.random()} some words of text\n" * rng.choice((3, 100, 1500)))
        cost = rng.uniform(LEAST_CAP, MOST_CAP) if rng.random() < 0.7 else None
        tokens = rng.randint(10_000, 120_000) if cost is None or rng.random() < 0.2 else None
        service = CountingService(rng, files)
        with thinking(service.reply, "messages") as server, _environment(home):
            settings = SETTINGS.format(
                url=server.base,
                window=rng.choice((200_000, 200_000, 40_000)),
                max_output=rng.choice((8_000, 32_000)),
                supervision=rng.choice(("unsupervised", "unsupervised", "supervised")),
            )
            (home / "config.toml").write_text(settings)
            said, agents, how = asyncio.run(_session(rng, folder, cost, tokens))
    return Outcome(cost, tokens, service.counted, said, agents, how)


@contextlib.contextmanager
def _environment(home: Path) -> Any:
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRIDAY_HOME", str(home))
        patch.setenv("HOME", str(home))
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        yield


def main(runs: int = 100, seed: int = 1) -> int:
    """Run random sessions; how many passed a cap of money."""
    over, shares, children = 0, [], 0
    for number in range(seed, seed + runs):
        found = one(number)
        shares.append(found.share)
        children += found.agents - 1
        over += found.cost is not None and found.counted.cost > found.cost
        if found.share > 1.0:  # one of tokens may be, by a reply for each agent at work
            print(
                f"seed {number}: {found.share:.1%} of ${found.cost} / {found.tokens} tokens: {found.counted}, "
                f"said ${found.said:.4f}, {found.agents} agents: {found.how}",
                flush=True,
            )
    print(f"{runs} sessions, {children} sub-agents: {over} passed a cap of money; at most {max(shares):.1%} of any")
    return over


if __name__ == "__main__":
    raise SystemExit(bool(main(*map(int, sys.argv[1:]))))
