"""Describes what a project would change, as text and as a diff, for the decision to trust it. All text is sanitized."""

from __future__ import annotations

import os
from pathlib import Path

from friday_cli.config.loader import PROJECT_FILES
from friday_cli.core.protocol.errors import FileError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize, sanitize_line, show_invisible
from friday_cli.core.tool_catalog import TOOLS

from . import instructions, profiles, trust
from .frontmatter import contents
from .plugins.places import IN_PROJECT
from .skills import files

MAX_LINES = 200
"""Lines of diffs shown; more are counted."""
COMMANDS = (".friday/commands/", ".agents/commands/", ".claude/commands/")
MAX_SKILLS = 40
"""Skills shown; more are counted."""


def unused_files(trust_status: trust.Trust) -> list[str]:
    """The files of an untrusted project that would be used if it were trusted, without exact copies of shipped profiles."""
    return (
        []
        if trust_status.ok
        else [name for name, sha in trust_status.files.items() if not profiles.is_shipped_copy(name, sha)]
    )


def unused_skills(trust_status: trust.Trust) -> list[str]:
    """The folders of the skills of a project that are not used, because it, or a file of them, is not trusted."""
    if trust_status.ok and not trust_status.skills_revised:
        return []
    tops = [name.removesuffix(f"/{files.FILE}") for name in trust_status.skills if name.endswith(f"/{files.FILE}")]
    changed = files.folders_above(row[2:] for row in trust_status.skills_revised)
    return [top for top in tops if not trust_status.ok or top in changed]


def notices(trust_status: trust.Trust, read: instructions.Instructions) -> list[str]:
    """A notice for the person, in one line, if a folder has files that trust would enable. `read`: the instructions."""
    unused = [*unused_files(trust_status), *unused_skills(trust_status)]
    texts = [] if read.trusted else [os.path.relpath(f.path, trust_status.root) for f in read.files if not f.own]
    if not (unused or texts):
        return []
    names = ", ".join(unused[:5]) + (f" and {len(unused) - 5} more" if len(unused) > 5 else "")
    parts = [trust_status.reason or f"Changed since you decided: {', '.join(r[2:] for r in trust_status.outdated)}."]
    parts += [f"Not used: {names}."] if unused else []
    parts += [f"Information only: {', '.join(texts)}."] if texts else []
    return [" ".join([*parts, "`friday trust` would allow this."])]


def needs_decision(trust_status: trust.Trust) -> bool:
    """Whether the person must decide on a project: there are unused files or instructions, and no decision for its present
    content."""
    if trust_status.state in ("new", "changed"):
        return bool(unused_files(trust_status) or trust_status.instructions or trust_status.skills)
    return bool(trust_status.outdated)


def lines(trust_status: trust.Trust) -> list[tuple[str, str]]:
    """(file, effect if trusted) for each file of a project, the instructions last."""
    root = trust_status.root
    hooks, scripts = _hooks(trust_status)
    own = [name for name, sha in trust_status.files.items() if not profiles.is_shipped_copy(name, sha)]
    rows = [row for name in own if not name.startswith(IN_PROJECT) for row in _rows(root, name)]
    rows += _plugins(trust_status)
    rows = [(name, "script of a hook" if name in scripts else about) for name, about in rows] + hooks
    rows += _skills(trust_status)
    for name in trust_status.instructions:
        size = pluralize(len((trust.content(root / name, root) or b"").strip().splitlines()), "line")
        who = "the main agent follows, and sub-agents with projectContext in their profile"
        about = f"instructions of {size} that {who}; what needs your permission is still asked about"
        rows.append((sanitize_line(name, 200), about))
    return rows or [("", "no settings, profiles or instructions yet; an AGENTS.md would be used as instructions")]


def _plugins(trust_status: trust.Trust) -> list[tuple[str, str]]:
    """The rows of the plugins of a project: what each brings."""
    if not any(name.startswith(IN_PROJECT) for name in trust_status.files):
        return []
    from .plugins import review

    return review.rows_of_project(trust_status)


def _rows(root: Path, name: str) -> list[tuple[str, str]]:
    """The rows of one file: one, and one more for each MCP server in it."""
    from . import mcp_review  # needed for the question only

    head = sanitize_line(name, 200)
    if name == mcp_review.FILE:
        return mcp_review.rows_of_file(root / name, head, root)
    if name == mcp_review.LANGUAGE_SERVERS:
        return mcp_review.rows_of_language_servers(root / name, head, root)
    about = sanitize_line(_about(root, name), 400)
    return [(head, about), *mcp_review.rows_of_profile(root / name, head, root)]


def _hooks(trust_status: trust.Trust) -> tuple[list[tuple[str, str]], set[str]]:
    """One row for each hook of a project: its whole command, and the hash of each script that it names; and those scripts."""
    found: list[tuple[str, str]] = []
    named: set[str] = set()
    for name in trust.HOOK_FILES:
        if name in trust_status.files:
            from .hooks.read import HookFile, HookFiles, program_of, read_hooks
            from .started_programs import UNCHECKED, is_unchecked

            data = trust.content(trust_status.root / name, trust_status.root) or b""
            file = HookFile(trust_status.root / name, data, "project", trust_status.root, trust_status.files)
            hooks, problems = read_hooks(HookFiles((file,)))
            for hook in hooks:
                named.update(sanitize_line(script, 200) for script, _ in hook.scripts)
                when = f"{hook.event} {hook.matcher}".strip()
                scripts = "".join(f"; {script} has the sha256 {sha[:12]}" for script, sha in hook.scripts)
                writes = f"; may write {', '.join(hook.entry.writes)}" if hook.entry.writes else ""
                writes += f"; {UNCHECKED}" if is_unchecked(program_of(hook.entry), trust_status.root) else ""
                found.append(
                    (sanitize_line(name, 200), sanitize_line(f"runs on {when}: {hook.name}{scripts}{writes}", 4000))
                )
            found += [(sanitize_line(name, 200), sanitize_line(problem, 400)) for problem in problems]
    return found, named


