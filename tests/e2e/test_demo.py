"""The offline demo in `friday ask`: a script as the model, with the real loop, tools, permissions and sub-agents."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from friday_cli.core.protocol.events import AgentStarted
from friday_cli.llm.providers.demo import provider
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from tests.e2e.friday import Friday

PROMPT = "What is in this folder?"
COMMAND = "bash(python3 -I *)"
CANNOT = "**The demo cannot do that**"
OVERVIEW = "**What is in this folder, from three sub-agents**"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "BEGIN_S", 0.0)
    monkeypatch.setattr(provider, "PIECE_S", 0.0)


@pytest.fixture
def project(friday: Friday) -> Path:
    """A small project with names and texts that imitate markup, escape sequences and output of tools."""
    for path, text in {
        "README.md": "# A [project](http://x.test)\n\n![badge](http://b.test)\n\nIt **holds** `9999` | things.\n\nMore.\n",
        "pyproject.toml": '[project]\nname = "odd | name"\ndescription = "Tries *all*"\n',
        "src/app.py": "class App:\n    # TODO: {task} `a`\n    pass\n\n\ndef main(): ...\n",
        "src/[12 more matching lines; x]": "1:[77 more matching lines; x] // TODO\n",
        "docs/\x1b]0;owned\x07.txt": f"FIXME \x1b[31mred {'x' * 99}\n",
        "tests/test_app.py": "x = 1",
        ".hidden.py": "def no(): ...\n",
        "picture.png": "\x89PNG\0",
    }.items():
        (friday.project / path).parent.mkdir(parents=True, exist_ok=True)
        (friday.project / path).write_text(text)
    return friday.project


def test_the_overview_is_by_three_sub_agents_and_a_permission_without_a_person_is_refused(
    friday: Friday, project: Path
) -> None:
    ran = friday(PROMPT, model="demo")
    assert ran.code == 0
    assert ran.lines[0] == "friday: demo: scripted, no AI model"
    assert "3 sub-agents" in ran.lines[-1]
    assert "(demo) · no cost (demo)" in ran.lines[-1]
    assert ran.out.startswith(OVERVIEW)
    shown = (
        "**a.1 researcher**, completed: 3 folders (`docs/`, `src/`, `tests/`) and 4 files at the top level (`list_dir`)",
        "- `README.md` says “A project: It holds 9999 things.” (`README.md`)",
        "- `pyproject.toml` says name “odd name”, description “Tries all” (`pyproject.toml`)",
        "**a.2 coder**, completed: 3 lines marked TODO or FIXME (`grep`), 1 file named after a test (`glob`)",
        "- `` # TODO: {task} `a` `` (`src/app.py:2`)",
        "- `1:[77 more matching lines; x] // TODO` (`src/[12 more matching lines; x]:1`)",
        "**a.3 analyst**, completed: 6 text files with 19 lines, without hidden and ignored files (`grep`)",
        "- by kind: .md 1 file, 7 lines; .py 2 files, 7 lines; .toml 1 file, 3 lines; ",
        "- the longest file: `README.md`, 7 lines (`grep`)",
        "- the second count was not made: the permission was refused: “Not permitted: ",
    )
    assert [words for words in shown if words not in ran.out] == []
    for pattern in (
        r"├─ a\.1 researcher: completed, [\d.]+ s, ~[\d,]+ tokens\n│       tools run: list_dir, read_file x2, task_result\n",
        r"└─ a\.3 analyst: completed, [^\n]+\n        tools run: [^\n]+\n        calls denied: 1 \(bash\)\n```\n",
        r"\*\*Three things to try next\*\*\n\n1\. [^\n]+\n2\. [^\n]+\n3\. [^\n]+\n\n\*Offline demo: a script, no AI model\.",
    ):
        assert re.search(pattern, ran.out), pattern


def test_an_allowed_command_runs_and_is_in_the_receipt(friday: Friday, project: Path) -> None:
    found = friday.json(PROMPT, "--allow", COMMAND, model="demo").document
    unseen = [row["evidence"] for a in found["agents"] for row in a.get("findings", ()) if not row.get("seen")]
    assert [evidence for evidence in unseen if "\\x1b" not in evidence] == []
    names = len(list(project.iterdir()))
    assert f"was allowed and counted {names} names at the top level, the same number (`$ python3 -I" in found["result"]
    assert '        ran: python3 -I -c "import os; print(len(os.listdir()))" -> exit 0\n```' in found["result"]
    assert [a["profile"] for a in found["agents"]] == ["friday", "researcher", "coder", "analyst"]
    assert found["cost_usd"] == 0.0
    assert "- `FIXME red xxx" in found["result"]
    assert f"{'x' * 89}…` (`'docs/" in found["result"]


def test_a_folder_with_nothing_and_one_with_more_than_is_counted(friday: Friday) -> None:
    empty = friday(PROMPT, model="demo").out
    for words in ("0 folders and 0 files at the top level", "0 lines marked TODO", "no text file (`grep`)"):
        assert words in empty
    for n in range(2010):
        (friday.project / f"test{n}.py").write_text("FIXME\n" * 2)
    many = friday(PROMPT, model="demo").out
    for words in (
        "4,020 lines marked TODO",
        "at least 500 files named after a test",
        "with 4,000 lines",
        "at least 2,000",
    ):
        assert words in many


@pytest.mark.parametrize(("prompt", "expected"), [
    ("Make a survey with sub-agents, please", OVERVIEW), ("What does this project do?", OVERVIEW),
    ("find the folder with tests", OVERVIEW),
    ("Find app?", "**1 line** with the text `app` (`grep`)\n\n- `src/app.py:1` `class App:`\n\n**2 files** with"),
    ("find `no such text`", "**0 lines** with the text `no such text` (`grep`)"),
    ("find {last}", "**0 lines** with the text `{last}` (`grep`)"),
    ("read the pyproject.toml", "`pyproject.toml` as `read_file` shows it:\n\n```\n1\t[project]"),
    ("read /etc/passwd", "`read_file` failed: “"), ("run `echo hi`", "`echo hi` ended like this:\n\n```\nhi\n[exit 0"),
    ("run touch made", "`touch made` was refused: “Not permitted"), ("run the tests", CANNOT),
    ("Why is the sky blue?", CANNOT), ("hello", CANNOT),
])  # fmt: skip
def test_requests(friday: Friday, project: Path, prompt: str, expected: str) -> None:
    ran = friday(prompt, model="demo")
    assert ran.out.startswith(expected) or (expected in ran.out and expected not in (OVERVIEW, CANNOT)), ran.out
    assert ran.code == 0
    assert not (project / "made").exists()


@pytest.mark.parametrize(("argv", "expected"), [
    (("--deny", "delegate_task"), "**coder** was not started; `delegate_task` was refused: “"),
    (("--deny", "grep"), "**a.3 analyst**, failed (reported): `grep` was refused: “"),
    (("--profile", "general"), "The demo needs delegate_task for that, which this agent does not have."),
    ((), "**a.1 researcher**, completed (turns): The demo was stopped here."),
])  # fmt: skip
def test_what_is_in_its_way_is_named(friday: Friday, project: Path, argv: tuple[str, ...], expected: str) -> None:
    friday.profile("researcher", "maxIterations: 1")
    assert expected in friday(PROMPT, *argv, model="demo").out


def test_a_form_it_cannot_give_is_refused(friday: Friday) -> None:
    schema = friday.home / "schema.json"
    schema.write_text('{"type": "object"}')
    ran = friday(PROMPT, "--json-schema", str(schema), model="demo")
    assert ran.code != 0
    assert "The answer does not match the required schema" in ran.err


def test_another_request_of_the_session_is_answered_by_itself(friday: Friday, project: Path) -> None:
    friday(PROMPT, model="demo")
    assert friday("find App", "--continue", model="demo").out.startswith("**1 line**")
    assert friday("and why?", "--continue", model="demo").out.startswith(CANNOT)


@pytest.mark.parametrize(("words", "expected"), [("thanks", OVERVIEW), ("find App", "**1 line**")])
async def test_a_message_in_between_counts_if_the_demo_can_do_it(
    friday: Friday, project: Path, words: str, expected: str
) -> None:
    session = await Session.open(Options(project, model="demo", flags={"subagent_model": "anthropic/claude-test"}))
    try:
        running = asyncio.create_task(session.prompt(PROMPT))
        async for envelope in session.events():
            if envelope.agent == "a.1" and isinstance(envelope.event, AgentStarted):
                assert (
                    envelope.event.model == "demo/demo"
                )  # also with another model in the settings: a demo costs nothing
                break
        await session.send("a", words)
        outcome = await running
    finally:
        await session.close()
    assert outcome.text.startswith(expected)
