"""`friday config set`: one key changes, all else stays."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.config import edit, loader
from friday_cli.core.protocol.errors import FileError, FridayError, UsageError

FILE = """\
# my settings
model = "opus"   # the best

[limits]
max_cost = 5.0

[permissions]
allow = [
  "bash(git status *)",  # harmless
  "bash(ls *)",
]

[agents.delegation]
# deep enough
max_depth = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    return path


def test_a_key_is_replaced_and_comments_stay(file: Path) -> None:
    edit.set_value("model", "anthropic/claude-sonnet-5-5", file=file)
    assert file.read_text() == FILE.replace('"opus"   #', '"anthropic/claude-sonnet-5-5"   #')


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("limits = {max_turns = 3}  # inline\n", ("limits.max_cost", "2"), "limits = {max_turns = 3, max_cost = 2}  # inline\n"),
        ("limits = {max_turns = 3, max_cost = 2}  # inline\n", ("limits.max_cost", None), "limits = {max_turns = 3}  # inline\n"),
        ("limits.max_turns = 3 # dotted\nmode='ask'\n", ("limits.max_turns", "4"), "limits.max_turns = 4 # dotted\nmode='ask'\n"),
        ('[tools]\nenv_allow = [\n  "A",  # why\n  "B",\n]\n', ("tools.env_allow", "A,C"), '[tools]\nenv_allow = [\n  "A",  # why\n  "C",\n]\n'),
        ('["limits"]\n# the most\n"max_cost" = 1\n', ("limits.max_cost", "2"), '["limits"]\n# the most\n"max_cost" = 2\n'),
        ("[agents.delegation]\nmax_depth=1\n[limits]\nmax_turns=1\n[agents]\n# rest\n", ("agents.delegation.token_budget.max", "9"),
         "[agents.delegation]\nmax_depth=1\n[agents.delegation.token_budget]\nmax = 9\n[limits]\nmax_turns=1\n[agents]\n# rest\n"),
    ],
)  # fmt: skip
def test_layouts_are_kept(tmp_path: Path, before: str, change: tuple[str, str | None], after: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(before)
    name, written = change
    assert edit.unset_value(name, file=path) if written is None else edit.set_value(name, written, file=path)
    lines, expected = (text.replace(" ", "").split("\n") for text in (path.read_text(), after))
    assert list(filter(None, lines)) == list(filter(None, expected))


def test_an_item_is_added_to_a_list_and_removed_and_the_others_keep_their_comments(file: Path) -> None:
    assert edit.add_value("permissions.allow", "bash(cat *)", file=file) is not None
    assert edit.add_value("permissions.allow", "bash(cat *)", file=file) is None
    assert file.read_text() == FILE.replace('"bash(ls *)",\n', '"bash(ls *)",\n  "bash(cat *)",\n')
    assert edit.remove_value("permissions.allow", "bash(cat *)", file=file) is not None
    assert edit.remove_value("permissions.allow", "bash(cat *)", file=file) is None
    assert edit.remove_value("permissions.deny", "bash(cat *)", file=file) is None
    assert file.read_text() == FILE


def test_a_new_key_goes_into_its_table_and_a_new_table_to_the_end(file: Path) -> None:
    edit.set_value("limits.max_turns", "7", file=file)
    edit.set_value("agents.delegation.token_budget.max", "90000", file=file)
    edit.set_value("mode", "plan", file=file)
    data = tomllib.loads(file.read_text())
    assert data["limits"] == {"max_cost": 5.0, "max_turns": 7}
    assert data["agents"]["delegation"] == {"max_depth": 2, "token_budget": {"max": 90000}}
    assert data["mode"] == "plan"
    assert file.read_text().count("#") == FILE.count("#")


def test_a_file_that_is_not_there_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    edit.set_value("mode", "edits", file=path)
    assert path.read_text() == 'mode = "edits"\n'
    assert path.stat().st_mode & 0o077 == 0


def test_a_link_is_followed_and_the_mode_kept(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text('mode = "ask"\r\nmodel = "a"\r\n')
    real.chmod(0o640)
    link = tmp_path / "config.toml"
    link.symlink_to(real)
    edit.set_value("mode", "plan", file=link)
    assert link.is_symlink()
    assert real.read_bytes() == b'mode = "plan"\r\nmodel = "a"\r\n'
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("limits.max_cost", "3", 3),
        ("agents.delegation.enabled", "false", False),
        ("permissions.deny", "bash(rm *), bash(dd *)", ["bash(rm *)", "bash(dd *)"]),
        ("providers.work.key_env", "WORK_KEY", "WORK_KEY"),
        ("model", "5", "5"),
        ("model", '"a b"', "a b"),
    ],
)
def test_what_a_person_types_is_read_as_the_setting_needs_it(
    tmp_path: Path, name: str, written: str, value: object
) -> None:
    assert edit.set_value(name, written, file=tmp_path / "config.toml").value == value


