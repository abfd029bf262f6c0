"""A workspace whose commands are confined, by each sandbox that works on this machine; the others are skipped."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from friday_cli.config.settings import SandboxSettings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import SandboxChoice, detect_sandbox
from friday_cli.workspace.sandbox.policy import SandboxPolicy

KINDS = ("bubblewrap", "landlock", "seatbelt")


@cache
def chosen(kind: str) -> SandboxChoice | str:
    """The sandbox of a kind, or why it does not work here."""
    try:
        return detect_sandbox(kind, os.environ)  # type: ignore[arg-type]
    except UsageError as error:
        return error.message


@pytest.fixture(params=KINDS)
def choice(request: pytest.FixtureRequest) -> SandboxChoice:
    found = chosen(request.param)
    if isinstance(found, str):
        pytest.skip(f"NOT TESTED HERE: {found}")
    return found


@pytest.fixture
def outside_tmp() -> Iterator[Path]:
    """A folder that is not below a temp folder, which a sandbox covers."""
    for parent in (os.getcwd(), pwd.getpwuid(os.getuid()).pw_dir, "/opt", "/srv"):
        hidden = os.path.realpath(parent).startswith(("/tmp", "/var/tmp"))
        if os.access(parent, os.W_OK) and not hidden and " " not in parent:
            break
    else:
        pytest.skip("NOT TESTED HERE: every folder that can be written is a temporary one")
    folder = tempfile.mkdtemp(prefix=".sandbox-test-", dir=parent)
    yield Path(os.path.realpath(folder))
    for at, folders, _ in os.walk(folder):  # a command's copy of what its sandbox covers cannot be opened
        for path in (Path(at, name) for name in folders):
            if not path.is_symlink() and path.stat().st_uid == os.geteuid():
                path.chmod(0o700)
    shutil.rmtree(folder)


@pytest.fixture
def root(outside_tmp: Path) -> Path:
    folder = outside_tmp / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(outside_tmp: Path) -> Path:
    """A folder next to the workspace, with a file."""
    folder = outside_tmp / "outside"
    folder.mkdir()
    (folder / "file").write_text("as it was\n")
    return folder


def confined(
    choice: SandboxChoice, environ: dict[str, str] | None = None, own: Sequence[Path] = (), **more: object
) -> SandboxPolicy:
    """A sandbox in which this Python interpreter can be run, wherever it is installed. `more`: its settings."""
    settings = SandboxSettings(**{"write": (sys.prefix, sys.base_prefix), **more})  # type: ignore[arg-type]
    return SandboxPolicy(choice, settings, environ={**os.environ, **(environ or {})}, own=own)


@pytest.fixture
async def workspace(root: Path, choice: SandboxChoice, home: Path, tmp_path: Path) -> AsyncIterator[LocalWorkspace]:
    workspace = LocalWorkspace(
        root, CommandHost(overflow_folder=tmp_path / "spill", sandbox=confined(choice, own=(home / "friday",)))
    )
    yield workspace
    await workspace.close()


@pytest.fixture
async def unconfined(root: Path) -> AsyncIterator[LocalWorkspace]:
    workspace = LocalWorkspace(root)
    yield workspace
    await workspace.close()


async def git(folder: Path, *words: str) -> str:
    """Run the user's git, without a sandbox."""
    process = await asyncio.create_subprocess_exec(
        "git",
        "-c",
        "user.name=P",
        "-c",
        "user.email=p@localhost",
        *words,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
