"""A session through its socket: the same events and results as in its own process, for one or several frontends."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.events import (
    AgentFinished,
    Envelope,
    HandedBack,
    MessageAdded,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    TextDelta,
)
from friday_cli.frontends.host import server as host
from friday_cli.frontends.host.owner import BackgroundOwner
from friday_cli.session import commands as c
from friday_cli.session import wire
from friday_cli.session.attachments import PromptText
from friday_cli.session.open_context import Options
from friday_cli.session.remote import RemoteSession
from friday_cli.session.session import Session
from friday_cli.system import session_socket
from friday_cli.view.follower import SessionFollower
from tests.session.harness import Harness, delegates, does


class Watched:
    """A connected frontend, and the events that it was given."""

    def __init__(self, session: RemoteSession) -> None:
        self.session = session
        self.seen: list[Envelope] = []
        self.follower = SessionFollower(session, lambda envelope, replayed: self.seen.append(envelope))

    async def until(self, kind: type, count: int = 1) -> Any:
        """The event of a kind, when `count` of them have come."""
        async with asyncio.timeout(30):
            await self.follower.until(lambda: sum(isinstance(e.event, kind) for e in self.seen) >= count)
        return [e.event for e in self.seen if isinstance(e.event, kind)][count - 1]


@asynccontextmanager
async def served(session: Session, frontends: int = 1) -> AsyncIterator[tuple[host.SessionServer, list[Watched]]]:
    server = host.SessionServer(BackgroundOwner(session, Options(Path.cwd())))
    server.open()
    watched: list[Watched] = []
    try:
        for _ in range(frontends):
            remote = await RemoteSession.connect(session.id)
            assert remote is not None
            watched.append(Watched(remote))
        yield server, watched
    finally:
        for one in watched:
            await one.session.close()
            await one.follower.finished()
        await server.close()


ASKS = {"a": [does(("bash", {"command": "touch made"})), {"text": "all done"}]}


async def test_several_frontends_see_all_of_a_session_and_one_answer_counts(harness: Harness) -> None:
    harness.plays(ASKS)
    async with harness.session(attended=True) as session, served(session, 3) as (_, watched):
        first, second, third = watched
        assert await first.session.do(c.Say(PromptText("make it"))) == []
        asked = await first.until(PermissionAsked)
        for one in (second, third):
            assert await one.until(PermissionAsked) == asked
        answers = await asyncio.gather(
            first.session.do(c.AnswerQuestion(asked.id, ApprovalAnswer("allow"))),
            second.session.do(c.AnswerQuestion(asked.id, ApprovalAnswer("deny"))),
            third.session.do(c.AnswerQuestion(asked.id, ApprovalAnswer("deny"))),
        )
        assert sorted(answers) == [False, False, True]
        for one in watched:
            assert (await one.until(PermissionAnswered)).decision == "allow"
        async with asyncio.timeout(30):
            while not all(one.session.facts.idle for one in watched):  # noqa: ASYNC110 - facts have no event
                await asyncio.sleep(0.02)
        kept = await session.history()
        for one in watched:
            async with asyncio.timeout(30):
                await one.follower.until(lambda one=one: len([e for e in one.seen if e.seq]) >= len(kept))
            assert [e for e in one.seen if e.seq] == kept
            assert "all done" in "".join(e.event.text for e in one.seen if isinstance(e.event, TextDelta))
        assert (harness.project / "made").exists()


@pytest.mark.parametrize("level", ["abort", "cancel"])
async def test_a_message_that_meets_a_stop_of_another_frontend_is_not_lost(
    harness: Harness, level: Literal["abort", "cancel"]
) -> None:
    harness.plays({"a": [*ASKS["a"][:1], {"text": "stopped"}, {"text": "you are welcome"}]})
    async with harness.session(attended=True) as session, served(session, 2) as (_, (first, second)):
        await first.session.do(c.Say(PromptText("go")))
        await first.until(PermissionAsked)
        said = c.Say(PromptText("thanks"))
        _, remarks = await asyncio.gather(first.session.do(c.Stop("a", level)), second.session.do(said))
        assert remarks == []
        await first.until(AgentFinished, 2)
        said_there = [e.event.message for e in await session.history() if isinstance(e.event, MessageAdded)]
        assert [m.text.rpartition("\n")[2] for m in said_there if m.role == "user"][-1] == "thanks"


async def test_a_frontend_that_comes_late_reads_the_log_first(harness: Harness) -> None:
    async with harness.after_run() as session, served(session) as (_, [late]):
        kept = await session.history()
        await late.follower.caught_up.wait()
        assert [e for e in late.seen if e.seq] == kept
        assert late.session.since == len(kept)
        assert await late.session.history() == kept


async def test_leaving_at_once_waits_for_nothing(harness: Harness) -> None:
    async with harness.after_run() as session, served(session, 0):
        for _ in range(20):
            async with asyncio.timeout(30):
                remote = await RemoteSession.connect(session.id)
                assert remote is not None
                watched = Watched(remote)
                await remote.close()  # before `follow` is answered
                await watched.follower.finished()


async def test_errors_output_and_a_withdrawn_request_cross(harness: Harness) -> None:
    async with harness.session() as session, served(session) as (_, [one]):
        with pytest.raises(UsageError, match=r"There is no agent 'a\.9'"):
            await one.session.do(c.Tell("a.9", "hello"))
        output: list[str] = []
        assert await one.session.do(c.RunShell("echo one; exit 3"), output.append) == c.ShellResult(3, "one\n")
        assert "".join(output) == "one\n"
        running = asyncio.create_task(one.session.do(c.RunShell("echo begun; sleep 60"), output.append))
        async with asyncio.timeout(30):
            while output[-1] != "begun\n":  # noqa: ASYNC110 - a callback of the test
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert await one.session.do(c.SetMode("plan")) is None
        assert one.session.facts.mode == "plan"


async def test_outputs_of_commands_at_once_are_not_mixed(harness: Harness) -> None:
    async with asyncio.timeout(60), harness.session() as session, served(session) as (_, [one]):
        outputs: dict[str, list[str]] = {name: [] for name in "abc"}

        def run(name: str) -> asyncio.Task[Any]:
            command = f"until test -e go-{name}; do sleep 0.02; done; echo {name}"
            return asyncio.create_task(one.session.do(c.RunShell(command), outputs[name].append))

        tasks = {"a": run("a"), "b": run("b")}
        for name in "abc":
            (harness.project / f"go-{name}").touch()
            await tasks[name]
            if name == "a":
                tasks["c"] = run("c")  # while the second one runs
        assert {name: "".join(output) for name, output in outputs.items()} == {name: f"{name}\n" for name in "abc"}


async def test_a_slow_frontend_is_let_go_and_reads_the_log_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "LAG_S", 0.05)
    text = "word " * 100_000
    harness.plays({"a": [{"text": text}, {"text": "short"}]})
    async with harness.session() as session, served(session, 0) as (server, _):
        raw = await asyncio.to_thread(session_socket.connect, session.id)
        assert raw is not None
        _, writer = await asyncio.open_unix_connection(sock=raw, limit=1024)
        writer.write(line("hello", protocol=wire.PROTOCOL, friday="0") + line("follow", after=0))
        await session.prompt("go")  # much more than the socket takes, and nothing is read
        async with asyncio.timeout(30):
            while server.clients:  # noqa: ASYNC110 - the server has no event
                await asyncio.sleep(0.01)
        writer.close()
        again = await RemoteSession.connect(session.id)
        assert again is not None
        watched = Watched(again)
        await watched.follower.caught_up.wait()
        assert [e for e in watched.seen if e.seq] == await session.history()
        await again.close()
        await watched.follower.finished()


MOST = 2**20
"""Bytes of a message that an owner reads in these tests."""


def line(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff garbage\n",
        b"[" * 200_000 + b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        line("do", command={"do": "stop"}),
        line("hello", protocol=wire.PROTOCOL + 1, friday="9.9"),
        line("hello", protocol=wire.PROTOCOL - 1, friday="0.1"),
        line("hello", protocol=wire.PROTOCOL) + line("do", command={"do": "everything"}),
        line("hello", protocol=wire.PROTOCOL) + line("follow", after="x"),
        line("hello", protocol=wire.PROTOCOL) + line("follow", after=float("inf")),
        line("hello", protocol=wire.PROTOCOL) + line("no such method"),
        b'{"jsonrpc": "2.0", "id": 1, "method": "do", "params": "' + b"x" * (MOST + 10) + b'"}\n',
    ],
    ids=[
        "garbage",
        "nested",
        "http",
        "no hello",
        "newer",
        "older",
        "command",
        "params",
        "number",
        "method",
        "too long",
    ],
)
async def test_what_cannot_be_understood_changes_nothing(
    harness: Harness, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_SENT", MOST)
    async with harness.after_run() as session, served(session) as (_, [other]):
        before = len(await session.history())
        raw = await asyncio.to_thread(session_socket.connect, session.id)
        assert raw is not None
        reader, writer = await asyncio.open_unix_connection(sock=raw, limit=2**20)
        writer.write(sent)
        async with asyncio.timeout(60):
            lines = [json.loads(await reader.readline()) for _ in range(sent.count(b"\n") - (b"HTTP" in sent))]
        assert "error" in lines[-1], lines
        writer.close()
        assert await other.session.do(c.Stop()) == 0
        assert len(await session.history()) == before


async def test_an_older_or_newer_owner_is_named(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async with harness.session() as session, served(session, 0):
        for version in (wire.PROTOCOL - 1, wire.PROTOCOL + 1):
            with monkeypatch.context() as patch:
                patch.setattr("friday_cli.session.remote.wire", _Other(version))
                with pytest.raises(UsageError, match="the two cannot talk to each other"):
                    await RemoteSession.connect(session.id)


class Newer(c.Command[None], frozen=True, tag="newer"):
    """A command of a later version."""


async def test_what_only_one_side_knows_is_one_line(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol is the same, but one side has a command or an event more."""

    plain = msgspec.to_builtins

    def renamed(value: Any, **more: Any) -> Any:
        data = plain(value, **more)
        if isinstance(value, Envelope) and data["event"]["kind"] == "mode_changed":
            data["event"]["kind"] = "newer"
        return data

    monkeypatch.setattr(host, "__version__", "9.9")
    monkeypatch.setattr(msgspec, "to_builtins", renamed)
    async with harness.session() as session, served(session) as (_, [one]):
        with pytest.raises(UsageError, match=r"runs Friday 9\.9 and cannot do this"):
            await one.session.do(Newer())
        await one.session.do(c.Say(PromptText("go")))
        await one.until(AgentFinished)  # by now it reads the socket
        await one.session.do(c.SetMode("plan"))
        notice = await one.until(Notice)
        assert "(newer) is of another version of Friday" in notice.text
        assert one.session.facts.mode == "plan"


