"""What replies cost: the usual price of a model, and the tiers in which a service serves requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import AskedTier

FAST_MODE = "fast-mode-2026-02-01"
"""The `anthropic-beta` of a request in fast mode."""
_FIELDS: dict[str, dict[str, dict[str, Any]]] = {
    "openai": {
        "standard": {"service_tier": "default"},
        "flex": {"service_tier": "flex"},
        "fast": {"service_tier": "priority"},
    },
    "anthropic": {"fast": {"speed": "fast"}},
}
"""The fields of a request that ask for a tier, by vendor."""
_RATES = {"flex": 0.5, "fast": 2.0}
"""Price of a tier, as a part of the usual one (list prices of both vendors, November 2026)."""
OPENAI_WORDS = {"priority": "fast", **dict.fromkeys(("auto", "default", "on_demand"), "standard")}
"""What services with OpenAI's APIs call their tiers."""


class ServiceTiers(msgspec.Struct, frozen=True):
    """The tiers of a service, and the one that its requests ask for."""

    asked: AskedTier = ""
    fields: dict[str, Any] = {}
    """The fields of each request that ask for it."""
    rates: dict[str, float] = {}
    """The price of each tier, as a part of the usual one."""

    def rate(self, served: str) -> float:
        """The price as a part of the usual one. `served`: the tier that served the request; "": not known yet, which counts as the more
        expensive of the usual tier and the one that is asked for."""
        return self.rates.get(served, 1.0) if served else max(1.0, self.rates.get(self.asked, 1.0))

    def note(self, service: str, served: str) -> str:
        """Tells that a request was served in another tier than the one that is asked for; "" if it was not."""
        if not self.asked or served == self.asked or (not served and self.asked == "standard"):
            return ""
        if not served:
            return f"{service} does not say in which tier it served this: it counts at the higher price of {self.asked} and standard."
        price = (
            "at the price of that tier"
            if self.knows(served)
            else "at the usual price, since that of this tier is not known"
        )
        return f"{service} served this in its tier {served}, not {self.asked}: it counts {price}."

    def knows(self, served: str) -> bool:
        """Whether the price of a tier is known."""
        return served in ("", "standard") or served in self.rates


class Pricing(msgspec.Struct, frozen=True, eq=False):
    """What the replies of a model cost."""

    usual: Callable[[Usage], float | None] | None = None
    """US dollars for the usage of one request outside of any tier; None if it is not known."""
    step: int = 0
    """Input in tokens above which every token of a request costs more; 0: none."""
    assumed: bool = False
    """Whether the price is that of another model, so that costs are estimates."""
    tiers: ServiceTiers = ServiceTiers()

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage` in the tier that served it; None if the price is not known. Fees of searches are the same in all tiers."""
        full, rate = self.usual(usage) if self.usual else None, self.tiers.rate(usage.tier)
        if self.usual is None or full is None or rate == 1.0:
            return full
        fees = self.usual(Usage(searches=usage.searches)) or 0.0
        return fees + (full - fees) * rate

    def priced(self, usage: Usage) -> Usage:
        """`usage` with its cost, unless the service reported that."""
        if usage.charged:
            return usage
        estimated = usage.estimated or self.assumed or not self.tiers.knows(usage.tier)
        tier = "" if usage.tier == "standard" and not self.tiers.asked else usage.tier
        return msgspec.structs.replace(usage, cost_usd=self.cost(usage), estimated=estimated, tier=tier)


def service_tiers(vendor: str, asked: AskedTier) -> ServiceTiers | None:
    """The tiers of a vendor's own service; None if it does not have the one that is asked for."""
    offered = _FIELDS.get(vendor, {})
    if asked not in ("", "standard", *offered):
        return None
    return ServiceTiers(asked, offered.get(asked, {}), {name: _RATES[name] for name in offered if name in _RATES})
