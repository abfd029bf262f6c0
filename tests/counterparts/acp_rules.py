"""The rules of the protocol's text for sub-agent sessions, checked on recorded frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Frames = list[tuple[str, dict[str, Any]]]


def updates(frames: Frames) -> Iterator[tuple[str, dict[str, Any]]]:
    """The session and the content of each update."""
    for sender, frame in frames:
        if sender == "agent" and frame.get("method") == "session/update":
            yield frame["params"]["sessionId"], frame["params"]["update"]


def broken(frames: Frames, root: str) -> Iterator[str]:
    """The rules that one connection's frames break. `root`: the main session."""
    parents: dict[str, str] = {}
    states: dict[str, dict[str, Any]] = {}
    messages: dict[tuple[str, str], dict[str, Any]] = {}
    asks: dict[int, str] = {}
    for sender, frame in frames:
        params = frame.get("params", {})
        session = params.get("sessionId")
        if sender == "client":
            if "id" in frame and frame["id"] in asks and "method" not in frame:
                asks.pop(frame["id"])
            continue
        if frame.get("method") == "$/cancel_request":
            asks.pop(params["requestId"], None)
        if "method" not in frame or session is None:
            continue
        if session != root and session not in parents:
            yield f"{frame['method']} of {session} before it is announced"
        if "id" in frame:
            asks[frame["id"]] = session
            if session != root and states.get(session, {}).get("state") != "requires_action":
                yield f"{frame['method']} of {session}, whose state is {states.get(session)}"
        update = params.get("update", {})
        if update.get("sessionUpdate") == "subagent_update":
            child = update["sessionId"]
            if parents.setdefault(child, session) != session or child.rpartition(".")[0] not in (
                session,
                f"{session}.a",
            ):
                yield f"{child} is announced by {session}, which is not its immediate parent"
            if (
                states.get(child, {}).get("state") == "idle"
                and update.get("state", {}).get("state") == "requires_action"
            ):
                yield f"{child} asks while it is idle"
            states[child] = update.get("state", states.get(child, {}))
        if update.get("sessionUpdate") == "session_message":
            yield from _message(update, session, {root, *parents})
            messages[session, update["messageId"]] = update
    for (session, number), update in messages.items():
        outgoing = update["senderSessionId"] == session
        other = update["recipientSessionId" if outgoing else "senderSessionId"]
        copy = messages.get((other, update.get("recipientMessageId" if outgoing else "senderMessageId", "")))
        if copy is None or copy["content"] != update["content"]:
            yield f"the message {number} of {session} is not in the transcript of {other}"
    for child, state in states.items():
        if state.get("state") != "idle":
            yield f"{child} is {state} at the end"
        if not any(s == child and u["senderSessionId"] == parents[child] for (s, _), u in messages.items()):
            yield f"{child} has no task from its parent"
    if asks:
        yield f"requests without an answer: {asks}"


def _message(update: dict[str, Any], session: str, known: set[str]) -> Iterator[str]:
    ends = update["senderSessionId"], update["recipientSessionId"]
    if session not in ends:
        yield f"the message {update['messageId']} of {ends} is in {session}"
    for end in set(ends) - known:
        yield f"the message {update['messageId']} names {end} before it is announced"


def asked_calls(frames: Frames) -> Iterator[str]:
    """The calls that a client is asked about without a card, or whose cards have no end."""
    status: dict[tuple[str, str], str] = {}
    asked: set[tuple[str, str]] = set()
    for _, frame in frames:
        params = frame.get("params", {})
        if frame.get("method") == "session/request_permission":
            key = params["sessionId"], params["toolCall"]["toolCallId"]
            asked.add(key)
            if key not in status:
                yield f"{key} has no card"
        elif "toolCallId" in params.get("update", {}):
            update = params["update"]
            key = params["sessionId"], update["toolCallId"]
            status[key] = update.get("status") or status.get(key, "")
    yield from (
        f"{key} is {status.get(key)} at the end" for key in asked if status.get(key) not in ("completed", "failed")
    )


def flat(frames: Frames, root: str) -> Iterator[str]:
    """What a client without sub-agents must not get."""
    for session, update in updates(frames):
        if session != root:
            yield f"an update of {session}"
        if update["sessionUpdate"] in ("subagent_update", "session_message"):
            yield f"a {update['sessionUpdate']}"
    begun: set[str] = set()
    for _, update in updates(frames):
        if update["sessionUpdate"] == "tool_call":
            if update["toolCallId"] in begun:
                yield f"two cards of {update['toolCallId']}"
            begun.add(update["toolCallId"])
        elif update["sessionUpdate"] == "tool_call_update" and update["toolCallId"] not in begun:
            yield f"an update of {update['toolCallId']}, which has no card"
