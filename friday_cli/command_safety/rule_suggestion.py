"""Suggests the rule that "always allow" adds for a command: the narrowest useful one, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from friday_cli.core.text.lazy_regex import pattern

from .options import url_root
from .readonly_programs import INTERPRETERS, RUNNERS
from .words import quote_words

_PREFIXES = pattern(
    r"(?:npm|pnpm|yarn|bun) run \w[\w:@./-]*|(?:npm|pnpm|yarn|bun) test|(?:uv|poetry|hatch|pdm) run (?:pytest|ruff|mypy|tox)"
    r"|cargo (?:test|build|check|clippy|fmt)|git (?:add|commit)|ruff (?:check|format)|pytest|mypy|tox"
)
"""Commands whose further arguments do not change what they are: their rule ends with ` *`."""
_PYTHON = pattern(r"(?:python|pypy)[\d.]*")
_RUN_FILES = pattern(r"(?:(?:python|pypy|node|ruby|perl|php|lua)[\d.]*|bash|sh|zsh|rscript)")
_MODULE = pattern(r"[A-Za-z_]\w*(?:\.\w+)*")
_RUN_THEIR_ARGUMENTS = frozenset(
    ("pdb", "timeit", "runpy", "cProfile", "profile", "trace", "code", "idlelib", "pip", "pipx", "uv", "poetry")
)
"""Modules that run, or install, what their arguments name."""
_SCRIPT = pattern(r"(?:\./)?(?:[\w@+-][\w@+.-]*/)*[\w@+-][\w@+.-]*\.[A-Za-z]\w{0,4}")
"""The path of a script below the folder that the command is in."""
_PACKAGE = pattern(r"(?:@[\w.-]+/)?[A-Za-z][\w.-]*(?:@[\w.^~-]+)?")
_LAUNCHERS = (("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"))


def _everyday(words: Sequence[str]) -> str:
    """The pattern for a program that runs what its first arguments name: a module, a script of the project, a package of
    npx, the address of curl; "" for any other command. What follows those may be anything."""
    name = words[0].rsplit("/", 1)[-1]
    if tuple(words[:2]) in _LAUNCHERS and len(words) > 2:
        inner = _everyday(words[2:])
        if not inner and _SCRIPT().fullmatch(words[2]) and words[2].endswith(".py"):
            inner = f"{words[2]} *"
        return f"{words[0]} run {inner}" if inner else ""
    if _PYTHON().fullmatch(name) and len(words) > 2 and words[1] == "-m":
        module = words[2]
        plain = _MODULE().fullmatch(module) and module.partition(".")[0] not in _RUN_THEIR_ARGUMENTS
        return f"{words[0]} -m {module} *" if plain else ""
    if _RUN_FILES().fullmatch(name.lower()) and len(words) > 1 and _SCRIPT().fullmatch(words[1]):
        return f"{words[0]} {words[1]} *"
    if name == "npx":
        at = 2 if words[1:2] in (["-y"], ["--yes"]) else 1
        package = words[at] if at < len(words) else ""
        return f"{' '.join(words[: at + 1])} *" if _PACKAGE().fullmatch(package) else ""
    if name == "curl":
        options = [word for word in words[1:] if word.startswith("-")]
        urls = [word for word in words[1:] if not word.startswith("-")]
        plain = (
            len(urls) == 1 and words[-1] == urls[0] and all(re.fullmatch(r"-[sSfikvgGL46]+", one) for one in options)
        )
        root = url_root(urls[0]) if plain else ""
        if not re.fullmatch(r"https?://[\w.-]+(?::\d+)?/?", root):
            return ""
        head = "" if quote_words(urls) == urls[0] else "*"  # the quote
        return " ".join((words[0], *options, f"{head}{root}*" if root.endswith("/") or head else root))
    return ""


def runs_named(argv: Sequence[str]) -> bool:
    """Whether a command runs a script, a module or a package, or contacts a host, that its words name."""
    return bool(argv) and bool(_everyday(argv))


def suggest_rule(argv: Sequence[str]) -> str:
    """A rule pattern for a command, or "" if none should be suggested. None for programs that run other programs, use
    the network or delete, except for what `_everyday` knows, and none for a command that contains a pattern."""
    names = [word.rsplit("/", 1)[-1].lower() for word in argv]
    if names and argv[0][:1].isalnum() and len(" ".join(argv)) <= 500 and (found := _everyday(argv)):
        return found
    if not names or names[0] in RUNNERS or INTERPRETERS.fullmatch(names[0]):
        return ""
    text = quote_words(argv)
    if re.search(r"[*?\[\n]", text) or not text[:1].isalnum() or len(text) > 200:
        return ""
    if names[0] == "git" and (len(names) < 2 or names[1].startswith("-")):
        return ""
    words = text.split(" ")
    for keep in (3, 2, 1):
        if len(words) > keep and _PREFIXES().fullmatch(" ".join(words[:keep])):
            return f"{' '.join(words[:keep])} *"
    later = names[2] if len(names) > 2 and names[1] in ("run", "exec", "x", "dlx") else ""
    return "" if later in RUNNERS or INTERPRETERS.fullmatch(later) else text
