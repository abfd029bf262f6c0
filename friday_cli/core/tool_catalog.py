"""The tools that ship with Friday, one row each. A new tool is a row here and a module in `friday_cli.tools`.

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
    ToolInfo,
)

READ_FILE = "read_file"
LIST_DIR = "list_dir"
GLOB = "glob"
GREP = "grep"
EDIT_FILE = "edit_file"
WRITE_FILE = "write_file"
BASH = "bash"
BASH_KILL = "bash_kill"
MEMORY_LOAD = "memory_load"
MEMORY_SAVE = "memory_save"
DELEGATE_TASKS = "delegate_tasks"
SEARCH_PROFILES = "search_profiles"
APPLY_DELEGATION = "apply_delegation"
DISCARD_DELEGATION = "discard_delegation"

_AT_ONCE = "Make independent calls in one turn."
_WEB = "Prefer primary sources on the web and cite their URLs."

TOOLS = ToolCatalog(
    (
        ToolInfo(
            READ_FILE, "read", "files", by_default=True, prompt_hint=_AT_ONCE, for_files=True,
            aliases=("Read", "NotebookRead", "read_many_files"),
        ),
        ToolInfo(LIST_DIR, "read", "files", by_default=True, prompt_hint=_AT_ONCE, aliases=("LS", "list_directory")),
        ToolInfo(
            EDIT_FILE, "write", "files", for_files=True, aliases=("Edit", "MultiEdit", "NotebookEdit", "replace"),
        ),
        ToolInfo(
            WRITE_FILE, "write", "files", for_files=True, aliases=("Write",),
        ),
        ToolInfo(GLOB, "read", "search", by_default=True, prompt_hint=_AT_ONCE, aliases=("Glob",)),
        ToolInfo(
            GREP, "read", "search", by_default=True, prompt_hint=_AT_ONCE,
            aliases=("Grep", "search_file_content", "grep_search"),
        ),
        ToolInfo(
            BASH, "run", "shell", aliases=("Bash", "run_shell_command"),
            prompt_hint="Prefer single simple commands: they are easier to approve. Run long ones in the background.",
        ),
        ToolInfo("bash_output", "own", "shell", aliases=("Bash", "BashOutput", "run_shell_command")),
        ToolInfo(BASH_KILL, "own", "shell", exact=True, aliases=("Bash", "KillShell", "KillBash", "run_shell_command")),
        ToolInfo(WEB_FETCH, "net", "web", prompt_hint=_WEB, aliases=("WebFetch",)),
        # "search" is in the example of ADR 034, see docs/requirements.md
        ToolInfo(WEB_SEARCH, "net", "web", prompt_hint=_WEB, aliases=("WebSearch", "search", "google_web_search")),
        ToolInfo("document_query", "read", "documents", by_default=True),
        ToolInfo(MEMORY_LOAD, "read", "memory", by_default=True),
        ToolInfo(MEMORY_SAVE, "save", "memory", aliases=("save_memory",)),
        ToolInfo(
            "todo", "own", "todo", by_default=True, verifies=False, aliases=("TodoWrite", "TodoRead", "write_todos"),
        ),
        ToolInfo(
            ASK_USER, "own", "ask_user", verifies=False, aliases=("AskUserQuestion",),
            prompt_hint="`ask_user` is for decisions that only the user can make; offer choices.",
        ),
        ToolInfo(
            SKILL, "own", "skill", "skills", verifies=False, aliases=("Skill", "activate_skill"),
            prompt_hint="`skill` returns instructions that the user has allowed, unlike other tools: load one before you do what "
            "it describes, and follow it for that task. What the user says has precedence.",
        ),
        ToolInfo(TASK_RESULT, "own", "task_result", "harness", verifies=False, exact=True),
        ToolInfo(DELEGATE_TASK, "spawn", "delegate", "sub_agents", aliases=("Task", "Agent")),
        ToolInfo(DELEGATE_TASKS, "spawn", "delegate", "sub_agents"),
        ToolInfo(MAP_TASKS, "spawn", "batch", "sub_agents", exact=True),
        ToolInfo(SEARCH_PROFILES, "own", "delegate", "sub_agents", verifies=False, exact=True),
        ToolInfo("list_sub_agents", "own", "delegate", "sub_agents", verifies=False),
        ToolInfo(DELEGATION_RESULT, "own", "delegate", "sub_agents"),
        ToolInfo("message_sub_agent", "own", "delegate", "sub_agents", exact=True),
        ToolInfo("cancel_sub_agent", "own", "delegate", "sub_agents", exact=True),
        ToolInfo(APPLY_DELEGATION, "write", "worktree", "sub_agents"),
        ToolInfo(DISCARD_DELEGATION, "own", "worktree", "sub_agents", exact=True),
    )
)  # fmt: skip
