from __future__ import annotations

import multiprocessing
import os
import pickle
import stat
from pathlib import Path

import pytest

from friday_cli.config.settings import ProviderSettings
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.llm.models import credentials
from friday_cli.llm.models.presets import find_service

SECRET = "sk-ant-very-secret-1234567890"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"FRIDAY_HOME": str(tmp_path / "home")}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def found(env: dict[str, str], name: str = "anthropic", own: ProviderSettings | None = None) -> credentials.Key | None:
    return credentials.find_key(find_service(name, {name: own} if own else {}, env), env)


def key(env: dict[str, str], name: str = "anthropic", own: ProviderSettings | None = None) -> credentials.Key:
    """The key that there is."""
    one = found(env, name, own)
    assert one is not None
    return one


def test_the_environment_comes_first_then_the_file(env: dict[str, str]) -> None:
    assert found(env) is None
    credentials.set_key("anthropic", "from-file", env=env)
    steps = [
        ({}, ("from-file", "auth.toml")),
        ({"ANTHROPIC_AUTH_TOKEN": "token"}, ("token", "ANTHROPIC_AUTH_TOKEN")),
        ({"ANTHROPIC_API_KEY": f" {SECRET}\n"}, (SECRET, "ANTHROPIC_API_KEY")),
        ({"ANTHROPIC_API_KEY": " "}, ("token", "ANTHROPIC_AUTH_TOKEN")),
    ]
    for more, want in steps:
        env |= more
        assert (key(env).reveal(), key(env).source) == want


def test_an_own_variable_replaces_the_known_one(env: dict[str, str]) -> None:
    own = ProviderSettings(key_env="WORK_KEY")
    env |= {"ANTHROPIC_API_KEY": "private", "WORK_KEY": "work"}
    assert key(env, own=own).reveal() == "work"
    del env["WORK_KEY"]
    assert found(env, own=own) is None


def test_a_cloud_gets_no_key_that_its_settings_do_not_name(env: dict[str, str]) -> None:
    credentials.set_key("anthropic", "vendors", env=env)
    env["ANTHROPIC_API_KEY"] = "vendors"
    named = ProviderSettings(platform="bedrock", key_env="CLOUD")
    for own in (ProviderSettings(platform="bedrock"), named):
        assert found(env, own=own) is None
    env["CLOUD"] = "clouds"
    assert key(env, own=named).reveal() == "clouds"


def test_a_key_shows_itself_to_nobody(env: dict[str, str]) -> None:
    env["ANTHROPIC_API_KEY"] = SECRET
    one = key(env)
    assert SECRET not in f"{one} {one!r} {[one]} {one.__class__}"
    with pytest.raises(TypeError):
        pickle.dumps(one)


def test_files_and_folder_are_closed_to_others(env: dict[str, str]) -> None:
    old = os.umask(0)
    try:
        path = credentials.set_key("openai", SECRET, env=env)
    finally:
        os.umask(old)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert sorted(p.name for p in path.parent.iterdir()) == ["auth.toml", "auth.toml.lock"]


def test_an_open_folder_and_file_are_closed_and_it_is_said(env: dict[str, str]) -> None:
    path = credentials.set_key("anthropic", SECRET, env=env)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    note = key(env).note
    assert "could be read by others (mode 0644)" in note
    assert SECRET not in note
    assert mode(path) == 0o600
    assert key(env).note == ""
    credentials.set_key("openai", "x", env=env)
    assert mode(path.parent) == 0o700


def test_an_open_file_that_cannot_be_closed_is_refused(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = credentials.set_key("anthropic", SECRET, env=env)
    path.chmod(0o644)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(FileError, match=r"others can read your keys \(mode 0644\).*chmod 600") as caught:
        found(env)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text", [f"anthropic = '{SECRET}", f"[keys]\nanthropic = ['{SECRET}']", f"[other]\na='{SECRET}'", "\x00\xff"]
)
def test_a_broken_file_is_told_without_its_content(env: dict[str, str], text: str) -> None:
    path = credentials.set_key("anthropic", "x", env=env)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match=r"auth\.toml(: is not a list of keys|:1: is not UTF-8)") as caught:
        found(env)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(FileError):
        credentials.set_key("openai", "y", env=env)
    assert path.read_bytes() == text.encode("latin-1")
    env["ANTHROPIC_API_KEY"] = SECRET
    assert key(env).source == "ANTHROPIC_API_KEY", "the file is not read while the environment has a key"


