from __future__ import annotations

import contextlib
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.config.settings import ProviderSettings, Settings
from friday_cli.core.protocol.errors import FileError, NotConfigured, UsageError
from friday_cli.llm.models import catalog, credentials
from friday_cli.llm.models.presets import PRESETS
from friday_cli.llm.models.resolve import HELP, ModelChoice, list_services, resolve

PLAIN = Settings()
OWN = Settings(
    providers={
        "gateway": ProviderSettings(
            base_url="https://llm.example.org/v1", key_env="GATE", window=9_000, max_output=700
        ),
        "box": ProviderSettings(base_url="http://127.0.0.1:9/v1"),
    }
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"FRIDAY_HOME": str(tmp_path)}


@pytest.mark.parametrize(("name", "full"), [
    ("opus", "anthropic/claude-opus-5-5"),
    ("Sonnet", "anthropic/claude-sonnet-5-5"),
    ("haiku:low", "anthropic/claude-haiku-5-5:low"),
    ("gpt", "openai/gpt-6.1-sol"),
    (" anthropic/claude-opus-5-5:high ", "anthropic/claude-opus-5-5:high"),
    ("claude-opus-9", "anthropic/claude-opus-9"),
    ("gpt-12:max", "openai/gpt-12:max"),
    ("ollama/qwen3:8b", "ollama/qwen3:8b"),
    ("ollama/phi3:medium", "ollama/phi3:medium"),
    ("ollama/phi3:medium:none", "ollama/phi3:medium:none"),
    ("openrouter/deepseek/deepseek-chat:free", "openrouter/deepseek/deepseek-chat:free"),
    ("openrouter/x/y:free:none", "openrouter/x/y:free:none"),
    ("gpt-12:loud", "openai/gpt-12:loud"),
    ("groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
    ("gateway/Some.Model-1", "gateway/Some.Model-1"),
    ("demo", "demo"),
    ("scripted:/a dir/s.yaml", "scripted:/a dir/s.yaml"),
])  # fmt: skip
def test_names(name: str, full: str, env: dict[str, str]) -> None:
    choice = resolve(name, OWN, env=env)
    assert (choice.name, choice.source) == (full, "--model")
    assert resolve(choice.name, OWN, env=env) == choice


@given(st.text(max_size=30))
def test_any_name_is_a_choice_or_a_usage_error(name: str) -> None:
    env = {"FRIDAY_HOME": "/nowhere"}
    with contextlib.suppress(UsageError):
        choice = resolve(name or "x", OWN, env=env)
        assert resolve(choice.name, OWN, env=env) == choice


@pytest.mark.parametrize(("name", "words"), [
    ("opsu", "Did you mean 'opus'"),
    ("clade-opus-5-5", "Did you mean 'claude-opus-5-5'"),
    ("zork", "Write provider/model"),
    ("anthropik/claude-opus-5-5", "Did you mean 'anthropic'"),
    ("gatway/x", "Did you mean 'gateway'"),
    ("nosuch/x", r"\[providers.nosuch\] with base_url"),
    ("ollama", "is a provider, not a model. Write ollama/NAME"),
    ("openai", "Write openai/gpt-6.1-sol"),
    ("anthropic/", "is not a model name"),
    ("anthropic/a b", "is not a model name"),
    ("anthropic/a\x1b", "is not a model name"),
    ("scripted:", "Unknown model"),
    ("demo/x", "Unknown provider 'demo'. Write `demo` alone: "),
    ("scripted/tour", "Unknown provider 'scripted'. Write scripted:FILE with the scenario's file"),
])  # fmt: skip
def test_bad_names_are_told_with_what_to_do(name: str, words: str, env: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        resolve(name, OWN, env=env)
    assert "\x1b" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_order_of_what_decides(env: dict[str, str]) -> None:
    full = env | {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b", "GROQ_API_KEY": "c", "OPENROUTER_API_KEY": "d"}
    config = Settings(model="mistral/mistral-large-4")
    got = [(c.provider, c.source) for c in (resolve("gpt", config, env=full), resolve(None, config, env=full))]
    assert got == [("openai", "--model"), ("mistral", "config")]
    for gone, provider, source in [
        ("", "anthropic", "ANTHROPIC_API_KEY"),
        ("ANTHROPIC_API_KEY", "openai", "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "openrouter", "OPENROUTER_API_KEY"),
        ("OPENROUTER_API_KEY", "groq", "GROQ_API_KEY"),
    ]:
        full.pop(gone, None)
        choice = resolve(None, PLAIN, env=full)
        assert (choice.provider, choice.model, choice.source) == (provider, catalog.default(provider), source)


def test_an_address_a_stored_login_or_a_kept_key_counts_as_a_key(env: dict[str, str]) -> None:
    cloud = Settings(providers={"anthropic": ProviderSettings(platform="bedrock")})
    for settings, more, name, source in (
        (PLAIN, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai/gpt-6.1-sol", "OPENAI_BASE_URL"),
        (PLAIN, {"ANTHROPIC_PROFILE": "work"}, "anthropic/claude-opus-5-5", "ANTHROPIC_PROFILE"),
        (cloud, {}, "anthropic/anthropic.claude-opus-5-5", "[providers.anthropic]"),
    ):
        choice = resolve(None, settings, env=env | more)
        assert (choice.name, choice.source) == (name, source)
    assert choice.quirks.off == "never"
    credentials.set_key("openai", "x", env=env)
    assert (resolve(None, PLAIN, env=env).provider, resolve(None, PLAIN, env=env).source) == ("openai", "auth.toml")
    credentials.set_key("anthropic", "x", env=env)
    assert resolve(None, PLAIN, env=env | {"OPENAI_API_KEY": "y"}).provider == "anthropic"


def test_a_cloud_or_an_address_whose_own_key_is_missing_counts_for_nothing(env: dict[str, str]) -> None:
    settings = Settings(providers={"openai": ProviderSettings(base_url="https://x.example/v1", key_env="WORK")})
    with pytest.raises(NotConfigured):
        resolve(None, settings, env=env | {"OPENAI_API_KEY": "not for them"})
    assert resolve(None, settings, env=env | {"WORK": "k"}).source == "WORK"


def test_with_nothing_four_lines_say_what_to_do(env: dict[str, str]) -> None:
    with pytest.raises(NotConfigured) as caught:
        resolve(None, PLAIN, env=env | {"ANTHROPIC_API_KEY": " ", "OLLAMA_HOST": "127.0.0.1"})
    text = str(caught.value)
    assert text == HELP
    assert caught.value.exit_code == 3
    assert len(text.splitlines()) == 4
    for words in (
        "ANTHROPIC_API_KEY",
        "friday auth set anthropic",
        "friday models",
        "friday ask --model demo",
        "friday doctor",
    ):
        assert words in text


def test_an_open_key_file_is_closed_and_said_and_a_broken_one_is_told(env: dict[str, str]) -> None:
    credentials.set_key("anthropic", "x", env=env).chmod(0o640)
    for name in (None, "opus"):
        credentials.auth_path(env).chmod(0o640)
        assert "could be read by others" in resolve(name, PLAIN, env=env).notes[-1]
        assert resolve(name, PLAIN, env=env).notes == ()
    credentials.auth_path(env).write_text("[", encoding="utf-8")
    with pytest.raises(FileError):
        resolve(None, PLAIN, env=env)
    assert resolve(None, PLAIN, env=env | {"ANTHROPIC_API_KEY": "k"}).provider == "anthropic"


def test_windows_and_limits(env: dict[str, str]) -> None:
    opus = resolve("opus", PLAIN, env=env)
    assert (opus.window, opus.max_output, opus.known) == (1_000_000, 128_000, True)
    own = resolve("gateway/anything", OWN, env=env)
    assert (own.window, own.max_output, own.known) == (9_000, 700, False)
    box = resolve("box/anything", OWN, env=env)
    assert (box.window, box.max_output) == (catalog.LOCAL_WINDOW, catalog.LOCAL_MAX_OUTPUT)
    small = Settings(providers={"anthropic": ProviderSettings(window=10_000)})
    assert resolve("opus", small, env=env).max_output <= 5_000


def test_which_effort_wins(env: dict[str, str]) -> None:
    config = Settings(effort="medium")
    assert resolve("opus", config, env=env).effort == "medium"
    assert resolve("opus", config, env=env, effort="high").effort == "high"
    assert resolve("opus:max", config, env=env, effort="high").effort == "max"
    assert resolve("opus", PLAIN, env=env).effort is None


@pytest.mark.parametrize(
    ("name", "effort"),
    [("gpt:none", "low"), ("gpt-6.1-terra:minimal", "none"), ("opus:none", "low"), ("gpt-4o:high", "none")],
)
def test_an_effort_that_a_model_does_not_take_becomes_the_nearest_and_is_said(
    name: str, effort: str, env: dict[str, str]
) -> None:
    choice = resolve(name, PLAIN, env=env)
    assert choice.effort == effort
    assert f"using {effort!r}" in " ".join(choice.notes)


def test_what_a_choice_warns_of(env: dict[str, str]) -> None:
    far = Settings(providers={"far": ProviderSettings(base_url="http://far.example/v1")})
    assert "not encrypted" in resolve("far/x", far, env=env).notes[0]
    assert resolve("box/x", OWN, env=env).notes == ()
    settings = Settings(providers={"openai": ProviderSettings(api="chat")})
    assert "has no tools with Chat Completions" in resolve("gpt", settings, env=env).notes[0]
    assert resolve("openai/gpt-6-luna", settings, env=env).effort == "none"
    assert resolve("openai/gpt-6-luna:high", settings, env=env).effort == "none"
    elsewhere = env | {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    assert resolve("openai/gpt-6-luna:high", settings, env=elsewhere).effort == "high"


def test_a_models_last_day_is_said_when_it_is_near(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = catalog.known()["openai", "gpt-5"]
    for days, words in [(-1, "may no longer answer"), (0, "ends on"), (90, "ends on"), (91, "")]:
        ending = msgspec.structs.replace(model, ends=date.today() + timedelta(days))
        monkeypatch.setattr(catalog, "known", lambda ending=ending: {("openai", "gpt-5"): ending})
        notes = resolve("openai/gpt-5", PLAIN, env=env).notes
        assert (words in notes[0]) if words else notes == ()


def test_every_service_is_listed_with_the_reason(env: dict[str, str]) -> None:
    full = env | {"ANTHROPIC_API_KEY": "very-secret", "OPENAI_BASE_URL": "not an address", "ANTHROPIC_PROFILE": ""}
    rows = list_services(OWN, full)
    by = {row.provider: row for row in rows}
    assert [row.provider for row in rows] == [*PRESETS, "gateway", "box", "demo"]
    assert (by["anthropic"].usable, by["anthropic"].why) == (True, "key from ANTHROPIC_API_KEY")
    assert by["anthropic"].default == "anthropic/claude-opus-5-5"
    assert by["anthropic"].default in by["anthropic"].models
    assert not by["openai"].usable
    assert "OPENAI_BASE_URL is not a valid URL" in by["openai"].why
    assert (by["groq"].usable, by["groq"].why) == (False, "set GROQ_API_KEY or run `friday auth set groq`")
    assert (by["gateway"].usable, by["gateway"].why) == (False, "set GATE or run `friday auth set gateway`")
    assert (by["box"].usable, by["box"].why) == (True, "without a key, by [providers.box]")
    assert (by["ollama"].usable, by["ollama"].why, by["ollama"].local) == (False, "not checked", True)
    assert by["demo"].usable
    assert "no AI model" in by["demo"].why
    assert "very-secret" not in repr(rows)


def test_usable_agrees_with_what_can_be_resolved(env: dict[str, str]) -> None:
    for extra in ({}, {"OPENAI_API_KEY": "x"}, {"DEEPSEEK_API_KEY": "x"}, {"ANTHROPIC_PROFILE": "p"}):
        hosted = [r for r in list_services(PLAIN, env | extra) if r.usable and not r.local]
        try:
            choice: ModelChoice | None = resolve(None, PLAIN, env=env | extra)
        except NotConfigured:
            choice = None
        assert (choice.provider if choice else None) == (hosted[0].provider if hosted else None)
