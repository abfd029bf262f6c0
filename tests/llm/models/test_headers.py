"""The headers that open a service: the key once, and what OpenAI's own package reads from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.config.settings import ProviderSettings
from friday_cli.llm.models.credentials import find_key
from friday_cli.llm.models.factory import endpoint
from friday_cli.llm.models.presets import find_service
from friday_cli.llm.transport import Endpoint, Transport, aclose_all, get_transport
from tests.servers.script_player import Reply, playing, unnamed

SECRET = "sk-very-secret-1234567890"
OWN = "X-Team: blue\nOpenAI-Project:  proj-own \nno colon here\nAuthorization: Bearer other-0123456789"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    keys = {f"{name}_API_KEY": SECRET for name in ("OPENAI", "ANTHROPIC", "GROQ")}
    return {"FRIDAY_HOME": str(tmp_path), **keys, "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}


def reached(name: str, env: dict[str, str], **own: Any) -> Endpoint:
    service = find_service(name, {name: ProviderSettings(**own)} if own else {}, env)
    return endpoint(service, find_key(service, env), env=env)


def test_organisation_project_and_own_headers(env: dict[str, str]) -> None:
    bearer = f"Bearer {SECRET}"
    assert reached("openai", env).headers == {"authorization": bearer, "openai-organization": "org-1",
                                              "openai-project": "proj-1"}  # fmt: skip
    made = reached("openai", env | {"OPENAI_CUSTOM_HEADERS": OWN}, headers={"OpenAI-Organization": "org-mine"})
    assert made.headers == {"OpenAI-Organization": "org-mine", "authorization": bearer, "openai-project": "proj-own",
                            "x-team": "blue"}  # fmt: skip


def test_they_are_for_openai_alone(env: dict[str, str]) -> None:
    env["OPENAI_CUSTOM_HEADERS"] = OWN
    bearer = {"authorization": f"Bearer {SECRET}"}
    assert reached("groq", env).headers == bearer
    assert reached("anthropic", env).headers == bearer
    assert reached("openai", env, base_url="https://gateway.example/v1").headers == bearer
    assert reached("openai", env | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}).headers == bearer


@pytest.mark.parametrize("name", ["x-api-key", "X-Api-Key", "Authorization"])
def test_a_key_of_ones_own_goes_alone(env: dict[str, str], name: str) -> None:
    for provider in ("anthropic", "openai", "groq"):
        made = reached(provider, env, headers={name: "mine-0123456789"}, base_url="https://gateway.example/v1")
        assert made.headers == {name: "mine-0123456789"}
        assert "mine-0123456789" in made.secrets


@pytest.mark.parametrize("custom", ["", OWN, "Authorization: Bearer other-0123456789"])
async def test_both_transports_send_the_same(env: dict[str, str], custom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of OpenAI is the oracle: it reads the very same variables by itself."""
    env["OPENAI_CUSTOM_HEADERS"] = custom
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, env[name])
    official, bare = (reached("openai", env),
                      reached("openai", {k: v for k, v in env.items() if "KEY" in k or "HOME" in k}))  # fmt: skip
    seen = []
    transports: list[tuple[Transport, Endpoint]] = [("http", official), ("sdk", official), ("sdk", bare)]
    async with playing(Reply(unnamed({"type": "x"}, "[DONE]"))) as server:
        for transport, to in transports:
            here = msgspec.structs.replace(to, base_url=f"{server.url}/v1")
            assert [e async for e in get_transport(transport)(here, "/chat/completions", {"model": "m"})]
        await aclose_all()
        for asked in server.requests:
            kept = ("authorization", "openai-organization", "openai-project", "x-team", "content-type", "accept")
            seen.append({name: asked.headers.get(name) for name in kept})
    assert seen[0] == seen[1] == seen[2]
    assert seen[0]["authorization"] == f"Bearer {SECRET}"
    assert seen[0]["openai-organization"] == "org-1"
