"""The screens of commands and dialogs of every day, for docs/features.md."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import tempfile
from pathlib import Path
from unittest.mock import patch

from friday_cli.core.protocol.events import AgentFinished, AgentStarted, AnyEvent, Compacted, MessageAdded, TurnFinished
from friday_cli.core.protocol.messages import Message, Text, ToolCall, user
from friday_cli.core.protocol.receipt import Finding
from friday_cli.extensions import trust
from friday_cli.frontends.tui.commands import cards
from friday_cli.frontends.tui.terminal import trust_prompt
from friday_cli.session.context_size import ContextSize
from friday_cli.system.paths import config_dir
from tests.frontends.tui.chat import does
from tests.frontends.tui.frame_chat import EventChat, at_home, opened_chat, opened_event_chat
from tests.frontends.tui.frame_events import ANSWER, MODEL, USAGE, ended, session
from tests.llm.models.test_local_servers import serving

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SIZE = ContextSize(1_000_000, system=1_900, tools=2_300, skills=400, memory=1_200, messages=31_600)
BLOCKS = f"""{ANSWER}
Then run the tests:

```sh
python -m pytest -q
```
"""
MODELS = {"/v1/models": {"data": [{"id": "big", "context_length": 90_000}, {"id": "small", "context_length": 8_000}]}}
PROVIDER = """[providers.work]
base_url = "{url}/v1"
prices = {{ input = 3, output = 15 }}
"""
PROFILE = "---\nname: porter\ndescription: Ports tests\nallowedTools: [read_file, bash]\n---\nYou port tests.\n"


def answered() -> list[tuple[float, str, AnyEvent]]:
    """An answer with two blocks of code, and the summary in its place."""
    said = "Why doesn't the retry wait longer each time?"
    return [
        (0, "a", AgentStarted(1, "friday", said, MODEL)),
        (0, "a", MessageAdded(user(said))),
        (9, "a", MessageAdded(Message("assistant", (Text(BLOCKS),)))),
        (9, "a", TurnFinished(1, USAGE, "end_turn", 41_200, 1_000_000)),
        (9, "a", AgentFinished(1, "completed", "done", BLOCKS, usage=USAGE, tree_usage=USAGE)),
    ]


def compacted() -> list[tuple[float, str, AnyEvent]]:
    """A summary in place of the conversation."""
    words = "The user asked why the retry does not wait longer: `wire/http.py` passes attempt=0 each time."
    return [(60, "a", Compacted((user(words, source="harness"),), 41_200, 6_100))]


def reviewed() -> list[tuple[float, str, AnyEvent]]:
    """What a reviewer found, one thing of it in a file that it did not open."""
    task = "Review the changes of `git diff main...HEAD`"
    found = (
        Finding("`attempt` is never raised, so the pause stays at 0.5 s", "wire/http.py:43", seen=True),
        Finding("No test lets two requests fail", "tests/test_retry.py:12"),
    )
    ask = ToolCall("c1", "delegate_task", {"profile": "reviewer", "task": task})
    result = "Two findings: the retry does not wait longer, and no test shows it."
    return [
        (0, "a", AgentStarted(1, "friday", "Review of main", MODEL)),
        (0, "a", MessageAdded(user("/review main"))),
        (2, "a", MessageAdded(Message("assistant", (ask,)))),
        (2, "a.1", AgentStarted(1, "reviewer", task, MODEL, "a", "c1", tokens=40_000)),
        (2, "a.1", MessageAdded(user(task, source="parent"))),
        (30, "a.1", TurnFinished(1, USAGE, "end_turn", 9_000, 1_000_000)),
        (30, "a.1", AgentFinished(1, "completed", "done", result, usage=USAGE, tree_usage=USAGE, duration_s=28.0, findings=found)),
        (33, "a", MessageAdded(Message("assistant", (Text("One finding is certain, one was not checked."),)))),
        (33, "a", AgentFinished(1, "completed", "done", "One finding is certain.", usage=USAGE, tree_usage=USAGE)),
    ]  # fmt: skip


async def daily_frames(size: tuple[int, int]) -> dict[str, str]:
    """The screens at one size, by name."""
    return {"trust": _trust(size), **await _of_the_prompt(size), **await _of_events(size), **await _of_a_session(size)}


async def _of_the_prompt(size: tuple[int, int]) -> dict[str, str]:
    out = {}
    async with opened_event_chat(size) as event_chat:
        chat = event_chat.chat
        picture = chat.app.controller.options.cwd / "screen.png"
        picture.write_bytes(PNG)
        chat.composer.put("Why does this fail? ")
        for pasted in ("\n".join(f"line {number} of a log" for number in range(120)), str(picture)):
            await chat.composer.area.paste(pasted)
        await event_chat.settle(has="screen.png")
        out["chips"] = event_chat.frame()
        chat.composer.clear()
        await chat.say("/vim", shows="Vim keys: on")
        chat.app.clear_notifications()
        chat.composer.put("Fix the retry")
        await chat.press("escape", shows="NORMAL")
        await event_chat.settle()
        out["vim"] = event_chat.frame()
    return out


async def _of_events(size: tuple[int, int]) -> dict[str, str]:
    out = {}
    async with opened_event_chat(size) as event_chat:
        chat = event_chat.chat
        await event_chat.play(answered())
        await chat.say("/copy code", shows="python -m pytest -q")
        await event_chat.settle(has="Which")
        out["copy"] = event_chat.frame()
        await chat.press("escape")
        await event_chat.play(compacted())
        out["compact"] = event_chat.frame()
        chat.app.input.show_card(cards.context_card(SIZE))
        await event_chat.settle(has="free")
        out["context"] = event_chat.frame()
    async with opened_event_chat(size) as event_chat:
        await event_chat.play([*session(), *ended()])
        await event_chat.chat.say("/cost")
        await event_chat.settle(has="cached")
        out["cost"] = event_chat.frame()
    async with opened_event_chat(size) as event_chat:
        await event_chat.play(reviewed())
        out["review"] = event_chat.frame()
    return out


async def _of_a_session(size: tuple[int, int]) -> dict[str, str]:
    """Screens of a real session, which a script answers."""
    out = {}
    writes = does("write_file", path="notes.md", content="The retry waits 0.5 s.\n")
    turns = [{"text": "The retry waits for the first failure only."}, writes, {"text": "It is written down."}]
    async with serving(MODELS) as server:
        with at_home() as cwd:
            profiles = config_dir() / "profiles"
            profiles.mkdir(parents=True)
            (profiles / "porter.md").write_text(PROFILE)
            (config_dir() / "config.toml").write_text(PROVIDER.format(url=server.url))
            script = cwd.parent / "claude-sonnet-5-5.json"
            script.write_text(json.dumps({"agents": {"a": turns}, "badge": ""}))
            first = "Explain why the retry doesn't wait longer each time"
            async with opened_chat(cwd, size, model=f"scripted:{script}", mode="edits", first=first) as chat:
                event_chat = EventChat(chat)

                async def keep(name: str, typed: str, has: str, *keys: str) -> None:
                    await chat.say(typed)
                    await event_chat.settle(has=has)
                    await chat.until(lambda: "Asking your services" not in chat.frame)
                    await chat.press(*keys)
                    await event_chat.settle()
                    out[name] = event_chat.frame()
                    await chat.press("escape")
                    await chat.until(lambda: has not in chat.frame)

                await chat.idle()
                await event_chat.settle(has="first failure only.")
                out["first-message"] = event_chat.frame()
                await chat.ask("Write that down")
                await keep("rewind", "/rewind", "Stay here")
                await keep("fork", "/fork", "Fork before")
                await keep("model", "/model", "work/small")
                await keep("theme", "/theme", "auto (in use)")
                await keep("profiles", "/profiles", "porter", "down", "down", "down")
    return out


def _trust(size: tuple[int, int]) -> str:
    """The question before the chat, which is plain lines."""
    shown = io.StringIO()
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, FRIDAY_HOME=f"{home}/.friday"):
        project = Path(os.path.realpath(home)) / "retry"
        for place in (".git", ".friday/profiles"):
            (project / place).mkdir(parents=True)
        (project / ".friday/profiles/porter.md").write_text(PROFILE)
        (project / ".friday/config.toml").write_text('mode = "plan"\n')
        (project / "AGENTS.md").write_text("Run the tests before you answer.\n")
        with (
            patch.object(trust_prompt, "_answer", return_value="quit"),
            patch.object(trust_prompt.shutil, "get_terminal_size", return_value=os.terminal_size(size)),
            contextlib.redirect_stdout(shown),
        ):
            trust_prompt.decided(project, trust.is_trusted(project))
        text = shown.getvalue().replace(str(project), "~/retry")
    return re.sub(r" +$", "", text, flags=re.M) + trust_prompt.KEYS + "\n"
