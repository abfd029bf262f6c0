from __future__ import annotations

import ssl
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from friday_cli.config.settings import ProviderSettings, Settings
from friday_cli.llm.models import local_servers, presets
from friday_cli.llm.models.factory import create_provider
from friday_cli.llm.models.resolve import list_services, resolve
from tests.servers.script_player import DROP, HANG, Asked, Reply, Server, document, running
from tests.timing import paced

LOCAL = ("ollama", "lmstudio", "llamacpp", "vllm")


class Local(Server):
    """A stand-in for a model server: `answers` by path; None never answers."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(())
        self.answers = answers

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def _reply_to(self, asked: Asked) -> Reply:
        answer = self.answers.get(asked.path, b"")
        if callable(answer):
            answer = answer(asked.json)
        if answer is None:
            return Reply(HANG)
        if isinstance(answer, bytes):
            return Reply(answer, status=200 if answer else 404)
        return answer if isinstance(answer, Reply) else document(answer, 200)


def serving(answers: dict[str, Any]) -> AbstractAsyncContextManager[Local]:
    return running(Local(answers))


def at(**ports: int) -> dict[str, ProviderSettings]:
    """Every local service at a port; one that is not named is at a port without a server."""
    return {name: ProviderSettings(base_url=f"http://127.0.0.1:{ports.get(name, 1)}/v1") for name in LOCAL}


def shown(body: dict[str, str]) -> dict[str, Any]:
    return {
        "qwen3:8b": {"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "tools"]},
        "tuned:1b": {
            "model_info": {"llama.context_length": 131072},
            "parameters": 'stop "x"\nnum_ctx                 8192',
            "capabilities": ["completion"],
        },
        "loaded:2b": {"model_info": {"x.context_length": 65536}, "capabilities": ["completion", "tools"]},
        "nomic": {"capabilities": ["embedding"]},
    }[body["model"]]


OLLAMA: dict[str, Any] = {
    "/api/tags": {"models": [{"name": n} for n in ("qwen3:8b", "tuned:1b", "loaded:2b", "nomic")]},
    "/api/ps": {"models": [{"name": "loaded:2b", "context_length": 32768}]},
    "/api/show": shown,
}
LMSTUDIO: dict[str, Any] = {
    "/v1/models": {"data": [{"id": "qwen/a"}, {"id": "embed"}]},
    "/api/v0/models": {
        "data": [
            {
                "id": "qwen/a",
                "type": "llm",
                "loaded_context_length": 4096,
                "max_context_length": 262144,
                "capabilities": ["tool_use"],
            },
            {"id": "embed", "type": "embeddings"},
        ]
    },
}
LLAMACPP: dict[str, Any] = {
    "/v1/models": {"data": [{"id": "a.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]},
    "/props": {"default_generation_settings": {"n_ctx": 16384}},
}
VLLM: dict[str, Any] = {"/v1/models": {"data": [{"id": "org/m", "owned_by": "vllm", "max_model_len": 65536}]}}


async def test_all_four_are_found_with_their_windows() -> None:
    async with serving(OLLAMA) as a, serving(LMSTUDIO) as b, serving(LLAMACPP) as c, serving(VLLM) as d:
        found = await local_servers.probe(
            at(ollama=a.port, lmstudio=b.port, llamacpp=c.port, vllm=d.port), {}, seconds=60
        )
    assert [s.provider for s in found.servers] == list(LOCAL)
    ollama, lmstudio, llamacpp, vllm = (s.models for s in found.servers)
    assert ollama == (
        local_servers.LocalModel("qwen3:8b", 0, 40960, True),
        local_servers.LocalModel("tuned:1b", 8192, 131072, False),
        local_servers.LocalModel("loaded:2b", 32768, 65536, True),
    )
    assert lmstudio == (local_servers.LocalModel("qwen/a", 4096, 262144, True),)
    assert llamacpp == (local_servers.LocalModel("a.gguf", 16384, 131072),)
    assert vllm == (local_servers.LocalModel("org/m", 65536),)
    assert "OLLAMA_CONTEXT_LENGTH" in found.servers[0].hint
    assert found.notes == ()


async def test_no_credentials_are_sent_and_no_proxy_is_asked_and_no_certificate_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        ssl.SSLContext, "load_verify_locations", lambda *args, **more: pytest.fail("reads certificates")
    )
    async with serving(VLLM) as server, serving({}) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        env = {"VLLM_API_KEY": "secret-1", "OPENAI_API_KEY": "secret-2"}
        own = ProviderSettings(
            base_url=f"http://127.0.0.1:{server.port}/v1", headers={"x-key": "secret-3"}, key_env="VLLM_API_KEY"
        )
        env["LM_STUDIO_API_BASE"] = f"http://user:secret-4@127.0.0.1:{server.port}/v1"
        others = {n: p for n, p in at().items() if n != "lmstudio"}
        found = await local_servers.probe({**others, "vllm": own}, env, seconds=60)
    assert {asked.path for asked in server.requests} >= {"/v1/models", "/api/v0/models"}
    assert found.servers
    assert proxy.requests == []
    assert "secret" not in str(server.requests)
    assert "authorization" not in str(server.requests)


async def test_only_an_address_on_this_machine_is_asked() -> None:
    assert await local_servers.probe(at(), {}, seconds=60) == local_servers.LocalServers()
    others = {n: p for n, p in at().items() if n != "ollama"}
    found = await local_servers.probe(others, {"OLLAMA_HOST": "198.51.100.7"}, seconds=60)
    assert found.servers == ()
    assert found.notes == ("Ollama: OLLAMA_HOST points to 198.51.100.7:11434, another machine: not checked.",)
    found = await local_servers.probe(at(), {"OLLAMA_HOST": "198.51.100.7:1"}, seconds=60)
    assert found.notes == ()  # the config says otherwise
    async with serving(OLLAMA) as server:
        found = await local_servers.probe(others, {"OLLAMA_HOST": f"0.0.0.0:{server.port}"}, seconds=60)
    assert [s.provider for s in found.servers] == ["ollama"]
    async with serving(VLLM) as server:
        others["vllm"] = ProviderSettings(base_url=f"http://127.0.0.1:{server.port}/v1")
        found = await local_servers.probe(others, {"OLLAMA_HOST": "ftp://x"}, seconds=60)
    assert [s.provider for s in found.servers] == ["vllm"], "a bad address hides nothing"
    assert "OLLAMA_HOST is not a valid URL" in found.notes[0]


@paced
async def test_a_silent_server_is_given_up_and_the_others_are_found(pace: float) -> None:
    async with serving({"/v1/models": None, "/props": None}) as silent, serving(OLLAMA) as ollama:
        found = await local_servers.probe(at(llamacpp=silent.port, ollama=ollama.port), {}, seconds=0.5 * pace)
    assert [s.provider for s in found.servers] == ["ollama"]
    assert silent.requests


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>hello</html>",
        b"[1, 2]",
        {"data": "no"},
        {"data": [{"id": 5}, {"id": "a b"}, {"id": "x\x1b[31m"}, {"id": "y" * 300}, "z"]},
        {"models": {"a": 1}},
        {"data": [{"id": "gpt-x", "owned_by": "somebody"}]},
        b'{"data": [' + b" " * 5_000_000 + b"]}",
        Reply(status=302, location="http://198.51.100.7/"),
        Reply(b"{", DROP),
        Reply(b"no HTTP", before_head=True),
        b"\xff\xfe",
    ],
)
async def test_what_is_no_model_server_is_not_taken_for_one(answer: Any) -> None:
    paths = ("/v1/models", "/props", "/api/tags", "/api/ps", "/api/v0/models")
    async with serving(dict.fromkeys(paths, answer)) as server:
        places = dict.fromkeys(LOCAL, at(vllm=server.port)["vllm"])
        if "gpt-x" in str(answer):  # an OpenAI server on the ports of vLLM and llama.cpp; LM Studio speaks like one
            places = at(vllm=server.port, llamacpp=server.port)
        found = await local_servers.probe(places, {}, seconds=60)
    assert [m for s in found.servers for m in s.models] == []
    assert server.requests


def test_warnings() -> None:
    small = local_servers.LocalModel("m", 8192, 131072, False).warnings
    assert len(small) == 2
    assert "8,192" in small[0]
    assert "tools" in small[1]
    assert local_servers.LocalModel("m", 16_000, 0, None).warnings == ()
    assert local_servers.LocalModel("m").warnings == ()


@pytest.mark.parametrize(("model", "window", "note"), [
    ("loaded:2b", 32768, ""),
    ("tuned:1b", 8192, "8,192 tokens is small"),
    ("qwen3:8b", 32768, "OLLAMA_CONTEXT_LENGTH"),
    ("absent", 32768, "Ollama has no model 'absent'. It has: qwen3:8b, tuned:1b, loaded:2b."),
])  # fmt: skip
async def test_a_chosen_model_gets_the_window_its_server_gives(model: str, window: int, note: str) -> None:
    async with serving(OLLAMA) as server:
        settings = Settings(providers=at(ollama=server.port))
        choice = await local_servers.with_server_limits(
            resolve(f"ollama/{model}", settings, env={"FRIDAY_HOME": "/none"}), settings, env={}
        )
    assert choice.window == window
    assert choice.max_output <= window // 2
    assert note in " ".join(choice.notes)
    assert bool(note) is bool(choice.notes)


async def test_measuring_leaves_the_rest_alone() -> None:
    settings = Settings(providers=at())
    env = {"FRIDAY_HOME": "/none"}
    for name in ("opus", "demo", "ollama/x"):
        choice = resolve(name, settings, env=env)
        assert await local_servers.with_server_limits(choice, settings, env=env) == choice
    async with serving(OLLAMA) as server:
        own = ProviderSettings(base_url=f"http://127.0.0.1:{server.port}/v1", window=64_000)
        settings = Settings(providers={"ollama": own})
        choice = await local_servers.with_server_limits(
            resolve("ollama/tuned:1b", settings, env=env), settings, env=env
        )
    assert choice.window == 64_000


async def test_found_servers_stand_in_the_list_of_what_is_usable() -> None:
    async with serving(OLLAMA) as server, serving({"/v1/models": {"data": []}, "/api/v0/models": {}}) as empty:
        settings = Settings(providers=at(ollama=server.port, lmstudio=empty.port))
        found = await local_servers.probe(settings.providers, {}, seconds=60)
    rows = {row.provider: row for row in list_services(settings, {"FRIDAY_HOME": "/none"}, found=found)}
    assert rows["ollama"].usable
    assert rows["ollama"].models == ("ollama/qwen3:8b", "ollama/tuned:1b", "ollama/loaded:2b")
    assert (rows["lmstudio"].usable, rows["lmstudio"].why) == (False, "runs, but has no model yet")
    assert (rows["vllm"].usable, rows["vllm"].why) == (False, "no server answers")


LLAMA_CPP_PYTHON: dict[str, Any] = {"/v1/models": {"data": [{"id": "b.gguf", "owned_by": "me", "permissions": []}]}}


@pytest.mark.parametrize("running_at", [0, 1])
async def test_llama_cpp_is_found_at_both_of_its_ports(running_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert presets.PRESETS["llamacpp"].base_url == "http://127.0.0.1:9931/v1"
    assert presets.PRESETS["llamacpp"].more_urls == ("http://127.0.0.1:8080/v1",)
    async with serving(LLAMA_CPP_PYTHON) as server:
        urls = ["http://127.0.0.1:1/v1"] * 2
        urls[running_at] = f"{server.url}/v1"
        moved = msgspec.structs.replace(presets.PRESETS["llamacpp"], base_url=urls[0], more_urls=(urls[1],))
        monkeypatch.setitem(presets.PRESETS, "llamacpp", moved)
        (found,) = (
            await local_servers.probe({n: p for n, p in at().items() if n != "llamacpp"}, {}, seconds=60)
        ).servers
        assert (found.provider, found.base_url, [m.id for m in found.models]) == (
            "llamacpp",
            urls[running_at],
            ["b.gguf"],
        )
        assert "--n_ctx" in found.hint
        rows = list_services(Settings(), {}, found=local_servers.LocalServers((found,)))
        (row,) = (row for row in rows if row.provider == "llamacpp")
        assert (row.host, row.models) == (server.url.removeprefix("http://"), ("llamacpp/b.gguf",))
        choice = await local_servers.with_server_limits(
            resolve("llamacpp/b.gguf", Settings(), env={}), Settings(), env={}
        )
        assert choice.notes == (found.hint,)
        provider: Any = create_provider(choice, Settings(), env={})
        assert provider._endpoint.base_url == urls[running_at]
