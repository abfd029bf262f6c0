"""The command in a shell: help, completion, closed pipes, and unexpected exceptions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from friday_cli import __version__
from friday_cli.cli import other_names, run, sessions_list
from tests.cli.console import Console, plain

COMMANDS = {
    "ask": (),
    "map": (),
    "eval": ("run", "check", "from-git", "status", "report", "retry", "rescore", "save", "cancel"),
    "demo": (),
    "agents": ("answer", "send", "stop", "logs", "resume"),
    "attach": (),
    "sessions": (
        "list",
        "show",
        "export",
        "receipt",
        "replay",
        "diff",
        "rewind",
        "fork",
        "rename",
        "delete",
        "stats",
        "repair",
    ),
    "cassette": ("list", "add", "check", "show", "accept"),
    "verify": (),
    "worktrees": ("list", "show", "apply", "discard", "clean"),
    "usage": (),
    "budget": ("show", "set", "clear"),
    "memory": ("list", "show", "promote", "forget"),
    "profiles": ("list", "show", "check", "login", "new"),
    "skills": ("list", "show", "check", "new"),
    "mcp": ("list", "show", "add", "add-json", "remove", "login", "logout", "tools", "call", "serve"),
    "lsp": ("list", "check"),
    "acp": (),
    "plugins": ("list", "add", "remove", "check"),
    "models": (),
    "auth": ("set", "list", "remove"),
    "permissions": ("list", "explain"),
    "hooks": ("list", "test"),
    "import": (),
    "trust": (),
    "config": ("path", "show", "get", "set", "unset", "edit", "schema"),
    "doctor": (),
}
EVERY = [(), *((name,) for name in COMMANDS), *((name, sub) for name, subs in COMMANDS.items() for sub in subs)]


def test_help_lists_the_commands_in_their_order_with_examples(console: Console) -> None:
    ran = console.ok("--help")
    named = re.findall(r"^  ([a-z]+)  ", ran.out.partition("Commands:")[2].partition("Options:")[0], re.M)
    assert named == list(COMMANDS)
    assert 'friday ask "What does this project do?"' in ran.out
    assert console().out == ran.out
    assert console("-h").out == ran.out


@pytest.mark.parametrize("argv", EVERY, ids=lambda argv: " ".join(argv) or "friday")
def test_every_help_says_what_it_does(console: Console, argv: tuple[str, ...]) -> None:
    ran = console(*argv, "--help")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"Usage: {' '.join(('friday', *argv))}")
    assert lines[2].strip().endswith((".", ":", "wrong", "...")) or len(lines[2]) > 40
    assert not re.search(r"[{}]|\[\[|<str>|None", re.sub(r"{\w+}", "", ran.out))  # fields of templates of `map`
    assert max(map(len, lines)) <= 80
    if len(argv) == 1:
        summary = re.search(rf"^  {argv[0]} +(.*)$", console("--help").out, re.M)
        assert summary is not None
        assert summary[1] in " ".join(ran.out.split())
    if len(argv) == 1 and COMMANDS[argv[0]]:
        listed = ran.out.partition("Commands:")[2].partition("Options:")[0]
        assert re.findall(r"^  ([a-z-]+)  ", listed, re.M) == [*COMMANDS[argv[0]]]


LISTING = ("agents", "budget")
"""Families that list when no command is named."""


@pytest.mark.parametrize("name", [name for name, subs in COMMANDS.items() if subs and name not in LISTING])
def test_a_family_alone_shows_its_help_as_wrong_use(console: Console, name: str) -> None:
    ran = console(name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"Usage: friday {name}")


def test_version(console: Console) -> None:
    for name in ("--version", "-V", "-v"):
        assert (console(name).out, console.process(name).out) == (f"friday {__version__}\n",) * 2


@pytest.mark.parametrize(("argv", "words"), [
    (("nope",), "No such command 'nope'. To begin the chat with it: friday -i nope. See `friday --help`."),
    (("-m", "demo", "mend", "the tests"), "To begin the chat with it: friday -m demo -i 'mend the tests'."),
    (("-m", "nope/x", "ask", "hi"), "--model before a command is for the chat. Write it after the command, where `friday ask --help` lists it."),
    (("ask", "-r"), "Option '-r' requires an argument. `friday sessions list` shows them; -c takes the last one."),
    (("What is this?",), 'To send a prompt, use: friday ask "PROMPT". See `friday --help`.'),
    (("sesions",), "Did you mean 'sessions', 'permissions'? To begin the chat with it: friday -i sesions."),
    (("--nope",), "No such option: --nope (Possible options: --mode, --model, --no-mcp). See `friday --help`."),
    (("exec", "hi"), "No such command 'exec'. In Friday it is: friday ask. See `friday --help`."),
    (("login",), "No such command 'login'. In Friday it is: friday auth set."),
    (("ask", "--permission-mode", "plan", "x"), "No such option: --permission-mode. In Friday it is: --mode ask, edits, plan or auto. See `friday ask --help`."),
    (("ask", "--max-budget-usd", "1", "x"), "In Friday it is: --max-cost USD."),
    (("--dangerously-skip-permissions",), "No such option: --dangerously-skip-permissions. In Friday it is: --yolo."),
    (("models", "-y"), "No such option: -y. See `friday models --help`."),
    (("models", "extra"), "Got unexpected extra argument (extra). See `friday models --help`."),
    (("models", "\x1b[31mred\x1b[0m"), "Got unexpected extra argument"),
    (("sessions", "nope"), "No such command 'nope'. See `friday sessions --help`."),
    (("ask", "--effort", "huge", "x"), "is not one of"),
])  # fmt: skip
def test_wrong_use_is_one_line_and_exit_2(console: Console, argv: tuple[str, ...], words: str) -> None:
    assert words in console.refused(*argv)


def test_no_summary_of_a_command_is_cut_off_at_80_columns(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for group in ("", *(name for name, subs in COMMANDS.items() if subs)):
        text = console(*group.split(), "--help").out
        cut = [row for row in text.splitlines() if row.startswith("  ") and row.endswith("...")]
        assert cut == [], group or "friday"


def test_head_takes_what_it_wants_and_nothing_complains(console: Console, session: str) -> None:
    script = f'"$0" -m friday_cli sessions export {session} -f json | head -1; echo "${{PIPESTATUS[0]}}"'
    ran = subprocess.run(
        ["bash", "-c", script, sys.executable],
        capture_output=True,
        text=True,
        cwd=console.project,
        env=console.env,
        check=True,
    )
    assert ran.stdout == "{\n0\n"
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("closed", "code"), [(">&-", 0), ("<&-", 0), ("2>&-", 0), (">&- 2>&- <&-", 0), (">/dev/full", 1)]
)
def test_ends_that_are_closed_or_full(console: Console, closed: str, code: int) -> None:
    for words in ("profiles list", "--version", "sessions list"):
        ran = subprocess.run(
            ["sh", "-c", f'"$0" -m friday_cli {words} {closed}', sys.executable],
            capture_output=True,
            text=True,
            cwd=console.project,
            env=console.env,
            check=False,
        )
        if words != "sessions list":  # which has nothing to print
            assert ran.returncode == code, words
        assert "Traceback" not in ran.stderr
        assert len(ran.stderr.splitlines()) <= 1


def test_an_encoding_that_knows_few_signs(console: Console, session: str) -> None:
    ran = console.process("sessions", "show", session, PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert "delegate_task researcher" in ran.out


def test_control_c_is_130(console: Console, session: str) -> None:
    ran = console.terminal("sessions", "delete", session, says=[("[y/N]", "\x03")])
    assert ran.code == 130
    assert console("sessions", "list").rows


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let `friday sessions list` fail."""

    def listed(cwd: str | None) -> None:
        raise error

    monkeypatch.setattr(sessions_list, "listed", listed)


