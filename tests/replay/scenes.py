"""Fifty trees to record: what the agents say, what the project and its person bring, and what must come of it.

`python -m tests.replay.record` plays them with the real engine and real tools, and writes tests/replay/cassettes. `set_up` makes the home and the
project that a replay needs: its profiles, hooks and repository.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol import events
from friday_cli.session.session import Session
from friday_cli.system.paths import config_dir
from tests.session.harness import delegates, does, says

Act = Callable[[Session, Any], Awaitable[object]]


@dataclass(frozen=True)
class Rule:
    """`act` when the `count`-th event of this type at `agent` is seen."""

    kind: type
    agent: str
    count: int
    act: Act


@dataclass(frozen=True)
class Scene:
    """A session to record. `play`: the turns of each agent. `profiles`: more lines of the front matter of profiles of the person.
    `options` of the session; `more`: keys of the scenario. `prompts` of the person, each in the process of that number. `cut`: the last event
    of the first process that survives, as (type, agent): it dies then, and the next prompt resumes."""

    name: str
    play: Mapping[str, Any]
    profiles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    prompts: Sequence[str] = ("go",)
    rules: Sequence[Rule] = ()
    cut: tuple[type, str] | None = None
    git: bool = False
    least: Mapping[str, int] = field(default_factory=dict)
    """What the log must have at least, by the kind of the event: a scene that does not do what it is for proves nothing."""


ENDS = {"text": "", "calls": [{"name": "task_result", "arguments": {"result": "Found it.", "status": "success"}}]}
LOOK = does(("list_dir", {"path": "."}), ("grep", {"pattern": "hello"}))
READ = does(("read_file", {"path": "README.md"}))
LEAD = ("subAgents: '*'", "allowedTools: '*'")
ALL = ("allowedTools: '*'",)


def _several(count: int, profile: str = "worker", **more: Any) -> dict[str, Any]:
    return does(*(("delegate_task", {"profile": profile, "task": f"part {n}", **more}) for n in range(1, count + 1)))


def _fails(kind: str, **more: Any) -> dict[str, Any]:
    return {"text": "I was about", "fail": {"kind": kind, "message": f"scripted {kind}", **more}}


def _answers(decision: Any, **more: Any) -> Act:
    async def act(session: Session, event: Any) -> None:
        await session.answer(event.id, ApprovalAnswer(decision, **more))

    return act


def _says(text: str) -> Act:
    async def act(session: Session, event: Any) -> None:
        await session.answer(event.id, text)

    return act


def _sends(path: str, text: str) -> Act:
    return lambda session, event: session.send(path, text)


def _stops(path: str, level: Any) -> Act:
    return lambda session, event: session.stop(path, level=level)


def _detaches(path: str) -> Act:
    return lambda session, event: session.detach(path)


def _hook(matcher: str, command: str) -> list[dict[str, Any]]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]


def _gives(event: str, **fields: Any) -> str:
    text = json.dumps({"hookSpecificOutput": {"hookEventName": event, **fields}})
    return f"cat >/dev/null; echo {json.dumps(text)}" if "'" in text else f"cat >/dev/null; echo '{text}'"


ASKED, QUESTION, CALL, TURN = events.PermissionAsked, events.QuestionAsked, events.ToolStarted, events.TurnStarted
ATTENDED = {"attended": True}
YOLO = {"mode": "yolo"}

PARALLEL = [
    Scene(
        f"parallel-{count}",
        {"a": [_several(count), says("All: {results}")], "a.*": [LOOK, READ, ENDS]},
        {"worker": ALL},
        least={"agent_started": count + 1},
    )
    for count in (2, 3, 4, 5)
] + [
    Scene(
        f"batch-{count}",
        {
            "a": [does(("delegate_tasks", {"tasks": [{"profile": "worker", "task": f"part {n}"} for n in range(count)]})), says("ok")],
            "a.*": [READ, ENDS],
        },
        {"worker": ALL},
        least={"agent_started": count + 1},
    )
    for count in (2, 4)
]  # fmt: skip

NESTED = [
    Scene(
        "nested-two",
        {"a": [delegates("lead"), says("done: {results}")], "a.1": [_several(2), ENDS], "a.1.*": [LOOK, ENDS]},
        {"worker": ALL, "lead": LEAD},
        least={"agent_started": 4},
    ),
    Scene(
        "nested-three",
        {
            "a": [delegates("chief"), says("done")], "a.1": [delegates("lead", "split it"), ENDS], "a.1.1": [_several(2), ENDS],
            "a.1.1.*": [READ, ENDS],
        },
        {"worker": ALL, "lead": LEAD, "chief": LEAD},
        least={"agent_started": 5},
    ),
    Scene(
        "forked",
        {"a": [READ, delegates("worker", fork=True), says("done")], "a.1": [LOOK, says("The fork found it.")]},
        {"worker": ALL},
        least={"agent_started": 2, "compacted": 1},
    ),
]  # fmt: skip

BACKGROUND = [
    Scene(
        f"background-{count}",
        {
            "a": [_several(count, background=True), says("They work."), says("I read of one end."), says("And another.")],
            "a.*": [{**LOOK, "delay_s": 0.05}, ENDS],
        },
        {"worker": ALL},
        least={"agent_started": count + 2, "inbox_message": count},
    )
    for count in (1, 2)
] + [
    Scene(
        "background-read",
        {
            "a": [delegates("worker", background=True), does(("list_sub_agents", {})), {**READ, "delay_s": 0.3},
                  does(("get_delegation_result", {"id": "a.1"})), says("ok: {results}")],
            "a.*": [LOOK, ENDS],
        },
        {"worker": ALL},
        least={"tool_finished": 6},
    ),
    Scene(
        "background-cancelled",
        {
            "a": [delegates("worker", background=True), {**does(("cancel_sub_agent", {"id": "a.1"})), "delay_s": 0.2}, says("ok")],
            "a.*": [LOOK, {**READ, "delay_s": 30.0}],
        },
        {"worker": ALL},
        least={"agent_finished": 2},
    ),
]  # fmt: skip

FULL = {"usage": {"input": 190_000, "output": 10}}
COMPACTION = [
    Scene("compaction", {"a": [READ, {**LOOK, **FULL}, says("A summary of it."), says("done")]}, least={"compacted": 1}),
    Scene(
        "compaction-of-a-child",
        {
            "a": [delegates("worker"), says("done: {results}")],
            "a.1": [READ, {**LOOK, **FULL}, says("The child's summary."), ENDS],
        },
        {"worker": ("allowedTools: '*'", "maxTokenBudget: 500000")},
        options={"flags": {"agents.delegation.token_budget.max": 900_000, "agents.delegation.token_budget.default": 900_000}},
        least={"compacted": 1},
    ),
    Scene(
        "compaction-with-calls",
        {"a": [READ, {**LOOK, **FULL}, {**does(("glob", {"pattern": "*"})), "stubborn": True}, says("Now the summary."), says("done")]},
        least={"compacted": 1, "requested": 5},
    ),
]  # fmt: skip

RETRIES = [
    Scene("retry-rate", {"a": [_fails("rate", retry_after=0.05), READ, says("done")]}, least={"attempt_failed": 1}),
    Scene(
        "retry-overloaded",
        {"a": [READ, _fails("overloaded", retry_after=0.05, status=529), says("done")]},
        least={"attempt_failed": 1},
    ),
    Scene(
        "retry-in-children",
        {"a": [_several(2), says("done")], "a.*": [_fails("rate", retry_after=0.05), READ, ENDS]},
        {"worker": ALL},
        least={"attempt_failed": 2},
    ),
    Scene("fails-for-good", {"a": [READ, _fails("invalid")]}, least={"attempt_failed": 1}),
    Scene(
        "child-fails-for-good",
        {"a": [delegates("worker"), says("It failed.")], "a.1": [READ, _fails("auth")]},
        {"worker": ALL},
        least={"attempt_failed": 1},
    ),
    Scene("refusal", {"a": [READ, {"text": "", "stop": "refusal", "note": ""}]}, least={"turn_finished": 2}),
]

HOOKS = [
    Scene(
        "hook-denies",
        {"a": [does(("bash", {"command": "echo hello"})), says("It was denied.")]},
        hooks={"PreToolUse": _hook("Bash", "cat >/dev/null; echo 'never here' >&2; exit 2")},
        options=YOLO,
        least={"hook_ran": 1},
    ),
    Scene(
        "hook-adds-context",
        {"a": [READ, says("done")]},
        hooks={
            "UserPromptSubmit": _hook("", _gives("UserPromptSubmit", additionalContext="The user likes short answers."))
        },
        least={"hook_ran": 1},
    ),
    Scene(
        "hook-at-a-child",
        {"a": [delegates("worker"), says("done")], "a.1": [READ, ENDS]},
        {"worker": ALL},
        hooks={"SubagentStart": _hook("", _gives("SubagentStart", additionalContext="Look at README.md first."))},
        least={"hook_ran": 1},
    ),
    Scene(
        "hook-sends-back",
        {"a": [says("Too early."), says("Now it is done.")]},
        hooks={
            "Stop": _hook(
                "",
                "if grep -q '\"stop_hook_active\": *true'; then exit 0; else echo 'tests are missing' >&2; exit 2; fi",
            )
        },
        least={"hook_ran": 1},
    ),
]

WORKTREE = ("allowedTools: '*'", "isolation: worktree")
WRITES = does(("write_file", {"path": "new.txt", "content": "made here\n"}))
WORKTREES = [
    Scene(
        "worktree-applied",
        {"a": [delegates("maker"), does(("apply_delegation", {"id": "a.1"})), says("applied")], "a.1": [WRITES, ENDS]},
        {"maker": WORKTREE},
        options=YOLO,
        git=True,
        least={"worktree": 3},
    ),
    Scene(
        "worktree-discarded",
        {"a": [delegates("maker"), does(("discard_delegation", {"id": "a.1"})), says("gone")], "a.1": [WRITES, ENDS]},
        {"maker": WORKTREE},
        options=YOLO,
        git=True,
        least={"worktree": 3},
    ),
    Scene(
        "worktree-unchanged",
        {"a": [delegates("maker"), says("nothing")], "a.1": [READ, ENDS]},
        {"maker": WORKTREE},
        options=YOLO,
        git=True,
        least={"worktree": 2},
    ),
    Scene(
        "worktrees-side-by-side",
        {"a": [_several(2, "maker"), says("two")], "a.*": [WRITES, ENDS]},
        {"maker": WORKTREE},
        options=YOLO,
        git=True,
        least={"worktree": 4},
    ),
]

KILLS = [
    Scene(
        "killed-in-a-request",
        {"a": {"turns": [READ, LOOK, says("done after all")], "count": "history"}},
        prompts=("go", "go on"),
        cut=(events.MessageAdded, "a"),
        least={"agent_finished": 2},
    ),
    Scene(
        "killed-in-a-tool",
        {"a": {"turns": [LOOK, says("done after all")], "count": "history"}},
        prompts=("go", "go on"),
        cut=(events.ToolStarted, "a"),
        least={"agent_finished": 2},
    ),
    Scene(
        "killed-with-a-child",
        {"a": {"turns": [delegates("worker"), says("done without it")], "count": "history"}, "a.1": [READ, LOOK, ENDS]},
        {"worker": ALL},
        prompts=("go", "go on"),
        cut=(events.ToolFinished, "a.1"),
        least={"agent_finished": 3},
    ),
    Scene(
        "resumed-after-its-end",
        {"a": {"turns": [READ, says("one"), LOOK, says("two")], "count": "history"}},
        prompts=("go", "and now?"),
        cut=(events.AgentFinished, "a"),
        least={"agent_finished": 2},
    ),
]

ASKS = [
    Scene(
        "asked-and-allowed",
        {"a": [does(("bash", {"command": "python3 -c 'print(1)'"})), says("{results}")]},
        options=ATTENDED,
        rules=[Rule(ASKED, "a", 1, _answers("allow"))],
        least={"permission_answered": 1},
    ),
    Scene(
        "asked-and-denied",
        {"a": [WRITES, says("then not")]},
        options=ATTENDED,
        rules=[Rule(ASKED, "a", 1, _answers("deny", reason="not now"))],
        least={"permission_answered": 1},
    ),
    Scene(
        "allowed-for-the-session",
        {"a": [WRITES, does(("edit_file", {"path": "new.txt", "old": "made", "new": "changed"})), WRITES, says("ok")]},
        options=ATTENDED,
        rules=[Rule(ASKED, "a", n, _answers("allow", scope="session")) for n in (1, 2, 3)],
        least={"permission_answered": 1},
    ),
    Scene(
        "question",
        {"a": [does(("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]})), says("{results}")]},
        options=ATTENDED,
        rules=[Rule(QUESTION, "a", 1, _says("blue"))],
        least={"question_answered": 1},
    ),
    Scene("nobody-to-ask", {"a": [WRITES, says("I could not write.")]}, least={"denied": 1}),
]

PERSON = [
    Scene(
        "steered",
        {"a": [LOOK, {**READ, "delay_s": 0.1}, says("As you say.")]},
        options=ATTENDED,
        rules=[Rule(TURN, "a", 2, _sends("a", "Be brief."))],
        least={"inbox_message": 1},
    ),
    Scene(
        "child-steered",
        {"a": [delegates("worker"), says("done")], "a.1": [LOOK, {**READ, "delay_s": 0.1}, ENDS]},
        {"worker": ALL},
        options=ATTENDED,
        rules=[Rule(TURN, "a.1", 2, _sends("a.1", "Only the README."))],
        least={"inbox_message": 1},
    ),
    Scene(
        "child-stopped",
        {"a": [_several(2), says("one is missing")], "a.1": [READ, ENDS], "a.2": [LOOK, {**READ, "delay_s": 30.0}]},
        {"worker": ALL},
        options=ATTENDED,
        rules=[Rule(TURN, "a.2", 2, _stops("a.2", "abort"))],
        least={"agent_finished": 3},
    ),
    Scene(
        "child-asked-to-end",
        {"a": [delegates("worker"), says("done")], "a.1": [LOOK, {**READ, "delay_s": 30.0}, says("So far: nothing.")]},
        {"worker": ALL},
        options=ATTENDED,
        rules=[Rule(TURN, "a.1", 2, _stops("a.1", "cancel"))],
        least={"agent_finished": 2},
    ),
    Scene(
        "sent-to-the-background",
        {
            "a": [delegates("worker"), says("It goes on."), says("It has ended.")],
            "a.1": [LOOK, {**READ, "delay_s": 0.2}, ENDS],
        },
        {"worker": ALL},
        options=ATTENDED,
        rules=[Rule(TURN, "a.1", 2, _detaches("a.1"))],
        least={"detached": 1},
    ),
    Scene(
        "two-prompts",
        {"a": {"turns": [READ, says("one"), LOOK, says("two")], "count": "history"}},
        prompts=("go", "and now?"),
        options=ATTENDED,
        least={"agent_finished": 2},
    ),
]

LIMITS = [
    Scene(
        "turns-used-up",
        {
            "a": [delegates("worker", max_iterations=2), says("cut short")],
            "a.1": {"turns": [LOOK, READ, says("So far.")], "repeat": "last"},
        },
        {"worker": ALL},
        least={"agent_finished": 2},
    ),
    Scene(
        "time-used-up",
        {
            "a": [delegates("worker", timeout_s=0.3), says("late")],
            "a.1": [LOOK, {**READ, "delay_s": 30.0}, says("No time left.")],
        },
        {"worker": ALL},
        least={"agent_finished": 2},
    ),
    Scene(
        "tokens-used-up",
        {
            "a": [delegates("worker", max_tokens=12_000), says("dear")],
            "a.1": [{**LOOK, "usage": {"input": 11_000, "output": 50}}, says("What I have.")],
        },
        {"worker": ALL},
        least={"agent_finished": 2},
    ),
    Scene(
        "main-agent-out-of-turns",
        {"a": {"turns": [LOOK, READ, says("That is all I have.")]}},
        options={"flags": {"limits.max_turns": 2}},
        least={"agent_finished": 1},
    ),
    Scene("same-call-again", {"a": {"turns": [READ], "repeat": "last"}}, least={"agent_finished": 1}),
]

SUPERVISED = [
    Scene(
        f"supervised-{verdict}",
        {
            "a": [delegates("watched"), says("done: {results}")],
            "a.1": [
                says('{"goal": "look", "changes": ["other.txt"], "commands": [], "result": "x"}'),
                WRITES,
                ENDS,
                says(json.dumps({"verdict": verdict, "reason": "as seen", "correction": "write other.txt"})),
                *([does(("write_file", {"path": "other.txt", "content": "x\n"})), ENDS, says('{"verdict": "accept"}')] * (verdict == "redo")),
            ],
        },
        {"watched": ("allowedTools: '*'", "supervision: supervised")},
        options=YOLO,
        least={"verdict": 1, "intent_stated": 1},
    )
    for verdict in ("accept", "redo", "pause")
]  # fmt: skip

RESUMED = [
    Scene(
        "child-continued",
        {
            "a": [
                delegates("worker"),
                does(("delegate_task", {"resume": "a.1", "task": "and the README?"})),
                says("{results}"),
            ],
            "a.1": [LOOK, ENDS, READ, ENDS],
        },
        {"worker": ALL},
        least={"agent_started": 3},
    ),
    Scene(
        "writes-and-runs",
        {"a": [WRITES, does(("bash", {"command": "cat new.txt; ls"})), says("{results}")]},
        options=YOLO,
    ),
]

SCENES = [
    *PARALLEL, *NESTED, *BACKGROUND, *COMPACTION, *RETRIES, *HOOKS, *WORKTREES, *KILLS, *ASKS, *PERSON, *LIMITS,
    *SUPERVISED, *RESUMED,
]  # fmt: skip


def set_up(project: Path, scene: Scene | None = None) -> None:
    """Make the home and the project of a scene; without one, those that all scenes share."""
    project.mkdir(exist_ok=True)
    (project / "README.md").write_text("# hello\n\nA project for recordings.\n", encoding="utf-8")
    (project / "notes.txt").write_text("hello\nworld\n", encoding="utf-8")
    folder = config_dir() / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    shared = {name: front for one in SCENES for name, front in one.profiles.items() if name != "worker"} | {
        "worker": ALL
    }
    for name, front in shared.items() if scene is None else {**shared, **scene.profiles}.items():
        lines = ["---", f"name: {name}", f"description: The {name}.", *front, "---", f"You are the {name}."]
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    hooks = config_dir() / "hooks.json"
    hooks.unlink(missing_ok=True)
    if scene is not None and scene.hooks:
        hooks.write_text(json.dumps({"hooks": scene.hooks}), encoding="utf-8")
    if scene is not None and scene.git and not (project / ".git").exists():
        for words in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "start"],
        ):
            subprocess.run(
                ["git", *words], cwd=project, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
            )
