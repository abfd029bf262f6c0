"""Providers for OpenAI's two APIs: Responses, and Chat Completions, which most other services and local servers use."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from friday_cli.core.protocol.provider import Request

from ..transport.endpoint import Endpoint
from .encoded_history import EncodedHistory
from .openai_chat import ChatStream, chat_request
from .openai_parts import SERVICES, OpenAIQuirks
from .openai_responses import ResponsesStream, responses_request
from .pricing import Pricing
from .service_provider import ServedModel, ServiceProvider

_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning")


class _OpenAIProvider(ServiceProvider):
    """`quirks` default to those of the service."""

    def __init__(
        self,
        model: ServedModel,
        endpoint: Endpoint,
        pricing: Pricing | None = None,
        quirks: OpenAIQuirks | None = None,
    ) -> None:
        super().__init__(model, endpoint, pricing)
        self._quirks = SERVICES.get(model.service, OpenAIQuirks()) if quirks is None else quirks


class OpenAIChat(_OpenAIProvider):
    """A service with Chat Completions below its `base_url`."""

    path = "/chat/completions"
    reply_stream = ChatStream

    def _body(self, request: Request, history: EncodedHistory | None = None) -> dict[str, Any]:
        quirks = (
            msgspec.structs.replace(self._quirks, omitted=frozenset(self._omitted)) if self._omitted else self._quirks
        )
        return chat_request(request, self._model, quirks, history)


class OpenAIResponses(_OpenAIProvider):
    """A service with the Responses API."""

    path = "/responses"
    reply_stream = ResponsesStream
    no_reply: ClassVar[dict[str, Any]] = {"prompt_cache_options": {"prewarm": True}}

    @property
    def cache_kept_s(self) -> float:
        """See `CacheRefresher`: models with cache marks have `prompt_cache_options`."""
        return 1800.0 if self._quirks.cache_marks and not self._endpoint.over_sdk else 0.0

    async def count_tokens(self, request: Request) -> int:
        """Input tokens of `request`, counted by the service. Raises ProviderError."""
        return await self._counted(request, f"{self.path}/input_tokens", _COUNTED)

    def _body(self, request: Request, history: EncodedHistory | None = None) -> dict[str, Any]:
        return responses_request(request, self._model, self._quirks, history)
