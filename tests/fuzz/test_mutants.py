"""Mutation test of the fuzz: for each invariant of the engine a fault is put into its code, which the fuzz must find."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from friday_cli.agents import isolation
from friday_cli.core.agent import compaction, loop, model_call, supervision, tool_calls
from friday_cli.core.eventlog import log, replay
from friday_cli.core.limits import budget, rate_limit, slots
from friday_cli.core.permissions import approvals, rules, steps
from friday_cli.core.protocol import messages
from friday_cli.core.subagents import notifier, resume, resumer, run, tree
from tests import engine_fixture
from tests.fuzz.script_player import play
from tests.fuzz.test_trees import FIXED, SCENES

MOST = SCENES
"""Scenes with fixed seeds that are tried: those of every run of the suite, which find nothing without a mutant."""

Seed = Callable[[pytest.MonkeyPatch], None]


def changed(owner: Any, name: str, old: str, new: str, *also: Any) -> Seed:
    """The function `name` of a module or class with `old` in its source replaced; `also` import it by name, or are
    tables that hold it."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        function = inspect.unwrap(getattr(owner, name))
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(old) == 1, f"{name} has changed: this mutant must be adapted"
        module = inspect.getmodule(function)
        assert module is not None
        made: dict[str, Any] = {}
        code = compile(source.replace(old, new), f"<mutant of {name}>", "exec", __future__.annotations.compiler_flag)
        exec(code, module.__dict__, made)
        for place in (owner, *also):
            if isinstance(place, dict):
                patch.setitem(place, next(key for key, held in place.items() if held is function), made[name])
            else:
                patch.setattr(place, name, made[name])

    return apply


