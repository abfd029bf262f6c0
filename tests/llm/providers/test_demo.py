"""The demo over hand-written requests: it goes on from whatever the history holds, and never makes anything up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from friday_cli.core.agent.compaction import HEADER, PROMPT
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import (
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    estimate_message,
    user,
)
from friday_cli.core.protocol.provider import ReplyDone, Request, TextChunk, ThinkingChunk
from friday_cli.llm.providers.demo import DemoProvider
from friday_cli.llm.providers.demo.provider import reply
from friday_cli.llm.providers.demo.tasks import COUNT_TASK, READ_TASK, WRITE_TASK
from friday_cli.llm.providers.demo.words import NO_JSON, UNKNOWN
from tests.strict import strict

LOOKING = ("read_file", "list_dir", "glob", "grep", "bash")
CREW = "Hand on.\nSub-agents:\n- `researcher`: finds\n- `analyst`: counts\n- `summarizer`: condenses"
Answers = Callable[[ToolCall], tuple[str, str]]


def specs(*names: str, crew: str = CREW) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name, crew if name == "delegate_task" else "-", {}) for name in names)


def request(*messages: Message, agent: str = "a", tools: Sequence[ToolSpec] = specs(*LOOKING), **more: Any) -> Request:
    return Request(
        agent, "# Environment\n\nFolder: /home/me/thing\n", tuple(tools), messages, **{"max_output": 8000, **more}
    )


def empty(call: ToolCall) -> tuple[str, str]:
    """What the tools say in an empty folder."""
    return "ok", {"list_dir": "(. is empty)", "glob": "No file matches * below ."}.get(call.name, "No match.")


def tiny(call: ToolCall) -> tuple[str, str]:
    """What the tools say in a folder with two files."""
    a = call.arguments
    match call.name, a.get("mode", "content"):
        case "list_dir", _:
            return "ok", "README.md\t20 B\nmain.py\t9 B"
        case "glob", _:
            return "ok", "README.md\nmain.py"
        case "read_file", _:
            return "ok", "1\t# Tiny\n2\t\n3\tA thing."
        case "grep", "count":
            return "ok", "README.md: 3\nmain.py: 1"
        case "task_result", _:
            return "ok", "Handed in."
    if a["pattern"] != "^":
        return "ok", "No match."
    if a.get("glob", "*") not in ("*", "*.md", "*.py"):
        return "ok", "No match."
    if a.get("mode") == "files":
        return "ok", "README.md" if a.get("glob") else "README.md\n[1 more files; narrow the pattern]"
    return "ok", "README.md\n1:# Tiny" + ("\n[3 more matching lines; narrow the pattern]" if not a.get("glob") else "")


def refusing(call: ToolCall) -> tuple[str, str]:
    return "denied", f"{call.name} is refused here"


def results(message: Message, answers: Answers) -> Message:
    given = [(call.id, *answers(call)) for call in message.calls]
    return Message("tool", tuple(ToolResult(i, text, status) for i, status, text in given), "harness")  # type: ignore[arg-type]


def played(*messages: Message, answers: Answers, **more: Any) -> list[Message]:
    """The conversation to its end: until a reply calls nothing, or hands the result in."""
    history = list(messages)
    for _ in range(12):
        message, stop = reply(request(*history, **more))
        history.append(message)
        assert stop == ("tool_use" if message.calls else "end_turn")
        if not message.calls:
            break
        history.append(results(message, answers))
        if message.calls[0].name == "task_result":
            break
    else:
        raise AssertionError("it does not come to an end")
    assert strict(history) == []
    return history


def answer(*messages: Message, answers: Answers, **more: Any) -> str:
    return played(*messages, answers=answers, **more)[-1].text


def handed_in(history: Sequence[Message]) -> dict[str, Any]:
    (call,) = history[-2].calls
    assert call.name == "task_result"
    return call.arguments


# ---- the provider --------------------------------------------------------------------------------------------------


async def test_it_says_what_it_is_and_costs_nothing() -> None:
    provider = DemoProvider(pace=0.0)
    assert (provider.name, provider.model, provider.badge) == ("demo", "demo", "demo: scripted, no AI model")
    assert provider.cost(Usage(input=1_000_000, output=1_000_000)) == 0.0
    asked = request(user("What is in this folder?"), tools=specs("delegate_task", *LOOKING))
    chunks = [chunk async for chunk in provider.stream(asked)]
    done = chunks[-1]
    assert isinstance(done, ReplyDone)
    assert "".join(c.text for c in chunks if isinstance(c, TextChunk)) == done.message.text
    thoughts = "".join(c.text for c in chunks if isinstance(c, ThinkingChunk))
    assert thoughts == "".join(p.text for p in done.message.parts if isinstance(p, Thinking)) != ""
    assert [c.arguments["profile"] for c in done.message.calls] == ["researcher", "analyst"]
    assert done.usage.estimated
    assert (done.usage.cost_usd, done.usage.cached) == (0.0, False)
    assert done.usage.output == estimate_message(done.message)
    again = [chunk async for chunk in DemoProvider(pace=0.0).stream(asked)]
    assert again == chunks


async def test_every_call_of_a_conversation_has_an_id_of_its_own() -> None:
    history = played(user("find Session"), user("find Session"), answers=empty)
    ids = [call.id for message in history for call in message.calls]
    assert len(ids) > 2
    assert len(set(ids)) == len(ids)


# ---- an overview without sub-agents --------------------------------------------------------------------------------


def test_without_delegation_it_looks_by_itself() -> None:
    text = answer(user("What is in this folder?"), answers=tiny)
    assert "| all files | 2 |  | a: `glob *` |" in text
    assert "| text files | 2 | 4 | a: `grep ^` |" in text
    assert "| Python (.py) | 1 | 1 | a: `grep ^ (*.py)` |" in text
    assert "- `README.md` begins: “Tiny — A thing.” (a: `read_file README.md`)" in text
    assert text.startswith("`thing` holds 2 files, 2 of them with text (4 lines).")


def test_an_empty_folder_is_called_empty() -> None:
    text = answer(user("What is in this folder?"), answers=empty)
    assert text.startswith("This folder is empty.")
    assert "| all files | 0 |" in text


def test_where_everything_is_refused_no_figure_is_named() -> None:
    text = answer(user("overview"), answers=refusing)
    assert text.startswith("No call brought anything")
    assert "list_dir was refused: list_dir is refused here" in text
    assert not any(c.isdigit() for c in text)


def test_where_one_tool_is_refused_the_others_still_tell() -> None:
    text = answer(user("overview"), answers=lambda call: refusing(call) if call.name == "grep" else tiny(call))
    assert "| all files | 2 |" in text
    assert "text files" not in text
    assert "not done: “grep was refused: grep is refused here”" in text


def test_missing_tools_are_not_called() -> None:
    history = played(user("overview"), answers=tiny, tools=specs("glob"))
    assert {call.name for message in history for call in message.calls} == {"glob"}
    assert "| all files | 2 |" in history[-1].text
    assert "grep is not among the tools" in history[-1].text


def test_no_tools_at_all() -> None:
    (_, said) = played(user("What is in this folder?"), answers=tiny, tools=())
    assert said.text.startswith("No call brought anything")


def test_a_list_that_was_cut_counts_what_the_tool_says() -> None:
    listing = "\n".join(f"d/f{n:04}.py" for n in range(500)) + "\n[99,500 more; narrow the pattern or the path]"

    def huge(call: ToolCall) -> tuple[str, str]:
        if call.name == "glob":
            return "ok", listing
        if call.arguments.get("mode") == "files":
            return "ok", "d/f0000.py\n[89,999 more files; narrow]" if call.arguments.get(
                "glob", "*.py"
            ) == "*.py" else "No match."
        if call.arguments.get("mode") == "count":
            return "ok", "d/f0000.py: 7\nd/f0001.py: 9\n[89,998 more files; narrow]"
        if call.name == "grep" and call.arguments["pattern"] == "^":
            more = 400_000 if call.arguments.get("glob") else 300_000
            return (
                "ok",
                f"d/f0000.py\n1:x\n[{more:,} more matching lines; narrow]\n[there is more than can be looked through]",
            )
        return empty(call)

    text = answer(user("overview"), answers=huge)
    assert "| all files | 100,000 |" in text
    assert "| text files | 90,000 | at least 400,001 | a: `grep ^; grep ^ (*.py)` |" in text
    assert "| Python (.py) | 90,000 | at least 400,001 |" in text
    assert "(of the 2 text files listed first): `d/f0001.py` 9, `d/f0000.py` 7" in text


# ---- with sub-agents -----------------------------------------------------------------------------------------------


def report(path: str, profile: str, ended: str, *findings: tuple[str, str], text: str = "Done.") -> str:
    listed = "\n".join(f"- {claim}\n  Evidence: {evidence}" for claim, evidence in findings)
    return (
        f"## Result from {profile!r} ({path}): {ended}\n{text}\n\nFindings:\n{listed}\n---\ndelegate_id: {path} | tokens: 9\n"
        "Receipt, made by the harness and not by the sub-agent:\n- tools run: grep x2"
    )


def crew(call: ToolCall) -> tuple[str, str]:
    """Sub-agents that do their work."""
    if call.name != "delegate_task":
        return tiny(call)
    match call.arguments["profile"]:
        case "researcher":
            return "ok", report("a.1", "researcher", "completed", ("the top level has 2 files", "a.1: list_dir ."))
        case "analyst":
            rows = ("all files: 2 files", "a.2: glob *"), ("text files: 2 files, 4 lines", "a.2: grep ^")
            return "ok", report("a.2", "analyst", "completed", *rows)
    checked = ("counted a second time, the same: 2 text files, 4 lines", "a.3: grep ^")
    return "ok", report("a.3", "summarizer", "completed", checked, text="Two files it is.")


def test_three_sub_agents_and_an_answer_of_what_they_brought() -> None:
    history = played(user("What is in this folder?"), answers=crew, tools=specs("delegate_task", *LOOKING))
    sent = [call.arguments for message in history for call in message.calls]
    assert [(a["profile"], a["task"]) for a in sent] == [
        ("researcher", READ_TASK), ("analyst", COUNT_TASK), ("summarizer", WRITE_TASK)
    ]  # fmt: skip
    assert "text files: 2 files, 4 lines\n  Evidence: a.2: grep ^" in sent[2]["context"]
    text = history[-1].text
    assert text.startswith("Two files it is.")
    assert "| text files | 2 | 4 | a.2: `grep ^` |" in text
    assert "counted a second time, the same: 2 text files, 4 lines (a.3: `grep ^`)" in text
    assert "receipt of a.1: `grep x2` (a: `delegate_task researcher`)" in text


@pytest.mark.parametrize(
    "failed",
    [
        ("denied", "Delegation is refused."),
        ("error", "No agent was started: the tokens budget of a is used up."),
        ("error", "## Result from 'researcher' (a.1): failed (provider)\n[no text]\n---\ndelegate_id: a.1"),
    ],
)
def test_what_a_sub_agent_does_not_bring_it_finds_out_by_itself(failed: tuple[str, str]) -> None:
    def answers(call: ToolCall) -> tuple[str, str]:
        return failed if call.name == "delegate_task" else tiny(call)

    text = answer(user("overview"), answers=answers, tools=specs("delegate_task", *LOOKING))
    assert "not done by a sub-agent" in text
    assert "| text files | 2 | 4 | a: `grep ^` |" in text
    assert "(a: `list_dir .`)" in text


def test_findings_that_a_sub_agent_did_not_make_itself_are_not_taken() -> None:
    def answers(call: ToolCall) -> tuple[str, str]:
        if call.name == "delegate_task" and call.arguments["profile"] == "researcher":
            forged = ("all files: 9 files", "a.7: glob *"), ("the top level has 2 files", "a.1: list_dir .")
            return "ok", report("a.1", "researcher", "completed", *forged)
        return crew(call)

    assert "9" not in answer(user("overview"), answers=answers, tools=specs("delegate_task", *LOOKING))


def test_general_steps_in_for_profiles_that_are_not_there() -> None:
    only = specs("delegate_task", *LOOKING, crew="Sub-agents:\n- `general`: anything\n- `analyst`: counts")
    (_, said, *_) = played(user("overview"), answers=crew, tools=only)
    assert [call.arguments["profile"] for call in said.calls] == ["general", "analyst"]


# ---- children ------------------------------------------------------------------------------------------------------

CHILD = specs(*LOOKING[:4], "task_result")


@pytest.mark.parametrize("task", [READ_TASK, COUNT_TASK])
def test_a_child_hands_in_findings_each_with_its_call(task: str) -> None:
    history = played(user(task, source="parent"), answers=tiny, agent="a.2", tools=CHILD)
    given = handed_in(history)
    assert given["status"] == "success"
    assert len(history) >= 8
    calls = {c.name for m in history for c in m.calls}
    for finding in given["findings"]:
        agent, _, source = finding["evidence"].partition(": ")
        assert agent == "a.2"
        assert source.partition(" ")[0] in calls


def test_a_child_of_which_everything_is_refused_reports_failure() -> None:
    given = handed_in(played(user(COUNT_TASK, source="parent"), answers=refusing, agent="a.2", tools=CHILD))
    assert given["status"] == "error"
    assert all(f["claim"].startswith("not done:") for f in given["findings"])


@pytest.mark.parametrize(("lines", "words"), [(4, "the same"), (5, "the folder has changed meanwhile")])
def test_the_summarizer_counts_again(lines: int, words: str) -> None:
    context = f"[Context from parent agent]\nFindings:\n- text files: 2 files, {lines} lines\n  Evidence: a.2: grep ^"
    task = user(f"{WRITE_TASK}\n\n{context}", source="parent")
    given = handed_in(played(task, answers=tiny, agent="a.3", tools=CHILD))
    assert given["result"] == f"2 files with text ({lines} lines)."
    (finding,) = given["findings"]
    assert finding["claim"] == f"counted a second time, {words}: 2 text files, 4 lines"


def test_a_child_with_somebody_elses_task() -> None:
    tools = specs("delegate_task", *LOOKING, "task_result")
    given = handed_in(played(user("What is in this folder?", source="parent"), answers=crew, agent="a.1", tools=tools))
    assert "| text files | 2 | 4 | a.1: `grep ^` |" in given["result"]
    given = handed_in(played(user("Refactor the parser.", source="parent"), answers=crew, agent="a.1", tools=tools))
    assert (given["status"], given["result"]) == ("error", UNKNOWN)


def test_a_child_that_may_not_hand_in_says_its_result() -> None:
    def answers(call: ToolCall) -> tuple[str, str]:
        return refusing(call) if call.name == "task_result" else tiny(call)

    history = [user(COUNT_TASK, source="parent")]
    while True:
        message, _ = reply(request(*history, agent="a.2", tools=CHILD))
        if not message.calls:
            break
        history += [message, results(message, answers)]
    assert "- text files: 2 files, 4 lines\n  Evidence: a.2: grep ^" in message.text
    assert sum(call.name == "task_result" for m in history for call in m.calls) == 1


def test_a_result_fits_the_output_limit() -> None:
    history = [user(COUNT_TASK, source="parent")]
    while True:
        message, _ = reply(request(*history, agent="a.2", tools=CHILD, max_output=120))
        if message.calls[0].name == "task_result":
            break
        history += [message, results(message, tiny)]
    assert estimate_message(message) <= 120
    assert message.calls[0].arguments["findings"]


# ---- what happens to conversations ---------------------------------------------------------------------------------


def begun(prompt: str, answers: Answers = tiny, turns: int = 1, **more: Any) -> list[Message]:
    """A conversation after some turns."""
    history = [user(prompt)]
    for _ in range(turns):
        message, _ = reply(request(*history, **more))
        history += [message, results(message, answers)]
    return history


def test_a_second_prompt_of_a_session_is_answered_anew() -> None:
    history = played(user("What is in this folder?"), answers=tiny)
    again = played(*history, user("how many files are there?"), answers=tiny)
    assert again[: len(history)] == history
    assert again[-1].text.startswith("**2 files** in this folder.")


def test_notes_of_a_resumed_session_are_no_part_of_the_prompt() -> None:
    message = Message("user", (Text(f"{NOTE} The session goes on. Today is 2026-11-20.\n\n"), Text("how many files?")))
    assert answer(message, answers=tiny).startswith("**2 files**")


def test_a_message_that_comes_meanwhile_is_answered_too() -> None:
    history = begun("What is in this folder?", turns=2)
    text = [
        m.text for m in played(*history, user("list the todos"), answers=tiny)[len(history) :] if m.role == "assistant"
    ]
    assert "| all files | 2 |" in text[-2]
    assert text[-1].startswith("**0 lines** marked TODO or FIXME")


def test_after_an_interruption_only_the_new_prompt_counts() -> None:
    history = [user("What is in this folder?")]
    message, _ = reply(request(*history))
    history += [message, results(message, lambda call: ("cancelled", "Stopped before it was done."))]
    text = answer(*history, user("how many files?"), answers=tiny)
    assert text.startswith("**2 files**")
    assert "|" not in text


def test_replies_of_another_model_are_passed_over() -> None:
    other = Message("assistant", (Text("Let me see."), ToolCall("x", "read_file", {"path": "main.py"})))
    result = Message("tool", (ToolResult("x", "1\tx = 1"),), "harness")
    assert answer(user("how many files?"), other, result, answers=tiny).startswith("**2 files**")
    settled = [user("Why?"), Message("assistant", (Text("Because."),))]
    assert answer(*settled, user("how many files?"), answers=tiny).startswith("**2 files**")


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4])
def test_a_last_turn_without_tools_tells_what_there_is(turns: int) -> None:
    history = begun("What is in this folder?", turns=turns)
    note = user(f"{NOTE} You have used all your turns. No tool can run any more.", source="harness")
    message, stop = reply(request(*history, note, tool_choice="none"))
    assert (message.calls, stop) == ((), "end_turn")
    assert message.text.startswith("Cut short: nothing" if turns == 0 else "**Cut short.**")
    assert ("| all files | 2 |" in message.text) is (turns >= 4)


def test_a_childs_last_turn_can_still_be_read_by_its_parent() -> None:
    history = begun(COUNT_TASK, turns=2, agent="a.2", tools=CHILD)
    note = user(f"{NOTE} Your time is up.", source="harness")
    message, _ = reply(request(*history, note, agent="a.2", tools=CHILD, tool_choice="none"))
    assert message.text.startswith("Cut short")
    assert "- all files: 2 files\n  Evidence: a.2: glob *" in message.text


def test_a_text_over_the_output_limit_is_cut_and_goes_on() -> None:
    history = [user("What is the meaning of life?")]
    said = ""
    for _ in range(20):
        message, stop = reply(request(*history, max_output=80))
        assert estimate_message(message) <= 84
        said += message.text
        if stop == "end_turn":
            break
        assert stop == "max_tokens"
        history += [message, user(f"{NOTE} Your reply was cut off. Go on exactly where it stopped.", source="harness")]
    assert said == UNKNOWN
    assert answer(*history, message, user("how many files?"), answers=tiny).startswith("**2 files**")


def test_a_full_context() -> None:
    history = [*begun("how many files?"), user(PROMPT, source="harness")]
    message, _ = reply(request(*history, tool_choice="none"))
    assert message.calls == ()
    assert message.text
    summary = f"{HEADER}\n\n{message.text}\n\nThe last message of the user, word for word:\nhow many files?\n\nSub-agents of this session:\na.1"
    assert answer(user(summary, source="harness"), answers=tiny).startswith("**2 files**")


def test_a_json_schema_is_declined() -> None:
    asked = user("how many files?\n\nAnswer with one JSON document and nothing else. It must fit this JSON Schema:\n{}")
    assert answer(asked, answers=tiny) == NO_JSON
    note = user(f"{NOTE} The answer has the wrong form: it is not JSON. Send it again, mended.", source="harness")
    assert reply(request(asked, Message("assistant", (Text(NO_JSON),)), note))[0].text == NO_JSON


@pytest.mark.parametrize("messages", [(), (user("", source="harness"),), (user(""),)])
def test_nothing_to_answer(messages: tuple[Message, ...]) -> None:
    message, stop = reply(request(*messages))
    assert "offline demo" in message.text
    assert stop == "end_turn"
