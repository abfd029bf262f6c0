"""The provider: finds the script of a request and plays its next turn at a pace that a person can follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from secrets import token_hex
from typing import Any

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.messages import Message, Text, ToolResult, Usage
from friday_cli.core.protocol.provider import Chunk, Request

from .. import scenario
from ..scripted import ScriptedProvider
from .overview import CHILDREN
from .sample_tasks import sample_script, trial_of
from .script import Call, End, Script
from .simple import refuse, script_of

BEGIN_S, PIECE_S, PIECES = 0.3, 0.02, 30
"""Seconds before a reply begins and between its pieces, and the number of pieces."""
STOPPED = "The demo was stopped here. What was found so far is in the session: `friday sessions show`."


class DemoProvider:
    """A script in place of a model: the same request gets the same reply."""

    name = "demo"
    model = "demo"
    window = 200_000
    max_output = 16_000
    rate_limit_key = "demo"
    badge = "demo: scripted, no AI model"

    def __init__(self) -> None:
        self._player = ScriptedProvider(scenario.Scenario({}, price=scenario.ScriptedPrice()))

    def cost(self, usage: Usage) -> float:
        """US dollars: 0, since no service is asked."""
        return 0.0

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of the next reply."""
        text, calls = _reply(request)
        ids, watched = token_hex(6), not trial_of(request.system)  # nobody watches a trial
        turn = scenario.ScriptedTurn(
            text=text,
            calls=tuple(
                scenario.ScriptedCall(c.tool, c.arguments, id=f"demo_{ids}_{n}") for n, c in enumerate(calls, 1)
            ),
            chunks=PIECES,
            delay_s=BEGIN_S * watched,
            chunk_delay_s=PIECE_S * watched,
        )
        async for chunk in self._player.play(turn, request):
            yield chunk


def _reply(request: Request) -> tuple[str, tuple[Call, ...]]:
    """The text and the calls of the next reply."""
    child = depth_of(request.agent) > 0
    script, rounds = _script(request, child=child)
    tools = {spec.name for spec in request.tools} if not request.text_only else set()
    said = script(rounds)
    if isinstance(said, End):
        if child and "task_result" in tools:
            return "", (_result(said),)
        return "\n".join((said.text, *(f"- {claim} ({evidence})" for claim, evidence in said.findings))), ()
    calls = tuple(call for call in said.calls if call.tool in tools)
    if len(calls) == len(said.calls):
        return said.text, calls
    missing = ", ".join(sorted({call.tool for call in said.calls} - tools))
    return (f"The demo needs {missing} for that, which this agent does not have." if tools else STOPPED), ()


def _script(request: Request, *, child: bool) -> tuple[Script, list[tuple[ToolResult, ...]]]:
    """The script at work and its results so far: that of the last request the demo can do since the last final reply."""
    script: Script = refuse
    rounds: list[tuple[ToolResult, ...]] = []
    settled = True
    for message in request.messages:
        if message.role == "assistant":
            settled = settled or not message.calls or message.calls[0].name == "task_result"
        elif message.role == "tool":
            if all(result.call_id.startswith("demo_") for result in message.results):  # not those of another model
                rounds.append(message.results)
            settled = settled or any(result.status == "cancelled" for result in message.results)
        elif message.source != "harness" and (asked := _asked(message)):
            found = next((s for task, s in CHILDREN.items() if child and asked.startswith(task)), None)
            found = found or sample_script(asked, trial_of(request.system), request.effort) or script_of(asked)
            if found or settled:
                script, rounds, settled = found or refuse, [], False
    return script, rounds


def _asked(message: Message) -> str:
    """The words of a person or a parent in a message, without notes of the harness."""
    return "".join(p.text for p in message.parts if isinstance(p, Text) and not p.text.startswith(NOTE)).strip()


def _result(end: End) -> Call:
    """The call by which a sub-agent hands in its result."""
    arguments: dict[str, Any] = {"result": end.text, "status": "success" if end.success else "error"}
    if end.findings:
        arguments["findings"] = [{"claim": claim, "evidence": evidence} for claim, evidence in end.findings]
    return Call("task_result", arguments)
