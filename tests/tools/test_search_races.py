"""Searches while files and folders are replaced by links: nothing is read but what the walk found below the folder."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.system.gitignore import WalkedFile, walk_files
from friday_cli.tools import documents, files, search
from friday_cli.tools.search import scan
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from tests.tools.tool_workspace import ToolHarness
from tests.workspace.sandbox.conftest import choice, confined, outside_tmp, root

__all__ = ["choice", "outside_tmp", "root"]
HIDDEN = "HIDDEN"


def found(folder: Path) -> list[WalkedFile]:
    return list(walk_files(str(folder), str(folder), None, hidden=False))


def planted(folder: Path) -> Path:
    """A workspace beside a folder whose files must not be read."""
    (folder / "outside").mkdir()
    (folder / "outside/f.txt").write_text(HIDDEN)
    (folder / "ws/d").mkdir(parents=True)
    (folder / "ws/d/f.txt").write_text("plain")
    (folder / "ws/.env").write_text(HIDDEN)
    return folder / "ws"


def swap(path: Path, target: Path) -> None:
    """Put a link in place of a file or folder."""
    path.rename(path.with_name("away"))
    path.symlink_to(target)


def test_a_file_that_becomes_a_link_after_it_was_found_is_not_read(tmp_path: Path) -> None:
    ws = planted(tmp_path)
    files = walk_files(str(ws), str(ws), None, hidden=False)
    file = next(files)
    assert scan._text(file) == "plain"
    swap(ws / "d/f.txt", tmp_path / "outside/f.txt")
    assert scan._text(file) is None


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    """Before it is entered, and while it is read."""
    ws = planted(tmp_path)
    (ws / "a.txt").write_text("first")
    files = walk_files(str(ws), str(ws), None, hidden=False)
    assert scan._text(next(files)) == "first"
    swap(ws / "d", tmp_path / "outside")
    assert list(files) == []
    (ws / "d").unlink()
    (ws / "away").rename(ws / "d")
    files = walk_files(str(ws), str(ws), None, hidden=False)
    next(files)
    inside = next(files)
    swap(ws / "d", tmp_path / "outside")
    assert scan._text(inside) == "plain", "the folder that was found, wherever it is now"


@pytest.mark.parametrize("only", ["", "d/f.txt"])
def test_a_folder_above_the_searched_one_is_not_followed(tmp_path: Path, only: str) -> None:
    ws = planted(tmp_path)
    swap(ws / "d", tmp_path / "outside")
    request = scan.ScanRequest(
        root=str(ws),
        base=str(ws / "d"),
        only=str(ws / only) if only else "",
        mode="content",
        pattern=".",
        ignore_case=False,
        context=0,
        hidden=False,
        ignore=False,
        name="",
    )
    assert list(scan._files(request)) == []


def test_a_tree_of_a_thousand_levels_and_a_loop_end(tmp_path: Path) -> None:
    path = tmp_path
    for _ in range(300):
        path /= "d"
    path.mkdir(parents=True)
    (tmp_path / "d/loop").symlink_to(tmp_path)
    (path / "f").write_text("x")
    assert [file.name for file in found(tmp_path)] == ["f"]


async def test_a_program_that_looks_for_friday_reads_no_secret(root: Path, choice: object, tmp_path: Path) -> None:
    """What stands for ripgrep here follows links: the sandbox must hold. `HOME` is beside the workspace."""
    home = root.parent / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_rsa").write_text(HIDDEN)
    (root / ".env").write_text(HIDDEN)
    (root / "plain.txt").write_text("plain")
    (root / "a").symlink_to(home / ".ssh/id_rsa")
    (root / "b").symlink_to(".env")
    workspace = LocalWorkspace(
        root,
        CommandHost(overflow_folder=tmp_path / "spill", sandbox=confined(choice, {"HOME": str(home)})),  # type: ignore[arg-type]
    )
    try:
        for turn in range(2):
            ran = await workspace.execute(
                ["cat", "a", "b", ".env", "plain.txt"], agent="a", timeout_s=20, limit=10_000, read_only=True
            )
            assert (ran.out, ran.exit_code) == (b"plain", 1), (turn, ran.err)
        ran = await workspace.execute(["touch", "made"], agent="a", timeout_s=20, limit=10_000, read_only=True)
        assert not (root / "made").exists()
    finally:
        await workspace.close()


async def race(folder: Path, calls: int, workspace: LocalWorkspace | None = None) -> tuple[int, int, int]:
    """Calls of all tools that read, while a thread swaps a file and its folder for links: calls that showed something hidden,
    calls that read the file, swaps."""
    ws, stop, swaps = folder / "ws", threading.Event(), 0
    desk = ToolHarness(
        ws, *search.tools(), *files.tools(), *documents.tools(), workspace=workspace or LocalWorkspace(ws)
    )

    def work() -> None:
        nonlocal swaps
        targets = [folder / "outside/f.txt", ws / ".env"]
        while not stop.is_set():
            with contextlib.suppress(OSError):
                os.symlink(targets[swaps % 2], ws / "d/link")
                os.replace(ws / "d/link", ws / "d/f.txt")
                (ws / "d/new").write_text("plain")
                os.replace(ws / "d/new", ws / "d/f.txt")
            with contextlib.suppress(OSError):
                os.rename(ws / "d", ws / "e")
                os.symlink(folder / "outside", ws / "d")
                os.unlink(ws / "d")
                os.rename(ws / "e", ws / "d")
            swaps += 1

    thread = threading.Thread(target=work)
    thread.start()
    leaks = read = 0
    asked: list[tuple[str, dict[str, object]]] = [
        ("grep", {"pattern": "HIDDEN|plain"}), ("grep", {"pattern": "HIDDEN|plain", "path": "d"}),
        ("grep", {"pattern": "HIDDEN|plain", "path": "d/f.txt"}), ("read_file", {"path": "d/f.txt"}),
        ("document_query", {"path": "d/f.txt", "query": "HIDDEN plain"}),
    ]  # fmt: skip
    try:
        for turn in range(calls):
            name, arguments = asked[turn % len(asked)]
            with contextlib.suppress(ToolError):
                text = await desk.judged(name, **arguments)
                shown = text.replace("HIDDEN|plain", "")
                leaks += HIDDEN in shown
                read += "plain" in shown
    finally:
        stop.set()
        thread.join()
        await desk.workspace.close()
    return leaks, read, swaps


async def test_a_race_of_links_shows_nothing_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m tests.tools.test_search_races` runs 5,000 calls, also with ripgrep."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    planted(tmp_path)
    leaks, read, swaps = await race(tmp_path, 60)
    assert (leaks, read > 5, swaps > 20) == (0, True, True)


if __name__ == "__main__":
    import asyncio
    import tempfile

    from friday_cli.workspace.sandbox.detect import detect_sandbox

    for searched in ("with the rg on PATH, if there is one", "without rg"):
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as made:
            place = Path(os.path.realpath(made))
            planted(place)
            (place / "bin").mkdir()
            if searched == "without rg":
                os.environ["PATH"] = str(place / "bin")
            policy = confined(detect_sandbox("auto", os.environ), {"HOME": str(place / "outside")})
            confined_here = LocalWorkspace(place / "ws", CommandHost(sandbox=policy))
            print(searched, "- leaks, read, swaps:", asyncio.run(race(place, 2_500, confined_here)))
