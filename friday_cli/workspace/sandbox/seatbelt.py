"""Confines a command with macOS's sandbox-exec. The supervisor imports this: standard library only."""

from __future__ import annotations

import os

from .plan import SandboxPlan

PROGRAM = "/usr/bin/sandbox-exec"


def wrap(plan: SandboxPlan, words: list[bytes]) -> list[bytes]:
    """The call of sandbox-exec that runs `words` confined by `plan`, which must be resolved."""
    return [os.fsencode(plan.program), b"-p", os.fsencode(profile(plan)), *words]


def profile(plan: SandboxPlan) -> str:
    """The rules as text; the last rule that matches an access applies."""
    rows = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rows.append('(allow file-write* (regex #"^/dev/(null|zero|tty|dtracehelper)$"))')
    layers = [("deny", path) for path in plan.deny] + [("show", path) for path in plan.show]
    layers += [("read_only", path) for path in plan.read_only]
    layers += [("write", path) for path in (*plan.write, os.path.realpath(plan.tmp))]
    layers += [("freeze", path) for path in plan.freeze]
    for act, path in sorted(layers, key=lambda layer: layer[1].count("/")):
        rows.append(_RULES[act].format(f"(subpath {_quoted(path)})"))
    if not plan.network or plan.only_port:
        rows.append("(deny network*)")
    if plan.only_port:  # it may not listen either
        rows.append(f'(allow network-outbound (remote tcp "localhost:{plan.only_port}"))')
    return "\n".join(rows)


_RULES = {
    "deny": "(deny file-read* file-write* {})",
    "show": "(allow file-read* {})",
    "read_only": "(allow file-read* {0}) (deny process-exec {0})",
    "write": "(allow file-read* file-write* {})",
    "freeze": "(deny file-write* {})",
}


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
