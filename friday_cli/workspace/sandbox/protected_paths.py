"""The paths that a sandbox protects: secrets, and the parts of a git repository that a command must not change."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.system.project_search import repository_top

from . import inside

SECRETS = (
    "~/.ssh", "~/.aws", "~/.config/gcloud", "~/.azure", "~/.kube", "~/.gnupg", "~/.netrc", "~/.docker", "~/.npmrc", "~/.yarnrc",
    "~/.yarnrc.yml", "~/.pypirc", "~/.config/pip", "~/.git-credentials", "~/.config/git/credentials", "~/.config/gh",
    "~/.config/hub", "~/.config/glab-cli", "~/.pgpass", "~/.my.cnf", "~/.s3cfg", "~/.boto", "~/.cargo/credentials",
    "~/.cargo/credentials.toml", "~/.gem/credentials", "~/.bundle/config", "~/.m2/settings.xml", "~/.m2/settings-security.xml",
    "~/.gradle/gradle.properties", "~/.gradle/init.gradle", "~/.gradle/init.d", "~/.ivy2/.credentials", "~/.sbt/.credentials",
    "~/.composer/auth.json", "~/.config/composer/auth.json", "~/.nuget/NuGet", "~/.hex/hex.config", "~/.julia/servers",
    "~/.vault-token", "~/.terraform.d/credentials.tfrc.json", "~/.terraformrc", "~/.config/rclone", "~/.cache/huggingface/token",
    "~/.cache/huggingface/stored_tokens", "~/.huggingface", "~/.config/doctl", "~/.fly", "~/.config/fly", "~/.password-store",
    "~/.local/share/keyrings", "~/.config/op", "~/.1password", "~/.config/containers/auth.json", "~/.claude", "~/.claude.json",
    "~/.codex", "~/.gemini", "~/.config/github-copilot", "~/.local/share/opencode", "~/.mozilla", "~/.thunderbird",
    "~/.config/google-chrome", "~/.config/chromium", "~/.config/BraveSoftware", "~/.config/microsoft-edge", "~/.config/vivaldi",
    "~/Library/Keychains", "~/Library/Application Support", "~/Library/Cookies", "~/.bash_history", "~/.zsh_history",
    "~/.local/share/fish", "~/.python_history", "~/.node_repl_history", "~/.psql_history", "~/.mysql_history", "~/.colima",
    "~/.orbstack",
)  # fmt: skip
"""Files and folders of a user with keys or a history, that no confined command can read unless the settings name it: also
where the home itself is the folder of the commands, and below what tools need."""
SERVICE_VARIABLES = frozenset(
    ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
     "DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "TMUX", "STY",
     "GNOME_KEYRING_CONTROL", "NVIM", "VSCODE_IPC_HOOK_CLI")
)  # fmt: skip
"""Variables that name a service outside the sandbox: a key agent, docker, the session bus, a display, an editor."""
_FOLDERS, _FILES = ("hooks", "info", "modules"), ("config", "config.worktree", "commondir", "gitdir")
"""Parts of a git folder that name programs which git runs, or where git finds such names."""
_BRANCHES = "friday/"
"""Prefix of the branches of sub-agents' worktrees."""


