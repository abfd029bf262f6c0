"""Runs agents for the items of a batch: children of a main agent that sends nothing, each with a budget of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from friday_cli.agents.agent_factory import ROOT, AgentFactory
from friday_cli.agents.child_limits import child_limits
from friday_cli.core.agent.next_request import request_with
from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.protocol.errors import StoreError, ToolError, UsageError
from friday_cli.core.protocol.events import Envelope, RepliesCollected
from friday_cli.core.protocol.limits import lowest
from friday_cli.core.protocol.messages import Usage, user
from friday_cli.core.protocol.provider import Provider, estimate_request
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.subagents.node import SpawnEstimate, SubagentTask
from friday_cli.core.subagents.run import finish_despite_cancel
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions.profiles import Profile
from friday_cli.llm.models.factory import price_note
from friday_cli.llm.providers.service_provider import ServiceProvider
from friday_cli.store.ledger import SessionLedger
from friday_cli.store.locks import Ownership

from .open import open_session
from .open_context import Options
from .parts import SessionParts
from .session import Session

if TYPE_CHECKING:
    from friday_cli.llm.providers.batched import BatchedProvider, Reply


class ItemEnd(msgspec.Struct, frozen=True):
    """How the agent of an item ended. `usage` includes its descendants, `active_s` is its active seconds. `branch`: the git
    branch of its worktree, "" if it has none or changed nothing."""

    path: str
    outcome: RunResult
    usage: Usage
    active_s: float
    receipt: Receipt = Receipt()
    branch: str = ""


class ItemAgents:
    """Children of the main agent of a session; `id` is that of the session. `open` makes a session for them, whose main agent
    is a caller with `work`, which keeps its run open. In a session that exists `opened` is None, and `call` is the call that they
    are started by."""

    def __init__(
        self,
        session: str,
        tree: SubagentTree,
        factory: AgentFactory,
        *,
        opened: SessionParts | None = None,
        call: str = "",
        title: str = "",
    ) -> None:
        self.id = session
        self.call = call
        self._tree, self._factory, self._isolation = tree, factory, factory.shared.isolation
        self._root = tree.root
        self._opened = opened
        self._session = None if opened is None else Session(opened)
        self._title = title  # "" once the main agent runs
        self._owned: list[Ownership] = []

    @classmethod
    async def open(cls, options: Options, title: str, env: Mapping[str, str]) -> ItemAgents:
        """Open a session. Its main agent, which every item's agent is a child of, runs from the first item on. Raises
        FridayError."""
        parts = await open_session(options, env)
        return cls(parts.storage.id, parts.tree, parts.factory, opened=parts, title=title)

    @property
    def can_isolate(self) -> bool:
        """Whether agents can have worktrees: the folder is in a git repository."""
        return self._isolation.possible

    @property
    def retention_days(self) -> float:
        """Days without use after which sessions, and so batches, are removed; 0: never."""
        return self._factory.shared.settings.retention.days

    def trouble(self) -> str:
        """What a service does instead of answering, in words; "" while all answer."""
        limiters = self._factory.shared.services.rate_limiters.values()
        return next((one.trouble for one in limiters if one.trouble), "")

    def profile(self, name: str) -> Profile:
        """The profile of a name. Raises UsageError if there is none, or the main agent may not delegate to it."""
        factory = self._factory
        found = factory.shared.profiles.get(name)
        if found not in factory.shared.profiles.children(factory.root.profile):
            sender = factory.root.profile.name if factory.root.profile else ROOT
            raise UsageError(
                f"The profile {sender} may not delegate to {name!r}.", hint="Add it to subAgents of that profile."
            )
        return found

    def provider(self, profile: Profile) -> Provider:
        """The model that agents with `profile` use. Raises FridayError if it cannot be used."""
        return self._factory.shared.providers.for_child(
            self._root.conversation.provider, profile, self._root.conversation.effort
        )[0]

    def defer(self, profile: Profile, reply: Reply) -> BatchedProvider:
        """Let the requests of all agents that start from now on wait for batches of the service, which `reply` sends and collects. Returns
        the provider of `profile`. Raises UsageError for a model without a batch interface."""

        from friday_cli.llm.providers.batched import BatchedProvider  # most batches send their requests at once

        def wrap(provider: Provider) -> Provider:
            return BatchedProvider(self.with_batches(provider), reply)

        self.with_batches(self.provider(profile))
        self._factory.shared.providers.wrap_children(wrap)
        found = self.provider(profile)
        assert isinstance(found, BatchedProvider)
        return found

    async def collected(self, provider: Provider, profile: str, batch: str, usage: Usage) -> None:
        """Store what the replies of a service's batch cost that came so far, in place of what was stored for it. Raises StoreError."""
        self._begin()
        services = self._factory.shared.services
        if services.ledger is not None:
            services.ledger.paid_by("a", provider.name, provider.rate_limit_key)
        model = f"{provider.name}/{provider.model}"
        await services.log.emit("a", RepliesCollected(batch, profile, model, usage))
        if services.log.failure is not None:
            raise services.log.failure

    @property
    def ledger(self) -> SessionLedger:
        """What all sessions used, and may use."""
        return self._parts.storage.ledger

    def defer_no_more(self) -> None:
        """Let the requests of agents that start from now on be sent at once again."""
        self._factory.shared.providers.wrap_children(None)

    @staticmethod
    def with_batches(provider: Provider) -> ServiceProvider:
        """A provider whose service has a batch interface. Raises UsageError for another one."""
        from friday_cli.llm.providers.batched import BATCHES

        if isinstance(provider, ServiceProvider) and provider.path in BATCHES and not provider.endpoint.platform:
            return provider
        raise UsageError(
            f"--deferred: {provider.name}/{provider.model} does not have a batch interface that Friday knows.",
            hint="Anthropic and OpenAI have one, with a key of your own; leave --deferred out for other services.",
        )

    def price_note(self, provider: Provider) -> str:
        """As what a model counts whose price is unknown; "" if it is known."""
        return price_note(provider.name, provider.model, self._factory.shared.settings, os.environ)

    def first_request(self, task: SubagentTask) -> int:
        """Tokens of the first request for a task, estimated. Raises ToolError if no agent can be made for it."""
        budget = Budget("estimate")
        agent, message = self._factory.build(
            self._tree, self._root, msgspec.structs.replace(task, budget=budget), "a.0"
        )
        return estimate_request(request_with(agent, [message]))

    def highest(self, profile: Profile) -> tuple[float | None, int]:
        """US dollars that an agent with `profile` may cost at most, None if the price is unknown, and the tokens of its budget."""
        full = self._factory.shared.estimates.highest_cost(
            SpawnEstimate(self._root.conversation.provider, profile.name, None)
        )
        limits = child_limits(profile, self._factory.shared.settings.agents.delegation)
        return None if full is None else lowest(full, limits.cost), limits.tokens or 0

    async def past_runs(self, profile: str, model: str) -> Sequence[PastRun]:
        """Earlier delegations, for a forecast; none if they cannot be read."""
        with suppress(StoreError):
            return await self._factory.shared.estimates.past_runs(profile, model)
        return ()

    async def run(self, task: SubagentTask, *, isolated: bool) -> ItemEnd:
        """Run an agent to its end. `isolated`: in a new worktree, as an external agent always is where that is possible. Raises ToolError if
        it cannot be started."""
        isolation = self._isolation
        self._begin()
        if isolated or (isolation.possible and self.profile(task.profile).external is not None):
            task = msgspec.structs.replace(task, workspace=await isolation.create(self._root))
        try:
            node = self._tree.spawn("a", task)
        except ToolError:
            if task.workspace is not None:
                await isolation.cancel(task.workspace)
            raise
        try:
            await node.finished()
        except asyncio.CancelledError:
            await finish_despite_cancel(self._tree.stop(node.path, why="parent"))
            raise
        agent, worktree = node.agent, isolation.of(node.path)
        branch = worktree.metadata.branch if worktree is not None and worktree.open and worktree.files else ""
        end = ItemEnd(node.path, node.outcome, agent.tree_usage, agent.slot.clock.elapsed, agent.receipt, branch)
        if self._opened is not None:
            self._root.forget_receipt()  # the batch keeps a receipt for each item
        return end

    async def keep_branch(self, path: str) -> None:
        """Commit the changes in the worktree of an ended agent to its branch, and remove the worktree. Raises ToolError."""
        await self._parts.changes.discard_for_person(path, keep_branch=True)

    async def events(self, after: int) -> list[Envelope]:
        """The events of the session after number `after`."""
        await self._parts.storage.log.flush()
        return await self._parts.storage.store.events(self.id, after=after)

    async def add_session(self, session: str, title: str) -> Callable[[list[Envelope]], Awaitable[None]]:
        """Store another session, which a worker has run. Returns what appends its events. Raises StoreError."""
        self._begin()
        store = self._parts.storage.store
        await store.create_session(self._parts.workspace.root, title=title, name=session)
        self._owned.append(await store.own(session))
        journal = store.journal(session, store.spending.ledger(session))

        async def append(events: list[Envelope]) -> None:
            await journal.append(events)

        return append

    def _begin(self) -> None:
        if self._title:
            self._tree.run_root(self._title, user(self._title))
            self._title = ""

    async def stop(self) -> None:
        """Stop all agents of the items."""
        if self._opened is not None:
            await self._tree.stop("a")
            return
        mine = [node.path for node in self._tree.running("a") if node.spec.batch == self.call]
        await asyncio.gather(*(self._tree.stop(path, why="parent") for path in mine))

    async def close(self) -> None:
        """Close the session that was opened for the agents, after the main agent's run, whose `work` is done."""
        if self._session is None:
            return
        if not self._title:
            await self._tree.node("a").finished()
        for ownership in self._owned:
            ownership.release()
        try:
            if self._owned:
                await self._parts.storage.store.reconcile()  # their main agents have no end
        finally:
            await self._session.close()

    @property
    def _parts(self) -> SessionParts:
        """Those of the session that was opened for the agents."""
        assert self._opened is not None, "a session that exists gives its agents no more than its tree"
        return self._opened
