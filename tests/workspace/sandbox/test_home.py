"""Nothing hidden in a home can be read but what tools need, and what a person adds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox import home as home_paths
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.workspace.commands import run
from tests.workspace.sandbox.conftest import confined

OPEN = (
    ".gitconfig",
    ".config/git/ignore",
    ".cargo/config.toml",
    ".rustup/x",
    ".nvm/v/bin/x",
    ".rbenv/shims/x",
    ".local/bin/x",
    ".local/share/uv/x",
    ".m2/repository/x",
    ".cache/pip/x",
    ".odd/1/bin/x",
    ".odd/1/lib/x",
    "plain/x",
    ".mine/x",
)
CLOSED = (".npmrc", ".cargo/credentials.toml", ".m2/settings.xml", ".gradle/gradle.properties", ".docker/config.json",
          ".config/rclone/rclone.conf", ".cache/huggingface/token", ".s3cfg", ".my.cnf", ".config/doctl/config.yaml", ".fly/config",
          ".config/git/credentials", ".unknown", ".unknown.d/x", ".config/unknown/x", ".local/share/unknown/x", ".cache/unknown",
          ".odd/token", ".mine/secret")  # fmt: skip


@pytest.mark.parametrize("access", ["", "read_only"])
async def test_only_what_tools_need_can_be_read(
    root: Path, outside_tmp: Path, choice: SandboxChoice, access: str
) -> None:
    home = outside_tmp / "home"
    for name in (*OPEN, *CLOSED):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"<{name}>")
    environ = {**os.environ, "HOME": str(home), "PATH": f"{home}/.odd/1/bin:{os.environ['PATH']}"}
    policy = confined(choice, environ, read=("~/.mine", "~/.mine/secret"), read_deny=("~/.mine/secret",))
    workspace = LocalWorkspace(root, CommandHost(environ=environ, sandbox=policy))
    ran = await run(workspace, "cd; " + "; ".join(f"cat {name}" for name in (*OPEN, *CLOSED)), access=access)  # type: ignore[arg-type]
    await workspace.close()
    seen = {name for name in (*OPEN, *CLOSED) if f"<{name}>" in ran.output}
    assert seen == set(OPEN) - ({"plain/x"} if access == "read_only" else set())


async def test_what_a_home_gets_after_a_command_is_hidden_from_the_next(
    root: Path, outside_tmp: Path, choice: SandboxChoice
) -> None:
    home = outside_tmp / "home"
    home.mkdir()
    environ = {**os.environ, "HOME": str(home)}
    policy = confined(choice, environ, read_deny=("~/later", "~/é", "~/../beside"))
    workspace = LocalWorkspace(root, CommandHost(environ=environ, sandbox=policy))
    await run(workspace, "true")
    names = (".cargo/config.toml", ".cargo/credentials", "later/key", "é/key", "../beside/key")
    for name in names:
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(f"<{name}>")
    ran = await run(workspace, "cd; " + "; ".join(f"cat {name}" for name in names))
    await workspace.close()
    assert [name for name in names if f"<{name}>" in ran.output] == [".cargo/config.toml"]


def test_a_path_that_a_home_cannot_have_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".AWS").mkdir()
    here = tuple(f"{tmp_path}/{name}" for name in (".aws/x", ".ssh", "../y", "é", ""))
    paths = (*here, "/etc/z", f"{tmp_path}.ssh")
    assert home_paths.possible_paths(paths, str(tmp_path)) == tuple(path for path in paths if path != here[1])
    assert home_paths.possible_paths(paths, f"{tmp_path}/none") == paths


async def test_a_home_that_is_the_folder_itself_hides_only_keys(outside_tmp: Path, choice: SandboxChoice) -> None:
    if choice.kind == "landlock":
        pytest.skip("NOT TESTED HERE: Landlock protects nothing below the folder")
    for name in (".npmrc", ".unknown"):
        (outside_tmp / name).write_text(f"<{name}>")
    environ = {**os.environ, "HOME": str(outside_tmp)}
    workspace = LocalWorkspace(outside_tmp, CommandHost(environ=environ, sandbox=confined(choice, environ)))
    assert (await run(workspace, "cat .npmrc .unknown")).output.endswith("<.unknown>")
    await workspace.close()


def test_folders_of_programs_are_shown_without_their_surroundings() -> None:
    path = "/h/.docker/bin:/h/.nvm/versions/20/bin:/h/.local/bin:/h/.bun/bin:/h/bin:/h:/usr/bin:relative:/h/.config/bin"
    shown = home_paths.readable_paths({"PATH": path}, "/h")[len(home_paths.READABLE) :]
    assert shown == ("/h/.docker/bin", "/h/.nvm/versions/20", "/h/bin", "/h/.config/bin")
