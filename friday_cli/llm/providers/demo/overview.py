"""The overview of a folder: two sub-agents side by side, a third for the words, and an answer made of what they brought."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from . import report, survey, tasks, words
from .play import End, Finding, Got, Part, Script, Seat, Step

CONTEXT_CHARS = 3_800
"""Characters of findings given along; a child sees 4,000 at once."""
NOTHING = "No call brought anything, so there is nothing to report. What stood in the way:"
EMPTY = "This folder is empty."


class _Role(NamedTuple):
    profile: str
    doing: str
    task: str
    alone: Callable[[Seat], Part]


ROLES = (
    _Role("researcher", "reads", tasks.READ_TASK, survey.explore),
    _Role("analyst", "counts", tasks.COUNT_TASK, survey.measure),
)


def overview(seat: Seat) -> Script:
    """What is in this folder."""
    sent = [(role, profile) for role in ROLES if (profile := _profile(seat, role.profile))]
    left = [role for role in ROLES if role not in [role for role, _ in sent]]
    if sent:
        gots = yield Step(
            f"I send sub-agents: {' and '.join(f'{words.one(profile)} {role.doing}' for role, profile in sent)}.",
            "An overview has two independent parts, reading and counting: they can run side by side.",
            tuple(tasks.delegate(profile, role.task) for role, profile in sent),
        )
        left += [role for (role, _), got in zip(sent, gots, strict=True) if not _take(seat, got)]
    for role in left:
        yield from role.alone(seat)
    text = yield from _write(seat)
    return End(_answer(seat, text), (), bool(_good(seat.findings)))


def _profile(seat: Seat, wanted: str) -> str:
    """Whom to send, "" where nobody can be sent."""
    if seat.is_child or "delegate_task" not in seat.tools:
        return ""
    return wanted if wanted in seat.crew else "general" if "general" in seat.crew else ""


def _take(seat: Seat, got: Got) -> bool:
    """Take over what a sub-agent found; False where it brought nothing."""
    path, ended = report.sender(got.text)
    good = _good(one for one in report.findings_in(got.text) if path and one.evidence.startswith(f"{path}: "))
    if not good:
        why = f"sub-agent {path} brought nothing ({ended})" if path else got.trouble
        seat.note(f"not done by a sub-agent: {words.quoted(why, 160)}", got)
        return False
    if ended != "completed":
        seat.note(f"sub-agent {path} ended early: {words.quoted(ended, 80)}", got)
    seat.findings.extend(one for one in report.findings_in(got.text) if one.evidence.startswith(f"{path}: "))
    seat.note(f"{report.RECEIPT} of {path}: {words.code(report.tools_run(got.text), 200)}", got)
    return True


def _write(seat: Seat) -> Generator[Step, Sequence[Got], str]:
    """The sentences above the figures, a summarizer's where one can be sent."""
    own = report.prose(seat.findings, report.name_of(seat.folder))
    profile = _profile(seat, "summarizer")
    if not profile or not any(kind == report.TEXT for kind, *_ in report.rows(seat.findings)):
        return own
    (got,) = yield Step(
        f"Their results are in. Now {words.one(profile)} counts the main figures again and writes the words.",
        "The findings go along as context: a sub-agent sees nothing else of this conversation.",
        (tasks.delegate(profile, tasks.WRITE_TASK, _context(seat.findings)),),
    )
    if not _take(seat, got) or report.sender(got.text)[1] != "completed":
        return own
    return report.prose_in(got.text)


def _context(findings: Sequence[Finding]) -> str:
    """As many whole findings as can be given along, the counts first."""
    ordered = sorted(findings, key=lambda one: not report.COUNT.fullmatch(one.claim))
    while len(text := report.listed(ordered)) > CONTEXT_CHARS:
        ordered.pop()
    return text


def _answer(seat: Seat, text: str) -> str:
    good = _good(seat.findings)
    if not good:
        text = NOTHING
    elif any(one.claim == report.counted(report.ALL, 0) for one in good) and any(
        one.claim == survey.EMPTY for one in good
    ):
        text = EMPTY
    table = report.table(seat.findings)
    parts = [
        text,
        table,
        report.LEGEND if len(report.rows(seat.findings)) > 1 else "",
        report.points(seat.findings),
        words.FOOTER,
    ]
    return "\n\n".join(part for part in parts if part)


def _good(findings: Sequence[Finding] | Generator[Finding, None, None]) -> list[Finding]:
    return [one for one in findings if not one.claim.startswith("not done")]
