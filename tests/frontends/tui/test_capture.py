"""Q36, G2: what a pseudo-terminal receives of a chat full of hostile text holds no sequence but the chat's own."""

from __future__ import annotations

import re
from pathlib import Path

from tests.frontends.tui.terminal_fixture import Terminal, scripted

HOSTILE = (
    "\x1b]52;c;b3duZWQ=\x07 \x1b]52;c;b3duZWQ=\x1b\\ \x1b]0;owned\x07 \x1b]8;;http://owned.example\x1b\\link\x1b]8;;\x1b\\ "
    "\x1b[6n \x1bc \x1b[?1049l \x1b_owned\x1b\\ \x1bPowned\x1b\\ \x1b^owned\x1b\\ \x9d0;owned\x9c \x9b31m \u202eowned\u2066 \x07\x08\rowned\x0b"
)
FOREIGN = re.compile(
    rb"\x1b\](?:52|8)|\x1b\]0;[^\x07\x1b]*owned|\x1b[P_^X]|\x1bc|\x1b\[6n|\xc2[\x80-\x9f]|\xe2\x80\xae|\xe2\x81\xa6|\x08|\x0b"
)


def test_q36_a_capture_of_the_chat_has_no_foreign_escape(tmp_path: Path) -> None:
    project = tmp_path / "project\x1b]0;owned\x07\u202e"
    project.mkdir()
    (project / "file\x1b]0;owned\x07.txt").write_text(HOSTILE)
    shell = {"name": "bash", "arguments": {"command": f"echo '{HOSTILE}'; cat file*; printf '\\033]0;owned\\007'"}}
    agents = {
        "a": [
            {"text": f"{HOSTILE}\n\n```\n{HOSTILE}\n```\n\n[{HOSTILE}](javascript:x)", "calls": [shell]},
            {"calls": [{"name": "glob", "arguments": {"pattern": "*"}}, {"name": f"no{HOSTILE}", "arguments": {}}]},
            {"calls": [{"name": "delegate_task", "arguments": {"profile": "general", "task": HOSTILE}}]},
            {"text": f"{HOSTILE} the end"},
        ],
        "a.1": [{"text": HOSTILE}],
    }
    model = scripted(tmp_path, agents)
    with Terminal(project, "-m", model, "--yolo", FRIDAY_HOME=str(tmp_path / "home")) as terminal:
        terminal.until(b"\x1b[?1049h")
        begun = len(terminal.out)
        terminal.until_quiet()
        terminal.type(b"go\r", until=b"the end")
        terminal.until_quiet()
        captured = terminal.out[begun:]
        assert b"owned" in captured  # the words are shown; what steered is not there
        assert [found[0] for found in FOREIGN.finditer(captured)] == []
        terminal.type(b"\x11")
        terminal.end()
