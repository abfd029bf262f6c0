"""The report on a sub-agent that its parent's model reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.subagents.node import AgentSummary
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.untrusted import neutralize
from friday_cli.view.items import worktree_text

if TYPE_CHECKING:
    from friday_cli.core.eventlog.replay import AgentRecord

HEAD_SHARE = 0.65
"""Share of a truncated result that its beginning gets; the end gets the rest."""
_HARNESS_MARK = pattern(r"\[((?:not )?seen by the harness|truncated: [^\]\n]*)\]", re.I)


def report(
    known: AgentSummary,
    below: Sequence[AgentSummary] = (),
    *,
    worktree: str = "",
    offset: int = 0,
    summary: str | None = None,
) -> str:
    """The text of a result, the status, and what the harness recorded. The result of an earlier run comes with the failure
    of a later one. `below` are its own sub-agents, `worktree` tells what it changed there. The text is shown
    from `offset` on, up to its limit, or a `summary` of it."""
    end = known.end or RunResult(known.status, "done")  # resumed by a person meanwhile
    lines = [f"## Result from {known.profile!r} ({known.path}): {status_text(known)}"]
    limit = known.result_chars
    if end.error:
        lines.append(f"error: {_inline(end.error)}")
    if earlier := known.earlier:
        if end.text and not offset:
            lines.append(_quote(end.text[: limit // 4]))
            if len(end.text) > limit // 4:
                lines.append(f"[truncated: {len(end.text)} characters in all]")
        lines.append("Result of its earlier run:")
    text = earlier.text if earlier else end.text
    if summary is None:
        lines.append(_excerpt(text, known.path, offset, limit))
    else:
        lines.append(_quote(summary))
        lines.append(
            f"[truncated: this is a summary of {len(text)} characters; "
            f"get_delegation_result(id={known.path!r}) returns all]"
        )
    findings = (*end.findings, *(earlier.findings if earlier else ()))
    if findings:
        lines.append("\nFindings:")
    for finding in findings:
        mark = "seen by the harness" if finding.seen else "NOT seen by the harness"
        lines.append(f"- {_inline(finding.claim)}\n  Evidence: {_inline(finding.evidence)} [{mark}]")
    lines.append(
        f"---\ndelegate_id: {known.path} | tokens: {known.usage.billed} | cost: {_cost(known)}"
        f" | time: {known.duration_s:.1f} s"
    )
    lines.append("Receipt, made by the harness and not by the sub-agent:")
    lines += [f"- {line}" for line in known.receipt.lines()]
    if worktree:
        lines.append(worktree)
    if below:
        listed = ", ".join(f"{k.path} {k.profile} {status_text(k)}" for k in below)
        lines.append(f"Its own sub-agents: {listed}")
        lines += [f"- WARNING about {k.path}: {_inline(warning)}" for k in below for warning in k.receipt.warnings]
    return "\n".join(lines)


def agent_summary(record: AgentRecord) -> AgentSummary:
    """The facts that other agents may know of an agent, from the log."""
    usage = record.tree_usage if record.end else record.usage
    return AgentSummary(
        record.path,
        record.profile,
        record.task,
        record.status,
        end=record.end,
        usage=usage,
        duration_s=record.active_s,
        receipt=record.receipt,
        model=record.model,
        kept=record.kept,
        result_chars=record.newest_start.result_chars,
    )


def report_from_log(record: AgentRecord, records: Mapping[str, AgentRecord]) -> str:
    """The report on a sub-agent for its parent's model, from the log."""
    below = [agent_summary(r) for p, r in records.items() if p != record.path and is_under(p, record.path)]
    worktree = f"Worktree {worktree_text(record.worktree)}" if record.worktree else ""
    return report(agent_summary(record), below, worktree=worktree)


def status_text(known: AgentSummary) -> str:
    """The status of an agent, with the reason where it says more."""
    return known.end.summary(known.path) if known.end else known.status


def _quote(text: str) -> str:
    """Text of a sub-agent, each line behind "> ": none of its lines can be taken for one of the harness."""
    return "\n".join(f"> {line}".rstrip() for line in _plain(text).splitlines())


def _inline(text: str) -> str:
    """Text of a sub-agent in a line of the harness: further lines of it are indented."""
    return "\n  ".join(_plain(text).splitlines())


def _plain(text: str) -> str:
    return _HARNESS_MARK().sub(r"‹\1›", neutralize(text))


def _cost(known: AgentSummary) -> str:
    if is_demo(known.model):
        return "none (demo)"
    return "unknown" if known.usage.cost_usd is None else f"${known.usage.cost_usd:.4f}"


def _excerpt(text: str, path: str, offset: int, limit: int) -> str:
    """The part of a result that the caller reads, quoted. `offset` and `limit` count characters of `text`."""
    if offset:
        rest = text[offset : offset + limit]
        end = offset + len(rest)
        more = f"\n[{end} of {len(text)} characters; continue with offset={end}]" if end < len(text) else ""
        return (_quote(rest) if rest else f"[the result has {len(text)} characters]") + more
    if len(text) <= limit:
        return _quote(text) or "[no text]"
    head = int(limit * HEAD_SHARE)
    tail = limit - head
    note = f"\n[... truncated: {len(text)} characters in all; continue with get_delegation_result(id={path!r}, offset={head}) ...]\n"
    return _quote(text[:head]) + note + _quote(text[-tail:])
