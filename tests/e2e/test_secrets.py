"""Q31, G10: fake keys in the environment, the key file and the settings are found nowhere after all kinds of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.friday import CommandResult, Friday
from tests.servers.fake_model_server import Say, Turn, thinking
from tests.servers.script_player import Reply, document

ENV = "canary-env-without-a-pattern-1"
PATTERNED = "ghp_canary0123456789abcdefghijABCDEFGH"
STORED = "canary-stored-without-a-pattern-2"
HEADER = "canary-header-without-a-pattern-3"
CANARIES = (ENV, PATTERNED, STORED, HEADER)
LOOK = "env; for p in $PPID $$; do tr '\\0' '\\n' </proc/$p/environ; tr '\\0' ' ' </proc/$p/cmdline; done"

COMMANDS = """
import sys
from friday_cli.cli import run
for words in sys.argv[1:]:
    print("\\nexit code", run(words.split()), flush=True)
"""


@pytest.fixture
def keyed(friday: Friday) -> Friday:
    """A fake key in every place where a person can put one. No other file may contain them."""
    friday.setenv("GITHUB_TOKEN", PATTERNED)
    friday.setenv("MY_SETTING", f"value with {PATTERNED}")
    auth = friday.home / "auth.toml"
    auth.write_text(f'[keys]\nopenai = "{STORED}"\n', encoding="utf-8")
    auth.chmod(0o600)
    return friday


def reach(friday: Friday, server: object) -> None:
    friday.reach(server)  # type: ignore[arg-type]
    friday.setenv("ANTHROPIC_API_KEY", ENV)
    with friday.config.open("a", encoding="utf-8") as file:
        file.write(f'headers = {{ "X-Secret" = "{HEADER}" }}\n')


def flow(turn: Turn) -> Say | Reply:
    """Agents that print every environment, and a service that repeats the keys in an error."""
    if turn.agent == "a.1":
        return Say("seen") if turn.results else Say(calls=[("bash", {"command": LOOK})])
    if turn.turn == 0:
        said = f"overloaded: x-api-key {ENV}, {HEADER}, {PATTERNED}"
        if turn.tries < 2:
            return document({"error": {"type": "overloaded_error", "message": said}}, 529)
        return Say(calls=[("bash", {"command": LOOK}), ("delegate_task", {"profile": "looker", "task": "look"})])
    return Say("done")


def test_q31_canary_keys_are_found_nowhere(keyed: Friday, tmp_path: Path) -> None:
    friday = keyed
    friday.profile("looker", "allowedTools: [bash]")
    ran: list[CommandResult] = []
    with thinking(flow) as server:
        reach(friday, server)
        for more in ((), ("--output-format", "json"), ("--output-format", "stream-json", "--debug")):
            ran.append(friday.run("go", "--yolo", *more, timeout=90))
            assert ran[-1].code == 0, ran[-1]
    with thinking(
        lambda turn: document({"error": {"type": "authentication_error", "message": f"bad {ENV} {HEADER}"}}, 401)
    ) as server:
        reach(friday, server)
        ran.append(friday.run("go", "--debug", timeout=60))
        assert ran[-1].code == 1
    session = ran[1].document["session_id"]
    commands = (
        "sessions list",
        "sessions show",
        *(f"sessions export {session} --format {form}" for form in ("md", "json", "atif")),
        f"sessions show {session}",
        "sessions stats",
        "config show",
        "config show --json",
        "auth list",
        "models",
        "doctor",
        "profiles list",
        "permissions list",
    )
    ran.append(friday.run(*commands, program=("-c", COMMANDS), model="", timeout=60))
    assert [line for line in ran[-1].lines if "No such" in line] == []
    assert ran[-1].out.count("\nexit code 0") == len(commands), ran[-1].out
    assert ran[-1].out.count("GIT_TERMINAL_PROMPT=0") >= 4  # also in the exports
    crash = tmp_path / "crash.py"
    crash.write_text(
        "import runpy, sys\nfrom friday_cli.session.session import Session\n"
        f"async def prompt(self, *a, **k): raise RuntimeError('boom {PATTERNED}')\nSession.prompt = prompt\n"
        "sys.argv = ['friday', 'ask', *sys.argv[1:]]\nrunpy.run_module('friday_cli', run_name='__main__')\n"
    )
    ran.append(friday.run("go", program=(str(crash),), model="demo", timeout=60))
    assert (ran[-1].code, "boom [secret]" in ran[-1].err) == (1, True), ran[-1]
    for number, done in enumerate(ran):
        for canary in CANARIES:
            assert canary not in done.out + done.err, (number, canary)
    kept = b"".join(path.read_bytes() for path in (friday.home / "data").glob("friday.db*"))
    assert kept.count(b"GIT_TERMINAL_PROMPT=0") > 6  # the environments were printed, and are in the log
    own = {friday.config, friday.home / "auth.toml"}
    for path in (
        p for place in (friday.home, friday.project) for p in place.rglob("*") if p.is_file() and p not in own
    ):
        content = path.read_bytes()
        assert not [c for c in CANARIES if c.encode() in content], path


NAMED = "plain canary of a key_env of the settings, 4".replace(" ", "-")
OTHER = "canary=of*another+service/5"
LATER = "canary-of-a-service-that-was-added-later-6"


def test_a_key_without_a_known_form_is_masked_by_its_value(friday: Friday) -> None:
    """Variables that the settings name reach no command; what a file or a person repeats of a key reaches neither the
    model nor the screen, the store, the spilled output or an export."""
    friday.setenv("MYSVC", NAMED)
    friday.setenv("SIDE", OTHER)
    friday.setenv("COPY", f"a copy of {NAMED}")
    friday.setenv("GIVEN_TOKEN", "passed to commands")
    (friday.project / "notes.txt").write_text(f"one {NAMED}\ntwo {OTHER}\nthree {LATER}\n" * 900, encoding="utf-8")

    def rule(turn: Turn) -> Say:
        if turn.results:
            return Say(f"The files have {NAMED}.")
        reads = [("read_file", {"path": "notes.txt"}), ("bash", {"command": "env; cat notes.txt"})]
        return Say(calls=[*reads, ("bash", {"command": f"echo {OTHER}"})])

    ran = []
    with thinking(rule, "chat") as server:
        friday.reach(server)
        more = 'key_env = "MYSVC"\n[providers.side]\nbase_url = "http://127.0.0.1:1/v1"\nkey_env = "SIDE"\n'
        more += '[tools]\nenv_allow = ["MYSVC", "COPY", "GIVEN_TOKEN"]\n'
        friday.config.write_text(friday.config.read_text() + more, encoding="utf-8")
        for output in ("text", "json", "stream-json"):
            ran.append(friday(f"what is {NAMED}?", "--yolo", "--output-format", output))
            assert ran[-1].code == 0, ran[-1]
    friday.setenv("LATER", LATER)
    more = '[providers.later]\nbase_url = "http://127.0.0.1:1/v1"\nkey_env = "LATER"\n'
    friday.config.write_text(friday.config.read_text() + more, encoding="utf-8")
    session = ran[1].document["session_id"]
    commands = [f"sessions export {session} --format {form}" for form in ("md", "json", "atif")]
    ran.append(friday.run(*commands, program=("-c", COMMANDS), model="", timeout=60))
    sent = [str(message) for turn in server.turns for message in turn.body["messages"]]
    assert any("what is [secret]?" in text for text in sent)
    assert any("GIT_TERMINAL_PROMPT" in text and "MYSVC" not in text and "COPY" not in text for text in sent)
    assert any("GIVEN_TOKEN=passed to commands" in text for text in sent)
    assert "commands do not get MYSVC, COPY, which holds a key of Friday" in ran[0].err
    files = [path for path in (friday.home / "data").rglob("*") if path.is_file()]
    kept = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    assert any(text.count("one [secret]") == 900 for text in kept), "the whole output was spilled"
    for text in (*sent, *kept, *(done.out + done.err for done in ran)):
        assert NAMED not in text
        assert OTHER not in text
    assert "three [secret]" in ran[-1].out
    assert LATER not in ran[-1].out
