"""`python -m tests.llm.models.newest [--confirm]`: compares models.toml with the vendors' newest releases.

The newest anthropic, openai and genai-prices go into a temporary folder; what is installed and locked stays as it is.
Each difference is printed with what to do about it; the exit code is 1 where there is one, 0 otherwise. `--confirm`
writes the date of today into each family of models.toml without a difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import msgspec

from friday_cli.core.protocol.provider import EFFORTS
from friday_cli.llm.models import catalog, prices

PROJECT = Path(__file__).parents[3]
PACKAGES = ("anthropic", "openai", "genai-prices")
LISTS = {"gemini": "google"}
"""The name of a service in genai-prices, where it has another one there."""
LEFT_OUT = frozenset(("gpt-5.2-pro", "gpt-5.1-mini"))
"""Ids of the SDKs that are no models for Friday: one that calls no tools, and one that OpenAI does not serve."""
_KINDS = re.compile(r"-(audio|realtime|search|chat-latest)\b|gpt-audio")
_DATED = re.compile(r"-(20\d{6}|20\d\d-\d\d-\d\d)$")


class Vendors(msgspec.Struct, frozen=True):
    """What the packages say. `models`: provider -> id -> announced last day; `efforts`: provider -> levels;
    `windows`: `provider/model` of each entry of models.toml that has a price -> its window in tokens, 0 where none is
    listed; `packages`: name -> version."""

    packages: dict[str, str]
    models: dict[str, dict[str, date | None]]
    efforts: dict[str, list[str]]
    windows: dict[str, int]


class Difference(msgspec.Struct, frozen=True):
    """What differs, and the model; its id is "" for what concerns the service as a whole."""

    provider: str
    model: str
    text: str

    def __str__(self) -> str:
        return f"{'/'.join(filter(None, (self.provider, self.model)))}: {self.text}"


def differences(vendors: Vendors, table: dict[tuple[str, str], catalog.Model], today: date) -> Iterator[Difference]:
    """Where `table` and the vendors disagree."""
    for provider, models in vendors.models.items():
        for name, ends in models.items():
            if (provider, name) not in table and (ends is None or ends >= today):
                yield Difference(provider, name, "is new: add it to models.toml with the figures of its vendor's page")
    for (provider, name), model in table.items():
        listed = vendors.windows.get(f"{provider}/{name}")
        if provider in vendors.models:
            if name not in vendors.models[provider]:
                yield Difference(provider, name, "is no longer in the SDK: remove it")
            elif model.ends and model.ends < today:
                yield Difference(provider, name, f"ended on {model.ends}: remove it")
            elif (ends := vendors.models[provider][name]) != model.ends:
                yield Difference(provider, name, f"ends {ends or 'on no announced day'}: correct [ends]")
        elif listed is None:
            yield Difference(provider, name, "is not in the price list: look whether it is still served")
        if listed and model.window and listed != model.window:
            yield Difference(provider, name, f"has a window of {listed:,} tokens: correct window")
    for provider, levels in vendors.efforts.items():
        if unknown := sorted({*levels} - {*EFFORTS}):
            yield Difference(provider, "", f"the SDK knows the efforts {', '.join(unknown)}: add them to EFFORTS")
        for (owner, name), model in table.items():
            if owner == provider and (gone := sorted({*model.quirks.efforts} - {*levels, "none"})):
                yield Difference(provider, name, f"the SDK has no effort {', '.join(gone)}: correct efforts")
    if prices.source() != (newest := f"genai-prices {vendors.packages['genai-prices']}"):
        yield Difference("", "prices.json", f"is made from {prices.source()}, and {newest} is out: run .ci/lock")


def confirm(text: str, differing: set[tuple[str, str]], today: date) -> str:
    """models.toml with `today` as the day of confirmation in each family that has no model in `differing`."""
    head, *families = re.split(r"^(?=\[\[family\]\])", text, flags=re.M)
    for index, family in enumerate(families):
        (row,) = tomllib.loads(family)["family"]
        if not differing & {(row["provider"], name) for name in row["models"]}:
            families[index] = re.sub(r"^confirmed = .*$", f"confirmed = {today}", family, flags=re.M)
    return head + "".join(families)


def read() -> Vendors:
    """What the packages say that this process can import."""
    import openai.types.shared.chat_model as chat_model
    from anthropic.resources.messages.messages import DEPRECATED_MODELS
    from anthropic.types import model_param
    from anthropic.types.output_config_param import OutputConfigParam
    from openai.types.shared.reasoning_effort import ReasoningEffort

    ends = {"anthropic": {name: _day(text) for name, text in DEPRECATED_MODELS.items()}}
    ends["openai"] = _announced(Path(chat_model.__file__).read_text(encoding="utf-8"))
    ids = {"anthropic": get_args(get_args(model_param.ModelParam)[0]), "openai": get_args(chat_model.ChatModel)}
    names = {p: {_DATED.sub("", i) for i in of if not _KINDS.search(i)} - LEFT_OUT for p, of in ids.items()}
    efforts = {
        "anthropic": re.findall(r"['\"](\w+)['\"]", str(OutputConfigParam.__annotations__["effort"])),
        "openai": list(get_args(get_args(ReasoningEffort)[0])),
    }
    return Vendors(
        packages={name: version(name) for name in PACKAGES},
        models={p: {name: ends[p].get(name) for name in sorted(names[p])} for p in names},
        efforts=efforts,
        windows=dict(_windows()),
    )


def _windows() -> Iterator[tuple[str, int]]:
    from genai_prices import data_snapshot

    snapshot = data_snapshot.get_snapshot()
    for provider, model in catalog.known():
        try:
            _, found = snapshot.find_provider_model(model, None, LISTS.get(provider, provider), None)
        except LookupError:
            continue
        yield f"{provider}/{model}", found.context_window or 0


def _announced(source: str) -> dict[str, date]:
    """The last days that the comment of openai's ChatModel announces."""
    rows = re.findall(r'- ((?:"[^"]+",? ?)+): Announced shutdown date: (\d{4}-\d\d-\d\d)', re.sub(r"\s+", " ", source))
    return {name: date.fromisoformat(day) for names, day in rows for name in re.findall(r'"([^"]+)"', names)}


