"""Classes of models: agent files of other tools name `opus`, `sonnet` or `haiku` and mean a strong, a usual or a small model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from friday_cli.config.settings import ModelClass, Settings

from . import catalog
from .presets import SCRIPTED, find_service

CLASSES: tuple[ModelClass, ...] = get_args(ModelClass)


def class_of(name: str) -> ModelClass | None:
    """The class that a model name is; None for every other name."""
    return next((known for known in CLASSES if known == name.strip().lower()), None)


def class_model(wanted: ModelClass, provider: str, beside: str, settings: Settings, env: Mapping[str, str]) -> str:
    """The full name of the model of a class at the service `provider`; "" if it is not known. `beside`: a model that this
    service has. Behind a changed base URL the usual models are assumed only if that one is a known one, too. Raises
    UsageError if the service is not configured correctly."""
    if provider in SCRIPTED:
        return ""
    service = find_service(provider, settings.providers, env)
    if own := service.settings.classes.get(wanted):
        return f"{provider}/{own}"
    usual = service.official or service.settings.platform or (service.catalog_name, beside) in catalog.known()
    model = catalog.classes(service.catalog_name).get(wanted) if usual else None
    return f"{provider}/{model}" if model else ""
