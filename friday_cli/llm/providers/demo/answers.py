"""Small questions that a few calls answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from friday_cli.core.text.sanitize import code_block

from . import reading, tasks, words
from .intent import Intent
from .play import End, Got, Script, Seat, Step, Wish

SHOWN_LINES, SHOWN_NAMES, SHOWN_HITS = 120, 60, 20
_DEFINES = r"\b(def|class|func|fn|function|const|let|var|type|struct|interface|enum|trait|module)\s+"


def answer(seat: Seat, wanted: Intent) -> Script:
    """The answer to an intent."""
    scripts: dict[str, Callable[[Seat, Intent], Script]] = {
        "read": _read, "list": _list, "count": _count, "find": _find, "todos": _todos, "run": _run,
        "largest": _largest,
    }  # fmt: skip
    return scripts.get(wanted.kind, _say)(seat, wanted)


def _say(seat: Seat, wanted: Intent) -> Script:
    yield from ()
    text = {"hello": words.HELLO, "json": words.NO_JSON}.get(wanted.kind, words.UNKNOWN)
    return End(text, (), wanted.kind == "hello")


def _read(seat: Seat, wanted: Intent) -> Script:
    path = wanted.target
    (got,) = yield _step(f"Reading {words.code(path)}.", tasks.read(path, SHOWN_LINES))
    if got.status == "error":
        parent, _, name = path.rstrip("/").rpartition("/")
        (look,) = yield _step("That is no file that can be read; looking beside it.", tasks.look(parent or "."))
        folder = reading.folder(look.text) if look.ok else reading.Folder([], [], reading.Tally(0), True)
        if name in folder.folders:
            return (yield from _list(seat, Intent("list", path=path)))
        if other := _like(name, folder.files):
            path = f"{parent}/{other}" if parent else other
            (got,) = yield _step(f"There is {words.code(path)}: reading that.", tasks.read(path, SHOWN_LINES))
    if not got.ok:
        return _failed(seat, got)
    page = reading.page(got.text)
    if not page.lines:
        return _end(seat, f"{words.code(path)}: {words.quoted(got.text)}", got)
    shown = f"the first {len(page.lines):,} of {words.amount(page.total, 'line')}"
    if len(page.lines) == page.total.count:
        shown = words.amount(page.total, "line")
    language = path.rpartition(".")[2] if re.fullmatch(r".*\.\w{1,6}", path) else ""
    return _end(seat, f"{words.code(path)}, {shown}:\n\n{code_block(chr(10).join(page.lines), language)}", got)


def _like(name: str, names: Sequence[str]) -> str:
    """The one file that is called so but for capitals and ending, "" where there is none or it is `name` itself."""
    if name in names:
        return ""
    same = [one for one in names if one.lower() == name.lower()]
    same = same or [one for one in names if one.lower().partition(".")[0] == name.lower()]
    return same[0] if len(same) == 1 else ""


def _list(seat: Seat, wanted: Intent) -> Script:
    if not wanted.glob:
        (got,) = yield _step(f"Listing {words.code(wanted.path)}.", tasks.look(wanted.path))
        if got.status == "error":
            (read,) = yield _step("Perhaps it is a file.", tasks.read(wanted.path, 1))
            if read.ok:
                return (yield from _read(seat, Intent("read", wanted.path)))
        return _listed(seat, got, wanted.path) if got.ok else _failed(seat, got)
    (got,) = yield _step(f"Listing {words.code(wanted.glob)}.", tasks.listing(wanted.glob, wanted.path))
    if not got.ok:
        return _failed(seat, got)
    found = reading.listing(got.text)
    names = [words.code(path) for path in found.paths[:SHOWN_NAMES]]
    head = f"{words.amount(found.total, 'file')} named {words.code(wanted.glob)}{_within(wanted.path)}"
    return _end(seat, f"{head}{_first(names, found.total)}\n\n{_bullets(names)}", got)


def _listed(seat: Seat, got: Got, path: str) -> End:
    folder = reading.folder(got.text)
    names = [words.code(f"{name}/") for name in folder.folders] + [words.code(name) for name in folder.files]
    where = "This folder" if path == "." else words.code(path)
    if not folder.total.count:
        return _end(seat, f"{where} is empty.", got)
    head = f"{where} has {words.amount(folder.total, 'entry', 'entries')}"
    return _end(seat, f"{head}{_first(names[:SHOWN_NAMES], folder.total)}\n\n{_bullets(names[:SHOWN_NAMES])}", got)


def _count(seat: Seat, wanted: Intent) -> Script:
    path, glob = wanted.path, wanted.glob
    among = f" in files named {words.code(glob)}" if glob else ""
    if wanted.thing == "definitions":
        return (yield from _count_definitions(seat, wanted))
    if wanted.thing == "files":
        (got,) = yield _step("Counting files.", tasks.listing(glob or "*", path))
        if not got.ok:
            return _failed(seat, got)
        found = reading.listing(got.text)
        named = f" named {words.code(glob)}" if glob else ""
        left = "\n\nHidden files and what `.gitignore` names are not counted."
        return _end(seat, f"**{words.amount(found.total, 'file')}**{named}{_within(path)}.{left}", got)
    literal = wanted.thing == "text"
    wish = tasks.lines(glob, path, pattern=wanted.target if literal else "^", literal=literal)
    (got,) = yield _step("Counting lines.", wish)
    if not got.ok:
        return _failed(seat, got)
    lines = words.amount(reading.tally(got.text), "line")
    what = f" with the text {words.code(wanted.target)}" if literal else " of text"
    return _end(seat, f"**{lines}**{what}{among}{_within(path)}.", got)


def _count_definitions(seat: Seat, wanted: Intent) -> Script:
    kinds = [
        kind
        for kind in tasks.DEFINITIONS.values()
        if not wanted.glob or wanted.glob in kind[1] or kind[1] in wanted.glob
    ]
    if not kinds:
        return End(words.UNKNOWN, (), False)
    wishes = tuple(tasks.lines(glob, wanted.path, pattern=pattern) for _, glob, pattern in kinds)
    gots = yield _step("Counting the lines that begin a class or a function.", *wishes)
    said = []
    for (language, _, _), got in zip(kinds, gots, strict=True):
        if not got.ok:
            return _failed(seat, got)
        if (count := reading.tally(got.text)).count or len(kinds) == 1:
            said.append(f"- {language}: {words.amount(count, 'line')} that begin a definition ({_call(seat, got)})")
    text = (
        "\n".join(said) or f"No definition found in {', '.join(kind[0] for kind in kinds)} files{_within(wanted.path)}."
    )
    return End(f"{text}\n\n{words.FOOTER}")


def _find(seat: Seat, wanted: Intent) -> Script:
    target, path = wanted.target, wanted.path
    wishes = [tasks.matches(target, path=path, limit=SHOWN_HITS, literal=True)]
    if re.fullmatch(r"[\w.]+", target):
        name = target.rpartition(".")[2]
        wishes.append(tasks.matches(f"{_DEFINES}{name}\\b", path=path, limit=5))
    if path == "." and re.fullmatch(r"[\w.-]+", target):
        wishes.append(tasks.listing(f"*{target}*"))
    gots = yield _step(f"Searching for {words.code(target)}.", *wishes)
    if gots[0].ok and not reading.found(gots[0].text).total.count:
        (again,) = yield _step(
            "Nothing with this spelling; upper and lower case may differ.",
            tasks.matches(target, path=path, limit=SHOWN_HITS, literal=True, ignore_case=True),
        )
        gots = [again, *gots[1:]]
    if not gots[0].ok:
        return _failed(seat, gots[0])
    parts = [part for got in gots[1:] if got.ok and (part := _aside(seat, got))]
    found = reading.found(gots[0].text)
    if found.total.count or not parts:
        text = f"**{words.amount(found.total, 'line')}** with the text {words.code(target)}{_within(path)}"
        names = [f"{words.code(f'{hit.path}:{hit.line}')} {words.code(hit.text.strip())}" for hit in found.hits]
        parts.append(f"{text}{_first(names, found.total)} ({_call(seat, gots[0])})\n\n{_bullets(names)}".rstrip())
    return End("\n\n".join((*parts, words.FOOTER)))


def _aside(seat: Seat, got: Got) -> str:
    """Definitions and files of that name, "" where there are none."""
    if got.wish.tool == "glob":
        found = reading.listing(got.text)
        names = [words.code(path) for path in found.paths[:5]]
        title = f"**{words.amount(found.total, 'file')}** of that name"
        return f"{title}{_first(names, found.total)} ({_call(seat, got)})\n\n{_bullets(names)}" if names else ""
    defined = reading.found(got.text)
    names = [f"{words.code(f'{hit.path}:{hit.line}')} {words.code(hit.text.strip())}" for hit in defined.hits]
    title = f"**Defined** in {words.amount(defined.total, 'line')}"
    return f"{title}{_first(names, defined.total)} ({_call(seat, got)})\n\n{_bullets(names)}" if names else ""


def _todos(seat: Seat, wanted: Intent) -> Script:
    (got,) = yield _step("Searching for TODO and FIXME.", tasks.matches(tasks.MARKED, limit=SHOWN_HITS * 2))
    if not got.ok:
        return _failed(seat, got)
    found = reading.found(got.text)
    names = [f"{words.code(f'{hit.path}:{hit.line}')} {words.code(hit.text.strip())}" for hit in found.hits]
    head = f"**{words.amount(found.total, 'line')}** marked TODO or FIXME"
    return _end(seat, f"{head}{_first(names, found.total)}\n\n{_bullets(names)}", got)


def _largest(seat: Seat, wanted: Intent) -> Script:
    (got,) = yield _step("Counting the lines of every file.", tasks.longest(2000, wanted.glob, wanted.path))
    if not got.ok:
        return _failed(seat, got)
    counts = reading.counts(got.text)
    top = sorted(counts.rows, key=lambda row: (-row[1], row[0]))[:10]
    among = "" if counts.complete else f", of the {len(counts.rows):,} listed first"
    named = f" named {words.code(wanted.glob)}" if wanted.glob else ""
    head = f"The longest text files{named}{_within(wanted.path)}{among}, in lines:"
    rows = _bullets([f"{words.code(path)} {count:,}" for path, count in top])
    return _end(seat, f"{head}\n\n{rows}" if rows else f"No text file{named}{_within(wanted.path)}.", got)


def _run(seat: Seat, wanted: Intent) -> Script:
    (got,) = yield _step(f"Running {words.code(wanted.target)}.", Wish("bash", {"command": wanted.target}))
    if got.status == "denied":
        hint = f"To allow it: `friday ask --model demo --allow 'bash({wanted.target.partition(' ')[0]} *)' ...`"
        return End(
            f"The command was refused: {words.quoted(got.text)}\n\n{words.code(hint[13:]) if '`' in wanted.target else hint}",
            (),
            False,
        )
    if got.status != "ok" and not got.text.rstrip().endswith("]"):
        return _failed(seat, got)
    return _end(seat, f"{words.code(wanted.target)} printed:\n\n{code_block(got.text)}", got, success=got.ok)


# ---- words they share ----------------------------------------------------------------------------------------------


def _step(text: str, *wishes: Wish) -> Step:
    return Step(text, "", wishes)


def _end(seat: Seat, text: str, got: Got, *, success: bool = True) -> End:
    return End(f"{text.rstrip()}\n\nSource: {_call(seat, got)}\n\n{words.FOOTER}", (), success)


def _failed(seat: Seat, got: Got) -> End:
    return End(f"That could not be looked up: {words.quoted(got.trouble, 300)}\n\n{words.FOOTER}", (), False)


def _call(seat: Seat, got: Got) -> str:
    return f"{seat.agent}: {words.code(got.wish.source)}"


def _within(path: str) -> str:
    return " in this folder" if path == "." else f" in {words.code(path)}"


def _first(names: Sequence[str], total: reading.Tally) -> str:
    """What stands before a list: whether it is all."""
    if not names:
        return "."
    return ":" if len(names) == total.count and total.exact else f", the first {len(names):,}:"


def _bullets(names: Sequence[str]) -> str:
    return "\n".join(f"- {name}" for name in names)
