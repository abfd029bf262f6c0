"""The options of `friday map`, and the batch that they describe."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from friday_cli.core.protocol.errors import UsageError
from friday_cli.frontends.options import SESSION, SHARED, Option

if TYPE_CHECKING:
    from friday_cli.map.job import MapJob, Source

_ITEMS, _LIMITS, _RUN = "Items", "Limits", "Batch"
_SHARED = {option.dest: option for option in SHARED}
_OF_SESSION = (
    "model",
    "effort",
    "service_tier",
    "subagent_model",
    "mode",
    "allow",
    "deny",
    "add_dir",
    "trust",
    "no_mcp",
)
OPTIONS: tuple[Option, ...] = (
    Option(
        ("--items",),
        "text",
        "File with a JSON value in each line, .csv or .tsv with a header, .parquet, SQLite, or a folder with --glob.",
        "FILE",
        group=_ITEMS,
    ),
    Option(("--query",), "text", "The select that gives the items of a SQLite file.", "SQL", group=_ITEMS),
    Option(("--glob",), "text", "Files as items: {path}, {name}, {content}.", "PATTERN", group=_ITEMS),
    Option(("--over",), "text", "Command whose output lines are the items: {line}.", "COMMAND", group=_ITEMS),
    Option(
        ("--task",),
        "text",
        "Task with fields of the item, such as {path}; {item} is all of it. Default: {item}.",
        "TEMPLATE",
        group=_RUN,
    ),
    Option(("--schema",), "text", "JSON Schema of each result: a file or its text.", "SCHEMA", group=_RUN),
    Option(
        ("--check",),
        "text",
        "Command that must exit with 0 for each result; $FRIDAY_RESULT and $FRIDAY_ITEM are files.",
        "COMMAND",
        group=_RUN,
    ),
    Option(("--reduce",), "text", "Profile of the agents that combine the results into one.", "PROFILE", group=_RUN),
    Option(("--isolation",), "text", "worktree: each item in a git worktree of its own.", "KIND", ("worktree",), _RUN),
    Option(
        ("--engine",),
        "text",
        "Where the items run: here (default), or on a Ray cluster.",
        "ENGINE",
        ("embedded", "ray"),
        _RUN,
    ),
    Option(
        ("--output",),
        "text",
        "Write the results to this file: .csv, a table of a SQLite file (.db, .sqlite), else JSON lines.",
        "FILE",
        group=_RUN,
    ),
    Option(("--output-table",), "text", "Table for the results in a SQLite file (friday_results).", "NAME", group=_RUN),
    Option(
        ("--deferred",),
        "flag",
        "Use the service's batch API, at half price: the answers come within hours. Anthropic and OpenAI.",
        group=_RUN,
    ),
    Option(("--deferred-rounds",), "int", "Requests of an item that go by batches, at most (8).", "N", group=_RUN),
    Option(("--no-wait",), "flag", "With --deferred: end when all is sent; the same command collects.", group=_RUN),
    Option(("--format", "-f"), "text", "For report: html.", "FORMAT", ("html",), _RUN),
    Option(("--yes", "-y"), "flag", "Do not ask for confirmation; required without a terminal.", group=_RUN),
    Option(
        ("--max-cost",),
        "float",
        "US dollars for the whole batch; this or --max-tokens is required.",
        "USD",
        group=_LIMITS,
    ),
    Option(("--per-item-cost",), "float", "US dollars for one item.", "USD", group=_LIMITS),
    Option(
        ("--max-tokens",),
        "int",
        "Tokens for the whole batch: uncached input, cache writes and output.",
        "N",
        group=_LIMITS,
    ),
    Option(("--per-item-tokens",), "int", "Tokens for one item.", "N", group=_LIMITS),
    Option(
        ("--assume-price",),
        "flag",
        "Count a model with an unknown price as its vendor's most expensive one.",
        group=_LIMITS,
    ),
    Option(("--parallel",), "int", "Items that run at the same time (8; with --deferred 2,000).", "N", group=_LIMITS),
    Option(("--sample",), "int", "Items that run before you are asked (5).", "N", group=_LIMITS),
    *(_SHARED[name] for name in (*_OF_SESSION, "cwd")),
    Option(("--config",), "text", "Settings file to use instead of yours.", "FILE", group=SESSION),
)
KEPT = (*_OF_SESSION, "config", "assume_price")
"""Options of the session, which are part of the batch."""


def job_of(values: dict[str, Any], folder: str) -> MapJob:
    """The batch that the options describe. Raises UsageError."""
    from friday_cli.agents.output_schema import read_schema
    from friday_cli.map.job import MapJob

    source, items = _source(values, folder)
    if values["max_cost"] is None and values["max_tokens"] is None:
        raise UsageError("--max-cost is missing: the cap of the whole batch in US dollars, or --max-tokens.")
    parallel, sample = values["parallel"], values["sample"]
    deferred, rounds = values["deferred"], values["deferred_rounds"]
    if deferred and values["service_tier"] not in (None, "standard"):
        raise UsageError("--deferred and --service-tier exclude each other: a batch has a price of its own.")
    if not deferred and (rounds is not None or values["no_wait"]):
        raise UsageError(f"{'--no-wait' if values['no_wait'] else '--deferred-rounds'} needs --deferred.")
    if rounds is not None and not 1 <= rounds <= 100:
        raise UsageError("--deferred-rounds must be from 1 to 100.")
    most = 2_000 if deferred else 64
    if parallel is not None and not 1 <= parallel <= most:
        raise UsageError(f"--parallel must be from 1 to {most}.")
    if sample is not None and sample < 0:
        raise UsageError("--sample must not be negative.")
    options = {name: list(value) if isinstance(value, tuple) else value for name in KEPT if (value := values[name])}
    return MapJob(
        folder,
        values["what"],
        source,
        items,
        values["task"] or "",
        values["max_cost"],
        schema=read_schema(values["schema"], "--schema"),
        check=values["check"] or "",
        reduce=values["reduce"] or "",
        isolation=values["isolation"] == "worktree",
        item_cost=values["per_item_cost"],
        parallel=parallel or (most if deferred else 8),
        sample=5 if sample is None else sample,
        output=values["output"] or "",
        options=options,
        engine=values["engine"] or "embedded",
        tokens=values["max_tokens"],
        item_tokens=values["per_item_tokens"],
        query=values["query"] or "",
        table=values["output_table"] or "",
        deferred=(rounds or 8) if deferred else 0,
        wait=not values["no_wait"],
    )


def _source(values: dict[str, Any], folder: str) -> tuple[Source, str]:
    """The option that names the items (`items`, `glob` or `over`) and its value. Raises UsageError."""
    items, pattern = values["items"], values["glob"]
    if values["query"] is not None and items is None:
        raise UsageError("--query needs --items with a SQLite file.")
    if items is not None and os.path.isdir(os.path.join(folder, items)):
        if pattern is None or values["over"] is not None:
            raise UsageError(f"--items: {items} is a folder: add --glob with a pattern such as '**/*.md'.")
        below = os.path.relpath(os.path.realpath(os.path.join(folder, items)), os.path.realpath(folder))
        if below.startswith(".."):
            raise UsageError(f"--items: {items} is not below {folder}.", hint="Use -C with that folder.")
        return "glob", pattern if below == "." else f"{below}/{pattern}"
    names: tuple[Source, ...] = ("items", "glob", "over")
    sources = [name for name in names if values[name] is not None]
    if len(sources) != 1:
        raise UsageError(
            "Give the items with one of --items, --glob or --over.", hint="`friday map status` lists the batches."
        )
    (source,) = sources
    return source, values[source]
