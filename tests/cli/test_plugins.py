"""`friday plugins`: what a plugin brings is shown before, it is pinned by its content, and an update is shown as a diff."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.console import Console
from tests.extensions.test_plugins import CLAUDE, MANIFEST, SCHEMA, SKILL, write

PLUGIN = {
    "plugin.json": {**MANIFEST, "name": "tools", "description": "Tools \x1b[31mfor all"},
    "skills/a/SKILL.md": SKILL.format("a"),
    "mcp.json": {"$schema": SCHEMA.format("mcp"), "mcpServers": {"run": {"type": "stdio", "command": "./run.sh", "args": ["--now"]}}},
    "run.sh": "#!/bin/sh\n",
    "picture.svg": "x" * 300_000,
    "dev.friday.cli/profiles/p.md": "---\nname: plugged\ndescription: From a plugin.\n---\nWork.\n",
}  # fmt: skip


@pytest.fixture
def source(console: Console) -> Path:
    """The folder of a plugin."""
    return write(console.home / "source", PLUGIN)


def test_a_plugin_is_shown_added_used_updated_checked_and_removed(console: Console, source: Path) -> None:
    assert "no plugins" in console("plugins", "list").err
    refused = console("plugins", "add", str(source))
    assert refused.code == 2
    for part in (
        "skill a",
        "agent plugged",
        "MCP server plugin_tools_run",
        "/run.sh --now",
        "not in the sandbox",
        "run.sh: run only",
    ):
        assert part in refused.out, part
    assert console("plugins", "list", "--json").document["plugins"] == []
    assert console("plugins", "add", str(source), "--yes").code == 0
    (row,) = console("plugins", "list", "--json").document["plugins"]
    assert (row["name"], row["source"], row["origin"]) == ("tools", str(source), "user")
    assert "plugged" in {one["name"] for one in console("profiles", "list", "--json").document["profiles"]}
    (server,) = console("mcp", "list", "--json").document["servers"]
    copy = console.friday_home / "plugins/tools"
    assert (server["name"], server["command"], server["cwd"]) == ("plugin_tools_run", f"{copy}/run.sh", str(copy))
    assert "already been added" in console("plugins", "add", str(source), "--yes").err
    (source / "run.sh").write_text("#!/bin/sh\ncurl example.org\n", encoding="utf-8")
    shown = console("plugins", "add", str(source))
    assert "~ run.sh" in shown.out
    assert "+curl example.org" in shown.out
    assert (copy / "run.sh").read_text(encoding="utf-8") == "#!/bin/sh\n"
    assert console("plugins", "check").code == 0
    (copy / "run.sh").write_text("#!/bin/sh\nrm -r ~\n", encoding="utf-8")
    assert "run.sh has changed" in console("plugins", "check").out
    facts = [
        (fact["name"], fact["text"])
        for fact in console("doctor", "--json").document["facts"]
        if fact["area"] == "plugins"
    ]
    assert facts == [("tools", "no version, of yours: run.sh has changed since it was added, so it is not used")]
    assert console("mcp", "list", "--json").document["servers"] == []
    assert "run.sh has changed" in console("mcp", "list").err
    assert console("plugins", "add", str(source), "--yes").code == 0
    assert (copy / "run.sh").read_text(encoding="utf-8").endswith("curl example.org\n")
    assert console("plugins", "remove", "tools").code == 0
    assert "You have not added a plugin 'tools'" in console("plugins", "remove", "tools").error


def test_a_plugin_comes_from_a_zip_file_a_commit_or_a_marketplace(console: Console, source: Path) -> None:
    packed = console.home / "plugin.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(source.rglob("*")):
            archive.write(path, f"top/{path.relative_to(source)}")
    assert console("plugins", "add", str(packed), "--yes").code == 0
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("top/../../evil", "x")
    assert "leads out of it" in console("plugins", "add", str(packed), "--yes").error
    market = {"plugins": [{"name": "helper", "source": "./one"}, {"name": "far", "source": "./../source"}]}
    shop = write(console.home / "shop", {".claude-plugin/marketplace.json": market})
    write(shop / "one", CLAUDE)
    git = ("git", "-C", str(shop), "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "x")):
        subprocess.run([*git, *words], check=True)
    sha = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    address = f"file://{shop}"
    assert "does not name a commit" in console("plugins", "add", address).error
    assert "helper" in console("plugins", "add", f"{address}@{sha}").error
    assert "not in this folder" in console("plugins", "add", str(shop), "--plugin", "far").error
    assert console("plugins", "add", f"{address}@{sha}", "--plugin", "helper", "--yes").code == 0
    rows = {row["name"]: row["source"] for row in console("plugins", "list", "--json").document["plugins"]}
    assert rows == {"helper": f"{address}@{sha}", "tools": str(packed)}
    assert console("plugins", "check", str(shop / "one")).code == 2  # its hooks are not used
    assert console("plugins", "check", str(source)).code == 0
    write(source, {"skills/b/SKILL.md": "---\nname: b\n---\nNo description.\n"})
    assert "skill b: cannot be used: description is missing" in console("plugins", "check", str(source)).out


def test_nothing_of_plugins_is_loaded_without_one(console: Console) -> None:
    script = (
        "import sys\nfrom friday_cli.extensions import profiles\nprofiles.load()\n"
        "assert not [name for name in sys.modules if name in ('friday_cli.extensions.plugins.installed', 'friday_cli.extensions.plugins.plugin')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert json.loads(console("profiles", "list", "--json").out)["announcements"] == []
