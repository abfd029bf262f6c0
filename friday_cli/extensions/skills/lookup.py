"""Finds skills: those of the configuration folder, of a trusted project, of the home folder, and of plugins; the first with a name wins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FileError, UsageError

from .. import frontmatter, trust
from ..lookup_errors import in_one_line, unknown_name
from ..plugins.find import find_plugins
from . import files
from .skill import Origin, ParsedSkill, Skill


class Skills(msgspec.Struct, frozen=True):
    """All usable skills by name, sorted. `hidden`: skills replaced by another one of the same name. `problems`: files that cannot be
    used."""

    found: dict[str, Skill] = {}
    hidden: tuple[Skill, ...] = ()
    problems: tuple[FileError, ...] = ()

    def get(self, name: str) -> Skill:
        """The skill `name`. Raises UsageError with the closest match and all names."""
        if (skill := self.found.get(name)) is not None:
            return skill
        problem = next((found for found in reversed(self.problems) if _name_of(Path(found.path)) == name), None)
        raise unknown_name("skill", name, list(self.found), problem)

    def problem_notices(self) -> tuple[str, ...]:
        """The problems in one line, however many there are; () without any."""
        return in_one_line(self.problems, "skills", _name_of, "friday skills check")


def _name_of(path: Path) -> str:
    """The name of the skill that a file belongs to."""
    return path.parent.name


def load(folder: Path, project: trust.Trust | None = None, env: Mapping[str, str] | None = None) -> Skills:
    """Find all skills for `folder` (resolved). Those of a project are used only if it is trusted, and only with all their files as
    they were trusted. Nothing is read where there are no skills."""
    search = _SkillSearch(env)
    search.place(files.first_place(env))
    if project is not None and project.ok and project.skills:
        search.project(folder, project)
    for place in files.home_places(env):
        search.place(place)
    search.plugins(project)
    return search.result()


def check(path: Path) -> Skills:
    """The skill in a folder, or those in its subfolders. Raises UsageError if the path does not exist."""
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    path = path.resolve()
    path = path.parent if path.name == files.FILE else path
    search = _SkillSearch(None, keep=False)
    if (path / files.FILE).is_file():
        search.folder(path)
    else:
        for name in files.folders_in(path)[: files.MAX_SKILLS]:
            search.folder(path / name)
    return search.result()


class _SkillSearch:
    def __init__(self, env: Mapping[str, str] | None, *, keep: bool = True) -> None:
        self._env, self._keep = env, keep
        self._found: dict[str, Skill] = {}
        self._hidden: list[Skill] = []
        self._problems: list[FileError] = []

    def result(self) -> Skills:
        return Skills(dict(sorted(self._found.items())), tuple(self._hidden), tuple(self._problems))

    def place(self, place: Path) -> None:
        """Add the skills of a folder of the person."""
        names = files.folders_in(place)
        if not names:
            return
        self._limit(place, names)
        cache = files.SkillCache(place, self._env)
        for name in names[: files.MAX_SKILLS]:
            folder = f"{place}/{name}"
            path = f"{folder}/{files.FILE}"
            try:
                stamp = files.stamp_of(path)
            except OSError:
                continue
            known = cache.parsed(folder)
            if known is None or known.stamp != stamp:
                raw = frontmatter.contents(Path(path))
                if isinstance(raw, FileError) and not os.path.isfile(path):
                    continue
                known = _entry(folder, raw, stamp)
                cache.put_parsed(folder, known)
            self._take(folder, known.skill or known.result(path))
        cache.save()

    def project(self, folder: Path, project: trust.Trust) -> None:
        """Add the skills of a trusted project, those nearest to `folder` first."""
        cache, root = files.SkillCache(project.root, self._env), str(project.root)
        revised = files.folders_above(change[2:] for change in project.skills_revised)
        for prefix, sha in _skills_of(folder, project, self._env):
            top = f"{root}/{prefix}"
            if sha == files.UNTRUSTED:
                problem = (
                    f"the skill has more than {files.MAX_FILES} files or {files.MAX_BYTES >> 20} MB, or a file in it is none or "
                    "leads out of the project, so it cannot be trusted."
                )
                self._problems.append(FileError(f"{top}/{files.FILE}", problem))
            elif changed := revised.get(prefix):
                new = f"+ {prefix}/{files.FILE}" in project.skills_revised
                problem = (
                    f"{'is new' if new else 'has changed'} since the project was trusted, so the skill is not used."
                )
                self._problems.append(FileError(f"{root}/{changed}", problem, hint="Run `friday trust`."))
            else:
                self._add_trusted(top, sha, cache)
        cache.save()

    def plugins(self, project: trust.Trust | None) -> None:
        """Add the skills of plugins. A skill with a file that is not the one that the person saw is not used."""
        found = find_plugins(project, self._env)
        for plugin in found.found if found else ():
            origin: Origin = "plugin" if plugin.origin == "user" else "project"
            for name in plugin.skills:
                folder = plugin.root / name
                if changed := plugin.files.changed(f"{name}/"):
                    problem = "has changed since the plugin was added, so the skill is not used."
                    self._problems.append(FileError(str(plugin.root / changed[0]), problem))
                    continue
                file = f"{name}/{files.FILE}"
                raw = plugin.files.content(file) or b""
                self._take(str(folder), _parsed(folder, raw, plugin.files.files[file], origin))

    def folder(self, folder: Path) -> None:
        """Add the skill in one folder, if it has one, without looking into the cache."""
        raw = frontmatter.contents(folder / files.FILE)
        if isinstance(raw, bytes):
            self._take(str(folder), _parsed(folder, raw, trust.hash_of(raw), "user"))

    def _limit(self, place: Path, names: list[str]) -> None:
        if len(names) > files.MAX_SKILLS:
            problem = f"has more than {files.MAX_SKILLS:,} folders; the skills in the others are not used."
            self._problems.append(FileError(str(place), problem))

    def _add_trusted(self, folder: str, sha: str, cache: files.SkillCache) -> None:
        """Add the skill of a project in `folder`, whose SKILL.md was trusted with this sha256."""
        key = f"{sha} {folder}"
        known = cache.parsed(key)
        if known is None:
            raw = trust.trusted_content(Path(folder) / files.FILE, sha)
            known = ParsedSkill.of(raw if isinstance(raw, FileError) else _parsed(Path(folder), raw, sha, "project"))
            if isinstance(raw, bytes):
                cache.put_parsed(key, known)
        self._take(folder, known.result(f"{folder}/{files.FILE}"))

    def _take(self, folder: str, skill: Skill | FileError) -> None:
        if isinstance(skill, FileError):
            self._problems.append(skill)
        elif (before := self._found.setdefault(skill.name, skill)) is not skill:
            if os.path.realpath(before.folder) == os.path.realpath(folder):
                return  # two places often link to the same skill
            self._hidden.append(skill)
            if Path(before.folder).parent == Path(folder).parent:
                problem = f"has the same name as {before.path}."
                self._problems.append(FileError(skill.path, problem, field="name", hint="Rename it; it is not used."))


def _skills_of(folder: Path, project: trust.Trust, env: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Each skill folder of a project relative to its root, with the sha256 of its SKILL.md; in the order of the places."""
    tops = {os.path.relpath(place, project.root) for place in files.project_places(folder, project.root, env)}
    for path, sha in project.skills.items():
        top, _, file = path.rpartition("/")
        if file == files.FILE and top.rpartition("/")[0] in tops:
            yield top, sha


def _entry(folder: str, raw: bytes | FileError, stamp: files.Stamp) -> ParsedSkill:
    """The cache entry of a SKILL.md of the person: the parsed skill or its error, with the `stamp` of the file."""
    if isinstance(raw, bytes):
        found: Skill | FileError = _parsed(Path(folder), raw, trust.hash_of(raw), "user")
    else:
        found = raw
    return msgspec.structs.replace(ParsedSkill.of(found), stamp=stamp)


def _parsed(folder: Path, raw: bytes, sha: str, origin: Origin) -> Skill | FileError:
    from .parse import parse  # what was parsed before is in a cache

    try:
        return parse(folder, raw, sha, origin)
    except FileError as error:
        return error
