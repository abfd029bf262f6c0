"""Real MCP servers, and small ones that misbehave, used by agents of `friday ask` with a scripted model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.counterparts.asked import PROJECT, Asked, Call, Folder
from tests.counterparts.install import Counterparts, installed
from tests.counterparts.report import Check, report

EVERYTHING, FILESYSTEM, MEMORY = (f"@modelcontextprotocol/server-{n}" for n in ("everything", "filesystem", "memory"))
PACKAGES = (EVERYTHING, FILESYSTEM, MEMORY)
OLD_TASKS = "it wants the experimental tasks of 2025-11-25, which the extension replaced"
KNOWN = {f"everything {kind}: simulate-research-query": OLD_TASKS for kind in ("stdio", "http")}
SCRIPT = "dist/index.js"
SMALL = [sys.executable, str(PROJECT / "tests/servers/mcp_stdio.py")]

Wanted = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and a part of the result."""

EVERY: list[Wanted] = [
    ("echo", {"message": "héllo"}, "Echo: héllo"),
    ("get-annotated-message", {"messageType": "success", "includeImage": True}, "completed successfully"),
    ("get-env", {}, "PATH"),
    ("get-resource-links", {"count": 2}, "[resource demo://"),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "Resource 1"),
    ("get-structured-content", {"location": "Chicago"}, "temperature"),
    ("get-sum", {"a": 2, "b": 3}, "5"),
    ("get-tiny-image", {}, "image"),
    ("gzip-file-as-resource", {"data": "data:text/plain,hello"}, "gz"),
    ("toggle-simulated-logging", {}, "logging"),
    ("toggle-subscriber-updates", {}, "updates"),
    ("trigger-long-running-operation", {"duration": 1, "steps": 2}, "completed"),
    ("get-roots-list", {}, "project"),
    ("trigger-elicitation-request", {}, "declin"),
    ("simulate-research-query", {"topic": "trees"}, "trees"),
]
FILES: list[Wanted] = [
    ("list_allowed_directories", {}, "project"),
    ("write_file", {"path": "a.txt", "content": "one\ntwo\n"}, "wrote"),
    ("read_file", {"path": "a.txt"}, "one"),
    ("read_text_file", {"path": "a.txt", "head": 1}, "one"),
    ("read_media_file", {"path": "dot.png"}, "image"),
    ("read_multiple_files", {"paths": ["a.txt"]}, "two"),
    ("edit_file", {"path": "a.txt", "edits": [{"oldText": "one", "newText": "three"}]}, "+three"),
    ("create_directory", {"path": "d"}, "created"),
    ("move_file", {"source": "a.txt", "destination": "d/b.txt"}, "moved"),
    ("list_directory", {"path": "d"}, "b.txt"),
    ("list_directory_with_sizes", {"path": "d"}, "b.txt"),
    ("directory_tree", {"path": "."}, "b.txt"),
    ("search_files", {"path": ".", "pattern": "**/b.txt"}, "b.txt"),
    ("get_file_info", {"path": "d/b.txt"}, "size"),
]
ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
LINK = {"from": "Ann", "to": "Ann", "relationType": "knows"}
GRAPH: list[Wanted] = [
    ("create_entities", {"entities": [ANN]}, "Ann"),
    ("create_relations", {"relations": [LINK]}, "knows"),
    ("add_observations", {"observations": [{"entityName": "Ann", "contents": ["has a dog"]}]}, "dog"),
    ("read_graph", {}, "likes tea"),
    ("search_nodes", {"query": "tea"}, "Ann"),
    ("open_nodes", {"names": ["Ann"]}, "dog"),
    ("delete_observations", {"deletions": [{"entityName": "Ann", "observations": ["has a dog"]}]}, "deleted"),
    ("delete_relations", {"relations": [LINK]}, "deleted"),
    ("delete_entities", {"entityNames": ["Ann"]}, "deleted"),
]
RESOURCES: list[tuple[Call, str]] = [
    (("mcp_list", {"server": "x"}), "demo://"),
    (("mcp_read", {"server": "x", "uri": "demo://resource/dynamic/text/1"}), "Resource 1"),
]
MISBEHAVING: list[tuple[str, dict[str, Any], Call, str]] = [
    ("silent", {"args": ["silent"], "startup_timeout_s": 2}, ("mcp__x__echo", {}), "did not answer within"),
    ("silent in a call", {"timeout_s": 2}, ("mcp__x__forever", {}), "no answer within 2 s"),
    ("babbling on stdout", {"args": ["babble"]}, ("mcp__x__echo", {"text": "hi"}), "hi"),
    ("ends at once", {"args": ["die"]}, ("mcp__x__echo", {}), "no configuration found"),
    ("ends in a call", {}, ("mcp__x__die", {}), "out of luck"),
    ("100 MB result", {}, ("mcp__x__huge", {"mb": 100}), "longer than"),
    ("10,000 tools", {"args": ["tools=10000"]}, ("mcp__x__tool00007", {}), "tool00007 was called"),
    ("list that changes", {"args": ["change"]}, ("mcp__x__echo", {"text": "hi"}), "hi"),
    ("missing program", {"command": "/no/such/program", "args": []}, ("mcp__x__echo", {}), "/no/such/program"),
]


NEW = ("silent", "ends at once", "missing program")
"""Those that cannot be known."""


def main(only: str = "") -> int:
    """Try all whose name contains `only`."""
    return report((check for check in run(installed(), only) if only in check.name), KNOWN)


def run(tools: Counterparts, only: str) -> Iterator[Check]:
    """The parts that can have a check with `only` in its name."""
    parts = {"everything": _every, "filesystem memory": _others, "long killed outlives": _disturbed, "": _misbehaving}
    for words, part in parts.items():
        if not only or not words or any(word in only for word in words.split()):
            yield from part(tools)


