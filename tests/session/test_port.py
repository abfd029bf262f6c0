"""What a session tells is data: a run is named by its agent and its number, also after a way through JSON."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished
from friday_cli.core.protocol.messages import Image
from friday_cli.extensions.tool_lists import Restriction
from friday_cli.session import commands as c
from friday_cli.session import dispatch
from friday_cli.session.attachments import PromptText
from friday_cli.session.port import RunName
from tests.session.harness import Harness


async def test_a_run_is_named_by_its_agent_and_number(harness: Harness) -> None:
    harness.scenario.write_text(msgspec.json.encode({"agents": {"a": [{"text": "one"}, {"text": "two"}]}}).decode())
    async with harness.session() as session:
        assert session.start("go") == RunName("a", 1)
        assert session.running() == [RunName("a", 1)]
        assert (await session.result(RunName("a", 1))).text == "one"
        assert session.running() == []
        second = session.start("again")
        crossed = msgspec.json.decode(msgspec.json.encode(second), type=RunName)
        with pytest.raises(UsageError, match="Run 1 of a is not active"):
            await session.result(RunName("a", 1))
        assert session.running() == [RunName("a", 2)]
        assert (await session.result(crossed)).text == "two"
        ends = [e.event for e in await session.history() if isinstance(e.event, AgentFinished)]
        assert [(end.run, end.result) for end in ends] == [(1, "one"), (2, "two")]


async def test_a_message_to_the_main_agent_that_has_ended_starts_it_again(harness: Harness) -> None:
    harness.scenario.write_text(msgspec.json.encode({"agents": {"a": [{"text": "one"}, {"text": "two"}]}}).decode())
    async with harness.session() as session:
        session.start("go")
        await session.result(RunName("a", 1))
        await session.do(c.Tell("a", "and then?"))
        assert (await session.result(RunName("a", 2))).text == "two"


COMMANDS: list[tuple[c.Command[Any], object]] = [
    (c.SetMode("plan"), None),
    (c.ListRules(), [parse_rule("bash(ls *)", "allow", source="command line")]),
    (c.ChooseSubAgents(("researcher",)), None),
    (
        c.Say(
            PromptText("go", typed=""), images=(Image("image/png", "aGk="),), restriction=Restriction(("read_file",))
        ),
        [],
    ),
    (c.Tell("a.9", "hello"), UsageError),
    (c.AnswerQuestion("p1", ApprovalAnswer("allow", "session")), False),
    (c.AnswerQuestion("q1", "blue"), False),
    (c.RunShell("printf one; exit 3"), c.ShellResult(3, "one")),
    (c.RunConfined("printf one; exit 3"), c.ShellResult(3, "one")),
    (c.Stop("a.1", "cancel"), 0),
    (c.SendToBackground("a.1"), False),
    (c.ApplyWorktree("a.1"), UsageError),
    (c.DiscardWorktree("a.1", keep_branch=True), UsageError),
    (c.ListServers(), UsageError),
    (c.ReconnectServer("none"), UsageError),
    (c.ListLanguageServers(), UsageError),
    (c.SwitchLanguageServers("restart"), UsageError),
    (c.UndoRewind(dry_run=True), UsageError),
    (c.RestoreFile("file", "a.1", "leave"), UsageError),
    (c.AcceptChanges("file"), UsageError),
    (c.RevokeRule(parse_rule("bash(ls *)", "allow", source="command line")), UsageError),
]


async def test_each_command_and_its_result_go_through_json(harness: Harness) -> None:
    async with harness.session(allow=("bash(ls *)",)) as session:
        session.start("go")
        await session.result(RunName("a", 1))
        for command, expected in COMMANDS:
            crossed = c.decoded(msgspec.json.decode(msgspec.json.encode(c.encoded(command))), c.AnyCommand)
            assert crossed == command
            output: list[str] = []
            if expected is UsageError:
                with pytest.raises(UsageError):
                    await session.do(crossed, output.append)
                continue
            result = await session.do(crossed, output.append)
            assert result == expected, command
            assert (
                c.decoded(msgspec.json.decode(msgspec.json.encode(c.encoded(result))), c.result_type(command)) == result
            )
            assert "".join(output) == ("one" if isinstance(command, c.RunShell | c.RunConfined) else "")
        told = await session.do(c.RewindTo(1, dry_run=True))
        assert (
            c.decoded(msgspec.json.decode(msgspec.json.encode(c.encoded(told))), c.result_type(c.RewindTo(1))) == told
        )
        rows = await session.do(c.ListSubAgents())
        assert (
            c.decoded(msgspec.json.decode(msgspec.json.encode(c.encoded(rows))), c.result_type(c.ListSubAgents()))
            == rows
        )
        assert session.facts.mode == "plan"
        assert [row.name for row in rows if row.chosen] == ["researcher"]


def test_every_command_is_carried_out() -> None:
    named = {kind for kind in vars(c).values() if isinstance(kind, type) and issubclass(kind, c.Command)} - {c.Command}
    assert named == set(get_args(c.AnyCommand))
    assert named == {*dispatch._ROWS, c.RunShell, c.RunConfined}
