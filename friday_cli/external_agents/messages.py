"""What an external agent reads: the messages of its history, with a prompt, or while its program answers one."""

from __future__ import annotations

from typing import Any

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.agent.loop import drain_inbox
from friday_cli.core.protocol.messages import Image
from friday_cli.extensions.profiles.profile import Profile
from friday_cli.jsonrpc.connection import RpcError
from friday_cli.llm.transport.text import dict_in

from .connection import AcpConnection, ProgramFailed

METHOD = "_session/steering"
STEER_S = 10.0
"""Seconds that a program has to take a message."""


class Messages:
    """The messages of an agent that its program has not read."""

    def __init__(self, agent: Agent, services: Services, profile: Profile) -> None:
        self._agent, self._services, self._profile = agent, services, profile
        self.sent = 0
        """How many messages of the history the program has read."""
        self.left: list[str] = []
        """Messages that the program did not take while it answered a prompt: they belong into the next one."""
        self.steers = self._sees = False
        """Whether the program takes messages while it answers a prompt: an extension of Claude Code's and Codex's adapters."""

    def offered(self, features: dict[str, Any]) -> None:
        """What the program says at its start."""
        self.steers = dict_in(dict_in(features.get("_meta")).get("steering")).get("supported") is True
        can = dict_in(dict_in(features.get("agentCapabilities")).get("promptCapabilities"))
        self._sees = can.get("image") is True

    def unread(self) -> list[dict[str, Any]]:
        """The parts of the next prompt. Raises ProgramFailed for pictures that the program does not take."""
        history = self._agent.conversation.history
        unread = [message for message in history[self.sent :] if message.role == "user" or not self.sent]
        self.sent = len(history)
        texts = [f"You said:\n{one.text}" if one.role == "assistant" else one.text for one in unread if one.text]
        texts, self.left = [*self.left, *texts], []
        if not self._agent.texts and self._agent.run == 1 and self._profile.prompt:
            texts.insert(0, self._profile.prompt)
        pictures = [part for one in unread for part in one.parts if isinstance(part, Image)]
        if pictures and not self._sees:
            name = self._profile.program
            raise ProgramFailed(f"{name} takes no pictures. Name the file without @: it may be able to open it itself.")
        shown = [{"type": "image", "mimeType": one.media_type, "data": one.data} for one in pictures]
        return [{"type": "text", "text": "\n\n".join(texts)}, *shown]

    async def steer(self, connection: AcpConnection, session: str) -> None:
        """Add the unread messages to the history, and give them to the program. What it did not take, or not before a stop, is in `left`."""
        history = self._agent.conversation.history
        known = len(history)
        await drain_inbox(self._agent, self._services)
        texts = [message.text for message in history[known:] if message.role == "user" and message.text]
        if not texts:
            return
        self.left += texts
        params = {
            "sessionId": session,
            "prompt": [{"type": "text", "text": "\n\n".join(texts)}],
            # else it would begin a turn that nobody waits for
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        try:
            answer = await connection.request(METHOD, params, STEER_S)
        except (RpcError, ProgramFailed):
            return
        if dict_in(answer).get("outcome") == "injected":
            del self.left[-len(texts) :]
