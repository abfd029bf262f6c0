"""Caps of `friday map` beside the dollars of a known price: tokens, prices that a service reports, prices of single models."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.console import CommandResult, Console
from tests.map.service import TASK, Service, lines, serving
from tests.servers.fake_model_server import Say

UNPRICED = """
model = "anthropic/claude-test"
[providers.anthropic]
base_url = "{url}"
"""


@pytest.fixture
def service(console: Console, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service whose price is not known."""
    with serving() as service:
        console.configure(UNPRICED.format(url=service.model_server.base))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        yield service
    assert service.model_server.complaints == []


def batch(console: Console, items: str, *more: str) -> CommandResult:
    (console.project / "items.jsonl").write_text(items)
    return console("map", "summarizer", "--items", "items.jsonl", "--task", TASK, "--yes", *more)


def test_a_cap_of_tokens_holds_without_a_price_and_a_higher_one_continues(console: Console, service: Service) -> None:
    service.say = lambda turn: Say("found it", usage=(600, 400, 0))
    refused = batch(console, lines(9), "--max-cost", "1")
    assert (refused.code, service.requests) == (2, 0)
    assert "The price of anthropic/claude-test is unknown" in refused.err
    ran = batch(console, lines(9), "--max-tokens", "12000", "--per-item-tokens", "5000", "--sample", "2")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    done = [row for row in rows if row["state"] == "done"]
    assert ran.code == 1
    assert 2 <= len(done) == service.requests < 9
    assert service.requests * 1000 <= 12_000
    assert {(row["tokens"], row["cost_usd"]) for row in done} == {(1000, None)}
    assert "7 items: 7,000 tokens, " in ran.err
    assert "stopped: the cap of 12,000 tokens has no room for another item (5,000 tokens)" in ran.err
    assert f"{service.requests},000 of 12,000 tokens spent" in ran.err
    assert "items.jsonl:1: 1,000 tokens, " in ran.err
    assert console("map", "status").rows[0][-1] == f"{service.requests},000 of 12,000 tokens"
    ran = batch(console, lines(9), "--max-tokens", "30000", "--per-item-tokens", "5000")
    assert (ran.code, service.requests) == (0, 9)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--max-tokens", "0"), "--max-tokens must be a number above 0"),
        (("--max-tokens", "90"), "--max-tokens 90 is below one request of an item"),
        (
            ("--max-tokens", "9000", "--per-item-tokens", "10000"),
            "--max-tokens 9,000 is below --per-item-tokens 10,000",
        ),
        (("--per-item-tokens", "9000"), "--max-cost is missing"),
    ],
)
def test_bad_caps_are_one_line(console: Console, service: Service, argv: tuple[str, ...], words: str) -> None:
    ran = batch(console, lines(2), *argv)
    assert (ran.code, service.requests) == (2, 0)
    assert words in ran.err


def test_the_cap_of_an_item_that_a_refusal_names_is_one_that_starts(console: Console, service: Service) -> None:
    refused = batch(console, lines(2), "--max-tokens", "90000", "--per-item-tokens", "100")
    assert refused.code == 2
    least = refused.err.partition(" is below one request of an item, about ")[2].partition(".")[0].replace(",", "")
    assert batch(console, lines(2), "--max-tokens", "90000", "--per-item-tokens", least).code != 2


def test_a_single_model_has_its_own_price_in_the_settings(console: Console, service: Service) -> None:
    written = (
        UNPRICED + 'prices = {{ input = 9, output = 9, models = {{ "claude-test" = {{ input = 1, output = 5 }} }} }}\n'
    )
    console.configure(written.format(url=service.model_server.base))
    ran = batch(console, lines(2), "--max-cost", "1")
    assert ran.code == 0, ran
    assert [json.loads(line)["cost_usd"] for line in ran.out.splitlines()] == [0.00015, 0.00015]


def test_a_model_of_unknown_price_counts_as_the_dearest_of_its_vendor(console: Console, service: Service) -> None:
    ran = batch(console, lines(2), "--max-cost", "1", "--assume-price")
    assert ran.code == 0, ran
    assert "the price of anthropic/claude-test is unknown: it counts as anthropic/claude-" in ran.err
    costs = [json.loads(line)["cost_usd"] for line in ran.out.splitlines()]
    assert min(costs) > 0.00015, "no model of the vendor is dearer"
    console.configure(
        UNPRICED.replace("anthropic", "gate").replace("claude-test", "m-1").format(url=service.model_server.base)
    )
    assert "is unknown" in batch(console, lines(1), "--max-cost", "1", "--assume-price").err


def test_prices_that_a_gateway_reports_count_once_a_person_has_asked_for_them(
    console: Console, service: Service
) -> None:
    service.model_server.listed = {"claude-test": {"pricing": {"prompt": "0.000001", "completion": "0.000005"}}}
    assert "is unknown" in batch(console, lines(2), "--max-cost", "1").err
    console.ok("models")
    assert "is unknown" in batch(console, lines(2), "--max-cost", "1").err
    shown = console.ok("models", "--prices")
    assert "anthropic reports the prices of 1 of 2 models; they are used from now on." in shown.err
    ran = batch(console, lines(2), "--max-cost", "1")
    assert [json.loads(line)["cost_usd"] for line in ran.out.splitlines()] == [0.00015, 0.00015]
