"""Running the demo over a folder, and checking its answer: every figure is counted again, and found in the log."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from friday_cli.core.agent.agent import RunResult
from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.protocol.events import Envelope, MessageAdded, ToolFinished, ToolStarted
from friday_cli.core.protocol.messages import ToolResult
from friday_cli.llm.providers.demo import DemoProvider
from friday_cli.paths import store_path
from friday_cli.session.open import Options
from friday_cli.session.session import Session
from friday_cli.store import Store

PROMPT = "What is in this folder?"
_NUMBER = r"(?:at least )?[\d,]+"
_ROW = re.compile(rf"\| (?P<kind>[^|]+) \| (?P<files>{_NUMBER}) \| (?P<lines>(?:{_NUMBER})?) ?\| (?P<source>.+) \|")
_POINT = re.compile(r"- (?P<claim>.+) \((?P<source>[\w.]+: `+ ?.+?`+)\)", re.S)
_QUOTE = re.compile(r"“[^”]*”|(?P<ticks>`+).+?(?P=ticks)")
_DEFINES = {
    "Python": ((".py",), r"^\s*(async def|def|class)\s"),
    "JavaScript": ((".js", ".mjs", ".jsx"), r"^\s*(export )?(default )?(async )?(function|class)\s"),
    "TypeScript": ((".ts", ".tsx"), r"^\s*(export )?(default )?(async )?(function|class|interface|type)\s"),
    "Go": ((".go",), r"^(func|type)\s"),
    "Rust": ((".rs",), r"^\s*(pub )?(async )?(fn|struct|enum|trait)\s"),
    "Java": ((".java",), r"^\s*(public |private |protected |abstract |final |static )*(class|interface|enum)\s"),
}


@dataclass
class Told:
    """What a prompt brought: the answer, and the session's events as they stand in the store."""

    outcome: RunResult
    events: list[Envelope]

    @property
    def text(self) -> str:
        return self.outcome.result

    def results(self, agent: str, source: str) -> list[ToolResult]:
        """The good results of an agent's calls whose tool and title are `source`."""
        started = [e.event for e in self.events if e.agent == agent and isinstance(e.event, ToolStarted)]
        ids = {e.call_id for e in started if f"{e.tool} {e.title}" == source}
        messages = [e.event.message for e in self.events if e.agent == agent and isinstance(e.event, MessageAdded)]
        return [r for m in messages for r in m.results if r.call_id in ids and r.status == "ok"]


async def told(folder: Path, *prompts: str, **more: object) -> list[Told]:
    """Put prompts to a new session of the demo, without its pauses."""
    session = await Session.open(Options(folder, model="demo", **more))  # type: ignore[arg-type]
    provider = session.root.provider
    assert isinstance(provider, DemoProvider)
    provider.pace = 0.0
    try:
        outcomes = [await session.prompt(prompt) for prompt in prompts]
    finally:
        await session.close()
    store = Store(store_path())
    try:
        events = await store.events(session.id)
    finally:
        await store.close()
    return [Told(outcome, events) for outcome in outcomes]


@dataclass
class Truth:
    """A folder as this test counts it, with nothing of Friday's search."""

    root: Path
    files: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.root / ".gitignore"
        ignored = pathspec.GitIgnoreSpec.from_lines(rules.read_text().splitlines() if rules.exists() else [])
        for folder, folders, names in os.walk(self.root):
            here = Path(folder).relative_to(self.root)
            folders[:] = [n for n in folders if not n.startswith(".") and not ignored.match_file(f"{here / n}/")]
            for name in names:
                path = here / name
                full = self.root / path
                if not name.startswith(".") and not full.is_symlink() and not ignored.match_file(str(path)):
                    self.files[path.as_posix()] = full.read_bytes()

    @property
    def texts(self) -> dict[str, bytes]:
        return {p: data for p, data in self.files.items() if data and b"\0" not in data and not is_secret(p)}

    def kind(self, words: str) -> dict[str, bytes]:
        """The text files of a row."""
        if words == "text files":
            return self.texts
        match = re.fullmatch(r"(?:.* \()?\.(\w+)\)?", words)
        assert match, words
        return {p: data for p, data in self.texts.items() if p.endswith(f".{match[1]}")}

    def matching(self, pattern: str, endings: tuple[str, ...] = ("",)) -> list[str]:
        """`path:line` of the matching lines."""
        found = []
        for path, data in sorted(self.texts.items()):
            if path.endswith(endings):
                rows = data.decode("utf-8", "replace").split("\n")
                shown = path if path.isprintable() else repr(path)
                hits = [n for n, row in enumerate(rows, 1) if (row or n < len(rows)) and re.search(pattern, row)]
                found += [f"{shown}:{n}" for n in hits]
        return found


