"""What somebody wants, as far as a few rules of English can tell."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from .words import KINDS

Kind = Literal["overview", "todos", "read", "list", "count", "find", "largest", "run", "hello", "json", "unknown"]


class Intent(msgspec.Struct, frozen=True):
    """`target` is what it is about; `thing` what is counted; `path` and `glob` say where."""

    kind: Kind
    target: str = ""
    thing: Literal["", "lines", "files", "definitions", "text"] = ""
    path: str = "."
    glob: str = ""


UNKNOWN = Intent("unknown")

_PLACE = r"(?:folder|directory|project|repo|repository|code ?base|workspace|package|app|here)"
_PLACES = ("folder", "directory", "project", "repo", "repository", "codebase", "workspace", "package", "app")
_THIS = r"(?:(?:this|the|my|our|current|present|working|whole) )*"
_POLITE = re.compile(
    r"^(?:(?:hey|hi|hello|ok|okay|so|now|then|and|friday|please|(?:can|could|would|will) you|i want to|let me|let us|let's)"
    r"(?:[ ,!:]+|$))+(?=\w|[`\"“/*.])",
    re.I,
)
_HELLO = re.compile(r"(?:help|hi|hello|hey|what can you do|what (?:are|is) (?:you|friday)|who are you)", re.I)
_WORK = re.compile(
    r"(?:fix|implement|refactor|write|create|add|remove|delete|change|edit|update|rename|improve|build|make|translate|"
    r"deploy|install|commit|push|merge|review|debug|optimi[sz]e|test|prove|compare|plan|design|why|should|"
    r"how (?!many|often|much|large|big|long)\w+)\b",
    re.I,
)
_OVERVIEW = re.compile(
    rf"(?:.{{0,40}}\boverview\b(?: (?:of|over) {_THIS}{_PLACE}?)?"
    rf"|(?:what|whats|what's)(?:'s| is| are| do we have| have we got| lies)?(?: all)?(?: there)? (?:in|inside|in here|here)"
    rf"(?: {_THIS}{_PLACE})?"
    rf"|(?:what|whats|what's)(?:'s| is| are)? {_THIS}{_PLACE}(?: about| for)?"
    rf"|what(?:'s| is) this|what(?:'s| is) here|where am i|look around"
    rf"|what (?:does|do) {_THIS}{_PLACE} (?:do|contain|hold|consist of)"
    rf"|(?:describe|summari[sz]e|explain|explore|survey|analy[sz]e|inspect|introduce|show|scan|tell me about|look (?:at|into|"
    rf"through)|give me (?:a|an) (?:summary|tour|description) of)(?: me)?(?: to)?(?: (?:what is in|the contents? of))?"
    rf" {_THIS}{_PLACE})",
    re.I,
)
_QUOTED = re.compile(r"`([^`]{1,300})`|\"([^\"]{1,300})\"|“([^”]{1,300})”|(?<!\w)'([^']{1,300})'(?!\w)")
_PATHLIKE = re.compile(r"[\w.@+~/-]*(?:/[\w.@+~-]*|\.[A-Za-z0-9]{1,8})")
_NAMES = re.compile(
    r"(?:readme|license|licence|makefile|dockerfile|changelog|contributing|copying|authors|notice)", re.I
)
_GLOB = re.compile(r"[\w./*?{},\[\]-]*\*[\w./*?{},\[\]-]*")
_READ = re.compile(
    r"(?:read|show|cat|open|print|display|view|head|see|what(?:'s| is| stands)? in|what does)(?: me)?(?: the)?"
    r"(?: first lines of| contents? of)?(?: the)?(?: file)? (?P<what>\S+|`[^`]+`|\"[^\"]+\")(?: file)?(?: say| contain| hold)?",
    re.I,
)
_LIST = re.compile(
    r"(?:list|ls|dir|(?:show|which|what)(?: me| all| of| the| \S+){0,3} (?:files|folders)|what(?:'s| is| are)(?: there)? (?=in\b))\b ?(?P<rest>.*)",
    re.I,
)
_COUNT = re.compile(r"(?:count|how many|how much|how often|how long|how large|how big|number of)\b ?(?P<rest>.*)", re.I)
_FIND = re.compile(
    r"(?:find|search|grep|locate|look (?:for|up)|where(?:'s| is| are| does| do| did| can i find)?"
    r"|(?:which|what) files? (?:contains?|ha(?:s|ve)|mentions?|uses?)|who (?:uses|calls))\b ?(?P<rest>.*)",
    re.I,
)
_FILLING = rf"the|all|me|my|files?|folders?|director(?:y|ies)|contents?|entries|names|are|is|in|of|this|there|{_PLACE}"
_COUNTING = r"\.\w+|code|do|does|we|have|has|it|exist|total|altogether|and"
_COUNTED: tuple[tuple[Literal["lines", "definitions", "files"], str], ...] = (
    ("lines", r"(?:lines?|loc)"),
    ("definitions", r"(?:functions?|methods?|class(?:es)?|definitions?)"),
    ("files", r"(?:files?|modules?|scripts?)"),
)
_MOST = r"(?:largest|longest|biggest)"
_MARKING = "list|show|find|search|grep|count|for|how|many|any|what|which|where|open|every|and|or|lines?|comments?|left|still|do|we|have"
_MARKED = r"\b(?:todos?|fixmes?|to-dos?)\b"
_RUN = re.compile(r"(?:run|execute)(?: the command)?:? (?P<what>.+)", re.I | re.S)
_LEADING = re.compile(
    r"^(?:(?:for|me|the|a|an|all|any|every|of|there|files?|folders?|named|called|with(?: the)? name|definitions? of|uses? of|"
    r"occurrences? of|text|string|word|function|class|method|variable|module|constant)\s+)+",
    re.I,
)
_TRAILING = re.compile(
    rf"\s+(?:(?:is|are|was|gets?|being)?\s*(?:defined|declared|used|implemented|called|mentioned|located|set|stored|live|"
    rf"come from|happen)|(?:in|of) {_THIS}{_PLACE}|are there|is there|do(?:es)? (?:it|we|this \w+|the \w+) have|exist|"
    rf"here|in total|altogether|occurs?|appears?)$",
    re.I,
)
_SCOPE = re.compile(
    r"\s+(?:in|inside|under|below|of|has|does)\s+(?:the (?:file|folder|directory) )?(\S+)(?: have| has)?$", re.I
)
_BARE_SCOPE = re.compile(r" (?:in|inside|under|below) (?:the )?(?:folder |directory )?([\w-]+)$", re.I)
_LANGUAGES = {name.lower(): extension for extension, name in reversed(KINDS.items())} | {
    "shell": "sh", "c++": "cpp", "golang": "go", "text": "txt"
}  # fmt: skip
_COMMON = frozenset(
    (
        "the",
        "a",
        "an",
        "my",
        "your",
        "it",
        "this",
        "that",
        "they",
        "there",
        "users",
        "people",
        "time",
        "words",
        "characters",
    )
)
"""Words that nobody searches for as they stand."""
_NO_PATHS = frozenset((*_LANGUAGES, *_COMMON, *_PLACES, "total", "here", "code", "text", "all", "general"))
_THINGS = frozenset(
    ("functions", "classes", "methods", "tests", "commits", "branches", "users", "everything", "variables", "imports")
)
"""What cannot be listed by rules."""


def intent(prompt: str) -> Intent:
    """The intent of a prompt; `unknown` where no rule fits."""
    if "\n\nAnswer with one JSON document and nothing else." in prompt:
        return Intent("json")
    said = " ".join(prompt.partition("\n\n<")[0].split())[:600]
    said = _POLITE.sub("", said).strip(" ?!.,:;")
    if not said or _HELLO.fullmatch(said):
        return Intent("hello")
    if _OVERVIEW.fullmatch(said):
        return Intent("overview")
    if command := _RUN.fullmatch(said):
        return _run(command["what"])
    if _WORK.match(said):
        return UNKNOWN
    if re.search(_MARKED, said, re.I) and (marked := _todos(said)):
        return marked
    if re.search(rf"\b{_MOST}\b", said, re.I) and (largest := _largest(said)):
        return largest
    for pattern, reading in ((_COUNT, _count), (_READ, _read), (_LIST, _list), (_FIND, _find)):
        if (match := pattern.fullmatch(said)) and (meant := reading(match)) is not None:
            return meant
    return UNKNOWN


def _run(what: str) -> Intent:
    """A command is what stands in quotes, or what begins like one."""
    if quoted := _QUOTED.fullmatch(what):
        return Intent("run", next(filter(None, quoted.groups())))
    first = what.partition(" ")[0]
    plain = re.fullmatch(r"[a-z][\w./+-]*", first) and first not in (
        "the",
        "a",
        "an",
        "all",
        "my",
        "our",
        "tests",
        "it",
        "this",
    )
    return Intent("run", what) if plain else UNKNOWN


def _todos(said: str) -> Intent | None:
    path, rest = _scope(said)
    return None if _unknown(rest, f"{_FILLING}|{_MARKED}|{_MARKING}") else Intent("todos", path=path)


def _largest(said: str) -> Intent | None:
    glob = _glob(said)
    path, rest = _scope(said)
    known = "|".join((_FILLING, _MARKING, _MOST, r"top|\d+|lines", re.escape(glob), *map(re.escape, _LANGUAGES)))
    return None if _unknown(rest, known) else Intent("largest", path=path, glob=glob)


def _unknown(text: str, known: str) -> list[str]:
    """The words of a text that none of the known ones explains."""
    return [word for word in re.findall(r"[^\s,;:!?]+", text) if not re.fullmatch(known, word, re.I)]


def _read(match: re.Match[str]) -> Intent | None:
    what = _bare(match["what"])
    if not (_QUOTED.fullmatch(match["what"]) or _is_path(what) or _NAMES.fullmatch(what)):
        return None
    if _GLOB.fullmatch(what):
        return Intent("list", glob=what)
    return Intent("list", path=what) if what.endswith("/") else Intent("read", what)


def _list(match: re.Match[str]) -> Intent | None:
    if glob := _glob(match[0]):
        return Intent("list", glob=glob, path=_scope(match["rest"])[0])
    path, rest = _scope(match["rest"])
    left = _unknown(rest, _FILLING)
    if not left:
        return Intent("list", path=path)
    if len(left) == 1 and path == "." and left[0].lower() not in _THINGS:
        return Intent("list", path=_bare(left[0]))
    return None


def _count(match: re.Match[str]) -> Intent | None:
    rest = match["rest"].strip()
    quoted = _QUOTED.search(rest)
    if quoted and not _is_path(_bare(quoted[0])):
        path, _ = _scope(rest[quoted.end() :])
        return Intent("count", next(filter(None, quoted.groups())), "text", path=path)
    glob = _glob(rest)
    path, left = _scope(rest)
    asked = match[0].lower()
    if re.match(r"how (?:long|large|big) is", asked):
        name = _bare(left.rpartition(" ")[2])
        return Intent("count", thing="lines", path=name) if _is_path(name) else None
    for thing, pattern in _COUNTED:
        if re.search(rf"\b{pattern}\b", left, re.I):
            known = "|".join((_FILLING, _COUNTING, pattern, re.escape(glob), *map(re.escape, _LANGUAGES)))
            return None if _unknown(left, known) else Intent("count", thing=thing, path=path, glob=glob)
    if asked.startswith("how m") and "times" not in rest:
        return None
    said = _stripped(re.sub(r"^(?:(?:times|often|does|is|do|the|word|text)\b\s*)+", "", left))
    if len(said.split()) != 1 or said.lower() in _COMMON:
        return None
    return Intent("count", said, "text", path=path)


def _find(match: re.Match[str]) -> Intent | None:
    rest = match["rest"].strip()
    quoted = _QUOTED.search(rest)
    if quoted:
        path, _ = _scope(rest[quoted.end() :])
        return Intent("find", next(filter(None, quoted.groups())), path=path)
    if (glob := _glob(rest)) and (len(rest.split()) <= 4):
        path, _ = _scope(rest)
        return Intent("list", glob=glob, path=path)
    path, left = _scope(rest)
    said = _stripped(left)
    if not said or len(said) > 80 or len(said.split()) > 3 or said.lower() in _COMMON:
        return None
    return Intent("find", said, path=path)


def _stripped(text: str) -> str:
    before = ""
    while before != text:
        before = text
        text = _TRAILING.sub("", _LEADING.sub("", f"{text} ").strip()).strip(" ?.,")
    return text


def _scope(text: str) -> tuple[str, str]:
    """(path, the rest) of `... in PATH`; "." where no path is named."""
    text = text.strip()
    match = _SCOPE.search(f" {text}")
    if match and (_is_path(_bare(match[1])) or _QUOTED.fullmatch(match[1])) and not _GLOB.fullmatch(_bare(match[1])):
        return _bare(match[1]), f" {text}"[: match.start()].strip()
    match = _BARE_SCOPE.search(f" {text}")
    if match and match[1].lower() not in _NO_PATHS:
        return match[1], f" {text}"[: match.start()].strip()
    return ".", text


def _glob(text: str) -> str:
    """A pattern of file names that a text names: `*.py`, `.py files`, `python files`."""
    for word in text.split():
        if _GLOB.fullmatch(_bare(word)) and _bare(word) != "*":
            return _bare(word)
        if re.fullmatch(r"\.[a-z0-9]{1,8}", word):
            return f"*{word}"
    for word in re.findall(r"[a-z+#]+", text.lower()):
        if extension := _LANGUAGES.get(word):
            return f"*.{extension}"
    return ""


def _is_path(word: str) -> bool:
    return bool(_PATHLIKE.fullmatch(word)) and word not in ("e.g", "i.e")


def _bare(word: str) -> str:
    return word.strip("`\"'“”,;:!?").rstrip(".") or "."