def test_a_failure_nobody_foresaw_is_one_line_with_a_log(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-ant-abcdefghijklmnopqrstuvwx"
    failing(monkeypatch, RuntimeError(f"surprise \x1b[31m {secret}"))
    ran = console("sessions", "list")
    assert (ran.code, ran.out) == (1, "")
    assert ran.error.startswith("Friday itself failed: RuntimeError: surprise")
    log = Path(ran.error.rpartition("Log: ")[2])
    assert "Traceback" in log.read_text()
    assert secret not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_file_system_that_fails_is_one_line(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, OSError(5, "Input/output error", "/some/file"))
    assert console.refused("sessions", "list", code=1) == "/some/file: Input/output error."


def test_a_pipe_that_broke_is_the_callers(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, BrokenPipeError())
    with pytest.raises(BrokenPipeError):
        run(["sessions", "list"])


@pytest.fixture
def bash(console: Console, tmp_path: Path) -> Path:
    """A folder with a `friday` to run, and the script that bash is given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "friday").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m friday_cli "$@"\n')
    (folder / "friday").chmod(0o700)
    ran = console.process("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert ran.code == 0
    (folder / "complete.sh").write_text(ran.out)
    return folder


def tab(console: Console, bash: Path, *words: str) -> list[str]:
    """What bash offers for the last of `words`."""
    script = f""". {bash / "complete.sh"}
COMP_WORDS=(friday "$@"); COMP_CWORD=$#
_friday_completion friday
printf '%s\\n' "${{COMPREPLY[@]}}" """
    ran = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        capture_output=True,
        text=True,
        cwd=console.project,
        check=True,
        env=console.env | {"PATH": f"{bash}:{os.environ['PATH']}"},
    )
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_offers_commands_profiles_sessions_and_models(console: Console, session: str, bash: Path) -> None:
    console.profile(console.friday_home / "profiles", "reviewer")
    assert tab(console, bash, "") == list(COMMANDS)
    assert tab(console, bash, "profiles", "show", "re") == ["researcher", "reviewer"]
    assert tab(console, bash, "sessions", "show", "") == [session[:8]]
    assert tab(console, bash, "ask", "--model", "op") == ["opus"]
    assert tab(console, bash, "ask", "--profile", "gen") == ["general"]
    assert tab(console, bash, "auth", "set", "anth") == ["anthropic"]
    assert tab(console, bash, "config", "set", "limits.max_t") == ["limits.max_turns", "limits.max_tokens"]
    assert tab(console, bash, "sessions", "export", "--format", "") == [
        "md",
        "html",
        "json",
        "perfetto",
        "atif",
        "otlp",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_tab_is_quiet_where_something_is_wrong(console: Console, bash: Path) -> None:
    console.configure("broken = ")
    assert tab(console, bash, "profiles", "show", "") == []
    assert tab(console, bash, "ask", "--model", "") == []
    (console.friday_home / "data").mkdir()
    (console.friday_home / "data/friday.db").write_bytes(os.urandom(3000))
    assert tab(console, bash, "sessions", "show", "") == []


def test_install_completion_for_bash(console: Console) -> None:
    env = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    ran = console.process("--install-completion", "bash", **env)
    assert ran.code == 0
    script = console.home / ".bash_completions/friday.sh"
    assert "_FRIDAY_COMPLETE=complete_bash" in script.read_text()
    assert str(script) in (console.home / ".bashrc").read_text()


def test_what_zsh_evaluates_is_harmless(console: Console) -> None:
    console.profile(
        console.friday_home / "profiles", "sly", 'description: "$(touch owned) `touch owned` \'; touch owned #"'
    )
    ran = console.process(_FRIDAY_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="friday profiles show sl")
    assert '"sly":"touch owned touch owned touch owned"' in ran.out


def test_help_uses_a_wide_terminal(console: Console) -> None:
    shown = plain(console.terminal("ask", "--help", columns=120).out)
    assert 80 < max(map(len, shown.splitlines())) <= 100


def test_a_name_of_other_assistants_leads_to_an_option_or_a_command_that_exists(console: Console) -> None:
    known = f"{console('--help').out}{console('ask', '--help').out}"
    for name, here in other_names.OPTIONS.items():
        assert not re.search(rf"(?:^|\s){re.escape(name)}[ ,]", known), name
        assert all(option in known for option in re.findall(r"(?<![\w-])-{1,2}[a-z][\w-]*", here)), here
    for name, here in other_names.COMMANDS.items():
        assert name not in COMMANDS
        first, *more = here.split()
        assert first != "friday" or more[0].startswith("-") or more[0].rstrip(",") in COMMANDS, here
