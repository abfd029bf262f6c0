"""`/loop`: sends a message again and again, at intervals or until a command of the person succeeds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize, seconds
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import SessionView

if TYPE_CHECKING:
    from friday_cli.session.attachments import PromptText
    from friday_cli.session.commands import ShellResult
    from friday_cli.session.port import SessionPort

ROUNDS, DOLLARS = 20, 5.0
"""Caps of a loop that names none."""
MOST_ROUNDS, LONGEST_S, SHORTEST_S = 1000, 86_400.0, 5.0
OUTPUT_CHARS = 4000
"""Characters of the end of the command's output that the agent reads."""
CHECK_S = 0.1
"""Seconds between two looks whether a round has ended."""
USAGE = "Write /loop 5m TEXT, /loop until COMMAND, or /loop stop; x10 and $2 before the text cap its rounds and cost."
_UNITS = {"s": 1, "m": 60, "h": 3600}


class LoopPlan(msgspec.Struct, frozen=True):
    """A round begins every `every_s` seconds (the message is `text`), or, with a `command`, at once until it succeeds."""

    text: str
    every_s: float = 0.0
    command: str = ""
    rounds: int = ROUNDS
    dollars: float = DOLLARS


def read_plan(words: str) -> LoopPlan:
    """The plan that a person wrote after `/loop`. Raises UsageError."""
    first, _, rest = words.strip().partition(" ")
    rounds, dollars = ROUNDS, DOLLARS
    while found := re.match(r"\s*(?:x(\d{1,5})|\$(\d+(?:\.\d+)?))(?:\s+|$)", rest):
        rounds = int(found[1]) if found[1] else rounds
        dollars = float(found[2]) if found[2] else dollars
        rest = rest[found.end() :]
    rest = rest.strip()
    if not rest or not 1 <= rounds <= MOST_ROUNDS or not dollars:
        raise UsageError(USAGE)
    if first == "until":
        return LoopPlan("", command=rest, rounds=rounds, dollars=dollars)
    if not (time := re.fullmatch(r"(\d{1,6})([smh])", first)):
        raise UsageError(f"{first!r} is neither a time such as 5m nor the word until.", hint=USAGE)
    every_s = float(time[1]) * _UNITS[time[2]]
    if not SHORTEST_S <= every_s <= LONGEST_S:
        raise UsageError(f"The time must be {SHORTEST_S:.0f} s to 24 h.")
    return LoopPlan(rest, every_s, rounds=rounds, dollars=dollars)


class LoopChat(Protocol):
    """The chat, as a loop sees it."""

    told: list[str]

    @property
    def state(self) -> SessionView: ...

    @property
    def working(self) -> bool: ...

    async def say(self, text: PromptText, *, task: str = "") -> list[str]: ...

    def require_session(self) -> SessionPort: ...


class PromptLoop:
    """The loop of a chat, one at a time. It ends at its caps, when a round ends without being done, and when it is stopped."""

    def __init__(self, chat: LoopChat, on_change: Callable[[], None]) -> None:
        self._chat, self._on_change = chat, on_change
        self._task: asyncio.Task[None] | None = None
        self._blocked: set[str] = set()
        """What the person was told about the sandbox."""

    @property
    def running(self) -> bool:
        """Whether there is a loop, also between two rounds."""
        return self._task is not None and not self._task.done()

    def start(self, plan: LoopPlan) -> None:
        """Begin. Raises UsageError while another loop runs."""
        if self.running:
            raise UsageError("A loop is already running; Esc or /loop stop ends it.")
        self._task = asyncio.get_running_loop().create_task(self._run(plan), name="loop")
        self._task.add_done_callback(lambda task: self._on_change())

    def stop(self) -> bool:
        """End it; the round that runs is not stopped. False if there is none."""
        return self._task is not None and self._task.cancel()

    async def _run(self, plan: LoopPlan) -> None:
        try:
            self._tell(f"The loop has ended: {await self._rounds(plan)}.")
        except FridayError as error:
            self._tell(f"The loop has ended: {error}")

    async def _rounds(self, plan: LoopPlan) -> str:
        """All rounds. Returns why the loop ended."""
        from friday_cli.session.attachments import PromptText  # the chat starts without it

        clock, before = asyncio.get_running_loop().time, self._cost
        await self._idle(0)
        for number in range(1, plan.rounds + 1):
            begun, text, ran = clock(), plan.text, ""
            if plan.command:
                checked = await self._checked(plan.command)
                if checked.exit_code == 0:
                    return f"the command succeeded after {pluralize(number - 1, 'round')}"
                text = f"Work until the command `{plan.command}` succeeds."
                output = checked.output[-OUTPUT_CHARS:]
                ran = f"\n\n[I ran this command: {plan.command}\nexit code: {checked.exit_code}\n{output}]"
            name = f"round {number} of {plan.rounds}"
            self._tell(f"Loop, {name}: {sanitize_line(plan.command or plan.text, 100)}")
            root = self._chat.state.root
            run = root.run if root is not None else 0
            typed = plan.command or plan.text
            # what the command wrote names no file, resource or host
            said = PromptText(f"{text}\n\n[{name} of /loop]{ran}", typed)
            await self._chat.say(said, task=f"[{name}] {'until ' if plan.command else ''}{typed}")
            await self._idle(run + 1)
            end = self._chat.state.root.end if self._chat.state.root is not None else None
            if end is not None and end.stop_reason != "done":
                return f"{name} ended as {end.summary('a')}"
            if (used := self._cost - before) >= plan.dollars:
                return f"its rounds cost ${used:.2f}, its cap is ${plan.dollars:.2f}"
            if number < plan.rounds and plan.every_s:
                left = max(0.0, begun + plan.every_s - clock())
                self._tell(f"Loop, {name} is done; the next one begins in {seconds(left)}. Esc ends the loop.")
                await asyncio.sleep(left)
                await self._idle(0)
        if plan.command and (await self._checked(plan.command)).exit_code == 0:
            return f"the command succeeded after {pluralize(plan.rounds, 'round')}"
        return f"it had {pluralize(plan.rounds, 'round')}, its cap"

    async def _checked(self, command: str) -> ShellResult:
        """How the command of the person ends now. It runs what the agent has written, so it runs as the agent's own commands do."""
        from friday_cli.session.commands import RunConfined

        ran = await self._chat.require_session().do(RunConfined(command), lambda text: None)
        if ran.blocked and ran.blocked not in self._blocked:
            self._blocked.add(ran.blocked)
            self._tell(f"Loop, the command failed. {ran.blocked} [sandbox] in config.toml allows it more.")
        return ran

    async def _idle(self, run: int) -> None:
        """Wait until the main agent has had this run and does not work."""
        while self._chat.working or (run and not self._has_ended(run)):  # noqa: ASYNC110 - the state tells nobody
            await asyncio.sleep(CHECK_S)

    def _has_ended(self, run: int) -> bool:
        root = self._chat.state.root
        return root is not None and root.ended and root.run >= run

    @property
    def _cost(self) -> float:
        """US dollars of the session so far; what has no price counts nothing."""
        return (self._chat.state.usage_of("a").cost_usd or 0.0) if self._chat.state.root is not None else 0.0

    def _tell(self, text: str) -> None:
        self._chat.told.append(text)
        self._on_change()
