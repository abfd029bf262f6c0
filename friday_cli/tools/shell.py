"""The tools `bash`, `bash_output` and `bash_kill`: commands, also in the background."""

from __future__ import annotations

import shlex
import signal
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments, adapt_timeout
from friday_cli.core.protocol.displays import CommandDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import CommandRun, ToolFacts
from friday_cli.core.protocol.shell_script import CommandAnalysis
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.workspace import (
    Access,
    BackgroundJob,
    CommandResult,
    SandboxAccess,
    Workspace,
    tamper_warning,
)
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize
from friday_cli.core.tool_catalog import TOOLS

TIMEOUT_S, MAX_TIMEOUT_S, MAX_WAIT_S = 120.0, 600.0, 600.0
"""Seconds: default and maximum timeout of a command, and maximum wait for new output of a background command."""
UNTIL_S = 60.0
"""Seconds that a call waits for a line if it does not say how long."""
MIN_REPORTED_S = 1.0
"""Seconds from which the duration of a command is reported."""
TITLE_CHARS = 120
"""Longest title of a call."""
_SUMMARY = 4_000
"""Characters of the end of an output in which the summary of a test run is looked for."""
_TESTS = pattern(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|(?:npm|yarn|pnpm|bun)\b.*\btest|(?:go|cargo|make) test)\b"
)
_NONE_RAN = pattern(
    r"(?i)no tests ran|collected 0 items|no module named '?(?:pytest|nose|tox)\b|\bran 0 tests|no test files|no tests found"
    r"|running 0 tests|\b0 passing"
)
_SOME_RAN = pattern(r"(?im)\b[1-9]\d* (?:passed|failed|passing|failing|tests?\b)|\brunning [1-9]|^ok\s+\S+\s+[\d.(]")
_FILTERED = pattern(r"\|&?\s*(tail|head|cat|tee|grep|sed|awk|sort|uniq|wc|cut|tr)\b[^|;&\n]*$")
"""A pipe at the end of a command into a program that succeeds whatever it reads."""
_READS = pattern(r"(?:^|[;&\n(]\s*)(?:cat|grep|rg|git|sed|awk|head|tail|jq|journalctl|less|echo|printf)\b[^;&\n]*$")
"""A pipe at the end of a command whose first part only prints what it reads: its words are not its own."""
_FAILED = pattern(
    r"(?m)^Traceback \(most recent call last\)|: command not found$|: No module named |: No such file or directory$"
    r"|^(?:FAILED|fatal:|error:|npm ERR!|make: \*\*\*|INTERNALERROR>) ?|\b[1-9]\d* (?:failed|errors?)\b"
)
"""What programs write when they fail."""
_SIGNALS = {
    getattr(signal, name): name
    for name in ("SIGINT", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGPIPE", "SIGTERM")
}


class BashArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {
        "cmd": "command", "run_in_background": "background", "is_background": "background",
        "timeout_seconds": "timeout_s", "timeout_secs": "timeout_s",
    }  # fmt: skip
    command: Annotated[str, Meta(min_length=1)]
    timeout_s: Annotated[Annotated[float, Meta(ge=1)] | None, Meta(description="Seconds until it is stopped.")] = None
    background: Annotated[bool, Meta(description="Return at once, keep it running.")] = False

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        """Codex sends a list of words and a folder, Gemini CLI a folder, Claude Code milliseconds."""
        adapt_timeout(sent)
        name = "cmd" if "cmd" in sent else "command"
        command = sent.get(name)
        if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
            shell = len(command) == 3 and command[0] in ("bash", "/bin/bash", "/usr/bin/bash")
            sent[name] = command[2] if shell and command[1] in ("-c", "-lc") else shlex.join(command)
        for folder in ("workdir", "cwd", "directory", "dir_path"):
            if isinstance(where := sent.get(folder), str) and isinstance(sent.get(name), str):
                del sent[folder]
                if where not in ("", ".", "./"):
                    where = f"./{where}" if where.startswith("-") else where
                    sent[name] = f"cd {shlex.quote(where)} || exit; {sent[name]}"

    @property
    def access(self) -> Access:
        """The access beyond the sandbox that it asks for."""
        return ""


class SandboxedBashArguments(BashArguments, frozen=True):
    """Arguments of `bash` with a sandbox."""

    aliases: ClassVar = {
        **BashArguments.aliases,
        "justification": "reason",
        "dangerously_disable_sandbox": "outside",
        "with_escalated_permissions": "outside",
    }

    network: Annotated[bool, Meta(description="With network, in the sandbox.")] = False
    outside: Annotated[bool, Meta(description="Outside the sandbox, only after a call failed because of it.")] = False
    reason: Annotated[
        str, Meta(description="Why network or outside, for the user, who must approve it.", max_length=300)
    ] = ""

    @property
    def access(self) -> Access:
        return "outside" if self.outside else "network" if self.network else ""


def _sandbox_access(args: BashArguments, workspace: Workspace) -> tuple[SandboxAccess, str]:
    """What the command may reach, and the reason given by the model. Raises ToolError without a required reason."""
    sandbox_access = workspace.sandbox_access(args.access, args.command)
    reason = args.reason if isinstance(args, SandboxedBashArguments) else ""
    if sandbox_access in ("network", "outside") and not reason.strip():
        raise ToolError("bash: network and outside need a `reason`.")
    return sandbox_access, reason


def _script(args: BashArguments, workspace: Workspace) -> CommandAnalysis:
    """Analyze the command. Raises ToolError if it names a folder outside of the agent's worktree."""
    workspace.expect_command()
    from friday_cli.command_safety import AnalysisContext, analyze, without_sandbox

    script = analyze(args.command, AnalysisContext(workspace))
    script = script if workspace.supports_read_only else without_sandbox(args.command, script)
    if script.leaves:
        hint = f"Your folder {workspace.root} is a full copy; use relative paths."
        raise ToolError(f"The command names a path outside your worktree: {script.leaves}.", hint=hint)
    return script


def _ran_no_test(command: str, output: str) -> bool:
    """Whether a command that is to run tests says that it ran none. With a pipe its exit code may still be 0."""
    end = output[-_SUMMARY:]
    return bool(_TESTS().search(command) and _NONE_RAN().search(end)) and not _SOME_RAN().search(end)


def _hides_failure(command: str, ran: CommandResult) -> str:
    """The last part of a pipe that succeeded, if the output says that a part before it failed; "" if nothing does."""
    filtered = None if _READS().search(command) else _FILTERED().search(command.rstrip())
    failed = ran.exit_code == 0 and filtered and "pipefail" not in command and _FAILED().search(ran.output[-_SUMMARY:])
    return filtered[1] if filtered and failed else ""


async def _bash(context: ToolContext, args: BashArguments, timeout_s: float) -> Output:
    access: Access = "read_only" if context.read_only else args.access
    if args.background:
        job = await context.workspace.start(args.command, agent=context.agent, access=access)
        text = f"Started in the background as {job.id}. Read its output with bash_output, stop it with bash_kill."
        facts = ToolFacts(commands=(CommandRun(args.command, job=job.id, running=True),))
        return Output(text, CommandDisplay(args.command, None, f"started as {job.id}"), facts)
    ran = await context.workspace.run(
        args.command, agent=context.agent, timeout_s=timeout_s, on_output=context.emit, access=access
    )
    output = sanitize(ran.output)
    parts = [output.rstrip("\n")] if output.strip() else []
    exit_of = _hides_failure(args.command, ran)
    parts.append(f"[{_ending(ran, timeout_s, exit_of)}]")
    return Output(
        "\n".join([*parts, *_sandbox(ran, read_only=context.read_only)]),
        CommandDisplay(args.command, ran.exit_code, output, ran.output_file, exit_of),
        ToolFacts(
            files=ran.changed,
            commands=(
                CommandRun(args.command, ran.exit_code, ran.timed_out, no_test=_ran_no_test(args.command, output)),
            ),
            unknown=ran.unknown,
        ),
        error=ran.exit_code != 0,
        warnings=(tamper_warning(args.command, ran.tampered),) if ran.tampered else (),
        denied=ran.blocked if context.read_only else "",
    )


def _started(args: BashArguments) -> ToolFacts:
    return ToolFacts(commands=(CommandRun(args.command, None),))


def _sandbox(done: CommandResult | BackgroundJob, *, read_only: bool) -> list[str]:
    """Notes for the model about the sandbox. `read_only`: it was one in which a command is read-only."""
    lines = []
    if done.blocked and read_only:
        lines.append("[It ran read-only. If it must do more, call bash without background: the user is asked.]")
    elif done.blocked:
        lines.append(f"[{done.blocked} If the task needs it, call bash again with network or outside and a reason.]")
    if done.tampered:
        names = sanitize(", ".join(done.tampered[:5]))
        lines.append(f"[Protected files changed while this ran: {names}. The user is informed; do not change them.]")
    return lines


def _ending(ran: CommandResult, timeout_s: float, exit_of: str) -> str:
    """How a command ended, for the model. `exit_of` as in `CommandDisplay`."""
    if ran.timed_out:
        remedy = "raise timeout_s, use background, or make sure it does not wait for input"
        text = f"stopped after {timeout_s:g} s; {remedy}"
    elif ran.exit_code is None:
        text = "killed"
    else:
        text = f"exit {ran.exit_code}"
        if ran.exit_code > 128 and (name := _SIGNALS.get(ran.exit_code - 128)):
            text += f", {name}"
        text += f" of {exit_of}; an earlier part of the pipe seems to have failed" if exit_of else ""
    if ran.duration_s >= MIN_REPORTED_S:
        text += f", {ran.duration_s:.1f} s"
    if not ran.output.strip():
        text += ", no output"
    if ran.left:
        processes = f"{ran.left} remaining process{'es' if ran.left > 1 else ''}"
        text += f"; {processes} stopped: use background to keep them running"
    return text


class KillArguments(ToolArguments, frozen=True):
    aliases: ClassVar = dict.fromkeys(("bash_id", "shell_id", "task_id", "job_id", "session_id"), "id")
    id: str


class JobOutputArguments(KillArguments, frozen=True):
    id: Annotated[str, Meta(description="Its id, such as job-1.")]
    wait_s: Annotated[float, Meta(description="Seconds to wait for more.", ge=0, le=MAX_WAIT_S)] = 0.0
    until: Annotated[
        str, Meta(description="Wait until a line has this text (60 s); * is anything, | is or.", max_length=200)
    ] = ""


async def _output(context: ToolContext, args: JobOutputArguments) -> Output:
    wait_s = args.wait_s or (UNTIL_S if args.until else 0.0)
    job = await context.workspace.job(args.id, agent=context.agent, wait_s=wait_s, until=args.until)
    if not args.until or not (job.running or job.found):
        return _job_output(job)
    return _job_output(job, "; the line appeared" if job.found else f"; no such line within {wait_s:g} s")


async def _kill(context: ToolContext, args: KillArguments) -> Output:
    return _job_output(await context.workspace.job(args.id, agent=context.agent, kill=True))


def _job_output(job: BackgroundJob, line: str = "") -> Output:
    output = sanitize(job.output)
    if job.running:
        state = "still running"
    elif job.exit_code is None:
        state = "killed"
    else:
        state = f"ended: exit {job.exit_code}"
    text = f"{output.rstrip(chr(10))}\n" if output.strip() else "(no new output)\n"
    text = "\n".join([f"{text}[{job.id} {state}{line}]", *_sandbox(job, read_only=job.read_only)])
    commands = (CommandRun(job.command, job.exit_code, job=job.id),)
    facts = ToolFacts(files=job.changed, commands=commands, unknown=job.unknown) if job.ended else ToolFacts()
    display = CommandDisplay(job.command, job.exit_code, output, job.output_file)
    warnings = (tamper_warning(job.command, job.tampered),) if job.tampered else ()
    return Output(text, display, facts, warnings=warnings)


def _line(command: str) -> str:
    first, _, more = command.strip().partition("\n")
    return first[:TITLE_CHARS] + (" ..." if more or len(first) > TITLE_CHARS else "")


BASH_OUTPUT_TOOL = Tool(
    _output,
    TOOLS["bash_output"],
    args=JobOutputArguments,
    title=lambda args: f"{args.id} until {args.until}" if args.until else args.id,
    description="New output of a background command, and whether it still runs. Use wait_s or until, do not poll.",
)
BASH_KILL_TOOL = Tool(
    _kill,
    TOOLS["bash_kill"],
    args=KillArguments,
    title=lambda args: args.id,
    description="Stop a background command and its processes; returns its last output.",
)


def bash_tool(timeout_s: float = TIMEOUT_S, longest_s: float = MAX_TIMEOUT_S, *, confined: bool = False) -> Tool:
    """The tool `bash`. `timeout_s`: default timeout in seconds; `longest_s`: the most a model may ask for. `confined`:
    commands run in a sandbox, which a call may ask to leave."""

    async def run(context: ToolContext, args: BashArguments) -> Output:
        if args.timeout_s is not None and args.timeout_s > longest_s:
            raise ToolError(f"bash: timeout_s is at most {longest_s:g}.", hint="Use background for longer work.")
        return await _bash(context, args, args.timeout_s or timeout_s)

    return Tool(
        run,
        TOOLS["bash"],
        args=SandboxedBashArguments if confined else BashArguments,
        sandbox_access=_sandbox_access,
        script=_script,
        title=lambda args: _line(args.command) + (" (background)" if args.background else ""),
        begins=_started,
        description=(
            "Run a command with bash in the workspace folder; returns output and exit code. Each call is a "
            "new shell: `cd` and variables are not kept, and what it leaves running is stopped (servers, "
            "watchers: background). No input: no editors, pagers or prompts. Long output is cut in the "
            "middle; a note names the file with all of it. To read, find or edit files use the file tools, "
            "not cat, grep, find or sed."
        ),
    )


def tools(timeout_s: float = TIMEOUT_S, longest_s: float = MAX_TIMEOUT_S, *, confined: bool = False) -> list[Tool]:
    """The tools of this family; see `bash_tool`."""
    return [bash_tool(timeout_s, longest_s, confined=confined), BASH_OUTPUT_TOOL, BASH_KILL_TOOL]
