"""Finds profiles: those of the user, of a trusted project, of `~/.agents/agents`, and the built-in ones; the first with a name wins."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.suggest import closest_match
from friday_cli.system.paths import config_dir

from .. import frontmatter, trust
from ..lookup_errors import in_one_line, unknown_name
from ..plugins.find import find_plugins
from ..skills.files import home_folder
from .parse_cache import MIN_FILES, ParseCache, ParsedFile
from .profile import TOKENS_HARD, Origin, Profile

_PROFILE_KEYS = pattern(r"^(allowed_?[tT]ools|tools|max_?[tT]oken_?[bB]udget|sub_?[aA]gents)\s*:", re.M)
_OWN_KEYS = pattern(
    r"^(allowed_?[tT]ools|max_?([tT]oken_?[bB]udget|[iI]terations|[cC]ost)|sub_?[aA]gents|project_?[cC]ontext|result_?[cC]hars|"
    r"supervision)\s*:",
    re.M,
)
"""Keys that no other tool has."""
_NAME = pattern(r"""^name\s*:\s*["']?([\w-]+)""", re.M)
MAX_FILES = 10_000
"""Files that are checked in a folder."""
SHIPPED_NAMES = ("analyst", "coder", "general", "researcher", "reviewer", "summarizer")


class Profiles(msgspec.Struct, frozen=True):
    """All usable profiles. `hidden`: profiles replaced by another one of the same name. `problems`: files, or parts of
    them, that cannot be used; `announcements`: messages for the person."""

    found: dict[str, Profile]
    hidden: tuple[Profile, ...] = ()
    problems: tuple[FileError, ...] = ()
    announcements: tuple[str, ...] = ()

    def problem_notices(self) -> tuple[str, ...]:
        """The problems in one line, however many there are; () without any."""
        return in_one_line(self.problems, "profile files", lambda path: path.name, "friday profiles check")

    def names(self) -> tuple[str, ...]:
        """Every name, sorted."""
        return tuple(sorted(self.found))

    def get(self, name: str) -> Profile:
        """The profile `name`. Raises UsageError with the closest match and all names."""
        if (profile := self.found.get(name)) is not None:
            return profile
        names = ((_written_name(Path(found.path)), found) for found in reversed(self.problems))
        problem = next((found for written, found in names if written == name), None)
        raise unknown_name("profile", name, self.names(), problem)

    def named(self, name: str) -> Profile:
        """As `get`, for a name that a person gave: also one of the profiles of external agents that come with Friday. Those are
        offered to no model before a person names them."""
        if name not in self.found and (file := shipped_folder() / "external" / f"{name}.md").is_file():
            search = _ProfileSearch(TOKENS_HARD, None)
            search.add(file, "shipped", search.parsed(file, "shipped", frontmatter.contents(file)))
            self.found.update(search.found)
        return self.get(name)

    def children(self, parent: Profile | None) -> tuple[Profile, ...]:
        """The profiles that an agent with profile `parent` may delegate to; None: the main agent, which may use all."""
        names = self.names()
        if parent is not None:
            allowed = names if parent.sub_agents == "*" else parent.sub_agents
            names = tuple(name for name in names if name in allowed and name != parent.name)
        return tuple(self.found[name] for name in names)


def user_folder(directory: str = "", env: Mapping[str, str] | None = None) -> Path:
    """The folder with the profiles of the user: `agents.delegation.profiles.directory`, or `profiles` in the config folder."""
    if not directory:
        return config_dir(env) / "profiles"
    return Path(os.path.join(config_dir(env), os.path.expanduser(directory)))


