"""Runs scenarios of the conformance package, each in a process, and reads what it found."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.counterparts.install import Counterparts
from tests.counterparts.report import Check

PACKAGE = "@modelcontextprotocol/conformance"
PROJECT = Path(__file__).parents[2]
SCENARIO_S = 120


def scenarios(tools: Counterparts, side: str, revision: str) -> list[str]:
    """The scenarios of `side` ("client" or "server") for a revision, or with "extension" those of extensions."""
    rows = [line.split() for line in _conformance(tools, ["list", f"--{side}"]).stdout.splitlines()]
    return [row[1] for row in rows if len(row) == 3 and revision in row[2]]


def play(tools: Counterparts, side: str, scenario: str, revision: str, arguments: Sequence[str], **env: str) -> Check:
    """Play one scenario. `arguments` name the other side: `--command COMMAND`, or `--url URL`."""
    name = f"{scenario} [{revision}]"
    with tempfile.TemporaryDirectory() as folder:
        version = [] if revision == "extension" else ["--spec-version", revision]
        command = [side, *arguments, "--scenario", scenario, *version, "-o", folder]
        try:
            ran = _conformance(tools, command, FRIDAY_HOME=f"{folder}/home", **env)
        except subprocess.TimeoutExpired:
            return Check(name, False, f"no end within {SCENARIO_S} s")
        checks = [check for path in Path(folder).rglob("checks.json") for check in json.loads(path.read_text())]
        errors = "".join(path.read_text() for path in Path(folder).rglob("stderr.txt"))
    failed = [
        f"{check['id']}: {check.get('errorMessage') or check.get('description', '')}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING")
    ]
    if not failed and ran.returncode:
        failed = [(errors or ran.stdout + ran.stderr)[-300:]]
    if not failed and not any(check["status"] == "SUCCESS" for check in checks):
        failed = [f"nothing was checked: {ran.stdout[-200:]}"]
    return Check(name, not failed, " | ".join(" ".join(line.split())[:400] for line in failed))


def _conformance(tools: Counterparts, arguments: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
    script = tools.script(PACKAGE, "dist/index.js")
    path = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [tools.node, script, *arguments],
        capture_output=True,
        text=True,
        timeout=SCENARIO_S,
        check=False,
        env=tools.env(PYTHONPATH=path, **env),
        cwd=PROJECT,
    )
