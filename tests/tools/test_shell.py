from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from friday_cli.core.protocol.displays import CommandDisplay
from friday_cli.core.protocol.receipt import CommandRun
from friday_cli.core.protocol.tool import PARALLEL
from friday_cli.tools import shell
from friday_cli.tools.shell import tools
from tests.timing import paced
from tests.tools.tool_workspace import ToolHarness


@pytest.fixture
async def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolHarness]:
    monkeypatch.setattr(shell, "MIN_REPORTED_S", 600.0)  # how long it took is the machine's affair
    root = tmp_path / "ws"
    root.mkdir()
    made = ToolHarness(root, *tools())
    yield made
    await made.workspace.close()


async def test_a_command_gives_output_exit_code_and_facts(harness: ToolHarness) -> None:
    output = await harness("bash", command="echo hi; echo new > f.txt; exit 3")
    assert output.text == "hi\n[exit 3]"
    assert output.error
    assert output.facts.commands == (CommandRun("echo hi; echo new > f.txt; exit 3", 3),)
    assert [change.path for change in output.facts.files] == ["f.txt"]
    assert output.display == CommandDisplay("echo hi; echo new > f.txt; exit 3", 3, "hi\n")
    assert "".join(harness.shown) == "hi\n"


async def test_each_command_starts_anew_in_the_workspace(harness: ToolHarness) -> None:
    await harness("bash", command="cd /; export A=1")
    assert (await harness.text("bash", command="pwd; echo ${A-unset}")).startswith(f"{harness.root}\nunset\n")


@paced
async def test_a_timeout_is_told_with_what_came_before(harness: ToolHarness, pace: float) -> None:
    output = await harness("bash", command="echo before; sleep 1000", timeout_s=int(pace))
    assert output.text.startswith(f"before\n[stopped after {pace:.0f} s")
    assert output.error
    assert output.facts.commands == (CommandRun("echo before; sleep 1000", None, True),)


@pytest.mark.parametrize(
    ("command", "text", "error"),
    [
        ("true", "[exit 0, no output]", False),
        ("[[ a == a* ]] && echo {1..3}", "1 2 3\n[exit 0]", False),
        ("kill -SEGV $$", "[exit 139, SIGSEGV, no output]", True),
        (r"printf '\033[31mred\033[0m \033]0;title\007a\0b\r\nrow1\rrow2\n'", "red ab\nrow1\nrow2\n[exit 0]", False),
    ],
)
async def test_what_a_command_gives_as_plain_text(harness: ToolHarness, command: str, text: str, error: bool) -> None:
    output = await harness("bash", command=command)
    assert (output.text, output.error) == (text, error)
    assert isinstance(output.display, CommandDisplay)
    assert "\x1b" not in output.display.output


async def test_the_limits_of_a_timeout_hold(harness: ToolHarness) -> None:
    for seconds in (0, 601):
        assert "timeout_s" in await harness.error("bash", command="true", timeout_s=seconds)


async def test_what_is_left_running_is_ended_and_said(harness: ToolHarness) -> None:
    text = await harness.text("bash", command="sleep 1000 & echo up")
    assert text == "up\n[exit 0; 1 remaining process stopped: use background to keep them running]"


async def test_long_output_names_the_file_with_all_of_it(harness: ToolHarness) -> None:
    output = await harness("bash", command="seq 1 50000")
    assert isinstance(output.display, CommandDisplay)
    assert output.display.spill in output.text
    assert len(output.text) < 35_000
    assert os.path.getsize(output.display.spill) == sum(len(str(n)) + 1 for n in range(1, 50_001))  # noqa: ASYNC240


async def test_a_background_command_is_followed_to_its_end(harness: ToolHarness) -> None:
    os.mkfifo(harness.root / "go")
    output = await harness("bash", command="echo one; read -t 20 x <> go; echo two; exit 7", background=True)
    assert "job-1" in output.text
    assert output.facts.commands == (
        CommandRun("echo one; read -t 20 x <> go; echo two; exit 7", None, job="job-1", running=True),
    )
    await harness("bash_kill", id="job-1")
    again = await harness("bash", command="echo one; read -t 20 x <> go; echo two > made; exit 7", background=True)
    assert "job-2" in again.text
    assert await harness.text("bash_output", id="job-2", wait_s=20) == "one\n[job-2 still running]"
    assert await harness.text("bash_output", id="job-2") == "(no new output)\n[job-2 still running]"
    fd = os.open(harness.root / "go", os.O_RDWR)
    os.write(fd, b"\n")
    last = await harness("bash_output", id="job-2", wait_s=20)
    os.close(fd)
    assert last.text == "(no new output)\n[job-2 ended: exit 7]"
    assert last.facts.commands == (CommandRun("echo one; read -t 20 x <> go; echo two > made; exit 7", 7, job="job-2"),)
    assert "made" in [change.path for change in last.facts.files]
    after = await harness("bash_output", id="job-2")
    assert after.facts.commands == ()
    assert after.text == "(no new output)\n[job-2 ended: exit 7]"


async def test_an_agent_waits_for_a_line_of_a_background_command(harness: ToolHarness) -> None:
    os.mkfifo(harness.root / "go")
    command = "echo building; read -t 20 x <> go; echo 'Serving on port 80'; read -t 20 x <> go; echo failed: disk"
    await harness("bash", command=command, background=True)
    first = await harness.text("bash_output", id="job-1", wait_s=0.2, until="serving|ready")
    assert first == "building\n[job-1 still running; no such line within 0.2 s]"
    fd = os.open(harness.root / "go", os.O_RDWR)
    os.write(fd, b"\n")
    came = await harness.text("bash_output", id="job-1", wait_s=20, until="ready|Serv*port")
    assert came == "Serving on port 80\n[job-1 still running; the line appeared]"
    os.write(fd, b"\n")
    ended = await harness.text("bash_output", id="job-1", wait_s=20, until="never")
    os.close(fd)
    assert ended == "failed: disk\n[job-1 ended: exit 0]"
    assert shell.BASH_OUTPUT_TOOL.title(shell.JobOutputArguments("job-1", until="Serv*port")) == "job-1 until Serv*port"


async def test_a_background_command_is_killed_and_an_unknown_one_is_refused(harness: ToolHarness) -> None:
    assert "Yours: none" in await harness.error("bash_output", id="job-9")
    command = "echo up; setsid sleep 1000 & sleep 1000"
    await harness("bash", command=command, background=True)
    assert "Yours: job-1" in await harness.error("bash_kill", id="job-9")
    await harness.text("bash_output", id="job-1", wait_s=20)
    output = await harness("bash_kill", id="job-1")
    assert output.text == "(no new output)\n[job-1 killed]"
    assert output.facts.commands == (CommandRun(command, None, job="job-1"),)


def test_rules_see_the_whole_command_and_it_runs_alone() -> None:
    bash = tools()[0]
    command = "echo a\nrm -rf b"
    for background in (False, True):
        args = bash.parse({"command": command, "background": background})
        assert bash.used(args, None)[0] == (command,)  # type: ignore[arg-type]
    assert bash.title(bash.parse({"command": command})) == "echo a ..."
    assert bash.effect not in PARALLEL
