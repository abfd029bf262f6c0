"""Whether one program with its words only looks around: by its row, by its own language, or behind a wrapper."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from friday_cli.core.permissions.dangerous import is_secret

from . import embedded_languages, git
from .context import AnalysisContext
from .options import ProgramArguments, ProgramSpec, ProgramWord, read
from .readonly_programs import BUILTINS, SHORT_VERSIONS, SPECS, VERSIONED

_XARGS = ProgramSpec(
    flags="0rt",
    values="nPLId",
    long="null no-run-if-empty verbose",
    long_values="max-args max-procs max-lines delimiter",
)
_LISTERS = {"pip": ("list", "show", "freeze"), "pip3": ("list", "show", "freeze"), "npm": ("ls", "list", "root", "prefix"),
            "conda": ("list", "info"), "rustup": ("show",), "go": ("env",)}  # fmt: skip
_SOURCES = frozenset(
    ("py", "python", "js", "ts", "rust", "go", "c", "cpp", "h", "java", "kotlin", "scala", "swift", "ruby", "php", "cs", "lua",
     "html", "css", "md", "markdown", "sql", "sh")
)  # fmt: skip
"""Types of files, as rg names them, that hold sources."""
_VISIBLE = re.compile(r"(?:HOME|PATH|USER|SHELL|LANG|PWD|TERM|VIRTUAL_ENV|GOPATH|GOROOT|JAVA_HOME|NODE_ENV|CI|TMPDIR)")


class PipeInput(msgspec.Struct, frozen=True):
    """What the program before in a pipe prints: names of files below the workspace (`plain`: no links among them,
    `zero`: divided by NUL, `open`: none that git does not know, or searched already; `shy`: none that rg passes over; `globs`
    and `under`: only such), or nothing to rely on."""

    names: bool = False
    plain: bool = False
    zero: bool = False
    open: bool = False
    shy: bool = False
    globs: tuple[str, ...] = ()
    under: tuple[str, ...] = ()


def looks(argv: Sequence[ProgramWord], ground: AnalysisContext, here: str, feed: PipeInput = PipeInput()) -> str:  # noqa: B008
    """Why the command does more than look, "" when it is known only to look in the workspace."""
    name, args = argv[0].text.rsplit("/", 1)[-1], list(argv[1:])
    if argv[0].text not in BUILTINS and (reason := ground.program(argv[0].text)):
        return reason
    asked = args[0].text if len(args) == 1 else ""
    if name in VERSIONED and (reason := ground.steered(name, here)):
        return reason
    if (name in VERSIONED and asked == "--version") or (name, asked) in SHORT_VERSIONS:
        return ""
    if name == "git":
        return git.looks(args, ground, here)
    if name == "find":
        return embedded_languages.find(args, ground, here, lambda inner: looks(inner, ground, here))
    if name == "xargs":
        return _xargs(args, ground, here, feed)
    if name == "test":
        return embedded_languages.test(args, ground, here, arithmetic=False)
    if (own := _own_language(name, args)) is not None:
        if own or name not in ("sed", "awk", "gawk", "mawk"):
            return own
        return _paths(read(args, embedded_languages.SED if name == "sed" else embedded_languages.AWK), ground, here)
    if name == "unzip" and not (args and re.fullmatch(r"-[lZ][lvZ1]*", args[0].text)):
        return "unzip writes files"
    if name == "tar" and args and re.fullmatch(r"-?(?=\w*t)[tvzjJ]+f", args[0].text):
        args = args[1:]  # the first operand is then the archive, the others are names in it
        if args and re.match(r"[^/]*:", args[0].text):
            return "tar would reach another machine"
        return _paths(read(args, ProgramSpec(most=1)), ground, here)
    if (spec := SPECS.get(name)) is None:
        return f"{name} may do more than look"
    given = read(args, spec)
    if isinstance(given, str):
        return given
    return _odd(name, given) or _paths(given, ground, here) or _below(name, given, ground, here)


def _own_language(name: str, args: list[ProgramWord]) -> str | None:
    """The judgement of programs that have no row; None for the others."""
    if name == "sed":
        return embedded_languages.sed(args)
    if name in ("awk", "gawk", "mawk"):
        return embedded_languages.awk(args)
    if name == "set":
        return embedded_languages.setting(args)
    if name == "read":
        return embedded_languages.reading(args)
    if name == "printf":
        return None if args and args[0].known and not args[0].text.startswith("-") else "printf can set variables"
    if name == "printenv":
        shown = args and all(arg.known and _VISIBLE.fullmatch(arg.text) for arg in args)
        return "" if shown else "it shows variables that may hold keys"
    if name == "command" and args and args[0].text in ("-v", "-V"):
        return ""
    if name in _LISTERS and args and args[0].text in _LISTERS[name]:
        spec = ProgramSpec(long="json global all user local", long_values="format depth", flags="gl", text=True)
        given = read(args[1:], spec)
        return given if isinstance(given, str) else ""
    return None


def _odd(name: str, given: ProgramArguments) -> str:
    """What a row cannot say."""
    if name == "date" and any(not arg.text.startswith("+") for arg in given.operands):
        return "date with an operand sets the clock"
    if name == "ps" and any(not re.fullmatch(r"[auxwfljh]+|\d+", arg.text) for arg in given.operands):
        return "ps may show the environment of others"
    if name in ("less", "more") and any(arg.text.startswith("+") for arg in given.operands):
        return f"{name} + runs commands"
    if name == "ps" and any(word is not None and "env" in word.text.lower() for _, word in given.options):
        return "ps may show the environment of others"
    if name == "strings" and any(arg.text.startswith("@") for arg in given.operands):
        return "strings @ reads options from a file"
    if any(option.startswith("--files0") for option, _ in given.options) or (
        name.endswith("sum") and any(option == "-c" or option.startswith("--c") for option, _ in given.options)
    ):
        return f"{name} would read the names of files from a file"
    if name == "man" and any(not re.fullmatch(r"[\w.+-]+", arg.text) for arg in given.operands):
        return "man would read a page from elsewhere"
    if name == "jq":
        program = given.operands[0].text if given.operands else ""
        if re.search(r"\b(?:env|ENV|import|include|input_filename)\b|\$\s*__", program):
            return "its jq program reads more than its input"
    return ""


def _paths(given: ProgramArguments | str, ground: AnalysisContext, here: str) -> str:
    if isinstance(given, str):
        return given
    for arg in given.paths:
        if arg.known and (reason := ground.reach(arg.text, here, glob=arg.glob)):
            return reason
    for name, word in given.options:
        if word is not None and name in ("--include", "--glob", "-g", "--iglob") and is_secret(word.text):
            return f"{word.text} may hold secrets"
    return ""


def _below(name: str, given: ProgramArguments, ground: AnalysisContext, here: str) -> str:
    """Why a program that goes through folders would show a file that nobody named."""
    searches = name in ("grep", "egrep", "fgrep") and given.has("-r", "--recursive", "-d", "--directories")
    rg = name == "rg" and not given.has("--files", "--type-list")
    compares = name == "diff" and given.has("-r", "--recursive")
    if not (searches or rg or (compares and not given.has("-q", "--brief"))):
        return ""
    globs = (
        _only(given) if rg else tuple(w.text for option, w in given.options if option == "--include" and w is not None)
    )
    if globs is None:
        return ""
    shy = rg and not given.has("-.", "-u", "--hidden", "--unrestricted", "--no-ignore", "--no-ignore-vcs")
    under = [label for path in given.paths for label in ground.labels(path.text, here)] or ground.labels(".", here)
    links = compares and not given.has("--no-dereference")
    return ground.tree(here, under, deep=links, shy=shy).shown(globs, links=links)


def _only(given: ProgramArguments) -> tuple[str, ...] | None:
    """The names that rg looks at (none: all of them); None where it looks at sources only."""
    words = [(option, word.text) for option, word in given.options if word is not None]
    types = [text for option, text in words if option in ("-t", "--type")]
    globs = [text for option, text in words if option in ("-g", "--glob", "--iglob")]
    if types and not globs and all(text in _SOURCES for text in types):
        return None
    return tuple(globs) if all(re.fullmatch(r"\*\.\w+", text) for text in globs) else ()


def _xargs(args: list[ProgramWord], ground: AnalysisContext, here: str, feed: PipeInput) -> str:
    at, zero = 0, False
    while at < len(args) and args[at].known and args[at].text.startswith("-"):
        options = read(args[at : at + 1], _XARGS)
        if isinstance(options, str):  # its word is the next one
            options = read(args[at : at + 2], _XARGS)
            at += 1
        if isinstance(options, str):
            return options
        if any(
            word and word.text not in ("\\n", "\\0")
            for option, word in options.options
            if option in ("-d", "--delimiter")
        ):
            return "xargs divides names in its own way"
        zero = zero or options.has("-0", "--null")
        at += 1
    command = args[at:]
    name = command[0].text if command and command[0].known else "echo" if not command else ""
    if name not in embedded_languages.SHOWS and not (
        name in embedded_languages.PRINTS and feed.plain and feed.zero and zero
    ):
        return f"xargs runs {name or 'a program'} on what it reads"
    if not feed.names and name not in ("echo", "basename", "dirname"):
        return "xargs takes names from elsewhere"
    if name not in ("", "echo", "basename", "dirname"):
        parted, reads = not (feed.zero and zero), name in embedded_languages.READS
        under = [label for path in feed.under for label in ground.labels(path, here)]
        tree = ground.tree(here, under, deep=parted or not feed.plain, shy=feed.shy)
        reason = tree.shown(feed.globs, links=reads and not feed.plain, parted=parted, secrets=reads and not feed.open)
        if reason:
            return f"xargs would run {name} on more than it seems: {reason}"
    return looks([*command, ProgramWord("./x")], ground, here) if command else ""


def feeds(argv: Sequence[ProgramWord], before: PipeInput) -> PipeInput:
    """What a command that only looks hands to the next one in a pipe."""
    name, words = argv[0].text, [arg.text for arg in argv[1:]]
    if not all(arg.known for arg in argv):
        return PipeInput()
    if name == "find":
        if "-printf" in words or "-exec" in words or "-ls" in words:
            return PipeInput()
        hits = embedded_languages.found(words)
        return PipeInput(True, hits.plain, "-print0" in words, globs=hits.globs, under=hits.under)
    if name == "git" and words[:1] == ["ls-files"]:
        names = [word for word in words[1:] if not word.startswith("-")]
        globs = tuple(word.rsplit("/", 1)[-1] for word in names) if all("*" in word for word in names) else ()
        others = any(re.fullmatch(r"-\w*[oi]\w*", word) for word in words)
        return PipeInput(
            not any(w.startswith("--") for w in words[1:]), False, "-z" in words, open=not others, globs=globs
        )
    if name == "rg" and ({"-l", "--files", "--files-with-matches"} & set(words)):
        sure = not any(re.match(r"-\w*r|--(?:replace|json|color)", word) for word in words)
        shy = not any(re.match(r"-\w*[u.]|--(?:hidden|no-ig|unres)", word) for word in words)
        given = read(argv[1:], SPECS["rg"])
        paths = () if isinstance(given, str) else tuple(path.text for path in given.paths)
        return PipeInput(sure, True, shy=shy, under=paths or (".",))
    if name in ("grep", "egrep") and any(re.fullmatch(r"-[a-zA-Z]*l[a-zA-Z]*", word) for word in words):
        return PipeInput(not any(word.startswith("--label") for word in words), True, open=True)
    operands = [word for word in words if not word.startswith("-")]
    passes = {"sort": 0, "uniq": 0, "head": 1, "tail": 1, "grep": 1}
    if (
        name in passes
        and len(operands) <= passes[name]
        and not any(re.fullmatch(r"--.*|-\w*[oc]\w*", w) for w in words)
    ):
        return before
    return PipeInput()
