"""The known models and services: names, limits, prices, API keys, and how a model name becomes a provider."""

from __future__ import annotations

from .classes import class_model, class_of
from .credentials import remember_keys
from .factory import can_search, create_provider, has_tier
from .resolve import ModelChoice, ServiceRow, list_services, resolve

__all__ = [
    "ModelChoice",
    "ServiceRow",
    "can_search",
    "class_model",
    "class_of",
    "create_provider",
    "has_tier",
    "list_services",
    "remember_keys",
    "resolve",
]