def test_set_and_remove(env: dict[str, str]) -> None:
    assert not credentials.remove_key("openai", env=env)
    assert found(env) is None
    assert credentials.list_keys({}, env) == []
    assert not Path(env["FRIDAY_HOME"]).exists(), "nothing is made by looking or by removing nothing"
    credentials.set_key("openai", "one", env=env)
    credentials.set_key("openai", " two ", env=env)
    credentials.set_key("my-box", "three", env=env)
    assert key(env, "openai").reveal() == "two"
    assert credentials.remove_key("openai", env=env)
    assert not credentials.remove_key("openai", env=env)
    assert found(env, "openai") is None
    assert [row.provider for row in credentials.list_keys({}, env)] == ["my-box"]


def test_a_link_into_somebodys_dotfiles_stays_one(env: dict[str, str], tmp_path: Path) -> None:
    path = credentials.set_key("openai", "one", env=env)
    real = tmp_path / "dotfiles.toml"
    path.rename(real)
    path.symlink_to(real)
    credentials.set_key("groq", "two", env=env)
    assert path.is_symlink()
    assert mode(real) == 0o600
    assert {row.provider for row in credentials.list_keys({}, env)} == {"openai", "groq"}


@pytest.mark.parametrize("value", ["", "  ", "sk-a b", "a\nb", "kéy", "a\x1b[31m", "“quoted”"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(env: dict[str, str], value: str) -> None:
    with pytest.raises(UsageError) as caught:
        credentials.set_key("openai", value, env=env)
    assert not value.strip() or value.strip() not in str(caught.value)
    if value.strip():
        env["OPENAI_API_KEY"] = value
        with pytest.raises(UsageError, match="OPENAI_API_KEY contains"):
            found(env, "openai")
    for name in ("", "a b", "../x", "a\n[keys]", "-x"):
        with pytest.raises(UsageError):
            credentials.set_key(name, "x", env=env)


def test_the_list_names_places_and_never_keys(env: dict[str, str]) -> None:
    own = {"gateway": ProviderSettings(key_env="GATE"), "other": ProviderSettings(base_url="http://x/v1")}
    credentials.set_key("anthropic", SECRET, env=env)
    credentials.set_key("gone", SECRET, env=env)
    env |= {"ANTHROPIC_API_KEY": SECRET, "GATE": SECRET, "OTHER_API_KEY": SECRET, "GOOGLE_API_KEY": SECRET}
    rows = credentials.list_keys(own, env)
    assert [(r.provider, r.source, r.used) for r in rows] == [
        ("anthropic", "ANTHROPIC_API_KEY", True), ("anthropic", "auth.toml", False), ("gemini", "GOOGLE_API_KEY", True),
        ("gateway", "GATE", True), ("other", "OTHER_API_KEY", True), ("gone", "auth.toml", True),
    ]  # fmt: skip
    assert SECRET not in repr(rows)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="the key could not be saved"):
        credentials.set_key("openai", "x", env={"FRIDAY_HOME": str(tmp_path / "file" / "x")})


def _set_many(home: str, start: multiprocessing.synchronize.Barrier, who: int) -> None:  # type: ignore[name-defined]
    start.wait()
    for n in range(5):
        credentials.set_key(f"p{who}-{n}", f"key-{who}-{n}", env={"FRIDAY_HOME": home})


def test_processes_that_write_at_once_lose_nothing(env: dict[str, str]) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Barrier(4)
    writers = [context.Process(target=_set_many, args=(env["FRIDAY_HOME"], start, who)) for who in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert {r.provider for r in credentials.list_keys({}, env)} == {f"p{w}-{n}" for w in range(4) for n in range(5)}
