"""What the sub-agents of an overview do; an agent without sub-agents does the same by itself."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence

from friday_cli.core.text.sanitize import sanitize_line

from . import reading, report, tasks, words
from .play import End, Finding, Got, Part, Script, Seat, Step, Wish

COMMON = ("py", "js", "ts", "md", "json", "html", "c", "go")
"""Kinds looked for in a folder that is too large to be listed."""
EMPTY = "the top level is empty"
MOST_KINDS, ROWS, NAMES = 10, 6, 8
_EXTENSION = re.compile(r"(?<=[^/])\.([A-Za-z0-9_+-]{1,12})$")
_README = re.compile(r"readme(?:\.(?:md|rst|txt|markdown|adoc|org))?", re.I)
_MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "composer.json", "setup.cfg", "pom.xml")
_MAIN = ("src", "lib", "app", "pkg", "packages", "source", "cmd", "internal", "crates")
_ASIDE = frozenset(
    ("docs", "doc", "tests", "test", "examples", "build", "dist", "node_modules", "venv", "env", "target")
)


def researcher(seat: Seat) -> Script:
    """Reads what a folder says about itself."""
    yield from explore(seat)
    return _handed_in(seat, "What the folder says about itself.")


def analyst(seat: Seat) -> Script:
    """Counts."""
    yield from measure(seat)
    return _handed_in(seat, "What the folder holds, counted.")


def summarizer(seat: Seat) -> Script:
    """Counts the deciding figures a second time and writes a few sentences."""
    given = report.findings_in(seat.prompt)
    yield from recheck(seat, given)
    text = report.prose(given, report.name_of(seat.folder)) or "There are no figures to write about."
    return End(text, tuple(seat.findings))


def _handed_in(seat: Seat, text: str) -> End:
    """A result, a success where at least one call brought something."""
    return End(text, tuple(seat.findings), any(not one.claim.startswith("not done:") for one in seat.findings))


# ---- counting ------------------------------------------------------------------------------------------------------


def measure(seat: Seat) -> Part:
    """Files, lines, kinds and the longest files."""
    (listed,) = yield Step(
        "Listing every file.", "First the whole list: it says which kinds there are.", (tasks.listing(),)
    )
    paths: list[str] = []
    complete = False
    if _told(seat, listed):
        found = reading.listing(listed.text)
        paths, complete = found.paths, found.complete
        seat.note(report.counted(report.ALL, found.total), listed)
        if found.total.secret:
            seat.note(
                f"left out of all other counts: {words.amount(found.total.secret, 'file')} that may hold secrets",
                listed,
            )
        if not found.total.count:
            return
    kinds = Counter(match[1] for path in paths if (match := _EXTENSION.search(path)))
    chosen = [extension for extension, _ in kinds.most_common(ROWS)]
    if not complete:
        chosen = list(dict.fromkeys((*chosen, *COMMON)))[:MOST_KINDS]
    names = ", ".join(f".{extension}" for extension in chosen)
    gots = yield Step(
        f"Counting text files by kind: {names}." if chosen else "Counting text files.",
        "A search for the start of a line finds every file that has one.",
        (tasks.files(), *(tasks.files(f"*.{extension}") for extension in chosen)),
    )
    if not _told(seat, *gots):
        return
    counted = sorted(
        (row for row in zip(chosen, gots[1:], strict=True) if reading.tally(row[1].text).count),
        key=lambda row: (-reading.tally(row[1].text).count, row[0]),
    )[:ROWS]
    lines = yield Step(
        "Counting lines, and looking for the longest files.",
        "",
        (tasks.lines(), *(tasks.lines(f"*.{extension}") for extension, _ in counted), tasks.longest()),
    )
    if _told(seat, *lines):
        named = [report.TEXT, *(words.kind(extension) for extension, _ in counted)]
        _rows(seat, named, [gots[0], *(files for _, files in counted)], lines[:-1])
        _longest(seat, lines[-1])


def _rows(seat: Seat, kinds: Sequence[str], files: Sequence[Got], lines: Sequence[Got]) -> None:
    """A row per kind, all text files first. Where the search for all lines was cut, one of a kind may know more."""
    best = max(lines, key=lambda got: reading.tally(got.text).count)
    for kind, those, many in zip(kinds, files, lines, strict=True):
        tally = reading.tally(many.text)
        claim = report.counted(kind, reading.tally(those.text), tally)
        if kind == report.TEXT and not tally.exact and best is not many:
            claim = report.counted(
                kind, reading.tally(those.text), reading.Tally(reading.tally(best.text).count, False)
            )
            seat.findings.append(Finding(claim, f"{seat.agent}: {those.wish.source}; {best.wish.source}"))
        else:
            seat.note(claim, those)


def _longest(seat: Seat, got: Got) -> None:
    counts = reading.counts(got.text)
    top = sorted(counts.rows, key=lambda row: (-row[1], row[0]))[:3]
    if top:
        named = ", ".join(f"{words.code(path, 80)} {count:,}" for path, count in top)
        among = "" if counts.complete else f" (of the {len(counts.rows):,} text files listed first)"
        seat.note(f"longest files in lines{among}: {named}", got)


def recheck(seat: Seat, given: Sequence[Finding]) -> Part:
    """Count text files and lines again, and say whether the figures still hold."""
    gots = yield Step("Counting the text files and lines a second time.", "", (tasks.files(), tasks.lines()))
    if not _told(seat, *gots):
        return
    files, lines = (reading.tally(got.text) for got in gots)
    first = next(((f, n) for kind, f, n, _ in report.rows(given) if kind == report.TEXT), None)
    again = f"{words.amount(files, 'text file')}, {words.amount(lines, 'line')}"
    if first is None:
        seat.note(f"counted: {again}", gots[0])
    elif first == (str(files), str(lines)):
        seat.note(f"counted a second time, the same: {again}", gots[0])
    elif files.exact and lines.exact:
        seat.note(f"counted a second time, the folder has changed meanwhile: {again}", gots[0])
    else:
        seat.note(f"counted a second time, not all could be searched again: {again}", gots[0])


# ---- reading -------------------------------------------------------------------------------------------------------


def explore(seat: Seat) -> Part:
    """The top of the folder, its README and manifest, marked lines and definitions."""
    (top,) = yield Step("Looking at the top of the folder.", "What is here tells what to read.", (tasks.look(),))
    folder = reading.Folder([], [], reading.Tally(0), True)
    if _told(seat, top):
        folder = reading.folder(top.text)
        seat.note(_top("the top level", folder), top)
        if not folder.total.count:
            return
    yield from _papers(seat, folder)
    wishes = [tasks.matches(tasks.MARKED, limit=3)]
    wishes += [tasks.lines(glob, pattern=pattern) for _, glob, pattern in tasks.DEFINITIONS.values()]
    gots = yield Step("Searching for TODO and FIXME, and for definitions.", "", tuple(wishes))
    if not _told(seat, gots[0]):
        return
    marked = reading.found(gots[0].text)
    examples = ", ".join(words.code(f"{hit.path}:{hit.line}", 90) for hit in marked.hits)
    seat.note(
        f"marked TODO or FIXME: {words.amount(marked.total, 'line')}" + (f", first {examples}" if examples else ""),
        gots[0],
    )
    for (language, _, _), got in zip(tasks.DEFINITIONS.values(), gots[1:], strict=True):
        if got.ok and (count := reading.tally(got.text)).count:
            seat.note(f"definitions in {language}: {words.amount(count, 'line')}", got)


def _papers(seat: Seat, folder: reading.Folder) -> Part:
    """The README, one manifest and the main folder, as far as they are there."""
    readme = min((name for name in folder.files if _README.fullmatch(name)), key=lambda n: (len(n) < 7, n), default="")
    manifest = next((name for name in _MANIFESTS if name in folder.files), "")
    main = next((name for name in _MAIN if name in folder.folders), "")
    others = [name for name in _seen(folder.folders) if name not in _ASIDE]
    if not main and 0 < len(others) <= NAMES:
        main = others[0]
    wishes: list[Wish] = []
    wishes += [tasks.read(readme, 60)] if readme else []
    wishes += [tasks.read(manifest, 80)] if manifest else []
    wishes += [tasks.look(main)] if main else []
    if not wishes:
        return
    names = [name for name in (readme, manifest, f"{main}/" if main else "") if name]
    gots = yield Step(f"Reading {', '.join(words.code(name, 60) for name in names)}.", "", tuple(wishes))
    for got, name in zip(gots, names, strict=True):
        if not _told(seat, got):
            continue
        if got.wish.tool == "list_dir":
            seat.note(_top(words.code(name, 60), reading.folder(got.text)), got)
        elif name == readme:
            if opening := _opening(reading.page(got.text).lines):
                seat.note(f"{words.code(name, 60)} begins: {words.quoted(opening, 240)}", got)
        elif about := _about(name, reading.page(got.text).lines):
            seat.note(f"{words.code(name, 60)} says: {about}", got)


def _top(what: str, folder: reading.Folder) -> str:
    if not folder.total.count:
        return f"{what} is empty"
    if not folder.complete:
        return f"{what} has {words.amount(folder.total, 'name')}"
    others = folder.total.count - len(folder.folders) - len(folder.files)
    parts = [words.amount(len(folder.folders), "folder")] if folder.folders else []
    parts += [words.amount(len(folder.files), "file")] if folder.files else []
    parts += [words.amount(others, "link or device", "links or devices")] if others else []
    names = [words.code(f"{name}/", 40) for name in _seen(folder.folders)]
    more = ", ..." if len(names) > NAMES else ""
    return f"{what} has {', '.join(parts)}" + (f" ({', '.join(names[:NAMES])}{more})" if names else "")


def _seen(names: Sequence[str]) -> list[str]:
    """Folders that somebody made to be looked at."""
    return [name for name in names if not name.startswith((".", "__", "'", '"')) and not name.endswith("-info")]


def _opening(lines: Sequence[str]) -> str:
    """The first heading and the first paragraph of a README, markup lines left out."""
    title = ""
    body: list[str] = []
    for raw in lines:
        text = raw.strip()
        if re.fullmatch(r"[=\-~^*#]{3,}|-->|<!--.*", text) or re.match(r"(?:\[?!\[|<|\.\. |:\w+:|```)", text):
            continue
        if not text:
            if body:
                break
            continue
        if text.startswith("#") or not title:
            if body:
                break
            title = title or text.lstrip("# ")
            continue
        body.append(text)
    return " — ".join(part for part in (title, " ".join(body)) if part)


def _about(name: str, lines: Sequence[str]) -> str:
    """Name and description that a manifest gives, quoted."""
    text = "\n".join(lines)
    values = _json(text) if name.endswith(".json") else _assigned(text, name)
    said = [f"{key} {words.quoted(values[key], 160)}" for key in ("name", "description") if values.get(key)]
    return ", ".join(said)


def _json(text: str) -> dict[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {key: value for key, value in document.items() if isinstance(value, str)}


def _assigned(text: str, name: str) -> dict[str, str]:
    """`key = "value"`, `key = value`, `<key>value</key>` or `module NAME`, the first of each key."""
    if name == "go.mod":
        module = re.search(r"^module (\S+)", text, re.M)
        return {"name": module[1]} if module else {}
    values: dict[str, str] = {}
    for key in ("name", "description"):
        pattern = rf"<{key}>([^<\n]+)</{key}>" if name == "pom.xml" else rf"^{key}\s*=\s*[\"']?([^\"'\n]+)"
        if found := re.search(pattern, text, re.M):
            values[key] = sanitize_line(found[1], 200)
    return values


def _told(seat: Seat, *gots: Got) -> bool:
    """Whether calls brought something; what did not is kept as a finding."""
    for got in gots:
        if not got.ok:
            seat.note(f"not done: {words.quoted(got.trouble, 160)}", got)
            return False
    return True