MUTANTS: dict[str, Seed] = {
    "1 open calls are left open at the end of a run": changed(
        loop, "close_calls", "if left := open_calls(agent.history):", "if left := ():", run, supervision),
    "2 a task is cancelled more than once": changed(
        tool_calls, "stop", "if not task.done() and not task.cancelling():", "if not task.done():", run, tree),
    "3 an event is shown before it is written": changed(
        log.Log, "_write", "written = self._journal", "self._publish(envelopes); written = self._journal"),
    "3 a write is cancelled with its emitter": changed(
        log.Log, "emit", "await done", """
    try:
        await done
    finally:
        self._waiting = [emitted for emitted in self._waiting if emitted.done is not done]
    """),
    "4 a child is cancelled before its first event": changed(
        tree.SubagentTree, "_mark_stopped", "if node.begun and not node.ending and node.task:", "if not node.ending and node.task:"),
    "4 a stopped call does not stop its children": changed(
        tree.SubagentTree, "wait", "except asyncio.CancelledError:", "except ZeroDivisionError:"),
    "5 writing an end can be cancelled": changed(
        run, "run", "await finish_despite_cancel(_end(tree, node, outcome, begun))", "await _end(tree, node, outcome, begun)", tree),
    "6 a child is stopped with the reason of its parent": changed(
        tree.SubagentTree, "_mark_stopped", '(why if node.path == path else "parent")', "why"),
    "6 the cancellation of a tool by itself counts as a stop": changed(
        tool_calls, "_run_call", "        if being_stopped():", "        if True:"),
    "6 a limit replaces the reason of a stop": changed(
        run, "run", 'RunResult("cancelled", node.why or "aborted",', 'RunResult("cancelled", "aborted",', tree),
    "7 a run slot is held while waiting": changed(
        slots.RunSlot, "waiting", "if len(self._waits) >= self._parallel:", "if False:"),
    "7 an agent runs without a run slot": changed(slots.RunSlot, "_resume", "await self._slots.acquire()", "pass"),
    "7 a failed request stays counted in the rate limiter": changed(
        rate_limit.RateLimiter, "release", "self.in_flight -= 1", "self.in_flight -= 1 if succeeded else 0"),
    "8 a message is added to memory and not to the log": changed(
        loop, "drain_inbox", "await services.log.emit(agent.path, *agent.reading(message))", "pass"),
    "8 a compaction is not in the replay": changed(
        replay, "_compacted", "record.history = list(event.messages)", "pass", replay._FOLDS),
    "9 the wrap-up drops the tools": changed(
        model_call, "_request", "tools=agent.specs,", "tools=agent.specs if tools else (),"),
    "9 a partial reply is put before the last message": changed(
        loop, "add_reply", "agent.history.append(done.message)", "agent.history.insert(-1, done.message)"),
    "10 the rights of a child ignore its parent": changed(
        rules.Rules, "decide", "[] if self.parent is None else", "[] if True else"),
    "10 the list of allowed tools is not checked": changed(
        steps.Rights, "has", "return self.allowed is None or tool in self.allowed", "return True"),
    "10 a denied call runs": changed(tool_calls, "_require_permission", "raise PermissionDenied(f\"Not permitted", "return\n    raise PermissionDenied(f\"Not permitted"),
    "11 only one question is open at a time": changed(
        approvals.ApprovalQueue, "permission", "answer = await self._put(path, ask_id, asked)",
        "import asyncio\n        lock = self.__dict__.setdefault('lock', asyncio.Lock())\n        async with lock:\n"
        "            answer = await self._put(path, self._new_id('p'), asked)",
    ),
    "11 the clock runs while a person thinks": changed(slots.RunSlot, "_stop_clocks", "clock.stop()", "pass"),
    "12 a slow reader loses events": changed(
        log.Subscription, "put", "self._queue.append(waiting)", "self._queue.append(waiting) if len(self._queue) < 6 else None"),
    "budget: usage of a child is not charged to its parent": changed(
        budget.Budget, "charge", "for node in self.up():", "for node in [self]:"),
    "budget: a reservation is not made for the parent": changed(
        budget.Budget, "hold", "for node in self.up():", "for node in [self]:"),
    "budget: the reserve is never released": changed(
        budget.Budget, "close_reserve", "self.keep(-tokens, -cost)", "pass"),
    "calls: results are sorted by tool name": changed(
        tool_calls, "run_calls", "for task, call in zip(tasks, calls, strict=True)", "for call, task in sorted(zip(calls, tasks), key=lambda c: c[0].name)", loop),
    "calls: two changes run in parallel": changed(tool_calls, "_run_scheduled", "await after.wait()", "pass"),
    "loop: the text of a broken reply is lost": changed(loop, "save_partial_reply", "if text := agent.streaming.strip():", "if text := '':", run),
    "compaction: the summary is not in the log": changed(
        compaction, "compact", "Compacted(tuple(agent.history), before, after, done.usage),", ""),
    "messages: a missing result is not replaced": changed(
        messages, "_settle", 'results.append(result or ToolResult(call.id, why, "cancelled"))', "results += [result] if result else []"),
    "background: the note of an end is lost": changed(notifier.ParentNotifier, "_deliver", "await agent.inbox.put(message)", "pass"),
    "background: the note of an end is delivered twice": changed(
        notifier.ParentNotifier, "_deliver", "await agent.inbox.put(message)",
        "await agent.inbox.put(message); await agent.inbox.put(message)",
    ),
    "background: a note passed to a parent is delivered again after a resume": changed(
        replay, "_pass_on", "record.path != path", "False"),
    "background: notes go to the root instead of the nearest ancestor": changed(
        notifier.ParentNotifier, "_nearest_running_ancestor", "while depth_of(path) and (path not in self._runs or self._runs[path].ending):",
        "while depth_of(path):",
    ),
    "background: an idle root is not started": changed(notifier.ParentNotifier, "_deliver", "self._wake(path)", "pass"),
    "background: a stopped root is started": changed(
        tree.SubagentTree, "on_run_ended", 'and node.outcome.status != "cancelled"', ""),
    "background: a child is not stopped with its parent": changed(
        tree.SubagentTree, "stop_children", "not node.keeps(child) if stopped", "False if stopped"),
    "background: a child ends with a parent that does not wait": changed(
        tree.SubagentTree, "stop_children", "not child.background", "True"),
    "resume: the used budget is forgotten": changed(
        resume, "budget_left", "_used(records, path)", "Usage()", engine_fixture),
    "resume: rights are those of the root": changed(
        resumer.AgentResumer, "_resume", "await self._agent(parent_of(path))", "self._tree.root"),
    "resume: a running agent is started again": changed(
        resumer.AgentResumer, "_check", "[node.path for node in self._tree.running(path)]", "[]"),
    "resume: the history is empty": changed(
        resume, "restore", "agent.history, agent.usage, agent.run = record.history,",
        "agent.history, agent.usage, agent.run = [],",
        engine_fixture,
    ),
    "supervision: results are not checked": changed(
        supervision, "run_supervised", 'if agent.supervision == "unsupervised" or agent.parent is None:', "if True:", run),
    "supervision: differences are accepted": changed(supervision, "run_supervised", "if not reasons:", "if True:", run),
    "supervision: a result is redone more than once": changed(
        supervision, "run_supervised", 'if ruling.verdict == "redo" and redone:', "if False:", run),
    "supervision: a paused result is accepted": changed(
        supervision, "run_supervised", 'if ruling.verdict == "accept":', 'if ruling.verdict != "redo":', run),
    "worktrees: the worktree of an ancestor is not updated": changed(
        isolation.WorktreeIsolation, "run_ended", "path = parent_of(path)", "return"),
    "worktrees: a worktree is closed while an agent runs in it": changed(
        isolation.WorktreeIsolation, "_update_state", "or tree.running(inside.path)", ""),
    "worktrees: an unused worktree is not removed": changed(
        isolation.WorktreeIsolation, "cancel", "if found is not None and not found.path:", "if False:"),
    "supervision: a child has weaker supervision than its parent": changed(supervision, "strictest", "max(", "min(", engine_fixture),
}  # fmt: skip


FOUND_BY = (
    33, 35, 58, 100, 55, 107, 55, 48, 56, 107, 24, 107, 58, 18, 52, 31, 10, 16, 1, 30, 40, 27, 37, 7, 15, 58, 0, 107,
    39, 52, 107, 28, 47, 3, 43, 3, 24, 44, 19, 48, 43, 9, 3, 35, 35, 26, 22, 61, 61, 54, 35,
)  # fmt: skip
"""A scene that found each of MUTANTS, in their order. It is tried first; any number will do for a new one."""


@pytest.mark.mutant
@pytest.mark.parametrize(("name", "scene"), [*zip(MUTANTS, FOUND_BY, strict=True)], ids=MUTANTS)
def test_the_fuzz_finds_a_seeded_fault(name: str, scene: int, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    for number in (scene, *range(MOST)):
        faults, _ = play(FIXED + number)
        if faults:
            return
    pytest.fail(f"{MOST} scenes did not find: {name}")
