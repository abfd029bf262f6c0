"""The programs that Friday knows how to start as external agents: how each is called, and what it is told through its environment
and the files of its home. Tried versions are those of `tests/counterparts`."""

from __future__ import annotations

import json
import shutil

import msgspec

from friday_cli.extensions.profiles.profile import ExternalAgent, Wire


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
    """Always set for it; `{home}` is replaced by its home."""
    files: dict[str, str] = {}
    """Files of its home, always."""
    metered_env: dict[str, str] = {}
    """Set for it where its requests are counted. `{url}`, `{token}` and `{model}` are replaced, as in `metered_files`."""
    metered_files: dict[str, str] = {}
    """Files of its home where its requests are counted; they replace those of `files`."""
    login_env: tuple[str, ...] = ()
    """Variables of the person with a login, which only this program gets, where its requests are not counted."""
    login_folder: tuple[str, str] = ("", "")
    """A variable that names the folder with its login, and that folder in the person's home."""

    @property
    def told_model(self) -> bool:
        """Whether it is told its model with the address of the meter."""
        return any("{model}" in text for text in (*self.metered_env.values(), *self.metered_files.values()))


_OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "permission": {"edit": "ask", "bash": "ask", "webfetch": "ask"},
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
_CODEX_METERED = """\
model_provider = "friday"
model = "{model}"

[model_providers.friday]
name = "friday"
base_url = "{url}/v1"
env_key = "FRIDAY_METER_TOKEN"
wire_api = "responses"
"""
_GEMINI = {"general": {"disableAutoUpdate": True}, "privacy": {"usageStatisticsEnabled": False}}

PROGRAMS: dict[str, KnownProgram] = {
    "claude-code": KnownProgram(
        ("claude-agent-acp",),
        "@agentclientprotocol/claude-agent-acp",
        "anthropic",
        "default",
        env={"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        metered_env={"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{token}"},
        login_env=("CLAUDE_CODE_OAUTH_TOKEN",),
        login_folder=("CLAUDE_CONFIG_DIR", ".claude"),
    ),
    "codex": KnownProgram(
        ("codex-acp",),
        "@agentclientprotocol/codex-acp",
        "openai",
        "agent-full-access",  # its own sandbox does not work inside Friday's
        "read-only",
        metered_env={"FRIDAY_METER_TOKEN": "{token}"},
        metered_files={".codex/config.toml": _CODEX_METERED},
        login_folder=("CODEX_HOME", ".codex"),
    ),
    "gemini": KnownProgram(
        ("gemini", "--acp"),
        "@google/gemini-cli",
        "gemini",
        "default",
        files={".gemini/settings.json": json.dumps(_GEMINI)},
        metered_env={"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{token}"},
        metered_files={
            ".gemini/settings.json": json.dumps(_GEMINI | {"security": {"auth": {"selectedType": "gemini-api-key"}}})
        },
    ),
    "opencode": KnownProgram(
        ("opencode", "acp"),
        "opencode-ai",
        "openai",
        env={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_CONFIG": "{home}/opencode.json",
        },
        files={"opencode.json": json.dumps(_OPENCODE)},
        metered_files={"opencode.json": json.dumps(_OPENCODE_METERED)},
    ),
    "qwen-code": KnownProgram(
        ("qwen", "--acp"),
        "@qwen-code/qwen-code",
        "openai",
        "default",
        metered_env={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{token}", "OPENAI_MODEL": "{model}"},
        metered_files={".qwen/settings.json": json.dumps({"security": {"auth": {"selectedType": "openai"}}})},
    ),
}


def program_of(external: ExternalAgent) -> KnownProgram:
    """The program of a profile. One that the user describes is told the meter's address by its wire."""
    if external.name:
        return PROGRAMS[external.name]
    base, key = _BY_WIRE.get(external.wire, ("", ""))
    path = "/v1" if external.wire == "openai" else ""
    told = {base: f"{{url}}{path}", key: "{token}"} if base else {}
    return KnownProgram(external.argv, "", external.wire, metered_env=told)


def is_installed(external: ExternalAgent, path: str | None) -> bool:
    """Whether the folders of `path` have the program of a profile."""
    return shutil.which(program_of(external).argv[0], path=path) is not None


def readiness(external: ExternalAgent, path: str | None) -> str:
    """What a program is for `friday profiles`: its name and that it is installed in the folders of `path`, or how to install it. It is not
    started."""
    program = program_of(external)
    name = program.argv[0].rpartition("/")[2]
    if is_installed(external, path):
        return f"{name}, ready"
    return f"{name}, not installed" + (f": npm i -g {program.package}" if program.package else "")


_BY_WIRE: dict[Wire, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
"""The variables with the address and the key of a service that most programs read."""
