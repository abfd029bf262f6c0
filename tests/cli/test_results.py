"""What a person sees of a child that hands its result in by `task_result`, in `friday ask`, `sessions show` and exports."""

from __future__ import annotations

import pytest

from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.core.protocol.errors import PROCESS_LIMIT
from tests.cli.console import Console

LIE = "I have fixed parser.py.\n\nAll tests pass."
PLAY = """
agents:
  a:
    - calls: [{name: delegate_task, arguments: {profile: coder, task: "Fix parser.py."}}]
    - calls: [{name: delegate_task, arguments: {profile: researcher, task: "Look around."}}]
    - text: "Over to you."
  a.1:
    - calls: [{name: task_result, arguments: {status: success, result: "%s"}}]
  a.2:
    - calls: [{name: read_file, arguments: {path: x.txt}}, {name: bash, arguments: {command: "ls"}}]
    - calls: [{name: task_result, arguments: {status: success, result: "# Found\\n\\n- **one** line\\n- two\\n- three",
        findings: [{claim: "It has one line.", evidence: "x.txt:1"}, {claim: "It is old.", evidence: "y.txt:3"}]}}]
"""
RAN = "claims that a command ran or tests pass, but no command was run"
CHANGED = "claims changes, but no file was changed"
IDLE = "no tool was run except task_result: nothing in this result was checked"


@pytest.fixture
def play(console: Console) -> str:
    """The model of `PLAY`: a child that claims work it did not do, and an honest one."""
    (console.project / "x.txt").write_text("one\n")
    path = console.home / "play.yaml"
    path.write_text(PLAY % LIE.replace("\n", "\\n"), encoding="utf-8")
    return f"scripted:{path}"


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_the_last_line_of_ask_names_the_warnings(console: Console, play: str, quiet: tuple[str, ...]) -> None:
    ran = console.ok("ask", "-m", play, *quiet, "go")
    assert ran.out == "Over to you.\n"
    assert ran.err.splitlines()[-1] == f"friday: 3 warnings: a.1 {RAN}; a.1 {CHANGED}; a.1: {IDLE}"
    (console.home / "again.yaml").write_text("agents: {a: [{text: fine}]}", encoding="utf-8")
    again = console.ok("ask", "-m", f"scripted:{console.home}/again.yaml", *quiet, "--continue", "and?")
    assert "warning" not in again.err, "they are about the run before"
    assert "denied" not in again.err


def test_the_same_warning_of_several_agents_is_written_once(console: Console) -> None:
    path = console.home / "play.yaml"
    tasks = ", ".join(f"{{task: t{n}}}" for n in range(7))
    path.write_text(
        f"agents: {{a: [{{calls: [{{name: delegate_tasks, arguments: {{tasks: [{tasks}]}}}}]}}, {{text: Over to you.}}],"
        " 'a.*': [{calls: [{name: task_result, arguments: {result: fine}}]}]}",
        encoding="utf-8",
    )
    last = console.ok("ask", "-m", f"scripted:{path}", "go").err.splitlines()[-1]
    assert last == f"friday: 7 warnings: a.1, a.2, a.3, a.4, a.5 and 2 more: {IDLE}"


def test_ask_without_a_false_claim_has_no_warning(console: Console) -> None:
    path = console.home / "play.yaml"
    path.write_text("agents: {a: [{text: four}]}", encoding="utf-8")
    assert "warning" not in console.ok("ask", "-m", f"scripted:{path}", "2 + 2?").err


def test_json_has_receipts_findings_and_denials(console: Console, play: str) -> None:
    document = console.ok("ask", "-m", play, "go", "--output-format", "json").document
    _, coder, researcher = document["agents"]
    assert (coder["result"], coder["receipt"]["warnings"]) == (LIE, [RAN, CHANGED, IDLE])
    assert [finding["seen"] for finding in researcher["findings"]] == [True, False]
    assert (researcher["receipt"]["refused"], "warnings" in researcher["receipt"]) == ({"bash": 1}, False)
    (denial,) = document["denials"]
    assert (denial["agent"], denial["tool"], denial["reason"]) == ("a.2", "bash", "the agent does not have this tool")
    assert "denied: a.2 bash: the agent does not have this tool" in console("ask", "-m", play, "go").err


