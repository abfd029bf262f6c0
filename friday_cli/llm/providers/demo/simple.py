"""Requests that one step answers, and the refusal of all others."""

from __future__ import annotations

import re
from functools import partial

from friday_cli.core.text.sanitize import code_block

from .overview import overview
from .script import Call, End, Rounds, Script, SearchMatches, Step, code, failure, files, matches

REFUSAL = """\
**The demo cannot do that**; it is a script, no AI model, and it makes nothing up. With Friday's real tools it can do this:

- `What is in this folder?` (anything with overview, survey, project, folder or sub-agent): three sub-agents at work
- `find NAME`: lines with that text, and files of that name
- `read README.md`: the beginning of a file
- `` run `python3 -c "print(6 * 7)"` ``: a command; Friday asks you first, unless the command only reads

For an assistant that understands your request, add a model: set `ANTHROPIC_API_KEY` (or `OPENAI_API_KEY`), or run \
`friday auth set anthropic`; `friday models` shows local servers too. Then ask again."""
SHOWN = 20
_ONE = r"(?:`(?P<ticks>[^`\n]+)`|\"(?P<quotes>[^\"\n]+)\"|(?P<word>\S+?))[?!.,]*"
_FIND = re.compile(rf"(?:please )?(?:find|search for|grep|where is) {_ONE}", re.I)
_READ = re.compile(rf"(?:please )?(?:read|show|cat|open) (?:the )?{_ONE}", re.I)
_RUN = re.compile(
    r"(?:please )?(?:run|execute) (?:`(?P<ticks>[^`]+)`|(?P<word>(?!(?:an?|the|my|our|all|this)\b).+))", re.I
)
_ADDED = re.compile(r"\n\n[<\[]")
"""Where files and the output of commands begin, which come after the words of the person."""
_OVERVIEW = re.compile(r"sub-?agents?|overview|survey|project|folder", re.I)


def script_of(prompt: str) -> Script | None:
    """The script for a request of a person, None where the demo cannot do it."""
    text = " ".join(_ADDED.split(prompt)[0].split())
    if "Answer with one JSON document" in prompt:
        return None
    for pattern, script in ((_RUN, run), (_READ, read), (_FIND, find)):
        if match := pattern.fullmatch(text):
            return partial(script, next(filter(None, match.groups())))
    return overview if _OVERVIEW.search(text) else None


def refuse(rounds: Rounds) -> End:
    """The answer to what the demo cannot do."""
    return End(REFUSAL, success=False)


def find(name: str, rounds: Rounds) -> Step | End:
    """Lines with a text, and files of that name."""
    if not rounds:
        lines = Call("grep", {"pattern": name, "literal": True, "ignore_case": True, "limit": SHOWN})
        names = (Call("glob", {"pattern": f"**/*{name}*"}),) if re.fullmatch(r"[\w.-]+", name) else ()
        return Step(f"I'll search for {code(name)}.", (lines, *names))
    searched, *listed = rounds[0]
    if searched.status != "ok":
        return End(f"`grep` {failure(searched)}", success=False)
    found = matches(searched.text)
    parts = [f"**{found.amount('line')}** with the text {code(name)}{_first(found)} (`grep`)", ""]
    parts += [f"- {code(place)} {code(text)}" for place, text in found.rows]
    if listed and listed[0].status == "ok":
        found = files(listed[0].text)
        parts += ["", f"**{found.amount('file')}** with {code(name)} in the name{_first(found)} (`glob`)", ""]
        parts += [f"- {code(path)}" for path, _ in found.rows[:SHOWN]]
    return End("\n".join(parts))


def _first(found: SearchMatches) -> str:
    return f", the first {SHOWN}" if found.total > SHOWN else ""


def read(path: str, rounds: Rounds) -> Step | End:
    """The beginning of a file."""
    if not rounds:
        return Step(f"I'll read {code(path)}.", (Call("read_file", {"path": path, "limit": 60}),))
    result = rounds[0][0]
    if result.status != "ok":
        return End(f"`read_file` {failure(result)}", success=False)
    return End(f"{code(path)} as `read_file` shows it:\n\n{code_block(result.text)}")


def run(command: str, rounds: Rounds) -> Step | End:
    """A command."""
    if not rounds:
        return Step(f"I'll run {code(command)}.", (Call("bash", {"command": command}),))
    result = rounds[0][0]
    if result.status != "denied":
        return End(f"{code(command)} ended like this:\n\n{code_block(result.text)}", success=result.status == "ok")
    hint = f"friday ask --model demo --allow 'bash({command.split()[0]} *)' \"...\""
    return End(f"{code(command)} {failure(result)}\n\nTo allow it beforehand: {code(hint)}", success=False)
