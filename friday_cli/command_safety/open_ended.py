"""What a command does beyond the words in its text: files that it reads unnamed, program text from elsewhere, and options
with which it does more than it usually does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from friday_cli.core.text.lazy_regex import pattern

from .changed_files import ADD_WORDS, COPIERS, labels_of, names_target, operands
from .context import AnalysisContext
from .embedded_languages import find_results, searches_folders
from .options import ProgramArguments, ProgramWord, read, url_root
from .readonly_programs import INTERPRETERS, SPECS, WRAPPERS, word_set

_COPY_FOLDERS = {
    **dict.fromkeys(("cp", "rsync", "scp", "zip"), re.compile(r"-[a-zA-Z]*[rRa]|--recursive|--archive")),
    "tar": re.compile(r"-[a-zA-Z]*[cru]|[a-zA-Z]*[cru][a-zA-Z]*$|--(?:create|append|update)"),
    "7z": re.compile(r"a$"),
    "ln": re.compile(""),
}
"""Programs that read all files below a folder, or give them another name, and the words with which they do."""
_NAMES_IN_A_FILE = pattern(r"--files0?-from(?:=.*)?|--pathspec-from-file(?:=.*)?")
"""Options, of whichever program, that name a file with the names of files to read."""
_SEARCH_IN_GIT = word_set("grep archive format-patch fast-export checkout-index --batch --batch-command")
"""Words of git commands that show files which they do not name, and are not for showing a difference."""
_INPUTS = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_GIT_ALIAS = pattern(r"(?:-c)?alias\..*|--config-env=alias\..*", re.I)
_RISKY_LONG = {
    "git": re.compile(
        r"--(?:ou|ext-d|textc|open-f|exec|upload-p|receive-p|no-v|file|template|pathspec-f|config-e|gpg|inter|edit)\S*"
    ),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), re.compile(r"--(?:script-shell|prefix|node-options|dir|cwd)\S*")),
}
"""Long options, also abbreviated."""
_RISKY_SHORT = {
    ("git", "commit"): ("ntFeSp", "mcCu"),
    ("git", "grep"): ("O", "eABCm"),
    ("git", "add"): ("ieEp", ""),
    ("npm", ""): ("C", ""),
    ("pnpm", ""): ("C", ""),
}
"""Letters of short options, and those that have a value, after which no other letter is an option."""


def unread_words(argv: Sequence[ProgramWord]) -> str:
    """Why not all words of a command are in its text, or ""."""
    if not all(arg.known and not arg.glob for arg in argv):
        return "one of its words is not known before it runs"
    name = argv[0].text.rsplit("/", 1)[-1]
    return f"{name} adds words to the command" if name in ADD_WORDS else ""


def unread_program(argv: Sequence[ProgramWord]) -> str:
    """Why a command may run any program, although its words are known, or ""."""
    name, words = argv[0].text.rsplit("/", 1)[-1], [arg.text for arg in argv[1:]]
    given = [word for word in words if not word.startswith("-") or word == "-"]
    unknown = any(not arg.known or arg.glob for arg in argv)
    if name in WRAPPERS and (unknown or any(re.match(r"-[a-zA-Z0]*[Ii]|--replace", word) for word in words)):
        return f"{name} runs a program that is not known beforehand"
    runs = INTERPRETERS.fullmatch(name) or name in ("source", ".")
    if runs and (not given or given[0] in _INPUTS or "-s" in words):
        informs = any(re.fullmatch(r"--(?:version|help)|-[vVh]", word) for word in words)
        return "" if informs else f"{name} runs its input"
    if name == "git" and any(map(_GIT_ALIAS().fullmatch, words)):
        return "git gets other names for commands"
    return ""


def searched_folders(argv: Sequence[ProgramWord], context: AnalysisContext, directory: str) -> list[str]:
    """The labels of the folders below which a command reads files that it does not name."""
    name, args = argv[0].text.rsplit("/", 1)[-1], argv[1:]
    words = [arg.text for arg in args]
    paths: Sequence[ProgramWord] = ()
    if any(map(_NAMES_IN_A_FILE().fullmatch, words)) or (
        name == "tar" and any(re.match("-?[a-zA-Z]*T", w) for w in words)
    ):
        parsed: ProgramArguments | str = ""
    elif name in ("grep", "egrep", "fgrep") and searches_folders(args):
        parsed = read(args, SPECS["grep"])
    elif name == "rg" and not {"--files", "--type-list", "--version", "--help"} & set(words):
        parsed = read(args, SPECS["rg"])
    elif name == "diff" and any(re.match(r"-[a-zA-Z]*r|--r", word) for word in words):
        parsed = read(args, SPECS["diff"])
    elif name == "find" and any(word.startswith(("-exec", "-ok")) for word in words):
        paths, parsed = [ProgramWord(path) for path in find_results(words).under], ""
    elif name in _COPY_FOLDERS and any(map(_COPY_FOLDERS[name].match, words)):
        copied = operands(args)
        copied = copied[:-1] if name in COPIERS and not names_target(words) else copied
        return [label.rstrip("/") for label in labels_of(copied, context, directory) if label.endswith("/")]
    elif (
        name in ("xargs", "cpio", "pax")
        or (name == "git" and _SEARCH_IN_GIT & {*words[:4]})
        or _reads_unknown(name, argv)
    ):
        parsed = ""
    else:
        return []
    if not isinstance(parsed, str):
        paths = parsed.paths
    return list(context.searched_labels(paths, directory)) or ["."]


def _reads_unknown(name: str, argv: Sequence[ProgramWord]) -> bool:
    """Whether a program that reads the files in its operands gets one that is not known before it runs."""
    spec = SPECS.get(name)
    reader = name in ("sed", "awk", "gawk", "mawk") or (spec is not None and not spec.text and spec.most > 0)
    return reader and any(not arg.known for arg in argv)


def risky_options(words: Sequence[str]) -> tuple[str, ...]:
    """The options with which a command does more than a rule such as `git diff *` seems to allow."""
    name = words[0].rsplit("/", 1)[-1]
    if name == "curl":  # where it goes and what it does there: all but the path of the one address
        return tuple((word if word.startswith("-") else url_root(word)).partition("=")[0] for word in words[1:])
    found = [word for word in words[1:] if name in _RISKY_LONG and _RISKY_LONG[name].fullmatch(word)]
    letters, values = next(
        (both for (program, sub), both in _RISKY_SHORT.items() if program == name and (not sub or sub in words[1:2])),
        ("", ""),
    )
    for word in words[1:]:
        if word == "--":
            break
        if letters and re.match(rf"-[^-{values}]*?[{letters}]" if values else rf"-[^-]*[{letters}]", word):
            found.append(word)
    return tuple(option.partition("=")[0] for option in found)
