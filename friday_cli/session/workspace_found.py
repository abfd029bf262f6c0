"""What the log says of the folder before the first request of a process: its commit, and the files that steer agents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from friday_cli.core.eventlog.requests import encoded
from friday_cli.core.protocol.events import WorkspaceFound
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.system import safe_files
from friday_cli.system.git_head import first_line, git_folder, git_head
from friday_cli.system.paths import config_dir

from .open_context import OpenContext, Options

DIGITS = 12
"""Hexadecimal digits of a digest that are kept."""
MOST_REFS = 16_000_000
"""Bytes of the list of branches that are read."""
_COMMIT = pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")


def workspace_found(context: OpenContext, options: Options) -> WorkspaceFound:
    """The commit and the steering files of a session that is being opened, and its options. Reads small files, runs nothing."""
    flags = {name: value for name, value in options.flags.items() if value is not None}
    return WorkspaceFound(
        _commit(context.root),
        dict(sorted(_steering(context))),
        options.attended,
        allow=options.allow,
        deny=options.deny,
        folders=tuple(map(str, options.add_dirs)),
        flags=flags,
    )


def _steering(context: OpenContext) -> Iterator[tuple[str, str]]:
    """(name, digits) of what is not part of Friday itself."""
    for name, sha256 in context.trust.seen.items():
        yield name, sha256[:DIGITS]
    for profile in context.profiles.found.values():
        if profile.origin != "shipped":
            path = Path(profile.path)
            yield f"profile {profile.name}", _digits(path.read_bytes() if path.is_file() else profile.prompt.encode())
    for file in context.instructions.files:
        if file.own:
            yield file.path, _digits(file.text.encode("utf-8", "replace"))
    hooks = config_dir(context.env) / "hooks.json"
    if hooks.is_file():
        yield "hooks.json", _digits(hooks.read_bytes())
    yield "settings", _digits(encoded(context.settings))


def _digits(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def _commit(root: Path) -> str:
    """The commit of the repository at `root`; "" if there is none yet."""
    head = git_head(root)
    try:
        git = git_folder(root)
        if not head.startswith("ref: "):
            return head if _COMMIT().fullmatch(head) else ""
        name, shared = head.removeprefix("ref: "), git / "commondir"
        common = git / first_line(shared) if shared.is_file() else git
        if (ref := common / name).is_file():
            commit = first_line(ref)
        else:
            packed = safe_files.read_linked(common / "packed-refs", MOST_REFS).decode("utf-8", "replace")
            commit = next((line[:64].split(" ")[0] for line in packed.splitlines() if line.endswith(f" {name}")), "")
    except (OSError, ValueError):
        return ""
    return commit if _COMMIT().fullmatch(commit) else ""
