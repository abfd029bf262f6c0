"""What other assistants call commands and options that Friday has by another name."""

from __future__ import annotations

import re

_TOOLS = "--allow RULE, such as --allow 'bash(git *)'"
_INSTRUCTIONS = "AGENTS.md, or a profile of your own (`friday profiles new NAME`, --profile NAME)"
_UPGRADE = "`pip install --upgrade .` in a newer copy of the repository (README, Upgrade and remove)"
OPTIONS = {
    "--agent": "--profile NAME",
    "--agents": "profiles: `friday profiles new NAME`",
    "--acp": "`friday acp`",
    "--allowed-tools": _TOOLS,
    "--allowedTools": _TOOLS,
    "--append-system-prompt": _INSTRUCTIONS,
    "--approval-mode": "--mode ask, edits, plan or auto",
    "--ask-for-approval": "--mode ask, edits, plan or auto",
    "--auto": "--mode auto",
    "--cd": "-C DIR",
    "--dangerously-bypass-approvals-and-sandbox": "--yolo",
    "--dangerously-skip-permissions": "--yolo",
    "--disallowed-tools": "--deny RULE",
    "--disallowedTools": "--deny RULE",
    "--fork": "`friday sessions fork ID`",
    "--fork-session": "`friday sessions fork ID`",
    "--full-auto": "--mode auto",
    "--image": "@PATH in the prompt",
    "--include-directories": "--add-dir DIR",
    "--json": "--output-format json",
    "--last": "-c",
    "--list-sessions": "`friday sessions list`",
    "--max-budget-usd": "--max-cost USD",
    "--output-last-message": "--output FILE",
    "--output-schema": "--json-schema SCHEMA",
    "--permission-mode": "--mode ask, edits, plan or auto",
    "--prompt-interactive": "-i TEXT",
    "--sandbox": "[sandbox] in the settings; `friday doctor` shows it",
    "--screen-reader": "--plain",
    "--session": "-r ID",
    "--settings": "--config FILE of `friday ask`",
    "--skip-trust": "--trust",
    "--system-prompt": _INSTRUCTIONS,
    "--verbose": "--debug of `friday ask`",
    "--worktree": "`isolation: worktree` in a profile, for its sub-agents",
    "-a": "--mode ask, edits, plan or auto",
    "-d": "--debug of `friday ask`",
    "-o": "--output-format FORMAT",
    "-s": "-r ID for a session, [sandbox] in the settings for a sandbox",
    "-y": "--yolo",
}
COMMANDS = {
    "agent": "friday profiles",
    "completion": "friday --install-completion",
    "continue": "friday -c",
    "cost": "friday usage",
    "delete": "friday sessions delete ID",
    "exec": "friday ask",
    "export": "friday sessions export ID",
    "extensions": "friday plugins",
    "fork": "friday sessions fork ID",
    "help": "friday --help",
    "login": "friday auth set",
    "logout": "friday auth remove",
    "plugin": "friday plugins",
    "providers": "friday auth",
    "resume": "friday -r",
    "review": "/review in the chat",
    "run": "friday ask",
    "serve": "friday mcp serve, or friday acp",
    "session": "friday sessions",
    "setup-token": "friday auth set",
    "skill": "friday skills",
    "stats": "friday usage, or friday sessions stats",
    "uninstall": "in README: Upgrade and remove",
    "update": _UPGRADE,
    "upgrade": _UPGRADE,
}


def name_here(problem: str) -> str:
    """The message about a command or an option that does not exist, if Friday has it by another name; "" otherwise."""
    command = re.match(r"No such command '([\w-]+)'", problem)
    option = re.match(r"No such option: (-[\w-]+)", problem)
    here = COMMANDS.get(command[1]) if command else OPTIONS.get(option[1]) if option else None
    found = command or option
    return f"{found[0]}. In Friday it is: {here}." if found and here else ""
