"""Rights: deny beats ask beats allow, a child never has more than its parent, and a rule means what it says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.core.errors import ToolError, UsageError
from friday_cli.core.events import PermissionAnswered, PermissionAsked, QuestionAnswered
from friday_cli.core.log import Log, MemoryJournal
from friday_cli.core.permission import (
    MODES,
    Answer,
    Call,
    Decision,
    Desk,
    Mode,
    Rule,
    Rules,
    parse_rule,
    suggested_rule,
)
from friday_cli.core.tool import Effect
from tests.virtual import virtual

STRICT = {"allow": 0, "ask": 1, "deny": 2}
EFFECTS: tuple[Effect, ...] = ("read", "write", "run", "net", "spawn", "save", "own")


def bash(command: str) -> Call:
    return Call("bash", "run", (command,))


def edit(*paths: str) -> Call:
    return Call("edit_file", "write", paths)


def rights(*texts: str, mode: Mode = "ask") -> Rules:
    """Rules from "allow bash(ls *)" and the like."""
    return Rules(
        mode=mode, rules=[parse_rule(text, decision) for decision, _, text in (t.partition(" ") for t in texts)]
    )  # type: ignore[arg-type]


# ---- modes ------------------------------------------------------------------------

MODE_TABLE: list[tuple[Mode, dict[Effect, Decision]]] = [
    (
        "ask",
        {
            "read": "allow",
            "write": "ask",
            "run": "ask",
            "net": "ask",
            "spawn": "allow",
            "save": "allow",
            "own": "allow",
        },
    ),
    ("edits", {"read": "allow", "write": "allow", "run": "ask", "net": "ask", "spawn": "allow", "save": "allow"}),
    ("plan", {"read": "allow", "write": "deny", "run": "deny", "net": "ask", "spawn": "allow", "save": "deny"}),
    ("auto", {"read": "allow", "write": "allow", "run": "ask", "net": "ask", "spawn": "allow"}),
    ("yolo", dict.fromkeys(EFFECTS, "allow")),
]


@pytest.mark.parametrize(("mode", "table"), MODE_TABLE)
def test_what_a_mode_says_where_no_rule_does(mode: Mode, table: dict[Effect, Decision]) -> None:
    rules = Rules(mode=mode)
    assert {effect: rules.decide(Call("t", effect)).decision for effect in table} == table


# ---- precedence ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@given(order=st.permutations(["allow bash", "ask bash(git push *)", "deny bash(git push --force *)"]))
def test_deny_beats_ask_beats_allow_in_any_order_and_mode(mode: Mode, order: list[str]) -> None:
    rules = rights(*order, mode=mode)
    assert rules.decide(bash("git push --force origin")).decision == "deny"
    assert rules.decide(bash("git push origin")).decision == "ask"
    assert rules.decide(bash("git status")).decision == "allow"


def test_the_reason_names_the_rule_or_the_mode() -> None:
    rules = rights("deny bash(rm *)", "allow bash(ls *)")
    assert rules.decide(bash("rm x")).reason == "denied by the rule bash(rm *)"
    assert rules.decide(bash("ls x")).reason == "allowed by the rule bash(ls *)"
    assert rules.decide(bash("make")).reason == "mode ask: run calls are asked about"


def test_what_many_subjects_touch_needs_a_rule_for_each_and_one_deny_is_enough() -> None:
    rules = rights("allow edit_file(src/**)", "allow edit_file(docs/**)", "deny edit_file(src/secret/**)")
    assert rules.decide(edit("src/a.py", "docs/b.md")).decision == "allow"
    assert rules.decide(edit("src/a.py", "other/b.md")).decision == "ask"
    assert rules.decide(edit("src/a.py", "src/secret/k")).decision == "deny"


# ---- children ---------------------------------------------------------------------------

RULES = st.lists(
    st.builds(
        Rule,
        st.sampled_from(["bash", "edit_file", "*", "web_*", "read_file"]),
        st.sampled_from(["", "git *", "git push *", "src/**", "*.md", "domain:example.org", "rm *"]),
        st.sampled_from(["allow", "ask", "deny"]),
    ),
    max_size=5,
)
CALLS = st.builds(
    Call,
    st.sampled_from(["bash", "edit_file", "web_fetch", "read_file", "delegate_task"]),
    st.sampled_from(EFFECTS),
    st.lists(
        st.sampled_from(
            ["git push -f", "git status", "src/a.py", "x.md", "rm -rf /", "domain:example.org", ".env", "a; b"]
        ),
        max_size=2,
    ).map(tuple),
)
NAMES = st.one_of(st.none(), st.frozensets(st.sampled_from(["bash", "edit_file", "web_fetch", "read_file"])))


@given(
    parent=RULES, child=RULES, only=RULES, mode=st.sampled_from(MODES), own=st.one_of(st.none(), st.sampled_from(MODES)),
    top=NAMES, names=NAMES, call=CALLS,
)  # fmt: skip
@settings(max_examples=400)
def test_a_child_never_may_more_than_its_parent(
    parent: list[Rule],
    child: list[Rule],
    only: list[Rule],
    mode: Mode,
    own: Mode | None,
    top: frozenset[str] | None,
    names: frozenset[str] | None,
    call: Call,
) -> None:
    above = Rules(mode=mode, rules=parent, allowed=top)
    below = above.child(allowed=names, mode=own, rules=child, only=only)
    leaf = below.child(allowed=None)
    for upper, lower in ((above, below), (below, leaf), (above, leaf)):
        assert STRICT[lower.decide(call).decision] >= STRICT[upper.decide(call).decision]
        assert upper.may(call.tool) or not lower.may(call.tool)
    if names is not None and call.tool not in names:
        assert below.decide(call).decision == "deny"
        assert not below.may(call.tool)


@given(parent=RULES, mode=st.sampled_from(MODES), added=RULES, call=CALLS)
def test_a_change_above_binds_at_the_next_call(parent: list[Rule], mode: Mode, added: list[Rule], call: Call) -> None:
    above = Rules(mode="yolo", rules=parent)
    below = above.child(allowed=None)
    above.mode = mode
    above.rules += added
    assert STRICT[below.decide(call).decision] >= STRICT[above.decide(call).decision]


def test_a_child_without_a_mode_of_its_own_follows_its_parents() -> None:
    root = Rules(mode="edits")
    child = root.child(allowed=None)
    assert (child.effective_mode, child.decide(edit("a")).decision) == ("edits", "allow")
    root.mode = "plan"
    assert (child.effective_mode, child.decide(edit("a")).decision) == ("plan", "deny")
    assert root.child(allowed=None, mode="yolo").effective_mode == "plan"
    assert Rules(mode="yolo").child(allowed=None, mode="ask").effective_mode == "ask"


def test_a_tool_named_in_only_runs_for_that_and_nothing_else() -> None:
    child = Rules(mode="yolo").child(allowed=None, only=[parse_rule("bash(git log *)", "allow")])
    assert child.decide(bash("git log -3")).decision == "allow"
    assert child.decide(bash("git push")).decision == "deny"
    assert child.decide(bash("git log; rm x")).decision == "deny"
    assert child.decide(edit("a.py")).decision == "allow"


# ---- what a rule matches -------------------------------------------------------------------

COVERED = ["git status", "git status -s", "git  status   src", "  git status"]
NOT_COVERED = [
    "git statusx", "git stash", "git", "git status; rm x", "git status && rm x", "git status | sh", "git status & rm x",
    "git status > x", "git status < x", "git status $(rm x)", "git status `rm x`", "git status $HOME", "git status\nrm x",
    "git status\rrm x", "git status (x)", "git status 'open", "X=1 git status", "git status \\\nrm", "git status !x",
    "git status {a,b}", "git status \x00", "git status \u202e", "/usr/bin/git status", "sudo git status", "",
]  # fmt: skip


@pytest.mark.parametrize("command", COVERED)
def test_an_allow_rule_covers_one_plain_command(command: str) -> None:
    assert rights("allow bash(git status *)").decide(bash(command)).decision == "allow"


@pytest.mark.parametrize("command", NOT_COVERED)
def test_an_allow_rule_covers_nothing_else(command: str) -> None:
    assert rights("allow bash(git status *)").decide(bash(command)).decision == "ask"


HIDDEN = [
    "rm x", "/bin/rm x", "sudo rm x", "sudo -u root rm x", "env A=1 rm x", "env -u HOME rm x", "timeout 5 rm x",
    "timeout -s KILL 5 rm x", "nice -n 10 rm x", "nohup rm x", "A=1 rm x", "time rm x", "xargs rm", "xargs -n 1 rm x",
    "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm x", "ls & rm x", "echo $(rm x)", "echo `rm x`", "(rm x)", "{ rm x; }",
    "ls\nrm x", "r''m x", '"rm" x', "\\rm x", "bash -c 'rm x'", "sh -c \"ls; rm x\"", "bash -lc 'rm x'", "eval rm x",
    "eval 'rm x'", "command rm x", "exec rm x", "if true; then rm x; fi", "for i in 1; do rm x; done", "! rm x",
    "while rm x; do :; done", "stdbuf -o L rm x", "busybox rm x", "echo <(rm x)", "setsid -f rm x", "doas rm x",
]  # fmt: skip


@pytest.mark.parametrize("command", HIDDEN)
@pytest.mark.parametrize("mode", ["ask", "yolo"])
def test_a_deny_rule_finds_its_command_inside_others(command: str, mode: Mode) -> None:
    assert rights("allow bash", "deny bash(rm *)", mode=mode).decide(bash(command)).decision == "deny"


@pytest.mark.parametrize("command", ["rmdir x", "ls rm", "git rm-hook", "echo 'rm'", "npm run rm"])
def test_a_deny_rule_leaves_other_commands_alone(command: str) -> None:
    assert rights("allow bash", "deny bash(rm *)").decide(bash(command)).decision == "allow"


@pytest.mark.parametrize("n", [60, 3000])
def test_a_deny_rule_holds_however_long_the_command_is(n: int) -> None:
    command = "; ".join(["ls"] * n + ["rm x"])
    assert rights("allow bash", "deny bash(rm *)").decide(bash(command)).decision == "deny"


PATHS = [
    ("src/**", "src/a.py", True), ("src/**", "src/a/b.py", True), ("src/**", "srcx/a.py", False), ("src/*", "src/a/b.py", False),
    ("src/*", "src/a.py", True), ("*.md", "a.md", True), ("*.md", "docs/a.md", False), ("**/*.md", "docs/a.md", True),
    ("**/*.md", "a.md", True), ("a?.py", "ab.py", True), ("a?.py", "a/.py", False), ("src/[id].py", "src/[id].py", True),
    ("src/[id].py", "src/i.py", False), ("./src/**", "src/a", True), ("src/a.py", "src/axpy", False), ("**", "any/thing", True),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "path", "fits"), PATHS)
def test_path_patterns(pattern: str, path: str, fits: bool) -> None:
    decision = rights(f"allow edit_file({pattern})").decide(edit(path)).decision
    assert decision == ("allow" if fits else "ask")


HOSTS = [
    ("example.org", True), ("docs.example.org", True), ("EXAMPLE.org.", True), ("evil-example.org", False),
    ("example.org.evil.com", False), ("example.com", False), ("", False),
]  # fmt: skip


@pytest.mark.parametrize(("host", "fits"), HOSTS)
@pytest.mark.parametrize("pattern", ["domain:example.org", "domain:Example.Org."])
def test_host_patterns(pattern: str, host: str, fits: bool) -> None:
    rules = rights(f"allow web_fetch({pattern})")
    assert rules.decide(Call("web_fetch", "net", (f"domain:{host}",))).decision == ("allow" if fits else "ask")


def test_a_host_pattern_with_a_star_means_what_is_below_and_no_host_pattern_is_a_path() -> None:
    rules = rights("allow web_fetch(domain:*.example.org)", "allow edit_file(domain:py)")
    assert rules.decide(Call("web_fetch", "net", ("domain:docs.example.org",))).decision == "allow"
    assert rules.decide(Call("web_fetch", "net", ("domain:example.org",))).decision == "ask"
    assert rules.decide(edit("setup.py")).decision == "ask"


# ---- the words of a rule --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bash(git status *)", "bash(git status *)"), ("Bash(npm run test:*)", "bash(npm run test *)"), ("Edit(src/**)", "edit_file(src/**)"),
        ("Read", "read_file"), ("grep", "grep"), ("bash(*)", "bash"), (" bash ( ls ) ", "bash(ls)"), ("WebFetch(domain:x.org)", "web_fetch(domain:x.org)"),
        ("Task(coder)", "delegate_task(coder)"), ("edit_file(a(b).py)", "edit_file(a(b).py)"), ("mcp__x__*", "mcp__x__*"),
    ],
)  # fmt: skip
def test_a_rule_is_read_in_our_spelling_and_in_claudes(text: str, rule: str) -> None:
    assert str(parse_rule(text, "allow")) == rule
    assert parse_rule(rule, "allow") == parse_rule(text, "allow")


@pytest.mark.parametrize("text", ["", "bash(", "git status", "(ls)", "bash)ls(", "1x(y)"])
def test_text_of_another_form_is_no_rule(text: str) -> None:
    with pytest.raises(UsageError, match="Not a permission rule"):
        parse_rule(text, "allow")


# ---- the floor ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "call",
    [
        bash("rm -rf /"),
        edit(".git/hooks/pre-commit"),
        Call("read_file", "read", (".env",)),
        Call("bash", "run", ("ls; rm -rf ~",)),
    ],
    ids=lambda call: call.subjects[0],
)
def test_what_could_destroy_or_betray_is_asked_about_in_every_mode_and_against_every_allow_rule(
    mode: Mode, call: Call
) -> None:
    rules = Rules(
        mode=mode, rules=[parse_rule(call.tool, "allow"), parse_rule(f"{call.tool}({call.subjects[0]})", "allow")]
    )
    assert rules.decide(call).decision == "ask"
    assert rules.child(allowed=None).decide(call).decision == "ask"


# ---- "always" ------------------------------------------------------------------------------------

SUGGESTED = [
    (bash("git status"), "bash(git status)"), (bash("npm run test -- -k x"), "bash(npm run test *)"), (bash("make"), "bash(make)"),
    (bash("pytest tests/a.py"), "bash(pytest tests/a.py)"), (bash("ls -la src"), "bash(ls -la src)"), (edit("src/a.py"), "edit_file(src/a.py)"),
    (bash("python -c pass"), ""), (bash("python3.11 x.py"), ""), (bash("/usr/bin/python3 x.py"), ""), (bash("npx thing"), ""),
    (bash("uv run pytest -q"), "bash(uv run pytest *)"), (bash("uv run python -c pass"), ""), (bash("uv run"), "bash(uv run)"),
    (bash("timeout 5 pytest"), ""), (bash("sudo ls"), ""), (bash("git status; ls"), ""), (bash("rm -rf /"), ""), (edit(".git/config"), ""),
    (edit("a", "b"), ""), (bash("ls *"), ""), (bash("rm *.pyc"), ""), (edit("*"), ""), (edit("src/**"), ""), (bash("git -c x=y status"), "bash(git -c x=y status)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "rule"), SUGGESTED, ids=lambda x: str(getattr(x, "subjects", x)))
def test_what_always_would_store(call: Call, rule: str) -> None:
    assert suggested_rule(call) == rule


@given(
    tool=st.sampled_from([("edit_file", "write"), ("bash", "run"), ("web_fetch", "net")]),
    words=st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=6), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=300)
def test_a_suggested_rule_lets_the_same_call_pass_and_no_other_of_its_kind(
    tool: tuple[str, Effect], words: list[str], seed: int
) -> None:
    call = Call(tool[0], tool[1], (" ".join(words),))
    text = suggested_rule(call)
    if not text:
        return
    rule = parse_rule(text, "allow")
    assert str(rule) == text, "the dialog shows exactly the stored rule"
    assert rule.pattern, "a rule for one thing never becomes one for everything"
    rules = Rules(mode="ask", rules=[rule])
    assert rules.decide(call).decision == "allow"
    other = random.Random(seed).choice(["zzz", "other/zzz.py", "q q q"])
    assert rules.decide(Call(tool[0], tool[1], (other,))).decision == "ask"


# ---- the desk --------------------------------------------------------------------------------------------


def desk(*, attended: bool = True) -> tuple[Desk, MemoryJournal]:
    journal = MemoryJournal()
    return Desk(Log(journal), attended=attended), journal


@virtual
async def test_a_question_tells_what_exactly_is_to_be_done_and_the_first_answer_counts() -> None:
    import asyncio

    table, journal = desk()
    asking = asyncio.create_task(table.permission("a.2", "c1", bash("make all"), reason="mode ask"))
    await asyncio.sleep(0.1)
    assert table.pending == {"p1": "a.2"}
    assert not await table.answer("p1", "yes"), "words are no answer to a permission"
    assert not await table.answer("p9", Answer("allow"))
    assert await table.answer("p1", Answer("deny", "always", "not now"))
    assert not await table.answer("p1", Answer("allow"))
    assert await asking == Answer("deny", "once", "not now"), "a no is for this call"
    asked, answered = [e.event for e in journal.envelopes]
    assert asked == PermissionAsked("p1", "c1", "bash", "make all", "mode ask", "bash(make all)")
    assert isinstance(answered, PermissionAnswered)
    assert (answered.id, answered.decision, answered.reason) == ("p1", "deny", "not now")
    assert table.pending == {}


@pytest.mark.parametrize(("command", "scope", "granted"), [
    ("make all", "session", ["bash(make all) session"]), ("make all", "always", ["bash(make all) always"]),
    ("make all", "once", []), ("python x.py", "always", []),
])  # fmt: skip
@virtual
async def test_a_yes_for_longer_is_kept_where_a_rule_was_offered(command: str, scope: str, granted: list[str]) -> None:
    import asyncio

    table, _ = desk()
    kept: list[str] = []

    async def keep(rule: Rule, scope: str) -> None:
        kept.append(f"{rule} {scope}")

    table.on_grant = keep
    asking = asyncio.create_task(table.permission("a", "c1", bash(command), reason=""))
    await asyncio.sleep(0.1)
    await table.answer("p1", Answer("allow", scope))  # type: ignore[arg-type]
    assert (await asking).decision == "allow"
    assert kept == granted


@virtual
async def test_a_question_in_words_is_answered_in_words() -> None:
    import asyncio

    table, journal = desk()
    asking = asyncio.create_task(table.question("a", "c1", "Which?", ["this", "that"]))
    await asyncio.sleep(0.1)
    assert not await table.answer("q1", Answer("allow"))
    assert await table.answer("q1", "this")
    assert await asking == "this"
    assert isinstance(journal.envelopes[-1].event, QuestionAnswered)


@virtual
async def test_nobody_there_means_no_question() -> None:
    table, journal = desk(attended=False)
    with pytest.raises(ToolError, match="Nobody can answer questions here"):
        await table.question("a", "c1", "Which?", [])
    assert journal.envelopes == []
