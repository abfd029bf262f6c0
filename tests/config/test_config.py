"""Settings: where they come from, what a project may do, and the error for a wrong one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from friday_cli import config
from friday_cli.config import docs, loader
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.system.paths import config_dir

NO_ENV: dict[str, str] = {}
NAMES = ["agents", "delegation", "limits", "timeout", "providers", "a", "mode", "context"]
MODES = ["plan", "ask", "edits", "auto"]
"""The strictest first."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "home"))
    folder = config_dir()
    folder.mkdir(parents=True)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def check_parses_or_file_error(text: str) -> None:
    """What passes the check must make settings; all else is a FileError."""
    try:
        data = loader.parse("config.toml", text)
    except FileError:
        return
    assert isinstance(msgspec.convert(data, config.Settings), config.Settings)


class TestPrecedence:
    def test_without_any_file_the_defaults_of_the_contract_hold(self, home: Path) -> None:
        settings = config.load(environ=NO_ENV, file=None).settings
        delegation = settings.agents.delegation
        assert (settings.mode, settings.model) == ("ask", "")
        assert (delegation.max_depth, delegation.default_timeout, delegation.max_concurrent) == (3, 300, 5)
        assert (delegation.token_budget.default, delegation.token_budget.max) == (50_000, 200_000)
        assert (delegation.max_batch, delegation.max_agents, delegation.ask_above) == (10, 200, 20)
        assert (settings.retention.days, settings.retention.gigabytes) == (90, 2)

    def test_flag_beats_environment_beats_file_beats_default(self, home: Path) -> None:
        write(home / "config.toml", 'model = "file"\neffort = "low"\nmode = "plan"\n')
        env = {
            "FRIDAY_HOME": os.environ["FRIDAY_HOME"],
            "FRIDAY_MODEL": "env",
            "FRIDAY_EFFORT": "high",
            "FRIDAY_MODE": "",
        }
        loaded = config.load(environ=env, flags={"model": "flag", "limits.max_turns": None})
        assert (loaded.settings.model, loaded.settings.effort, loaded.settings.mode) == ("flag", "high", "plan")
        sources = {"model": "command line", "effort": "FRIDAY_EFFORT", "mode": str(home / "config.toml")}
        assert loaded.sources == sources

    def test_rules_of_the_command_line_come_on_top_of_those_in_the_file(self, home: Path) -> None:
        write(home / "config.toml", '[permissions]\ndeny = ["bash(rm *)"]\n')
        loaded = config.load(flags={"permissions.deny": ["bash(dd *)"]})
        assert loaded.settings.permissions.deny == ("bash(dd *)", "bash(rm *)")

    @pytest.mark.parametrize(
        ("environ", "flags", "words"),
        [
            ({"FRIDAY_MODE": "yolo"}, {}, ("FRIDAY_MODE", "ask, edits, plan, auto")),
            ({}, {"limits.max_turns": 0}, ("--max-turns", ">= 1")),
            ({}, {"limits.timeout": 300_000}, ("--timeout", "milliseconds")),
            ({}, {"limits.max_trns": 3}, ("limits.max_trns", "max_turns")),
        ],
    )
    def test_a_wrong_flag_or_variable_is_named(
        self, home: Path, environ: dict[str, str], flags: dict[str, object], words: tuple[str, ...]
    ) -> None:
        with pytest.raises(UsageError) as caught:
            config.load(environ=environ | {"FRIDAY_HOME": os.environ["FRIDAY_HOME"]}, flags=flags)
        for word in words:
            assert word in str(caught.value)

    def test_defaults_never_stand_above_a_lower_cap(self, home: Path) -> None:
        text = "[agents.delegation.token_budget]\nmax = 10_000\n[tools]\nbash_max_timeout = 30\n"
        write(home / "config.toml", text)
        settings = config.load().settings
        assert settings.agents.delegation.token_budget.default == 10_000
        assert settings.tools.bash_timeout == 30


