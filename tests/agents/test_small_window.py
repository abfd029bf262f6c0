"""Models with a small context window get a compact request, with room left for the work."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from friday_cli.config.settings import Settings
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import Notice
from friday_cli.core.protocol.provider import Request, estimate_request
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.llm import models
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from tests.engine_fixture import Model, Say, call, delegate, script

COMPACT = {"read_file", "edit_file", "grep", "bash", "delegate_task"}
WORK = {
    "a": [
        Say("", [call("read_file", path="notes.txt")]),
        Say("", [delegate("coder", "look at notes.txt")]),
        Say("all done"),
    ],
    "a.1": [Say("", [call("read_file", path="notes.txt")]), Say("", [call("task_result", result="it says hello")])],
}


def make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


async def worked(folder: Path, patch: pytest.MonkeyPatch, window: int) -> tuple[RunResult, list[Request], list[str]]:
    """A run of `WORK` with a service that refuses what does not fit into `window` tokens."""

    def play(request: Request, count: int) -> Say:
        needed = estimate_request(request) + request.max_output
        if window and needed > window:
            return Say(fail=ProviderError("context", f"request ({needed} tokens) exceeds the available context size"))
        return script(WORK)(request, count)

    model = Model(play, window=window, max_output=min(4_000, window // 2))

    def make(choice: models.ModelChoice, settings: Settings, *, env: object, web_search: bool, **more: object) -> Model:
        return model

    patch.setattr(models, "create_provider", make)
    (folder / "notes.txt").write_text("hello\n" * 50)
    env = {"FRIDAY_HOME": str(folder / "home"), "FRIDAY_SANDBOX": "none", "ANTHROPIC_API_KEY": "sk-0123456789"}
    session = await Session.open(Options(folder, model="anthropic/x"), env=env)
    try:
        ended = await session.prompt("read notes.txt")
        notices = [e.event.text for e in await session.history() if isinstance(e.event, Notice)]
    finally:
        await session.close()
    return ended, model.requests, notices


@pytest.mark.parametrize(
    ("window", "most", "warned"),
    [(4_096, 1_800, True), (8_192, 1_800, False), (15_999, 1_800, False), (16_000, 4_000, False)],
)
async def test_the_request_fits_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, most: int, warned: bool
) -> None:
    make_repository(tmp_path)  # with the tools for worktrees
    ended, requests, notices = await worked(tmp_path, monkeypatch, window)
    assert (ended.status, ended.text) == ("completed", "all done")
    first = {request.agent: request for request in reversed(requests)}
    assert estimate_request(first["a"]) <= most
    names = {spec.name for spec in first["a"].tools}
    assert names == COMPACT if window < 16_000 else names > COMPACT
    assert ({spec.name for spec in first["a.1"].tools} <= COMPACT | {"task_result"}) == (window < 16_000)
    assert [f"{window:,} tokens: too few" in text for text in notices if "context window" in text] == [True] * warned
