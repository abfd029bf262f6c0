"""Draws docs/friday.svg from a run of the offline demo: `python -m docs.picture`.

Every line of the picture is made by Friday's own code from the events of that run; nothing is written by hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from friday_cli.core.decoding import decode_envelope
from friday_cli.core.events import AgentFinished, Envelope, Notice
from friday_cli.view import State, agent_line, render_tree

PROJECT = Path(__file__).parents[1]
PICTURE = Path(__file__).with_name("friday.svg")
QUESTION = "What is in this folder?"
WIDTH, ANSWER_LINES = 112, 13


def main() -> None:
    """Run the demo and write the picture."""
    envelopes = recorded()
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True, highlight=False)  # noqa: SIM115
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
    console.save_svg(str(PICTURE), title="friday")
    print(PICTURE)


def recorded() -> list[Envelope]:
    """The events of a demo over the package's own folder."""
    with tempfile.TemporaryDirectory() as home:
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
        ran = subprocess.run(argv, cwd=PROJECT / "friday_cli", env=env, capture_output=True, check=True)
    return [decode_envelope(line) for line in ran.stdout.splitlines()]


def folded(envelopes: list[Envelope]) -> State:
    state = State()
    for envelope in envelopes:
        if not isinstance(envelope.event, Notice):
            state.apply(envelope)
    return state


def at_work(envelopes: list[Envelope]) -> list[str]:
    """The lines of the moment at which most agents were using a tool."""
    state, best, lines = State(), -1, []
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
