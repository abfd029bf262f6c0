"""Profile files: ADR 034's form, Claude-style files, and the errors for wrong ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.extensions.profiles import Origin, Profile
from friday_cli.extensions.profiles.parse import parse

ADR = b"""---
name: researcher
description: Information gathering and analysis specialist
maxTokenBudget: 50000
allowedTools:
  - memory_load
  - memory_save
  - search
  - document_query
  - web_fetch
---

# Researcher Agent

You are a focused research specialist.
"""


def profile(keys: str, *, origin: Origin = "user", body: str = "Do it.") -> Profile:
    return parse("x.md", f"---\n{keys}\n---\n{body}\n".encode(), origin=origin)


def ours(keys: str = "") -> Profile:
    return profile(f"name: p\ndescription: d\n{keys}")


def wrong(keys: str, *, origin: Origin = "user") -> FileError:
    with pytest.raises(FileError) as caught:
        profile(keys, origin=origin)
    return caught.value


def test_the_example_of_adr_034() -> None:
    found = parse("researcher.md", ADR)
    assert found == Profile(
        name="researcher",
        description="Information gathering and analysis specialist",
        prompt="# Researcher Agent\n\nYou are a focused research specialist.",
        max_token_budget=50_000,
        allowed_tools=("memory_load", "memory_save", "web_search", "document_query", "web_fetch"),
        memory="tagged",
        path="researcher.md",
    )


def test_every_key_in_both_spellings() -> None:
    camel = (
        "maxTokenBudget: 9\nallowedTools: [bash]\ndisallowedTools: [grep]\nmaxIterations: 7\ntimeout: 60.5\nmaxCost: 0.5\n"
        "model: openai/gpt-6-luna\neffort: low\nsubAgents: [coder]\nmemory: none\nmode: plan\nprojectContext: true\n"
        "temperature: 0\nresultChars: 900"
    )
    snake = (
        "max_token_budget: 9\nallowed_tools: bash\ndisallowed_tools: grep\nmax_iterations: 7\ntimeout: 60.5\nmax_cost: 0.5\n"
        "model: openai/gpt-6-luna\neffort: low\nsub_agents: coder\nmemory: none\nmode: plan\nproject_context: true\n"
        "temperature: 0\nresult_chars: 900"
    )
    found = ours(camel)
    assert found == ours(snake)
    assert (found.max_token_budget, found.max_iterations, found.timeout, found.max_cost) == (9, 7, 60.5, 0.5)
    assert (found.model, found.effort, found.memory, found.mode) == ("openai/gpt-6-luna", "low", "none", "plan")
    assert (found.allowed_tools, found.disallowed_tools, found.sub_agents) == (("bash",), ("grep",), ("coder",))
    assert (found.project_context, found.temperature, found.result_chars) == (True, 0, 900)


@pytest.mark.parametrize(("line", "problem"), [
    ("temperature: -0.1", "expected a number of 0 or more, got -0.1."),
    ("temperature: 2.5", "2.5 is too high; use 0 to 2."), ("temperature: warm", "expected a number of 0 or more, got warm."),
    ("resultChars: 499", "expected a whole number of 500 or more, got 499."),
])  # fmt: skip
def test_numbers_out_of_range(line: str, problem: str) -> None:
    with pytest.raises(FileError, match=re.escape(problem)):
        ours(line)


class TestTools:
    def test_absent_means_reading_only(self) -> None:
        found = ours()
        assert found.allowed_tools is None
        assert set(found.select(TOOLS.names)) == {*TOOLS.by_default, "skill"}

    def test_an_empty_list_means_none(self) -> None:
        assert ours("allowedTools: []").select(TOOLS.names) == ()

    def test_a_star_means_the_parents(self) -> None:
        found = ours('allowedTools: "*"\nmemory: tagged\nsubAgents: "*"')
        assert set(found.select(TOOLS.names)) == TOOLS.names
        assert found.select(["grep", "bash"]) == ("grep", "bash")

    def test_never_more_than_the_parent_has(self) -> None:
        assert ours("allowedTools: [bash, read_file]").select(["read_file", "grep"]) == ("read_file",)

    def test_delegation_comes_with_sub_agents_and_not_without(self) -> None:
        assert not TOOLS.granted_by("sub_agents") & set(ours('allowedTools: "*"').select(TOOLS.names))
        found = ours("allowedTools: [grep]\nsubAgents: [coder]")
        assert set(found.select(TOOLS.names)) == TOOLS.granted_by("sub_agents") | {"grep"}
        found = ours("allowedTools: [delegate_task]")
        assert found.select(TOOLS.names) == ()
        assert "without subAgents" in found.notices[0]
        for listed, left in (("[a, b]", ("a",)), ('"*"', ("a",)), ("[b]", ())):
            assert ours(f'allowedTools: [grep, "delegate_task(a)"]\nsubAgents: {listed}').sub_agents == left
        assert ours("subAgents: [a]\ndisallowedTools: [delegate_task]").select(TOOLS.granted_by("sub_agents")) == ()

    @pytest.mark.parametrize(
        ("memory", "tools"),
        [("none", set()), ("read", {"memory_load"}), ("tagged", {"memory_load", "memory_save"})],
    )
    def test_memory(self, memory: str, tools: set[str]) -> None:
        found = ours(f'allowedTools: "*"\nmemory: {memory}')
        assert set(found.select(["memory_load", "memory_save"])) == tools

    @pytest.mark.parametrize(
        ("lines", "remark"),
        [
            ("allowedTools: [read_file]\nmemory: tagged", "memory: tagged has no effect without memory_save in allowedTools."),
            ("memory: tagged", "memory: tagged has no effect without memory_save in allowedTools."),
            ("allowedTools: [read_file]\nmemory: read", "memory: read has no effect without memory_load in allowedTools."),
            ("allowedTools: [memory_load, memory_save]\nmemory: read", "memory_save has no effect with memory: read."),
            ("allowedTools: [memory_load, memory_save]\nmemory: tagged", ""),
            ('allowedTools: "*"\nmemory: read', ""), ("memory: read", ""), ("allowedTools: [read_file]\nmemory: none", ""),
        ],
    )  # fmt: skip
    def test_a_word_on_memory_that_has_no_effect_is_remarked_on(self, lines: str, remark: str) -> None:
        assert "; ".join(ours(lines).notices) == remark

    def test_an_unknown_name_is_an_error_with_the_nearest(self) -> None:
        error = wrong("name: p\ndescription: d\nallowedTools:\n  - read_fiel")
        assert (error.line, error.field) == (4, "allowedTools")
        assert "Did you mean read_file?" in str(error)

    def test_a_pattern_narrows_a_tool(self) -> None:
        found = ours("tools: Bash(git log, git diff), Read")
        assert found.only == ("bash(git log, git diff)",)
        found = ours("allowedTools: ['bash(git *)', 'bash(ls *)', read_file]\ndisallowedTools: ['bash(git push *)']")
        assert found.only == ("bash(git *)", "bash(ls *)")
        assert found.deny == ("bash(git push *)",)
        assert "bash" in found.select(TOOLS.names)
        assert ours("allowedTools: ['bash(git *)', bash]").only == ()
        assert ours("tools: Read(./src/**)").only == ("read_file(src/**)",)

    @given(
        st.lists(st.sampled_from(sorted(TOOLS.names))),
        st.lists(st.sampled_from(sorted(TOOLS.names))),
        st.lists(st.sampled_from(sorted(TOOLS.names)), unique=True),
        st.sampled_from(["none", "read", "tagged"]),
        st.booleans(),
    )
    def test_rights_only_shrink(
        self, allowed: list[str], refused: list[str], parent: list[str], memory: str, delegates: bool
    ) -> None:
        found = ours(
            f"allowedTools: [{', '.join(allowed)}]\ndisallowedTools: [{', '.join(refused)}]\nmemory: {memory}\n"
            + ("subAgents: [other]" if delegates else "")
        )
        tools = set(found.select(parent))
        assert tools <= set(parent)
        assert not tools & set(refused)
        assert tools <= set(allowed) | (TOOLS.granted_by("sub_agents") if delegates else set())


EXAMPLES = """\
name: tester
description: Use it often: always. Examples:

