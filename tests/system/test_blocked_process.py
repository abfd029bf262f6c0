"""A process whose main thread is blocked in the kernel, as by a network drive that does not answer: it says so, and ends at a signal, at Ctrl+C and
at its time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

BLOCKED = """
import asyncio, ctypes, os, signal, sys, threading, time
from friday_cli.system import blocked_process, event_loop

blocked_process.LOOK_S, event_loop.CLOSE_S = 0.05, 0.3
libc, stack = ctypes.CDLL(None), ctypes.create_string_buffer(65536)

def tell(text):
    os.write(2, (text or "it answers").encode() + b"\\n")

async def main(how, pipe):
    watch = blocked_process.BlockedWatch(0.0 if how == "limit" else None, 5, tell=tell)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: print("handled"))
    if how == "key":
        blocked_process.TOLD_AFTER = 10**6
        threading.Thread(target=lambda: [(watch.press(), time.sleep(0.1)) for _ in range(600)], daemon=True).start()
    print("ready", flush=True)
    if how == "stop":
        watch.stopping(130)
        await asyncio.to_thread(open, pipe)
    if how in ("thread", "exit"):
        if how == "exit":
            watch.stopping(143)
        try:
            await asyncio.wait_for(asyncio.to_thread(open, pipe), 0.1)
        except TimeoutError:
            return
    # until its child ends (CLONE_VFORK) this thread waits in the kernel, where only the end of its process wakes it
    libc.clone(libc.sleep, ctypes.c_void_p((ctypes.addressof(stack) + 65536) & ~15), 0x4000 | signal.SIGCHLD, 60)
    await asyncio.sleep(0.3)

event_loop.run(main(*sys.argv[1:]))
if sys.argv[1] != "exit":
    os._exit(0)
"""
TOLD = b"waits for a file system or a terminal that does not answer; Ctrl+C ends it\n"
STOPS = b"has not ended yet: a file system may not answer; the same signal again ends it\n"
ENDED = b"friday: ended without waiting for what does not answer, such as a file system.\n"


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("signal", 128 + signal.SIGTERM, TOLD + ENDED),
        ("key", 128 + signal.SIGINT, ENDED),
        ("limit", 5, ENDED),
        ("answers", 0, TOLD + b"it answers\n"),
        ("stop", 130, STOPS + ENDED),
        ("thread", 0, b""),
        ("exit", 143, STOPS + ENDED),
    ],
)
def test_a_blocked_process_says_so_and_ends(tmp_path: Path, how: str, code: int, said: bytes) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-c", BLOCKED, how, str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"ready\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    left, err = "", b""
    while how not in ("thread", "stop", "exit") and not left:
        left = children.read_text()
    try:
        if how in ("signal", "answers"):
            err = process.stderr.readline()
        if how == "signal":
            process.send_signal(signal.SIGTERM)
        if how == "answers":
            os.kill(int(left), signal.SIGKILL)
        assert process.wait(timeout=30) == code
    finally:
        for pid in left.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with suppress(OSError):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    out, rest = process.communicate(timeout=60)
    assert (out, err + rest) == (b"", said)
