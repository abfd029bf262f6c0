"""Judges the simple commands of a shell command, one by one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import msgspec

from friday_cli.core.protocol.shell_script import SimpleCommand

from . import crude, destructive, embedded_languages, git, programs, wrappers
from .context import HARMLESS, AnalysisContext
from .options import ProgramWord
from .programs import PipeInput
from .readonly_programs import BUILTINS, ENVIRONMENT, INTERPRETERS, RUNNERS, SHELLS
from .rule_suggestion import suggested
from .syntax import Unparseable
from .words import Word, shown, unknown

STEPS = 50
"""Simple commands in one; more are put to a person."""
READINGS = 64
"""Word lists that one simple command may stand for (the values of its variables, multiplied)."""
NESTED = 3
"""Levels of `sh -c` that are looked into."""
_SCRIPTED = SHELLS | {"eval", "source", ".", "exec"}


class Commands:
    """What is known while a command is walked through: its variables, where it may be, what the pipe brings.

    `steps` is what was found so far; `forms` are the forms in words of each simple command among them, the plainest first.
    """

    def __init__(self, ground: AnalysisContext, outer: Commands | None = None) -> None:
        self.ground = ground
        self.steps: list[SimpleCommand] = outer.steps if outer else []
        self.forms: list[tuple[str, ...]] = outer.forms if outer else []
        self._level: int = outer._level + 1 if outer else 0
        self._vars: dict[str, Word] = {}
        self._functions: set[str] = set()
        self._here: set[str] = {ground.root}
        self._stale: set[str] = set()
        self._loops = 0
        self._feed = PipeInput()

    def _inner(self, script: str) -> None:
        """Judge the text that a shell is given."""
        raise NotImplementedError

    def _forget(self, names: set[str]) -> None:
        for name in names:
            self._vars[name] = unknown(f"what ${name} holds is not known")

    def _define(self, name: str, *, sure: bool) -> None:
        """A function counts where it is `sure` to be there when its name is run, and no program would be run if it were not."""
        fine = re.fullmatch(r"[A-Za-z_]\w*", name) and name not in BUILTINS | RUNNERS
        if sure and fine and not self.ground.has(name):
            self._functions.add(name)

    def _file(self, text: str, target: Word, *, write: bool) -> None:
        """A file that the shell itself opens."""
        if target.known and all(name in HARMLESS for name in target.texts):
            return
        opaque = "" if target.known and not target.glob else "which file it opens is not known beforehand"
        labels: list[str] = []
        for name, here in itertools.product(target.texts, sorted(self._here)):
            if not write:
                opaque = opaque or self.ground.reach(name, here, glob=target.glob)
                labels += self.ground.labels(name, here)
            elif found := self.ground.target(name, here):
                labels += found
            else:
                opaque = opaque or f"{name} lies outside the workspace"
        why = opaque or ("it only reads" if not write else "it writes a file")
        names = tuple(dict.fromkeys(labels))
        self._add(
            SimpleCommand(
                text, text, looks=not write and not opaque, why=why, dynamic_arguments=opaque,
                reads=() if write else names, writes=names if write and not opaque else (),
                danger=destructive.reason(text) if write else "",
            )
        )  # fmt: skip

    def _step(self, text: str, words: list[Word], prefix: list[tuple[str, Word]]) -> SimpleCommand:
        """The judgement of one simple command, with all that rules must see in it.

        The text is read crudely, too, where a program may run a part of it.
        """
        step = self._judged(text, words, prefix)
        if (
            step.readings
            and not step.dynamic_arguments
            and (step.looks or re.match(r"git (?:commit|tag)(?: |$)", step.text))
        ):
            self.forms.append(step.readings[:1])
            return step
        return self._with(step, text, [[arg.text for arg in argv] for argv in self._variants(words) or ()])

    def _with(self, step: SimpleCommand, text: str, parsed: Sequence[Sequence[str]] = ()) -> SimpleCommand:
        """`step` with what else its `text` may run, and its words where they are `parsed`."""
        found = crude.read("\n".join((text, *(map(" ".join, parsed) if "$" in text else ()))), parsed)
        readings = tuple(dict.fromkeys((*step.readings, *found.commands)))
        plain = step.readings and step.looks and not step.dynamic_arguments
        self.forms += [(step.readings[0], *found.commands)] if plain else [(form,) for form in found.commands]
        return msgspec.structs.replace(step, readings=readings, danger=step.danger or found.danger)

    def give_up(self, text: str, trouble: str) -> None:
        """Add all of the command as a step of which nothing is known but what a crude reader finds in it."""
        self.steps.append(
            self._with(SimpleCommand(text, text, why=trouble, dynamic_arguments=trouble, dynamic_program=True), text)
        )

    def _judged(self, text: str, words: list[Word], prefix: list[tuple[str, Word]]) -> SimpleCommand:
        first = words[0] if words else Word(("",))
        if not first.text or first.glob:
            why = "which program it runs is not known beforehand"
            return SimpleCommand(text, text, why=why, dynamic_arguments=why, dynamic_program=True)
        name = first.text.rsplit("/", 1)[-1]
        for variable, _ in prefix:
            if variable not in ENVIRONMENT and not (variable == "IFS" and name == "read"):
                why = f"{variable} changes what {name} does"
                return SimpleCommand(text, text, self._seen(words), why=why, dynamic_arguments=why)
        foreign = next((w.foreign for w in words if w.foreign), "")
        if name in ("cd", "read"):
            return self._moving(text, name, words)
        if first.text in self._functions:
            return SimpleCommand(text, text, looks=True, why="a function of this command")
        variants = self._variants(words)
        if variants is None:
            why = "it stands for too many commands"
            return SimpleCommand(text, text, self._seen(words), why=why, dynamic_arguments=why)
        why, last = "", None
        for argv in variants:
            last = self._one(text, argv)
            why = why or last.why
            if not last.looks:
                break
        assert last is not None
        if last.looks and foreign:
            reason = f"${foreign} may hold a secret"
            return msgspec.structs.replace(last, looks=False, why=reason, dynamic_arguments=reason)
        if len(variants) > 1 and not last.looks:
            return msgspec.structs.replace(
                last, dynamic_arguments=last.dynamic_arguments or "it stands for several commands", suggest=""
            )
        return last

    def _one(self, text: str, argv: Sequence[ProgramWord]) -> SimpleCommand:
        """The judgement of one list of words."""
        if (inner := wrappers.through(argv)) is not None:
            step = self._one(text, inner)
            return msgspec.structs.replace(step, raw=text, readings=(*step.readings, _joined(argv)))
        if (script := wrappers.script(argv)) is not None and self._level < NESTED:
            self._inner(script)
            readings = self._readings([arg.text for arg in argv])
            return SimpleCommand(_joined(argv), text, readings, looks=True, why="what it runs is judged by itself")
        name = argv[0].text.rsplit("/", 1)[-1]
        reason, reads = "", []
        for here in sorted(self._here):
            reason = reason or programs.looks(argv, self.ground, here, self._feed)
            named, there = git.aside(argv[1:], self.ground, here) if name == "git" else (argv[1:], here)
            reads += [label for arg in named if arg.known for label in self._label(arg, there)]
        known = all(arg.known and not arg.glob for arg in argv)
        texts = [arg.text for arg in argv]
        blind = name in _SCRIPTED and not known
        hidden = "" if known else "a word of it is not known beforehand"
        if (
            reason
            and not hidden
            and (name in ("eval", "source", ".", "exec", "trap", "alias", "hash", "enable", "coproc"))
        ):
            hidden = f"{name} changes what later commands do"
        if not reason:
            self._feed = programs.feeds(argv, self._feed)
            return SimpleCommand(
                _joined(argv), text, self._readings(texts), True, "it only looks", hidden, reads=tuple(reads)
            )
        return SimpleCommand(
            _joined(argv), text, self._readings(texts), why=reason, dynamic_arguments=hidden, dynamic_program=blind, reads=tuple(reads),
            suggest=suggested(texts) if known else "",
        )  # fmt: skip

    def _label(self, arg: ProgramWord, here: str) -> tuple[str, ...]:
        if arg.text.startswith("-") or len(arg.text) > 250 or "\n" in arg.text:
            return ()
        return self.ground.labels(arg.text, here) if arg.text else ()

    def _moving(self, text: str, name: str, words: list[Word]) -> SimpleCommand:
        """`cd` into a folder of the workspace, `read` into variables of the command itself."""
        args = [ProgramWord(word.text, word.glob, bool(word.text)) for word in words[1:]]
        if name == "read":
            reason = embedded_languages.reading(args) if all(arg.known for arg in args) else "read sets variables"
            self._forget({arg.text for arg in args})
            return SimpleCommand(text, text, looks=not reason, why=reason or "it only reads a line")
        if len(args) != 1 or not args[0].known or args[0].glob or args[0].text.startswith("-") or self._loops:
            why = "where cd leads is not known beforehand"
            return SimpleCommand(text, text, why=why, dynamic_arguments=why)
        folders = {self.ground.folder(args[0].text, here) for here in self._here}
        if "" in folders:
            return SimpleCommand(
                shown(("cd", args[0].text)),
                text,
                why=f"{args[0].text} lies outside the workspace",
                dynamic_arguments="it leads outside",
            )
        self._stale |= self._here
        self._here = folders
        return SimpleCommand(text, text, looks=True, why="it stays in the workspace")

    def _variants(self, words: list[Word]) -> list[list[ProgramWord]] | None:
        choices = [
            [ProgramWord(t, w.glob) for t in w.texts]
            if w.known and not self._parted(w)
            else [ProgramWord("", known=False)]
            for w in words
        ]
        total = 1
        for choice in choices:
            total *= len(choice)
        return [list(argv) for argv in itertools.product(*choices)] if total <= READINGS else None

    def _parted(self, word: Word) -> bool:
        return word.loose and any(self.ground.splits(t, here) for t in word.texts for here in self._here)

    def _seen(self, words: list[Word]) -> tuple[str, ...]:
        return self._readings([word.text for word in words])

    @staticmethod
    def _readings(texts: list[str]) -> tuple[str, ...]:
        """What deny and ask rules must see: the command without its folder, git's without the options before it, and behind
        a wrapper whatever may begin."""
        name = texts[0].rsplit("/", 1)[-1]
        found = [[name, *texts[1:]]]
        if name in RUNNERS or INTERPRETERS.fullmatch(name):
            for at, text in enumerate(texts[1:40], 1):
                if not text.startswith("-") and text:
                    found.append([text.rsplit("/", 1)[-1], *texts[at + 1 :]])
        found += [git.bare(words) for words in found if words[0] == "git"]
        return tuple(dict.fromkeys(" ".join(words) for words in found))

    def _add(self, step: SimpleCommand) -> None:
        if len(self.steps) >= STEPS:
            raise Unparseable(f"it holds more than {STEPS} commands")
        self.steps.append(step)


def _joined(argv: Sequence[ProgramWord]) -> str:
    return shown(arg.text for arg in argv)