def _skills(trust_status: trust.Trust) -> list[tuple[str, str]]:
    """(folder, effect) for each skill of the project, with its scripts."""
    tops = [name.removesuffix(f"/{files.FILE}") for name in trust_status.skills if name.endswith(f"/{files.FILE}")]
    rows = []
    for top in tops[:MAX_SKILLS]:
        below = [name.removeprefix(f"{top}/") for name in trust_status.skills if name.startswith(f"{top}/")]
        rows.append((sanitize_line(top, 200), sanitize_line(_skill(trust_status, top, below), 400)))
    return [*rows, *([("", f"{len(tops) - MAX_SKILLS:,} more skills")] if len(tops) > MAX_SKILLS else ())]


def _skill(trust_status: trust.Trust, top: str, below: list[str]) -> str:
    from .skills.parse import parse

    sha = trust_status.skills[f"{top}/{files.FILE}"]
    if sha == files.UNTRUSTED:
        return "a skill that cannot be used: its files are too many or too large, or one leads out of the project, to a secret or to something that git ignores"
    folder = trust_status.root / top
    raw = contents(folder / files.FILE)
    try:
        if isinstance(raw, FileError):
            raise raw
        found = parse(folder, raw, sha, "project")
    except FileError as error:
        return f"cannot be used: {error}"
    scripts = [name for name in below if files.is_script(name)]
    more = f" and {len(scripts) - 3} more" if len(scripts) > 3 else ""
    named = f"; scripts, which run only as other commands do: {', '.join(scripts[:3])}{more}" if scripts else ""
    tools = f"; only with {', '.join(found.tools)}" if found.tools is not None else ""
    return f"skill {found.name} (sha256 {sha[:12]}): instructions that agents can load{tools}{named}"


def _about(root: Path, name: str) -> str:
    if name in trust.HOOK_FILES:
        more = "" if name == trust.HOOK_FILES[0] else ", used with the setting hooks.claude"
        return f"hooks: they can deny a call or ask you, run in the sandbox, and write only what they name{more}"
    if name in PROJECT_FILES:
        return f"settings; they can only restrict yours{_settings(root / name)}"
    if not name.endswith(".md"):
        return "not read by Friday"
    try:
        raw = trust.content(root / name, root)
        if raw is not None and name.startswith(COMMANDS):
            return _command(name, raw)
        if raw is None or not profiles.lookup.is_profile(raw):
            return "not a profile"
        from .profiles.parse import parse as parse_profile  # a start describes no file

        shared = name.startswith((".claude/", ".agents/"))
        profile = parse_profile(name, raw, origin="claude" if shared else "project")
    except FileError as error:
        return f"cannot be used: {error}"
    selected = ", ".join(sorted(profile.select(TOOLS.names))) or "none"
    tools = "those of its parent" if profile.allowed_tools == "*" else selected
    replaces = f", replaces the built-in {profile.name}" if profile.name in profiles.lookup.SHIPPED_NAMES else ""
    check = f"; runs the command `{profile.check}`, in the sandbox and without keys" if profile.check else ""
    return f"profile {profile.name}{replaces}; tools: {tools}{check}"


def _command(name: str, raw: bytes) -> str:
    from . import commands

    prefix = "/".join(name.split("/")[:2]) + "/"
    command_name = name.removeprefix(prefix).removesuffix(".md").replace("/", ":").lower()
    found = commands.parse(
        name, command_name, raw, "claude" if name.startswith((".claude/", ".agents/")) else "project"
    )
    tools = "all that are allowed" if found.tools is None else ", ".join(sorted(found.tools)) or "none"
    return f"command /{found.name}: a prompt; tools: {tools}"


def _settings(path: Path) -> str:
    import tomllib

    try:
        keys = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        return f" (cannot be read: {error})"
    return f" ({', '.join(keys)})" if keys else ""


def differences(trust_status: trust.Trust) -> list[str]:
    """The changes since the decision, as lines of unified diffs. A file whose old content was not stored (too large, or
    an older decision) is only named."""
    import difflib

    out: list[str] = []
    for change in (*trust_status.changed, *trust_status.outdated):
        mark, name = change[0], change[2:]
        old = b"" if mark == "+" else trust.stored_content(trust_status.before.get(name, ""))
        new: bytes | None = b""
        if mark != "-":
            try:
                new = trust.content(trust_status.root / name, trust_status.root)
            except FileError:
                new = None
        out.append(sanitize(change, keep=""))
        if old is None or new is None:
            out.append("  (its old content was not stored)" if old is None else "  (it cannot be read)")
            continue
        before, after = (_lines(data) for data in (old, new))
        out += [f"  {row}" for row in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]]
    if len(out) > MAX_LINES:
        out[MAX_LINES:] = [f"({len(out) - MAX_LINES:,} more lines)"]
    return out


def _lines(data: bytes) -> list[str]:
    """Lines with invisible characters made visible."""
    text = show_invisible(data.decode("utf-8", "replace").replace("\r\n", "\n"))
    return [sanitize_line(line, 300) for line in text.splitlines()]
