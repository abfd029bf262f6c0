"""The environment and the limits of a read-only command, and the secret files in its folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from friday_cli.core.permissions.dangerous import secrets

_GIT_SETTINGS = {
    "core.fsmonitor": "false", "core.hooksPath": "/dev/null", "core.pager": "cat", "core.sshCommand": "false",
    "credential.helper": "", "protocol.allow": "never", "safe.bareRepository": "explicit", "log.showSignature": "false",
    "gpg.program": "false", "gpg.ssh.program": "false", "gpg.x509.program": "false", "maintenance.auto": "false",
}  # fmt: skip
"""Settings of git that apply before those of a repository: none of them names a program or a server."""
_GIT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_PAGER": "cat"}
"""git writes no index just to be faster next time, and fetches no missing object."""
_DROPPED = frozenset((
    "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_PARAMETERS",
    "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "LESSOPEN", "LESSCLOSE", "BASH_ENV", "ENV",
))  # fmt: skip
"""Variables that name programs or options of programs."""
_LIMITS = {"cpu": 600, "data": 4 << 30, "fsize": 1 << 30}
"""Seconds of processor time, bytes of memory, bytes of a file: of each process."""
_MORE_PROCESSES = 1_000
"""Processes that may exist in addition to those that run on this machine."""
MAX_NAMES = 20_000
"""Names that are searched for secret files, per folder."""
_SKIPPED = frozenset((".git", ".venv", "venv", "node_modules", "site-packages", "vendor"))
"""Folders that are not searched: git's own, and those of other people's code, where a file like a key is an example."""


def environ(given: Mapping[str, str]) -> dict[str, str]:
    """`given` without what names programs, and with neutral settings for git."""
    kept = {name: text for name, text in given.items() if name not in _DROPPED and not name.startswith("GIT_TRACE")}
    count = given.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isascii() and count.isdigit() else 0
    for number, (name, text) in enumerate(_GIT_SETTINGS.items(), first):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": text}
    return {**kept, **_GIT, "GIT_CONFIG_COUNT": str(first + len(_GIT_SETTINGS))}


def limits() -> dict[str, int]:
    """Resource limits by their lower-case POSIX names."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            running = int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return _LIMITS
    return {**_LIMITS, "nproc": running + _MORE_PROCESSES}


def secret_files(folders: Sequence[str]) -> tuple[str, ...]:
    """The files below `folders` whose names look secret, among the first `MAX_NAMES` names of each. Blocks."""
    found: set[str] = set()
    for top in folders:
        names: list[str] = []
        waiting = [top]
        while waiting and len(names) < MAX_NAMES:
            folder = waiting.pop(0)
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if not entry.is_dir(follow_symlinks=False):
                            names.append(entry.path)
                        elif entry.name not in _SKIPPED:
                            waiting.append(entry.path)
            except OSError:
                continue
        within = len(top.rstrip("/")) + 1
        labels = {path[within:]: path for path in names}
        found |= {labels[label] for label in secrets(tuple(labels))}
    return tuple(sorted(found))
