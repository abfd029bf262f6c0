"""Reading MCP servers: what a session gets of the files, and one line for each thing that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.text import known_keys
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.parse import EntrySource
from friday_cli.mcp.read import Configured, ProjectFile, Servers, read

TOKEN = "tok-0123456789"


class Files:
    """Files with servers. `mine`, `project` and `profile` are entries by name, or (the first two) the text of a file."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "project"
        self.root.mkdir()
        self.env = {"FRIDAY_HOME": str(tmp_path), "SERVICE_TOKEN": TOKEN, "NAME": "ann", "EMPTY": ""}
        self.file = tmp_path / "mcp.json"

    def read(
        self, mine: Any = None, project: Any = None, *, profile: Any = None, given: Any = (), files: bool = True
    ) -> Servers:
        if mine is not None:
            self.file.write_bytes(_text(mine))
        theirs = None if project is None else ProjectFile(self.root, _text(project))
        source = EntrySource("agent.md", "profile", str(self.root), confined=True)
        inline = [(source, profile)] if profile else []
        texts = [value if isinstance(value, str) else _text(value).decode() for value in given]
        configured = Configured(theirs, inline) if files else None
        return read(self.root, self.env, configured, given=texts)

    def one(self, entry: Any, *, project: bool = False) -> ServerEntry:
        """The only server, without problems."""
        servers = self.read(*((None, {"s": entry}) if project else ({"s": entry},)))
        assert servers.problems == ()
        (found,) = servers.entries
        return found

    def wrong(self, entry: Any, *, project: bool = False) -> str:
        """The one problem of an entry, without its file; the server after it is there."""
        entries = {"s": entry, "good": {"command": "x"}}
        servers = self.read(*((None, entries) if project else (entries,)))
        assert [entry.name for entry in servers.entries] == ["good"]
        (problem,) = servers.problems
        assert problem.startswith(f"{self.root / '.mcp.json' if project else self.file}: mcpServers.s")
        return problem.partition(": mcpServers.")[2]


