"""`code` and `rename_symbol`, `/lsp` and the doctor. The server is a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, PermissionAsked
from friday_cli.diagnostics.doctor import examine
from friday_cli.extensions import trust
from friday_cli.lsp.navigate import edited
from friday_cli.lsp.protocol import Position, TextEdit, TextSpan
from friday_cli.system.paths import config_dir
from tests.frontends.tui.chat import opened
from tests.lsp.test_changes import TRUSTED
from tests.lsp.test_commands import entry, write
from tests.session.conftest import harness as harness
from tests.session.harness import Harness, delegates, does, says, wait_for
from tests.session.test_rewind import everything

FILES = {
    "model.bad": "def area 1\ndef length 2\n",
    "one.bad": "use area 1\nuse length 2\n",
    "\U0001f600.bad": "\U0001f600\U0001f600 use area 1\n",
    "words.bad": "the area of it\n",
}
FLAGS = {"flags": TRUSTED["flags"] | {"lsp.tool": "on"}}


def code(action: str, path: str = "model.bad", **more: Any) -> tuple[str, dict[str, Any]]:
    return "code", {"action": action, "path": path, **more}


def rename(new: str = "size", **more: Any) -> tuple[str, dict[str, Any]]:
    return "rename_symbol", {"path": "model.bad", "name": "area", "new_name": new, **more}


@pytest.fixture
def project(harness: Harness) -> Harness:
    write(config_dir(), "lsp.json", {"script": entry("none")})
    for name, text in FILES.items():
        (harness.project / name).write_text(text, encoding="utf-8")
    return harness


async def results(harness: Harness, *turns: Any, **options: Any) -> list[tuple[str, str]]:
    harness.plays({"a": [*turns, says("done")]})
    session = await harness.ran(**TRUSTED | FLAGS | options)
    return await harness.results(session.id, "a")


@pytest.mark.parametrize(
    ("call", "status", "text"),
    [
        (code("symbols"), "ok", "1: function area\n2: function length"),
        (
            code("references", name="area"),
            "ok",
            "one.bad\n1: use area 1\n\U0001f600.bad\n1: \U0001f600\U0001f600 use area 1",
        ),
        (code("definition", "one.bad", name="length"), "ok", "model.bad\n2: def length 2"),
        (code("calls", name="length"), "ok", "one.bad\n2: use length 2"),
        (code("hover", name="area"), "ok", "area: a number"),
        (code("problems", "one.bad"), "ok", "script: no problems."),
        (code("references", name="nothing"), "error", "There is no nothing in this file"),
        (code("references", name="area", line=2), "error", "Line 2 has no area"),
        (code("references"), "error", "references needs a name"),
        (code("symbols", "other.txt"), "error", "No language server is installed for .txt"),
    ],
)
async def test_what_the_tool_answers(
    call: tuple[str, dict[str, Any]], status: str, text: str, project: Harness
) -> None:
    (project.project / "other.txt").write_text("x\n")
    ((found, answer),) = await results(project, does(call))
    assert found == status
    assert text in answer
    assert "\x1b" not in answer


async def test_a_rename_is_shown_then_written_in_all_files_and_rewound(project: Harness) -> None:
    before = everything(project.project)
    project.plays({"a": [does(rename()), does(rename(apply=True)), says("done")]})
    async with project.after_run(**TRUSTED | FLAGS) as session:
        shown, written = (text for _, text in await project.results(session.id, "a"))
        assert "3 files would change" in shown
        assert "-def area 1\n+def size 1" in shown
        assert "The word area also occurs in words.bad: not changed there." in shown
        assert written == "Renamed area to size in 3 files.\nscript: no new problems (4 files)"
        smile = (project.project / "\U0001f600.bad").read_text(encoding="utf-8")
        assert smile == "\U0001f600\U0001f600 use size 1\n"
        await session.rewind.to(1, "files")
    assert everything(project.project) == before


async def test_a_rename_that_only_shows_needs_the_rights_of_reading(project: Harness) -> None:
    shown, written = await results(project, does(rename()), does(rename(apply=True)), mode="ask")
    assert shown[0] == "ok"
    assert "3 files would change" in shown[1]
    assert written[0] == "denied"
    (other,) = await results(project, does(rename()), deny=("read_file(words.bad)",))
    assert "words.bad" not in other[1]
    (kept,) = await results(project, does(rename()), deny=("read_file(one.bad)",))
    assert kept == ("error", "It would change 1 file that you may not read. Nothing was changed.")


@pytest.mark.parametrize(
    ("fault", "deny", "why"),
    [
        ("none", "edit_file(one.bad)", "one.bad"),
        ("none", "write_file(one.bad)", "one.bad"),
        ("outside", "", "outside"),
        ("moves", "", "also move files"),
        ("overlaps", "", "overlap"),
    ],
)
async def test_one_file_that_may_not_be_changed_refuses_the_whole_rename(
    fault: str, deny: str, why: str, project: Harness
) -> None:
    write(config_dir(), "lsp.json", {"script": entry(fault)})
    before = everything(project.project)
    found = await results(project, does(rename()), does(rename(apply=True)), deny=tuple(filter(None, (deny,))))
    assert found[-1][0] in ("denied", "error")
    assert why in "".join(text for _, text in found)
    assert everything(project.project) == before


async def test_a_rename_that_was_not_shown_is_not_asked_about(project: Harness) -> None:
    """The question could name one file only, and another agent could show it meanwhile."""
    ((status, text),) = await results(project, does(rename(apply=True)), mode="ask")
    assert (status, "Call it without apply first" in text) == ("error", True)


async def test_what_a_person_was_asked_about_is_written_and_no_more(project: Harness) -> None:
    """Another agent has the same rename shown, of more files, while the question is open."""
    write_more = ("write_file", {"path": "more.bad", "content": "use area 1\n"})
    project.plays(
        {
            "a": [
                delegates("general", background=True),
                does(rename()),
                does(rename(apply=True)),
                says("done"),
                says("done"),
            ],
            "a.1": [does(("bash", {"command": wait_for("asked")})), does(write_more), does(rename()), says("shown")],
        }
    )
    flags = FLAGS["flags"] | {"permissions.ask": ("edit_file(one.bad)",)}
    async with project.session(**TRUSTED | {"flags": flags, "mode": "yolo", "attended": True}) as session:
        run, asked = session.start("go"), ""
        async for envelope in session.events():
            if isinstance(event := envelope.event, PermissionAsked):
                asked = event.id
                (project.project / "asked").touch()
            elif isinstance(event, AgentFinished) and envelope.agent == "a.1":
                assert await session.answer(asked, ApprovalAnswer("allow"))
                break
        await session.result(run)
        found = await project.results(session.id, "a.1")
        assert "4 files would change" in found[-1][1]
        assert (await project.results(session.id, "a"))[2][1].startswith("Renamed area to size in 3 files.")
    assert (project.project / "more.bad").read_text() == "use area 1\n"


async def test_of_files_outside_a_server_learns_agents_the_place_alone(project: Harness) -> None:
    """The server is confined, what reads the lines for the answer is not."""
    secret = project.project.parent / "secret.txt"
    secret.write_text("the key\n", encoding="utf-8")
    (project.project / "link.txt").symlink_to(secret)
    write(config_dir(), "lsp.json", {"script": entry("outside")})
    ((status, text),) = await results(project, does(code("definition", name="area")))
    assert status == "ok"
    assert "secret.txt\n1: " in text
    assert "the key" not in text


async def test_a_file_that_changed_since_refuses_the_whole_rename(project: Harness) -> None:
    change = does(("bash", {"command": "echo more >> one.bad"}))
    found = await results(project, does(rename()), change, does(rename(apply=True)))
    assert found[2][0] == "error"
    assert "one.bad changed since the diff was shown" in found[2][1]
    assert (project.project / "model.bad").read_text() == FILES["model.bad"]


def replaced(line: int, start: int, end: int) -> list[TextEdit]:
    return [TextEdit(TextSpan(Position(line, start), Position(line, end)), "x")]


def test_edits_count_columns_as_the_server_does() -> None:
    text = "\U0001f600 a\r\nb a"
    assert edited(text, replaced(0, 3, 4), "utf-16") == "\U0001f600 x\r\nb a"
    assert edited(text, replaced(0, 5, 6), "utf-8") == "\U0001f600 x\r\nb a"


def test_lines_end_where_they_end_for_a_server() -> None:
    assert edited("a\fc\u2028d\nb\r\n", replaced(1, 0, 1), "utf-16") == "a\fc\u2028d\nx\r\n"


@pytest.mark.parametrize("marked", [True, False])
async def test_agents_have_the_tools_only_where_a_server_is(marked: bool, project: Harness) -> None:
    write(config_dir(), "lsp.json", {"ty": entry("none", extensionToLanguage={".py": "python"})})
    if marked:
        (project.project / "pyproject.toml").write_text("")
    project.plays({"a": [says("done")]})
    for trusted in (True, False):
        session = await project.ran(**TRUSTED | {"trusted": trusted})
        started = next(e.event for e in await project.log(session.id) if isinstance(e.event, AgentStarted))
        assert {"code", "rename_symbol"}.issubset(started.tools) is (marked and trusted)


async def test_the_chat_shows_restarts_and_switches_them(tmp_path: Path, home: Path) -> None:
    write(config_dir(), "lsp.json", {"script": entry("none")})
    turn = {"text": "1", "calls": [{"name": "write_file", "arguments": {"path": "new.bad", "content": "BAD new\n"}}]}
    async with opened(tmp_path, {"a": [turn, {"text": "done"}]}, size=(160, 50)) as chat:
        await chat.say("/lsp", shows="no language servers")
    trust.decide(tmp_path, True)
    async with opened(
        tmp_path, {"a": [turn, {"text": "done"}]}, size=(160, 50), mode="yolo", flags=TRUSTED["flags"]
    ) as chat:
        await chat.say("/lsp", shows="none has been needed so far")
        await chat.ask("go", shows="script: 1 new problem: new.bad:1 bad: BAD new [bad]")
        await chat.say("/lsp", shows="script: runs, ")
        await chat.say("/lsp restart", shows="1 language server stopped")
        await chat.say("/lsp restart nothing", shows="There is no language server nothing")
        await chat.say("/lsp off", shows="Checks of changes are off in this session.")


def test_the_doctor_names_the_server_or_what_to_install(tmp_path: Path, home: Path) -> None:
    def facts() -> dict[str, str]:
        return {
            fact.name: f"{fact.text} {fact.hint}" for fact in examine(cwd=tmp_path) if fact.area == "language servers"
        }

    assert facts() == {"needed": "none: no project of a known language here "}
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "node_modules" / ".bin").mkdir(parents=True)
    (tmp_path / "package.json").write_text(json.dumps({}))
    found = facts()
    assert "no language server is installed" in found["*.js"]
    assert "npm install -D typescript@7" in found["*.js"]
    assert "not used" not in found  # there is no server that trust would start
    write(config_dir(), "lsp.json", {"ty": entry("none", extensionToLanguage={".py": "python"})})
    assert "without the sandbox" in facts()["ty"]
