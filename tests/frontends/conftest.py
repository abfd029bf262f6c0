"""A project for `friday acp`."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FRIDAY_SANDBOX", "none")
    profiles = tmp_path / "home/profiles"
    profiles.mkdir(parents=True)
    front = 'name: lead\ndescription: Leads.\nsubAgents: [general]\nallowedTools: "*"'
    (profiles / "lead.md").write_text(f"---\n{front}\n---\nYou lead.\n", encoding="utf-8")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    return folder
