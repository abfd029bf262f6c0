"""`/profiles`: every profile with its facts, the sub-agents of the main agent chosen by Enter, files edited by `e`."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.events import AgentStarted
from friday_cli.extensions.profiles import user_folder
from friday_cli.extensions.profiles.create import create
from friday_cli.frontends.tui.terminal import external_editor
from friday_cli.frontends.tui.widgets.profile_dialog import ProfileDialog
from friday_cli.frontends.tui.widgets.session_picker import Picker
from tests.frontends.tui.chat import Chat, delegates, does, opened

SIZES = [(120, 40), (80, 24)]
LEAD = "---\nname: lead\ndescription: Leads.\nsubAgents: [coder, researcher]\nmaxCost: 2\nmodel: anthropic/claude-haiku-4-5\n---\nYou lead.\n"
HANDED_IN = does("task_result", result="It is blue.")


@pytest.fixture
def lead() -> Path:
    path = user_folder() / "lead.md"
    path.parent.mkdir(parents=True)
    path.write_text(LEAD, encoding="utf-8")
    return path


async def shown(chat: Chat) -> None:
    await chat.say("/profiles")
    await chat.until(lambda: isinstance(chat.app.screen, ProfileDialog))


def words(chat: Chat) -> str:
    """The screen as one line, without the borders of boxes."""
    return " ".join(re.sub(r"[^\x00-\u00ff]", " ", chat.frame).split())


def has(chat: Chat, *texts: str) -> None:
    """Check that the screen shows each text, wrapped or not."""
    assert [text for text in texts if text not in words(chat)] == [], chat.frame


async def closed(chat: Chat) -> None:
    await chat.press("escape")
    await chat.until(lambda: not isinstance(chat.app.screen, ProfileDialog))


@pytest.mark.parametrize("before", [None, "the person's own"])
def test_a_profile_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, before: str | None) -> None:
    path, limits = tmp_path / "tester.md", resource.getrlimit(resource.RLIMIT_FSIZE)
    if before is not None:
        path.write_text(before)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(FridayError, match="cannot be written"):
            create(path, "new", replace=before is not None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (path.read_text() if path.exists() else None) == before
    assert [entry.name for entry in tmp_path.iterdir()] == (["tester.md"] if before else [])


@pytest.mark.parametrize("size", SIZES)
async def test_a_profile_is_shown_with_its_tools_limits_model_sub_agents_and_depth(
    tmp_path: Path, lead: Path, size: tuple[int, int]
) -> None:
    async with opened(tmp_path, {}, size=size) as chat:
        await shown(chat)
        has(chat, "7 of 7 profiles", "[x] analyst", "[x] researcher", "Enter chooses")
        await chat.press("j", "j", "j", shows="Leads.")
        has(chat, "tools: code, document_query, glob, grep", "limits: 50,000 tokens, 20 turns, 300 s, $2")
        has(chat, "model: anthropic/claude-haiku-4-5", "delegates to: coder, researcher")
        has(chat, "it runs at depth 1 of 3; levels below it: 2")
        await chat.press("j", shows="delegates to: none")
        has(chat, "levels below it: 0")


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (100, 30)])
async def test_all_that_is_known_of_a_profile_can_be_read_at_every_size(
    tmp_path: Path, lead: Path, size: tuple[int, int]
) -> None:
    async with opened(tmp_path, {}, size=size) as chat:
        await shown(chat)
        await chat.press("j", "j", "j", shows="Leads.")
        seen = ""
        for _ in range(8):
            has(chat, "[x] lead", "Enter chooses or removes · e edits · PgUp PgDn · Esc")
            seen += f"{words(chat)} "
            await chat.press("pagedown")
        assert [
            text
            for text in ("limits: ", "model: ", "delegates to: ", "depth: ", "tools: ", "file: ")
            if text not in seen
        ] == []
        await chat.press("pageup", "pageup", "pageup", "pageup", "pageup", "pageup", "pageup", shows="limits: ")


async def test_the_last_depth_is_explained(tmp_path: Path, lead: Path) -> None:
    async with opened(tmp_path, {}, flags={"agents.delegation.max_depth": 1}) as chat:
        await shown(chat)
        await chat.press("j", "j", "j", shows="the last one (max_depth")


@pytest.mark.parametrize("size", SIZES)
async def test_enter_chooses_the_sub_agents_of_the_main_agent(tmp_path: Path, size: tuple[int, int]) -> None:
    turns = [delegates("look", profile="coder"), delegates("look", profile="researcher"), {"text": "{results}"}]
    async with opened(tmp_path, {"a": turns, "a.1": [HANDED_IN]}, size=size) as chat:
        await shown(chat)
        await chat.press("j", "enter", shows="[ ] coder")
        chat.has("5 of 6 profiles")
        await closed(chat)
        await chat.ask("go", shows="It is blue.")
        started = [e.event for e in await chat.session.history() if isinstance(e.event, AgentStarted)]
        assert [event.profile for event in started] == ["friday", "researcher"]
        prompt, _, refused, *_ = chat.session._main.agent.conversation.history
        assert (
            "The user does not allow the sub-agent 'coder' in this session. Allowed: analyst,"
            in refused.results[0].text
        )
        assert "you may delegate to now: analyst, general, researcher, reviewer, summarizer." in prompt.text
        await chat.say("@coder do it", shows="@coder: the main agent")
        await shown(chat)
        await chat.press("j", "enter", shows="[x] coder")
        await closed(chat)
        assert "coder" in chat.session.sub_agents.chosen


async def test_a_choice_outlives_another_model_and_ends_with_the_session(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "fine"}]}) as chat:
        await chat.ask("hello", shows="fine")
        await chat.say("/profiles coder", shows="Sub-agents of the main agent: coder.")
        await chat.say("/effort low", shows="The effort is now low.")
        assert chat.session.sub_agents.chosen == ("coder",)
        await chat.say("/profiles nobody", shows="There is no profile 'nobody'.")
        before = chat.session.id
        await chat.say("/new")
        await chat.until(lambda: chat.app.controller.session and chat.session.id != before)
        assert len(chat.session.sub_agents.chosen) == 6


async def test_a_choice_does_not_bind_the_user_who_writes_to_a_sub_agent(tmp_path: Path) -> None:
    agents = {
        "a": [delegates("look", profile="researcher"), {"text": "Done."}],
        "a.1": [HANDED_IN, {"text": "Green, then."}],
    }
    async with opened(tmp_path, agents) as chat:
        await chat.ask("go", shows="Done.")
        await chat.say("/profiles coder", shows="Sub-agents of the main agent: coder.")
        await chat.say("@a.1 sure?", shows="Green, then.")


async def test_a_choice_is_kept_with_its_session_for_another_process_and_a_picked_session_has_its_own(
    tmp_path: Path,
) -> None:
    script = {"a": [{"text": "fine"}]}
    async with opened(tmp_path, script) as chat:
        await chat.say("/profiles coder", shows="Sub-agents of the main agent: coder.")
        await chat.say("/effort low", shows="The effort is now low.")  # before the first message: another new session
        await chat.ask("hello", shows="fine")
        kept = chat.session.id
        await chat.say("/new")
        await chat.until(lambda: chat.app.controller.session and chat.session.id != kept)
        await chat.say("/profiles researcher", shows="Sub-agents of the main agent: researcher.")
        await chat.say("/resume")
        await chat.until(lambda: isinstance(chat.app.screen, Picker))
        await chat.shows("hello")
        await chat.press("enter")
        await chat.until(lambda: chat.app.controller.session and chat.session.id == kept)
        assert chat.session.sub_agents.chosen == ("coder",)
    async with opened(tmp_path, script, resume=kept) as chat:
        await shown(chat)
        has(chat, "1 of 6 profiles", "[x] coder", "[ ] researcher")


async def test_a_main_agent_with_a_profile_excludes_itself(tmp_path: Path, lead: Path) -> None:
    async with opened(tmp_path, {}, profile="lead") as chat:
        await shown(chat)
        has(chat, "2 of 7 profiles", "[-] analyst", "[x] coder", "[-] lead")
        await chat.press("j", "j", "j", shows="Not possible: an agent cannot delegate to its own profile.")
        await chat.press("enter", shows="lead cannot be a sub-agent")
        await chat.press("k", "k", "k", shows="Not possible: not in subAgents of lead.")
        assert chat.session.sub_agents.chosen == ("coder", "researcher")


def editor(monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """An editor that replaces a text, in place of a program that would need a terminal."""

    async def edited(app: Any, text: str) -> str:
        return text.replace(before, after).rstrip("\n")

    monkeypatch.setattr(external_editor, "edited", edited)


async def test_e_edits_a_file_that_counts_when_the_dialog_closes(
    tmp_path: Path, lead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(monkeypatch, "Leads.", "Leads well.")
    async with opened(tmp_path, {"a": [{"text": "fine"}]}) as chat:
        await chat.ask("hello", shows="fine")
        await shown(chat)
        await chat.press("j", "j", "j", "e", shows="Saved:")
        await closed(chat)
        await chat.shows("Your changes to profiles apply now.")
        assert lead.read_text() == LEAD.replace("Leads.", "Leads well.")  # noqa: ASYNC240
        await shown(chat)
        chat.has("Leads well.")


async def test_a_built_in_profile_is_edited_as_a_file_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(monkeypatch, "maxIterations:", "maxIteration:")
    async with opened(tmp_path, {}) as chat:
        await shown(chat)
        await chat.press("j", "e")
        await chat.until(lambda: "unknown key" in words(chat))
        path = user_folder() / "coder.md"
        assert "maxIteration:" in path.read_text()
        await chat.press("e")
        await chat.until(lambda: "already exists." in words(chat))


DRAFTED = """---
name: rusty
description: Reads Rust code. Use it for questions about crates.
allowedTools: [read_file, grep, task_result]
maxTokenBudget: 30000
---

