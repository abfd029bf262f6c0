"""The model service behind a meter: its address, the key that Friday holds for it, and the prices of its models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from friday_cli.config import Settings
from friday_cli.core.protocol.messages import Usage
from friday_cli.extensions.profiles.profile import Wire
from friday_cli.llm.models.credentials import find_key
from friday_cli.llm.models.factory import cost_function
from friday_cli.llm.models.presets import find_service
from friday_cli.llm.transport.endpoint import Endpoint

_KEY_HEADERS: dict[Wire, str] = {"anthropic": "x-api-key", "openai": "authorization", "gemini": "x-goog-api-key"}


class Upstream(msgspec.Struct, frozen=True):
    """A service that requests are forwarded to. `price` makes the cost function of one of its models."""

    wire: Wire
    name: str
    endpoint: Endpoint
    price: Callable[[str], Callable[[Usage], float | None]]

    def url(self, target: str) -> str:
        """The address of a request of the program. OpenAI's base URLs have their version in them."""
        return self.endpoint.base_url.rstrip("/") + target.removeprefix("/v1" if self.wire == "openai" else "")


def upstream_of(wire: Wire, settings: Settings, env: Mapping[str, str]) -> Upstream | None:
    """The service for the requests of a wire, which has its name; None if Friday has no key for it: the program then uses a login of its own, which Friday
    does not touch. Raises FridayError for a key that cannot be read."""
    if wire == "none":
        return None
    service = find_service(wire, settings.providers, env)
    key = find_key(service, env)
    if (key is None and service.official) or service.settings.platform:
        return None
    headers = dict(service.settings.headers)
    if key is not None:
        header = _KEY_HEADERS[wire]
        headers[header] = f"Bearer {key.reveal()}" if header == "authorization" else key.reveal()
    base = service.base_url
    if wire == "gemini":  # Friday itself uses its OpenAI form
        base = base.removesuffix("/openai").removesuffix("/v1beta")
    endpoint = Endpoint(service=service.title, base_url=base, headers=headers)
    price = partial(cost_function, service, assume=settings.limits.assume_price, env=env)
    return Upstream(wire, service.name, endpoint, price)
