"""The programs that Friday knows how to start as external agents: how each is called, and what it is told through its
environment. Tried versions are those of `tests/counterparts`."""

from __future__ import annotations

import msgspec

from friday_cli.extensions.profiles.profile import ExternalAgent, Wire


class KnownProgram(msgspec.Struct, frozen=True):
    """A known program. `package` is its name in the npm registry. `env` is set for it."""

    argv: tuple[str, ...]
    package: str
    wire: Wire
    env: dict[str, str] = {}
    login_env: tuple[str, ...] = ()
    """Variables of the person with a login that is passed on to it and to nothing else."""
    mode: str = ""
    """The mode of its own in which it asks before it acts."""


PROGRAMS: dict[str, KnownProgram] = {
    "claude-code": KnownProgram(
        ("claude-agent-acp",),
        "@agentclientprotocol/claude-agent-acp",
        "anthropic",
        {"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        ("CLAUDE_CODE_OAUTH_TOKEN",),
        "default",
    ),
    "codex": KnownProgram(("codex-acp",), "@agentclientprotocol/codex-acp", "openai", mode="agent-full-access"),
    "gemini": KnownProgram(("gemini", "--acp"), "@google/gemini-cli", "gemini", mode="default"),
    "opencode": KnownProgram(
        ("opencode", "acp"),
        "opencode-ai",
        "openai",
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_SHARE": "1"},
    ),
    "qwen-code": KnownProgram(("qwen", "--acp"), "@qwen-code/qwen-code", "openai", mode="default"),
}


def program_of(external: ExternalAgent) -> KnownProgram:
    """The program of a profile."""
    if external.name:
        return PROGRAMS[external.name]
    return KnownProgram(external.argv, "", external.wire)
