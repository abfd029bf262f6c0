"""Running commands: bash, and the two tools for those in the background."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from friday_cli.core.protocol.displays import CommandDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import CommandRun, ToolFacts
from friday_cli.core.protocol.shell_script import CommandAnalysis
from friday_cli.core.protocol.tool import Output, Tool, ToolContext, tool
from friday_cli.core.protocol.workspace import Access, BackgroundJob, Ran, Reach, Workspace
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.tool_catalog import TOOLS

TIMEOUT_S, LONGEST_S, WAIT_S = 120.0, 600.0, 60.0
"""Seconds a command may take by default and at most, and for which its news may be waited."""
TOLD_S = 1.0
"""A command that ran for less than this is not said to have taken time."""
TITLE = 120
"""Characters of a command in one line."""


class BashArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, msgspec.Meta(description="Command for bash, run in the workspace folder.", min_length=1)]
    timeout_s: Annotated[
        Annotated[float, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(
            description="Seconds after which it is stopped, for a command that needs more or less than usual."
        ),
    ] = None
    background: Annotated[
        bool,
        msgspec.Meta(description="Return at once and let it run, for servers and watchers; timeout_s has no effect."),
    ] = False

    @property
    def access(self) -> Access:
        """What it may beyond the sandbox."""
        return ""


class SandboxedBashArguments(BashArguments, frozen=True, forbid_unknown_fields=True):
    """A command where there is a sandbox."""

    network: Annotated[
        bool, msgspec.Meta(description="Run with the network on, still in the sandbox. The user is asked; say why.")
    ] = False
    outside: Annotated[
        bool,
        msgspec.Meta(
            description="Run without the sandbox, after a call failed because of it and where the task needs it. The user"
            " is asked; say why."
        ),
    ] = False
    reason: Annotated[
        str, msgspec.Meta(description="Why it needs the network or to run outside, for the user.", max_length=300)
    ] = ""

    @property
    def access(self) -> Access:
        return "outside" if self.outside else "network" if self.network else ""


def _reach(args: BashArguments, workspace: Workspace) -> tuple[Reach, str]:
    """How far the command goes, and the model's reason, without which nobody is asked. Raises ToolError."""
    reach = workspace.reach(args.access)
    reason = args.reason if isinstance(args, SandboxedBashArguments) else ""
    if reach in ("network", "outside") and not reason.strip():
        raise ToolError("bash: network and outside need a reason.", hint="Say in `reason` what it is for.")
    return reach, reason


def _script(args: BashArguments, workspace: Workspace) -> CommandAnalysis:
    """The command taken apart. Raises ToolError where it names a folder that the agent must stay out of."""
    from friday_cli.command_safety import AnalysisContext, analyze

    script = analyze(args.command, AnalysisContext(workspace))
    if script.leaves:
        raise ToolError(
            f"This command leads out of your worktree: {script.leaves}.",
            hint=f"Your folder is {workspace.root}, a copy of all of it; name files relative to it.",
        )
    return script


async def _bash(context: ToolContext, args: BashArguments, timeout_s: float) -> Output:
    if args.background:
        job = await context.workspace.start(args.command, agent=context.agent, access=args.access)
        text = f"Started in the background as {job.id}. See its output with bash_output, end it with bash_kill."
        return Output(text, CommandDisplay(args.command, None, f"started as {job.id}"), _facts(args.command, None))
    ran = await context.workspace.run(
        args.command, agent=context.agent, timeout_s=timeout_s, on_output=context.emit, access=args.access
    )
    output = sanitize(ran.output)
    parts = [output.rstrip("\n")] if output.strip() else []
    parts.append(f"[{_end(ran, timeout_s)}]")
    return Output(
        "\n".join([*parts, *_sandbox(ran)]),
        CommandDisplay(args.command, ran.exit_code, output, ran.spill),
        ToolFacts(files=ran.changed, commands=(CommandRun(args.command, ran.exit_code, ran.timed_out),)),
        error=ran.exit_code != 0,
        warnings=_warnings(args.command, ran.tampered),
    )


def _sandbox(done: Ran | BackgroundJob) -> list[str]:
    """What the model should know of the sandbox a command ran in."""
    lines = []
    if done.blocked:
        lines.append(f"[{done.blocked} If the task needs it, call bash again with network or outside, and a reason.]")
    if done.tampered:
        names = sanitize(", ".join(done.tampered[:5]))
        lines.append(f"[Protected files changed while this ran: {names}. The user is told; leave them alone.]")
    return lines


def _warnings(command: str, tampered: Sequence[str]) -> tuple[str, ...]:
    """What the person is told of protected files that changed."""
    if not tampered:
        return ()
    names = ", ".join(tampered[:5]) + (" ..." if len(tampered) > 5 else "")
    return (
        sanitize_line(f"{names} changed while a command ran, and can run code later: look at it. ({command})", 500),
    )


