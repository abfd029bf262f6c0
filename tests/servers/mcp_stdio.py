"""A small MCP server on standard input and output, by hand: it starts faster than one of the library.

Arguments, `KEY=VALUE` or a word: `era=modern|legacy|strict` (strict ends at an unknown first request), `tools=N` more tools,
`log=FILE` writes one line for each start and message, `silent`, `babble`, `die` at the start, `change` or `change=prompts` with
the first call, `resources`, `pattern` for a tool whose schema has a slow one, `either` for one whose arguments are alternatives, `words=TEXT` as instructions.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from typing import Any

WORDS = dict(word.partition("=")[::2] for word in sys.argv[1:])
ERA = WORDS.get("era", "legacy")
META = "io.modelcontextprotocol/"
state: dict[str, Any] = {"changed": False, "tasks": {}, "listening": None}


def note(text: str) -> None:
    if "log" in WORDS:
        with open(WORDS["log"], "a", encoding="utf-8") as file:
            file.write(text + "\n")


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **more}


def tools() -> list[dict[str, Any]]:
    found = [tool(f"tool{i:05d}") for i in range(int(WORDS.get("tools") or 0))]
    names = [
        "echo",
        "fail",
        "environment",
        "image",
        "data",
        "huge",
        "slow",
        "die",
        "form",
        "link",
        "sample",
        "roots",
        "task",
        "ask",
        "asktask",
        "forever",
    ]
    found += [tool(name) for name in names]
    pattern = {"type": "object", "properties": {"text": {"type": "string", "pattern": "(a+)+$"}}}
    found += [tool("pattern", outputSchema=pattern)] * ("pattern" in WORDS)
    point = {"type": "object", "properties": {"x": {"type": "integer", "exclusiveMinimum": 0}}}
    either = {"$defs": {"point": point}, "properties": {"name": {"type": "string"}, "at": {"$ref": "#/$defs/point"}}}
    ways = [{"required": ["name"]}, {"required": ["at"]}]
    found += [{**tool("either"), "inputSchema": {**either, "type": "object", "anyOf": ways}}] * ("either" in WORDS)
    found.append(tool("look", annotations={"readOnlyHint": True}))
    return [*found, tool("new")] if state["changed"] and not WORDS["change"] else found


def ask(key: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    send(id=f"s{key}", method=method, params=params)
    while True:
        message = json.loads(sys.stdin.readline())
        if message.get("id") == f"s{key}" and "method" not in message:
            answer: dict[str, Any] = message.get("result") or {"error": message.get("error")}
            return answer


FORM = {
    "message": "Which one?",
    "requestedSchema": {
        "type": "object",
        "required": ["name", "level"],
        "properties": {"name": {"type": "string"}, "level": {"enum": ["low", "high"]}, "sure": {"type": "boolean"}},
    },
}
LINK = {"mode": "url", "message": "Sign in.", "url": "https://example.org/sign-in", "elicitationId": "e1"}


def twice(text: str) -> dict[str, Any]:
    """A result as text and as structured content, as libraries make it."""
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}


TASK = {
    "resultType": "task",
    "taskId": "t1",
    "status": "working",
    "pollIntervalMs": 50,
    "createdAt": "2026-11-22T00:00:00Z",
    "lastUpdatedAt": "2026-11-22T00:00:00Z",
    "ttlMs": None,
}


def call(request: dict[str, Any]) -> dict[str, Any] | None:
    params, key = request["params"], request["id"]
    name, given = params["name"], params.get("arguments") or {}
    if name == "echo":
        return {"content": [{"type": "text", "text": str(given.get("text", ""))}]}
    if name == "fail":
        return {"content": [{"type": "text", "text": "It did not work."}], "isError": True}
    if name == "environment":
        return {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}
    if name == "image":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]}
    if name == "data":
        return {"content": [], "structuredContent": [1, {"two": 3}] if ERA == "modern" else {"two": 3}}
    if name == "huge":
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{key},"result":{{"content":[{{"type":"text","text":"')
        for _ in range(int(given.get("mb", 17))):
            sys.stdout.write("x" * 1_000_000)
        sys.stdout.write('"}]}}\n')
        sys.stdout.flush()
        return None
    if name == "crowded":
        return {"content": [], "structuredContent": {"parts": [{}] * 600_000}}
    if name == "pattern":
        return {"content": [], "structuredContent": {"text": str(given["text"])}}
    if name == "slow":
        token = (params.get("_meta") or {}).get("progressToken")
        for step in (1, 2):
            send(
                method="notifications/progress",
                params={"progressToken": token, "progress": step, "total": 2, "message": "busy"},
            )
        return twice("done")
    if name == "endless":
        threading.Thread(target=progress, args=((params.get("_meta") or {}).get("progressToken"),), daemon=True).start()
        return None
    if name == "forever":
        return None
    if name == "die":
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(7)
    if name == "form" or name == "link":
        answer = ask(key, "elicitation/create", FORM if name == "form" else LINK)
        return {"content": [{"type": "text", "text": json.dumps(answer)}]}
    if name == "sample":
        answer = ask(key, "sampling/createMessage", {"messages": [], "maxTokens": 1})
        return {"content": [{"type": "text", "text": json.dumps(answer)}]}
    if name == "roots":
        return {"content": [{"type": "text", "text": json.dumps(ask(key, "roots/list", {}))}]}
    if name == "ask":
        if "inputResponses" not in params:
            request_ = {"method": "elicitation/create", "params": FORM}
            return {"resultType": "input_required", "inputRequests": {"q": request_}, "requestState": "kept"}
        text = json.dumps([params["inputResponses"], params.get("requestState")])
        return {"content": [{"type": "text", "text": text}]}
    if name in ("task", "asktask", "forevertask"):
        state["tasks"]["t1"] = {"polls": 0, "kind": name, "answer": None}
        return TASK
    return twice(f"{name} was called")


def progress(token: Any) -> None:
    for step in itertools.count():
        send(method="notifications/progress", params={"progressToken": token, "progress": step})
        time.sleep(0.01)


def task(method: str, params: dict[str, Any]) -> dict[str, Any]:
    known = state["tasks"][params["taskId"]]
    if method == "tasks/update":
        known["answer"] = params["inputResponses"]
        return {}
    if method == "tasks/cancel":
        return {}
    known["polls"] += 1
    base = {
        "taskId": params["taskId"],
        "createdAt": "2026-11-22T00:00:00Z",
        "lastUpdatedAt": "2026-11-22T00:00:00Z",
        "ttlMs": None,
    }
    if known["kind"] == "forevertask" or known["polls"] < 2:
        return {**base, "status": "working", "statusMessage": "half way", "pollIntervalMs": 50}
    if known["kind"] == "asktask" and known["answer"] is None:
        return {
            **base,
            "status": "input_required",
            "inputRequests": {"q": {"method": "elicitation/create", "params": FORM}},
        }
    text = json.dumps(known["answer"]) if known["answer"] else "the task is done"
    return {**base, "status": "completed", "result": {"content": [{"type": "text", "text": text}]}}


CAPABILITIES: dict[str, Any] = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
if "resources" in WORDS:
    CAPABILITIES["resources"] = {}


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "instructions": WORDS.get("words", "Be kind."),
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "server/discover":
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {**CAPABILITIES, "extensions": {META + "tasks": {}}},
            "instructions": WORDS.get("words", "Be kind."),
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if method == "tools/list":
        return {"tools": tools(), "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/call":
        return call(request)
    if method.startswith("tasks/"):
        return task(method, params)
    if method == "resources/list":
        return {
            "resources": [{"uri": "note://one", "name": "one", "description": "A note."}],
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if method == "resources/templates/list":
        return {"resourceTemplates": [], "ttlMs": 0, "cacheScope": "private"}
    if method == "resources/read":
        return {
            "contents": [{"uri": params["uri"], "text": f"The text of {params['uri']}."}],
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if method == "subscriptions/listen":
        state["listening"] = {META + "subscriptionId": request["id"]}
        notify("notifications/subscriptions/acknowledged", notifications=params["notifications"])
        return None
    if method == "prompts/list":
        prompt = {"name": "greet", "description": "Greets.", "arguments": [{"name": "who", "required": True}]}
        more = [{"name": "new"}] if state["changed"] and WORDS["change"] else []
        return {"prompts": [prompt, *more], "ttlMs": 0, "cacheScope": "private"}
    if method == "prompts/get":
        content = {"type": "text", "text": f"Greet {params['arguments']['who']}."}
        return {"messages": [{"role": "user", "content": content}]}
    return {}


def notify(method: str, **params: Any) -> None:
    """Tell the client of a change: without a handshake only if it listens."""
    if ERA != "modern":
        send(method=method)
    elif state["listening"] is not None:
        send(method=method, params={**params, "_meta": state["listening"]})


def main() -> None:
    note(f"start {os.getpid()}")
    if "die" in WORDS:
        sys.exit("no configuration found")
    if "babble" in WORDS:
        print("Welcome to the server!\nready", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        note(f"{message.get('method', 'answer')} {json.dumps(message.get('params'))}")
        if "silent" in WORDS:
            continue
        if "id" not in message or "method" not in message:
            continue
        modern = message["method"] == "server/discover"
        if modern and ERA == "strict":
            sys.exit(1)
        if (modern and ERA != "modern") or (message["method"] == "initialize" and ERA == "modern"):
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})
            continue
        result = answer(message)
        if result is None:
            continue
        if ERA == "modern":
            result = {
                "resultType": "complete",
                "_meta": {META + "serverInfo": {"name": "small", "version": "1"}},
                **result,
            }
        if "change" in WORDS and message["method"] == "tools/call" and not state["changed"]:
            state["changed"] = True
            notify(
                f"notifications/{WORDS['change'] or 'tools'}/list_changed"
            )  # so the client knows before its run ends
        send(id=message["id"], result=result)


if __name__ == "__main__":
    main()
