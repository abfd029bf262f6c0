"""What the same work costs with Friday, Claude Code and OpenCode, by list prices: `python -m tests.counterparts cost`.

Each of them reads the same files over the Messages API from one loopback service, which plays the model and bills as the model of the
services' caches does (`tests.servers.prompt_cache`): their prompts, tools and cache breakpoints decide what that costs.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from friday_cli.core.protocol.messages import Usage
from friday_cli.llm.models import prices
from tests.counterparts.install import installed
from tests.servers.loopback_server import Handler, serving
from tests.servers.prompt_cache import PromptCache

PACKAGES = ("@anthropic-ai/claude-code", "opencode-ai")
MODEL = "claude-opus-5-5"
ROUNDS, CALLS = 40, (4, 12)
"""Replies with calls, and how many calls each has: the service looks back 20 blocks, which a turn with 12 calls exceeds."""
READS = {"read_file": "path", "Read": "file_path", "read": "filePath"}
"""The tool that reads a file, and its argument, of Friday, Claude Code and OpenCode."""
PROMPT = "Read every file of this folder, many at once, and say done."


class Billing(ThreadingHTTPServer):
    """The service; `usages` has what each request is billed, by model, and `first` the tokens of the first one with calls in its reply."""

    daemon_threads = True

    def __init__(self, folder: Path, calls: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.calls = folder, calls
        self.first = 0
        self.cache = PromptCache(time.monotonic)
        self.usages: list[tuple[str, Usage]] = []
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The reply to a request."""
        calls = self._calls(body)
        with self.lock:
            usage = Usage(*self.cache.usage(_plain(body)), 20 + 20 * len(calls))
            self.usages.append((body["model"], usage))
            number = len(self.usages)
            self.first = self.first or (usage.context - usage.output if calls else 0)
        counted = {
            "input_tokens": usage.input,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
            "output_tokens": 1,
        }
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "usage": counted}}]
        blocks = [
            ({"type": "tool_use", "id": f"toolu_{number}_{i}", "name": n, "input": {}}, a)
            for i, (n, a) in enumerate(calls)
        ]
        for index, (block, arguments) in enumerate(blocks or [({"type": "text", "text": ""}, {})]):
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            events += [
                {"type": "content_block_start", "index": index, "content_block": block},
                {
                    "type": "content_block_delta",
                    "index": index,
                    "delta": delta if calls else {"type": "text_delta", "text": "done"},
                },
                {"type": "content_block_stop", "index": index},
            ]
        end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        return [
            *events,
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage.output}},
            {"type": "message_stop"},
        ]

    def _calls(self, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        names = [tool["name"] for tool in body.get("tools", ()) if tool.get("name") in READS]
        done = sum(message["role"] == "assistant" for message in body["messages"])
        if not names or done >= ROUNDS:
            return []
        files = (str(self.folder / f"{done:02}-{i:02}.txt") for i in range(self.calls))
        return [(names[0], {READS[names[0]]: file}) for file in files]

    @property
    def cost(self) -> float:
        """US dollars by list price."""
        return sum(prices.cost("anthropic", model, usage) or 0.0 for model, usage in self.usages)


class _Handler(Handler):
    server: Billing

    def do_GET(self) -> None:
        self.answer({"data": []})

    def do_HEAD(self) -> None:
        self.answer("", kind="text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.body() or b"{}")
        if "count_tokens" in self.path or "messages" not in body:
            return self.answer({"input_tokens": 100})
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in self.server.events(body))
        self.answer("".join(lines), kind="text/event-stream")


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """A request whose texts are blocks."""
    messages = [{**message, "content": _blocks(message["content"])} for message in body["messages"]]
    return {**body, "messages": messages, "system": _blocks(body.get("system") or [])}


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@contextmanager
def project(calls: int) -> Iterator[tuple[Path, Path, Billing]]:
    """A folder with the files, a home, and the service."""
    with TemporaryDirectory() as name:
        folder, home = Path(name) / "project", Path(name) / "home"
        folder.mkdir()
        home.mkdir()
        for number in range(ROUNDS * calls):
            text = "\n".join(f"{number}: line {line} of a file with words in it" for line in range(25))
            (folder / f"{number // calls:02}-{number % calls:02}.txt").write_text(text)
        service = Billing(folder, calls)
        with serving(service):
            yield folder, home, service


def friday(folder: Path, home: Path, url: str) -> tuple[list[str], dict[str, str]]:
    """The command, and its environment."""
    (home / "config.toml").write_text(f'[providers.anthropic]\nbase_url = "{url}"\n')
    words = [sys.executable, "-m", "friday_cli", "ask", PROMPT, "--model", f"anthropic/{MODEL}", "--max-turns", "99"]
    return words, {"FRIDAY_HOME": str(home), "ANTHROPIC_API_KEY": "x" * 20}


def claude_code(folder: Path, home: Path, url: str) -> tuple[list[str], dict[str, str]]:
    """The command, and its environment."""
    words = ["claude", "-p", PROMPT, "--model", MODEL, "--allowedTools", "Read"]
    return words, {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "IS_SANDBOX": "1",
    }


def opencode(folder: Path, home: Path, url: str) -> tuple[list[str], dict[str, str]]:
    """The command, and its environment."""
    limit = {"context": 1_000_000, "output": 32_000}
    provider = {
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
        "models": {MODEL: {"limit": limit}},
    }
    settings = {
        "provider": {"loop": provider},
        "model": f"loop/{MODEL}",
        "small_model": f"loop/{MODEL}",
        "share": "disabled",
        "permission": {"*": "allow"},
        "autoupdate": False,
    }
    (home / "opencode.json").write_text(json.dumps(settings))
    folders = {f"XDG_{name}_HOME": str(home / "opencode" / name) for name in ("DATA", "CONFIG", "STATE", "CACHE")}
    more = {"OPENCODE_CONFIG": str(home / "opencode.json"), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return ["opencode", "run", "-m", f"loop/{MODEL}", PROMPT], folders | more


def main() -> int:
    """Print a row for each of them; returns the exit code."""
    failed = 0
    print(
        "| program | calls a reply | requests | tokens of the first | read of what repeats | cost |\n|---|---|---|---|---|---|"
    )
    programs = (("Friday", friday), ("Claude Code 2.1.330", claude_code), ("OpenCode 1.18.33", opencode))
    for calls, (name, program) in itertools.product(CALLS, programs):
        with project(calls) as (folder, home, service):
            words, more = program(folder, home, service.url)
            done = subprocess.run(
                words,
                cwd=folder,
                env=installed().env(**more, HOME=str(home)),
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode or len(service.usages) <= ROUNDS:
                failed += 1
                print(
                    f"  {name}: {len(service.usages)} requests, exit code {done.returncode}: {(done.stdout + done.stderr)[-800:]}"
                )
                continue
            share = service.cache.read / max(1, service.cache.repeatable)
            print(
                f"| {name} | {calls} | {len(service.usages)} | {service.first:,} | {share:.0%} | ${service.cost:.2f} |",
                flush=True,
            )
    return failed


if __name__ == "__main__":
    os.environ.pop("FRIDAY_DEPTH", None)
    raise SystemExit(main())
