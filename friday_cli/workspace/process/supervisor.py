"""A small program beside Friday that starts commands and ends all they leave behind.

It runs by itself (`python -I -S`), with nothing but the standard library. One warden serves a workspace:
over the socket FD it is handed, per command, a control socket and the ends of the output pipes. A keeper, forked before
it is needed, takes them and forks the command in a session of its own.

The keeper is the subreaper of its command: whatever a descendant does (setsid, nohup, double fork), it stays below the
keeper, so the keeper finds all of them and knows when there is none: the kernel says it has no child. When Friday asks,
or dies (the control socket closes, its pidfd becomes readable), the keeper ends them: TERM, a while, KILL.
Where the kernel is not Linux, the command's process group stands for its descendants.

Friday to keeper: 8 bytes of length, then NUL-separated: cwd, limits ("core=0 ..."), how it is confined (`Plan.fields`),
number of words, words, environment; later one byte: end it. Keeper to Friday, one line each: `started PID`, `failed
TEXT`, `exited STATUS` (negative: the signal), `ended LEFT` (how many processes outlived the command).
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import time

from ..sandbox.apply import enter
from ..sandbox.plan import SandboxPlan
from .linux import (
    LINUX,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    children_of,
    descendants,
    drain,
    pidfd,
    poll_for,
    prctl,
    wake_on_children,
)

SETTLE_S = 0.3
"""How long what the command left behind may take to end by itself."""
LEFT_S = 0.5
"""Between TERM and KILL for what outlived its command."""
TERM_S = 1.2
"""Between TERM and KILL for a command that is to end."""
SWEEP_S = 0.02
LOOK_AGAIN_MS = 50
_IGNORED = [signal.SIGINT, *(n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN)]
"""Signals that are ignored here, by us, by Python or by who started Friday, but not in a command."""


def main(fd: int) -> None:
    """Serve until Friday closes its end."""
    gc.disable()
    gc.freeze()  # a fork shares what it does not touch
    friday = pidfd(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    door = socket.socket(fileno=fd)
    wake = wake_on_children()
    poll = poll_for(wake, friday)
    keepers: set[int] = set()
    serving, restless, news = True, False, -1
    while serving or keepers:
        if serving and news < 0:
            keeper, news = _spare(door, friday)
            keepers.add(keeper)
            poll.register(news, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(LOOK_AGAIN_MS if restless else None)}
        if news in ready:
            serving = serving and (os.read(news, 1) != b"" or _is_open(door))
            poll.unregister(news)
            os.close(news)
            news = -1
        if friday in ready:
            poll.unregister(friday)
            serving = False
        if wake in ready:
            drain(wake)
        if wake in ready or restless:
            restless = _reap(keepers)


def _reap(keepers: set[int]) -> bool:
    """Collect dead keepers; what a keeper left that was itself killed has come to us and must go.

    True when somebody died: the kernel's list may pass over a child while others leave it, so look again soon.
    """
    died = False
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            keepers.discard(pid)
            died = True
    for pid in children_of(os.getpid()):
        if pid not in keepers:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)  # our own child, not yet collected: the number cannot be another's
                died = True
    return died


# ---- the keeper of one command ------------------------------------------------


def _spare(door: socket.socket, friday: int) -> tuple[int, int]:
    """A keeper that waits for a command, so that none has to wait for its keeper; and where it says that it took one."""
    news, telling = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(news)
        _keep(door, telling, friday)
    os.close(telling)
    return pid, news


def _is_open(door: socket.socket) -> bool:
    try:
        return door.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True


def _keep(door: socket.socket, telling: int, friday: int) -> None:
    """Take one command, run it to its end and leave the process."""
    try:
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        wake = wake_on_children()
        if friday in {fd for fd, _ in poll_for(door.fileno(), friday).poll()}:
            return
        message, fds, _, _ = socket.recv_fds(door, 1, 3)
        if message:
            os.write(telling, b"+")
            os.close(telling)
            door.close()
            for fd in fds:
                os.set_inheritable(fd, False)
            _CommandSupervisor(socket.socket(fileno=fds[0]), fds[1:], friday, wake).run()
    finally:
        os._exit(0)


class _CommandSupervisor:
    def __init__(self, control: socket.socket, outputs: list[int], friday: int, wake: int) -> None:
        self.control, self.outputs, self.friday, self.wake = control, outputs, friday, wake
        self.leader = 0
        self.over = False  # the command itself has ended
        self.left = 0
        self.own = 0  # processes of the sandbox itself: the first of its namespace ends with the last of the command
        self.term_at: float | None = None
        self.kill_at: float | None = None
        self.deaf = False  # nobody listens any more

    def run(self) -> None:
        request = _CommandRequest(self._message())
        self.own = 1 if request.plan is not None and request.plan.kind == "bubblewrap" else 0
        self.leader, problem = _launch(request, self.outputs)
        for fd in set(self.outputs):
            os.close(fd)
        if problem:
            os.waitpid(self.leader, 0)
            self._tell("failed " + problem)
            return
        self._tell(f"started {self.leader}")
        poll = poll_for(self.control.fileno(), self.wake, self.friday)
        while self._reap():
            self._press()
            for fd, _ in poll.poll(self._patience()):
                if fd == self.wake:
                    drain(self.wake)
                else:
                    poll.unregister(fd)
                    self.deaf = self.deaf or fd == self.friday or not self._heard()
                    self._end(TERM_S)
        self._tell(f"ended {self.left}")

    def _message(self) -> list[bytes]:
        size = int.from_bytes(self._exactly(8), "big")
        return self._exactly(size).split(b"\0")

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            piece = self.control.recv(count - len(got))
            if not piece:
                os._exit(0)  # Friday died or thought better of it before the command began
            got += piece
        return got

    def _heard(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.control.recv(64))
        return False

    def _tell(self, line: str) -> None:
        if not self.deaf:
            with contextlib.suppress(OSError):
                self.control.sendall(line.encode(errors="replace") + b"\n")

    def _reap(self) -> bool:
        """Collect what died. False when the command and all it started are gone."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.leader:
                    self._command_over(status)
        except ChildProcessError:
            return not LINUX and self._group_lives()

    def _command_over(self, status: int) -> None:
        self.over = True
        self._tell(f"exited {os.waitstatus_to_exitcode(status)}")
        if self.kill_at is None:
            self.term_at = time.monotonic() + SETTLE_S

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.leader, 0)
        except OSError:
            return False
        return True

    def _end(self, patience: float) -> None:
        """TERM to everything, once."""
        if self.kill_at is None:
            self.term_at = None
            self.kill_at = time.monotonic() + patience
            self._signal(signal.SIGTERM, signal.SIGCONT)

    def _press(self) -> None:
        """Do what is due now."""
        now = time.monotonic()
        if self.term_at is not None and now >= self.term_at:
            with descendants(os.getpid()) as found:
                self.left = max(len(found), 1) - self.own
            self._end(LEFT_S)
        if self.kill_at is not None and now >= self.kill_at:
            self._signal(signal.SIGKILL)

    def _patience(self) -> float | None:
        """Milliseconds until something is due."""
        due = self.term_at if self.term_at is not None else self.kill_at
        return None if due is None else max(due - time.monotonic(), SWEEP_S) * 1000

    def _signal(self, *signals: int) -> None:
        with descendants(os.getpid()) as found:
            for pid, pin in found:
                for number in signals:
                    with contextlib.suppress(OSError):
                        signal.pidfd_send_signal(pin, number) if pin >= 0 else os.kill(pid, number)
        if not found:  # no /proc to look at, or not Linux
            for number in signals:
                with contextlib.suppress(OSError):
                    os.killpg(self.leader, number)


