"""The judge of shell commands: takes one apart by its syntax and says of every part whether it only looks."""

from __future__ import annotations

from friday_cli.core.protocol.shell_script import CommandAnalysis

from . import elsewhere, hosts
from .analyzer import CommandAnalyzer
from .context import AnalysisContext, NoFiles
from .syntax import Unparseable

__all__ = ["AnalysisContext", "analyze", "outbound"]


def analyze(command: str, ground: AnalysisContext) -> CommandAnalysis:
    """What `command` would do in bash at `ground`. What is not understood is said to be so, never guessed."""
    walker, trouble = CommandAnalyzer(ground), ""
    try:
        walker.run(command)
    except Unparseable as error:
        trouble = str(error)
    except UnicodeEncodeError:
        trouble = "it is no text"
    except RecursionError:
        trouble = "it is nested too deeply"
    if trouble:
        walker.give_up(command, trouble)
    leaves = ""
    if ground.away:
        leaves = elsewhere.named((command, *(form for forms in walker.forms for form in forms)), ground)
    return CommandAnalysis(tuple(walker.steps), trouble, hosts.outbound(command, walker.forms), leaves)


def outbound(command: str) -> tuple[tuple[str, str], ...]:
    """(host, URL or "") of all that a command of the past talked to: its files are not looked at."""
    return analyze(command, NoFiles()).hosts
