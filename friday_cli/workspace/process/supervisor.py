"""A small program that starts commands and ends every process they leave behind.

It runs as a separate process (`python -I -S`) and imports the standard library only. One launcher (`main`) serves a
workspace: over the socket FD it receives, for each command, a control socket and its streams (output, errors and, for a server, input). A
supervisor process, forked before it is needed, takes them and forks the command in a new session.

The supervisor is the subreaper of its command: whatever a descendant does (setsid, double fork), it stays below the
supervisor, which finds all of them, and knows from the kernel when none is left. When Friday asks for it or dies (the
control socket closes, its pidfd becomes readable), the supervisor ends them: TERM, a delay, KILL. On other systems than
Linux it ends the process group of the command.

Friday to supervisor: 8 bytes of length, then NUL-separated: cwd, limits ("core=0 ..."), sandbox (`SandboxPlan.fields`),
number of words, words, environment. Then one byte: execute the program (until then its process exists and is confined).
Later another: end the command. Supervisor to Friday, one line each: `started PID`,
`failed TEXT`, `exited STATUS` (negative: the signal), `ended COUNT` (how many processes outlived the command), and for a plan with
`record` `executed JSON`: the number of the process, of those above it, and the words of the program.
"""

from __future__ import annotations

import _thread  # `threading` runs code in each process that is forked: 0.3 ms
import contextlib
import gc
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Sequence

from ..sandbox import bubblewrap, landlock, seatbelt, system_call_filter
from ..sandbox.call_guard import CallGuard
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
"""Seconds that processes which outlived their command have to end on their own."""
LEFT_S = 0.5
"""Seconds between TERM and KILL for processes that outlived their command."""
TERM_S = 1.2
"""Seconds between TERM and KILL for a command that is ended."""
SWEEP_S = 0.02
"""Seconds between two KILLs, while processes are left."""
REAP_AGAIN_MS = 50
_IGNORED = [signal.SIGINT, *(n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN)]
"""Signals that are ignored here (set by this program, by Python or by the parent of Friday), but not in a command."""


def main(fd: int) -> None:
    """Serve requests from the socket `fd` until Friday closes its end."""
    gc.disable()
    system_call_filter.prepare()
    gc.freeze()  # forked processes share memory that is not written to
    signal.pthread_sigmask(
        signal.SIG_SETMASK, []
    )  # the parent of Friday may have blocked SIGCHLD; commands get none blocked
    friday = pidfd(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    requests = socket.socket(fileno=fd)
    wake = wake_on_children()
    poll = poll_for(wake, friday)
    supervisors: set[int] = set()
    serving, reap_again, taken = True, False, -1
    while serving or supervisors:
        if serving and taken < 0:
            supervisor, taken = _fork_supervisor(requests, friday)
            supervisors.add(supervisor)
            poll.register(taken, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(REAP_AGAIN_MS if reap_again else None)}
        if taken in ready:
            serving = serving and (os.read(taken, 1) != b"" or _is_open(requests))
            poll.unregister(taken)
            os.close(taken)
            taken = -1
        if friday in ready:
            poll.unregister(friday)
            serving = False
        if wake in ready:
            drain(wake)
        if wake in ready or reap_again:
            reap_again = _reap(supervisors)


def _reap(supervisors: set[int]) -> bool:
    """Collect ended supervisors. Descendants of a supervisor that was itself killed are now our children: kill them. True
    if a process ended: the kernel's list may omit a child while others leave it, so reap again soon."""
    ended = False
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            supervisors.discard(pid)
            ended = True
    for pid in children_of(os.getpid()):
        if pid not in supervisors:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)  # our own child, not collected yet: the pid cannot be reused
                ended = True
    return ended


# ---- the supervisor of one command --------------------------------------------


def _fork_supervisor(requests: socket.socket, friday: int) -> tuple[int, int]:
    """Fork a supervisor in advance, so that no command waits for the fork. Returns its pid and a pipe that becomes
    readable when it has taken a command."""
    taken, report = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(taken)
        _supervise(requests, report, friday)
    os.close(report)
    return pid, taken


def _is_open(requests: socket.socket) -> bool:
    try:
        return requests.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True


