"""What must hold of every session, however it went. Each check gives the faults it finds, in words."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from friday_cli.core.eventlog import replay as log_reader
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.agent_path import depth_of, is_under, parent_of
from friday_cli.core.protocol.messages import handed_in
from friday_cli.core.protocol.run_result import ENDED
from tests.fuzz.scenario import Scene
from tests.strict import strict

LEGAL = {
    "completed": {"done", "iterations", "tokens", "cost"},
    "failed": {"reported", "iterations", "tokens", "cost", "provider", "refusal", "context", "supervision", "loop"},
    "timeout": {"time"},
    "cancelled": {"cancelled", "aborted", "parent"},
    "interrupted": {"process"},  # the process died, or Friday itself failed
}
"""How an agent may end, and why."""
DUST = 1e-6
BETWEEN = (
    ev.Notice,
    ev.InboxMessage,
    ev.Prefix,
    ev.Compacted,
    ev.Rewound,
    ev.Checkpoint,
    ev.Reviewed,
    ev.PersonCommand,
    ev.RuleAdded,
)
"""What may happen to the main agent while it does not run. A rule belongs to the session: a background child can ask for it."""


def check_log(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Numbers, starts and ends: each run has one of both, and nothing comes before, between or after."""
    faults = []
    numbers = [e.seq for e in log]
    if numbers != list(range(1, len(log) + 1)):
        faults.append(f"the numbers of the log are not 1..{len(log)}: {numbers}")
    open_runs: dict[str, ev.AgentStarted] = {}
    behind: set[str] = set()
    runs: dict[str, int] = defaultdict(int)
    for envelope in log:
        path, event = envelope.agent, envelope.event
        if isinstance(event, ev.AgentStarted):
            if path in open_runs:
                faults.append(f"{path} started twice")
            runs[path] += 1
            if event.run != runs[path]:
                faults.append(f"{path}: run {event.run} is its {runs[path]}.")
            if event.parent and event.run == 1 and event.parent not in open_runs:
                faults.append(f"{path} started under {event.parent}, which does not run")
            open_runs[path] = event
            alone = event.run > 1 and event.call_id.partition("-")[0] != event.parent  # its parent does not wait for it
            (behind.add if event.background or alone else behind.discard)(path)
        elif path not in open_runs:
            after = isinstance(event, ev.WorktreeChanged) or (isinstance(event, ev.Notice) and "worktree" in event.text)
            if not (path == "a" and isinstance(event, BETWEEN)) and not (runs[path] and after):
                faults.append(f"{path}: {event!r:.80} outside a run")
        elif isinstance(event, ev.Detached):
            behind.add(path)
        elif isinstance(event, ev.TurnStarted) and event.wrap_up:
            faults += [f"{p} works on while {path} wraps up" for p in _held(path, open_runs, behind)]
        elif isinstance(event, ev.AgentFinished):
            del open_runs[path]
            left = [p for p in open_runs if is_under(p, path)]
            faults += _end(path, event, left if event.status == "cancelled" else _held(path, left, behind))
    return faults + [f"{path} has no end" for path in open_runs]


def _held(path: str, paths: Iterable[str], behind: set[str]) -> list[str]:
    """Those of `paths` below `path` that do not work behind its back: nobody between them is in the background."""
    below = [p for p in paths if p != path and is_under(p, path)]
    return [p for p in below if not any(is_under(p, q) and q != path and is_under(q, path) for q in behind)]


def _end(path: str, end: ev.AgentFinished, below: list[str]) -> list[str]:
    faults = [f"{path} ended before {below}"] if below else []
    if end.stop_reason not in LEGAL.get(end.status, ()):
        faults.append(f"{path}: no such end: {end.status}, {end.stop_reason} ({end.error})")
    if end.duration_s > end.wall_s + DUST:
        faults.append(f"{path} was active for {end.duration_s} of {end.wall_s} s")
    if end.status == "completed" and (end.partial or (end.stop_reason != "done" and not end.result)):
        faults.append(f"{path}: completed with {end.result!r}, partial {end.partial}")
    return faults


