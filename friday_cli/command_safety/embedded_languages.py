"""Classifies programs whose arguments are a language: find, sed, awk, test and a few shell builtins.

Each function returns why the command needs approval, or ""."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from friday_cli.core.text.lazy_regex import pattern

from .context import AnalysisContext
from .directory_scan import FolderSearch
from .options import UNKNOWN_WORD, ProgramSpec, ProgramWord, read
from .readonly_programs import word_set

_TESTS = word_set(
    "-empty -true -false -print -print0 -prune -ls -depth -d -xdev -mount -daystart -readable -writable -executable"
    " -quit -not -a -and -o -or ! ( ) , -nouser -nogroup -noleaf"
)
_TESTS_WITH_WORD = word_set(
    "-name -iname -path -ipath -wholename -iwholename -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin"
    " -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -regex -iregex -regextype -lname -ilname -printf"
    " -newermt -fstype -used"
)
_TESTS_WITH_FILE = frozenset(("-newer", "-anewer", "-cnewer", "-samefile"))
_ACTIONS = frozenset(("-exec", "-print", "-print0", "-printf", "-ls"))
SAFE_ON_ALL_FILES = word_set("wc ls du stat file basename dirname echo md5sum sha1sum sha256sum grep egrep fgrep")
"""Programs that may run on every name that find or git prints: none prints whole files."""
PRINTS = frozenset(("cat", "head", "tail", "nl"))
"""Programs that print whole files: only run on regular files."""
READS = PRINTS | {"grep", "egrep", "fgrep"}
"""Programs that print a part of a file."""
_SED = pattern(
    r"\s*(?:(?:\d+|\$|/(?:\\.|[^/\\\n])*/I?)(?:\s*,\s*(?:\+?\d+|\$|/(?:\\.|[^/\\\n])*/I?))?\s*!?\s*)?"
    r"(?:[pdqDPNnGgHhxl=]|s([/|,#:@!%])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\\n])*\1[gpiI0-9]*)?\s*(?:[;\n]|\Z)"
)


def find(
    args: Sequence[ProgramWord], context: AnalysisContext, directory: str, inner: Callable[[list[ProgramWord]], str]
) -> str:
    """`find`; `inner` classifies the command after -exec."""
    rest = list(args)
    while rest and rest[0].text in ("-H", "-P"):
        rest.pop(0)
    while rest and rest[0].known and not rest[0].text.startswith(("-", "(", "!", ",")):
        start = rest.pop(0)
        if reason := context.path_reason(start.text, directory, glob=start.glob):
            return reason
    while rest:
        arg = rest.pop(0)
        if not arg.known or arg.glob:
            return UNKNOWN_WORD
        if arg.text in _TESTS:
            continue
        if arg.text in _TESTS_WITH_WORD:
            if not rest:
                return f"{arg.text} needs a value"
            word = rest.pop(0)
            if word.glob and (reason := context.path_reason(word.text, directory, glob=True)):  # the shell expands it
                return reason
        elif arg.text in _TESTS_WITH_FILE:
            if not rest or (reason := context.path_reason(rest.pop(0).text, directory)):
                return "it compares with a file outside the workspace"
        elif arg.text == "-exec":
            ends = next((i for i, a in enumerate(rest) if a.text in (";", "+")), len(rest))
            results = find_results([arg.text for arg in args[: len(args) - len(rest)]])
            command, rest = rest[:ends], rest[ends + 1 :]
            if reason := _exec_reason(command, results, context, directory, inner):
                return reason
        else:
            return f"find {arg.text} is not known to be read-only"
    return ""


class FindResults(NamedTuple):
    """The files find prints: below `under`, with names that match one of `globs` (all if empty). `regular_files`: no
    links or folders."""

    regular_files: bool
    globs: tuple[str, ...]
    under: tuple[str, ...]


def find_results(words: Sequence[str]) -> FindResults:
    """What `find` certainly passes to its first action in these arguments, or to an action after them."""
    start = (word for word in words if word not in ("-H", "-P"))
    under = tuple(itertools.takewhile(lambda word: not word.startswith(("-", "(", "!", ",")), start))
    tests = list(_tests(words[len(under) + sum(word in ("-H", "-P") for word in words[:2]) :]))
    regular, either, depth, globs, named = False, False, 0, [], True
    for at, (word, value) in enumerate(tests):
        before, after = tests[at - 1][0] if at else "", tests[at + 1][0] if at + 1 < len(tests) else ""
        negated = before in ("!", "-not")
        depth += (word == "(") - (word == ")")
        if word in ("-o", "-or", ","):
            either = either or depth == 0
            behind_not = at > 1 and tests[at - 2][0] in ("!", "-not")
            named = named and before in ("-name", "-iname") and after in ("-name", "-iname") and not behind_not
        elif negated and word in ("(", "!", "-not"):
            named = False
            either = True
        elif not negated and word == "-type" and value == "f" and depth == 0:
            regular = True
        elif not negated and word in ("-name", "-iname"):
            globs.append(value)
    if {"-o", "-or", ","} & set(itertools.dropwhile(lambda word: word not in _ACTIONS, words)):
        return FindResults(False, (), under)  # a later action gets other files
    return FindResults(regular and not either, tuple(globs) if named else (), under)


def _tests(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The tests of `find` up to its first action, with their values."""
    rest = list(words)
    while rest and rest[0] not in _ACTIONS:
        word = rest.pop(0)
        yield word, rest.pop(0) if word in _TESTS_WITH_WORD | _TESTS_WITH_FILE and rest else ""


