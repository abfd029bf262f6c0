"""The tools that ship with Friday, one row each. A new tool is a row here and a module in `friday_cli.tools`. Its row says
what it does to files, agents, hosts and processes (`effects`): permission rules hold for that, whichever tool does it.

Code outside `friday_cli.tools` names a tool by the constants of this module.
"""

from __future__ import annotations

from friday_cli.core.protocol.tool_info import (
    ASK_USER,
    DELEGATE_TASK,
    DELEGATION_RESULT,
    MAP_TASKS,
    SKILL,
    TASK_RESULT,
    WEB_FETCH,
    WEB_SEARCH,
    ToolCatalog,
    ToolEffect,
    ToolInfo,
)

READ_FILE = "read_file"
LIST_DIR = "list_dir"
GLOB = "glob"
GREP = "grep"
EDIT_FILE = "edit_file"
WRITE_FILE = "write_file"
CODE = "code"
RENAME_SYMBOL = "rename_symbol"
LIST_SUB_AGENTS = "list_sub_agents"
MESSAGE_SUB_AGENT = "message_sub_agent"
CANCEL_SUB_AGENT = "cancel_sub_agent"
BASH = "bash"
BASH_KILL = "bash_kill"
MEMORY_LOAD = "memory_load"
MEMORY_SAVE = "memory_save"
TODO = "todo"
DELEGATE_TASKS = "delegate_tasks"
SEARCH_PROFILES = "search_profiles"
APPLY_DELEGATION = "apply_delegation"
DISCARD_DELEGATION = "discard_delegation"
EXTERNAL = "external"
"""What the program of an external agent asks about that no tool here does: `external(NAME:title)` in rules."""

_AT_ONCE = "Make independent calls in one turn."
_WEB = "Prefer primary sources on the web and cite their URLs."
_READS, _WRITES = (ToolEffect("read", "path"),), (ToolEffect("write", "path"),)
_OWN: tuple[ToolEffect, ...] = ()
"""Effects of tools that touch only what belongs to the agent."""

TOOLS = ToolCatalog(
    (
        ToolInfo(
            READ_FILE, "read", "files", effects=_READS, spelling="always", by_default=True, prompt_hint=_AT_ONCE,
            aliases=("Read", "NotebookRead", "read_many_files"),
        ),
        ToolInfo(
            LIST_DIR, "read", "files", effects=_READS, by_default=True, prompt_hint=_AT_ONCE, aliases=("LS", "list_directory"),
        ),
        ToolInfo(
            EDIT_FILE, "write", "files", effects=_WRITES, spelling="always",
            aliases=("Edit", "MultiEdit", "NotebookEdit", "replace"),
        ),
        ToolInfo(WRITE_FILE, "write", "files", effects=_WRITES, spelling="always", aliases=("Write",)),
        ToolInfo(GLOB, "read", "search", effects=_READS, by_default=True, prompt_hint=_AT_ONCE, aliases=("Glob",)),
        ToolInfo(
            GREP, "read", "search", effects=_READS, by_default=True, prompt_hint=_AT_ONCE,
            aliases=("Grep", "search_file_content", "grep_search"),
        ),
        ToolInfo(CODE, "read", CODE, effects=_READS, by_default=True, prompt_hint=_AT_ONCE, aliases=("LSP",)),
        ToolInfo(RENAME_SYMBOL, "write", CODE, effects=_WRITES),
        ToolInfo(
            BASH, "run", "shell", effects=(ToolEffect("run", "command"),), spelling="always", aliases=("Bash", "run_shell_command"),
            prompt_hint="Prefer single simple commands: they are easier to approve. Run long ones in the background.",
        ),
        ToolInfo("bash_output", "own", "shell", effects=_OWN, aliases=("Bash", "BashOutput", "run_shell_command")),
        ToolInfo(
            BASH_KILL, "own", "shell", effects=_OWN, exact=True, aliases=("Bash", "KillShell", "KillBash", "run_shell_command"),
        ),
        ToolInfo(
            WEB_FETCH, "net", "web", effects=(ToolEffect("net", "url"),), spelling="always", prompt_hint=_WEB,
            aliases=("WebFetch",),
        ),
        # "search" is in the example of ADR 034, see docs/requirements.md
        ToolInfo(
            WEB_SEARCH, "net", "web", effects=(ToolEffect("net", "query"),), prompt_hint=_WEB,
            aliases=("WebSearch", "search", "google_web_search"),
        ),
        ToolInfo("document_query", "read", "documents", effects=_READS, by_default=True),
        ToolInfo(MEMORY_LOAD, "read", "memory", effects=_OWN, by_default=True),
        ToolInfo(MEMORY_SAVE, "save", "memory", effects=(ToolEffect("save", "scope"),), aliases=("save_memory",)),
        ToolInfo(
            TODO, "own", "todo", effects=_OWN, by_default=True, verifies=False,
            aliases=("TodoWrite", "TodoRead", "write_todos"),
        ),
        ToolInfo(
            ASK_USER, "own", "ask_user", effects=_OWN, verifies=False, aliases=("AskUserQuestion",),
            prompt_hint="`ask_user` is for decisions that only the user can make; offer choices.",
        ),
        ToolInfo(
            SKILL, "own", "skill", "skills", effects=(ToolEffect("own", "name"), ToolEffect("spawn")),
            verifies=False, aliases=("Skill", "activate_skill"),
            prompt_hint="`skill` returns instructions that the user has allowed, unlike other tools: load one before you do what "
            "it describes, and follow it for that task. What the user says has precedence.",
        ),
        ToolInfo(TASK_RESULT, "own", "task_result", "harness", effects=_OWN, verifies=False, exact=True),
        ToolInfo(  # the profile, or that of the agent that `resume` names
            DELEGATE_TASK, "spawn", "delegate", "sub_agents", effects=(ToolEffect("spawn"),), spelling="always",
            aliases=("Task", "Agent"),
        ),
        ToolInfo(
            DELEGATE_TASKS, "spawn", "delegate", "sub_agents", effects=(ToolEffect("spawn", "tasks.profile"),),
            spelling="with a pattern",
        ),
        ToolInfo(
            MAP_TASKS, "spawn", "batch", "sub_agents", effects=(ToolEffect("spawn", "profile"), ToolEffect("read", "file")),
            spelling="with a pattern", exact=True,
        ),
        ToolInfo(SEARCH_PROFILES, "own", "delegate", "sub_agents", effects=_OWN, verifies=False, exact=True),
        ToolInfo(LIST_SUB_AGENTS, "own", "delegate", "sub_agents", effects=_OWN, verifies=False),
        ToolInfo(DELEGATION_RESULT, "own", "delegate", "sub_agents", effects=_OWN),
        ToolInfo(MESSAGE_SUB_AGENT, "own", "delegate", "sub_agents", effects=_OWN, exact=True),
        ToolInfo(CANCEL_SUB_AGENT, "own", "delegate", "sub_agents", effects=_OWN, exact=True),
        # the files that differ in the worktree of that agent
        ToolInfo(APPLY_DELEGATION, "write", "worktree", "sub_agents", effects=(ToolEffect("write"),)),
        ToolInfo(DISCARD_DELEGATION, "own", "worktree", "sub_agents", effects=_OWN, exact=True),
        ToolInfo(EXTERNAL, "net", grant="harness"),  # what it may do is not known: asked about in every mode
    )
)  # fmt: skip
