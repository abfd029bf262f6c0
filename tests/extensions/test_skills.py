"""Where skills are found, how their files are read, and what trust in a project means for them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from friday_cli.core.protocol.errors import FileError
from friday_cli.extensions import trust, trust_review
from friday_cli.extensions.skills import files, lookup
from friday_cli.extensions.skills import parse as skill_parse
from friday_cli.extensions.skills.parse import parse
from friday_cli.system.paths import cache_dir


def put(place: Path, name: str, text: str = "", **more: str) -> Path:
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text or f"---\nname: {name}\ndescription: {place}\n---\nDo it.")
    for file, content in more.items():
        (folder / file).write_text(content)
    return folder


def found(root: Path, **more: object) -> lookup.Skills:
    return lookup.load(root, trust.is_trusted(root))


def test_the_first_place_with_a_name_wins(root: Path, tmp_path: Path) -> None:
    below = root / "sub"
    places = [
        tmp_path / "home/friday/skills",
        *(top / name for top in (below, root) for name in files.IN_PROJECT),
        *(tmp_path / "home" / name for name in files.IN_HOME),
    ]
    for number, place in enumerate(places):
        for name in range(number, len(places)):
            put(place, f"s{name}")
    below.mkdir(exist_ok=True)
    mine = lookup.load(below, trust.is_trusted(below))
    assert {skill.origin for skill in mine.found.values()} == {"user"}
    trust.decide(below, True)
    skills = lookup.load(below, trust.is_trusted(below))
    assert [skill.description for skill in skills.found.values()] == [str(places[0])] * len(places)
    assert len(skills.hidden) == sum(range(len(places)))
    for number, place in enumerate(places[:-1]):
        for name in range(number, len(places)):
            (place / f"s{name}/SKILL.md").unlink()
        trust.decide(below, True)
        left = lookup.load(below, trust.is_trusted(below))
        assert left.found[f"s{len(places) - 1}"].description == str(places[number + 1])


@pytest.mark.parametrize(
    ("front", "name", "notices"),
    [
        ("name: pdf\ndescription: d", "pdf", []),
        ("\ufeffname: pdf\ndescription: d", "pdf", []),
        ("name: pdf\ndescription: Use when: the user asks: for it", "pdf", ["its front matter is not YAML"]),
        ("description: d", "pdf", ["has no name; the name of its folder is used."]),
        ("name: Fill Forms!\ndescription: d", "fill-forms", ["its name 'Fill Forms!' is changed to fill-forms."]),
        ("name: other\ndescription: d", "other", ["its name other is not the name of its folder, pdf."]),
        ("name: pdf\ndescription: " + "d" * 2000, "pdf", ["its description is longer than 1,024 characters"]),
        ("name: pdf\ndescription: d\nmodel: opus\nfoo: 1", "pdf", ["model has no effect", "foo is unknown and ignored"]),
        ("name: pdf\ndescription: d\nallowed-tools: Read Nope Bash(git log:*)", "pdf", ["allowed-tools: Nope is unknown"]),
        ("name: pdf\ndescription: d\ncompatibility: python 3.12", "pdf", ["says that it needs: python 3.12"]),
        ("name: pdf\ndescription: d\nuser-invocable: maybe", "pdf", ["user-invocable: expected true or false; true is used."]),
    ],
)  # fmt: skip
def test_a_file_that_is_not_quite_right_is_read_and_named(front: str, name: str, notices: list[str]) -> None:
    begin = "\ufeff" if front.startswith("\ufeff") else ""
    raw = f"{begin}---\n{front.removeprefix(begin)}\n---\nDo it.".encode()
    skill = parse(Path("/skills/pdf"), raw, "0", "user")
    assert skill.name == name
    assert len(skill.notices) == len(notices)
    assert all(text.startswith(start) for text, start in zip(skill.notices, notices, strict=True))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "---\nname: pdf\n---\nDo it.",
            "/skills/pdf/SKILL.md:1: description: is missing, so no agent could choose it.",
        ),
        ("---\nname: pdf\ndescription: d\n---\n", "/skills/pdf/SKILL.md: has no instructions."),
        ("Do it.", "/skills/pdf/SKILL.md:1: has no front matter."),
        ("---\nname: pdf\n", "/skills/pdf/SKILL.md:1: the front matter is not closed."),
    ],
)
def test_a_file_that_cannot_be_used_has_one_line(text: str, problem: str) -> None:
    with pytest.raises(FileError) as error:
        parse(Path("/skills/pdf"), text.encode(), "0", "user")
    assert str(error.value).startswith(problem)


def test_only_a_skill_with_a_changed_file_is_lost_until_the_next_decision(root: Path) -> None:
    pdf = put(root / ".claude/skills", "pdf", run_py="print(1)")
    git = put(root / ".friday/skills", "git", **{"run.sh": "echo"})
    put(git / "examples", "inner", more="x")
    (root / "AGENTS.md").write_text("Be kind.")
    seen = trust.is_trusted(root)
    assert not found(root).found
    assert trust_review.needs_decision(seen)
    skill_folders = [".friday/skills/git", ".friday/skills/git/examples/inner", ".claude/skills/pdf"]
    assert trust_review.unused_skills(seen) == skill_folders
    rows = dict(trust_review.lines(seen))
    sha = seen.skills[".friday/skills/git/SKILL.md"][:12]
    assert rows[".friday/skills/git"] == (
        f"skill git (sha256 {sha}): instructions that agents can load; scripts, which run only as other commands do: run.sh"
    )
    trust.decide(root, True, seen=seen.seen)
    assert list(found(root).found) == ["git", "pdf"], "a SKILL.md in a skill is one of its files"
    (pdf / "__pycache__").mkdir()
    (pdf / "__pycache__/run.pyc").write_text("x")
    assert list(found(root).found) == ["git", "pdf"]
    (pdf / "run_py").write_text("print(2)")
    status = trust.is_trusted(root)
    assert (status.ok, status.revised, status.skills_revised) == (True, (), ("~ .claude/skills/pdf/run_py",))
    assert trust_review.needs_decision(status)
    skills = found(root)
    assert list(skills.found) == ["git"]
    assert trust_review.unused_skills(status) == [".claude/skills/pdf"]
    assert "run_py: has changed since the project was trusted, so the skill is not used. Run `friday trust`." in str(
        skills.problems[0]
    )
    loaded = skills.found["git"]
    (git / "examples/inner/more").write_text("y")
    assert not found(root).found
    put(root / ".friday/skills", "git", "---\nname: git\ndescription: d\n---\nSteal it.")
    with pytest.raises(FileError, match="has changed since it was trusted"):
        loaded.load()


def test_what_leads_out_of_the_project_or_is_too_large_is_not_trusted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 3)
    outside = put(tmp_path / "elsewhere", "out")
    shared = put(root / ".agents/skills", "shared")
    place = root / ".claude/skills"
    put(place, "many", a="", b="", c="")
    os.symlink(shared, place / "shared")
    os.symlink(outside, place / "out")
    (put(place, "leak") / "x").symlink_to(tmp_path / "elsewhere/out/SKILL.md")
    os.mkfifo(put(place, "pipe") / "p")
    trust.decide(root, True)
    skills = found(root)
    assert list(skills.found) == ["shared"]
    assert not skills.hidden, "two places may link to the same skill"
    assert sorted(Path(error.path).parent.name for error in skills.problems) == ["leak", "many", "out", "pipe"]
    assert trust.is_trusted(root).ok, "the rest of the project is used"


def test_a_second_start_reads_no_file_and_sees_each_change(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED_NS", -(10**18))
    cache_dir().mkdir(parents=True)
    pdf = put(root / ".claude/skills", "pdf", a="x")
    put(tmp_path / "home/.claude/skills", "mine")
    put(tmp_path / "home/.claude/skills", "broken", "no front matter")
    trust.decide(root, True)
    first = found(root)
    with monkeypatch.context() as patch:
        for module, name in (
            (files, "_hash"),
            (skill_parse, "parse"),
            (lookup.frontmatter, "contents"),
            (lookup.trust, "trusted_content"),
        ):
            patch.setattr(module, name, None)
        second = found(root)
    assert msgspec.to_builtins(first.found) == msgspec.to_builtins(second.found)
    assert list(map(str, first.problems)) == list(map(str, second.problems))
    (pdf / "b").write_text("new")
    assert trust.is_trusted(root).skills_revised == ("+ .claude/skills/pdf/b",)
    put(tmp_path / "home/.claude/skills", "mine", "---\nname: mine\ndescription: Another one.\n---\nDo it.")
    assert found(root).found["mine"].description == "Another one."


def test_a_file_that_changed_just_now_is_read_again(root: Path, tmp_path: Path) -> None:
    cache_dir().mkdir(parents=True)
    put(tmp_path / "home/.claude/skills", "mine")
    found(root)
    cache = files.SkillCache(tmp_path / "home/.claude/skills", None)
    assert cache.parsed(str(tmp_path / "home/.claude/skills/mine")) is None


def test_an_unknown_skill_has_a_hint(root: Path, tmp_path: Path) -> None:
    put(tmp_path / "home/.agents/skills", "pdf")
    put(tmp_path / "home/.agents/skills", "bad", "no")
    with pytest.raises(Exception, match=r"There is no skill 'pfd'. Did you mean pdf\? Available: pdf\."):
        found(root).get("pfd")
    with pytest.raises(Exception, match=r"Its file cannot be used: .*/bad/SKILL.md:1: has no front matter"):
        found(root).get("bad")
