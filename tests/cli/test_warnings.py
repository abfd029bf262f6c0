"""Warnings of `friday ask` about claims that the harness can check against its own record, and the lines of receipts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cli.console import Console

CHECK = "sh check.sh"


def use(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def start(profile: str = "coder", **more: Any) -> dict[str, Any]:
    return {"calls": [use("delegate_task", **{"profile": profile, "task": "Check it.", **more})]}


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"calls": [use("bash", command=command, **more)]}


def hand_in(result: str = "See my checks.", **more: Any) -> dict[str, Any]:
    return {"calls": [use("task_result", result=result, **more)]}


PASSED = {"checks": [{"command": CHECK, "outcome": "passed"}]}
FIXED = {"calls": [use("write_file", path="fixed", content="x")]}
PASSES = {"text": "`sh check.sh` passes now: all checks pass."}


@pytest.fixture
def ask(console: Console) -> Any:
    """Run `friday ask` on agents that play a script; returns what it wrote on standard error."""
    (console.project / "check.sh").write_text("test -f fixed\n", encoding="utf-8")

    def run(*options: str, **agents: Any) -> str:
        path = console.home / "play.yaml"
        script = {name.replace("_", "."): turns for name, turns in agents.items()}
        path.write_text(yaml.safe_dump({"agents": script}), encoding="utf-8")
        return console.ok("ask", "-m", f"scripted:{path}", "--yolo", *options, "go").err

    return run


def test_the_last_run_of_a_check_counts_whichever_agent_ran_it(ask: Any) -> None:
    assert "warning" not in ask(a=[start(), FIXED, bash(CHECK), PASSES], a_1=[bash(CHECK), hand_in("It fails.")])
    broken = ask(a=[bash(CHECK), start(), PASSES], a_1=[bash(f"rm fixed; {CHECK}"), hand_in("It fails.")])
    assert f"claims that tests or checks pass, but `rm fixed; {CHECK}` ended with exit 1" in broken


def test_a_server_in_the_background_is_no_failed_check(ask: Any, console: Console) -> None:
    (console.project / "run.sh").write_text("true\n", encoding="utf-8")
    server = bash("sh -c 'sleep 60'", background=True)
    assert "warning" not in ask(a=[bash("sh run.sh"), server, {"text": "All tests pass."}])
    unseen = ask(a=[bash(f"{CHECK}; sleep 60", background=True), PASSES])
    assert f"but `{CHECK}; sleep 60` was started in the background and its end was not seen" in unseen


def test_what_sub_agents_ran_in_an_earlier_process_is_no_false_claim(ask: Any) -> None:
    ask(a=[start(), {"text": "Done."}], a_1=[FIXED, bash(CHECK), hand_in(**PASSED)])
    assert "warning" not in ask("--continue", a=[{"text": "As I said, all checks pass."}])


def test_what_a_resumed_agent_of_a_sub_agent_ran_is_no_false_claim(ask: Any, console: Console) -> None:
    profiles = console.friday_home / "profiles"
    profiles.mkdir(parents=True)
    for name, more in (("lead", "subAgents: [writer]"), ("writer", "subAgents: []")):
        text = f"---\nname: {name}\ndescription: The {name}.\nallowedTools: '*'\n{more}\n---\nWork.\n"
        (profiles / f"{name}.md").write_text(text, encoding="utf-8")
    lead = [start("writer", task="Write."), hand_in("It looked.")]
    agents = {"a_1": lead, "a_1_1": [{"calls": [use("list_dir")]}, hand_in("Nothing."), FIXED, hand_in("Made.")]}
    resumed = [start("lead"), start(resume="a.1.1"), {"text": "I have written the missing file."}]
    assert "claims changes" not in ask(a=resumed, **agents)


@pytest.mark.parametrize("ran", ["echo sh check.sh", "cat x; echo sh check.sh", "cd ."])
def test_a_command_that_only_names_a_check_is_not_the_check(ask: Any, ran: str) -> None:
    claimed = {"checks": [{"command": "cd . && sh check.sh" if ran == "cd ." else CHECK, "outcome": "passed"}]}
    err = ask(a=[start(), {"text": "Done."}], a_1=[bash(ran), hand_in(**claimed)])
    assert "but that command was not run" in err


@pytest.mark.parametrize("ran", [CHECK, "true\nsh check.sh", "cd . && sh check.sh", "X=1 sh check.sh 2>&1 | tail -3"])
def test_a_check_in_a_longer_command_was_run(ask: Any, ran: str) -> None:
    assert "warning" not in ask(a=[start(), {"text": "Done."}], a_1=[FIXED, bash(ran), hand_in(**PASSED)])


def test_a_result_without_a_look_names_what_was_run_instead(ask: Any) -> None:
    err = ask(a=[start(), {"text": "Done."}], a_1=[{"calls": [use("todo", items=[])]}, hand_in("It is fine.")])
    assert "a.1: no tool was run except todo and task_result: nothing in this result was checked" in err


def test_a_receipt_says_that_a_command_has_more_lines_and_how_one_in_the_background_ended(
    ask: Any, console: Console
) -> None:
    ask(
        a=[start(), {"text": "Done."}],
        a_1=[
            bash("true\nrm -f big.txt"),
            bash("sleep 60; true", background=True),
            bash("sh check.sh; exit 3", background=True),
            {"calls": [use("bash_output", id="job-2", wait_s=20)]},
            hand_in("Done."),
        ],
    )
    tree = console.ok("sessions", "show", "--tree").out
    assert "ran: true ⏎ rm -f big.txt -> exit 0" in tree
    assert "ran: sleep 60; true -> started in the background" in tree
    assert tree.count("check.sh") == 1
    assert "ran: sh check.sh; exit 3 -> exit 3" in tree
