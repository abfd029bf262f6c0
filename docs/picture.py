"""Draws docs/friday.svg from a run of the offline demo that is kept beside it: `python -m docs.picture`.

Every line of the picture is made by Friday's own code from the events of that run; nothing is written by hand.
`--record` runs the demo again first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from friday_cli.core.protocol.decode import decode_envelope
from friday_cli.core.protocol.events import (
    AgentFinished,
    CallDelta,
    Envelope,
    MessageAdded,
    Notice,
    Prefix,
    SessionStarted,
    TextDelta,
    ThinkingDelta,
)
from friday_cli.view import SessionView
from friday_cli.view.tree import agent_line, render_tree

PROJECT = Path(__file__).parents[1]
PICTURE, RUN = Path(__file__).with_name("friday.svg"), Path(__file__).with_name("friday.jsonl")
QUESTION = "What is in this folder?"
WIDTH, ANSWER_LINES = 112, 13


def main() -> None:
    """Write the picture; with `--record` of a new run."""
    if "--record" in sys.argv[1:]:
        RUN.write_bytes(b"".join(msgspec.json.encode(envelope) + b"\n" for envelope in recorded()))
    PICTURE.write_text(drawn(), encoding="utf-8")
    print(PICTURE)


def drawn() -> str:
    """The picture of the run that is kept."""
    envelopes = [decode_envelope(line) for line in RUN.read_bytes().splitlines()]
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True,
            width=WIDTH,
            file=nowhere,
            force_terminal=True,
            highlight=False,
            no_color=False,
            color_system="truecolor",
        )
        paint(console, envelopes)
        return console.export_svg(title="friday")


def paint(console: Console, envelopes: list[Envelope]) -> None:
    """Say on the console what a person would see."""
    command(console, f'friday ask --model demo "{QUESTION}"')
    console.print(Text("friday: demo: scripted, no AI model", style="dim"))
    for text in at_work(envelopes):
        console.print(Text(text), style="dim", no_wrap=True, overflow="ellipsis")
    console.print()
    answer = next(e.event.result for e in reversed(envelopes) if isinstance(e.event, AgentFinished) and e.agent == "a")
    console.print(Markdown("\n".join(answer.splitlines()[:ANSWER_LINES])))
    console.print(Text("…", style="dim"))
    console.print()
    state = folded(envelopes)
    command(console, f"friday sessions show {state.session[:4]} --tree")
    for text in render_tree(state):
        console.print(Text(text), no_wrap=True, overflow="ellipsis")


def recorded() -> list[Envelope]:
    """The events of a demo over a copy of this project, without those that the picture does not need."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        for name in ("friday_cli", "profiles"):
            shutil.copytree(PROJECT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(PROJECT / name, folder)
        argv = [
            sys.executable,
            "-P",
            "-m",
            "friday_cli",
            "ask",
            "--model",
            "demo",
            "--output-format",
            "stream-json",
            QUESTION,
        ]
        env = {**os.environ, "FRIDAY_HOME": home, "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(argv, cwd=folder, env=env, capture_output=True, check=True)
    envelopes = [decode_envelope(line) for line in ran.stdout.splitlines()]
    return [placeless(envelope) for envelope in envelopes if is_needed(envelope)]


def is_needed(envelope: Envelope) -> bool:
    """Whether the picture depends on an event: of the messages, those with the calls of an agent."""
    event = envelope.event
    if isinstance(event, MessageAdded):
        return bool(event.message.calls)
    return not isinstance(event, (CallDelta, Prefix, TextDelta, ThinkingDelta))


def placeless(envelope: Envelope) -> Envelope:
    """Without the folder of the machine it ran on."""
    if not isinstance(envelope.event, SessionStarted):
        return envelope
    return msgspec.structs.replace(envelope, event=msgspec.structs.replace(envelope.event, cwd="/home/you/friday"))


def folded(envelopes: list[Envelope]) -> SessionView:
    state = SessionView()
    for envelope in envelopes:
        if not isinstance(envelope.event, Notice):
            state.apply(envelope)
    return state


def at_work(envelopes: list[Envelope]) -> list[str]:
    """The lines of the moment at which most agents were using a tool."""
    state, best, lines = SessionView(), -1, []
    for envelope in envelopes:
        state.apply(envelope)
        agents = [a for a in state.working if a.path != "a"]
        busy = sum(a.current is not None for a in agents)
        if busy and busy >= best:
            best, lines = busy, [agent_line(state, a, now=envelope.at) for a in agents]
    return lines


def command(console: Console, text: str) -> None:
    console.print(Text.assemble(("$ ", "bold green"), (text, "bold")))


if __name__ == "__main__":
    main()
