"""The names that `@` offers: the best first, shown while they are still being listed, and never a search without end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from friday_cli.frontends.tui.state.file_index import SHOWN, FileIndex, FileMatches
from friday_cli.frontends.tui.widgets.completion_popup import Completion, Popup
from tests.frontends.tui.chat import opened
from tests.workspace.worktrees.repo_fixture import commit, git, repository


async def last(files: FileIndex, query: str) -> list[str]:
    found = [known async for known in files.found(query, refresh=True)]
    assert found[-1].final
    return found[-1].names


async def matches(root: Path, query: str, *names: str) -> list[str]:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return await last(FileIndex(root), query)


async def test_a_name_that_begins_so_is_before_one_that_has_it_and_letters_in_order_are_last(tmp_path: Path) -> None:
    names = ("docs/app.md", "src/map.py", "app/x.py", "a/pp.txt", "src/APP_long.py", "other.py", "söpa/pp.txt")
    found = await matches(tmp_path, "app", *names)
    assert found == ["docs/app.md", "src/APP_long.py", "app/x.py", "a/pp.txt", "src/map.py", "söpa/pp.txt"]
    assert await matches(tmp_path, "src/m") == ["src/map.py"]
    assert await matches(tmp_path, "") == [
        "other.py",
        "a/pp.txt",
        "app/x.py",
        "docs/app.md",
        "src/APP_long.py",
        "src/map.py",
        "söpa/pp.txt",
    ]
    assert await matches(tmp_path, "zq.*") == []


async def test_a_name_of_one_letter_repeated_does_not_hold_the_search_up(tmp_path: Path) -> None:
    assert await matches(tmp_path, "aaaaaaaaaaab", "a" * 200, "b") == []


async def test_so_many_are_offered_and_no_name_twice(tmp_path: Path) -> None:
    found = await matches(tmp_path, "mm", *(f"mm/mm{n}mm" for n in range(SHOWN + 20)))
    assert len(found) == len(set(found)) == SHOWN


@pytest.mark.usefixtures("programs_in_temporary_folders")
@pytest.mark.parametrize("programs", ["", "git"])
async def test_without_ripgrep_git_or_a_walk_tells_the_same(
    programs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git cannot list a folder that is no repository, and then the walk does."""
    (tmp_path / "bin").mkdir()
    for name in programs.split():
        (tmp_path / "bin" / name).symlink_to("/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    root = tmp_path / "root"
    root.mkdir()
    (root / "loop").symlink_to(root)
    found = await matches(root, "", *(f"deep{n}/x.py" for n in range(150)), "top\n.py", "top.py")
    assert found[0] == "top.py"
    assert len(found) == 151


LAZY = """[core]
	repositoryFormatVersion = 1
	sparseCheckout = true
	fsmonitor = touch {mark}
	sshCommand = touch {mark}
[extensions]
	partialClone = origin
[protocol]
	allow = always
[protocol "ext"]
	allow = always
[remote "origin"]
	url = {url}
	promisor = true
	uploadPack = touch {mark};
"""


@pytest.mark.usefixtures("programs_in_temporary_folders")
@pytest.mark.parametrize("url", ["/none", "file:///none", "ssh://none/x", "ext::touch {mark}"])
async def test_names_are_listed_without_a_program_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """git reads the rules of a folder that is not checked out from an object, and would fetch it where it is missing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rg").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    root, mark = repository(tmp_path / "root"), tmp_path / "mark"
    (root / "d").mkdir()
    (root / "d/.gitignore").write_text("*.log\n")
    commit(root)
    missing = git(root, "rev-parse", "HEAD:d/.gitignore").strip()
    git(root, "update-index", "--skip-worktree", "d/.gitignore")
    (root / "d/.gitignore").unlink()
    (root / ".git/objects" / missing[:2] / missing[2:]).unlink()
    (root / "d/new.txt").touch()
    (root / ".git/config").write_text(LAZY.format(mark=mark, url=url.format(mark=mark)))
    async with opened(root, {"a": []}) as chat:
        await chat.type("see @new")
        await chat.until(lambda: "d/new.txt" in chat.frame and "still listing" not in chat.frame)
    assert not mark.exists()


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs_in_temporary_folders: None) -> Iterator[IO[bytes]]:
    """A ripgrep that lists what is written here, as long as this is open, in the folder `root`."""
    (tmp_path / "root").mkdir()
    (tmp_path / "bin").mkdir()
    fifo, script = tmp_path / "fifo", tmp_path / "bin" / "rg"
    os.mkfifo(fifo)
    script.write_text(f"#!/bin/sh\nexec cat '{fifo}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with os.fdopen(os.open(fifo, os.O_RDWR), "wb", buffering=0) as end:
        # for reading and writing: opening it does not block
        yield end


async def test_names_come_before_the_listing_ends_and_who_leaves_stops_it(tmp_path: Path, pipe: IO[bytes]) -> None:
    pipe.write(b"src/map.py\0half")
    files = FileIndex(tmp_path / "root")
    found = files.found("map", refresh=True)
    assert await anext(found) == FileMatches([], final=False, note="still listing: 0 files so far")
    assert await anext(found) == FileMatches(["src/map.py"], final=False, note="still listing: 1 files so far")
    pipe.write(b"map.py\0map.py\0")
    assert (await anext(found)).names == ["map.py", "src/map.py", "halfmap.py"]
    await files.close()
    assert (await anext(found, None)) is None
    assert [task.get_name() for task in asyncio.all_tasks() if "files" in task.get_name()] == []


async def test_the_row_of_the_cursor_stays_while_more_names_come(tmp_path: Path, pipe: IO[bytes]) -> None:
    async with opened(tmp_path / "root", {"a": []}) as chat:
        popup = chat.app.query_one(Popup)
        await chat.type("see @map")
        pipe.write(b"b/map.py\0c/map.py\0")
        await chat.until(lambda: "c/map.py" in chat.frame and "still listing" in chat.frame)
        await chat.press("down")
        pipe.write(b"map.py\0")
        await chat.until(lambda: " map.py" in chat.frame or "\nmap.py" in chat.frame)
        assert popup.highlighted == 1
        assert popup.chosen == Completion("@c/map.py ", "c/map.py")
        await chat.press("escape")
        await chat.until(lambda: "still listing" not in chat.frame and not popup.open)
        assert chat.composer.text == "see @map"
