"""The decision on one call: rules and mode (`Rules.decide`), untrusted text (`Taint`) and hooks; the strictest counts. It is
made again whenever it is needed, because rules and the mode may change while a person is asked."""

from __future__ import annotations

import msgspec

from ..protocol.shell_script import SimpleCommand
from ..text.sanitize import sanitize_line
from .decision import Mode, PermissionDecision, strictest
from .rule import Rule, RuleInput
from .rules import Rules, Taint


class CallCheck(msgspec.Struct, frozen=True):
    """A call and everything that decides whether it may run."""

    call: RuleInput
    arguments: object
    """Those of the call, for `taint`."""
    rules: Rules
    """The rights of the agent that wants to make it."""
    taint: Taint
    granted: Rule | None = None
    """An allow rule that counts for this call as one of the session does."""
    hooked: PermissionDecision = PermissionDecision("allow")
    """The decision of the hooks that saw the call."""

    def decide_now(self, mode: Mode | None = None) -> PermissionDecision:
        """The decision now, or as it would be if the session had the mode `mode`."""
        rules = self.rules if mode is None else self.rules.in_mode(mode)
        found = rules.decide(self.call, () if self.granted is None else (self.granted,))
        if found.decision != "deny" and (reason := self.taint.approval_reason(self.call, self.arguments, rules)):
            reason = reason if found.decision == "allow" else f"{found.reason}; {reason}"
            found = PermissionDecision("ask", reason)
        return strictest((found, self.hooked))

    @property
    def passes(self) -> bool:
        """Whether the call is allowed now, without a person."""
        return self.decide_now().decision == "allow"

    def explain(self, reason: str) -> list[str]:
        """What would run, what it reaches, and which rule or mode asked, in lines of untrusted text. `reason` is why a person
        is asked."""
        call, found = self.call, self.decide_now()
        out = ["What would run"]
        steps = call.script.steps if call.script else ()
        out += [line for step in steps for line in _step_lines(step)]
        if not steps:
            out += [f"  {call.tool} {sanitize_line(subject, 300)}" for subject in call.subjects or ("",)]
        out.append("What it reaches")
        out += [f"  {_EFFECTS[one.effect]}: {sanitize_line(', '.join(one.subjects), 300)}" for one in call.also]
        hosts = dict.fromkeys(host for host, _ in call.script.hosts) if call.script else {}
        out += [f"  network: {sanitize_line(host, 100)}" for host in hosts]
        out.append(f"  {_REACH[call.sandbox_access] if call.effect == 'run' else _EFFECTS[call.effect]}")
        source = f", from {found.source}" if found.source else ""
        out += ["Who asks", f"  {sanitize_line(reason, 500)}{source}"]
        for one in self.rules.explain(call):
            if one.decision is not None:
                out.append(f"  step {one.step!r} by the rights of {one.whose}: {one.decision.decision}")
        return out


_EFFECTS = {
    "read": "reads files", "write": "changes files", "run": "runs commands", "net": "uses the network",
    "spawn": "starts sub-agents", "own": "stays inside Friday", "save": "keeps notes for later sessions",
}  # fmt: skip
_REACH = {
    "": "no sandbox: everything that you may do yourself",
    "confined": "in the sandbox: it changes files in the workspace and its temporary folder only, and has no network",
    "network": "in the sandbox, with the network on",
    "outside": "outside the sandbox: everything that you may do yourself",
}


def _step_lines(step: SimpleCommand) -> list[str]:
    """One simple command, and what is known of it."""
    known = (
        ("reads", step.reads),
        ("writes", step.writes),
        ("changes", step.changes),
        ("reads the files below", step.searches),
    )
    facts = [*filter(None, (step.danger, step.why, step.unread_program))]
    for what, labels in known:
        if certain := [label for label in labels if label not in step.guesses]:
            facts.append(f"{what} {', '.join(certain)}")
    if step.guesses:
        facts.append("may read and change other files: which ones, only its program text tells")
    return [f"  {sanitize_line(step.raw, 300)}", *(f"    {sanitize_line(fact, 300)}" for fact in facts)]
