"""The JSON Schema of config.toml: it takes what Friday takes, and refuses what Friday refuses."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from friday_cli.config import validate
from friday_cli.config.docs import markdown

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/config.schema.json").read_text(encoding="utf-8"))
CASES = (
    ("", True),
    *((text, True) for text in re.findall(r"```toml\n(.*?)```", markdown(), re.S)),
    ('[[permissions.rules]]\nrule = "bash(git push *)"\ndecision = "deny"', True),
    ("[limits]\nmax_cost = 0.5", True),
    ('mode = "yolo"', False),
    ("colour = 1", False),
    ("[limits]\nmax_turns = 0", False),
    ('model = ["opus"]', False),
    ('[providers.x]\nbase_url = "ftp://x"', False),
    ("[tools]\nbash_timeout = 100000", False),
)


@pytest.mark.parametrize(("text", "valid"), CASES)
def test_the_schema_of_settings_agrees_with_friday(text: str, valid: bool) -> None:
    data = tomllib.loads(text)
    assert Draft202012Validator(SCHEMA).is_valid(data) is valid
    assert (not list(validate.problems(data))) is valid


def test_every_setting_is_described() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    structs = [SCHEMA, *SCHEMA["$defs"].values()]
    missing = [
        key for one in structs for key, about in one["properties"].items() if not about.keys() & {"description", "$ref"}
    ]
    assert missing == ["providers"]