def secret_paths(environ: Mapping[str, str], more: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths that no command can read: `SECRETS`, `more` from the settings, Friday's `own` folders, and the
    sockets that variables name. Raises UsageError for a relative path in `more`."""
    home = environ.get("HOME", "")
    named = [*(_expanded(path, home) for path in SECRETS), *absolute_paths(environ, more)]
    sockets = [_socket(environ[name]) for name in sorted(SERVICE_VARIABLES & environ.keys())]
    return tuple(path for path in (*named, *own, *sockets) if path.startswith("/") and path.strip("/"))


def absolute_paths(environ: Mapping[str, str], given: Sequence[str]) -> tuple[str, ...]:
    """Paths of the settings with `~` expanded. Raises UsageError for a relative path and one with a NUL character."""
    found = tuple(_expanded(text, environ.get("HOME", "")) for text in given)
    if wrong := [path for path in found if not path.startswith("/")]:
        raise UsageError(f"[sandbox] {wrong[0]!r} is not an absolute path.", hint="Start it with / or ~/.")
    if wrong := [path for path in found if "\0" in path]:
        raise UsageError(f"[sandbox] {wrong[0]!r} is not a path: it contains a NUL character.")
    return found


def _expanded(path: str, home: str) -> str:
    return home.rstrip("/") + path[1:] if path.startswith("~/") and home else path


def _socket(value: str) -> str:
    """The path in the value of a variable: a plain path, or that of an address such as `unix:///run/docker.sock`."""
    if value.startswith("/"):
        return value.partition(":")[0].partition(",")[0]
    found = re.search(r"unix:(?:path=|//)(/[^,;]+)", value)
    return found[1] if found else ""


class WritableFolder(msgspec.Struct, frozen=True):
    """Paths that come with a writable folder: `write` must be writable too, `freeze` must not change."""

    write: tuple[str, ...]
    freeze: tuple[str, ...]


def writable_folder(root: str, writable: Sequence[str] = ()) -> WritableFolder:
    """What git needs in the repository around `root`, and which files in it could run code later. A linked worktree needs
    its own git folder, the objects and its own branches; hooks, settings, index and branches of the main repository are
    not writable then. A repository below one of the folders `writable` may be made up by a command, and opens nothing."""
    freeze = [os.path.join(root, ".friday")]
    git = _git_above(root)
    if not git:
        return WritableFolder((), tuple(freeze))
    if os.path.isdir(git) and not os.path.islink(git):
        parts = [os.path.join(git, name) for name in _FOLDERS]
        return WritableFolder((git,), (*freeze, *parts, *_existing(git, _FILES), *_other_worktrees(git)))
    freeze.append(git)
    linked = _linked(git)
    if linked is None:
        return WritableFolder((), tuple(freeze))
    admin, common = linked
    freeze += _existing(admin, _FILES)
    if any(inside(common, os.path.realpath(folder)) for folder in (root, *writable)):
        return WritableFolder((), tuple(freeze))
    refs = [f"refs/heads/{_BRANCHES}", f"logs/refs/heads/{_BRANCHES}"] if _of_sub_agent(admin) else ["refs", "logs"]
    return WritableFolder(
        (admin, *(os.path.join(common, name.rstrip("/")) for name in ("objects", *refs))), tuple(freeze)
    )


def repository_folders(root: str) -> tuple[str, ...]:
    """The folders that git reads in the repository around `root`: all its files, and its git folder if it is elsewhere."""
    git = _git_above(root)
    if not git:
        return ()
    top = os.path.dirname(git)
    if os.path.isdir(git):
        return (top,)
    if linked := _linked(git):
        return (top, linked[1])
    module = os.path.realpath(os.path.join(top, _line(git).removeprefix("gitdir:").strip()))
    outer, found, _ = module.partition("/.git/modules/")  # a submodule's git folder is in the repository around it
    return (top, module) if found and os.path.realpath(top).startswith(f"{outer}/") else (top,)


def _git_above(root: str) -> str:
    """The `.git` of the repository around `root`, "" without one."""
    top = repository_top(Path(root))
    return str(top / ".git") if top else ""


def _existing(folder: str, names: Sequence[str]) -> list[str]:
    """The files that exist. A missing one must not get a mount point, because git reads an empty file as a broken one."""
    return [path for name in names if os.path.lexists(path := os.path.join(folder, name))]


def _of_sub_agent(admin: str) -> bool:
    """Whether the git folder of a linked worktree is that of a sub-agent."""
    return _line(os.path.join(admin, "HEAD")).startswith(f"ref: refs/heads/{_BRANCHES}")


def _other_worktrees(git: str) -> list[str]:
    """The settings files of the user's other linked worktrees. Those of sub-agents are excluded: they come and go."""
    folder = os.path.join(git, "worktrees")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    admins = [os.path.join(folder, name) for name in names]
    users = [path for path in admins if not _of_sub_agent(path)]
    return [file for path in users if not os.path.islink(path) for file in _existing(path, _FILES)]


def _linked(git: str) -> tuple[str, str] | None:
    """The own and the common git folder of a linked worktree whose `.git` file is `git`; None if it is not valid. The file
    is untrusted. It must name a folder among the worktrees of a repository that names the file in turn."""
    admin = os.path.realpath(os.path.join(os.path.dirname(git), _line(git).removeprefix("gitdir:").strip()))
    common = os.path.realpath(os.path.join(admin, _line(os.path.join(admin, "commondir")) or "?"))
    back = _line(os.path.join(admin, "gitdir"))
    if os.path.dirname(admin) != os.path.join(common, "worktrees") or not back:
        return None
    return (admin, common) if os.path.realpath(os.path.join(admin, back)) == os.path.realpath(git) else None


def _line(path: str) -> str:
    """The first line of a regular file, "" if it cannot be read."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(4096).rstrip("\n")
    except OSError:
        return ""
