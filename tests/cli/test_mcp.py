"""`friday mcp`, and what doctor, trust and profiles say of MCP servers."""

from __future__ import annotations

import json
import stat
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from friday_cli.cli.project_context import load_context
from friday_cli.mcp.catalog import Catalog, CatalogCache, OfferedTool
from tests.cli.console import ROOT, Console

SECRET = "sec-0123456789"
EVIL = {
    "tool": {
        "command": "npx",
        "args": ["-y", "a b", "\u202ex\x1b[31m\n; rm -rf /" + "y" * 500],
        "env": {"NODE_OPTIONS": "-r ./x.js"},
    },
    "web": {"url": "https://\u0430pple.com/mcp?k=${HOME}", "headers": {"X-A": "b"}},
    "off": {"enabled": False},
    "bad": {"command": "npx x"},
}


@pytest.fixture
def file(console: Console) -> Path:
    console.friday_home.mkdir()
    return console.friday_home / "mcp.json"


def write(path: Path, entries: Any) -> None:
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")


def test_what_is_added_is_printed_listed_shown_and_removed(console: Console, file: Path) -> None:
    ran = console.ok("mcp", "add", "files", "--expose", "search", "--", "npx", "-y", "server-filesystem", ".")
    entry = {"command": "npx", "args": ["-y", "server-filesystem", "."], "expose": "search"}
    assert (ran.document, ran.error) == ({"files": entry}, "added to ~/friday/mcp.json:")
    console.ok("mcp", "add", "web", "https://example.org/mcp", "-H", "Authorization: Bearer ${WEB_TOKEN:-none-given}")
    console.ok("mcp", "add-json", "tool", '{"command": "x", "readonly": true, "disabledTools": ["drop_*"]}')
    rows = {row[0]: row[1:] for row in console("mcp", "list").rows}
    assert rows.keys() == {"files", "tool", "web"}
    assert "npx -y server-filesystem ." in rows["files"]
    shown = console.ok("mcp", "show", "tool").out
    assert "not drop_*" in shown
    assert "run without asking" in shown
    document = console.ok("mcp", "list", "--json").document
    assert [(s["name"], s["transport"], s["expose"]) for s in document["servers"]] == [
        ("files", "stdio", "search"), ("tool", "stdio", None), ("web", "http", None),
    ]  # fmt: skip
    assert console.ok("mcp", "remove", "tool").error == "removed tool from ~/friday/mcp.json"
    assert json.loads(file.read_text())["mcpServers"].keys() == {"files", "web"}


def test_a_file_that_cannot_be_read_is_named_where_its_servers_are_missing(console: Console, file: Path) -> None:
    file.write_text('{"mcpServers": {\n  "fs": {"command": "x"}\n', encoding="utf-8")
    for command in ("show", "tools"):
        ran = console("mcp", command, "fs")
        assert ran.code == 2
        assert "There is no MCP server 'fs'." in ran.err
        assert "mcp.json:3: is not valid JSON" in ran.err


@pytest.mark.parametrize(("argv", "words"), [
    (("add", "a b", "x"), "'a b' cannot be used as a name."), (("add", "a__b", "x"), "'a__b' cannot be used as a name."),
    (("add", "a", "npx x"), "command: is one program, not a command line."),
    (("add", "a", "http://x/", "y"), "Unexpected 'y' after the address."), (("add", "a", "x", "-e", "K"), "--env: expected KEY=VALUE."),
    (("add", "a", "x", "-H", "K: v"), "--header is only for a server with an address."),
    (("add", "a", "x", "--expose", "all"), "expose: 'all' is not one of direct, search, delegated, hidden."),
    (("add", "a", "npx", "-y"), "No such option: -y"), (("add-json", "a", "{bad"), "The entry is not valid JSON"),
    (("add-json", "a", '{"mcpServers": {}}'), "Only the entry of one server is needed."),
    (("add-json", "a", '{"type": "sse", "url": "http://x/"}'), "type: the transport sse is not supported."),
    (("add", "known", "x"), "already has a server known. Run `friday mcp remove known` first."),
    (("remove", "a"), "There is no MCP server 'a' in ~/friday/mcp.json. Available: known, broken."), (("show", "a"), "There is no MCP server 'a'. Available: known."),
    (("show", "broken"), "mcpServers.broken: needs command (a program) or url (an address)."),
])  # fmt: skip
def test_wrong_use_is_one_line_and_changes_nothing(
    console: Console, file: Path, argv: tuple[str, ...], words: str
) -> None:
    write(file, {"known": {"command": "x"}, "broken": {}})
    before = file.read_bytes()
    assert words in console.refused("mcp", *argv)
    assert file.read_bytes() == before


