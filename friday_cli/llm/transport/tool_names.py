"""Tool names and call ids that a service accepts, for those invented by a model or assigned by another service."""

from __future__ import annotations

import hashlib
import re


def api_tool_name(name: str) -> str:
    """A tool name of letters, digits, `_` and `-`, at most 64 characters; a model can invent any name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def api_call_id(call_id: str, valid: re.Pattern[str], *, short: bool = False) -> str:
    """A call id: unchanged if it matches `valid`, else a stable hash of it (nine characters if `short`)."""
    if valid.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
    return digest[:9] if short else f"call_{digest[:24]}"
