"""Analyzes shell commands before they run: which are read-only, which files and hosts they name, why others need approval.

Nothing is executed. What cannot be understood is reported as such and needs approval.
"""

from __future__ import annotations

from friday_cli.core.protocol.shell_script import CommandAnalysis

from . import forbidden_folders, hosts
from .analyzer import CommandAnalyzer
from .context import AnalysisContext, NoFiles
from .literal import is_literal_command
from .syntax import Unparseable

__all__ = ["AnalysisContext", "analyze", "is_literal_command", "network_targets"]


def analyze(command: str, context: AnalysisContext) -> CommandAnalysis:
    """Analyze `command` as bash would run it in the workspace of `context`."""
    context.start()
    analyzer, trouble = CommandAnalyzer(context), ""
    try:
        analyzer.run(command)
    except Unparseable as error:
        trouble = str(error)
    except UnicodeEncodeError:
        trouble = "it is not valid text"
    except RecursionError:
        trouble = "it is nested too deeply"
    if trouble:
        analyzer.classifier.add_unparseable(command, trouble)
    leaves = ""
    if context.away:
        leaves = forbidden_folders.find((command, *(form for forms in analyzer.found.forms for form in forms)), context)
    return CommandAnalysis(
        tuple(analyzer.found.steps), trouble, hosts.network_targets(command, analyzer.found.forms), leaves
    )


def network_targets(command: str) -> tuple[tuple[str, str], ...]:
    """(host, URL or "") of everything a past command contacted. The file system is not read."""
    return analyze(command, NoFiles()).hosts
