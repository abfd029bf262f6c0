"""Claude Code and OpenCode as external agents under a cap of $0.10, with sub-agents of their own that work on without an end: what the service
counts must not exceed the cap by more than one reply, and after the end nothing is sent and nothing runs.

`python -m tests.counterparts agents-cap`, or `python -m tests.counterparts.agents_cap N [NAME]` for N runs of each."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from friday_cli.core.protocol.messages import Usage
from friday_cli.llm.models import prices
from tests.counterparts.agents import asking, processes, world
from tests.counterparts.install import installed
from tests.counterparts.peer_model import Call, chat, messages
from tests.servers.loopback_server import Handler, serving

PACKAGES = ("@agentclientprotocol/claude-agent-acp", "opencode-ai")
CAP = 0.10
RUNS = 25
MODELS = {
    "claude-code": ("anthropic", "haiku", "general-purpose", 40_000),
    "opencode": ("openai", "gpt-5-mini", "general", 6_000),
}
"""The vendor, the model, the kind of the program's own sub-agents, and the tokens of the longest reply."""
DELEGATE = ("Task", "Agent", "task")
SHELL = ("Bash", "bash")
BYTES_PER_TOKEN = 3.3
"""Fewer than Friday estimates with."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class Service(ThreadingHTTPServer):
    """Bills each reply by list prices, with a cache of what was sent before. `costs` are US dollars."""

    daemon_threads = True

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.vendor, _, self.kind, self.longest = MODELS[name]
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.costs: list[float] = []
        self.children: set[str] = set()
        self.most = self.now = 0
        """Most requests at once, and those of now."""
        self._known: set[int] = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def billed(self, body: dict[str, Any], calls: int) -> Usage:
        """What a request is billed."""
        size = mark = known = 0
        for part in ([body.get("tools"), body.get("system")], *body["messages"]):
            text = json.dumps(part)
            mark, size = hash((mark, text)), size + int(len(text) / BYTES_PER_TOKEN)
            known = size if mark in self._known else known
            self._known.add(mark)
        limit = min([body[name] for name in LIMITS if body.get(name)], default=64_000)
        output = min(limit, 100 * calls + self.random.randint(50, self.longest))
        written = size - known if self.vendor == "anthropic" else 0
        usage = Usage(size - known - written, known, written, output)
        self.costs.append(prices.cost(self.vendor, body["model"], usage) or 0.0)
        return usage

    def reply(self, body: dict[str, Any]) -> tuple[str, list[Call]]:
        """The text and the calls of a reply."""
        names = [row.get("name") or (row.get("function") or {}).get("name") or "" for row in body.get("tools") or ()]
        first, last = json.dumps(body["messages"][:2]), json.dumps(body["messages"][-1])
        shell = next((name for name in SHELL if name in names), "")
        if not names or "Call no tool" in last:
            return "This far.", []
        if "helper-task" in first:
            self.children.add(first[first.index("helper-task") :][:13])
            return "", [(shell, {"command": f"echo {len(self.costs)}", "description": "Says it"})]
        if len(body["messages"]) > 4:
            return "All done.", []
        delegate = next(name for name in DELEGATE if name in names)
        return "", [
            (delegate, {"description": f"part {n}", "prompt": f"helper-task {n}: work on.", "subagent_type": self.kind})
            for n in range(3)
        ]


class _Handler(Handler):
    server: Service

    def do_GET(self) -> None:
        self.answer({"data": []})

    def do_HEAD(self) -> None:
        self.answer("", kind="text/plain")

    def do_POST(self) -> None:
        service, body = self.server, json.loads(self.body() or b"{}")
        if "count_tokens" in self.path or "messages" not in body:
            return self.answer({"input_tokens": 100})
        with service.lock:
            text, calls = service.reply(body)
            usage = service.billed(body, len(calls))
            pause = service.random.random() * 0.3
            service.now += 1
            service.most = max(service.most, service.now)
        time.sleep(pause)
        with service.lock:
            service.now -= 1
        if service.vendor == "anthropic":
            told = {"input_tokens": usage.input, "cache_read_input_tokens": usage.cache_read}
            told |= {"cache_creation_input_tokens": usage.cache_write, "output_tokens": usage.output}
            return self.answer(messages(text, calls, body["model"], told), kind="text/event-stream")
        details = {"cached_tokens": usage.cache_read}
        told = {"prompt_tokens": usage.input + usage.cache_read, "completion_tokens": usage.output}
        self.answer(
            chat(text, calls, body["model"], {**told, "prompt_tokens_details": details}), kind="text/event-stream"
        )


def play(name: str, seed: int) -> list[str]:
    """One run. What is wrong, in words."""
    front = f"model: {MODELS[name][1]}\nmaxTokenBudget: 2000000\nmaxIterations: 100\n"
    service = Service(name, seed)
    with TemporaryDirectory() as folder, serving(service):
        project, env = world(name, Path(folder), service.url, front)
        with open(Path(folder) / "config.toml", "a", encoding="utf-8") as config:
            config.write("[agents.delegation.token_budget]\nmax = 2000000\n")
        command = asking(
            name,
            "--timeout",
            "300",
            "--yolo",
            "--max-cost",
            str(CAP),
            "--max-tokens",
            "5000000",
            "Start three helpers.",
        )
        ran = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
        costs = list(service.costs)
        time.sleep(2)
        left = processes(folder)
    try:
        document = json.loads(ran.stdout)
    except ValueError:
        return [f"no answer: {ran.stderr[-400:]}"]
    total, highest = sum(costs), max(costs, default=0.0)
    counted = document["cost_usd"]
    print(
        f"  {name} {seed}: {len(costs)} replies, {len(service.children)} children, {service.most} at once, ${total:.4f} by the service, "
        f"${counted:.4f} counted, highest reply ${highest:.4f}: {document['stop_reason']}",
        flush=True,
    )
    problems = [f"${total:.4f} is more than one reply over the cap"] if total > CAP + highest else []
    problems += [f"it ended as {document['stop_reason']}: {document['error']}"] * (document["stop_reason"] != "cost")
    problems += [f"{len(service.children)} children"] * (len(service.children) < 2)
    problems += [f"{len(service.costs) - len(costs)} requests after its end"] * (len(service.costs) > len(costs))
    return problems + [f"left running: {one}" for one in left]


def main(only: str = "", count: int = RUNS) -> int:
    """Play `count` runs of each; returns the exit code."""
    wrong = 0
    for name in (name for name in MODELS if only in name):
        for seed in range(count):
            problems = play(name, seed)
            wrong += bool(problems)
            for problem in problems:
                print(f"  {name} {seed}: {problem}", flush=True)
    print(f"  {wrong} runs with faults")
    return int(wrong > 0)


if __name__ == "__main__":
    import os

    os.environ["PATH"] = installed().env()["PATH"]
    raise SystemExit(main("".join(sys.argv[2:3]), int(sys.argv[1])))
