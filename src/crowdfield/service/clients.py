"""The client that a request is counted for: its real address, also behind a proxy.

X-Forwarded-For is believed only if the connection comes from a proxy that the operator named. Its addresses are then
read from the right, where the operator's proxies wrote theirs, to the first address that is not one of them.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import Scope

Address = IPv4Address | IPv6Address
# Limits count IPv6 networks of this size: a household gets at least one, and can use any address in it.
CLIENT_PREFIX_V6 = 64
UNKNOWN = "unknown"


class Clients:
    """Finds the client of a request. `trusted`: addresses and networks of the operator's own proxies."""

    def __init__(self, trusted: Iterable[str] = ()):
        self._trusted = [ip_network(name, strict=False) for name in trusted]

    def client(self, scope: Scope) -> str:
        """The name that limits count by: an IPv4 address, an IPv6 network, or "unknown"."""
        peer = parse_address((scope.get("client") or (UNKNOWN,))[0])
        if peer is None or not self._is_proxy(peer):
            return _counted(peer)
        hops = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        for hop in reversed(hops):
            address = parse_address(hop)
            if address is None:
                break  # whatever is further left was not written by a trusted proxy
            peer = address
            if not self._is_proxy(address):
                break
        return _counted(peer)

    def scheme(self, scope: Scope) -> str:
        """The scheme that the client used, http or https; a trusted proxy that terminates TLS says which."""
        forwarded: str = Headers(scope=scope).get("x-forwarded-proto", "").strip().lower()
        peer = parse_address((scope.get("client") or (UNKNOWN,))[0])
        if forwarded in ("http", "https") and peer is not None and self._is_proxy(peer):
            return forwarded
        return str(scope.get("scheme", "http"))

    def _is_proxy(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)


def parse_address(text: str) -> Address | None:
    """An IP address as proxies write it, with or without brackets and port; None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _counted(address: Address | None) -> str:
    if address is None:
        return UNKNOWN
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, CLIENT_PREFIX_V6), strict=False))
    return str(address)
