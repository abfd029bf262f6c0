"""`python -m tests.e2e.agent_collections FOLDER`: reads collections of agent and command files of other tools.

FOLDER holds one folder for each collection, such as checkouts of public repositories; none is part of this project. Printed are
counts, and every difference between what a file says (read here by other code) and what Friday makes of it: whether it loads,
whether `friday profiles check` says the same, its name, description, model and tools; for a command, whether its text is sent word
for word. The exit code is 1 if the two verdicts differ for a file.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from friday_cli.agents.sub_agent_list import sub_agent_list
from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.extensions import commands, profiles
from friday_cli.extensions.profiles import Profile
from friday_cli.extensions.profiles.lookup import is_profile
from friday_cli.extensions.profiles.parse import parse

GIVEN = "one two three"
"""The arguments that each command gets."""
WINDOW = 200_000
"""Tokens of the model for which the list of sub-agents is measured."""


def main(root: Path) -> int:
    """Read every collection below `root`; print counts and differences. Returns the exit code."""
    disagree = 0
    for collection in sorted(path for path in root.iterdir() if path.is_dir()):
        count: Counter[str] = Counter()
        found: dict[str, Profile] = {}
        for path in sorted(collection.rglob("*.md")):
            where = path.relative_to(collection)
            if "commands" in where.parts or "command" in collection.name:
                lines = list(_command(path, count))
            elif path.name != "SKILL.md" and is_profile(path.read_bytes()):
                lines = list(_agent(path, count, found))
            else:
                continue
            disagree += sum(line.startswith("VERDICT") for line in lines)
            for line in lines:
                print(f"{collection.name}/{where}: {line}")
        if count:
            listed = sub_agent_list(tuple(found.values()), WINDOW)
            size = f"list of sub-agents: {len(listed.text):,} characters, {listed.hidden} found by search only"
            print(f"== {collection.name}: {', '.join(f'{n} {what}' for what, n in sorted(count.items()))}; {size}")
    return 1 if disagree else 0


def _agent(path: Path, count: Counter[str], found: dict[str, Profile]) -> Iterator[str]:
    """The differences of one agent file."""
    count["agent files"] += 1
    raw = path.read_bytes()
    result: Profile | FileError
    try:
        result = parse(str(path), raw, origin="claude")
    except FileError as error:
        result = error
    good, bad = profiles.check(path)
    if bool(bad) != isinstance(result, FileError) or bool(good) == bool(bad):
        count["verdicts that differ"] += 1
        yield f"VERDICT: loading: {result if isinstance(result, FileError) else 'loads'}; check: {bad or 'no error'}"
    if isinstance(result, FileError):
        count["not loaded"] += 1
        yield f"not loaded: {result.field} {result.problem}".replace("  ", " ")
        return
    count["loaded"] += 1
    if result.name in found:
        count["double names"] += 1
        yield f"a second file named {result.name}"
    found.setdefault(result.name, result)
    said = _front_matter(raw.decode("utf-8-sig", "replace"))
    for key, mine in (("name", result.name), ("description", result.description), ("model", result.model)):
        theirs = " ".join(sanitize(str(said.get(key) or "")).split())
        if theirs and theirs.removeprefix("inherit") and mine != theirs:
            count[f"{key}s changed"] += 1
            yield f"{key}: {theirs[:80]!r} ({len(theirs)} characters) became {mine[:80]!r} ({len(mine)})"
    for notice in result.notices:
        if notice.startswith(("tools:", "its front matter")):
            yield notice


def _front_matter(text: str) -> dict[str, Any]:
    """The keys of a file by YAML, else by its lines."""
    block = text.replace("\r\n", "\n").split("\n---", 1)[0].removeprefix("---")
    try:
        found = yaml.safe_load(block)
    except yaml.YAMLError:
        found = {key: value.strip().strip("\"'") for key, value in re.findall(r"(?m)^(name|model): *(.*)$", block)}
    return found if isinstance(found, dict) else {}


def _command(path: Path, count: Counter[str]) -> Iterator[str]:
    """The differences of one command file."""
    count["commands"] += 1
    try:
        custom = commands.parse(str(path), path.stem.lower(), path.read_bytes(), "claude")
    except FileError as error:
        count["commands not loaded"] += 1
        yield f"not loaded: {error.field} {error.problem}".replace("  ", " ")
        return
    words = GIVEN.split()
    plain = custom.text.replace("$ARGUMENTS", GIVEN)
    for number, word in enumerate(words, 1):
        plain = re.sub(rf"\${number}(?![.,]?\d)", word, plain)
    sent = custom.prompt(GIVEN).removesuffix(f"\n\n{GIVEN}")
    if sent != plain:
        count["commands altered"] += 1
        differing = next(
            (pair for pair in zip(plain.split("\n"), sent.split("\n"), strict=False) if pair[0] != pair[1]), ("", "")
        )
        yield f"altered: {differing[0][:100]!r} became {differing[1][:100]!r}"
    if note := custom.skipped_note():
        count["commands with shell commands that are not run"] += 1
        yield note


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
