"""What is secret on a machine, and what of a git repository a command needs, and must not change."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from friday_cli.core.protocol.errors import UsageError

SECRETS = (
    "~/.ssh", "~/.aws", "~/.config/gcloud", "~/.azure", "~/.kube", "~/.gnupg", "~/.netrc", "~/.docker/config.json",
    "~/.npmrc", "~/.pypirc", "~/.git-credentials", "~/.config/git/credentials", "~/.config/gh", "~/.config/hub",
    "~/.pgpass", "~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials", "~/.vault-token",
    "~/.terraform.d/credentials.tfrc.json", "~/.password-store", "~/.local/share/keyrings", "~/.config/op",
    "~/.1password", "~/.config/containers/auth.json", "~/.claude/.credentials.json", "~/.codex/auth.json", "~/.mozilla",
    "~/.config/google-chrome", "~/.config/chromium", "~/Library/Keychains", "~/.bash_history", "~/.zsh_history", "~/.python_history", "~/.node_repl_history",
    "~/.psql_history", "~/.mysql_history", "~/.docker/run", "~/.docker/desktop",
    "~/.colima", "~/.orbstack",
)  # fmt: skip
"""Files and folders of a person that no confined command reads; the last few are where docker listens."""
SPEAKERS = frozenset(
    ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
     "DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "TMUX", "STY",
     "GNOME_KEYRING_CONTROL", "NVIM", "VSCODE_IPC_HOOK_CLI")
)  # fmt: skip
"""Variables that lead to a service outside: an agent of keys, docker, the session's bus, a screen, an editor."""
_FOLDERS, _FILES = ("hooks", "info", "modules"), ("config", "config.worktree", "commondir", "gitdir")
"""What of a git folder names programs that git runs, or says where it finds such names."""
_OWN = "friday/"
"""Branches of sub-agents' worktrees begin so."""


def secrets(environ: Mapping[str, str], more: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths of what no command reads: `SECRETS`, `more` of the settings, Friday's `own` folders, and the
    sockets that variables name."""
    home = environ.get("HOME", "")
    named = [*(_expanded(path, home) for path in SECRETS), *folders(environ, more)]
    sockets = [_socket(environ[name]) for name in sorted(SPEAKERS & environ.keys())]
    return tuple(path for path in (*named, *own, *sockets) if path.startswith("/") and path.strip("/"))


def folders(environ: Mapping[str, str], given: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths of what the settings name, `~` expanded. Raises UsageError for a relative one."""
    found = tuple(_expanded(text, environ.get("HOME", "")) for text in given)
    if wrong := [path for path in found if not path.startswith("/")]:
        raise UsageError(f"[sandbox] {wrong[0]!r} is no absolute path.", hint="Begin it with / or ~/.")
    return found


def _expanded(path: str, home: str) -> str:
    return home.rstrip("/") + path[1:] if path.startswith("~/") and home else path


def _socket(value: str) -> str:
    """The path in the value of a variable: itself, or that of an address such as `unix:///run/docker.sock`."""
    if value.startswith("/"):
        return value.partition(":")[0].partition(",")[0]
    found = re.search(r"unix:(?:path=|//)(/[^,;]+)", value)
    return found[1] if found else ""


class WritableFolder(NamedTuple):
    """What belongs to a folder that may be written: what else may be, and what must stay as it is."""

    write: tuple[str, ...]
    freeze: tuple[str, ...]


def ground(root: str) -> WritableFolder:
    """What the repository around `root` needs, and what in it would run code later.

    A linked worktree needs its own git folder, the objects, and the branches that are its own; hooks, settings, index
    and branches of the repository itself stay out of reach.
    """
    freeze = [os.path.join(root, ".friday")]
    top = root
    while not os.path.lexists(git := os.path.join(top, ".git")):
        if top == (above := os.path.dirname(top)):
            return WritableFolder((), tuple(freeze))
        top = above
    if os.path.isdir(git) and not os.path.islink(git):
        parts = [os.path.join(git, name) for name in _FOLDERS]
        return WritableFolder((git,), (*freeze, *parts, *_present(git, _FILES), *_others(git)))
    freeze.append(git)
    linked = _linked(git)
    if linked is None:
        return WritableFolder((), tuple(freeze))
    admin, common = linked
    freeze += _present(admin, _FILES)
    own = _line(os.path.join(admin, "HEAD")).startswith(f"ref: refs/heads/{_OWN}")
    refs = [f"refs/heads/{_OWN}", f"logs/refs/heads/{_OWN}"] if own else ["refs", "logs"]
    return WritableFolder(
        (admin, *(os.path.join(common, name.rstrip("/")) for name in ("objects", *refs))), tuple(freeze)
    )


def _present(folder: str, names: Sequence[str]) -> list[str]:
    """The files there are: one that is missing cannot be mounted over, for git takes an empty one for a broken one."""
    return [path for name in names if os.path.lexists(path := os.path.join(folder, name))]


def _others(git: str) -> list[str]:
    """What leads the person's other linked worktrees of a repository; those of sub-agents come and go."""
    folder = os.path.join(git, "worktrees")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    admins = [os.path.join(folder, name) for name in names]
    kept = [path for path in admins if not _line(os.path.join(path, "HEAD")).startswith(f"ref: refs/heads/{_OWN}")]
    return [file for path in kept if not os.path.islink(path) for file in _present(path, _FILES)]


def _linked(git: str) -> tuple[str, str] | None:
    """The own and the common git folder of a linked worktree whose file `.git` is `git`.

    The file may be anybody's: it counts only where the folder it names lies among the worktrees of a repository and
    names the file back.
    """
    admin = os.path.realpath(os.path.join(os.path.dirname(git), _line(git).removeprefix("gitdir:").strip()))
    common = os.path.realpath(os.path.join(admin, _line(os.path.join(admin, "commondir")) or "?"))
    back = _line(os.path.join(admin, "gitdir"))
    if os.path.dirname(admin) != os.path.join(common, "worktrees") or not back:
        return None
    return (admin, common) if os.path.realpath(os.path.join(admin, back)) == os.path.realpath(git) else None


def _line(path: str) -> str:
    """The first line of a regular file, "" where there is none."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(4096).rstrip("\n")
    except OSError:
        return ""