def _exec_reason(
    command: list[ProgramWord],
    results: FindResults,
    context: AnalysisContext,
    directory: str,
    inner: Callable[[list[ProgramWord]], str],
) -> str:
    name = command[0].text if command else ""
    if name not in SAFE_ON_ALL_FILES and not (results.regular_files and name in PRINTS):
        return f"find -exec runs {name or 'a program'} on every file"
    if any("{}" in arg.text and arg.text != "{}" for arg in command):
        return "find -exec builds other names"
    if name in READS and searches_folders(command):
        results = FindResults(results.regular_files, (), ())
    if name in READS:
        under = [label for path in results.under for label in context.labels(path, directory)]
        found = context.scan(directory, FolderSearch(tuple(under), vendored=not results.regular_files))
        if reason := found.approval_reason(results.globs, links=not results.regular_files):
            return reason
    return inner([ProgramWord("./x") if arg.text == "{}" else arg for arg in command])


def searches_folders(command: Sequence[ProgramWord]) -> bool:
    """Whether `grep` reads the files below the folders that it gets: then patterns of names tell nothing about them."""
    return any(re.match(r"-[a-zA-Z]*[rRd]|--(?:r|d)", arg.text) for arg in command)


def sed(args: Sequence[ProgramWord]) -> str:
    """`sed`: its scripts. The caller checks its files."""
    parsed = read(args, SED)
    if isinstance(parsed, str):
        return parsed
    scripts = [word.text for name, word in parsed.options if name in ("-e", "--expression") and word is not None]
    if not scripts and parsed.operands:
        scripts = [parsed.operands[0].text]
    if any(operand.glob for operand in parsed.operands[:1]):
        return "its sed script is a pattern"
    for script in scripts:
        if _unusual_bracket(script) or ("s:" in script and "[:" in script):
            # implementations differ on where this expression ends
            return "its sed script is ambiguous"
        at = 0
        while at < len(script):
            match = _SED().match(script, at)
            if match is None or match.end() == at:
                return "its sed script may write files or run programs"
            at = match.end()
    return "" if scripts else "sed needs a script"


