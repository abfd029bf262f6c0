"""The command that compares models.toml with the vendors' newest releases: what it finds, and what it confirms."""

from __future__ import annotations

import tomllib
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest

from friday_cli.core.protocol.provider import EFFORTS
from friday_cli.llm.models import catalog, prices
from tests.llm.models.newest import Difference, Vendors, confirm, differences, read

TODAY = date(2026, 11, 22)
PAST, SOON = TODAY - timedelta(1), TODAY + timedelta(1)
TABLE = {
    (provider, name): catalog.Model(
        provider, name, 200_000, 1000, catalog.ModelQuirks(efforts=("none", "low")), ends=ends
    )
    for provider, name, ends in [("openai", "gpt-1", None), ("openai", "gpt-2", SOON), ("groq", "qwen", None)]
}
VENDORS = Vendors(
    packages={"genai-prices": prices.source().removeprefix("genai-prices ")},
    models={"openai": {"gpt-1": None, "gpt-2": SOON, "gpt-0": PAST}},
    efforts={"openai": list(EFFORTS)},
    windows={"openai/gpt-2": 0, "groq/qwen": 200_000},
)


@pytest.mark.parametrize(
    ("field", "value", "model", "words"),
    [
        ("models", {"openai": {"gpt-1": None, "gpt-2": SOON, "gpt-3": None}}, "gpt-3", "is new"),
        ("models", {"openai": {"gpt-1": None, "gpt-2": SOON, "gpt-3": SOON}}, "gpt-3", "is new"),
        ("models", {"openai": {"gpt-2": SOON}}, "gpt-1", "no longer in the SDK"),
        ("models", {"openai": {"gpt-1": SOON, "gpt-2": SOON}}, "gpt-1", f"ends {SOON}"),
        ("models", {"openai": {"gpt-1": None, "gpt-2": None}}, "gpt-2", "ends on no announced day"),
        ("windows", {"groq/qwen": 100_000}, "qwen", "window of 100,000 tokens"),
        ("windows", {}, "qwen", "not in the price list"),
        ("efforts", {"openai": [*EFFORTS, "ultra"]}, "", "knows the efforts ultra"),
        ("packages", {"genai-prices": "99.0"}, "prices.json", "genai-prices 99.0 is out"),
    ],
)
def test_a_difference_names_the_model_and_what_to_correct(field: str, value: object, model: str, words: str) -> None:
    assert list(differences(VENDORS, TABLE, TODAY)) == []
    (found,) = differences(msgspec.structs.replace(VENDORS, **{field: value}), TABLE, TODAY)
    assert found.model == model
    assert words in found.text


def test_a_model_that_has_ended_and_an_effort_that_is_gone_are_differences() -> None:
    (ended,) = differences(VENDORS, TABLE, SOON + timedelta(1))
    assert ended == Difference("openai", "gpt-2", f"ended on {SOON}: remove it")
    without = msgspec.structs.replace(VENDORS, efforts={"openai": ["high"]})
    assert {d.text for d in differences(without, TABLE, TODAY)} == {"the SDK has no effort low: correct efforts"}


def test_confirming_dates_every_family_without_a_difference() -> None:
    before = Path(catalog.__file__).with_name("models.toml").read_text(encoding="utf-8")
    new, differing = date(2030, 1, 2), ("openai", "gpt-6-astra")
    after = confirm(before, {differing}, new)
    for old, family in zip(tomllib.loads(before)["family"], tomllib.loads(after)["family"], strict=True):
        kept = differing in {(old["provider"], name) for name in old["models"]}
        assert family == old | ({} if kept else {"confirmed": new})


def test_the_installed_packages_can_be_read() -> None:
    found = read()
    for provider in ("anthropic", "openai"):
        assert {name for owner, name in catalog.known() if owner == provider} & found.models[provider].keys()
        assert any(found.models[provider].values())
        assert "high" in found.efforts[provider]
    assert any(found.windows.values())
