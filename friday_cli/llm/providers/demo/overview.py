"""The overview of a folder: three sub-agents at the same time, one of which asks for a permission."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from friday_cli.core.protocol.messages import ToolResult
from friday_cli.core.text.sanitize import code_block, sanitize_line

from .script import Call, End, Rounds, Script, Step, amount, code, failure, files, matches, quoted

READ = "Read what this folder says about itself: its top level, its README and its manifest. Change nothing."
SEARCH = "Find where a change would begin: the lines marked TODO or FIXME, and the files with tests. Change nothing."
COUNT = (
    "Count the text files and their lines by kind. Then count the names at the top level a second time, with a command "
    "of your own. Change nothing."
)
COMMAND = 'python3 -I -c "import os; print(len(os.listdir()))"'
"""It is harmless, but Friday cannot tell that from its text, so it asks the person."""
NEXT = """\
**Three things to try next**

1. Look at the sub-agents: in the chat Ctrl+T and then Enter open the transcript of each one; in a shell \
`friday sessions show --tree` prints what each was asked, did and used.
2. Ask for a single step: `read README.md`, `find main`, or `` run `python3 -c "print(6 * 7)"` `` (in the chat, Friday asks \
you first); in a shell: `friday demo "find main"`.
3. Add a real model: set `ANTHROPIC_API_KEY` or run `friday auth set anthropic`; `friday models` lists all services and \
the local servers. Then ask anything.

