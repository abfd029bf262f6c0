"""Where profiles come from, which one wins, and that a bad file harms no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.extensions import profiles, trust
from friday_cli.extensions.profiles import Profile, parse, render
from friday_cli.system.paths import cache_dir

REPOSITORY = Path(__file__).parents[3]
SHIPPED = ("analyst", "coder", "general", "researcher", "reviewer", "summarizer")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "home"))


def write(path: Path, name: str, more: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: from {path.parent.name}\n{more}---\nWork.\n")
    return path


def project(tmp_path: Path, *, trusted: bool = True) -> trust.Trust:
    root = tmp_path / "repo"
    root.mkdir(exist_ok=True)
    if trusted:
        trust.decide(root, True)
    return trust.is_trusted(root)


class TestShipped:
    def test_all_of_them_without_a_word_of_complaint(self) -> None:
        found = profiles.load()
        assert found.names() == SHIPPED
        assert found.problems == ()
        assert [profile.notices for profile in found.found.values()] == [()] * len(SHIPPED)
        assert {profile.origin for profile in found.found.values()} == {"shipped"}

    def test_who_delegates_to_whom(self) -> None:
        found = profiles.load()
        assert {name: found.get(name).sub_agents for name in SHIPPED} == dict.fromkeys(SHIPPED, ()) | {
            "analyst": ("researcher",),
            "coder": ("researcher", "summarizer"),
        }
        assert [child.name for child in found.children(None)] == list(SHIPPED)
        assert [child.name for child in found.children(found.get("coder"))] == ["researcher", "summarizer"]
        assert found.children(found.get("general")) == ()

    def test_what_they_may_do(self) -> None:
        found = profiles.load()
        tools = {name: set(found.get(name).select(TOOLS.names)) for name in SHIPPED}
        for name in ("researcher", "summarizer"):
            assert not {"bash", "write_file", "edit_file", "delegate_task"} & tools[name]
        assert {"write_file", "edit_file", "bash"} <= tools["coder"]
        assert found.get("general").allowed_tools == "*"
        assert {"memory_load", "memory_save", "web_search", "document_query", "web_fetch"} <= tools["researcher"]

    @pytest.mark.parametrize("name", SHIPPED)
    def test_each_prompt_says_how_it_works_reports_stops_and_fails(self, name: str) -> None:
        prompt = profiles.load().get(name).prompt
        for heading in ("## How you work", "## Form of your result", "## When to stop", "## Two failures to avoid"):
            assert heading in prompt
        assert prompt.count("Instead:") == 2

    def test_they_need_no_yaml_parser(self) -> None:
        code = (
            "import sys\nfrom friday_cli.extensions import profiles\nprofiles.load()\nsys.exit('yaml' in sys.modules)"
        )
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0

    @pytest.mark.parametrize("form", ["installed", "checkout"])
    def test_they_are_found_in_a_wheel_and_in_a_checkout(self, tmp_path: Path, form: str) -> None:
        site = tmp_path / "site"
        ignore = shutil.ignore_patterns("__pycache__", "_profiles")
        shutil.copytree(REPOSITORY / "friday_cli", site / "friday_cli", ignore=ignore)
        place = site / "friday_cli/_profiles" if form == "installed" else site / "profiles"
        shutil.copytree(REPOSITORY / "profiles", place)
        if form == "installed":
            write(site / "profiles/researcher.md", "stranger")  # somebody else's folder beside the package
        code = "from friday_cli.extensions import profiles; print(*profiles.load().names(), profiles.shipped_folder())"
        env = os.environ | {"PYTHONPATH": str(site)}
        assert subprocess.check_output([sys.executable, "-c", code], env=env, cwd=tmp_path, text=True).split() == [
            *SHIPPED,
            str(place),
        ]


class TestOrder:
    def test_user_then_project_then_profiles_then_claude_then_shipped(self, tmp_path: Path) -> None:
        root = tmp_path / "repo"
        names = (".friday/profiles/a.md", "profiles/a.md", ".claude/agents/deep/a.md")
        places = [write(path, "coder") for path in (profiles.user_folder() / "a.md", *(root / name for name in names))]
        found = profiles.load(project=project(tmp_path))
        winners = []
        for path in places:
            winners.append(found.get("coder").path)
            path.unlink()
            found = profiles.load(project=project(tmp_path))
        assert winners == [str(path) for path in places]
        assert found.get("coder").origin == "shipped"

    def test_hidden_ones_are_listed(self) -> None:
        write(profiles.user_folder() / "a.md", "coder")
        found = profiles.load()
        assert found.get("coder").origin == "user"
        assert [(p.name, p.origin) for p in found.hidden] == [("coder", "shipped")]
        assert found.announcements == ()

    @pytest.mark.parametrize("name", SHIPPED)
    def test_a_projects_profile_in_the_place_of_a_built_in_is_announced(self, tmp_path: Path, name: str) -> None:
        path = write(tmp_path / "repo/profiles/a.md", name)
        (announced,) = profiles.load(project=project(tmp_path)).announcements
        assert announced == f"{path} of the project replaces the built-in profile {name}."

    def test_one_of_the_home_folder_in_the_place_of_a_built_in_is_announced(self, home: Path) -> None:
        path = write(home / ".agents/agents/a.md", "coder")
        assert profiles.load().announcements == (f"{path} of your home folder replaces the built-in profile coder.",)

    def test_without_trust_nothing_of_the_project_counts(self, tmp_path: Path) -> None:
        for place in (".friday/profiles/a.md", "profiles/b.md", ".claude/agents/c.md"):
            write(tmp_path / "repo" / place, "evil-" + place[-4])
        assert profiles.load(project=project(tmp_path, trusted=False)).names() == SHIPPED
        assert profiles.load().names() == SHIPPED

    def test_a_file_that_changes_after_the_look_is_not_used(self, tmp_path: Path) -> None:
        path = write(tmp_path / "repo/profiles/a.md", "mine")
        standing = project(tmp_path)
        write(path, "mine", 'allowedTools: "*"\n')
        found = profiles.load(project=standing)
        assert "mine" not in found.found
        assert "has changed" in found.problems[0].problem

    def test_another_folder_for_the_users_own(self, tmp_path: Path) -> None:
        write(tmp_path / "elsewhere/x.md", "mine")
        assert "mine" in profiles.load(str(tmp_path / "elsewhere")).found
        missing = profiles.load(str(tmp_path / "nowhere"))
        assert missing.names() == SHIPPED
        assert "agents.delegation.profiles.directory" in str(missing.problems[0])


class TestProblems:
    def test_one_bad_file_hides_no_other(self) -> None:
        folder = profiles.user_folder()
        write(folder / "bad.md", "bad", "maxIterations: none\n")
        write(folder / "good.md", "good")
        (folder / "worse.md").write_bytes(b"---\nname: \xff\n---\n")
        (folder / "pipe.md").symlink_to("/dev/null")
        found = profiles.load()
        assert set(found.names()) == {*SHIPPED, "good"}
        assert [Path(problem.path).name for problem in found.problems] == ["bad.md", "worse.md"]
        with pytest.raises(UsageError, match="maxIterations"):
            found.get("bad")

    @pytest.mark.parametrize("text", [
        "---\nname: coder\ndescription: x\nallowedTools: [read_file]\nmode: nonsense\n---\nWork.\n",
        "---\nname: coder\ndescription: x\nallowedTools: [read_file\n---\nWork.\n",
        "---\nname: coder\ndescription: x\nallowedTools: [read_file]\nWork.\n",
        "\n---\nname: coder\ndescription: x\nallowedTools: [read_file]\n---\nWork.\n",
        "a link to nothing", "a pipe", "",
    ])  # fmt: skip
    def test_nothing_takes_the_place_of_a_file_of_the_person_that_cannot_be_used(
        self, tmp_path: Path, text: str
    ) -> None:
        """It may withhold what another profile of the name has."""
        file = write(tmp_path / "home/profiles/coder.md", "coder")
        if text.startswith("a "):
            file.unlink()
            os.mkfifo(file) if text == "a pipe" else file.symlink_to("nothing")
        else:
            file.write_text(text)
        write(tmp_path / "repo/.friday/profiles/coder.md", "coder")
        found = profiles.load(project=project(tmp_path))
        assert found.names() == tuple(name for name in SHIPPED if name != "coder")
        with pytest.raises(UsageError, match="Its file cannot be used") as refused:
            found.get("coder")
        assert str(file) in str(refused.value)
        assert str(file) in found.problem_notices()[0]

    def test_a_text_beside_the_profiles_of_the_person_is_no_problem(self, tmp_path: Path) -> None:
        write(tmp_path / "home/profiles/x.md", "x").with_name("README.md").write_text("# About\n")
        write(tmp_path / "home/profiles/Y.MD", "coder")
        found = profiles.load()
        assert found.problems == ()
        assert found.get("coder").origin == "user"

    def test_markdown_that_is_none_of_ours_is_ignored(self, tmp_path: Path) -> None:
        folder = profiles.user_folder()
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("# About these")
        (folder / "page.md").write_text("---\ntitle: A page\n---\nHello")
        (tmp_path / "repo/profiles").mkdir(parents=True)
        (tmp_path / "repo/profiles/linux.md").write_text("---\nallowedTools: all\n---\nHello")
        found = profiles.load(project=project(tmp_path))
        assert (found.names(), found.problems) == (SHIPPED, ())
        (folder / "a.md").write_text("---\nnaem: a\nallowedTools: [grep]\n---\nHello")
        assert "naem" in str(profiles.load().problems[0])

    def test_the_same_name_twice_in_a_folder(self) -> None:
        first = write(profiles.user_folder() / "a.md", "mine")
        write(profiles.user_folder() / "b.md", "mine")
        found = profiles.load()
        assert found.get("mine").path == str(first)
        assert "same name" in found.problems[0].problem

    def test_unknown_sub_agents_are_dropped_and_said(self) -> None:
        write(profiles.user_folder() / "a.md", "mine", "subAgents: [coder, resaercher]\n")
        found = profiles.load()
        assert [child.name for child in found.children(found.get("mine"))] == ["coder"]
        assert [problem.field for problem in found.problems] == ["subAgents"]
        assert "Did you mean researcher?" in str(found.problems[0])

    def test_an_unknown_profile_names_the_nearest_and_all(self) -> None:
        with pytest.raises(UsageError) as caught:
            profiles.load().get("reseacher")
        assert "Did you mean researcher?" in str(caught.value)
        assert "analyst, coder" in str(caught.value)


class TestCommands:
    def test_check_a_file_and_a_folder(self, tmp_path: Path) -> None:
        good = write(tmp_path / "good.md", "good")
        write(tmp_path / "bad.md", "bad", "timeout: 300000\n")
        found, problems = profiles.check(tmp_path)
        assert [profile.name for profile in found] == ["good"]
        assert "the unit is seconds" in str(problems[0])
        assert profiles.check(good)[1] == []
        (tmp_path / "plain.md").write_text("hello")
        assert "no front matter" in str(profiles.check(tmp_path / "plain.md")[1][0])
        with pytest.raises(UsageError):
            profiles.check(tmp_path / "none.md")

    def test_a_new_profile_is_valid_as_it_comes(self) -> None:
        made = parse.parse("my-own.md", render.template("my-own").encode())
        assert (made.name, made.notices) == ("my-own", ())
        with pytest.raises(UsageError):
            render.template("../evil")

    def test_rows_and_show(self) -> None:
        found = profiles.load()
        rows = render.rows(found)
        assert [row[0] for row in rows] == list(SHIPPED)
        assert all(len(row) == len(render.COLUMNS) for row in rows)
        shown = render.show(found.get("coder"))
        assert "researcher, summarizer" in shown
        assert "120,000 tokens, 60 turns, 900 s" in shown
        assert found.get("coder").prompt in shown


class TestManyFiles:
    """Hundreds of agent files: parsed once, and their faults told in one line."""

    COUNT = 30

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        agents = tmp_path / "p/.claude/agents"
        agents.mkdir(parents=True)
        for number in range(self.COUNT):
            (agents / f"e{number}.md").write_text(
                f"---\nname: e{number}\ndescription: About {number}: all.\n---\nWork.\n"
            )
        (agents / "bad.md").write_text("---\nname: bad\ndescription: d\ntools: [nonsense]\n---\nWork.\n")
        (agents / "worse.md").write_text("---\nname: worse\n---\n")
        (agents / "README.md").write_text("# Agents\n")
        trust.decide(tmp_path / "p", True)
        cache_dir().mkdir(parents=True, exist_ok=True)
        return tmp_path / "p"

    def test_a_second_start_parses_none_and_finds_the_same(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = profiles.load(project=trust.is_trusted(project))
        parsed: list[str] = []

        real = parse.parse

        def counted(path: str, raw: bytes, **given: Any) -> Profile:
            parsed.append(Path(path).name)
            return real(path, raw, **given)

        monkeypatch.setattr(parse, "parse", counted)
        again = profiles.load(project=trust.is_trusted(project))
        assert parsed == []
        assert again.found == first.found
        assert list(map(str, again.problems)) == list(map(str, first.problems))
        (project / ".claude/agents/e3.md").write_text("---\nname: new\ndescription: d\n---\nWork.\n")
        trust.decide(project, True)
        assert "new" in profiles.load(project=trust.is_trusted(project)).found
        assert parsed == ["e3.md"]

    @pytest.mark.parametrize("damage", [b"", b"\x81\xa7made_by\xa1x", b"\xff" * 40])
    def test_a_damaged_or_foreign_cache_is_not_used(self, project: Path, damage: bytes) -> None:
        first = profiles.load(project=trust.is_trusted(project))
        (cache,) = (path for path in cache_dir().glob("profiles-*") if b"Work." in path.read_bytes())
        good = cache.read_bytes()
        cache.write_bytes(damage)
        assert profiles.load(project=trust.is_trusted(project)).found == first.found
        assert cache.read_bytes() == good
        cache.write_bytes(good.replace(b"Work.", b"Evil."))
        cache.chmod(0o666)
        assert profiles.load(project=trust.is_trusted(project)).found == first.found

    def test_many_problems_are_one_line(self, project: Path) -> None:
        found = profiles.load(project=trust.is_trusted(project))
        (line,) = found.problem_notices()
        assert line == (
            "2 problems in profile files, such as bad.md: none of these tools exists. `friday profiles check` shows all."
        )
