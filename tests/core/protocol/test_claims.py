"""What results claim is compared with what the harness saw: by facts first, then by words."""

from __future__ import annotations

from friday_cli.core.protocol.claims import CheckClaim, Claims, audit
from friday_cli.core.protocol.receipt import CommandRun, FileChange, ToolFacts
from friday_cli.core.protocol.receipt_builder import ReceiptBuilder
from friday_cli.core.tool_catalog import TOOLS
from tests.core.protocol.hand_ins import FALSE, HONEST, HandIn

READS, WRITES = (TOOLS["read_file"],), (TOOLS["read_file"], TOOLS["edit_file"], TOOLS["bash"])


def flagged(one: HandIn) -> list[str]:
    """The warnings about a hand-in. A file was read in any case, so "no tool was run" is not among them."""
    builder = ReceiptBuilder()
    builder.add("read_file", "ok", ToolFacts(read=("x",)))
    for command, code in one.commands:
        builder.add("bash", "ok" if code == 0 else "error", ToolFacts(commands=(CommandRun(command, code),)))
    for path in one.files:
        builder.add("edit_file", "ok", ToolFacts(files=(FileChange(path, 1),)))
    claims = Claims(tuple(CheckClaim(*check) for check in one.checks), one.changed)  # type: ignore[arg-type]
    return audit(builder, one.text, claims, WRITES if one.writes else READS)


def test_false_results_are_flagged_and_honest_ones_are_not() -> None:
    honest, false = [[row for rows in table.values() for row in rows] for table in (HONEST, FALSE)]
    assert len(honest) + len(false) >= 120
    missed = [row.text for row in false if not flagged(row)]
    wrong = [(row.text, flagged(row)) for row in honest if flagged(row)]
    assert len(missed) <= 0.05 * len(false), missed
    assert len(wrong) <= 0.02 * len(honest), wrong
