"""Guards for every test: an empty home, no key, no network except loopback, no blocking call, no process left.

A finding of a guard is an error of the test that was running, also when the code under test swallowed the exception.
"""

from __future__ import annotations

import asyncio
import asyncio.runners
import compileall
import gc
import ipaddress
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from hypothesis.configuration import storage_directory
from hypothesis.internal.constants_ast import constants_from_module

from friday_cli.core.text import known_keys
from friday_cli.system import own_programs, project_search

# a slow machine is no finding
settings.register_profile("friday", deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("ci", settings.get_profile("friday"), derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "friday")

CALLBACK_S = 3.0
"""Processor seconds that one callback of an event loop may take. Longer work belongs into a thread."""
LEFT_S = 30.0
"""Seconds that a process may take to disappear after a test has ended it."""
PACKAGE = f"{os.sep}friday_cli{os.sep}"
MODEL_SERVERS = {1234, 8000, 8080, 9931, 11434}
"""Ports where Friday looks for local model servers. Tests cannot connect to them."""
MACHINE = "api cli delegation e2e frontends llm session store tools workspace"
"""Folders whose tests use processes, terminals, sockets, disks or the clock of the machine: they may run twice."""
MOST_RERUN = 1
"""Tests of a run that may fail once and then pass; more fail the run."""
PACES = (1.0, 5.0, 25.0)
"""The values of `pace`, in the order in which a test marked `@paced` is run with them."""
SECRETS = re.compile(
    r"(?i)(^(FRIDAY|ANTHROPIC|OPENAI|AZURE|AWS|GOOGLE|GEMINI|BRAVE|TAVILY|SEARXNG|OLLAMA|LM_STUDIO|OTEL|XDG)_)|_API_KEY$|_proxy$"
    r"|^(TRACEPARENT|NO_COLOR|FORCE_COLOR|CLICOLOR.*|COLORTERM|COLUMNS|LINES|LANG|LANGUAGE|LC_.*|EDITOR|VISUAL|PAGER)$"
)
"""Environment variables that would change what Friday does."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; tests send SIGINT to what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.umask(0o022)  # modes of files are compared
if not re.fullmatch(r"[\w/.+-]{1,60}", tempfile.gettempdir(), re.ASCII):
    # commands of tests name files without quotes, and a path of a socket has 107 bytes at most
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"

_seen: list[str] = []
_homes = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Search less for garbage: none while tests are collected, since they stay, and later without looking through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 5)
        gc.enable()


# ---- compiled once ---------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Write the bytecode of the package and, before xdist starts its workers, of the tests; and the constants of the package.

    In a fresh copy every worker would compile all of it, and every process of Friday the package. Written also with
    PYTHONDONTWRITEBYTECODE, as `pip install` does: an editable install has no bytecode.
    """
    if hasattr(config, "workerinput"):
        return
    here = Path(__file__).parent
    package = [*(here.parent / "friday_cli").rglob("*.py")]
    tests = [*here.rglob("*.py")] if config.getoption("numprocesses", None) else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Hypothesis: that this is early
        fresh = tests and not storage_directory("constants").path.exists()
    processes = os.cpu_count() or 1
    children = []
    for first in range(processes):
        if not (pid := os.fork()):
            try:
                for source in [*package, *tests][first::processes]:
                    _compile(source, config)
                if fresh:
                    _collect_constants(package[first::processes])
            finally:
                os._exit(0)  # what is not written is compiled when it is imported
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def _compile(source: Path, config: pytest.Config) -> None:
    """Write the bytecode of one file unless it is up to date; of a test with pytest's rewritten asserts."""
    if not source.name.startswith("test_"):
        compileall.compile_file(source, quiet=2)
        return
    target = rewrite.get_cache_dir(source) / (source.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(source, target) is None and rewrite.try_makedirs(target.parent):
        digest, code = rewrite._rewrite_test(source, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, target)


def _collect_constants(sources: list[Path]) -> None:
    """Let Hypothesis write the constants of these files, some of which it takes for values, once for all processes."""
    warnings.simplefilter("ignore")
    for source in sources:
        module = ModuleType(source.stem)
        module.__file__ = str(source)
        constants_from_module(module)


# ---- run again -------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests to run again when they fail (docs/decisions/017): a paced one with longer times, one of MACHINE once."""
    here = Path(__file__).parent
    for item in items:
        if item.get_closest_marker("paced"):
            item.add_marker(pytest.mark.flaky(reruns=len(PACES) - 1))
        elif item.path.parts[len(here.parts)] in MACHINE.split():
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture
def pace(request: pytest.FixtureRequest) -> float:
    """The factor by which a test marked `@paced` multiplies its times in this attempt."""
    return PACES[getattr(request.node, "execution_count", 1) - 1]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which too many tests were run again."""
    if len(_run_again(session.config)[False]) > MOST_RERUN and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Count and name the tests that were run again."""
    found = _run_again(config)
    if names := found[False]:
        over = len(names) > MOST_RERUN
        end = f": more than {MOST_RERUN} fails the run" if over else ""
        terminalreporter.write_line(f"Run again: {len(names)} ({', '.join(names)}){end}", red=over, yellow=not over)
    if names := found[True]:
        terminalreporter.write_line(f"Run at a slower pace: {len(names)} ({', '.join(names)})", yellow=True)


def _run_again(config: pytest.Config) -> dict[bool, list[str]]:
    """The tests that failed and were run again, those marked `@paced` under True."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")  # None in a process of xdist
    reports = reporter.stats.get("rerun", []) if reporter else []
    return {
        paced: list(dict.fromkeys(r.nodeid for r in reports if ("paced" in r.keywords) is paced))
        for paced in (False, True)
    }


# ---- an empty home ---------------------------------------------------------


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home with `FRIDAY_HOME` in it. All environment variables that Friday reads are removed.

    Commands run without a sandbox on every machine; a test of the sandbox names the kind it runs with.
    """
    for name in [n for n in os.environ if SECRETS.search(n)]:
        monkeypatch.delenv(name)
    folder = tmp_path_factory.getbasetemp() / f"home-{next(_homes)}"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("FRIDAY_HOME", str(folder / "friday"))
    monkeypatch.setenv("FRIDAY_SANDBOX", "none")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm-256color")
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder / kind.lower()))
    return folder