class _Other:
    """`wire` as another version has it."""

    def __init__(self, version: int) -> None:
        self.PROTOCOL = version

    def __getattr__(self, name: str) -> Any:
        return getattr(wire, name)


async def test_a_stale_socket_is_replaced_and_nobody_there_is_none(harness: Harness) -> None:
    async with harness.session() as session:
        assert await RemoteSession.connect(session.id) is None
        old = session_socket.listen(session.id)
        old.close()  # the process died: the file stays
        assert await RemoteSession.connect(session.id) is None
        async with served(session) as (server, [one]):
            assert one.session.facts.idle
            path = session_socket.socket_folder() / f"{session.id}.sock"
            assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
            assert session_socket.sessions() == [session.id]
            assert server.clients == 1
        assert session_socket.sessions() == []


async def test_a_folder_of_others_and_a_link_are_refused(harness: Harness) -> None:
    folder = session_socket.socket_folder()
    folder.mkdir(parents=True)
    async with harness.session() as session:
        with ExitStack() as stack:
            for go in (session_socket.listen, session_socket.connect):
                folder.chmod(0o777)  # by mistake, or by a command of an agent
                made = go(session.id)
                assert made is not None
                stack.callback(made.close)
                assert folder.stat().st_mode & 0o777 == 0o700
        session_socket.remove(session.id)
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
            with pytest.raises(FridayError, match="is of another user"):
                session_socket.listen(session.id)
        folder.rmdir()
        other = harness.project.parent / "other"
        other.mkdir(0o700)
        folder.symlink_to(other)
        with pytest.raises(FridayError, match="No socket can be made"):
            session_socket.listen(session.id)
        assert session_socket.connect(session.id) is None


