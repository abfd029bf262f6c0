"""`friday acp` as a process, with a scripted model: a tree of three levels, questions, cancels, a sub-agent in the background, a resumed
one, load and resume. Every frame is validated against the published schemas, and against the text for sub-agent sessions.

`python -m tests.counterparts.acp FILE` writes the frames of the first client to a file, without text that is the same in each.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.counterparts.acp_client import AcpClient
from tests.counterparts.acp_rules import asked_calls, broken, flat, updates
from tests.counterparts.acp_schema import Frames, problems
from tests.counterparts.install import installed
from tests.counterparts.report import Check, report

SDK = "@agentclientprotocol/sdk"
PACKAGES = (SDK,)
START_S = 0.9
"""Seconds until `initialize` is answered, on an idle machine."""
LONG_S = 600


def turn(text: str = "", *calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A turn of the scripted model."""
    return {"text": text, "calls": [{"name": name, "arguments": given} for name, given in calls], **more}


LEAD = """---
name: lead
description: Leads others.
allowedTools: "*"
subAgents: [general]
---
You lead.
"""


def task(words: str, profile: str = "general", **more: Any) -> tuple[str, dict[str, Any]]:
    """A call that delegates."""
    return "delegate_task", {"profile": profile, "task": words, **more}


def write(path: str) -> tuple[str, dict[str, Any]]:
    """A call that needs permission."""
    return "write_file", {"path": path, "content": f"{path}\n"}


def script(*, cancel: bool) -> dict[str, Any]:
    """What the agents do. `cancel`: a client cancels a sub-agent, which would else take very long."""
    slow = turn("Slow.", delay_s=LONG_S) if cancel else turn("Quick.")
    question = {"question": "Which colour?", "choices": ["red", "green"]}
    plan = {"items": [{"text": "look", "status": "active"}, {"text": "tell", "status": "pending"}]}
    return {
        "price": {"input": 1.0, "output": 5.0},
        "agents": {
            "a": {"count": "history", "turns": [
                turn("I plan.", ("todo", plan), ("read_file", {"path": "README.md"}), thinking="What is there?"),
                turn("I delegate.", task("lead the work", "lead")),
                turn("", task("work in the background", background=True)),
                turn("", ("ask_user", question)),
                turn("", task("take too long", "lead")),
                turn("", task("one more thing", "lead", resume="a.1")),
                turn("All done."),
                turn("", task("go on in the background", background=True), task("take too long again")),
                turn("Resumed."),
            ]},
            "a.1": [turn("", task("write a file")), turn("The lead is done."), turn("", write("again.txt")), turn("One more thing is done.")],
            "a.1.1": [turn("", write("deep.txt")), turn("", ("bash", {"command": "echo deep"})), turn("Written.")],
            "a.2": [turn("", write("background.txt")), turn("The background is done.")],
            "a.3": [turn("", task("be very slow")), turn("Not reached.")],
            "a.3.1": [slow],
            "a.4": [turn("", write("later.txt")), turn("Later is done.")],
            "a.5": [turn("Slow.", delay_s=LONG_S)],
        },
    }  # fmt: skip


