"""One open session of an ACP client: prompts, questions, changes of model and mode, and its events as updates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

import msgspec

from friday_cli.core.permissions.decision import MODES, Mode
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.events import Envelope, ModeChanged, PermissionAsked, QuestionAsked
from friday_cli.core.protocol.messages import Image, Usage
from friday_cli.core.protocol.provider import Effort
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.extensions.commands import find_command, load
from friday_cli.jsonrpc.connection import INVALID_PARAMS, ConnectionEnded, RpcConnection, RpcError
from friday_cli.session import lists
from friday_cli.session.attachments import PromptText, prompt_of_command
from friday_cli.session.commands import AnswerQuestion, LoadSkill, SetMode, Stop
from friday_cli.session.session import Options, Session
from friday_cli.view import PendingAsk
from friday_cli.view.follower import SessionFollower

from . import config_options
from .content import prompt_of
from .questions import ask
from .updates import ClientAbilities, SessionUpdates, stop_reason

NOT_FOUND = -32002
LULL_S = 0.1
"""Seconds between live events."""


class AcpSession:
    """Opened by `AcpSession.open`. `id`: as the client knows it, which is the id in Friday's store."""

    def __init__(
        self,
        session: Session,
        options: Options,
        connection: RpcConnection,
        client: ClientAbilities,
        models: Sequence[str],
    ) -> None:
        self.id = session.id
        self.options = options
        self.updates = SessionUpdates(session.id, str(options.cwd), client)
        self._session, self._connection, self._client = session, connection, client
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._follower: SessionFollower | None = None
        self._replay = False
        self._turn: asyncio.Task[Any] | None = None
        self._models = models
        self._reopening = asyncio.Lock()
        self._closed = False

    @classmethod
    async def open(cls, options: Options, connection: RpcConnection, client: ClientAbilities) -> AcpSession:
        """Open a new session, or the one in `options.resume`. Raises FridayError."""
        session = await Session.open(options)
        return cls(session, options, connection, client, await lists.model_names(options.cwd))

    def begin(self, *, replay: bool) -> asyncio.Event:
        """Send updates from now on. `replay`: the client gets the history first; the event is set when it has it."""
        self._replay = replay
        self._follower = SessionFollower(self._session, self._send_updates, lull_s=LULL_S)
        return self._follower.caught_up

    def _send_updates(self, envelope: Envelope, replayed: bool) -> None:
        found = self.updates.apply(envelope, replayed=replayed)
        if not replayed or self._replay:
            for session_id, update in found:
                self.send(update, session_id)
        if replayed:
            return
        if isinstance(envelope.event, ModeChanged):
            self.send({"sessionUpdate": "config_option_update", "configOptions": self.config()})
        self._ask_and_withdraw()

    def send(self, update: dict[str, Any], session_id: str = "") -> None:
        """Send one update."""
        self._connection.notify("session/update", {"sessionId": session_id or self.id, "update": update})

    async def announce(self) -> None:
        """Name the commands that can begin a prompt. After the answer to `session/new`: before it a client does not know the session."""
        found = await asyncio.to_thread(load, self.options.cwd)
        rows = [
            {
                "name": one.name,
                "description": one.description or one.name,
                **({"input": {"hint": one.hint}} if one.hint else {}),
            }
            for one in found.found.values()
        ]
        self.send({"sessionUpdate": "available_commands_update", "availableCommands": rows})

    # ---- questions -------------------------------------------------------------------

    def _ask_and_withdraw(self) -> None:
        """Put new questions to the person, and forget those that are answered or withdrawn."""
        asks = self.updates.view.asks
        for ask_id, pending in asks.items():
            if ask_id not in self._asking:
                self._asking[ask_id] = asyncio.create_task(self._put(ask_id, pending), name=f"acp question {ask_id}")
        for ask_id in [one for one in self._asking if one not in asks]:
            self._asking.pop(ask_id).cancel()

    async def _put(self, ask_id: str, pending: PendingAsk) -> None:
        assert isinstance(pending.event, PermissionAsked | QuestionAsked)
        with suppress(ConnectionEnded):  # nobody answers; the session is closed next
            await self._session.do(AnswerQuestion(ask_id, await ask(self._connection, self.updates, pending)))

    # ---- prompts ---------------------------------------------------------------------

    async def prompt(self, blocks: Any) -> dict[str, Any]:
        """Run a prompt to its end. Raises RpcError if one runs already."""
        if self._turn is not None and not self._turn.done():
            raise RpcError(INVALID_PARAMS, "A prompt of this session is running. Cancel it first.")
        if not isinstance(blocks, list):
            raise RpcError(INVALID_PARAMS, "prompt: expected a list of content blocks.")
        try:
            text, resources, images = prompt_of(blocks, str(self.options.cwd))
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from None
        before = self.updates.view.totals
        turn = self._turn = asyncio.create_task(self._run(text, resources, images), name=f"acp prompt {self.id}")
        await asyncio.wait([turn])
        if turn.cancelled():
            await self._stop_main()
        outcome = RunResult("cancelled", "aborted") if turn.cancelled() else turn.result()
        await self._caught_up()
        reason = stop_reason(outcome.stop_reason, outcome.status)
        if outcome.status == "failed" and reason == "end_turn":
            self.send(_said(f"\n[failed: {outcome.error or outcome.stop_reason}]"))
        elif outcome.stop_reason in ("cost", "time"):
            self.send(_said(f"\n[stopped: the limit on {outcome.stop_reason} was reached]"))
        return {"stopReason": reason, "usage": _usage(self.updates.view.totals, before)}

    async def _run(self, text: str, resources: str, images: tuple[Image, ...]) -> RunResult:
        async with self._reopening:
            pass
        for run in self._session.running():  # a sub-agent in the background that ended may have started it
            if run.agent == "a":
                await self._session.result(run)
        preface, restriction = "", None
        message: str | PromptText = text
        if (
            text.startswith("/")
            and (found := find_command(text, await asyncio.to_thread(load, self.options.cwd))) is not None
        ):
            custom, rest = found
            restriction = custom.restrictions()
            if custom.skill is None:
                message = prompt_of_command(custom, rest)
            else:
                preface, text_of_skill, _ = await self._session.do(LoadSkill(custom.skill, rest))
                message = text_of_skill
        attached, more, remarks = await self._session.attach(message)
        for remark in remarks:
            self.send(_said(f"[{remark}]\n"))
        sent = "\n\n".join(part for part in (preface, attached, resources) if part)
        return await self._session.prompt(sent, task=text, images=(*images, *more), restriction=restriction)

    async def _caught_up(self) -> None:
        """Wait until all events of the run were sent: a client may close the turn with the answer."""
        try:
            last = (await self._session.history())[-1].seq or 0
        except FridayError:
            return  # the session was closed, and all was sent then
        if self._follower is not None:
            await self._follower.until(lambda: self.updates.view.seq >= last)

    async def cancel(self, path: str) -> None:
        """Stop an agent and all below it. Background sub-agents of the main agent continue if the client can cancel them."""
        if path != "a":
            await self._session.do(Stop(path, "cancel"))
            return
        self._cancel_turn()
        await self._stop_main()

    async def _stop_main(self) -> None:
        await self._session.do(Stop(keep_background=self._client.subagents))

    def _cancel_turn(self) -> None:
        """Cancel a prompt, also before its run begins, or while it waits for sub-agents in the background."""
        if self._turn is not None:
            self._turn.cancel()

    # ---- configuration ---------------------------------------------------------------

    def config(self) -> list[dict[str, Any]]:
        """The options that a client can change."""
        facts = self._session.facts
        return config_options.rows(facts.mode, facts.model, facts.effort, self._models)

    async def set_config(self, name: str, value: str) -> None:
        """Change one of them. A model or an effort needs an idle session, which is opened again with it. Raises RpcError."""
        if name == "mode":
            if value not in MODES or value == "yolo":
                raise RpcError(
                    INVALID_PARAMS,
                    f"mode: {value!r} is not one of {', '.join(mode for mode in MODES if mode != 'yolo')}.",
                )
            mode: Mode = value
            await self._session.do(SetMode(mode))
            return
        if name not in ("model", "thought_level"):
            raise RpcError(INVALID_PARAMS, f"There is no option {name!r}.")
        if not self._session.idle or (self._turn is not None and not self._turn.done()):
            raise RpcError(INVALID_PARAMS, f"{name}: can only be changed when no prompt is running.")
        options = msgspec.structs.replace(self.options, resume=self.id)
        if name == "model":
            options = msgspec.structs.replace(options, model=value)
        elif value == "default" or value in get_args(Effort):
            options = msgspec.structs.replace(options, effort=None if value == "default" else value)
        else:
            raise RpcError(INVALID_PARAMS, f"thought_level: {value!r} is not one of {', '.join(get_args(Effort))}.")
        async with self._reopening:
            if self._closed:
                raise RpcError(NOT_FOUND, "The session was closed.")
            await self._reopen(options)

    async def _reopen(self, options: Options) -> None:
        before = self.options
        await self._stop_reading()
        try:
            self._session, self.options = await Session.open(options), options
        except FridayError as error:
            self._session = await Session.open(msgspec.structs.replace(before, resume=self.id))
            raise RpcError(INVALID_PARAMS, str(error)) from None
        finally:
            self.updates = SessionUpdates(self.id, str(options.cwd), self._client)
            await self.begin(replay=False).wait()

    async def _stop_reading(self) -> None:
        await self._session.close(last=False)
        if self._follower is not None:
            await self._follower.finished()

    async def close(self) -> None:
        """Stop all agents and release the session."""
        self._cancel_turn()
        self._closed = True
        with suppress(FridayError):
            async with self._reopening:
                await self._stop_reading()
        for task in self._asking.values():
            task.cancel()


def _said(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


def _usage(now: Usage, before: Usage) -> dict[str, int]:
    """The tokens of one prompt, with those of all sub-agents."""
    fresh, read = now.input - before.input, now.cache_read - before.cache_read
    wrote, out = now.cache_write - before.cache_write, now.output - before.output
    return {
        "inputTokens": fresh,
        "outputTokens": out,
        "cachedReadTokens": read,
        "cachedWriteTokens": wrote,
        "totalTokens": fresh + read + wrote + out,
    }
