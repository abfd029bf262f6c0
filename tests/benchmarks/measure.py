"""Runs commands and measures their time: interleaved, medians, one clock for all."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

PROJECT = Path(__file__).parents[2]


@dataclass
class Sample:
    """One run: seconds of wall and processor time, megabytes at the peak. `first_s` is when the first request came,
    `requests` are the times of all of them, `last_s` what passed from the first to the end."""

    wall_s: float
    cpu_s: float
    rss_mb: float
    first_s: float | None = None
    last_s: float | None = None
    requests: tuple[float, ...] = ()
    output: bytes = b""
    processor: tuple[tuple[float, float], ...] = ()
    """Pairs of seconds since the start and seconds of processor time until then, if the case is watched."""


@dataclass
class Case:
    """A command to be measured. It must exit with 0."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    terminal: bool = False
    """Whether it writes to a terminal of 100 columns."""
    cwd: Path | None = None
    """Its folder; None: that with the small file."""
    watched: bool = False
    """Whether its processor time is read every 50 ms (Linux)."""


class Bench:
    """A temporary home, a stand-in for the model service, and the number of repetitions."""

    def __init__(self, folder: Path, *, repeat: int, ports: Sequence[int]) -> None:
        self.folder = folder
        self.repeat = repeat
        self._port, self._secure_port = ports
        self._open = build_opener(ProxyHandler({})).open
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "small.txt").write_text("".join(f"line {i} of a small file\n" for i in range(1, 41)))
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "FRIDAY_HOME": str(folder / "friday"),
            "ANTHROPIC_API_KEY": "no-key",
            "LANG": "C.UTF-8",
        }
        (folder / "home").mkdir()

    def url(self, style: str) -> str:
        """The base URL at which the stand-in answers in `style`."""
        return f"http://127.0.0.1:{self._port}/{style}"

    def secure_environment(self) -> dict[str, str]:
        """As `environment`, over https, with the certificates of the system as its hashed folder."""
        url = f"https://127.0.0.1:{self._secure_port}/instant"
        folder = str(self.folder / "certificates")
        return {**self.environment(), "ANTHROPIC_BASE_URL": url, "SSL_CERT_DIR": folder}

    def seen(self) -> list[float]:
        """The times of the requests since the last call, in monotonic seconds."""
        with self._open(f"http://127.0.0.1:{self._port}/seen") as answer:
            found: list[float] = json.load(answer)
            return found

    def bodies(self) -> list[bytes]:
        """The bodies of the requests since the last call."""
        with self._open(f"http://127.0.0.1:{self._port}/bodies") as answer:
            return [body.encode() for body in json.load(answer)]

    def friday(self, *args: str) -> list[str]:
        """A command line of Friday as users run it, by pip's start script; `environment` leads it to the stand-in."""
        return [str(Path(sys.executable).with_name("friday")), *args]

    def module(self, name: str, *args: str, env: Mapping[str, str] | None = None) -> Any:
        """Run a module of the benchmarks in another process; its last line of output is JSON."""
        argv = [sys.executable, "-m", f"tests.benchmarks.{name}", *args]
        ran = subprocess.run(argv, cwd=PROJECT, env=env, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        return json.loads(ran.stdout.splitlines()[-1])

    def script(self, text: str, *args: str) -> list[str]:
        """A command line that runs a script of `floors`."""
        return [sys.executable, "-c", text, *args]

    def environment(self, style: str = "instant", *, home: str = "friday") -> dict[str, str]:
        """Environment variables that lead every API to the stand-in, which answers in `style`."""
        url = self.url(style)
        return {
            **self.env,
            "PYTHONPATH": str(PROJECT),
            "FRIDAY_HOME": str(self.folder / home),
            "ANTHROPIC_BASE_URL": url,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "no-key",
        }

    def configure(self, home: str, text: str) -> None:
        """Write the settings of a home."""
        (self.folder / home).mkdir(exist_ok=True)
        (self.folder / home / "config.toml").write_text(text)

    def compare(self, *cases: Case, repeat: int | None = None) -> dict[str, list[Sample]]:
        """Run the cases in turns, `repeat` times each and once before to warm the caches."""
        runs: dict[str, list[Sample]] = {case.name: [] for case in cases}
        for round_ in range(1 + (repeat or self.repeat)):
            for case in cases:
                sample = self.run(case)
                if round_:
                    runs[case.name].append(sample)
        return runs

    def run(self, case: Case) -> Sample:
        """Run one case once. Raises RuntimeError for another exit code than expected."""
        self.seen()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            begun = time.monotonic()
            process = _start(case, out.fileno(), err.fileno(), case.cwd or self.work)
            processor: list[tuple[float, float]] = []
            if case.watched:
                threading.Thread(target=_watch, args=(process.pid, begun, processor), daemon=True).start()
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - begun
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            if process.returncode:
                raise RuntimeError(f"{case.name}: exit {process.returncode}: {err.read().decode()[-2000:]}")
            requests = tuple(at - begun for at in self.seen())
            first = requests[0] if requests else None
            return Sample(
                wall,
                usage.ru_utime + usage.ru_stime,
                usage.ru_maxrss / 1024,
                first,
                wall - first if first is not None else None,
                requests,
                out.read(),
                tuple(processor),
            )


def _start(case: Case, out: int, err: int, cwd: Path) -> subprocess.Popen[bytes]:
    env = dict(case.env)
    if case.terminal:
        ours, out = pty.openpty()
        fcntl.ioctl(out, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env["TERM"], err = "xterm-256color", out
    process = subprocess.Popen(
        case.argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
    )
    if case.terminal:
        os.close(out)
        threading.Thread(target=_drain, args=(ours,), daemon=True).start()
    return process


def _watch(pid: int, begun: float, found: list[tuple[float, float]]) -> None:
    """Add the processor time of a process, ended threads included, to `found` until it ends."""
    clock = (~pid << 3) | 2  # Linux's clock of a process: CPUCLOCK_SCHED in include/linux/posix-timers.h
    with suppress(OSError):
        while True:
            found.append((time.monotonic() - begun, time.clock_gettime(clock)))
            time.sleep(0.05)


def _drain(terminal: int) -> None:
    """Read all output; a terminal whose other side is closed raises OSError."""
    with suppress(OSError):
        while os.read(terminal, 65536):
            pass
    os.close(terminal)


def middle(samples: Sequence[Sample], what: Callable[[Sample], float | None]) -> float:
    """The median of one quantity."""
    return statistics.median(value for s in samples if (value := what(s)) is not None)


def _certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 and its key, made with the openssl program. `folder`/certificates has it beside those of
    the system, by their hashes."""
    cert, key, known = folder / "cert.pem", folder / "key.pem", folder / "certificates"
    new = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=bench"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(cert), "-keyout", str(key)]
    subprocess.run(["openssl", "req", *new, *names], check=True, capture_output=True)
    hashed = subprocess.run(["openssl", "x509", "-noout", "-hash", "-in", str(cert)], check=True, capture_output=True)
    known.mkdir()
    for system in Path(ssl.get_default_verify_paths().openssl_capath).glob("*.0"):
        (known / system.name).symlink_to(system.resolve())
    (known / f"{hashed.stdout.decode().strip()}.0").symlink_to(cert)
    return str(cert), str(key)


@contextmanager
def bench(*, repeat: int) -> Iterator[Bench]:
    """A temporary folder with a running stand-in; both are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="friday-bench-") as folder:
        argv = [sys.executable, "-m", "tests.benchmarks.standin", *_certificate(Path(folder))]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=PROJECT)
        try:
            assert server.stdout is not None
            yield Bench(Path(folder), repeat=repeat, ports=[int(port) for port in server.stdout.readline().split()])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def cpu_ratio(samples: Sequence[Sample], floor: Sequence[Sample]) -> float:
    """How much more processor time the runs took than those of the floor, the least disturbed of each."""
    return min(s.cpu_s for s in samples) / min(s.cpu_s for s in floor)


@dataclass
class Line:
    """One figure with its goal in the same unit; None where there is only a floor to compare with.

    `fixed` marks a goal in absolute time, which moves with the speed of the machine. `cpu` is the ratio of processor
    times to the floor's, which other work on the machine disturbs less than it does the clock."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    floor: float | None = None
    floor_name: str = ""
    note: str = ""
    fixed: bool = False
    cpu: float | None = None
