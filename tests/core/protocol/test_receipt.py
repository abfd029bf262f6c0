"""What the harness counts of an agent's calls, and that a receipt once handed out stays as it was."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.rule import Rule
from friday_cli.core.protocol.claims import Claims, audit
from friday_cli.core.protocol.events import AgentFinished, Denied, PermissionAnswered, ToolFinished, ToolStarted
from friday_cli.core.protocol.receipt import GONE, CommandRun, FileChange, Receipt, ToolFacts
from friday_cli.core.protocol.receipt_builder import ReceiptBuilder
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.store.crash_recovery import recovery_events
from friday_cli.view import SessionView
from tests.engine_fixture import Bench, Model, Say, call, make, until


def test_facts_are_summed() -> None:
    tally = ReceiptBuilder()
    tally.add("edit_file", "ok", ToolFacts((FileChange("f", 3, 1, "one"),), read=("g", "f")))
    tally.add("bash", "error", ToolFacts((FileChange("f", 1, seen="shared"),), (CommandRun("make", 2),)))
    tally.add("edit_file", "ok", ToolFacts((FileChange("f", 2, 2, "two"),), urls=("http://x",), read=("g",)))
    tally.add("bash", "cancelled", ToolFacts())
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
    tally = ReceiptBuilder()
    tally.add("bash", "denied", ToolFacts((FileChange("f"),), (CommandRun("rm", 0),)))
    assert tally.receipt == Receipt(denied=1, refused={"bash": 1})


def test_a_receipt_handed_out_stays_as_it_was() -> None:
    tally = ReceiptBuilder(Receipt({"bash": 1}))
    before = tally.receipt
    tally.add("bash", "ok", ToolFacts(read=("f",)))
    assert (before, tally.receipt) == (Receipt({"bash": 1}), Receipt({"bash": 2}, read=("f",)))
    after = tally.receipt
    tally.reset(before)
    tally.warn("w")
    assert (before, after.read, tally.receipt) == (Receipt({"bash": 1}), ("f",), Receipt({"bash": 1}, warnings=("w",)))


RUN = CommandRun("pytest -q", 1)


@pytest.mark.parametrize(("receipt", "line"), [
    (Receipt(), "tools: none"),
    (Receipt({"edit_file": 2, "bash": 1}, 1, 2, (FileChange("parser.py", 3, 1),), (RUN,), ("http://x",), warnings=("w",)),
     "parser.py +3 -1 · pytest -q -> exit 1 · denied: 2 · 1 call failed · 1 URL fetched · tools: edit_file x2, bash"),
    (Receipt(denied=3, refused={"bash": 2, "delegate_task": 1}), "denied: bash x2, delegate_task · tools: none"),
    (Receipt(dict.fromkeys("abcdef", 1), files=(FileChange("f", 3, 1), FileChange("g", 1)), found=("x", "y")),
     "2 files +4 -1 · 2 pages found · tools: a, b, c, d and 2 more tools"),
    (Receipt({"bash": 3}, commands=(RUN, CommandRun("x", timed_out=True), RUN)),
     "3 commands: exit 1 x2, timed out · tools: bash x3"),
    (Receipt({"bash": 2}, commands=(CommandRun("y" * 50), CommandRun("API_KEY=sk-ant-0123456789abcdefghijklmnop ls\nrm", 0))),
     f"{'y' * 39}… -> stopped · API_KEY=[secret] ls ⏎ rm -> exit 0 · tools: bash x2"),
    (Receipt({"bash": 1}, files=(FileChange("a\nb"),)), "a\\nb changed · tools: bash"),
    (Receipt({"bash": 1}, files=(FileChange("a", 1), FileChange("src/ (100 files)", seen=GONE), FileChange("b", seen=GONE))),
     "a +1 -0 · removed src/ (100 files) and 1 more · tools: bash"),
])  # fmt: skip
def test_a_receipt_in_one_line(receipt: Receipt, line: str) -> None:
    assert receipt.short() == line


def test_the_text_has_the_whole_command_or_says_that_it_is_cut_and_what_was_not_fetched() -> None:
    long = "rm " + " ".join(f"file{n}" for n in range(200)) + " end"
    tally = ReceiptBuilder()
    tally.add("bash", "ok", ToolFacts(commands=(CommandRun("true\nrm -f big.txt", 0), CommandRun(long, 0))))
    tally.add("bash", "ok", ToolFacts(commands=(CommandRun("serve", job="job-1", running=True),)))
    tally.begin()
    tally.add("bash_output", "ok", ToolFacts(commands=(CommandRun("serve", 1, job="job-1"),)))
    tally.add("web_fetch", "error", ToolFacts(not_fetched=("http://x (status 404)",), unknown=("changes: why",)))
    _, unknown, first, second, job, page = tally.receipt.lines()
    assert (unknown, first) == ("not known: changes: why", "ran: true ⏎ rm -f big.txt -> exit 0")
    assert f"… ({len(long) - 400:,} characters not shown) …" in second
    assert second.endswith("file199 end -> exit 0")
    assert (job, page) == ("ran: serve -> exit 1", "not fetched: http://x (status 404)")
    assert [run.exit_code for run in tally.run.commands] == [1], "the end of a job belongs to the run that saw it"


@pytest.mark.parametrize("killed", [False, True])
async def test_the_agent_its_log_and_the_view_count_the_same(killed: bool) -> None:
    calls = [call("look"), call("look", text="no"), call("poke"), call("look", fail=True), call("nothing")]
    bench = Bench(
        Model({"a": [Say("", calls)]}),
        [make("look"), make("poke", effect="write")],
        rules=[Rule("look", "no", "deny"), Rule("poke", "", "ask")],
    )
    node = bench.begin()
    await until(lambda: bool(bench.approvals.pending))
    await bench.approvals.answer(next(iter(bench.approvals.pending)), ApprovalAnswer("deny"))
    await node.finished()
    assert (len(bench.of(Denied)), len(bench.of(PermissionAnswered))) == (2, 1)
    assert sorted(e.status for e in bench.of(ToolFinished)) == ["denied", "denied", "denied", "error", "ok"]
    seen = bench.root.receipt
    assert (seen.tools, seen.failed, seen.denied, seen.refused) == (
        {"look": 2},
        1,
        3,
        {"look": 1, "poke": 1, "nothing": 1},
    )
    log = [e for e in bench.envelopes if not (killed and isinstance(e.event, AgentFinished))]
    assert replay(log)["a"].receipt == SessionView.of(log).agents["a"].receipt == seen


@pytest.mark.parametrize("killed", [False, True])
async def test_a_command_that_was_cut_off_is_in_it(killed: bool) -> None:
    """By a stop, and by the death of the process, which the next one finds in the log."""
    shell = msgspec.structs.replace(
        make("shell", effect="run"), begins=lambda args: ToolFacts(commands=(CommandRun(args.text, None),))
    )
    bench = Bench(Model({"a": [Say("", [call("shell", text="make", seconds=99)])]}), [shell])
    bench.begin()
    await until(lambda: bool(bench.of(ToolStarted)))
    died = len(bench.envelopes)
    await bench.tree.stop("a")
    log = bench.envelopes
    if killed:
        log = [*log[:died], *recovery_events(log[:died], now=9.0)]
    ended = [e.event for e in log if isinstance(e.event, (ToolFinished, AgentFinished))]
    assert [type(event).__name__ for event in ended] == ["ToolFinished", "AgentFinished"]
    receipt = replay(log)["a"].receipt
    assert receipt.lines() == ["tools run: shell; 1 failed", "ran: make -> stopped"]
    assert receipt == ended[1].receipt == SessionView.of(log).agents["a"].receipt  # type: ignore[union-attr]


def test_the_work_of_a_run_is_told_from_that_of_a_life() -> None:
    tally = ReceiptBuilder()
    tally.add("bash", "ok", ToolFacts(commands=(CommandRun("make", 0),), files=(FileChange("f", 1, 0, "one"),)))
    assert audit(tally, "I changed f and the tests pass", Claims(), []) == []
    tally.warn("said of the first result")
    tally.begin()
    assert tally.run == Receipt()
    assert tally.receipt.warnings == ()
    assert audit(tally, "I changed g, and the tests pass", Claims(), []) == [
        "claims that a command ran or tests pass, but no command was run in this run",
        "claims changes, but no file was changed in this run",
    ]
    tally.add("edit_file", "error", ToolFacts((FileChange("f", 2, 0, "two"),)))
    assert tally.run == Receipt({"edit_file": 1}, failed=1, files=(FileChange("f", 3, 0, "two"),))


def test_keys_in_commands_and_addresses_are_masked_in_words() -> None:
    command = "curl -H 'Authorization: Bearer 0123456789abcdefghij' https://me:hush@x.example/"
    urls = ("https://x.example/?k=ghp_0123456789abcdefghijABCDEFGHIJ",)
    words = "\n".join(Receipt(commands=(CommandRun(command, 0),), urls=urls).lines())
    assert "ran: curl -H 'Authorization: Bearer [secret]' https://[secret]@x.example/ -> exit 0" in words
    assert "fetched: https://x.example/?k=[secret]" in words


@pytest.mark.parametrize(
    ("tools", "ran", "warned"),
    [
        ((), (), False), (("todo",), ("todo",), False), (("todo", "grep"), (), True), (("todo", "grep"), ("todo",), True),
        (("todo", "grep"), ("todo", "grep"), False), (("grep",), ("web_search",), False),
    ],
)  # fmt: skip
def test_a_result_without_a_call_that_verifies_anything(tools: Sequence[str], ran: Sequence[str], warned: bool) -> None:
    tally = ReceiptBuilder()
    for name in ran:
        tally.add(name, "ok", ToolFacts())
    assert bool(audit(tally, "All is well.", Claims(), [TOOLS[name] for name in tools])) is warned
