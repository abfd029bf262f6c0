"""The scripts that Friday is measured against: what Python, an HTTP client or an SDK costs with nothing around it.

Each is run as `python -c SCRIPT BASE_URL` and makes one streaming request, where it makes any.
"""

from __future__ import annotations

NOTHING = "pass"

RAW_SOCKET = """
import json, socket, sys
host, _, path = sys.argv[1].removeprefix("http://").partition("/")
name, port = host.split(":")
body = json.dumps({"model": "m", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
with socket.create_connection((name, int(port))) as sock:
    sock.sendall(b"POST /%b/v1/messages HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: %d\\r\\n\\r\\n%b" % (path.encode(), len(body), body))
    seen = b""
    while not seen.endswith(b"0\\r\\n\\r\\n"):
        seen += sock.recv(65536)
print(len(seen))
"""

HTTPX2 = """
import gc; gc.disable()
import asyncio, json, os, sys
import httpx2
async def main():
    body = {"model": "m", "max_tokens": 10**9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    async with httpx2.AsyncClient(verify=False, trust_env=False) as client:
        async with client.stream("POST", sys.argv[1] + "/v1/messages", json=body, timeout=None) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line[6:])
                    if event["type"] == "content_block_delta":
                        sys.stdout.write(event["delta"]["text"])
asyncio.run(main())
sys.stdout.flush()
os._exit(0)
"""

ANTHROPIC = """
import gc; gc.disable()
import asyncio, os, sys
from anthropic import AsyncAnthropic
async def main():
    client = AsyncAnthropic(api_key="k", base_url=sys.argv[1], max_retries=0)
    stream = await client.messages.create(
        model="claude-sonnet-5-5", max_tokens=100, stream=True, messages=[{"role": "user", "content": "hi"}])
    async for event in stream:
        if event.type == "content_block_delta":
            sys.stdout.write(event.delta.text)
asyncio.run(main())
sys.stdout.flush()
os._exit(0)
"""

OPENAI = """
import gc; gc.disable()
import asyncio, os, sys
from openai import AsyncOpenAI
async def main():
    client = AsyncOpenAI(api_key="k", base_url=sys.argv[1] + "/v1", max_retries=0)
    stream = await client.chat.completions.create(
        model="m", stream=True, messages=[{"role": "user", "content": "hi"}])
    async for event in stream:
        if event.choices and event.choices[0].delta.content:
            sys.stdout.write(event.choices[0].delta.content)
asyncio.run(main())
sys.stdout.flush()
os._exit(0)
"""

TYPER = """
import gc; gc.disable()
import os, sys, typer
app = typer.Typer()
@app.command()
def go(name: str = "x"):
    print(name)
try:
    app(args=[])
except SystemExit:
    pass
sys.stdout.flush()
os._exit(0)
"""

ROUNDS = """
import asyncio, json, sys
import httpx2
async def main():
    url, count = sys.argv[1] + "/v1/messages", int(sys.argv[2])
    messages = [{"role": "user", "content": "hi"}]
    async with httpx2.AsyncClient(verify=False, trust_env=False) as client:
        for _ in range(count + 1):
            body = {"model": "m", "max_tokens": 100, "stream": True, "messages": messages}
            async with client.stream("POST", url, json=body, timeout=None) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        json.loads(line[6:])
            messages += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "line of a small file " * 50}]
asyncio.run(main())
"""