def lines_of(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def number(text: str) -> int:
    return int(text.removeprefix("at least ").replace(",", ""))


def check(told: Told, folder: Path) -> Counter[str]:
    """Check every figure of an overview; returns how many of which kind were checked."""
    return _Check(told, Truth(folder)).all()


class _Check:
    def __init__(self, told: Told, truth: Truth) -> None:
        self.told, self.truth = told, truth
        self.seen: Counter[str] = Counter()
        self.known: set[int] = set()

    def all(self) -> Counter[str]:
        prose, rest = self._parts()
        for line in rest:
            if row := _ROW.fullmatch(line):
                self._row(row)
            elif point := _POINT.fullmatch(line):
                self._point(point["claim"], point["source"])
            else:
                assert not re.search(r"\d", _QUOTE.sub("", line)), f"a figure without a source: {line}"
        for figure in re.findall(r"[\d,]*\d", _QUOTE.sub("", prose)):
            assert number(figure) in self.known, f"{figure} of the first paragraph has no source"
        return self.seen

    def _parts(self) -> tuple[str, list[str]]:
        prose, _, rest = self.told.text.partition("\n\n")
        return prose, [line for line in rest.splitlines() if line.strip("|-: ")]

    def _results(self, source: str) -> list[ToolResult]:
        agent, _, code = source.partition(": ")
        found: list[ToolResult] = []
        for call in code.strip("`").strip().replace("\\|", "|").split("; "):
            found += self.told.results(agent, call)
            assert found, f"no call {call!r} of {agent} in the log"
        return found

    def _stands_in(self, results: list[ToolResult], count: int) -> None:
        """The figure is what one of the results gives: the rows it shows, and as many more as it says."""
        given = []
        for result in results:
            rows = [r for r in result.text.split("\n") if r]
            if rows[0] == "No match." or rows[0].startswith("No file matches") or rows[0].endswith(" is empty)"):
                given.append(0)
                continue
            remarks = [r for r in rows if re.fullmatch(r"\[.* (?:more|left out|looked through|stopped).*\]", r)]
            more = sum(number(m[1]) for r in remarks if (m := re.match(r"\[([\d,]+) (?:more|that may)\b", r)))
            shown = [r for r in rows if r not in remarks]
            numbered = [r for r in shown if re.match(r"\d+:", r)]
            given.append(more + len(numbered or shown))
        assert count in given, f"{count} is in none of {given}"

    def _row(self, row: re.Match[str]) -> None:
        results = self._results(row["source"])
        self._stands_in(results, number(row["files"]))
        self.known.add(number(row["files"]))
        if row["kind"] == "all files":
            assert number(row["files"]) == len(self.truth.files)
            self.seen["all"] += 1
            return
        truth = self.truth.kind(row["kind"])
        assert row["files"] == f"{len(truth):,}"
        lines = sum(map(lines_of, truth.values()))
        self._stands_in(results, number(row["lines"]))
        assert number(row["lines"]) <= lines if row["lines"].startswith("at least ") else row["lines"] == f"{lines:,}"
        self.known.add(number(row["lines"]))
        self.seen["kind"] += 1

    def _point(self, claim: str, source: str) -> None:
        checks: dict[str, Callable[[str, str], None]] = {
            "the top level": self._folder, "marked": self._marked, "definitions": self._defines, "longest": self._longest,
            "counted a second time": self._again, "receipt": self._receipt, "left out": self._secret,
        }  # fmt: skip
        for start, checking in checks.items():
            if claim.startswith(start):
                checking(claim, source)
                self.seen[start] += 1
                return
        if claim.startswith("not done"):
            agent, _, call = source.partition(": ")
            assert not self.told.results(agent, call.strip("`"))
            assert not re.search(r"\d", _QUOTE.sub("", claim))
            return
        if match := re.match(r"`([^`]+)/` (?:has|is) ", claim):
            self._folder(claim, source, match[1])
            self.seen["folder"] += 1
            return
        assert not re.search(r"\d", _QUOTE.sub("", claim)), f"nobody checks: {claim}"
        self._results(source)

    def _folder(self, claim: str, source: str, name: str = ".") -> None:
        entries = list(os.scandir(self.truth.root / name))
        (result,) = self._results(source)
        if not entries:
            assert claim.endswith(" is empty")
            assert result.text == "(. is empty)"
            return
        if match := re.search(r" has ([\d,]+) names", claim):
            assert number(match[1]) == len(entries)
            self._stands_in([result], len(entries))
            return
        folders = [e for e in entries if e.is_dir(follow_symlinks=False)]
        files = [e for e in entries if e.is_file(follow_symlinks=False)]
        others = len(entries) - len(folders) - len(files)
        expected = [f"{len(folders)} folder{'s' * (len(folders) > 1)}"] if folders else []
        expected += [f"{len(files)} file{'s' * (len(files) > 1)}"] if files else []
        expected += [f"{others} link{'s' * (others > 1)} or device"] if others else []
        assert f" has {', '.join(expected)}" in claim
        assert sum(row.endswith("/") for row in result.text.split("\n")) == len(folders)
        assert sum("\t" in row for row in result.text.split("\n")) == len(files)

    def _marked(self, claim: str, source: str) -> None:
        truth = self.truth.matching(r"\b(TODO|FIXME)\b")
        count, named = re.findall(r"[\d,]+(?= lines?)", claim)[0], re.findall(r"`([^`]+)`", claim)
        assert number(count) == len(truth)
        assert named == truth[:3]
        self._stands_in(self._results(source), len(truth))

    def _defines(self, claim: str, source: str) -> None:
        match = re.fullmatch(rf"definitions in (\w+): ({_NUMBER}) lines?", claim)
        assert match
        endings, pattern = _DEFINES[match[1]]
        truth = len(self.truth.matching(pattern, endings))
        assert match[2] == f"{truth:,}"
        self._stands_in(self._results(source), truth)

    def _longest(self, claim: str, source: str) -> None:
        counts = {p: lines_of(data) for p, data in self.truth.texts.items()}
        named = [(p, number(n)) for p, n in re.findall(r"`([^`]+)` ([\d,]+)", claim)]
        results = self._results(source)
        if among := re.search(r"\(of the ([\d,]+) text files listed first\)", claim):
            listed = dict(sorted(counts.items())[: number(among[1])])
            assert any(len(re.findall(r"^.+: \d+$", r.text, re.M)) == number(among[1]) for r in results)
            counts = listed
        assert named == sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:3]
        assert all(any(f"{p}: {n}" in r.text.split("\n") for r in results) for p, n in named)

    def _again(self, claim: str, source: str) -> None:
        match = re.search(rf"the same: ({_NUMBER}) text files?, ({_NUMBER}) lines?", claim)
        assert match, claim
        results = self._results(source)
        for figure, truth in (
            (match[1], len(self.truth.texts)),
            (match[2], sum(map(lines_of, self.truth.texts.values()))),
        ):
            assert number(figure) == truth
            self._stands_in(results, truth)

    def _receipt(self, claim: str, source: str) -> None:
        match = re.fullmatch(r"receipt of ([\w.]+): `([^`]+)`", claim)
        assert match
        ended = [e.event for e in self.told.events if e.agent == match[1] and isinstance(e.event, ToolFinished)]
        runs = Counter(event.tool for event in ended if event.status != "denied")
        failed = sum(event.status == "error" for event in ended)
        words = ", ".join(f"{tool} x{n}" if n > 1 else tool for tool, n in runs.items())
        assert match[2] == words + (f"; {failed} failed" if failed else "")
        assert source.startswith("a: `delegate_task ")

    def _secret(self, claim: str, source: str) -> None:
        secret = sum(is_secret(p) for p in self.truth.files)
        assert f": {secret} file" in claim
        assert any(f"[{secret} that may hold secrets left out]" in r.text for r in self._results(source))