def _text(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else json.dumps({"mcpServers": data}).encode()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_an_entry_as_others_write_it(files: Files) -> None:
    http = files.one({
        "type": "streamable-http", "url": "https://${HOST:-example.org}/mcp", "headers": {"Authorization": "Bearer ${SERVICE_TOKEN}"},
        "timeout": 5000, "disabledTools": ["drop_*"], "enabledTools": ["*_items", "get_?"], "oauth": {"clientId": "c", "callbackPort": 7},
    })  # fmt: skip
    assert (http.transport, http.url, http.timeout_s, http.startup_timeout_s) == (
        "http",
        "https://example.org/mcp",
        5,
        30,
    )
    assert http.headers == {"Authorization": f"Bearer {TOKEN}"}
    assert [t for t in ("get_items", "drop_items", "get_x", "other") if http.has_tool(t)] == ["get_items", "get_x"]
    assert http.oauth is not None
    assert (http.oauth.client_id, http.oauth.callback_port, http.oauth.scope) == ("c", 7, None)
    assert TOKEN not in repr(http)
    program = files.one(
        {
            "command": "npx",
            "args": ["-y", "${NAME}", "$NAME", "${EMPTY:-e}", "${EMPTY}"],
            "env": {"K": "${NAME}"},
            "cwd": ".",
        }
    )
    assert (program.transport, program.args, program.env) == ("stdio", ("-y", "ann", "$NAME", "e", ""), {"K": "ann"})
    assert (program.cwd, program.sandbox, program.timeout_s, program.origin) == ("", False, 60, "user")


@pytest.mark.parametrize(("entry", "problem"), [
    ({"type": "sse", "url": "http://x/sse"}, 's.type: the transport sse is not supported. Use "type": "http" with the address that ends in /mcp.'),
    ({}, "s: needs command (a program) or url (an address)."),
    (["x"], 's: expected an object such as {"command": "PROGRAM"}.'),
    ({"command": "npx -y x"}, "s.command: is one program, not a command line. Write the program in command and its arguments in args."),
    ({"command": "x", "url": "http://x/"}, "s.url: cannot be used together with command. Remove one of them."),
    ({"type": "http", "command": "x"}, "s.url: is missing: type http needs it."),
    ({"command": "x", "args": "y"}, "s.args: expected a list, got text."),
    ({"command": "x", "env": {"A": 1}}, "s.env: expected text, got a whole number."),
    ({"command": "x", "env": {"A=B": "1"}}, "s.env: 'A=B' is not a valid name."),
    ({"command": "x", "args": ["a\0b"]}, "s.args[0]: contains a line break or a null character."),
    ({"command": "x", "cwd": "/tmp/a\0b"}, "s.cwd: contains a null character."),
    ({"command": "x", "expose": "all"}, "s.expose: 'all' is not one of direct, search, delegated, hidden."),
    ({"command": "x", "timeout_s": 0}, "s.timeout_s: expected a number > 0.0."),
    ({"command": "x", "args": ["${NOPE}"]}, "s.args[0]: the variable NOPE is not set. Set it, or write ${NOPE:-default} for a default."),
    ({"url": "https://ann:pw@example.org/"}, "s.url: expected an http:// or https:// address without a password. Put a password or token in headers."),
    ({"url": "file:///etc/passwd"}, "s.url: expected an http:// or https:// address without a password."),
    ({"url": "http://x/", "headers": {"A": "b\r\nC: d"}}, "s.headers.A: contains a line break or a null character."),
])  # fmt: skip
def test_a_wrong_entry_is_one_line_and_the_others_load(files: Files, entry: Any, problem: str) -> None:
    assert files.wrong(entry) == problem


@pytest.mark.parametrize(("key", "notice"), [
    ("disabledTool", "mcpServers.s.disabledTool: unknown key, ignored. Did you mean disabledTools?"),
    ("headersHelper", "mcpServers.s.headersHelper: has no effect: Friday runs no program for headers."),
    ("alwaysAllow", None),
])  # fmt: skip
def test_an_unknown_key_is_named_and_the_server_is_used(files: Files, key: str, notice: str | None) -> None:
    servers = files.read({"s": {"command": "x", key: ["y"]}})
    assert [entry.name for entry in servers.entries] == ["s"]
    assert list(servers.problems) == ([f"{files.file}: {notice}"] if notice else [])


@pytest.mark.parametrize(("text", "problem"), [
    ('{"mcpServers": {"a": {"command": "x"},}}', ":1: is not valid JSON: "), ("[]", ": mcpServers: expected an object of servers by name."),
    ('{"servers": {}}', ': mcpServers: is missing. Write {"mcpServers": {"NAME": {...}}}.'), ('{"mcpServers": []}', ": mcpServers: expected an object"),
    ("[" * 100_000, ": "), ("\udcff", ":1: is not UTF-8 text."),
])  # fmt: skip
def test_a_broken_file_is_one_line_and_the_other_files_load(files: Files, text: str, problem: str) -> None:
    files.file.write_bytes(text.encode("utf-8", "surrogateescape"))
    servers = files.read(None, {"theirs": {"command": "x"}})
    assert [entry.name for entry in servers.entries] == ["theirs"]
    (found,) = servers.problems
    assert found.startswith(f"{files.file}{problem}")


def test_a_project_file_that_changed_since_it_was_trusted_is_not_used(files: Files) -> None:
    changed = ProjectFile(files.root, FileError("x", "has changed since it was trusted."))
    assert read(files.root, files.env, Configured(changed)) == Servers((), ("x: has changed since it was trusted.",))


class TestProject:
    def test_its_servers_are_confined_whatever_it_writes(self, files: Files) -> None:
        found = files.one({"command": "./s", "sandbox": False, "readonly": True, "args": ["${NAME}"]}, project=True)
        assert (found.sandbox, found.network, found.readonly, found.origin) == (True, True, False, "project")
        assert (found.cwd, found.args) == (str(files.root), ("ann",))
        mine = files.read({"m": {"command": "x", "sandbox": True, "readonly": True}}).entries[0]
        assert (mine.sandbox, mine.network, mine.readonly) == (True, False, True)

    @pytest.mark.parametrize("text", ["${SERVICE_TOKEN}", "${SERVICE_TOKEN:-x}", "${UNSET_API_KEY:-x}"])
    @pytest.mark.parametrize("key", ["args", "env", "headers", "url"])
    def test_it_gets_no_variable_that_looks_like_a_secret(self, files: Files, key: str, text: str) -> None:
        value: Any = {"args": [text], "env": {"A": text}, "headers": {"A": text}, "url": f"https://example.org/{text}"}[
            key
        ]
        kind = {"command": "x"} if key in ("args", "env") else {"url": "https://example.org/"}
        problem = files.wrong(kind | {key: value}, project=True)
        assert "which looks like a secret. Put the server in your own mcp.json." in problem
        assert TOKEN not in problem

    def test_a_key_behind_a_harmless_name_is_one_too(self, files: Files) -> None:
        files.env["HARMLESS"] = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
        assert "looks like a secret" in files.wrong({"command": "x", "args": ["${HARMLESS}"]}, project=True)

    @pytest.mark.parametrize("cwd", ["..", "/etc", "~", "sub/../.."])
    def test_its_programs_start_inside(self, files: Files, cwd: str) -> None:
        assert files.wrong({"command": "x", "cwd": cwd}, project=True) == "s.cwd: is outside the project."

    @pytest.mark.parametrize(
        "mine", [{"command": "mine"}, {"command": "mine", "args": ["${NOPE}"]}, {"command": "mine", "enabled": False}]
    )
    def test_it_can_disable_a_server_of_yours_but_not_replace_it(self, files: Files, mine: Any) -> None:
        def enabled(servers: Servers) -> list[str]:
            return [entry.command for entry in servers.entries if entry.enabled]

        alone = enabled(files.read({"s": mine}))
        servers = files.read({"s": mine}, {"s": {"command": "theirs"}, "S!": {"command": "x"}})
        assert enabled(servers) == ["x", *alone]
        assert f"mcpServers.s: is ignored: {files.file} has a server of this name." in servers.problems[-1]
        off = files.read({"s": mine}, {"s": {"enabled": False}, "unknown": {"enabled": False}})
        assert enabled(off) == []
        assert not any(str(files.root) in problem for problem in off.problems)

    def test_it_cannot_take_the_names_of_your_rules(self, files: Files) -> None:
        servers = files.read(
            {"github": {"command": "mine"}}, {name: {"command": "x"} for name in ("github__x", "_github", "github__")}
        )
        assert [entry.name for entry in servers.entries] == ["github", "github_x"]
        assert len(servers.problems) == 2


class TestOrder:
    def test_the_command_line_comes_first_and_can_be_all(self, files: Files) -> None:
        given = [{"a": {"command": "flag"}}, {"c": {"command": "flag"}}]
        mine = {"a": {"command": "mine"}, "b": {"command": "mine"}}
        both = files.read(mine, {"d": {"command": "theirs"}}, given=given)
        assert [(e.name, e.command, e.origin) for e in both.entries] == [
            ("a", "flag", "flag"), ("b", "mine", "user"), ("c", "flag", "flag"), ("d", "theirs", "project"),
        ]  # fmt: skip
        assert both.problems == ()
        only = files.read(given=given, files=False)
        assert [entry.name for entry in only.entries] == ["a", "c"]

    def test_its_value_is_a_file_or_json(self, files: Files, tmp_path: Path) -> None:
        path = tmp_path / "more.json"
        path.write_bytes(_text({"m": {"command": "x"}}))
        (entry,) = files.read(given=[str(path)]).entries
        assert (entry.name, entry.file) == ("m", str(path))
        for value in (str(tmp_path / "none.json"), "{bad", '{"servers": {}}'):
            with pytest.raises(UsageError, match=r"."):
                files.read(given=[value])

    def test_a_server_of_a_profile_is_delegated_and_confined_with_its_file(self, files: Files) -> None:
        servers = files.read(
            {"taken": {"command": "mine"}},
            profile={"p": {"command": "x"}, "q": {"command": "y", "expose": "direct"}, "taken": {"command": "z"}},
        )
        found = {entry.name: entry for entry in servers.entries}
        assert (found["p"].expose, found["q"].expose, found["taken"].command) == ("delegated", "direct", "mine")
        assert found["p"].sandbox
        (problem,) = servers.problems
        assert problem.startswith("agent.md: mcpServers.taken: is ignored: ")


def test_two_names_that_are_one_are_a_problem(files: Files) -> None:
    servers = files.read({"my server": {"command": "x"}, "my_server": {"command": "y"}, "日本": {"command": "z"}})
    assert [(entry.name, entry.command) for entry in servers.entries] == [("my_server", "x")]
    assert [problem.partition(": mcpServers.")[2] for problem in servers.problems] == [
        "my_server: another server already has the name my_server. Rename one of them.",
        "日本: cannot be used as a name. Use letters, digits, - and _.",
    ]


def test_a_disabled_server_needs_no_variables(files: Files) -> None:
    for off in ({"enabled": False}, {"disabled": True}):
        assert not files.one({"url": "https://${NOPE}/", **off}).enabled


def test_secrets_of_entries_are_masked_in_all_text(files: Files) -> None:
    try:
        files.read(
            {
                "s": {"url": "http://x/", "headers": {"Authorization": "Bearer written-out-77"}},
                "t": {
                    "command": "x",
                    "env": {"API_KEY": "other-key-88"},
                    "args": ["${SERVICE_TOKEN}", "${NAME}", "plain-argument"],
                },
            }
        )
        masked = known_keys.mask_keys(f"written-out-77 other-key-88 {TOKEN} ann plain-argument")
        assert masked == "[secret] [secret] [secret] ann plain-argument"
    finally:
        known_keys.forget()


def test_the_catalog_key_changes_with_what_decides_the_answers_only(files: Files) -> None:
    base = {"command": "x", "args": ["a"], "env": {"A": "1", "B": "2"}}
    key = files.one(base).catalog_key()
    same = [
        base | {"timeout_s": 5, "expose": "search", "description": "d"},
        base | {"env": {"B": "2", "A": "1"}},
    ]
    other = [
        base | {"args": ["b"]},
        base | {"env": {"A": "1"}},
        base | {"command": "y"},
        base | {"sandbox": True},
        base | {"disabledTools": ["x"]},
        base | {"cwd": "/"},
    ]
    assert [files.one(entry).catalog_key() == key for entry in same + other] == [True] * 2 + [False] * 6
