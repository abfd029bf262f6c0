"""An agent is complete when it is made, and so is what its session is made of. Afterwards only what does its work changes it,
and others call its methods."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.test_files import PROJECT, parsed, python_files

PACKAGE = PROJECT / "friday_cli"
WORKING = ("core/agent/", "core/subagents/", "external_agents/")
"""The rooms that do the work of agents: the loop, the runs around it, and other programs as agents."""
NAMES = ("agent", "_agent", "child", "conversation", "parent", "root", "_root")
"""What agents and conversations are called."""
PARTS = {
    "core/agent/agent.py": "Services",
    "core/permissions/approvals.py": "ApprovalQueue",
    "core/subagents/node.py": "KnownAgents",
    "core/subagents/tree.py": "SubagentTree",
    "frontends/host/server.py": "SessionServer",
    "frontends/oneshot/signals.py": "SignalHandler",
    "agents/hooks/session_hooks.py": "SessionHooks",
    "agents/shared_resources.py": "SharedResources",
    "agents/agent_tools.py": "AgentTools",
    "agents/agent_factory.py": "AgentFactory",
    "agents/isolation.py": "WorktreeIsolation",
    "mcp/connection.py": "ServerConnection",
    "workspace/checkpoints/write_hook.py": "WriteHook",
    "workspace/process/server.py": "ServerProcess",
}
"""What a session is made of, by its file."""
HOLDERS = re.compile(
    "_?(services|approvals|hooks|shared|factory|tools|isolation|connection|write_hook|server|stream|tree|permissions|workspace|signals)"
)
"""What those are called."""
FIXED = ("budget", "max_depth", "max_turns", "result_chars", "rules", "supervision", "time_s", "workspace")
"""What also what does the work of an agent only changes by a method of the agent."""
CHANGES = ("append", "clear", "extend", "insert", "pop", "setdefault", "update")


def fields() -> set[str]:
    """The fields of an agent and of its conversation."""
    tree = parsed(PACKAGE / "core/agent/agent.py")
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in ("Agent", "Conversation")]
    return {ast.unparse(line.target) for found in classes for line in found.body if isinstance(line, ast.AnnAssign)}


def parts() -> set[str]:
    """The fields of what a session is made of."""
    found = set()
    for file, name in PARTS.items():
        (part,) = (node for node in parsed(PACKAGE / file).body if isinstance(node, ast.ClassDef) and node.name == name)
        for node in ast.walk(part):
            if isinstance(node, ast.AnnAssign):
                found.add(ast.unparse(node.target).removeprefix("self."))
            elif isinstance(node, ast.Assign):
                own = (ast.unparse(target) for target in changed(node))
                found |= {target.removeprefix("self.") for target in own if target.startswith("self.")}
    return found


def changed(tree: ast.AST) -> Iterator[ast.expr]:
    """What a module assigns to, or changes by a method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from (
                t for target in node.targets for t in (target.elts if isinstance(target, ast.Tuple) else [target])
            )
        elif isinstance(node, ast.AugAssign):
            yield node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            yield node.func.value


def test_nothing_of_an_agent_is_set_from_outside() -> None:
    known, found = fields(), []
    assert {"history", "start_events", "usage"} <= known
    for file in python_files("friday_cli"):
        place = file.relative_to(PACKAGE).as_posix()
        if place.startswith((*WORKING, "view/", "store/", "telemetry/")):  # the last three have agents of their own
            continue
        for target in changed(parsed(file)):
            held = target.value if isinstance(target, ast.Subscript) else target
            if not isinstance(held, ast.Attribute) or held.attr not in known:
                continue
            if ast.unparse(held.value).rpartition(".")[2] in NAMES:
                found.append(f"{place}:{target.lineno} {ast.unparse(held)}")
    assert found == []


def test_what_a_session_is_made_of_is_complete_when_it_is_made() -> None:
    known, found = parts(), []
    assert {"make_rate_limiter", "_on_rule_granted", "_after_calls", "_known", "_watch", "_ended"} <= known
    for file in python_files("friday_cli"):
        for target in changed(parsed(file)):
            if not isinstance(target, ast.Attribute) or target.attr not in known:
                continue
            if HOLDERS.fullmatch(ast.unparse(target.value).rpartition(".")[2]):
                found.append(f"{file.relative_to(PACKAGE)}:{target.lineno} {ast.unparse(target)}")
    assert found == []


def test_what_an_agent_is_limited_to_is_changed_by_itself() -> None:
    found = []
    for file in python_files("friday_cli"):
        place = file.relative_to(PACKAGE).as_posix()
        for target in changed(parsed(file)) if place.startswith(WORKING) else ():
            if isinstance(target, ast.Attribute) and target.attr in FIXED and ast.unparse(target.value) != "self":
                found.append(f"{place}:{target.lineno} {ast.unparse(target)}")
    assert found == []
