"""docs/events.md, made from core/protocol/events.py: `python -m tests.architecture.events_page > docs/events.md`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from friday_cli.config.docs import documentation
from friday_cli.core.protocol import events, messages, receipt, run_result

INTRODUCTION = """\
# Events

<!-- Made by `python -m tests.architecture.events_page`; change friday_cli/core/protocol/events.py instead. -->

Everything that happens in a session is one stream of events. `friday ask --output-format stream-json` prints them, one
JSON object a line; the session's log on disk holds the same; `friday sessions show ID --json` and a resumed session read
that log. The first event of a session is `session_started`; its `schema` is the version of this page: **{schema}**.

Each line is an envelope:

- **`seq`**: the number of the event within its session, from 1 and without gaps. `null` for live events, which are shown
  but not stored: they may be merged or omitted.
- **`at`**: Unix time in seconds.
- **`agent`**: the path of the agent. The root is `a`, its second child `a.2`, the first child of that one `a.2.1`.
- **`event`**: one of the objects below, by its `kind`.

A field that has its default value is omitted in the JSON; here the default follows the type. Durations are in seconds,
sizes in tokens, unless stated otherwise.

```json
{example}
```
"""


def page() -> str:
    """The whole page."""
    example = events.Envelope(7, 1_790_000_000.5, "a.2", events.ToolStarted("call_1", "grep", "retry in src"))
    out = [INTRODUCTION.format(schema=events.SCHEMA, example=events.encode(example).decode())]
    kinds = get_args(events.AnyEvent)
    out.append("\n## Durable events\n")
    out += [_section(kind) for kind in kinds if kind not in events.LIVE]
    out.append("\n## Live events\n")
    out += [_section(kind) for kind in kinds if kind in events.LIVE]
    out.append("\n## Displays of tool results (`display`)\n")
    out += [_section(kind) for kind in get_args(events.AnyDisplay)]
    out.append("\n## Messages and their parts\n")
    out += [_section(kind) for kind in (messages.Message, *get_args(messages.AnyPart))]
    out.append("\n## Other parts of events\n")
    others = (
        messages.Usage,
        receipt.Receipt,
        receipt.ToolFacts,
        receipt.FileChange,
        receipt.CommandRun,
        events.ToolSpec,
    )
    out += [_section(kind) for kind in others]
    out.append("\n## Statuses and stop reasons\n\n")
    out.append("".join(f"- **{name}**: {_type(kind)}\n" for name, kind in _words()))
    return "".join(out)


def _words() -> Iterator[tuple[str, Any]]:
    yield "Status", run_result.Status
    yield "StopReason", run_result.StopReason
    yield "ResultStatus", messages.ResultStatus


def _section(struct: type[msgspec.Struct]) -> str:
    tag = struct.__struct_config__.tag
    heading = f"`{tag}`" if tag else struct.__name__
    out = [f"\n### {heading}\n\n"]
    if struct.__doc__:
        out.append(inspect.cleandoc(struct.__doc__) + "\n\n")
    hints, texts = get_type_hints(struct), documentation(struct)
    for field in msgspec.structs.fields(struct):
        shown = _type(hints[field.name]) + _default(field)
        out.append(
            f"- `{field.encode_name}`: {shown}" + (f". {texts[field.name]}" if field.name in texts else "") + "\n"
        )
    return "".join(out)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f", default `{msgspec.json.encode(field.default).decode()}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f", default `{msgspec.json.encode(field.default_factory()).decode()}`"
    return ""


def _type(kind: Any) -> str:
    """A type in the words of JSON."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return str(kind.__struct_config__.tag or kind.__name__)
    names = {str: "text", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "anything"}
    if kind in names:
        return names[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " ".join(f"`{value}`" for value in args)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_type, args))
    if origin is tuple:
        return f"list of ({_type(args[0])})" if " or " in _type(args[0]) else f"list of {_type(args[0])}"
    if origin is dict:
        return "object" if args[1] is Any else f"object of {_type(args[1])}"
    raise TypeError(f"no words for {kind!r}")


if __name__ == "__main__":
    print(page(), end="")
