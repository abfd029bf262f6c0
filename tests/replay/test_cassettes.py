"""The recorded trees, replayed: nothing differs, no service is contacted, and what changed since is named at its place."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from friday_cli.agents import system_prompt
from friday_cli.core.protocol import events
from friday_cli.core.protocol.errors import FridayError
from friday_cli.session.replay.answers import ReplayOptions
from friday_cli.session.replay.cassette import Cassettes
from friday_cli.session.replay.clock import run
from friday_cli.session.replay.drive import Replayed, replay
from friday_cli.session.replay.recording import Recording, read_recording
from friday_cli.system.paths import config_dir
from tests.replay.record import FOLDER, missing
from tests.replay.scenes import SCENES, Scene, set_up

RECORD_AGAIN = "If this is meant: python -m tests.replay.record, look at git diff, and commit it."
BY_NAME = {scene.name: scene for scene in SCENES}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def recording_of(scene: Scene, project: Path) -> Recording:
    set_up(project, scene)
    return read_recording(Cassettes(FOLDER).read(scene.name, project))


def played(recording: Recording, project: Path, *, go_on: bool = False) -> Replayed:
    return run(replay(recording, ReplayOptions(folder=project, runs_hooks=True, go_on=go_on)))


def differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], list[str]]:
    """All differences of all recorded trees: each change once, with the names of those that it meets."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for scene in SCENES:
        place = tmp_path.resolve() / scene.name
        (place / "project").mkdir(parents=True)
        monkeypatch.setenv("FRIDAY_HOME", str(place / "home"))
        monkeypatch.chdir(place / "project")
        recording = recording_of(scene, place / "project")
        assert missing(scene, list(recording.envelopes)) == []
        result = played(recording, place / "project")
        for one in result.divergences:
            found[(*one.change, one.text)].append(scene.name)
        assert result.stops_at == "", scene.name
        sent = [one for requests in recording.requests.values() for one in requests if one.event is not None]
        assert result.divergences or result.requests >= len(sent), scene.name
    return found


def test_recorded_trees_are_replayed_without_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = differences(tmp_path, monkeypatch)
    texts = [f"{change[-1]}\nin {', '.join(names)}" for change, names in found.items()]
    assert not texts, "\n\n".join([*texts, RECORD_AGAIN])


def test_a_shipped_text_that_changed_is_one_difference_over_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _shipped_text(tmp_path, monkeypatch)
    changes = {change[:-1]: names for change, names in differences(tmp_path, monkeypatch).items()}
    ((kind, where, before, after),) = changes
    assert (kind, where) == ("prefix", "system")
    assert after == before.replace("Report failures", "Always report failures")


def test_there_are_at_least_fifty_and_their_texts_are_stored_once() -> None:
    shelf = Cassettes(FOLDER)
    assert sorted(BY_NAME) == shelf.names()
    assert len(BY_NAME) >= 50
    texts = json.loads((FOLDER / "texts.json").read_text(encoding="utf-8"))
    assert len([name for name in texts if name.startswith("text Say only what is true")]) == 1


# ---- planted changes ------------------------------------------------------------------------------------------------

Plant = Callable[[Path, pytest.MonkeyPatch], None]


def _instructions(project: Path, patch: pytest.MonkeyPatch) -> None:
    (project / "AGENTS.md").write_text("Never use tabs.\n", encoding="utf-8")


def _shipped_text(project: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(system_prompt, "HONESTY", system_prompt.HONESTY.replace("Report failures", "Always report failures"))


def _profile(project: Path, patch: pytest.MonkeyPatch) -> None:
    path = config_dir() / "profiles" / "worker.md"
    path.write_text(
        path.read_text(encoding="utf-8").replace("You are the worker.", "You are a worker."), encoding="utf-8"
    )


def _tool_gone(project: Path, patch: pytest.MonkeyPatch) -> None:
    path = config_dir() / "profiles" / "worker.md"
    text = path.read_text(encoding="utf-8").replace("allowedTools: '*'", "allowedTools: '*'\ndisallowedTools: [todo]")
    path.write_text(text, encoding="utf-8")


def _rule(project: Path, patch: pytest.MonkeyPatch) -> None:
    (config_dir() / "config.toml").write_text('[permissions]\ndeny = ["read_file(README.md)"]\n', encoding="utf-8")


def _hook(project: Path, patch: pytest.MonkeyPatch) -> None:
    hook = {"matcher": "Read", "hooks": [{"type": "command", "command": "cat >/dev/null; echo no >&2; exit 2"}]}
    (config_dir() / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}), encoding="utf-8")


