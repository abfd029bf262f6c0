"""Installs by pip: a wheel built from a clean copy, and an editable install, both run in another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SHIPPED = {"analyst", "coder", "general", "researcher", "reviewer", "summarizer"}
PARTS = ("friday_cli", "profiles", "pyproject.toml", "README.md", "LICENSE")
pytestmark = pytest.mark.slow


def install(python: Path, *args: str | Path) -> None:
    """Run `pip install` without an index: whatever it needs must be here. The modules are compiled when imported."""
    words = ["install", "--quiet", "--no-deps", "--no-compile", "--ignore-installed", *map(str, args)]
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *words],
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A clean copy of what belongs into a package."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in PARTS:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / name, folder)
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A virtual environment that has the dependencies of this one, but not this project."""
    venv.create(tmp_path / "venv", symlinks=True)
    (site_packages(tmp_path) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return tmp_path / "venv" / "bin" / "python"


def site_packages(tmp_path: Path) -> Path:
    return next((tmp_path / "venv" / "lib").glob("python*/site-packages"))


def use_installed(python: Path, tmp_path: Path, *, package: Path) -> None:
    """Run the installed command in a folder that has nothing of this project."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "greeting.py").write_text('print("hello")\n')

    def output(*argv: str | Path) -> str:
        ran = subprocess.run(
            argv, cwd=elsewhere, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    script = "import friday_cli, pathlib; print(pathlib.Path(friday_cli.__file__).resolve())"
    assert output(python, "-c", script).strip() == str((package / "friday_cli" / "__init__.py").resolve())
    friday = python.with_name("friday")
    listed = output(friday, "profiles", "list")
    assert {line.split()[0] for line in listed.splitlines() if line.split()} >= SHIPPED, listed
    assert "greeting.py" in output(friday, "demo")
    assert output(friday, "sessions", "list").count("\n") >= 1


def test_a_wheel_works_anywhere(source: Path, python: Path, tmp_path: Path) -> None:
    install(python, "--no-build-isolation", source)
    site = site_packages(tmp_path)
    (record,) = site.glob("friday_cli-*.dist-info/RECORD")
    names = {line.rpartition(",")[0].rpartition(",")[0] for line in record.read_text().splitlines()}
    assert {f"friday_cli/_profiles/{name}.md" for name in SHIPPED} <= names
    assert "friday_cli/py.typed" in names
    assert not [n for n in names if n.startswith(("tests/", "profiles/")) or "__pycache__" in n]
    shutil.rmtree(source)
    use_installed(python, tmp_path, package=site)


def test_an_editable_install_works_anywhere(source: Path, python: Path, tmp_path: Path) -> None:
    install(python, "--no-build-isolation", "--editable", source)
    use_installed(python, tmp_path, package=source)
