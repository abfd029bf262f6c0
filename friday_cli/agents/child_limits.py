"""What a sub-agent may use up: its profile, the settings and its task together."""

from __future__ import annotations

from friday_cli.config.settings import DelegationSettings
from friday_cli.core.protocol.limits import Limits, least
from friday_cli.extensions.profiles import TURNS, TURNS_HARD, Profile

UNLIMITED = Limits()


def child_limits(profile: Profile | None, settings: DelegationSettings, given: Limits = UNLIMITED) -> Limits:
    """The limits of a sub-agent with `profile` (None: of any). Those of its task, `given`, can only lower them. Tokens, turns
    and time are always set."""
    usual = Limits(settings.token_budget.default, None, TURNS, settings.default_timeout)
    own = profile.limits.otherwise(usual) if profile else usual
    return least(own, given, Limits(settings.token_budget.max, turns=TURNS_HARD))
