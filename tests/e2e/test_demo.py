"""The demo over real folders: the real loop, tools, permissions, store and sub-agents, and no figure without a source."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Denied, MessageAdded
from friday_cli.llm.providers.demo import DemoProvider
from friday_cli.llm.providers.demo.words import UNKNOWN
from friday_cli.session.open import Options
from friday_cli.session.session import Session
from tests.e2e.demo import PROMPT, Told, check, told
from tests.e2e.friday import ROOT, Friday

REPOSITORY = ("friday_cli", "tests", "profiles", "docs", "pyproject.toml", ".gitignore")
_RUBBISH = shutil.ignore_patterns("__pycache__", ".*_cache", "*.pyc")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with what a project has: links, binary files, secrets, ignored and hidden files, odd names."""
    folder = tmp_path / "project"
    for path, text in {
        "README.md": "# A [project](http://x.test)\n\n![badge](http://b.test)\n\nIt holds `9999` | things.\n\nMore.\n",
        "pyproject.toml": '[project]\nname = "odd | name"\ndescription = "Tries *all*"\n',
        "src/app.py": "class App:\n    async def run(self):\n        # TODO: more\n        pass\n\n\ndef main(): ...\n",
        "src/empty.py": "",
        "src/[12 more; narrow the pattern or the path]": "x\n",
        "web/a.js": "export function a() {}\n// FIXME\nclass B {}",
        "web/b|c.ts": "interface C {}\r\ntype D = 1\r\n",
        "docs/grüße.md": "Grüße `und` TODO\n",
        "docs/notes: 5": "no ending\n",
        "docs/\x1b]0;owned\x07\u202e.txt": "FIXME \x1b[31mred\n",
        ".hidden.py": "def no(): ...\n",
        ".gitignore": "build/\n*.log\n",
        "build/out.py": "def no(): ...\n",
        "web/x.log": "no\n",
        "server.key": "secret\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    (folder / "docs" / "link.md").symlink_to("../README.md")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def ends(told: Told) -> dict[str, AgentFinished]:
    return {e.agent: e.event for e in told.events if isinstance(e.event, AgentFinished)}


async def test_a_small_project(project: Path) -> None:
    (one,) = await told(project, PROMPT)
    checked = check(one, project)
    assert checked["all"] == 1
    assert checked["kind"] >= 5
    assert {"the top level", "folder", "marked", "definitions", "longest", "left out", "counted a second time"} <= set(
        checked
    )
    assert checked["receipt"] == 3
    assert "\x1b" not in one.text
    assert "`README.md` begins: “A project — It holds 9999 things.”" in one.text
    started = {e.agent: e.event.profile for e in one.events if isinstance(e.event, AgentStarted)}
    assert started == {"a": "friday", "a.1": "researcher", "a.2": "analyst", "a.3": "summarizer"}
    assert all(end.success for end in ends(one).values())
    assert not any(end.receipt.warnings or end.receipt.failed or end.receipt.denied for end in ends(one).values())
    assert ends(one)["a"].tree_usage.cost_usd == 0.0
    messages = [e.event.message for e in one.events if e.agent == "a" and isinstance(e.event, MessageAdded)]
    reports = [r.text for m in messages for r in m.results if "delegate_id: " in r.text]
    assert ["| cost: none (demo) |" in text for text in reports] == [True] * 3
    assert ends(one)["a"].tree_usage.estimated


async def test_a_folder_outside_any_repository(project: Path) -> None:
    shutil.rmtree(project / ".git")
    (one,) = await told(project, PROMPT)
    assert check(one, project)["kind"] >= 5


async def test_without_ripgrep_the_figures_are_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    (one,) = await told(project, PROMPT)
    assert check(one, project)["kind"] >= 5


async def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (one,) = await told(tmp_path / "empty", PROMPT)
    assert one.text.startswith("This folder is empty.")
    assert check(one, tmp_path / "empty")["all"] == 1
    assert one.outcome.status == "completed"


async def test_a_folder_with_nothing_but_binary_and_hidden_files(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin", ".c"):
        (tmp_path / name).write_bytes(b"\0\1\2")
    (one,) = await told(tmp_path, PROMPT)
    assert check(one, tmp_path)["all"] == 1
    assert "| all files | 2 |" in one.text


async def test_five_thousand_files(tmp_path: Path) -> None:
    for n in range(50):
        folder = tmp_path / f"d{n:02}"
        folder.mkdir()
        for k in range(100):
            ending = ("py", "md", "dat")[k % 3]
            text = "def f(): ...\n" * (k % 7) if ending == "py" else f"TODO {k}\n" * (k % 2) if ending == "md" else "\0"
            (folder / f"f{k:02}.{ending}").write_text(text)
    (one,) = await told(tmp_path, PROMPT)
    checked = check(one, tmp_path)
    assert checked["kind"] == 3
    assert "| all files | 5,000 |" in one.text
    assert "text files listed first" in one.text


async def test_this_repository(tmp_path: Path) -> None:
    for name in REPOSITORY:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=_RUBBISH)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, tmp_path / name)
    (one,) = await told(tmp_path, PROMPT)
    checked = check(one, tmp_path)
    assert checked["kind"] >= 4
    assert checked["definitions"] >= 1


