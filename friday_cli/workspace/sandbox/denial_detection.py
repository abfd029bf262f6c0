"""Guesses from the output of a failed command whether its sandbox was the reason."""

from __future__ import annotations

import os
import re

from friday_cli.core.text.lazy_regex import pattern

from . import inside
from .plan import SandboxPlan

_READ_ONLY = pattern(r"read-only file system|\bEROFS\b", re.I)
_REFUSED = pattern(
    r"permission denied|operation not permitted|device or resource busy|\b(?:EACCES|EPERM|EBUSY)\b", re.I
)
_OFFLINE = pattern(
    r"could not resolve|couldn't resolve|temporary failure in name resolution|name or service not known|"
    r"network is unreachable|no address associated|nodename nor servname|getaddrinfo|\bEAI_AGAIN\b|\bENOTFOUND\b|"
    r"\bENETUNREACH\b|failed to lookup address|unable to resolve host|no such host|dial (?:tcp|udp)|unknown host|"
    r"connection refused|failed to establish a new connection|could not connect to server",
    re.I,
)
_PATH = pattern(r"(?<![\w.])/[^\s'\":;,()<>`\[\]]+")
SEARCHED, ROW_CHARS = 20_000, 200
"""Characters at the end of an output that are searched, and most characters of a line that is quoted."""


def explain(output: str, plan: SandboxPlan) -> str:
    """What the sandbox seems to have denied, as a sentence for the model; "" if nothing indicates a denial. For a command
    that is read-only it is the line of the output that indicates it."""
    rows = output[-SEARCHED:].splitlines()
    if plan.read_only:
        return next((row.strip()[:ROW_CHARS] for row in rows if _denied_read_only(row, plan)), "")
    plan = plan.resolved()
    if rows and rows[0].startswith("bwrap: "):
        return f"The sandbox itself failed, so the command did not run ({rows[0][:200]})."
    found = []
    if any(_READ_ONLY().search(row) or (_REFUSED().search(row) and _names_denied_path(row, plan)) for row in rows):
        found.append("only the workspace and $TMPDIR can be written, and .git/hooks, .git/config and .friday cannot")
        found.append("keys and other secrets cannot be read")
    if not plan.network and any(_OFFLINE().search(row) or _tcp_refused(row, plan) for row in rows):
        own_localhost = ", and each command has its own localhost" if plan.kind == "bubblewrap" else ""
        found.append(f"the network is off{own_localhost}")
    return f"The sandbox ({plan.kind}) may be the reason: {'; '.join(found)}." if found else ""


def _denied_read_only(row: str, plan: SandboxPlan) -> bool:
    """Whether a line reports that something was denied that the user may do."""
    if _READ_ONLY().search(row) or _OFFLINE().search(row):
        return True
    names = [os.path.join(plan.cwd, name) for name in re.split(r"['‘’`\"]|: ", row) if name]
    refused = any(os.path.lexists(name) and not os.access(name, os.R_OK) for name in names if "\0" not in name)
    return _REFUSED().search(row) is not None and not refused


def _names_denied_path(row: str, plan: SandboxPlan) -> bool:
    """Whether a line names a path that cannot be written or read in the sandbox."""
    if re.search(r"\.git\b|\.friday\b|(?<![\w./])\.\./", row):
        return True
    writable, denied = (*plan.write, plan.tmp, "/tmp", "/dev"), (*plan.freeze, *plan.deny)
    return any(
        not any(inside(path, root) for root in writable) or any(inside(path, other) for other in denied)
        for path in _PATH().findall(row)
    )


def _tcp_refused(row: str, plan: SandboxPlan) -> bool:
    """Whether a line reports a connection that Landlock denied: the error is the one of a missing permission."""
    words = _REFUSED().search(row) and re.search(r"connect|bind|socket", row, re.I)
    return plan.kind == "landlock" and words is not None
