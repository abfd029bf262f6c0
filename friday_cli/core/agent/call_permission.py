"""Where it is decided whether a call may run: `CallCheck` (rules, mode, untrusted text, hooks) first, then hooks for
questions, then a person."""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from ..permissions.approvals import ShownCall
from ..permissions.call_check import CallCheck
from ..permissions.decision import PermissionDecision, strictest
from ..permissions.rule import RuleInput
from ..protocol.displays import DiffDisplay
from ..protocol.errors import FridayError, PermissionDenied
from ..protocol.events import Denied
from ..protocol.messages import ToolCall
from .agent import Agent, HookOutcome, Services, StopRun
from .understood_call import UnderstoodCall

log = logging.getLogger(__name__)


class Permit(NamedTuple):
    """The permission to run a call. `read_only`: only where it can change nothing. `command`: a person wants this command
    instead, which is not judged yet."""

    read_only: bool = False
    command: str = ""


async def require_permission(
    agent: Agent, services: Services, sent: ToolCall, known: UnderstoodCall, wanted: RuleInput, hooked: HookOutcome
) -> Permit:
    """Wait until a call may run. `sent` is as the model sent it, `hooked` what its hooks said. Raises PermissionDenied with
    the reason, StopRun when a hook stops the run, and, before a person is asked, what the change of a file fails with."""
    check = CallCheck(wanted, known.arguments, agent.rules, services.taint, hooked.grant, _by_hooks(hooked))
    permission = check.decide_now()
    if permission.decision == "ask" and services.hooks is not None:
        asked = await services.hooks.permission(agent, known.seen(sent, wanted))
        if asked.stop:
            raise StopRun("hook", asked.stop)
        if asked.decision == "allow" and hooked.decision != "ask":
            check = msgspec.structs.replace(check, granted=asked.grant)
        permission = strictest((check.decide_now(), _by_hooks(asked)))
    if permission.decision == "allow":
        return Permit(permission.read_only)
    if permission.decision == "ask" and services.approvals.interactive:
        async with agent.slot.waiting("waiting_user"):
            changed = None if known.arguments == sent.arguments else known.arguments
            shown = ShownCall(changed, await _change(agent, known))
            answer = await services.approvals.permission(
                agent.path, sent.id, wanted, reason=permission.reason, check=check, shown=shown
            )
        if answer.decision == "allow" and answer.command and wanted.effect == "run" and "command" in known.arguments:
            return Permit(command=answer.command)
        if answer.decision == "allow":
            now = check.decide_now()
            read_only = now.decision == "allow" and now.read_only
            return Permit(read_only or (wanted.effect == "run" and agent.rules.effective_mode == "plan"))
        words = f": {answer.reason}" if answer.reason else "."
        raise PermissionDenied(f"The user denied this {wanted.tool} call{words}", words=answer.reason)
    unasked = permission.decision == "ask"
    reason = permission.reason + (", and no person can be asked here" if unasked else "")
    await services.log.emit(agent.path, Denied(sent.id, wanted.tool, "\n".join(wanted.subjects), reason, unasked))
    raise PermissionDenied(f"Not permitted: {reason}.", hint="Continue without it, or report what you could not do.")


def _by_hooks(hooked: HookOutcome) -> PermissionDecision:
    """The decision of hooks; they allow a call only by a rule that they grant."""
    if hooked.decision in ("deny", "ask"):
        return PermissionDecision(hooked.decision, hooked.reason)
    return PermissionDecision("allow")


async def _change(agent: Agent, known: UnderstoodCall) -> DiffDisplay | None:
    """What a call would change in its file, None if it changes none. Raises FridayError for a call that would fail: a person
    is not asked about it."""
    if known.tool.change is None:
        return None
    try:
        return await known.tool.change(known.workspace, agent.seen, known.args)
    except FridayError:
        raise
    except Exception:  # the question is more important than its picture; the log file has the traceback
        log.exception("the change of %s cannot be shown", known.tool.name)
        return None
