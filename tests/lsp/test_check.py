"""What a server says of a change, whatever the server does: new problems, none, or not known and why."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.config.settings import LanguageServerSettings
from friday_cli.core.protocol.code_check import CodeCheck, CodeProblem
from friday_cli.lsp.check import TextChange, check_files
from friday_cli.lsp.entry import ServerFile, read
from friday_cli.lsp.pool import Alternatives, LanguageServers
from friday_cli.lsp.problems import compare
from friday_cli.lsp.project_files import changed_names
from friday_cli.workspace.local import LocalWorkspace
from tests.lsp.test_commands import entry

OLD, WORSE, FIXED = "a\nBAD old\n", "first\na\nBAD old\nBAD new\n", "a\nfine\n"


@asynccontextmanager
async def server(fault: str, root: Path, **more: object) -> AsyncIterator[Alternatives]:
    """A server that plays a fault."""
    content = msgspec.json.encode({"script": entry(fault, **more)})
    table, workspace = read((ServerFile("lsp.json", "user", content),)), LocalWorkspace(root)
    servers = LanguageServers(table, LanguageServerSettings(), os.environ, lambda _: None)
    try:
        (found,) = await servers.alternatives(workspace, root / "a.bad")
        yield found
    finally:
        await servers.close()
        await workspace.close()


async def check(found: Alternatives, old: str, new: str, wait_s: float = 20) -> CodeCheck:
    path = found[0].found.root / "a.bad"
    return await check_files(found, {path: TextChange(old, new)}, wait_s, 1)


@pytest.mark.parametrize(
    "fault",
    [
        "none",
        "late",
        "again",
        "apply_edit",
        "push",
        "push_stale",
        "push_unversioned",
        "push_corrects",
        "push_cleared",
        "push_loads",
    ],
)
async def test_a_change_is_told_from_what_was_there_before(fault: str, tmp_path: Path) -> None:
    async with server(fault, tmp_path) as running:
        worse = await check(running, OLD, WORSE)
        assert [(problem.line, problem.message) for problem in worse.new] == [(4, "bad: BAD new")]
        assert (len(worse.fixed), worse.left, worse.files, worse.unknown) == (0, 1, 1, "")
        fixed = await check(running, OLD, FIXED)
        assert (fixed.new, len(fixed.fixed), fixed.left, fixed.unknown) == ((), 1, 0, "")


@pytest.mark.parametrize(
    ("fault", "wait_s", "reason"),
    [
        ("silent", 0.1, "no answer within"),
        ("dies", 20, "its process has ended"),
        ("garbage", 20, "what it sends cannot be read"),
        ("no_list", 20, "its answer cannot be read"),
        ("error", 20, "panicked"),
    ],
)
async def test_no_answer_is_never_no_problems(fault: str, wait_s: float, reason: str, tmp_path: Path) -> None:
    async with server(fault, tmp_path) as running:
        found = await check(running, OLD, FIXED, wait_s)
        assert reason in found.unknown
        assert not set(found.unknown) & {"\x1b", "\n"}
        assert (found.new, found.fixed) == ((), ())


async def test_a_server_that_does_not_start_is_off(tmp_path: Path) -> None:
    async with server("never_starts", tmp_path, startupTimeout=100) as running:
        assert "it did not start: no answer within" in (await check(running, OLD, FIXED)).unknown
        assert running[0].state == "off"


async def test_one_end_counts_once(tmp_path: Path) -> None:
    """As when it answers no longer, and is found to take too much memory."""
    async with server("none", tmp_path) as (one,):
        await one.ready()
        await asyncio.gather(one.give_up("slow"), one.give_up("large"))
        await one.ready()
        assert one.state == "runs"


async def test_a_server_that_reads_no_longer_is_ended_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.lsp.connection.MOST_WAITING", 100_000)
    async with server("deaf", tmp_path) as running:
        large = TextChange("x" * 90_000, OLD)
        found = await check_files(running, {tmp_path / f"{n}.bad": large for n in range(9)}, 20, 1)
        assert "it does not read what it is sent" in found.unknown
        assert running[0].state == "runs"


@pytest.mark.parametrize("fault", ["flood", "emoji"])
async def test_what_a_server_says_is_one_harmless_line(fault: str, tmp_path: Path) -> None:
    async with server(fault, tmp_path) as running:
        found = await check(running, "", WORSE)
    assert found.new
    for problem in found.new:
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
