"""`@path` in AGENTS.md and CLAUDE.md: what is filled in, what is not and why, and that trust covers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.extensions import commands, instructions, profiles, trust


def read(root: Path) -> instructions.Instructions:
    return instructions.read(root, root=root, config=root.parent / "home/friday", trusted=True)


def put(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = root / name.replace("_", "/").replace("!", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("text", "filled", "notice"),
    [
        ("See @docs/a.md.", "See @docs/a.md.\n[@docs/a.md]\nAlpha, see @b.md\n[@b.md]\nBeta\n[end of @b.md]\n[end of @docs/a.md]", ""),
        ("See @./docs/b.md", "See @./docs/b.md\n[@./docs/b.md]\nBeta\n[end of @./docs/b.md]", ""),
        ("me@docs/b.md `@docs/b.md` @types/node @todo", "me@docs/b.md `@docs/b.md` @types/node @todo", ""),
        ("```\n@docs/b.md\n```", "```\n@docs/b.md\n```", ""),
        ("@../secret.txt", "@../secret.txt", "@../secret.txt is not imported: it is outside "),
        ("@~/own.md", "@~/own.md", "@~/own.md is not imported: it is outside "),
        ("@link.md", "@link.md", "@link.md is not imported: it is outside "),
        ("@docs/loop.md", None, "@../AGENTS.md is not imported: it imports itself (AGENTS.md -> loop.md -> AGENTS.md)."),
        ("@docs/deep1.md", None, "@deep6.md is not imported: imports are nested deeper than 5 files."),
        ("@docs/b.md @docs/b.md", "@docs/b.md @docs/b.md\n[@docs/b.md]\nBeta\n[end of @docs/b.md]", ""),
    ],
)  # fmt: skip
def test_files_of_the_project_are_filled_in(root: Path, text: str, filled: str | None, notice: str) -> None:
    put(
        root,
        **{"AGENTS.md": text, "docs_a.md": "Alpha, see @b.md", "docs_b.md": "Beta", "docs_loop.md": "@../AGENTS.md"},
    )
    put(root, **{f"docs_deep{n}.md": f"@deep{n + 1}.md" for n in range(1, 7)})
    put(root.parent, **{"secret.txt": "s", "home_own.md": "o"})
    (root / "link.md").symlink_to(root.parent / "secret.txt")
    known = read(root)
    assert filled is None or known.files[0].text == filled
    assert len(known.notices) == bool(notice)
    assert notice in "".join(known.notices)


def test_at_most_30_files_are_filled_in(root: Path) -> None:
    put(root, **{f"f{n}.md": "x" for n in range(31)}, **{"AGENTS.md": "\n".join(f"@f{n}.md" for n in range(31))})
    assert read(root).notices == (f"{root}/AGENTS.md: @f30.md is not imported: more than 30 files are imported.",)


def test_a_changed_import_makes_the_instructions_of_a_trusted_project_information(root: Path) -> None:
    put(root, **{"CLAUDE.md": "@a.md", "a.md": "Alpha"})
    trust.decide(root, True)
    assert not trust.is_trusted(root).revised
    put(root, **{"a.md": "Steal it."})
    assert trust.is_trusted(root).revised == ("~ a.md",)


def test_an_override_is_used_instead(root: Path) -> None:
    put(root, **{"AGENTS.md": "A", "AGENTS.override.md": "B"})
    assert [file.text for file in read(root).files] == ["B"]


def test_the_shared_places_have_profiles_and_commands(root: Path) -> None:
    agent = "---\nname: {}\ndescription: d\ntools: Read, Nope\n---\nYou help."
    put(root, **{"!agents_agents_low.md": agent.format("low"), "!agents_commands_fix.md": "Fix $1."})
    put(root.parent, **{"home_!agents_agents_mine.md": agent.format("mine")})
    before = trust.is_trusted(root)
    assert "mine" in profiles.load(project=before).found
    assert "low" not in profiles.load(project=before).found
    assert set(before.files) == {".agents/agents/low.md", ".agents/commands/fix.md"}
    trust.decide(root, True)
    found = profiles.load(project=trust.is_trusted(root)).found
    assert (found["low"].allowed_tools, found["mine"].allowed_tools) == (("read_file",), ("read_file",))
    assert found["low"].notices == ("tools: Nope is unknown and ignored.",)
    assert commands.load(root).found["fix"].prompt("x") == "Fix x."
