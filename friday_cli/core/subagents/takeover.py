"""A person takes a running sub-agent over, and hands it back. Its parent keeps waiting; its tools and rights stay as they are."""

from __future__ import annotations

from ..agent.agent import Agent
from ..agent.takeover import Takeover
from ..eventlog.log import Log
from ..protocol.agent_path import depth_of
from ..protocol.errors import ToolError
from ..protocol.events import HandedBack, TakenOver
from .driver import ModelDriver
from .node import AgentRun, Phase


def begin_takeover(agent: Agent, log: Log) -> TakenOver:
    """A person has the agent from now on. Returns the event, which the caller logs."""
    taken = agent.takeover = Takeover(log.now())
    agent.receipt_builder.add_person(taken.part(0.0))
    return TakenOver(taken.since)


async def take_over(node: AgentRun, log: Log) -> None:
    """The agent finishes its turn, and waits for the person then. Raises ToolError."""
    if not depth_of(node.path):
        raise ToolError("You already work with the main agent.")
    if node.leaving or node.phase >= Phase.WRAPPING_UP:
        raise ToolError(f"{node.path} is not at work.")
    if not isinstance(node.driver, ModelDriver):
        raise ToolError(
            f"{node.path} runs another program and cannot be taken over.", hint="Send it a message instead."
        )
    if node.agent.takeover is not None:
        raise ToolError(f"{node.path} has already been taken over.")
    await log.emit(node.path, begin_takeover(node.agent, log))


async def hand_back(node: AgentRun, log: Log, result: str) -> None:
    """The agent goes back to its parent: with `result`, or with its own if that is "". Raises ToolError if nobody has taken it
    over, or the result is not what its parent asked for."""
    taken = node.agent.takeover
    if taken is None or taken.over or node.ending:
        raise ToolError(f"{node.path} has not been taken over.")
    if result and (complaint := node.agent.accept(result)):
        raise ToolError(f"The result does not match the required schema: {complaint}")
    taken.hand_back(result)
    await _record(node.agent, taken, log)


async def end_takeover(agent: Agent, taken: Takeover, log: Log) -> None:
    """The run of the agent ends: a person who has it has it no longer."""
    agent.takeover = None
    if not taken.over:
        await _record(agent, taken, log)


async def _record(agent: Agent, taken: Takeover, log: Log) -> None:
    part = taken.part(log.now())
    agent.receipt_builder.add_person(part)
    await log.emit(agent.path, HandedBack(part))
