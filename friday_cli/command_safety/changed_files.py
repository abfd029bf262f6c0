"""Which files a command changes, as far as its words show it: for the deny and ask rules for changing files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from friday_cli.core.text.lazy_regex import pattern

from . import git
from .context import AnalysisContext
from .embedded_languages import find_results
from .options import ProgramWord
from .readonly_programs import INTERPRETERS, RUNNERS, SHELLS, WRAPPERS, word_set

ADD_WORDS = word_set("xargs parallel")
"""Programs that add words to the command that they run."""
COPIERS = word_set("cp install rsync scp")
"""Programs that change their last operand only."""
_CHANGE = COPIERS | word_set(
    "rm rmdir unlink mv ln tee touch truncate shred patch mkdir mkfifo mknod mktemp chmod chown chgrp chattr setfacl fallocate"
    " ed ex vi vim nvim nano emacs sponge rename prename split csplit script logsave ar zip ssh-keygen"
    " gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd lz4 compress uncompress"
)
"""Programs that change the files in their operands. `ln` is one: what is written to a link changes its target."""
_PACKERS = word_set("gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd lz4 compress uncompress")
_PACK_TO_OUTPUT = pattern(r"-[a-zA-Z]*[ctl][a-zA-Z]*|--(?:stdout|to-stdout|test|list)")
_LINKS = pattern(r"-[a-zA-Z]*[ls][a-zA-Z]*|--(?:link|symbolic-link)")
"""Options with which `cp` makes links."""
_UNPACK = {
    "tar": re.compile(r"-?[a-zA-Z]*x[a-zA-Z]*|--(?:extract|get)"),
    "unzip": re.compile(r"(?!-[a-zA-Z]*[lptvZ]).*"),
    "cpio": re.compile(r"-[a-zA-Z]*[ip][a-zA-Z]*|--(?:extract|pass-through)"),
    **dict.fromkeys(("7z", "7za", "bsdtar"), re.compile(r"-?x")),
}
"""Programs that make the files of an archive, and the word with which they do."""
_OUTPUT = re.compile(r"-[a-zA-Z]*[oO]|-out|--(?:out|log-file|target|dest|directory-prefix)[\w-]*|-f(?:printf?0?|ls)")
"""Options, of whichever program, whose value is a file or folder that it writes."""
_JOINED_OUTPUT = pattern(r"(?:--(?:out|log-file|target|dest|directory-prefix)[\w-]*=|-[oOt])([^=-].*)", re.S)
_PATHS_IN_GIT = word_set("rm mv restore checkout worktree init clone submodule")
_TREE_IN_GIT = word_set("apply am checkout-index read-tree clean filter-branch")
"""Commands of git that change files of the working tree which they do not name, to something else than another commit has."""
_SHELL_TEXT = SHELLS | word_set("eval trap alias script su watch flock ssh")
"""Programs that run a part of their arguments in a shell."""
_MESSAGES = word_set("git gh glab hg jj svn")
"""Programs whose arguments are rather messages than program text."""
_NO_NAME = pattern(r"[^\w./~@+,\[\]*?-]+")
MAX_EMBEDDED = 50
"""Names of files in the program text of one command that are looked at."""


def changed_labels(name: str, args: Sequence[ProgramWord], context: AnalysisContext, directory: str) -> list[str]:
    """The labels of what a program changes by naming it; that of a folder ends with `/`, and "./" is an unknown path."""
    words = [arg.text for arg in args]
    programs = [word.rsplit("/", 1)[-1] for word in words]
    settings = "config" in words and "git" in programs
    changing = next((at for at, word in enumerate(programs) if word in _CHANGE or (settings and word == "git")), None)
    if name in WRAPPERS and changing is not None:
        inner = changed_labels(words[changing].rsplit("/", 1)[-1], args[changing + 1 :], context, directory)
        return [*inner, "./"] if name in ADD_WORDS else inner
    if name == "find":
        changes = changing is not None or "-delete" in words
        named = [ProgramWord(path) for path in find_results(words).under] if changes else []
    elif name == "git":
        named = _by_git(args, context)
    elif name == "dd":
        named = [ProgramWord(arg.text[3:], arg.glob, arg.known) for arg in args if arg.text.startswith("of=")]
    elif name in ("sed", "perl"):
        in_place = any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in words)
        named = operands(args) if in_place else []
    elif name == "uniq":
        named = operands(args)[1:]
    elif name in _UNPACK and any(map(_UNPACK[name].fullmatch, words[:1] if name == "tar" else words)):
        named = _after(args, re.compile(r"-C|-d|--directory")) or [ProgramWord(".")]
    elif name == "tar":
        named = (
            [] if {"t", "-t"} & {word[:2] for word in words[:1]} else _after(args, re.compile(r"-?[a-zA-Z]*f|--file"))
        )
    elif name in _CHANGE and not (name in _PACKERS and any(map(_PACK_TO_OUTPUT().fullmatch, words))):
        named = operands(args)
        if name in COPIERS and not names_target(words) and not any(map(_LINKS().fullmatch, words)):
            named = named[-1:]
        if name == "patch" and not named:
            named = [ProgramWord(".")]
    else:
        named = []
    named = [*named, *_after(args, _OUTPUT)]
    named += [
        ProgramWord(found[1], arg.glob) for arg in args if arg.known and (found := _JOINED_OUTPUT().fullmatch(arg.text))
    ]
    runs_text = name in RUNNERS or INTERPRETERS.fullmatch(name)
    return labels_of([*named, *(embedded_names(name, args) if runs_text else ())], context, directory)


def program_text(name: str, args: Sequence[ProgramWord]) -> list[ProgramWord]:
    """The arguments that are program text (`python -c`, also behind another program), what looks like a file's name in them, and
    the names of modules that are run (`python -m`)."""
    if not any(INTERPRETERS.fullmatch(word.rsplit("/", 1)[-1]) for word in (name, *(arg.text for arg in args))):
        return []
    modules = [arg for option, arg in itertools.pairwise(args) if option.text == "-m"]
    return [*(arg for arg in args if _NO_NAME().search(arg.text)), *embedded_names(name, args), *modules]


def embedded_names(name: str, args: Sequence[ProgramWord]) -> list[ProgramWord]:
    """What looks like the name of a file inside an argument, as in program text: `python -c`, `awk`, `eval`, `flock x -c`. A
    word that is not known stands for names that a shell puts together."""
    if name in _MESSAGES:
        return []
    texts = [arg.text for arg in args if _NO_NAME().search(arg.text)]
    found = [part.rstrip(".,") for text in texts for part in _NO_NAME().split(text)]
    in_shell = not _SHELL_TEXT.isdisjoint((name, *(arg.text.rsplit("/", 1)[-1] for arg in args)))
    unread = [ProgramWord("", known=False)] if in_shell and any(re.search(r"[$`]", text) for text in texts) else []
    unique = dict.fromkeys(part for part in found if "/" in part.strip("/") or "." in part.strip("."))
    return unread + [ProgramWord(part, glob=bool(re.search(r"[*?\[]", part))) for part in [*unique][:MAX_EMBEDDED]]


def _by_git(args: Sequence[ProgramWord], context: AnalysisContext) -> list[ProgramWord]:
    """What a git command changes."""
    plain = git.without_global_options(["git", *(arg.text for arg in args)])[1:]
    if plain[:1] == ["config"]:
        file = git.changed_settings(plain[1:])
        return [ProgramWord(re.sub(r"^~(?=/)", lambda _: context.home, file))] if file else []
    named = operands(args)
    command, rest = (plain[0], plain[1:]) if plain else ("", [])
    found = named[1:] if named and named[0].text in _PATHS_IN_GIT else []
    if command in _TREE_IN_GIT and not {"--check", "--stat", "--cached", "-n", "--dry-run"} & set(rest):
        found = [*found, ProgramWord(".")]
    return found


def _after(args: Sequence[ProgramWord], option: re.Pattern[str]) -> list[ProgramWord]:
    """The words behind an option."""
    return [args[at + 1] for at, arg in enumerate(args[:-1]) if arg.known and option.fullmatch(arg.text)]


def operands(args: Sequence[ProgramWord]) -> list[ProgramWord]:
    """The arguments that are not options, with the separate values of options."""
    return [arg for arg in args if not (arg.known and arg.text.startswith("-"))]


def names_target(words: Sequence[str]) -> bool:
    """Whether the folder to copy to is not the last operand."""
    return any(re.match(r"-[a-zA-Z]*t|--target-d", word) for word in words)


def labels_of(args: Sequence[ProgramWord], context: AnalysisContext, directory: str) -> list[str]:
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