def test_secrets_are_shown_nowhere_and_their_file_is_private(console: Console, file: Path) -> None:
    write(file, {})
    file.chmod(0o644)
    added = console.ok("mcp", "add", "web", "https://example.org/", "-H", f"Authorization: Bearer {SECRET}")
    assert "warning: headers.Authorization is in plain text; the file is readable by you only." in added.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    console.ok("mcp", "add", "tool", "x", "-e", f"API_KEY={SECRET}")
    for argv in (
        ("mcp", "list"),
        ("mcp", "list", "--json"),
        ("mcp", "show", "web"),
        ("mcp", "show", "tool", "--json"),
        ("doctor",),
    ):
        ran = console(*argv)
        assert SECRET not in added.out + ran.out + ran.err, argv
        assert "(hidden)" in ran.out
    console.profile(
        console.friday_home / "profiles",
        "p",
        "description: d",
        f'mcpServers: [{{t: {{command: x, env: {{API_KEY: "{SECRET}"}}}}}}]',
    )
    for argv in (("profiles", "list", "--json"), ("profiles", "show", "p")):
        ran = console.ok(*argv)
        assert SECRET not in ran.out
        assert "t" in ran.out


def test_a_broken_entry_hides_no_other(console: Console, file: Path) -> None:
    write(file, {"good": {"command": "x"}, "bad": {"command": "x", "args": "y"}})
    ran = console("mcp", "list")
    assert (ran.code, console("mcp", "list", "--json").code) == (1, 1)
    assert ([row[0] for row in ran.rows], ran.error) == (
        ["good"],
        f"{file}: mcpServers.bad.args: expected a list, got text.",
    )
    facts = {
        fact["name"]: fact for fact in console("doctor", "--json").document["facts"] if fact["area"] == "MCP servers"
    }
    assert facts["good"] | {"hint": ""} == {
        "area": "MCP servers",
        "name": "good",
        "text": "x: no such program",
        "level": "note",
        "hint": "",
    }
    assert facts["problem"]["text"] == "~/friday/mcp.json: mcpServers.bad.args: expected a list, got text."


def test_the_list_counts_the_tools_that_are_known_without_a_connection(console: Console, file: Path) -> None:
    write(
        file,
        {
            "s": {"command": "no-such-program", "disabledTools": ["b*"]},
            "t": {"command": "no-such-program", "args": ["x"]},
        },
    )
    (entry, _), _ = load_context().mcp_servers()
    tools = (OfferedTool("a"), OfferedTool("b1"), OfferedTool("c"))
    CatalogCache().write(entry, Catalog(tools=tools, fetched=time.time() - 7300))
    assert [row[2] for row in console.ok("mcp", "list").rows] == ["2 (2 h ago)", "not known yet"]
    found = console.ok("mcp", "list", "--json").document["servers"]
    assert [server["tools"] for server in found] == [["a", "c"], None]


def test_a_person_lists_and_calls_tools(console: Console, file: Path) -> None:
    log = console.project / "starts"
    program = [str(ROOT / "tests/servers/mcp_stdio.py"), f"log={log}"]
    write(
        file,
        {
            "s": {"command": sys.executable, "args": program, "enabledTools": ["echo", "fail", "image", "look"]},
            "off": {"command": "x", "enabled": False},
            "no": {"command": "no-such-program"},
        },
    )
    listed = console.ok("mcp", "tools", "s")
    assert "mcp__s__echo" in listed.out
    assert listed.error.startswith("4 tools of ")
    starts = log.read_text().count("start")
    assert [tool["name"] for tool in console.ok("mcp", "tools", "s", "--json").document] == [
        "echo",
        "fail",
        "image",
        "look",
    ]
    assert log.read_text().count("start") == starts, "the list is kept"
    assert console.ok("mcp", "list").rows[-1][2] == "4 (just now)"
    assert "hello" in console.ok("mcp", "call", "s", "mcp__s__echo", '{"text": "hello"}').out
    assert console.ok("mcp", "call", "s", "look").out == "look was called\n"  # its structured content is the same
    assert console.ok("mcp", "call", "s", "image").error == "image/png, 8 bytes: an image that is not shown here"
    failed = console("mcp", "call", "s", "fail")
    assert (failed.code, failed.error) == (1, "MCP server s: fail failed.")
    assert failed.out
    for argv, words in (
        (("call", "s", "eco"), "The MCP server s has no tool 'eco'. Did you mean echo?"),
        (("call", "s", "echo", "[]"), "The arguments are a JSON object"),
        (("call", "s", "echo", "{"), "The arguments are not valid JSON"),
        (("tools", "off"), "The MCP server off is disabled in "),
    ):
        assert words in console.refused("mcp", *argv)
    assert console.refused("mcp", "tools", "no", code=1) == "MCP server no: The program no-such-program was not found."


