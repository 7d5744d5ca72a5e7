"""Messages to other servers, and only to those that the operator has allowed.

An admin who sets an alert chooses its URL. So that nobody can make this server contact internal addresses (itself, its
neighbours, services of the cloud), the origin must be on the operator's list, its host must have a public address or
one in a network that the operator has allowed, the connection uses the very address that was checked, and redirections
are not followed. Messages are signed as https://www.standardwebhooks.com describes.
"""

import base64
import hashlib
import hmac
import http.client
import ipaddress
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from crowdfield.errors import CrowdfieldError, InputError

PORTS = {"https": 443, "http": 80}
# The limit for a whole request, even if the other server sends a byte now and then.
SECONDS = 10.0
SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix of all secrets
SECRET_BYTES = 32
LONGEST_ADDRESS = 2000
# The status with which a receiver says that it wants no more messages.
GONE = 410


class NotSent(CrowdfieldError):
    """A message could not be delivered. `final`: trying again is useless."""

    def __init__(self, why: str, *, final: bool = False):
        super().__init__(why)
        self.final = final


@dataclass(frozen=True)
class Target:
    """The parts of a URL."""

    scheme: str
    host: str
    port: int
    path: str = "/"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


def parse(address: str) -> Target:
    """The parts of a URL for messages; user names and passwords in it are refused."""
    printable = address.isascii() and address.isprintable() and " " not in address and "\\" not in address
    if not printable or len(address) > LONGEST_ADDRESS:
        raise InputError("a URL must be plain ASCII, such as https://hooks.example.org/crowdfield")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise InputError("this URL is not valid; use one such as https://hooks.example.org/crowdfield") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise InputError("a URL must begin with https:// (or http://) and a host name")
    if "@" in parts.netloc or parts.fragment:
        raise InputError("the URL must contain neither a password nor a fragment; messages are signed instead")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname.rstrip(".").lower(), port or PORTS[parts.scheme], path)


def allowed(address: str, hosts: Iterable[str]) -> Target:
    """The target, if its origin is on the operator's list."""
    target = parse(address)
    if target.origin not in {parse(host).origin for host in hosts}:
        raise InputError(
            f"messages may not be sent to {target.scheme}://{target.host}:{target.port}; the operator of the service "
            "can add it to CROWDFIELD_ALERT_HOSTS"
        )
    return target


def reachable(target: Target, networks: Iterable[str]) -> str:
    """An IP address of the target that is public, or in one of the networks that the operator has allowed."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotSent("the host name of the webhook was not found") from None
    own = [ip_network(network, strict=False) for network in networks]
    for *_, place in found:
        address = unmapped(str(place[0]))
        if (address.is_global and not address.is_multicast) or any(address in network for network in own):
            return str(place[0])
    raise NotSent("the host name of the webhook has an address that is not public")


def unmapped(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IP address without the scope of a link; an IPv6 address that stands for an IPv4 address becomes that."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address


def new_secret() -> str:
    """A random secret for signing messages."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature(secret: str, identity: str, timestamp: int, body: bytes) -> str:
    """The signature of a message, by the Standard Webhooks scheme."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{identity}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def signed(secret: str, identity: str, body: bytes) -> dict[str, str]:
    """The headers with which a receiver can verify who sent a message, when, and that it was not changed."""
    now = int(time.time())
    return {
        "webhook-id": identity,
        "webhook-timestamp": str(now),
        "webhook-signature": signature(secret, identity, now, body),
    }


def send(target: Target, address: str, body: bytes, headers: dict[str, str], seconds: float = SECONDS) -> None:
    """One POST to the address that was checked; raises `NotSent` unless the answer is a success."""
    connection = _Pinned(target, address, seconds)
    clock = threading.Timer(seconds, connection.hang_up)
    clock.start()
    try:
        connection.request("POST", target.path, body, {"Content-Type": "application/json", **headers})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        # The error's own text is left out: it may reveal what is listening in a private network.
        raise NotSent(f"no answer ({type(error).__name__})") from None
    finally:
        clock.cancel()
        connection.close()
    if 300 <= status < 400:
        raise NotSent(f"the answer was a redirection ({status}), which is not followed")
    if not 200 <= status < 300:
        raise NotSent(f"the answer was {status}", final=status == GONE)


class _Pinned(http.client.HTTPConnection):
    """A connection to a fixed IP address, whatever the host name resolves to now."""

    def __init__(self, target: Target, address: str, seconds: float):
        super().__init__(target.host, target.port, timeout=seconds)
        self._target, self._address = target, address
        self.default_port = PORTS[target.scheme]  # so that the Host header leaves out the default port

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self._target.port), self.timeout)
        if self._target.scheme == "https":
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self._target.host)

    def hang_up(self) -> None:
        """Shut the connection down, called from another thread, so that all waiting on it ends."""
        sock = self.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it has already ended
