"""Plays a recording: opens its sessions, does what its people did, and compares how its agents end."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.eventlog.notices import NOTE, split_notes
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol import events
from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.run_result import LIMIT_REASONS
from friday_cli.extensions.trust import is_trusted
from friday_cli.session.open import open_session
from friday_cli.session.open_context import Options
from friday_cli.session.parts import SessionParts
from friday_cli.session.session import Session

from .answers import ReplayAnswers, ReplayOptions
from .compare import Divergence
from .recording import PersonAct, PersonPrompt, RecordedProcess, Recording
from .surroundings import RecordedSurroundings

FLAGS = ("limits.", "agents.", "context.", "fallback_model", "subagent_model")
"""Settings of the recorded command line that hold in a replay: a cassette of others must not decide about more."""
FOLDERS = "agents.delegation.profiles."
"""Those of them that name folders, which do not."""
GRACE_S = 1.0
"""Seconds of the replay that a process which was killed is given beyond the recorded ones."""
MORE_S = 3_600.0
"""Seconds of the replay beyond twice the recorded ones, after which it counts as waiting for something that never comes."""
_SCHEMA = "\n\nAnswer with one JSON document and nothing else. It must fit this JSON Schema:\n"


class Replayed(msgspec.Struct):
    """The result of a replay. `requests` and `calls` count what was answered from the recording, `processes` those that were replayed.
    `stops_at`: why the rest of the recording was not replayed, "" if it was."""

    divergences: list[Divergence] = msgspec.field(default_factory=list)
    agents: int = 0
    requests: int = 0
    calls: int = 0
    processes: int = 0
    killed: int = 0
    log: list[Envelope] = msgspec.field(default_factory=list)
    """The events of the replay, with those that the recording has after the death of a process."""
    stops_at: str = ""


async def replay(recording: Recording, options: ReplayOptions) -> Replayed:
    """Play all processes of a recording, until the first divergence unless it goes on. Raises FridayError if the session cannot be opened."""
    result = Replayed(agents=len(recording.profiles))
    for process in recording.processes:
        player = _Process(recording, process, options)
        answers = await player.play()
        result.log += player.log
        result.divergences += answers.divergences
        result.requests += answers.requests
        result.calls += answers.calls
        result.processes += 1
        result.killed += process.killed
        if process.stops_at or (answers.divergences and not options.go_on):
            result.stops_at = process.stops_at
            break
    result.log = [msgspec.structs.replace(e, seq=n) for n, e in enumerate(result.log, 1)]
    return result


class _Process:
    """One process of a recording that is played."""

    def __init__(self, recording: Recording, process: RecordedProcess, options: ReplayOptions) -> None:
        self._recording, self._process, self._options = recording, process, options
        self._answers = ReplayAnswers(recording, process, options)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._ends: dict[str, list[events.AgentFinished]] = defaultdict(list)
        self._changed = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._acts = list(process.acts)
        self.log: list[Envelope] = []
        self._over = False
        self._parts: SessionParts

    async def play(self) -> ReplayAnswers:
        process, answers = self._process, self._answers
        given = os.environ if self._options.env is None else self._options.env
        env = {name: value for name, value in given.items() if not name.startswith(("OTEL_", "TRACEPARENT"))}
        parts = self._parts = await open_session(self._session_options(), env)
        session = Session(parts)
        if self._options.runs_tools and not parts.workspace.sandbox_access(""):
            await session.close(last=False)
            raise UsageError("Tools are run again in a sandbox only, and none works here; `friday doctor` says why.")
        following = asyncio.create_task(self._follow(session))
        lasted = process.ended - process.began
        most = lasted + GRACE_S if process.killed else 2 * lasted + MORE_S
        playing = asyncio.create_task(self._prompts(session))
        stopped = asyncio.create_task(answers.stopped.wait())
        try:
            await asyncio.wait((playing, stopped), timeout=most, return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                playing.result()
            if not answers.stopped.is_set() and not process.stops_at:
                self._compare_ends()
        finally:
            for task in (playing, stopped, *self._tasks):
                task.cancel()
            answers.stopped.set()  # what its end brings is no divergence
            self._over = True
            await session.close(last=False)
            await following
        self.log += process.after
        return answers

    def _session_options(self) -> Options:
        process, found, loop = self._process, self._process.found, asyncio.get_running_loop()
        began = loop.time()
        flags = {"sandbox.network": False} if self._options.runs_tools else {}
        return Options(
            self._options.folder,
            add_dirs=tuple(path for text in found.folders if (path := Path(text)).is_dir()),
            model=process.start.model,
            effort=process.effort or None,  # type: ignore[arg-type]
            profile=None if process.start.profile == "friday" else process.start.profile,
            mode=process.start.mode or None,  # type: ignore[arg-type]
            allow=found.allow,
            deny=found.deny,
            attended=found.attended,
            flags={
                name: value
                for name, value in found.flags.items()
                if name.startswith(FLAGS) and not name.startswith(FOLDERS)
            }
            | flags,
            trusted=self._options.runs_tools and is_trusted(Path(self._recording.cwd)).ok,
            resume=self._recording.session if process.history else None,
            no_mcp=True,
            map_tool=self._options.map_tool,
            surroundings=RecordedSurroundings(self._recording, self._answers, runs_hooks=self._options.runs_hooks),
            now=lambda: process.began + loop.time() - began,
        )

    # ---- what people did ----------------------------------------------------------------------------

    async def _prompts(self, session: Session) -> None:
        """Send the messages of the person, each when the runs before it have ended, and wait for the last run."""
        prompts = self._process.prompts
        for number, prompt in enumerate(prompts):
            if number:
                await self._idle(ends=prompt.start.run - prompts[0].start.run)
                await self._answers.until(prompt.at)
            self._start(session, prompt)
        await self._idle(ends=None)

    async def _idle(self, *, ends: int | None) -> None:
        """Wait until `ends` runs of the main agent have ended (None: all), or nothing runs any more."""
        while ends is None or len(self._ends["a"]) < ends:
            if self._ends["a"] and not self._parts.tree.running("a") and not self._parts.tree.in_background():
                return
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):  # what is reported to an idle agent is no event
                    await self._changed.wait()

    def _start(self, session: Session, prompt: PersonPrompt) -> None:
        notes, text = split_notes(prompt.message)
        text, _, schema = text.partition(_SCHEMA)
        self._parts.notes.take()
        self._parts.notes.add(*(f"{NOTE} {note}" for note in notes))
        images = tuple(part for part in prompt.message.parts if isinstance(part, Image))
        more: dict[str, Any] = {"task": prompt.start.task, "images": images}
        if schema:
            more["schema"] = msgspec.json.decode(schema)
        session.start(text, **more)

    async def _act(self, session: Session, act: PersonAct) -> None:
        await self._answers.until(act.at)
        with suppress(UsageError):  # the agent has ended meanwhile, which is compared
            match act.event:
                case events.InboxMessage(text=text):
                    await session.send(act.path, text)
                case events.ModeChanged(mode=mode):
                    await session.approvals.choose_mode(mode)  # type: ignore[arg-type]
                case events.Detached():
                    await session.detach(act.path)
                case events.AgentFinished(stop_reason=why):
                    await session.stop(act.path, level="cancel" if why == "cancelled" else "abort")

    async def _answer(self, session: Session, path: str, asked: events.PermissionAsked | events.QuestionAsked) -> None:
        """Give the recorded answer to a question."""
        known = self._recording.asks.get((path, asked.call_id), [])
        number = self._asked[path, asked.call_id]
        self._asked[path, asked.call_id] += 1
        if number >= len(known):
            about = f"{asked.tool} ({asked.call_id})" if isinstance(asked, events.PermissionAsked) else "a question"
            self._answers.differs("permission", path, f"{about}: a person is asked now, but was not in the recording")
            return
        ask = known[number]
        if ask.answer is None:
            return
        await self._answers.until(ask.answered)
        given: ApprovalAnswer | str
        if isinstance(ask.answer, events.PermissionAnswered):
            given = ApprovalAnswer(ask.answer.decision, ask.answer.scope, ask.answer.reason, command=ask.answer.command)
        else:
            given = ask.answer.answer
        await session.answer(asked.id, given)

    # ---- what happens --------------------------------------------------------------------------------

    async def _follow(self, session: Session) -> None:
        async for envelope in session.events(session.since):
            if envelope.seq is None or self._over:
                continue
            self.log.append(envelope)
            self._options.watch(envelope)
            self._see(session, envelope)
            self._changed.set()

    def _see(self, session: Session, envelope: Envelope) -> None:
        path, event, answers = envelope.agent, envelope.event, self._answers
        kind = events.kind(event)
        self._counts[path, kind] += 1
        for act in [a for a in self._acts if (a.agent, a.after, a.count) == (path, kind, self._counts[path, kind])]:
            self._acts.remove(act)
            self._tasks.start(self._act(session, act))
        match event:
            case events.WorkspaceFound():
                answers.now = event
            case events.AgentFinished():
                self._ends[path].append(event)
            case events.PermissionAsked() | events.QuestionAsked():
                self._tasks.start(self._answer(session, path, event))
            case events.Denied() if (path, event.call_id) in self._recording.calls:
                what = f"{event.tool} ({event.call_id}) is denied now ({event.reason}), but ran in the recording"
                answers.differs("permission", path, what)
            case events.HookRan() if self._options.runs_hooks:
                self._compare_hook(path, event)

    def _compare_hook(self, path: str, now: events.HookRan) -> None:
        place = now.event, now.hook, now.call_id
        then = [hook for hook in self._recording.hooks.get(path, ()) if (hook.event, hook.hook, hook.call_id) == place]
        if now.decision not in {hook.decision for hook in then} | ({""} if not then else set()):
            said = f"said {(then[0].decision if then else '') or 'nothing'} then, and now {now.decision or 'nothing'}"
            what = f"hook {now.hook} ({now.event}{f', {now.call_id}' * bool(now.call_id)}) {said}"
            self._answers.differs("hook", path, what)

    # ---- the end -------------------------------------------------------------------------------------

    def _compare_ends(self) -> None:
        """Compare how the agents ended, and name what was recorded and did not happen."""
        answers = self._answers
        for request in answers.missing() if not self._process.killed else ():
            where = f"request {request.number} of the recording was not sent"
            answers.report(Divergence("missing", request.agent, request.turn, where))
        first, last = self._process.first, self._process.last
        for path, ends in self._recording.ends.items():
            recorded = [end for seq, end in ends if first <= seq <= last and end.stop_reason != "process"]
            for then, now in zip(recorded, self._ends[path], strict=False):
                if found := _end_difference(path, then, now, answers):
                    answers.report(found)
            if len(self._ends[path]) < len(recorded):
                answers.report(Divergence("missing", path, 0, f"run {recorded[len(self._ends[path])].run} did not end"))


def _end_difference(
    path: str, then: events.AgentFinished, now: events.AgentFinished, answers: ReplayAnswers
) -> Divergence | None:
    before, after = ((end.status, end.stop_reason) for end in (then, now))
    if before != after:
        limits = {before[1], after[1]} & {*LIMIT_REASONS}
        texts = [
            f"{', '.join(end)}{f': {error}' * bool(error)}" for end, error in ((before, then.error), (after, now.error))
        ]
        return Divergence(
            "budget" if limits else "result", path, 0, f"the end of run {now.run}", before=texts[0], after=texts[1]
        )
    old, new = answers.same(then.result), answers.same(now.result)
    if old != new:
        return Divergence("result", path, 0, f"the result of run {now.run}", before=old, after=new)
    return None