def _every(tools: Counterparts) -> Iterator[Check]:
    node = {"command": tools.node, "args": [tools.script(EVERYTHING, SCRIPT), "stdio"]}
    with _http(tools) as url:
        for kind, entry in (("stdio", node), ("http", {"url": url})):
            yield from _wanted(tools, f"everything {kind}", entry, EVERY)
            with _folder() as folder:
                ran = _ask(tools, folder, entry, [call for call, _ in RESOURCES])
                for (call, text), (status, result) in zip(RESOURCES, _padded(ran, len(RESOURCES)), strict=True):
                    yield _judged(f"everything {kind}: {call[0]}", text, status, result, ran)
                ran = _ask(tools, folder, entry, [], prompt="/mcp__x__simple-prompt")
                yield Check(
                    f"everything {kind}: prompt",
                    "simple prompt" in ran.answer,
                    f"{ran.answer[:200]} {ran.errors[:300]}",
                )


def _others(tools: Counterparts) -> Iterator[Check]:
    pixel = bytes.fromhex("89504e470d0a1a0a")
    for name, package, wanted in (("filesystem", FILESYSTEM, FILES), ("memory", MEMORY, GRAPH)):
        entry = {
            "command": tools.node,
            "args": [tools.script(package, SCRIPT), *(["."] if name == "filesystem" else [])],
        }
        yield from _wanted(tools, name, entry, wanted, {"dot.png": pixel})


def _disturbed(tools: Counterparts) -> Iterator[Check]:
    entry = {"command": tools.node, "args": [tools.script(EVERYTHING, SCRIPT), "stdio"]}
    long = [("mcp__x__trigger-long-running-operation", {"duration": 60, "steps": 60})]
    with _folder() as folder:
        ran = _ask(tools, folder, entry, long, disturb=lambda: signal.SIGINT)
        left = folder.processes()
        yield Check(
            "a long call is cancelled",
            ran.code == 130 and not left,
            f"code {ran.code}, left {left}: {ran.errors[-300:]}",
        )
    with _folder() as folder:

        def kill() -> int:
            folder.kill_servers()
            return 0

        ran = _ask(tools, folder, entry, [*long, ("mcp__x__echo", {"message": "again"})], disturb=kill)
        statuses = [status for status, _ in ran.results]
        texts = " | ".join(text for _, text in ran.results)
        passed = statuses == ["error", "ok"] or "Echo: again" in texts
        yield Check("killed in a call, and used again", passed and ran.code == 0, f"{statuses} {texts[:400]}")
    with _folder() as folder:
        ran = _ask(tools, folder, entry, long, disturb=lambda: signal.SIGKILL)
        gone = _wait_gone(folder)
        yield Check("no server outlives a killed Friday", gone, f"left {folder.processes()}")


def _misbehaving(tools: Counterparts) -> Iterator[Check]:
    for name, entry, call, text in MISBEHAVING:
        with _folder() as folder:
            full = {"command": SMALL[0], **entry}
            full["args"] = full.get("args", []) if "command" in entry else [*SMALL[1:], *entry.get("args", [])]
            ran = _ask(tools, folder, full, [call], known=name not in NEW)
            told = "\n".join([ran.errors, *(result for _, result in ran.results)])
            line = next((line for line in told.splitlines() if text in line), "")
            passed = (
                bool(line) and ran.code == 0 and ran.answer.startswith("The run goes on") and "Traceback" not in told
            )
            yield Check(name, passed and not folder.processes(), f"code {ran.code}: {told[:600]}")


def _wanted(
    tools: Counterparts, name: str, entry: dict[str, Any], wanted: list[Wanted], files: dict[str, bytes] | None = None
) -> Iterator[Check]:
    """Call each tool in one run, and the tools that are left out are named."""
    with _folder() as folder:
        for file, content in (files or {}).items():
            (folder.project / file).write_bytes(content)
        ran = _ask(tools, folder, entry, [(f"mcp__x__{tool}", given) for tool, given, _ in wanted])
        for (tool, _, text), (status, result) in zip(wanted, _padded(ran, len(wanted)), strict=True):
            yield _judged(f"{name}: {tool}", text, status, result, ran)


def _ask(tools: Counterparts, folder: Folder, entry: dict[str, Any], calls: list[Call], **more: Any) -> Asked:
    return folder.ask({"x": {"expose": "direct", **entry}}, calls, env=tools.env(FRIDAY_SANDBOX="none"), **more)


def _padded(ran: Asked, count: int) -> list[tuple[str, str]]:
    return [*ran.results, *[("not called", "")] * count][:count]


def _judged(name: str, text: str, status: str, result: str, ran: Asked) -> Check:
    return Check(
        name, status == "ok" and text.lower() in result.lower(), f"{status}: {result[:300]} {ran.errors[:300]}"
    )


@contextmanager
def _folder() -> Iterator[Folder]:
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        try:
            yield folder
        finally:
            folder.kill_servers()


@contextmanager
def _http(tools: Counterparts) -> Iterator[str]:
    """The address of server-everything on streamable HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [tools.node, tools.script(EVERYTHING, SCRIPT), "streamableHttp"]
    quiet = subprocess.DEVNULL
    running = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=tools.env(PORT=str(port)))
    try:
        while running.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.terminate()
        running.wait()


def _wait_gone(folder: Folder) -> bool:
    """Whether all servers end within some seconds."""
    for pid in folder.processes():
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                import select

                select.select([handle], [], [], 10)
            finally:
                os.close(handle)
    return not folder.processes()
