"""What a command does beyond the words in its text: files that it reads unnamed, program text from elsewhere, and options
with which it does more than it usually does. And which of the files that it names it changes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import git
from .context import AnalysisContext
from .embedded_languages import find_results, searches_folders
from .options import ProgramWord, read, url_root
from .readonly_programs import INTERPRETERS, SPECS, WRAPPERS, word_set

_CHANGE = word_set("rm rmdir unlink mv cp install ln rsync scp tee touch truncate shred patch")
_COPY = word_set("cp install ln rsync scp")
"""Those that change their last operand only."""
_CHANGE_IN_GIT = word_set("rm mv restore checkout")
_COPY_FOLDERS = {
    **dict.fromkeys(("cp", "rsync", "scp", "zip"), re.compile(r"-[a-zA-Z]*[rRa]|--recursive|--archive")),
    "tar": re.compile(r"-[a-zA-Z]*[cru]|[a-zA-Z]*[cru][a-zA-Z]*$|--(?:create|append|update)"),
    "7z": re.compile(r"a$"),
}
"""Programs that read all files below a folder, and the words with which they do."""
_ADD_WORDS = word_set("xargs parallel")
_INPUTS = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_GIT_ALIAS = re.compile(r"(?:-c)?alias\..*|--config-env=alias\..*", re.I)
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
    return f"{name} adds words to the command" if name in _ADD_WORDS else ""


def unread_program(argv: Sequence[ProgramWord]) -> str:
    """Why a command may run any program, although its words are known, or ""."""
    name, words = argv[0].text.rsplit("/", 1)[-1], [arg.text for arg in argv[1:]]
    operands = [word for word in words if not word.startswith("-") or word == "-"]
    unknown = any(not arg.known or arg.glob for arg in argv)
    if name in WRAPPERS and (unknown or any(re.match(r"-[a-zA-Z0]*[Ii]|--replace", word) for word in words)):
        return f"{name} runs a program that is not known beforehand"
    runs = INTERPRETERS.fullmatch(name) or name in ("source", ".")
    if runs and (not operands or operands[0] in _INPUTS or "-s" in words):
        informs = any(re.fullmatch(r"--(?:version|help)|-[vVh]", word) for word in words)
        return "" if informs else f"{name} runs its input"
    if name == "git" and any(map(_GIT_ALIAS.fullmatch, words)):
        return "git gets other names for commands"
    return ""


def searched_folders(argv: Sequence[ProgramWord], context: AnalysisContext, directory: str) -> list[str]:
    """The labels of the folders below which a command reads files that it does not name."""
    name, args = argv[0].text.rsplit("/", 1)[-1], argv[1:]
    words = [arg.text for arg in args]
    paths: Sequence[ProgramWord] = ()
    if name in ("grep", "egrep", "fgrep") and searches_folders(args):
        parsed = read(args, SPECS["grep"])
    elif name == "rg" and not {"--files", "--type-list", "--version", "--help"} & set(words):
        parsed = read(args, SPECS["rg"])
    elif name == "diff" and any(re.match(r"-[a-zA-Z]*r|--r", word) for word in words):
        parsed = read(args, SPECS["diff"])
    elif name == "find" and any(word.startswith(("-exec", "-ok")) for word in words):
        paths, parsed = [ProgramWord(path) for path in find_results(words).under], ""
    elif name in _COPY_FOLDERS and any(map(_COPY_FOLDERS[name].match, words)):
        copied = _operands(args)
        copied = copied[:-1] if name in _COPY and not _names_target(words) else copied
        return [label.rstrip("/") for label in _labels(copied, context, directory) if label.endswith("/")]
    elif name == "xargs" or (name == "git" and "grep" in words[:4]) or _reads_unknown(name, argv):
        parsed = ""
    else:
        return []
    if not isinstance(parsed, str):
        paths = parsed.paths
    return list(context.searched_labels(paths, directory)) or ["."]


def changed_labels(name: str, args: Sequence[ProgramWord], context: AnalysisContext, directory: str) -> list[str]:
    """The labels of what a program changes by naming it; that of a folder ends with `/`, and "./" is an unknown path."""
    words, operands = [arg.text for arg in args], _operands(args)
    programs = [word.rsplit("/", 1)[-1] for word in words]
    settings = "config" in words and "git" in programs
    changing = next((at for at, word in enumerate(programs) if word in _CHANGE or (settings and word == "git")), None)
    if name in WRAPPERS and changing is not None:
        inner = changed_labels(words[changing].rsplit("/", 1)[-1], args[changing + 1 :], context, directory)
        return [*inner, "./"] if name in _ADD_WORDS else inner
    if name == "find":
        changes = changing is not None or "-delete" in words
        operands = [ProgramWord(path) for path in find_results(words).under] if changes else []
    elif name == "git" and (plain := git.without_global_options(["git", *words])[1:])[:1] == ["config"]:
        file = git.changed_settings(plain[1:])
        operands = [ProgramWord(re.sub(r"^~(?=/)", lambda _: context.home, file))] if file else []
    elif name == "git":
        operands = operands[1:] if operands and operands[0].text in _CHANGE_IN_GIT else []
    elif name == "dd":
        operands = [ProgramWord(arg.text[3:], arg.glob, arg.known) for arg in operands if arg.text.startswith("of=")]
    elif name in ("sed", "perl"):
        operands = operands if any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in words) else []
    elif name not in _CHANGE:
        return []
    elif name in _COPY and not _names_target(words):
        operands = operands[-1:]
    return _labels(operands, context, directory)


def _operands(args: Sequence[ProgramWord]) -> list[ProgramWord]:
    return [arg for arg in args if not (arg.known and arg.text.startswith("-"))]


def _names_target(words: Sequence[str]) -> bool:
    """Whether the folder to copy to is not the last operand."""
    return any(re.match(r"-[a-zA-Z]*t$|--target-d", word) for word in words)


def _labels(args: Sequence[ProgramWord], context: AnalysisContext, directory: str) -> list[str]:
    """The labels of what these words name, as in `changed_labels`."""
    found = []
    for arg in args:
        if not arg.known:
            found.append("./")
            continue
        found += context.named_labels(arg.text, directory) if arg.text else ()
        for name in context.matching_labels(arg.text, directory) if arg.glob else ():
            found += context.named_labels(name, "")
    return found


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