def _end(ran: Ran, timeout_s: float) -> str:
    """How a command ended, in words."""
    if ran.timed_out:
        words = (
            f"stopped: it ran longer than {timeout_s:g} s; give it more time, let it run in the background,"
            " or see that it does not wait for input"
        )
    elif ran.exit_code is None:
        words = "it was killed"
    else:
        words = f"exit {ran.exit_code}"
        if ran.exit_code > 128 and (name := _SIGNALS.get(ran.exit_code - 128)):
            words += f", ended by {name}"
    if ran.duration_s >= TOLD_S:
        words += f", {ran.duration_s:.1f} s"
    if not ran.output.strip():
        words += ", no output"
    if ran.left:
        words += (
            f"; {ran.left} process{'es' if ran.left > 1 else ''} it left running"
            f" {'were' if ran.left > 1 else 'was'} ended: use background for what is to go on"
        )
    return words


_SIGNALS = {
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
}


class JobOutputArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[str, msgspec.Meta(description="Which command, as bash named it: job-1.")]
    wait_s: Annotated[
        float, msgspec.Meta(description="Wait up to so many seconds for something new.", ge=0, le=WAIT_S)
    ] = 0.0


class Kill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[str, msgspec.Meta(description="Which command, as bash named it: job-1.")]


async def _look(context: ToolContext, args: JobOutputArguments) -> Output:
    return _job(await context.workspace.job(args.id, agent=context.agent, wait_s=args.wait_s))


async def _kill(context: ToolContext, args: Kill) -> Output:
    return _job(await context.workspace.job(args.id, agent=context.agent, kill=True))


def _job(job: BackgroundJob) -> Output:
    output = sanitize(job.output)
    if job.running:
        state = "still running"
    elif job.exit_code is None:
        state = "ended: it was killed"
    else:
        state = f"ended: exit {job.exit_code}"
    text = f"{output.rstrip(chr(10))}\n" if output.strip() else "(nothing new)\n"
    text = "\n".join([f"{text}[{job.id} {state}]", *_sandbox(job)])
    facts = (
        ToolFacts(files=job.changed, commands=(CommandRun(job.command, job.exit_code),)) if job.ended else ToolFacts()
    )
    display = CommandDisplay(job.command, job.exit_code, output, job.spill)
    return Output(text, display, facts, warnings=_warnings(job.command, job.tampered))


def _facts(command: str, exit_code: int | None) -> ToolFacts:
    return ToolFacts(commands=(CommandRun(command, exit_code),))


def _line(command: str) -> str:
    first, _, more = command.strip().partition("\n")
    return first[:TITLE] + (" ..." if more or len(first) > TITLE else "")


BASH_OUTPUT = tool(
    _look,
    TOOLS["bash_output"],
    args=JobOutputArguments,
    title=lambda args: args.id,
    description=(
        "See what a background command printed since you last looked, and whether it still runs. With wait_s it waits for"
        " something new rather than being asked again and again."
    ),
)
BASH_KILL = tool(
    _kill,
    TOOLS["bash_kill"],
    args=Kill,
    title=lambda args: args.id,
    description="End a background command with everything it started, and see the last of its output.",
)


def bash_tool(timeout_s: float = TIMEOUT_S, longest_s: float = LONGEST_S, *, confined: bool = False) -> Tool:
    """The tool `bash`: a command may take `timeout_s` seconds, or what the model asks for up to `longest_s`. `confined`
    tells whether there is a sandbox, which a call may then ask to leave."""

    async def run(context: ToolContext, args: BashArguments) -> Output:
        if args.timeout_s is not None and args.timeout_s > longest_s:
            raise ToolError(f"bash: timeout_s may be {longest_s:g} at most.", hint="For longer work use background.")
        return await _bash(context, args, args.timeout_s or timeout_s)

    return tool(
        run,
        TOOLS["bash"],
        args=SandboxedBashArguments if confined else BashArguments,
        reach=_reach,
        subjects=lambda args, workspace: (args.command,),
        script=_script,
        title=lambda args: _line(args.command) + (" (background)" if args.background else ""),
        begins=lambda args: _facts(args.command, None),
        description=(
            "Run a command with bash in the workspace folder and get its output (stdout and stderr as they come) and exit code."
            " Each call is a new shell: `cd` and variables do not last to the next. Nothing can be typed into it: no editors,"
            " pagers or prompts; use flags such as --yes. Of long output you see the beginning and the end, and the name of a"
            " file with all of it. A command is over when its shell is; what it leaves running is ended then. For what must go"
            " on (a server, a watcher) set background. Quote paths with blanks. To read, find or change files use the file"
            " tools, not cat, grep, find or sed."
        ),
    )


def tools(timeout_s: float = TIMEOUT_S, longest_s: float = LONGEST_S, *, confined: bool = False) -> list[Tool]:
    """The tools of this group; what is given is as in `bash_tool`."""
    return [bash_tool(timeout_s, longest_s, confined=confined), BASH_OUTPUT, BASH_KILL]