class TestProject:
    def load(self, tmp_path: Path, text: str, **kinds: object) -> config.Loaded:
        write(tmp_path / "repo/.friday/config.toml", text)
        return config.load(project=tmp_path / "repo", **kinds)  # type: ignore[arg-type]

    def test_it_tightens(self, home: Path, tmp_path: Path) -> None:
        write(home / "config.toml", 'mode = "auto"\n[permissions]\ndeny = ["bash(dd *)"]\n')
        text = (
            'mode = "plan"\n[permissions]\ndeny = ["bash(rm *)"]\nask = ["web_fetch"]\n'
            "[limits]\nmax_cost = 0.5\n[agents.delegation]\nenabled = false\nmax_depth = 1\n"
        )
        loaded = self.load(tmp_path, text)
        settings = loaded.settings
        assert settings.mode == "plan"
        assert settings.permissions.deny == ("bash(dd *)", "bash(rm *)")
        assert settings.permissions.ask == ("web_fetch",)
        assert settings.limits.max_cost == 0.5
        assert (settings.agents.delegation.enabled, settings.agents.delegation.max_depth) == (False, 1)
        assert loaded.notices == ()
        assert loaded.sources["limits.max_cost"].endswith(".friday/config.toml")

    @pytest.mark.parametrize(
        ("line", "name"),
        [
            ('model = "dear/model"', "model"),
            ('subagent_model = "dear/model"', "subagent_model"),
            ('mode = "auto"', "mode"),
            ("yolo = true", "yolo"),
            ('env = {PATH = "."}', "env.PATH"),
            ('add_dirs = ["/"]', "add_dirs"),
            ('permissions.allow = ["bash(*)"]', "permissions.allow"),
            ('providers.anthropic.base_url = "https://evil.example"', "providers.anthropic.base_url"),
            ('providers.anthropic.key_env = "AWS_SECRET"', "providers.anthropic.key_env"),
            ('providers.anthropic.headers = {X = "1"}', "providers.anthropic.headers.X"),
            ("agents.delegation.max_depth = 9", "agents.delegation.max_depth"),
            ("agents.delegation.token_budget.max = 900_000", "agents.delegation.token_budget.max"),
            ("tools.web_allow_private = true", "tools.web_allow_private"),
            ('tools.env_allow = ["AWS_SECRET"]', "tools.env_allow"),
            ('agents.delegation.profiles.directory = "evil"', "agents.delegation.profiles.directory"),
            ("retention.days = 1", "retention.days"),
        ],
    )
    def test_what_would_loosen_or_redirect_is_ignored_and_said(
        self, home: Path, tmp_path: Path, line: str, name: str
    ) -> None:
        loaded = self.load(tmp_path, line)
        assert loaded.settings == config.load().settings
        assert len(loaded.notices) == 1
        assert f"{name} " in loaded.notices[0]
        assert str(tmp_path / "repo/.friday/config.toml") in loaded.notices[0]

    def test_the_local_file_tightens_further_and_a_flag_holds_all_the_same(self, home: Path, tmp_path: Path) -> None:
        write(tmp_path / "repo/.friday/config.local.toml", "limits.max_turns = 3")
        text = 'limits.max_turns = 9\nmode = "plan"\npermissions.deny = ["bash"]'
        settings = self.load(tmp_path, text, flags={"mode": "auto"}).settings
        assert (settings.limits.max_turns, settings.mode, settings.permissions.deny) == (3, "auto", ("bash",))

    @pytest.mark.parametrize(
        "text",
        ["permisions.deny = ['bash']", "permissions.dney = ['bash']", "permissions = ['bash']", "mode = 'paln'"],
    )
    def test_a_misspelt_rule_is_an_error_because_it_would_not_hold(self, home: Path, tmp_path: Path, text: str) -> None:
        with pytest.raises(FileError) as caught:
            self.load(tmp_path, text)
        assert caught.value.line == 1

    @given(
        mine=st.sampled_from(MODES),
        theirs=st.sampled_from(MODES),
        my_turns=st.none() | st.integers(1, 9),
        their_turns=st.integers(1, 9),
    )
    def test_never_looser_than_mine(
        self, tmp_path_factory: pytest.TempPathFactory, mine: str, theirs: str, my_turns: int | None, their_turns: int
    ) -> None:
        folder = tmp_path_factory.mktemp("project")
        user = f'mode = "{mine}"\n' + (f"limits.max_turns = {my_turns}\n" if my_turns else "")
        file = write(folder / "user.toml", user)
        write(folder / "repo/.friday/config.toml", f'mode = "{theirs}"\nlimits.max_turns = {their_turns}\n')
        settings = config.load(file=file, environ=NO_ENV, project=folder / "repo").settings
        assert settings.mode == min(mine, theirs, key=MODES.index)
        assert settings.limits.max_turns == min(my_turns or 99, their_turns)


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "line", "field", "words"),
        [
            ("# a\n\nmdel = 'x'", 3, "mdel", "Did you mean model?"),
            ("[agents.delegation]\nmaxDepth = 3", 2, "agents.delegation.maxDepth", "Did you mean max_depth?"),
            ("timeout = 3", 1, "timeout", "limits.timeout"),
            ("mode = 'yes'", 1, "mode", "'yes' is not one of ask, edits, plan, auto"),
            ("mode = 3", 1, "mode", "expected text"),
            ("[limits]\nmax_turns = 1.5", 2, "limits.max_turns", "expected a whole number"),
            ("[limits]\ntimeout = 300000", 2, "limits.timeout", "looks like milliseconds"),
            ("[agents.delegation]\ndefault_timeout = 86401", 2, "agents.delegation.default_timeout", "milliseconds"),
            ("[permissions]\nallow = 'bash'", 2, "permissions.allow", "expected a list"),
            ("limits = 3", 1, "limits", "expected a table"),
            ("[providers.a]\napi_key = 'sk-1234'", 2, "providers.a.api_key", "friday auth set a"),
            ("[providers.a]\nkey_env = 'sk-1234'", 2, "providers.a.key_env", "NAME of an environment variable"),
            ("[providers.a]\nbase_url = 'http://u:p@x'", 2, "providers.a.base_url", "without a password"),
            ("[providers.'A b']\napi = 'chat'", 1, "providers.A b", "lower-case letters"),
            ("agents.delegation.context.brain_write_scope = 'all'", 1, "agents.delegation.context.brain_write_scope",
             "'all' is not one of delegated, shared"),
            ("agents.delegation.context.seal_on_complete = false", 1, "agents.delegation.context.seal_on_complete", "must be true"),
            ("model = opus", 1, "", "Text needs quotes"),
            ("model = 'a'\nmodel = 'b'", 2, "", "is not valid TOML"),
            ("[limits]\nx = [", 2, "", "is not valid TOML: Invalid value."),
        ],
    )  # fmt: skip
    def test_file_line_field_and_remedy(self, text: str, line: int, field: str, words: str) -> None:
        with pytest.raises(FileError) as caught:
            loader.parse("config.toml", text)
        assert (caught.value.path, caught.value.line, caught.value.field) == ("config.toml", line, field)
        assert words in str(caught.value)
        assert "sk-1234" not in str(caught.value)  # a key put into the wrong place is not repeated

    def test_byte_order_mark_and_crlf_are_fine(self, home: Path) -> None:
        (home / "config.toml").write_bytes(b'\xef\xbb\xbfmodel = "opus"\r\nmode = "plan"\r\n')
        settings = config.load().settings
        assert (settings.model, settings.mode) == ("opus", "plan")

    def test_unreadable_bytes_and_folders_are_said(self, home: Path, tmp_path: Path) -> None:
        (home / "config.toml").write_bytes(b'model = "a"\nmode = "\xff"\n')
        with pytest.raises(FileError, match="UTF-8") as caught:
            config.load()
        assert caught.value.line == 2
        for file, words in (tmp_path, "cannot be read"), (tmp_path / "none.toml", "no such file"):
            with pytest.raises(FileError, match=words):
                config.load(file=file)

    def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(self, home: Path, tmp_path: Path) -> None:
        os.mkfifo(home / "config.toml")
        with pytest.raises(FileError, match="is a pipe"):
            config.load()
        (home / "config.toml").unlink()
        (tmp_path / ".friday").mkdir()
        os.mkfifo(tmp_path / ".friday/config.toml")
        with pytest.raises(FileError, match="is a pipe"):
            config.load(project=tmp_path)

    @given(st.text(max_size=200))
    def test_any_text_is_settings_or_a_file_error(self, text: str) -> None:
        check_parses_or_file_error(text)

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-10, 10**6)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.sampled_from(["ask", "chat", "x", ""]),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
            max_leaves=12,
        )
    )
    def test_any_structure_is_settings_or_a_file_error(self, data: object) -> None:
        def without_none(value: object) -> object:
            if isinstance(value, dict):
                return {k: without_none(v) for k, v in value.items() if v is not None}
            return [without_none(v) for v in value if v is not None] if isinstance(value, list) else value

        table: Any = without_none(data if isinstance(data, dict) else {"mode": data or 0})
        check_parses_or_file_error(tomlkit.dumps(table))


