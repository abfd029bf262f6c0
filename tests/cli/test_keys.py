"""`friday auth` and `friday models`: keys are stored and never shown; the list of usable models is right."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from friday_cli.llm.models import catalog, local_servers
from tests.cli.console import Console, plain
from tests.servers.fake_model_server import Say, thinking
from tests.servers.loopback_server import Handler, serving

KEY = "sk-ant-canary-0123456789abcdefghij"


@pytest.fixture
def piped(console: Console, monkeypatch: pytest.MonkeyPatch) -> Console:
    """The console, with the key coming through standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{KEY}\n"))
    return console


@pytest.fixture
def nobody(no_servers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No local server answers, and the table of models is new."""
    monkeypatch.setattr(catalog, "today", catalog.confirmed)


def test_a_key_is_read_from_standard_input_and_kept_for_its_owner_alone(piped: Console) -> None:
    ran = piped.ok("auth", "set", "anthropic")
    path = piped.friday_home / "auth.toml"
    assert KEY in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert KEY not in ran.out + ran.err
    listed = piped("auth", "list")
    assert listed.rows == [["anthropic", "auth.toml", "yes"]]


def test_a_key_typed_on_a_terminal_is_not_shown(console: Console) -> None:
    ran = console.terminal("auth", "set", "openai", says=[("not shown", f"{KEY}\n")])
    assert ran.code == 0
    assert KEY not in ran.out
    assert KEY in (console.friday_home / "auth.toml").read_text()
    none = console.terminal("auth", "set", "openai", says=[("not shown", "\n")])
    assert (none.code, "is empty" in none.out) == (2, True)


def test_a_variable_that_wins_is_said(piped: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-other")
    ran = piped("auth", "set", "anthropic")
    assert "warning: ANTHROPIC_API_KEY is set and overrides it" in ran.err
    assert [row[1:] for row in piped("auth", "list").rows] == [
        ["ANTHROPIC_API_KEY", "yes"],
        ["auth.toml", "no: overridden by the one above"],
    ]
    removed = piped("auth", "remove", "anthropic")
    assert (removed.code, "still used" in removed.error) == (0, True)


@pytest.mark.parametrize(
    "argv", [("anthropic", KEY), (KEY,), (f"--key={KEY}",), ("--key", KEY), ("anthropic", f"--key={KEY}")]
)
def test_a_key_on_the_command_line_is_refused_and_not_repeated(piped: Console, argv: tuple[str, ...]) -> None:
    ran = piped("auth", "set", *argv)
    assert (ran.code, "on the command line" in ran.error) == (2, True)
    assert KEY not in ran.err
    assert not (piped.friday_home / "auth.toml").exists()


@pytest.mark.parametrize(("argv", "words"), [
    (("set", "antropic"), "Unknown provider 'antropic'. Did you mean 'anthropic'?"),
    (("set", "demo"), "needs no key"), (("set",), "Missing argument 'PROVIDER'"),
    (("remove", "anthropic"), "No key for 'anthropic' in"),
])  # fmt: skip
def test_wrong_use(piped: Console, argv: tuple[str, ...], words: str) -> None:
    assert words in piped.refused("auth", *argv)


@pytest.mark.parametrize("text", ["", "\n", "two words", "x" * 20_000])
def test_what_is_no_key(console: Console, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    ran = console("auth", "set", "anthropic")
    assert ran.code == 2
    assert len(ran.error) < 300
    assert not (console.friday_home / "auth.toml").exists()


def test_remove_and_a_damaged_file(piped: Console) -> None:
    piped("auth", "set", "anthropic")
    assert piped("auth", "remove", "anthropic").code == 0
    assert "no keys" in piped("auth", "list").error
    (piped.friday_home / "auth.toml").write_text(f"keys = '{KEY}'")
    ran = piped("auth", "list")
    assert (ran.code, "is not a list of keys" in ran.error, KEY in ran.err) == (2, True, False)


@pytest.mark.usefixtures("nobody")
def test_without_a_key_only_the_demo_can_be_used_and_the_rest_says_why(console: Console) -> None:
    ran = console.ok("models")
    assert "demo  " in ran.out
    assert "openai          set OPENAI_API_KEY or run `friday auth set openai`" in ran.out
    assert "ollama          no server answers" in ran.out
    assert "opus = anthropic/" in ran.out
    assert "no default model" in ran.error
    document = console("models", "--json").document
    assert document["default"] is None
    assert [row["provider"] for row in document["providers"] if row["usable"]] == ["demo"]


@pytest.mark.usefixtures("nobody")
def test_a_key_makes_models_usable_and_marks_the_default(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    ran = console("models")
    assert (ran.code, ran.err) == (0, "")
    (marked,) = [line for line in ran.out.splitlines() if line.startswith("*")]
    assert "anthropic/claude-opus-5-5" in marked
    assert "1,000,000" in marked
    assert "key from ANTHROPIC_API_KEY" in ran.out
    document = console("models", "--json").document
    assert (document["default"], document["source"]) == ("anthropic/claude-opus-5-5", "ANTHROPIC_API_KEY")
    assert KEY not in ran.out + json.dumps(document)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(("model", "name"), [
    ("anthropic/claude-new-9:high", "anthropic/claude-new-9"), ("haiku", "anthropic/claude-haiku-5-5"),
    ("demo", "demo"),
])  # fmt: skip
def test_the_set_model_is_marked(console: Console, monkeypatch: pytest.MonkeyPatch, model: str, name: str) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("FRIDAY_MODEL", model)
    (marked,) = [line for line in console("models").out.splitlines() if line.startswith("*")]
    assert marked.split()[1] == name


@pytest.mark.usefixtures("nobody")
def test_a_model_that_means_nothing_is_said(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_MODEL", "nonsense-9")
    ran = console("models")
    assert (ran.code, "Unknown model 'nonsense-9'" in ran.error) == (0, True)
    assert "Unknown model" in console("models", "--json").document["why"]


@pytest.mark.usefixtures("nobody")
def test_a_gateway_of_the_settings_is_asked_once_and_a_guessed_window_is_marked(console: Console) -> None:
    with thinking(lambda turn: Say("x"), "chat") as model_server:
        model_server.models = ("big", "small")
        console.config.parent.mkdir(parents=True, exist_ok=True)
        console.config.write_text(f'[providers.gate]\nbase_url = "{model_server.base}"\n')
        ran, document = console.ok("models"), console("models", "--json").document
    asked = [request.path for request in model_server.requests]
    assert asked.count("/v1/models") == 1
    (row,) = (row for row in ran.rows if "gate/big" in row)
    assert row[1].endswith("?")
    assert "gate/small" in ran.out
    assert "? marks a context window that is a guess" in ran.err
    assert document["windows"]["gate/big"]["guess"] is True


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(("days", "said"), [(90, False), (91, True)])
def test_an_old_table_of_models_is_reported(
    console: Console, monkeypatch: pytest.MonkeyPatch, days: int, said: bool
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    day = catalog.confirmed()
    monkeypatch.setattr(catalog, "today", lambda: day + timedelta(days))
    ran, document = console("models"), console("models", "--json").document
    words = f"the table of models was last confirmed on {day}, 91 days ago"
    assert [line.partition(": ")[2].startswith(words) for line in ran.err.splitlines()] == [True] * said
    assert [note.startswith(words) for note in document["notes"]] == [True] * said
    assert (document["confirmed"], "Install a newer version of Friday" in ran.err) == (day.isoformat(), said)


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A loopback server that says what Ollama says; its model has a small window."""

    class Ollama(Handler):
        def found(self) -> None:
            found = {
                "/api/tags": {"models": [{"name": "tiny:1b"}, {"name": "evil\x1b[31m"}]},
                "/api/ps": {"models": [{"name": "tiny:1b", "context_length": 4096}]},
                "/api/show": {"capabilities": ["completion", "tools"]},
            }
            self.answer(found.get(self.path, {}))

        do_GET = do_POST = found

    monkeypatch.setenv("LM_STUDIO_API_BASE", "http://127.0.0.1:9")
    for asking in (local_servers.probe, local_servers.ask):
        monkeypatch.setitem(asking.__kwdefaults__, "seconds", 30.0)
    with serving(Ollama) as url:
        monkeypatch.setenv("OLLAMA_HOST", url.removeprefix("http://"))
        yield


@pytest.mark.usefixtures("ollama")
def test_a_local_server_is_found_and_its_small_window_warned_about(console: Console) -> None:
    ran = console.ok("models")
    (line,) = [line for line in ran.out.splitlines() if "ollama/tiny:1b" in line]
    assert "4,096" in line
    assert "runs on this machine" in line
    assert "context window of 4,096 tokens is small" in ran.err
    assert "evil" not in ran.out
    doctor = console("doctor")
    assert "1 model" in doctor.out
    shown = plain(console.terminal("models", columns=80).out)
    assert max(map(len, shown.splitlines()[:4])) <= 80


def test_a_broken_config_is_one_line_with_file_and_line(console: Console) -> None:
    console.friday_home.mkdir()
    console.config.write_text('model = "opus"\nmod = 3\n')
    for argv in (("models",), ("auth", "list"), ("profiles", "list"), ("config", "show"), ("config", "get", "model")):
        ran = console(*argv)
        assert (ran.code, ran.out) == (2, ""), argv
        assert ran.error == f"{console.config}:2: mod: unknown key. Did you mean mode?"


def test_a_login_for_an_editor_that_is_given_up_is_no_defect(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ran = console("acp", "--login")
    assert (ran.code, ran.err.strip()) == (130, "")
