"""The floor: files that grant rights or hold secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.core.permissions.dangerous import is_secret, secrets
from friday_cli.core.permissions.decision import MODES
from friday_cli.core.permissions.rule import RuleInput, parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.permissions.runs_later import is_protected


@pytest.mark.parametrize(
    "path",
    [
        "a.py",
        "src/git.py",
        ".gitignore",
        ".github/README.md",
        "docs/.gitkeep",
        "gitconfig.md",
        "node_modules/left-pad/index.js",
        ".venv/lib/x.py",
        "src/opencode.py",
        "cargo/config.toml",
        "x.yarnrc.yml",
        ".hg/store",
    ],
)
def test_other_places_are_not_protected(path: str) -> None:
    assert not is_protected(path)


SECRET = [".env", "a/.env", ".env.local", ".env.production", "id_rsa", "k/id_ed25519", "server.pem", "x.KEY", ".aws/credentials", ".netrc", ".npmrc",
          "credentials.json", "mcp-logins/x-1.json", ".kube/config", ".ssh/known_hosts", ".ENV", "prod.env", ".envrc", ".git-credentials", "a/service-account-x.json",
          ".azure/token", ".config/gcloud/x.json", "secrets.yaml", "x.tfstate", ".aws", "/proc/self/environ", "vault.kdbx", "id_ed25519_sk",
          ".env.backup/x", "a\nb/.env", "a\nb.pem", "\u0130.pem", "/proc/1/task/2/mem", ".config/gh", "a/.bash_history",
          ".env\n", "a/.env ", "id_rsa\r\n", "server.pem\n", ".env~", "prod.env\n", ".env/production", "a/.env/lib.txt", ".env/x/bin/a"]  # fmt: skip
OPEN = [
    ".env.example",
    ".env.sample",
    "a/.env.template",
    "env.py",
    "keys.md",
    "id_rsa.pub",
    "monkey",
    "environment",
    "auth.py",
    "secrets.py",
    "src/secret/a.py",
    "proc/environ.md",
    "docs/credentials.md",
    "src/env",
    "a/proc/1/mem",
    ".config/git",
    "pem",
    "env",
    "a.env.py",
    ".env/bin/python",
    "a/.env/lib/python3.13/x.py",
    ".env/pyvenv.cfg",
    ".env.example\n",
    "",
]


@pytest.mark.parametrize("path", SECRET + OPEN)
def test_secrets_are_seen_and_other_files_are_not(path: str) -> None:
    assert is_secret(path) is (path in SECRET)


@given(st.lists(st.sampled_from(SECRET + OPEN), max_size=20))
def test_of_many_paths_those_are_seen_that_are_seen_one_by_one(paths: list[str]) -> None:
    assert secrets(paths) == {path for path in paths if path in SECRET}


@pytest.mark.parametrize("path", [".git", ".git/config", "sub/.git/hooks/x", ".GIT/config", ".friday/profiles/a.md", ".ssh/config", "/home/me/.zshrc", ".envrc",
                                  ".gitmodules", ".mcp.json", ".husky/pre-commit", "a\nb/.git/hooks/x", ".git/hooks/pre-commit", ".friday/config.toml", "/home/me/.config/friday/config.toml", "/home/me/.local/share/friday/friday.db",
                                  ".bashrc", "/home/me/.zshenv", "/home/me/.config/fish/config.fish", "/home/me/.ssh/authorized_keys", ".github/workflows/ci.yml",
                                  ".github/actions/x/action.yml", ".circleci/config.yml", "Jenkinsfile", ".vscode/tasks.json", "x.code-workspace", ".devcontainer/devcontainer.json",
                                  ".githooks/pre-push", "lefthook.yml", ".pre-commit-config.yaml", ".cursor/mcp.json", ".nvim.lua",
                                  ".opencode/plugin/x.ts", "opencode.json", ".lefthook.yml", "a/.lefthook-local.toml", ".hg/hgrc", ".jj/repo/config.toml", ".gdbinit", ".LLDBinit",
                                  ".yarnrc.yml", ".cargo/config.toml", "mise.toml", ".mise.toml", ".pnpmfile.cjs", ".mvn/extensions.xml", ".venv/bin/python", "venv/bin/activate",
                                  "web/node_modules/.bin/tsc", ".qwen/settings.json", "gradle/wrapper/gradle-wrapper.jar"])  # fmt: skip
def test_q23_protected_writes_ask_in_every_mode_and_against_every_rule(path: str) -> None:
    for mode in MODES:
        rules = Rules(mode=mode, rules=[parse_rule(text, "allow") for text in ("write_file", f"write_file({path})")])
        permission = rules.decide(RuleInput("write_file", "write", (path,)))
        assert permission.decision == ("deny" if mode == "plan" else "ask"), mode


@pytest.mark.parametrize("path", [".env", "a/.env.local", "server.key", ".aws/credentials"])
@pytest.mark.parametrize("tool", ["read_file", "grep", "glob", "document_query"])
def test_q24_secret_files_are_not_read_without_a_question(tool: str, path: str) -> None:
    for mode in MODES:
        rules = Rules(mode=mode, rules=[parse_rule(text, "allow") for text in (tool, f"{tool}({path})")])
        permission = rules.decide(RuleInput(tool, "read", (path,)))
        assert (permission.decision, "may hold secrets" in permission.reason) == ("ask", True), mode
