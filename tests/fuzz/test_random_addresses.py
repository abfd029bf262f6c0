"""Random addresses that lead inside, in spellings that nobody listed: neither `web_fetch` nor a login to an MCP server goes there.
`FRIDAY_FUZZ=10` tries 1,000 of each."""

from __future__ import annotations

import random
from urllib.parse import quote

import httpx2
import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.system.web_address import checked_url, route
from tests.fuzz import addresses, seeds
from tests.mcp import test_login_network as login

VARIANTS = 100 * seeds.TIMES


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def routed(url: str) -> list[str]:
    """The IP addresses that a fetch of `url` would connect to."""
    try:
        return (await route(checked_url(url), addresses.resolve, private=False))[0]
    except ToolError:
        return []


async def test_no_spelling_of_an_inside_address_is_fetched() -> None:
    first = seeds.first()
    bad = []
    for seed in range(first, first + VARIANTS):
        rng = random.Random(seed)
        url = addresses.address(rng, addresses.inside(rng))
        if found := [one for one in await routed(url) if addresses.leads_inside(one)]:
            bad.append((seed, url, found))
        base = checked_url("https://93.184.216.34/a/b")
        for location in (url, url.partition(":")[2], quote(url, safe=":/@[]")):  # as a redirect names it
            try:
                target = str(base.join(location))
            except httpx2.InvalidURL:
                continue
            if found := [one for one in await routed(target) if addresses.leads_inside(one)]:
                bad.append((seed, f"redirect to {location}", found))
    assert bad == []


async def is_inside(host: str) -> bool:
    """Whether a host, perhaps with a port, leads inside."""
    name = httpx2.URL(f"https://{host}/").host.rstrip(".")
    return any(map(addresses.leads_inside, await addresses.resolve(name, 443)))


async def test_public_addresses_are_fetched() -> None:
    for url in ("https://93.184.216.34/", "https://[2606:4700::1111]/", "http://8.8.8.8:8080/x"):
        assert await routed(url) != []


async def test_no_spelling_of_an_inside_address_is_reached_by_a_login(
    home: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(host: str, port: int) -> object:
        return [login.NAMES[host]] if host in login.NAMES else await addresses.resolve(host, port)

    monkeypatch.setattr(login, "resolve", resolve)
    first = seeds.first()
    bad = []
    for seed in range(first, first + VARIANTS):
        rng = random.Random(seed)
        url, way = addresses.address(rng, addresses.inside(rng)), rng.choice(sorted(login.WAYS))
        try:
            internet = login.Internet(**login.WAYS[way](url))
        except (ValueError, UnicodeError):
            continue  # no header has these characters
        try:
            told = await internet.login()
        except AssertionError as reached:
            told = f"reached: {reached}"
        reached = [host for host in internet.reached if host not in ("notes.example", "issuer.example")]
        inside = [host for host in reached if await is_inside(host)]
        if inside or (login.CANARY in told and not reached) or told.startswith("reached: "):
            bad.append((seed, way, url, inside, told))
    assert bad == []
