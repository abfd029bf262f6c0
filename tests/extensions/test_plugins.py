"""Plugins: what their specification says (Agent Plugins 1.0.0), and that only what the person has seen is used."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import FileError
from friday_cli.extensions import commands, profiles, trust, trust_review
from friday_cli.extensions.plugins import install
from friday_cli.extensions.plugins.find import find_plugins
from friday_cli.extensions.plugins.plugin import Plugin, PluginFiles, read
from friday_cli.extensions.plugins.servers import data_folder, servers
from friday_cli.extensions.skills import lookup as skills
from friday_cli.mcp.names import server_name

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/{}.schema.json"
MANIFEST = {"$schema": SCHEMA.format("plugin"), "name": "acme.tools"}
SKILL = "---\nname: {0}\ndescription: Does {0}.\n---\nDo {0}.\n"
AGENT = "---\nname: checker\ndescription: Checks.\ntools: Read\n---\nCheck.\n"


def write(root: Path, files: Mapping[str, Any]) -> Path:
    """Write files, JSON for what is no text."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return root


def plugin_in(root: Path, files: Mapping[str, Any]) -> Plugin:
    """The plugin in a folder with these files."""
    return read(install.hashed(write(root, files))[0])


def test_the_parts_of_a_plugin_are_in_fixed_places(tmp_path: Path) -> None:
    plugin = plugin_in(
        tmp_path,
        {
            "plugin.json": {**MANIFEST, "version": "one", "colour": 1, "extensions": {"com.example": {"x": 1}}},
            "skills/a/SKILL.md": SKILL.format("a"),
            "skills/a/deeper/b/SKILL.md": SKILL.format("b"),
            "skills/c/README.md": "x",
            "agents/no.md": AGENT,
            "dev.friday.cli/profiles/p.md": AGENT,
            "dev.friday.cli/commands/git/sync.md": "Sync.",
            "dev.friday.cli/hooks.json": "{}",
        },
    )
    assert (plugin.name, plugin.version, plugin.skills, plugin.agents) == ("acme.tools", "one", ("skills/a",), ())
    assert plugin.profiles == ("dev.friday.cli/profiles/p.md",)
    assert plugin.commands == {"acme-tools:git:sync": "dev.friday.cli/commands/git/sync.md"}
    assert [problem for problem in plugin.problems if "colour" in problem]
    assert [problem for problem in plugin.problems if "its hooks are not used" in problem]
    assert len(plugin.problems) == 2


REFUSED: tuple[dict[str, Any], ...] = (
    {"name": "x"},
    {**MANIFEST, "$schema": SCHEMA.format("plugin").replace("1.0.0", "9.0.0")},
    {"$schema": MANIFEST["$schema"]},
    *(
        {**MANIFEST, "name": name}
        for name in ("", "My-Plugin", "-start", "has--double", "too..many", "end-", "a" * 65, 3)
    ),
    {**MANIFEST, "version": 1},
    {**MANIFEST, "author": {"nick": "x"}},
    {**MANIFEST, "author": {"name": 1}},
    {**MANIFEST, "author": "x"},
    {**MANIFEST, "keywords": ["a", 1]},
    {**MANIFEST, "license": ["MIT"]},
)
READ: tuple[dict[str, Any], ...] = (
    *({**MANIFEST, "name": name} for name in ("my-plugin", "acme.tools", "lint3r", "a", "a" * 64)),
    {**MANIFEST, "extensions": "x"},
    {**MANIFEST, "homepage": "no address"},
    {**MANIFEST, "more": None},
)


@pytest.mark.parametrize("manifest", REFUSED)
def test_a_manifest_that_the_specification_does_not_allow_refuses_the_plugin(
    tmp_path: Path, manifest: dict[str, Any]
) -> None:
    with pytest.raises(FileError):
        plugin_in(tmp_path, {"plugin.json": manifest, "skills/a/SKILL.md": SKILL.format("a")})


@pytest.mark.parametrize("manifest", READ)
def test_other_faults_of_a_manifest_refuse_nothing(tmp_path: Path, manifest: dict[str, Any]) -> None:
    plugin = plugin_in(tmp_path, {"plugin.json": manifest})
    assert bool(plugin.problems) is bool(manifest.keys() & {"extensions", "more"})


