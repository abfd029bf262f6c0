"""Twenty refactorings of a small Python project by a scripted model, with the check of changes and without: how many broken references
reach the next run of the tests, how many requests and tokens it takes, and what is left. No real model is asked: whether models read
and use what they are told is not shown here. `python -m tests.counterparts lsp --only refactorings` runs them with ty."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from friday_cli.core.protocol.events import AgentFinished, Envelope, MessageAdded
from tests.session.harness import Harness, does, says

TESTS = """
import pathlib, runpy, sys
bad = 0
for path in sorted(pathlib.Path('.').glob('use*.py')):
    try:
        runpy.run_path(str(path))
    except Exception as error:
        bad += 1
        print(f'FAILED {path}: {type(error).__name__}')
print('all passed' if not bad else f'{bad} failed')
"""


class Refactoring(NamedTuple):
    """`model.py` before and after, and the line of each user, before and after. `rename`: the old and the new name, where it is no more
    than that."""

    name: str
    before: str
    after: str
    use: str
    mended: str
    users: int
    rename: tuple[str, str] = ("", "")


_CLASS = "class Item:\n    size: int = 2\n    def area(self) -> int:\n        return self.size\n"


def _renames(name: str, before: str, use: str, old: str, new: str, users: int) -> Refactoring:
    return Refactoring(name, before, before.replace(old, new), use, use.replace(old, new), users, (old, new))


REFACTORINGS = (
    _renames("rename a function", "def area(a: int) -> int:\n    return a\n", "from model import area\n\nV: int = area(1)\n", "area", "surface", 6),
    _renames("rename a class", _CLASS, "from model import Item\n\nV: int = Item().size\n", "Item", "Article", 9),
    _renames("rename a method", _CLASS, "from model import Item\n\nV: int = Item().area()\n", "area", "surface", 12),
    _renames("rename an attribute", _CLASS, "from model import Item\n\nV: int = Item().size\n", "size", "width", 5),
    _renames("rename a constant", "LIMIT: int = 3\n", "from model import LIMIT\n\nV: int = LIMIT + 1\n", "LIMIT", "MOST", 4),
    _renames("rename a member of an enum", "import enum\n\nclass Kind(enum.Enum):\n    SMALL = 1\n    LARGE = 2\n",
             "from model import Kind\n\nV: Kind = Kind.SMALL\n", "SMALL", "LITTLE", 7),
    Refactoring("a parameter more", "def area(a: int) -> int:\n    return a\n", "def area(a: int, b: int) -> int:\n    return a * b\n",
                "from model import area\n\nV: int = area(1)\n", "from model import area\n\nV: int = area(1, 2)\n", 8),
    Refactoring("a parameter less", "def area(a: int, b: int) -> int:\n    return a * b\n", "def area(a: int) -> int:\n    return a\n",
                "from model import area\n\nV: int = area(1, 2)\n", "from model import area\n\nV: int = area(1)\n", 8),
    Refactoring("a keyword renamed", "def area(*, wide: int) -> int:\n    return wide\n", "def area(*, width: int) -> int:\n    return width\n",
                "from model import area\n\nV: int = area(wide=1)\n", "from model import area\n\nV: int = area(width=1)\n", 3),
    Refactoring("arguments by keyword only", "def area(a: int, b: int) -> int:\n    return a * b\n",
                "def area(*, a: int, b: int) -> int:\n    return a * b\n", "from model import area\n\nV: int = area(1, 2)\n",
                "from model import area\n\nV: int = area(a=1, b=2)\n", 10),
    Refactoring("two arguments become one", "def area(a: int, b: int) -> int:\n    return a * b\n",
                "def area(both: tuple[int, int]) -> int:\n    return both[0] * both[1]\n", "from model import area\n\nV: int = area(1, 2)\n",
                "from model import area\n\nV: int = area((1, 2))\n", 6),
    Refactoring("a tuple is returned", "def area(a: int) -> int:\n    return a\n", "def area(a: int) -> tuple[int, str]:\n    return a, 'm'\n",
                "from model import area\n\nV: int = area(1) + 1\n", "from model import area\n\nV: int = area(1)[0] + 1\n", 5),
    Refactoring("a dict becomes a class", "def item() -> dict[str, int]:\n    return {'size': 1}\n",
                f"{_CLASS}\ndef item() -> Item:\n    return Item()\n", "from model import item\n\nV: int = item()['size']\n",
                "from model import item\n\nV: int = item().size\n", 11),
    Refactoring("a function becomes a method", f"{_CLASS}\ndef doubled(item: Item) -> int:\n    return 2 * item.size\n",
                f"{_CLASS}    def doubled(self) -> int:\n        return 2 * self.size\n",
                "from model import Item, doubled\n\nV: int = doubled(Item())\n", "from model import Item\n\nV: int = Item().doubled()\n", 4),
    Refactoring("a field is removed", _CLASS, _CLASS.replace("    size: int = 2\n", "").replace("self.size", "2"),
                "from model import Item\n\nV: int = Item().size\n", "from model import Item\n\nV: int = Item().area()\n", 6),
    Refactoring("a function becomes asynchronous", "def area(a: int) -> int:\n    return a\n", "async def area(a: int) -> int:\n    return a\n",
                "from model import area\n\nV: int = area(1) + 1\n", "import asyncio\nfrom model import area\n\nV: int = asyncio.run(area(1)) + 1\n", 7),
    Refactoring("a method becomes a property", _CLASS, _CLASS.replace("    def area", "    @property\n    def area"),
                "from model import Item\n\nV: int = Item().area()\n", "from model import Item\n\nV: int = Item().area\n", 9),
    Refactoring("a list becomes an iterator", "def all_of() -> list[int]:\n    return [1]\n",
                "from collections.abc import Iterator\n\ndef all_of() -> Iterator[int]:\n    yield 1\n",
                "from model import all_of\n\nV: int = all_of()[0]\n", "from model import all_of\n\nV: int = next(all_of())\n", 5),
    Refactoring("a number becomes a text", "def area(a: int) -> int:\n    return a\n", "def area(a: str) -> int:\n    return len(a.strip())\n",
                "from model import area\n\nV: int = area(1)\n", "from model import area\n\nV: int = area('1')\n", 12),
    Refactoring("a function is removed", "def area(a: int) -> int:\n    return a\n\ndef plain(a: int) -> int:\n    return a\n",
                "def plain(a: int) -> int:\n    return a\n", "from model import area\n\nV: int = area(1)\n",
                "from model import plain\n\nV: int = plain(1)\n", 3),
)  # fmt: skip


class Outcome(NamedTuple):
    """What one session did."""

    reached: int
    """Broken references that reached the first run of the tests."""
    left: int
    """Those at the end."""
    unnamed: int
    """Files that the model mended although no result named them."""
    requests: int
    tokens: int
    """Input and output of all requests, each input counted as often as it was sent."""
    told: int
    """Characters of the lines of the language server, or of the tools `code` and `rename_symbol`."""


async def played(harness: Harness, task: Refactoring, way: str, options: Mapping[str, Any]) -> Outcome:
    """One session: `way` is "check" (the model mends what the check names), "tool" (it calls `rename_symbol`) or "none"."""
    folder = harness.project
    for path in [*folder.glob("*.py"), *folder.glob("__pycache__")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    users = [f"use{number}.py" for number in range(task.users)]
    texts = {"model.py": task.before, "run_tests.py": TESTS, **dict.fromkeys(users, task.use)}
    for name, text in {**texts, "pyproject.toml": '[project]\nname = "a"\nversion = "1"\n'}.items():
        (folder / name).write_text(text)
    harness.plays({"a": _turns(task, way, users)})
    flags = dict(options.get("flags", {})) | ({"lsp.report": "off", "lsp.tool": "off"} if way == "none" else {})
    session = await harness.ran(**{**options, "flags": flags})
    return _outcome(await harness.log(session.id), harness, users)


def _turns(task: Refactoring, way: str, users: Sequence[str]) -> list[dict[str, Any]]:
    mends = does(*(("write_file", {"path": name, "content": task.mended}) for name in users))
    tests = does(("bash", {"command": f"{sys.executable} run_tests.py"}))
    rules = [{"when": words, **mends} for words in ("use0.py:1 ", "use0.py:3 ", "FAILED use0.py")]
    if way == "tool":
        old, new = task.rename
        rename = {
            "path": "model.py",
            "name": f"Item.{old}" if task.before == _CLASS and old != "Item" else old,
            "new_name": new,
        }
        return [
            *rules,
            does(("rename_symbol", rename)),
            does(("rename_symbol", {**rename, "apply": True})),
            tests,
            says("done"),
        ]
    reads = does(*(("read_file", {"path": name}) for name in ("model.py", *users)))
    change = does(("write_file", {"path": "model.py", "content": task.after}))
    return [*rules, reads, change, tests, *([tests] if way == "none" else []), says("done")]


def _outcome(log: Sequence[Envelope], harness: Harness, users: Sequence[str]) -> Outcome:
    results = [result for e in log if isinstance(e.event, MessageAdded) for result in e.event.message.results]
    texts = [result.text for result in results]
    first = next((text for text in texts if "all passed" in text or " failed\n" in f"{text}\n"), "")
    told = [
        text.partition("\nty: ")[2] or (text if " would change." in text or text.startswith("Renamed ") else "")
        for text in texts
    ]
    named = "".join(text for text in texts if "\nty: " in text or "FAILED " in text)
    ran = subprocess.run(
        [sys.executable, "run_tests.py"], cwd=harness.project, capture_output=True, text=True, check=False
    )
    usage = next(e.event.usage for e in log if isinstance(e.event, AgentFinished))
    requests = sum(isinstance(e.event, MessageAdded) and e.event.message.role == "assistant" for e in log)
    return Outcome(
        first.count("FAILED "), ran.stdout.count("FAILED "), sum(name not in named for name in users), requests,
        usage.input + usage.cache_read + usage.cache_write + usage.output, sum(map(len, told)),
    )  # fmt: skip


async def compared(
    harness: Harness, options: Mapping[str, Any]
) -> AsyncIterator[tuple[Refactoring, dict[str, Outcome]]]:
    """Each refactoring in each way that it can be done."""
    for task in REFACTORINGS:
        ways = ["none", "check", *(["tool"] if task.rename[0] else [])]
        yield task, {way: await played(harness, task, way, options) for way in ways}


def table(found: Sequence[tuple[Refactoring, dict[str, Outcome]]]) -> str:
    """The sums as Markdown."""
    rows = [
        "| way | sessions | broken references in the next run of the tests | left | requests | tokens | told |",
        "|" + "---|" * 7,
    ]
    for way in ("none", "check", "tool"):
        sums = [ways[way] for _, ways in found if way in ways]
        rows.append(
            f"| {way} | {len(sums)} | {sum(one.reached for one in sums)} | {sum(one.left for one in sums)} "
            f"| {sum(one.requests for one in sums)} | {sum(one.tokens for one in sums):,} | {sum(one.told for one in sums):,} |"
        )
    return "\n".join(rows)
