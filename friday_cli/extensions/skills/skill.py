"""One skill: what its front matter says, and its instructions as an agent reads them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from friday_cli.core.protocol.errors import FileError

if TYPE_CHECKING:
    from ..tool_lists import Restriction

Origin = Literal["user", "project", "plugin"]
Stamp = tuple[int, int, int, int]
"""What changes when a file or folder does: the times of its content and of itself (nanoseconds), its size, its inode."""
CHANGED = {"project": "Run `friday trust`.", "plugin": "Add the plugin again: `friday plugins add`."}
"""What to do when a skill is not the one that was trusted."""
FILE = "SKILL.md"
IGNORED = frozenset(("__pycache__", ".DS_Store"))
"""Files and folders of a skill that do not count."""
MAX_DEPTH = 8
MAX_LISTED = 50
"""Files of a skill that an agent is told."""
MAX_BODY = 60_000
"""Characters of instructions that are loaded."""


class Skill(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A skill. `folder`: with SKILL.md and the files that it refers to; `sha256`: of SKILL.md. `tools`: the only tools for it
    (None: all); `only`: rules that restrict them further. `names`: of its arguments, by position. `by_model` and `by_person`: who
    can load it. `fork`: it runs as a sub-agent with the profile `agent`."""

    name: str
    description: str
    folder: str
    sha256: str = ""
    origin: Origin = "user"
    tools: tuple[str, ...] | None = None
    only: tuple[str, ...] = ()
    hint: str = ""
    names: tuple[str, ...] = ()
    by_model: bool = True
    by_person: bool = True
    fork: bool = False
    agent: str = ""
    license: str = ""
    notices: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return f"{self.folder}/SKILL.md"

    def load(self, arguments: str = "") -> LoadedSkill:
        """Its instructions as they are on disk now, with the arguments filled in. Raises FileError if the file cannot be read, or
        if that of a project is not the one that was trusted."""
        import hashlib

        from friday_cli.core.text.sanitize import sanitize, sanitize_line
        from friday_cli.core.text.skill_marks import mark_skill
        from friday_cli.core.text.untrusted import neutralize

        from .. import frontmatter, prompt_arguments

        raw = frontmatter.contents(Path(self.path))
        if isinstance(raw, FileError):
            raise raw
        sha = hashlib.sha256(raw).hexdigest()
        if self.origin != "user" and sha != self.sha256:
            raise FileError(self.path, "has changed since it was trusted.", hint=CHANGED[self.origin])
        text = frontmatter.decode(self.path, raw)
        parts = frontmatter.split(text)
        body = (parts[1] if parts else text).strip()
        note = prompt_arguments.skipped_note(self.name, body)
        for variable in ("${SKILL_DIR}", "${CLAUDE_SKILL_DIR}"):
            body = body.replace(variable, self.folder)
        if len(body) > MAX_BODY:
            body = f"{body[:MAX_BODY]}\n[{len(body) - MAX_BODY:,} more characters: read {self.path}]"
        body = prompt_arguments.fill(body, arguments, self.names)
        body = neutralize(body) if self.origin != "user" else sanitize(body)
        names, more = listed_files(Path(self.folder), MAX_LISTED)
        rows = [f"[Folder of this skill: {sanitize_line(self.folder, 1000)}]"]
        if names:
            rows.append("[Files in it, to be read when needed; its scripts are commands like others:]")
            rows += [f"- {neutralize(sanitize_line(name, 300))}" for name in names]
            rows += ["- ..."] if more else []
        shown = "\n".join(rows)
        return LoadedSkill(self, mark_skill(self.name, sha, f"{body}\n\n{shown}"), sha, note)

    def restrictions(self) -> Restriction | None:
        """What restricts the tools while it runs; None without restrictions."""
        from ..tool_lists import Restriction

        return None if self.tools is None else Restriction(self.tools, self.only, self.folder)


class LoadedSkill(msgspec.Struct, frozen=True):
    """The instructions of a skill. `text`: marked, for a model; `sha256`: of the file that they were read from; `note`: which
    commands of it are not run."""

    skill: Skill
    text: str
    sha256: str
    note: str = ""


class ParsedSkill(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a SKILL.md holds: a skill, or an error (problem, line, field, hint). `stamp`: of the file when it was read, where that
    decides whether it is read again."""

    skill: Skill | None = None
    error: tuple[str, int, str, str] = ("", 0, "", "")
    stamp: Stamp = (0, 0, 0, 0)

    def result(self, path: str) -> Skill | FileError:
        """The skill or the error of the file at `path`."""
        if self.skill is not None:
            return self.skill
        problem, line, field, hint = self.error
        return FileError(path, problem, line=line, field=field, hint=hint)

    @classmethod
    def of(cls, result: Skill | FileError) -> ParsedSkill:
        """The entry for a result."""
        if isinstance(result, FileError):
            return cls(None, (result.problem, result.line, result.field, result.hint))
        return cls(result)


def listed_files(folder: Path, most: int) -> tuple[list[str], bool]:
    """The files of a skill below its folder, without SKILL.md, and whether there are more than `most`."""
    names: list[str] = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED and not name.startswith("."))
        below = os.path.relpath(path, folder)
        for name in sorted(files):
            relative = name if below == "." else f"{below}/{name}"
            if name in IGNORED or relative == FILE:
                continue
            if len(names) >= most:
                return names, True
            names.append(relative)
        if below.count("/") >= MAX_DEPTH:
            folders.clear()
    return names, False
