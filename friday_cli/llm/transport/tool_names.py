"""Names of tools and calls as a service takes them, whatever a model or another service has called them."""

from __future__ import annotations

import hashlib
import re


def wire_name(name: str) -> str:
    """A tool's name of letters, digits, `_` and `-`, 64 at most; a model may have made up any."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def wire_id(call_id: str, good: re.Pattern[str], *, short: bool = False) -> str:
    """A call's id: itself where it is `good`, else one made of it, the same for the same id; a `short` one has nine places."""
    if good.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
    return digest[:9] if short else f"call_{digest[:24]}"