def check_partial(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Every text that a run said is in its result when that is not the agent's own last word."""
    faults = []
    said: dict[str, list[str]] = defaultdict(list)
    ever: dict[str, list[str]] = defaultdict(list)
    last: dict[str, str] = {}
    for envelope in log:
        match envelope.event:
            case ev.AgentStarted():
                said[envelope.agent] = []
            case ev.MessageAdded(message=message) if message.role == "assistant":
                said[envelope.agent] += [message.text.strip()] if message.text.strip() else []
                if message.text.strip() or handed_in(message):  # one with calls alone leaves the last word as it is
                    last[envelope.agent] = handed_in(message)
                ever[envelope.agent].append(message.text)
            case ev.AgentFinished(partial=True, result=result):
                kept = said[envelope.agent]
                if envelope.event.stop_reason == "process":
                    kept = [] if last.get(envelope.agent) and last[envelope.agent] in result else kept[-1:]
                lost = [t for t in kept if t not in result]
                faults += [f"{envelope.agent} lost {lost} of its text"] if lost else []
    for path, text in scene.cut:
        if not any(text in t for t in ever[path]):
            faults.append(f"{path} said {text!r} before it was stopped, and it is lost")
    return faults


def check_asks(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """No question is left open, in the log and in the queue."""
    left = scene.bench.approvals.pending
    return asked_and_ended(log) + ([f"open questions are left in the queue: {left}"] if left else [])


def asked_and_ended(log: Sequence[ev.Envelope]) -> list[str]:
    """Every question is asked, then answered or withdrawn once, in the name of the same agent, before that ends."""
    faults = []
    waiting: dict[str, str] = {}
    for envelope in log:
        match envelope.event:
            case ev.PermissionAsked(id=ask_id) | ev.QuestionAsked(id=ask_id):
                if ask_id in waiting:
                    faults.append(f"{ask_id} is asked twice")
                waiting[ask_id] = envelope.agent
            case ev.PermissionAnswered(id=ask_id) | ev.QuestionAnswered(id=ask_id) | ev.AskWithdrawn(id=ask_id):
                if waiting.pop(ask_id, None) != envelope.agent:
                    faults.append(f"{ask_id} ended twice, or in the name of another")
            case ev.AgentFinished() if left := [i for i, path in waiting.items() if path == envelope.agent]:
                faults.append(f"{envelope.agent} ended with open questions {left}")
    return faults + ([f"open questions are left: {waiting}"] if waiting else [])


def check_calls(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """A call that started finished once; one that ran was permitted; what was denied did not run."""
    faults = []
    open_calls: dict[tuple[str, str], str] = {}
    yes: set[tuple[str, str]] = set()
    asked: dict[str, str] = {}
    for envelope in log:
        path, event = envelope.agent, envelope.event
        match event:
            case ev.PermissionAsked(id=ask_id, call_id=call_id):
                asked[ask_id] = call_id
            case ev.PermissionAnswered(id=ask_id, decision="allow"):
                yes.add((path, asked[ask_id]))
            case ev.ToolStarted(call_id=call_id, tool=name):
                open_calls[path, call_id] = name
                faults += _permitted(scene, path, call_id, name, yes)
            case ev.ToolFinished(call_id=call_id, status=status):
                if open_calls.pop((path, call_id), None) is None and status not in ("denied", "cancelled"):
                    faults.append(f"{path}: {call_id} finished ({status}) and never started")
            case ev.Denied(call_id=call_id):
                if (path, call_id) in open_calls:
                    faults.append(f"{path}: {call_id} was denied while it ran")
    return faults + [f"{path}: {call_id} never finished" for path, call_id in open_calls]


def _permitted(scene: Scene, path: str, call_id: str, name: str, yes: set[tuple[str, str]]) -> list[str]:
    """Rights are looked at from outside: every agent on the way up must let the call pass, or a person said yes."""
    tools = scene.agent(path).conversation.tools
    if name not in tools:
        return [f"{path} ran {name}, which is not among its tools"]
    effect = tools[name].effect
    above = path
    while above:
        decision = _right(scene.agent(above).rules, name, effect)
        if decision == "deny":
            return [f"{path} ran {name} though {above} may not"]
        if decision == "ask" and (path, call_id) not in yes:
            return [f"{path} ran {name} without asking, as {above} must"]
        above = parent_of(above)
    return []


def _right(rules: Rules, name: str, effect: str) -> str:
    """What one agent's rights say of a tool; the scenes' rules speak of tools as a whole."""
    if rules.allowlist.tools is not None and name not in rules.allowlist.tools:
        return "deny"
    said = {rule.decision for rule in rules.rules if rule.tool == name}
    default = {"write": "ask", "run": "ask", "net": "ask"}
    modes: dict[str | None, dict[str, str]]
    modes = {
        "ask": default,
        "edits": {**default, "write": "allow"},
        "auto": {**default, "write": "allow"},
        "plan": {**default, "write": "deny", "run": "deny", "save": "deny"},
        "yolo": {},
        None: {},
    }
    return next((d for d in ("deny", "ask", "allow") if d in said), modes[rules.mode].get(effect, "allow"))


def check_histories(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Every call has its one result, and the log tells the same history as memory."""
    faults = []
    records = log_reader.replay(log)
    for path, agent in scene.bench.agents.items():
        if agent.conversation.history or path in scene.bench.tree.runs:
            # one that died before its task and was refused has none
            faults += [f"history of {path}: {fault}" for fault in strict(agent.conversation.history)]
        if path not in scene.bench.tree.runs:
            continue  # made anew for one below it that goes on: it does nothing, and with another model it may have no thinking
        if path not in records:
            faults.append(f"{path} is not in the log")
            continue
        kept, memory = records[path].history, agent.conversation.history
        if kept != memory:
            faults.append(f"the log tells another history of {path}:\n{kept}\n{memory}")
        if (end := records[path].end) is None or end.status not in ENDED:
            faults.append(f"{path} does not end in the log")
        if records[path].usage != agent.usage:
            faults.append(f"the log tells another usage of {path}: {records[path].usage}, {agent.usage}")
        waits = records[path].inbox
        if waits != list(agent.inbox._waiting):
            faults.append(f"the log tells another inbox of {path}: {waits}, {agent.inbox._waiting}")
        if records[path].receipt != agent.receipt:
            faults.append(f"the log tells another receipt of {path}: {records[path].receipt}, {agent.receipt}")
    return faults


def check_leftovers(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """No task, place, reservation, reader or process is left."""
    bench = scene.bench
    faults = [f"task {t.get_name()} is left" for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    slots = bench.tree.slots
    if slots._value != scene.places or slots.locked():
        faults.append(f"{slots._value} of {scene.places} places were given back")
    faults += [
        f"lane {lane}: {g.in_flight} in flight" for lane, g in bench.services.rate_limiters.items() if g.in_flight
    ]
    if scene.working or scene.cleaning or scene.model.open:
        faults.append(f"something works on: {scene.working} {scene.model.open}")
    if bench.log._readers:
        faults.append("a reader is left")
    for path, agent in bench.agents.items():
        for clock in {agent.slot.clock, agent.slot.subtree_clock}:
            if clock.running:
                faults.append(f"a clock of {path} runs on")
            if clock._tick:
                faults.append(f"an alarm of {path} is set")
    return faults


def check_budgets(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Nothing is reserved or kept; a parent counts its children; limits hold but for one misjudged reply an agent."""
    faults = []
    agents = scene.bench.agents
    for path, agent in agents.items():
        for name in ("tokens", "cost"):
            pool = getattr(agent.budget, name)
            if abs(pool.reserved) > DUST or abs(pool.holdback) > DUST:
                faults.append(f"{path}: {pool.reserved} {name} reserved and {pool.holdback} kept at the end")
            below = sum(getattr(c.budget, name).spent for c in agents.values() if c.budget.parent is agent.budget)
            if pool.limit is not None and pool.spent < below - DUST:
                faults.append(f"{path} counts {pool.spent} {name}, its children {below}")
        over = agent.budget.tokens.spent - (agent.budget.tokens.limit or float("inf"))
        faults += over_limit(scene, path, over)
        if depth_of(path) > scene.bench.policy.max_depth:
            faults.append(f"{path} is too deep")
    ever = {e.agent for e in log if isinstance(e.event, ev.AgentStarted)}
    if len(ever) - 1 > scene.bench.policy.max_agents:
        faults.append(f"{len(ever) - 1} agents of {scene.bench.policy.max_agents}")
    return faults


def over_limit(scene: Scene, path: str, over: float) -> list[str]:
    """Whether the budget of `path` was overspent by more than may be: by a misjudged reply of each agent below."""
    misjudged = sum(n for p, n in scene.misjudged.items() if is_under(p, path))
    largest = sum(n for p, n in scene.largest.items() if is_under(p, path))
    if over <= min(misjudged, largest) + DUST:
        return []
    return [f"{path} overspent its budget by {over}: {misjudged} were misjudged, {largest} are one reply an agent"]


def check_readers(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """A slow reader saw every durable event, once, in order."""
    if scene.read != list(log):
        seen, kept = [e.seq for e in scene.read], [e.seq for e in log]
        return [f"a slow reader saw {seen}, kept were {kept}"]
    return []
