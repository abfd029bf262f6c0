"""The examples of docs/api.md are run as they stand there, and print what the page shows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from friday_cli.system.paths import config_dir
from tests.session.harness import delegates, does, says

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n.*?^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
LOOK = does(("list_dir", {"path": "."}))


def finds(*findings: str) -> list[dict[str, Any]]:
    return [{**says(json.dumps({"findings": findings})), "usage": {"input": 1000}}]


PLAYS: list[dict[str, Any]] = [
    {
        "a": [{**delegates("general"), "usage": {"input": 1000}}, {**says('{"bugs": 2}'), "usage": {"input": 1000}}],
        "a.1": [{**says("Two."), "usage": {"input": 1000}}],
    },
    {"a": [LOOK, says("Those of parse().")], "a.1": [says("Written.")]},
    {"a": [does(("py__ticket", {"number": 7}), ("bash", {"command": "rm -r build"})), says("Fixed.")]},
    {
        "a": [{**says("Those of parse()."), "when": "missing"}, says("The empty file.")],
        "a.1": [says("Only main().")],
    },
    {
        "a.1": finds("parse() has 300 lines."),
        "a.2": finds("There is no option --fast."),
        "a.3": finds("main() ignores OSError."),
    },
]
"""What the agents of each example do."""
assert len(PLAYS) == len(EXAMPLES)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_shows(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = EXAMPLES[number]
    play = tmp_path / "play.json.yaml"
    play.write_text(json.dumps({"agents": PLAYS[number], "price": {"input": 10.0}}), encoding="utf-8")
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "config.toml").write_text(f'model = "scripted:{play}"\n', encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "argv", ["review.py", str(project)])
    ended = 0
    try:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        ended = int(end.code or 0)
    assert ended == 0
    assert capsys.readouterr().out == printed


def test_the_program_that_reviews_a_repository_has_30_lines_at_most() -> None:
    code = EXAMPLES[-1][0]
    assert len(code.splitlines()) <= 30
    assert code.count("session.delegate") == 1
