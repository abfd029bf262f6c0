"""A rewind removes nothing that a command only made visible or moved, and nothing whose content is not kept."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.session.harness import Harness, does, says
from tests.session.test_rewind import everything, runs

BIG = b"b" * 1_500_000
SMALL = {"checkpoints.file_megabytes": 1}


def git(harness: Harness, *args: str) -> None:
    argv = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main", *args]
    subprocess.run(argv, cwd=harness.project, check=True, capture_output=True)


@pytest.mark.parametrize("resolve", ["ask", "overwrite"])
@pytest.mark.parametrize(("ignored", "command"), [
    ("out/\n*.bin\n", "git checkout -q other"),
    ("out/\n*.bin\n", "unlink .gitignore"),
    ("out/\n*.bin\n", "unlink .gitignore; touch out/data; chmod g-r out/deep/*"),
    ("out/\n*.bin\n", "echo '!out/' >> .gitignore; echo '!*.bin' >> .gitignore"),
    ("/out/\n/*.bin\n", "mv out shown"),
    ("", "git init -q; rm dist/.gitignore"),
])  # fmt: skip
async def test_ignored_files_of_the_person_are_not_made_by_a_command(
    harness: Harness, ignored: str, command: str, resolve: str
) -> None:
    project = harness.project
    (project / "a.txt").write_text("a\n")
    git(harness, "init", "-q")
    git(harness, "add", "a.txt")
    git(harness, "commit", "-qm", "one")
    git(harness, "branch", "other")
    for folder in ("out/deep", "dist"):
        (project / folder).mkdir(parents=True)
    for name in ("out/data", "out/deep/x", "out/big.bin", "big.bin", "dist/made"):
        (project / name).write_bytes(BIG if "big" in name else b"mine\n")
    (project / "dist/.gitignore").write_text("*\n")
    if ignored:
        (project / ".gitignore").write_text(ignored)
        git(harness, "add", ".gitignore")
        git(harness, "commit", "-qm", "two")
    else:
        shutil.rmtree(project / ".git")
    mine = {data for _, data in everything(project).values() if data in (b"mine\n", BIG)}
    count = sum(data in mine for _, data in everything(project).values())
    harness.plays({"a": [does(runs(f"{command}; echo new > new.txt; echo b > a.txt")), says("done")]})
    async with harness.after_run(mode="yolo", flags=SMALL) as session:
        assert (project / "new.txt").exists()
        assert (await session.rewind.to(1, "files", conflicts=resolve)).done  # type: ignore[arg-type]
        assert not (project / "new.txt").exists()
        assert (project / "a.txt").read_text() == "a\n"
        assert sum(data in mine for _, data in everything(project).values()) == count


@pytest.mark.parametrize("resolve", ["ask", "overwrite"])
async def test_the_only_copy_of_a_large_file_stays_whatever_the_flag(harness: Harness, resolve: str) -> None:
    (harness.project / "big").write_bytes(BIG)
    (harness.project / "old").mkdir()
    (harness.project / "old/big").write_bytes(BIG + b"2")
    command = "mv big moved; mv old new; head -c 1500002 /dev/zero > made"
    harness.plays({"a": [does(runs(command)), says("done")]})
    async with harness.after_run(mode="yolo", flags=SMALL) as session:
        files = everything(harness.project)
        told = await session.rewind.to(1, dry_run=True, conflicts=resolve)  # type: ignore[arg-type]
        assert {lost.path for lost in told.lost} == {"big", "moved", "old/big", "new/big", "made"}
        assert (await session.rewind.to(1, conflicts=resolve)).done  # type: ignore[arg-type]
        assert everything(harness.project) == files


async def test_what_would_be_dropped_again_at_once_is_not_rewound(harness: Harness) -> None:
    """The contents that a session keeps have a limit: those of one rewind must fit into it."""
    harness.plays({"a": [does(runs("for n in 1 2 3; do head -c 500000 /dev/urandom > $n; done")), says("done")]})
    async with harness.after_run(mode="yolo", flags={"checkpoints.megabytes": 1}) as session:
        files = everything(harness.project)
        with pytest.raises(Exception, match=r"larger than what is kept for one session\. Nothing was changed"):
            await session.rewind.to(1)
        assert everything(harness.project) == files


async def test_a_folder_that_a_rewind_replaced_comes_back(harness: Harness) -> None:
    project = harness.project
    (project / "f").write_text("f\n")
    os.symlink("f", project / "link")
    (project / "d").mkdir()
    (project / "d/x").write_text("x\n")
    change = "rm -r f link d; mkdir -p f/g link; echo 1 > f/g/x; echo 2 > link/x; ln -s f d"
    harness.plays({"a": [does(runs(change)), says("done")]})
    before = everything(project)
    async with harness.after_run(mode="yolo") as session:
        agents = everything(project)
        for _ in range(2):
            assert (await session.rewind.to(1, "files")).done
            assert everything(project) == before
            assert (await session.rewind.undo()).done
            assert everything(project) == agents


async def test_files_that_become_ignored_are_not_deleted(harness: Harness) -> None:
    (harness.project / ".git").mkdir()
    for name in ("src", "lib"):
        (harness.project / name).mkdir()
        (harness.project / name / "x").write_text("x\n")
    command = "echo src/ > .gitignore; echo lib/ >> .gitignore; echo changed > lib/x"
    harness.plays({"a": [does(runs(command)), does(runs("echo again > src/x")), says("done")]})
    before = everything(harness.project)
    async with harness.after_run(mode="yolo") as session:
        assert {row.path for row in await session.rewind.changes()} == {".gitignore", "lib/x", "src/x"}
        assert (await session.rewind.to(1)).done
        assert everything(harness.project) == before
