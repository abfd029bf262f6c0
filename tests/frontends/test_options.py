"""The quick parser of `friday ask` understands what Typer understands, and leaves it what needs explaining."""

from __future__ import annotations

from typing import Any

import pytest

from friday_cli import cli
from friday_cli.frontends.oneshot import run
from friday_cli.frontends.oneshot.options import OPTIONS, asks_for_json, defaults, parse

PLAIN: list[list[str]] = [
    [],
    ["hello"],
    ["-"],
    ["hello", "-m", "opus", "--effort=high"],
    ["--model=a/b:low", "x"],
    ["--allow", "bash(git *)", "x", "--allow", "grep", "--deny=edit_file(a=b)"],
    ["-c", "-q", "--yolo", "x", "--trust", "--debug"],
    ["-r", "7f3a", "x", "-C", "/tmp", "--add-dir", "a", "--add-dir", "b"],
    ["--max-turns", "3", "--max-tokens=1000", "--max-cost", "0.5", "--timeout", "1e2", "x"],
    ["--", "--not-an-option"],
    ["x", "--"],
    ["--output-format", "json", "--json-schema", "{}", "--profile", "p", "--mode", "plan", "x"],
    ["--fallback-model", "a/b", "--subagent-model", "c/d", "--config", "f.toml", "x"],
    ["--model", "-odd", "x"],
    ["--max-turns=-1", "x"],
    ["x", "-m", "first", "-m", "second"],
    [""],
    ["a b\nc"],
]
ODD: list[list[str]] = [
    ["--help"], ["-h"], ["--nope"], ["a", "b"], ["--model"], ["--max-turns", "many"], ["--max-turns", "1.5"],
    ["--mode", "wild"], ["--effort", "huge"], ["--output-format", "xml"], ["--quiet=1", "x"], ["-qc", "x"], ["-mopus", "x"],
    ["--yol", "x"], ["--timeout", "soon"], ["-m=opus", "x"],
]  # fmt: skip


@pytest.fixture
def by_typer(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Typer hands over, one entry for each call."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(run, "ask", lambda values: found.append(values) or 0)
    return found


@pytest.mark.parametrize("argv", PLAIN, ids=" ".join)
def test_plain_calls_are_understood_alike(argv: list[str], by_typer: list[dict[str, Any]]) -> None:
    values = parse(argv)
    assert values is not None
    assert cli.run(["ask", *argv]) == 0
    assert by_typer == [values]
    assert values.keys() == defaults().keys()


@pytest.mark.parametrize("argv", ODD, ids=" ".join)
def test_what_needs_explaining_is_left_to_typer(argv: list[str]) -> None:
    assert parse(argv) is None


@pytest.mark.parametrize(
    "argv", [a for a in ODD if a[0] not in ("--help", "-h", "-qc", "-mopus", "-m=opus")], ids=" ".join
)
def test_typer_explains_it_in_one_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["ask", *argv]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("friday: ")
    assert said.err.count("\n") == 1
    assert "See `friday ask --help`." in said.err


def test_short_options_in_one_word_are_typers(by_typer: list[dict[str, Any]]) -> None:
    assert cli.run(["ask", "-qc", "-mopus", "x"]) == 0
    assert by_typer == [defaults() | {"quiet": True, "continue_": True, "model": "opus", "prompt": "x"}]


def test_every_option_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["ask", "--help"]) == 0
    text = capsys.readouterr().out
    words = set(text.replace(",", " ").split())
    for option in OPTIONS:
        assert set(option.names) <= words, option.names
    for code in (
        "0 answered",
        "1 failed",
        "2 wrong use",
        "3 no model",
        "4 refused",
        "5 a limit",
        "75 try again",
        "130 interrupted",
    ):
        assert code in " ".join(text.split())


def test_no_two_options_share_a_name() -> None:
    names = [name for option in OPTIONS for name in option.names]
    assert len(set(names)) == len(names)
    assert len({option.dest for option in OPTIONS}) == len(OPTIONS)


def test_json_is_asked_for_though_the_rest_makes_no_sense() -> None:
    assert asks_for_json(["ask", "--nope", "--output-format", "json"])
    assert asks_for_json(["ask", "--output-format=json", "--nope"])
    assert not asks_for_json(["ask", "json", "--output-format", "stream-json"])
