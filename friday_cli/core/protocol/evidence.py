"""Whether the harness observed the evidence of a finding."""

from __future__ import annotations

import re

from .receipt import Finding, Receipt


def checked(findings: tuple[Finding, ...], receipt: Receipt) -> tuple[Finding, ...]:
    """The findings, each marked with whether the harness observed its evidence."""
    return tuple(Finding(f.claim, f.evidence, _was_observed(f.evidence, receipt)) for f in findings)


def _was_observed(evidence: str, receipt: Receipt) -> bool:
    """Whether the evidence was observed: as a whole (a command may contain `; `), or each of its parts."""
    if _is_part_observed(evidence.strip().strip("`"), receipt):
        return True
    parts = [part.strip().strip("`") for part in re.split(r"[,;\n]\s+", evidence) if part.strip()]
    return bool(parts) and all(_is_part_observed(part, receipt) for part in parts)


def _is_part_observed(evidence: str, receipt: Receipt) -> bool:
    if re.match(r"https?://", evidence):
        seen = (*receipt.urls, *receipt.found)
        return any(evidence == url or evidence.startswith((url + "#", url + "?")) for url in seen)
    words = " ".join(evidence.removeprefix("$ ").split())
    if any(words == " ".join(run.command.split()) for run in receipt.commands):
        return True
    cited = re.fullmatch(r"(?:\./)?(.*?)(?::(\d+)(?:([-:])(\d+))?)?", evidence, re.S)
    assert cited is not None
    path, first, dash, second = cited.groups()
    if first is None:
        return path in receipt.read or any(path == change.path for change in receipt.files)
    start = int(first)
    end = int(second) if dash == "-" else start  # file:line:column
    return _covers(receipt.lines_read.get(path, ()), start, end)


def _covers(spans: tuple[tuple[int, int], ...], start: int, end: int) -> bool:
    """Whether all lines from `start` to `end` are in one or more of the sorted `spans`."""
    for first, last in spans:
        if first <= start <= last:
            start = last + 1
        if start > end:
            return True
    return False