@pytest.mark.parametrize("package", ["textual", "pygments"])
async def test_the_trees_of_two_large_packages(tmp_path: Path, package: str) -> None:
    """Other people's code of a public repository's size, that every machine has which runs these tests."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, tmp_path / package, ignore=_RUBBISH)
    (one,) = await told(tmp_path / package, PROMPT)
    checked = check(one, tmp_path / package)
    assert one.outcome.status == "completed"
    assert checked["kind"] >= 2
    assert checked["definitions"] >= 1
    files = sum(path.is_file() for path in listed(tmp_path / package))
    assert files > 200
    assert f"holds {files:,} files" in one.text or f"| all files | {files:,} |" in one.text


def listed(folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


async def test_without_delegation_the_figures_are_the_same(project: Path, home: Path) -> None:
    config = home / "friday" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[agents.delegation]\nenabled = false\n")
    (one,) = await told(project, PROMPT)
    assert check(one, project)["kind"] >= 5
    assert set(ends(one)) == {"a"}


@pytest.mark.parametrize(("persona", "agents"), [("analyst", {"a", "a.1"}), ("general", {"a"})])
async def test_a_persona_sends_whom_it_may(project: Path, persona: str, agents: set[str]) -> None:
    (one,) = await told(project, PROMPT, profile=persona)
    assert check(one, project)["kind"] >= 5
    assert set(ends(one)) == agents
    assert all(end.success for end in ends(one).values())


async def test_refused_sub_agents_are_reported_and_done_without(project: Path) -> None:
    (one,) = await told(project, PROMPT, deny=("delegate_task",))
    checked = check(one, project)
    assert checked["kind"] >= 5
    assert "not done by a sub-agent" in one.text
    assert [e.event.tool for e in one.events if isinstance(e.event, Denied)][:2] == ["delegate_task", "delegate_task"]


async def test_a_refused_tool_leaves_its_figures_out(project: Path) -> None:
    (one,) = await told(project, PROMPT, deny=("grep",))
    checked = check(one, project)
    assert (checked["all"], checked["kind"]) == (1, 0)
    assert "not done: “grep was refused" in one.text


async def test_limits_leave_what_was_found(project: Path) -> None:
    (one,) = await told(project, PROMPT, flags={"limits.max_turns": 1})
    assert one.outcome.stop_reason == "iterations"
    assert one.text.startswith("**Cut short.**")
    assert check(one, project)["all"] == 1


async def test_children_of_a_demo_are_demos_whatever_the_settings_name(project: Path) -> None:
    (one,) = await told(project, PROMPT, flags={"subagent_model": "anthropic/claude-test"})
    models = {e.event.model for e in one.events if isinstance(e.event, AgentStarted)}
    assert models == {"demo/demo"}


async def test_a_session_that_goes_on(project: Path) -> None:
    first, second, third = await told(project, PROMPT, "how many lines of python are there?", "and why?")
    assert check(first, project)["all"] == 1
    assert second.text.startswith("**7 lines** of text in files named `*.py` in this folder.")
    assert third.text == UNKNOWN
    asked = [e.event.message for e in third.events if e.agent == "a" and isinstance(e.event, MessageAdded)]
    assert [m.text for m in asked if m.role == "user"] == [PROMPT, "how many lines of python are there?", "and why?"]


async def test_a_resumed_session(project: Path) -> None:
    session = await Session.open(Options(project, model="demo"))
    await session.prompt("list the todos")
    await session.close()
    (one,) = await told(project, "how many files are there?", resume=session.id)
    assert one.text.startswith("**12 files** in this folder.")


async def test_a_message_while_it_works(project: Path) -> None:
    session = await Session.open(Options(project, model="demo"))
    provider = session.root.provider
    assert isinstance(provider, DemoProvider)
    provider.pace = 0.0
    running = asyncio.create_task(session.prompt(PROMPT))
    async for envelope in session.events():
        if isinstance(envelope.event, AgentStarted) and envelope.agent == "a.1":
            break
    await session.send("a", "list the todos")
    outcome = await running
    await session.close()
    said = [m.text for m in session.root.history if m.role == "assistant"]
    assert any("| all files | 12 |" in text for text in said)
    assert "marked TODO or FIXME" in outcome.result


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("find App", ["**Defined** in 1 line", "- `src/app.py:1` `class App:`", "**1 line** with the text `App`"]),
        ("find nothing_of_the_kind", ["**0 lines** with the text `nothing_of_the_kind` in this folder."]),
        ("find TODO: MORE", ["**1 line** with the text `TODO: MORE`", "`src/app.py:3`"]),
        ("where is grüße", ["**1 file** of that name", "- `docs/grüße.md`"]),
        ("how many files are there?", ["**12 files** in this folder."]),
        ("count files in src", ["**3 files** in `src`."]),
        ("count `pass`", ["**1 line** with the text `pass` in this folder."]),
        ("how many functions are there in python?", ["- Python: 3 lines that begin a definition"]),
        ("read README.md", ["`README.md`, 7 lines:", "```md\n# A [project](http://x.test)"]),
        ("read readme.md", ["`README.md`, 7 lines:"]),
        ("show me the readme", ["`README.md`, 7 lines:"]),
        ("what is in src", ["`src` has 3 entries:"]),
        ("read docs/Grüße.md", ["`docs/grüße.md`, 1 line:"]),
        ("read ./src", ["`./src` has 3 entries:"]),
        ("read src/", ["`src/` has 3 entries:", "- `app.py`"]),
        ("read src/empty.py", ["`src/empty.py`: “(src/empty.py is empty)”"]),
        ("read picture.png", ["could not be looked up", "picture"]),
        ("read /etc/passwd", ["could not be looked up: “read_file"]),
        ("list docs", ["`docs` has 4 entries, the first 3:", "- `grüße.md`"]),
        ("list nowhere", ["could not be looked up"]),
        ("list *.md", ["2 files named `*.md` in this folder:", "- `docs/grüße.md`"]),
        ("list the todos", ["**4 lines** marked TODO or FIXME", "- `docs/grüße.md:1` ``Grüße `und` TODO``"]),
        ("which files are the largest?", ["The longest text files in this folder, in lines:\n\n- `README.md` 7"]),
        ("run `touch hi`", ["The command was refused", "--allow 'bash(touch *)'"]),
    ],
)
async def test_small_questions(project: Path, prompt: str, expected: list[str]) -> None:
    (one,) = await told(project, prompt)
    for words in expected:
        assert words in one.text


async def test_an_allowed_command_runs(project: Path) -> None:
    (one,) = await told(project, "run `echo hi`", allow=("bash(echo *)",))
    assert "```\nhi\n[exit 0" in one.text


# ---- the command -----------------------------------------------------------------------------------------------------


def test_ask_says_that_it_is_a_demo(friday: Friday) -> None:
    (friday.project / "a.py").write_text("x = 1\n")
    ran = friday(PROMPT, model="demo")
    assert ran.code == 0
    assert ran.lines[0] == "friday: demo: scripted, no AI model"
    assert "3 sub-agents" in ran.lines[-1]
    assert "tokens (demo) · no cost (demo)" in ran.lines[-1]
    assert "| Python (.py) | 1 | 1 | a.2: `grep ^ (*.py)` |" in ran.out
    assert "Scripted demo, no AI model" in ran.out


def test_what_it_cannot_answer_it_says_so_and_how_to_add_a_key(friday: Friday) -> None:
    ran = friday.json("Why is the sky blue?", model="demo")
    assert ran.code == 0
    assert ran.document["result"] == UNKNOWN
    for words in ("no AI model", "ANTHROPIC_API_KEY", "friday auth set anthropic", "friday models", "find NAME"):
        assert words in UNKNOWN
    assert ran.document["cost_usd"] == 0.0
    assert ran.document["usage"]["estimated"]


def test_the_demo_command_in_a_process_of_its_own(friday: Friday) -> None:
    (friday.project / "a.py").write_text("x = 1\n")
    friday.config.write_text('subagent_model = "anthropic/claude-test"\nfallback_model = "openai/gpt-test"\n')
    found = subprocess.run(
        [sys.executable, "-m", "friday_cli", "demo"],
        stdin=subprocess.DEVNULL,
        cwd=friday.project,
        env=friday.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "| all files | 1 |" in found.stdout
    assert "demo: scripted, no AI model" in found.stderr
