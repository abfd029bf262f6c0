"""`python -m tests.site FOLDER`: the pages of docs/ as one site with search, in a folder that can be put anywhere.

It needs `pip install -e '.[docs]'`. The README is its first page, the reference of commands is made of their `--help`, and the frames of
docs/frames are a page of pictures. A link that leads nowhere fails the build. Search needs a web server, such as
`python -m http.server -d FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from friday_cli.cli import COMMANDS

ROOT = Path(__file__).parents[2]
GROUPS = {
    "Start": ("index.md", "features.md", "keys.md", "commands.md", "config.md", "reference.md"),
    "Sub-agents": ("delegation.md", "profiles.md", "worktrees.md", "map.md", "fleet.md", "external_agents.md"),
    "Tools": ("mcp.md", "skills.md", "hooks.md", "plugins.md", "lsp.md", "rewind.md"),
    "Safety": ("permissions.md", "sandbox.md", "security.md", "faults.md", "reliability.md"),
    "Programs": ("api.md", "acp.md", "ci.md", "traces.md", "events.md"),
    "Results": ("pictures.md", "receipts.md", "frames.md", "eval.md", "replay.md"),
    "Inside": ("architecture.md", "performance.md", "requirements.md", "checklist.md"),
}
"""The pages by group; one that is not there is left out, one that is not named comes last."""
_LINK = re.compile(r"(\]\()((?!https?:|#|mailto:)[^)\s]+)(\))")


def main() -> int:
    """Build the site. Returns the exit code of the generator."""
    parser = argparse.ArgumentParser(prog="python -m tests.site", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the site is written; it is replaced")
    site = parser.parse_args().folder.resolve()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "docs")
        shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
        (source / "index.md").write_text((ROOT / "README.md").read_text())
        (source / "contributing.md").write_text((ROOT / "CONTRIBUTING.md").read_text())
        (source / "changelog.md").write_text((ROOT / "CHANGELOG.md").read_text())
        (source / "frames.md").write_text(_frames(source / "frames"))
        (source / "reference.md").write_text(_reference())
        for page in source.rglob("*.md"):
            page.write_text(_relinked(page.read_text(), page, source))
        config = Path(folder, "mkdocs.yml")
        config.write_text(json.dumps(_config(source, site)))  # JSON is YAML
        argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-q", "-f", str(config)]
        env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        return subprocess.run(argv, env=env, check=False).returncode


def _config(source: Path, site: Path) -> dict[str, object]:
    pages = sorted(path.name for path in source.glob("*.md"))
    known = [name for names in GROUPS.values() for name in names]
    groups = [{group: [name for name in names if name in pages]} for group, names in GROUPS.items()]
    groups += [{"More": [name for name in pages if name not in known]}]
    decisions = sorted(f"decisions/{path.name}" for path in (source / "decisions").glob("*.md"))
    return {
        "site_name": "Friday",
        "docs_dir": str(source),
        "site_dir": str(site),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "plugins": ["search"],  # "offline" loads a script of somebody else's server into each page
        "markdown_extensions": [
            "admonition",
            "tables",
            "attr_list",
            {"toc": {"permalink": True}},
            "pymdownx.superfences",
        ],
        "nav": [*groups, {"Decisions": decisions}],
        "validation": {"links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "ignore"}},
    }


def _relinked(text: str, page: Path, source: Path) -> str:
    """A page whose links to files outside of docs/ are words, and whose links from the top folder are those of the site."""

    def link(found: re.Match[str]) -> str:
        path, hash_, anchor = found[2].partition("#")
        moved = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
        here = ROOT if page.name in moved.values() else ROOT / "docs" / page.parent.relative_to(source)
        target = os.path.relpath(os.path.normpath(here / path), ROOT)
        name = moved.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
        if not name or (source / name).is_dir():
            return "]\0"
        return f"{found[1]}{os.path.relpath(source / name, page.parent)}{hash_}{anchor}{found[3]}"

    return re.sub(r"\[([^\[\]]*)\]\0", r"\1", _LINK.sub(link, text))


def _frames(folder: Path) -> str:
    parts = ["# Screens\n\nWhat the chat shows, drawn by `python -m tests.frontends.tui.frames`.\n"]
    for path in sorted(folder.glob("*.txt")):
        parts.append(f"## {path.stem}\n\n```text\n{path.read_text().rstrip()}\n```\n")
    return "\n".join(parts)


def _reference() -> str:
    """The `--help` of every command and of the commands of each family."""
    parts = ["# Reference of commands\n"]
    for name in COMMANDS:
        shown = _help(name)
        parts.append(f"## friday {name}\n\n```text\n{shown}\n```\n")
        _, _, listed = shown.partition("\nCommands:\n")
        for sub in re.findall(r"^  ([a-z-]+)  ", listed.partition("\n\n")[0], re.M):
            parts.append(f"### friday {name} {sub}\n\n```text\n{_help(name, sub)}\n```\n")
    return "\n".join(parts)


def _help(*words: str) -> str:
    argv = [sys.executable, "-m", "friday_cli", *words, "--help"]
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout.rstrip()


if __name__ == "__main__":
    sys.exit(main())
