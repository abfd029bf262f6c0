"""Receipts that others check: signed with an SSH key, attached to a commit, and refused after any change."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from friday_cli.session import signed_receipt
from tests.cli.console import ROOT, Console

WRITES = [{"name": "write_file", "arguments": {"path": "made.txt", "content": "made\n"}}]
RUNS = [{"name": "bash", "arguments": {"command": "test -f made.txt"}}]


def git(console: Console, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=console.project, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits and notes have an author."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@b")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """An SSH key of alice, and the file of allowed signers beside it."""
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", path], check=True)
    (tmp_path / "allowed").write_text(f"alice {path.with_suffix('.pub').read_text()}")
    return path


@pytest.fixture
def session(console: Console) -> str:
    """A session whose agent wrote a file and ran a command, committed."""
    git(console, "init", "-q")
    scenario = {
        "agents": {"a": [{"calls": WRITES}, {"calls": RUNS}, {"text": "done"}]},
        "price": {"input": 1.0, "output": 5.0},
    }
    (console.home / "model.json").write_text(json.dumps(scenario))
    model = f"scripted:{console.home / 'model.json'}"
    ran = console.ok(
        "ask", "go", "--model", model, "--output-format", "json", "--mode", "edits", "--allow", "bash(test *)"
    )
    git(console, "add", "-A")
    git(console, "commit", "-qm", "made")
    return str(ran.document["session_id"])


def verify(console: Console, key: Path, *argv: str, code: int = 0) -> str:
    ran = console("verify", *argv, "--allowed-signers", str(key.parent / "allowed"))
    assert ran.code == code, ran
    return ran.out + ran.err


def test_a_signed_receipt_in_a_note_is_checked_against_its_commit(console: Console, session: str, key: Path) -> None:
    console.ok("sessions", "receipt", session, "--sign", "--key", str(key), "--note")
    shown = verify(console, key)
    for words in ("signed by alice", "1 of 1 file match", "a ran test -f made.txt -> exit 0", "✓ the receipt matches"):
        assert words in shown
    (console.project / "more.txt").write_text("more\n")
    git(console, "add", "-A")
    git(console, "commit", "-qm", "later")
    assert "1 commit after" in verify(console, key, "HEAD")
    (console.project / "made.txt").write_text("other\n")
    git(console, "commit", "-qam", "changed", "--amend")
    git(console, "notes", "--ref=friday", "copy", "-f", "HEAD~1", "HEAD")
    shown = verify(console, key, "HEAD", code=1)
    assert "✗ the tree of" in shown
    assert "✗ made.txt has different content" in shown


def test_a_receipt_of_another_session_is_not_replaced_unseen(console: Console, session: str, key: Path) -> None:
    console.ok("sessions", "receipt", session, "--note")
    assert "replaces" not in console.ok("sessions", "receipt", session, "--note").err
    console.ok("ask", "go", "--model", f"scripted:{console.home / 'model.json'}", "--mode", "edits")
    assert f"it replaces the receipt of session {session[:8]}" in console.ok("sessions", "receipt", "--note").err


def test_a_receipt_of_a_commit_needs_its_repository(console: Console, session: str, key: Path, tmp_path: Path) -> None:
    console.ok("sessions", "receipt", session, "-o", str(tmp_path / "receipt.json"))
    shutil.rmtree(console.project / ".git")
    shown = verify(console, key, str(tmp_path / "receipt.json"), "--unsigned", code=1)
    assert "No commit has the tree of the receipt" in shown


def test_a_missing_receipt_fails_only_where_it_is_required(console: Console, session: str, key: Path) -> None:
    assert "nothing was checked" in verify(console, key, "HEAD")
    assert "has no receipt" in verify(console, key, "HEAD", "--require", code=1)
    assert "neither a file nor a commit" in verify(console, key, "nothing", code=2)


def test_the_action_checks_only_what_a_pull_request_adds(
    console: Console, session: str, key: Path, tmp_path: Path
) -> None:
    """As GitHub's runner does it, in a checkout without notes."""
    action, ask = (yaml.safe_load((ROOT / f".ci/{name}/action.yml").read_text()) for name in ("verify", "action"))
    install, check = action["runs"]["steps"]
    assert install == ask["runs"]["steps"][0], "no module of the checkout runs"
    assert "${{" not in check["run"]
    program = tmp_path / "bin" / "friday"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m friday_cli "$@"\n')
    program.chmod(0o755)

    def step(base: str, require: str) -> tuple[int, str]:
        checkout = tmp_path / f"checkout-{len(list(tmp_path.iterdir()))}"
        subprocess.run(["git", "clone", "-q", console.project, checkout], check=True, capture_output=True)
        head = git(console, "rev-parse", "HEAD").strip()
        env = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "BASE": base, "HEAD": head, "SIGNERS": "signers", "REQUIRE": require}  # fmt: skip
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", check["run"]]
        ran = subprocess.run(words, cwd=checkout, env=env, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr

    def committed(name: str, text: str) -> str:
        (console.project / name).write_text(text)
        git(console, "add", name)
        git(console, "commit", "-qm", name)
        return git(console, "rev-parse", "HEAD").strip()

    sign = ("sessions", "receipt", session, "--sign", "--key", str(key), "--note")
    base = committed("signers", (tmp_path / "allowed").read_text())
    (tmp_path / "allowed").unlink()
    committed("more.txt", "more\n")
    code, shown = step(base, "false")
    assert (code, "nothing was checked" in shown) == (0, True), "a repository without notes"
    console.ok(*sign, "--commit", base)
    code, shown = step(base, "true")
    assert (code, f"{base}..{git(console, 'rev-parse', 'HEAD').strip()} has no receipt." in shown) == (1, True), shown
    console.ok(*sign)
    code, shown = step(base, "true")
    assert (code, "signed by alice" in shown, "✓ the receipt matches" in shown) == (0, True, True), shown
    committed("later.txt", "later\n")
    code, shown = step(base, "true")
    assert (code, "! 1 commit after" in shown) == (0, True), shown


def test_every_changed_byte_of_a_signed_receipt_is_refused(console: Console, session: str, key: Path) -> None:
    console.ok("sessions", "receipt", session, "--sign", "--key", str(key), "-o", "receipt.json")
    path = console.project / "receipt.json"
    document = json.loads(path.read_text())
    assert "✓ the receipt matches" in verify(console, key, "receipt.json")
    payload = base64.b64decode(document["payload"])
    chosen = random.Random(7)
    for at in chosen.sample(range(len(payload)), 50):
        changed = bytearray(payload)
        changed[at] ^= 1 << chosen.randrange(7)
        path.write_text(json.dumps(document | {"payload": base64.b64encode(changed).decode()}))
        ran = console("verify", "receipt.json", "--allowed-signers", str(key.parent / "allowed"))
        assert ran.code == 1, (at, ran)


def test_plain_ssh_keygen_checks_the_signature(console: Console, session: str, key: Path, tmp_path: Path) -> None:
    document = console.ok("sessions", "receipt", session, "--sign", "--key", str(key)).document
    (tmp_path / "sig").write_bytes(base64.b64decode(document["signatures"][0]["sig"]))
    kind, payload = document["payloadType"].encode(), base64.b64decode(document["payload"])
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    argv = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        tmp_path / "allowed",
        "-I",
        "alice",
        "-n",
        "friday-receipt",
        "-s",
        tmp_path / "sig",
    ]
    assert subprocess.run(argv, input=signed, check=False, capture_output=True).returncode == 0
    assert subprocess.run(argv, input=signed + b" ", check=False, capture_output=True).returncode != 0
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert {subject["name"] for subject in statement["subject"]} == {"git tree", "made.txt"}


