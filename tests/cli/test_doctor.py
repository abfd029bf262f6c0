"""`friday doctor`: what it sees is true, fit to be pasted, and what is broken makes it fail."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from friday_cli.diagnostics.doctor import PACKAGES, examine
from friday_cli.diagnostics.doctor.services import without_credentials
from friday_cli.store.migrations import MIGRATIONS
from friday_cli.system.paths import store_path
from tests.cli.console import ROOT, Console, plain

pytestmark = pytest.mark.usefixtures("no_servers")


def facts(console: Console) -> dict[str, Any]:
    """What is found, as area/name -> fact."""
    document = console("doctor", "--json").document
    return {f"{fact['area']}/{fact['name']}": fact for fact in document["facts"]}


def test_a_fresh_machine_is_not_broken(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_SANDBOX", "auto")
    ran = console("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.rstrip().endswith("No problems found.")
    found = facts(console)
    assert console("doctor", "--json").document["ok"] is True
    assert found["model/would use"]["level"] == "note"
    assert found["sandbox/kind"]["text"].startswith(("bubblewrap", "landlock", "seatbelt", "none ("))
    assert "does not exist yet" in found["sessions/file"]["text"]
    assert not console.friday_home.exists()  # looking makes nothing


def test_it_names_what_friday_is_installed_with(console: Console) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[><=~]", text)[0] for text in project["dependencies"] if "sys_platform" not in text}
    assert set(PACKAGES) == needed
    text = facts(console)["versions/packages"]["text"]
    assert {part.split(" ")[0] for part in text.split(", ")} == needed


@pytest.mark.parametrize(("variable", "model", "level", "text"), [
    ("", "", "note", "none: web_search is not available"), ("", "groq", "note", "none: web_search is not available"),
    ("", "anthropic", "ok", "anthropic searches the web for its own models"), ("BRAVE_API_KEY", "anthropic", "ok", "Brave, by BRAVE_API_KEY"),
    ("SEARXNG_URL", "", "ok", "SearXNG, by SEARXNG_URL"), ("TAVILY_API_KEY", "", "ok", "Tavily, by TAVILY_API_KEY"),
])  # fmt: skip
def test_it_says_what_searches_the_web(
    console: Console, monkeypatch: pytest.MonkeyPatch, variable: str, model: str, level: str, text: str
) -> None:
    for name, value in ((variable, "http://127.0.0.1:9"), (model and f"{model.upper()}_API_KEY", "k-0123456789")):
        if name:
            monkeypatch.setenv(name, value)
    if model:
        monkeypatch.setenv("FRIDAY_MODEL", f"{model}/x")
    fact = facts(console)["web search/service"]
    assert (fact["level"], fact["text"].startswith(text)) == (level, True), fact
    assert (fact["hint"] == "Set SEARXNG_URL, BRAVE_API_KEY or TAVILY_API_KEY.") == (level == "note")


def test_nothing_secret_and_no_home_is_shown(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ["sk-ant-canary-0123456789abcdefghij", "sk-other-0123456789abcdefghij", "pr0xypw", "s3cr3t", "tok-123456"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", secrets[0])
    console.friday_home.mkdir()
    (console.friday_home / "auth.toml").write_text(f'[keys]\nopenai = "{secrets[1]}"\n')
    (console.friday_home / "auth.toml").chmod(0o600)
    monkeypatch.setenv("HTTPS_PROXY", f"http://bob:{secrets[2]}@proxy.example:3128")
    monkeypatch.setenv("all_proxy", f"bob:{secrets[2]}@proxy.example:3128")
    monkeypatch.setenv("FRIDAY_TOKEN", secrets[4])
    monkeypatch.setenv("OLLAMA_HOST", f"http://u:{secrets[3]}@127.0.0.1:9")
    for argv in (("doctor",), ("doctor", "--json")):
        ran = console(*argv)
        for secret in [*secrets, "bob", str(console.home)]:
            assert secret not in ran.out, secret
    found = facts(console)
    assert found["network/HTTPS_PROXY"]["text"] == "http://…@proxy.example:3128"
    assert found["network/all_proxy"]["text"] == "…@proxy.example:3128"
    assert found["keys/anthropic"]["text"] == "ANTHROPIC_API_KEY (used)"
    assert found["keys/openai"]["text"] == "auth.toml (used)"
    assert "anthropic" not in found["keys/no key for"]["text"]
    assert found["folders/config"]["text"].startswith("~/friday")
    assert found["model/would use"]["text"] == "anthropic/claude-opus-5-5, because of ANTHROPIC_API_KEY"


@pytest.mark.parametrize(("value", "shown"), [
    ("http://u:p@h:1", "http://…@h:1"), ("http://u:p/q@w@h:1/x", "http://…@h:1/x"), ("u:p@h:1", "…@h:1"),
    ("socks5h://user@h", "socks5h://…@h"), ("http://h:1", "http://h:1"),
    ("localhost,.example.org", "localhost,.example.org"),
])  # fmt: skip
def test_credentials_are_taken_out_of_proxies(value: str, shown: str) -> None:
    assert without_credentials(value) == shown


def test_home_is_shortened_only_where_it_is_the_home(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_HOME", f"{console.home}-of-another")
    assert facts(console)["folders/config"]["text"].startswith(f"{console.home}-of-another")


def torn_store(console: Console) -> None:
    """Still a database, but pages of it are gone."""
    for _ in range(3):
        console.keep()
    console.sql("PRAGMA journal_mode = DELETE")
    raw = bytearray(store_path().read_bytes())
    raw[4096 * 3 :] = bytes(len(raw) - 4096 * 3)
    store_path().write_bytes(raw)


def newer_store(console: Console) -> None:
    console.keep()
    console.sql("PRAGMA user_version = 99")


BROKEN: list[tuple[str, str, str | bytes | Callable[[Console], None]]] = [
    ("settings/file", "config.toml", b"mode = \n"), ("sessions/integrity", "data/friday.db", os.urandom(9000)),
    ("sessions/integrity", "", torn_store), ("sessions/form", "", newer_store),
    ("network/SSL_CERT_FILE", "SSL_CERT_FILE", "/nowhere/ca.pem"), ("folders/data", "data", b"a file where a folder should be"),
    ("keys/anthropic", "auth.toml", b"keys = 3"), ("keys/openai", "OPENAI_API_KEY", "two words"),
    ("model/would use", "FRIDAY_MODEL", "opus"), ("model/would use", "FRIDAY_MODEL", "nonsense-9"),
    ("settings/project", "state/trust.json", b"{"),
]  # fmt: skip
"""What is marked; a file with its bytes, a variable with its text, or what breaks it."""


@pytest.mark.parametrize(("where", "name", "breaks"), BROKEN, ids=[f"{where} {name}" for where, name, _ in BROKEN])
def test_what_is_broken_is_marked_and_makes_it_fail(
    console: Console, monkeypatch: pytest.MonkeyPatch, where: str, name: str, breaks: Any
) -> None:
    if isinstance(breaks, bytes):
        (console.friday_home / name).parent.mkdir(parents=True)
        (console.friday_home / name).write_bytes(breaks)
        (console.friday_home / name).chmod(0o600)
    elif isinstance(breaks, str):
        monkeypatch.setenv(name, breaks)
    else:
        breaks(console)
    assert facts(console)[where]["level"] == "bad"
    ran = console("doctor")
    assert ran.code == 1
    assert "  ✗ " in ran.out
    assert console("doctor", "--json").document["ok"] is False


def test_a_sound_store_is_described(console: Console) -> None:
    console.keep()
    found = facts(console)
    assert re.search(r"friday\.db, \d+\.\d KB", found["sessions/file"]["text"])
    assert found["sessions/form"]["text"] == f"{len(MIGRATIONS)} of {len(MIGRATIONS)}, journal wal"
    assert found["sessions/kept"]["text"] == "1 session"
    assert found["sessions/integrity"]["text"] == "ok"


def test_a_project_that_waits_for_trust_is_worth_a_note(console: Console) -> None:
    fact = facts(console)["settings/project"]
    assert (fact["level"], fact["text"]) == ("ok", f"{console.project} has nothing that needs trust")
    console.profile(console.project / ".friday/profiles", "x")
    assert facts(console)["settings/project"]["level"] == "note"
    console.ok("trust", "--yes")
    (console.project / "AGENTS.md").write_text("Use tabs.\n")
    fact = facts(console)["settings/project"]
    assert fact["level"] == "note"
    assert fact["text"].endswith("is trusted; changed since, and information only: AGENTS.md")


@pytest.mark.usefixtures("programs_in_temporary_folders")
def test_programs_that_are_missing_are_notes(console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = facts(console)
    assert found["programs/rg"]["level"] == "note"
    assert "own regular expressions" in found["programs/rg"]["text"]
    (tmp_path / "git").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "git").chmod(0o700)
    assert "exit" in facts(console)["programs/git"]["text"]


def test_a_folder_that_is_gone_and_a_closed_end(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    gone = console.home / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert "no longer exists" in facts(console)["settings/file"]["text"]
    monkeypatch.setattr("sys.stdin", None)
    seen = examine(cwd=console.project, model="demo")
    assert {fact.area for fact in seen} >= {"terminal", "programs"}
    assert "demo, because of --model" in [fact.text for fact in seen if fact.name == "would use"]


def test_on_a_terminal_it_tells_so_and_wraps(console: Console) -> None:
    shown = console.terminal("doctor", columns=80)
    text = plain(shown.out)
    words = [line.split(maxsplit=1) for line in text.splitlines()]  # the longest name sets the width of the column
    assert ["connected", "stdin, stdout, stderr"] in words
    assert ["colours", "on"] in words
    assert max(map(len, text.splitlines())) <= 80
    assert "off: NO_COLOR is set" in console.terminal("doctor", NO_COLOR="1").out


def test_a_full_disk_is_reported(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(console.friday_home.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=0))
    ran = console("doctor")
    assert (ran.code, "No problems found" in ran.out) == (1, False)
    assert "the disk is full" in facts(console)["folders/data"]["text"]
    assert "Free some space" in facts(console)["folders/data"]["hint"]
