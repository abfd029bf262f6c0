"""Plays a scene to its end, cuts it where its process dies, resumes it, and returns everything that was wrong."""

from __future__ import annotations

import random
from collections import Counter

import msgspec

from friday_cli.core.eventlog import replay as log_reader
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.decode import decode_envelope
from friday_cli.core.protocol.messages import Message, closed
from friday_cli.session import rewind
from friday_cli.store.crash_recovery import recovery_events
from tests.fuzz import checks, delegated, recorded
from tests.fuzz.scenario import Scene
from tests.fuzz.workspace_fixture import check_worktrees
from tests.strict import strict
from tests.virtual import Stuck, run

CHECKS = (
    checks.check_log,
    checks.check_partial,
    checks.check_asks,
    checks.check_calls,
    checks.check_histories,
    checks.check_leftovers,
    checks.check_budgets,
    checks.check_readers,
    delegated.check_starts,
    delegated.check_causes,
    delegated.check_inbox,
    delegated.check_news,
    delegated.check_lives,
    delegated.check_supervision,
    check_worktrees,
    recorded.check_requests,
)
DIES = 0.2
"""How many scenes die and are reopened."""


def play(seed: int, *, eager: bool = False) -> tuple[list[str], Counter[str]]:
    """What was wrong with the scene of a seed, a deadlock or a crash of the engine included, and what it reached. With
    `eager`, tasks begin when they are made, as in the chat."""
    reached: Counter[str] = Counter()
    try:
        return run(_play(seed, reached), eager=eager), reached
    except Stuck as stuck:
        return [f"a deadlock: {stuck}"], reached
    except Exception as error:
        return [f"{type(error).__name__} came out: {error}"], reached


async def _play(seed: int, reached: Counter[str]) -> list[str]:
    scene = Scene(seed)
    await scene.play()
    faults = faults_of(scene)
    count(scene, scene.journal.envelopes)
    reached += scene.reached
    whole = scene.journal.envelopes
    for _ in range(2 if whole else 0):
        faults += cut(whole, scene.rng.randint(1, len(whole)))
    faults += back(whole, random.Random(seed), reached)
    if not faults and whole and scene.rng.random() < DIES:
        again = await reopened(scene, whole[: scene.rng.randint(1, len(whole))])
        count(again, again.journal.envelopes[again.since :])
        again.reached["reopened"] += 1
        reached += Counter({name: n for name, n in again.reached.items() if n})
        faults += [f"reopened at {again.since}: {fault}" for fault in faults_of(again)]
    return faults


def faults_of(scene: Scene) -> list[str]:
    """All that is wrong with a session that was played."""
    kept = scene.journal.envelopes
    log = list(scene.read if scene.journal.broken else kept)
    faults = list(scene.broken)
    for check in CHECKS:
        faults += check(scene, log)
    if scene.journal.broken and log[: len(kept)] != kept:
        faults.append("what was kept before the disk was full is told otherwise afterwards")
    return faults


def cut(whole: list[ev.Envelope], at: int) -> list[str]:
    """What a death leaves can be read, and is what a provider takes."""
    kept = [decode_envelope(ev.encode(e)) for e in whole[:at]]
    faults = [] if kept == whole[:at] else ["an event changes on its way through JSON"]
    for path, record in log_reader.replay(kept).items():
        if record.history:
            faults += [f"cut at {at}, history of {path}: {fault}" for fault in strict(record.history)]
    return faults


def back(whole: list[ev.Envelope], rng: random.Random, reached: Counter[str]) -> list[str]:
    """A person may go back to any message, and take that back, and fork there: each history is one that a provider takes."""
    whole = [*whole, *recovery_events(whole, now=0.0)]
    if not (found := rewind.points(whole)):
        return []
    point, number = rng.choice(found), len(whole)
    reached["gone back"] += 1

    went = [*whole, ev.Envelope(number + 1, 0.0, "a", ev.Rewound(point.seq, "both"))]
    undone = [*went, ev.Envelope(number + 2, 0.0, "a", ev.Rewound(number + 1, "both", undo=True))]
    forked = rewind._events_before(whole, point.seq)
    forked += rewind._end_running_agents(forked, "0" * 36) if forked else []
    faults = []
    heard: dict[str, list[Message]] = {}
    for name, log in (("rewound", went), ("rewound and back", undone), ("forked", forked)):
        records = log_reader.replay(log)
        heard[name] = records["a"].history if log else []
        for path, record in records.items():
            if record.history:
                faults += [f"{name} at {point.seq}, history of {path}: {fault}" for fault in strict(record.history)]
    if rewind.points(went) != found[: point.number - 1]:
        faults.append(f"rewound to {point.seq}: other messages of the person are left than those before it")
    if [p.seq for p in rewind.points(undone)] != [p.seq for p in found]:
        faults.append(f"a rewind to {point.seq} and back leaves other messages of the person")
    if forked and [m.text for m in closed(heard["forked"])] != [m.text for m in heard["rewound"]]:
        faults.append(f"forked at {point.seq}: another conversation than after a rewind")
    if open_ := recovery_events(forked, now=0.0):
        faults.append(f"forked at {point.seq}: left open: {open_!r:.80}")
    if heard["rewound and back"] != closed(log_reader.replay(whole)["a"].history):
        faults.append(f"a rewind to {point.seq} and back leaves another history")
    return faults


async def reopened(scene: Scene, kept: list[ev.Envelope]) -> Scene:
    """The session as the next process resumes it from what the dead one left, with its old agents."""
    again = Scene(scene.seed, kept=[*kept, *recovery_events(kept, now=kept[-1].at)], before=scene)
    again.died_at = len(kept)
    for record in log_reader.replay(kept).values():  # a request without a reply counts with its estimate
        if record.end is None:
            again.misjudged[record.path] += record.sent.billed
            again.largest[record.path] = again.largest.get(record.path, 0) + record.sent.billed
    await again.reopen()
    await again.play()
    return again


def count(scene: Scene, log: list[ev.Envelope]) -> None:
    """Add to `reached` what happened in the log."""
    reached, begins = scene.reached, False
    for envelope in log:
        match envelope.event:
            case ev.AgentStarted() as start:
                reached[f"agents of depth {depth_of(envelope.agent)}"] += 1
                reached["background"] += start.background
                reached["continued"] += start.run > 1 and envelope.agent != "a"
                reached["continued by a model"] += start.run > 1 and start.call_id != ""
                reached["continued twice"] += start.run > 2 and envelope.agent != "a"
                begins = begins or envelope.agent == "a"
            case ev.AgentFinished(status=status, stop_reason=reason):
                reached[f"ends: {status}, {reason}"] += 1
            case ev.AskWithdrawn():
                reached["questions withdrawn"] += 1
            case ev.TurnStarted(wrap_up=True):
                reached["wrap-ups"] += 1
            case ev.Compacted(before=before):
                reached["compactions" if before else "forks"] += 1
            case ev.Verdict(verdict=verdict, by=by):
                reached[f"verdicts: {verdict} by {by}"] += 1
            case ev.InboxMessage(source="harness"):
                reached["told of an end behind it"] += 1
            case ev.ToolStarted(tool="message_sub_agent" | "cancel_sub_agent" as name):
                reached[f"calls of {name}"] += 1
            case ev.MessageAdded(message=message) if begins and envelope.agent == "a":
                reached["woken"] += message.source == "harness"
                begins = False
            case event:
                reached[msgspec.to_builtins(event)["kind"]] += 1
    reached["broken journals"] += scene.journal.broken