<example>
Context: A question
user: "Try it"
assistant: "Yes: now"
</example>

Context: Another one
user: "Again"
model: opus
tools:
  - Read
  - search/codebase"""


@pytest.mark.parametrize("origin", ["user", "claude"])
def test_a_description_over_unindented_lines_is_read_as_text(origin: Origin) -> None:
    found = profile(EXAMPLES, origin=origin)
    assert found.description.startswith("Use it often: always. Examples: <example> Context: A question user: ")
    assert found.description.endswith('Context: Another one user: "Again"')
    assert (found.model, found.allowed_tools) == ("opus", ("read_file", "grep", "glob") if origin else None)
    assert found.notices == ("its front matter is not YAML; each value is read as plain text.",)


def test_own_profiles_that_are_no_yaml_stay_wrong() -> None:
    assert "is not YAML" in str(wrong("name: p\ndescription: a: b\nallowedTools: [bash]"))


def test_search_of_a_file_of_another_tool_is_a_search_of_files() -> None:
    assert set(profile("name: p\ntools: [search, web]").allowed_tools or ()) == {
        "grep",
        "glob",
        "web_fetch",
        "web_search",
    }
    assert ours("allowedTools: [search]").allowed_tools == ("web_search",), "ADR 034"


class TestErrors:
    @pytest.mark.parametrize(
        ("keys", "line", "field", "words"),
        [
            ("description: d", 1, "name", "Add a line name:"),
            ("name: p", 1, "description", "Add a line description:"),
            ("name: P q\ndescription: d", 2, "name", "lower-case letters"),
            ("name: a:b\ndescription: d", 2, "name", "lower-case letters"),
            ("name: yes\ndescription: d", 2, "name", "quotes"),
            ("name: 12\ndescription: d", 2, "name", "quotes"),
            ("name: p\ndescription: d\non: yes", 4, "on", "true or false"),
            ("name: p\ndescription: d\nmaxTokenBugdet: 5", 4, "maxTokenBugdet", "Did you mean maxTokenBudget?"),
            ("name: p\ndescription: d\ncolour: red", 4, "colour", "Known: name"),
            ("name: p\ndescription: d\nmaxIterations: 0", 4, "maxIterations", "above 0"),
            ("name: p\ndescription: d\nmaxIterations: true", 4, "maxIterations", "whole number"),
            ("name: p\ndescription: d\nmaxIterations: 2.5", 4, "maxIterations", "whole number"),
            ("name: p\ndescription: d\nmaxCost: '5'", 4, "maxCost", "number above 0"),
            ("name: p\ndescription: d\nmaxCost: .inf", 4, "maxCost", "number above 0"),
            ("name: p\ndescription: d\ntimeout: 300000", 4, "timeout", "For 300000 ms use 300."),
            ("name: p\ndescription: d\nmemory: shared", 4, "memory", "none, read, tagged"),
            ("name: p\ndescription: d\nmode: yolo", 4, "mode", "ask, edits, plan, auto"),
            ("name: p\ndescription: d\neffort: hihg", 4, "effort", "Did you mean high?"),
            ("name: p\ndescription: d\nallowedTools:", 4, "allowedTools", "write [] for an empty list"),
            ("name: p\ndescription: d\nallowedTools: [1]", 4, "allowedTools", "list of names"),
            ("name: p\ndescription: d\nallowedTools: {a: b}", 4, "allowedTools", "list of names"),
            ("name: p\ndescription: d\nprojectContext: maybe", 4, "projectContext", "true or false"),
            ("name: p\ndescription: d\nmaxCost: 3\nmax_cost: 4", 5, "max_cost", "duplicate of maxCost"),
            ("name: p\ndescription: [a]", 3, "description", "expected text"),
        ],
    )
    def test_line_field_and_remedy(self, keys: str, line: int, field: str, words: str) -> None:
        error = wrong(keys)
        assert (error.path, error.line, error.field) == ("x.md", line, field)
        assert words in str(error)

    def test_a_profile_needs_a_prompt_and_cannot_be_its_own_sub_agent(self) -> None:
        with pytest.raises(FileError, match="no prompt"):
            profile("name: p\ndescription: d", body="  \n ")
        error = wrong("name: p\ndescription: d\nsubAgents: [q, p]")
        assert error.problem == "An agent cannot assign itself as a sub-agent"
        assert (error.line, error.field) == (4, "subAgents")

    @given(st.binary(max_size=300))
    def test_any_bytes_are_a_profile_or_a_file_error(self, raw: bytes) -> None:
        for origin in ("user", "claude"):
            try:
                found = parse("x.md", b"---\nname: p\n" + raw, origin=origin)
            except FileError:
                continue
            assert found.prompt

    @given(
        st.dictionaries(
            st.sampled_from(
                [
                    *("name", "description", "maxTokenBudget", "allowedTools", "tools", "disallowedTools", "maxTurns"),
                    *("timeout", "timeout_mins", "maxCost", "model", "effort", "subAgents", "memory", "mode", "color"),
                    *("permissionMode", "projectContext", "mcpServers", "foo"),
                ]
            ),
            st.sampled_from(
                [
                    *("p", "*", "", None, True, 0, -1, 7, 10**30, 1.5, float("inf"), float("nan"), [], ["p"], ["*"]),
                    *(["Task(p)"], ["Bash()"], "Agent(,)", "a(b", "(", {"a": 1}, [None], [[]], "Read, Write", "plan"),
                ]
            ),
        ),
        st.sampled_from(["user", "project", "claude"]),
    )
    def test_any_values_are_a_profile_or_a_file_error(self, keys: dict[str, object], origin: Origin) -> None:
        import yaml

        try:
            found = profile(yaml.safe_dump({"name": "q", "description": "d"} | keys), origin=origin)
        except FileError:
            return
        assert found.max_iterations is None or 1 <= found.max_iterations <= 100
        assert found.max_token_budget is None or 1 <= found.max_token_budget <= 200_000
        assert found.timeout is None or 0 < found.timeout <= 86_400
        assert found.name not in found.sub_agents
        assert isinstance(found.select(TOOLS.names), tuple)


def test_values_above_the_hard_caps_are_lowered_and_said() -> None:
    found = ours("maxIterations: 500\nmaxTokenBudget: 900000")
    assert (found.max_iterations, found.max_token_budget, len(found.notices)) == (100, 200_000, 2)
    raw = b"---\nname: p\ndescription: d\nmaxTokenBudget: 80000\n---\nDo it.\n"
    assert parse("x.md", raw, token_cap=60_000).max_token_budget == 60_000
    found = ours("maxTokenBudget: 2000")  # too small to finish
    assert found.max_token_budget == 2000
    assert "rarely enough" in found.notices[0]


def test_hidden_characters_do_not_reach_the_prompt() -> None:
    found = profile("name: p\ndescription: d", body="Do\u202e it\U000e0041.")
    assert found.prompt == "Do it."
    assert "2 invisible" in found.notices[0]


CLAUDE = """\
name: Code Reviewer
description: Use this agent when: code was written. Examples:
  user: "check this" assistant: "ok"
