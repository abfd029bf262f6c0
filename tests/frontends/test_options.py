"""The quick parser understands what Typer understands, and leaves it what needs explaining."""

from __future__ import annotations

import json
from typing import Any

import pytest

from friday_cli import cli
from friday_cli.cli import map as map_command
from friday_cli.cli import parameters
from friday_cli.frontends.oneshot import run
from friday_cli.frontends.oneshot.options import OPTIONS, defaults, parse
from friday_cli.frontends.options import Option
from friday_cli.frontends.tui import options as chat_options
from friday_cli.frontends.tui import run as chat_run

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
PLAIN_CHAT = [
    ["-i", "hello", "--model=opus", "-c"],
    ["-r", "7f3a", "--plain", "-C", "/tmp"],
    ["--allow", "grep", "--allow", "glob", "--mode", "plan"],
    ["--effort=high", "--yolo", "--trust", "--profile", "-odd"],
]
ODD: list[list[str]] = [
    ["--help"],
    ["-h"],
    ["--nope"],
    ["a", "b"],
    ["--model"],
    ["--max-turns", "many"],
    ["--max-turns", "1.5"],
    ["--mode", "wild"],
    ["--effort", "huge"],
    ["--output-format", "xml"],
    ["--quiet=1", "x"],
    ["-qc", "x"],
    ["-mopus", "x"],
    ["--yol", "x"],
    ["--timeout", "soon"],
]


@pytest.fixture
def by_typer(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Typer hands over, one entry for each call."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(run, "ask", lambda values: found.append(values) or 0)
    monkeypatch.setattr(chat_run, "chat", lambda values: found.append(values) or 0)
    return found


@pytest.mark.parametrize(
    ("argv", "values"),
    [*((["ask", *argv], parse(argv)) for argv in PLAIN), *((argv, chat_options.parse(argv)) for argv in PLAIN_CHAT)],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_plain_calls_are_understood_alike(
    argv: list[str], values: dict[str, Any] | None, by_typer: list[dict[str, Any]]
) -> None:
    assert cli.run(argv) == 0
    (found,) = by_typer
    assert found | {name: tuple(found[name] or ()) for name in ("allow", "deny", "add_dir", "mcp_config")} == values


@pytest.mark.parametrize(
    "argv",
    [
        ["status"],
        ["report", "b1", "-f", "html"],
        [
            "p",
            "--glob",
            "**/*.py",
            "--task={path}",
            "--max-cost",
            "1.5",
            "--parallel",
            "4",
            "-y",
            "--allow",
            "a",
            "--allow=b",
        ],
        ["p", "--over", "ls", "--deferred", "--deferred-rounds=2", "--max-tokens", "9", "--", "--odd"],
    ],
    ids=" ".join,
)
def test_a_batch_is_understood_alike(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []

    def put(values: dict[str, Any]) -> int:
        found.append(values)
        return 0

    monkeypatch.setattr(map_command, "_map", put)
    assert cli.run(["map", *argv]) == 0
    monkeypatch.setattr(parameters, "parse", lambda *words: None)
    assert cli.run(["map", *argv]) == 0
    assert found[0] == found[1]


@pytest.mark.parametrize("argv", ODD, ids=" ".join)
def test_what_needs_explaining_is_left_to_typer(argv: list[str]) -> None:
    assert parse(argv) is None
    assert chat_options.parse(argv) is None


@pytest.mark.parametrize("argv", [a for a in ODD if a[0] not in ("--help", "-h", "-qc", "-mopus")], ids=" ".join)
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
    codes = "0 answered, 1 failed, 2 usage error, 3 no model, 4 no answer, 5 limit reached, 75 temporary failure, 130 interrupted"
    for code in codes.split(", "):
        assert code in " ".join(text.split())


@pytest.mark.parametrize("options", [OPTIONS, chat_options.OPTIONS], ids=["ask", "chat"])
def test_no_two_options_share_a_name(options: tuple[Option, ...]) -> None:
    names = [name for option in options for name in option.names]
    assert len(set(names)) == len(names)
    assert len({option.dest for option in options}) == len(options)


@pytest.mark.parametrize(
    "argv", [["--nope", "--output-format", "json"], ["--output-format=json", "--nope"]], ids=" ".join
)
def test_json_is_asked_for_though_the_rest_makes_no_sense(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["ask", *argv]) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["exit_code"]) == ("failed", 2)
    assert "--nope" in document["error"]


@pytest.mark.parametrize(
    ("argv", "resume"),
    [(["-r"], ""), (["-r", "--yolo"], ""), (["-r", "7f3a"], "7f3a"), (["--resume="], ""), ([], None)],
)
def test_the_chat_resumes_with_or_without_an_id(argv: list[str], resume: str | None) -> None:
    values = chat_options.parse(argv)
    assert values is not None
    assert values["resume"] == resume
