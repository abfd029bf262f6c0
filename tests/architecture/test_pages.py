"""Pages that are made from the code say what the code says, and the README's commands are those that CI runs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from friday_cli.cli.config import SCHEMAS, schema_text
from friday_cli.config.docs import markdown
from friday_cli.frontends.oneshot.options import OPTIONS
from friday_cli.frontends.tui.keys.keys import keys_page
from tests.architecture.events_page import page
from tests.e2e.faults import ROWS

PROJECT = Path(__file__).parents[2]


def text_of(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def setup_commands() -> list[str]:
    """The two commands of the README's set-up section."""
    section = text_of("README.md").split("\n## Set up\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)\n```$", section, re.M | re.S)


@pytest.mark.parametrize(
    ("name", "made", "command"),
    [
        ("docs/events.md", page, "python -m tests.architecture.events_page > docs/events.md"),
        ("docs/keys.md", keys_page, "python -m friday_cli.frontends.tui.keys.keys > docs/keys.md"),
        ("docs/config.md", markdown, "python -m friday_cli.config > docs/config.md"),
        *(
            (
                f"docs/{name}.schema.json",
                partial(schema_text, name),
                f"python -m friday_cli config schema {name} > docs/{name}.schema.json",
            )
            for name in SCHEMAS
        ),
    ],
)
def test_generated_pages_are_fresh(name: str, made: Callable[[], str], command: str) -> None:
    assert text_of(name) == made(), f"{name} is out of date: {command}"


def test_the_readme_sets_up_with_exactly_two_commands_of_one_line() -> None:
    commands = setup_commands()
    assert len(commands) == 2
    assert not any("\n" in command for command in commands)
    assert commands[0].endswith("friday demo")
    assert "pytest" in commands[1]


def test_the_second_command_installs_locked_versions_within_the_bounds() -> None:
    lock = ".ci/constraints.txt"
    assert [f"PIP_CONSTRAINT={lock} PIP_BUILD_CONSTRAINT={lock} " in c for c in setup_commands()] == [False, True]
    rows = [Requirement(row) for row in text_of(lock).splitlines() if not row.startswith("#")]
    locked = {canonicalize_name(row.name): row for row in rows}
    assert all(re.fullmatch(r"==[\d.]+(b\d+)?", str(row.specifier)) and row.url is None for row in rows)
    assert "://" not in text_of(lock)
    project = tomllib.loads(text_of("pyproject.toml"))
    named = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    extras = project["project"]["optional-dependencies"]
    assert extras["dev"][0] == "friday-cli[otel]"
    for bound in map(Requirement, [*named, *extras["otel"], *extras["dev"][1:]]):
        row = locked[canonicalize_name(bound.name)]
        assert bound.specifier.contains(str(row.specifier).removeprefix("==")), f"{row} is not {bound}: run .ci/lock"


def test_ci_runs_the_second_command_as_it_is_written() -> None:
    ran = subprocess.run([PROJECT / ".ci" / "run", "--show"], capture_output=True, text=True, check=True)
    assert ran.stdout == setup_commands()[1] + "\n"


def test_the_readme_knows_every_exit_code_and_only_options_that_exist() -> None:
    readme = text_of("README.md")
    for code in (0, 1, 2, 3, 4, 5, 75, 130):
        assert re.search(rf"^\| {code} \|", readme, re.M), code
    known = {name for option in OPTIONS for name in option.names}
    asks = " ".join(re.findall(r"friday ask[^\n`]*", readme))
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", asks)) <= known


def test_agents_md_is_short_enough_to_be_read_by_every_agent() -> None:
    assert len(text_of("AGENTS.md").splitlines()) < 120


def test_links_between_pages_lead_somewhere() -> None:
    pages = [PROJECT / n for n in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")]
    pages += sorted((PROJECT / "docs").rglob("*.md"))
    broken = []
    for file in pages:
        for target, heading in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", file.read_text(encoding="utf-8")):
            page = file.parent / target if target else file
            if not page.exists() or (heading and page.suffix == ".md" and heading not in headings(page)):
                broken.append(f"{file.relative_to(PROJECT)}: {target}#{heading}")
    assert not broken


def headings(page: Path) -> set[str]:
    """The headings of a page as they are named in links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", row.lower()).replace(" ", "-") for row in re.findall(r"^#+ (.*)$", text, re.M)}


def test_every_fault_was_played_and_none_failed() -> None:
    rows = re.findall(r"^\| (F\d+) \|.*\| ([^|]*) \|$", text_of("docs/faults.md"), re.M)
    assert [name for name, _ in rows] == [f"F{n}" for n in range(1, 61)] == list(ROWS)
    assert [row for row in rows if not re.fullmatch(r"[1-9]\d* passed", row[1])] == []
    for row in ROWS.values():
        for shown in row.shown:
            file, _, test = shown.partition("::")
            assert f"def {test}" in text_of(file), shown


def test_decisions_have_different_numbers() -> None:
    pages = sorted((PROJECT / "docs" / "decisions").glob("*.md"))
    numbers = [file.name[:3] for file in pages]
    assert sorted(set(numbers)) == numbers, "numbers may be missing, but none is used twice"
    for file in pages:
        assert file.read_text(encoding="utf-8").startswith(f"# {file.name[:3]} ")


def test_every_test_that_the_page_on_security_names_is_there() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)?(?:::(\w+)(\*?))?`", text_of("docs/security.md"))
    assert len(named) > 40
    file = ""
    for path, test, more in ((f or file, t, m) for f, t, m in named if f or t):
        file = path
        content = text_of(f"tests/{path}")
        assert not test or re.search(rf"def {test}{'' if more else '[(]'}", content), f"{path}::{test}"
