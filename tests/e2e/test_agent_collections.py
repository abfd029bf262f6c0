"""The command that reads other people's collections, on a small one in their shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import agent_collections

FILES = {
    "studio/design/one.md": "---\nname: one\ndescription: Use it: often.\n\n<example>\nuser: Try\n</example>\ntools: Read, fly\n---\nDo.\n",
    "studio/two.md": "---\nname: Two B\ndescription: d\nmodel: sonnet\n---\nDo.\n",
    "studio/two-b.md": "---\nname: two-b\ndescription: d\n---\nDo.\n",
    "studio/bad.md": "---\nname: bad\ndescription: d\ntools: [fly]\n---\nDo.\n",
    "studio/README.md": "# Read me\n",
    "tasks/commands/pay.md": "Pay $4,050 to $1, with `$ARGUMENTS`: !`date`\n",
}


def test_counts_and_every_difference_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert agent_collections.main(tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == [
        "studio/bad.md: not loaded: tools none of these tools exists.",
        "studio/design/one.md: its front matter is not YAML; each value is read as plain text.",
        "studio/design/one.md: tools: fly is unknown and ignored.",
        "studio/two.md: a second file named two-b",
        "studio/two.md: name: 'Two B' (5 characters) became 'two-b' (5)",
        "== studio: 4 agent files, 1 double names, 3 loaded, 1 names changed, 1 not loaded; "
        "list of sub-agents: 67 characters, 0 found by search only",
        "tasks/commands/pay.md: /pay: not run, sent as text: date.",
        "== tasks: 1 commands, 1 commands with shell commands that are not run; "
        "list of sub-agents: 0 characters, 0 found by search only",
    ]
