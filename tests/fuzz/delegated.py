"""What must hold of agents with several runs, of agents behind one's back, of their news, budgets and supervisors."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from friday_cli.core.eventlog.notices import DIED
from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.agent_path import depth_of, is_under, parent_of
from friday_cli.core.protocol.messages import ToolCall
from tests.fuzz.checks import over_limit
from tests.fuzz.scenario import Scene

NEWS = re.compile(
    r"\[Note of the harness.*?\] The (?:background )?sub-agent (\S+) \(\S+\)(?:, which the user continued,)? has ended"
)


@dataclass
class Run:
    """One run of one agent in the log; `begin` and `end` are places there. Without an end the log was cut."""

    path: str
    start: ev.AgentStarted
    begin: int
    end: int = 10**9
    finished: ev.AgentFinished | None = None
    background: bool = False
    events: list[ev.AnyEvent] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)

    @property
    def first(self) -> str:
        """The message that it began with."""
        return next((e.message.text for e in self.events if isinstance(e, ev.MessageAdded)), "")


def runs_of(log: Sequence[ev.Envelope]) -> list[Run]:
    runs: list[Run] = []
    now: dict[str, Run] = {}
    for number, envelope in enumerate(log):
        path, event = envelope.agent, envelope.event
        if isinstance(event, ev.AgentStarted):
            now[path] = Run(path, event, number, background=event.background)
            runs.append(now[path])
        run = now.get(path)
        if run is None:
            continue
        run.events.append(event)
        if isinstance(event, ev.TurnStarted) and not event.wrap_up:
            run.turns.append(number)
        if isinstance(event, ev.Detached):
            run.background = True
        if isinstance(event, ev.AgentFinished):
            run.end, run.finished = number, event
            del now[path]
    return runs


def calls_that_ran(log: Sequence[ev.Envelope]) -> list[tuple[str, ToolCall]]:
    """The calls that began, with who made them."""
    made = {(e.agent, c.id): c for e in log if isinstance(e.event, ev.MessageAdded) for c in e.event.message.calls}
    began = [(e.agent, e.event.call_id) for e in log if isinstance(e.event, ev.ToolStarted)]
    return [(path, made[path, call_id]) for path, call_id in began if (path, call_id) in made]


def check_starts(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Nothing that ended starts again by itself: somebody continued it, each time; a stopped root waits for a person."""
    faults = []
    calls = [c for _, c in calls_that_ran(log) if c.arguments.get("resume")]
    given = scene.given | {c.arguments["task"] for c in calls if c.arguments.get("max_tokens")}
    asked = Counter(scene.resumed) + Counter((c.arguments["resume"], c.arguments["task"]) for c in calls)
    prompts, handed = (
        Counter(scene.prompts),
        {e.event.text for e in log if e.agent == "a" and isinstance(e.event, ev.InboxMessage)},
    )
    last: dict[str, Run] = {}
    for run in runs_of(log):
        before, last[run.path] = last.get(run.path), run
        if not run.first:
            continue  # its process died before it was told anything
        if run.path == "a":
            said = [text for text in prompts if run.first.endswith(text)]
            prompts.subtract(said)
            if any(prompts[text] < 0 for text in said):
                faults.append(f"a began twice for {said}")
            if not said and run.first not in handed:
                faults.append(f"a began by itself: {run.first[:80]}")
            elif not said and before and before.finished and before.finished.status == "cancelled":
                faults.append(f"a was stopped and came back by itself: {run.first[:80]}")
        elif before:
            asked.subtract([(run.path, run.first)])
            if asked[run.path, run.first] < 0:
                faults.append(f"{run.path} started again, and nobody asked for that: {run.first[:80]}")
            if run.start.tokens > before.start.tokens and run.first not in given:
                faults.append(
                    f"{run.path} got {run.start.tokens} tokens after {before.start.tokens}, and nobody gave them"
                )
            if more := set(run.start.tools) - set(before.start.tools):
                faults.append(f"{run.path} has more tools than before: {more}")
    return faults


