from __future__ import annotations

import os
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.workspace.local import LocalWorkspace


@pytest.fixture
def outside(root: Path) -> Path:
    folder = root.parent / "ws-evil"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    (root / "in.txt").write_text("in")
    (root / "sub").mkdir()
    (root / "link").symlink_to(folder)
    (root / "file-link").symlink_to(folder / "secret.txt")
    (root / "dangling").symlink_to(folder / "new.txt")
    (root / "loop-a").symlink_to("loop-b")
    (root / "loop-b").symlink_to("loop-a")
    (root / "inner").symlink_to("sub")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "../ws-evil/secret.txt",
        "sub/../../ws-evil/secret.txt",
        "{root}-evil/secret.txt",
        "/etc/passwd",
        "..",
        "/",
        "link/secret.txt",
        "link/made/new.txt",
        "file-link",
        "dangling",
        "loop-a",
        "loop-a/x",
        "~/x",
        "~root/x",
        "~",
        "",
        "in.txt\0",
        "bad\ud800name",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../../../etc/passwd",
        "/dev/fd/0",
        "x" * 5000,
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_nothing_outside_is_reached(
    workspace: LocalWorkspace, root: Path, outside: Path, path: str, write: bool
) -> None:
    with pytest.raises(ToolError):
        workspace.resolve(path.replace("{root}", str(root)), write=write)


@pytest.mark.parametrize(
    ("path", "label"),
    [
        (".", "."),
        ("in.txt", "in.txt"),
        ("./sub/../in.txt", "in.txt"),
        ("inner/new.txt", "sub/new.txt"),
        ("not/there/yet.txt", "not/there/yet.txt"),
        ("in.txt ", "in.txt "),
        ("in.txt.", "in.txt."),
        ("-rf", "-rf"),
        ("a\nb", "a\nb"),
        ("{root}/in.txt", "in.txt"),
        ("/proc/self/root{root}/in.txt", "in.txt"),
    ],
)
def test_paths_inside_are_labelled_relative_to_the_root(
    workspace: LocalWorkspace, root: Path, outside: Path, path: str, label: str
) -> None:
    assert workspace.label(path.replace("{root}", str(root))) == label


def test_a_file_name_may_begin_with_a_tilde(workspace: LocalWorkspace, root: Path) -> None:
    (root / "~draft").write_text("x")
    assert workspace.resolve("~draft") == root / "~draft"


def test_a_path_with_a_trailing_slash_is_not_a_file_to_write(workspace: LocalWorkspace, root: Path) -> None:
    with pytest.raises(ToolError, match="folder"):
        workspace.resolve("new/", write=True)


def test_rules_see_the_name_asked_for_and_the_file_behind_it(workspace: LocalWorkspace, outside: Path) -> None:
    assert workspace.labels("inner/x") == ("sub/x", "inner/x")
    assert workspace.labels("in.txt") == ("in.txt",)


def test_paths_in_extra_folders_are_labelled_with_their_full_path(root: Path, outside: Path) -> None:
    workspace = LocalWorkspace(root, extra=[outside])
    assert workspace.label("../ws-evil/secret.txt") == str(outside / "secret.txt")
    assert workspace.label("file-link") == str(outside / "secret.txt")
    assert workspace.roots == (root, outside)


def test_saved_output_can_be_read_but_not_written(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    kept = str(tmp_path / "spill" / "output.txt")
    assert workspace.resolve(kept) == Path(kept)
    with pytest.raises(ToolError, match="outside"):
        workspace.resolve(kept, write=True)


def test_a_root_that_is_a_link_is_resolved(tmp_path: Path, root: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    workspace = LocalWorkspace(tmp_path / "alias")
    (root / "x").write_text("")
    assert workspace.root == root
    assert workspace.label(str(tmp_path / "alias" / "x")) == "x"


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_root_must_be_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        LocalWorkspace(tmp_path / name)


def test_resolving_creates_nothing(workspace: LocalWorkspace, root: Path) -> None:
    workspace.resolve("a/b/c", write=True)
    assert os.listdir(root) == []
