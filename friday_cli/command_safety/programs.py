"""Whether one program with its arguments is read-only: by its table row, or by its own small language."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from friday_cli.core.permissions.dangerous import is_secret

from . import embedded_languages, git
from .context import AnalysisContext
from .directory_scan import FolderSearch
from .options import ProgramArguments, ProgramSpec, ProgramWord, read
from .readonly_programs import BUILTINS, SHORT_VERSIONS, SPECS, VERSIONED, word_set

_XARGS = ProgramSpec(
    flags="0rt",
    values="nPLId",
    long="null no-run-if-empty verbose",
    long_values="max-args max-procs max-lines delimiter",
)
_LISTERS = {
    "pip": ("list", "show", "freeze"),
    "pip3": ("list", "show", "freeze"),
    "npm": ("ls", "list", "root", "prefix"),
    "conda": ("list", "info"),
    "rustup": ("show",),
    "go": ("env",),
}
_LANGUAGES = {
    "sed": embedded_languages.sed,
    "set": embedded_languages.set_builtin,
    **dict.fromkeys(("awk", "gawk", "mawk"), embedded_languages.awk),
}
_SOURCES = frozenset(
    (
        "py",
        "python",
        "js",
        "ts",
        "rust",
        "go",
        "c",
        "cpp",
        "h",
        "java",
        "kotlin",
        "scala",
        "swift",
        "ruby",
        "php",
        "cs",
        "lua",
        "html",
        "css",
        "md",
        "markdown",
        "sql",
        "sh",
    )
)
"""Types of source files, as rg names them."""
_DATA = frozenset(("json", "yaml", "toml", "xml", "config", "txt", "csv", "docker", "make", "cmake", "less", "sass"))
"""Types of other files that are rarely hidden. Any further type, such as `all`, may show a hidden secret."""
_TYPED = (".env.*", ".yarnrc.yml")
"""Hidden files with secrets that have one of these types."""
_DIGITS = frozenset(f"-{digit}" for digit in "0123456789")
_VISIBLE = re.compile(r"(?:HOME|PATH|USER|SHELL|LANG|PWD|TERM|VIRTUAL_ENV|GOPATH|GOROOT|JAVA_HOME|NODE_ENV|CI|TMPDIR)")


class PipeInput(msgspec.Struct, frozen=True):
    """What the previous program of a pipeline prints. `file_names`: names of files in the workspace (False: unknown
    output); `regular_files`: no links among them; `nul_separated`: separated by NUL; `checked`: only files that git
    tracks, or whose contents were already searched; `skip_ignored`: no hidden or ignored files. `globs`, `under`:
    patterns and folders all of them match."""

    file_names: bool = False
    regular_files: bool = False
    nul_separated: bool = False
    checked: bool = False
    skip_ignored: bool = False
    globs: tuple[str, ...] = ()
    under: tuple[str, ...] = ()


NO_INPUT = PipeInput()
_PASSES_NAMES_ON: dict[str, frozenset[str]] = {
    "sort": word_set("-u -r -n -V -f -h -k -t"), "uniq": word_set("-u -d -i"),
    "head": word_set("-n --lines -q") | _DIGITS,
    "tail": word_set("-n --lines -q") | _DIGITS,
    "grep": word_set("-v -i -E -F -G -P -w -x -e -m --invert-match --ignore-case --regexp --max-count"),
}  # fmt: skip
"""Programs that print whole lines of their input, with the options under which they do."""


def approval_reason(
    argv: Sequence[ProgramWord], context: AnalysisContext, directory: str, pipe_input: PipeInput = NO_INPUT
) -> str:
    """Why the command needs approval, or "" if it is known to be read-only inside the workspace."""
    name, args = argv[0].text.rsplit("/", 1)[-1], list(argv[1:])
    if argv[0].text not in BUILTINS and (reason := context.program_reason(argv[0].text)):
        return reason
    for arg in args:  # wherever it is: the first names may become options or a pattern to search, the others files
        if arg.glob and (reason := context.path_reason(arg.text, directory, glob=True)):
            return reason
    only_argument = args[0].text if len(args) == 1 else ""
    if name in VERSIONED and (reason := context.override_reason(name, directory)):
        return reason
    if (name in VERSIONED and only_argument == "--version") or (name, only_argument) in SHORT_VERSIONS:
        return ""
    if name == "git":
        return git.approval_reason(args, context, directory)
    if name == "find":
        return embedded_languages.find(args, context, directory, lambda argv: approval_reason(argv, context, directory))
    if name == "xargs":
        return _xargs(args, context, directory, pipe_input)
    if name == "test":
        return embedded_languages.test(args, context, directory, arithmetic=False)
    if (language_reason := _language_reason(name, args)) is not None:
        if language_reason or name not in ("sed", "awk", "gawk", "mawk"):
            return language_reason
        files = embedded_languages.SED if name == "sed" else embedded_languages.AWK
        return _path_reason(read(args, files), context, directory)
    if name == "unzip" and not (args and re.fullmatch(r"-[lZ][lvZ1]*", args[0].text)):
        return "unzip writes files"
    if name == "tar" and args and re.fullmatch(r"-?(?=\w*t)[tvzjJ]+f", args[0].text):
        args = args[1:]  # the first operand is then the archive, the others are names in it
        if args and re.match(r"[^/]*:", args[0].text):
            return "tar would contact another host"
        return _path_reason(read(args, ProgramSpec(most=1)), context, directory)
    if (spec := SPECS.get(name)) is None:
        return f"{name} is not known to be read-only"
    parsed = read(args, spec)
    if isinstance(parsed, str):
        return parsed
    return (
        _special_reason(name, parsed)
        or _path_reason(parsed, context, directory)
        or _recursive_reason(name, parsed, context, directory)
    )


def _language_reason(name: str, args: list[ProgramWord]) -> str | None:
    """Why a program without a table row needs approval, or ""; None for other programs."""
    if name in _LANGUAGES:
        return _LANGUAGES[name](args)
    if name == "printf":
        sets = not args or not args[0].known or re.search(r"\A-|%[^a-zA-Z%]*[hlLjzt]*n", args[0].text)
        return "printf can set variables" if sets else None
    if name == "printenv":
        shown = args and all(arg.known and _VISIBLE.fullmatch(arg.text) for arg in args)
        return "" if shown else "it prints variables that may hold secrets"
    if name == "command" and args and args[0].text in ("-v", "-V"):
        return ""
    if name in _LISTERS and args and args[0].text in _LISTERS[name]:
        spec = ProgramSpec(long="json global all user local", long_values="format depth", flags="gl", text=True)
        parsed = read(args[1:], spec)
        return parsed if isinstance(parsed, str) else ""
    return None


def _special_reason(name: str, parsed: ProgramArguments) -> str:
    """Checks that a table row cannot express."""
    if name == "date" and any(not arg.text.startswith("+") for arg in parsed.operands):
        return "date with an operand sets the clock"
    if name == "ps" and any(not re.fullmatch(r"[auxwfljh]+|\d+", arg.text) for arg in parsed.operands):
        return "ps may print the environment of other processes"
    if name in ("less", "more") and any(arg.text.startswith("+") for arg in parsed.operands):
        return f"{name} + runs commands"
    if name == "ps" and any(word is not None and "env" in word.text.lower() for _, word in parsed.options):
        return "ps may print the environment of other processes"
    if name == "strings" and any(arg.text.startswith("@") for arg in parsed.operands):
        return "strings @ reads options from a file"
    checks = name.endswith("sum") and any(option == "-c" or option.startswith("--c") for option, _ in parsed.options)
    names_file = "--f" if name in ("wc", "du") else "--files0"  # long options can be abbreviated
    if checks or any(option.startswith(names_file) for option, _ in parsed.options):
        return f"{name} reads file names from a file"
    if name == "man" and any(not re.fullmatch(r"[\w.+-]+", arg.text) for arg in parsed.operands):
        return "man would read a file as a page"
    if name == "jq":
        program = parsed.operands[0].text if parsed.operands else ""
        if re.search(r"\b(?:env|ENV|import|include|input_filename|modulemeta)\b|\$\s*__", program):
            return "its jq program reads more than its input"
    return ""


def _path_reason(parsed: ProgramArguments | str, context: AnalysisContext, directory: str) -> str:
    if isinstance(parsed, str):
        return parsed
    for arg in parsed.paths:
        if arg.known and (reason := context.path_reason(arg.text, directory, glob=arg.glob)):
            return reason
    for name, word in parsed.options:
        if word is not None and name in ("--include", "--glob", "-g", "--iglob") and is_secret(word.text):
            return f"{word.text} may hold secrets"
    return ""


def _recursive_reason(name: str, parsed: ProgramArguments, context: AnalysisContext, directory: str) -> str:
    """Why a recursive program might print a file that the command does not name, or ""."""
    searches = name in ("grep", "egrep", "fgrep") and parsed.has("-r", "--recursive", "-d", "--directories")
    rg = name == "rg" and not parsed.has("--files", "--type-list")
    compares = name == "diff" and parsed.has("-r", "--recursive")
    if not (searches or rg or (compares and not parsed.has("-q", "--brief"))):
        return ""
    included = tuple(w.text for option, w in parsed.options if option == "--include" and w is not None)
    under = context.searched_labels(parsed.paths, directory)
    if rg:
        for globs, search in _rg_searches(parsed):
            found = context.scan(directory, search._replace(under=tuple(under)))
            if reason := found.approval_reason(globs, links=False):
                return reason
        return ""
    links = compares and not parsed.has("--no-dereference")
    found = context.scan(directory, FolderSearch(tuple(under), vendored=links))
    return found.approval_reason(included, links=links, follows=links)


_NO_VENDORED = FolderSearch(vendored=False)


def _rg_searches(parsed: ProgramArguments) -> list[tuple[tuple[str, ...], FolderSearch]]:
    """What rg searches: file name patterns (empty: all files), and how it goes through a folder, leniently where all patterns are for
    source files. A file that matches a pattern of `-g` is searched although it is hidden or ignored, one that matches a type
    although it is hidden."""
    words = [(option, word.text) for option, word in parsed.options if word is not None]
    types = [text for option, text in words if option in ("-t", "--type")]
    globs = [text for option, text in words if option in ("-g", "--glob", "--iglob") and not text.startswith("!")]
    skip_ignored = not parsed.has("-.", "-u", "--hidden", "--unrestricted", "--no-ignore", "--no-ignore-vcs")
    if types and not globs and not (_SOURCES | _DATA).issuperset(types):
        return [((), _NO_VENDORED)]
    if types and not globs:
        whole = [] if _SOURCES.issuperset(types) else [((), _NO_VENDORED._replace(skip_ignored=skip_ignored))]
        return [(_TYPED, _NO_VENDORED._replace(lenient=True)), *whole]
    lenient = all(
        re.fullmatch(r"(?:.*/)?\*\.(\w+)", text, re.S) and text.rpartition(".")[2] in _SOURCES for text in globs
    )
    search = FolderSearch((), vendored=False, skip_ignored=skip_ignored and not globs, lenient=bool(globs) and lenient)
    return [(tuple(globs), search)]


def _xargs(args: list[ProgramWord], context: AnalysisContext, directory: str, pipe_input: PipeInput) -> str:
    at, nul_separated = 0, False
    while at < len(args) and args[at].known and args[at].text.startswith("-"):
        options = read(args[at : at + 1], _XARGS)
        if isinstance(options, str):  # its value is the next word
            options = read(args[at : at + 2], _XARGS)
            at += 1
        if isinstance(options, str):
            return options
        delimiters = [word.text for option, word in options.options if option in ("-d", "--delimiter") and word]
        if not {"\\n", "\\0"}.issuperset(delimiters):
            return "xargs uses its own delimiter"
        nul_separated = nul_separated or options.has("-0", "--null")
        at += 1
    command = args[at:]
    name = command[0].text if command and command[0].known else "echo" if not command else ""
    if name not in embedded_languages.SAFE_ON_ALL_FILES and not (
        name in embedded_languages.PRINTS and pipe_input.regular_files and pipe_input.nul_separated and nul_separated
    ):
        return f"xargs runs {name or 'a program'} on its input"
    if not pipe_input.file_names and name not in ("echo", "basename", "dirname"):
        return "the names that xargs gets are not known"
    if name not in ("", "echo", "basename", "dirname"):
        split_on_blanks, reads = not (pipe_input.nul_separated and nul_separated), name in embedded_languages.READS
        if reads and embedded_languages.searches_folders(command):
            pipe_input = PipeInput(True)
        under = [label for path in pipe_input.under for label in context.labels(path, directory)]
        vendored, links = split_on_blanks or not pipe_input.regular_files, reads and not pipe_input.regular_files
        tree = context.scan(directory, FolderSearch(tuple(under), vendored, pipe_input.skip_ignored))
        secrets = reads and not pipe_input.checked
        if reason := tree.approval_reason(
            pipe_input.globs,
            links=links,
            split_on_blanks=split_on_blanks,
            secrets=secrets,
            follows=pipe_input.checked and not pipe_input.regular_files,
        ):
            return f"xargs would run {name} on unexpected files: {reason}"
        if split_on_blanks and pipe_input.checked and (reason := context.index_reason(directory)):
            return f"xargs would run {name} on unexpected files: {reason}"
    return approval_reason([*command, ProgramWord("./x")], context, directory) if command else ""


def pipe_output(argv: Sequence[ProgramWord], before: PipeInput) -> PipeInput:
    """What a read-only command passes to the next one in a pipeline."""
    name, words = argv[0].text, [arg.text for arg in argv[1:]]
    if not all(arg.known for arg in argv):
        return PipeInput()
    if name == "find":
        if "-printf" in words or "-exec" in words or "-ls" in words:
            return PipeInput()
        results = embedded_languages.find_results(words)
        return PipeInput(True, results.regular_files, "-print0" in words, globs=results.globs, under=results.under)
    if name == "git" and words[:1] == ["ls-files"]:
        names = [word for word in words[1:] if not word.startswith("-")]
        globs = tuple(word.rsplit("/", 1)[-1] for word in names) if all("*" in word for word in names) else ()
        others = any(re.fullmatch(r"-\w*[oi]\w*", word) for word in words)
        plain = not any(word.startswith(("--", ":")) or ".." in word for word in words[1:])
        return PipeInput(plain, nul_separated="-z" in words, checked=not others, globs=globs)
    if name == "rg" and ({"-l", "--files", "--files-with-matches"} & set(words)):
        certain = not any(re.match(r"-\w*r|--(?:replace|json|color)", word) for word in words)
        parsed = read(argv[1:], SPECS["rg"])
        if isinstance(parsed, str):
            return PipeInput()
        searches = _rg_searches(parsed)
        globs, search = searches[0] if len(searches) == 1 else ((), _NO_VENDORED)
        paths = tuple(path.text for path in parsed.paths)
        return PipeInput(certain, True, skip_ignored=search.skip_ignored, globs=globs, under=paths or (".",))
    if name in ("grep", "egrep") and any(re.fullmatch(r"-[a-zA-Z]*l[a-zA-Z]*", word) for word in words):
        return PipeInput(not any(word.startswith("--label") for word in words), True, checked=True)
    if (flags := _PASSES_NAMES_ON.get(name)) is None or not before.file_names:
        return PipeInput()
    parsed = read(argv[1:], SPECS[name])
    same = not isinstance(parsed, str) and not parsed.paths and all(option in flags for option, _ in parsed.options)
    return msgspec.structs.replace(before, nul_separated=False) if same else PipeInput()
