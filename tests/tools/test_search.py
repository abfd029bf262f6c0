from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.tools.search import engine, tools
from friday_cli.tools.search.scan import ScanRequest, scan
from friday_cli.workspace.local import LocalWorkspace
from tests.tools.tool_workspace import ToolHarness

RIPGREP = shutil.which("rg") is not None
FILES = {
    ".gitignore": "*.log\n/build/\n!keep.log\nsub/secret*\n# comment\n\\#odd\ntrail\\ \n**/deep/*.tmp\nonly/**\n",
    ".fridayignore": "private/\n*.hidden-from-agents\n",
    ".git/info/exclude": "excluded.txt\n",
    ".github/workflows/ci.yml": "needle: ci",
    "a.py": "import os\nneedle = 1\n\nNEEDLE = 2\nprint(needle)\n",
    "b.txt": "no such thing\ninterface{} and (group)\n",
    "crlf.txt": "one needle\r\ntwo\r\nend needle\r\n",
    "src/.gitignore": "!app.log\ngenerated.py\n",
    "src/app.log": "needle in src",
    "src/x/main.ts": "const needle = 'ä';\n",
    "src/x/main.tsx": "needle needle\n",
    "sub/other": "needle\n" * 3,
    "-dash.py": "-needle\n--needle\n",
    "ünïcode.txt": "needle ünïcode\n",
    "server.pem": "needle PRIVATE",
    "nested/.git/config": "",
    "nested/app.log": "needle nested",
    "long.txt": "needle " + "x" * 10_000 + "\nneedle\n",
    "empty": "",
    "numbers.txt": "".join(f"{n}\n" for n in range(1, 31)),
    **dict.fromkeys(
        (
            *(
                ".git/config",
                ".hidden/h.txt",
                "app.log",
                "keep.log",
                "build/out.py",
                "src/build/in.py",
                "src/generated.py",
            ),
            *(
                "sub/secret1",
                "x/deep/y.tmp",
                "x/deep/y.txt",
                "only/a/b",
                "#odd",
                "trail ",
                "excluded.txt",
                "private/p.txt",
            ),
            *("p.hidden-from-agents", "with space.txt", "new\nline.txt"),
        ),
        "needle",
    ),
}
BYTES = {
    "binary.bin": b"needle\0\x01",
    "late.bin": b"needle\n" * 20_000 + b"\0needle\n",
    "utf16.txt": "needle sixteen\n".encode("utf-16"),
    "mark.txt": b"\xef\xbb\xbfneedle mark\n",
    "latin.txt": b"caf\xe9 needle\n",
}


def plant(root: Path) -> None:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    for name, data in BYTES.items():
        (root / name).write_bytes(data)
    (root / "link.py").symlink_to("a.py")
    (root / "loop").symlink_to(".")


@pytest.fixture(params=["ripgrep", "own"])
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ToolHarness]:
    """The same desk, once where ripgrep is found and once where it is not."""
    if request.param == "own":
        without_ripgrep(tmp_path, monkeypatch)
    elif not RIPGREP:
        pytest.skip("ripgrep is not installed")
    root = tmp_path / "ws"
    root.mkdir()
    plant(root)
    made = ToolHarness(root, *tools())
    yield made
    await made.workspace.close()


