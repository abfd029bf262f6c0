"""The tests of the engine run on a virtual clock: hours pass in milliseconds."""

from collections.abc import Callable, Mapping

from tests.virtual import VirtualLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], VirtualLoop]]:
    return {"virtual": VirtualLoop}