*Offline demo: a script, no AI model. The sentences are fixed; each count and quotation comes from the tool call named \
beside it.*"""
_ROLES = {"researcher": READ, "coder": SEARCH, "analyst": COUNT}
_MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml")
_REPORT = re.compile(
    r"## Result from '[^'\n]*' \((?P<path>[\w.]+)\): (?P<status>[^\n]+)\n(?P<body>.*)"
    r"\n---\ndelegate_id: [^\n]*\| tokens: (?P<tokens>\d+) [^\n]*\| time: (?P<time>[\d.]+ s)\n(?P<receipt>.*)",
    re.S,
)
_FINDING = re.compile(r"^- ([^\n]+)\n  Evidence: ([^\n]+?) \[(?:NOT )?seen by the harness\]$", re.M)


def overview(rounds: Rounds) -> Step | End:
    """The main agent: three tasks in one reply, then the answer from what came back."""
    if not rounds:
        return Step(
            "I'll start three sub-agents at once: a researcher to read, a coder to look for open work, and an analyst to "
            "count. The analyst will ask for permission: allow it or refuse it. Outside the chat it is refused.",
            tuple(Call("delegate_task", {"profile": name, "task": task}) for name, task in _ROLES.items()),
        )
    parts, tree = ["**What is in this folder, from three sub-agents**"], ["a  this answer"]
    success = False
    for name, result in zip(_ROLES, rounds[0], strict=True):
        branch, below = ("└─", "  ") if name == "analyst" else ("├─", "│ ")
        report = _REPORT.fullmatch(result.text)
        if report is None:
            parts.append(f"**{name}** was not started; `delegate_task` {failure(result)}")
            tree.append(f"{branch} {name}: not started")
            continue
        success = success or report["status"] == "completed"
        parts.append(f"**{report['path']} {name}**, {report['status']}: {_passed_on(report['body'])}")
        tokens = int(report["tokens"])
        tree.append(f"{branch} {report['path']} {name}: {report['status']}, {report['time']}, ~{tokens:,} tokens")
        tree += [f"{below}      {row[2:]}" for row in report["receipt"].split("\n") if row.startswith("- ")]
    parts.append("**The tree and the receipts** (a receipt is what Friday saw the sub-agent do)")
    return End("\n\n".join((*parts, code_block("\n".join(tree)), NEXT)), success=success)


def _passed_on(body: str) -> str:
    """What a sub-agent handed in: its text, then its findings with their sources."""
    text, _, listed = body.partition("\n\nFindings:\n")
    text = re.sub(r"^> ?", "", text, flags=re.M)
    rows = [f"- {claim} ({code(source)})" for claim, source in _FINDING.findall(listed)]
    return "\n".join((text, *[""] * ("\n- " not in text), *rows)).strip()


def _listed(text: str, rows: Sequence[str]) -> str:
    """A text with rows below it that name no file or command as evidence, so that they are not findings."""
    return "\n".join((text, *[""] * bool(rows), *(f"- {row}" for row in rows)))


def reader(rounds: Rounds) -> Step | End:
    """The researcher: the top level, the README and one manifest."""
    if not rounds:
        return Step("I'll look at the top level first.", (Call("list_dir", {"path": "."}),))
    top = rounds[0][0]
    if top.status != "ok":
        return End(f"`list_dir` {failure(top)}", success=False)
    rows = top.text.split("\n")
    folders = [row for row in rows if row.endswith("/")]
    names = [row.partition("\t")[0] for row in rows if "\t" in row]
    readme = next((name for name in names if re.fullmatch(r"readme(\.\w+)?", name, re.I)), "")
    wanted = [name for name in (readme, next((name for name in _MANIFESTS if name in names), "")) if name]
    if len(rounds) == 1 and wanted:
        calls = tuple(Call("read_file", {"path": name, "limit": 60}) for name in wanted)
        return Step(f"I'll read {' and '.join(map(code, wanted))}.", calls)
    shown = ", ".join([code(name, 40) for name in folders[:6]] + ["..."] * (len(folders) > 6))
    text = f"{amount(len(folders), 'folder')}{f' ({shown})' if shown else ''} and {amount(len(names), 'file')}"
    findings, unread = [], []
    for name, result in zip(wanted, rounds[1] if wanted else (), strict=True):
        if result.status != "ok":
            unread.append(f"{code(name)}: reading it {failure(result)}")
            continue
        lines = [row.partition("\t")[2] for row in result.text.split("\n") if re.match(r"\d+\t", row)]
        about = _opening(lines) if name == readme else _manifest(lines)
        findings.append((f"{code(name)} says {about}", sanitize_line(name)))
    return End(_listed(f"{text} at the top level (`list_dir`)", unread), tuple(findings))


def _opening(lines: list[str]) -> str:
    """The heading and the first paragraph of a README, quoted."""
    text = "\n".join(row for row in lines if not re.match(r"\s*(\[?!\[|<|\.\. |```|[=\-~*]{3,}\s*$)", row)).strip()
    heading, _, rest = text.partition("\n")
    first = re.split(r"\n\s*\n|\n#", rest.strip())[0]
    return quoted(f"{heading.strip('# ')}: {first}".strip(": "), 240)


def _manifest(lines: list[str]) -> str:
    """Name and description in a manifest, quoted."""
    found = re.findall(r'^\s*"?(name|description)"?\s*[=:]\s*"([^"\n]+)"', "\n".join(lines), re.M)
    return ", ".join(f"{key} {quoted(value)}" for key, value in sorted(found[:2], reverse=True)) or "no name"


def searcher(rounds: Rounds) -> Step | End:
    """The coder: marked lines, and the files with tests."""
    if not rounds:
        marks = Call("grep", {"pattern": r"(^|[#/*-])\s*(TODO|FIXME)\b", "limit": 3})
        return Step("I'll search for open work and for tests.", (marks, Call("glob", {"pattern": "**/*test*"})))
    marked, tests = rounds[0]
    if marked.status != "ok" or tests.status != "ok":
        return End(f"the search {failure(marked if marked.status != 'ok' else tests)}", success=False)
    lines, named = matches(marked.text), files(tests.text)
    text = f"{lines.amount('line')} marked TODO or FIXME (`grep`), {named.amount('file')} named after a test (`glob`)"
    return End(text, tuple((code(words), sanitize_line(place, 200)) for place, words in lines.rows))


def counter(rounds: Rounds) -> Step | End:
    """The analyst: lines of text by kind, and a command that needs a permission."""
    if not rounds:
        lines = {"pattern": "^", "mode": "count", "limit": 2000}
        return Step("I'll count with tools first.", (Call("grep", lines), Call("list_dir", {"path": "."})))
    counts, top = rounds[0]
    if counts.status != "ok":
        return End(f"`grep` {failure(counts)}", success=False)
    if len(rounds) == 1:
        return Step(
            "Now I'll count the names at the top level with a command. Friday cannot tell what a program does from "
            "its name, so it asks you.",
            (Call("bash", {"command": COMMAND}),),
        )
    names = 0 if top.text == "(. is empty)" else len(top.text.split("\n"))
    again, ran = _again(rounds[1][0], names), rounds[1][0].status != "denied"
    rows = (*_counted(counts.text), *[again] * (not ran))
    return End(_listed(rows[0], rows[1:]), ((again, f"$ {COMMAND}"),) if ran else ())


def _counted(text: str) -> tuple[str, ...]:
    """The result of `grep` in count mode, summed by kind: the total, then its details."""
    rows = [(path, int(count)) for path, count in re.findall(r"^(.*): (\d+)$", text, re.M)]
    if not rows:
        return ("no text file (`grep`)",)
    number: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path, count in rows:
        ending = re.search(r"[^/](\.[A-Za-z0-9]{1,12})$", path)
        number[kind := ending[1] if ending else "other"] += 1
        lines[kind] += count
    kinds = "; ".join(f"{k} {amount(number[k], 'file')}, {amount(n, 'line')}" for k, n in lines.most_common(6))
    path, most = max(rows, key=lambda row: row[1])
    least = "at least " if text.endswith("]") else ""
    total = f"{least}{amount(len(rows), 'text file')} with {amount(lines.total(), 'line')}"
    longest = f"the longest file: {code(path)}, {amount(most, 'line')} (`grep`)"
    return f"{total}, without hidden and ignored files (`grep`)", f"by kind: {kinds} (`grep`)", longest


def _again(result: ToolResult, names: int) -> str:
    """What came of the command that needed a permission."""
    number = re.match(r"(\d+)\n", result.text)
    if result.status == "denied":
        return f"the second count was not made: the permission {failure(result)}"
    if result.status != "ok" or number is None:
        return f"the command {failure(result)}"
    same = "the same number" if int(number[1]) == names else f"but `list_dir` showed {names:,}"
    return f"the command was allowed and counted {amount(int(number[1]), 'name')} at the top level, {same}"


CHILDREN: dict[str, Script] = {READ: reader, SEARCH: searcher, COUNT: counter}
"""The scripts of the three sub-agents, by their tasks."""
