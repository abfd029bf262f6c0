"""Events of Chat Completions and of the Responses API, as OpenAI streams them."""

from __future__ import annotations

from typing import Any

USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120,
         "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
         "output_tokens_details": {"reasoning_tokens": 5}}  # fmt: skip
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "encrypted_content": "gAAA",
    "status": "completed",
    "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}],
}
CALLED = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "grep",
    "arguments": '{"x": 1}',
    "status": "completed",
}


# ---- Chat Completions --------------------------------------------------------


def delta(finish: str | None = None, /, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


def piece(index: int | None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {k: v for k, v in (("name", more.pop("name", None)), ("arguments", arguments)) if v is not None}
    found: dict[str, Any] = {"index": index, "function": function, **more}
    return {k: v for k, v in found.items() if v is not None}


def calls(*pieces: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return delta(tool_calls=list(pieces), **fields)


def usage(**fields: Any) -> dict[str, Any]:
    return {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [], "usage": fields}


# ---- Responses ---------------------------------------------------------------


def said(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


def ev(kind: str, place: int | None = None, **fields: Any) -> dict[str, Any]:
    where = {} if place is None else {"output_index": place}
    return {"type": f"response.{kind}", **where, **fields}


def response(status: str = "completed", **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m-1",
        "status": status,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
        **more,
    }


def added(place: int, item: dict[str, Any]) -> dict[str, Any]:
    blank: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "reasoning": {"summary": [], "encrypted_content": "g"},
        "function_call": {"arguments": ""},
    }
    return ev("output_item.added", place, item={**item, "status": "in_progress", **blank.get(item["type"], {})})


def texts(place: int, *pieces: str) -> list[dict[str, Any]]:
    item = said("".join(pieces))
    where: dict[str, Any] = {"item_id": "msg_1", "content_index": 0}
    return [
        added(place, item),
        ev("content_part.added", place, **where, part={"type": "output_text", "text": "", "annotations": []}),
        *(ev("output_text.delta", place, **where, delta=p, logprobs=[]) for p in pieces),
        ev("output_text.done", place, **where, text="".join(pieces), logprobs=[]),
        ev("content_part.done", place, **where, part=item["content"][0]),
        ev("output_item.done", place, item=item),
    ]


def called(place: int, item: dict[str, Any] = CALLED) -> list[dict[str, Any]]:
    text = item["arguments"]
    return [
        added(place, item),
        *(ev("function_call_arguments.delta", place, item_id=item["id"], delta=p) for p in (text[:3], text[3:]) if p),
        ev("function_call_arguments.done", place, item_id=item["id"], arguments=text, name=item["name"]),
        ev("output_item.done", place, item=item),
    ]


def thought(place: int, item: dict[str, Any] = REASONING) -> list[dict[str, Any]]:
    found = [added(place, item)]
    for index, part in enumerate(item["summary"]):
        where: dict[str, Any] = {"item_id": "rs_1", "summary_index": index}
        found += [
            ev("reasoning_summary_part.added", place, **where, part={"type": "summary_text", "text": ""}),
            ev("reasoning_summary_text.delta", place, **where, delta=part["text"]),
            ev("reasoning_summary_text.done", place, **where, text=part["text"]),
        ]
    return [*found, ev("output_item.done", place, item=item)]


def whole(*events: dict[str, Any], end: str = "completed", **more: Any) -> list[dict[str, Any]]:
    """A stream from `created` to its end, numbered."""
    output = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    begun = ev("created", response=response("in_progress", usage=None))
    found = [begun, *events, ev(end, response=response(end, **{"output": output, **more}))]
    return [{**e, "sequence_number": n} for n, e in enumerate(found)]
