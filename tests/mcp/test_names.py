"""Names of MCP servers and their tools: valid for every service, stable, and never those of another server."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.core.protocol.server_calls import server_of
from friday_cli.mcp.names import server_name, tool_names

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=90)
SERVERS = st.text("ab_-", min_size=1, max_size=40).map(server_name).filter(bool)


@pytest.mark.parametrize(("written", "name"), [
    ("github", "github"), ("my server", "my_server"), ("a__b", "a_b"), ("__a__", "a"), ("a.b/c", "a_b_c"), ("é", ""), ("x" * 50, "x" * 40),
    ("x" * 39 + "_y", "x" * 39),
])  # fmt: skip
def test_the_name_of_a_server(written: str, name: str) -> None:
    assert server_name(written) == name


@given(ANY)
def test_every_name_of_a_server_can_be_used_and_stays(written: str) -> None:
    name = server_name(written)
    assert name == "" or re.fullmatch(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*", name)
    assert len(name) <= 40
    assert server_name(name) == name


@given(SERVERS, st.lists(ANY, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_names_of_tools(server: str, tools: list[str], order: random.Random) -> None:
    names = tool_names(server, tools)
    assert list(names) == sorted(names)
    assert sorted(names.values()) == sorted(tools)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) and server_of(name) == server for name in names)
    order.shuffle(tools)
    assert tool_names(server, tools) == names


def test_a_name_changes_only_where_it_must_and_keeps_what_it_had() -> None:
    names = tool_names("s", ["a b", "a.b", "a_b", "z" * 80, "x.y"])
    assert (names["mcp__s__a_b"], names["mcp__s__x_y"]) == ("a_b", "x.y")
    hashed = sorted(name for name in names if re.search(r"_[0-9a-f]{8}$", name))
    assert [len(name) for name in hashed] == [20, 20, 64]
    assert tool_names("s", ["a.b", "a_b"]).keys() < names.keys()


def test_the_server_of_a_name() -> None:
    assert [server_of(name) for name in ("mcp__a__b__c", "mcp__a", "bash", "mcp__a___b")] == ["a", "a", "", "a"]
