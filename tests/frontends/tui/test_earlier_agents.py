"""The tree after several prompts: what ended earlier is one row, who needs you comes first, then those at work."""

from __future__ import annotations

import json
from pathlib import Path

from friday_cli.frontends.options import map_tool
from friday_cli.frontends.tui.widgets.agent_tree import AgentTree
from tests.frontends.tui.chat import delegates, does, opened

SLOW = {"text": "one two three " * 200, "chunk_delay_s": 0.1}


async def test_earlier_branches_are_one_row_and_who_needs_you_comes_first(tmp_path: Path) -> None:
    agents = {
        "a": [delegates("first", "second"), {"text": "Done."}, delegates("third", "fourth", "fifth", profile="coder"), {"text": "End."}],
        "a.3": [{"text": "quick"}],
        "a.4": [SLOW],
        "a.5": [does("bash", command="make"), {"text": "made"}],
        "a.*": [{"text": "found"}],
    }  # fmt: skip
    async with opened(tmp_path, agents, size=(130, 40)) as chat:
        await chat.ask("go", shows="Done.")
        await chat.say("again")
        await chat.until(lambda: chat.state.asks and "a.3" in chat.state.agents and chat.state.agents["a.3"].ended)
        chat.app.action_tree()
        await chat.shows("2 earlier · ")
        tree = chat.app.query_one(AgentTree)
        assert tree.paths == ["a", "a.5", "a.4", "a.3", "a.2"]
        tree.focus()
        await chat.press("end", "space")
        assert tree.paths == ["a", "a.5", "a.4", "a.1", "a.2", "a.3"]


async def test_what_was_denied_for_an_earlier_prompt_is_not_said_of_the_newest(tmp_path: Path) -> None:
    turns = [does("bash", command="make"), {"text": "One."}, {"text": "Two."}]
    async with opened(tmp_path, {"a": turns}, size=(130, 40), deny=("bash(make)",)) as chat:
        await chat.ask("go", shows="One.")
        chat.app.action_tree()
        await chat.shows("denied: bash")
        await chat.press("escape")
        await chat.ask("again", shows="Two.")
        await chat.until(lambda: "denied: bash" not in chat.frame)


async def test_the_completed_items_of_a_batch_are_one_row_of_the_tree_and_of_the_costs(tmp_path: Path) -> None:
    call = {"profile": "summarizer", "task": "Look at {id}.", "items": [{"id": n} for n in range(7)], "max_cost": 0.5}
    model = tmp_path / ".model.json"
    agents = {"a": [does("map_tasks", **call), {"text": "All looked at."}], "a.*": [{"text": "found"}]}
    model.write_text(json.dumps({"agents": agents, "price": {"input": 1.0, "output": 5.0}, "badge": ""}))
    flags = {"agents.delegation.batches": True}
    chosen = {"model": f"scripted:{model}", "flags": flags, "map_tool": map_tool, "allow": ("map_tasks",)}
    async with opened(tmp_path, {}, size=(130, 40), **chosen) as chat:
        await chat.ask("go", shows="All looked at.")
        chat.has("at most $0.50")
        chat.app.action_tree()
        await chat.shows("7 done in a batch · ")
        tree = chat.app.query_one(AgentTree)
        assert len(tree.paths) == 2
        tree.focus()
        await chat.press("end", "space")
        assert len(tree.paths) == 8
        await chat.press("escape")
        await chat.say("/cost", shows="7 items of a batch")
        assert "a.3 summarizer" not in chat.frame
