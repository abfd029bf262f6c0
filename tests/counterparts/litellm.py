"""Friday behind a real litellm proxy, over each of the three APIs that it offers; the model behind it is a loopback one with the
Messages API, which thinks, calls a tool, and wants its signed thoughts back.

`python -m tests.counterparts litellm` needs `litellm` 1.109.1 on PATH, with what its proxy needs. Nothing here is part of the tests.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers import anthropic_events as claude
from tests.servers.fake_model_server import WIRES, FakeModelServer, Turn, Wire, sse, thinking
from tests.servers.script_player import Reply

PACKAGES = ()
"""It needs nothing from npm."""
START_S = 300.0
"""Seconds until the proxy must answer."""
SIGNATURE = "c2lnbmF0dXJl"
KEY = "sk-a-key-that-the-proxy-calls-strong-0123456789abcdef"


def rule(turn: Turn) -> Reply:
    """A thought with a signature, a text and a call; after its result a thought and the answer."""
    first, second = claude.start(), claude.thinking(0, "Look first.", signature=SIGNATURE)
    if turn.results:
        return Reply(sse("messages", [first, *second, *claude.text(1, "forty-two"), *claude.end()]))
    call = claude.call(2, "toolu_1", "glob", '{"pattern": "*"}')
    return Reply(sse("messages", [first, *second, *claude.text(1, "I look."), *call, *claude.end("tool_use")]))


def signed(server: FakeModelServer) -> list[Any]:
    """The signatures in the requests that the model got."""
    blocks = [b for turn in server.turns for m in turn.body["messages"] for b in m["content"] if isinstance(b, dict)]
    return [block.get("signature") for block in blocks if block.get("type") == "thinking"]


def started(folder: Path, url: str) -> tuple[subprocess.Popen[bytes], str]:
    """A proxy with one model, `claude`, and its URL. Raises RuntimeError if it does not start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list:\n- model_name: claude\n  litellm_params:\n    model: anthropic/claude-opus-4-5\n"
        f"    api_base: {url}\n    api_key: sk-upstream\n    modify_params: true\n"
        f"general_settings:\n  master_key: {KEY}\n"
    )
    argv = [shutil.which("litellm") or "litellm", "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
    with (folder / "litellm.log").open("wb") as log:
        proxy = subprocess.Popen(argv, stdout=log, stderr=log, env=env, cwd=folder)
    base, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"{base}/health/liveliness", timeout=5).close()
            return proxy, base
        except OSError:
            if time.monotonic() > end or proxy.poll() is not None:
                proxy.kill()
                text = (folder / "litellm.log").read_text(errors="replace")
                raise RuntimeError(f"litellm did not start: {text[-2000:]}") from None
            time.sleep(0.5)


def asked(folder: Path, wire: Wire, base: str) -> list[subprocess.CompletedProcess[str]]:
    """`friday ask` and then `ask -c` over one API of the proxy."""
    home = folder / wire
    home.mkdir()
    url = base if wire == "messages" else f"{base}/v1"
    (home / "config.toml").write_text(
        f'[providers.proxy]\nbase_url = "{url}"\nkey_env = "PROXY_KEY"\napi = "{wire}"\nreports_cost = true\n'
    )
    env = os.environ | {"FRIDAY_HOME": str(home), "PROXY_KEY": KEY}
    ask = [sys.executable, "-m", "friday_cli", "ask", "-m", "proxy/claude", "--effort", "high", "--max-cost", "1"]
    return [
        subprocess.run(
            [*ask, *more], cwd=folder, env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
        )
        for more in (("What is the answer?",), ("-c", "Again?"))
    ]


def main() -> int:
    """Print what happened over each API. The exit code is 1 if one is not as expected, 2 without litellm."""
    if not shutil.which("litellm"):
        print("litellm: install litellm 1.109.1 with its proxy first", file=sys.stderr)
        return 2
    code = 0
    for wire in WIRES:
        with tempfile.TemporaryDirectory() as name, thinking(rule) as server:
            folder = Path(name)
            proxy, base = started(folder, server.url)
            try:
                runs = asked(folder, wire, base)
            finally:
                proxy.terminate()
                proxy.wait()
            right = [(r.returncode, r.stdout) for r in runs] == [(0, "forty-two\n")] * 2
            back = signed(server)
            right = right and bool(back) and set(back) == {SIGNATURE} and not server.complaints
            print(
                f"{wire}: {'as expected' if right else 'NOT as expected'}: {len(back)} signed thoughts back", flush=True
            )
            if not right:
                code = 1
                print(*(f"{r.returncode} {r.stdout}{r.stderr}" for r in runs), *server.complaints, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
