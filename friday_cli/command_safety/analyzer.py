"""Walks the tree of a shell command and judges every simple command in it on its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from friday_cli.core.protocol.shell_script import SimpleCommand

from . import embedded_languages
from .command import Commands
from .context import AnalysisContext
from .options import ProgramWord
from .programs import PipeInput
from .readonly_programs import ENVIRONMENT
from .syntax import DEEPEST, Unparseable, children, names, parse, raw
from .words import Word, WordReader, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

_BODIES = frozenset(
    ("if_statement", "elif_clause", "else_clause", "while_statement", "do_group", "case_statement", "case_item",
     "compound_statement", "program")
)  # fmt: skip
_TOKENS = frozenset(
    (";", ";;", ";&", ";;&", "&", "&&", "||", "|", "(", ")", "{", "}", "if", "then", "elif", "else", "fi", "for",
     "in", "do", "done", "while", "until", "case", "esac", "select", "function")
)  # fmt: skip
_WORDS = frozenset(
    ("word", "number", "string", "raw_string", "concatenation", "simple_expansion", "expansion",
     "command_substitution", "arithmetic_expansion", "ansi_c_string", "translated_string",
     "process_substitution", "brace_expression", "extglob_pattern", "regex")
)  # fmt: skip

_COMPARE = frozenset(("diff", "comm", "cmp", "paste", "join", "cat", "head", "tail", "grep"))
"""Programs that only read the files in their operands, whatever these hold."""


class CommandAnalyzer(Commands):
    """One walk; `steps` is what it found. Raises Unclear where the whole command must be put to a person."""

    def __init__(self, ground: AnalysisContext, outer: Commands | None = None) -> None:
        super().__init__(ground, outer)
        self.source = b""
        self._reader = WordReader(self.source, self._vars, ground.home)
        self._depth = 0
        self._root: Node | None = None

    def run(self, command: str) -> None:
        """Judge all of a command."""
        root, self.source = parse(command)
        self._reader.source = self.source
        self.walk(root)

    # ---- statements ----------------------------------------------------------------

    def walk(self, node: Node) -> None:
        """Judge what is below a statement."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise Unparseable("it is nested too deeply")
        kind = node.type
        self._root = self._root or node
        if kind in ("command", "test_command", "declaration_command", "unset_command"):
            self._simple(node)
        elif kind in ("variable_assignment", "variable_assignments"):
            self._assigned(node)
        elif kind == "redirected_statement":
            self._redirected(node)
        elif kind == "pipeline":
            self._pipeline(node)
        elif kind == "list":
            self._list(node)
        elif kind == "for_statement":
            self._for(node)
        elif kind == "function_definition":
            self._function(node)
        elif kind == "subshell":
            self._apart(node)
        elif kind == "negated_command":
            for child in children(node, self.source):
                if child.type != "!":
                    self.walk(child)
        elif kind in _BODIES:
            self._body(node)
        else:
            raise Unparseable(f"it uses {kind.replace('_', ' ')}")
        self._depth -= 1

    def _body(self, node: Node) -> None:
        """Statements one after the other; some of them may not run."""
        sometimes = node.type not in ("program", "compound_statement")
        changed = set(names(node, self.source)) if sometimes else set()
        if node.type == "while_statement":
            self._forget(changed)
            self._loops += 1
        for child in children(node, self.source):
            if child.type.startswith(";") and len(child.type) > 1 and node.type != "case_item":
                raise Unparseable("it cannot be parsed")
            if child.type in _TOKENS:
                continue
            if child.type in _WORDS:
                self._word(child)
                continue
            self.walk(child)
            self._settle()
        if node.type == "while_statement":
            self._loops -= 1
        self._forget(changed)

    def _list(self, node: Node) -> None:
        """`a && b`, `a || b`: the second may not run."""
        parts = children(node, self.source)
        for part in parts:
            if part.type == "||":
                self._settle()
            elif part.type != "&&":
                if part is parts[0]:
                    self.walk(part)
                else:
                    changed = set(names(part, self.source))
                    self.walk(part)
                    self._forget(changed)

    def _settle(self) -> None:
        """A `cd` before may have failed."""
        self._here |= self._stale
        self._stale = set()

    def _apart(self, node: Node) -> None:
        """A subshell: what it sets and where it goes ends with it."""
        kept = dict(self._vars), set(self._here), set(self._stale)
        for child in children(node, self.source):
            if child.type not in ("(", ")", "$(", "<(", "`", ";", "\n", "&"):
                self.walk(child)
                self._settle()
        self._vars.clear()
        self._vars.update(kept[0])
        self._here, self._stale = kept[1], kept[2]

    def _pipeline(self, node: Node) -> None:
        kept = dict(self._vars), set(self._here), set(self._stale)
        self._feed = PipeInput()
        for child in children(node, self.source):
            if child.type in ("|", "|&"):
                continue
            before = len(self.steps)
            self.walk(child)
            if child.type != "command" or len(self.steps) != before + 1:
                self._feed = PipeInput()
            self._vars.clear()
            self._vars.update(kept[0])
            self._here, self._stale = set(kept[1]), set(kept[2])
        self._feed = PipeInput()

    def _for(self, node: Node) -> None:
        name, values, body = "", [], None
        for child in children(node, self.source):
            if child.type == "variable_name":
                name = raw(child, self.source)
            elif child.type == "do_group":
                body = child
            elif child.type in _WORDS:
                values.append(self._word(child))
            elif child.type not in _TOKENS:
                raise Unparseable(f"it uses {child.type.replace('_', ' ')}")
        if body is None or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise Unparseable(f"it uses the variable {name or '?'} in a loop")
        changed = set(names(body, self.source))
        self._forget(changed)
        texts = tuple(text for value in values for text in value.texts)
        sure = values and all(value.known for value in values) and len(texts) <= 32 and name not in changed
        glob = any(value.glob for value in values)
        lost = unknown(f"what ${name} holds is not known", next((v.foreign for v in values if v.foreign), ""))
        self._vars[name] = Word(texts, glob=glob) if sure else lost
        self._loops += 1
        self.walk(body)
        self._loops -= 1
        self._vars[name] = lost

    def _function(self, node: Node) -> None:
        parts = [c for c in children(node, self.source) if c.type not in _TOKENS]
        if len(parts) != 2 or parts[0].type != "word":
            raise Unparseable("a function is not understood")
        after = node.next_sibling.type if node.next_sibling else ""
        name, before = raw(parts[0], self.source), len(self.steps)
        self._forget(set(names(node, self.source)) | set(self._vars))
        self._loops += 1
        self.walk(parts[1])
        self._loops -= 1
        if any(reading.split(" ", 1)[0] == name for step in self.steps[before:] for reading in step.readings[:1]):
            raise Unparseable(f"the function {name} may call itself")
        self._define(name, sure=node.parent == self._root and after != "&")

    # ---- simple commands -----------------------------------------------------------

    def _redirected(self, node: Node) -> None:
        redirects = [child for child in children(node, self.source) if child.type.endswith("redirect")]
        for child in children(node, self.source):
            if child not in redirects:
                self.walk(child)
        for child in redirects:
            self._redirect(child)

    def _redirect(self, node: Node) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node)
            return
        parts = children(node, self.source)
        words = [part for part in parts if part.type in _WORDS]
        signs = "".join(part.type for part in parts if part.type not in _WORDS and part.type != "file_descriptor")
        if node.type == "herestring_redirect":
            for word in words:
                self._shown(word)
            return
        if signs in (">&-", "<&-") and not words:
            return
        if len(words) != 1 or signs not in (">", ">>", ">|", "<", ">&", "<&", "&>", "&>>"):
            raise Unparseable("a redirection is not understood")
        if signs == "<" and words[0].type == "process_substitution":
            self._printed(words[0])
            return
        target = self._word(words[0])
        if signs in (">&", "<&") and re.fullmatch(r"\d+|-", target.text):
            return
        self._file(raw(node, self.source), target, write="<" not in signs)

    def _heredoc(self, node: Node) -> None:
        start = body = end = None
        for child in node.children:
            if child.type == "heredoc_start":
                start = raw(child, self.source)
            elif child.type == "heredoc_body":
                body = child
            elif child.type == "heredoc_end":
                end = raw(child, self.source).strip()
            elif child.type in ("<<", "<<-", "file_descriptor", "&&", "||"):
                continue
            elif child.type.endswith("redirect"):
                self._redirect(child)
            elif child.type == "pipeline":
                self._pipeline(child)
            else:
                self.walk(child)
        mark = re.fullmatch(r"(['\"]?)(\w+)\1", start or "")
        if mark is None or body is None or end != mark[2]:
            raise Unparseable("a here-document is not understood")
        text = raw(body, self.source)
        if any(line.strip("\t") == mark[2] for line in text.splitlines()):
            raise Unparseable("it is not clear where a here-document ends")
        if self.steps:  # redirections have no readings
            at = max((at for at, step in enumerate(self.steps) if step.readings), default=-1)
            self.steps[at] = self._with(self.steps[at], text)
        if mark[1]:
            return
        bare = bytearray(self.source[body.start_byte : body.end_byte])
        for child in body.children:
            if child.type in ("heredoc_content", "$"):
                continue
            self._shown(child)
            bare[child.start_byte - body.start_byte : child.end_byte - body.start_byte] = b"_" * (
                child.end_byte - child.start_byte
            )
        if re.search(rb"`|\$[({\w@*#?!-]", re.sub(rb"\\.", b"", bytes(bare))):
            raise Unparseable("a here-document is not understood")

    def _assigned(self, node: Node) -> None:
        """`x=1` on its own: harmless where no program looks at the variable."""
        parts = children(node, self.source) if node.type == "variable_assignments" else [node]
        for part in parts:
            name, value = self._assignment(part)
            self._vars[name] = value
            quiet = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and not name.endswith("_proxy")
            if not quiet and name not in ENVIRONMENT:
                text = raw(part, self.source)
                why = f"{name} changes what later commands do"
                self._add(SimpleCommand(text, text, why=why, dynamic_arguments=why))

    def _assignment(self, node: Node) -> tuple[str, Word]:
        parts = children(node, self.source)
        if len(parts) not in (2, 3) or parts[0].type != "variable_name" or parts[1].type != "=":
            raise Unparseable("an assignment is not understood")
        value = Word(("",)) if len(parts) == 2 else self._word(parts[2])
        name = raw(parts[0], self.source)
        if any(":~" in text for text in value.texts):
            value = unknown("a home folder behind a colon")
        return name, value

    def _shown(self, node: Node) -> None:
        """A word that a program will read, and may print."""
        if foreign := self._word(node).foreign:
            raise Unparseable(f"${foreign} may hold a secret")

    def _word(self, node: Node) -> Word:
        """A word; the commands in it are judged at once."""
        self._reader.here = next(iter(self._here)) if len(self._here) == 1 else ""
        word = self._reader.word(node)
        inside, self._reader.inside = self._reader.inside, []
        feed = self._feed
        for substitution in inside:
            if self._reader.source[substitution.start_byte : substitution.start_byte + 1] == b"`" and (
                b"\\" in self.source[substitution.start_byte : substitution.end_byte]
            ):
                raise Unparseable("backticks with a backslash")
            self._apart(substitution)
        self._feed = feed
        return word

    def _printed(self, node: Node) -> Word:
        """`<(..)`: what the commands in it print, as a file to read; they are judged at once."""
        if not raw(node, self.source).startswith("<("):
            raise Unparseable("it uses process substitution")
        feed, self._feed = self._feed, PipeInput()
        self._apart(node)
        self._feed = feed
        return Word(("/dev/stdin",))

    def _simple(self, node: Node) -> None:
        text = raw(node, self.source)
        words: list[Word] = []
        prefix: list[tuple[str, Word]] = []
        redirects: list[Node] = []
        if node.type == "test_command":
            self._test(node, text)
            return
        for child in children(node, self.source):
            if child.type == "command_name":
                first = self._word(children(child, self.source)[0])
                words.append(unknown("its name is made of others") if "$" in raw(child, self.source) else first)
            elif child.type == "variable_assignment":
                if node.type == "command":
                    prefix.append(self._assignment(child))
                else:
                    name, value = self._assignment(child)
                    self._vars[name] = unknown(f"what ${name} holds is not known")
                    words.append(value if not value.known else Word(tuple(f"{name}={t}" for t in value.texts)))
            elif child.type.endswith("redirect"):
                redirects.append(child)
            elif child.type == "$" and self.source[child.end_byte : child.end_byte + 1].strip():
                raise Unparseable("a $ stands where it has no meaning")
            elif child.type == "process_substitution" and words and words[0].text in _COMPARE:
                words.append(self._printed(child))
            elif child.type in _WORDS or child.type in ("$", "variable_name"):
                words.append(self._word(child))
            elif child.type in ("export", "declare", "typeset", "readonly", "local", "unset", "unsetenv"):
                words.append(Word((child.type,)))
            else:
                raise Unparseable(f"it uses {child.type.replace('_', ' ')}")
        self._add(self._step(text, words, prefix))
        for redirect in redirects:
            self._redirect(redirect)

    def _test(self, node: Node, text: str) -> None:
        args = [ProgramWord(word.text, word.glob, word.known) for word in self._operands(node)]
        arithmetic = text.startswith("[[")
        reason = ""
        for here in sorted(self._here):
            reason = reason or embedded_languages.test(args, self.ground, here, arithmetic=arithmetic)
        if not text.startswith("["):
            reason = reason or "arithmetic can run commands"
        step = SimpleCommand(text, text, looks=not reason, why=reason or "it only compares")
        self._add(self._with(step, text) if reason else step)

    def _operands(self, node: Node) -> Iterator[Word]:
        for child in children(node, self.source):
            if child.type in _WORDS or child.type == "variable_name":
                yield self._word(child)
            elif child.type == "test_operator":
                yield Word((raw(child, self.source),))
            elif child.child_count and child.type in (
                "unary_expression", "binary_expression", "parenthesized_expression", "negation_expression",
            ):  # fmt: skip
                yield from self._operands(child)
            elif child.type not in ("[", "]", "[[", "]]", "=", "==", "!=", "=~", "<", ">", "&&", "||", "!", "(", ")"):
                raise Unparseable(f"it uses {child.type.replace('_', ' ')}")

    def _inner(self, script: str) -> None:
        inside = CommandAnalyzer(self.ground, self)
        inside._here = set(self._here)
        inside.run(script)
