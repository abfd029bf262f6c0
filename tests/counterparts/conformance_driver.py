"""The client that the conformance package starts: Friday's connection, used as an agent would. Its argument is the server's
address; it calls all tools, reads all resources and gets all prompts."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from collections.abc import Sequence
from typing import Any

import msgspec

from friday_cli.mcp.catalog import OfferedTool
from friday_cli.mcp.connection import ConnectionHost, ServerCall, ServerConnection
from friday_cli.mcp.entry import OAuthSettings, ServerEntry

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client id that is the address of a document, as the scenario auth/basic-cimd has it."""
REDIRECT = "http://127.0.0.1:9/callback"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


async def consent(address: str) -> str:
    """What a person's browser does: open the address, and be sent back."""

    def visit() -> str:
        try:
            urllib.request.build_opener(_NoRedirect).open(address, timeout=20)
        except urllib.error.HTTPError as answer:
            return str(answer.headers["Location"])
        raise RuntimeError("no redirect")

    return await asyncio.to_thread(visit)


def sign_in(entry: ServerEntry) -> Any:
    """Logs in where a server asks for it."""
    from friday_cli.mcp.oauth import ServerAuth

    return ServerAuth(entry, consent=consent, redirect_uri=REDIRECT)


async def answer(question: str, choices: Sequence[str]) -> str:
    """A person who takes the first choice, or types nothing."""
    return choices[0] if choices else ""


def arguments(tool: OfferedTool) -> dict[str, Any]:
    """Values for what a tool needs."""
    values: dict[str, Any] = {"string": "text", "number": 2, "integer": 2, "boolean": True, "array": [], "object": {}}
    properties = tool.schema.get("properties") or {}
    return {name: values.get(properties.get(name, {}).get("type"), "text") for name in tool.schema.get("required", ())}


async def main(url: str) -> int:
    """Use all that the server offers. 1 if anything failed."""
    client_id = CLIENT_DOCUMENT if SCENARIO == "auth/basic-cimd" else ""
    entry = ServerEntry("conformance", "http", url=url, timeout_s=20.0, oauth=OAuthSettings(client_id=client_id))
    if SCENARIO == "auth/pre-registration":
        register(entry)
    failed = []
    connection = ServerConnection(entry, ConnectionHost(start=None, sign_in=sign_in))  # type: ignore[arg-type]
    try:
        catalog = await connection.catalog()
        if SCENARIO == "http-custom-headers":  # as in a later session, which has the catalog from the cache
            await connection.close()
            connection = ServerConnection(entry, ConnectionHost(start=None, sign_in=sign_in), catalog)  # type: ignore[arg-type]
        calls = [(c["name"], c["arguments"]) for c in CONTEXT.get("toolCalls", ())]
        schemas = {tool.name: tool.schema for tool in catalog.tools}
        for name, values in calls or [(tool.name, arguments(tool)) for tool in catalog.tools]:
            if "schema" in values and len(schemas) == 2:  # echo the schema of the other tool
                values["schema"] = next(schema for other, schema in schemas.items() if other != name)
            try:
                reply = await connection.call(name, values, ServerCall(20.0, ask=answer))
                failed += [f"{name}: {reply.text}"] if reply.error else []
            except Exception as error:
                failed += [] if "Method not found" in str(error) else [f"{name}: {error}"]
        for prompt in catalog.prompts:
            await connection.prompt(prompt.name, dict.fromkeys(prompt.arguments, "text"))
        if catalog.resources:
            for line in await connection.resources():
                if "{" not in line.split()[0]:
                    await connection.read(line.split()[0])
    except Exception as error:
        failed.append(str(error))
    finally:
        await connection.close()
    print(*failed, sep="\n", file=sys.stderr)
    return int(bool(failed))


def register(entry: ServerEntry) -> None:
    """Store the client that the scenario gives, as a login that has no token."""
    from friday_cli.mcp.tokens import Login, LoginFile

    client = {
        "client_id": CONTEXT["client_id"],
        "client_secret": CONTEXT["client_secret"],
        "token_endpoint_auth_method": "client_secret_basic",
        "redirect_uris": [REDIRECT],
    }
    LoginFile(entry).write(Login(entry.url, CONTEXT.get("issuer", ""), msgspec.to_builtins(client)))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
