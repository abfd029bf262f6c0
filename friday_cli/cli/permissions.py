"""`friday permissions`: which rules hold here, and what they make of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import typer

from ..paths import with_tilde
from . import complete
from .help import Command, Group

if TYPE_CHECKING:
    from ..core.permission import Rules, Verdict
    from ..core.rule import Call
    from ..core.tool import Effect
    from ..core.workspace import Access, Reach
    from .output import Style

EFFECTS: dict[str, Effect] = {
    "read_file": "read", "list_dir": "read", "glob": "read", "grep": "read", "document_query": "read", "write_file": "write",
    "edit_file": "write", "bash": "run", "bash_output": "own", "bash_kill": "own", "web_fetch": "net", "web_search": "net",
    "memory_load": "read", "memory_save": "save", "todo": "own", "ask_user": "own", "task_result": "own",
    "delegate_task": "spawn", "delegate_tasks": "spawn", "list_sub_agents": "own", "get_delegation_result": "own",
    "message_sub_agent": "own", "cancel_sub_agent": "own", "apply_delegation": "write", "discard_delegation": "own",
}  # fmt: skip
"""What each tool may change, as the tools themselves declare it."""
_BEYOND: dict[str, Access] = {"bash_network": "network", "bash_outside": "outside"}
"""As rules name a command that is to reach beyond the sandbox."""
_WORDS = {"allow": "allowed", "ask": "asked", "deny": "denied"}
_STYLES: dict[str, Style] = {"allow": "green", "ask": "yellow", "deny": "red"}
_MODE = typer.Option(
    "", "--mode", metavar="MODE", help="Judge as in this mode: ask, edits, plan, auto or yolo.", show_default=False
)
_PROFILE = typer.Option(
    "",
    "--profile",
    metavar="NAME",
    help="Judge for an agent of this profile.",
    autocompletion=complete.profiles,
    show_default=False,
)
_JSON = typer.Option(False, "--json", help="Print JSON for programs.")


def register(app: typer.Typer) -> None:
    """Add the family `permissions`."""
    family = typer.Typer(cls=Group, help="Permission rules: list them, explain a decision.", rich_markup_mode=None)
    for name, function in (("list", list_), ("explain", explain)):
        family.command(name, cls=Command)(function)
    app.add_typer(family, name="permissions")


def list_(as_json: bool = _JSON) -> None:
    """List the rules that hold here, and where each stands.

    Deny beats ask, ask beats allow. What no rule decides, the mode does.
    """
    from .output import Column, remark, show_json, show_table

    rules, notices = _rules("", "")
    if as_json:
        show_json(
            {
                "mode": rules.mode,
                "rules": [
                    {
                        "rule": str(r),
                        "decision": r.decision,
                        "profile": r.profile,
                        "reason": r.reason,
                        "source": r.source,
                    }
                    for r in rules.rules
                ],
            }
        )
        return
    if rules.rules:
        columns = [
            Column("DECISION"),
            Column("RULE", wide=True),
            Column("FOR"),
            Column("FROM"),
            Column("REASON", wide=True),
        ]
        rows = [(r.decision, str(r), r.profile or "everybody", with_tilde(r.source), r.reason) for r in rules.rules]
        show_table(columns, rows)
    remark(
        f"mode {rules.mode}{'' if rules.rules else '; no rules'}. `friday permissions explain` tells what becomes of a call"
    )
    for words in notices:
        remark(words)


def explain(
    call: str = typer.Argument(
        metavar="CALL", help="A tool and what it is to do, such as 'bash: git -C / log | sh'.", show_default=False
    ),
    mode: str = _MODE,
    profile: str = _PROFILE,
    as_json: bool = _JSON,
) -> None:
    """Tell what would become of a call, and why.

    It is allowed, asked about or denied; the rule or judgement that decides is named. Nothing is run. A shell command
    is taken apart: each simple command in it is judged by itself. `bash_network:` and `bash_outside:` stand for
    commands that are to reach beyond the sandbox.
    """
    from ..core.permission import suggested_rule
    from . import output

    rules, _ = _rules(mode, profile)
    wanted = _call(call)
    verdict, later = _beside(rules, wanted, rules.decide(wanted), call)
    steps = _steps(rules, wanted)
    offered = suggested_rule(wanted).split("\n") if verdict.decision == "ask" and suggested_rule(wanted) else []
    if as_json:
        output.show_json(
            {
                "tool": wanted.tool, "subjects": list(wanted.subjects), "mode": rules.effective_mode, **_plain(verdict),
                "commands": [{"command": text, **_plain(one)} for text, one in steps], "offered": offered,
                "after_strangers": later,
            }
        )  # fmt: skip
        return
    _show(wanted.tool + (f": {'; '.join(wanted.subjects)}" if wanted.subjects else ""), verdict, 0)
    for text, one in steps:
        _show(text, one, 2)
    if later:
        output.remark(f"in a session: {later}")
    if offered:
        output.remark(f"a yes for longer would be kept as {' and '.join(offered)}")


def _beside(rules: Rules, call: Call, verdict: Verdict, text: str) -> tuple[Verdict, str]:
    """The decision with what is asked about beside the rules: addresses that seem to carry data; and in words what more
    is asked about in a session that has read text of strangers, "" for nothing."""
    from ..core.exposure import Exposure
    from ..core.permission import Verdict

    fresh = Exposure()
    if verdict.decision == "deny":
        return verdict, ""
    if reason := fresh.objection(call, [text.partition(":")[2].strip()], rules):
        return Verdict("ask", reason if verdict.decision == "allow" else f"{verdict.reason}; {reason}"), ""
    if verdict.decision == "ask":
        return verdict, ""
    fresh.source = "a web page, for one"
    return verdict, fresh.objection(call, [text.partition(":")[2].strip()], rules)


def _show(head: str, verdict: Verdict, indent: int) -> None:
    from .output import show_hanging

    place = f" ({with_tilde(verdict.source)})" if verdict.source else ""
    show_hanging(
        indent + 4, (" " * indent + head.replace("\n", " ⏎ ") + "  ", "bold"), (_WORDS[verdict.decision], _STYLES[verdict.decision]),
        (f"  {verdict.reason}{place}", "dim"),
    )  # fmt: skip


def _plain(verdict: Verdict) -> dict[str, str]:
    return {
        "decision": verdict.decision, "reason": verdict.reason, "rule": verdict.rule, "source": verdict.source,
    }  # fmt: skip


def _rules(mode: str, profile: str) -> tuple[Rules, tuple[str, ...]]:
    """The rights that an agent would have here. Raises UsageError for a mode or profile there is not."""
    from ..config.places import rule_places
    from ..core.errors import UsageError
    from ..core.permission import MODES
    from ..profiles import KNOWN
    from ..rights import profile_rights, session_rules
    from .here import look

    if mode and mode not in MODES:
        raise UsageError(f"{mode!r} is no mode.", hint=f"There are: {', '.join(MODES)}.")
    here = look()
    standing = here.standing
    rules = session_rules(
        here.settings, allow=(), deny=(), mode=mode or here.settings.mode, profile="friday",
        places=rule_places(standing.root if standing.ok else None),
    )  # fmt: skip
    if profile:
        found = here.profiles().get(profile)
        rules = profile_rights(rules, found, (*found.select(sorted(KNOWN)), "task_result"))
    return rules, here.loaded.notices


def _call(text: str) -> Call:
    """The call that a person means by `tool: subject`. Raises UsageError."""
    from ..core.errors import FridayError, UsageError
    from ..core.rule import Call
    from ..core.tool import Effect as Effects
    from ..paths import working_folder

    tool, _, rest = text.partition(":")
    tool, subject = tool.strip(), rest.strip()
    access = _BEYOND.get(tool, "")
    tool = "bash" if access else tool
    effect = EFFECTS.get(tool) or ("run" if tool.startswith("mcp__") else None)
    if effect is None:
        raise UsageError(
            f"{tool!r} is no tool.", hint="Write the tool, a colon and what it is to do: 'bash: git status'."
        )
    assert effect in get_args(Effects)
    if not subject:
        return Call(tool, effect)
    if tool == "bash":
        from ..local import LocalWorkspace
        from ..shell import Ground, judge

        return Call(tool, effect, (subject,), judge(subject, Ground(LocalWorkspace(working_folder()))), _reach(access))
    if effect in ("read", "write"):
        from ..local import LocalWorkspace

        try:
            return Call(tool, effect, LocalWorkspace(working_folder()).labels(subject))
        except FridayError as error:
            raise UsageError(str(error)) from None
    if tool == "web_fetch" and "://" in subject:
        from urllib.parse import urlsplit

        return Call(tool, effect, (f"domain:{urlsplit(subject).hostname or ''}",))
    return Call(tool, effect, (subject,))


def _reach(access: Access) -> Reach:
    """How far a command reaches here: confined, where there is a sandbox. Raises UsageError."""
    import os

    from ..paths import cache_dir
    from ..sandbox.choose import choose
    from ..sandbox.confinement import Confinement
    from .here import look

    settings = look().settings.sandbox
    choice = choose(settings.kind, os.environ, cache=cache_dir(os.environ))
    return Confinement(choice, environ=os.environ, network=settings.network).reach(access)


def _steps(rules: Rules, call: Call) -> list[tuple[str, Verdict]]:
    """Every simple command of a command, with what becomes of it by itself."""
    import msgspec

    from ..core.script import Script

    found = []
    for step in call.script.steps if call.script else ():
        alone = msgspec.structs.replace(call, subjects=(step.raw,), script=Script((step,)))
        found.append((step.raw, rules.decide(alone)))
    return found
