"""What must hold of every session, however it went. Each check gives the faults it finds, in words."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from friday_cli.core import replay as log_reader
from friday_cli.core.agent import Agent
from friday_cli.core.delegation import Known
from friday_cli.core.events import (
    ENDED,
    AgentFinished,
    AgentStarted,
    AskWithdrawn,
    Compacted,
    Denied,
    Envelope,
    InboxMessage,
    MessageAdded,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    decode_envelope,
    depth_of,
    encode,
    is_under,
    parent_of,
)
from friday_cli.core.model import without_thinking
from friday_cli.core.permission import Rules
from tests.engine import Bench, Model, Say
from tests.strict import strict

from .scene import Scene

LEGAL = {
    "completed": {"done", "iterations", "tokens", "cost"},
    "failed": {"reported", "iterations", "tokens", "cost", "provider", "refusal", "context", "supervision", "loop"},
    "timeout": {"time"},
    "cancelled": {"cancelled", "aborted", "parent"},
    "interrupted": {"process"},  # the process died, or Friday itself failed
}
"""The table of contract.md: how an agent ends, and why."""
DUST = 1e-6


# ---- the log ----------------------------------------------------------------------


def check_log(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """Numbers, starts and ends: each run has one of both, and nothing comes before, between or after."""
    faults = []
    numbers = [e.seq for e in log]
    if numbers != list(range(1, len(log) + 1)):
        faults.append(f"the numbers of the log are not 1..{len(log)}: {numbers}")
    open_runs: dict[str, AgentStarted] = {}
    runs: dict[str, int] = defaultdict(int)
    for envelope in log:
        path, event = envelope.agent, envelope.event
        if isinstance(event, AgentStarted):
            if path in open_runs:
                faults.append(f"{path} started twice")
            runs[path] += 1
            if event.run != runs[path]:
                faults.append(f"{path}: run {event.run} is its {runs[path]}.")
            if event.parent and event.parent not in open_runs:
                faults.append(f"{path} started under {event.parent}, which does not run")
            open_runs[path] = event
        elif path not in open_runs:
            if not (path == "a" and envelope.event.__class__.__name__ == "Notice"):
                faults.append(f"{path}: {event!r:.80} outside a run")
        elif isinstance(event, TurnStarted) and event.wrap_up:
            faults += [f"{p} works on while {path} wraps up" for p in open_runs if p != path and is_under(p, path)]
        elif isinstance(event, AgentFinished):
            del open_runs[path]
            faults += _end(path, event, [p for p in open_runs if is_under(p, path)])
    return faults + [f"{path} has no end" for path in open_runs]


def _end(path: str, end: AgentFinished, below: list[str]) -> list[str]:
    faults = [f"{path} ended before {below}"] if below else []
    if end.stop_reason not in LEGAL.get(end.status, ()):
        faults.append(f"{path}: no such end: {end.status}, {end.stop_reason} ({end.error})")
    if end.duration_s > end.wall_s + DUST:
        faults.append(f"{path} was active for {end.duration_s} of {end.wall_s} s")
    if end.status == "completed" and (end.partial or (end.stop_reason != "done" and not end.result)):
        faults.append(f"{path}: completed with {end.result!r}, partial {end.partial}")
    return faults


def check_partial(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """Every text that a run said is in its result when that is not the agent's own last word."""
    faults = []
    said: dict[str, list[str]] = defaultdict(list)
    ever: dict[str, list[str]] = defaultdict(list)
    for envelope in log:
        match envelope.event:
            case AgentStarted():
                said[envelope.agent] = []
            case MessageAdded(message=message) if message.role == "assistant" and message.text.strip():
                said[envelope.agent].append(message.text.strip())
                ever[envelope.agent].append(message.text)
            case AgentFinished(partial=True, result=result):
                lost = [t for t in said[envelope.agent] if t not in result]
                faults += [f"{envelope.agent} lost {lost} of its text"] if lost else []
    for path, text in scene.cut:
        if not any(text in t for t in ever[path]):
            faults.append(f"{path} said {text!r} before it was stopped, and it is lost")
    return faults


