"""The scripts that the hooks and MCP servers of a project name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from friday_cli.core.protocol.errors import FileError

from .hooks.read import programs_in
from .started_programs import ProgramText, scripts_of

SERVERS = ".mcp.json"


def files_that_run(root: Path, hook_files: Sequence[str], content: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """Those of the files `hook_files` with hooks, and the scripts that hooks and servers name, with their contents. `content` returns that
    of a file by its name below `root`, or raises FileError for one that cannot be trusted. Blocks."""

    def read(name: str) -> bytes | None:
        with suppress(FileError):
            return content(name)
        return None

    hooks = {name: data for name in hook_files if b'"hooks"' in (data := read(name) or b"")}
    programs = [program for data in hooks.values() for program in programs_in(data, root)]
    if servers := read(SERVERS):
        programs += _programs_of_servers(servers)
    names = dict.fromkeys(name for program in programs for name, _ in scripts_of(program, root, {}))
    bodies = {name: read(name) for name in names}
    return hooks | {name: body for name, body in bodies.items() if body is not None}


def _programs_of_servers(data: bytes) -> list[ProgramText]:
    from friday_cli.mcp.parse import check  # most projects have no servers
    from friday_cli.mcp.read import entries_in

    found = []
    with suppress(FileError):
        for name, entry in entries_in(SERVERS, data).items():
            with suppress(FileError):
                written = check(SERVERS, name, entry)[0]
                if written.command:
                    found.append(ProgramText(written.command, written.args))
    return found
