"""The one-shot: `friday ask`. Standard output gets the answer only; everything else goes to standard error."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import TRANSIENT, FridayError, UsageError
from friday_cli.core.protocol.events import AttemptFailed
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.run_result import LIMIT_REASONS, RunResult
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.diagnostics.log_file import start_log, unforeseen
from friday_cli.paths import store_path, working_folder
from friday_cli.session.open import Options
from friday_cli.session.output_schema import unfenced
from friday_cli.session.session import Session

from .input import read_prompt
from .output import JsonWriter, OutputWriter, StreamWriter, TextWriter
from .terminal import remark

log = logging.getLogger(__name__)
EXIT_LIMIT, EXIT_TRANSIENT, EXIT_DENIED = 5, 75, 4
_LIMITS = ("max_turns", "max_tokens", "max_cost", "timeout")
_SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def ask(values: dict[str, Any]) -> int:
    """Answer one prompt; `values` are those of `options.OPTIONS` by their `dest`, and `prompt`. Returns the exit code.

    Raises BrokenPipeError when nobody reads standard output any more; everything else that goes wrong is one line on
    standard error, and a document where one was asked for.
    """
    say = _nothing if values["quiet"] else remark
    signals = _SignalHandler()
    written: Path | None = None
    try:
        if values["debug"]:
            written = start_log()
        schema = _schema(values["json_schema"])
        prompt, piped = read_prompt(values["prompt"], say)  # before the loop, so that Ctrl-C ends the wait for it
        return asyncio.run(_ask(values, prompt, piped, schema, say, signals))
    except FridayError as error:
        return _fail(values, str(error), error.exit_code)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _fail(values, "Interrupted.", signals.code or 130)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(values, f"{where}{error.strerror or error}.", signals.code or 1)
    except Exception as error:
        return _fail(values, unforeseen(error), 1)
    finally:
        if written:
            remark(f"log file: {written}")


def _nothing(text: str) -> None:
    """With --quiet remarks are not said."""


def _fail(values: dict[str, Any], text: str, code: int) -> int:
    """Say why there is no answer; JSON has its document all the same."""
    remark(text)
    if values["output_format"] == "json":
        with suppress(OSError):  # where standard output is what failed
            JsonWriter.failure(text, code)
    return code


class _SignalHandler:
    """What was sent to this process: the first signal calls `act` (at first: give up what is being opened), a second
    one `leave`."""

    def __init__(self) -> None:
        self.code = 0
        self.act: Callable[[], object] = lambda: None
        self.leave: Callable[[], object] = lambda: None

    def watch(self) -> None:
        """Take signals from now on; what runs just now is given up at the first."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self.act = task.cancel
        for number, code in _SIGNALS.items():
            with suppress(NotImplementedError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self._came, code)

    def _came(self, code: int) -> None:
        if self.code:
            self.leave()
            os._exit(self.code)
        self.code = code
        self.act()


async def _ask(
    values: dict[str, Any],
    prompt: str,
    piped: str,
    schema: dict[str, Any] | None,
    say: Callable[[str], None],
    signals: _SignalHandler,
) -> int:
    signals.watch()
    agent = _agent_of(values)
    cwd = working_folder(values["cwd"])
    options = Options(
        cwd,
        add_dirs=tuple(Path(d) for d in values["add_dir"]),
        model=values["model"],
        effort=values["effort"],
        profile=values["profile"],
        mode="yolo" if values["yolo"] else values["mode"],
        allow=values["allow"],
        deny=values["deny"],
        trusted=values["trust"],
        resume=await _which(values, cwd),
        config_file=Path(values["config"]) if values["config"] else None,
        flags={
            "fallback_model": values["fallback_model"],
            "subagent_model": values["subagent_model"],
            **({} if agent else {f"limits.{name}": values[name] for name in _LIMITS}),  # else they are the agent's
        },
    )
    session = await Session.open(options)
    gc.freeze()  # what was loaded stays; from here on a long run must not grow by its cycles
    gc.set_threshold(20_000)  # not every 700 objects: importing an SDK with its 300,000 took a fifth longer
    gc.enable()
    run = _OneShotRun(session, _writer(values, session), signals, formed=schema is not None)
    limits = {name: values[name] for name in _LIMITS}

    own = None
    if prompt.startswith("/") and not agent:
        from friday_cli.extensions.commands import called, load

        own = called(prompt, await asyncio.to_thread(load, cwd, trusted=values["trust"]))

    async def put(text: str, images: tuple[Image, ...]) -> RunResult:
        if agent:
            return await session.resume_agent(agent, text, schema=schema, **limits)
        bounds = own[0].bounds() if own else None
        return await session.prompt(text, task=prompt, images=images, schema=schema, bounds=bounds)

    try:
        return await run.answer(own[0].words(own[1]) if own else prompt, piped, say, put)
    finally:
        await run.close()