def check_asks(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """No question is left open, in the log and at the desk."""
    left = scene.bench.desk.pending
    return asked_and_ended(log) + ([f"open questions are left at the desk: {left}"] if left else [])


def asked_and_ended(log: Sequence[Envelope]) -> list[str]:
    """Every question is asked, then answered or withdrawn once, in the name of the same agent, before that ends."""
    faults = []
    waiting: dict[str, str] = {}
    for envelope in log:
        match envelope.event:
            case PermissionAsked(id=ask_id) | QuestionAsked(id=ask_id):
                if ask_id in waiting:
                    faults.append(f"{ask_id} is asked twice")
                waiting[ask_id] = envelope.agent
            case PermissionAnswered(id=ask_id) | QuestionAnswered(id=ask_id) | AskWithdrawn(id=ask_id):
                if waiting.pop(ask_id, None) != envelope.agent:
                    faults.append(f"{ask_id} ended twice, or in the name of another")
            case AgentFinished() if left := [i for i, path in waiting.items() if path == envelope.agent]:
                faults.append(f"{envelope.agent} ended with open questions {left}")
    return faults + ([f"open questions are left: {waiting}"] if waiting else [])


def check_calls(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """A call that started finished once; one that ran was permitted; what was denied did not run."""
    faults = []
    open_calls: dict[tuple[str, str], str] = {}
    yes: set[tuple[str, str]] = set()
    asked: dict[str, str] = {}
    for envelope in log:
        path, event = envelope.agent, envelope.event
        match event:
            case PermissionAsked(id=ask_id, call_id=call_id):
                asked[ask_id] = call_id
            case PermissionAnswered(id=ask_id, decision="allow"):
                yes.add((path, asked[ask_id]))
            case ToolStarted(call_id=call_id, tool=name):
                open_calls[path, call_id] = name
                faults += _permitted(scene, path, call_id, name, yes)
            case ToolFinished(call_id=call_id, status=status):
                if open_calls.pop((path, call_id), None) is None and status not in ("denied", "cancelled"):
                    faults.append(f"{path}: {call_id} finished ({status}) and never started")
            case Denied(call_id=call_id):
                if (path, call_id) in open_calls:
                    faults.append(f"{path}: {call_id} was denied while it ran")
    return faults + [f"{path}: {call_id} never finished" for path, call_id in open_calls]


def _permitted(scene: Scene, path: str, call_id: str, name: str, yes: set[tuple[str, str]]) -> list[str]:
    """Rights are looked at from outside: every agent on the way up must let the call pass, or a person said yes."""
    tools = scene.bench.agents[path].tools
    if name not in tools:
        return [f"{path} ran {name}, which is not among its tools"]
    effect = tools[name].effect
    agent: Agent | None = scene.bench.agents[path]
    while agent is not None:
        decision = _right(agent.rules, name, effect)
        if decision == "deny":
            return [f"{path} ran {name} though {agent.path} may not"]
        if decision == "ask" and (path, call_id) not in yes:
            return [f"{path} ran {name} without asking, as {agent.path} must"]
        agent = agent.parent
    return []


def _right(rules: Rules, name: str, effect: str) -> str:
    """What one agent's rights say of a tool; the scenes' rules speak of tools as a whole."""
    if rules.allowed is not None and name not in rules.allowed:
        return "deny"
    said = {rule.decision for rule in rules.rules if rule.tool == name}
    default = {"write": "ask", "run": "ask", "net": "ask"}
    modes = {"ask": default, "edits": {**default, "write": "allow"}, "auto": {**default, "write": "allow"},
             "plan": {**default, "write": "deny", "run": "deny", "save": "deny"}, "yolo": {}}  # fmt: skip
    return next((d for d in ("deny", "ask", "allow") if d in said), modes[rules.mode].get(effect, "allow"))


# ---- what is left in memory ----------------------------------------------------------


def check_histories(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """Every call has its one result, and the log tells the same history as memory."""
    faults = []
    records = log_reader.replay(log)
    for path, agent in scene.bench.agents.items():
        faults += [f"history of {path}: {fault}" for fault in strict(agent.history)]
        if path not in records:
            faults.append(f"{path} is not in the log")
            continue
        kept, memory = records[path].history, agent.history
        if scene.spare is not None:  # a fallback drops thinking from memory
            kept, memory = [without_thinking(m) for m in kept], [without_thinking(m) for m in memory]
        if kept != memory:
            faults.append(f"the log tells another history of {path}:\n{kept}\n{memory}")
        if (end := records[path].end) is None or end.status not in ENDED:
            faults.append(f"{path} does not end in the log")
    return faults


def check_leftovers(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """No task, place, reservation, reader or process is left."""
    bench = scene.bench
    faults = [f"task {t.get_name()} is left" for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    slots = bench.tree.slots
    if slots._value != scene.places or slots.locked():
        faults.append(f"{slots._value} of {scene.places} places were given back")
    faults += [f"lane {lane}: {g.in_flight} in flight" for lane, g in bench.world.gates.items() if g.in_flight]
    if scene.working or scene.cleaning or scene.model.open:
        faults.append(f"something works on: {scene.working} {scene.model.open}")
    if bench.log._readers:
        faults.append("a reader is left")
    for path, agent in bench.agents.items():
        if agent.presence.clock.running:
            faults.append(f"the clock of {path} runs on")
        if agent.presence.clock._handle:
            faults.append(f"the alarm of {path} is set")
    return faults


def check_budgets(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """Nothing is reserved or kept; a parent counts its children; limits hold but for one misjudged reply an agent."""
    faults = []
    agents = scene.bench.agents
    for path, agent in agents.items():
        children = [a for p, a in agents.items() if parent_of(p) == path]
        for name in ("tokens", "cost"):
            pool = agent.budget._pool(name)
            if abs(pool.reserved) > DUST or abs(pool.kept) > DUST:
                faults.append(f"{path}: {pool.reserved} {name} reserved and {pool.kept} kept at the end")
            below = sum(c.budget._pool(name).spent for c in children)
            if pool.spent < below - DUST:
                faults.append(f"{path} counts {pool.spent} {name}, its children {below}")
        over = agent.budget.tokens.spent - (agent.budget.tokens.limit or float("inf"))
        under = [a for p, a in agents.items() if is_under(p, path)]
        if over > sum(scene.misjudged[a.path] for a in under) + DUST:
            faults.append(f"{path} overspent {over} tokens of {agent.budget.tokens.limit}: more than was misjudged")
        if over > sum(scene.largest.get(a.path, 0) for a in under) + DUST:
            faults.append(
                f"{path} overspent {over} tokens of {agent.budget.tokens.limit}: more than one reply an agent"
            )
        if agent.below.billed != sum(c.tree_usage.billed for c in children):
            faults.append(f"{path}: usage of its children is not in its tree's")
        if depth_of(path) > scene.bench.policy.max_depth:
            faults.append(f"{path} is too deep")
    if len(agents) - 1 > scene.bench.policy.max_agents:
        faults.append(f"{len(agents) - 1} agents of {scene.bench.policy.max_agents}")
    return faults


def check_readers(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """A slow reader saw every durable event, once, in order."""
    if scene.read != list(log):
        seen, kept = [e.seq for e in scene.read], [e.seq for e in log]
        return [f"a slow reader saw {seen}, kept were {kept}"]
    return []


def check_inbox(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """A message handed to an agent joins its history once, or waits in its inbox."""
    faults = []
    for path, agent in scene.bench.agents.items():
        mine = [e.event for e in log if e.agent == path]
        handed = [e.text for e in mine if isinstance(e, InboxMessage)]
        joined = [e.message.text for e in mine if isinstance(e, MessageAdded) and e.message.role == "user"]
        left = []
        while not agent.inbox.empty():
            left.append(agent.inbox.take()[0])
        if wrong := [t for t in handed if joined.count(t) + left.count(t) != 1]:
            faults.append(f"{path}: messages {wrong} are lost or doubled")
    return faults


def check_causes(scene: Scene, log: Sequence[Envelope]) -> list[str]:
    """Whoever was stopped was stopped by somebody: no cause stands in the record for another."""
    faults = []
    order = {(e.agent, e.event.run): n for n, e in enumerate(log) if isinstance(e.event, AgentFinished)}
    for envelope in log:
        path, end = envelope.agent, envelope.event
        if not isinstance(end, AgentFinished) or end.status != "cancelled":
            continue
        reasons = {level for top, level, nodes in scene.stops if top == path}
        above = {level for top, level, nodes in scene.stops if top != path and is_under(path, top)}
        if end.stop_reason == "aborted" and "abort" not in reasons:
            faults.append(f"{path} was aborted by nobody")
        if end.stop_reason == "cancelled" and "cancel" not in reasons:
            faults.append(f"{path} was cancelled by nobody")
        if end.stop_reason == "parent" and not above and not _parent_stopped(log, path):
            faults.append(f"{path} was stopped for its parent, which nothing stopped")
    for top, level, nodes in scene.stops:
        for node in nodes if level == "abort" else []:
            end_at = order.get((node.path, node.agent.run))
            if end_at is None:
                faults.append(f"{node.path} was aborted with {top} and has no end")
    return faults


def _parent_stopped(log: Sequence[Envelope], path: str) -> bool:
    """Whether an agent above `path` was stopped or ended by a limit of its own."""
    ends = [e.event for e in log if isinstance(e.event, AgentFinished) and e.agent != path and is_under(path, e.agent)]
    return any((e.status, e.stop_reason) != ("completed", "done") for e in ends)


CHECKS = (
    check_causes,
    check_log, check_partial, check_asks, check_calls, check_histories, check_leftovers, check_budgets, check_readers,
    check_inbox,
)  # fmt: skip


def faults_of(scene: Scene) -> list[str]:
    """All that is wrong with a session that was played."""
    log = list(scene.journal.envelopes) if not scene.journal.broken else list(scene.read)
    faults = list(scene.broken)
    for check in CHECKS:
        faults += check(scene, log)
    if scene.journal.broken:
        kept = scene.journal.envelopes
        if log[: len(kept)] != kept:
            faults.append("what was kept before the disk was full is told otherwise afterwards")
    return faults


# ---- cut and reopened --------------------------------------------------------------------


async def reopened(scene: Scene) -> list[str]:
    """Cut the log at some places, as a death of the process does, and go on from what is left."""
    whole = scene.journal.envelopes
    faults = []
    for _ in range(2 if whole else 0):
        faults += await _reopened(scene, whole, scene.rng.randint(1, len(whole)))
    return faults


async def _reopened(scene: Scene, whole: list[Envelope], cut: int) -> list[str]:
    kept = [decode_envelope(encode(e)) for e in whole[:cut]]
    faults = [] if kept == whole[:cut] else ["an event changes on its way through JSON"]
    records = log_reader.replay(kept)
    for path, record in records.items():
        faults += (
            [f"cut at {cut}, history of {path}: {fault}" for fault in strict(record.history)] if record.history else []
        )
        if record.history != log_reader.history(kept, path):
            faults.append(f"cut at {cut}: two histories of {path}")
    if "a" not in records or not records["a"].history:
        return faults
    scene.reached["reopened"] += 1
    model = Model({"a": [Say("going on")]})
    bench = Bench(model)
    bench.tree._past = {
        p: Known(p, r.profile, r.task, r.status if r.end else "interrupted") for p, r in records.items() if p != "a"
    }
    bench.root.history, bench.root.run = list(records["a"].history), records["a"].run
    outcome = await bench.prompt("where were we?")
    if outcome.result != "going on" or not model.requests:
        faults.append(f"cut at {cut}: the session does not go on: {outcome}")
    faults += [f"cut at {cut}, request: {fault}" for request in model.requests for fault in strict(request.messages)]
    if bench.root.history[: len(records["a"].history)] != records["a"].history:
        faults.append(f"cut at {cut}: the history is not continued but changed")
    return faults


# ---- what a scene reached --------------------------------------------------------------------


def count(scene: Scene, log: Sequence[Envelope]) -> None:
    """Add to `reached` what happened in the log."""
    for envelope in log:
        match envelope.event:
            case AgentStarted():
                scene.reached[f"agents of depth {depth_of(envelope.agent)}"] += 1
            case AgentFinished(status=status, stop_reason=reason):
                scene.reached[f"ends: {status}, {reason}"] += 1
            case AskWithdrawn():
                scene.reached["questions withdrawn"] += 1
            case TurnStarted(wrap_up=True):
                scene.reached["wrap-ups"] += 1
            case Compacted():
                scene.reached["compactions"] += 1
            case event:
                scene.reached[msgspec.to_builtins(event)["kind"]] += 1
    scene.reached["broken journals"] += scene.journal.broken
