"""Where files that run code later are: what is found again after random changes is what is found anew."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from friday_cli.core.permissions.runs_later import ROWS, is_protected, protected_names
from friday_cli.workspace.sandbox import code_places
from friday_cli.workspace.sandbox.code_places import CodePlaces

NAMES = (".vscode", ".envrc", "Jenkinsfile", "notes.txt", "package.json")


def make_folder(chance: random.Random, at: Path) -> None:
    (at / f"f{chance.randrange(9)}" / "inner").mkdir(parents=True, exist_ok=True)


def make_file(chance: random.Random, at: Path) -> None:
    file = at / chance.choice(NAMES)
    if not file.exists():
        file.write_text("x")


def make_repository(chance: random.Random, at: Path) -> None:
    (at / ".git" / "hooks").mkdir(parents=True, exist_ok=True)


def remove(chance: random.Random, at: Path) -> None:
    names = sorted(at.iterdir())
    if names:
        name = chance.choice(names)
        shutil.rmtree(name) if name.is_dir() else name.unlink()


def move(chance: random.Random, at: Path) -> None:
    names = sorted(at.iterdir())
    if names:
        chance.choice(names).rename(at / f"moved{chance.randrange(10**6)}")


def make_again(chance: random.Random, at: Path) -> None:
    """A folder in the place of another one, with the same names: of what is in it nobody tells."""
    for folder in sorted(path for path in at.iterdir() if path.is_dir())[:1]:
        shutil.rmtree(folder)
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / ".envrc").write_text("x")


CHANGES: tuple[Callable[[random.Random, Path], None], ...] = (
    make_folder, make_folder, make_file, make_file, make_file, make_repository, remove, move, make_again,
)  # fmt: skip


@pytest.mark.parametrize("watched_from", [0, 10**6], ids=["watched", "asked"])
@pytest.mark.parametrize("seed", range(8))
def test_the_places_after_changes_are_those_of_a_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, watched_from: int
) -> None:
    monkeypatch.setattr(code_places, "WATCHED_FROM", watched_from)
    chance, root = random.Random(seed), tmp_path / "project"
    for number in range(4):
        (root / f"f{number}" / "inner").mkdir(parents=True)
    places = CodePlaces(str(root))
    for _ in range(60):
        for _ in range(chance.randint(0, 3)):
            folders = [root, *(path for path in root.rglob("*") if path.is_dir() and ".git" not in path.parts)]
            chance.choice(CHANGES)(chance, chance.choice(sorted(folders)))
        assert places.find() == CodePlaces(str(root)).find()


@pytest.mark.parametrize(
    "name", sorted({name.strip("/") for _, _, names in ROWS for name in names.split()} | {"a.txt", "git"})
)
def test_a_name_alone_is_judged_as_its_path(name: str) -> None:
    spelled = [
        name,
        name.upper(),
        name.replace("*", "x.y"),
        name.replace("*", ""),
        f"{name}.bak",
        f"a{name}",
        name + "\n",
    ]
    for one in (part for text in spelled for part in (text, text.rpartition("/")[2]) if "/" not in part):
        names, matches = protected_names()
        assert (one.lower() in names or bool(matches(one.lower()))) == is_protected(one), one
