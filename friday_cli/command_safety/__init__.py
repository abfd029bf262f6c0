"""The judge of shell commands: takes one apart by its syntax and says of every part whether it only looks."""

from __future__ import annotations

from friday_cli.core.protocol.shell_script import CommandAnalysis

from .analyzer import CommandAnalyzer
from .context import AnalysisContext
from .syntax import Unparseable, parse

__all__ = ["AnalysisContext", "analyze"]


def analyze(command: str, ground: AnalysisContext) -> CommandAnalysis:
    """What `command` would do in bash at `ground`. What is not understood is said to be so, never guessed."""
    try:
        root, source = parse(command)
    except (Unparseable, UnicodeEncodeError) as error:
        return CommandAnalysis(trouble=str(error) if isinstance(error, Unparseable) else "it is no text")
    walker = CommandAnalyzer(source, ground)
    try:
        walker.walk(root)
    except Unparseable as error:
        return CommandAnalysis(tuple(walker.steps), str(error))
    except RecursionError:
        return CommandAnalysis(tuple(walker.steps), "it is nested too deeply")
    return CommandAnalysis(tuple(walker.steps))