def _supervise(requests: socket.socket, report: int, friday: int) -> None:
    """Take one command, run it to its end and exit the process."""
    try:
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        wake = wake_on_children()
        if friday in {fd for fd, _ in poll_for(requests.fileno(), friday).poll()}:
            return
        message, fds, _, _ = socket.recv_fds(requests, 1, 4)
        if message:
            os.write(report, b"+")
            os.close(report)
            requests.close()
            for fd in fds:
                os.set_inheritable(fd, False)
            _CommandSupervisor(socket.socket(fileno=fds[0]), fds[1:], friday, wake).run()
    finally:
        os._exit(0)


class _CommandSupervisor:
    def __init__(self, control: socket.socket, streams: list[int], friday: int, wake: int) -> None:
        self.control, self.streams, self.friday, self.wake = control, streams, friday, wake
        self.leader = 0
        self.outlived = 0
        self.sandbox_processes = 0  # bubblewrap's init process, which ends with the last process of the command
        self.term_at: float | None = None
        self.kill_at: float | None = None
        self.disconnected = False
        self.reporting = _thread.allocate_lock()

    def run(self) -> None:
        size = int.from_bytes(self._read_exactly(8), "big")
        request = _CommandRequest(self._read_exactly(size).split(b"\0"))
        self.sandbox_processes = int(request.plan is not None and request.plan.kind == "bubblewrap")
        problem, guard = self._launch(request)
        for fd in set(self.streams):
            os.close(fd)
        if problem:
            os.waitpid(self.leader, 0)
            self._report("failed " + problem)
            return
        self._report(f"started {self.leader}")
        listener = guard.listener if guard else -1
        poll = poll_for(self.control.fileno(), self.wake, self.friday, listener)
        while self._reap():
            self._signal_if_due()
            due = self.term_at if self.term_at is not None else self.kill_at
            for fd, _ in poll.poll(None if due is None else max(due - time.monotonic(), SWEEP_S) * 1000):
                if fd == self.wake:
                    drain(self.wake)
                elif guard is not None and fd == listener:
                    if not guard.serve():
                        poll.unregister(fd)
                else:
                    poll.unregister(fd)
                    self.disconnected = self.disconnected or fd == self.friday or not self._asked_to_end()
                    self._end(TERM_S)
        self._report(f"ended {self.outlived}")

    def _launch(self, request: _CommandRequest) -> tuple[str, CallGuard | None]:
        """Fork the command, which waits for a byte of Friday. Returns why it could not be started ("" if it runs), and what answers its
        calls (None: nothing is handed over)."""
        error_reader, error_writer = os.pipe()
        ours, theirs = socket.socketpair()
        supervisor = os.getpid()
        self.leader = os.fork()
        if self.leader == 0:
            try:
                _exec(request, self.streams, supervisor, self.control.fileno(), theirs)
            except BaseException as error:
                os.write(error_writer, str(error).encode(errors="replace")[:1000])
            finally:
                os._exit(127)
        os.close(error_writer)
        theirs.close()
        with ours:
            _, listeners, _, _ = socket.recv_fds(ours, 1, 1)  # nothing, if it ends or runs without one
        guard = None
        if listeners and request.plan is not None:
            guard = CallGuard(listeners[0], os.getppid(), request.plan, self._executed)
        problem = b""
        poll = poll_for(error_reader, guard.listener if guard else -1)
        while True:  # until the program runs: the pipe closes on exec, which may wait for an answer
            ready = [fd for fd, _ in poll.poll()]
            if guard is not None and guard.listener in ready and not guard.serve():
                poll.unregister(guard.listener)
            if error_reader in ready:
                if not (piece := os.read(error_reader, 1000)):
                    break
                problem += piece
        os.close(error_reader)
        return problem.decode(errors="replace").replace("\n", " "), guard

    def _read_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.control.recv(count - len(data))
            if not piece:
                os._exit(0)  # Friday died, or cancelled the command before it started
            data += piece
        return data

    def _asked_to_end(self) -> bool:
        """Whether Friday sent the byte that ends the command; False if it closed the connection."""
        with contextlib.suppress(OSError):
            return bool(self.control.recv(64))
        return False

    def _report(self, line: str) -> None:
        if not self.disconnected:
            with contextlib.suppress(OSError), self.reporting:
                self.control.sendall(line.encode(errors="replace") + b"\n")

    def _executed(self, pid: int, above: Sequence[int], words: Sequence[str]) -> None:
        """Report a program that the command executes. Called in any thread."""
        import json  # few commands are recorded

        self._report("executed " + json.dumps([pid, above, words]))

    def _reap(self) -> bool:
        """Collect ended processes. False when the command and everything it started have ended."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.leader:
                    self._report(f"exited {os.waitstatus_to_exitcode(status)}")
                    if self.kill_at is None:
                        self.term_at = time.monotonic() + SETTLE_S
        except ChildProcessError:
            if not LINUX:
                with contextlib.suppress(OSError):
                    os.killpg(self.leader, 0)
                    return True
            return False

    def _end(self, kill_after_s: float) -> None:
        """Send TERM to every process, once; KILL follows after `kill_after_s` seconds."""
        if self.kill_at is None:
            self.term_at = None
            self.kill_at = time.monotonic() + kill_after_s
            self._signal(signal.SIGTERM, signal.SIGCONT)

    def _signal_if_due(self) -> None:
        now = time.monotonic()
        if self.term_at is not None and now >= self.term_at:
            with descendants(os.getpid()) as found:
                self.outlived = max(len(found), 1) - self.sandbox_processes
            self._end(LEFT_S)
        if self.kill_at is not None and now >= self.kill_at:
            self._signal(signal.SIGKILL)

    def _signal(self, *signals: int) -> None:
        with descendants(os.getpid()) as found:
            for pid, pin in found:
                for number in signals:
                    with contextlib.suppress(OSError):
                        signal.pidfd_send_signal(pin, number) if pin >= 0 else os.kill(pid, number)
        if not found:  # no /proc, or not Linux
            for number in signals:
                with contextlib.suppress(OSError):
                    os.killpg(self.leader, number)


class _CommandRequest:
    """A decoded request: folder, limits, sandbox plan, program with arguments, environment."""

    def __init__(self, message: list[bytes]) -> None:
        fields = iter(message)
        self.cwd, self.limits = next(fields), next(fields).decode()
        self.plan = SandboxPlan.read(fields)
        self.words = [next(fields) for _ in range(int(next(fields)))]
        self.environ = dict(pair.partition(b"=")[::2] for pair in fields if pair)


def _exec(request: _CommandRequest, streams: list[int], supervisor: int, control: int, guard: socket.socket) -> None:
    """Replace this process by the program of the request, once a byte comes from `control`. `streams`: its output, its errors
    (default: to the output) and its input (default: empty). `guard` gets the descriptor of its filter. Raises OSError."""
    signal.set_wakeup_fd(-1)
    for number in _IGNORED:  # signals with a handler are reset by exec; ignored ones are not
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        raise OSError("Friday ended")
    os.chdir(request.cwd)
    _set_limits(request.limits)
    os.dup2(streams[2] if len(streams) > 2 else os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(streams[0], 1)
    os.dup2(streams[:2][-1], 2)
    words, listener = (request.words, -1) if request.plan is None else _confine(request.plan, request.words)
    if listener >= 0:
        socket.send_fds(guard, [b"+"], [listener])
        os.close(listener)
    if not os.read(control, 1):
        raise OSError("Friday ended, or no longer needs it")
    os.execve(words[0], words, request.environ)


def _confine(plan: SandboxPlan, words: list[bytes]) -> tuple[list[bytes], int]:
    """The words that run `words` confined by `plan`: the same for Landlock, which confines this process; and the descriptor of
    its filter (-1: none). Raises OSError."""
    plan = plan.resolved()
    if plan.kind == "bubblewrap":
        return bubblewrap.wrap(plan, words), bubblewrap.guard(plan)
    if plan.kind == "landlock":
        return words, landlock.restrict(plan)
    if plan.kind == "seatbelt":
        return seatbelt.wrap(plan, words), -1
    raise OSError(f"unknown sandbox {plan.kind!r}")


def _set_limits(limits: str) -> None:
    for word in limits.split():
        name, _, value = word.partition("=")
        kind = getattr(resource, "RLIMIT_" + name.upper())
        hard = resource.getrlimit(kind)[1]
        soft = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(kind, (soft, soft))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", 0) as file:
        file.write(b"500")  # when memory runs out, the kernel kills a command before Friday
