from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from friday_cli.system import paths


def test_friday_home_is_absolute_and_holds_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"FRIDAY_HOME": str(tmp_path)}
    others = {paths.data_dir(env), paths.state_dir(env), paths.cache_dir(env)}
    assert (len(others), {path.parent for path in others}) == (3, {tmp_path})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for given, home in ((tmp_path, tmp_path), ("here/..", tmp_path), ("~/f", tmp_path / "me" / "f")):
        monkeypatch.setenv("FRIDAY_HOME", str(given))
        assert paths.config_dir({"FRIDAY_HOME": str(given)}) == paths.config_dir() == home


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders")
def test_without_home_the_systems_folders_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    assert paths.config_dir({}) == tmp_path / "CONFIG" / "friday"
    assert paths.data_dir({}) == tmp_path / "DATA" / "friday"
    assert paths.state_dir({"FRIDAY_HOME": ""}) == tmp_path / "STATE" / "friday"
    assert paths.cache_dir({}) == tmp_path / "CACHE" / "friday"


def test_platformdirs_is_not_loaded_with_home(tmp_path: Path) -> None:
    code = (
        "import sys; from friday_cli.system import paths; paths.data_dir(); "
        "print('platformdirs' in sys.modules, end=' '); paths.data_dir({}); print('platformdirs' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"FRIDAY_HOME": str(tmp_path), "HOME": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "True"]