tools: Read, Grep, Glob, Bash(git diff:*), WebSearch, mcp__github__search, Frobnicate
disallowedTools: Write, Edit
model: inherit
maxTurns: 30
permissionMode: acceptEdits
color: purple
hooks: none"""


class TestClaude:
    def test_a_file_as_people_have_them(self) -> None:
        found = profile(CLAUDE, origin="claude")
        assert (found.name, found.model, found.mode, found.max_iterations) == ("code-reviewer", "", "edits", 30)
        assert " ".join(found.allowed_tools or ()) == (
            "read_file grep glob bash bash_output bash_kill web_search mcp__github__search"
        )
        assert found.only == ("bash(git diff *)",)
        assert found.disallowed_tools == ("write_file", "edit_file")
        assert found.project_context
        assert found.imported
        text = "\n".join(found.notices)
        for word in ("Code Reviewer", "Frobnicate", "color", "hooks"):
            assert word in text

    def test_the_first_of_several_models_is_used_and_in_our_folders_there_is_one(self) -> None:
        models = 'name: a\ndescription: d\nmodel: ["GPT-5", sonnet]'
        found = profile(models, origin="claude")
        assert (found.model, found.notices[-1]) == ("GPT-5", "model: the first of 2 is used.")
        assert "expected text" in wrong(models).problem

    def test_absent_tools_mean_the_parents_without_delegation_and_in_our_folders_never(self) -> None:
        found = profile("name: a\ndescription: d", origin="claude")
        assert found.allowed_tools == "*"
        assert not TOOLS.granted_by("sub_agents") & set(found.select(TOOLS.names))
        assert ours("color: red\npermissionMode: plan").allowed_tools is None
        error = wrong("name: a\ndescription: d\ntools: Foo, Bar", origin="claude")
        assert "none of these tools exists" in error.problem

    @pytest.mark.parametrize(
        ("tools", "sub_agents"),
        [("Task, Read", "*"), ("Agent(x, y), Read", ("x", "y")), ("Agent(x), Agent(y)", ("x", "y")), ("Read", ())],
    )
    def test_delegation(self, tools: str, sub_agents: object) -> None:
        assert profile(f"name: a\ndescription: d\ntools: {tools}", origin="claude").sub_agents == sub_agents

    def test_refusing_some_agents_becomes_rules(self) -> None:
        found = profile("name: a\ndescription: d\ntools: Task\ndisallowedTools: Agent(x)", origin="claude")
        assert (found.sub_agents, found.deny) == ("*", ("delegate_task(x)",))
        found = profile("name: a\ndescription: d\ntools: Task\ndisallowedTools: Task", origin="claude")
        assert found.sub_agents == ()

    def test_a_mode_that_would_widen_is_not_taken_over(self) -> None:
        for value in ("bypassPermissions", "yolo", "whatever"):
            found = profile(f"name: a\ndescription: d\npermissionMode: {value}", origin="claude")
            assert found.mode == ""
            assert value in found.notices[-1]

    def test_geminis_words(self) -> None:
        keys = "name: a\ndescription: d\nkind: local\ntools: [read_file, run_shell_command, google_web_search]\nmax_turns: 9\ntimeout_mins: 5"
        found = profile(keys)
        assert found.allowed_tools == ("read_file", "bash", "bash_output", "bash_kill", "web_search")
        assert (found.max_iterations, found.timeout) == (9, 300)
