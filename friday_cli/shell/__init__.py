"""The judge of shell commands: takes one apart by its syntax and says of every part whether it only looks."""

from __future__ import annotations

from ..core.script import Script
from .ground import Ground
from .syntax import Unclear, parse
from .walk import Walker

__all__ = ["Ground", "judge"]


def judge(command: str, ground: Ground) -> Script:
    """What `command` would do in bash at `ground`. What is not understood is said to be so, never guessed."""
    try:
        root, source = parse(command)
    except (Unclear, UnicodeEncodeError) as error:
        return Script(trouble=str(error) if isinstance(error, Unclear) else "it is no text")
    walker = Walker(source, ground)
    try:
        walker.walk(root)
    except Unclear as error:
        return Script(tuple(walker.steps), str(error))
    except RecursionError:
        return Script(tuple(walker.steps), "it is nested too deeply")
    return Script(tuple(walker.steps))
