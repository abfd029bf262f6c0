"""What `friday acp` offers, row by row: how runs end, whose servers, folders and files count, what else a client is told."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.events import AgentStarted, Compacted, Envelope
from friday_cli.frontends.acp.content import kind_of
from friday_cli.frontends.acp.updates import ClientAbilities, SessionUpdates
from tests.frontends.acp_editor import SUBAGENTS, calls, chosen, delegates, editor
from tests.servers import mcp_stdio


@pytest.mark.parametrize(("limits", "turn", "reason"), [
    ("max_turns = 1", calls("read_file", path="a.txt"), "max_turn_requests"),
    ("max_tokens = 5000", {"text": "x", "usage": {"input": 6000}, **calls("read_file", path="a.txt")}, "max_tokens"),
    ("", {"text": "no", "stop": "refusal"}, "refusal"),
    ("", {"text": "yes"}, "end_turn"),
])  # fmt: skip
async def test_how_a_run_ended(project: Path, limits: str, turn: dict[str, Any], reason: str) -> None:
    (project.parent / "home/config.toml").write_text(f"[limits]\n{limits}\n", encoding="utf-8")
    async with editor(project, {"a": [turn, {"text": "wrapped up"}]}) as client:
        assert (await client.prompt(await client.new(project)))["result"]["stopReason"] == reason


@pytest.fixture
def repository(project: Path) -> Path:
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm x"):
        subprocess.run(["git", *words.split()], cwd=project, check=True, capture_output=True)
    return project


async def test_a_failed_sub_agent_is_idle_with_an_error_and_one_in_a_worktree_says_where_it_is(
    repository: Path,
) -> None:
    play = {"a": [delegates("look", isolation="worktree"), {"text": "end"}], "a.1": [{"text": ""}]}
    async with editor(repository, play, permission=chosen("allow_once")) as client:
        name = await client.new(repository)
        await client.prompt(name)
        found = client.updates("subagent_update", name)
        assert [update["cwd"] != str(repository) for update in found if "cwd" in update] == [True]
        assert (found[-1]["state"]["state"], found[-1]["state"]["stopReason"]) == ("idle", "error")
        assert found[-1]["state"]["error"]["message"]


async def test_servers_and_folders_are_the_clients_and_the_folder_is_not_trusted(project: Path) -> None:
    """Also: a new session is announced with commands, and a change of the mode is told."""
    more = project.parent / "more"
    more.mkdir()
    (more / "b.txt").write_text("in the other folder\n", encoding="utf-8")
    (project / ".friday/profiles").mkdir(parents=True)
    (project / ".friday/profiles/theirs.md").write_text("---\nname: theirs\ndescription: x\n---\nx", encoding="utf-8")
    (project.parent / "home/commands").mkdir()
    (project.parent / "home/commands/look.md").write_text("---\ndescription: Looks.\n---\nLook.", encoding="utf-8")
    server = {"name": "mine", "command": sys.executable, "args": ["-S", "-E", str(mcp_stdio.__file__)], "env": []}
    play = {"a": [calls("read_file", path=str(more / "b.txt")), calls("mcp__mine__look"), {"text": "end"}]}
    async with editor(project, play, permission=chosen("allow_once")) as client:
        found = await client.call(
            "session/new", cwd=str(project), mcpServers=[server], additionalDirectories=[str(more)]
        )
        name = found["result"]["sessionId"]
        await client.prompt(name)
        ended = [update for update in client.updates("tool_call_update") if "rawOutput" in update]
        assert [(update["name"], update["status"]) for update in ended] == [
            ("read_file", "completed"),
            ("mcp__mine__look", "completed"),
        ]
        assert "in the other folder" in ended[0]["rawOutput"]["text"]
        assert any("is not trusted. Not used" in update["title"] for update in client.updates("notice"))
        (announced,) = client.updates("available_commands_update")
        assert [row["name"] for row in announced["availableCommands"]] == ["look"]
        await client.call("session/set_mode", sessionId=name, modeId="plan")
        await client.until(lambda: client.updates("config_option_update"))
        client.frames.clear()
        await client.call("session/resume", sessionId=name, cwd=str(project), mcpServers=[])
        assert not client.updates("agent_message_chunk")


def test_kinds_of_calls_and_a_compaction() -> None:
    tools = ("read_file", "edit_file", "grep", "bash", "web_fetch", "delegate_task")
    assert [kind_of(tool) for tool in tools] == ["read", "edit", "search", "execute", "fetch", "think"]
    started = AgentStarted(1, "friday", "go", "m")
    for client, sent in (({}, []), (SUBAGENTS, ["compaction_update"])):
        updates = SessionUpdates("s", "/p", ClientAbilities.of(client))
        updates.apply(Envelope(1, 1.0, "a", started))
        found = updates.apply(Envelope(2, 1.0, "a", Compacted((), 9, 1)))
        assert [update["sessionUpdate"] for _, update in found] == sent


async def test_loads_and_a_change_at_once_come_one_after_the_other(project: Path) -> None:
    """And a load that cannot be done leaves the open session as it is."""
    async with editor(project, {"a": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}) as client:
        name = await client.new(project)
        await client.prompt(name)
        refused = await client.call("session/load", sessionId=name, cwd="relative", mcpServers=[])
        assert "absolute" in refused["error"]["message"]
        assert (await client.prompt(name))["result"]["stopReason"] == "end_turn"
        place = {"sessionId": name, "cwd": str(project), "mcpServers": []}
        asked = [
            client.ask("session/set_config_option", sessionId=name, configId="thought_level", value="low"),
            *(client.ask(f"session/{method}", **place) for method in ("load", "resume", "load")),
        ]
        assert ["result" in found for found in await asyncio.gather(*asked)] == [True] * 4
        assert (await client.prompt(name))["result"]["stopReason"] == "end_turn"


CHILD = """
import signal, sys
from friday_cli.frontends.acp.run import claim_stdout
signal.signal(signal.SIGUSR1, lambda *_: None)
sink = claim_stdout()
print("not a message")
sink.write(b"x" * 1_000_000)
sink.flush()
"""


def waiting(pipe: int) -> int:
    """Bytes that can be read."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


def test_a_signal_cuts_no_message_and_prints_are_no_messages() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.read(1)
        while child.poll() is None and waiting(child.stdout.fileno()) < 32_768:
            pass  # until the pipe is full
        child.send_signal(signal.SIGUSR1)
        assert len(first + child.stdout.read()) == 1_000_000
        assert child.stderr.read() == b"not a message\n"
