"""`friday doctor`: checks the installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from friday_cli.diagnostics import doctor as diagnosis
from friday_cli.diagnostics.doctor import DoctorFact

from . import output
from .help import HelpCommand
from .output import Style
from .session_args import JSON

if TYPE_CHECKING:
    from friday_cli.diagnostics.selftest import SelftestCheck

_MARKS: dict[str, tuple[str, Style]] = {"ok": (" ", ""), "note": ("!", "yellow"), "bad": ("✗", "red")}

_PASSED: tuple[str, Style] = ("✓", "green")


def register(app: typer.Typer, _: str) -> None:
    """Add the command `doctor`."""
    app.command("doctor", cls=HelpCommand)(doctor)


def doctor(
    as_json: bool = JSON,
    selftest: bool = typer.Option(
        False, "--selftest", help="Also run scripted agents in a temporary folder and check the results."
    ),
) -> None:
    """Check the installation, offline.

    Versions, settings, model, keys, network, folders, sessions, programs, sandbox, terminal. Nothing leaves this machine.
    The output is safe to share: no keys, no passwords, the home folder as ~. Exit code 1 if something is broken.
    """
    facts = diagnosis.examine()
    checks: list[SelftestCheck] = []
    if selftest:
        from friday_cli.diagnostics import selftest as checks_module  # imports the session (50 ms)

        checks = checks_module.run()
    broken = sum(f.level == "bad" for f in facts) + sum(not c.ok for c in checks)
    if as_json:
        document = {"ok": not broken, "facts": facts}
        output.show_json(document | ({"selftest": checks} if selftest else {}))
    else:
        _show(facts)
        if selftest:
            _show_checks(checks)
        text = f"{broken} problem{'' if broken == 1 else 's'} found (marked ✗)." if broken else "No problems found."
        output.show_painted((f"\n{text}", "red" if broken else "green"))
    if broken:
        raise typer.Exit(1)


def _show(facts: list[DoctorFact]) -> None:
    area = ""
    width = max(len(fact.name) for fact in facts if len(fact.name) <= 18)
    for fact in facts:
        if fact.area != area:
            area = fact.area
            output.show_painted((f"{area}", "bold"))
        mark, style = _MARKS[fact.level]
        output.show_hanging(width + 6, (f"  {mark} ", style), (f"{fact.name:<{width}}  ", "dim"), (fact.text, ""))
        if fact.hint:
            output.show_hanging(width + 6, (" " * (width + 6), ""), (fact.hint, style))


def _show_checks(checks: list[SelftestCheck]) -> None:
    output.show_painted(("self-test", "bold"))
    for check in checks:
        mark, style = _PASSED if check.ok else _MARKS["bad"]
        output.show_hanging(15, (f"  {mark} ", style), (f"{check.name:<11}", "dim"), (check.text, ""))
