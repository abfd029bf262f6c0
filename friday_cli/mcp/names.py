"""Names of MCP servers and of their tools: `mcp__SERVER__TOOL`.

A server's name contains no `__` and neither begins nor ends with `_`. So the first `__` after the prefix always ends the
server's name, and no server can be named so that rules for another one apply to its tools.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.tool_info import SERVER_PREFIX
from friday_cli.core.text.suggest import closest_match

MAX_SERVER = 40
"""Characters of a server's name."""
MAX_NAME = 64
"""Characters of a tool's name: the limit of the model services."""


def server_name(written: str) -> str:
    """The name of a server in names of tools and in rules; "" if nothing of `written` can be used."""
    valid = written if _is_word(written) else re.sub(r"[^A-Za-z0-9-]+", "_", written)
    return valid[:MAX_SERVER].strip("_")


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The names that models see for the `tools` of a server, sorted, each with the server's own name of the tool.

    A name gets a hash at its end if it is cut, or if it was changed and is then that of another tool too. So a name does
    not depend on the order of the list, and a tool whose name needs no change always keeps it.
    """
    prefix = f"{SERVER_PREFIX}{server}__"
    plain = {
        tool: prefix + (tool if _is_word(tool.replace("_", "")) else re.sub(r"[^A-Za-z0-9_-]", "_", tool))
        for tool in tools
    }
    count = Counter(plain.values())
    found: dict[str, str] = {}
    for tool, name in sorted(plain.items(), key=lambda row: (row[1] != prefix + row[0], row[0])):
        # unchanged ones first
        changed = name != prefix + tool
        if len(name) > MAX_NAME or (changed and count[name] > 1):
            digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            name = f"{name[: MAX_NAME - 9]}_{digest}"
        found.setdefault(name, tool)
    return dict(sorted(found.items()))


def _is_word(text: str) -> bool:
    """Whether it has only letters, digits and `-`: compiling a regular expression takes longer than this for all tools."""
    return text.isascii() and text.replace("-", "").isalnum()


def no_server(name: str, known: Collection[str], where: str = "") -> UsageError:
    """The error for a name that no server has. `where`: the file that was searched, "" for all of them."""
    near = closest_match(name, known)
    hint = f"Did you mean {near}?" if near else f"Available: {', '.join(known) or 'none'}."
    return UsageError(f"There is no MCP server {name!r}{where and f' in {where}'}.", hint=hint)
