"""Words of the demo: foreign text made safe for Markdown, figures in words, and what it says about itself."""

from __future__ import annotations

import re

from friday_cli.core.text.sanitize import sanitize_line

_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)|!\[[^\]]*\]\[[^\]]*\]|<!--.*?-->|<[^<>]{1,300}>")
_LINK = re.compile(r"\[([^\]\n]*)\](?:\([^)\n]*\)|\[[^\]\n]*\])")
_MARKS = re.compile(r"[`*<>|#\[\]\\~]")
_TICKS = re.compile(r"`+")

KINDS = {
    "py": "Python", "pyi": "Python stubs", "js": "JavaScript", "mjs": "JavaScript", "ts": "TypeScript", "tsx": "TypeScript",
    "jsx": "JavaScript", "go": "Go", "rs": "Rust", "java": "Java", "kt": "Kotlin", "c": "C", "h": "C headers",
    "cpp": "C++", "cc": "C++", "hpp": "C++ headers", "cs": "C#", "rb": "Ruby", "php": "PHP", "swift": "Swift",
    "scala": "Scala", "lua": "Lua", "pl": "Perl", "r": "R", "jl": "Julia", "hs": "Haskell", "ex": "Elixir",
    "sh": "Shell", "sql": "SQL", "html": "HTML", "css": "CSS", "scss": "SCSS", "vue": "Vue", "md": "Markdown",
    "rst": "reStructuredText", "txt": "Plain text", "json": "JSON", "yaml": "YAML", "yml": "YAML", "toml": "TOML",
    "xml": "XML", "csv": "CSV", "tex": "LaTeX", "ipynb": "Notebooks", "svg": "SVG", "proto": "Protocol buffers",
}  # fmt: skip
"""Names of kinds of text files by their extension."""

KEYS = """\
For an assistant that understands your question, add a model:

- a key: set `ANTHROPIC_API_KEY` (or `OPENAI_API_KEY`), or run `friday auth set anthropic`
- or a local server such as Ollama or LM Studio: `friday models` shows what runs here

Then ask again: `friday ask "..."`"""

CAN = """\
- `What is in this folder?` sends three sub-agents and reports with figures
- `find NAME`, `where is NAME defined?`
- `count lines of python`, `how many files are there?`, ``count `text` ``
- `which files are the largest?`, `list the TODOs`
- `read README.md`, `list src`, `list *.py`
- ``run `git status` `` (a command is refused until you allow it)"""

UNKNOWN = f"""\
This is the offline demo: a script, no AI model. It cannot answer that, and will not make something up.

By rules it can do these, with Friday's real tools:

{CAN}

{KEYS}"""

HELLO = f"""\
Hello. This is the offline demo: a script, no AI model. It has no opinions, but it drives Friday's real tools, permissions
and sub-agents over your folder. Try:

{CAN}

{KEYS}"""

NO_JSON = "This is the offline demo: a script, no AI model. It cannot put an answer into the form of a JSON Schema."

FOOTER = (
    "*Scripted demo, no AI model: the figures are from the tool calls named beside them, the sentences are fixed phrases. "
    "For a real assistant set `ANTHROPIC_API_KEY`, run `friday auth set anthropic`, or see `friday models`.*"
)

SUMMARY = """\
The demo keeps no memory beyond its rules: what it found is in the session's log, and it looks again when it is asked."""


def kind(extension: str) -> str:
    """A kind of files in words: `Python (.py)`, `.xyz`."""
    name = KINDS.get(extension.lower())
    return f"{name} (.{extension})" if name else f".{extension}"


def amount(figure: object, one: str, many: str = "") -> str:
    """A figure with its thing: `1 file`, `at least 2,000 lines`."""
    return f"{figure} {one if str(figure) == '1' else many or one + 's'}"


def one(name: str) -> str:
    """A name with its article: `a coder`, `an analyst`."""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {sanitize_line(name, 40)}"


def code(text: str, limit: int = 120) -> str:
    """Foreign text as inline code, one line."""
    text = sanitize_line(text, limit) or " "
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def cell(text: str) -> str:
    """Markdown text in a cell of a table."""
    return text.replace("|", "\\|")


def quoted(text: str, limit: int = 200) -> str:
    """Foreign prose as a quotation: its own markup taken out, one line."""
    text = _MARKS.sub("", _LINK.sub(r"\1", _IMAGE.sub("", text[: limit * 20])))
    return f"“{sanitize_line(text, limit)}”"
