"""What a service refuses in a request that is valid elsewhere: the request is sent again without it, and it is remembered.

A refusal is a 400 or 422 whose message names a field, a tool or an image. Sources: error messages of Anthropic, OpenAI (also for
organizations that are not verified), litellm, vLLM, Groq, DeepSeek and OpenRouter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Image, Message, Text, ToolResult
from friday_cli.core.protocol.provider import Request
from friday_cli.core.text.lazy_regex import pattern

from ..transport.text import one_line
from .encoded_history import REFUSED_IMAGES, UNREAD

FIELDS = (
    "temperature", "stream_options", "max_completion_tokens", "max_output_tokens", "max_tokens", "reasoning_effort", "reasoning.summary",
    "reasoning.effort", "output_config.effort", "prompt_cache_key", "prompt_cache_breakpoint", "prompt_cache_options",
    "service_tier", "speed", "eager_input_streaming", "response_format", "text.format", "output_config.format", "output_config.task_budget",
    "diagnostics", "cache_control",
)  # fmt: skip
"""Fields that a request can do without. `a.b` is the field b of a."""
REPLY_FIELDS = (
    "reasoning_content", "reasoning_details", "thinking_blocks", "provider_specific_fields", "extra_content", "reasoning",
)  # fmt: skip
"""Fields of an earlier reply, in `messages`, that a request can do without."""
RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
REASONING_ITEMS = "reasoning items"
"""Encrypted reasoning that the service cannot read, such as that of another organization."""
_ENCRYPTED = pattern(r"encrypted.content", re.I)
_IMAGE = pattern(
    r"could not process image|image dimensions exceed|image (?:was |is |file )?(?:too large|too small|not (?:valid|supported))|"
    r"image exceeds|(?:invalid|unsupported|corrupt\w*|empty) (?:base64 )?image|image (?:data|url)[^.]{0,40}(?:not|invalid|unsupported)|"
    r"unable to (?:process|decode|download) (?:the )?image|does not represent a valid image|image media.?type",
    re.I,
)
_TOOL = pattern(
    r"\b(?:function_declarations|tools)[.\[](\d+)\]?(?!\S*function_declarations)[.\w]*\b(?:input_schema|parameters)\b|invalid schema for function '([\w-]+)'",
    re.I,
)
_MOST_IMAGE_TRIES = 3
"""Refusals after which all images are left out, not only the newest ones."""
_MOST_REASON = 120


def omit(
    error: ProviderError,
    request: Request,
    sent: dict[str, Any],
    omitted: dict[str, None],
    *,
    needed: tuple[str, ...],
    service: str,
) -> str | None:
    """Leave out of requests what the service refused: an image or encrypted reasoning in this conversation, a field or a tool in all
    requests to this address and model (`omitted`; `needed` are fields that the API requires). A note for people about it; None if the
    request, whose body was `sent`, cannot be repaired."""
    state = request.provider_state
    if refuses_image(error):
        count = refuse_images(request, state.setdefault(REFUSED_IMAGES, {}), error)
        images = "an image" if count == 1 else f"{count} images"
        return f"{error.message} It receives the conversation without {images}; the log keeps them." if count else None
    found = refused_part(error, sent, (*omitted, *needed, *([REASONING_ITEMS] if UNREAD in state else ())))
    if not found:
        return None
    if found == REASONING_ITEMS:
        state[UNREAD] = len(request.messages)
    else:
        omitted[found] = None
    what = f"the {found}" if found.startswith("tool ") else f"`{found}`" if found != REASONING_ITEMS else found
    return f"{error.message} {service} gets requests without {what} from now on."


def refused_part(error: ProviderError, body: dict[str, Any], kept: Collection[str]) -> str:
    """What of `body` a service refused, as a name for `without`: a field, `tool NAME`, or REASONING_ITEMS; "" for anything else and for
    what is left out already or needed (`kept`)."""
    if error.kind != "invalid" or error.status not in (0, 400, 422):
        return ""
    text = error.message
    found = ""
    if _ENCRYPTED().search(text):
        found = REASONING_ITEMS
    elif tool := _TOOL().search(text):
        names = [name_of(tool) for tool in body.get("tools", ())]
        found = tool[2] or (names[int(tool[1])] if int(tool[1]) < len(names) else "")
        found = f"tool {found}" if found in names else ""
    named = found or next((f for f in FIELDS if _names(text, f) and _has(body, f)), "")
    named = named or next((f for f in REPLY_FIELDS if "messages" in body and _names(text, f)), "")
    return named if named not in kept else ""


def without(body: dict[str, Any], omitted: Collection[str]) -> dict[str, Any]:
    """`body` without what is `omitted`; a field of another name in other versions of the API is renamed. What is inside of the messages
    was left out before."""
    for name in omitted:
        head, _, tail = name.partition(".")
        if name.startswith("tool "):
            body["tools"] = [tool for tool in body.get("tools", ()) if name_of(tool) != name.removeprefix("tool ")]
        elif name == "eager_input_streaming" and "tools" in body:
            body["tools"] = [{k: v for k, v in tool.items() if k != name} for tool in body["tools"]]
        elif tail and isinstance(body.get(head), dict):
            body[head] = {key: value for key, value in body[head].items() if key != tail}
        elif name in RENAMED and name in body and RENAMED[name] not in omitted and "messages" in body:
            body[RENAMED[name]] = body.pop(name)
        elif head in body and not tail:
            del body[head]
    for empty in ("tools", "reasoning", "output_config", "text"):
        if empty in body and not body[empty]:
            del body[empty]
    return body


def refuses_image(error: ProviderError) -> bool:
    """Whether a service refused a request for an image in it."""
    return (
        error.kind in ("invalid", "context")
        and error.status in (0, 400, 413, 422)
        and bool(_IMAGE().search(error.message))
    )


def refuse_images(request: Request, refused: dict[str, str], error: ProviderError) -> int:
    """Add the newest images of `request` that are not in `refused`, by their hash with the reason; how many there were."""
    reason = one_line(error.message, _MOST_REASON)
    known = len(refused)
    for message in reversed(request.messages):
        for image in _images(message):
            refused.setdefault(_hash(image), reason)
        if len(refused) > known and known < _MOST_IMAGE_TRIES:
            break
    return len(refused) - known


def without_images(request: Request, refused: dict[str, str]) -> Request:
    """`request` with a text in the place of each refused image."""
    messages = tuple(_replaced(message, refused) for message in request.messages)
    return msgspec.structs.replace(request, messages=messages)


def _images(message: Message) -> list[Image]:
    inside = [image for part in message.parts if isinstance(part, ToolResult) for image in part.images]
    return [*(part for part in message.parts if isinstance(part, Image)), *inside]


def _replaced(message: Message, refused: dict[str, str]) -> Message:
    if not any(_hash(image) in refused for image in _images(message)):
        return message
    parts: list[AnyPart] = []
    for part in message.parts:
        if isinstance(part, Image) and (reason := refused.get(_hash(part))):
            parts.append(Text(f"[image refused: {reason}]"))
        elif isinstance(part, ToolResult) and part.images:
            kept = tuple(image for image in part.images if _hash(image) not in refused)
            notes = [f"[image refused: {refused[_hash(image)]}]" for image in part.images if _hash(image) in refused]
            text = "\n".join([*filter(None, [part.text]), *notes])
            parts.append(msgspec.structs.replace(part, text=text, images=kept))
        else:
            parts.append(part)
    return msgspec.structs.replace(message, parts=tuple(parts))


def _hash(image: Image) -> str:
    return hashlib.sha256(image.data.encode()).hexdigest()[:16]


def name_of(tool: dict[str, Any]) -> str:
    """The name of a tool in a request of any API."""
    return str(tool.get("name") or (tool.get("function") or {}).get("name") or tool.get("type"))


def _names(text: str, field: str) -> bool:
    words = r"\W+".join(map(re.escape, field.split(".")))
    return re.search(rf"(?<!\w){words}(?!\w)", text) is not None


def _has(body: dict[str, Any], field: str) -> bool:
    head, _, tail = field.partition(".")
    if field == "eager_input_streaming":
        return any(field in tool for tool in body.get("tools", ()))
    found = body.get(head)
    return (tail in found if isinstance(found, dict) else False) if tail else head in body
