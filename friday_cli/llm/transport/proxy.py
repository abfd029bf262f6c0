"""The proxy that the environment names for an address."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from friday_cli.core.protocol.errors import ProviderError

from .endpoint import Endpoint

_SCHEMES = frozenset(("http", "https", "socks5", "socks5h"))


def proxy_for(endpoint: Endpoint) -> str:
    """The proxy from the environment for this endpoint, without user name and password; "" for none."""
    found = _written(endpoint)
    try:
        parts = urlsplit(found if "://" in found else f"http://{found}")
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if found and parts.netloc else ""


def require_usable(endpoint: Endpoint) -> None:
    """Raises ProviderError for a proxy that cannot be used: the request would go out directly, or wait for nothing."""
    found = _written(endpoint)
    if not found:
        return
    try:
        parts = urlsplit(found if "://" in found else f"http://{found}")
        usable = bool(parts.hostname) and found.isprintable() and " " not in found and parts.port != 0
    except ValueError:
        parts, usable = urlsplit("http://"), False
    name = f"{endpoint.address.scheme}_proxy or all_proxy"
    if not usable or parts.scheme not in _SCHEMES:
        raise ProviderError(
            "config",
            f"{endpoint.service}: the proxy that {name} names is not the address of a proxy.",
            hint=f"Set it to an address such as http://proxy:8080, or name {endpoint.host} in no_proxy.",
        )
    if parts.scheme.startswith("socks"):
        try:
            import socksio  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
        except ImportError:
            raise ProviderError(
                "config",
                f"{endpoint.service}: {name} names a SOCKS proxy, which needs the extra `socks` of friday-cli.",
                hint="Run `pip install 'friday-cli[socks]'`, or set an http proxy.",
            ) from None


def _written(endpoint: Endpoint) -> str:
    """The value of the environment for this endpoint, "" for none."""
    parts = endpoint.address
    if endpoint.is_loopback or not parts.hostname or proxy_bypass(parts.hostname):
        return ""
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all") or ""
