"""The vendors' SDKs read what the fake batch service says: its answers have their fields."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import openai

from tests.servers.batch_service import batch_service

FATES = ("succeeded", "errored", "expired", "overloaded", "canceled")


def fate(name: str, body: Any) -> Any:
    return FATES[int(name.rpartition("_")[2])]


async def test_the_sdk_of_anthropic_is_a_client_of_the_fake() -> None:
    with batch_service() as service:
        service.fate = fate
        async with anthropic.AsyncAnthropic(api_key="k", base_url=service.url, max_retries=0) as client:
            params: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "<<a>>"}]}
            requests: Any = [{"custom_id": f"r_{n}", "params": params} for n in range(5)]
            made = await client.messages.batches.create(requests=requests)
            assert (made.processing_status, made.request_counts.processing) == ("in_progress", 5)
            listed = await client.messages.batches.list()
            assert [row.id for row in listed.data] == [made.id]
            await client.messages.batches.retrieve(made.id)
            ended = await client.messages.batches.retrieve(made.id)
            counts = ended.request_counts
            assert (counts.succeeded, counts.errored, counts.canceled, counts.expired) == (1, 2, 1, 1)
            assert (await client.messages.batches.cancel(made.id)).id == made.id
        rows = await asyncio.to_thread(service.results, service.batches[made.id])
        for line in rows.splitlines():
            anthropic.types.messages.MessageBatchIndividualResponse.model_validate_json(line, strict=False)


async def test_the_sdk_of_openai_is_a_client_of_the_fake() -> None:
    with batch_service() as service:
        service.fate = fate
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{service.url}/v1", max_retries=0) as client:
            body = '{"model": "m", "input": [{"role": "user", "content": "<<a>>"}]}'
            lines = "\n".join(
                f'{{"custom_id": "r_{n}", "method": "POST", "url": "/v1/responses", "body": {body}}}' for n in range(5)
            )
            file = await client.files.create(file=("x.jsonl", lines.encode()), purpose="batch")
            made = await client.batches.create(
                input_file_id=file.id, endpoint="/v1/responses", completion_window="24h", metadata={"friday": "l"}
            )
            assert (made.status, made.metadata) == ("in_progress", {"friday": "l"})
            await client.batches.retrieve(made.id)
            ended = await client.batches.retrieve(made.id)
            assert ended.status == "expired"
            assert ended.output_file_id
            assert ended.error_file_id
            output = await client.files.content(ended.output_file_id)
            assert len(output.text.splitlines()) == 1
            assert (await client.files.delete(file.id)).deleted
