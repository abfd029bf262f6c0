"""`friday eval`, through the command line with scripted models."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from friday_cli.core.protocol.errors import PROCESS_LIMIT
from friday_cli.evals import trial
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from tests.cli.console import CommandResult, Console
from tests.workspace.worktrees.repo_fixture import commit, git, repository

FREE = {"input": 0.0, "output": 0.0}
WRITES = {"name": "write_file", "arguments": {"path": "answer.txt", "content": "42\n"}}
SOLVES: list[dict[str, Any]] = [{"calls": [WRITES]}, {"text": "done"}]
TASK: dict[str, Any] = {
    "task": "Write 42 into answer.txt.",
    "start": {"question.txt": "?\n"},
    "solution": {"answer.txt": "42\n", "wanted.txt": "42\n"},
    "hidden": ["wanted.txt"],
    "check": ["cmp answer.txt wanted.txt"],
}


def model(console: Console, name: str, turns: list[dict[str, Any]], price: dict[str, float] | None = None) -> str:
    """An arm whose main agent takes these turns."""
    (console.home / f"{name}.json").write_text(json.dumps({"agents": {"a": turns}, "price": price or FREE}))
    return f"{name}=--model scripted:{console.home / name}.json"


def suite(console: Console, count: int, **change: Any) -> None:
    lines = [json.dumps(TASK | {"name": f"t{number}"} | change) for number in range(count)]
    (console.project / "suite.jsonl").write_text("\n".join(lines))


def evaluate(console: Console, *arms: str, trials: int = 1, more: tuple[str, ...] = ()) -> CommandResult:
    given = [word for arm in arms for word in ("--arm", arm)]
    return console("eval", "run", "suite.jsonl", "--trust", "--trials", str(trials), *given, *more)


def sessions(console: Console) -> int:
    return len(console.ok("sessions", "list", "--all", "--json").document)


def identity(console: Console) -> str:
    return str(console.ok("eval", "status").rows[0][0])


def test_arms_are_compared_and_nothing_is_paid_twice(console: Console) -> None:
    suite(console, 6)
    good, bad = model(console, "good", SOLVES), model(console, "bad", [{"text": "I did it."}])
    ran = evaluate(console, bad, good)
    assert ran.code == 0, ran
    assert "6 tasks x 2 arms x 1 trial = 12 sessions. Differences below about " in ran.err
    assert "failed" not in ran.err, "what a check refused is not a failure of the run"
    assert re.search(r"done 12 of 12, rate \S+, tokens [\d,]+$", ran.err, re.MULTILINE), ran.err
    assert "good is better than bad: +100 points (95 %: +50 to +100)" in ran.out
    assert ("bad   0 of 6" in ran.out, "good  6 of 6" in ran.out) == (True, True), ran.out
    assert sessions(console) == 12
    again = evaluate(console, bad, good)
    assert (again.out, "nothing is run: each trial has its result already" in again.err) == (ran.out, True), again
    assert sessions(console) == 12
    third = evaluate(console, bad, good, model(console, "third", [*SOLVES, {"text": "again"}]))
    assert (third.code, sessions(console)) == (0, 18)
    assert "third against good: cannot tell: +0 points" in third.out
    shown = console.ok("eval", "status", identity(console))
    assert ": `cmp answer.txt wanted.txt` ended with exit code 2" in shown.out


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyError("oh")])
def test_a_trial_that_fails_by_friday_itself_ends_no_other(
    console: Console, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    begin = Session.open

    async def fails(options: Options, *, env: Mapping[str, str] | None = None) -> Session:
        if "bad" in (options.model or ""):
            raise error
        return await begin(options, env=env)

    suite(console, 2)
    monkeypatch.setattr(Session, "open", fails)
    ran = evaluate(console, model(console, "bad", SOLVES), model(console, "good", SOLVES))
    assert "good  2 of 2" in ran.out, ran
    assert {int(count) for count in re.findall(r"waiting (\d+)", ran.err)} <= {1, 2}, ran.err
    shown = console.ok("eval", "status", identity(console)).out
    assert (PROCESS_LIMIT if isinstance(error, RuntimeError) else "Friday itself failed: KeyError: 'oh'") in shown


@pytest.mark.parametrize("closes", [True, False])
def test_a_trial_is_charged_where_its_work_cannot_be_kept(
    console: Console, monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    """As on a full disk, which the end of its session or the file of its changes finds first. The next try asks no model again."""
    close = Session.close

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    async def closed(session: Session, *, last: bool = True) -> None:
        await close(session, last=last)
        full()

    suite(console, 1)
    arms = [model(console, "good", SOLVES, {"input": 1000.0, "output": 1000.0})]
    with monkeypatch.context() as patch:
        patch.setattr(trial, "replace_file", full) if closes else patch.setattr(Session, "close", closed)
        ran = evaluate(console, *arms, more=("--max-cost", "50", "--yes"))
    paid = re.search(r"; (\$7\.\d\d) of \$50\.00 spent", ran.out)  # the path of the folder is part of what is paid
    assert paid is not None, ran
    again = console.ok("eval", "retry", identity(console), "--trust", "--yes")
    assert (f"; {paid[1]} of $50.00 spent" in again.out, sessions(console)) == (True, 1)
    assert re.search(rf"good +1 of 1 .* {re.escape(paid[1])} ", again.out), again


def test_a_check_that_changes_costs_nothing(console: Console) -> None:
    suite(console, 2)
    evaluate(console, model(console, "good", SOLVES))
    suite(console, 2, check=["grep -q 43 answer.txt"])
    ran = console("eval", "rescore", identity(console), "--trust", "--format", "json")
    assert (ran.code, ran.document["arms"][0]["passed"], sessions(console)) == (0, 0, 2)


@pytest.mark.parametrize(
    ("change", "turns", "code", "said"),
    [
        ({}, [{"fail": {"kind": "auth", "message": "bad key"}}], 75, "the service: "),
        ({"setup": "exit 7"}, SOLVES, 6, "the setup ended with exit code 7"),
        ({"check": ["no-such-program"]}, SOLVES, 6, "`no-such-program` cannot be started here"),
    ],
)
def test_failures_of_the_harness_are_never_the_agents(
    console: Console, change: dict[str, Any], turns: list[dict[str, Any]], code: int, said: str
) -> None:
    suite(console, 1, **change)
    ran = evaluate(console, model(console, "arm", turns))
    assert (ran.code, said in ran.out) == (code, True), ran
    assert ("0 of 0" in ran.out, "counts for none" in ran.out) == (True, True)


def test_equal_errors_are_one_line_with_their_number(console: Console) -> None:
    suite(console, 3, setup="exit 7")
    ran = evaluate(console, model(console, "arm", SOLVES))
    assert "100 % of the trials have no result: this eval decides nothing" in ran.err
    assert "3 trials ended through no fault of an agent" in ran.out
    (line,) = [line for line in ran.out.splitlines() if "exit code 7" in line]
    assert re.match(r"  t\d, arm, trial 1 and 2 more: ", line), line


def test_work_without_a_price_costs_an_unknown_sum(console: Console) -> None:
    suite(console, 1)
    shown = evaluate(console, model(console, "arm", SOLVES)).out + console.ok("eval", "status").out
    page = console.ok("eval", "report", identity(console), "-f", "html").out
    assert ("$0.00" in shown + page, shown.count("n/a"), page.count(">n/a<")) == (False, 3, 3), shown


def test_why_a_trial_failed_is_one_line_and_whole_on_the_page(console: Console) -> None:
    suite(console, 1, check=["printf 'first of all\\n2 tests failed\\n'; exit 3"])
    evaluate(console, model(console, "arm", SOLVES))
    shown = console.ok("eval", "status", identity(console)).out
    assert "ended with exit code 3: 2 tests failed" in shown
    page = console.ok("eval", "report", identity(console), "-f", "html").out
    assert "<summary>t0, arm, trial 1: failed</summary>" in page
    assert "first of all\n2 tests failed</pre>" in page


def test_a_limit_of_its_own_is_shown_apart(console: Console) -> None:
    suite(console, 1)
    looks = {"name": "list_dir", "arguments": {"path": "."}}
    ran = evaluate(console, model(console, "arm", [{"calls": [looks]}] * 9) + " --max-turns 2")
    assert "1 trial failed at a limit of its own (capped)" in ran.out
    assert "0 of 1" in ran.out


def test_the_cap_holds(console: Console) -> None:
    suite(console, 6)
    price = {"input": 100.0, "output": 100.0}
    arm = model(console, "arm", SOLVES, price)
    assert "--max-cost is missing" in evaluate(console, arm).err
    ran = evaluate(console, arm, more=("--max-cost", "5", "--yes", "--format", "json"))
    document = ran.document
    assert 0 < document["spent"] <= 5
    assert (ran.code, any(row["outcome"] == "not run" for row in document["rows"])) == (5, True)


def test_changed_files_that_steer_the_check_are_named(console: Console) -> None:
    suite(console, 1)
    more = {"name": "write_file", "arguments": {"path": "conftest.py", "content": "\n"}}
    ran = evaluate(console, model(console, "arm", [{"calls": [WRITES, more]}, {"text": "done"}]))
    assert "t0, arm, trial 1: changed what steers the check: conftest.py" in ran.out


@pytest.mark.usefixtures("sandbox_kind")
def test_a_trial_finds_neither_solution_nor_hidden_files_nor_other_trials(console: Console, tmp_path: Path) -> None:
    project = repository(console.project, **{"code.txt": "x = 1\n"})
    first = git(project, "rev-parse", "HEAD").strip()
    commit(project, **{"code.txt": "x = SOLUTION\n", "test.txt": "SOLUTION\n"})
    last = git(project, "rev-parse", "HEAD").strip()
    task = {"task": "Look.", "commit": first, "reference": last, "hidden": ["test.txt"], "check": ["true"]}
    lines = [
        json.dumps(task | {"name": name, "check": ["test -s seen.txt", "! grep -q SOLUTION seen.txt"]}) for name in "ab"
    ]
    (project / "suite.jsonl").write_text("\n".join(lines))
    kept = console.friday_home
    planted = [kept / "data" / "eval" / name for name in ("runs/other/checks/x/test.txt", "work/other/patch")]
    for path in planted:  # what a check that runs at the same time, and what an earlier trial left
        path.parent.mkdir(parents=True)
        path.write_text("x = SOLUTION\n")
    looks = (
        f"(echo began; cat {project}/*; cat {project}/.git/* {project}/.git/*/* ; git -C {project} log -p --all; git log -p --all --reflog;"
        f" git cat-file -p {last}; cat .git/FETCH_HEAD .git/objects/info/alternates; git remote -v;"
        f" grep -rs SOL[U]TION {kept} {tmp_path} ..; cat test.txt) > seen.txt 2>&1; true"
    )
    wanted = (f"{project}/code.txt", f"{project}/suite.jsonl", *map(str, planted), f"{kept}/data/friday.db")
    reads: list[dict[str, Any]] = [{"name": "read_file", "arguments": {"path": path}} for path in wanted]
    for folder in (str(project), str(kept)):
        reads.append({"name": "grep", "arguments": {"pattern": "x = SOL", "path": folder}})
        reads.append({"name": "glob", "arguments": {"pattern": "**/*", "path": folder}})
    solves = [{"calls": [{"name": "bash", "arguments": {"command": "echo SOL''UTION > mine.txt"}}]}]
    turns = [
        {"calls": reads},
        {"text": "{results}", "calls": [{"name": "write_file", "arguments": {"path": "look.sh", "content": looks}}]},
        {"calls": [{"name": "bash", "arguments": {"command": "sh look.sh"}}]},
        {"text": "{results}"},
    ]
    ran = evaluate(console, model(console, "solver", [*solves, {"text": "done"}]), model(console, "seeker", turns))
    assert ran.code == 0, ran
    found = json.loads(console.ok("eval", "report", identity(console), "--format", "json").out)
    seeker = next(arm for arm in found["arms"] if arm["name"] == "seeker")
    assert (seeker["passed"], seeker["trials"]) == (2, 2), found["rows"]
    for row in found["rows"]:
        if row["arm"] == "seeker":
            shown = console.ok("sessions", "show", row["record"]["work"]["session"]).out
            assert "x = SOLUTION" not in shown
    assert (
        subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, text=True).stdout
        == "?? suite.jsonl\n"
    )


def test_no_link_of_an_agent_is_followed(console: Console, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    suite(
        console,
        1,
        hidden=["deep/wanted.txt"],
        solution={"answer.txt": "1\n", "deep/wanted.txt": "1\n"},
        check=["test -f deep/wanted.txt"],
    )
    links = {"name": "bash", "arguments": {"command": f"ln -s {outside} deep"}}
    ran = evaluate(console, model(console, "arm", [{"calls": [links]}, {"text": "done"}]) + " --allow 'bash(ln *)'")
    assert "1 of 1" in ran.out, ran
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("arm", "problem"),
    [
        ("x", "is not NAME='FLAGS'"),
        ("a b=", "may only contain letters"),
        ("x=--yolo", "cannot be read"),
        ("x=--cwd /", "cannot be read"),
        ("x='", "No closing quotation"),
        ("x=--steering nowhere", "is not a folder"),
        ("x=--model demo --profile nobody", "nobody"),
    ],
)
def test_an_arm_that_cannot_be_is_refused(console: Console, arm: str, problem: str) -> None:
    suite(console, 1)
    ran = evaluate(console, arm)
    assert (ran.code, problem in ran.err) == (2, True), ran


def test_arms_with_the_same_settings_are_refused(console: Console) -> None:
    suite(console, 1)
    ran = evaluate(console, "x=--model demo", "y=-m demo")
    assert (ran.code, "The arms x and y have the same settings" in ran.err) == (2, True)


def test_an_arm_can_be_run_twice_to_see_what_chance_makes(console: Console) -> None:
    suite(console, 6)
    arms = model(console, "good", SOLVES), model(console, "bad", [{"text": "no"}])
    ran = evaluate(console, *arms, more=("--aa",))
    assert "good-again has the settings of good: chance alone made +0 points (95 %: -50 to +50)" in ran.out, ran
    assert ("bad is worse than good" in ran.out, ran.out.count("bad is worse"), sessions(console)) == (True, 1, 18)
    assert console.ok("eval", "report", identity(console)).out == ran.out
    assert "is called good-again" in evaluate(console, *arms, "good-again=--model demo", more=("--aa",)).err


def test_a_baseline_fails_a_job_that_is_worse(console: Console) -> None:
    suite(console, 6)
    good, bad = model(console, "good", SOLVES), model(console, "bad", [{"text": "I did it."}]).replace("bad=", "good=")
    evaluate(console, good)
    console.ok("eval", "save", identity(console), "base.json")
    against = ("--against", "base.json")
    ran = evaluate(console, bad, more=against)
    assert (ran.code, "good is worse than the baseline (good): -100 points" in ran.err) == (1, True), ran
    ran = evaluate(console, good, more=against)
    assert (ran.code, "a loss of more than 5 points is not ruled out" in ran.err) == (6, True), ran
    assert evaluate(console, good, more=(*against, "--lenient")).code == 0
    ran = evaluate(console, good, good.replace("good=", "other=") + " --max-turns 9", more=against)
    assert (ran.code, "other: the baseline has no arm of this name, but good" in ran.err) == (6, True), ran
    assert evaluate(console, good, more=("--min-pass", "0.4")).code == 0
    assert evaluate(console, good, more=("--min-pass", "0.9")).code == 6
    assert evaluate(console, bad, more=("--min-pass", "0.9")).code == 1
    suite(console, 6, setup="false")
    ran = evaluate(console, good, more=against)
    assert (ran.code, "100 % of the trials have no result" in ran.err) == (6, True)


def test_the_page_and_the_file_for_ci_run_nothing(console: Console) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    suite(console, 6, check=[f"echo '{hostile}'; false"])
    evaluate(console, model(console, "good", SOLVES), model(console, "bad", [{"text": "no"}]))
    page = console.ok("eval", "report", identity(console), "-f", "html").out
    assert ("<script" in page, "\u202e" in page, "default-src 'none'" in page) == (False, False, True)
    assert page.count("&lt;script&gt;") >= 12
    assert page.count('<td class="long">`echo ') == 12, "a reason may take several lines"
    junit = console.ok("eval", "report", identity(console), "-f", "junit").out
    cases = [case for case in ElementTree.fromstring(junit).iter("testcase") if case.find("failure") is not None]
    assert len(cases) == 12


def test_what_a_killed_process_left_is_removed_a_day_later(console: Console) -> None:
    suite(console, 1)
    arm = model(console, "good", SOLVES)
    evaluate(console, arm)
    folders = [console.friday_home / "data" / "eval" / "runs" / name for name in ("old", "new")]
    for folder in folders:
        (folder / "starts").mkdir(parents=True)
    os.utime(folders[0], (0, 0))
    evaluate(console, arm)
    assert [folder.exists() for folder in folders] == [False, True]


@pytest.mark.slow
def test_the_page_shows_what_its_first_command_prints(console: Console) -> None:
    page = (Path(__file__).parents[2] / "docs" / "eval.md").read_text(encoding="utf-8")
    first = next(line for line in page.splitlines() if line.startswith("friday eval run sample"))
    ran = console.ok(*shlex.split(first)[1:])
    shown = page.partition("```text\n")[2].partition("```")[0]
    varies = r"eval \w+:|[\d,]+ +[\d.]+ s  "  # the id, tokens and time
    assert re.sub(varies, "", shown) == re.sub(varies, "", ran.out)