READERS = (
    "parallel-2",
    "parallel-4",
    "batch-2",
    "nested-three",
    "retry-in-children",
    "child-continued",
)
WITH_WORKERS = (
    "parallel-2",
    "parallel-3",
    "batch-4",
    "nested-two",
    "retry-in-children",
    "child-continued",
    "tokens-used-up",
)
ANY = ("two-prompts", "compaction", "question", "worktree-applied", "hook-denies", "parallel-5", "killed-in-a-tool")
PLANTED: list[tuple[str, Plant, str, str]] = [
    *((name, _instructions, "prefix", "AGENTS.md") for name in ANY),
    *((name, _shipped_text, "prefix", "a text of Friday") for name in ANY),
    *((name, _profile, "prefix", "profile worker") for name in WITH_WORKERS),
    *((name, _tool_gone, "prefix", "profile worker") for name in WITH_WORKERS),
    *((name, _rule, "permission", "settings") for name in READERS),
    *((name, _hook, "hook", "hooks.json") for name in READERS),
]


def _first_worker(recording: Recording) -> tuple[str, int]:
    starts = (e for e in recording.envelopes if isinstance(e.event, events.Requested))
    return next((e.agent, 1) for e in starts if recording.profiles[e.agent] == "worker")


def _first_read(recording: Recording) -> set[tuple[str, int]]:
    """The agents that read the file, each with the turn in which it first does."""
    found: dict[str, int] = {}
    for path, requests in recording.requests.items():
        for request in requests:
            if request.reply is not None and any(call.name == "read_file" for call in request.reply.calls):
                found.setdefault(path, request.turn)
    return set(found.items())


@pytest.mark.parametrize(("name", "plant", "kind", "cause"), PLANTED)
def test_a_planted_change_is_named_at_its_place(
    name: str, plant: Plant, kind: str, cause: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recording_of(BY_NAME[name], project)
    plant(project, monkeypatch)
    (found,) = played(recording, project).divergences
    assert (found.kind, found.cause.removesuffix(" changed since")) == (kind, cause), found.text
    if plant in (_instructions, _shipped_text):
        assert (found.agent, found.turn, found.where) == ("a", 1, "system")
        assert found.line > 1
    elif plant is _profile:
        assert (found.agent, found.turn, found.where, found.line) == (*_first_worker(recording), "system", 1)
        assert (found.before, found.after) == ("You are the worker.", "You are a worker.")
    elif plant is _tool_gone:
        assert (found.agent, found.turn, found.where) == (*_first_worker(recording), "tool todo is gone")
    else:
        assert (found.agent, found.turn) in _first_read(recording), found.text


def test_a_hook_that_stops_denying_is_named(project: Path) -> None:
    recording = recording_of(BY_NAME["hook-denies"], project)
    (config_dir() / "hooks.json").unlink()
    (found,) = played(recording, project).divergences
    assert (found.kind, found.agent, found.turn) == ("hook", "a", 1)
    assert "said deny then" in found.text


HOOKED = [scene.name for scene in SCENES if scene.hooks]


@pytest.mark.parametrize("name", HOOKED)
def test_hooks_that_do_not_run_say_what_they_said(name: str, project: Path) -> None:
    recording = recording_of(BY_NAME[name], project)
    (config_dir() / "hooks.json").unlink()
    found = run(replay(recording, ReplayOptions(folder=project)))
    assert not found.divergences, found.divergences[0].text


def test_with_go_on_one_change_hides_no_other(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even in the same request."""
    recording = recording_of(BY_NAME["hook-denies"], project)
    text = (config_dir() / "hooks.json").read_text(encoding="utf-8").replace("never here", "not now")
    (config_dir() / "hooks.json").write_text(text, encoding="utf-8")
    _instructions(project, monkeypatch)
    found = {one.where: one.after for one in played(recording, project, go_on=True).divergences}
    assert found["system"].startswith("# Files of a folder")
    assert "not now" in found["message 3, result of call_a_1_1"]


def test_with_go_on_the_replay_reaches_its_end_and_names_all_changes(project: Path) -> None:
    recording = recording_of(BY_NAME["parallel-3"], project)
    _profile(project, pytest.MonkeyPatch())
    result = played(recording, project, go_on=True)
    assert {found.agent for found in result.divergences} == {"a.1", "a.2", "a.3"}
    assert result.requests == sum(map(len, recording.requests.values()))


def test_a_damaged_cassette_is_an_error_or_a_difference_at_once(project: Path, tmp_path: Path) -> None:
    """Each line is left out, or is there twice. What then never comes is not waited for."""
    name = "asked-and-denied"
    rows = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "texts.json").write_bytes((FOLDER / "texts.json").read_bytes())
    set_up(project, BY_NAME[name])
    for number in range(len(rows)):
        changed = rows[:number] + rows[number + 1 :] if number % 2 else rows[: number + 1] + rows[number:]
        (tmp_path / "x.jsonl").write_text("".join(changed), encoding="utf-8")
        with suppress(FridayError):
            played(read_recording(Cassettes(tmp_path).read("x", project)), project)
