"""`friday ask` with an external agent as the only sub-agent of a main agent that sends nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from friday_cli.agents.drivers import Drivers
from friday_cli.agents.ladder import LadderDriver
from friday_cli.cli import run
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.subagents.driver import ModelDriver
from friday_cli.extensions.profiles.parse import parse
from friday_cli.extensions.profiles.profile import ExternalAgent, Profile
from friday_cli.external_agents.programs import PROGRAMS, program_of
from friday_cli.session.session import Options, Session
from tests.external_agents.conftest import AGENT, Robot

EDIT = {"kind": "edit", "content": [{"type": "diff", "path": "b.txt", "newText": "two\n"}]}
RUN = {"kind": "execute", "rawInput": {"command": "touch made"}}


def asks(call: dict[str, Any]) -> list[Any]:
    return [{"ask": {"call": call, "then": [{"write": {"b.txt": "two\n"}}]}}, {"say": " done"}]


def test_the_answer_is_the_last_text_and_the_receipt_has_what_was_seen(robot: Robot) -> None:
    robot.in_git()
    robot.plays(
        [{"think": "hm"}, {"say": "I look."}, {"edit": {"b.txt": "two\n"}}, {"run": "true"}, {"say": "b.txt is new."}]
    )
    ran = robot.ask("Make b.txt", "--mode", "auto")
    assert ran.code == 0
    assert ran.document["result"] == "b.txt is new."
    receipt = ran.agent("a.1")["receipt"]
    assert [(row["path"], row["seen"]) for row in receipt["files"]] == [("b.txt", "seen while a command ran")]
    assert receipt["reported"] == ["changed b.txt", "ran true -> ok"]
    assert "commands" not in receipt  # nobody saw one
    assert not (robot.project / "b.txt").exists()  # it worked in a worktree
    said = robot("again", "--mode", "auto", "--profile", "robot")
    assert "friday worktrees apply" in said.err


def test_the_program_reads_the_prompt_of_the_profile_and_the_task(robot: Robot) -> None:
    robot.plays([{"say": "yes"}])
    assert robot.ask("The task.").document["result"] == "yes"
    assert robot.prompts() == ["You are the robot.\n\nThe task."]
    (begun,) = [one for one in robot.received if one["method"] == "initialize"]
    assert begun["params"]["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }


@pytest.mark.parametrize(
    "profile", [Profile("robot", "", "", external=ExternalAgent("codex")), Profile("robot", "", "", models=("a",))]
)
def test_a_replay_starts_no_program_and_a_ladder_asks_the_recorded_check(profile: Profile) -> None:
    shared: Any = SimpleNamespace(services=None, profiles=SimpleNamespace(found={"robot": profile}))
    agent: Any = SimpleNamespace(parent="a", profile="robot")

    async def recorded(*_: Any) -> Any:
        raise AssertionError("no check is run here")

    surroundings: Any = SimpleNamespace(live=lambda value: None, check=recorded)
    made = Drivers(shared, Path, surroundings).of(agent)
    assert isinstance(made, LadderDriver if profile.models else ModelDriver)


@pytest.mark.parametrize(
    ("call", "argv", "answer"),
    [
        (EDIT, ("--mode", "ask"), "no"),
        (EDIT, ("--mode", "edits"), "yes"),
        (EDIT, ("--mode", "edits", "--deny", "write_file(b.*)"), "no"),
        ({**EDIT, "content": [{"type": "diff", "path": "../b.txt", "newText": ""}]}, ("--mode", "edits"), "no"),
        (RUN, ("--mode", "edits"), "no"),
        (RUN, ("--allow", "bash(touch *)"), "yes"),
        (
            {"kind": "execute", "rawInput": {"command": ["bash", "-lc", "touch made"]}},
            ("--allow", "bash(touch *)"),
            "yes",
        ),
        ({"kind": "execute", "rawInput": {"command": "touch made; rm -rf x"}}, ("--allow", "bash(touch *)"), "no"),
        ({"kind": "read", "locations": [{"path": "a.txt"}]}, (), "yes"),
        ({"kind": "read", "locations": [{"path": "/etc/shadow"}]}, (), "no"),
        ({"kind": "other", "title": "Send mail"}, ("--mode", "auto"), "no"),
        ({"kind": "other", "title": "Send mail"}, ("--allow", "external(robot:Send *)"), "yes"),
        ({}, ("--yolo",), "yes"),
    ],
)
def test_its_questions_are_judged_by_the_rules_and_the_mode(
    robot: Robot, call: dict[str, Any], argv: tuple[str, ...], answer: str
) -> None:
    robot.plays(asks(call))
    ran = robot.ask("go", *argv)
    assert ran.document["result"] == f"[{answer}] done"
    assert (robot.project / "b.txt").exists() is (answer == "yes")


def test_a_resumed_agent_is_judged_as_before(robot: Robot) -> None:
    robot.plays([{"say": "first"}])
    session = robot.ask("go").document["session_id"]
    robot.plays(asks({"kind": "other", "title": "Send mail"}))
    again = robot.json("More.", "--resume-agent", f"{session}:a.1", "--allow", "external(robot:Send *)")
    assert again.document["result"] == "[yes] done"


def test_a_tool_that_the_profile_lacks_is_refused(robot: Robot) -> None:
    robot.plays(asks(RUN), front=("allowedTools: [read_file, write_file]",))
    assert robot.ask("go", "--yolo").document["result"] == "[no] done"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"errors": {"initialize": {"code": 1, "message": "no"}}}, "robot refused to begin: no"),
        (
            {"errors": {"session/new": {"code": -32000, "message": "auth"}}},
            "robot needs a login: set its key in `env` of the profile",
        ),
        (
            {"errors": {"session/prompt": {"code": -32000, "message": "auth"}}},
            "robot needs a login: set its key in `env` of the profile",
        ),
        ({"errors": {"session/new": {"code": 5, "message": "\x1b[31mbad"}}}, "robot did not open a session: bad"),
        ({"about": {"protocolVersion": 9}}, "does not speak version 1"),
        ({"new": {"sessionId": None}}, "a session without an id"),
    ],
)
def test_what_goes_wrong_at_the_start_is_one_line(robot: Robot, script: dict[str, Any], words: str) -> None:
    robot.plays([{"say": "never"}], **script)
    ran = robot.ask()
    assert ran.code == 1
    assert words in ran.agent("a.1")["error"]
    assert "\n" not in ran.agent("a.1")["error"]


def test_a_program_that_its_node_cannot_run_says_which_one_it_needs(robot: Robot) -> None:
    program = robot.home / "gemini"
    program.write_text("#!/bin/sh\necho \"env: 'node': No such file or directory\" >&2; exit 127\n", encoding="utf-8")
    program.chmod(0o755)
    robot.setenv("PATH", str(robot.home))
    ran = robot.json("go", "--profile", "gemini")
    assert ran.code == 1
    error = ran.agent("a.1")["error"]
    assert error.endswith("No such file or directory (It needs Node 20 or newer: check `node --version`.)")
    assert "\n" not in error


def test_a_program_that_is_not_installed_is_named_with_what_to_type(robot: Robot) -> None:
    robot.setenv("PATH", str(robot.home))
    ran = robot.json("go", "--profile", "codex")
    assert ran.code == 1
    assert ran.agent("a.1")["error"] == "codex is not installed: npm i -g @agentclientprotocol/codex-acp"


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_a_login_is_made_by_the_program_in_this_terminal(robot: Robot, name: str) -> None:
    program = robot.home / PROGRAMS[name].argv[0]
    program.write_text('#!/bin/sh\necho "$@" and $HOME; exit 7\n', encoding="utf-8")
    program.chmod(0o755)
    ran = robot.run(
        program=("-m", "friday_cli", "profiles", "login", name), model="", PATH=str(robot.home), HOME="/mine"
    )
    assert (ran.code, ran.out) == (7, f"{' '.join(PROGRAMS[name].login)} and /mine\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("codex", "codex is not installed: npm i -g @agentclientprotocol/codex-acp"),
        ("gemini", "gemini uses a key, not a login: friday auth set gemini"),
        ("coder", "The profile coder runs no other program."),
    ],
)
def test_what_cannot_log_in_is_told_with_what_to_type(robot: Robot, name: str, words: str) -> None:
    ran = robot.run(program=("-m", "friday_cli", "profiles", "login", name), model="", PATH=str(robot.home))
    assert (ran.code, words in " ".join(ran.err.split())) == (2, True), ran.err


@pytest.mark.parametrize(
    ("argv", "front", "told"),
    [
        (("--mode", "edits"), (), "deny"),
        (("--mode", "auto"), (), "deny"),  # without a sandbox its commands are asked about
        (("--yolo",), (), "allow"),
        (("--yolo", "--deny", "bash(rm *)"), (), "deny"),  # a rule would not reach them
        (("--yolo",), ("allowedTools: [read_file, write_file]",), "deny"),
    ],
)
def test_sub_agents_of_a_program_that_ask_nobody_work_only_where_nothing_is_asked(
    robot: Robot, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], front: tuple[str, ...], told: str
) -> None:
    robot.plays([{"environ": ["OWN"]}], front=front)
    made = program_of(ExternalAgent("", (sys.executable, AGENT, str(robot.home / "acp.json"))))
    monkeypatch.setitem(PROGRAMS, "opencode", msgspec.structs.replace(made, env={"OWN": "{children}"}))
    robot.profile("robot", "external: opencode", *front)
    assert robot.ask("go", *argv).document["result"] == f'{{"OWN": "{told}"}}'


async def test_the_chat_refuses_it_as_main_agent_and_says_what_to_use(robot: Robot) -> None:
    robot.plays([{"say": "never"}])
    with pytest.raises(UsageError, match="not the main agent of a chat") as refused:
        await Session.open(Options(robot.project, profile="robot"), env=robot.env)
    assert 'friday ask --profile robot "..."' in str(refused.value)


def test_a_sub_agent_of_a_model_is_such_an_agent_as_well(robot: Robot) -> None:
    robot.plays([{"claim_run": "pytest -q"}, {"say": "from the program"}])
    call = "{name: delegate_task, arguments: {profile: robot, task: go}}"
    path = robot.home / "play.yaml"
    path.write_text(f'agents:\n  a: [{{calls: [{call}]}}, {{text: "{{results}}"}}]\n', encoding="utf-8")
    ran = robot.json("go", model=f"scripted:{path}")
    assert "from the program" in ran.document["result"]
    assert "reported by it: ran pytest -q -> ok" in ran.document["result"]
    assert ran.agent("a.1")["model"] == "external/robot"


def test_only_a_profile_of_ones_own_names_a_program() -> None:
    page = "---\nname: x\ndescription: y\nexternal: {}\n---\nPrompt"
    with pytest.raises(FileError, match="only your own profiles"):
        parse("x.md", page.format("{acp: [sh, -c, id]}").encode(), origin="project")
    known = parse("x.md", page.format("codex").encode(), origin="project")
    assert (known.program, known.max_token_budget, known.max_iterations, known.timeout) == ("codex", 200_000, 60, 1800)
    with pytest.raises(FileError, match="Did you mean codex"):
        parse("x.md", page.format("codx").encode())


def test_every_known_program_has_a_row_and_a_profile() -> None:
    from friday_cli.extensions.profiles.external import KNOWN
    from friday_cli.extensions.profiles.lookup import shipped_folder

    assert tuple(PROGRAMS) == KNOWN
    assert sorted(KNOWN) == sorted(file.stem for file in Path(shipped_folder(), "external").glob("*.md"))


def test_the_list_of_profiles_says_what_can_be_started_and_how_to_install_it(
    robot: Robot, capsys: pytest.CaptureFixture[str]
) -> None:
    robot.setenv("PATH", str(robot.home))
    program = robot.home / "gemini"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    assert run(["profiles", "list"]) == 0
    err = capsys.readouterr().err
    assert "other assistants that are installed: gemini (`friday ask --profile NAME`)" in err
    assert run(["profiles", "show", "codex"]) == 0
    shown = capsys.readouterr()
    assert "its work is done by codex-acp, not installed: npm i -g @agentclientprotocol/codex-acp" in shown.err
    assert "200,000 tokens, 60 turns, 1800 s" in shown.out