def without_ripgrep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.usefixtures("programs_in_temporary_folders")
@pytest.mark.skipif(not RIPGREP, reason="ripgrep is not installed")
async def test_a_ripgrep_with_one_thread_is_understood_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It parts files in another way; that is what a machine with one processor has."""
    root, bin = tmp_path / "ws", tmp_path / "bin"
    root.mkdir()
    plant(root)
    many = ToolHarness(root, *tools())
    expected = [await many.text("grep", pattern="needle", context=context) for context in (0, 2)]
    await many.workspace.close()
    bin.mkdir()
    (bin / "rg").write_text(f'#!/bin/sh\nexec {shutil.which("rg")} -j1 "$@"\n')
    (bin / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")
    one = ToolHarness(root, *tools())
    assert [await one.text("grep", pattern="needle", context=context) for context in (0, 2)] == expected
    await one.workspace.close()


VISIBLE = [
    "-dash.py", "a.py", "b.txt", "binary.bin", "crlf.txt", "empty", "keep.log", "late.bin", "latin.txt",
    "long.txt", "mark.txt", "nested/app.log", "'new\\nline.txt'", "numbers.txt", "src/app.log", "src/build/in.py",
    "src/x/main.ts", "src/x/main.tsx", "sub/other", "utf16.txt", "with space.txt", "x/deep/y.txt", "ünïcode.txt",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "path", "names"),
    [
        ("*.py", ".", ["-dash.py", "a.py", "src/build/in.py"]),
        ("src/**/*.{ts,tsx}", ".", ["src/x/main.ts", "src/x/main.tsx"]),
        ("**/main.*", ".", ["src/x/main.ts", "src/x/main.tsx"]),
        ("/a.py", ".", ["a.py"]),
        ("./a.py", ".", ["a.py"]),
        ("*/app.log", ".", ["nested/app.log", "src/app.log"]),
        ("*.log", "src", ["src/app.log"]),
        ("x/*", "src", ["src/x/main.ts", "src/x/main.tsx"]),
        ("[ab].???", ".", ["b.txt"]),
        ("[!a-z]*.py", ".", ["-dash.py"]),
        (".github/**", ".", [".github/workflows/ci.yml"]),
        ("*.yml", ".", []),
        ("*.yml", ".github", [".github/workflows/ci.yml"]),
        ("out.py", "build", ["build/out.py"]),
        ("*.pem", ".", []),
        ("A.PY", ".", []),
        ("w*e.txt", ".", ["with space.txt"]),
    ],
)
async def test_files_are_found_by_name(harness: ToolHarness, pattern: str, path: str, names: list[str]) -> None:
    text = await harness.text("glob", pattern=pattern, path=path)
    assert [line for line in text.splitlines() if not line.startswith(("[", "No file"))] == names


async def test_everything_visible_and_nothing_else_is_listed(harness: ToolHarness) -> None:
    text = await harness.text("glob", pattern="**")
    assert text.splitlines() == [*VISIBLE, "[1 omitted: may hold secrets]"]


async def test_content_with_numbers_sorted_by_path_and_lines_around_a_match(harness: ToolHarness) -> None:
    text = await harness.text("grep", pattern="^(5|6|20)$", path="numbers.txt", context=1)
    assert text == "numbers.txt\n4-4\n5:5\n6:6\n7-7\n--\n19-19\n20:20\n21-21"
    assert await harness.text("grep", pattern="needle", path="a.py") == "a.py\n2:needle = 1\n5:print(needle)"
    assert await harness.text("grep", pattern="needle", path="src") == (
        "src/app.log\n1:needle in src\n\nsrc/build/in.py\n1:needle\n\n"
        "src/x/main.ts\n1:const needle = 'ä';\n\nsrc/x/main.tsx\n1:needle needle"
    )


async def test_files_and_counts(harness: ToolHarness) -> None:
    files = (await harness.text("grep", pattern="needle", mode="files")).splitlines()
    assert [name for name in files if name != "late.bin"] == [  # where a list of files stops at the first match
        "-dash.py", "a.py", "crlf.txt", "keep.log", "latin.txt", "long.txt", "mark.txt", "nested/app.log",
        "'new\\nline.txt'", "src/app.log", "src/build/in.py", "src/x/main.ts", "src/x/main.tsx", "sub/other",
        "utf16.txt", "with space.txt", "x/deep/y.txt", "ünïcode.txt", "[1 matching files omitted: may hold secrets]",
    ]  # fmt: skip
    assert await harness.text("grep", pattern="needle", mode="count", glob="{other,a.py}") == "a.py: 2\nsub/other: 3"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "needle", "ignore_case": True, "path": "a.py"}, [2, 4, 5]),
        ({"pattern": "^needle$", "path": "sub/other"}, [1, 2, 3]),
        ({"pattern": "needle$", "path": "crlf.txt"}, [1, 3]),
        ({"pattern": "interface{}"}, [2]),
        ({"pattern": "(group)", "literal": True}, [2]),
        ({"pattern": r"\(group\)"}, [2]),
        ({"pattern": "interface{} and (group)", "literal": True}, [2]),
        ({"pattern": r"^\d{2}$", "path": "numbers.txt", "limit": 3}, [10, 11, 12]),
        ({"pattern": "-needle", "path": "-dash.py"}, [1, 2]),
        ({"pattern": "--needle"}, [2]),
        ({"pattern": r"(?P<x>ne)(?P<y>ed)le = [0-9]"}, [2]),
        ({"pattern": r"(?<!end )needle$", "path": "crlf.txt"}, [1]),
        ({"pattern": r"(needle) \1"}, [1]),
        ({"pattern": "sixteen"}, [1]),
        ({"pattern": "^needle mark"}, [1]),
        ({"pattern": "caf. needle|no such"}, [1]),
        ({"pattern": "ÜNÏCODE", "ignore_case": True}, [1]),
        ({"pattern": r"\w+ ünï"}, [1]),
        ({"pattern": "ci", "path": ".github"}, [1]),
        ({"pattern": "needle", "glob": ".github/**"}, [1]),
        ({"pattern": "needle", "path": "app.log"}, [1]),
        ({"pattern": "needle", "path": "build"}, [1]),
        ({"pattern": "PRIVATE"}, []),
        ({"pattern": "PRIVATE", "path": "server.pem"}, [1]),
        ({"pattern": "nothing like this"}, []),
    ],
)
async def test_patterns(harness: ToolHarness, arguments: dict[str, Any], found: list[int]) -> None:
    lines = (await harness.text("grep", **arguments)).splitlines()
    numbers = [int(line.partition(":")[0]) for line in lines if line.partition(":")[0].isdigit()]
    if arguments["pattern"] == "caf. needle|no such":
        assert len(numbers) >= 1  # ripgrep's dot is a character; a byte that is none does not match it
    else:
        assert numbers == found


async def test_limits_are_said(harness: ToolHarness) -> None:
    text = await harness.text("grep", pattern="^1", path="numbers.txt", limit=4)
    assert text.splitlines()[-1] == "[7 more matching lines; narrow the pattern, path or glob, or raise limit]"
    text = await harness.text("grep", pattern="needle", limit=2, mode="files")
    assert text.splitlines()[2].endswith("more files; narrow the pattern, path or glob, or raise limit]")
    long = await harness.text("grep", pattern="needle", path="long.txt")
    assert long.splitlines()[1].endswith("x [truncated]")
    assert len(long) < 600
    for number in range(600):
        (harness.root / f"many-{number:03}.md").touch()
    names = (await harness.text("glob", pattern="*.md")).splitlines()
    assert names[499:] == ["many-499.md", "[100 more; narrow the pattern or the path]"]


async def test_a_folder_of_secrets_is_not_searched_for_being_named(harness: ToolHarness) -> None:
    (harness.root / ".ssh").mkdir()
    (harness.root / ".ssh/config").write_text("needle\n")
    assert await harness.text("grep", pattern="needle", path=".ssh") == (
        "No match.\n[1 matching files omitted: may hold secrets]"
    )
    assert "config" not in await harness.text("glob", pattern="*", path=".ssh")
    assert await harness.text("grep", pattern="needle", path=".ssh/config") == ".ssh/config\n1:needle"


async def test_binary_files_give_no_lines_and_are_refused_by_name(harness: ToolHarness) -> None:
    assert await harness.text("grep", pattern="needle", glob="*.bin") == "No match."
    assert "binary" in await harness.error("grep", pattern="x", path="binary.bin")


@pytest.mark.parametrize("pattern", ["(", "a**[", "[z-a]", r"a\nb", "a\nb", "*", "x{2,1}", r"(?<=a)[[:digit:]]"])
async def test_patterns_that_are_none_are_refused_in_words(harness: ToolHarness, pattern: str) -> None:
    error = await harness.error("grep", pattern=pattern)
    assert "pattern" in error.lower()
    assert len(error) < 400
    assert "\n" not in error.replace(pattern, "")


@pytest.mark.parametrize("pattern", ["[[:digit:]]", "[0-9&&[^5]]", r"(?<y>ed)le = 1", r"\p{Nd}", r"\x{31}", r"1\z"])
async def test_what_only_ripgrep_knows_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    without_ripgrep(tmp_path, monkeypatch)
    (tmp_path / "a.py").write_text("needle = 1\n")
    harness = ToolHarness(tmp_path, *tools())
    error = await harness.error("grep", pattern=pattern)
    await harness.workspace.close()
    assert "not a valid regular expression for Python's re" in error
    assert "is used without ripgrep" in error


async def test_places_that_are_none_are_refused(harness: ToolHarness) -> None:
    assert "does not exist" in await harness.error("grep", pattern="x", path="missing")
    assert "not a folder" in await harness.error("glob", pattern="x", path="a.py")
    assert "outside" in await harness.error("grep", pattern="x", path="../other")
    assert "outside" in await harness.error("glob", pattern="x", path="/etc")
    assert ".." in await harness.error("glob", pattern="../*")
    assert "unclosed" in await harness.error("glob", pattern="a{b")
    assert "unclosed" in await harness.error("glob", pattern="a[b")


async def test_without_a_repository_ignore_files_hold_from_the_searched_folder_down(harness: ToolHarness) -> None:
    shutil.rmtree(harness.root / ".git")
    (harness.root.parent / ".gitignore").write_text("a.py\n")
    names = (await harness.text("glob", pattern="**")).splitlines()
    assert {"a.py", "excluded.txt"} <= set(names)
    assert not {"app.log", "src/generated.py"} & set(names)


async def test_hidden_files_stay_hidden_whatever_an_ignore_file_keeps(harness: ToolHarness) -> None:
    (harness.root / "src/.gitignore").write_text("!.*\n")
    (harness.root / ".gitignore").write_text("!.*\n")
    names = (await harness.text("glob", pattern="*")).splitlines()
    assert "a.py" in names
    assert not [name for name in names if name.startswith(".") or "/." in name]
    assert "config" not in await harness.text("grep", pattern="needle", mode="files")


async def test_what_git_keeps_is_not_even_looked_through(harness: ToolHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ignore file that keeps what is hidden would have every search read the whole of `.git`."""
    (harness.root / ".gitignore").write_text("!.*\n")
    (harness.root / ".git/large").write_text("needle\n" * 100_000)
    monkeypatch.setattr(engine, "MAX_BYTES", 600_000)
    assert "more than can be looked through" not in await harness.text("grep", pattern="needle")