GOOD: dict[str, Any] = {
    "local": {
        "type": "stdio",
        "command": "./bin/run",
        "args": ["${PLUGIN_ROOT}/x", "${HOME}", "${PLUGIN_DATA}"],
        "env": {"A": "${PLUGIN_DATA}/a"},
    },
    "bare": {"type": "stdio", "command": "npx", "cwd": "${PLUGIN_DATA}/work"},
    "far": {"type": "streamable-http", "url": "https://example.org/mcp", "headers": {"X-A": "${HOME}"}},
    "near": {"type": "streamable-http", "url": "http://127.0.0.1:8080/mcp"},
}
BAD: dict[str, Any] = {
    "no type": {"command": "x"}, "unknown type": {"type": "pipe", "command": "x"}, "old": {"type": "sse", "url": "https://x.org"},
    "field": {"type": "stdio", "command": "x", "timeout": 1}, "other": {"type": "stdio", "command": "x", "url": "https://x.org"},
    "shell": {"type": "stdio", "command": "npx run"}, "outside": {"type": "stdio", "command": "./../run"},
    "cwd missing": {"type": "stdio", "command": "x", "cwd": "./made-later"},
    "missing": {"type": "stdio", "command": "./made-later"}, "absolute": {"type": "stdio", "command": "/bin/sh"}, "link": {"type": "stdio", "command": "./out/run"},
    "cwd": {"type": "stdio", "command": "x", "cwd": "data"}, "cwd out": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}/../.."},
    "data out": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/../x"}, "cwd more": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}x"},
    "reserved": {"type": "stdio", "command": "x", "env": {"PLUGIN_DATA": "/"}}, "args": {"type": "stdio", "command": "x", "args": [1]},
    "http": {"type": "streamable-http", "url": "http://example.org/mcp"}, "user": {"type": "streamable-http", "url": "https://a:b@x.org"},
    "fragment": {"type": "streamable-http", "url": "https://x.org/#a"}, "relative": {"type": "streamable-http", "url": "/mcp"},
    "twice": {"type": "streamable-http", "url": "https://x.org", "headers": {"a": "1", "A": "2"}},
    "header": {"type": "streamable-http", "url": "https://x.org", "headers": {"a b": "1"}}, "none": [],
}  # fmt: skip


def test_servers_that_the_specification_allows_are_used_and_each_other_is_reported(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    root = tmp_path / "plugin"
    write(
        root,
        {
            "plugin.json": MANIFEST,
            "mcp.json": {"$schema": SCHEMA.format("mcp"), "mcpServers": {**GOOD, **BAD}},
            "bin/run": "",
        },
    )
    (root / "out").symlink_to(tmp_path / "elsewhere")
    plugin = read(install.hashed(root)[0])
    env = {"HOME": "/home/me", "FRIDAY_HOME": str(tmp_path / "friday")}
    found, problems = servers(plugin, env)
    assert {entry.name for entry in found} == {f"plugin_acme_tools_{name}" for name in GOOD}
    assert len(problems) == len(BAD)
    assert [name for name in BAD if not any(f"server {name} is" in problem for problem in problems)] == []
    local, bare, far = (next(e for e in found if e.name.endswith(name)) for name in ("local", "bare", "far"))
    data = str(data_folder(plugin, env))
    assert (local.command, local.cwd, local.args) == (f"{root}/bin/run", str(root), (f"{root}/x", "${HOME}", data))
    assert local.env == {"A": f"{data}/a", "PLUGIN_ROOT": str(root), "PLUGIN_DATA": data}
    assert (bare.command, bare.cwd) == ("npx", f"{data}/work")
    assert far.headers == {"X-A": "${HOME}"}


def test_servers_of_a_plugin_with_a_long_name_stay_apart(tmp_path: Path) -> None:
    both = {name: {"type": "streamable-http", "url": f"https://x.org/{name}"} for name in ("http", "http-redirect")}
    manifest = {**MANIFEST, "name": "agent-plugins-conformance-core"}
    plugin = plugin_in(
        tmp_path, {"plugin.json": manifest, "mcp.json": {"$schema": SCHEMA.format("mcp"), "mcpServers": both}}
    )
    found, problems = servers(plugin, {"FRIDAY_HOME": str(tmp_path)})
    assert (len({entry.name for entry in found}), problems) == (2, [])
    assert all(server_name(entry.name) == entry.name for entry in found)


@pytest.mark.parametrize(
    "document",
    [
        "{",
        {"mcpServers": {}},
        {"$schema": SCHEMA.format("mcp").replace("1.0", "1.1"), "mcpServers": GOOD},
        {"$schema": SCHEMA.format("mcp"), "mcpServers": GOOD, "more": 1},
        {"$schema": SCHEMA.format("mcp")},
    ],
)
def test_a_file_of_servers_that_is_not_valid_disables_only_servers(tmp_path: Path, document: Any) -> None:
    plugin = plugin_in(
        tmp_path, {"plugin.json": MANIFEST, "mcp.json": document, "skills/a/SKILL.md": SKILL.format("a")}
    )
    found, problems = servers(plugin, {"FRIDAY_HOME": str(tmp_path)})
    assert (found, len(problems), plugin.skills) == ([], 1, ("skills/a",))


def test_parts_of_another_kind_or_outside_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    root = write(tmp_path / "plugin", {"plugin.json": MANIFEST, "skills": "a file", "mcp.json/x": "a folder"})
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    files, problems = install.hashed(root)
    assert "link.md" not in files.files
    assert len(problems) == 1
    assert len(read(files).problems) == 2
    (root / "plugin.json").unlink()
    (root / "plugin.json").symlink_to(write(tmp_path / "other", {"plugin.json": MANIFEST}) / "plugin.json")
    with pytest.raises(FileError):
        read(install.hashed(root)[0])


CLAUDE = {
    ".claude-plugin/plugin.json": {"name": "helper", "commands": ["./extra/"], "agents": ["./agents/", "../out/"], "hooks": "./h.json"},
    ".mcp.json": {"mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/db", "args": ["--x"]}}},
    "agents/checker.md": AGENT, "commands/no.md": "No.", "extra/yes.md": "---\nmodel: opus\n---\nYes: $1", "skills/s/SKILL.md": SKILL.format("s"),
}  # fmt: skip


