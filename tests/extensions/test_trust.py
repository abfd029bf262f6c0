"""Trust: one folder, one content, one decision; doubt is no trust."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.extensions import instructions, trust, trust_review


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "home"))
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / "src/deep").mkdir(parents=True)
    return folder


def put(path: Path, text: str = "---\nname: a\n---\nWork.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_new_folder_is_not_trusted_and_a_decision_lasts(root: Path) -> None:
    assert trust.is_trusted(root).state == "new"
    assert trust.decide(root / "src", True).ok
    standing = trust.is_trusted(root / "src/deep")
    assert (standing.state, standing.root) == ("trusted", root)
    trust.decide(root, False)
    assert trust.is_trusted(root).state == "refused"


@pytest.mark.parametrize(
    "name",
    [
        *(".friday/config.toml", ".friday/config.local.toml", ".friday/profiles/a.md", ".friday/commands/x/y.md"),
        *("profiles/a.md", ".claude/agents/a.md", ".claude/commands/x/y.md", ".mcp.json"),
    ],
)
def test_what_can_execute_or_grant_is_pinned(root: Path, name: str) -> None:
    trust.decide(root, True)
    path = put(root / name)
    standing = trust.is_trusted(root)
    assert (standing.state, standing.changed) == ("changed", (f"+ {name}",))
    assert trust.decide(root, True).files.keys() == {name}
    put(path, "---\nname: b\n---\nEvil.")
    assert trust.is_trusted(root).changed == (f"~ {name}",)
    path.unlink()
    assert trust.is_trusted(root).changed == (f"- {name}",)


def test_changed_instructions_are_decided_on_again_and_the_rest_stays_trusted(root: Path) -> None:
    put(root / ".friday/config.toml", "")
    put(root / "AGENTS.md", "Use tabs.\n")
    put(root / "src/AGENTS.md", "Use blanks.\n")
    assert trust.is_trusted(root).seen.keys() == {".friday/config.toml", "AGENTS.md"}
    trust.decide(root, True)
    assert trust.is_trusted(root).revised == ()
    standing = trust.is_trusted(root / "src/deep")
    assert (standing.ok, standing.revised, trust_review.needs_decision(standing)) == (True, ("+ src/AGENTS.md",), True)
    trust.decide(root / "src", True)
    assert not trust_review.needs_decision(trust.is_trusted(root))
    put(root / "AGENTS.md", "Use nothing.\n")
    standing = trust.is_trusted(root)
    assert (standing.ok, standing.revised) == (True, ("~ AGENTS.md",))
    assert {"-Use tabs.", "+Use nothing."} <= {row.strip() for row in trust_review.differences(standing)}
    trust.decide(root, True, seen=standing.seen)
    assert trust.is_trusted(root / "src").revised == (), "the other file was decided on before"
    seen = trust.is_trusted(root).seen
    put(root / "AGENTS.md", "Now.\n")
    with pytest.raises(UsageError, match="changed during the review"):
        trust.decide(root, True, seen=seen)


def test_declined_instructions_may_change(root: Path) -> None:
    put(root / "AGENTS.md", "Use tabs.\n")
    trust.decide(root, False)
    put(root / "AGENTS.md", "Use blanks.\n")
    assert trust.is_trusted(root).state == "refused"
    assert not trust_review.needs_decision(trust.is_trusted(root))


def test_instructions_that_cannot_be_read_break_nothing(root: Path, tmp_path: Path) -> None:
    (root / "AGENTS.md").symlink_to(put(tmp_path / "elsewhere.md", "Out.\n"))
    put(root / "src/AGENTS.md", "x" * (trust.MAX_FILE_BYTES + 1))
    trust.decide(root / "src", True)
    standing = trust.is_trusted(root / "src")
    assert (standing.ok, standing.instructions, standing.revised) == (True, {}, ())
    found = instructions.read(root / "src", root=root, config=tmp_path, trusted=True)
    assert found.files == ()
    assert [notice.rpartition(" is skipped: ")[2] for notice in found.notices] == [
        f"it links to a file that is left out: it is outside {root}.",
        "it is larger than 1,000,000 bytes.",
    ]


def test_everything_else_may_change(root: Path) -> None:
    trust.decide(root, True)
    for name in ("src/a.py", "AGENTS.md", "profiles/notes.md", "README.md", ".git/config"):
        put(root / name, "# just text")
    assert trust.is_trusted(root).ok


def test_a_work_tree_a_submodule_and_a_copy_do_not_inherit(root: Path, tmp_path: Path) -> None:
    trust.decide(root, True)
    tree = tmp_path / "tree"
    put(tree / ".git", f"gitdir: {root}/.git/worktrees/tree")
    put(root / "module/.git", "gitdir: ../.git/modules/module")
    for folder in (tree, root / "module"):
        assert trust.is_trusted(folder).root == folder
        assert trust.is_trusted(folder).state == "new"
    root.rename(tmp_path / "renamed")
    assert trust.is_trusted(tmp_path / "renamed").state == "new"


def test_a_link_in_the_place_of_a_trusted_folder_is_another_folder(root: Path, tmp_path: Path) -> None:
    trust.decide(root, True)
    root.rename(tmp_path / "old")
    (tmp_path / "evil/.git").mkdir(parents=True)
    root.symlink_to(tmp_path / "evil")
    assert trust.is_trusted(root).state == "new"
    assert trust.is_trusted(root).root == tmp_path / "evil"


def link(target: str, name: str = ".friday") -> Callable[[Path], None]:
    return lambda root: (root / name).symlink_to(root / target)


@pytest.mark.parametrize(
    "make",
    [
        link("../outside/config.toml", ".mcp.json"),
        link("../outside"),
        lambda root: os.mkfifo(root / ".mcp.json"),
        lambda root: put(root / ".friday/config.toml", "#" * 1_000_001),
        link("src", ".claude/agents/inner"),
        lambda root: put(root / ".friday" / "/".join("abcdefghijk") / "x.md"),
    ],
    ids=["outside file", "outside folder", "pipe", "huge", "inner folder", "deep"],
)
def test_what_cannot_be_pinned_down_cannot_be_trusted(
    root: Path, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    put(tmp_path / "outside/config.toml", "mode = 'plan'")
    (root / ".claude/agents").mkdir(parents=True)
    make(root)
    with pytest.raises(FileError):
        trust.decide(root, True)
    standing = trust.is_trusted(root)
    assert (standing.state, standing.files) == ("broken", {})
    assert standing.reason


def test_a_strange_file_in_profiles_is_left_out_and_harms_nobody(root: Path, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside.md")
    (root / "profiles").mkdir()
    (root / "profiles/link.md").symlink_to(outside)
    os.mkfifo(root / "profiles/pipe.md")
    (root / "profiles/loop.md").symlink_to(root / "profiles/loop.md")
    put(root / "profiles/good.md")
    assert trust.decide(root, True).files.keys() == {"profiles/good.md"}
    assert trust.is_trusted(root).ok


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"folders": {}}',
        b'{"version": 99, "folders": {}}',
        b'{"version": 1, "folders": {"/": 3}}',
    ],
)
def test_a_damaged_or_newer_store_trusts_nothing_and_is_not_overwritten(root: Path, content: bytes) -> None:
    trust.decide(root, True)
    trust.store_file().write_bytes(content)
    standing = trust.is_trusted(root)
    assert (standing.state, standing.ok) == ("broken", False)
    assert str(trust.store_file()) in standing.reason
    with pytest.raises(FileError):
        trust.decide(root, True)
    assert trust.store_file().read_bytes() == content


def test_the_store_is_private_and_one_that_others_can_write_is_not_believed(root: Path) -> None:
    trust.decide(root, True)
    assert trust.store_file().stat().st_mode & 0o777 == 0o600
    assert json.loads(trust.store_file().read_text())["version"] == trust.VERSION
    trust.store_file().chmod(0o666)
    assert trust.is_trusted(root).state == "broken"


def test_names_that_are_no_text_and_folders_that_are_not_there(root: Path, tmp_path: Path) -> None:
    assert trust.is_trusted(tmp_path / "none").state == "new"
    with pytest.raises(FridayError):
        trust.decide(tmp_path / "none", True)
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    odd.mkdir()
    put(odd / ".friday/config.toml", "")
    trust.decide(odd, True)
    assert trust.is_trusted(odd).ok
    put(Path(os.fsdecode(os.fsencode(odd) + b"/.friday/\xfa.md")))
    assert trust.is_trusted(odd).state == "changed"


def test_what_was_decided_on_is_kept_to_show_what_changed(root: Path) -> None:
    path = put(root / ".friday/profiles/a.md", "old\n")
    large = put(root / ".friday/profiles/b.md", "x" * (trust.MAX_STORED_BYTES + 1))
    trust.decide(root, True)
    path.write_text("new\n")
    large.write_text("new\n")
    standing = trust.is_trusted(root)
    assert [trust.stored_content(standing.before[f".friday/profiles/{name}.md"]) for name in "ab"] == [b"old\n", None]
    place = trust.store_file().parent / "trusted"
    assert {p.stat().st_mode & 0o777 for p in place.iterdir()} == {0o600}
    for kept in place.iterdir():
        kept.write_text("forged")
    assert trust.stored_content(standing.before[".friday/profiles/a.md"]) is None
    trust.decide(root, True)
    assert not (place / standing.before[".friday/profiles/a.md"]).exists()


def test_only_what_was_seen_is_trusted(root: Path) -> None:
    path = put(root / ".friday/config.toml", "")
    seen = trust.is_trusted(root).seen
    path.write_text('mode = "plan"\n')
    with pytest.raises(UsageError, match="changed during the review"):
        trust.decide(root, True, seen=seen)
    assert trust.is_trusted(root).state == "new"
