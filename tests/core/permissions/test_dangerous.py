"""The floor: commands that destroy, files that grant or betray. Stricter is right, blind is wrong, and work is not hindered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.core.permissions.dangerous import catastrophe, is_protected, is_secret, secrets, simple_commands
from friday_cli.core.permissions.rule import RuleInput, parse_rule
from friday_cli.core.permissions.rules import MODES, Rules

DESTROYS = [
    "rm -rf /", "rm -rf /*", "rm -fr ~", "rm -r -f ~/", "rm -Rf $HOME", 'rm -rf "$HOME"', "rm -rf ${HOME}", "rm --recursive --force /",
    "rm -rf .", "rm -rf ..", "rm -rf ./*", "rm -rf *", "rm -rf .git", "rm -rf ../other", "rm -rf /etc", "rm -rf -- /", "rm / -rf",
    "rm -rf $UNSET/bin", 'rm -rf "$DIR"/*', "rm -rf $(pwd)", "rm -rf `pwd`", "cd / && rm -rf *", "ls; rm -rf ~", "echo $(rm -rf /)", "echo `rm -rf /`",
    "sudo rm -rf /", "sudo -u root rm -rf /", "env -u X rm -rf /", "timeout -s KILL 9 rm -rf ~", "nice -n 5 rm -rf ~", "xargs rm -rf", "xargs -I {} rm -rf {}",
    "bash -c 'rm -rf /'", "sh -c \"cd /; rm -rf *\"", "bash -lc 'rm -rf ~'", "bash -x -c 'rm -rf ~'", "eval 'rm -rf /'", "eval rm -rf /",
    "if true; then rm -rf /; fi", "for d in x; do rm -rf ~; done", "while :; do rm -rf ~; done", "! rm -rf /", "{ rm -rf ~; }", "(rm -rf ~)", "f() { rm -rf ~; }",
    "true || rm -rf ~", "sleep 1 & rm -rf ~", "ls\nrm -rf ~", "'rm' -rf ~", "\\rm -rf ~", "/bin/rm -rf ~", "r\"m\" -rf ~", "X=1 rm -rf ~", "busybox rm -rf /",
    "find / -delete", "find . -delete", "find -delete", "find -name x -delete", "find ~ -exec rm -rf {} +", "find / -type f -exec rm {} ;",
    "git clean -fdx", "git clean -xdf", "git clean --force -d", "git -C sub clean -f",
    "mkfs.ext4 /dev/sda1", "dd if=x of=/dev/sda", "cat x > /dev/sda", "shutdown -h now", "sudo reboot", "wipefs -a /dev/sda", "chmod -R 777 /", "chmod --recursive 777 ~",
    "chown -R me /etc", ":(){ :|:& };:",
]  # fmt: skip
WORKS = [
    "ls -la", "rm x.txt", "rm -f build.log", "rm -rf build", "rm -rf ./dist node_modules", "rm -r src/old", "git status", "git clean -n", "git commit -m 'clean up'",
    "git log --oneline", "npm run build", "pytest -q", "make clean", "find . -name '*.py'", "find src -name x -type f", "chmod +x run.sh", "chmod -R u+w build", "dd --version",
    "dd if=a of=b", "echo 'rm -rf /tmp is bad'", "grep -rf patterns.txt src", "cp -r a b", "mv a b", "cat /etc/hosts", "python -m pip install x", "cargo build", "sed -n 1,5p a", "tar -czf a.tgz src",
    "docker ps", "ls > out.txt", "sleep 5", "du -sh .", "diff a b", "touch a", "mkdir -p x/y", "head -3 a", "which rm", "man rm", "rmdir empty", "git rm -r old",
]  # fmt: skip


@pytest.mark.parametrize("command", DESTROYS)
def test_what_could_destroy_is_seen(command: str) -> None:
    assert catastrophe(command)


@pytest.mark.parametrize("command", WORKS)
def test_everyday_work_is_not_taken_for_destruction(command: str) -> None:
    assert catastrophe(command) == ""


@given(st.text(st.sampled_from("rm -rf/~$'\"`;&|(){}\\ \x1f\n=c!"), max_size=30))
@settings(max_examples=500)
def test_no_text_breaks_the_reader(command: str) -> None:
    assert isinstance(catastrophe(command), str)
    assert all(isinstance(found, str) for found in simple_commands(command))


def test_the_commands_inside_a_compound_one_are_found() -> None:
    found = simple_commands("cd x && A=1 sudo make install | tee log; bash -c 'curl u | sh' > out")
    assert {"cd x", "make install", "tee log"} <= set(found)
    assert any(c.startswith("curl u") for c in found)
    assert "sh" in " ".join(found)


@pytest.mark.parametrize("path", [".git", ".git/config", "sub/.git/hooks/x", ".GIT/config", ".friday/profiles/a.md", ".ssh/config", ".github/workflows/ci.yml",
                                  ".vscode/tasks.json", ".bashrc", "/home/me/.zshrc", ".envrc", ".gitmodules", ".mcp.json", ".pre-commit-config.yaml", ".husky/pre-commit", "a\nb/.git/hooks/x"])  # fmt: skip
def test_places_that_run_or_grant_later_are_protected(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path", ["a.py", "src/git.py", ".gitignore", ".github/README.md", "docs/.gitkeep", "gitconfig.md"]
)
def test_other_places_are_not_protected(path: str) -> None:
    assert not is_protected(path)


SECRET = [".env", "a/.env", ".env.local", ".env.production", "id_rsa", "k/id_ed25519", "server.pem", "x.KEY", ".aws/credentials", ".netrc", ".npmrc",
          "credentials.json", ".kube/config", ".ssh/known_hosts", ".ENV", "prod.env", ".envrc", ".git-credentials", "a/service-account-x.json",
          ".azure/token", ".config/gcloud/x.json", "secrets.yaml", "x.tfstate", ".aws", "/proc/self/environ", "vault.kdbx", "id_ed25519_sk",
          ".env.backup/x", "a\nb/.env", "a\nb.pem", "\u0130.pem", "/proc/1/task/2/mem", ".config/gh", "a/.bash_history"]  # fmt: skip
OPEN = [".env.example", ".env.sample", "a/.env.template", "env.py", "keys.md", "id_rsa.pub", "monkey", "environment", "auth.py", "secrets.py",
        "src/secret/a.py", "proc/environ.md", "docs/credentials.md", "src/env", "a/proc/1/mem", ".config/git", "pem", "env", "a.env.py", ""]  # fmt: skip


@pytest.mark.parametrize("path", SECRET)
def test_secrets_are_seen(path: str) -> None:
    assert is_secret(path)


@pytest.mark.parametrize("path", OPEN)
def test_other_files_are_no_secrets(path: str) -> None:
    assert not is_secret(path)


@given(st.lists(st.sampled_from(SECRET + OPEN), max_size=20))
def test_of_many_paths_those_are_seen_that_are_seen_one_by_one(paths: list[str]) -> None:
    assert secrets(paths) == {path for path in paths if path in SECRET}


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".friday/config.toml", "/home/me/.config/friday/config.toml", "/home/me/.local/share/friday/friday.db",
                                  ".bashrc", "/home/me/.zshenv", "/home/me/.config/fish/config.fish", "/home/me/.ssh/authorized_keys", ".github/workflows/ci.yml",
                                  ".github/actions/x/action.yml", ".circleci/config.yml", "Jenkinsfile", ".vscode/tasks.json", "x.code-workspace", ".devcontainer/devcontainer.json",
                                  ".githooks/pre-push", "lefthook.yml", ".pre-commit-config.yaml", ".cursor/mcp.json", ".nvim.lua"])  # fmt: skip
def test_q23_protected_writes_ask_in_every_mode_and_against_every_rule(path: str) -> None:
    for mode in MODES:
        rules = Rules(mode=mode, rules=[parse_rule(text, "allow") for text in ("write_file", f"write_file({path})")])
        verdict = rules.decide(RuleInput("write_file", "write", (path,)))
        assert verdict.decision == ("deny" if mode == "plan" else "ask"), mode


@pytest.mark.parametrize("path", [".env", "a/.env.local", "server.key", ".aws/credentials"])
@pytest.mark.parametrize("tool", ["read_file", "grep", "glob", "document_query"])
def test_q24_secret_files_are_not_read_without_a_question(tool: str, path: str) -> None:
    for mode in MODES:
        rules = Rules(mode=mode, rules=[parse_rule(text, "allow") for text in (tool, f"{tool}({path})")])
        verdict = rules.decide(RuleInput(tool, "read", (path,)))
        assert (verdict.decision, "may hold secrets" in verdict.reason) == ("ask", True), mode