async def test_a_long_path_works(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_HOME", os.environ["FRIDAY_HOME"] + "/" + "long" * 40)
    async with harness.session() as session, served(session) as (_, [one]):
        assert one.session.facts.idle


async def test_a_process_of_another_user_is_not_served(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async with harness.session() as session, served(session, 0) as (server, _):
        monkeypatch.setattr(session_socket, "peer_uid", lambda connection: os.geteuid() + 1)
        with pytest.raises(FridayError, match="of another user"):
            session_socket.connect(session.id)
        folder = session_socket.socket_folder()
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        raw.setblocking(False)
        handle = os.open(folder, os.O_RDONLY)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(raw, f"/proc/self/fd/{handle}/{session.id}.sock")
        os.close(handle)
        assert await loop.sock_recv(raw, 10) == b""
        raw.close()
        assert server.clients == 0


def _as_nobody(folder: Path, name: str) -> bytes:
    """What another user gets who connects from inside the folder and says hello."""
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            os.chdir(folder)
            os.setgid(65534)
            os.setuid(65534)
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(20)
            made.connect(name)
            made.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":1,"friday":"1"}}\n')
            os.write(writer, b"got " + made.recv(1000))
        except OSError as error:
            os.write(writer, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        got = pipe.read()
    os.waitpid(pid, 0)
    return got


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_of_the_machine_gets_nothing(harness: Harness) -> None:
    """The folder keeps them out; where it is opened to all by mistake, the owner asks the kernel who they are."""
    async with harness.session() as session, served(session):
        folder, name = session_socket.socket_folder(), f"{session.id}.sock"
        assert await asyncio.to_thread(_as_nobody, folder, name) == b"PermissionError"
        folder.chmod(0o755)
        (folder / name).chmod(0o666)
        assert await asyncio.to_thread(_as_nobody, folder, name) in (
            b"got ",
            b"ConnectionResetError",
            b"BrokenPipeError",
        )


async def test_an_attached_chat_takes_a_sub_agent_over(harness: Harness) -> None:
    harness.plays(
        {"a": [delegates("general"), {"text": "end"}], "a.1": [{"text": "mine", "delay_s": 1.0}, {"text": "looked"}]}
    )
    async with harness.session() as session, served(session, 2) as (_, (first, second)):
        await first.session.do(c.Say(PromptText("go")))
        await first.follower.until(lambda: any(e.agent == "a.1" for e in first.seen))
        await first.session.do(c.TakeOver("a.1"))
        with pytest.raises(UsageError, match="already"):
            await second.session.do(c.TakeOver("a.1"))
        await second.session.do(c.Tell("a.1", "look there"))
        await second.session.do(c.HandBack("a.1", "the person's"))
        handed = await second.until(HandedBack)
        assert (handed.part.said, handed.part.own_result) == (("look there",), True)
        assert (await first.until(HandedBack)) == handed
