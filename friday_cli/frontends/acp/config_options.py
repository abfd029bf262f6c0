"""What a client can change in a session: the permission mode, the model and how hard it thinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from friday_cli.core.permissions.decision import Mode
from friday_cli.core.protocol.provider import Effort

MODES = {
    "ask": ("Ask", "Only reads run without asking."),
    "edits": ("Edits", "File changes run without asking too."),
    "plan": ("Plan", "Nothing is changed."),
    "auto": ("Auto", "Like edits, and commands run in the sandbox."),
}
"""`--yolo` is given on the command line only."""


def has_key() -> bool:
    """Whether a service of models can be used, apart from those on this machine."""
    from friday_cli import config
    from friday_cli.llm import models

    return any(row.usable and not row.local for row in models.list_services(config.load(project=None).settings))


def rows(mode: Mode, model: str, effort: Effort | None, models: Sequence[str]) -> list[dict[str, Any]]:
    """The options with their values. A model that is not in the list can be set by its name too."""
    modes = [{"value": name, "name": title, "description": about} for name, (title, about) in MODES.items()]
    if mode not in MODES:
        modes.append(
            {"value": mode, "name": mode.capitalize(), "description": "Everything runs except what deny rules refuse."}
        )
    names = [{"value": name, "name": name} for name in dict.fromkeys((model, *models))]
    levels = [{"value": name, "name": name} for name in ("default", *get_args(Effort))]
    return [
        _select("mode", "Mode", "mode", mode, modes),
        _select("model", "Model", "model", model, names),
        _select("thought_level", "Effort", "thought_level", effort or "default", levels),
    ]


def _select(name: str, title: str, category: str, value: str, options: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": name,
        "name": title,
        "category": category,
        "type": "select",
        "currentValue": value,
        "options": options,
    }
