"""What a project would steer Friday with, in words and as a diff, for a person who decides whether to trust it.

Interface: `steers(standing)`, `lines(standing)`, `differences(standing)`. All text is made plain here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from friday_cli.config.loader import PROJECT_FILES
from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.tool_catalog import TOOLS

from . import profiles, trust

MOST_LINES = 200
"""Lines of differences that are shown; more are counted."""


def unused(standing: trust.Trust) -> list[str]:
    """The files of an untrusted project that would count if it were trusted; those that are shipped with Friday, letter
    for letter, would change nothing."""
    return [] if standing.ok else [name for name, sha in standing.files.items() if not _is_shipped(name, sha)]


def asks(standing: trust.Trust) -> bool:
    """Whether a person has to be asked: something could steer, and it was not decided on as it is now."""
    return standing.state in ("new", "changed") and bool(unused(standing))


def _is_shipped(name: str, sha: str) -> bool:
    folder, _, file = name.partition("/")
    ours = profiles.shipped_folder() / file
    return folder == "profiles" and ours.is_file() and trust.hash_of(ours.read_bytes()) == sha


def lines(standing: trust.Trust) -> list[tuple[str, str]]:
    """(file, what it would do) for each file, and for its instructions."""
    rows = [(sanitize_line(name, 200), sanitize_line(_about(standing.root, name), 400)) for name in standing.files]
    if rows:
        return [*rows, ("AGENTS.md and CLAUDE.md", "count as instructions")]
    return [("", "no settings or profiles so far; only its AGENTS.md would count as instructions")]


def _about(root: Path, name: str) -> str:
    if name in PROJECT_FILES:
        return f"settings, which can only tighten yours{_settings(root / name)}"
    if not name.endswith(".md"):
        return "not read by Friday" if name != ".mcp.json" else "MCP servers, not used yet"
    try:
        raw = trust.content(root / name, root)
        if raw is not None and name.startswith((".friday/commands/", ".claude/commands/")):
            return _command(name, raw)
        if raw is None or not profiles.lookup.meant(raw):
            return "no profile"
        profile = profiles.parse(name, raw, origin="claude" if name.startswith(".claude/") else "project")
    except FileError as error:
        return f"cannot be used: {error}"
    tools = "its parent's" if profile.allowed_tools == "*" else ", ".join(sorted(profile.select(TOOLS.names))) or "none"
    place = f", in place of the built-in {profile.name}" if profile.name in profiles.lookup.SHIPPED_NAMES else ""
    return f"profile {profile.name}{place}; tools: {tools}"


def _command(name: str, raw: bytes) -> str:
    from . import commands

    prefix = "/".join(name.split("/")[:2]) + "/"
    called = name.removeprefix(prefix).removesuffix(".md").replace("/", ":").lower()
    found = commands.parse(name, called, raw, "claude" if name.startswith(".claude/") else "project")
    tools = "all that may be used" if found.tools is None else ", ".join(sorted(found.tools)) or "none"
    return f"command /{found.name}: a prompt that you can send; tools: {tools}"


def _settings(path: Path) -> str:
    import tomllib

    try:
        keys = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        return f" (cannot be read: {error})"
    return f" ({', '.join(keys)})" if keys else ""


def differences(standing: trust.Trust, *, env: Mapping[str, str] | None = None) -> list[str]:
    """What changed since the project was decided on, as lines of unified diffs.

    Of a file whose old content was not kept (too large, or decided on by an older Friday) only that it changed is said.
    """
    import difflib

    out: list[str] = []
    for change in standing.changed:
        mark, name = change[0], change[2:]
        old = b"" if mark == "+" else trust.kept(standing.before.get(name, ""), env=env)
        new = b"" if mark == "-" else _content(standing.root, name)
        out.append(sanitize(change, keep=""))
        if old is None or new is None:
            out.append("  (what it said before was not kept)" if old is None else "  (it cannot be read now)")
            continue
        before, after = (_lines(data) for data in (old, new))
        out += [f"  {row}" for row in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]]
    if len(out) > MOST_LINES:
        out[MOST_LINES:] = [f"({len(out) - MOST_LINES:,} more lines)"]
    return out


def _lines(data: bytes) -> list[str]:
    """Lines in which nothing is hidden: what cannot be seen is spelled out."""
    return [sanitize_line(visible, 300) for visible in _visible(data.decode("utf-8", "replace")).splitlines()]


def _visible(text: str) -> str:
    from friday_cli.core.text.sanitize import show_invisible

    return show_invisible(text.replace("\r\n", "\n"))


def _content(root: Path, name: str) -> bytes | None:
    try:
        return trust.content(root / name, root)
    except FileError:
        return None
