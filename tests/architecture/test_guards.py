"""The guards of tests/conftest.py do fail what they are there to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from friday_cli.llm.models.presets import PRESETS
from tests.conftest import MACHINE, MODEL_SERVERS

PROJECT = Path(__file__).parents[2]

BLOCKING = """
import asyncio, subprocess, sys, time

async def naps():
    time.sleep(0)

async def waits():
    subprocess.Popen([sys.executable, "-c", "pass"]).wait()

async def counts():
    begun = time.thread_time()
    while time.thread_time() - begun < 0.3:
        pass

async def forever():
    await asyncio.Event().wait()
"""

TESTS = """
import asyncio, os, socket, subprocess, sys, threading
import block

async def test_sleeps():
    await block.naps()

async def test_waits():
    await block.waits()

async def test_counts():
    await asyncio.create_task(block.counts())

async def test_leaves_a_task():
    asyncio.create_task(block.forever(), name="left one")
    await asyncio.sleep(0)

def test_leaves_a_process():
    subprocess.Popen(["sleep", "60"])

def test_connects():
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=0.1)
    except OSError:
        pass

def test_meets_a_model_server():
    socket.create_connection(("127.0.0.1", 1234))

def test_asks_a_name_server():
    socket.getaddrinfo("example.org", 80)

def test_is_clean(home):
    assert os.environ["FRIDAY_HOME"].startswith(str(home)) and "OPENAI_API_KEY" not in os.environ
    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.accept)
    thread.start()
    socket.create_connection(server.getsockname()).close()
    thread.join()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
"""

AGAIN = """
import pytest

runs = []

@pytest.mark.parametrize("name", ["one", "two"])
def test_fails_once(name, home):
    runs.append(home)
    assert runs.count(home) == 1 and len(runs) % 2 == 0

@pytest.mark.paced
async def test_needs_time(pace):
    runs.append(pace)
    assert pace == 25 and runs[-3:] == [1, 5, 25]

@pytest.mark.paced
def test_needs_none(pace):
    assert pace == 1
"""


def test_no_test_meets_a_model_server_of_the_machine() -> None:
    urls = [url for preset in PRESETS.values() if preset.local for url in (preset.base_url, *preset.more_urls)]
    assert {urlsplit(url).port for url in urls} == MODEL_SERVERS


def test_each_folder_whose_tests_may_run_again_exists() -> None:
    assert [name for name in MACHINE.split() if not (PROJECT / "tests" / name).is_dir()] == []


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder with a `conftest.py`, whose `friday_cli` holds modules."""
    env = {**os.environ, "PYTHONPATH": str(folder / "friday_cli"), "OPENAI_API_KEY": "no-key"}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_mode=auto",
        "--rootdir",
        str(folder),
        *argv,
    ]
    words += ["--basetemp", str(folder / "temp")]  # it would delete the folders of earlier runs of the suite
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=180)


def test_each_guard_fails_what_it_is_there_for(tmp_path: Path) -> None:
    (tmp_path / "friday_cli").mkdir()
    (tmp_path / "friday_cli" / "block.py").write_text(BLOCKING)
    (tmp_path / "test_it.py").write_text(TESTS)
    guards = (PROJECT / "tests" / "conftest.py").read_text()
    hasty = guards.replace("CALLBACK_S = 3.0", "CALLBACK_S = 0.2").replace("LEFT_S = 30.0", "LEFT_S = 0.2")
    assert guards != hasty
    (tmp_path / "conftest.py").write_text(hasty)
    said = run(tmp_path, "test_it.py").stdout
    assert "2 failed, 7 passed, 6 errors" in said, said
    assert "FAILED test_it.py::test_asks_a_name_server" in said
    assert "FAILED test_it.py::test_meets_a_model_server" in said
    for words in (
        "time.sleep on the event loop, by block.py:5",
        "waiting for a process on the event loop, by block.py:8",
        "a callback that kept the event loop busy for 0.",
        "a task left running: left one",
        "a process left running: sleep 60",
        "a connection to 192.0.2.1 port 80",
        "no test may depend on the model servers of the machine",
    ):
        assert words in said, f"{words!r} is not in\n{said}"


@pytest.mark.parametrize(
    ("argv", "code", "summary"),
    [
        (["store", "-k", "not two"], 0, "Run again: 1 (store/test_again.py::test_fails_once[one])"),
        (["store", "-n", "1"], 1, "Run again: 2 (store/test_again.py::test_fails_once[one], "),
        (["core", "-k", "one"], 1, "FAILED core/test_again.py::test_fails_once[one]"),
    ],
)
def test_what_is_run_again_is_counted_and_more_than_one_fails(
    tmp_path: Path, argv: list[str], code: int, summary: str
) -> None:
    (tmp_path / "conftest.py").write_text((PROJECT / "tests" / "conftest.py").read_text())
    for folder in ("store", "core"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_again.py").write_text(AGAIN)
    ran = run(tmp_path, "--import-mode=importlib", "-W", "ignore", *argv)
    assert ran.returncode == code, ran.stdout
    assert summary in ran.stdout
    assert ("more than 1 fails the run" in ran.stdout) is ("-n" in argv)
    slower = "Run at a slower pace: 1 (store/test_again.py::test_needs_time)"
    assert (slower in ran.stdout) is (argv[0] == "store")