async def test_below_a_repository_its_ignore_files_hold(harness: ToolHarness) -> None:
    inner = ToolHarness(harness.root / "src", *tools())
    names = (await inner.text("glob", pattern="*")).splitlines()
    await inner.workspace.close()
    assert names == ["app.log", "build/in.py", "x/main.ts", "x/main.tsx"]


async def test_folders_added_to_the_workspace_are_named_in_full(harness: ToolHarness, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "o.txt").write_text("needle\n")
    (other / ".fridayignore").write_text("no.txt")
    (other / "no.txt").write_text("needle\n")
    both = ToolHarness(harness.root, *tools(), workspace=LocalWorkspace(harness.root, extra=[other]))
    found = [
        await both.text("grep", pattern="needle", path=str(other)),
        await both.text("glob", pattern="*", path=str(other)),
    ]
    await both.workspace.close()
    assert found == [f"{other}/o.txt\n1:needle", f"{other}/o.txt"]


async def test_a_pattern_that_never_ends_is_stopped_and_what_was_found_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ripgrep(tmp_path, monkeypatch)
    monkeypatch.setattr("friday_cli.tools.search.engine.TIMEOUT_S", 4.0)
    (tmp_path / "ws/below").mkdir(parents=True)
    (tmp_path / "ws/first").write_text("aaa\n")
    (tmp_path / "ws/below/f").write_text("a" * 60 + "!")
    harness = ToolHarness(tmp_path / "ws", *tools())
    text = await harness.text("grep", pattern="^(a+)+$")
    await harness.workspace.close()
    assert text == "first\n1:aaa\n[the search took longer than 4 s and was stopped]"


