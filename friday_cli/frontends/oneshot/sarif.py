"""The findings of a run as SARIF 2.1.0, which code scanning of GitHub and others read."""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import quote

from friday_cli import __version__
from friday_cli.core.protocol.receipt import Finding
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.text.known_keys import mask_keys_in
from friday_cli.core.text.sanitize import escape_json, sanitize
from friday_cli.view import SessionView

from .locations import location_of
from .output import OutputWriter
from .terminal import remark

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def all_findings(state: SessionView) -> list[tuple[str, Finding]]:
    """The findings of all agents, with their profiles."""
    return [(agent.profile, found) for agent in state.agents.values() if agent.end for found in agent.end.findings]


def sarif(state: SessionView, *, completed: bool) -> dict[str, Any]:
    """The document. A finding whose evidence the harness observed is a warning, another one a note."""
    findings = all_findings(state)
    rules = sorted({profile for profile, _ in findings})
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Friday",
                        "version": __version__,
                        "rules": [
                            {"id": f"friday/{name}", "shortDescription": {"text": f"Findings of {name}"}}
                            for name in rules
                        ],
                    }
                },
                "invocations": [{"executionSuccessful": completed}],
                "results": [_result(profile, finding) for profile, finding in findings],
            }
        ],
    }


def _result(profile: str, finding: Finding) -> dict[str, Any]:
    place = location_of(finding.evidence)
    text = finding.claim if place else f"{finding.claim} ({finding.evidence})"
    result: dict[str, Any] = {
        "ruleId": f"friday/{profile}",
        "level": "warning" if finding.seen else "note",
        "message": {"text": sanitize(text)},
        "properties": {"evidence": finding.evidence, "seen": finding.seen},
    }
    if place is not None:
        region = {"startLine": place.first, "endLine": place.last}
        physical = {"artifactLocation": {"uri": quote(place.path)}, "region": region}
        result["locations"] = [{"physicalLocation": physical}]
    return result


class SarifWriter(OutputWriter):
    """`sarif`: one document with the findings of all sub-agents at the end, also if the run failed."""

    def finish(self, outcome: RunResult, code: int) -> None:
        document = mask_keys_in(sarif(self.state, completed=outcome.status == "completed"))
        text = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace").decode()
        sys.stdout.write(escape_json(text) + "\n")
        sys.stdout.flush()
        if outcome.error:
            remark(outcome.error)
        if not document["runs"][0]["results"]:
            remark("no findings: SARIF contains what sub-agents report as findings with evidence")
