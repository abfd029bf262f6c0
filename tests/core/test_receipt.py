"""What the harness counts of an agent's calls, and that a receipt once handed out stays as it was."""

from __future__ import annotations

import pytest

from friday_cli.core.events import AgentFinished, Denied, PermissionAnswered, ToolFinished
from friday_cli.core.permission import Answer
from friday_cli.core.receipt import CommandRun, Facts, FileChange, Receipt, Tally
from friday_cli.core.replay import replay
from friday_cli.core.rule import Rule
from friday_cli.view import State
from tests.engine import Bench, Model, Say, call, make, until
from tests.virtual import virtual


def test_facts_are_summed() -> None:
    tally = Tally()
    tally.add("edit_file", "ok", Facts((FileChange("f", 3, 1, "one"),), read=("g", "f")))
    tally.add("bash", "error", Facts((FileChange("f", 1, seen="shared"),), (CommandRun("make", 2),)))
    tally.add("edit_file", "ok", Facts((FileChange("f", 2, 2, "two"),), urls=("http://x",), read=("g",)))
    tally.add("bash", "cancelled", Facts())
    tally.warn("twice", "once")
    tally.warn("twice")
    assert tally.receipt == Receipt(
        {"edit_file": 2, "bash": 2},
        failed=2,
        files=(FileChange("f", 5, 3, "two"), FileChange("f", 1, seen="shared")),
        commands=(CommandRun("make", 2),),
        urls=("http://x",),
        read=("g", "f"),
        warnings=("twice", "once"),
    )


def test_a_denied_call_counts_as_denied_and_as_nothing_else() -> None:
    tally = Tally()
    tally.add("bash", "denied", Facts((FileChange("f"),), (CommandRun("rm", 0),)))
    assert tally.receipt == Receipt(denied=1)


def test_a_receipt_handed_out_stays_as_it_was() -> None:
    tally = Tally(Receipt({"bash": 1}))
    before = tally.receipt
    tally.add("bash", "ok", Facts(read=("f",)))
    assert (before, tally.receipt) == (Receipt({"bash": 1}), Receipt({"bash": 2}, read=("f",)))
    after = tally.receipt
    tally.reset(before)
    tally.warn("w")
    assert (before, after.read, tally.receipt) == (Receipt({"bash": 1}), ("f",), Receipt({"bash": 1}, warnings=("w",)))


@pytest.mark.parametrize("killed", [False, True])
@virtual
async def test_the_agent_its_log_and_the_view_count_the_same(killed: bool) -> None:
    calls = [call("look"), call("look", text="no"), call("poke"), call("look", fail=True), call("nothing")]
    bench = Bench(
        Model({"a": [Say("", calls)]}), [make("look"), make("poke", effect="write")],
        rules=[Rule("look", "no", "deny"), Rule("poke", "", "ask")],
    )  # fmt: skip
    node = bench.begin()
    await until(lambda: bool(bench.desk.pending))
    await bench.desk.answer(next(iter(bench.desk.pending)), Answer("deny"))
    await node.over()
    assert (len(bench.of(Denied)), len(bench.of(PermissionAnswered))) == (1, 1)
    assert sorted(e.status for e in bench.of(ToolFinished)) == ["denied", "denied", "error", "ok"]
    seen = bench.root.receipt
    assert (seen.tools, seen.failed, seen.denied) == ({"look": 2}, 1, 2)
    log = [e for e in bench.envelopes if not (killed and isinstance(e.event, AgentFinished))]
    assert replay(log)["a"].receipt == State.of(log).agents["a"].receipt == seen


def test_keys_in_commands_and_addresses_are_masked_in_words() -> None:
    command = "curl -H 'Authorization: Bearer 0123456789abcdefghij' https://me:hush@x.example/"
    urls = ("https://x.example/?k=ghp_0123456789abcdefghijABCDEFGHIJ",)
    words = "\n".join(Receipt(commands=(CommandRun(command, 0),), urls=urls).lines())
    assert "ran: curl -H 'Authorization: Bearer [secret]' https://[secret]@x.example/ -> exit 0" in words
    assert "fetched: https://x.example/?k=[secret]" in words
