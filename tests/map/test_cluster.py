"""What `--engine ray` needs of Friday without Ray: limits over several workers, the copy of a folder, and a missing extra.
`python -m tests.map.ray` tries the whole on a cluster."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import FridayError, ProviderError
from friday_cli.map import folder_copy
from friday_cli.map.caps import Cap
from friday_cli.map.cluster_limits import ClusterLimits, ClusterRateLimiter, Used
from friday_cli.map.job import MapJob
from tests.map import simulation
from tests.virtual import virtual
from tests.workspace.worktrees.repo_fixture import repository

LANE = "a service"


class Worker:
    """A worker with one try. `limiter` is what its requests use; `used` is what the try has used."""

    def __init__(self, limits: ClusterLimits, name: str, cost: float = 1.0) -> None:
        async def ask(method: str, *values: Any) -> Any:
            return await getattr(limits, method)(*values)

        limits.begin(name, Cap(cost))
        self.used = Used()
        self.limiter = ClusterRateLimiter(
            LANE,
            ask=ask,
            tell=lambda method, *values: getattr(limits, method)(*values),
            current=lambda: (name, self.used),
        )


@virtual
async def test_a_back_off_of_one_worker_delays_all() -> None:
    limits = ClusterLimits(Cap(1.0), None)
    first, second = Worker(limits, "first"), Worker(limits, "second")
    number = await first.limiter.acquire()
    wait = first.limiter.back_off(1, retry_after=5.0, crowded=True)
    first.limiter.release(number)
    assert wait >= 5
    assert first.limiter.wait_s >= 5
    begun = asyncio.get_running_loop().time()
    await second.limiter.acquire()
    assert asyncio.get_running_loop().time() - begun == pytest.approx(wait)


@virtual
async def test_an_outage_is_that_of_all_workers() -> None:
    limits = ClusterLimits(Cap(1.0), None)
    first, second = Worker(limits, "first"), Worker(limits, "second")
    number = await first.limiter.acquire()
    first.limiter.disconnected(number)
    first.limiter.release(number)
    probe = await second.limiter.acquire()
    waiting = asyncio.create_task(first.limiter.acquire())
    await asyncio.sleep(100)
    assert second.limiter.outage_s
    assert not waiting.done()  # one request tries it for all
    second.limiter.answered(probe)
    assert second.limiter.outage_s is None
    assert await waiting
    second.limiter.release(probe, succeeded=True)
    first.limiter.give_up(ProviderError("network", "It is away."))


@virtual
async def test_what_a_dead_worker_used_is_charged_and_its_slot_is_free() -> None:
    limits = ClusterLimits(Cap(0.10), None)
    dead, other = Worker(limits, "dead", 0.06), Worker(limits, "other", 0.04)
    dead.used = Used(100, 0.01, 50, 0.03)
    await dead.limiter.acquire()
    waiting = asyncio.create_task(dead.limiter.acquire())
    dead.limiter.back_off(1, retry_after=5.0, crowded=True)  # one request at a time from now on
    await asyncio.sleep(0)
    assert limits.end("dead", None) == (150, pytest.approx(0.04))
    number = await asyncio.wait_for(other.limiter.acquire(), 10)
    other.limiter.release(number, succeeded=True)
    assert limits.end("other", (70, 0.02)) == (70, 0.02)
    assert waiting.cancelled()


@virtual
async def test_no_request_starts_past_the_cap_of_the_cluster() -> None:
    limits = ClusterLimits(Cap(0.10), None)
    worker, other = Worker(limits, "worker"), Worker(limits, "other")
    worker.used, other.used = Used(cost=0.05), Used(cost=0.04, held_cost=0.02)
    assert await worker.limiter.acquire()
    with pytest.raises(ProviderError, match="cap") as refused:
        await other.limiter.acquire()
    assert refused.value.kind == "quota"  # the item waits, and nothing starts


def test_simulated_batches_with_refusals_and_deaths_keep_their_caps(capsys: pytest.CaptureFixture[str]) -> None:
    for cap in (24.0, 0.6):
        simulation.simulate(300, 16, rate=3, deaths=0.05, cap=cap)
    whole, capped = capsys.readouterr().out.splitlines()
    assert "| 300 | 0 |" in whole or "| 299 | 1 |" in whole
    assert int(capped.split("|")[4]) < 300


def git(folder: Path, *words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout


def test_a_folder_is_copied_as_it_is_and_commits_come_back(tmp_path: Path) -> None:
    top = tmp_path / "project"
    repository(top, **{"kept.txt": "old\n", "gone.txt": "x\n", "inside/a.txt": "a\n", ".gitignore": "*.log\n"})
    (top / "kept.txt").write_text("new\n")
    (top / "gone.txt").unlink()
    (top / "added.txt").write_text("added\n")
    (top / "a.log").write_text("ignored\n")
    packed = folder_copy.pack(top / "inside")
    copy = folder_copy.unpack(packed, tmp_path / "copy")
    assert copy == tmp_path / "copy" / "inside"
    files = {path.name for path in copy.parent.rglob("*") if path.is_file() and ".git" not in path.parts}
    assert files == {"kept.txt", "a.txt", "added.txt", ".gitignore", "README.md"}
    assert git(copy.parent, "status", "--porcelain") == git(top, "status", "--porcelain")
    git(copy, "checkout", "-q", "-b", "work")
    git(copy, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qam", "work")
    bundle = tmp_path / "work.bundle"
    bundle.write_bytes(folder_copy.bundle_branch(copy, "work", packed.head))
    folder_copy.fetch_branch(top, "work", bundle)
    assert git(top, "show", "work:kept.txt") == "new\n"
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a\n")
    assert (folder_copy.unpack(folder_copy.pack(plain), tmp_path / "other") / "a.txt").read_text() == "a\n"


def test_a_packed_folder_has_nothing_from_behind_a_link(tmp_path: Path) -> None:
    top = repository(tmp_path / "project", **{"inside/a.txt": "a\n", "b.txt": "b\n"})
    (outside := tmp_path / "outside").mkdir()
    (outside / "a.txt").write_text("CANARY")
    (top / "inside").rename(tmp_path / "was")
    (top / "inside").symlink_to(outside)
    os.mkfifo(top / "pipe")
    with tarfile.open(fileobj=io.BytesIO(folder_copy.pack(top).files)) as archive:
        assert {m.name: (m.linkname, m.size) for m in archive} == {
            "inside": (str(outside), 0),
            "README.md": ("", 8),
            "b.txt": ("", 2),
        }


@pytest.mark.parametrize("name", ["/tmp/outside.txt", "../outside.txt", "link/inside.txt"])
def test_a_packed_folder_writes_nothing_outside_also_before_python_3_11_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delattr(tarfile, "tar_filter", raising=False)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(FridayError, match="outside it"):
        folder_copy.unpack(folder_copy.FolderPack(".", out.getvalue()), tmp_path / "copy")
    assert not (tmp_path / "inside.txt").exists()


def test_the_engine_does_not_change_which_batch_it_is() -> None:
    job = MapJob("/p", "worker", "items", "items.jsonl", "{id}", 1.0)
    assert MapJob("/p", "worker", "items", "items.jsonl", "{id}", 1.0, engine="ray").id == job.id


def test_the_engine_is_made_for_the_ray_that_is_installed() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'friday-cli[ray]'")
    from friday_cli.map.ray_engine import RayEngine

    assert {"run", "stop", "close", "budget"} <= set(dir(RayEngine))
