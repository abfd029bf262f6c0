"""`friday mcp serve` used by another agent: the calls of that agent, and what must come of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from friday_cli.store.listing import list_sessions, run_query
from tests.counterparts.peer_model import PeerModel, Step, id_in
from tests.servers.fake_model_server import FakeModelServer, Say, Turn, thinking

ROOT = Path(__file__).parents[2]
CAP_TOKENS = 60_000
SPENT_AT_ONCE = 30_000
"""Tokens of one reply of the task `#expensive`: after two of them nothing is left."""


def rule(turn: Turn) -> Say:
    """What Friday's sub-agents do, by the word in their task."""
    match turn.agent, turn.turn:
        case ("asks", 0):
            return Say(calls=[("write_file", {"path": "asked.txt", "content": "allowed\n"})])
        case ("tree", 0):
            return Say(calls=[("write_file", {"path": "tree.txt", "content": "from a worktree\n"})])
        case ("slow", _):
            return Say(calls=[("list_dir", {"path": "."})], delay_s=1.0)
        case ("expensive", _):
            return Say("Expensive.", usage=(SPENT_AT_ONCE, 10, 0))
    return Say(f"Done: {turn.agent}.", usage=(1000, 50, 0))


STEPS: list[Step] = [
    ("list_profiles", {}),
    ("delegate_task", {"profile": "general", "task": "#one look"}),
    ("delegate_tasks", {"tasks": [{"profile": "general", "task": f"#{name} look"} for name in ("two", "three")]}),
    ("delegate_task", {"profile": "general", "task": "#slow look for long", "background": True}),
    lambda results: ("get_delegation_result", {"id": id_in(results[-1])}),
    lambda results: ("cancel_sub_agent", {"id": id_in(results[-1]), "mode": "abort"}),
    ("delegate_task", {"profile": "general", "task": "#tree write", "isolation": "worktree"}),
    lambda results: ("apply_delegation", {"id": id_in(results[-1])}),
    ("delegate_task", {"profile": "general", "task": "#asks write asked.txt"}),
    ("delegate_task", {"profile": "general", "task": "#expensive once"}),
    ("delegate_task", {"profile": "general", "task": "#expensive again"}),
    ("delegate_task", {"profile": "general", "task": "#four look"}),
]


class Served:
    """A project, Friday's home with a model behind `model_server`, and the command of the server."""

    def __init__(self, folder: Path, model_server: FakeModelServer) -> None:
        self.model_server = model_server
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()
        (self.project / "README.md").write_text("# A project\n")
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *words], cwd=self.project, check=True)
        settings = f'model = "anthropic/claude-test"\n[providers.anthropic]\nbase_url = "{model_server.base}"\n'
        (self.home / "config.toml").write_text(settings)
        (self.home / "profiles").mkdir()
        profile = '---\nname: general\ndescription: Does anything.\nallowedTools: "*"\n---\nYou do it.\n'
        (self.home / "profiles/general.md").write_text(profile)
        self.env = {
            "FRIDAY_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_API_KEY": "sk-test-0123456789abcdef",
        }

    @property
    def command(self) -> list[str]:
        """The server: caps, and changes of one file allowed by a rule."""
        caps = ["--max-tokens", str(CAP_TOKENS), "--allow", "write_file(tree.txt)", "--allow", "apply_delegation"]
        return [sys.executable, "-m", "friday_cli", "mcp", "serve", *caps]

    def check(self, model: PeerModel, *, answered: bool) -> Iterator[str]:
        """What is wrong with the results that the agent's model got; `answered`: a person allowed the write."""
        results = model.results
        if len(results) != len(STEPS):
            yield f"{len(results)} of {len(STEPS)} calls were made; the last result: {results[-1:]}"
            return
        wanted = {
            0: "general",
            1: "Done: one.",
            2: "Done: three.",
            3: "background",
            5: "cancelled",
            6: "tree.txt",
            7: "Applied",
            8: "Done: asks.",
            11: "budget",
        }
        for number, text in wanted.items():
            if text not in results[number]:
                yield f"call {number} ({STEPS[number]}): no {text!r} in {results[number][:600]}"
        applied = self.project / "tree.txt"
        if not applied.exists() or applied.read_text() != "from a worktree\n":
            yield "the worktree was not applied"
        if (self.project / "asked.txt").exists() != answered:
            yield f"asked.txt {'does not exist' if answered else 'was written without a person'}"
        spent = sum(turn_tokens(turn) for turn in self.model_server.turns)
        if spent > CAP_TOKENS + SPENT_AT_ONCE:
            yield f"{spent} tokens were spent, the cap is {CAP_TOKENS}"
        if self.model_server.by("four"):
            yield "a sub-agent was started after the cap was spent"
        yield from self.model_server.complaints

    def sessions(self) -> list[Any]:
        """The sessions that the server kept, the newest first."""
        return run_query(self.home / "data/friday.db", lambda db: list_sessions(db, str(self.project), None))


def turn_tokens(turn: Turn) -> int:
    """Tokens of the reply to a request, as the rule says them."""
    usage = rule(turn).usage or (0, 0, 0)
    return usage[0] + usage[1]


@contextmanager
def served() -> Iterator[Served]:
    """A server to offer to another agent."""
    with TemporaryDirectory() as folder, thinking(rule, "messages") as model_server:
        yield Served(Path(folder), model_server)


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run another program to its end."""
    return subprocess.run(
        words,
        cwd=cwd,
        env=os.environ | env | {"PWD": str(cwd)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )


def report(problems: Sequence[str], done: subprocess.CompletedProcess[str]) -> int:
    """Print what is wrong; the exit code."""
    for problem in problems:
        print(f"  FAILED {problem}")
    if problems:
        print(
            json.dumps(
                {"exit": done.returncode, "stdout": done.stdout[-1500:], "stderr": done.stderr[-1500:]}, indent=1
            )
        )
    else:
        print(f"  ok     {len(STEPS)} calls: results, worktree, question, and the caps by the model's own count")
    return bool(problems)
