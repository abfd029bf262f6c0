"""Adding and removing MCP servers keeps every other byte of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.mcp.edit import add_server, remove_server

ENTRY = {"command": "x", "args": ["é"]}
TABS = '{\r\n\t"$schema": "s",\r\n\t"mcpServers": {\r\n\t\t"a": {"command":   "1"},\r\n\t\t"b": {"command": "2"}\r\n\t},\r\n\t"more": [1,2]\r\n}\r\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "friday"))
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "{}",
        '{"mcpServers": {}}',
        '{"mcpServers":{"a":{"command":"1"}}}',
        TABS,
        "\ufeff" + TABS,
        '{ "mcpServers": { "a": { "command": "}\\"{" } , "b": {"url": "http://x/"} } , "$schema": "x" }',
        '{\n    "$schema": "x"\n}',
    ],
)
def test_what_is_added_can_be_removed_and_the_rest_is_untouched(folder: Path, text: str) -> None:
    path = folder / "mcp.json"
    path.write_bytes(text.encode())
    before = json.loads(text.removeprefix("\ufeff")) if text.strip() else {}
    add_server(path, "new", ENTRY)
    added = path.read_bytes().decode()
    expected = before.get("mcpServers", {}) | {"new": ENTRY}
    assert json.loads(added.removeprefix("\ufeff")) == before | {"mcpServers": expected}
    assert ("\r\n" in text) == ("\r\n" in added)
    remove_server(path, "new")
    if before.get("mcpServers"):
        assert path.read_bytes().decode() == text
    assert json.loads(path.read_bytes().decode("utf-8-sig")) == before | {"mcpServers": before.get("mcpServers", {})}


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_server_before_another_is_removed_alone(folder: Path, name: str) -> None:
    path = folder / "mcp.json"
    path.write_bytes(TABS.encode())
    remove_server(path, name)
    left = {"a": "b", "b": "a"}[name]
    assert list(json.loads(path.read_text())["mcpServers"]) == [left]
    assert [row for row in path.read_bytes().decode().split("\r\n") if "more" in row] == ['\t"more": [1,2]']


def test_a_broken_file_is_not_changed(folder: Path) -> None:
    path = folder / "mcp.json"
    for text, error in (
        ("{bad", FileError),
        ('{"mcpServers": {"new": 1}}', UsageError),
        ('{"mcpServers": {"a": 1, "a": 2}, "mcpServers": {}}', FridayError),
    ):
        path.write_text(text)
        with pytest.raises(error):
            add_server(path, "new", ENTRY)
        assert path.read_text() == text


def test_the_mode_is_kept_unless_there_is_a_secret_and_a_link_stays_one(folder: Path) -> None:
    real, path = folder / "dotfiles.json", folder / "mcp.json"
    real.write_text("{}")
    real.chmod(0o644)
    path.symlink_to(real)
    add_server(path, "a", ENTRY)
    assert (path.is_symlink(), real.stat().st_mode & 0o777) == (True, 0o644)
    add_server(path, "b", ENTRY, private=True)
    assert real.stat().st_mode & 0o777 == 0o600
    add_server(folder / "new.json", "a", ENTRY)
    assert (folder / "new.json").stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in folder.iterdir()) == ["dotfiles.json", "friday", "mcp.json", "new.json"]
