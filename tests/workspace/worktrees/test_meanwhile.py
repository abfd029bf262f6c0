"""What happens to a worktree's child while somebody decides on its work, and after one below it went on alone."""

from __future__ import annotations

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import AgentFinished, PermissionAsked, ToolFinished
from tests.session.harness import Stage, delegates, does, says

APART = delegates("worker", isolation="worktree")


async def test_a_child_that_was_continued_while_a_person_was_asked_keeps_its_worktree(stage: Stage) -> None:
    both = (("apply_delegation", {"id": "a.1"}), ("delegate_task", {"resume": "a.1", "task": "more"}))
    apply = does(("apply_delegation", {"id": "a.1"}))
    early, late = ({"path": "x", "content": text} for text in ("early", "late"))
    stage.plays({
        "a": [APART, does(*both), apply, says("Done.")],
        "a.1": [does(("write_file", early)), says("ok"), does(("read_file", {"path": "x"})), does(("write_file", late)), says("more")],
    })  # fmt: skip
    flags = {"permissions.ask": ("edit_file(x)", "write_file(x)")}
    asked: dict[str, str] = {}  # what the main agent asked, to apply, and what its child did, to write
    writes = applied = 0
    async with stage.session(mode="yolo", flags=flags, attended=True) as session:
        node = session.start("go")
        async for envelope in session.events():
            match envelope.event:
                case PermissionAsked() as event:
                    asked[envelope.agent] = event.id
                    writes += envelope.agent == "a.1"
                case AgentFinished() if envelope.agent == "a":
                    break
                case ToolFinished(tool="apply_delegation"):
                    applied += 1
            if "a" in asked and (applied or writes == 2):  # it wants to apply, and the child is at work again
                await session.answer(asked.pop("a"), ApprovalAnswer("allow"))
            if "a.1" in asked and (applied or writes == 1):
                await session.answer(asked.pop("a.1"), ApprovalAnswer("allow"))
        await node.finished()
        results = await stage.results(session.id, "a")
    assert (results[1][0], "a.1 still works in that worktree" in results[1][1]) == ("error", True)
    assert results[3][0] == "ok"
    assert (stage.project / "x").read_text() == "late"


async def test_work_still_waits_after_a_grandchild_went_on_alone(stage: Stage) -> None:
    again = does(("delegate_task", {"resume": "a.1.1", "task": "more"}))
    write = does(("write_file", {"path": "x", "content": "x"}))
    stage.plays({
        "a": [APART, again, does(("list_sub_agents", {})), does(("apply_delegation", {"id": "a.1"})), says("Done.")],
        "a.1": [write, delegates("helper", "write y", isolation="worktree"), says("ok")],
        "a.1.1": [does(("write_file", {"path": "y", "content": "y"})), says("ok"), says("more")],
    })  # fmt: skip
    async with stage.session(mode="yolo") as session:
        await session.prompt("go")
        results = await stage.results(session.id, "a")
    assert results[2][1].count("its changes wait in its worktree") == 2
    assert results[3][0] == "ok"
    assert (stage.project / "x").read_text() == "x"
