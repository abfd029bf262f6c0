"""`friday skills`: list, show, check, new."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import typer

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.extensions.skills import files, lookup
from friday_cli.extensions.skills.parse import MAX_NAME, NAME, NAME_HINT
from friday_cli.extensions.skills.skill import Skill
from friday_cli.system.paths import with_tilde, working_folder

from . import output
from .help import add_family
from .project_context import load_context
from .session_args import JSON

TEMPLATE = """\
---
name: {name}
description: What it does and when to use it, in one sentence. The agent decides by this line.
# More keys: allowed-tools (only these while it runs), argument-hint, arguments, disable-model-invocation (true: only you
# start it), user-invocable (false: only agents do), context (fork: it runs as a sub-agent), agent (its profile).
---

# {title}

1. What to look at first.
2. What to do, and how to check it.

Files beside this one can be named here: ${{SKILL_DIR}}/reference.md.
What comes after the name, if anything: $ARGUMENTS
"""


def register(app: typer.Typer, about: str) -> None:
    """Add the family `skills`."""
    add_family(app, "skills", about, {"list": list_, "show": show, "check": check, "new": new})


def _skills() -> lookup.Skills:
    return lookup.load(working_folder(), load_context().trust_status)


def list_(as_json: bool = JSON) -> None:
    """List the usable skills.

    Those of your configuration folder override those of a trusted project, and these override those of ~/.agents and ~/.claude.
    """
    trust_status = load_context().trust_status
    found = lookup.load(working_folder(), trust_status)
    if as_json:
        output.show_json(
            {
                "skills": [msgspec.to_builtins(skill) for skill in found.found.values()],
                "hidden": [msgspec.to_builtins(skill) for skill in found.hidden],
                "problems": [str(error) for error in found.problems],
            }
        )
        return
    rows = [(one.name, one.origin, _started_by(one), one.description) for one in found.found.values()]
    if rows:
        output.show_table(("NAME", "FROM", "STARTED BY", "DESCRIPTION"), rows, wide=("DESCRIPTION",))
    else:
        output.remark("no skills yet; `friday skills new NAME` makes one")
    for error in found.problems:
        output.remark(str(error))
    if trust_status.skills and not trust_status.ok:
        count = sum(name.endswith(f"/{files.FILE}") for name in trust_status.skills)
        output.remark(f"{trust_status.reason} Not used: {pluralize(count, 'skill')}. Run `friday trust` to allow them.")


def show(name: str = typer.Argument(metavar="NAME", help="The skill.")) -> None:
    """Show a skill as an agent reads it, its source and limits."""
    skill = _skills().get(name)
    loaded = skill.load()
    facts = [
        ("file", f"{with_tilde(skill.path)} ({skill.origin})"),
        ("sha256", loaded.sha256),
        ("description", skill.description),
        ("started by", _started_by(skill)),
        ("arguments", skill.hint),
        ("tools", "all that the agent has" if skill.tools is None else f"only {', '.join(skill.tools)}"),
        ("only", ", ".join(skill.only)),
        ("runs", f"as a sub-agent{f' ({skill.agent})' if skill.agent else ''}" if skill.fork else ""),
        ("license", skill.license),
        ("notices", " ".join((*skill.notices, loaded.note)).strip()),
    ]
    width = max(len(name) for name, _ in facts) + 2
    output.show(skill.name)
    for label, value in facts:
        if value:
            output.show_hanging(width, (f"{label:<{width}}", ""), (sanitize_line(value, 2000), ""))
    print(f"\n{sanitize(loaded.text)}")


def check(
    path: str | None = typer.Argument(
        None, metavar="PATH", help="A skill or a folder of skills. Default: all usable ones."
    ),
) -> None:
    """Check skills. Errors are shown with file, line and remedy; exit code 2 if there are any. Warnings change nothing."""
    found = _skills() if path is None else lookup.check(Path(path))
    for error in found.problems:
        output.show(str(error))
    warnings = 0
    for skill in (*found.found.values(), *found.hidden):
        for notice in skill.notices:
            output.show(f"{skill.path}: warning: {notice}")
            warnings += 1
    count = pluralize(len(found.found) + len(found.hidden), "skill")
    others = f", {pluralize(warnings, 'warning')}" if warnings else ""
    if found.problems:
        output.remark(f"{count} valid, {pluralize(len(found.problems), 'error')}{others}")
        raise typer.Exit(2)
    output.remark(f"{count}, no errors{others}" if found.found else "no skills found")


def new(
    name: str = typer.Argument(metavar="NAME", help="Lower-case letters, digits and hyphens."),
    project: bool = typer.Option(False, "--project", help="Create it for this project (.agents/skills)."),
) -> None:
    """Create a skill from a template. An existing file is never overwritten."""
    if len(name) > MAX_NAME or not NAME().fullmatch(name):
        raise UsageError(f"{name!r} is not a valid skill name.", hint=NAME_HINT)
    root = load_context().trust_status.root
    path = (root / ".agents/skills" if project else files.first_place()) / name / files.FILE
    if os.path.lexists(path):
        raise UsageError(f"{path} already exists.", hint="Edit it, or choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name, title=name.replace("-", " ").capitalize()))
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
    print(path)
    output.remark("fill it in, then run `friday skills check`" + (" and `friday trust`" if project else ""))


def _started_by(skill: Skill) -> str:
    who = [name for name, can in (("agents", skill.by_model), ("you", skill.by_person)) if can]
    return " and ".join(who) or "neither"
