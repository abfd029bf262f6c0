from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.workspace.sandbox import detect, landlock, system_call_filter
from friday_cli.workspace.sandbox.detect import SandboxChoice, detect_sandbox

linux = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")


@pytest.fixture(autouse=True)
def _no_cached_result(monkeypatch: pytest.MonkeyPatch, programs_in_temporary_folders: None) -> None:
    monkeypatch.setattr(detect, "_detected", {})


def program(folder: Path, text: str) -> dict[str, str]:
    """An environment whose `bwrap` is this script."""
    folder.mkdir(exist_ok=True)
    (folder / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "bwrap").chmod(0o755)
    return {"PATH": f"{folder}:{os.defpath}"}


@linux
def test_a_sandbox_that_does_not_work_is_not_chosen(tmp_path: Path) -> None:
    environ = program(tmp_path / "bin", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    found = detect_sandbox("auto", environ)
    assert found.kind in ("landlock", "none")
    assert "bubblewrap: bwrap: No permissions to create new namespace" in found.why
    with pytest.raises(UsageError, match=r"bubblewrap does not work here: .*No permissions.*auto"):
        detect_sandbox("bubblewrap", environ)
    assert "not found" in detect_sandbox("auto", {"PATH": str(tmp_path)}).why


@linux
def test_the_result_is_cached_until_the_program_changes(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    count = tmp_path / "count"
    environ = program(tmp_path / "bin", f'echo x >> {count}; [ "$1" = --version ] && echo bubblewrap 0.99.1; exit 0')
    first = detect_sandbox("auto", environ, cache=cache)
    assert (first.kind, first.program, first.detail) == ("bubblewrap", str(tmp_path / "bin/bwrap"), "0.99.1")
    calls = count.read_text()
    detect._detected.clear()
    assert detect_sandbox("auto", environ, cache=cache) == first
    assert count.read_text() == calls
    assert (cache / "sandbox.json").stat().st_mode & 0o077 == 0
    program(tmp_path / "bin", "exit 1 # changed")
    assert detect_sandbox("auto", environ, cache=cache).kind != "bubblewrap"
    (cache / "sandbox.json").write_text("{")
    detect._detected.clear()
    assert detect_sandbox("auto", environ, cache=cache).kind != "bubblewrap"


@linux
def test_results_for_other_settings_are_cached_beside_each_other(tmp_path: Path) -> None:
    cache, count = tmp_path / "cache", tmp_path / "count"
    environ = program(tmp_path / "bin", f"echo x >> {count}; exit 0")
    for wanted in ("auto", "bubblewrap", "auto", "bubblewrap"):
        detect._detected.clear()
        calls = count.read_text() if count.exists() else ""
        assert detect_sandbox(wanted, environ, cache=cache).kind == "bubblewrap"  # type: ignore[arg-type]
    assert count.read_text() == calls
    for number in range(detect.KEPT + 2):
        program(tmp_path / "bin", f"exit 0 # {number}")
        assert detect_sandbox("auto", environ, cache=cache).kind == "bubblewrap"
    assert len(detect._load(cache / "sandbox.json")) == detect.KEPT


@linux
@pytest.mark.parametrize(
    ("path", "change"), [("cache", "mode"), ("cache/sandbox.json", "mode"), ("cache/sandbox.json", "link")]
)
def test_a_result_that_somebody_else_could_have_written_is_not_used(tmp_path: Path, path: str, change: str) -> None:
    cache = tmp_path / "cache"
    environ = program(tmp_path / "bin", "exit 0")
    assert detect_sandbox("auto", environ, cache=cache).kind == "bubblewrap"
    (key,) = detect._load(cache / "sandbox.json")
    detect._save(cache / "sandbox.json", key, SandboxChoice("none", why="planted"))
    detect._detected.clear()
    assert detect_sandbox("auto", environ, cache=cache).why == "planted"
    if change == "mode":
        (tmp_path / path).chmod(0o777)
    else:
        (tmp_path / path).rename(tmp_path / "elsewhere")
        (tmp_path / path).symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        detect._detected.clear()
        assert detect_sandbox("auto", environ, cache=cache).kind == "bubblewrap"
    assert [choice.kind for choice in detect._load(cache / "sandbox.json").values()] == ["bubblewrap"]


@linux
def test_landlock_is_detected_where_the_kernel_has_it() -> None:
    if landlock.version() < 1:
        pytest.skip("NOT TESTED HERE: this kernel has no Landlock")
    found = detect_sandbox("landlock", os.environ)
    assert found == SandboxChoice("landlock", detail=str(landlock.version()), read_only_kind=found.read_only_kind)
    assert found.read_only_kind == ("landlock" if system_call_filter.supported() else "none")


def test_none_and_a_kind_of_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert detect_sandbox("none", os.environ).kind == "none"
    monkeypatch.setattr(detect.sys, "platform", "aix")
    with pytest.raises(UsageError, match="landlock does not exist on aix"):
        detect_sandbox("landlock", os.environ)
