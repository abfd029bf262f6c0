"""Runs `friday ask`. Only the answer goes to standard output; everything else goes to standard error."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from friday_cli.core.protocol.errors import TRANSIENT, FridayError, UsageError, words_of
from friday_cli.core.protocol.events import AttemptFailed, Envelope
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.run_result import LIMIT_REASONS, RunResult
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.diagnostics.log_file import report_defect, start_log
from friday_cli.session.attachments import PromptText
from friday_cli.session.session import Options, Session
from friday_cli.system import event_loop
from friday_cli.system.blocked_process import BlockedWatch
from friday_cli.system.paths import working_folder
from friday_cli.view.follower import SessionFollower

from ..options import session_options
from .input import PromptCommand, read_command, read_prompt
from .output import JsonWriter, OutputWriter, StreamWriter, TextWriter
from .pipe_output import pipe_output
from .signals import SignalHandler
from .terminal import remark

if TYPE_CHECKING:
    from ..host.owner import BackgroundOwner

log = logging.getLogger(__name__)
EXIT_LIMIT, EXIT_TRANSIENT, EXIT_DENIED = 5, 75, 4
_LIMITS = ("max_tokens", "max_cost", "max_turns", "timeout")
_SETTINGS = {name: name for name in ("fallback_model", "subagent_model", "service_tier")} | {
    "assume_price": "limits.assume_price"
}
"""Options and the settings that they set."""


def ask(values: dict[str, Any]) -> int:
    """Answer one prompt and return the exit code. `values`: the values of `options.OPTIONS` by `dest`, and `prompt`.

    Raises BrokenPipeError if standard output is closed. Other errors are one line on standard error, and a document with
    --output-format json.
    """
    if values["background"]:
        from .background import ask_in_background

        return ask_in_background(values, lambda values: _answer_or_report(values, SignalHandler()), _fail)
    if values["ci"]:
        from .ci import job_log

        with job_log():
            return _ask_into_file(values)
    return _ask_into_file(values)


def _ask_into_file(values: dict[str, Any]) -> int:
    """Answer; standard output is the file of --output, if it is given."""
    if not values["output"]:
        return _ask_and_report(values)
    path = values["output"]
    full = os.path.abspath(path)
    if full.startswith(os.path.join(os.getcwd(), "")) and os.path.realpath(path) != full:  # a checkout may bring links
        return _fail(
            values,
            f"--output: {path} leads through a link to {os.path.realpath(path)}. Name that file, or another one.",
            2,
        )
    try:
        file = open(path, "w", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed below
    except OSError as error:
        return _fail(values, f"--output: {path} cannot be written: {error.strerror}.", 2)
    with file, redirect_stdout(file):
        return _ask_and_report(values)


def _ask_and_report(values: dict[str, Any]) -> int:
    with pipe_output() as output:
        signals = SignalHandler(partial(output.finish, wait=False))
        code = 1
        try:
            code = _answer_or_report(values, signals)
        finally:
            stopped = bool(signals.code) or (values["timeout"] is not None and code == EXIT_LIMIT)
            try:
                output.finish(wait=not stopped)
            except BrokenPipeError:
                if not code:
                    raise
    return code


def _answer_or_report(values: dict[str, Any], signals: SignalHandler) -> int:
    show = (lambda text: None) if values["quiet"] else remark
    log_path: Path | None = None
    try:
        if values["debug"]:
            log_path = start_log()
        schema: dict[str, Any] | None = None
        if values["json_schema"] is not None:
            from friday_cli.agents.output_schema import read_schema

            schema = read_schema(values["json_schema"], "--json-schema")
        prompt, piped = read_prompt(values["prompt"], show)  # before the event loop, so that Ctrl+C stops it
        return event_loop.run(_ask(values, prompt, piped, schema, show, signals))
    except FridayError as error:
        return _fail(values, str(error), error.exit_code)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _fail(values, "Stopped.", signals.code or 130)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(values, words_of(error), signals.code or 1)
    except Exception as error:
        return _fail(values, report_defect(error), 1)
    finally:
        if log_path:
            remark(f"log file: {log_path}")


def _fail(values: dict[str, Any], text: str, code: int) -> int:
    """Report why there is no answer; --output-format json still gets its document."""
    _report(values, text)
    if values["output_format"] == "json":
        with suppress(OSError):  # standard output may be what failed
            JsonWriter.failure(text, code)
    return code


def _report(values: dict[str, Any], text: str) -> None:
    remark(text)
    if values["ci"]:
        from .ci import report_failure

        report_failure(text)


async def _ask(
    values: dict[str, Any],
    prompt: str,
    piped: str,
    schema: dict[str, Any] | None,
    show: Callable[[str], None],
    signals: SignalHandler,
) -> int:
    watch = BlockedWatch(values["timeout"], EXIT_LIMIT, background=values["background"])
    signals.watch(None if values["background"] else watch.stopping)
    if values["ci"]:
        from .ci import require_cap

        require_cap(values["max_cost"])
    agent = _agent_of(values)
    cwd = working_folder(values["cwd"])
    flags = {key: None if values[name] is False else values[name] for name, key in _SETTINGS.items()}
    if not agent:  # else they limit that agent only
        flags |= {f"limits.{name}": values[name] for name in _LIMITS}
    config = Path(values["config"]) if values["config"] else None
    resume = await _session_to_resume(values, cwd)
    async with _steering(values, cwd, show) as steering:
        options = session_options(
            values,
            cwd,
            resume=resume,
            config_file=config,
            flags=flags,
            steering=steering,
            needs_sandbox=values["ci"],
            attended=bool(values["background"]),
            below=values["profile"] or "",
        )
        session = await Session.open(options)
        gc.freeze()  # imported modules stay; only objects of the run are collected from here on
        gc.set_threshold(20_000)  # the default of 700 made importing an SDK (300,000 objects) 20 % slower
        gc.enable()
        run = _OneShotRun(session, _writer(values, session), signals, json_answer=schema is not None)
        command = PromptCommand(prompt)

        try:
            if values["background"]:
                run.serve(options)
            if prompt.startswith("/") and not agent:
                trusted = values["trust"] or steering is not None
                command = await read_command(session, prompt, steering or cwd, trusted=trusted)
                if command.note:
                    show(command.note)
            asked = values | {"prompt": prompt, "json_schema": schema}
            code = await run.answer(command.message, piped, show, partial(_send, session, asked, command))
            if (failed := run.unclosed) is not None:  # after its answer, which is the whole output
                _report(values, str(failed) if isinstance(failed, FridayError) else report_defect(failed))
            return code
        finally:
            await run.close()


async def _send(
    session: Session, values: dict[str, Any], command: PromptCommand, text: str, images: tuple[Image, ...]
) -> RunResult:
    """Have a text answered: by the agent of --resume-agent, by the only sub-agent, or by the main agent. `values`: those of the command,
    with the whole prompt and the schema itself."""
    schema, given = values["json_schema"], Limits(*(values[name] for name in _LIMITS))
    if agent := _agent_of(values):
        if images:
            raise UsageError("A sub-agent that is resumed takes no pictures.", hint="Name the file without @.")
        return await session.result(await session.start_agent(agent, text, schema=schema, limits=given))
    text = f"{command.preface}\n\n{text}" if command.preface else text
    if session.program is not None:  # an external agent is the only sub-agent
        limits = {"max_tokens": given.tokens, "max_iterations": given.turns, "timeout_s": given.time_s}
        return await session.program.delegate(
            values["profile"], text, values["prompt"], images, schema=schema, **limits
        )
    return await session.prompt(
        text, task=values["prompt"], images=images, schema=schema, restriction=command.restriction
    )


@asynccontextmanager
async def _steering(values: dict[str, Any], cwd: Path, show: Callable[[str], None]) -> AsyncIterator[Path | None]:
    """The folder that stands for `cwd` where files that steer agents are read (--trust-ref); None without it."""
    if values["trust_ref"] is None:
        yield None
        return
    from friday_cli.session import trust_ref

    taken = await trust_ref.take(cwd, values["trust_ref"], os.environ)
    try:
        show(
            f"profiles, hooks, servers, settings and AGENTS.md are those of {taken.commit[:12]}, not of the working tree"
        )
        yield taken.folder
    finally:
        taken.close()


async def _session_to_resume(values: dict[str, Any], cwd: Path) -> str | None:
    """The id of the session to resume; None for a new one."""
    given = [name for name in ("continue_", "resume", "resume_agent") if values[name] not in (False, None)]
    if not given:
        return None
    if len(given) > 1:
        flags = [f"--{name.strip('_').replace('_', '-')}" for name in given]
        raise UsageError(f"{' and '.join(flags)} cannot be combined.")
    wanted = values["resume"] or (values["resume_agent"] or "").partition(":")[0]
    from friday_cli.session import lists

    return await (lists.session_to_resume("", cwd) if values["continue_"] else lists.find_session(wanted))


def _agent_of(values: dict[str, Any]) -> str:
    """The path of the sub-agent in --resume-agent, "" for the main agent."""
    given = values["resume_agent"]
    if given is None:
        return ""
    session, colon, path = given.partition(":")
    if not (session and colon and path):
        raise UsageError(f"--resume-agent: {given!r} is not SESSION:PATH.", hint="Example: 7f3a:a.2.")
    return str(path)


def _writer(values: dict[str, Any], session: Session) -> OutputWriter:
    writer: OutputWriter
    if values["background"]:
        from .background import BackgroundWriter

        return BackgroundWriter(values["background"], session.id)
    match values["output_format"]:
        case "json":
            writer = JsonWriter(session.id)
        case "stream-json":
            writer = StreamWriter()
        case "sarif":
            from .sarif import SarifWriter

            writer = SarifWriter()
        case _:
            plain = values["ci"]
            writer = TextWriter(quiet=values["quiet"], badge=session.facts.badge, saved=session.kept, plain=plain)
    writer.path = _agent_of(values) or ("a" if session.program is None else "a.1")
    if values["ci"]:
        from .ci import CIWriter

        return CIWriter(writer)
    return writer


class _OneShotRun:
    """Runs one prompt and returns the exit code. `json_answer`: the answer must be one JSON document (--json-schema)."""

    def __init__(
        self, session: Session, writer: OutputWriter, signals: SignalHandler, *, json_answer: bool = False
    ) -> None:
        self._session = session
        self._json_answer = json_answer
        self._writer = writer
        self._signals = signals
        self._failure = ""
        self._write_error: OSError | None = None
        self.unclosed: Exception | None = None
        """Why the session could not be closed after the answer."""
        self._stopping: asyncio.Task[int] | None = None
        self._owner: BackgroundOwner | None = None
        self._follower = SessionFollower(session, self._write, late=True)
        signals.call(self._stop, lambda: writer.abandon(signals.code))

    async def answer(
        self,
        prompt: str | PromptText,
        piped: str,
        show: Callable[[str], None],
        send: Callable[[str, tuple[Image, ...]], Awaitable[RunResult]],
    ) -> int:
        """Send `prompt` with its attachments and the `piped` text through `send`; return the exit code."""
        text, images, remarks = await self._session.attach(prompt)
        for message in remarks:
            show(message)
        if self._signals.code:
            raise asyncio.CancelledError
        outcome = await send(f"{text}\n\n{piped}" if piped else text, images)
        if self._owner is not None:
            await self._owner.until_unused()
        if self._json_answer and outcome.status == "completed":
            from friday_cli.agents.output_schema import unfenced

            outcome = msgspec.structs.replace(outcome, text=unfenced(outcome.text))
        interrupted = self._signals.code
        try:
            await self.close()  # all events are read after this
        except Exception as error:
            self.unclosed = error
        code = interrupted or self._code(outcome)
        if self.unclosed is not None:
            code = code or (self.unclosed.exit_code if isinstance(self.unclosed, FridayError) else 1)
        try:
            if self._write_error is not None:
                raise self._write_error
            self._writer.finish(outcome, code)
        except OSError as error:
            error.filename = error.filename or "standard output"
            if not interrupted:  # a closed terminal also sends a signal
                raise
        return code

    def serve(self, options: Options) -> None:
        """Let other frontends use the session, and wait for them at the end. Raises FridayError."""
        from ..host.owner import BackgroundOwner

        if not self._session.kept:
            raise FridayError("A session that is not saved cannot work in the background: nothing would find it.")
        self._owner = BackgroundOwner(self._session, options)
        self._owner.open()
        self._signals.call(self._owner.end)

    async def close(self) -> None:
        async with AsyncExitStack() as ends:  # in the opposite order
            ends.push_async_callback(self._follower.finished)
            ends.push_async_callback(self._session.close)
            if self._owner is not None:
                ends.push_async_callback(self._owner.close)

    def _write(self, envelope: Envelope, replayed: bool) -> None:
        if envelope.seq is not None and log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s", envelope.agent, sanitize_line(repr(envelope.event), 300))
        if replayed:
            self._writer.replay(envelope)
            return
        if envelope.agent == self._writer.path and isinstance(envelope.event, AttemptFailed):
            self._failure = envelope.event.error
        if self._write_error is None:
            try:
                self._writer.apply(envelope)
            except OSError as error:  # the output is closed: stop spending tokens
                self._write_error = error
                self._stop()

    def _stop(self) -> None:
        from friday_cli.session.commands import Stop  # most runs are not stopped

        self._stopping = asyncio.ensure_future(self._session.do(Stop()))

    def _code(self, outcome: RunResult) -> int:
        if outcome.status == "cancelled":
            return 130
        if outcome.stop_reason in LIMIT_REASONS:
            return EXIT_LIMIT
        if outcome.status == "completed":
            return 0
        transient = outcome.stop_reason == "provider" and self._failure in TRANSIENT
        if self._writer.denials and not outcome.text.strip() and (not transient or self._failure == "empty"):
            return EXIT_DENIED
        return EXIT_TRANSIENT if transient else 1
