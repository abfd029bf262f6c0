"""What a person installs: a wheel built from a clean copy, and an editable install, both used from elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SHIPPED = {"analyst", "coder", "general", "researcher", "summarizer"}
PARTS = ("friday_cli", "profiles", "pyproject.toml", "README.md", "LICENSE")
pytestmark = pytest.mark.slow


def pip(*args: str | Path, python: Path | None = None) -> None:
    """Run pip without an index: whatever it needs must be here."""
    where = ["--python", str(python)] if python else []
    argv = [sys.executable, "-m", "pip", *where, args[0], "--quiet", "--no-deps", *map(str, args[1:])]
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100)
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
    """A virtual environment that sees the dependencies of this one, but not this project."""
    venv.create(tmp_path / "venv", symlinks=True)
    found = tmp_path / "venv" / "bin" / "python"
    purelib = subprocess.run(
        [found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    (Path(purelib.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def friday(python: Path, *args: str, cwd: Path) -> str:
    """Standard output of the installed `friday`."""
    ran = subprocess.run(
        [python.with_name("friday"), *args], cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def used_from_elsewhere(python: Path, tmp_path: Path, *, package: Path) -> None:
    """The installed command does its work in a folder that knows nothing of this project."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "greeting.py").write_text('print("hello")\n')
    script = "import friday_cli, pathlib; print(pathlib.Path(friday_cli.__file__).resolve())"
    where = subprocess.run([python, "-c", script], cwd=elsewhere, capture_output=True, text=True, check=True)
    assert where.stdout.strip() == str((package / "friday_cli" / "__init__.py").resolve())

    listed = friday(python, "profiles", "list", cwd=elsewhere)
    assert {line.split()[0] for line in listed.splitlines() if line.split()} >= SHIPPED, listed
    answer = friday(python, "demo", cwd=elsewhere)
    assert "greeting.py" in answer, answer
    assert friday(python, "sessions", "list", cwd=elsewhere).count("\n") >= 1


def test_a_wheel_works_anywhere(source: Path, python: Path, tmp_path: Path) -> None:
    pip("wheel", "--no-build-isolation", "--wheel-dir", tmp_path, source)
    (wheel,) = tmp_path.glob("friday_cli-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {f"friday_cli/_profiles/{name}.md" for name in SHIPPED} <= set(names)
    assert "friday_cli/py.typed" in names
    assert not [n for n in names if n.startswith(("tests/", "profiles/")) or "__pycache__" in n]

    pip("install", "--ignore-installed", wheel, python=python)
    shutil.rmtree(source)
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    used_from_elsewhere(python, tmp_path, package=site)


def test_an_editable_install_works_anywhere(source: Path, python: Path, tmp_path: Path) -> None:
    pip("install", "--ignore-installed", "--no-build-isolation", "--editable", source, python=python)
    used_from_elsewhere(python, tmp_path, package=source)
