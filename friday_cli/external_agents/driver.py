"""Does the work of an agent with another program, which speaks the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.agent.loop import REPAIRS, WRAP_UP, add_system_note, drain_inbox, wrapped_up
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.limits.budget import LimitReached
from friday_cli.core.protocol.events import ExternalSession, Notice
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.run_result import RunResult, StopReason
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.extensions.profiles.profile import Profile
from friday_cli.jsonrpc.connection import METHOD_NOT_FOUND, RpcError
from friday_cli.llm.transport.text import dict_in
from friday_cli.workspace.local_commands import WorkEffects

from . import evidence
from .connection import AcpConnection, ProgramFailed
from .host import ExternalAgents, local
from .login_folder import LoginFolder
from .messages import Messages
from .meter import Meter
from .programs import how_to_log_in, program_of
from .questions import Questions
from .session import open_session
from .turns import Turns
from .updates import Updates
from .usage import reported_usage

log = logging.getLogger(__name__)

CANCEL_S = 2.0
"""Seconds that a program has to answer a cancelled prompt."""
QUIET_S, SILENT_S = 120.0, 300.0
"""Seconds without anything from the program after which the person is told, and after which it is ended."""


class ExternalDriver:
    """Implements `Driver`."""

    def __init__(self, agent: Agent, profile: Profile, host: ExternalAgents) -> None:
        assert profile.external is not None, "only for such a profile"
        self._agent, self._services, self._profile, self._host = agent, host.services, profile, host
        self.name, self._program = profile.program, program_of(profile.external)
        self._turns = Turns(agent, host.services)
        self._updates = Updates(agent, host.services, self._turns)
        self._messages = Messages(agent, host.services, profile)
        self._questions = Questions(agent, host.services, self.name, self._updates)
        self._connection: AcpConnection | None = None
        self._meter: Meter | None = None
        """What counts its requests; None where it uses a login of its own."""
        self._login: LoginFolder | None = None
        self._session = ""
        self._prompt: asyncio.Task[Any] | None = None
        self._heard = 0.0
        """When something came from the program last."""
        self._cost_usd = 0.0
        """US dollars of its session that are charged, where it reports them."""
        self._effects = WorkEffects()
        self._held = AsyncExitStack()
        """What the run holds: a place among the external agents, and the observation of files."""

    # ---- Driver ------------------------------------------------------------------

    async def start(self, task: str) -> RunResult:
        agent = self._agent
        await drain_inbox(agent, self._services)
        self._turns.check()
        try:
            if self._connection is None:
                await self._open()
            for _ in range(REPAIRS + 1):
                result = await self._ask(self._messages.unread())
                while result.stop_reason == "done" and self._messages.left:
                    result = await self._ask(self._messages.unread())
                if result.stop_reason != "done" or not (complaint := agent.accept(result.text)):
                    return result
                note = f"{NOTE} The answer does not match the required schema: {complaint}. Send a corrected answer."
                await add_system_note(agent, self._services, note)
            return RunResult("failed", "reported", "", f"The answer does not match the required schema: {complaint}")
        except ProgramFailed as error:
            words = f"{self.name} needs a login: {how_to_log_in(self._profile)}" if error.login else str(error)
            return self._failed("provider", words, "auth" if error.login else "config")
        finally:
            if self._turns.phase == "work":
                await agent.slot.resume_single()

    async def send(self, text: str) -> None:
        await add_system_note(self._agent, self._services, text)

    async def stop(self, why: str, *, whose: str) -> RunResult:
        agent = self._agent
        self._turns.phase, self._questions.closed = "stopping", True
        error = await self._cancel_prompt()
        self._turns.phase = "last turn"
        text = ""
        agent.budget.open_holdback()
        if not error:
            await add_system_note(
                agent,
                self._services,
                f"{NOTE} {WRAP_UP[why]} Call no tool. Answer with the best result you have, and say clearly what is missing.",
            )
            try:
                async with asyncio.timeout(self._services.policy.wrap_up_s):
                    text = (await self._ask(self._messages.unread())).text
            except TimeoutError:
                error = f"No wrap-up within {self._services.policy.wrap_up_s:.0f} s."
            except (ProgramFailed, LimitReached) as failure:
                error = f"No wrap-up: {failure}"
        return wrapped_up(agent, why, whose, text, error)

    async def close(self) -> None:
        agent, connection = self._agent, self._connection
        self._questions.closed = True
        if self._meter is not None:
            await self._meter.close()
        if connection is not None:
            if self._prompt is not None and not self._prompt.done():
                connection.notify("session/cancel", {"sessionId": self._session})
            await connection.close()
            if self._prompt is not None:
                self._close_prompt(await self._settled_prompt())
        self._turns.end(Usage(), "other")
        await self._held.aclose()
        if connection is not None:
            seen = evidence.Seen(self.name, self._effects, connection.server, self._login)
            await evidence.log_observed(agent, self._services, self._updates, seen)

    # ---- the program -------------------------------------------------------------

    async def _open(self) -> None:
        """Start the program and its session. Raises ProgramFailed."""
        agent, host = self._agent, self._host
        if host.places.locked():
            async with agent.slot.waiting("queued"):
                await host.places.acquire()
        else:
            await host.places.acquire()
        self._held.callback(host.places.release)
        self._effects = await self._held.enter_async_context(local(agent).commands.observed(agent.path, self.name))
        self._meter = await host.meter(agent, self._program, self._turns)
        self._login = await host.login(self._program) if self._meter is None else None
        server = await host.serve(agent, self._profile, self._meter, self._login)
        connection = self._connection = AcpConnection(server, self.name, self._asked, self._told)
        await _initialize(connection, self._program.node)
        self._messages.offered(connection.features)
        earlier = await _earlier_session(agent, self._services)
        folder, careful = str(local(agent).root), agent.rules.effective_mode in ("ask", "plan")
        self._session, continues = await open_session(
            connection, self._profile, folder, earlier, counted=self._meter is not None, careful=careful
        )
        known = ExternalSession(self.name, connection.version, self._session, "counted" if self._meter else "reported")
        await self._services.log.emit(agent.path, known)
        if continues:
            self._messages.sent = len(agent.conversation.history) - 1
        elif earlier:
            text = f"{self.name} cannot continue its earlier session: it reads the conversation so far as text."
            await self._services.log.emit(agent.path, Notice(text, "warning"))

    # ---- prompts -----------------------------------------------------------------

    async def _ask(self, parts: list[dict[str, Any]]) -> RunResult:
        """Send a prompt and wait for its end. Raises ProgramFailed, LimitReached."""
        if self._meter is not None:
            self._meter.problem = ""  # a refusal of the prompt before is answered by this one
        agent, connection = self._agent, self._connection
        assert connection is not None
        await agent.slot.start_parallel(1, on_machine=True)
        self._updates.prompted()
        self._heard = _now()
        params = {"sessionId": self._session, "prompt": parts}
        self._prompt = asyncio.create_task(connection.request("session/prompt", params), name=f"prompt {agent.path}")
        await self._until_answered(self._prompt)
        try:
            answer = self._prompt.result()
        except RpcError as error:
            self._close_prompt(None)
            return self._failed("provider", f"{self.name}: {sanitize_line(error.message, 500)}")
        return self._result_of(answer)

    def _close_prompt(self, answer: Any) -> str:
        """A prompt is over: log what is left of it, and charge what the program says. Returns the text after its last call."""
        self._prompt = None
        self._updates.end_open_calls()
        self._updates.flush()
        self._messages.sent = len(self._agent.conversation.history)
        if self._meter is None:
            usage = reported_usage(answer, self._updates.cost_usd, self._cost_usd)
            self._cost_usd = self._updates.cost_usd or self._cost_usd
            self._turns.charge(usage)
            self._turns.end(usage, "end_turn")
        return self._updates.last_text

    def _result_of(self, answer: Any) -> RunResult:
        text = self._close_prompt(answer)
        stop = dict_in(answer).get("stopReason")
        if stop == "refusal":
            return self._failed("refusal", f"{self.name} refused to answer.")
        if stop == "max_turn_requests":
            return self._failed("iterations", f"{self.name} stopped at its own limit of requests.")
        if stop not in ("end_turn", "max_tokens"):
            return self._failed("provider", f"{self.name} ended without an answer ({sanitize_line(str(stop), 60)}).")
        if self._meter is not None and self._meter.problem:  # some programs end as if they were done
            return self._failed("provider", self._meter.problem)
        if not text:
            return self._failed("provider", f"{self.name} gave an empty answer.")
        return RunResult("completed", "done", text)

    async def _until_answered(self, prompt: asyncio.Task[Any]) -> None:
        """Wait for the answer of a prompt. Raises LimitReached, or ProgramFailed when nothing came for long."""
        told = False
        while not prompt.done():
            await asyncio.wait([prompt, self._turns.limited], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            if self._turns.limited.done() and self._turns.phase == "work":
                raise self._turns.limited.result()
            steers = self._messages.steers and self._turns.phase == "work" and not self._agent.inbox.empty()
            if steers and self._connection:
                await self._messages.steer(self._connection, self._session)
            if self._questions.open:
                self._heard = _now()
            if self._meter is not None:
                self._heard = max(self._heard, _now() if self._meter.running else self._meter.last_at)
            silent = _now() - self._heard
            if silent > SILENT_S:
                raise ProgramFailed(f"Nothing came from {self.name} for {SILENT_S:.0f} s.")
            if silent > QUIET_S and not told:
                told = True
                text = f"Nothing has come from {self.name} for {QUIET_S:.0f} s. It is ended after {SILENT_S:.0f} s."
                await self._services.log.emit(self._agent.path, Notice(text, "warning"))

    async def _cancel_prompt(self) -> str:
        """Cancel what the program does. Returns why it can be asked for nothing more, "" if it can."""
        connection, prompt = self._connection, self._prompt
        if connection is None or not self._session or connection.ended.is_set():
            return f"{self.name} is not running."
        if prompt is None or prompt.done():
            return ""
        connection.notify("session/cancel", {"sessionId": self._session})
        await asyncio.wait([prompt], timeout=CANCEL_S)
        self._close_prompt(await self._settled_prompt())
        return "" if prompt.done() and not prompt.cancelled() else f"{self.name} did not react to a cancel."

    async def _settled_prompt(self) -> Any:
        """The answer of the prompt, None if there is none; it is waited for no longer."""
        prompt = self._prompt
        if prompt is None:
            return None
        if not prompt.done():
            prompt.cancel()
        found = await asyncio.gather(prompt, return_exceptions=True)
        return None if isinstance(found[0], BaseException) else found[0]

    def _failed(self, reason: StopReason, words: str, kind: str = "") -> RunResult:
        return RunResult("failed", reason, self._agent.partial, words, partial=True, error_kind=kind)

    # ---- what the program sends ----------------------------------------------------

    def _told(self, method: str, params: dict[str, Any]) -> None:
        self._heard = _now()
        update = params.get("update")
        mine = method == "session/update" and params.get("sessionId") == self._session
        at_work = self._prompt is not None and not self._prompt.done()  # replays belong to no prompt
        if mine and at_work and isinstance(update, dict):
            self._updates.take(update)

    async def _asked(self, method: str, params: dict[str, Any]) -> Any:
        self._heard = _now()
        if method != "session/request_permission":
            raise RpcError(METHOD_NOT_FOUND, f"Friday does not offer {sanitize_line(method, 80)}.")
        if params.get("sessionId") != self._session:
            raise RpcError(METHOD_NOT_FOUND, "This is not the session of this agent.")
        return await self._questions.permission(params)


async def _initialize(connection: AcpConnection, node: int) -> None:
    """The first request to a program that needs this Node, 0 for none. Raises ProgramFailed."""
    try:
        await connection.initialize()
    except ProgramFailed as error:
        needs = f" (It needs Node {node} or newer: check `node --version`.)" if node else ""
        raise ProgramFailed(f"{error}{needs}") from None


async def _earlier_session(agent: Agent, services: Services) -> str:
    """The id of the program's session of an earlier run, "" if there is none."""
    if agent.run < 2:
        return ""
    rows = [row for row in await services.log.history() if row.agent == agent.path]
    found = [row.event.id for row in rows if isinstance(row.event, ExternalSession)]
    return found[-1] if found else ""


def _now() -> float:
    return asyncio.get_running_loop().time()
