"""Reads the syntax nodes of a simple command: its words, assignments, redirections and here-documents.

Command substitutions inside words are analyzed as soon as they are met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from friday_cli.core.protocol.shell_script import SimpleCommand

from .classifier import CommandClassifier
from .programs import PipeInput
from .readonly_programs import ENVIRONMENT
from .state import ShellState
from .syntax import Unparseable, assigned_names, children, raw
from .words import Word, WordReader, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

WORDS = frozenset(
    ("word", "number", "string", "raw_string", "concatenation", "simple_expansion", "expansion",
     "command_substitution", "arithmetic_expansion", "ansi_c_string", "translated_string",
     "process_substitution", "brace_expression", "extglob_pattern", "regex")
)  # fmt: skip
"""Types of nodes that are one word."""
_FILE_READERS = frozenset(("diff", "comm", "cmp", "paste", "join", "cat", "head", "tail", "grep"))
"""Programs that only read the files in their operands, whatever the files contain."""


class NodeReader:
    """Hands simple commands and opened files to the classifier. `walk` analyzes a statement, `subshell` a substitution;
    both belong to the analyzer."""

    def __init__(
        self,
        state: ShellState,
        classifier: CommandClassifier,
        *,
        walk: Callable[[Node], None],
        subshell: Callable[[Node], None],
    ) -> None:
        self._state = state
        self._classifier = classifier
        self._walk = walk
        self._subshell = subshell
        self._source = b""
        self._words = WordReader(self._source, state.variables, classifier.context.home)

    def read(self, source: bytes) -> None:
        """Set the source text of the nodes that follow."""
        self._source = self._words.source = source

    def simple_command(self, node: Node) -> None:
        """A command, test or declaration, with its redirections."""
        text = raw(node, self._source)
        words: list[Word] = []
        prefix: list[str] = []
        redirects: list[Node] = []
        if node.type == "test_command":
            self._classifier.add_test(text, list(self._test_words(node)))
            return
        for child in children(node, self._source):
            if child.type == "command_name":
                first = self.word(children(child, self._source)[0])
                words.append(unknown("its name contains a variable") if "$" in raw(child, self._source) else first)
            elif child.type == "variable_assignment":
                name, value = self._assignment(child)
                if node.type == "command":
                    prefix.append(name)
                else:
                    self._state.forget({name})
                    words.append(value if not value.known else Word(tuple(f"{name}={t}" for t in value.texts)))
            elif child.type.endswith("redirect"):
                redirects.append(child)
            elif child.type == "$" and self._source[child.end_byte : child.end_byte + 1].strip():
                raise Unparseable("a $ is in an unexpected position")
            elif child.type == "process_substitution" and words and words[0].text in _FILE_READERS:
                words.append(self._process_substitution(child))
            elif child.type in WORDS or child.type in ("$", "variable_name"):
                words.append(self.word(child))
            elif child.type in ("export", "declare", "typeset", "readonly", "local", "unset", "unsetenv"):
                words.append(Word((child.type,)))
            else:
                raise Unparseable(f"it uses {child.type.replace('_', ' ')}")
        if any(_reads_input(redirect) for redirect in redirects):
            self._state.pipe_input = PipeInput()
        self._classifier.add_command(text, words, prefix)
        for redirect in redirects:
            self._redirect(redirect)

    def _test_words(self, node: Node) -> Iterator[Word]:
        for child in children(node, self._source):
            if child.type in WORDS or child.type == "variable_name":
                yield self.word(child)
            elif child.type == "test_operator":
                yield Word((raw(child, self._source),))
            elif child.child_count and child.type in (
                "unary_expression",
                "binary_expression",
                "parenthesized_expression",
                "negation_expression",
            ):
                yield from self._test_words(child)
            elif child.type not in ("[", "]", "[[", "]]", "=", "==", "!=", "=~", "<", ">", "&&", "||", "!", "(", ")"):
                raise Unparseable(f"it uses {child.type.replace('_', ' ')}")

    def assignments(self, node: Node) -> None:
        """`x=1` without a command: harmless when no program reads the variable."""
        parts = children(node, self._source) if node.type == "variable_assignments" else [node]
        for part in parts:
            name, value = self._assignment(part)
            self._state.assign(name, value)
            local = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and not name.endswith("_proxy")
            self._state.splits_anywhere |= name == "IFS"
            if not local and name not in ENVIRONMENT:
                text = raw(part, self._source)
                why = f"{name} changes how later commands behave"
                self._classifier.found.add(SimpleCommand(text, text, why=why, dynamic_arguments=why))

    def _assignment(self, node: Node) -> tuple[str, Word]:
        parts = children(node, self._source)
        if len(parts) not in (2, 3) or parts[0].type != "variable_name" or parts[1].type != "=":
            raise Unparseable("an assignment cannot be parsed")
        value = Word(("",)) if len(parts) == 2 else self.word(parts[2])
        name = raw(parts[0], self._source)
        if any(":~" in text for text in value.texts):
            value = unknown("~ after a colon")
        return name, value

    def word(self, node: Node) -> Word:
        """The value of a word. The command substitutions in it are analyzed here."""
        directories = self._state.directories
        self._words.directory = next(iter(directories)) if len(directories) == 1 else ""
        word = self._words.word(node)
        substitutions, self._words.substitutions = self._words.substitutions, []
        pipe_input, self._state.pipe_input = self._state.pipe_input, PipeInput()
        for substitution in substitutions:
            text = self._source[substitution.start_byte : substitution.end_byte]
            if text[:1] == b"`" and b"\\" in text:
                raise Unparseable("it has a backslash inside backticks")
            self._subshell(substitution)
        self._state.pipe_input = pipe_input
        return word

    def _require_no_secret(self, node: Node) -> None:
        """Read a word that a program gets as input and may print. Raises Unparseable if it may hold a secret."""
        if foreign := self.word(node).foreign:
            raise Unparseable(f"${foreign} may hold a secret")

    def _process_substitution(self, node: Node) -> Word:
        """`<(..)`: the output of its commands as a file to read."""
        if not raw(node, self._source).startswith("<("):
            raise Unparseable("it uses process substitution")
        pipe_input, self._state.pipe_input = self._state.pipe_input, PipeInput()
        self._subshell(node)
        self._state.pipe_input = pipe_input
        return Word(("/dev/stdin",))

    def redirected(self, node: Node) -> None:
        """A statement with redirections."""
        redirects = [child for child in children(node, self._source) if child.type.endswith("redirect")]
        for child in children(node, self._source):
            if child not in redirects:
                self._state.input_replaced = child.type == "pipeline" and any(map(_reads_input, redirects))
                self._walk(child)
        for child in redirects:
            self._redirect(child)
        self._state.forget(set(assigned_names(node, self._source)))  # it does not run if a file cannot be opened

    def _redirect(self, node: Node) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node)
            return
        parts = children(node, self._source)
        words = [part for part in parts if part.type in WORDS]
        operator = "".join(part.type for part in parts if part.type not in WORDS and part.type != "file_descriptor")
        if node.type == "herestring_redirect":
            for word in words:
                self._require_no_secret(word)
                self._classifier.add_input_text(raw(word, self._source).strip("'\""))
            return
        if operator in (">&-", "<&-") and not words:
            return
        if len(words) != 1 or operator not in (">", ">>", ">|", "<", ">&", "<&", "&>", "&>>"):
            raise Unparseable("a redirection cannot be parsed")
        if operator == "<" and words[0].type == "process_substitution":
            self._process_substitution(words[0])
            return
        target = self.word(words[0])
        if operator in (">&", "<&") and re.fullmatch(r"\d+|-", target.text):
            return
        self._classifier.add_redirection(raw(node, self._source), target, write="<" not in operator)

    def _heredoc(self, node: Node) -> None:
        start = body = end = None
        for child in node.children:
            if child.type == "heredoc_start":
                start = raw(child, self._source)
            elif child.type == "heredoc_body":
                body = child
            elif child.type == "heredoc_end":
                end = raw(child, self._source).strip()
            elif child.type in ("<<", "<<-", "file_descriptor", "&&", "||"):
                continue
            elif child.type.endswith("redirect"):
                self._redirect(child)
            else:
                self._walk(child)
        delimiter = re.fullmatch(r"(['\"]?)(\w+)\1", start or "")
        if delimiter is None or body is None or end != delimiter[2]:
            raise Unparseable("a here-document cannot be parsed")
        text = raw(body, self._source)
        if any(line.strip("\t") == delimiter[2] for line in text.splitlines()):
            raise Unparseable("the end of a here-document is ambiguous")
        self._classifier.add_input_text(text)
        if delimiter[1]:
            return
        literal = bytearray(self._source[body.start_byte : body.end_byte])
        for child in body.children:
            if child.type in ("heredoc_content", "$"):
                continue
            self._require_no_secret(child)
            literal[child.start_byte - body.start_byte : child.end_byte - body.start_byte] = b"_" * (
                child.end_byte - child.start_byte
            )
        if re.search(rb"`|\$[({\w@*#?!-]", re.sub(rb"\\.", b"", bytes(literal))):
            raise Unparseable("a here-document cannot be parsed")


def _reads_input(redirect: Node) -> bool:
    """Whether a redirection opens something to read, perhaps as the input."""
    return any(child.type.startswith("<") for child in redirect.children)
