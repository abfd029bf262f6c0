"""The one-shot: `friday ask`. Standard output gets the answer only; everything else goes to standard error."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core.agent import Outcome
from ...core.errors import TRANSIENT, FridayError, UsageError
from ...core.events import LIMIT_REASONS, AttemptFailed, Envelope
from ...paths import store_path
from ...session import Options, Session
from .input import read_prompt
from .writers import JsonWriter, StreamWriter, TextWriter, Writer

EXIT_LIMIT, EXIT_TRANSIENT, EXIT_DENIED = 5, 75, 4
_SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def ask(values: dict[str, Any]) -> int:
    """Answer one prompt; `values` are those of `options.OPTIONS` by their `dest`, and `prompt`. Returns the exit code."""
    say = _quiet if values["quiet"] else _say
    log = _debug_log() if values["debug"] else None
    try:
        return asyncio.run(_ask(values, say))
    except FridayError as error:
        return _fail(values["output_format"], error)
    finally:
        if log:
            _say(f"log file: {log}")


def _say(text: str) -> None:
    from ...core.plain import plain

    print(f"friday: {plain(text)}", file=sys.stderr)


def _quiet(text: str) -> None:
    """With --quiet remarks are not said."""


def _fail(output_format: str | None, error: FridayError) -> int:
    from ...core.plain import plain

    if output_format == "json":
        JsonWriter.failure(error)
    print(f"friday: {plain(str(error))}", file=sys.stderr)
    return error.exit_code


async def _ask(values: dict[str, Any], say: Any) -> int:
    schema = _schema(values["json_schema"])
    prompt = read_prompt(values["prompt"], say)
    cwd = Path(values["cwd"] or ".").resolve()  # noqa: ASYNC240 - nothing else runs yet
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
            "limits.max_turns": values["max_turns"],
            "limits.max_tokens": values["max_tokens"],
            "limits.max_cost": values["max_cost"],
            "limits.timeout": values["timeout"],
        },
    )
    session = await Session.open(options)
    writer = _writer(values, session)
    run = _Run(session, writer)
    try:
        return await run.answer(prompt, schema, say)
    finally:
        await run.close()


async def _which(values: dict[str, Any], cwd: Path) -> str | None:
    """The session to go on with, None for a new one."""
    if not (values["continue_"] or values["resume"]):
        return None
    if values["continue_"] and values["resume"]:
        raise UsageError("--continue and --resume exclude each other.")
    from ...store import Store

    store = Store(store_path())
    try:
        if values["resume"]:
            return await store.find(values["resume"])
        last = await store.last_session(cwd)
        if last is None:
            raise UsageError(f"There is no session of {cwd} to go on with.", hint="Leave out --continue.")
        return last
    finally:
        await store.close()


def _writer(values: dict[str, Any], session: Session) -> Writer:
    match values["output_format"]:
        case "json":
            return JsonWriter(session.id)
        case "stream-json":
            return StreamWriter()
        case _:
            return TextWriter(quiet=values["quiet"], badge=session.root.provider.badge)


class _Run:
    """One prompt from the first event to the exit code."""

    def __init__(self, session: Session, writer: Writer) -> None:
        self._session = session
        self._writer = writer
        self._signal: signal.Signals | None = None
        self._transient = False
        self._pump = asyncio.create_task(self._read())

    async def answer(self, prompt: str, schema: dict[str, Any] | None, say: Any) -> int:
        from ...attach import attached

        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self._stop, number)
        text, images, remarks = await attached(prompt, self._session.world.workspace)
        for remark in remarks:
            say(remark)
        outcome = await self._session.prompt(text, images=images, schema=schema)
        await self._session.log.flush()
        code = self._code(outcome)
        await self.close()
        self._writer.finish(outcome, code)
        return code

    async def close(self) -> None:
        await self._session.close()
        await self._pump

    async def _read(self) -> None:
        async for envelope in self._session.events():
            if envelope.seq is not None and envelope.seq <= self._session.since:
                self._writer.recall(envelope)
                continue
            self._note(envelope)
            self._writer.take(envelope)

    def _note(self, envelope: Envelope) -> None:
        if envelope.agent == "a" and isinstance(envelope.event, AttemptFailed):
            self._transient = envelope.event.error in TRANSIENT

    def _stop(self, number: signal.Signals) -> None:
        if self._signal is not None:  # a second one: leave at once, the log is written
            self._writer.clear()
            os._exit(_SIGNALS[self._signal])
        self._signal = number
        self._stopping = asyncio.ensure_future(self._session.stop("a"))

    def _code(self, outcome: Outcome) -> int:
        if self._signal is not None:
            return _SIGNALS[self._signal]
        if outcome.status == "cancelled":
            return 130
        if outcome.stop_reason in LIMIT_REASONS:
            return EXIT_LIMIT
        if outcome.status == "completed":
            return 0
        if outcome.stop_reason == "provider" and self._transient:
            return EXIT_TRANSIENT
        if not outcome.result.strip() and self._writer.state.denials:
            return EXIT_DENIED
        return 1


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


def _debug_log() -> Path:
    from ...debug import start_log

    return start_log()
