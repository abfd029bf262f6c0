"""Faults of a provider, for the main agent and for a sub-agent, with every API: the right end, limited tries, kept partial
text, one clear sentence, and never a false success."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.friday import CommandResult, Friday
from tests.servers.fake_model_server import WIRES, FakeModelServer, Say, Turn, Wire, events, sse
from tests.servers.script_player import DROP, HANG, RESET, Fault, Reply, Wait, document
from tests.timing import paced

SPOKEN = Say(("The answer ", "is forty", "-two."))
CALLING = Say("I look.", [("read_file", {"path": "secret-plan.txt"})])


def refused(status: int, kind: str = "", message: str = "no", **headers: str) -> Reply:
    """A response with an error, in the form of each API."""
    return document({"type": "error", "error": {"type": kind, "code": kind, "message": message}}, status, **headers)


def inside(wire: Wire, kind: str, message: str = "no") -> Reply:
    """An error after a part of the text, with status 200."""
    error = {"type": kind, "code": kind, "message": message}
    bad: dict[str, Any] = (
        {"error": error} if wire == "chat" else {"type": "error", **error, "error": error} | {"type": "error"}
    )
    return Reply(sse(wire, [*until(wire, SPOKEN, "forty"), bad]))


def until(wire: Wire, say: Say, word: str) -> list[Any]:
    """The events of a reply up to and including the one that contains `word`."""
    found = []
    for event in events(wire, say):
        found.append(event)
        if word in str(event):
            return found
    raise AssertionError(f"{word!r} is in no event")


def broken(say: Say, word: str, *end: Fault | Wait) -> Callable[[Turn], Reply]:
    """A reply that breaks off after the event with `word`."""
    return lambda turn: Reply(sse(turn.wire, until(turn.wire, say, word)), *end)


def always(found: Reply) -> Callable[[Turn], Reply]:
    return lambda turn: found


@dataclass(frozen=True)
class Case:
    """What the service does to requests of an agent, and the end of that agent: `tries` requests (without a connection more,
    for a time), an error with `says`, and `keeps` as its partial text."""

    play: Callable[[Turn], Say | Reply]
    tries: int
    says: str
    stop: str = "provider"
    code: int = 75
    keeps: str = ""
    wires: tuple[Wire, ...] = WIRES


PAGE = b"<html><head><title>Bad gateway</title></head><body><script>alert(1)</script></body></html>"
TORN = "The answer is forty"

CASES: dict[str, Case] = {
    "F1 rate limit": Case(always(refused(429, "rate_limit_error")), 6, "limiting the rate of requests (429)"),
    "F3 rate limit for 90 s": Case(always(refused(429, "rate_limit_error", retry_after="90")), 1, "asks you to wait for 90 s"),
    "F3 rate limit for an hour": Case(always(refused(429, "rate_limit_error", retry_after="3600")), 1, "asks you to wait for 60 minutes"),
    "F3 a date far off": Case(
        always(refused(429, "rate_limit_error", retry_after="Fri, 31 Dec 2100 23:59:59 GMT")), 1, "days"
    ),
    "F3 junk": Case(always(refused(429, "rate_limit_error", retry_after="soon")), 6, "429"),
    "F3 negative": Case(always(refused(429, "rate_limit_error", retry_after="-5")), 6, "429"),
    "F4 quota": Case(always(refused(429, "insufficient_quota")), 1, "credit or quota of this key is used up", code=1),
    "F4 credit": Case(
        always(refused(400, "invalid_request_error", "Your credit balance is too low")), 1, "credit or quota", code=1
    ),
    "F5 overloaded 529": Case(always(refused(529, "overloaded_error")), 6, "is overloaded (529)"),
    "F5 unavailable 503": Case(always(refused(503, "")), 6, "is overloaded (503)"),
    "F5 internal 500": Case(always(refused(500, "api_error")), 6, "internal error (500)"),
    "F6 a page with 502": Case(always(Reply(PAGE, status=502, content_type="text/html")), 6, "Bad gateway"),
    "F7 a page with 200": Case(always(Reply(PAGE, content_type="text/html")), 3, "web page instead of a reply"),
    "F7 nothing with 200": Case(always(Reply(b"")), 2, "empty response"),
    "F9 reset at once": Case(always(Reply(RESET, before_head=True)), 2, "connection to"),
    "F9 dropped at once": Case(always(Reply(DROP, before_head=True)), 2, "connection to"),
    "F10 reset in the text": Case(broken(SPOKEN, "forty", RESET), 6, "connection to", keeps=TORN),
    "F10 drop in the text": Case(broken(SPOKEN, "forty", DROP), 6, "connection to", keeps=TORN),
    "F11 reset in the arguments": Case(broken(CALLING, '{"path', RESET), 6, "connection to", keeps="I look."),
    "F12 no end mark": Case(broken(SPOKEN, "forty"), 4, "ended", keeps=TORN),
    "F12 no end mark in the arguments": Case(broken(CALLING, '{"path'), 4, "ended", keeps="I look."),
    "F13 silence": Case(broken(SPOKEN, "forty", HANG), 2, "sent no", keeps=TORN),
    "F16 overloaded inside": Case(lambda t: inside(t.wire, "overloaded_error"), 6, "is overloaded", keeps=TORN),
    "F17 invalid inside": Case(lambda t: inside(t.wire, "invalid_request_error"), 1, "as invalid", code=1, keeps=TORN),
    "F17 credentials inside": Case(
        lambda t: inside(t.wire, "authentication_error", "sk-canary-0123456789abcdefghij is bad"), 1, "credentials", code=1,
        keeps=TORN,
    ),
    "F18 response.failed": Case(
        lambda t: Reply(sse(t.wire, [{"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}])),
        6, "internal error", wires=("responses",),
    ),
    "F23 a broken event": Case(lambda t: Reply(sse(t.wire, until(t.wire, SPOKEN, "forty")) + b"data: {]\n\n"), 3, "not JSON", keeps=TORN),
    "F24 one document": Case(always(document({"choices": []}, 200)), 1, "instead of a stream", code=1),
    "F28 empty": Case(lambda t: Say(), 2, "neither text nor"),
    "F28 blanks": Case(lambda t: Say(" \n "), 2, "neither text nor"),
    "F28 only thinking": Case(lambda t: Say(thinking="hm"), 2, "neither text nor"),
    "F31 refusal": Case(lambda t: Say("I cannot", stop="refusal"), 1, "refus", "refusal", 1, keeps="I cannot"),
    "F31 refusal at once": Case(lambda t: Say(stop="refusal"), 1, "refus", "refusal", 1),
    "F33 credentials": Case(
        always(refused(401, "authentication_error", "bad key sk-canary-0123456789abcdefghij")), 1, "API_KEY", code=1
    ),
    "F33 forbidden": Case(always(refused(403, "permission_error")), 1, "does not allow this to", code=1),
    "F34 no such model": Case(always(refused(404, "not_found_error", "no model m-1")), 1, "does not know this model", code=1),
    "F35 invalid": Case(always(refused(400, "invalid_request_error", "tools.0: bad schema")), 1, "bad schema", code=1),
    "F40 timeout 408": Case(always(refused(408)), 6, "gave up waiting for the request (408)"),
    "F40 conflict 409": Case(always(refused(409)), 6, "could not accept the request now (409)"),
    "F40 not to be tried again": Case(always(refused(500, x_should_retry="false")), 1, "(500)", code=1),
    "F40 redirect": Case(
        always(Reply(b"", status=307, location="http://127.0.0.1:9/v1/messages")), 1, "the key was not sent there", code=1
    ),
}  # fmt: skip
EVERY = [(name, wire, "http") for name, case in CASES.items() for wire in case.wires]
SDK = (
    "F1 rate limit",
    "F3 rate limit for 90 s",
    "F4 quota",
    "F6 a page with 502",
    "F10 reset in the text",
    "F12 no end mark in the arguments",
    "F13 silence",
    "F16 overloaded inside",
    "F33 credentials",
    "F40 redirect",
)
EVERY += [(name, wire, "sdk") for name in SDK for wire in WIRES]
in_every_way = pytest.mark.parametrize(("name", "wire", "transport"), EVERY)


@pytest.fixture(autouse=True)
def _quick(friday: Friday) -> None:
    friday.hurry()
    (friday.project / "secret-plan.txt").write_text("must not be read\n", encoding="utf-8")


def sound(server: FakeModelServer) -> None:
    assert server.complaints == []


def one_sentence(error: str | None) -> str:
    assert error
    assert "\n" not in error
    assert len(error) < 500
    for ugly in ("Traceback", "<html", "<script", "httpx2", "anthropic.", "openai.", "Error:", "None", "sk-canary"):
        assert ugly not in error
    return error


def ended(ran: CommandResult, path: str, case: Case) -> dict[str, Any]:
    agent = ran.agent(path)
    assert (agent["status"], agent["stop_reason"]) == ("failed", case.stop)
    assert "read_file" not in agent["receipt"].get("tools", {})
    return agent


@in_every_way
@paced
def test_the_main_agent(friday: Friday, name: str, wire: Wire, transport: str, pace: float) -> None:
    case = CASES[name]
    if name.startswith("F13"):
        friday.impatient(0.2 * pace)
    with friday.meets(case.play, wire, transport=transport) as server:
        ran = friday.json("what is the answer?")
    assert ran.code == ran.document["exit_code"] == case.code
    tries = len(server.turns)
    waited_for = name.startswith(("F5", "F6", "F9"))  # as long as is allowed
    assert tries == case.tries or (waited_for and tries > case.tries), friday.attempts()
    ended(ran, "a", case)
    assert (ran.document["status"], ran.document["stop_reason"]) == ("failed", case.stop)
    assert case.says in one_sentence(ran.document["error"])
    assert ran.document["result"] == case.keeps


@pytest.mark.parametrize("transport", ["http", "sdk"])
@pytest.mark.parametrize("wire", WIRES)
def test_f34_names_near_to_a_model_that_is_not_there(friday: Friday, wire: Wire, transport: str) -> None:
    with friday.meets(CASES["F34 no such model"].play, wire, transport=transport) as server:
        for listed, words in (
            (
                ("claude-test-2", "m-10", "other"),
                "Did you mean claude-test-2?" if wire == "messages" else "Did you mean m-10?",
            ),
            (("zebra\x1b[2J", "x" * 500), "It has: zebra [2J."),
        ):
            server.models = listed
            ran = friday.json("what is the answer?")
            assert ran.code == 1
            assert words in one_sentence(ran.document["error"]), ran.document["error"]
    assert len(server.turns) == 2, "the list is requested, and the reply only once"


CROWD = """
[agents.delegation]
max_batch = 64
max_concurrent = 16
ask_above = 64
"""


@pytest.mark.parametrize(("wire", "transport"), [(w, t) for t in ("http", "sdk") for w in WIRES])
def test_sub_agents_with_a_fault_each(friday: Friday, wire: Wire, transport: str) -> None:
    """One child for each fault, all in one batch: each ends with its own result."""
    friday.hurry(offline_s=3)
    kids = {f"kid{n}": CASES[name] for n, (name, w, t) in enumerate(EVERY) if (w, t) == (wire, transport)}
    kids = {kid: case for kid, case in kids.items() if case is not CASES["F13 silence"]}
    task = {"profile": "researcher"}

    def rule(turn: Turn) -> Say | Reply:
        if turn.agent in kids:
            return kids[turn.agent].play(turn)
        if turn.agent == "well":
            return SPOKEN
        if turn.turn:
            return Say("They failed.")
        return Say(
            calls=[("delegate_tasks", {"tasks": [{**task, "task": f"#{k} find the answer"} for k in (*kids, "well")]})]
        )

    with friday.meets(rule, wire, transport=transport, extra=CROWD) as server:
        ran = friday.json("what is the answer?")
    assert (ran.code, ran.document["result"]) == (0, "They failed.")
    _, *reports = server.by("root")[-1].last.split("# Task ")
    assert len(reports) == len(kids) + 1
    for number, (kid, case) in enumerate(kids.items(), 1):
        report = reports[number - 1]
        about = f"{case.says}: {report}\n{friday.attempts()}"
        came = len(server.by(kid))
        refused_free = case.tries > 1 and ("429" in case.says or "overloaded (" in case.says)
        refused_free = refused_free or (case.tries, case.says) == (2, "connection to")
        # the last one whose requests the service answers with nothing but the same error waits until it is well
        waits = sum(line.startswith(f"a.{number} ") and '"network"' in line for line in friday.attempts().splitlines())
        left_alone = case.stop == "provider" and case.tries == 6 and came - waits <= case.tries
        assert came == case.tries or ((refused_free or left_alone) and came > case.tries), about
        ended(ran, f"a.{number}", case)
        assert f"## Result from 'researcher' (a.{number}): failed ({case.stop})" in report, about
        assert case.says in report, about
        assert case.keeps in report, about
        one_sentence(report.partition("error: ")[2].partition("\n")[0])
    assert "completed" in reports[-1]
    assert "The answer is forty-two." in reports[-1]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "name",
    [
        "F1 rate limit",
        "F5 internal 500",
        "F9 reset at once",
        "F10 reset in the text",
        "F12 no end mark",
        "F13 silence",
        "F16 overloaded inside",
        "F23 a broken event",
        "F28 only thinking",
    ],
)
@paced
def test_a_fault_that_passes_leaves_no_trace_in_the_answer(friday: Friday, name: str, wire: Wire, pace: float) -> None:
    case = CASES[name]
    if name.startswith("F13"):
        friday.impatient(0.2 * pace)

    def rule(turn: Turn) -> Say | Reply:
        return case.play(turn) if turn.tries == 0 else SPOKEN

    with friday.meets(rule, wire) as server:
        ran = friday.json("what is the answer?")
    assert (ran.code, ran.document["result"], ran.document["error"]) == (0, "The answer is forty-two.", None)
    assert len(server.turns) == 2


@pytest.mark.parametrize("wire", WIRES)
def test_f9_an_outage_is_waited_for(friday: Friday, wire: Wire) -> None:
    friday.hurry(offline_s=300)
    gone = Reply(RESET, before_head=True)
    with friday.meets(lambda turn: gone if turn.tries < 8 else SPOKEN, wire) as server:
        ran = friday.json("what is the answer?")
    assert (ran.code, ran.document["result"], len(server.turns)) == (0, "The answer is forty-two.", 9)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_f5_a_service_that_is_unwell_is_waited_for(friday: Friday, wire: Wire, status: int) -> None:
    friday.hurry(offline_s=300)
    with friday.meets(lambda turn: refused(status, "") if turn.tries < 12 else SPOKEN, wire) as server:
        ran = friday.json("what is the answer?")
    assert (ran.code, ran.document["result"], len(server.turns)) == (0, "The answer is forty-two.", 13)
    assert friday.attempts().count("attempt_failed") == 12


@pytest.mark.parametrize("transport", ["http", "sdk"])
@pytest.mark.parametrize(("base_url", "proxy", "words"), [
    ("http://127.0.0.1:9", "", "Cannot reach Anthropic at 127.0.0.1:9"),
    ("https://nowhere.invalid", "", "Cannot reach Anthropic at nowhere.invalid"),
    ("https://nowhere.invalid", "http://me:hush@127.0.0.1:9", "through the proxy http://127.0.0.1:9"),
])  # fmt: skip
def test_f8_no_service_is_reached(friday: Friday, base_url: str, proxy: str, words: str, transport: str) -> None:
    friday.config.write_text(
        f'[providers.anthropic]\nbase_url = "{base_url}"\ntransport = "{transport}"\n', encoding="utf-8"
    )
    friday.setenv("ANTHROPIC_API_KEY", "sk-canary-0123456789abcdefghij")
    if proxy:
        friday.setenv("HTTPS_PROXY", proxy)
    ran = friday.json("hi", model="anthropic/claude-test")
    assert (ran.code, ran.document["stop_reason"]) == (75, "provider")
    assert words in one_sentence(ran.document["error"])
    assert "hush" not in ran.out + ran.err
    assert friday.attempts().count("attempt_failed") > 1


def test_f8_tls_that_is_none(friday: Friday) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError):  # the listener is closed at the end
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(b"HTTP/1.1 400 no TLS here\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        friday.config.write_text(f'[providers.anthropic]\nbase_url = "{url}"\n', encoding="utf-8")
        friday.setenv("ANTHROPIC_API_KEY", "sk-canary-0123456789abcdefghij")
        ran = friday.json("hi", model="anthropic/claude-test")
    assert ran.code == 1
    assert "Is this an http:// address?" in ran.document["error"]  # waiting does not mend it
    assert friday.attempts().count("attempt_failed") == 1
