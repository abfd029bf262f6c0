"""The log file of `--debug`: what happened inside, with secrets masked."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from .core.plain import mask
from .paths import state_dir


class _Masked(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


def start_log() -> Path:
    """Begin to write a log file (mode 0600) in the state folder; gives its path."""
    folder = state_dir() / "logs"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    handler = logging.StreamHandler(os.fdopen(handle, "w", encoding="utf-8"))
    handler.setFormatter(_Masked("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("friday_cli").setLevel(logging.DEBUG)
    return path
