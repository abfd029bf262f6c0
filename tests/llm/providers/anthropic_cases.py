"""Streams of the Messages API as bytes, with the reply each must give; shared by the tests of fold and transports."""

from __future__ import annotations

from friday_cli.core.protocol.messages import AnyPart, Opaque, Text, Thinking, ToolCall
from tests.servers.anthropic_events import Event, block, call, end, start, text, thinking

ORIGIN = "anthropic/claude-test"


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": "https://e.org", "title": "E", "encrypted_content": "x", "page_age": None}
    ],
}
CITED = {
    "type": "web_search_result_location",
    "url": "https://e.org",
    "title": "E",
    "encrypted_index": "i",
    "cited_text": "c",
}

# name: (events, parts, stop) of replies that any reader of the API must read alike
PLAIN: dict[str, tuple[list[Event], list[AnyPart], str]] = {
    "text": ([start(), *text(0, "Hel", "lo"), *end()], [Text("Hello")], "end_turn"),
    "two texts": ([start(), *text(0, "a"), *text(1, "b"), *end()], [Text("a"), Text("b")], "end_turn"),
    "unicode": ([start(), *text(0, "é\u2028", "😀"), *end()], [Text("é\u2028😀")], "end_turn"),
    "thinking": (
        [start(), *thinking(0, "let ", "me"), *text(1, "x"), *end()],
        [Thinking("let me", ORIGIN, {"type": "thinking", "thinking": "let me", "signature": "sig=="}), Text("x")],
        "end_turn",
    ),
    "thinking left out": (
        [start(), *thinking(0), *text(1, "x"), *end()],
        [Thinking("", ORIGIN, {"type": "thinking", "thinking": "", "signature": "sig=="}), Text("x")],
        "end_turn",
    ),
    "redacted thinking": (
        [start(), *block(0, {"type": "redacted_thinking", "data": "abc="}), *text(1, "x"), *end()],
        [Opaque(ORIGIN, {"type": "redacted_thinking", "data": "abc="}), Text("x")],
        "end_turn",
    ),
    "call": (
        [
            start(),
            *text(0, "I look."),
            *call(1, "toolu_1", "read_file", "", '{"pa', 'th": "a', '.py"}'),
            *end("tool_use"),
        ],
        [Text("I look."), ToolCall("toolu_1", "read_file", {"path": "a.py"})],
        "tool_use",
    ),
    "call without arguments": (
        [start(), *call(0, "toolu_1", "list"), *end("tool_use")],
        [ToolCall("toolu_1", "list")],
        "tool_use",
    ),
    "parallel calls": (
        [start(), *(e for i in range(30) for e in call(i, f"t{i}", "f", f'{{"n": {i}}}')), *end("tool_use")],
        [ToolCall(f"t{i}", "f", {"n": i}) for i in range(30)],
        "tool_use",
    ),
    "odd names": (
        [start(), *call(0, "a", "Read.File", "{}"), *call(1, "b", "x" * 100, "{}"), *end("tool_use")],
        [ToolCall("a", "Read.File"), ToolCall("b", "x" * 100)],
        "tool_use",
    ),
    "search": (
        [
            start(),
            *block(0, SEARCH, {"type": "input_json_delta", "partial_json": '{"query": "q"}'}),
            *block(1, FOUND),
            *block(
                2,
                {"type": "text", "text": "", "citations": []},
                {"type": "text_delta", "text": "so"},
                {"type": "citations_delta", "citation": CITED},
            ),
            *end(),
        ],
        [
            Opaque(ORIGIN, {**SEARCH, "input": {"query": "q"}}),
            Opaque(ORIGIN, FOUND),
            Text("so"),
            Opaque(ORIGIN, {"type": "text", "text": "so", "citations": [CITED]}),
        ],
        "end_turn",
    ),
    "pause": ([start(), *block(0, SEARCH), *end("pause_turn")], [Opaque(ORIGIN, SEARCH)], "pause_turn"),
    "stop sequence": ([start(), *text(0, "a"), *end("stop_sequence")], [Text("a")], "end_turn"),
    "max tokens": ([start(), *text(0, "a"), *end("max_tokens")], [Text("a")], "max_tokens"),
    "context full": ([start(), *text(0, "a"), *end("model_context_window_exceeded")], [Text("a")], "context"),
    "context full at once": ([start(), *end("model_context_window_exceeded")], [], "context"),
    "refusal": ([start(), *text(0, "I can"), *end("refusal")], [Text("I can")], "refusal"),
    "refusal at once": ([start(), *end("refusal")], [], "refusal"),
    "pings": ([start(), {"type": "ping"}, *text(0, "a"), {"type": "ping"}, *end()], [Text("a")], "end_turn"),
    "large text": ([start(), *text(0, *["x" * 9999] * 100), *end()], [Text("x" * 999_900)], "end_turn"),
}


