"""The question of a batch while its items wait at the service."""

from __future__ import annotations

import asyncio
import os
import pty

import pytest

from friday_cli.cli.map_progress import EVERY_S, PlainFrontend, TableFrontend
from friday_cli.map.scheduler import Progress


@pytest.mark.parametrize("kind", [PlainFrontend, TableFrontend])
@pytest.mark.parametrize("answer", ["y", "n"])
async def test_no_progress_is_drawn_over_a_question(
    kind: type[PlainFrontend], answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The batch goes on meanwhile, and shows its progress each second."""
    person, terminal = pty.openpty()
    with os.fdopen(person, "wb", 0) as typing, os.fdopen(terminal) as reading:
        monkeypatch.setattr("sys.stdin", reading)
        frontend = kind(yes=False)
        frontend._last -= EVERY_S
        asked = asyncio.create_task(frontend.cancel_at_service(3))
        await asyncio.sleep(0)
        frontend.progress(Progress(running=3), 5)
        assert capsys.readouterr().err.endswith("[y/N] ")
        assert getattr(frontend, "_live", None) is None
        typing.write(f"{answer}\n".encode())
        assert await asked == (answer == "y")
        frontend.progress(Progress(running=3), 5)
        frontend.close()
        assert "running" in capsys.readouterr().err