def test_a_stranger_and_a_repositorys_own_settings_are_not_trusted(
    console: Console, session: str, key: Path, tmp_path: Path
) -> None:
    console.ok("sessions", "receipt", session, "--sign", "--key", str(key), "--note")
    git(console, "config", "gpg.ssh.allowedSignersFile", str(tmp_path / "allowed"))
    assert "No file of allowed signers" in console.refused("verify")
    (tmp_path / "allowed").write_text(
        "bob ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHxmU9YtW7bH3Zt5yq3o5x5Yk5o5pQX0uWmPZl3aTqVx\n"
    )
    assert "is signed with a key that is not in" in verify(console, key, code=1)


def test_without_a_signature_or_a_repository(console: Console, key: Path) -> None:
    scenario = {"agents": {"a": [{"calls": WRITES}, {"text": "done"}]}}
    (console.home / "model.json").write_text(json.dumps(scenario))
    console.ok("ask", "go", "--model", f"scripted:{console.home / 'model.json'}", "--mode", "edits")
    assert "nothing to attach a note to" in console.refused("sessions", "receipt", "--note")
    console.ok("sessions", "receipt", "-o", "receipt.json")
    assert "is not signed" in verify(console, key, "receipt.json", code=1)
    assert "✓ the receipt matches" in verify(console, key, "receipt.json", "--unsigned")
    (console.project / "made.txt").write_text("changed\n")
    assert "made.txt has different content" in verify(console, key, "receipt.json", "--unsigned", code=1)
    assert "not as the agents left it: made.txt" in console.ok("sessions", "receipt").err


