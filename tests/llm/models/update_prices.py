"""Writes prices.json, the packaged extract of genai-prices: `python -m tests.llm.models.update_prices`.

genai-prices is a development dependency only, because its import takes 130-270 ms; tests compare the extract with it.

Each model is `[names, window, prices]`. A name is an exact id, `^prefix`, `$suffix`, `*substring` or `/regular
expression`; a list of names must match all at once. `prices` is a list of `{in, out, read, write, write_long, reasoning, search,
since, hours}` in dollars per million tokens (`search`: per thousand built-in web searches). A price is a number, or
`[base, [tokens, price], ...]`: a request with more input than `tokens` pays that price for all its tokens. The last
entry whose `since` (a UTC date) or `hours` (UTC, from and to) applies is used, else the first entry.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from friday_cli.llm.models import prices

LISTS = (
    "anthropic", "openai", "google", "groq", "deepseek", "mistral", "openrouter", "x-ai", "zai", "moonshotai", "cerebras", "together",
    "fireworks", "aws", "azure",
)  # fmt: skip
"""The price lists of genai-prices that are used by Friday's services."""
_FIELDS = {
    "in": "input_mtok",
    "out": "output_mtok",
    "read": "cache_read_mtok",
    "write": "cache_write_mtok",
    "write_long": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
    "search": "web_searches_kcount",
}


def extract() -> dict[str, Any]:
    """The extract, from the installed genai-prices."""
    from genai_prices import __version__, data_snapshot

    made: dict[str, Any] = {"source": f"genai-prices {__version__}", "lists": {}}
    known = {provider.id: provider for provider in data_snapshot.get_snapshot().providers}
    for name in LISTS:
        provider = known[name]
        rows = [row for model in provider.models if (row := _row(model))]
        also = [other for other in provider.fallback_model_providers or () if other in LISTS]
        made["lists"][name] = {"also": also, "models": rows}
    return made


def write(path: Path) -> None:
    """Write the extract to `path`, one model per line."""
    made = extract()
    lists = []
    for name, entry in made["lists"].items():
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in entry["models"])
        lists.append(f'"{name}": {{"also": {json.dumps(entry["also"])}, "models": [\n{rows}\n]}}')
    text = f'{{\n"source": {json.dumps(made["source"])},\n"lists": {{\n' + ",\n".join(lists) + "\n}}\n"
    path.write_text(text, encoding="utf-8")


def _row(model: Any) -> list[Any] | None:
    """A model's entry; None if input or output tokens have no price (embeddings, speech and others)."""
    conditional = model.prices if isinstance(model.prices, list) else None
    prices = [_price(c.prices, c.constraint) for c in conditional] if conditional else [_price(model.prices, None)]
    if not all(("in" in price and "out" in price) for price in prices):
        if any("in" in price or "out" in price for price in prices) or not model.id.endswith(":free"):
            return None
        prices = [{"in": 0, "out": 0}]
    return [_names(model.match), model.context_window or 0, prices]


def _price(price: Any, constraint: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for short, field in _FIELDS.items():
        value = getattr(price, field)
        if isinstance(value, Decimal):
            out[short] = _number(value)
        elif value is not None:
            out[short] = [_number(value.base), *([tier.start, _number(tier.price)] for tier in value.tiers)]
    if constraint is not None:
        if hasattr(constraint, "start_date"):
            out["since"] = constraint.start_date.isoformat()
        else:
            out["hours"] = [f"{t:%H:%M}" for t in (constraint.start_time, constraint.end_time)]
    return out


def _number(value: Decimal) -> int | float:
    return int(value) if value == int(value) else float(value)


def _names(clause: Any) -> list[Any]:
    marks = {"equals": "", "starts_with": "^", "ends_with": "$", "contains": "*", "regex": "/"}
    for field, mark in marks.items():
        if hasattr(clause, field):
            value = getattr(clause, field)
            text = value if isinstance(value, str) else value.pattern
            if not mark and text[:1] in tuple("^$*/"):
                raise ValueError(f"model id looks like a pattern: {text}")
            return [mark + (text if mark == "/" else text.lower())]
    if hasattr(clause, "or_"):
        return [name for inner in clause.or_ for name in _names(inner)]
    if hasattr(clause, "and_"):
        parts = [_names(inner) for inner in clause.and_]
        if all(len(part) == 1 for part in parts):
            return [[part[0] for part in parts]]
    raise ValueError(f"unsupported match rule: {clause}")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(prices.__file__).with_name("prices.json")
    write(target)
    print(f"{target}: {target.stat().st_size} bytes")
