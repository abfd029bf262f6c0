"""Programs whose words are a small language of their own: find, sed, awk, test and a few of the shell's."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from .context import AnalysisContext
from .options import ProgramSpec, ProgramWord, read
from .readonly_programs import word_set

_TESTS = word_set(
    """
    -empty -true -false -print -print0 -prune -ls -depth -d -xdev -mount -daystart -readable -writable -executable
    -quit -not -a -and -o -or ! ( ) , -nouser -nogroup -noleaf
    """
)
_TESTS_WITH_WORD = word_set(
    """
    -name -iname -path -ipath -wholename -iwholename -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin
    -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -regex -iregex -regextype -lname -ilname -printf
    -newermt -fstype -used
    """
)
SHOWS = word_set("wc ls du stat file basename dirname echo md5sum sha1sum sha256sum grep egrep fgrep")
"""What may be run on names that find or git gave: nothing that prints whole files."""
PRINTS = frozenset(("cat", "head", "tail", "nl"))
"""Programs that print whole files: only on plain ones."""
READS = PRINTS | {"grep", "egrep", "fgrep"}
"""Programs that print something of what is in files."""
_SED = re.compile(
    r"\s*(?:(?:\d+|\$|/(?:\\.|[^/\\\n])*/I?)(?:\s*,\s*(?:\+?\d+|\$|/(?:\\.|[^/\\\n])*/I?))?\s*!?\s*)?"
    r"(?:[pdqDPNnGgHhxl=]|s([/|,#:@!%])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\\n])*\1[gpiI0-9]*)?\s*(?:[;\n]|\Z)"
)


def find(
    args: Sequence[ProgramWord], ground: AnalysisContext, here: str, inner: Callable[[list[ProgramWord]], str]
) -> str:
    """Why a find does more than look; `inner` judges what it would run."""
    rest = list(args)
    while rest and rest[0].text in ("-H", "-P"):
        rest.pop(0)
    while rest and rest[0].known and not rest[0].text.startswith(("-", "(", "!", ",")):
        start = rest.pop(0)
        if reason := ground.reach(start.text, here, glob=start.glob):
            return reason
    hits = found([arg.text for arg in args])
    while rest:
        arg = rest.pop(0)
        if not arg.known or arg.glob:
            return "a word of it is not known beforehand"
        if arg.text in _TESTS:
            continue
        if arg.text in _TESTS_WITH_WORD:
            if not rest:
                return f"{arg.text} lacks its word"
            word = rest.pop(0)
            if word.glob and (reason := ground.reach(word.text, here, glob=True)):  # its matches become words of find
                return reason
        elif arg.text in ("-newer", "-anewer", "-cnewer", "-samefile"):
            if not rest or (reason := ground.reach(rest.pop(0).text, here)):
                return "it compares with a file outside"
        elif arg.text == "-exec":
            ends = next((i for i, a in enumerate(rest) if a.text in (";", "+")), len(rest))
            command, rest = rest[:ends], rest[ends + 1 :]
            if reason := _executed(command, hits, ground, here, inner):
                return reason
        else:
            return f"find {arg.text} may do more than look"
    return ""


class FindResults(NamedTuple):
    """What find gives: only plain files (`plain`), below `under`, with names that match one of `globs` (none: any)."""

    plain: bool
    globs: tuple[str, ...]
    under: tuple[str, ...]


def found(words: Sequence[str]) -> FindResults:
    """What a find with these words gives, as far as that is sure."""
    under = tuple(
        itertools.takewhile(
            lambda w: not w.startswith(("-", "(", "!", ",")), (w for w in words if w not in ("-H", "-P"))
        )
    )
    plain, either, depth, globs, named = False, False, 0, [], True
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        depth += (word == "(") - (word == ")")
        if word in ("-o", "-or", ","):
            either = either or depth == 0
            named = named and words[at - 2 : at - 1] in (["-name"], ["-iname"]) and after in ("-name", "-iname")
        elif before in ("!", "-not"):
            continue
        elif word == "-type" and after == "f" and depth == 0:
            plain = True
        elif word in ("-name", "-iname"):
            globs.append(after)
    negated = any(word in ("!", "-not") and after == "(" for word, after in pairwise(words))
    return FindResults(plain and not either, tuple(globs) if named and not negated else (), under)


def _executed(
    command: list[ProgramWord],
    hits: FindResults,
    ground: AnalysisContext,
    here: str,
    inner: Callable[[list[ProgramWord]], str],
) -> str:
    name = command[0].text if command else ""
    if name not in SHOWS and not (hits.plain and name in PRINTS):
        return f"find -exec runs {name or 'a program'} on every file"
    if name in READS:
        under = [label for path in hits.under for label in ground.labels(path, here)]
        if reason := ground.tree(here, under, deep=not hits.plain).shown(hits.globs, links=not hits.plain):
            return reason
    return inner([ProgramWord("./x") if arg.text == "{}" else arg for arg in command])


def sed(args: Sequence[ProgramWord]) -> str:
    """Why a sed does more than print; its files are looked at elsewhere."""
    given = read(args, SED)
    if isinstance(given, str):
        return given
    scripts = [word.text for name, word in given.options if name in ("-e", "--expression") and word is not None]
    if not scripts and given.operands:
        scripts = [given.operands[0].text]
    for script in scripts:
        if re.search(r"\[[^\]]*[/|,#:@!%]", script):  # seds do not agree where such a text ends
            return "its sed script is not clear"
        at = 0
        while at < len(script):
            match = _SED.match(script, at)
            if match is None or match.end() == at:
                return "its sed script may write files or run programs"
            at = match.end()
    return "" if scripts else "sed lacks its script"


SED = ProgramSpec(
    flags="nErsuz", values="e", lead=1, instead="-e --expression",
    long="quiet silent regexp-extended separate unbuffered null-data posix", long_values="expression",
)  # fmt: skip
AWK = ProgramSpec(values="Fv", lead=1)
_AWK_BAD = re.compile(
    r"\b(?:system|getline|close|fflush|ARGV|ARGC|ENVIRON|PROCINFO|FUNCTAB|SYMTAB|printf?\s*[^;}\n]*>|function)\b|@|(?<!\|)\|(?!\|)"
)
_TEXTS = re.compile(r'"(?:\\.|[^"\\\n])*"|(?:(?<=[~!({,;&|}\n])|\A)[ \t]*/(?:\\.|[^/\\\n])+/|#[^\n]*')
"""Texts, patterns (a slash behind a value divides) and comments, from left to right as awk reads them."""


def awk(args: Sequence[ProgramWord]) -> str:
    """Why an awk program does more than compute and print."""
    given = read(args, AWK)
    if isinstance(given, str):
        return given
    program = given.operands[0].text if given.operands else ""
    bare = _TEXTS.sub('""', program)
    open_ = any(re.search(r"\[\^?\]?[^\]]*\Z", re.sub(r"\\.", "", match[0][:-1])) for match in _TEXTS.finditer(program))
    if ("/" in bare or open_) and ">" in program and "print" in program:
        return "its awk program may write files or run programs"
    if not program or "\\" in bare or _AWK_BAD.search(bare) or _AWK_BAD.search(program.replace('"', " ")):
        return "its awk program may write files or run programs"
    for block in re.findall(r"\{[^{}]*\}?", bare) or ([bare] if "{" in bare else []):
        if ">" in re.sub(r"\([^()]*\)", "", block):
            return "its awk program may write files or run programs"
    return ""


def test(args: Sequence[ProgramWord], ground: AnalysisContext, here: str, *, arithmetic: bool) -> str:
    """Why `test`, `[` or `[[` does more than compare. `arithmetic`: in `[[` the sides of -eq are computed."""
    sides = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
    for at, arg in enumerate(args):
        before, after = args[at - 1] if at else ProgramWord(""), args[at + 1] if at + 1 < len(args) else ProgramWord("")
        if arg.known and arg.text in ("-v", "-R") and not (after.known and re.fullmatch(r"\w*", after.text)):
            return "test -v can run commands"
        if arithmetic and arg.text in sides and not all(s.known and s.text.isdigit() for s in (before, after)):
            return "arithmetic in [[ ]] can run commands"
        file = re.fullmatch(r"-[a-hkprstuwxGLNOS]", before.text) or arg.text.startswith(("/", "~"))
        file = file or (arg.glob and not arithmetic)
        if arg.known and file and (reason := ground.reach(arg.text, here, glob=arg.glob)):
            return reason
    return ""


def setting(args: Sequence[ProgramWord]) -> str:
    """`set` with options that only change how a script ends."""
    text = " ".join(arg.text for arg in args)
    return "" if re.fullmatch(r"(?:[-+][eux]*o? ?(?:pipefail|errexit|nounset)? ?)+", text) else "set changes the shell"


def reading(args: Sequence[ProgramWord]) -> str:
    """`read` of a line into variables that no program looks at."""
    given = read(args, ProgramSpec(flags="rs", values="dn", text=True))
    if isinstance(given, str):
        return given
    if bad := next((arg.text for arg in given.operands if not re.fullmatch(r"[a-z_][a-z0-9_]*", arg.text)), ""):
        return f"read sets {bad}"
    return ""
