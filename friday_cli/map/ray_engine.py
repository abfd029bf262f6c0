"""Runs the items of a batch on a Ray cluster: each is a Ray task. Ray is imported with this module.

What the items do is kept here: their results in the store of batches, the events of the workers' sessions in the store of
sessions, their commits in the repository of the folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import ray
from msgspec.structs import replace
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from friday_cli import __version__
from friday_cli.config.loader import user_file
from friday_cli.core.limits.budget import Amounts, Budget
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.text.known_keys import contain_keys
from friday_cli.extensions import trust
from friday_cli.session.open_context import Options
from friday_cli.system.paths import config_dir

from . import folder_copy
from .caps import Cap
from .cluster_limits import ClusterLimits
from .engine import EmbeddedEngine, ItemResult, ItemTask
from .job import MapJob
from .ray_worker import Handed, Setup, identity, run_item

TRIES = 2
"""Times that an item is begun whose workers die."""
NAMESPACE = "friday-map"
CONNECT_S = 5.0
"""Seconds for a connection to a cluster."""


class RayEngine:
    """Implements `Engine` with a cluster. `local` opens the profiles and models here; no item runs in it. Make one with `open`."""

    def __init__(self, job: MapJob, local: EmbeddedEngine, setup: Any) -> None:
        self.items = local.items
        self.session = f"ray-{local.session}"  # no log has it: a try that a kill left is charged with its whole cap
        self._job, self._local, self._setup = job, local, setup
        self._limits: Any = None
        self._task = ray.remote(max_retries=0, num_cpus=1)(run_item)
        self._running: dict[str, Any] = {}
        self._stopped = False
        self._sessions: dict[str, asyncio.Future[Callable[[list[Envelope]], Awaitable[None]]]] = {}

    @classmethod
    async def open(cls, job: MapJob, options: Options, title: str, env: Mapping[str, str]) -> RayEngine:
        """Connect to the cluster in RAY_ADDRESS, or start one here. Raises FridayError."""
        if (config_dir(env) / "hooks.json").is_file():
            raise UsageError(
                "--engine ray: your hooks.json does not run on other machines.", hint="Use --engine embedded."
            )
        local = await EmbeddedEngine.open(options, title, env)
        try:
            folder = Path(job.folder)
            trusted = options.trusted or trust.is_trusted(folder, env=env).ok
            setup = Setup(
                title,
                __version__,
                replace(options, trusted=trusted, config_file=None),
                await asyncio.to_thread(folder_copy.pack, folder),
                _config_files(options, env),
                {name: identity(local, name) for name in (job.profile, job.reduce) if name},
            )
            await asyncio.to_thread(_connect, env)  # in a thread, Ray leaves Python's signal handlers alone
            _restore_signals()
            return cls(job, local, ray.put(setup))
        except BaseException:
            await local.close()
            raise

    async def budget(self, name: str, cap: Cap) -> Budget:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor = ray.remote(num_cpus=0, scheduling_strategy=here, max_concurrency=10_000)(ClusterLimits)
        env = {key: value for key in ("FRIDAY_HOME", "HOME", "XDG_STATE_HOME") if (value := os.environ.get(key))}
        self._limits = actor.options(name=f"limits of {name} {self.session}", namespace=NAMESPACE).remote(cap, env)
        return cap.budget(name)

    async def run(self, work: ItemTask) -> ItemResult:
        tokens, cost, lost = 0, 0.0, ""
        for number in range(TRIES):
            left = work.cap.left(cost, tokens)
            if self._stopped or not work.least.within(work.cap.amounts).fits(
                Amounts(left.tokens or 0, left.cost or 0.0)
            ):
                break
            try:
                handed, used = await self._try(f"{work.key} {number}", replace(work, cap=left))
            except RayError as error:
                why = f"the cluster does not answer ({type(error).__name__})"
                held = work.cap.amounts  # what it used is not known
                return ItemResult("waiting", error=why, cost=held.cost, tokens=int(held.tokens), stop=True)
            if isinstance(handed, Handed):
                done = await self._keep(handed)
                receipt = "; ".join(part for part in (lost and f"{lost}: tried again", done.receipt) if part)
                return replace(done, cost=done.cost + cost, tokens=done.tokens + tokens, receipt=receipt)
            lost, tokens, cost = handed, tokens + used[0], cost + used[1]
        if self._stopped:
            return ItemResult("waiting", error="it was stopped", cost=cost, tokens=tokens)
        return ItemResult("failed", error=lost, cost=cost, tokens=tokens)

    async def _try(self, name: str, work: ItemTask) -> tuple[Handed | str, tuple[int, float]]:
        """Let a worker do the work. Returns what it handed back, or how it died, and its tokens and US dollars. Raises RayError."""
        await self._limits.begin.remote(name, work.cap)
        if not self._stopped:
            self._running[name] = self._task.remote([self._setup], self._limits, name, work)
        ended: Handed | str = "it was stopped"
        try:
            if name in self._running:
                ended = await self._running[name]
        except RayError as error:
            ended = f"its worker died ({type(error).__name__})"
        except asyncio.CancelledError:
            ray.cancel(self._running[name], force=True)
            raise
        finally:
            self._running.pop(name, None)
        known = (ended.done.tokens, ended.done.cost) if isinstance(ended, Handed) else None
        return ended, await self._limits.end.remote(name, known)

    async def _keep(self, handed: Handed) -> ItemResult:
        """Store what a worker handed back."""
        done, session = handed.done, handed.session
        if handed.events:
            if session not in self._sessions:
                title = f"map {self._job.profile} (batch {self._job.id}, a worker)"
                self._sessions[session] = asyncio.ensure_future(self.items.add_session(session, title))
            append = await self._sessions[session]
            await append(handed.events)
        if not handed.bundle:
            return done
        with tempfile.NamedTemporaryFile(suffix=".bundle") as file:
            file.write(handed.bundle)
            file.flush()
            try:
                await asyncio.to_thread(folder_copy.fetch_branch, Path(self._job.folder), done.branch, Path(file.name))
            except FridayError as error:
                return replace(done, state="failed", error=f"its branch could not be added: {error}", branch="")
        return done

    async def stop(self) -> None:
        self._stopped = True
        for reference in list(self._running.values()):
            ray.cancel(reference, force=True)

    async def close(self) -> None:
        await self.stop()
        await self._local.close()
        await asyncio.to_thread(ray.shutdown)


def _config_files(options: Options, env: Mapping[str, str]) -> dict[str, bytes]:
    """The settings, profiles and instructions of the person. Raises UsageError if a key is in one."""
    home = config_dir(env)
    found = {"config.toml": options.config_file or user_file(env), "AGENTS.md": home / "AGENTS.md"}
    found |= {f"profiles/{path.name}": path for path in (home / "profiles").glob("*") if path.is_file()}
    contents = {name: path.read_bytes() for name, path in found.items() if path.is_file()}
    for name, content in contents.items():
        if contain_keys(content):
            text = f"--engine ray: {found[name]} contains a key, and would be sent to other machines."
            raise UsageError(text, hint="Remove it there, and set it in the environment of the workers (key_env).")
    return contents


def _restore_signals() -> None:
    """Let Python handle signals again: Ray's handler of SIGTERM prints stacks, and may abort."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if threading.current_thread() is threading.main_thread() and (handler := signal.getsignal(number)) is not None:
            signal.signal(number, handler)
            signal.siginterrupt(number, False)


def _connect(env: Mapping[str, str]) -> None:
    """Raises FridayError if there is no cluster at RAY_ADDRESS."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = env.get("RAY_ADDRESS") or "local"
    only_local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        if address not in ("local", "auto"):  # Ray tries for minutes to reach one
            host, _, port = address.rpartition("//")[2].rpartition(":")
            socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, **only_local)
    except (OSError, RuntimeError, ValueError) as error:
        hint = "Check RAY_ADDRESS, or unset it to start a cluster on this machine."
        raise FridayError(f"No Ray cluster at {address}: {str(error).splitlines()[0][:200]}", hint=hint) from None