@pytest.fixture(autouse=True)
def no_known_keys() -> Iterator[None]:
    """The keys of one test are not masked in the next."""
    known_keys.forget()
    yield
    known_keys.forget()


# ---- what must not happen --------------------------------------------------------


@pytest.fixture
def programs_in_temporary_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Friday runs the programs that a test puts in a temporary folder on PATH, unless it is below the current folder."""
    monkeypatch.setattr(own_programs, "TEMPORARY", ())
    monkeypatch.setattr(own_programs, "_found", {})


def _loopback(host: object) -> bool:
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if text.lower().rstrip(".") in ("", "localhost", "none"):
        return True
    try:
        return ipaddress.ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _is_address(host: object) -> bool:
    """Whether `host` is a numeric address, for which no name server is asked."""
    try:
        socket.inet_aton(str(host))
    except (OSError, UnicodeError):
        return ":" in str(host)
    return True


def _guarded_connect(connect: Callable[..., Any]) -> Callable[..., Any]:
    def guard(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[1] in MODEL_SERVERS:
            raise ConnectionRefusedError(111, "no test may depend on the model servers of the machine")
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _loopback(address[0]):
            _seen.append(f"a connection to {address[0]} port {address[1]}: tests reach only this machine")
            raise OSError(101, "tests have no network")
        return connect(self, address)

    return guard


def _guarded_lookup(lookup: Callable[..., Any]) -> Callable[..., Any]:
    def guard(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _loopback(host) and not _is_address(host):
            raise socket.gaierror(socket.EAI_NONAME, f"tests have no network: {host}")
        return lookup(host, *args, **kwargs)

    return guard


def _blocks_the_loop(blocking: Callable[..., Any], what: str) -> Callable[..., Any]:
    def guard(*args: Any, **kwargs: Any) -> Any:
        if (place := _in_friday_on_a_loop()) is not None:
            _seen.append(f"{what} on the event loop, by {place}")
        return blocking(*args, **kwargs)

    return guard


def _in_friday_on_a_loop() -> str | None:
    """The file and line of Friday that runs on an event loop now, or None."""
    if asyncio._get_running_loop() is None:
        return None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if PACKAGE in frame.f_code.co_filename:
            return f"{frame.f_code.co_filename.rpartition(PACKAGE)[2]}:{frame.f_lineno}"
        if frame.f_code.co_filename.endswith(f"asyncio{os.sep}events.py"):
            return None
        frame = frame.f_back
    return None


def _timed(run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
    def guard(self: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(self)
        if (took := time.thread_time() - begun) > CALLBACK_S and _is_fridays(self):
            _seen.append(f"a callback that kept the event loop busy for {took:.1f} s: {self!r}")

    return guard


def _is_fridays(handle: asyncio.Handle) -> bool:
    task = getattr(getattr(handle, "_callback", None), "__self__", None)
    return isinstance(task, asyncio.Task) and _file_of(task).find(PACKAGE) >= 0


def _file_of(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    return code.co_filename if code is not None else ""


def _names_leftovers(cancel_all: Callable[[asyncio.AbstractEventLoop], None]) -> Callable[..., None]:
    def guard(loop: asyncio.AbstractEventLoop) -> None:
        left = [t for t in asyncio.all_tasks(loop) if PACKAGE in _file_of(t)]
        _seen.extend(f"a task left running: {t.get_name()} ({t.get_coro()!r})" for t in left)
        cancel_all(loop)

    return guard


@pytest.fixture(scope="session", autouse=True)
def _guards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the guards for the whole run. No search for a project leaves the temporary folder of a test."""
    with pytest.MonkeyPatch.context() as patch:
        ceilings = tmp_path_factory.getbasetemp().resolve(), tempfile.gettempdir()
        patch.setenv(project_search.CEILINGS, os.pathsep.join(map(str, ceilings)))
        patch.setattr(socket.socket, "connect", _guarded_connect(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", _guarded_connect(socket.socket.connect_ex))
        patch.setattr(socket, "getaddrinfo", _guarded_lookup(socket.getaddrinfo))
        patch.setattr(time, "sleep", _blocks_the_loop(time.sleep, "time.sleep"))
        patch.setattr(subprocess.Popen, "wait", _blocks_the_loop(subprocess.Popen.wait, "waiting for a process"))
        patch.setattr(asyncio.Handle, "_run", _timed(asyncio.Handle._run))
        if hasattr(asyncio.runners, "_cancel_all_tasks"):  # sees the last tasks of a loop
            patch.setattr(asyncio.runners, "_cancel_all_tasks", _names_leftovers(asyncio.runners._cancel_all_tasks))
        yield


# ---- what must not be left ---------------------------------------------------------

_children = pytest.StashKey[set[int]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Remember the processes that run before the test: its fixtures started them."""
    item.stash[_children] = _processes()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Report the findings of the guards after the teardown of the test."""
    _result = yield
    if _children in item.stash:
        for pid in _left(item.stash[_children]):
            _seen.append(f"a process left running: {_command(pid)}")
            os.kill(pid, signal.SIGKILL)
    seen, _seen[:] = list(_seen), []
    if item.get_closest_marker("mutant"):
        seen = [line for line in seen if not line.startswith("a task left running")]
    if seen:
        pytest.fail("The guards of tests/conftest.py saw:\n  " + "\n  ".join(dict.fromkeys(seen)), pytrace=False)
    return _result


def _processes() -> set[int]:
    """The running children of this process; empty on systems without /proc."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ():
        try:
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                found |= {int(pid) for pid in file.read().split() if _lives(int(pid))}
        except OSError:
            continue  # the thread ended meanwhile
    return found


def _lives(pid: int) -> bool:
    """Whether a process runs. Its command line does not show it: a process that is being started has none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _command(pid: int) -> str:
    """The command line of a process, "" when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _left(before: set[int]) -> set[int]:
    """Processes that still run LEFT_S after the test that started them."""
    end = time.monotonic() + LEFT_S
    while left := {pid for pid in _processes() - before if "multiprocessing" not in _command(pid)}:
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return left