@pytest.mark.parametrize(
    ("name", "written", "words"),
    [
        ("moddel", "a", "Did you mean model?"),
        ("limits", "3", "limits.max_turns"),
        ("providers.work", "3", "providers.work.base_url"),
        ("providers.Work.api", "chat", "lower-case letters"),
        ("limits.timeout", "300000", "milliseconds"),
        ("mode", "yolo", "ask, edits, plan, auto"),
        ("providers.work.key_env", "sk-1-2", "NAME of an environment variable"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(file: Path, name: str, written: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        edit.set_value(name, written, file=file)
    assert words in str(caught.value)
    assert file.read_text() == FILE


@pytest.mark.parametrize(
    ("before", "name", "written", "words"),
    [
        ("mode = \n", "mode", "plan", "is not valid TOML"),
        # not broken, but tomlkit would put `model` into the new table
        ('agents.delegation.max_depth = 2\nmodel = "a"\n', "agents.delegation.token_budget.max", "9", "by hand"),
    ],
)
def test_a_broken_file_is_not_touched(tmp_path: Path, before: str, name: str, written: str, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(before)
    with pytest.raises(FridayError) as caught:
        edit.set_value(name, written, file=path)
    assert words in str(caught.value)
    assert path.read_text() == before


LINES = [
    "# note", 'model = "a"', "", "[limits]", "max_turns = 3", "[tools]", "env_allow=[ 'A',\n 'B' ]", "[agents.delegation]",
    "limits = {max_turns = 3 }", "providers.b.api = 'chat' # note", "[agents]", "[agents.delegation.token_budget]",
]  # fmt: skip
CHANGES = [
    ("mode", "plan"), ("limits.max_cost", "2"), ("tools.env_allow", "A,X"), ("providers.a.api", "chat"),
    ("agents.delegation.token_budget.max", "9"),
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=9), st.sampled_from(CHANGES))
def test_setting_changes_that_key_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], change: tuple[str, str]
) -> None:
    path = tmp_path_factory.mktemp("edit") / "config.toml"
    path.write_text("\n".join(lines))
    try:
        before = loader.read(path)
    except FileError:
        return
    saved = edit.set_value(*change, file=path)
    after = loader.read(path)
    *parents, last = change[0].split(".")
    tables = [functools.reduce(lambda table, part: table.get(part, {}), parents, data) for data in (before, after)]
    tables[0].pop(last, None)
    assert tables[1].pop(last) == saved.value

    def full(data: dict[str, object]) -> dict[str, object]:
        pairs = {k: full(v) if isinstance(v, dict) else v for k, v in data.items()}
        return {k: v for k, v in pairs.items() if v != {}}

    assert full(after) == full(before)
    assert path.read_text().count("# note") == "\n".join(lines).count("# note")


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    names = ["limits.max_turns", "limits.max_tokens", "agents.delegation.max_agents", "agents.delegation.ask_above"]
    code = (
        "import sys\nfrom pathlib import Path\nfrom friday_cli.config import edit\n"
        "for n in range(1, 11): edit.set_value(sys.argv[2], str(n), file=Path(sys.argv[1]))\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), name], env=env) for name in names]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]
    data = loader.read(path)
    assert data["limits"] == {"max_turns": 10, "max_tokens": 10}
    assert data["agents"]["delegation"] == {"max_agents": 10, "ask_above": 10}


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("model", 'model = "opus"   # the best\n'),
        ("limits.max_cost", "max_cost = 5.0\n"),
        ("permissions.allow", 'allow = [\n  "bash(git status *)",  # harmless\n  "bash(ls *)",\n]\n'),
        ("agents.delegation.max_depth", "max_depth = 2\n"),
    ],
)
def test_a_key_is_taken_out_and_the_rest_stays(file: Path, name: str, gone: str) -> None:
    assert edit.unset_value(name, file=file) is not None
    assert file.read_text() == FILE.replace(gone, "")
    assert edit.unset_value(name, file=file) is None


def test_what_is_not_there_is_not_taken_out(file: Path) -> None:
    for name in ("mode", "limits.timeout", "tools.bash_timeout", "providers.own.base_url"):
        assert edit.unset_value(name, file=file) is None
    for name in ("modle", "limits"):
        with pytest.raises(UsageError):
            edit.unset_value(name, file=file)
    assert file.read_text() == FILE
