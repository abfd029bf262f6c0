"""The waist: one session with its engine, as every face sees it.

open -> prompt, events, answer, send, stop -> close. A face folds `events()` and never looks behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
from collections.abc import AsyncIterator, Mapping
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from . import __version__, config, instructions, profiles, prompt, trust
from .core.agent import Outcome, Policy, World
from .core.delegation import Known, Node, Spec, Tree
from .core.errors import UsageError
from .core.events import SCHEMA, Envelope, ModeChanged, Notice, Prefix, RuleAdded, SessionStarted, StopReason
from .core.log import Log
from .core.loop import NOTE
from .core.messages import AnyPart, Image, Message, Text
from .core.model import without_thinking
from .core.permission import Answer, Desk, Mode, Rule
from .core.provider import Effort
from .core.replay import AgentRecord, replay
from .crew import Crew, session_rules
from .local import LocalWorkspace
from .paths import config_dir, data_dir
from .store import Ownership, Store


class Options(msgspec.Struct, frozen=True):
    """What a face was asked for; None or empty leaves it to the settings.

    `attended` tells whether somebody can answer questions. `resume` is the whole id of a session. `trusted` counts the
    folder as trusted for this session. `flags` are settings of the command line by dotted name.
    """

    cwd: Path
    add_dirs: tuple[Path, ...] = ()
    model: str | None = None
    effort: Effort | None = None
    profile: str | None = None
    mode: Mode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    attended: bool = False
    trusted: bool = False
    resume: str | None = None
    config_file: Path | None = None
    flags: dict[str, object] = {}


def store_path(env: Mapping[str, str] | None = None) -> Path:
    """The file that holds all sessions."""
    return data_dir(env) / "friday.db"


class Session:
    """A running session. Make one with `Session.open`."""

    def __init__(
        self, session_id: str, *, store: Store, ownership: Ownership, crew: Crew, tree: Tree, log: Log
    ) -> None:
        self.id = session_id
        self.log = log
        self.tree = tree
        self.world = crew.world
        self.desk = crew.world.desk
        self._crew = crew
        self._store = store
        self._ownership = ownership
        self._notes: list[str] = []
        self._closed = False

    # ---- opening -------------------------------------------------------------------

    @classmethod
    async def open(cls, options: Options, *, env: Mapping[str, str] | None = None) -> Session:
        """Open a new session, or an old one with everything it knew.

        Raises FridayError (UsageError, NotConfigured, FileError, StoreError) with a line for a person.
        """
        env = os.environ if env is None else env
        cwd = options.cwd.resolve()
        if not cwd.is_dir():
            raise UsageError(f"{options.cwd} is not a folder.")
        standing = trust.is_trusted(cwd)
        if options.trusted:
            standing = msgspec.structs.replace(standing, state="trusted")
        loaded = config.load(
            project=standing.root if standing.ok else None, flags=options.flags, environ=env, file=options.config_file
        )
        settings = loaded.settings
        delegation = settings.agents.delegation
        found = profiles.load(delegation.profiles.directory, standing, token_cap=delegation.token_budget.max)

        store = Store(store_path(env))
        try:
            return await cls._assemble(options, cwd, standing, loaded, found, store, env)
        except BaseException:
            await store.close()
            raise

    @classmethod
    async def _assemble(
        cls,
        options: Options,
        cwd: Path,
        standing: trust.Trust,
        loaded: config.Loaded,
        found: profiles.Profiles,
        store: Store,
        env: Mapping[str, str],
    ) -> Session:
        settings = loaded.settings
        session_id = options.resume or await store.create_session(cwd)
        ownership = await store.own(session_id)
        try:
            records: dict[str, AgentRecord] = {}
            last = 0
            if options.resume:
                await store.reconcile()
                envelopes = await store.events(session_id)
                records, last = replay(envelopes), max((e.seq or 0 for e in envelopes), default=0)
            log = Log(store.journal(session_id), last=last)
            spill = data_dir(env) / "spill" / session_id
            workspace = LocalWorkspace(
                cwd, extra=options.add_dirs, spill=spill, environ=env, keep=settings.tools.env_allow
            )
            desk = Desk(log, attended=options.attended)
            delegation = settings.agents.delegation
            policy = Policy(
                compact_at=settings.context.compact_at, max_depth=delegation.max_depth,
                max_concurrent=delegation.max_concurrent, max_agents=delegation.max_agents,
            )  # fmt: skip
            world = World(log, desk, workspace, policy, random.Random())
            notes = instructions.read(cwd, root=standing.root, config=config_dir(env), trusted=standing.ok)
            here = prompt.environment(
                cwd, standing.root, platform=platform.platform(terse=True), date=date.today().isoformat(),
                mode=options.mode or settings.mode, folders=[str(p) for p in workspace.roots[1:]],
                answerable=options.attended,
            )  # fmt: skip
            crew = Crew(
                world, settings=settings, profiles=found, here=here, instructions=notes,
                recall=store.memory(str(standing.root), session_id), session=session_id, spill=spill, env=env,
            )  # fmt: skip
            known = [_known(record) for path, record in records.items() if path != "a"]
            tree = crew.tree = Tree(world, build=crew.child, known=known)
            session = cls(session_id, store=store, ownership=ownership, crew=crew, tree=tree, log=log)
            desk.on_grant = session._grant
            await session._begin(options, settings, records.get("a"), cwd)
            for text in (
                *loaded.notices,
                *notes.notices,
                *found.announcements,
                *map(str, found.problems),
                *_about(standing),
            ):
                await log.emit("a", Notice(text, "warning"))
            return session
        except BaseException:
            ownership.release()
            raise

    async def _begin(self, options: Options, settings: config.Settings, record: AgentRecord | None, cwd: Path) -> None:
        mode: Mode = options.mode or settings.mode
        rules = session_rules(settings, allow=options.allow, deny=options.deny, mode=mode)
        self.root = self._crew.root(model=options.model, effort=options.effort, profile=options.profile, rules=rules)
        self.rules = rules
        if record is None:
            await self.log.emit("a", SessionStarted(SCHEMA, self.id, str(cwd), __version__))
            return
        root = self.root
        root.history, root.usage, root.receipt, root.run = record.history, record.usage, record.receipt, record.run
        root.context = record.context
        for known in self.tree.below("a"):
            root.below += known.usage
        root.budget.charge(root.tree_usage.billed, root.tree_usage.cost_usd)
        rules.rules += [Rule(*_split(added)) for added in record.rules]
        if record.prefix and record.prefix.model == root.model:
            root.system, root.specs = record.prefix.system, record.prefix.tools
            self._notes.append(f"{NOTE} The session goes on. Today is {date.today().isoformat()}; mode: {mode}.")
        else:
            root.history = [without_thinking(m) for m in root.history]
            root.context = 0
            await self.log.emit("a", Prefix(root.model, root.system, root.specs))

    # ---- talking -------------------------------------------------------------------

    async def prompt(
        self, text: str, *, images: tuple[Image, ...] = (), schema: dict[str, object] | None = None
    ) -> Outcome:
        """Run the root on a message of the user to its end; messages that come meanwhile are answered, too."""
        node = self.start(text, images=images, schema=schema)
        assert node.task
        await asyncio.wait([node.task])
        while not self.root.inbox.empty():
            waiting, source = self.root.inbox.take()
            node = self._run(waiting, Message("user", (Text(waiting),), source))
            assert node.task
            await asyncio.wait([node.task])
        await self._store.sync()
        return node.outcome

    def start(self, text: str, *, images: tuple[Image, ...] = (), schema: dict[str, object] | None = None) -> Node:
        """Begin a run of the root; its end is in the events. The root must be idle (else: `send`)."""
        self.tree.started_now = 0
        notes, self._notes = self._notes, []
        body = text
        if schema is not None:
            body += f"\n\nAnswer with one JSON document and nothing else. It must fit this JSON Schema:\n{json.dumps(schema)}"
        self.root.accept = _checker(schema) if schema is not None else lambda answer: ""
        parts: tuple[AnyPart, ...] = (*(Text(note + "\n\n") for note in notes), Text(body), *images)
        return self._run(text, Message("user", parts))

    def _run(self, task: str, message: Message) -> Node:
        from .core.presence import Presence

        if self.root.run:
            self.root.presence = Presence("a", log=self.log, slots=None)
        return self.tree.run(self.root, Spec(self.root.profile, task), message)

    def events(self, after: int = 0) -> AsyncIterator[Envelope]:
        """Everything durable above number `after`, then what happens, until the session is closed."""
        return self.log.events(after)

    async def answer(self, ask_id: str, answer: Answer | str) -> bool:
        """Answer a permission (an Answer) or a question (words); False when it is not open any more."""
        return await self.desk.answer(ask_id, answer)

    async def send(self, path: str, text: str) -> None:
        """Hand a message to a working agent; it reads it at its next turn. Raises UsageError when it does not work."""
        if not self.tree.living(path):
            raise UsageError(f"Agent {path} is not at work.")
        await self.tree.node(path).agent.inbox.put(text, "person")

    async def stop(self, path: str = "a", *, level: Literal["cancel", "abort"] = "abort") -> int:
        """End an agent and all below it; returns how many runs ended. See contract.md, "Stopping"."""
        why: StopReason = "aborted" if level == "abort" else "cancelled"
        return await self.tree.stop(path, level=level, why=why)

    async def set_mode(self, mode: Mode) -> None:
        """Change what passes without asking, for everybody, from the next call on."""
        self.rules.mode = mode
        self._notes.append(f"{NOTE} The mode is now {mode}.")
        await self.log.emit("a", ModeChanged(mode))

    async def close(self) -> None:
        """Stop what runs, write what is open, and let go of the session. May be called twice."""
        if self._closed:
            return
        self._closed = True
        await self.tree.stop("a")
        await self.world.workspace.close()
        await self.log.close()
        from .wire import aclose_all

        await aclose_all()
        await self._store.sync()
        self._ownership.release()
        await self._store.close()

    async def _grant(self, rule: Rule, scope: str) -> None:
        self.rules.rules.append(rule)
        await self.log.emit("a", RuleAdded(str(rule), rule.decision))


def _split(added: RuleAdded) -> tuple[str, str, Literal["allow", "ask", "deny"]]:
    from .core.permission import parse_rule

    rule = parse_rule(added.rule, added.decision)
    return rule.tool, rule.pattern, rule.decision


def _known(record: AgentRecord) -> Known:
    end = record.end
    return Known(
        record.path, record.profile, record.task, record.status, end.stop_reason if end else None,
        end.result if end else record.text, end.error if end else "", end.limit_of if end else "",
        record.usage, record.active_s, record.receipt,
    )  # fmt: skip


def _about(standing: trust.Trust) -> list[str]:
    """What a person should know of an untrusted folder that has something to trust."""
    if standing.ok or not standing.files:
        return []
    names = ", ".join(list(standing.files)[:5]) + (" ..." if len(standing.files) > 5 else "")
    return [f"{standing.reason} Not used: {names}. `friday trust` would allow them."]


def _checker(schema: dict[str, object]) -> object:
    import jsonschema

    validator = jsonschema.validators.validator_for(schema)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise UsageError(f"The JSON schema is not valid: {error.message}.") from None
    check = validator(schema)

    def accept(answer: str) -> str:
        try:
            document = json.loads(answer)
        except ValueError as error:
            return f"it is not JSON ({error})"
        error = jsonschema.exceptions.best_match(check.iter_errors(document))
        return "" if error is None else f"at {error.json_path}: {error.message}"

    return accept