SED = ProgramSpec(
    flags="nErsuz",
    values="e",
    lead=1,
    instead="-e --expression",
    long="quiet silent regexp-extended separate unbuffered null-data posix",
    long_values="expression",
)
AWK = ProgramSpec(values="Fv", lead=1)
_AWK_BAD = pattern(
    r"\b(?:system|getline|close|fflush|ARGV|ARGC|ENVIRON|PROCINFO|FUNCTAB|SYMTAB|printf?\s*[^;}\n]*>|function)\b|@|(?<!\|)\|(?!\|)"
)
_PLAIN_BRACKETS = pattern(r"(?:\\.|\[\^?+(?:[^][\\\n/|,#:@!%;{}]|\[:[a-z]+:\])+\]|[^\\\[])*", re.S)
"""A regular expression whose sets of characters contain none that end a part of a program."""
_LITERALS = pattern(r'"(?:\\.|[^"\\\n])*"|(?:(?<=[~!({,;&|}\n])|\A)[ \t]*/(?:\\.|[^/\\\n])+/|#[^\n]*')
"""Strings, patterns (a slash after a value is a division) and comments, in the order awk reads them."""


def awk(args: Sequence[ProgramWord]) -> str:
    """`awk`: its program."""
    parsed = read(args, AWK)
    if isinstance(parsed, str):
        return parsed
    program = parsed.operands[0].text if parsed.operands else ""
    code = _LITERALS().sub('""', program)
    patterns = [match[0] for match in _LITERALS().finditer(program) if match[0].lstrip().startswith("/")]
    if ("/" in code or any(map(_unusual_bracket, patterns))) and ">" in program and "print" in program:
        return "its awk program may write files or run programs"
    if not program or "\\" in code or _AWK_BAD().search(code) or _AWK_BAD().search(program.replace('"', " ")):
        return "its awk program may write files or run programs"
    braces = parentheses = 0
    for char in code:  # in a block, `>` outside of parentheses is a redirection
        braces += (char == "{") - (char == "}")
        parentheses += (char == "(") - (char == ")")
        if braces < 0 or parentheses < 0 or (char == ">" and braces and not parentheses):
            return "its awk program may write files or run programs"
    return ""


def _unusual_bracket(text: str) -> bool:
    """Whether a regular expression has a set of characters whose end, or a delimiter in it, programs read differently."""
    return _PLAIN_BRACKETS().fullmatch(text) is None


def test(args: Sequence[ProgramWord], context: AnalysisContext, directory: str, *, arithmetic: bool) -> str:
    """`test`, `[` or `[[`. `arithmetic`: the operands of -eq are evaluated, as in `[[`."""
    sides = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
    for at, arg in enumerate(args):
        before, after = args[at - 1] if at else ProgramWord(""), args[at + 1] if at + 1 < len(args) else ProgramWord("")
        if arg.known and arg.text in ("-v", "-R") and not (after.known and re.fullmatch(r"\w*", after.text)):
            return "test -v can run commands"
        if arithmetic and arg.text in sides and not all(s.known and s.text.isdigit() for s in (before, after)):
            return "arithmetic in [[ ]] can run commands"
        file = re.fullmatch(r"-[a-hkprstuwxGLNOS]", before.text) or arg.text.startswith(("/", "~"))
        file = file or (arg.glob and not arithmetic)
        if arg.known and file and (reason := context.path_reason(arg.text, directory, glob=arg.glob)):
            return reason
    return ""


def set_builtin(args: Sequence[ProgramWord]) -> str:
    """`set`: only options that change when a script exits."""
    words = [arg.text for arg in args]
    names = {at + 1 for at, word in enumerate(words) if re.fullmatch(r"[-+][eux]*o", word)}
    known = (
        re.fullmatch(r"pipefail|errexit|nounset" if at in names else r"[-+][eux]*o?", w) for at, w in enumerate(words)
    )
    return "" if words and all(known) else "set changes the shell"


def read_builtin(args: Sequence[ProgramWord]) -> str:
    """`read`: only into variables that no program uses."""
    parsed = read(args, ProgramSpec(flags="rs", values="dn", text=True))
    if isinstance(parsed, str):
        return parsed
    if bad := next((arg.text for arg in parsed.operands if not re.fullmatch(r"[a-z_][a-z0-9_]*", arg.text)), ""):
        return f"read sets {bad}"
    return ""
