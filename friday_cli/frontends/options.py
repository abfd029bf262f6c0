"""The options of a command as a table, and a quick parser for it.

Importing Typer takes as long as the rest of a short run, so a plain call is parsed here. What this parser does not
understand (help, a wrong option or value) is left to Typer, which reads the same table and explains it.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from friday_cli.session.open_context import Options


class Option(msgspec.Struct, frozen=True):
    """One option: `names` with the long one first; `dest` is its key in the parsed values.

    `many` may be repeated; `maybe` takes a value or none ("" then).
    """

    names: tuple[str, ...]
    kind: Literal["text", "flag", "int", "float", "many", "maybe"]
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    group: str = "Options"

    @property
    def dest(self) -> str:
        name = self.names[0].lstrip("-").replace("-", "_")
        return f"{name}_" if keyword.iskeyword(name) else name


MODEL, RIGHTS, SESSION = "Model", "Permissions", "Session"

BACKGROUND = Option(
    ("--background", "-b"),
    "flag",
    "Work without this terminal: `friday agents` lists it, `friday attach` opens it.",
    group=SESSION,
)
CONTINUE = Option(("--continue", "-c"), "flag", "Resume the last session of this folder.", group=SESSION)
SHARED: tuple[Option, ...] = (
    Option(("--model", "-m"), "text", "Model, as provider/model[:effort] or an alias; 'demo' needs no key.",
           "NAME", group=MODEL),
    Option(("--effort",), "text", "How hard the model thinks.", "LEVEL",
           ("none", "minimal", "low", "medium", "high", "xhigh", "max"), MODEL),
    Option(("--service-tier",), "text", "flex: slower, half the price (OpenAI); fast: twice the price (OpenAI, Anthropic).",
           "TIER", ("standard", "flex", "fast"), MODEL),
    Option(("--fallback-model",), "text", "Model to use when the first stays overloaded; the change is reported.",
           "NAME", group=MODEL),
    Option(("--subagent-model",), "text", "Model for sub-agents whose profile does not name one.", "NAME", group=MODEL),
    Option(("--profile",), "text", "Profile of the main agent.", "NAME", group=MODEL),
    Option(("--mode",), "text", "ask: only reads are allowed; edits: file changes too; plan: no changes; auto: like edits, plus sandboxed commands.",
           "MODE", ("ask", "edits", "plan", "auto"), RIGHTS),
    Option(("--yolo",), "flag", "Allow everything except deny rules and what could destroy the machine.", group=RIGHTS),
    Option(("--allow",), "many", "Permission rule such as 'bash(git *)'; may be repeated.", "RULE", group=RIGHTS),
    Option(("--deny",), "many", "Rule for calls that are always refused; may be repeated.", "RULE", group=RIGHTS),
    Option(("--add-dir",), "many", "Another folder to work in; may be repeated.", "DIR", group=RIGHTS),
    Option(("--trust",), "flag", "Trust this folder's settings and profiles for this run (for CI).", group=RIGHTS),
    Option(("--mcp-config",), "many", "More MCP servers: a file like mcp.json, or its JSON; may be repeated.",
           "FILE|JSON", group=RIGHTS),
    Option(("--no-mcp",), "flag", "Do not use the MCP servers in your files or the project's.", group=RIGHTS),
    Option(("--cwd", "-C"), "text", "Folder to work in.", "DIR", group=SESSION),
)  # fmt: skip
"""What the chat and the one-shot both take."""


def defaults(options: Iterable[Option], *arguments: str) -> dict[str, Any]:
    """The values when nothing is given; `arguments` are the keys of the words beside the options."""
    values = {option.dest: {"flag": False, "many": ()}.get(option.kind) for option in options}
    return {**dict.fromkeys(arguments), **values}


def parse(argv: list[str], options: Iterable[Option], *arguments: str) -> dict[str, Any] | None:
    """The values of a plain call; None for anything that needs explaining (help, a wrong option or value)."""
    names = {name: option for option in options for name in option.names}
    values = defaults(names.values(), *arguments)
    words: list[str] = []
    at = 0
    while at < len(argv):
        arg, at = argv[at], at + 1
        if arg == "--":
            words += argv[at:]
            break
        if not arg.startswith("-") or arg == "-":
            words.append(arg)
            continue
        name, equals, text = arg.partition("=")
        option = names.get(name)
        if option is None or (option.kind == "flag" and equals):
            return None
        if option.kind != "flag" and not equals:
            if at < len(argv) and not (option.kind == "maybe" and argv[at].startswith("-")):
                text, at = argv[at], at + 1
            elif option.kind != "maybe":
                return None
        if not _put(values, option, text):
            return None
    return None if len(words) > len(arguments) else values | dict(zip(arguments, words, strict=False))


def session_options(values: Mapping[str, Any], cwd: Path, *, resume: str | None, **more: Any) -> Options:
    """The options of a session from parsed values; `more` are further fields of `Options`."""
    from friday_cli.session.open_context import Options

    return Options(
        cwd,
        add_dirs=tuple(Path(folder) for folder in values.get("add_dir") or ()),
        model=values.get("model"),
        effort=values.get("effort"),
        profile=values.get("profile"),
        mode="yolo" if values.get("yolo") else values.get("mode"),
        allow=tuple(values.get("allow") or ()),
        deny=tuple(values.get("deny") or ()),
        trusted=bool(values.get("trust")),
        resume=resume,
        mcp_config=tuple(values.get("mcp_config") or ()),
        no_mcp=bool(values.get("no_mcp")),
        map_tool=map_tool,
        **more,
    )


def map_tool(*given: Any, **more: Any) -> Any:
    """The tool for batches of a main agent."""
    from friday_cli.map.tool import BatchTool  # only where the setting is on

    return BatchTool(*given, **more).tool()


def _put(values: dict[str, Any], option: Option, text: str) -> bool:
    """Store a value. False if it is invalid."""
    if option.choices and text not in option.choices:
        return False
    try:
        match option.kind:
            case "flag":
                values[option.dest] = True
            case "many":
                values[option.dest] = (*values[option.dest], text)
            case kind:
                values[option.dest] = {"int": int, "float": float}.get(kind, str)(text)
    except ValueError:
        return False
    return True