class TestLookup:
    def test_a_value_by_its_dotted_name_and_the_nearest_for_an_unknown_one(self, home: Path) -> None:
        settings = config.load(flags={"limits.max_cost": 2.5}).settings
        assert config.lookup(settings, "limits.max_cost") == 2.5
        for name, words in {
            "agents.delegation.max_concurent": "max_concurrent",
            "modle": "Did you mean model?",
            "limits.max_cots": "Did you mean limits.max_cost?",
            "limits.zzz": "Known here: max_turns, max_tokens, max_cost, assume_price, on_limit, timeout.",
            "model.x": "Did you mean model?",
            "providers.w.key": "Use `friday auth set w`",
            "providers.w.url": "Did you mean providers.w.base_url?",
        }.items():
            with pytest.raises(UsageError, match=re.escape(words)):
                config.lookup(settings, name)

    def test_rows_tell_origin_and_hide_headers(self, home: Path) -> None:
        write(home / "config.toml", '[providers.w]\nbase_url = "http://x"\nheaders = {Authorization = "secret"}\n')
        rows = {name: (value, place) for name, value, place in config.rows(config.load())}
        assert rows["mode"] == ('"ask"', "default")
        assert rows["providers.w.base_url"] == ('"http://x"', str(home / "config.toml"))
        assert "secret" not in str(rows)


def test_the_page_equals_what_the_code_makes() -> None:
    page = Path(__file__).parents[2] / "docs" / "config.md"
    assert page.read_text() == docs.markdown(), "run: python -m friday_cli.config > docs/config.md"


def test_every_setting_is_documented() -> None:
    page = docs.markdown()
    for name in loader.validate.names():
        assert f"**`{name.rpartition('.')[2]}`**" in page
