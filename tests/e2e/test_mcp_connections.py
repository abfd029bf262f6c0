"""Servers that cannot be used, and logins, as a person sees them: one line each, and the run continues."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.tokens import Login, LoginFile
from tests.cli.console import Console
from tests.servers.certificate import self_signed
from tests.servers.oauth_server import oauth_server
from tests.servers.site import page, site


@pytest.fixture
def console(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Console:
    (tmp_path / "project").mkdir()
    return Console((tmp_path / "project").resolve(), home, capsys)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """A server's certificate that no authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    return context


PATIENT = """
import runpy
from friday_cli.mcp import pool
pool.SETTLE_S = 45.0
runpy.run_module("friday_cli", run_name="__main__")
"""
"""Friday, whose first request waits longer for its servers: a slow machine takes more than the usual time for them."""


async def test_each_server_that_cannot_be_used_is_one_line(console: Console, tls: ssl.SSLContext) -> None:
    script = console.home / "script.json"
    script.write_text(json.dumps({"agents": {"a": {"turns": [{"text": "The answer."}]}}}))
    with oauth_server() as service:
        async with site({"/mcp": page("application/json", b"{}")}, tls=tls) as web:
            servers = {
                "missing": {"command": "/no/such/program"},
                "untrusted": {"url": web.url("/mcp")},
                "login": {"url": service.url},
                "expired": {"url": service.url},
            }
            old = Login(
                service.url, service.origin, {"client_id": "c"}, {"access_token": "a-1", "refresh_token": "r-1"}, 1.0
            )
            LoginFile(ServerEntry("expired", "http", url=service.url)).write(old)
            given = json.dumps({"mcpServers": {name: {**entry, "expose": "direct"} for name, entry in servers.items()}})
            words = ("ask", "-m", f"scripted:{script}", "--mcp-config", given, "Answer.")
            ran = await asyncio.to_thread(console.process, *words, program=("-c", PATIENT), SSL_CERT_FILE="")
    assert (ran.code, ran.out) == (0, "The answer.\n"), ran
    told = {found[1]: found[2] for found in re.finditer(r"^friday: MCP server (\w+): (.*)$", ran.err, re.MULTILINE)}
    assert told["missing"] == "The program /no/such/program was not found."
    assert told["untrusted"].startswith("the certificate of 127.0.0.1 is not trusted (")
    assert told["untrusted"].endswith("Set SSL_CERT_FILE to a file with the CA certificates of your network.")
    assert told["login"] == "it needs a login. Run `friday mcp login login`."
    assert told["expired"] == "its login has expired. Run `friday mcp login expired`."
    assert len(re.findall("^friday: MCP server", ran.err, re.MULTILINE)) == 4


def test_a_login_by_a_pasted_address(console: Console) -> None:
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    with oauth_server() as service:
        (console.friday_home).mkdir(exist_ok=True)
        entry = {"url": service.url, "oauth": {"scope": "read"}}
        (console.friday_home / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
        with subprocess.Popen(
            [sys.executable, "-m", "friday_cli", "mcp", "login", "notes", "--no-browser"],
            env=console.env,
            cwd=console.project,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdin is not None
            assert running.stderr is not None
            address = next(found[0] for line in running.stderr if (found := re.search(r"http\S+", line)))
            with pytest.raises(urllib.error.HTTPError) as redirected:
                urllib.request.build_opener(Stay).open(address, timeout=20)
            running.stdin.write(redirected.value.headers["Location"] + "\n")
            running.stdin.flush()
            told = running.stderr.read()
        assert running.returncode == 0, told
        assert told.endswith(f"friday: logged in to notes: by {service.origin}, for read, renewed by itself\n")
    assert console.ok("mcp", "logout", "notes").err == "friday: removed the login for notes\n"
    assert "No login for notes" in console.refused("mcp", "logout", "notes")
