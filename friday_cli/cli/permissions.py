"""`friday permissions`: lists the rules, and explains the decision on a call."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import typer

from friday_cli.agents.agent_rules import profile_rights, session_rules
from friday_cli.command_safety import AnalysisContext, analyze, network_targets, without_sandbox
from friday_cli.config.rule_locations import rule_places
from friday_cli.core.permissions.call_check import CallCheck
from friday_cli.core.permissions.decision import MODES, PermissionDecision, StepOutcome
from friday_cli.core.permissions.matching import is_about
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.permissions.suggest import suggested_rule
from friday_cli.core.permissions.taint import TaintTracker
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.server_calls import READ
from friday_cli.core.protocol.shell_script import CommandAnalysis
from friday_cli.core.protocol.tool_info import SKILL, TASK_RESULT, WEB_FETCH, CallEffect
from friday_cli.core.protocol.workspace import Access
from friday_cli.core.tool_catalog import BASH, GLOB, GREP, LIST_DIR, TOOLS
from friday_cli.extensions import trust
from friday_cli.system.paths import cache_dir, text_of, with_tilde, working_folder
from friday_cli.tools.delegate.arguments import DEFAULT_PROFILE
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import detect_sandbox
from friday_cli.workspace.sandbox.policy import SandboxPolicy

from . import completion, output
from .help import add_family
from .output import Style, remark, show_hanging, show_json, show_table
from .project_context import load_context
from .session_args import JSON

_SANDBOX_ACCESS: dict[str, Access] = {f"{BASH}_network": "network", f"{BASH}_outside": "outside"}
"""Names in rules for commands with access beyond the sandbox."""
ONLY_LOOKS = (
    "it runs read-only: it can write only to its temporary folder, has no network, and cannot read secret files."
    " If it fails because it needed more, you are asked"
)
_DECISIONS = {"allow": "allowed", "ask": "asked", "deny": "denied"}
_STYLES: dict[str, Style] = {"allow": "green", "ask": "yellow", "deny": "red"}
_MODE = typer.Option("", "--mode", metavar="MODE", help="Decide as in this mode: ask, edits, plan, auto or yolo.")
_PROFILE = typer.Option(
    "", "--profile", metavar="NAME", help="Decide for an agent with this profile.", autocompletion=completion.profiles
)


def register(app: typer.Typer, about: str) -> None:
    """Add the family `permissions`."""
    add_family(app, "permissions", about, {"list": list_, "explain": explain})


def list_(as_json: bool = JSON) -> None:
    """List the rules and their sources.

    Deny overrides ask, ask overrides allow. Without a matching rule the mode decides.
    """
    rules, notices = _rules("", "")
    if as_json:
        fields = ("decision", "profile", "reason", "source")
        found = [{"rule": str(r), **{name: getattr(r, name) for name in fields}} for r in rules.rules]
        show_json({"mode": rules.effective_mode, "rules": found})
        return
    if rules.rules:
        rows = [(r.decision, str(r), r.profile or "all", with_tilde(r.source), r.reason) for r in rules.rules]
        show_table(("DECISION", "RULE", "FOR", "FROM", "REASON"), rows, wide=("RULE", "REASON"))
    none = "" if rules.rules else "; no rules"
    remark(f"mode {rules.effective_mode}{none}. `friday permissions explain` shows the decision on a call")
    for notice in notices:
        remark(notice)


def explain(
    call: str = typer.Argument(metavar="CALL", help="A tool and its subject, such as 'bash: git -C / log | sh'."),
    mode: str = _MODE,
    profile: str = _PROFILE,
    as_json: bool = JSON,
) -> None:
    """Show whether a call is allowed, asked about or denied, and why.

    Nothing is run. Each simple command of a shell command is decided separately. `bash_network:` and `bash_outside:` are
    commands with access beyond the sandbox. The table has the steps of the decision in their order: the first that decides
    counts, and of several agents the strictest.
    """
    rules, _ = _rules(mode, profile)
    wanted = _call(call)
    permission, later = _decided(rules, wanted, call)
    steps = _steps(rules, wanted)
    offered = suggested_rule(wanted).split("\n") if permission.decision == "ask" and suggested_rule(wanted) else []
    if as_json:
        output.show_json(
            {
                "tool": wanted.tool,
                "subjects": list(wanted.subjects),
                "mode": rules.effective_mode,
                **_plain(permission),
                "looks": permission.read_only and _sandbox().supports_read_only,
                "commands": [{"command": text, **_plain(one)} for text, one in steps],
                "offered": offered,
                "after_strangers": later,
                "order": [_outcome(outcome) for outcome in rules.explain(wanted)],
            }
        )
        return
    _show(wanted.tool + (f": {'; '.join(wanted.subjects)}" if wanted.subjects else ""), permission, 0)
    for text, one in steps:
        _show(text, one, 2)
    rows = [(found.whose, found.step, *_words(found.decision)) for found in rules.explain(wanted)]
    show_table(("RIGHTS OF", "STEP", "DECISION", "REASON"), rows, wide=("REASON",))
    hidden = [rule for rule in rules.denying_or_asking() if rule.pattern and is_about(rule, "read")]
    if hidden and permission.decision == "allow" and wanted.tool in (GLOB, GREP, LIST_DIR):
        output.remark(f"files that {', '.join(map(str, hidden))} covers are left out of its result")
    if permission.read_only and _sandbox().supports_read_only:
        output.remark(ONLY_LOOKS)
    if later:
        output.remark(f"after untrusted content has been read: {later}")
    if offered:
        output.remark(f'"always allow" would add {" and ".join(offered)}')


def _decided(rules: Rules, call: RuleInput, text: str) -> tuple[PermissionDecision, str]:
    """The decision on a call in a new session; and, where that allows it, why a session that has read untrusted text asks."""
    taint = TaintTracker(network_targets)
    check = CallCheck(call, [text.partition(":")[2].strip()], rules, taint)
    permission = check.decide_now()
    if permission.decision != "allow":
        return permission, ""
    taint.source = "a web page, for example"
    later = check.decide_now()
    return permission, later.reason if later.decision == "ask" else ""


def _show(head: str, permission: PermissionDecision, indent: int) -> None:
    source = f" ({with_tilde(permission.source)})" if permission.source else ""
    show_hanging(
        indent + 4,
        (" " * indent + head.replace("\n", " ⏎ ") + "  ", "bold"),
        (_DECISIONS[permission.decision], _STYLES[permission.decision]),
        (f"  {permission.reason}{source}", "dim"),
    )


def _plain(permission: PermissionDecision) -> dict[str, str]:
    return {name: getattr(permission, name) for name in ("decision", "reason", "rule", "source", "effect")}


def _words(permission: PermissionDecision | None) -> tuple[str, str]:
    """The decision of a step and its reason; a step that does not decide leaves it to the next one."""
    return ("next step", "") if permission is None else (_DECISIONS[permission.decision], permission.reason)


def _outcome(found: StepOutcome) -> dict[str, str]:
    decided = {"decision": "", "reason": ""} if found.decision is None else _plain(found.decision)
    return {"rights_of": found.whose, "step": found.step, **decided}


def _rules(mode: str, profile: str) -> tuple[Rules, tuple[str, ...]]:
    """The rules of an agent in this folder. Raises UsageError for an unknown mode or profile."""
    if mode and mode not in MODES:
        raise UsageError(f"Unknown mode {mode!r}.", hint=f"Available: {', '.join(MODES)}.")
    context = load_context()
    trust_status, cwd = context.trust_status, Path(os.path.realpath(working_folder()))
    folders = (text_of(cwd), text_of(trust.project_root(cwd)))
    places = rule_places(trust_status.root if trust_status.ok else None)
    found = session_rules(context.settings, allow=(), deny=(), places=places, folders=folders)
    rules = Rules(mode=mode or context.settings.mode, rules=found, profile="friday", folders=folders)
    if profile:
        named = context.profiles().get(profile)
        rules = profile_rights(rules, named, (*named.select(sorted(TOOLS.names)), TASK_RESULT))
    return rules, context.loaded.notices


def _call(text: str) -> RuleInput:
    """Parse `tool: subject`. Raises UsageError."""
    tool, _, rest = text.partition(":")
    tool, subject = tool.strip(), rest.strip()
    access = _SANDBOX_ACCESS.get(tool, "")
    tool = BASH if access else tool
    effect = TOOLS.effect(tool)
    if effect is None:
        raise UsageError(f"Unknown tool {tool!r}.", hint="Example: 'bash: git status'.")
    if not subject:
        return RuleInput(tool, effect)
    if tool == BASH:
        script = analyze(subject, AnalysisContext(LocalWorkspace(working_folder())))
        sandbox = _sandbox()
        script = script if sandbox.supports_read_only else without_sandbox(subject, script)
        return RuleInput(tool, effect, (subject,), script, sandbox.sandbox_access(access, subject))
    if effect in ("read", "write"):
        try:
            return RuleInput(tool, effect, LocalWorkspace(working_folder()).labels(subject))
        except FridayError as error:
            raise UsageError(str(error)) from None
    if tool == WEB_FETCH and "://" in subject:
        return RuleInput(tool, effect, (f"domain:{urlsplit(subject).hostname or ''}",))
    return RuleInput(tool, effect, (subject,), also=_also(tool, subject))


def _also(tool: str, subject: str) -> tuple[CallEffect, ...]:
    """What a call does besides what its subject says: the sub-agent that a skill runs as, the file of a resource."""
    if tool == SKILL:
        from friday_cli.extensions.skills import lookup  # only for a call of a skill

        context = load_context()
        skill = lookup.load(working_folder(), context.trust_status).found.get(subject.removeprefix("/"))
        if skill is not None and skill.fork:
            known = skill.agent in context.profiles().found
            return (CallEffect("spawn", (skill.agent if known else DEFAULT_PROFILE,)),)
    if tool.endswith(f"__{READ}"):
        from friday_cli.mcp.tools import file_labels  # only for a resource

        labels = file_labels(subject, LocalWorkspace(working_folder()))
        return (CallEffect("read", labels),) if labels else ()
    return ()


def _sandbox() -> SandboxPolicy:
    """The available sandbox. Raises UsageError."""
    settings = load_context().settings.sandbox
    choice = detect_sandbox(settings.kind, os.environ, cache=cache_dir(os.environ))
    return SandboxPolicy(choice, settings, environ=os.environ)


def _steps(rules: Rules, call: RuleInput) -> list[tuple[str, PermissionDecision]]:
    """Each simple command of a shell command, with its own decision."""
    found = []
    for step in call.script.steps if call.script else ():
        alone = msgspec.structs.replace(call, subjects=(step.raw,), script=CommandAnalysis((step,)))
        found.append((step.raw, rules.decide(alone)))
    return found
