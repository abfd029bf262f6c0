"""`friday ask` with files of MCP servers: a broken one is one line, and nothing is lost."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.e2e.friday import Friday

BROKEN = {"broken": {"command": "x", "args": ["${NOT_SET}"]}, "off": {"command": "x", "enabled": False}}
NOT_SET = (
    "mcpServers.broken.args[0]: the variable NOT_SET is not set. Set it, or write ${NOT_SET:-default} for a default."
)


def entries(data: Any) -> str:
    return json.dumps({"mcpServers": data})


@pytest.fixture
def answering(friday: Friday) -> Friday:
    friday.plays("agents: {a: [{text: well}]}")
    return friday


def complaints(friday: Friday, *argv: str) -> list[str]:
    """The lines about servers of a run that answers."""
    ran = friday("hi", *argv)
    assert (ran.code, ran.out) == (0, "well\n")
    return [line.removeprefix("friday: ") for line in ran.lines if "mcp" in line.lower()]


def test_a_broken_entry_or_file_is_one_line_and_the_answer_comes(answering: Friday) -> None:
    file = answering.home / "mcp.json"
    file.write_text(entries(BROKEN))
    assert complaints(answering) == [f"{file}: {NOT_SET}"]
    file.write_text('{"mcpServers": {,}}')
    (line,) = complaints(answering)
    assert line.startswith(f"{file}:1: is not valid JSON: ")


def test_the_options_of_the_command_line(answering: Friday) -> None:
    file, more = answering.home / "mcp.json", answering.project / "more.json"
    file.write_text("{")
    more.write_text(entries(BROKEN))
    assert complaints(answering, "--no-mcp") == []
    assert complaints(answering, "--no-mcp", "--mcp-config", "more.json") == [f"{os.path.realpath(more)}: {NOT_SET}"]
    both = complaints(answering, "--mcp-config", entries(BROKEN), "--mcp-config", str(more))
    assert [line.partition(" ")[0] for line in both] == ["--mcp-config:", f"{more}:", f"{more}:", f"{file}:1:"]
    for value, words in (
        ("none.json", "--mcp-config: none.json: no such file."),
        ("{bad", "--mcp-config:1: is not valid JSON: "),
    ):
        ran = answering("hi", "--mcp-config", value)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"friday: {words}")


def test_a_projects_file_counts_once_it_is_trusted_and_gets_no_secret(answering: Friday) -> None:
    answering.setenv("SERVICE_TOKEN", "tok-0123456789")
    path = answering.project / ".mcp.json"
    path.write_text(entries({"s": {"url": "https://example.org/${SERVICE_TOKEN}"}, "t": {"enabled": False}}))
    (line,) = complaints(answering)
    assert "is not trusted. Not used: .mcp.json. `friday trust` would allow this." in line
    (line,) = complaints(answering, "--trust")
    assert line.endswith(
        ".mcp.json: mcpServers.s.url: a project cannot use the variable SERVICE_TOKEN, which looks like a secret. "
        "Put the server in your own mcp.json."
    )