# the same for streams that services send although they should not
ODD: dict[str, tuple[list[Event], list[AnyPart], str]] = {
    "unknown events and blocks": ([start(), {"type": "new_event", "x": 1}, {"no": "type"},
                                   *block(0, {"type": "new_block", "x": 1}), *text(1, "a"),
                                   {"type": "content_block_delta", "index": 1, "delta": {"type": "new_delta"}}, *end()],
                                  [Opaque(ORIGIN, {"type": "new_block", "x": 1}), Text("a")], "end_turn"),
    "gaps in the index": ([start(), *text(3, "a"), *text(9, "b"), *end()], [Text("a"), Text("b")], "end_turn"),
    "index used again": ([start(), *text(0, "a"), *text(0, "b"), *end()], [Text("a"), Text("b")], "end_turn"),
    "block started twice": ([start(), *text(0, stop=False), *text(0, "a"), *end()], [Text("a")], "end_turn"),
    "delta of a block never begun": ([start(),
                                      {"type": "content_block_delta", "index": 5,
                                       "delta": {"type": "text_delta", "text": "a"}}, *end()], [Text("a")], "end_turn"),
    "stop twice, and of nothing": ([start(), *text(0, "a"), {"type": "content_block_stop", "index": 0},
                                    {"type": "content_block_stop"}, *end()], [Text("a")], "end_turn"),
    "start repeated": ([start(), start(), *text(0, "a"), *end()], [Text("a")], "end_turn"),
    "start repeated in the middle": ([start(), *text(0, "a", stop=False), start(),
                                      {"type": "content_block_delta", "index": 0,
                                       "delta": {"type": "text_delta", "text": "b"}}, *end()], [Text("ab")], "end_turn"),
    "second message": ([start(), *text(0, "lost"), start("msg_2"), *text(0, "a"), *end()], [Text("a")], "end_turn"),
    "no start": ([*text(0, "a"), *end()], [Text("a")], "end_turn"),
    "text in the start": ([start(), *block(0, {"type": "text", "text": "ab"}, {"type": "text_delta", "text": "c"}), *end()],
                          [Text("abc")], "end_turn"),
    "arguments in the start": ([start(), *call(0, "t", "f", input={"a": 1}), *end("tool_use")],
                               [ToolCall("t", "f", {"a": 1})], "tool_use"),
    "arguments as text in the start": ([start(), *call(0, "t", "f", input='{"a": 1}'), *end("tool_use")],
                                       [ToolCall("t", "f", {"a": 1})], "tool_use"),
    "unknown stop": ([start(), *text(0, "a"), *end("new_reason")], [Text("a")], "other"),
    "call under another stop": ([start(), *call(0, "t", "f", "{}"), *end("end_turn")], [ToolCall("t", "f")], "tool_use"),
    "tool_use without a call": ([start(), *text(0, "a"), *end("tool_use")], [Text("a")], "end_turn"),
    "nothing is what it should be": ([start(), {"type": "content_block_start", "index": 0, "content_block": None},
                                      {"type": "content_block_delta", "index": 0, "delta": "x"},
                                      {"type": "message_delta", "delta": None},
                                      {"type": "content_block_delta", "index": 1,
                                       "delta": {"type": "text_delta", "text": None}},
                                      *text(2, "a"), {"type": "message_delta", "delta": {"stop_reason": 5}, "usage": [1]},
                                      *end()], [Opaque(ORIGIN, {}), Text("a")], "end_turn"),
    "half characters": ([start(), *text(0, "a\ud83d", "\ude00b"), *end()], [Text("a😀b")], "end_turn"),
    "refusal after a call": ([start(), *text(0, "a"), *call(1, "t", "f", "{}"), *end("refusal")], [Text("a")], "refusal"),
    "thinking only at the limit": ([start(), *thinking(0, "long"), *end("max_tokens")],
                                   [Thinking("long", ORIGIN, {"type": "thinking", "thinking": "long", "signature": "sig=="})],
                                   "max_tokens"),
}  # fmt: skip
