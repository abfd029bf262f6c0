"""Rules of imports that import-linter does not check, inline imports included."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "friday_cli"

ROOMS = {
    "anthropic": ("friday_cli.llm.transport.sdk",),
    "openai": ("friday_cli.llm.transport.sdk",),
    "textual": ("friday_cli.frontends.tui",),
    "markdown_it": ("friday_cli.frontends",),
    "typer": ("friday_cli.cli",),
    "rich": ("friday_cli.cli", "friday_cli.frontends"),
    "pypdf": ("friday_cli.tools.documents",),
    "html_to_markdown": ("friday_cli.tools.web",),
    "yaml": ("friday_cli.extensions.frontmatter", "friday_cli.llm.providers"),
    "tomli_w": ("friday_cli.llm.models", "friday_cli.evals.from_git"),
    "tomlkit": ("friday_cli.config",),
    "platformdirs": ("friday_cli.system.paths",),
    "jsonschema": ("friday_cli.agents.output_schema",),
    "referencing": ("friday_cli.agents.output_schema",),
    "tree_sitter": ("friday_cli.command_safety",),
    "tree_sitter_bash": ("friday_cli.command_safety",),
    "h11": ("friday_cli.llm.transport",),
    "aiohappyeyeballs": ("friday_cli.llm.transport",),
    "httpx2": (
        "friday_cli.llm.transport",
        "friday_cli.tools.web",
        "friday_cli.llm.models",
        "friday_cli.mcp",
        "friday_cli.system.web_address",
    ),
    "mcp": ("friday_cli.mcp", "friday_cli.frontends.mcp_server"),
    "mcp_types": ("friday_cli.mcp", "friday_cli.frontends.mcp_server"),
    "anyio": ("friday_cli.mcp", "friday_cli.frontends.mcp_server"),
    "msgspec": ("friday_cli",),
    **dict.fromkeys(("opentelemetry", "google", "requests"), ("friday_cli.telemetry.sdk",)),
    "socksio": ("friday_cli.llm.transport.proxy",),
    "pyarrow": ("friday_cli.map.parquet_rows",),
    "inspect_ai": ("friday_cli.doors.inspect",),
    "harbor": ("friday_cli.doors.harbor",),
    "ray": ("friday_cli.map.ray_engine", "friday_cli.map.ray_worker"),
}
"""External packages, and the modules that may import them. Every dependency is listed here."""

GROUPS = {
    "friday_cli.llm.providers": (
        "anthropic",
        "openai",
        ("scripted", "scenario", "demo"),
        "batched",
        ("service_provider", "refused", "listed_models", "pricing"),
        "encoded_history",
    ),
}
"""Modules that belong together, by the beginning of their names."""
SHARED = ("service_provider", "pricing", "encoded_history")
"""What siblings may import."""

BOUNDS = {"cryptography"}
"""Packages of our dependencies that are named only to bound their versions."""
PEERS = {"harbor"}
"""Packages that load a module of ours, and are therefore there when it is imported; no dependency, because they need a newer Python."""
IMPORTED_AS = {"yaml": "pyyaml", "markdown_it": "markdown_it_py", "mcp_types": "mcp", "google": "protobuf"}
TOP = 25
"""Rooms and modules directly in the package, at most."""


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("friday_cli", include_external_packages=True, cache_dir=None)


def ours() -> list[str]:
    return sorted(m for m in graph().modules if m.split(".")[0] == "friday_cli")


def arrows() -> Iterator[tuple[str, str]]:
    """Each import between our own modules."""
    for module in ours():
        for target in sorted(graph().find_modules_directly_imported_by(module)):
            if target.startswith("friday_cli"):
                yield module, target


def under(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def test_packages_of_others_are_known_only_in_their_rooms() -> None:
    wrong = []
    for module in ours():
        for target in graph().find_modules_directly_imported_by(module):
            top = target.split(".")[0]
            if top == "friday_cli" or top in sys.stdlib_module_names:
                continue
            if not any(under(module, room) for room in ROOMS.get(top, ())):
                wrong.append(f"{module} imports {target}")
    assert not wrong


def test_every_dependency_is_used_and_every_package_used_is_a_dependency() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    entries = [
        *project["dependencies"],
        *(entry for name in extras if name not in ("dev", "docs") for entry in extras[name]),
    ]
    named = {re.split(r"[<>=]", entry)[0].lower().replace("-", "_") for entry in entries}
    named = {"opentelemetry" if name.startswith("opentelemetry_") else name for name in named}
    used = {target.split(".")[0] for module in ours() for target in graph().find_modules_directly_imported_by(module)}
    used = {IMPORTED_AS.get(name, name) for name in used - {"friday_cli"} if name not in sys.stdlib_module_names}
    assert named - BOUNDS == used - PEERS


@pytest.mark.parametrize("room", GROUPS)
def test_providers_do_not_know_each_other(room: str) -> None:
    def group(module: str) -> str:
        name = module.removeprefix(room + ".").split(".")[0]
        for names in GROUPS[room]:
            mine = names if isinstance(names, tuple) else (names,)
            if any(name == n or name.startswith(n + "_") for n in mine):
                return mine[0]
        raise AssertionError(f"{module}: give it a place in GROUPS")

    inside = [(a, b) for a, b in arrows() if under(a, room) and under(b, room) and room not in (a, b)]
    assert inside, "the room is empty or has another name"
    assert [f"{a} imports {b}" for a, b in inside if group(b) not in (group(a), *SHARED)] == []


def test_nothing_imports_in_a_circle() -> None:
    """Neither for types only, nor inside a function. A package whose `__init__` imports its modules is no circle as long as
    they do not import from it."""
    after: dict[str, set[str]] = {module: set() for module in ours()}
    for module, target in arrows():
        if not module.startswith(target + "."):
            after[module].add(target)
    TopologicalSorter(after).prepare()  # raises CycleError with the modules of a circle


def test_the_top_level_can_be_seen_at_once() -> None:
    """Import-linter knows each of them (`exhaustive`), and that none imports from one above it."""
    top = {module.split(".")[1] for module in ours() if "." in module}
    assert len(top) <= TOP, sorted(top)


def test_modules_do_not_import_from_the_package_that_gathers_them() -> None:
    """`from . import x` inside a room makes a circle with its `__init__` as soon as that imports the module."""
    wrong = []
    for module in ours():
        package = module.rpartition(".")[0]
        if package.count(".") >= 1 and package in graph().find_modules_directly_imported_by(module):
            inits = graph().find_modules_directly_imported_by(package)
            if any(under(target, package) for target in inits):
                wrong.append(f"{module} imports {package}, which imports its modules")
    assert not wrong
