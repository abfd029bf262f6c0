"""Classifies the simple commands of a shell command: read-only, or the reason why they need approval."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote

import msgspec

from friday_cli.core.permissions.runs_later import is_protected
from friday_cli.core.protocol.shell_script import SimpleCommand
from friday_cli.core.text.lazy_regex import pattern

from . import changed_files, destructive, embedded_languages, git, open_ended, programs, text_scan, wrappers
from .context import HARMLESS, AnalysisContext
from .options import ProgramWord
from .readonly_programs import BUILTINS, ENVIRONMENT, INTERPRETERS, RUNNERS, SHELLS
from .rule_suggestion import runs_named, suggest_rule
from .state import FoundCommands, ShellState
from .syntax import TooLong
from .words import Word, quote_words

MAX_VARIANTS = 64
"""Word lists that one simple command may stand for (the values of its variables, multiplied)."""
MAX_WRAPPERS = 8
"""Wrappers around one command (`nice timeout 5 ls`); with more it needs approval."""
MAX_FOLDERS = 16
"""Folders in which the shell may be, after several `cd` that may have failed."""
_RUN_PROGRAMS = {f"{name} run" for name in ("poetry", "uv", "pipenv", "pdm", "hatch", "conda")}
_RUN_PROGRAMS |= {f"{name} exec" for name in ("npm", "pnpm", "yarn", "bundle", "mise")}
_RUN_PROGRAMS |= {"npm x", "pnpm dlx", "yarn dlx", "bun x"}
"""Programs with the subcommand that runs the program in their arguments."""
_VALUE = pattern(r"(?:[\w-]+=@?|@)([^=@].*)")
_RUN_THEIR_ARGUMENTS = SHELLS | {"eval", "source", ".", "exec"}
_LINES = pattern(r"-L[^:]*:(?:[^:]*:)?([^:]+)")
"""`git log -L 1,2:FILE`."""
_FILE_URL = pattern(r"(?:[\w-]+=)?file:(?://[^/]*)?(/.*)", re.I)
_CHANGE_THE_FOLDER = frozenset(("cd", "pushd", "popd", "builtin", "eval"))
_CHANGE_THE_SHELL = frozenset(("eval", "source", ".", "exec", "trap", "alias", "hash", "enable", "coproc"))


class CommandClassifier:
    """Classifies commands in the current `state` of the shell and adds them to `found`. `run_script` analyzes the text
    after `sh -c`; None where scripts are nested too deeply for that."""

    def __init__(
        self,
        context: AnalysisContext,
        state: ShellState,
        found: FoundCommands,
        run_script: Callable[[str], None] | None,
    ) -> None:
        self.context = context
        self.found = found
        self._state = state
        self._run_script = run_script

    def define_function(self, name: str, *, always_defined: bool) -> None:
        """Accept later calls of a function of the command. Only if the function is `always_defined` when it is called,
        and no program has its name."""
        allowed = re.fullmatch(r"[A-Za-z_]\w*", name) and name not in BUILTINS | RUNNERS
        if always_defined and allowed and not self.context.has_program(name):
            self._state.functions.add(name)

    def add_redirection(self, text: str, target: Word, *, write: bool) -> None:
        """Add a file that the shell itself opens."""
        if target.known and all(name in HARMLESS for name in target.texts):
            return
        dynamic = "" if target.known and not target.glob else "which file it opens is not known before it runs"
        labels: list[str] = []
        somewhere = not target.known or (
            self._state.folder_unknown and not all(name.startswith("/") for name in target.texts)
        )
        changes = ["./"] if somewhere else []
        for name, directory in itertools.product(target.texts, sorted(self._state.directories)):
            if not write:
                dynamic = dynamic or self.context.path_reason(name, directory, glob=target.glob)
                labels += self.context.labels(name, directory)
                labels += self.context.matching_labels(name, directory) if target.glob else ()
            elif writable := self.context.write_labels(name, directory):
                labels += writable
            else:
                dynamic = dynamic or f"{name} is outside the workspace"
            found = self.context.matching_labels(name, directory) if target.glob and write else ()
            changes += [*self.context.named_labels(name, directory), *found]
        why = dynamic or ("it only reads" if not write else "it writes a file")
        unique = tuple(dict.fromkeys(labels))
        self.found.add(
            SimpleCommand(
                text,
                text,
                read_only=not write and not dynamic,
                why=why,
                dynamic_arguments=dynamic,
                reads=() if write else unique,
                writes=unique if write and not dynamic else (),
                changes=tuple(changes) if write else (),
                searches=(".",) if somewhere and not write else (),
                danger=(destructive.reason(text) or _protected(target)) if write else "",
            )
        )

    def add_test(self, text: str, words: Sequence[Word]) -> None:
        """Add `[ .. ]`, `[[ .. ]]` or `(( .. ))`."""
        args = [ProgramWord(word.text, word.glob, word.known) for word in words]
        arithmetic = text.startswith("[[")
        reason = ""
        for directory in sorted(self._state.directories):
            reason = reason or embedded_languages.test(args, self.context, directory, arithmetic=arithmetic)
        if not text.startswith("["):
            reason = reason or "arithmetic can run commands"
        step = SimpleCommand(text, text, read_only=not reason, why=reason or "it only compares")
        self.found.add(self._with_text_scan(step, text) if reason else step)

    def add_command(self, text: str, words: list[Word], prefix: Sequence[str]) -> None:
        """Add a simple command; `prefix` are the variables set in front of it. Its text is scanned as well if a program
        may run a part of it."""
        step = self._classify(text, words, prefix)
        read_only = step.read_only or re.match(r"git (?:commit|tag)(?: |$)", step.text)
        if step.readings and not step.dynamic_arguments and read_only:
            self.found.forms.append(step.readings[:1])
        else:
            parsed = [[arg.text for arg in argv] for argv in self._variants(words) or ()]
            step = self._with_text_scan(step, text, parsed)
        self.found.add(step)

    def add_input_text(self, text: str) -> None:
        """Scan a here-document as text that the last command may run."""
        steps = self.found.steps
        if steps:  # redirections have no readings
            at = max((at for at, step in enumerate(steps) if step.readings), default=-1)
            steps[at] = self._with_text_scan(steps[at], text)

    def add_unparseable(self, text: str, trouble: str, danger: str = "") -> None:
        """Add a whole command that could not be parsed, with the commands that a text scan finds in it."""
        step = SimpleCommand(text, text, why=trouble, dynamic_arguments=trouble, dynamic_program=True, danger=danger)
        self.found.steps.append(self._with_text_scan(step, text))

    def _with_text_scan(self, step: SimpleCommand, text: str, parsed: Sequence[Sequence[str]] = ()) -> SimpleCommand:
        """`step` with the other commands that `text` may run; `parsed`: its words, where they are known."""
        found = text_scan.scan("\n".join((text, *(map(" ".join, parsed) if "$" in text else ()))), parsed)
        readings = tuple(dict.fromkeys((*step.readings, *found.commands)))
        static = step.readings and step.read_only and not step.dynamic_arguments
        self.found.forms += [(step.readings[0], *found.commands)] if static else [(form,) for form in found.commands]
        return msgspec.structs.replace(
            step, readings=readings, danger=step.danger or found.danger or destructive.reason("", step.readings)
        )

    def _classify(self, text: str, words: list[Word], prefix: Sequence[str]) -> SimpleCommand:
        first = words[0] if words else Word(("",))
        if not first.text or first.glob:
            why = "which program it runs is not known before it runs"
            return SimpleCommand(
                text, text, why=why, dynamic_arguments=why, dynamic_program=True, searches=(".",), changes=("./",)
            )
        name = first.text.rsplit("/", 1)[-1]
        for variable in prefix:
            if variable not in ENVIRONMENT and not (variable == "IFS" and name == "read"):
                why = f"{variable} changes what {name} does"
                return SimpleCommand(
                    text, text, _readings([word.text for word in words]), why=why, dynamic_arguments=why
                )
        foreign = next((w.foreign for w in words if w.foreign), "")
        if name in ("cd", "read"):
            return self._cd_or_read(text, name, words)
        if first.text in self._state.functions:
            return SimpleCommand(text, text, read_only=True, why="a function of this command")
        variants = self._variants(words)
        if variants is None:
            why = "its variables have too many values"
            return SimpleCommand(text, text, _readings([word.text for word in words]), why=why, dynamic_arguments=why)
        why, last = "", None
        for argv in variants:
            last = self._classify_argv(text, argv)
            why = why or last.why
            if not last.read_only:
                break
        assert last is not None
        if last.read_only and foreign:
            reason = f"${foreign} may hold a secret"
            return msgspec.structs.replace(last, read_only=False, why=reason, dynamic_arguments=reason)
        if len(variants) > 1:
            self._state.pipe_output = programs.NO_INPUT
        if len(variants) > 1 and not last.read_only:
            dynamic = last.dynamic_arguments or "its variables have several values"
            return msgspec.structs.replace(last, dynamic_arguments=dynamic, suggest="")
        return last

    def _classify_argv(self, text: str, argv: Sequence[ProgramWord], depth: int = 0) -> SimpleCommand:
        """Classify one list of words, which is behind `depth` wrappers."""
        if depth < MAX_WRAPPERS and (inner := wrappers.unwrap(argv)) is not None:
            step = self._classify_argv(text, inner, depth + 1)
            return msgspec.structs.replace(step, raw=text, readings=(*step.readings, _joined(argv)))
        if (script := wrappers.shell_script(argv)) is not None and self._run_script is not None:
            self._run_script(script)
            readings = _readings([arg.text for arg in argv])
            return SimpleCommand(
                _joined(argv), text, readings, read_only=True, why="its script is classified separately"
            )
        name = argv[0].text.rsplit("/", 1)[-1]
        reason, reads, searches, changes, guesses = "", [], [], [], []
        if name in _CHANGE_THE_FOLDER:
            self._state.folder_unknown = True
        for directory in sorted(self._state.directories):
            reason = reason or programs.approval_reason(argv, self.context, directory, self._state.pipe_input)
            named, base = argv[1:], directory
            if name == "git":
                named, base = git.resolve_global_options(named, self.context, base)
            reads += [
                label
                for arg in named
                if arg.known
                for label in _read_labels(self.context, arg, base, in_git=name == "git")
            ]
            searches += open_ended.searched_folders([argv[0], *_placed(argv[1:], self._state)], self.context, directory)
            changes += changed_files.changed_labels(name, _placed(named, self._state), self.context, base)
            inside = changed_files.embedded_names(name, named) if reason else ()
            reads += [label for arg in inside for label in _read_labels(self.context, arg, base)]
            guesses += _guesses(self.context, name, named, base) if reason else []
            searches += ["."] if any(not arg.known for arg in inside) else []
        known = all(arg.known and not arg.glob for arg in argv)
        texts = [arg.text for arg in argv]
        dynamic = "" if known else "one of its words is not known before it runs"
        if reason and not dynamic and name in _CHANGE_THE_SHELL:
            dynamic = f"{name} changes how later commands behave"
        if not reason:
            self._state.pipe_output = programs.pipe_output(argv, self._state.pipe_input)
            why = "it is read-only"
            return SimpleCommand(
                _joined(argv), text, _readings(texts), True, why, dynamic, reads=tuple(reads), searches=tuple(searches)
            )
        return SimpleCommand(
            _joined(argv),
            text,
            _readings(texts),
            why=reason,
            dynamic_arguments=dynamic,
            dynamic_program=not argv[0].text or argv[0].glob or (name in _RUN_THEIR_ARGUMENTS and not known),
            reads=tuple(reads),
            guesses=tuple(guesses),
            searches=tuple(searches),
            changes=tuple(changes),
            unread_words=open_ended.unread_words(argv),
            unread_program=open_ended.unread_program(argv),
            risky=open_ended.risky_options(texts),
            suggest=suggest_rule(texts) if known else "",
            runs_named=runs_named(texts),
        )

    def _cd_or_read(self, text: str, name: str, words: list[Word]) -> SimpleCommand:
        """`cd` into a folder of the workspace, or `read` into variables of the command itself."""
        state = self._state
        args = [ProgramWord(word.text, word.glob, bool(word.text)) for word in words[1:]]
        if name == "read":
            literal = all(arg.known and not arg.glob for arg in args) and not re.search(r"[$`]", text)
            reason = embedded_languages.read_builtin(args) if literal else "read sets variables"
            state.forget({arg.text for arg in args})
            return SimpleCommand(text, text, read_only=not reason, why=reason or "it only reads a line")
        if len(args) != 1 or not args[0].known or args[0].glob or args[0].text.startswith("-") or state.loops:
            why = "where cd leads is not known before it runs"
            state.folder_unknown = True
            return SimpleCommand(text, text, why=why, dynamic_arguments=why)
        targets = {self.context.cd_target(args[0].text, directory) for directory in state.directories}
        if "" in targets:
            why = f"{args[0].text} is outside the workspace, or leads through a link"
            found = {self.context.real_folder(args[0].text, directory) for directory in state.directories}
            state.directories |= found - {""}
            _check_folders(self._state)
            return SimpleCommand(quote_words(("cd", args[0].text)), text, why=why, dynamic_arguments=why)
        state.previous_directories |= state.directories
        state.directories = targets
        _check_folders(self._state)
        return SimpleCommand(text, text, read_only=True, why="it stays in the workspace")

    def _variants(self, words: list[Word]) -> list[list[ProgramWord]] | None:
        """Every list of words the command may get; None above MAX_VARIANTS."""
        choices = [
            [ProgramWord(t, w.glob) for t in w.texts]
            if w.known and not _may_split(w, self.context, self._state)
            else [ProgramWord("", known=False)]
            for w in words
        ]
        total = 1
        for choice in choices:
            total *= len(choice)
        return [list(argv) for argv in itertools.product(*choices)] if total <= MAX_VARIANTS else None


def _guesses(context: AnalysisContext, name: str, args: Sequence[ProgramWord], base: str) -> list[str]:
    """The labels of words of program text, which may not be files."""
    texts = changed_files.program_text(name, args)
    return [label for arg in texts for label in _read_labels(context, arg, base)] + changed_files.labels_of(
        texts, context, base
    )


def _read_labels(
    context: AnalysisContext, arg: ProgramWord, directory: str, *, in_git: bool = False
) -> tuple[str, ...]:
    """The labels of a file that an argument may name."""
    if "\n" in arg.text or not arg.text or any(len(name) > 250 for name in arg.text.split("/")):
        return ()
    if url := _FILE_URL().fullmatch(arg.text):
        return context.labels(unquote(url[1]), directory)
    inner = _VALUE().fullmatch(arg.text)  # --file=NAME, if=NAME, @NAME
    labels = context.labels(inner[1], directory) if inner else ()
    if arg.text.startswith("-"):
        lines = _LINES().fullmatch(arg.text) if in_git else None
        return labels if lines is None else labels + context.labels(lines[1], directory)
    labels += context.labels(arg.text, directory)
    if arg.glob:
        labels += context.matching_labels(arg.text, directory)
    if in_git and ":" in arg.text:  # a file of a revision, relative to the top or to the folder
        for path in {arg.text.partition(":")[2], arg.text.rpartition(":")[2]} - {""}:
            labels += context.labels(path, directory) + context.labels(path, "")
    return labels


def _check_folders(state: ShellState) -> None:
    """Raises TooLong if the shell may be in too many folders."""
    if len(state.directories | state.previous_directories) > MAX_FOLDERS:
        raise TooLong(f"more than {MAX_FOLDERS} folders")


def _may_split(word: Word, context: AnalysisContext, state: ShellState) -> bool:
    """Whether file names in an unquoted variable may become several words."""
    return word.loose and (
        state.splits_anywhere
        or any(context.match_has_blanks(text, directory) for text in word.texts for directory in state.directories)
    )


def _placed(args: Sequence[ProgramWord], state: ShellState) -> list[ProgramWord]:
    """The arguments as names of files: relative ones are not known where the folder is not."""
    if not state.folder_unknown:
        return list(args)
    return [a if a.text.startswith(("/", "-")) else msgspec.structs.replace(a, known=False) for a in args]


def _protected(target: Word) -> str:
    """Why writing a file outside the workspace could run code later, or ""."""
    name = next((name for name in target.texts if name.startswith(("/", "~")) and is_protected(name)), "")
    return f"{name} is protected" if name else ""


def _readings(texts: list[str]) -> tuple[str, ...]:
    """The forms of a command that deny and ask rules must check. The command without its folder, git without its global
    options, and each command that may begin after a wrapper."""
    name = texts[0].rsplit("/", 1)[-1]
    found = [[name, *texts[1:]]]
    if name in RUNNERS or INTERPRETERS.fullmatch(name) or " ".join((name, *texts[1:2])) in _RUN_PROGRAMS:
        for at, text in enumerate(texts[1:40], 1):
            if not text.startswith("-") and text:
                found.append([re.sub(r"^\S*/(?=\S)", "", text), *texts[at + 1 :]])
    if name.startswith("git-"):
        found.append(["git", name[4:], *texts[1:]])
    found += [git.without_global_options(words) for words in found if words[0] == "git"]
    return tuple(dict.fromkeys(" ".join(words) for words in found))


def _joined(argv: Sequence[ProgramWord]) -> str:
    return quote_words(arg.text for arg in argv)