def _day(text: str) -> date:
    return datetime.strptime(re.sub(r"(\d)(st|nd|rd|th)", r"\1", text), "%B %d, %Y").replace(tzinfo=UTC).date()


def newest() -> Vendors:
    """What the newest releases say. They are installed into a temporary folder and read by a process of its own."""
    env = {name: value for name, value in os.environ.items() if not name.endswith("_CONSTRAINT")}
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", folder, *PACKAGES]
        subprocess.run(pip, env=env, stdin=subprocess.DEVNULL, check=True)
        code = (
            "import sys, msgspec, tests.llm.models.newest as n; sys.stdout.buffer.write(msgspec.json.encode(n.read()))"
        )
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=PROJECT,
            env=env | {"PYTHONPATH": folder},
            stdout=subprocess.PIPE,
            check=True,
        )
    return msgspec.json.decode(found.stdout, type=Vendors)


def main(argv: list[str]) -> int:
    """Print the differences; 0 where there are none."""
    vendors, today = newest(), date.today()
    print(", ".join(f"{name} {number}" for name, number in vendors.packages.items()))
    found = list(differences(vendors, catalog.known(), today))
    for difference in found:
        print(difference)
    if unpriced := [
        f"{p}/{n}" for p, n in catalog.known() if p in vendors.models and f"{p}/{n}" not in vendors.windows
    ]:
        print(f"without a price in genai-prices: {', '.join(unpriced)}")
    if argv == ["--confirm"]:
        path = Path(catalog.__file__).with_name("models.toml")
        differing = {(difference.provider, difference.model) for difference in found}
        path.write_text(confirm(path.read_text(encoding="utf-8"), differing, today), encoding="utf-8")
    print(f"{len(found)} differences" if found else "no differences")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
