"""What a server says of a change, whatever the server does: new problems, none, or not known and why."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.core.protocol.code_check import CodeCheck, CodeProblem
from friday_cli.lsp.check import ChangedText, check_change
from friday_cli.lsp.connection import LanguageServer, NoAnswer, NotKnown
from friday_cli.lsp.problems import compare
from friday_cli.lsp.project_files import changed_names

SCRIPT = Path(__file__).with_name("scripted_server.py")
OLD, WORSE, FIXED = "a\nBAD old\n", "first\na\nBAD old\nBAD new\n", "a\nfine\n"


def changed(path: Path, old: str, new: str) -> ChangedText:
    return ChangedText(path, path.name, "python", old, new)


class Stream:
    """A server as a plain process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def read(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.read(65536)

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def end(self, close_s: float) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


@asynccontextmanager
async def server(fault: str, root: Path, start_s: float = 20) -> AsyncIterator[LanguageServer]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, str(SCRIPT), fault, stdin=pipe, stdout=pipe)
    running = await LanguageServer.start(
        Stream(process), root, settings={}, options={}, report=lambda _: None, start_s=start_s
    )
    try:
        yield running
    finally:
        await running.close()


@pytest.mark.parametrize(
    "fault", ["none", "late", "again", "apply_edit", "push", "push_stale", "push_unversioned", "push_corrects"]
)
async def test_a_change_is_told_from_what_was_there_before(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    async with server(fault, tmp_path) as running:
        worse = await check_change(running, [changed(path, OLD, WORSE)], 20)
        assert [(problem.line, problem.message) for problem in worse.new] == [(4, "bad: BAD new")]
        assert (len(worse.fixed), worse.left, worse.files, worse.unknown) == (0, 1, 1, "")
        fixed = await check_change(running, [changed(path, OLD, FIXED)], 20)
        assert (fixed.new, len(fixed.fixed), fixed.left, fixed.unknown) == ((), 1, 0, "")


@pytest.mark.parametrize(
    ("fault", "wait_s", "reason"),
    [
        ("silent", 0.1, "no answer within"),
        ("dies", 20, "its process has ended"),
        ("garbage", 20, "what it sends cannot be read"),
        ("no_list", 20, "not a list of problems"),
        ("error", 20, "panicked"),
    ],
)
async def test_no_answer_is_never_no_problems(fault: str, wait_s: float, reason: str, tmp_path: Path) -> None:
    async with server(fault, tmp_path) as running:
        try:
            check = await check_change(running, [changed(tmp_path / "a.py", OLD, FIXED)], wait_s)
        except NoAnswer as error:
            check = CodeCheck(unknown=str(error))
        assert reason in check.unknown
        assert not set(check.unknown) & {"\x1b", "\n"}
        assert check.new == ()
        assert check.fixed == ()


async def test_a_server_that_does_not_start_is_ended(tmp_path: Path) -> None:
    with pytest.raises(NotKnown, match="no answer within"):
        async with server("never_starts", tmp_path, start_s=0.1):
            pass


@pytest.mark.parametrize("fault", ["flood", "emoji"])
async def test_what_a_server_says_is_one_harmless_line(fault: str, tmp_path: Path) -> None:
    async with server(fault, tmp_path) as running:
        check = await check_change(running, [changed(tmp_path / "a.py", "", WORSE)], 20)
    assert check.new
    for problem in check.new:
        assert len(problem.message) <= 300
        assert not set(problem.message) & {"\x1b", "\x07", "\u202e", "\n"}


def test_a_problem_whose_line_only_got_another_name_is_not_new() -> None:
    def found(name: str, line: str) -> tuple[list[CodeProblem], dict[str, str]]:
        return [CodeProblem("f", 1, f"`{name}` expects a text, not {line[-2]}", "arguments")], {"f": line}

    check = compare(*found("Item.area", "v = Item().area(1)"), *found("Item.size", "v = Item().size(1)"))
    assert (check.new, check.fixed, check.left) == ((), (), 1)
    other = compare(*found("Item.area", "v = Item().area(1)"), *found("Item.size", "v = Item().size(2)"))
    assert (len(other.new), len(other.fixed)) == (1, 1)


_LINES = st.lists(st.sampled_from(["a", "b", "BAD x", "BAD y"]), max_size=8)


def _bad(lines: list[str]) -> list[CodeProblem]:
    return [CodeProblem("f", at, line) for at, line in enumerate(lines, 1) if "BAD" in line]


@given(_LINES, _LINES)
def test_every_problem_is_new_or_left_and_moved_ones_are_left(old: list[str], new: list[str]) -> None:
    check = compare(_bad(old), {"f": "\n".join(old)}, _bad(new), {"f": "\n".join(new)})
    assert len(check.new) + check.left == len(_bad(new))
    assert len(check.fixed) + check.left == len(_bad(old))
    if sorted(old) == sorted(new):
        assert not check.new
        assert not check.fixed


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("def area(a: int) -> int:", "area"),
        ("export async function area(a: number) {", "area"),
        ("func area(a int) int {", "area"),
        ("static inline int area(int a);", "area"),
        ("std::vector<int> area(int a) {", "area"),
        ("  public List<String> area(int a) {", "area"),
        ("AREA: int = 1", "AREA"),
        ("    return area(1)", None),
    ],
)
def test_the_name_that_a_changed_line_defines(line: str, name: str | None) -> None:
    assert changed_names(Path("a.x"), line, f"{line} # changed") == ([name] if name else [])
