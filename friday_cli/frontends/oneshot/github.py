"""What a run tells GitHub Actions: annotations, the summary of the step and its outputs.

Lines of a job's log that begin with `::` are commands to the runner. Text of models and tools is untrusted, so the runner
reads no commands (`::stop-commands::`) but those that are written here. Source: GitHub's documentation of workflow commands.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from friday_cli.core.protocol.format import cost, seconds, tokens
from friday_cli.core.protocol.receipt import Finding
from friday_cli.core.text.known_keys import mask_keys
from friday_cli.core.text.sanitize import code_block, sanitize, sanitize_line
from friday_cli.view import SessionView
from friday_cli.view.tree import render_tree

from .locations import location_of

MAX_SUMMARY_BYTES = 900_000
"""A step's summary may have 1 MiB; the rest is for what other programs add."""
MAX_OUTPUT_CHARS = 200_000
"""Characters of the answer as an output of the step; GitHub allows 1 MB for all outputs of a job."""
MAX_ANNOTATIONS = 10
"""GitHub shows ten of each kind for a step."""


class GitHubLog:
    """The log of a job. From the beginning to `close` the runner reads no commands but those of `command`."""

    def __init__(self) -> None:
        self._token, self._stream = secrets.token_hex(16), sys.stderr if _is_file(sys.stdout) else sys.stdout
        self._write(f"::stop-commands::{self._token}")

    def command(self, name: str, text: str, **properties: str | int) -> None:
        """One command to the runner, such as `warning` with `file` and `line`."""
        given = ",".join(f"{key}={_escape(str(value), more=True)}" for key, value in properties.items() if value != "")
        own = f"::{name}{f' {given}' if given else ''}::{_escape(text)}"
        self._write(f"::{self._token}::\n{own}\n::stop-commands::{self._token}")

    def line(self, text: str) -> None:
        """One line without a meaning to the runner."""
        self._write(sanitize(text, keep=""))

    def close(self) -> None:
        """The runner reads commands again, such as those of what runs next in this step."""
        self._write(f"::{self._token}::")

    def _write(self, line: str) -> None:
        """To the log, also where the answer goes to a file."""
        with suppress(OSError):
            print(line, file=self._stream, flush=True)


def _is_file(stream: TextIO) -> bool:
    """Whether a shell sends this stream to a file, so that the runner does not read it."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # no stream of the system
        return False


def _escape(text: str, *, more: bool = False) -> str:
    text = sanitize(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if more else text


def annotate(log: GitHubLog, findings: Sequence[tuple[str, Finding]]) -> None:
    """A warning for each finding whose evidence the harness observed, a notice for the others. `findings`: with the
    profiles that they are from."""
    counts = {"warning": 0, "notice": 0}
    for profile, finding in findings:
        name = "warning" if finding.seen else "notice"
        counts[name] += 1
        if counts[name] <= MAX_ANNOTATIONS:
            place = location_of(finding.evidence)
            where: dict[str, str | int] = {} if place is None else place.properties()
            text = finding.claim if place else f"{finding.claim} ({finding.evidence})"
            log.command(name, sanitize_line(text, 1_000), **where, title=sanitize_line(profile, 60))


def write_summary(state: SessionView, *, answer: str, status: str, env: Mapping[str, str]) -> None:
    """Append answer, tree, receipts and cost to the summary of the step. A file that cannot be written is ignored."""
    path = env.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    tree = "\n".join(render_tree(state))
    root = state.agents.get("a")
    facts = [status, f"{tokens(state.totals)} tokens", cost(state.totals), f"session {state.session[:8]}"]
    if root:
        facts.insert(3, seconds(root.active_s(state.at)))
    folded = f"<details><summary>Agents and receipts</summary>\n\n{code_block(tree, 'text')}\n\n</details>"
    text = f"### Friday: {' · '.join(facts)}\n\n{code_block(answer, 'text')}\n\n{folded}\n\n"
    _append(path, mask_keys(text).encode("utf-8", "replace")[:MAX_SUMMARY_BYTES])


def write_outputs(values: Mapping[str, str], env: Mapping[str, str]) -> None:
    """The outputs of the step. Values may have several lines."""
    if path := env.get("GITHUB_OUTPUT"):
        mark = f"friday-{secrets.token_hex(16)}"
        rows = (
            f"{name}<<{mark}\n{sanitize(mask_keys(value))[:MAX_OUTPUT_CHARS]}\n{mark}\n"
            for name, value in values.items()
        )
        _append(path, "".join(rows).encode("utf-8", "replace"))


def _append(path: str, data: bytes) -> None:
    with suppress(OSError), open(path, "ab") as file:
        file.write(data)


def under_github(env: Mapping[str, str] = os.environ) -> bool:
    """Whether this is a step of GitHub Actions."""
    return env.get("GITHUB_ACTIONS") == "true"
