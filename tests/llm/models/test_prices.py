from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from genai_prices import data_snapshot
from genai_prices.types import Usage as TheirUsage

from friday_cli.config.settings import Prices
from friday_cli.core.protocol.messages import Usage
from friday_cli.llm.models import catalog, prices
from tests.llm.models import update_prices

GRID = [
    Usage(input=1_000, output=500),
    Usage(input=40_000, cache_read=100_000, cache_write=10_000, output=2_000),
    Usage(input=5, cache_read=99_995, output=1),
    Usage(input=100_001, output=10, reasoning=7),
    Usage(input=271_000, cache_read=1_000, output=9),
    Usage(input=271_000, cache_read=1_001, output=9),
    Usage(input=20_000, output=900, searches=3),
    Usage(input=700_000, cache_read=200_000, cache_write=50_000, output=128_000, reasoning=100_000),
]
TIMES = [
    datetime(2026, 11, 20, 2, 30, tzinfo=UTC),
    datetime(2026, 11, 20, 12, 0, tzinfo=UTC),
    datetime(2026, 8, 1, 23, 59, tzinfo=UTC),
]
SERVICES = ("anthropic", "openai", "gemini", "groq", "deepseek", "mistral", "openrouter")
CLOUDS = {"bedrock": "aws", "vertex": "google", "azure": "azure"}


def theirs(provider: str, model: str, usage: Usage, at: datetime) -> float | None:
    """The price genai-prices computes; None where it knows none in both directions."""
    whole = TheirUsage(
        input_tokens=usage.input + usage.cache_read + usage.cache_write,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        output_tokens=usage.output,
        output_reasoning_tokens=usage.reasoning,
        web_searches=usage.searches,
    )
    snapshot = data_snapshot.get_snapshot()
    try:
        owner, info = snapshot.find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    price = info.get_prices(at)
    if (price.input_mtok is None or price.output_mtok is None) and not info.id.endswith(":free"):
        return None
    if usage.searches and price.web_searches_kcount is None:
        return None
    return float(info.calc_price(whole, owner, genai_request_timestamp=at).total_price)


def references(list_name: str) -> list[str]:
    """Ids a user could write for the models of a price list: each exact name and each start of the extract's."""
    with Path(prices.__file__).with_name("prices.json").open() as f:
        rows = json.load(f)["lists"][list_name]["models"]
    names = [n for row in rows for n in row[0] if isinstance(n, str)]
    return [n.removeprefix("^") for n in names if n[:1] not in "$*/"]


@pytest.mark.parametrize(
    ("provider", "platform", "list_name"),
    [
        *((name, "", "google" if name == "gemini" else name) for name in SERVICES),
        *(("anthropic", platform, list_name) for platform, list_name in CLOUDS.items()),
    ],
)
def test_costs_are_those_of_genai_prices(provider: str, platform: str, list_name: str) -> None:
    models = references(list_name)
    most = 12 if platform else 150
    models = random.Random(7).sample(models, most) if len(models) > most else models
    models += ["claude-opus-5-5", "gpt-6.1-sol"] if platform else [m for p, m in catalog.known() if p == provider]
    priced = 0
    for model in models:
        for index, usage in enumerate(GRID):
            at = TIMES[index % len(TIMES)]
            want, got = (
                theirs(list_name, model, usage, at),
                prices.cost(provider, model, usage, platform=platform, at=at),
            )
            assert got == (None if want is None else pytest.approx(want, rel=1e-9)), (model, usage, at)
            priced += got is not None
    assert priced > len(GRID)


def test_the_packaged_extract_is_what_the_command_makes(tmp_path: Path) -> None:
    update_prices.write(tmp_path / "prices.json")
    made, packaged = (
        json.loads(p.read_text()) for p in (tmp_path / "prices.json", Path(prices.__file__).with_name("prices.json"))
    )
    assert made["source"] == packaged["source"] == prices.source(), "run: python -m tests.llm.models.update_prices"
    assert made == packaged


def test_models_of_the_table_have_prices() -> None:
    without = {m for p, m in catalog.known() if prices.cost(p, m, Usage(input=1)) is None}
    assert without <= {"claude-mythos-5", "claude-mythos-5-1", "gpt-6.2-astra", "gpt-6.2-sol"}  # not in genai-prices


def test_windows_of_the_issue() -> None:
    assert prices.cost("anthropic", "claude-opus-5-5", Usage(input=1_000_000)) == pytest.approx(4)
    assert prices.cost("anthropic", "claude-opus-5-5", Usage(cache_read=1_000_000)) == pytest.approx(0.2)
    assert prices.cost("anthropic", "claude-opus-5-5", Usage(output=1_000_000)) == pytest.approx(20)
    big, small = Usage(input=272_001), Usage(input=272_000)
    assert prices.cost("openai", "gpt-6.1-sol", small) == pytest.approx(0.544)
    assert prices.cost("openai", "gpt-6.1-sol", big) == pytest.approx(272_001 * 4 / 1e6)


def test_unknown_is_none_and_never_nought() -> None:
    for provider, model in [("anthropic", "zebra-1"), ("nobody", "claude-opus-5-5"), ("openrouter", "qwen3:8b")]:
        assert prices.cost(provider, model, Usage(input=1, output=1)) is None
    assert prices.cost("anthropic", "claude-opus-5-5", Usage(), platform="elsewhere") is None
    for provider in ("ollama", "lmstudio", "llamacpp", "vllm"):
        assert prices.cost(provider, "qwen3:8b", Usage(input=10, output=10)) == 0.0
    assert prices.cost("ollama", "gpt-oss:120b-cloud", Usage(input=10)) is None, "it is only passed on"


@pytest.mark.parametrize(("own", "usage", "cost"), [
    (Prices(input=2, output=10), Usage(input=10**6, cache_read=10**6, cache_write=10**6), 6),
    (Prices(input=2, output=10), Usage(output=100_000), 1),
    (Prices(input=2, output=10, cache_read=0.5), Usage(cache_read=2_000_000), 1),
    (Prices(input=0, output=0), Usage(input=5, output=5), 0),
    (Prices(input=2), Usage(input=5, output=1), None),
    (Prices(), Usage(input=5), None),
    (Prices(input=2, output=10), Usage(input=1000, output=100, searches=1), None),
    (Prices(input=0, output=0, web_search=25), Usage(input=1000, output=100, searches=4), 0.1),
])  # fmt: skip
def test_own_prices(own: Prices, usage: Usage, cost: float | None) -> None:
    assert prices.own_cost(own, usage) == (None if cost is None else pytest.approx(cost))


def test_a_dated_name_has_the_price_of_its_model() -> None:
    for model, dated in (("claude-opus-5-5", "claude-opus-5-5-20261101"), ("claude-opus-5", "claude-opus-5@20261101")):
        assert prices.cost("anthropic", dated, GRID[0]) == prices.cost("anthropic", model, GRID[0]) is not None
    assert prices.cost("anthropic", "claude-opus-5-5-2026110", GRID[0]) is None
