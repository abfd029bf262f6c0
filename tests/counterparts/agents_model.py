"""A model on the loopback for the five external agents, in the wires that they speak: it lets each write a file and run a command."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from tests.counterparts.peer_model import Call, chat, messages
from tests.servers.loopback_server import Handler, serving

WRITERS = ("Write", "write", "write_file")
SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell")
INPUT, OUTPUT = 100, 20
"""Tokens of each reply."""
_ids = itertools.count(1)


class AgentsModel(ThreadingHTTPServer):
    """`work` are the requests with tools, `others` those without; `texts` are their bodies."""

    daemon_threads = True

    def __init__(self, command: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.command = command
        self.work = self.others = 0
        self.keys: set[str] = set()
        self.texts: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def reply(self, body: dict[str, Any]) -> tuple[str, Call | None]:
        """The text and the call that answer a request."""
        names = _tool_names(body)
        if not names:
            self.others += 1
            return "A title", None
        self.work += 1
        text = json.dumps(body)
        self.texts.append(text)
        done = len(re.findall(r'"(?:tool_result|function_call_output|functionResponse)"|"role": "tool"', text))
        folder = re.search(r"(/[^\s\"'<>\\]*?/worktrees/[0-9a-f-]{36}/[0-9a-f]+-\d+)", text)
        writer = next((name for name in WRITERS if name in names), "")
        shell = next((name for name in SHELLS if name in names), "")
        steps: list[Call] = []
        if writer and folder:
            path = f"{folder[1]}/written.txt"
            steps.append((writer, {"filePath" if writer == "write" else "file_path": path, "content": "written\n"}))
        if shell == "exec_command":
            steps.append((shell, {"cmd": self.command}))
        elif shell:
            steps.append((shell, {"command": self.command, "description": "Runs it"}))
        return ("", steps[done]) if done < len(steps) else ("All done.", None)


def _tool_names(body: dict[str, Any]) -> list[str]:
    rows = body.get("tools") or []
    found = [row.get("name") or (row.get("function") or {}).get("name") or "" for row in rows]
    found += [one.get("name", "") for row in rows for one in row.get("functionDeclarations") or ()]
    return [name for name in found if name]


class _Handler(Handler):
    server: AgentsModel

    def do_POST(self) -> None:
        body = json.loads(self.body() or b"{}")
        self.server.keys.add(
            self.headers.get("x-api-key")
            or self.headers.get("x-goog-api-key")
            or self.headers.get("authorization", "").removeprefix("Bearer ")
        )
        path, model = self.path, str(body.get("model", ""))
        if "count_tokens" in path or "countTokens" in path:
            self.answer({"input_tokens": 1, "totalTokens": 1})
            return
        text, call = self.server.reply(body)
        if "/messages" in path:
            self.answer(messages(text, [call] if call else [], model), kind="text/event-stream")
        elif "/responses" in path:
            self.answer(_responses(text, call, model), kind="text/event-stream")
        elif "enerateContent" in path:
            document = _gemini(text, call)
            if "stream" in path:
                self.answer(f"data: {json.dumps(document)}\r\n\r\n", kind="text/event-stream")
            else:
                self.answer(document)
        else:
            self.answer(chat(text, [call] if call else [], model), kind="text/event-stream")


def _responses(text: str, call: Call | None, model: str) -> str:
    number = next(_ids)
    item: dict[str, Any]
    if call:
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": call[0],
            "arguments": json.dumps(call[1]),
        }
    else:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"type": "message", "id": f"m_{number}", "role": "assistant", "status": "completed", "content": content}
    usage = {
        "input_tokens": INPUT,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT + OUTPUT,
    }
    head = {"id": f"resp_{number}", "object": "response", "model": model}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**head, "status": "completed", "output": [item], "usage": usage}},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _gemini(text: str, call: Call | None) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
    return {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": INPUT,
            "candidatesTokenCount": OUTPUT,
            "totalTokenCount": INPUT + OUTPUT,
        },
    }


@contextmanager
def agents_model(command: str) -> Iterator[AgentsModel]:
    """The model, for the time of the block."""
    model = AgentsModel(command)
    with serving(model):
        yield model
