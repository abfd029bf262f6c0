"""The programs that Friday knows how to start as external agents: how each is called, and what it is told through its environment.
Tried versions are those of `tests/counterparts`."""

from __future__ import annotations

import json
import os
import shutil

import msgspec

from friday_cli.extensions.profiles.profile import ExternalAgent, Profile, Wire


class KnownProgram(msgspec.Struct, frozen=True):
    """A known program. `package` is its name in the npm registry."""

    argv: tuple[str, ...]
    package: str
    wire: Wire
    mode: str = ""
    """The mode of its own in which it asks before it acts, "" where it has none."""
    careful_mode: str = ""
    """Another mode for agents in mode `ask` or `plan`: it asks nothing in the usual one."""
    env: dict[str, str] = {}
    """Always set for it. `{children}` is replaced: `allow` if sub-agents of its own that ask nothing may work, else `deny`."""
    metered: dict[str, str] = {}
    """Set for it where its requests are counted: `{url}`, `{token}` and `{model}` are replaced."""
    node: int = 0
    """The oldest Node that its package names, 0 where it names none."""
    login: tuple[str, ...] = ()
    """The arguments with which it logs in, in a terminal; () where it cannot use a login here."""
    login_env: tuple[str, ...] = ()
    """Variables of the person with a login, which only this program gets, where its requests are not counted."""
    login_folder: tuple[str, str] = ("", "")
    """A variable that names the folder with its login, and that folder in the person's home."""

    @property
    def told_model(self) -> bool:
        """Whether it is told its model with the address of the meter."""
        return any("{model}" in text for text in self.metered.values())


# a question of a sub-agent of OpenCode reaches nobody, and it waits without an end
_OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "permission": {"edit": "ask", "bash": "ask", "webfetch": "ask", "task": "{children}"},
    "agent": {
        "general": {"permission": {"edit": "allow", "bash": "allow", "webfetch": "deny"}},
        "explore": {"permission": {"edit": "deny", "bash": "deny", "webfetch": "deny"}},
    },
}
_OPENCODE_METERED = _OPENCODE | {
    "provider": {
        "friday": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": "{token}"},
            "models": {"{model}": {"name": "{model}"}},
        }
    },
    "model": "friday/{model}",
    "small_model": "friday/{model}",
}
_CODEX_METERED = {
    "model": "{model}",
    "model_provider": "friday",
    "model_providers": {
        "friday": {"name": "friday", "base_url": "{url}/v1", "env_key": "FRIDAY_METER_TOKEN", "wire_api": "responses"}
    },
}
_BY_WIRE: dict[Wire, dict[str, str]] = {
    "none": {},
    "anthropic": {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{token}"},
    "openai": {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{token}"},
    "gemini": {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{token}"},
}
"""The variables with the address and the key of a service that most programs read."""

PROGRAMS: dict[str, KnownProgram] = {
    "claude-code": KnownProgram(
        ("claude-agent-acp",),
        "@agentclientprotocol/claude-agent-acp",
        "anthropic",
        "default",
        env={"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        metered=_BY_WIRE["anthropic"],
        node=22,
        login=("--cli", "auth", "login"),
        login_env=("CLAUDE_CODE_OAUTH_TOKEN",),
        login_folder=("CLAUDE_CONFIG_DIR", ".claude"),
    ),
    "codex": KnownProgram(
        ("codex-acp",),
        "@agentclientprotocol/codex-acp",
        "openai",
        "agent-full-access",  # its own sandbox does not work inside Friday's
        "read-only",
        metered={"FRIDAY_METER_TOKEN": "{token}", "CODEX_CONFIG": json.dumps(_CODEX_METERED)},
        login=("login",),
        login_folder=("CODEX_HOME", ".codex"),
    ),
    "gemini": KnownProgram(
        ("gemini", "--acp"), "@google/gemini-cli", "gemini", "default", metered=_BY_WIRE["gemini"], node=20
    ),
    "opencode": KnownProgram(
        ("opencode", "acp"),
        "opencode-ai",
        "openai",
        env={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE),
        },
        metered={"OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE_METERED)},
    ),
    "qwen-code": KnownProgram(
        ("qwen", "--acp", "--auth-type", "openai"),
        "@qwen-code/qwen-code",
        "openai",
        "default",
        metered=_BY_WIRE["openai"] | {"OPENAI_MODEL": "{model}"},
        node=22,
    ),
}


def program_of(external: ExternalAgent) -> KnownProgram:
    """The program of a profile. One that the user describes is told the meter's address by its wire."""
    if external.name:
        return PROGRAMS[external.name]
    return KnownProgram(external.argv, "", external.wire, metered=_BY_WIRE[external.wire])


def how_to_install(program: KnownProgram) -> str:
    """What to type, or to do."""
    return f"npm i -g {program.package}" if program.package else f"put {os.path.basename(program.argv[0])} on your PATH"


def how_to_log_in(profile: Profile) -> str:
    """What to type where a program of `profile` has no login."""
    assert profile.external is not None, "only for such a profile"
    program = program_of(profile.external)
    if program.login:
        return f"friday profiles login {profile.name}"
    return "set its key in `env` of the profile" if program.wire == "none" else f"friday auth set {program.wire}"


def is_installed(external: ExternalAgent, path: str | None) -> bool:
    """Whether the folders of `path` have the program of a profile."""
    return shutil.which(program_of(external).argv[0], path=path) is not None


def readiness(external: ExternalAgent, path: str | None) -> str:
    """What a program is for `friday profiles`: its name and that it is installed in the folders of `path`, or how to install it. It is not
    started."""
    program = program_of(external)
    name = os.path.basename(program.argv[0])
    return f"{name}, ready" if is_installed(external, path) else f"{name}, not installed: {how_to_install(program)}"