You read Rust.
"""


async def test_a_profile_is_drafted_by_the_model_checked_saved_and_used(tmp_path: Path) -> None:
    turns = [{"text": f"Here it is:\n\n```markdown\n{DRAFTED}```\nSave it."}, {"text": "fine"}]
    async with opened(tmp_path, {"a": turns}, size=(100, 40)) as chat:
        await chat.say("/profiles new rusty reads Rust crates for me", shows="You read Rust.")
        await chat.idle()
        request = chat.session._main.agent.conversation.history[0].text
        assert "Write a profile named rusty for this: reads Rust crates for me" in request
        assert "allowedTools:" in request
        await chat.say("/profiles save", shows="Saved as")
        chat.has(
            "tools: grep, read_file", "limits: 30,000 tokens", "delegates to: none", "AGENTS.md: not in its prompt"
        )
        path = user_folder() / "rusty.md"
        assert path.read_text() == DRAFTED
        await chat.say("/profiles rusty", shows="Sub-agents of the main agent: rusty.")
        for again in ("/profiles save", "/profiles new rusty x"):
            await chat.say(again)
            await chat.until(lambda: "rusty.md already exists" in words(chat))
            chat.app.clear_notifications()


async def test_what_is_told_of_a_session_that_was_opened_again_stands_below_it(tmp_path: Path) -> None:
    """Also where the screen was not updated since, as right after a key."""
    async with opened(tmp_path, {"a": [{"text": "I know Rust."}]}) as chat:
        await chat.ask("hello", shows="I know Rust.")
        assert await chat.app.input.reopen(resume=chat.session.id)
        chat.app.chat.reset()
        chat.app.input.show_card("Your changes apply.")
        await chat.shows("Your changes apply.")
        assert chat.frame.index("I know Rust.") < chat.frame.index("Your changes apply.")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("I cannot.", "The last answer has no profile."),
        (DRAFTED.replace("maxTokenBudget: 30000", "maxTokenBudget: lots"), "maxTokenBudget"),
        (DRAFTED.replace("name: rusty", "name: ../../evil"), "is not a valid profile name"),
        (DRAFTED.replace("You read", "You\u200b read"), "has invisible characters"),
        (
            DRAFTED.replace("---\n\nYou", "mcpServers:\n  x: {command: touch, args: [made]}\n---\n\nYou"),
            "names programs",
        ),
    ],
)
async def test_a_draft_that_is_not_a_good_profile_is_not_saved(tmp_path: Path, answer: str, words: str) -> None:
    async with opened(tmp_path, {"a": [{"text": answer}]}, size=(140, 40)) as chat:
        await chat.ask("hello")
        await chat.say("/profiles save")
        await chat.until(lambda: words in " ".join(chat.frame.replace("▌", " ").split()))
        assert not user_folder().exists()


async def test_a_profile_is_made_from_the_template(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": []}) as chat:
        await chat.say("/profiles new mine", shows="Made from the template")
        assert "name: mine" in (user_folder() / "mine.md").read_text()
        await chat.say("/profiles new My/Own", shows="is not a valid profile name")