class Run:
    """One client in a project with a home of Friday of its own. `subagents`: whether it understands sub-agent sessions."""

    def __init__(self, folder: Path, *, subagents: bool) -> None:
        self.subagents = subagents
        self.project, self.home = folder / "project", folder / "home"
        for path in (self.project, self.home):
            path.mkdir(parents=True)
        (self.project / "README.md").write_text("# A project\n")
        (self.home / "profiles").mkdir()
        (self.home / "profiles/lead.md").write_text(LEAD)
        (self.home / "script.json").write_text(json.dumps(script(cancel=subagents)))
        self.hold: dict[str, threading.Event] = {}
        """Files whose permission is given when the event is set."""
        self.found: dict[str, Any] = {}
        self.client: AcpClient
        self.session = ""
        self.parts: dict[str, list[tuple[str, dict[str, Any]]]] = {}

    def play(self) -> None:
        """Run all of it. Raises TimeoutError, RuntimeError."""
        options = ["-m", f"scripted:{self.home / 'script.json'}"]
        env = {"FRIDAY_HOME": str(self.home)}
        for name, part in (("first", self._first), ("second", self._second)):
            begin = time.monotonic()
            with AcpClient(options, cwd=self.project, env=env, answer=self._answer) as self.client:
                self.parts[name] = self.client.frames
                self.found["initialize"] = self._initialize()
                self.found["start_s"] = min(time.monotonic() - begin, self.found.get("start_s", LONG_S))
                part()
            self.found.setdefault("noise", []).extend(self.client.noise)
            self.found.setdefault("stderr", []).extend(self.client.errors)
            self.found.setdefault("codes", []).append(self.client.process.returncode)

    def _initialize(self) -> Any:
        capabilities: dict[str, Any] = {"elicitation": {"form": {}}, "session": {"notices": {}, "compaction": {}}}
        if self.subagents:
            capabilities["subagents"] = {}
        info = {"name": "counterpart", "version": "1"}
        return self.client.call(
            "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info}
        )

    def _first(self) -> None:
        place = {"cwd": str(self.project), "mcpServers": []}
        self.session = self.client.call("session/new", place)["sessionId"]
        self.client.wait_update(self.session, sessionUpdate="available_commands_update")
        self.hold = {name: threading.Event() for name in ("background.txt", "again.txt", "later.txt")}
        prompt = self._prompt("Show everything that you can do.")
        if self.subagents:
            self.client.wait_update(self._id("a.3.1"), sessionUpdate="session_message")
            self.client.notify("session/cancel", {"sessionId": self._id("a.3")})
            self.found["a.3.1"] = self._ended("a.3.1")
            self.found["a.3"] = self._ended("a.3")
            self.found["a.2 ran"] = not self._idle("a.2")
        else:
            self.client.wait(lambda _, frame: self._card(frame, "agent:a.3", "completed"))
        self.hold["background.txt"].set()
        if self.subagents:
            self._ended("a.2")
        else:
            self.client.wait(lambda _, frame: self._card(frame, "agent:a.2", "completed"))
        self.hold["again.txt"].set()
        self.found["prompt"] = self.client.finish(prompt).get("result")
        second = self._prompt("Take long.")
        if self.subagents:
            self.client.wait_update(self._id("a.5"), sessionUpdate="session_message")
        else:
            self.client.wait(lambda _, frame: self._card(frame, "agent:a.5", "in_progress"))
        self.client.wait(lambda _, frame: frame.get("method") == "session/request_permission" and "later" in str(frame))
        self.client.notify("session/cancel", {"sessionId": self.session})
        self.found["cancelled"] = self.client.finish(second).get("result")
        self.found["a.4 ran"] = not self._idle("a.4")
        self.hold["later.txt"].set()
        if self.subagents:
            self.found["a.5"], self.found["a.4"] = self._ended("a.5"), self._ended("a.4")
        else:
            self.client.wait(lambda _, frame: self._card(frame, "agent:a.4", "failed"))
        option = {"sessionId": self.session, "configId": "mode", "value": "plan"}
        self.found["config"] = self.client.call("session/set_config_option", option)
        self.found["list"] = self.client.call("session/list", {"cwd": str(self.project)})
        self.client.call("session/close", {"sessionId": self.session})
        self.found["unknown"] = self.client.finish(self._prompt("Is it closed?")).get("error")

    def _second(self) -> None:
        """Another process loads the session, and resumes it."""
        place = {"cwd": str(self.project), "mcpServers": [], "sessionId": self.session}
        self.client.call("session/load", place)
        self.found["loaded"] = [update for _, update in updates(list(self.client.frames))]
        before = len(self.client.frames)
        self.client.call("session/resume", place)
        self.found["resumed"] = [update for _, update in updates(self.client.frames[before:])]
        self.found["again"] = self.client.finish(self._prompt("Resumed?")).get("result")
        self.client.call("session/close", {"sessionId": self.session})
        self.client.call("session/delete", {"sessionId": self.session})
        self.found["left"] = self.client.call("session/list", {})["sessions"]

    def _prompt(self, text: str) -> int:
        block = {"type": "text", "text": text}
        return self.client.start("session/prompt", {"sessionId": self.session, "prompt": [block]})

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A person who allows everything, some of it later, and likes green."""
        if method == "elicitation/create":
            return {"action": "accept", "content": {"answer": "green"}}
        for name, event in self.hold.items():
            if name in json.dumps(params["toolCall"]):
                event.wait(60)
        return {"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}}

    def _id(self, path: str) -> str:
        return f"{self.session}.{path}"

    def _ended(self, path: str) -> str:
        """Wait until a sub-agent is idle; returns why it stopped."""
        found = self.client.wait(lambda _, frame: _idle(frame, self._id(path)))
        return str(found["params"]["update"]["state"].get("stopReason"))

    def _idle(self, path: str) -> bool:
        return any(_idle(frame, self._id(path)) for _, frame in list(self.client.frames))

    @staticmethod
    def _card(frame: dict[str, Any], call: str, status: str) -> bool:
        update = frame.get("params", {}).get("update", {})
        return update.get("toolCallId") == call and update.get("status") == status


def _idle(frame: dict[str, Any], session: str) -> bool:
    update = frame.get("params", {}).get("update", {})
    return update.get("sessionId") == session and (update.get("state") or {}).get("state") == "idle"


def _checks(run: Run, stable: Frames, unstable: Frames) -> Iterator[tuple[str, Callable[[], object]]]:
    """What must be so: a name, and a function whose value is what is wrong, or nothing."""
    first, second, found = run.parts.get("first", []), run.parts.get("second", []), run.found
    rules = broken if run.subagents else flat
    yield (
        "frames of both connections",
        lambda: [*problems(first, stable, unstable), *problems(second, stable, unstable)],
    )
    yield "rules of sub-agents" if run.subagents else "one session for all", lambda: list(rules(first, run.session))
    yield "the same after session/load", lambda: list(rules(second, run.session))
    yield f"initialize in less than {START_S} s", lambda: found["start_s"] >= START_S and f"{found['start_s']:.2f} s"
    yield "standard output has frames only", lambda: found["noise"]
    yield "standard error is empty", lambda: found["stderr"]
    yield "exit codes", lambda: found["codes"] != [0, 0] and found["codes"]
    yield (
        "stop reasons",
        lambda: [
            wrong
            for name, reason in (("prompt", "end_turn"), ("cancelled", "cancelled"), ("again", "end_turn"))
            if (wrong := found[name])["stopReason"] != reason
        ],
    )
    yield "a prompt after session/close is an error", lambda: not found["unknown"]
    allowed = ("deep.txt", "background.txt", "again.txt", *(["later.txt"] if run.subagents else []))
    files = [run.project / name for name in allowed]
    yield "what was allowed was written", lambda: [path.name for path in files if not path.exists()]
    yield "the answer reached the agent", lambda: "green" not in json.dumps(list(updates(first)))
    yield "calls that are asked about have a card and an end", lambda: list(asked_calls(first))
    yield "children are not listed", lambda: [row["sessionId"] for row in found["list"]["sessions"]] != [run.session]
    yield "load replays", lambda: _missing(found["loaded"], ("user_message_chunk", "agent_message_chunk", "tool_call"))
    yield (
        "resume replays nothing",
        lambda: [update for update in found["resumed"] if update["sessionUpdate"] != "available_commands_update"],
    )
    yield "delete", lambda: found["left"]
    if not run.subagents:
        yield (
            "a question of a cancelled agent is withdrawn",
            lambda: not any(frame.get("method") == "$/cancel_request" for _, frame in first),
        )
    if run.subagents:
        wanted = {"a.3": "cancelled", "a.3.1": "cancelled", "a.5": "cancelled", "a.4": "end_turn"}
        yield "how sub-agents ended", lambda: {p: found[p] for p, reason in wanted.items() if found[p] != reason}
        yield "a cancel stops that subtree only", lambda: not (found["a.2 ran"] and found["a.4 ran"])
        yield (
            "no card of a delegation",
            lambda: [
                u for _, u in updates(first) if u["sessionUpdate"] == "tool_call" and u.get("name") == "delegate_task"
            ],
        )
        yield (
            "cost of a sub-agent",
            lambda: (
                not any(
                    s == f"{run.session}.a.1" and u["sessionUpdate"] == "usage_update" and "cost" in u
                    for s, u in updates(first)
                )
            ),
        )


def _missing(sent: list[dict[str, Any]], wanted: tuple[str, ...]) -> list[str]:
    return [kind for kind in wanted if not any(update["sessionUpdate"] == kind for update in sent)]


def main(only: str = "") -> int:
    """Try both kinds of client; returns the exit code."""
    return report(_all(only), {})


def _all(only: str) -> Iterator[Check]:
    for name, subagents in (("with sub-agents", True), ("without", False)):
        if only not in name:
            continue
        folder = Path(installed().script(SDK, "schema/v1"))
        with tempfile.TemporaryDirectory() as place:
            run = Run(Path(place), subagents=subagents)
            try:
                run.play()
            except (TimeoutError, RuntimeError) as error:
                yield Check(f"{name}: the run", passed=False, note=str(error)[:3000])
                continue
            schemas = Frames(folder / "schema.json"), Frames(folder / "schema.unstable.json")
            for check, wrong in _checks(run, *schemas):
                note = wrong()
                yield Check(f"{name}: {check}", passed=not note, note=str(note)[:3000])


def record(path: Path) -> None:
    """Write what the first client with sub-agents and Friday sent."""
    with tempfile.TemporaryDirectory() as place:
        run = Run(Path(place), subagents=True)
        try:
            run.play()
        finally:
            frames = run.parts.get("first", [])
            lines = [f"{'->' if s == 'client' else '<-'} {json.dumps(f, ensure_ascii=False)}" for s, f in frames]
            text = "\n".join(lines).replace(run.session, "S").replace(str(run.project), "/project")
            path.write_text(text.replace(str(run.home), "/home") + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
