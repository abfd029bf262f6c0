"""Mutation test of the fuzz: for each invariant of the engine a fault is put into its code, which the fuzz must find."""

from __future__ import annotations

import pytest

from tests.fuzz.mutation import Seed, changed
from tests.fuzz.script_player import play
from tests.fuzz.test_trees import FIXED, SCENES

MOST = SCENES
"""Scenes with fixed seeds that are tried: those of every run of the suite, which find nothing without a mutant."""

MUTANTS: dict[str, Seed] = {
    "1 open calls are left open at the end of a run": changed("close_calls", "open_calls(ANY)", "()"),
    "2 a task is cancelled more than once": changed(
        "stop", "not task.done() and not task.cancelling()", "not task.done()"
    ),
    "3 an event is shown before it is written": changed(
        "Log._write", "written = ANY", "self._publish(envelopes); written = ANY"
    ),
    "3 a write is cancelled with its emitter": changed(
        "Log.emit",
        "await done",
        """
        try:
            await done
        finally:
            self._waiting = [emitted for emitted in self._waiting if emitted.done is not done]
        """,
    ),
    "4 a child is cancelled before its first event": changed(
        "SubagentTree._mark_stopped",
        "Phase.STARTED < node.phase < Phase.ENDING and node.task",
        "node.phase < Phase.ENDING and node.task",
    ),
    "4 a stopped call does not stop its children": changed(
        "SubagentTree.wait", "asyncio.CancelledError", "ZeroDivisionError"
    ),
    "5 writing an end can be cancelled": changed("run", "await finish_despite_cancel(ANY)", "await ANY"),
    "6 a child is stopped with the reason of its parent": changed(
        "SubagentTree._mark_stopped", 'why if node.path == path else "parent"', "why"
    ),
    "6 the cancellation of a tool by itself counts as a stop": changed(
        "_Call._try", "if being_stopped(): ...", "if True: ..."
    ),
    "6 a limit replaces the reason of a stop": changed("run", 'node.why or "aborted"', '"aborted"'),
    "7 a run slot is held while waiting": changed("RunSlot.waiting", "len(self._waits) >= self._parallel", "False"),
    "7 an agent runs without a run slot": changed("RunSlot._resume", "await self._slots.acquire()", "None"),
    "7 a failed request stays counted in the rate limiter": changed(
        "RateLimiter.release", "self.in_flight -= 1", "self.in_flight -= 1 if succeeded else 0"
    ),
    "8 a message is added to memory and not to the log": changed(
        "drain_inbox", "await services.log.emit(agent.path, *agent.reading(message))", "None"
    ),
    "8 a compaction is not in the replay": changed("_compacted", "ANY.history = list(event.messages)", "pass"),
    "9 the wrap-up drops the tools": changed("request_with", "ANY.specs", "ANY.specs if tools else ()"),
    "9 a partial reply is put before the last message": changed(
        "add_reply", "conversation.history.append(ANY)", "conversation.history.insert(-1, ANY)"
    ),
    "10 the rights of a child ignore its parent": changed("Rules.decide", "[self.parent.decide(call, extra)]", "[]"),
    "10 the list of allowed tools is not checked": changed(
        "Allowlist.has", "self.tools is None or tool in self.tools", "True"
    ),
    "10 a denied call runs": changed(
        "require_permission", "raise PermissionDenied(ANY, hint=ANY_1)", "return Permit(False)"
    ),
    "11 only one question is open at a time": changed(
        "ApprovalQueue.permission",
        "answer = await self._put(path, ask_id, asked)",
        """
        import asyncio
        async with self.__dict__.setdefault('lock', asyncio.Lock()):
            answer = await self._put(path, self._new_id('p'), asked)
        """,
    ),
    "11 the clock runs while a person thinks": changed("RunSlot._stop_clocks", "clock.stop()", "None"),
    "12 a slow reader loses events": changed(
        "Subscription.put",
        "self._queue.append(waiting)",
        "self._queue.append(waiting) if len(self._queue) < 6 else None",
    ),
    "budget: usage of a child is not charged to its parent": changed("Budget.charge", "self.levels", "[self]"),
    "budget: a reservation is not made for the parent": changed("Budget.hold", "self.levels", "[self]"),
    "budget: the reserve is never released": changed(
        "Budget.release_holdback", "self.change_holdback(-self.holdback.tokens, -self.holdback.cost)", "None"
    ),
    "calls: results are sorted by tool name": changed(
        "run_calls",
        "zip(tasks, calls, strict=True)",
        "[(task, call) for call, task in sorted(zip(calls, tasks), key=lambda c: c[0].name)]",
    ),
    "calls: two changes run in parallel": changed("_run_scheduled", "await after.wait()", "None"),
    "loop: the text of a broken reply is lost": changed("save_partial_reply", "agent.streaming.strip()", "''"),
    "compaction: the summary is not in the log": changed(
        "compact",
        "services.log.emit(ANY, Compacted(ANY_1, ANY_2, ANY_3, ANY_4), ANY_5)",
        "services.log.emit(ANY, ANY_5)",
    ),
    "messages: a missing result is not replaced": changed(
        "_settle", "results.append(result or ANY)", "results.extend([result] if result else [])"
    ),
    "background: the note of an end is lost": changed(
        "ParentNotifier._deliver", "await agent.inbox.put(message)", "None"
    ),
    "background: the note of an end is delivered twice": changed(
        "ParentNotifier._deliver",
        "await agent.inbox.put(message)",
        "(await agent.inbox.put(message), await agent.inbox.put(message))",
    ),
    "background: a note passed to a parent is delivered again after a resume": changed(
        "_pass_on", "record.path != path", "False"
    ),
    "background: notes go to the root instead of the nearest ancestor": changed(
        "ParentNotifier._nearest_running_ancestor", "ANY not in self._runs or self._runs[ANY].ending", "True"
    ),
    "background: an idle root is not started": changed("ParentNotifier._deliver", "self._tree.wake(path)", "None"),
    "background: a stopped root is started": changed(
        "SubagentTree.on_run_ended", 'node.outcome.status != "cancelled"', "True"
    ),
    "background: a child is not stopped with its parent": changed(
        "SubagentTree.stop_children", "not node.keeps(child)", "False"
    ),
    "background: a child ends with a parent that does not wait": changed(
        "SubagentTree.stop_children", "child.waiter == node.path and not child.background", "child.waiter == node.path"
    ),
    "resume: the used budget is forgotten": changed("budget_left", "_used(records, path)", "Usage()"),
    "resume: rights are those of the root": changed(
        "AgentResumer._resume", "await self._agent(parent_of(path))", "self._tree.root"
    ),
    "resume: a running agent is started again": changed(
        "AgentResumer._check", "[node.path for node in self._tree.running(path)]", "[]"
    ),
    "resume: the history is empty": changed("resumed", "record.history", "[]"),
    "supervision: results are not checked": changed(
        "run_supervised", 'agent.supervision == "unsupervised" or agent.parent is None', "True"
    ),
    "supervision: differences are accepted": changed("run_supervised", "not reasons", "True"),
    "supervision: a result is redone more than once": changed(
        "run_supervised", 'ruling.verdict == "redo" and redone', "False"
    ),
    "supervision: a paused result is accepted": changed(
        "run_supervised", 'ruling.verdict == "accept"', 'ruling.verdict != "redo"'
    ),
    "worktrees: the worktree of an ancestor is not updated": changed(
        "WorktreeIsolation.run_ended", "path = parent_of(path)", "return"
    ),
    "worktrees: a worktree is closed while an agent runs in it": changed(
        "WorktreeIsolation._update_state", "tree.running(inside.path)", "()"
    ),
    "worktrees: an unused worktree is not removed": changed(
        "WorktreeIsolation.cancel", "found is not None and not found.path", "False"
    ),
    "supervision: a child has weaker supervision than its parent": changed(
        "strictest",
        "max((m for m in modes if m), key=ANY, default=ANY_1)",
        "min((m for m in modes if m), key=ANY, default=ANY_1)",
    ),
}


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
