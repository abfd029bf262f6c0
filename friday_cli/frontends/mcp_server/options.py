"""The options of `friday mcp serve`."""

from __future__ import annotations

from ..options import MODEL, RIGHTS, SESSION, SHARED, Option

_LIMITS = "Caps for all calls together"
_SHARED = {option.dest: option for option in SHARED}

OPTIONS: tuple[Option, ...] = (
    Option(("--profile",), "many", "Offer only this profile; may be repeated. Default: all.", "NAME", group=RIGHTS),
    Option(
        ("--mode",),
        "text",
        "ask (default): only reading is allowed, other calls are questions at the client; edits: file changes too; plan: no changes; auto: like edits, plus sandboxed commands.",
        "MODE",
        ("ask", "edits", "plan", "auto"),
        RIGHTS,
    ),
    _SHARED["allow"],
    _SHARED["add_dir"],
    Option(("--max-cost",), "float", "US dollars.", "USD", group=_LIMITS),
    Option(("--max-tokens",), "int", "Tokens: uncached input, cache writes and output.", "N", group=_LIMITS),
    Option(("--model", "-m"), "text", "Model of the sub-agents; 'demo' needs no key.", "NAME", group=MODEL),
    Option(("--subagent-model",), "text", "Model for sub-agents whose profile does not name one.", "NAME", group=MODEL),
    _SHARED["cwd"],
    Option(("--config",), "text", "Settings file to use instead of yours.", "FILE", group=SESSION),
)
