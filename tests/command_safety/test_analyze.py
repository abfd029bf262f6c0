"""What the judge says beside its verdicts: the parts of a command, their files, the repository it would meet."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from friday_cli.command_safety import AnalysisContext, analyze
from friday_cli.core.permissions.rules import Rules
from friday_cli.workspace.local import LocalWorkspace
from tests.command_safety import workspace_fixture
from tests.command_safety.rows import MUST_PASS
from tests.command_safety.workspace_fixture import passes


def test_every_simple_command_is_a_step_with_its_words() -> None:
    command = "a 'b c' | d; if e; then f; fi; (g) && echo $(h) > i <<X\n$(j)\nX"
    script = analyze(command, workspace_fixture.virtual_context())
    assert {step.text for step in script.steps} == {"a 'b c'", "d", "e", "f", "g", "h", "echo ''", "> i", "j"}
    assert next(step for step in script.steps if step.text == "> i").writes == ("i",)


@pytest.mark.parametrize(
    ("config", "fine"),
    [
        ("[core]\n\tbare = false\n", True), ("[core]\n\tfsmonitor = ./x\n", False), ("[core]\n\tfsmonitor = true\n", True),
        ('[diff "x"]\n\ttextconv = ./x\n', False), ('[filter "lfs"]\n\tclean = git-lfs clean -- %f\n', True),
        ('[filter "x"]\n\tclean = ./x\n', False), ("[diff]\nexternal = ./x\n", False), ("[include]\n\tpath = ../x\n", False),
        ("[Core] FSMonitor = ./x\n", False), ('[alias]\n\tx = "!sh"\n', True),
    ],
)  # fmt: skip
def test_git_that_would_run_a_program_of_the_repository_is_asked_about(root: Path, config: str, fine: bool) -> None:
    (root / ".git/config").write_text(config)
    assert passes("git status", root) is fine
    assert passes("ls", root)


def test_a_git_file_leads_to_the_settings_that_count(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/.git").write_text("gitdir: ../evil\n")
    assert not passes("cd sub && git status", root)
    (root / ".git/hooks").mkdir()
    (root / ".git/config").write_text("[core]\n\thooksPath = hooks\n")
    assert passes("git status", root)
    (root / "hooks").mkdir()
    (root / "hooks/post-index-change").write_text("")
    assert not passes("git status", root)


def test_a_program_that_the_workspace_put_before_the_real_one_is_asked_about(root: Path) -> None:
    environ = {"PATH": f"{root}/node_modules/.bin:/usr/bin:/bin", "HOME": "/home/me"}
    context = AnalysisContext(LocalWorkspace(root), environ)
    assert passes("cat x.txt", context)
    (root / "node_modules/.bin/cat").write_text("#!/bin/sh\nrm x\n")
    (root / "node_modules/.bin/cat").chmod(0o755)
    assert not passes("cat x.txt", context)
    assert passes("pwd", context)


@pytest.mark.parametrize(
    ("file", "text", "command"),
    [
        (".yarnrc.yml", "yarnPath: ./evil.js\n", "yarn --version"), (".yarnrc", "yarn-path ./evil.js\n", "yarn -v"),
        (".npmrc", "registry=https://evil.example\n", "pnpm -v"), ("rust-toolchain.toml", "[toolchain]\n", "cargo --version"),
        ("rust-toolchain", "x\n", "rustc --version"), ("rust-toolchain", "x\n", "rustup show"), ("global.json", "{}", "dotnet --version"),
        ("conftest.py", "1\n", "pytest --version"), ("tests/conftest.py", "1\n", "pytest --version"), ("toxfile.py", "1\n", "tox --version"),
        (".npmrc", "registry=http://127.0.0.1\n", "npm ls"), (".npmrc", "x=1\n", "npm root"), (".bundle/config", "x\n", "bundle --version"), ("node_modules/jest", "x\n", "jest --version"),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-p evil'\n", "pytest --version"), (".poetry/plugins", "", "poetry --version"),
        (".tool-versions", "nodejs path:./evil\n", "node --version"), (".tool-versions", "python path:/x\n", "python3 -V"),
    ],
)  # fmt: skip
def test_a_program_that_the_project_leads_to_its_own_is_not_asked_for_its_version(
    root: Path, file: str, text: str, command: str
) -> None:
    commands = (command, f"cd src && {command}")
    assert all(passes(each, root) for each in commands)
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_text(text)
    assert not any(passes(each, root) for each in commands)
    assert passes("ls", root)


def test_more_than_fifty_commands_or_a_very_long_one_is_asked_about_and_denials_still_hold() -> None:
    context = workspace_fixture.virtual_context()
    rules = Rules(mode="ask")
    for command in (
        "; ".join(["ls"] * 60),
        "ls " + "a" * 7000,
        "(" * 200 + "ls" + ")" * 200,
        "[[ " + "(" * 2000 + " a",
    ):
        assert not passes(command, context)
        assert rules.decide(workspace_fixture.bash(command, context)).decision == "ask"


def test_the_parser_is_loaded_when_a_command_is_judged_and_not_before() -> None:
    code = "import sys, friday_cli.tools.shell, friday_cli.command_safety; assert 'tree_sitter' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[2])


PIECES = [
    "ls", "echo", "canary", " ", ";", "&&", "|", "&", "\n", "'", '"', "`", "$(", ")", "(", "{ ", "; }", "#", "\\", "\\\n", "<<E\n", "\nE\n",
    "<<'E'\n", "((", "))", "[[ ", " ]]", "if ", "; then ", "; fi", "case a in ", "a) ", ";; ", " esac", "for x in ", "; do ", "; done", "x=",
    "$x", "!", "<", "> /dev/null", "2>&1", "~", "{a,", "}", "*", "$'", "$", "\t", "eval ", "<<<", "f() {", "; f", "time ", "\\'", "\\;", "[", "]",
]  # fmt: skip


def test_what_passes_runs_nothing_that_was_not_judged(root: Path, tmp_path: Path) -> None:
    """Damaged harmless commands with a forbidden program in them: where the judge lets one pass, bash must not run it."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "canary").write_text(f"#!/bin/sh\n: > {tmp_path}/hit\n")
    (bin_ / "canary").chmod(0o755)
    context = workspace_fixture.context(root)
    harmless = [c for _, mode, _, commands in MUST_PASS if mode == "ask" for c in commands]
    harmless = [c for c in harmless if not any(word in c for word in ("sleep", "rg ", "git", "/", "find", "--version"))]
    chance = random.Random(os.environ.get("FRIDAY_SEED", "4711"))
    passed = []
    for _ in range(1500):
        command = chance.choice(harmless)
        for _ in range(chance.randint(1, 4)):
            at = chance.randint(0, len(command))
            command = command[:at] + chance.choice(PIECES) + chance.choice(("canary", " canary ", "")) + command[at:]
        if "canary" in command and passes(command, context):
            passed.append(command)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    script = "\n".join(f"(timeout 5 bash -c {shlex.quote(c)})" for c in passed)
    subprocess.run(
        ["bash", "-c", script],
        cwd=root,
        env={"PATH": f"{bin_}:/usr/bin:/bin", "HOME": "/nowhere"},
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=280,
    )
    hit = [c for c in passed if (tmp_path / "hit").exists()]
    assert not hit, "one of these ran it"
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
