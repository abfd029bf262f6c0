"""Provider for the Messages API: at Anthropic, on a cloud platform, or at any server that implements it."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.provider import Request

from ..transport.endpoint import Endpoint, parse_headers
from .anthropic_request import REJECTED, AnthropicQuirks, messages_request, task_budget
from .anthropic_stream import AnthropicStream
from .encoded_history import EncodedHistory
from .pricing import FAST_MODE, Pricing
from .service_provider import ServedModel, ServiceProvider

VERSION = "2026-10-21"
"""The `anthropic-version` header of every request, the same as the SDK's; a configured header replaces it."""
BINDING = "thinking-binding-controls-2026-08-01"
"""The `anthropic-beta` that lets a request drop thinking blocks of a conversation that has changed."""
TASK_BUDGETS = "task-budgets-2026-03-13"
"""The `anthropic-beta` of a request that tells the model its budget."""
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control")


class AnthropicProvider(ServiceProvider):
    """A model behind the Messages API.

    `endpoint.headers` contains the key, as a bearer token (as the SDK sends both keys and tokens) or as `x-api-key`;
    ANTHROPIC_CUSTOM_HEADERS adds headers. `quirks` is the model's row in models.toml.
    """

    path = "/v1/messages"
    reply_stream = AnthropicStream
    needed = ("max_tokens",)
    no_reply: ClassVar[dict[str, Any]] = {"max_tokens": 0}

    def __init__(
        self,
        model: ServedModel,
        endpoint: Endpoint,
        pricing: Pricing | None = None,
        quirks: AnthropicQuirks | None = None,
    ) -> None:
        super().__init__(model, endpoint, pricing)
        headers = {key.lower(): value for key, value in endpoint.headers.items()}
        if not endpoint.over_sdk:
            custom = parse_headers(os.environ.get("ANTHROPIC_CUSTOM_HEADERS", ""))
            headers = {"anthropic-version": VERSION, **custom, **headers}
        self._endpoint = msgspec.structs.replace(endpoint, headers=headers, sdk="anthropic")
        self._quirks = quirks or AnthropicQuirks()

    def _omit_refused(self, error: ProviderError, request: Request) -> str | None:
        """As the base class; thinking blocks that are rejected because the conversation has changed are omitted from it,
        too."""
        remedy, state = _thinking_remedy(error), request.provider_state
        if remedy is None or state.get(REJECTED) in (remedy, "strip"):
            return super()._omit_refused(error, request)
        state[REJECTED] = remedy
        return ""

    @property
    def cache_kept_s(self) -> float:
        """See `CacheRefresher`. The service refuses such a request with a budget of thinking tokens ("Prompt caching")."""
        own = not self._endpoint.over_sdk and not self._quirks.short_ids and self._quirks.thinking != "budget"
        return 300.0 if own else 0.0

    async def count_tokens(self, request: Request) -> int:
        """Input tokens of `request`, counted by the service. Raises ProviderError."""
        return await self._counted(request, f"{self.path}/count_tokens", _COUNTED)

    def _body(self, request: Request, history: EncodedHistory | None = None) -> dict[str, Any]:
        return messages_request(request, self._model, self._quirks, history)

    def _endpoint_for(self, request: Request) -> Endpoint:
        """The endpoint, with the beta headers that the request needs."""
        wanted = [BINDING] if request.provider_state.get(REJECTED) == "drop" else []
        wanted += [TASK_BUDGETS] if task_budget(request, self._quirks) else []
        wanted += [FAST_MODE] if self._pricing.tiers.asked == "fast" and "speed" not in self._omitted else []
        if not wanted:
            return self._endpoint
        headers = self._endpoint.headers
        betas = [*filter(None, [headers.get("anthropic-beta")]), *wanted]
        return msgspec.structs.replace(self._endpoint, headers={**headers, "anthropic-beta": ",".join(betas)})


def _thinking_remedy(error: ProviderError) -> Literal["drop", "strip"] | None:
    """How to retry after the service rejected thinking blocks; None for any other error."""
    text = error.message.lower()
    if error.kind != "invalid" or error.status not in (0, 400) or "thinking" not in text:
        return None
    if "prefix_mismatch_behavior" in text or "bound to a different conversation" in text:
        return "drop"
    return "strip" if "signature" in text or "block_binding" in text else None
