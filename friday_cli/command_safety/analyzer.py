"""Walks the syntax tree of a shell command and has each simple command in it classified.

This module knows statements: lists, pipelines, loops, functions and subshells. `node_reader` knows what is inside a simple
command, and `classifier` decides whether it is read-only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from friday_cli.core.text.lazy_regex import pattern

from .classifier import CommandClassifier
from .context import AnalysisContext
from .node_reader import WORDS, NodeReader
from .programs import PipeInput
from .state import FoundCommands, ShellState
from .syntax import MAX_DEPTH, Unparseable, assigned_names, children, parse, raw
from .words import Word, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_NESTED_SCRIPTS = 3
"""Levels of `sh -c` that are analyzed."""
_FOLDERS = re.compile(r"\b(?:HOME|CDPATH|OLDPWD|PWD|DIRSTACK)\b")
"""Variables by which `cd`, `~` and names with them go."""
_SETTERS = pattern(r"\b(?:read|readarray|mapfile|printf|declare|typeset|unset|getopts)\s")
_BODIES = frozenset(
    (
        "if_statement",
        "elif_clause",
        "else_clause",
        "while_statement",
        "do_group",
        "case_statement",
        "case_item",
        "compound_statement",
        "program",
    )
)
_TOKENS = frozenset(
    (
        ";",
        ";;",
        ";&",
        ";;&",
        "&",
        "&&",
        "||",
        "|",
        "(",
        ")",
        "{",
        "}",
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "in",
        "do",
        "done",
        "while",
        "until",
        "case",
        "esac",
        "select",
        "function",
    )
)


class CommandAnalyzer:
    """Analyzes one script; `found` holds the result. Raises Unparseable when the whole command needs approval."""

    def __init__(self, context: AnalysisContext, outer: CommandAnalyzer | None = None) -> None:
        self.found: FoundCommands = outer.found if outer else FoundCommands()
        self._level: int = outer._level + 1 if outer else 0
        self._state: ShellState = ShellState(outer._state.directories if outer else {context.root})
        self._state.folder_unknown = outer is not None and outer._state.folder_unknown
        nested = (
            None if self._level >= MAX_NESTED_SCRIPTS else lambda script: CommandAnalyzer(context, self).run(script)
        )
        self.classifier = CommandClassifier(context, self._state, self.found, nested)
        self._reader = NodeReader(self._state, self.classifier, walk=self._walk, subshell=self._subshell)
        self._handlers: dict[str, Callable[[Node], None]] = {
            **dict.fromkeys(
                ("command", "test_command", "declaration_command", "unset_command"), self._reader.simple_command
            ),
            **dict.fromkeys(("variable_assignment", "variable_assignments"), self._reader.assignments),
            **dict.fromkeys(_BODIES, self._body),
            "redirected_statement": self._reader.redirected,
            "pipeline": self._pipeline,
            "list": self._list,
            "for_statement": self._for,
            "function_definition": self._function,
            "subshell": self._subshell,
            "negated_command": self._negated,
        }
        self._source = b""
        self._depth = 0
        self._defined: set[str] = set()
        self._root: Node | None = None

    def run(self, command: str) -> None:
        """Analyze a whole command."""
        if _moves_names(command):
            raise Unparseable("it changes which folder a name such as ~ means")
        root, self._source = parse(command)
        self._reader.read(self._source)
        self._state.unstable |= set(_set_in_functions(root, self._source))
        self._walk(root)

    def _walk(self, node: Node) -> None:
        """Analyze one statement and everything below it."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unparseable("it is nested too deeply")
        self._root = self._root or node
        if node.type not in self._handlers:
            raise Unparseable(f"it uses {node.type.replace('_', ' ')}")
        self._handlers[node.type](node)
        self._depth -= 1

    def _negated(self, node: Node) -> None:
        for child in children(node, self._source):
            if child.type != "!":
                self._walk(child)
        self._state.allow_failed_cd()

    def _statement(self, node: Node) -> None:
        """One statement of a list. With `&` behind it, it runs in a subshell."""
        state, snapshot = self._state, self._state.snapshot()
        self._walk(node)
        state.allow_failed_cd()
        if node.next_sibling is not None and node.next_sibling.type == "&":
            state.restore(snapshot)

    def _body(self, node: Node) -> None:
        """Statements in sequence; some of them may not run."""
        state = self._state
        conditional = node.type not in ("program", "compound_statement")
        changed = set(assigned_names(node, self._source)) if conditional else set()
        if node.type == "while_statement":
            state.forget(changed)
            state.loops += 1
        for child in children(node, self._source):
            if child.type.startswith(";") and len(child.type) > 1 and node.type != "case_item":
                raise Unparseable("it cannot be parsed")
            if child.type in _TOKENS:
                continue
            if child.type in WORDS:
                self._reader.word(child)
                continue
            self._statement(child)
        if node.type == "while_statement":
            state.loops -= 1
        state.forget(changed)

    def _list(self, node: Node) -> None:
        """`a && b`, `a || b`: the second may not run."""
        parts = children(node, self._source)
        either = any(part.type == "||" for part in parts)
        for part in parts:
            if part.type == "||":
                self._state.allow_failed_cd()
            elif part.type != "&&":
                changed = set(assigned_names(part, self._source)) if part is not parts[0] else set()
                self._walk(part)
                self._state.forget(changed)
        if either:
            self._state.allow_failed_cd()

    def _subshell(self, node: Node) -> None:
        """A subshell or substitution: its variables and directory do not outlive it."""
        snapshot = self._state.snapshot()
        for child in children(node, self._source):
            if child.type not in ("(", ")", "$(", "<(", "`", ";", "\n", "&"):
                self._statement(child)
        self._state.restore(snapshot)

    def _pipeline(self, node: Node) -> None:
        state = self._state
        snapshot, output = state.snapshot(), PipeInput()
        replaced, state.input_replaced = state.input_replaced, False
        for child in children(node, self._source):
            if child.type in ("|", "|&"):
                continue
            before = len(self.found.steps)
            state.pipe_input = output if child.type == "command" and not replaced else PipeInput()
            state.pipe_output = PipeInput()
            self._walk(child)
            single = child.type == "command" and len(self.found.steps) == before + 1
            output = state.pipe_output if single else PipeInput()
            state.restore(snapshot)
        state.pipe_input = state.pipe_output = PipeInput()

    def _for(self, node: Node) -> None:
        state = self._state
        name, values, body = "", [], None
        for child in children(node, self._source):
            if child.type == "variable_name":
                name = raw(child, self._source)
            elif child.type == "do_group":
                body = child
            elif child.type in WORDS:
                values.append(self._reader.word(child))
            elif child.type not in _TOKENS:
                raise Unparseable(f"it uses {child.type.replace('_', ' ')}")
        if body is None or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise Unparseable(f"it uses the variable {name or '?'} in a loop")
        changed = set(assigned_names(body, self._source))
        state.forget(changed)
        texts = tuple(text for value in values for text in value.texts)
        known = values and all(value.known for value in values) and len(texts) <= 32 and name not in changed
        glob = any(value.glob for value in values)
        after = unknown(f"the value of ${name} is not known", next((v.foreign for v in values if v.foreign), ""))
        state.assign(name, Word(texts, glob=glob) if known else after)
        state.loops += 1
        self._walk(body)
        state.loops -= 1
        state.variables[name] = after

    def _function(self, node: Node) -> None:
        state = self._state
        parts = [c for c in children(node, self._source) if c.type not in _TOKENS]
        if len(parts) != 2 or parts[0].type != "word":
            raise Unparseable("a function cannot be parsed")
        after = node.next_sibling.type if node.next_sibling else ""
        name, before = raw(parts[0], self._source), len(self.found.steps)
        if name in self._defined:
            raise Unparseable(f"the function {name} is defined twice")
        self._defined.add(name)
        state.forget(set(assigned_names(node, self._source)) | set(state.variables))
        state.loops += 1
        self._walk(parts[1])
        state.loops -= 1
        steps = self.found.steps[before:]
        if any(reading.split(" ", 1)[0] == name for step in steps for reading in step.readings[:1]):
            raise Unparseable(f"the function {name} may call itself")
        self.classifier.define_function(name, always_defined=node.parent == self._root and after != "&")


def _moves_names(command: str) -> bool:
    """Whether a command sets a variable of `_FOLDERS`, and uses one or changes the folder."""
    if not _FOLDERS.search(command) or not re.search(r"~|\bcd\b|\bpushd\b|\$\{?(?:HOME|PWD|OLDPWD)\b", command):
        return False
    for found in _FOLDERS.finditer(command):
        before = command[max(0, found.start() - 200) : found.start()]
        if before[-1:] not in ("$", "{") and (
            re.match(r"(?:\[\d*\])?\+?=", command[found.end() : found.end() + 20])
            or _SETTERS().search(re.split(r"[;|&\n]", before)[-1])
        ):
            return True
    return False


def _set_in_functions(root: Node, source: bytes) -> Iterator[str]:
    """The variables that a function of the command may set: it is not known when it is called."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            yield from assigned_names(node, source)
        else:
            stack += node.children
