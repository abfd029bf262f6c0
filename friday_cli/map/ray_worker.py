"""The part of `--engine ray` that runs in a process of a Ray worker: items one after the other, in a session of the process."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import msgspec
import ray
from msgspec.structs import replace

from friday_cli import __version__
from friday_cli.core.limits.rate_limit import RateLimiter
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.text.known_keys import mask_keys_in
from friday_cli.session.open_context import Options
from friday_cli.system.paths import config_dir

from .cluster_limits import ClusterRateLimiter, Used
from .engine import EmbeddedEngine, ItemResult, ItemTask
from .folder_copy import FolderPack, bundle_branch, unpack
from .job import profile_digest

PREFIX = "friday-map-"
"""Of the temporary folder of a worker; the number of its process follows."""


class Setup(msgspec.Struct, frozen=True):
    """What a worker needs to know of a batch. `files` are those of the configuration folder, without keys. `identities`: digest
    and model of each profile that items use, which must be the same on the worker."""

    title: str
    version: str
    options: Options
    folder: FolderPack
    files: dict[str, bytes]
    identities: dict[str, str]


class Handed(msgspec.Struct, frozen=True):
    """What a worker hands back: how an item ended, the new events of its session, and the commits of the item's branch."""

    done: ItemResult
    session: str = ""
    events: list[Envelope] = []
    bundle: bytes = b""


def identity(engine: EmbeddedEngine, profile: str) -> str:
    """What a profile says and which model it uses."""
    found = engine.items.profile(profile)
    provider = engine.items.provider(found)
    return f"{profile_digest(found)} {provider.name}/{provider.model}"


class Worker:
    """A process that runs items of one batch. `limits` is the actor with the limits of the cluster."""

    def __init__(self, setup: Setup, limits: Any) -> None:
        self._setup, self._limits = setup, limits
        self._engine: EmbeddedEngine | None = None
        self._seen = 0
        self._folder = Path()
        _remove_left_folders()
        self._temporary = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True)
        self._try, self._key = "", ""

    async def run(self, name: str, work: ItemTask) -> Handed:
        """Do the work of an item; `name` is that of the try."""
        self._try, self._key = name, work.key
        try:
            engine = self._engine = self._engine or await self._open()
            done = await engine.run(work)
            if done.changed and not work.isolation:
                done = replace(
                    done, state="failed", error="it changed files on a worker, which are lost: add --isolation worktree"
                )
            bundle = b""
            if done.branch:
                await engine.items.keep_branch(done.agent.partition(":")[2])
                bundle = bundle_branch(self._folder, done.branch, self._setup.folder.head)
        except FridayError as error:
            return Handed(mask_keys_in(ItemResult("waiting", error=f"A worker cannot run it: {error}", stop=True)))
        events = await engine.items.events(self._seen)
        self._seen = events[-1].seq or self._seen if events else self._seen
        return mask_keys_in(Handed(done, engine.session, events, bundle))

    async def _open(self) -> EmbeddedEngine:
        setup, top = self._setup, Path(self._temporary.name)
        if setup.version != __version__:
            raise FridayError(f"it has Friday {__version__}, the batch was started by {setup.version}")
        home, own = top / "home", config_dir() / "auth.toml"
        for name, content in setup.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (home / name).write_bytes(content)
        home.mkdir(exist_ok=True, mode=0o700)
        if own.exists():
            (home / "auth.toml").symlink_to(own)
        os.environ["FRIDAY_HOME"] = str(home)
        self._folder = unpack(setup.folder, top / "folder")
        os.chdir(self._folder)  # as where the batch was started
        options = replace(setup.options, cwd=self._folder, make_rate_limiter=self._limiter)
        engine = await EmbeddedEngine.open(options, setup.title, os.environ)
        for profile, expected in setup.identities.items():
            if identity(engine, profile) != expected:
                raise FridayError(f"the profile {profile!r} or its model is another one there")
        return engine

    def _limiter(self, key: str) -> RateLimiter:
        limits = self._limits
        limiter = ClusterRateLimiter(
            key,
            ask=lambda method, *values: getattr(limits, method).remote(*values),
            tell=lambda method, *values: ray.get(getattr(limits, method).remote(*values)),
            current=self._current,
        )
        return cast(RateLimiter, limiter)

    def _current(self) -> tuple[str, Used]:
        assert self._engine is not None
        budget = self._engine.budgets[self._key]
        tokens, cost = budget.tokens, budget.cost
        return self._try, Used(int(tokens.spent), cost.spent, int(tokens.reserved), cost.reserved)


def _remove_left_folders() -> None:
    """Remove the folders of workers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        try:
            os.kill(int(folder.name.split("-")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, PermissionError):
            continue


_worker: Worker | None = None
_loop = asyncio.new_event_loop()


def run_item(setup: list[Any], limits: Any, name: str, work: ItemTask) -> Handed:
    """The Ray task of an item. `setup` has one reference to a `Setup`, which is read once in a process."""
    global _worker
    if _worker is None:
        _worker = Worker(ray.get(setup[0]), limits)
    asyncio.set_event_loop(_loop)
    return _loop.run_until_complete(_worker.run(name, work))