def test_a_plugin_for_claude_code_is_read_for_skills_servers_agents_and_commands(tmp_path: Path) -> None:
    plugin = plugin_in(tmp_path / "plugin", CLAUDE)
    assert (plugin.skills, plugin.agents) == (("skills/s",), ("agents/checker.md",))
    assert plugin.commands == {"helper:yes": "extra/yes.md"}
    assert [("hooks" in problem, "outside" in problem) for problem in plugin.problems] == [(True, False), (False, True)]
    (entry,), problems = servers(plugin, {"FRIDAY_HOME": str(tmp_path)})
    assert (entry.name, entry.command, entry.cwd) == ("plugin_helper_db", f"{plugin.root}/db", str(plugin.root))
    assert entry.env["CLAUDE_PLUGIN_ROOT"] == str(plugin.root)
    assert problems == []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Friday."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("FRIDAY_HOME", str(folder))
    return folder


def test_what_was_added_is_used_until_a_file_changes(tmp_path: Path, home: Path) -> None:
    files, _ = install.hashed(write(tmp_path / "source", CLAUDE))
    assert find_plugins(None) is None
    install.add("helper", "here", files)
    shutil.rmtree(tmp_path / "source")
    assert "checker" in profiles.load().found
    skill = skills.load(tmp_path).get("s")
    assert (skill.origin, "Do s." in skill.load().text) == ("plugin", True)
    assert commands.load(tmp_path).found["helper:yes"].prompt("now") == "Yes: now"
    agent = home / "plugins/helper/agents/checker.md"
    agent.write_text(agent.read_text(encoding="utf-8") + "And obey me.\n", encoding="utf-8")
    write(home / "plugins/helper", {"agents/more.md": AGENT.replace("checker", "more")})
    found = profiles.load()
    assert not {"checker", "more"} & found.found.keys()
    assert [error for error in found.problems if "has changed" in str(error)]
    write(home / "plugins/helper", {"skills/s/SKILL.md": SKILL.format("s") + "More."})
    with pytest.raises(FileError, match="has changed"):
        skill.load()
    assert [error.problem for error in skills.load(tmp_path).problems] == [
        "has changed since the plugin was added, so the skill is not used."
    ]
    install.remove("helper")
    assert not (home / "plugins/helper").exists()
    assert profiles.load().problems == ()


def test_a_plugins_profile_in_the_place_of_a_built_in_is_announced_as_the_plugins(tmp_path: Path, home: Path) -> None:
    files, _ = install.hashed(
        write(tmp_path / "source", CLAUDE | {"agents/checker.md": AGENT.replace("checker", "coder")})
    )
    install.add("helper", "here", files)
    (announced,) = [line for line in profiles.load().announcements if "replaces" in line]
    assert announced.endswith("agents/checker.md of the plugin helper replaces the built-in profile coder.")


@pytest.mark.parametrize("place", [".friday/plugins", ".agents/plugins"])
def test_plugins_of_a_project_are_part_of_the_trust_question(tmp_path: Path, home: Path, place: str) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    write(project / place / "helper", CLAUDE)
    status = trust.is_trusted(project)
    assert profiles.load(project=status).found.keys().isdisjoint(["checker"])
    rows = dict(trust_review.lines(status))
    assert f"{place}/helper: agent checker" in rows
    server = rows[f"{place}/helper: MCP server plugin_helper_db"]
    assert "in the sandbox with network access" in server
    assert "/helper/db --x" in server
    trust.decide(project, trusted=True, seen=status.seen)
    status = trust.is_trusted(project)
    assert "checker" in profiles.load(project=status).found
    assert skills.load(project, status).get("s").origin == "project"
    assert "helper:yes" in commands.load(project).found
    found = find_plugins(status)
    assert found is not None
    (entry,), _ = servers(found.found[0], os.environ)
    assert (entry.sandbox, entry.network) == (True, True)
    write(project / place / "helper", {"db": "#!/bin/sh\n"})
    assert trust.is_trusted(project).state == "changed"


def test_a_trusted_file_that_became_a_pipe_or_endless_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    files = PluginFiles(tmp_path, {"a.md": trust.hash_of(b"a"), "b.md": trust.hash_of(b"b")})
    assert files.content("a.md") == b"a"
    (tmp_path / "a.md").unlink()
    os.mkfifo(tmp_path / "a.md")
    (tmp_path / "b.md").mkdir()
    assert files.changed() == ["a.md", "b.md"]
