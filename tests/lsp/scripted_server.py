"""A language server that plays one fault: python scripted_server.py FAULT. A line with BAD is an error, and `use NAME N` where another file
of the folder has `def NAME M` with another number."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any

FAULT = sys.argv[1]
PUSHES = FAULT.startswith("push")
hoard = bytearray(b"x" * 80_000_000) if FAULT == "hoards" else b""
if pids := os.environ.get("SCRIPTED_PIDS"):
    with open(pids, "a", encoding="ascii") as written:
        written.write(f"{os.getpid()}\n")
documents: dict[str, tuple[int, str]] = {}
closed: set[str] = set()


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    length = 0
    while (line := sys.stdin.buffer.readline()) != b"\r\n":
        if not line:
            sys.exit(0)
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    message: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
    return message


def evil(folder: str) -> str:
    """What it can read, write and reach."""
    done = []
    for name, path in (
        ("source", f"{folder}/model.bad"),
        ("key", os.path.expanduser("~/.ssh/id_ed25519")),
        (".env", f"{os.path.dirname(folder)}/.env"),
    ):
        try:
            done.append(f"read {name}" if read(path) else f"no {name}")
        except OSError:
            done.append(f"no {name}")
    try:
        with open(f"{folder}/evil.txt", "w", encoding="ascii"):
            done.append("wrote")
    except OSError:
        done.append("no write")
    try:
        with socket.socket() as connection:
            connection.bind(("127.0.0.1", 0))
            connection.listen()
            with socket.create_connection(connection.getsockname(), timeout=1):
                done.append("network")
    except OSError:
        done.append("no network")
    return "; ".join(done)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def problems(uri: str) -> list[dict[str, Any]]:
    lines = documents[uri][1].splitlines()
    folder = os.path.dirname(uri.removeprefix("file://"))
    texts = {name: read(f"{folder}/{name}") for name in os.listdir(folder) if name.endswith(".bad")}
    texts |= {os.path.basename(name): text for name, (_, text) in documents.items()}
    defined = dict(line.split()[1:3] for text in texts.values() for line in text.splitlines() if line[:4] == "def ")
    found = [
        {
            "range": {key: {"line": at, "character": 0} for key in ("start", "end")},
            "message": f"bad: {line.strip()}",
            "code": "bad",
        }
        for at, line in enumerate(lines)
        if "BAD" in line or (line[:4] == "use " and defined.get(line.split()[1], line.split()[2]) != line.split()[2])
    ]
    if FAULT == "flood":
        found = [{**found[0], "message": f"\x1b[31m{number} {'x' * 400}"} for number in range(5000)] if found else []
    if FAULT == "evil":
        found = [{**item, "message": f"evil: {evil(folder)}"} for item in found]
    if FAULT == "imports" and not os.path.isdir(f"{folder}/node_modules/dep"):
        found = [{**item, "code": 2307} for item in found]
    if FAULT == "lengths":
        found = [{**item, "message": f"{len(lines[0])} characters"} for item in found]
    if FAULT == "emoji":
        found = [{**item, "message": "\u202e\U0001f600\x07"} for item in found]
    return found


def push(uri: str, version: int | None) -> None:
    of = {} if version is None else {"version": version}
    params = {"uri": uri, "diagnostics": problems(uri), **of}
    send({"method": "textDocument/publishDiagnostics", "params": params})


def changed(uri: str, version: int, text: str) -> None:
    if FAULT == "deaf":
        time.sleep(600)
    if FAULT == "push_stale" and uri in documents:
        push(uri, version - 1)  # the errors of the old text, after the new one came
    documents[uri] = (version, text)
    if FAULT == "push_cleared" and uri in closed:  # clangd does it for a document that was closed, maybe late
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}})
        closed.remove(uri)
        time.sleep(0.6)
    if FAULT == "push_loads" and not closed:
        closed.add(uri)
        send({"method": "$/progress", "params": {"token": 1, "value": {"kind": "begin"}}})
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}})
        time.sleep(0.6)
        send({"method": "$/progress", "params": {"token": 1, "value": {"kind": "end"}}})
    if FAULT == "push_corrects":
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}})
    if PUSHES:
        push(uri, version if FAULT in ("push", "push_stale", "push_cleared") else None)


def answer(message: dict[str, Any]) -> None:
    uri, ident = message["params"]["textDocument"]["uri"], message["id"]
    if FAULT == "silent":
        return
    if FAULT == "late":
        time.sleep(0.2)
    if FAULT == "dies_once" and len(read(os.environ["SCRIPTED_PIDS"]).split()) == 1:
        os._exit(1)
    if FAULT == "dies" or (FAULT == "apply_edit" and not refused):
        os._exit(1)
    if FAULT == "garbage":
        sys.stdout.buffer.write(b"Traceback: no protocol\r\n\r\n")
        sys.stdout.buffer.flush()
    elif FAULT == "no_list":
        send({"id": ident, "result": {"kind": "full", "items": 3}})
    elif FAULT == "error":
        send({"id": ident, "error": {"code": -32603, "message": "\x1b[2Jpanicked\n"}})
    elif FAULT == "again" and documents[uri][0] >= 0 and not asked.count(uri):
        asked.append(uri)
        send({"id": ident, "error": {"code": -32802, "message": "again"}})
    else:
        send({"id": ident, "result": {"kind": "full", "items": problems(uri)}})


def spans(folder: str, name: str, starts: tuple[str, ...]) -> list[dict[str, Any]]:
    """Where a name stands in the files of a folder, in lines with one of these words; columns count as in utf-16."""
    found = []
    for file in sorted(os.listdir(folder)):
        for at, line in enumerate(read(f"{folder}/{file}").splitlines() if file.endswith(".bad") else ()):
            words = line.split(" ")
            if len(words) > 2 and words[-3] in starts and words[-2] == name:
                column = len(" ".join(words[:-2]).encode("utf-16-le")) // 2 + 1
                start, end = ({"line": at, "character": place} for place in (column, column + len(name)))
                found.append({"uri": f"file://{folder}/{file}", "range": {"start": start, "end": end}})
    return found


def navigate(message: dict[str, Any]) -> None:
    method, params = message["method"].rpartition("/")[2], message["params"]
    if method == "incomingCalls":
        found = spans(params["item"]["folder"], params["item"]["name"], ("use",))
        calls = [{"from": {"uri": one["uri"]}, "fromRanges": [one["range"]]} for one in found]
        send({"id": message["id"], "result": calls})
        return
    uri = params["textDocument"]["uri"]
    folder, lines = os.path.dirname(uri.removeprefix("file://")), documents[uri][1].splitlines()
    name = lines[params["position"]["line"]].split(" ")[-2] if "position" in params else ""
    result: Any = None
    if method == "documentSymbol":
        named = ((at, line) for at, line in enumerate(lines) if line[:4] == "def ")
        places = ((line, {"line": at, "character": 4}) for at, line in named)
        result = [{"name": line.split()[1], "kind": 12, "location": {"uri": uri, "range": {"start": place, "end": place}}}
                  for line, place in places]  # fmt: skip
    elif method == "hover":
        result = {"contents": {"kind": "plaintext", "value": f"\x1b[31m{name}: a number"}}
    elif method == "prepareCallHierarchy":
        result = [{"name": name, "folder": folder}]
    elif method in ("definition", "references"):
        result = spans(folder, name, ("def",) if method == "definition" else ("use",))
        if FAULT == "outside":
            begin = {"line": 0, "character": 0}
            secret = os.path.join(os.path.dirname(folder), "secret.txt")
            result = [{"uri": f"file://{path}", "range": {"start": begin, "end": begin}}
                      for path in (secret, os.path.join(folder, "link.txt"))]  # fmt: skip
    elif method == "rename":
        edits: dict[str, list[Any]] = {}
        for one in spans(folder, name, ("def", "use")):
            edits.setdefault(one["uri"], []).append({"range": one["range"], "newText": params["newName"]})
        if FAULT == "outside":
            edits["file:///etc/hostname"] = [
                {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "newText": "x"}
            ]
        if FAULT == "overlaps":
            edits = {key: [*value, {**value[0], "newText": "other"}] for key, value in edits.items()}
        result = (
            {"documentChanges": [{"kind": "rename", "oldUri": uri, "newUri": uri}]}
            if FAULT == "moves"
            else {"changes": edits}
        )
    send({"id": message["id"], "result": result})


ABILITIES = ("definition", "references", "callHierarchy", "hover", "documentSymbol", "rename")
OFFERED: dict[str, Any] = {f"{name}Provider": True for name in ABILITIES}
asked: list[str] = []
refused = False
started: dict[str, Any] = {}
while True:
    message = receive()
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        if FAULT == "never_starts":
            continue
        offered = OFFERED if PUSHES else {**OFFERED, "diagnosticProvider": {}}
        started = {"id": message["id"], "result": {"capabilities": offered}}
        send({"id": 7, "method": "workspace/applyEdit", "params": {"edit": {}}} if FAULT == "apply_edit" else started)
    elif method is None and message.get("id") == 7:
        refused = message["result"]["applied"] is False
        send(started)
    elif method == "textDocument/didOpen":
        item = params["textDocument"]
        changed(item["uri"], item["version"], item["text"])
    elif method == "textDocument/didChange":
        changed(params["textDocument"]["uri"], params["textDocument"]["version"], params["contentChanges"][0]["text"])
    elif method == "textDocument/didClose":
        closed.add(params["textDocument"]["uri"])
    elif method == "textDocument/diagnostic":
        answer(message)
    elif method == "shutdown":
        send({"id": message["id"], "result": None})
    elif method == "exit":
        sys.exit(0)
    elif method is not None and "id" in message:
        navigate(message)
