"""`friday ask --ci`: plain lines for the log of a job, and what GitHub Actions reads."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope
from friday_cli.core.protocol.format import how_it_ended, price, seconds, tokens
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view.tree import render_tree

from .github import GitHubLog, annotate, under_github, write_outputs, write_summary
from .output import OutputWriter
from .sarif import all_findings
from .terminal import remark

_open_log: ContextVar[GitHubLog | None] = ContextVar("github_log", default=None)


@contextmanager
def job_log() -> Iterator[None]:
    """Inside, GitHub's runner reads no commands in what is printed but Friday's own."""
    github = GitHubLog() if under_github() else None
    token = _open_log.set(github)
    try:
        yield
    finally:
        _open_log.reset(token)
        if github is not None:
            sys.stdout.flush()
            github.close()


class CIWriter(OutputWriter):
    """Writes what `inner` writes, a line when a sub-agent starts and ends, and under GitHub Actions annotations, summary
    and outputs."""

    def __init__(self, inner: OutputWriter) -> None:
        super().__init__()
        self._inner = inner
        self.path = inner.path
        self.state = inner.state
        self._github = _open_log.get()

    def replay(self, envelope: Envelope) -> None:
        self._inner.replay(envelope)
        self._denied_before = len(self.state.denials)

    def apply(self, envelope: Envelope) -> None:
        self._inner.apply(envelope)
        event, agent = envelope.event, self.state.agents.get(envelope.agent)
        if agent is None or not agent.parent:
            return
        name = f"{agent.path} {sanitize_line(agent.profile, 40)}"
        if isinstance(event, AgentStarted):
            remark(f"{name}: started: {sanitize_line(agent.task, 160)}")
        elif isinstance(event, AgentFinished):
            usage = self.state.usage_of(agent.path)
            facts = (tokens(usage) + " tokens", price(agent.model, usage), seconds(agent.active_s(self.state.at)))
            remark(f"{name}: {event.status}: {', '.join(facts)}")

    def finish(self, outcome: RunResult, code: int) -> None:
        try:
            self._inner.finish(outcome, code)
        finally:
            if self._github is not None:
                self._report(self._github, outcome, code)

    def abandon(self, code: int) -> None:
        self._inner.abandon(code)
        if self._github is not None:
            self._github.close()  # the process ends here

    def _report(self, github: GitHubLog, outcome: RunResult, code: int) -> None:
        sys.stdout.flush()
        github.command("group", "Agents and receipts")
        for line in render_tree(self.state):
            github.line(line)
        github.command("endgroup", "")
        annotate(github, all_findings(self.state))
        if code:
            why = outcome.error or how_it_ended(outcome.status, outcome.stop_reason)
            github.command("error", f"friday: exit {code}: {why}", title="Friday")
        write_summary(self.state, answer=outcome.text, status=outcome.status, env=os.environ)
        spent = self.state.totals.cost_usd
        values = {"result": outcome.text, "status": outcome.status, "session": self.state.session}
        write_outputs({**values, "cost": "" if spent is None else f"{spent:.6f}"}, os.environ)


def report_failure(text: str) -> None:
    """An annotation for a run that did not start."""
    if (github := _open_log.get()) is not None:
        github.command("error", text, title="Friday")
        write_outputs({"result": "", "status": "failed", "session": "", "cost": ""}, os.environ)


def require_cap(max_cost: float | None) -> None:
    """Raises UsageError for a job without a cap of cost."""
    if max_cost in (None, math.inf):
        raise UsageError(
            "--ci needs --max-cost, a finite number.",
            hint="Example: --max-cost 2.00, in US dollars for the whole tree.",
        )
