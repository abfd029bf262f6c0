"""The mode and the permission rules of an open session, as a person reads and changes them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from friday_cli.agents.system_prompt import mode_message
from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.notices import PromptNotes
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.permissions.rule import Rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.events import ModeChanged, Notice, RuleAdded, RuleRemoved
from friday_cli.core.protocol.server_calls import server_of

ALLOW = "permissions.allow"
"""The setting that keeps rules for later sessions."""


class SessionPermissions:
    """Changes hold for all agents, from the next tool call on; open questions are answered by `ApprovalQueue`. `foreign`: MCP servers of the
    project, for whose tools no rule is kept: another project's server may have the name."""

    def __init__(self, rules: Rules, log: Log, notes: PromptNotes, foreign: Collection[str] = ()) -> None:
        self._rules = rules
        self._log = log
        self._notes = notes
        self._foreign = foreign

    @property
    def mode(self) -> Mode:
        """Decides which calls need approval where no rule matches."""
        return self._rules.effective_mode

    async def set_mode(self, mode: Mode) -> None:
        """Change the mode and tell the main agent. For a person use `ApprovalQueue.choose_mode`."""
        self._rules.mode = mode
        self._notes.add(mode_message(mode))
        await self._log.emit("a", ModeChanged(mode))

    def rules(self) -> list[Rule]:
        """The rules of the settings, of the command line and of this session."""
        return list(self._rules.rules)

    async def grant(self, rule: Rule, scope: str) -> None:
        """Allow what a person approved: for this session, or with the scope "always" in the user's settings too."""
        self._rules.rules.append(rule)
        await self._log.emit("a", RuleAdded(str(rule), rule.decision))
        if scope == "always":
            from friday_cli.config.edit import add_value

            try:
                if (server := server_of(rule.tool)) in self._foreign:
                    raise FridayError(f"the MCP server {server} is the project's.")
                await asyncio.to_thread(add_value, ALLOW, str(rule))
            except FridayError as error:
                await self._log.emit("a", Notice(f"The rule {rule} applies to this session only: {error}", "warning"))

    async def revoke(self, rule: Rule) -> None:
        """Remove a rule that a person granted, from this session and from the user's settings. Raises UsageError for a
        rule of another source, FridayError if the settings cannot be written."""
        from friday_cli.config.edit import remove_value

        saved = False
        if rule.decision == "allow" and not rule.profile:
            saved = await asyncio.to_thread(remove_value, ALLOW, str(rule)) is not None
        if rule.source and not saved:
            raise UsageError(f"The rule {rule} comes from {rule.source}.", hint="Change it there.")
        removed = (str(rule), rule.decision, rule.profile)
        self._rules.rules[:] = [r for r in self._rules.rules if (str(r), r.decision, r.profile) != removed]
        await self._log.emit("a", RuleRemoved(str(rule), rule.decision))
