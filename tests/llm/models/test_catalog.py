from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.core.protocol.provider import EFFORTS, Effort, clamp
from friday_cli.llm.models import catalog, prices
from friday_cli.llm.models.presets import PRESETS


def test_aliases_defaults_and_sub_agents_name_models_of_the_table() -> None:
    for name in catalog.aliases().values():
        provider, _, model = name.partition("/")
        assert (provider, model) in catalog.known()
    for provider in PRESETS:
        default = catalog.default(provider)
        assert bool(default) is not PRESETS[provider].local, provider
        if default and provider != "openrouter":
            assert (provider, default) in catalog.known()


def test_defaults_are_not_about_to_end() -> None:
    for provider in PRESETS:
        model = catalog.known().get((provider, catalog.default(provider)))
        assert model is None or model.ends is None


def test_ends_are_of_known_models() -> None:
    named = {m.id for m in catalog.known().values() if m.ends}
    assert {"gpt-5", "o3", "gpt-4o"} <= named
    assert set(catalog._file().ends) == named


def test_a_model_that_thinks_always_takes_no_effort_none_and_the_others_do() -> None:
    for model in catalog.known().values():
        quirks = model.quirks
        if quirks.off == "never":
            assert "none" not in quirks.efforts
        elif quirks.off:
            assert "none" in quirks.efforts, model.id
        assert list(quirks.efforts) == sorted(quirks.efforts, key=EFFORTS.index)


@pytest.mark.parametrize(("model", "none", "off"), [
    ("claude-opus-5-5", (), "never"), ("claude-sonnet-5-5", ("none",), "between_tools"),
    ("claude-haiku-5-5", ("none",), "disabled"), ("claude-opus-5", ("none",), "disabled"),
])  # fmt: skip
def test_quirks_of_claude(model: str, none: tuple[str, ...], off: str) -> None:
    quirks = catalog.find("anthropic", model).quirks
    assert (quirks.efforts, quirks.off) == ((*none, "low", "medium", "high", "xhigh", "max"), off)


def test_gpt_sol_rejects_effort_none_and_terra_takes_it() -> None:
    assert "none" not in catalog.find("openai", "gpt-6.1-sol").quirks.efforts
    assert "none" in catalog.find("openai", "gpt-6.1-terra").quirks.efforts
    newest = [
        model for (owner, name), model in catalog.known().items() if owner == "openai" and name.startswith("gpt-6")
    ]
    assert all("minimal" not in model.quirks.efforts for model in newest)


def test_windows_agree_with_the_price_list() -> None:
    for provider, model in catalog.known():
        listed = prices.window(provider, model)
        assert listed in (0, catalog.find(provider, model).window), model


@given(st.sampled_from(EFFORTS), st.lists(st.sampled_from(EFFORTS), unique=True, min_size=1))
def test_clamp_gives_an_accepted_level_and_keeps_an_accepted_one(effort: Effort, accepted: list[Effort]) -> None:
    got = clamp(effort, tuple(accepted))
    assert got in accepted
    assert got == effort or effort not in accepted


def test_clamp_prefers_less_and_leaves_the_unknown_alone() -> None:
    assert clamp("medium", ("low", "high")) == "low"
    assert clamp("xhigh", ()) == "xhigh"


@pytest.mark.parametrize(("model", "platform"), [
    ("claude-haiku-4-5-20251001", ""), ("claude-haiku-4-5@20251001", "vertex"), ("anthropic.claude-haiku-4-5", "bedrock"),
    ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "bedrock"), ("global.anthropic.claude-haiku-4-5-v2", "bedrock"),
])  # fmt: skip
def test_dated_and_cloud_ids_are_found_by_their_plain_name(model: str, platform: str) -> None:
    found = catalog.find("anthropic", model, platform=platform)
    assert (found.id, found.window, found.known) == (model, 200_000, True)
    assert found.quirks.thinking == "budget"


def test_an_unknown_model_gets_careful_defaults() -> None:
    hosted = catalog.find("anthropic", "claude-zebra-9")
    assert (hosted.window, hosted.max_output, hosted.known) == (catalog.WINDOW, catalog.MAX_OUTPUT, False)
    assert hosted.quirks == catalog.ModelQuirks()
    listed = catalog.find("openrouter", "anthropic/claude-opus-5.5")
    assert (listed.window, listed.known) == (1_000_000, True), "the window of the price list"
    local = catalog.find("ollama", "qwen3:8b", local=True)
    assert (local.window, local.max_output, local.known) == (catalog.LOCAL_WINDOW, catalog.LOCAL_MAX_OUTPUT, False)


@pytest.mark.parametrize(("model", "provider"), [
    ("claude-opus-5-5", "anthropic"), ("claude-zebra-9", "anthropic"), ("gpt-9", "openai"), ("o3", "openai"),
    ("gemini-5-x", "gemini"), ("openai/gpt-oss-20b", "groq"), ("zebra", ""), ("", ""),
])  # fmt: skip
def test_the_service_of_a_bare_id(model: str, provider: str) -> None:
    assert catalog.provider_of(model) == provider


def test_the_table_is_kept_as_json_until_models_toml_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path))
    read = tomllib.loads
    texts: list[str] = []

    def observed(text: str) -> dict[str, Any]:
        texts.append(text)
        return read(text)

    monkeypatch.setattr(tomllib, "loads", observed)
    kept = tmp_path / "cache/models.json"

    def table() -> object:
        catalog._file.cache_clear()
        return catalog._file()

    first = table()
    assert (table(), len(texts)) == (first, 1)
    for other in ('["", {}]', "[", kept.read_text().replace('["', '["9', 1)):
        kept.write_text(other)
        known = len(texts)
        assert (table(), len(texts)) == (first, known + 1), other
    assert (table(), len(texts)) == (first, 4)
    kept.chmod(0o666)
    assert (table(), len(texts)) == (first, 5), "another user may have written it"