def check_causes(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Each stopped agent has the cause of its stop in the log, and no other one."""
    faults = []
    by_model = [
        (c.arguments.get("id"), c.arguments.get("mode")) for _, c in calls_that_ran(log) if c.name == "cancel_sub_agent"
    ]
    stops = [(top, level) for top, level, _ in scene.stops] + by_model
    runs = runs_of(log)
    ended = {(run.path, run.start.run) for run in runs if run.finished}
    for run in runs:
        path, end = run.path, run.finished
        if end is None or end.status != "cancelled":
            continue
        reasons = {level for top, level in stops if top == path}
        above = any(top != path and is_under(path, str(top)) for top, _ in stops)
        if end.stop_reason == "aborted" and "abort" not in reasons:
            faults.append(f"{path} was aborted by nobody")
        if end.stop_reason == "cancelled" and "cancel" not in reasons:
            faults.append(f"{path} was cancelled by nobody")
        if end.stop_reason == "parent" and not above and not _left(run, runs):
            faults.append(f"{path} was stopped for its parent, which nothing stopped")
    for top, level, stopped in scene.stops:
        for name, number in stopped if level == "abort" else []:
            if (name, number) not in ended:
                faults.append(f"{name} was aborted with {top} and has no end")
    return faults


def _left(run: Run, runs: Sequence[Run]) -> bool:
    """Whether an agent above ended after `run`: stopped or by a limit, or it was not what waited for the run."""
    above = [r for r in runs if r.path != run.path and is_under(run.path, r.path) and r.end > run.end and r.finished]
    ends = [r.finished for r in above if r.finished]
    unwaited = run.start.run > 1 or run.start.call_id == ""
    waits = unwaited or any(r.start.run > 1 or r.start.call_id == "" for r in above if r.path != "a")
    return any(waits or (e.status, e.stop_reason) != ("completed", "done") for e in ends)


def check_inbox(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """A message handed to an agent joins its history once, or waits in its inbox; the harness's may move upward."""
    faults = []
    inboxes = {path: [(m.text, m.source) for m in record.inbox] for path, record in replay(log).items()}
    for path, waits in inboxes.items():
        mine = [e.event for e in log if e.agent == path]
        handed = Counter(e.text for e in mine if isinstance(e, ev.InboxMessage) and e.source != "harness")
        joined = Counter(e.message.text for e in mine if isinstance(e, ev.MessageAdded) and e.message.role == "user")
        left = Counter(text for text, _ in waits)
        if wrong := [t for t, n in handed.items() if joined[t] + left[t] != n]:
            faults.append(f"{path}: messages {wrong} are lost or doubled")
    return faults


def check_news(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Each end behind an agent's back is told once: to the nearest agent above that still works, at last to the root."""
    faults = []
    runs = runs_of(log)
    told: dict[str, list[tuple[int, str]]] = defaultdict(list)
    read: Counter[str] = Counter()
    holders: dict[str, str] = {}
    for number, envelope in enumerate(log):
        event = envelope.event
        if isinstance(event, ev.InboxMessage) and event.source == "harness" and (match := NEWS.match(event.text)):
            told[match[1]].append((number, envelope.agent))
            held = holders.get(event.text, "")
            passed_on = held != envelope.agent and is_under(held, envelope.agent)
            faults += _addressed(runs, match[1], number, envelope.agent, held if passed_on else match[1])
            holders[event.text] = envelope.agent
        elif (
            isinstance(event, ev.MessageAdded)
            and event.message.role == "user"
            and (match := NEWS.match(event.message.text))
        ):
            read[match[1]] += 1
    for record in replay(log).values():
        read.update(match[1] for m in record.inbox if (match := NEWS.match(m.text)))
    reported = {c.arguments.get("id") for _, c in calls_that_ran(log) if c.name == "cancel_sub_agent"}
    due: Counter[str] = Counter()
    spare: Counter[str] = Counter()
    for run in runs:
        end = run.finished
        by_person = run.path != "a" and run.start.run > 1 and not run.start.call_id
        if (run.background or by_person) and end and end.stop_reason != "parent" and end.error != DIED:
            due[run.path] += 1
            spare[run.path] += run.path in reported or _nobody_to_tell(scene, run, runs)
    for path in told.keys() | due.keys():
        if not due[path] - spare[path] <= read[path] <= due[path]:
            faults.append(f"{path} ended {due[path]} times with nobody waiting; that was told {read[path]} times")
    return faults


def _addressed(runs: Sequence[Run], path: str, number: int, to: str, by: str) -> list[str]:
    """Whether news of `path` went to the right one at that place of the log, from itself or from `by`, who ended unread."""
    if path == to or not is_under(path, to):
        return [f"news of {path} went to {to}"]
    faults = []
    for run in runs:
        between = is_under(by, run.path) and by != run.path and depth_of(run.path) > depth_of(to)
        if between and run.begin < number < run.end and any(turn > number for turn in run.turns):
            faults.append(f"news of {path} passed {run.path}, which worked on")
    if to != "a" and not any(run.path == to and run.begin < number < run.end for run in runs):
        faults.append(f"news of {path} went to {to}, which does not work")
    return faults


def _nobody_to_tell(scene: Scene, run: Run, runs: Sequence[Run]) -> bool:
    """Whether all above it was being stopped when `run` ended."""
    if any(top != run.path and is_under(run.path, top) for top, _, _ in scene.stops):
        return True
    above = [r for r in runs if r.path != run.path and is_under(run.path, r.path) and r.end > run.end]
    return any(r.finished is None or r.finished.status in ("cancelled", "interrupted") for r in above)


def check_lives(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """Over all its runs an agent and all below it use what was granted, and no more than a misjudged reply of each."""
    faults = []
    limits: dict[str, int] = {}
    used: dict[str, int] = {}
    working: set[str] = set()
    for envelope in log:
        path, event = envelope.agent, envelope.event
        if isinstance(event, ev.AgentStarted):
            limits[path] = event.tokens
            working.add(path)
        elif isinstance(event, ev.AgentFinished):
            working.discard(path)
            used[path] = event.usage.billed
            above = path
            while above:
                total = sum(n for p, n in used.items() if is_under(p, above))
                if limits[above]:
                    faults += over_limit(scene, above, total - limits[above])
                above = parent_of(above)
            total = sum(n for p, n in used.items() if is_under(p, path))
            if event.tree_usage.billed != total and not any(is_under(p, path) for p in working):
                faults.append(f"{path}: its tree used {total}, its end says {event.tree_usage.billed}")
    return faults


def check_supervision(scene: Scene, log: Sequence[ev.Envelope]) -> list[str]:
    """What a supervised agent hands back as done was looked at; what its supervisor paused is no success."""
    faults = []
    warned: dict[str, set[str]] = defaultdict(set)
    for run in runs_of(log):
        if run.finished is None:
            continue
        end, verdicts = run.finished, [e for e in run.events if isinstance(e, ev.Verdict)]
        new, warned[run.path] = set(end.receipt.warnings) - warned[run.path], set(end.receipt.warnings)
        if not _supervised(scene, run.path):
            faults += [f"{run.path} has verdicts and no supervisor"] if verdicts else []
            continue
        intents = [e for e in run.events if isinstance(e, (ev.IntentStated, ev.ToolStarted))]
        if intents and not isinstance(intents[0], ev.IntentStated):
            faults.append(f"{run.path} acted before it stated its intent")
        if (end.status, end.stop_reason) == ("completed", "done"):
            if not verdicts or verdicts[-1].verdict != "accept":
                faults.append(f"{run.path} is done, and its supervisor did not accept that: {verdicts}")
            elif verdicts[-1].by == "harness" and new:
                faults.append(f"{run.path} was accepted without a look, though {new}")
        if end.stop_reason == "supervision" and (not verdicts or verdicts[-1].verdict != "pause"):
            faults.append(f"{run.path} was refused without a verdict")
        if sum(v.verdict == "redo" and v.by == "model" for v in verdicts) > sum(
            isinstance(e, ev.IntentStated) for e in intents
        ):
            faults.append(f"{run.path} was redone more than once")
    return faults


def _supervised(scene: Scene, path: str) -> bool:
    while parent_of(path):
        if scene.bench.profiles[scene.agent(path).profile].supervision:
            return True
        path = parent_of(path)
    return False