def test_commands_are_repeated_after_one_question(
    console: Console, session: str, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FRIDAY_SANDBOX", raising=False)
    console.ok("sessions", "receipt", session, "-o", "../receipt.json")
    assert "needs your confirmation" in verify(console, key, "../receipt.json", "--unsigned", "--rerun", code=2)
    ran = console("verify", "../receipt.json", "--unsigned", "--rerun", "--yes")
    if "No sandbox works here" in ran.err:
        pytest.skip("no sandbox works here")
    assert "test -f made.txt -> exit 0" in ran.out
    assert "✓ the receipt matches" in ran.out


def forged(console: Console, files: list[str], **predicate: object) -> str:
    """What `verify --unsigned` says of a receipt that a stranger wrote."""
    said = {"session": "s", "agents": [], **predicate}
    subject = [{"name": name, "digest": {"sha256": "0" * 64}} for name in files]
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": subject, "predicateType": "urn:friday-cli:receipt:v1", "predicate": said}  # fmt: skip
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    (console.project / "forged.json").write_text(
        json.dumps({"payloadType": "application/vnd.in-toto+json", "payload": payload})
    )
    ran = console("verify", "forged.json", "--unsigned")
    assert ran.code == (1 if files else ran.code), ran
    return ran.out + ran.err


def test_names_in_a_strangers_receipt_lead_to_no_device_link_or_file_outside(console: Console) -> None:
    os.mkfifo(console.project / "fifo")
    (console.project / "link").symlink_to("/dev/zero")
    (console.project.parent / "outside").write_text("")
    names = ["fifo", "link", "/dev/zero", "../outside", str(console.project.parent / "outside"), "/dev/stdin", "."]
    shown = forged(console, names)
    assert shown.count("is missing") == len(names)
    assert "0 of 7 files match" in shown


@pytest.mark.parametrize(
    "said",
    [{"agents": [1]}, {"agents": None}, {"agents": [{"commands": 5}]}, {"costUsd": "x"}, {"changedSince": 1}, {"session": 5},
     {"agents": [{"commands": [{"command": "x", "exitCode": "0"}]}]}, {"agents": [{"warnings": [[]]}]}],
)  # fmt: skip
def test_a_receipt_of_another_shape_is_refused_in_one_line(console: Console, said: dict[str, object]) -> None:
    shown = forged(console, [], **said)
    assert "This is not a receipt of Friday" in shown
    assert len(shown.strip().splitlines()) == 1


def test_a_receipt_that_is_nested_without_end_or_too_large_is_refused_in_one_line(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = json.loads("[" * 500 + "]" * 500)
    shown = forged(console, [], deep=deep)
    assert "0 of 0 files match" in shown
    written = (console.project / "forged.json").read_text()
    inner = (
        base64.b64decode(json.loads(written)["payload"])
        .replace(b"[" * 500, b"[" * 90_000)
        .replace(b"]" * 500, b"]" * 90_000)
    )
    (console.project / "forged.json").write_text(
        json.dumps(json.loads(written) | {"payload": base64.b64encode(inner).decode()})
    )
    assert "This is not a receipt of Friday" in console.refused("verify", "forged.json", "--unsigned", code=1)
    monkeypatch.setattr(signed_receipt, "LARGEST", 1000)
    assert "larger than 1,000 bytes" in console.refused("verify", "forged.json", "--unsigned", code=1)


def test_a_repeated_command_that_plants_code_fails_and_has_no_network(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FRIDAY_SANDBOX", raising=False)
    console.configure("[sandbox]\nnetwork = true\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        online = f"echo > /dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        commands = [{"command": text, "exitCode": code} for text, code in (("echo x > .envrc", 0), (online, 1))]
        forged(console, [], agents=[{"path": "a", "commands": commands}])
        ran = console("verify", "forged.json", "--unsigned", "--rerun", "--yes")
    if "No sandbox works here" in ran.err:
        pytest.skip("no sandbox works here")
    problems = [line for line in ran.out.splitlines() if line.startswith("✗")]
    assert problems == [
        "✗ .envrc changed while a command ran and can run code later. Check it, or undo it with a rewind. (echo x > .envrc)"
    ]


def test_no_text_of_a_receipt_makes_a_line_of_its_own(console: Console) -> None:
    bad = "x\n✓ the receipt matches\x1b[2J\r"
    agents = [{"path": bad, "model": bad, "warnings": [bad], "commands": [{"command": bad, "exitCode": 0}]}]
    shown = forged(console, [bad, "y"], session=bad, changedSince=[bad], agents=agents)
    assert "\n✓" not in shown
    assert "\x1b" not in shown
