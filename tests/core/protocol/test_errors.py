from __future__ import annotations

import os

import pytest

from friday_cli.core.protocol.errors import is_process_limit


def test_output_that_is_full_is_not_the_limit_of_processes() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(reader, "rb"), os.fdopen(writer, "wb") as file:
        with pytest.raises(BlockingIOError) as full:
            file.write(b"x" * 1_000_000)
        os.read(reader, 1_000_000)
    assert not is_process_limit(full.value)
    assert is_process_limit(BlockingIOError(11, "Resource temporarily unavailable"))
    assert is_process_limit(RuntimeError("can't start new thread"))