class _CommandRequest:
    """What is to run, where and how."""

    def __init__(self, message: list[bytes]) -> None:
        fields = iter(message)
        self.cwd, self.limits = next(fields), next(fields).decode()
        self.plan = SandboxPlan.read(fields)
        self.words = [next(fields) for _ in range(int(next(fields)))]
        self.environ = dict(pair.partition(b"=")[::2] for pair in fields if pair)


def _launch(request: _CommandRequest, outputs: list[int]) -> tuple[int, str]:
    """Fork the command; its pid, and what went wrong ("" when it runs)."""
    told, tell = os.pipe()
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(request, outputs, keeper)
        except BaseException as error:
            os.write(tell, str(error).encode(errors="replace")[:1000])
        finally:
            os._exit(127)
    os.close(tell)
    problem = b""
    while piece := os.read(told, 1000):  # ends when the program took over: the pipe closes on exec
        problem += piece
    os.close(told)
    return pid, problem.decode(errors="replace").replace("\n", " ")


def _become(request: _CommandRequest, outputs: list[int], keeper: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in _IGNORED:  # what is handled here is the program's own again once it runs
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        raise OSError("Friday ended")
    os.chdir(request.cwd)
    _limit(request.limits)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[-1], 2)
    words = enter(request.plan, request.words) if request.plan is not None else request.words
    os.execve(words[0], words, request.environ)


def _limit(limits: str) -> None:
    for word in limits.split():
        name, _, value = word.partition("=")
        kind = getattr(resource, "RLIMIT_" + name.upper())
        hard = resource.getrlimit(kind)[1]
        soft = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(kind, (soft, soft))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # when memory runs out, a command goes before Friday does
