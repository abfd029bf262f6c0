"""Random projects: what their texts name and must stay out reaches no prompt, by imports, commands, links, skills and profiles.
`FRIDAY_FUZZ=10` tries 1,000."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from friday_cli.core.permissions.rules import Rules
from friday_cli.extensions import commands, instructions, trust
from friday_cli.session.attachments import PromptText, attached, prompt_of_command
from friday_cli.workspace.local import LocalWorkspace
from tests.fuzz import project_texts, seeds

VARIANTS = 100 * seeds.TIMES


def sent(project: project_texts.Project, *, trusted: bool) -> str:
    """What reaches a model of a text that names the file, by a random way."""
    rng = project.rng
    where = project.root / rng.choice(project_texts.FOLDERS)
    way = rng.choice(("import", "import", "chain", "link", "command", "command is a link", "typed"))
    name = project.named(where if way != "command" and way != "typed" else project.root)
    text = project_texts.text(rng, name)
    project.told.append(f"{way} in {where}: {text!r} is {os.path.realpath(project.target)}")
    if way in ("import", "chain", "link"):
        file = where / rng.choice(("AGENTS.md", "CLAUDE.md", "AGENTS.override.md"))
        if way == "link":
            file.symlink_to(rng.choice((project.target, where / name)))
        elif way == "chain":
            file.write_text("See @steps/one.md")
            for number, (one, then) in enumerate((("one", "two"), ("two", ""))):
                (where / "steps").mkdir(exist_ok=True)
                words = (
                    f"@{then}.md" if then else project_texts.text(rng, os.path.relpath(where / name, where / "steps"))
                )
                (where / "steps" / f"{one}.md").write_text(f"{number} {words}")
        else:
            file.write_text(text)
        root = trust.project_root(where)
        read = instructions.read(where, root=root, config=project.home / "config", trusted=trusted)
        return "\n".join(one.text for one in read.files)
    workspace, rules = LocalWorkspace(project.root), Rules(mode="yolo")
    if way == "typed":
        return asyncio.run(attached(PromptText(text), workspace, rules=rules))[0]
    file = project.root / rng.choice((".claude/commands/go.md", ".friday/commands/go.md", ".agents/commands/go.md"))
    file.parent.mkdir(parents=True, exist_ok=True)
    if way == "command":
        file.write_text(text)
    else:
        file.symlink_to(rng.choice((project.target, project.root / name)))
    found = commands.load(project.root, trusted=trusted).found.get("go")
    if found is None:
        return ""
    return asyncio.run(attached(prompt_of_command(found, ""), workspace, rules=rules))[0]


def test_what_must_stay_out_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = seeds.first()
    bad, let_in = [], 0
    for seed in range(first, first + VARIANTS):
        top = Path(os.path.realpath(tmp_path)) / "top"
        project = project_texts.Project(top, random.Random(seed))
        monkeypatch.setenv("HOME", str(project.home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        trusted = project.rng.random() < 0.8
        got = sent(project, trusted=trusted)
        typed = any(one.startswith("typed ") for one in project.told)
        if project.canary in got:
            let_in += 1
            if (not trusted and not typed) or (project.must_stay_out() and not (typed and ignored_only(project))):
                bad.append((seed, trusted, project.told))
        shutil.rmtree(top)
    assert bad == []
    assert let_in > VARIANTS / 50


def ignored_only(project: project_texts.Project) -> bool:
    """Whether only git's rules are against a file: what a person types is their choice then."""
    real = Path(os.path.realpath(project.target))
    return real.is_relative_to(project.root) and real.name in {os.path.basename(one) for one in project_texts.PLAIN} | {
        "x.md",
        "y.md",
    }
