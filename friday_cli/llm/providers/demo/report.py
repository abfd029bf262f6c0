"""Findings as text: how a child hands them in, how a parent reads them again, and the answer made of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from friday_cli.core.text.sanitize import sanitize_line

from . import words
from .play import End, Finding, Seat

COUNT = re.compile(r"(?P<kind>.+): (?P<files>(?:at least )?[\d,]+) files?(?:, (?P<lines>(?:at least )?[\d,]+) lines?)?")
"""A claim that is a row of the table."""
ALL, TEXT = "all files", "text files"
_FINDING = re.compile(
    r"^- (?P<claim>[^\n]+)\n  Evidence: (?P<evidence>[^\n]+?)(?: \[(?:NOT )?seen by the harness\])?$", re.M
)
RECEIPT = "receipt"
_RECEIPT = re.compile(r"^- tools run: ([^\n]+)$", re.M)
_AGENT = re.compile(r"## Result from '[^'\n]*' \(([\w.]+)\): ([^\n]+)")
LEGEND = "Kinds count files with at least one line of text. Hidden files and what `.gitignore` names are left out."


def counted(kind: str, files: object, lines: object | None = None) -> str:
    """A claim that becomes a row: `Python (.py): 3 files, 120 lines`."""
    end = "" if lines is None else f", {words.amount(lines, 'line')}"
    return f"{kind}: {words.amount(files, 'file')}{end}"


def findings_text(end: End) -> str:
    """An end with its findings, as `task_result` would write them."""
    return "\n\n".join(part for part in (end.text, listed(end.findings)) if part)


def listed(findings: Sequence[Finding]) -> str:
    """Findings in the form in which they travel."""
    if not findings:
        return ""
    return "Findings:\n" + "\n".join(f"- {one.claim}\n  Evidence: {one.evidence}" for one in findings)


def findings_in(text: str) -> list[Finding]:
    """The findings in a result or a context."""
    body = text.rpartition("Findings:\n")[2] if "Findings:\n" in text else ""
    return [Finding(match["claim"], match["evidence"]) for match in _FINDING.finditer(body.partition("\n---\n")[0])]


def prose_in(text: str) -> str:
    """What a sub-agent wrote above its findings."""
    body = text.partition("\n")[2].partition("\n---\n")[0]
    return body.partition("\n\nFindings:\n")[0].strip()


def sender(text: str) -> tuple[str, str]:
    """(path, how it ended) of the sub-agent whose result this is; ("", "") where it is none."""
    match = _AGENT.match(text)
    return (match[1], match[2]) if match else ("", "")


def tools_run(text: str) -> str:
    """The tools that the receipt beside a result names."""
    match = _RECEIPT.search(text.rpartition("Receipt, made by the harness")[2])
    return match[1] if match else "nothing"


def rows(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    """(kind, files, lines, source) of the findings that are counts."""
    found = ((COUNT.fullmatch(one.claim), one.evidence) for one in findings)
    return [(m["kind"], m["files"], m["lines"] or "", evidence) for m, evidence in found if m]


def table(findings: Sequence[Finding]) -> str:
    """The counts as a Markdown table, "" where there are none."""
    counts = rows(findings)
    if not counts:
        return ""
    lines = ["| Kind | Files | Lines | Source |", "|---|--:|--:|---|"]
    for kind, files, many, source in counts:
        lines.append(f"| {words.cell(kind)} | {files} | {many} | {words.cell(call(source))} |")
    return "\n".join(lines)


def points(findings: Sequence[Finding]) -> str:
    """What is no count, as a list with sources."""
    rest = [one for one in findings if not COUNT.fullmatch(one.claim)]
    rest.sort(key=lambda one: one.claim.startswith(RECEIPT))
    return "\n".join(f"- {one.claim} ({call(one.evidence)})" for one in rest)


def call(evidence: str) -> str:
    """A source with its call as code: "a.2: `glob *`"."""
    agent, colon, rest = evidence.partition(": ")
    return f"{agent}: {words.code(rest, 100)}" if colon else words.code(evidence, 100)


def prose(findings: Sequence[Finding], name: str) -> str:
    """The counts in a few sentences."""
    counts = rows(findings)
    figures = {kind: (files, lines) for kind, files, lines, _ in counts}
    said = []
    if text := figures.get(TEXT):
        lines = f" ({words.amount(text[1], 'line')})" if text[1] else ""
        said.append(f"{words.amount(text[0], 'file')} with text{lines}.")
    if ALL in figures:
        place = words.code(name, 60) if name else "The folder"
        rest = f", {text[0]} of them with text{lines}" if text else ""
        said = [f"{place} holds {words.amount(figures[ALL][0], 'file')}{rest}."]
    kinds = [(kind, files) for kind, files, _, _ in counts if kind not in (ALL, TEXT)]
    exact = all(files.replace(",", "").isdigit() for _, files in kinds)
    if len(kinds) > 1 and exact and kinds[0][1] != kinds[1][1]:
        said.append(f"Of the kinds counted, {kinds[0][0]} has the most files: {kinds[0][1]}.")
    return " ".join(said)


def brief(seat: Seat) -> str:
    """What is known so far, for an agent that may not go on."""
    if not seat.findings:
        return "Cut short: nothing was found out yet."
    if seat.is_child:
        return findings_text(End("Cut short; this is what was found until then.", tuple(seat.findings)))
    parts = [
        "**Cut short.** This is what was found until then.",
        table(seat.findings),
        points(seat.findings),
        words.FOOTER,
    ]
    return "\n\n".join(part for part in parts if part)


def name_of(folder: str) -> str:
    """The last name of a folder's path."""
    return sanitize_line(folder.rstrip("/").rpartition("/")[2] or folder, 60)