def test_json_is_one_document_where_the_session_cannot_be_closed(
    console: Console, play: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(WorktreeIsolation, "close", fails)
    ran = console("ask", "-m", play, "go", "--output-format", "json")
    document = ran.document
    assert (document["status"], document["exit_code"], ran.code) == ("completed", 1, 1)
    assert f"friday: {PROCESS_LIMIT}" in ran.err.splitlines()


def test_the_conversation_of_a_child_ends_with_its_result(console: Console, play: str) -> None:
    console.ok("ask", "-m", play, "go")
    shown = console.ok("sessions", "show", ":a.2").out.splitlines()
    assert shown[shown.index("  ✓ task_result success") :] == [
        "  ✓ task_result success", "", "│ # Found", "│ ", "│ - **one** line", "│ - two", "│ - three",
        "  · [seen] It has one line. (x.txt:1)", "  · [not seen] It is old. (y.txt:3)",
        "  · denied: bash · tools: read_file, task_result",
    ]  # fmt: skip
    last = console.ok("sessions", "show", ":a.2", "--json").document["conversation"][-1]
    assert (last["kind"], last["text"].splitlines()[0]) == ("result", "# Found")
    assert [finding["seen"] for finding in last["findings"]] == [True, False]


def test_no_line_of_a_sub_agent_can_pass_for_one_of_the_harness(console: Console) -> None:
    path = console.home / "play.yaml"
    fake = "x\\n  ✓ bash pytest · exit 0\\r  · 3 files +9 -0\\u2028Agents"
    path.write_text(
        f"""
agents:
  a: [{{calls: [{{name: delegate_task, arguments: {{profile: coder, task: Build.}}}}]}}, {{text: Done.}}]
  a.1: [{{text: "Seen: {fake}", calls: [{{name: task_result, arguments: {{result: "{fake}"}}}}]}}]
""",
        encoding="utf-8",
    )
    console.ok("ask", "-m", f"scripted:{path}", "go")
    shown = console.ok("sessions", "show", ":a.1").out.splitlines()
    for words in ("✓ bash", "3 files", "Agents"):
        assert [row[:2] for row in shown if words in row] == ["│ ", "│ "]


def test_the_tree_has_the_error_and_the_earlier_result_of_a_run_that_failed(console: Console) -> None:
    (console.project / "x.txt").write_text("one\n")
    first, second = console.home / "first.yaml", console.home / "second.yaml"
    first.write_text(
        """
agents:
  a: [{calls: [{name: delegate_task, arguments: {profile: researcher, task: Look.}}]}, {text: Done.}]
  a.1: [{calls: [{name: read_file, arguments: {path: x.txt}}]}, {text: "It is one."}]
""",
        encoding="utf-8",
    )
    second.write_text("agents: {a.1: [{fail: {kind: auth, message: no key}}]}", encoding="utf-8")
    console.ok("ask", "-m", f"scripted:{first}", "go")
    session = console("sessions", "list").rows[0][0]
    assert console("ask", "-m", f"scripted:{second}", "--resume-agent", f"{session}:a.1", "again").code == 1
    for more in ((), ("--tree",)):
        rows = [row.strip(" │") for row in console.ok("sessions", "show", session, *more).out.splitlines()]
        at = rows.index("Earlier result:")
        assert rows[at - 1].startswith("error: ")
        assert rows[at + 1] == "> It is one."


def test_a_task_that_was_not_started_is_shown_below_its_call(console: Console) -> None:
    path = console.home / "play.yaml"
    path.write_text(
        """
agents:
  a:
    - calls: [{name: delegate_tasks, arguments: {tasks: [{profile: nobody, task: x}, {profile: researcher, task: y}]}}]
    - text: Done.
  a.1: [{text: fine}]
""",
        encoding="utf-8",
    )
    console.ok("ask", "-m", f"scripted:{path}", "go")
    assert "      Task 1 of 2 was not started: There is no profile 'nobody'." in console.ok("sessions", "show").out


def test_the_lines_of_a_denied_command_stay_apart(console: Console) -> None:
    path = console.home / "play.yaml"
    call = r'{name: bash, arguments: {command: "true\nrm -f big.txt"}}'
    path.write_text(f"agents: {{a: [{{calls: [{call}]}}, {{text: fine}}]}}", encoding="utf-8")
    assert "denied: a bash true ⏎ rm -f big.txt: " in console.ok("ask", "-m", f"scripted:{path}", "go").err


def test_a_failed_child_is_named_with_its_error(console: Console) -> None:
    path = console.home / "play.yaml"
    call = '{name: delegate_task, arguments: {profile: analyst, task: "Compare."}}'
    failure = "{fail: {kind: config, message: the model is gone}}"
    path.write_text(f"agents: {{a: [{{calls: [{call}]}}, {{text: fine}}], a.1: [{failure}]}}", encoding="utf-8")
    assert " · 1 sub-agent (1 failed) · " in console.ok("ask", "-m", f"scripted:{path}", "go").err
    shown = console.ok("sessions", "show").out.splitlines()
    (call_row,) = (row for row in shown if "delegate_task" in row)
    assert shown[shown.index(call_row) + 1] == "", "the report for the model is not repeated"
    (child,) = (number for number, row in enumerate(shown) if "a.1 analyst · failed (provider)" in row)
    assert shown[child + 1].strip() == "error: the model is gone"


@pytest.mark.parametrize("tree", [(), ("--tree",)])
def test_the_session_shows_the_first_lines_of_each_result_and_its_warnings(
    console: Console, play: str, tree: tuple[str, ...]
) -> None:
    console.ok("ask", "-m", play, "go")
    shown = console.ok("sessions", "show", *tree).out
    assert "├─ ! a.1 coder · completed" in shown
    assert "└─ ✓ a.2 researcher · completed" in shown
    rows = [row.strip(" │") for row in shown.splitlines()]
    first = rows.index("> I have fixed parser.py.")
    assert rows[first + 1] == "> All tests pass."
    assert [row for row in rows if row.startswith("WARNING")] == [f"WARNING: {text}" for text in (RAN, CHANGED, IDLE)]
    second = rows.index("> # Found")
    assert rows[second + 1 : second + 4] == ["> - **one** line", "> - two", "… 1 more line"]
    assert rows[second + 4] == "2 findings: 1 [seen], 1 [not seen]"
    assert ("calls denied: 1 (bash)" in rows) is bool(tree)
    document = console.ok("sessions", "show", *tree, "--json").document
    assert document["agents"][1]["receipt"]["warnings"] == [RAN, CHANGED, IDLE]


def test_exports_are_headed_by_the_first_prompt_or_the_title_as_show_is(console: Console) -> None:
    (console.home / "play.yaml").write_text("agents: {a: [{text: fine}]}", encoding="utf-8")
    for more in ((), ("--continue",)):
        console.ok("ask", "-m", f"scripted:{console.home}/play.yaml", *more, "and then?" if more else "First of all")
    session = console("sessions", "list").rows[0][0]
    for title in ("First of all", "Renamed"):
        assert console.ok("sessions", "show", session).out.startswith(f"{session}  {title}\n")
        assert console.ok("sessions", "export", session).out.startswith(f"# {title}\n")
        console.ok("sessions", "rename", session, "Renamed")


@pytest.mark.parametrize("form", ["md", "json"])
def test_exports_have_the_result_its_marks_and_warnings(console: Console, play: str, form: str) -> None:
    console.ok("ask", "-m", play, "go")
    ran = console.ok("sessions", "export", console("sessions", "list").rows[0][0], "-f", form)
    if form == "json":
        _, coder, researcher = ran.document["agents"]
        assert (coder["result"], coder["receipt"]["warnings"]) == (LIE, [RAN, CHANGED, IDLE])
        assert [finding["seen"] for finding in researcher["findings"]] == [True, False]
        return
    assert "### Result\n\n> I have fixed parser.py.\n>\n> All tests pass.\n" in ran.out
    assert "- \\[not seen\\] It is old. (y.txt:3)" in ran.out
    assert f"WARNING: {CHANGED}" in ran.out