def shipped_folder() -> Path:
    """The folder of the built-in profiles: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "_profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def is_shipped_copy(name: str, sha: str) -> bool:
    """Whether a file of a project, by its label and sha256, is a copy of a built-in profile, as in a copy of Friday's repository. It
    changes nothing, so nobody has to be told of it."""
    folder, _, file = name.partition("/")
    shipped = shipped_folder() / file
    return folder == "profiles" and shipped.is_file() and trust.hash_of(shipped.read_bytes()) == sha


def load(
    directory: str = "",
    project: trust.Trust | None = None,
    *,
    token_cap: int = TOKENS_HARD,
    env: Mapping[str, str] | None = None,
) -> Profiles:
    """Load all profiles. Those of a project are used only if it is trusted, and only with the trusted content. Errors
    in files become `problems`."""
    search = _ProfileSearch(token_cap, env)
    folder = user_folder(directory, env)
    if directory and not folder.is_dir():
        search.problems.append(FileError(str(folder), "is not a folder.", field="agents.delegation.profiles.directory"))
    search.folder(folder, "user")
    if project is not None and project.ok:
        search.project(project)
    if (home := home_folder(env)) is not None:
        search.whose = "your home folder"
        search.folder(home / ".agents/agents", "claude")
    search.plugins(project)
    search.folder(shipped_folder(), "shipped")
    search.check_sub_agents(search.found)
    return Profiles(search.found, tuple(search.hidden), tuple(search.problems), tuple(search.announcements))


def check(
    path: Path, *, token_cap: int = TOKENS_HARD, known: Collection[str] | None = None, own: Path | None = None
) -> tuple[list[Profile], list[FileError]]:
    """The profiles in a file or folder, and all errors in them, as loading them would find them. Raises UsageError if the path
    does not exist. `known`: names of other profiles; with it, references to sub-agents are checked too. `own`: the folder with
    the user's profiles.

    A file outside of folders for Friday's profiles, without a key that only Friday has, counts as one of another tool, as in
    `.claude/agents`. A folder without a profile is searched with its subfolders, as `.claude/agents` is."""
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    search = _ProfileSearch(token_cap, None)
    for file in _files_to_check(path):
        raw = frontmatter.contents(file)
        if file == path or isinstance(raw, FileError) or is_profile(raw):
            origin = _origin(file.resolve(), raw, own)
            search.add(file, origin, search.parsed(file, origin, raw))
    if known is not None:
        search.check_sub_agents({*search.found, *known})
    return [*search.found.values(), *search.hidden], search.problems


def _files_to_check(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    flat = sorted(file for file in path.glob("*.md") if file.is_file() and not _is_other(file, path))
    nested = bool({".claude", ".agents"} & set(path.resolve().parts)) or not any(_seems_profile(file) for file in flat)
    if not nested:
        return flat
    return sorted(
        file for file in islice(path.rglob("*.md"), MAX_FILES) if file.is_file() and not _is_other(file, path)
    )


def _is_other(file: Path, top: Path) -> bool:
    """Whether a file below `top` is a skill or a command, which can have the keys of a profile."""
    return file.name == "SKILL.md" or not {"skills", "commands"}.isdisjoint(
        (top.name, *file.relative_to(top).parts[:-1])
    )


def _seems_profile(file: Path) -> bool:
    raw = frontmatter.contents(file)
    return isinstance(raw, bytes) and is_profile(raw)


def _origin(file: Path, raw: bytes | FileError, own: Path | None) -> Origin:
    """The origin that decides how strictly a file is read."""
    if {".claude", ".agents"} & set(file.parts):
        return "claude"
    if file.parent.name == "profiles" or file.parent == (own and own.resolve()) or isinstance(raw, FileError):
        return "user"
    return "user" if _OWN_KEYS().search(raw.decode("utf-8", "replace")) else "claude"


class _ProfileSearch:
    def __init__(self, token_cap: int, env: Mapping[str, str] | None) -> None:
        self.token_cap, self._env = token_cap, env
        self.found: dict[str, Profile] = {}
        self.hidden: list[Profile] = []
        self.problems: list[FileError] = []
        self.announcements: list[str] = []
        self.whose = "the project"
        """Who brings the files that are added, for people."""
        self._broken: dict[str, FileError] = {}
        """Why a file that Friday's own format is meant for cannot be used, by the name of its profile: none of a later folder takes its
        place."""

    def folder(self, folder: Path, origin: Origin) -> None:
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".md" and not path.is_dir())
        except OSError:
            return
        cache = ParseCache(folder, len(paths), self._env)
        for path in paths:
            if not path.is_file():
                self._unusable(path, origin, "is not a file.")
                continue
            raw = frontmatter.contents(path)
            sha = trust.hash_of(raw) if len(paths) >= MIN_FILES and isinstance(raw, bytes) else ""
            self._file(path, origin, cache, sha, lambda raw=raw: raw)  # type: ignore[misc]
        cache.save()

    def project(self, project: trust.Trust) -> None:
        folders: tuple[tuple[str, Origin], ...] = (
            (".friday/profiles/", "project"),
            ("profiles/", "project"),
            (".agents/agents/", "claude"),
            (".claude/agents/", "claude"),
        )
        cache = ParseCache(project.root, len(project.files), self._env)
        for prefix, origin in folders:
            for relative, path, sha in trust.markdown_names(project, prefix):
                if ("/" not in relative or origin == "claude") and not is_shipped_copy(prefix + relative, sha):
                    self._file(path, origin, cache, sha, partial(trust.trusted_content, path, sha))
        cache.save()

    def plugins(self, project: trust.Trust | None) -> None:
        """Add the profiles of plugins, and the problems of plugins."""
        found = find_plugins(project, self._env)
        for plugin in found.found if found else ():
            self.whose = f"the plugin {plugin.name}"
            cache = ParseCache(plugin.root, 0, self._env)
            for names, origin in ((plugin.profiles, "project"), (plugin.agents, "claude")):
                for name in names:
                    path, sha = plugin.root / name, plugin.files.files[name]
                    self._file(path, origin, cache, sha, partial(trust.trusted_content, path, sha))  # type: ignore[arg-type]
        self.announcements += found.problems if found else ()

    def _file(
        self, path: Path, origin: Origin, cache: ParseCache, sha: str, read: Callable[[], bytes | FileError]
    ) -> None:
        """Add what a file with this content holds, if it is a profile."""
        key = f"{origin} {self.token_cap} {sha} {path}"
        known = cache.get(key) if sha else None
        if known is None:
            raw = read()
            skip = isinstance(raw, bytes) and not is_profile(raw)
            known = ParsedFile.of(None if skip else self.parsed(path, origin, raw))
            if sha and isinstance(raw, bytes):
                cache.put(key, known)
        if (result := known.result(str(path))) is not None:
            self.add(path, origin, result)
        else:
            hint = "Begin it with a line `---`, `name: ...`, `description: ...` and a line `---`."
            self._unusable(path, origin, "is not a profile.", hint)

    def _unusable(self, path: Path, origin: Origin, why: str, hint: str = "") -> None:
        """A file that is not a profile. One of the person is a problem where a profile has its name."""
        if origin == "user":
            self._broken.setdefault(path.stem, FileError(str(path), why, hint=hint))

    def parsed(self, path: Path, origin: Origin, raw: bytes | FileError) -> Profile | FileError:
        """The profile in a file, or why it cannot be used."""
        if isinstance(raw, FileError):
            return raw
        from .parse import parse  # what was parsed before is in a cache

        try:
            return parse(str(path), raw, origin=origin, token_cap=self.token_cap)
        except FileError as error:
            return error

    def add(self, path: Path, origin: Origin, profile: Profile | FileError) -> None:
        """Add a profile, or the error of its file."""
        if isinstance(profile, FileError):
            self.problems.append(profile)
            if origin in ("user", "project"):
                self._broken.setdefault(_written_name(path), profile)
            return
        broken = self._broken.get(profile.name)
        if broken is not None and Path(broken.path).parent != path.parent and profile.name not in self.found:
            if broken not in self.problems:
                self.problems.append(broken)
            return  # it would give what the file before it may have withheld
        before = self.found.setdefault(profile.name, profile)
        if before is profile:
            if origin in ("project", "claude") and profile.name in SHIPPED_NAMES:
                self.announcements.append(f"{path} of {self.whose} replaces the built-in profile {profile.name}.")
            return
        self.hidden.append(profile)
        if Path(before.path).parent == path.parent:
            problem = f"has the same name as {before.path}."
            self.problems.append(FileError(str(path), problem, field="name", hint="Rename it; it is not used."))

    def check_sub_agents(self, names: Collection[str]) -> None:
        """Remove references to sub-agents that are not in `names`, and add a problem for each."""
        for profile in list(self.found.values()):
            if profile.sub_agents == "*":
                continue
            missing = [name for name in profile.sub_agents if name not in names]
            if missing and profile.imported:
                note = f"its sub-agents {', '.join(missing)} do not exist."
                kept = tuple(name for name in profile.sub_agents if name in names)
                self.found[profile.name] = msgspec.structs.replace(
                    profile, sub_agents=kept, notices=(*profile.notices, note)
                )
            elif missing:
                close = closest_match(missing[0], names)
                hint = f"Did you mean {close}?" if close else f"Available: {', '.join(sorted(names))}."
                problem = f"there is no profile {', '.join(missing)}."
                self.problems.append(FileError(profile.path, problem, field="subAgents", hint=hint))
                kept = tuple(name for name in profile.sub_agents if name in names)
                self.found[profile.name] = msgspec.structs.replace(profile, sub_agents=kept)


def _written_name(path: Path) -> str:
    """The name of the profile in a file that cannot be used, as far as it can be read; else that of the file."""
    raw = frontmatter.contents(path) if path.is_file() else b""
    found = None if isinstance(raw, FileError) else _NAME().search(raw.decode("utf-8", "replace"))
    return found[1].lower() if found else path.stem


def is_profile(raw: bytes) -> bool:
    """Whether a Markdown file is intended as a profile: its front matter has a name, or keys that only profiles have."""
    text = raw.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    parts = frontmatter.split(text)
    return parts is not None and (frontmatter.has_name(text) or _PROFILE_KEYS().search(parts[0]) is not None)
