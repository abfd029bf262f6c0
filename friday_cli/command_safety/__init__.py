"""Analyzes shell commands before they run: which are read-only, which files and hosts they name, why others need approval.

Nothing is executed. What cannot be understood is reported as such and needs approval.
"""

from __future__ import annotations

import msgspec

from friday_cli.core.protocol.shell_script import UNREAD, CommandAnalysis, SimpleCommand

from . import destructive, forbidden_folders, hosts
from .analyzer import CommandAnalyzer
from .context import AnalysisContext, NoFiles
from .literal import is_literal_command
from .syntax import TooLong, Unparseable

__all__ = ["AnalysisContext", "analyze", "is_literal_command", "network_targets", "without_sandbox"]

MAX_BYTES = 100_000
"""UTF-8 bytes of a command that is analyzed at all. A longer one needs approval in every mode."""


def analyze(command: str, context: AnalysisContext) -> CommandAnalysis:
    """Analyze `command` as bash would run it in the workspace of `context`."""
    context.start()
    analyzer, trouble, danger = CommandAnalyzer(context), "", ""
    if (size := len(command.encode(errors="surrogatepass"))) > MAX_BYTES:
        trouble = str(TooLong(f"{size:,} bytes"))
        step = SimpleCommand(
            command, command, why=trouble, dynamic_arguments=trouble, dynamic_program=True, danger=trouble
        )
        leaves = forbidden_folders.find((command,), context) if context.away else ""
        return CommandAnalysis((step,), trouble, ((UNREAD, ""),), leaves)
    try:
        analyzer.run(command)
    except Unparseable as error:
        trouble, danger = str(error), str(error) if isinstance(error, TooLong) else ""
    except UnicodeEncodeError:
        trouble = "it is not valid text"
    except RecursionError:
        trouble = "it is nested too deeply"
    if trouble:
        analyzer.classifier.add_unparseable(command, trouble, danger)
    elif analyzer.found.steps and (bomb := destructive.fork_bomb(command)):
        analyzer.found.steps[-1] = msgspec.structs.replace(analyzer.found.steps[-1], read_only=False, danger=bomb)
    leaves = ""
    if context.away:
        leaves = forbidden_folders.find((command, *(form for forms in analyzer.found.forms for form in forms)), context)
    return CommandAnalysis(
        tuple(analyzer.found.steps), trouble, hosts.network_targets(command, analyzer.found.forms), leaves
    )


def without_sandbox(command: str, script: CommandAnalysis) -> CommandAnalysis:
    """The analysis where no sandbox can make a command read-only: then only literal commands pass because they only read."""
    if is_literal_command(command):
        return script
    why = "no sandbox works here, and this is more than programs with literal arguments"
    steps = [
        msgspec.structs.replace(step, read_only=False, why=why) if step.read_only else step for step in script.steps
    ]
    return msgspec.structs.replace(script, steps=tuple(steps))


def network_targets(command: str) -> tuple[tuple[str, str], ...]:
    """(host, URL or "") of everything a past command contacted. The file system is not read."""
    return analyze(command, NoFiles()).hosts