async def test_too_much_to_look_through_is_said(harness: ToolHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("friday_cli.tools.search.engine.MAX_BYTES", 100)
    text = await harness.text("grep", pattern=".", path="numbers.txt")
    assert text.endswith("[the output is too large; some results are missing]")
    assert "numbers.txt\n1:1\n2:2\n" in text


def test_our_own_search_needs_nothing_but_the_standard_library() -> None:
    home = str(Path(__file__).parents[2])
    code = "import sys; sys.path.insert(0, sys.argv[1]); import friday_cli.tools.search.scan; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, home], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"msgspec", "asyncio"} & set(modules)
    assert {name for name in modules if name.startswith("friday_cli.core.")} == {
        "friday_cli.core.text",
        "friday_cli.core.text.star_regex",
    }


PARTS = ["a", "b", "ab", "*", "*b", "a*", "?", "**", "[ab]", "[!a]", "a.b", "*.b", "\\a", "c", "a?", "ab*"]
NAMES = ["aa", "ba", "a.b", "c.b", "c", "ab.c"]
USUAL = ["*\n!*/\n!*.b\n", "d/**\n!d/c\n", "*.b\n!b/\n", "/*\n!/d\n/d/*\n!/d/a\n", "d/a/**\n!d/a/**/\n!d/a/b/c\n"]
"""Rules that people write: only some files, a folder but for one file, a folder that is kept."""


def random_rules(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randint(1, 6)):
        body = "/".join(chance.choice(PARTS) for _ in range(chance.choice((1, 1, 1, 2, 2, 3))))
        lines.append(
            f"{'!' * (chance.random() < 0.35)}{'/' * (chance.random() < 0.3)}{body}{'/' * (chance.random() < 0.3)}"
        )
    return "\n".join(lines) + "\n"


def test_ignore_files_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    chance = random.Random(4711)
    for folder in ("", "a", "b", "ab", "a/a", "a/b", "a/b/ab", "b/a", "b/ab/a", "ab/b"):
        (tmp_path / "d" / folder).mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (tmp_path / "d" / folder / name).touch()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    request = ScanRequest(
        root=str(tmp_path),
        base=str(tmp_path),
        only="",
        mode="list",
        pattern="",
        ignore_case=False,
        context=0,
        hidden=False,
        ignore=True,
        name="",
    )
    differ, kept = [], 0
    for turn in range(80):
        rules, inner = random_rules(chance), random_rules(chance) if turn % 3 == 0 else ""
        if turn < len(USUAL):
            rules, inner = USUAL[turn], ""
        (tmp_path / ".gitignore").write_text(rules)
        (tmp_path / "d/a/.gitignore").write_text(inner)
        listed = ["git", "-c", "core.excludesFile=", "ls-files", "-oz", "--exclude-standard", "--", ":!.*", ":!**/.*"]
        theirs = set(subprocess.run(listed, cwd=tmp_path, check=True, capture_output=True).stdout.split(b"\0"))
        out = io.BytesIO()
        scan(request, out)
        kept += len(theirs) > 1
        if ours := theirs ^ set(out.getvalue().split(b"\0")):
            differ.append((rules, inner, sorted(ours)[:5]))
    assert differ == []
    assert kept > 20


async def test_nobody_outside_the_tool_s_words_is_asked(harness: ToolHarness) -> None:
    """Names and patterns that look like flags or shell text are only what they are."""
    for pattern in ("--pre=touch pwned", "$(touch pwned)", "`touch pwned`", "; touch pwned", "-e"):
        await harness.text("grep", pattern=pattern, literal=True)
        await harness("glob", pattern=pattern)
        with pytest.raises(ToolError):
            await harness("grep", pattern="x", path=pattern)
    assert not (harness.root / "pwned").exists()
