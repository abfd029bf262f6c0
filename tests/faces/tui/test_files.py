"""The names that `@` offers: the best first, and never a search without end."""

from __future__ import annotations

from pathlib import Path

from friday_cli.faces.tui.files import SHOWN, Files


async def matches(root: Path, query: str, *names: str) -> list[str]:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    files = Files(root)
    await files.refresh()
    return await files.matches(query)


async def test_a_name_that_begins_so_is_before_one_that_has_it_and_letters_in_order_are_last(tmp_path: Path) -> None:
    names = ("docs/app.md", "src/map.py", "app/x.py", "a/pp.txt", "src/APP_long.py", "other.py", "söpa/pp.txt")
    found = await matches(tmp_path, "app", *names)
    assert found == ["docs/app.md", "src/APP_long.py", "app/x.py", "a/pp.txt", "src/map.py", "söpa/pp.txt"]
    assert await matches(tmp_path, "src/m") == ["src/map.py"]
    assert await matches(tmp_path, "") == ["other.py", "a/pp.txt", "app/x.py", "docs/app.md", "src/APP_long.py", "src/map.py", "söpa/pp.txt"]  # fmt: skip
    assert await matches(tmp_path, "zq.*") == []


async def test_a_name_of_one_letter_repeated_does_not_hold_the_search_up(tmp_path: Path) -> None:
    assert await matches(tmp_path, "aaaaaaaaaaab", "a" * 200, "b") == []


async def test_so_many_are_offered_and_no_name_twice(tmp_path: Path) -> None:
    found = await matches(tmp_path, "mm", *(f"mm/mm{n}mm" for n in range(SHOWN + 20)))
    assert len(found) == len(set(found)) == SHOWN
