"""What sub-agents may cost, and usually use, before they are started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from friday_cli.config.settings import DelegationSettings
from friday_cli.core.limits.forecast import PastRun, forecast
from friday_cli.core.protocol.errors import FridayError, StoreError
from friday_cli.core.protocol.forecast import Forecast
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.subagents.node import SpawnEstimate
from friday_cli.extensions.profiles import Profiles

from .child_limits import child_limits
from .provider_pool import ProviderPool


async def no_past_runs(profile: str, model: str) -> Sequence[PastRun]:
    """What is known where earlier sessions do not count."""
    return ()


class SpawnEstimates(msgspec.Struct, frozen=True, eq=False):
    """Makes the estimates of a session."""

    delegation: DelegationSettings
    profiles: Profiles
    providers: ProviderPool
    past_runs: Callable[[str, str], Awaitable[Sequence[PastRun]]] = no_past_runs
    """Returns the earlier delegations that a forecast for a profile on a model is made from. Raises StoreError."""

    def highest_cost(self, wanted: SpawnEstimate) -> float | None:
        """US dollars that a sub-agent may cost at most: its whole budget, with four tokens read for each token written. None
        if the price is unknown."""
        profile = self.profiles.found.get(wanted.profile)
        tokens = child_limits(profile, self.delegation, Limits(wanted.max_tokens)).tokens or 0
        return self._provider(wanted).cost(Usage(input=tokens * 4 // 5, output=tokens // 5))

    async def forecast(self, wanted: SpawnEstimate, size: int) -> Forecast:
        """What a sub-agent with a task of `size` characters usually uses."""
        provider = self._provider(wanted)
        model = f"{provider.name}/{provider.model}"
        past: Sequence[PastRun] = ()
        with suppress(StoreError):  # a forecast that cannot be made stops no work
            past = await self.past_runs(wanted.profile, model)
        return forecast(wanted.profile, model, past, size)

    def _provider(self, wanted: SpawnEstimate) -> Provider:
        profile = self.profiles.found.get(wanted.profile)
        if profile is not None:
            with suppress(FridayError):  # an unusable model is reported when the agent is started
                return self.providers.for_child(wanted.above, profile)[0]
        return wanted.above
