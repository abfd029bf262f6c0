"""Which files git ignores, compared with git itself over random rules in forms that people hardly ever write."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from friday_cli.system.gitignore import is_ignored
from tests.fuzz import seeds

PIECES = ["a", "b", "ab", "A", "é", "*", "**", "***", "?", "/", "/", "[ab]", "[!a]", "[^a]", "[a-c]", "[c-a]", "[a-]", "[]a]", "[!]a]", "[\\a]", "[a\\]]",
          "[\\\\]", "[a", "[é]", "[[:alpha:]]", "[[:upper:]]", "[[:foo:]]", "[.]", "[/]", "\\a", "\\*", "\\ ", "\\", " ", "\t", "!", "#", "{a,b}", ".", "+", "^", "$", "("]  # fmt: skip
NAMES = ["a", "b", "ab", "A", "Ab", "aa", "c", "é", "ü", "[a", "a]", "*", "?", "a ", "\\", "a\\", "!a", "#a", "-", "a-", "{a,b}", ".a", "^a", "(", "a\tb"]  # fmt: skip


def rules(rng: random.Random) -> str:
    end = rng.choice(("\n", "\n", "\r\n"))
    lines = (
        rng.choice(("", "", "!")) + "".join(rng.choices(PIECES, k=rng.randint(1, 4))) + rng.choice(("", "", "/", " "))
        for _ in range(rng.randint(1, 5))
    )
    return rng.choice(("", "\ufeff")) + "".join(f"{line}{end}" for line in lines)


def grown(top: Path, rng: random.Random) -> list[str]:
    """A repository with random folders, files and rules; the names of its files."""
    subprocess.run(["git", "init", "-q", "-b", "main", top], check=True)
    (top / ".git/config").write_text(f"[core]\n\tignoreCase = {rng.choice(('true', 'false'))}\n")
    folders, files = [top], []
    for _ in range(6):
        folder = rng.choice(folders) / rng.choice(NAMES)
        if not folder.exists():
            folder.mkdir()
            folders.append(folder)
    for _ in range(25):
        file = rng.choice(folders) / rng.choice(NAMES)
        if not file.exists():
            file.touch()
            files.append(str(file.relative_to(top)))
    for folder in folders:
        if folder == top or rng.random() < 0.3:
            (folder / ".gitignore").write_text(rules(rng))
    (top / ".git/info").mkdir(exist_ok=True)
    (top / ".git/info/exclude").write_text(rules(rng))
    return files


def test_random_rules_mean_what_they_mean_to_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    first, differ, hidden = seeds.first(), [], 0
    for seed in range(first, first + 40 * seeds.TIMES):
        top = tmp_path / str(seed)
        files = grown(top, random.Random(seed))
        asked = ["git", "-C", top, "check-ignore", "-z", "--stdin"]
        ran = subprocess.run(asked, input="\0".join(files).encode(), capture_output=True, check=False)
        theirs = set(ran.stdout.decode().split("\0"))
        hidden += len(theirs) > 1
        differ += [(seed, name) for name in files if is_ignored(top / name) != (name in theirs)]
    assert differ == []
    assert hidden > 20