async def _which(values: dict[str, Any], cwd: Path) -> str | None:
    """The session to go on with, None for a new one."""
    given = [name for name in ("continue_", "resume", "resume_agent") if values[name] not in (False, None)]
    if not given:
        return None
    if len(given) > 1:
        words = [f"--{name.strip('_').replace('_', '-')}" for name in given]
        raise UsageError(f"{' and '.join(words)} exclude each other.")
    wanted = values["resume"] or (values["resume_agent"] or "").partition(":")[0]
    from friday_cli.store import Store

    async with Store(store_path()) as store:
        return await (store.choose("", cwd) if values["continue_"] else store.find(wanted))


def _agent_of(values: dict[str, Any]) -> str:
    """The path of the sub-agent to continue, "" for the main agent."""
    given = values["resume_agent"]
    if given is None:
        return ""
    session, colon, path = given.partition(":")
    if not (session and colon and path):
        raise UsageError(f"--resume-agent: {given!r} is no agent.", hint="Write SESSION:PATH, such as 7f3a:a.2.")
    return str(path)


def _writer(values: dict[str, Any], session: Session) -> OutputWriter:
    writer: OutputWriter
    match values["output_format"]:
        case "json":
            writer = JsonWriter(session.id)
        case "stream-json":
            writer = StreamWriter()
        case _:
            writer = TextWriter(quiet=values["quiet"], badge=session.badge, kept=session.kept)
    writer.path = _agent_of(values) or "a"
    return writer


class _OneShotRun:
    """One prompt from the first event to the exit code. `formed`: a program reads the answer, which is one JSON
    document."""

    def __init__(
        self, session: Session, writer: OutputWriter, signals: _SignalHandler, *, formed: bool = False
    ) -> None:
        self._session = session
        self._formed = formed
        self._writer = writer
        self._signals = signals
        self._failure = ""
        self._unread: OSError | None = None
        self._stopping: asyncio.Task[int] | None = None
        self._pump = asyncio.create_task(self._read())
        signals.act = self._stop
        signals.leave = lambda: writer.abandon(signals.code)

    async def answer(
        self,
        prompt: str,
        piped: str,
        say: Callable[[str], None],
        put: Callable[[str, tuple[Image, ...]], Awaitable[RunResult]],
    ) -> int:
        """The exit code, once `put` has brought the end of what `prompt` with its files and pictures, and what was
        `piped` in, began."""
        text, images, remarks = await self._session.attach(prompt)
        for words in remarks:
            say(words)
        if self._signals.code:
            raise asyncio.CancelledError
        outcome = await put(f"{text}\n\n{piped}" if piped else text, images)
        if self._formed and outcome.status == "completed":
            outcome = msgspec.structs.replace(outcome, text=unfenced(outcome.text))
        interrupted = self._signals.code
        await self.close()  # everything that happened is read now
        code = interrupted or self._code(outcome)
        try:
            if self._unread is not None:
                raise self._unread
            self._writer.finish(outcome, code)
        except OSError as error:
            error.filename = error.filename or "standard output"
            if not interrupted:  # a closed terminal sends its signal, too
                raise
        return code

    async def close(self) -> None:
        await self._session.close()
        await self._pump

    async def _read(self) -> None:
        async for envelope in self._session.events():
            if envelope.seq is not None and log.isEnabledFor(logging.DEBUG):
                log.debug("%s %s", envelope.agent, sanitize_line(repr(envelope.event), 300))
            if envelope.seq is not None and envelope.seq <= self._session.since:
                self._writer.recall(envelope)
                continue
            if envelope.agent == self._writer.path and isinstance(envelope.event, AttemptFailed):
                self._failure = envelope.event.error
            if self._unread is None:
                try:
                    self._writer.take(envelope)
                except OSError as error:  # nobody reads what is being paid for
                    self._unread = error
                    self._stop()

    def _stop(self) -> None:
        self._stopping = asyncio.ensure_future(self._session.stop("a"))

    def _code(self, outcome: RunResult) -> int:
        if outcome.status == "cancelled":
            return 130
        if outcome.stop_reason in LIMIT_REASONS:
            return EXIT_LIMIT
        if outcome.status == "completed":
            return 0
        later = outcome.stop_reason == "provider" and self._failure in TRANSIENT
        if self._writer.state.denials and not outcome.text.strip() and (not later or self._failure == "empty"):
            return EXIT_DENIED
        return EXIT_TRANSIENT if later else 1


def _schema(text: str | None) -> dict[str, Any] | None:
    """A JSON Schema from its text or a file."""
    if text is None:
        return None
    import json

    try:
        content = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8-sig")
        schema = json.loads(content)
    except OSError as error:
        raise UsageError(f"--json-schema: {text} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"--json-schema: not JSON: {error}.") from None
    if not isinstance(schema, dict):
        raise UsageError("--json-schema: the schema must be a JSON object.")
    return schema
