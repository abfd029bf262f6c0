from __future__ import annotations

import os
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.workspace.sandbox.detect import detect_sandbox
from tests.cli.console import Console


@pytest.fixture
def console(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    """`friday` in an empty folder, with an empty home."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Console(project.resolve(), home, capsys)


@pytest.fixture(params=["bubblewrap", "landlock", "seatbelt"])
def sandbox_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sandbox that works here, as the one of the settings."""
    try:
        detect_sandbox(request.param, os.environ)
    except UsageError as error:
        pytest.skip(f"NOT TESTED HERE: {error.message}")
    monkeypatch.setenv("FRIDAY_SANDBOX", request.param)


@pytest.fixture
def session(console: Console) -> str:
    """The id of a session that has ended, of two agents."""
    return console.keep()


@pytest.fixture
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No local server answers, whatever runs on this machine."""
    for name in ("OLLAMA_HOST", "LM_STUDIO_API_BASE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