def test_a_project_is_trusted_with_whole_command_lines(console: Console, file: Path) -> None:
    project = console.project / ".mcp.json"
    console.ok("mcp", "add", "--project", "tool", "x")
    assert stat.S_IMODE(project.stat().st_mode) == 0o644
    assert sorted(path.name for path in console.project.iterdir()) == [".mcp.json"]
    write(project, EVIL)
    assert f"{project} is not used: " in console.ok("mcp", "list").err
    assert f"There is no MCP server 'tool'. Available: none. {project} is not used: " in console.refused(
        "mcp", "show", "tool"
    )
    out = console("trust").out
    assert (
        "  .mcp.json: tool: MCP server, run in the sandbox with network access: NODE_OPTIONS='-r ./x.js' npx -y 'a b' '\\u202ex\\x1b[31m\\n; rm -rf /"
        + "y" * 500
        in out
    )
    assert (
        "  .mcp.json: web: MCP server at \\u0430pple.com: https://\\u0430pple.com/mcp?k=${HOME} with the headers X-A: b\n"
        in out
    )
    assert "  .mcp.json: off: disables your MCP server of this name\n" in out
    assert "  .mcp.json: bad: an MCP server that cannot be used: is one program, not a command line.\n" in out
    console.ok("trust", "--yes")
    write(file, {"off": {"command": "x"}})
    rows = {row[0]: (row[1], row[3]) for row in console("mcp", "list").rows}
    assert rows == {"off": ("off", "you"), "tool": ("on", "project"), "web": ("on", "project")}
    write(project, EVIL | {"more": {"command": "x"}})
    assert {row[0] for row in console.ok("mcp", "list").rows} == {"off"}
    assert ".mcp.json: more: MCP server, run in the sandbox with network access: x" in console("trust").out


def test_a_trusted_agent_file_defines_servers_and_they_are_in_the_question(console: Console, file: Path) -> None:
    folder = console.project / ".claude/agents"
    servers = [
        "mcpServers:",
        "  - github",
        "  - play:",
        "      type: stdio",
        "      command: npx",
        "      args: [-y, play]",
    ]
    console.profile(folder, "tester", "description: d", *servers)
    assert (
        "  .claude/agents/tester.md: play: MCP server, run in the sandbox with network access: npx -y play; what it runs is not checked\n"
        in console("trust").out
    )
    escaped = [servers[0].replace("mcp", "\\x6dcp").join(('"', '"')).replace(':"', '":'), *servers[1:]]
    console.profile(folder, "sly", "description: d", *escaped)
    assert "  .claude/agents/sly.md: play: MCP server, run in the sandbox" in console("trust").out
    (folder / "sly.md").unlink()
    assert console.ok("mcp", "list").rows == []
    console.ok("trust", "--yes")
    (entry,) = console.ok("mcp", "list", "--json").document["servers"]
    assert (entry["name"], entry["origin"], entry["expose"], entry["sandbox"]) == ("play", "profile", "delegated", True)
    assert "MCP servers   github, play (defined here)" in console.ok("profiles", "show", "tester").out
    assert (
        "warning: mcpServers: github cannot be used: `friday mcp list` shows the servers."
        in console("profiles", "check").out
    )
    write(file, {"github": {"command": "x"}})
    assert "warning" not in console("profiles", "check").out


def test_the_schema_takes_what_friday_takes(console: Console) -> None:
    schema = console.ok("config", "schema", "mcp").document
    check = jsonschema.Draft202012Validator(schema)
    good: list[Any] = [
        {"command": "x", "args": ["y"], "timeout": 5},
        {"type": "http", "url": "http://x/", "oauth": {"clientId": "c"}},
        {"enabled": False},
    ]
    bad: list[Any] = [
        {},
        {"command": "x", "url": "http://x/"},
        {"command": "x", "args": "y"},
        {"command": "x", "expose": "all"},
        {"type": "sse", "url": "x"},
    ]
    assert [check.is_valid({"mcpServers": {"s": entry}}) for entry in good + bad] == [True] * len(good) + [False] * len(
        bad
    )
    entry = schema["$defs"]["WrittenEntry"]["properties"]
    assert all(field.get("description") for field in entry.values())
