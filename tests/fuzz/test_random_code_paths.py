"""Random names of files that programs run later: a tool that writes one is asked about, and what a command changes without naming it is
reported, in repositories inside the folder and where git ignores it as well. `FRIDAY_FUZZ=10` tries 1,000 of each."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from friday_cli.command_safety import AnalysisContext, analyze
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.permissions.rules import Rules
from friday_cli.tools.files.edit import EDIT_FILE_TOOL, WRITE_FILE_TOOL
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox import tamper_check
from tests.fuzz import code_paths, seeds

VARIANTS = 100 * seeds.TIMES
MODES: tuple[Mode, ...] = ("edits", "auto", "yolo")
WRITERS = (
    "echo y > {}", "echo y >> {}", "tee {} < f", "cp f {}", "mv f {}", "ln -f f {}", "ln -s f {}", "sed -i s/x/y/ {}", "truncate -s 0 {}", "dd of={} if=f", "install f {}", "chmod +x {}", "rm {}", "cat f | tee -a {}",
    'sh -c "echo y > {}"', "f() {{ echo y > {}; }}; f", "(echo y > {})", "if true; then cp f {}; fi", "git show HEAD:f > {}", "true && touch {}", "mkdir -p {}", "patch {} p", "curl -o {} http://localhost:1/",
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Path(os.path.realpath(tmp_path_factory.mktemp("code"))) / "project"
    code_paths.build(made)
    return made


def test_a_tool_that_names_one_is_asked_about_in_every_mode(root: Path) -> None:
    workspace, context = LocalWorkspace(root), AnalysisContext(LocalWorkspace(root))
    first = seeds.first()
    passed = []
    for seed in range(first, first + VARIANTS):
        rng = random.Random(seed)
        name = code_paths.spelled(rng, code_paths.path(rng), root)
        mode = rng.choice(MODES)
        rules = Rules(mode=mode)
        for tool, given in ((WRITE_FILE_TOOL, {"content": "x"}), (EDIT_FILE_TOOL, {"old": "x", "new": "y"})):
            args = tool.parse(tool.understand({"path": name, **given}).arguments)
            subjects, also = tool.used(args, workspace)
            if rules.decide(RuleInput(tool.name, tool.effect, subjects, also=also)).decision != "ask":
                passed.append((seed, mode, tool.name, name))
        line = rng.choice(WRITERS).format(f"'{name}'" if " " in name else name)
        if rules.decide(RuleInput("bash", "run", (line,), analyze(line, context))).decision == "allow":
            passed.append((seed, mode, "bash", line))
    assert passed == []


HOWS = ("write", "replace", "link", "rename", "mode", "same time and size")


def change(how: str, file: Path) -> None:
    """Change a file as a program of a command may. A link is never followed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_symlink() or how in ("replace", "link"):
        file.unlink(missing_ok=True)
    if how == "link":
        file.symlink_to("nowhere")
    elif how == "rename":
        (new := file.with_name("new")).write_text("y")
        new.rename(file)
    elif how == "mode":
        file.touch()
        file.chmod(0o700)
    else:
        file.write_text("y")
        if how == "same time and size":
            os.utime(file, (1, 1))


def state(file: Path) -> object:
    """What a file is, without its times."""
    if not os.path.lexists(file):
        return None
    return os.readlink(file) if file.is_symlink() else (file.read_bytes(), file.stat().st_mode)


def test_what_a_command_changes_without_naming_it_is_reported(root: Path) -> None:
    first = seeds.first()
    wrong = []
    for seed in range(first, first + VARIANTS):
        rng = random.Random(seed)
        before, changed = tamper_check.scan([str(root)]), set()
        for _ in range(rng.randint(1, 3)):
            file = root / code_paths.path(rng)
            old = state(file)
            change(rng.choice(HOWS), file)
            changed |= {str(file)} if state(file) != old else set()
        told = set(tamper_check.changed(before, tamper_check.scan([str(root)], before)))
        if told != changed:
            wrong.append((seed, sorted(changed - told), sorted(told - changed)))
    assert wrong == []
