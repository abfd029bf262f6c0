"""The log file of `--debug`, with secrets masked."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from friday_cli.core.protocol.errors import limit_words
from friday_cli.core.text.sanitize import mask, sanitize_line
from friday_cli.system.paths import state_dir

_log_files: dict[Path, Path] = {}
"""The log file of this process in each folder."""


class _MaskingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


def start_log() -> Path:
    """Start the log file (mode 0600) in the state folder, once, and return its path. Raises OSError."""
    folder = state_dir() / "logs"
    if folder in _log_files:
        return _log_files[folder]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    handler = logging.StreamHandler(os.fdopen(handle, "w", encoding="utf-8"))
    handler.setFormatter(_MaskingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("friday_cli").setLevel(logging.DEBUG)
    _log_files[folder] = path
    return path


def report_defect(error: BaseException) -> str:
    """One line for the person about an unexpected exception; its traceback is written to the log file."""
    if limit := limit_words(error):
        return limit
    message = f"Friday itself failed: {type(error).__name__}: {sanitize_line(mask(str(error)), 200)}."
    try:
        path = start_log()
    except OSError:
        return message
    logging.getLogger(__name__).error("unexpected exception", exc_info=error)
    return f"{message} Log: {path}"
