"""Which addresses only this machine reaches."""

from __future__ import annotations

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(text: str) -> Address | None:
    """The IP address that `text` is, an IPv4 address that is written as IPv6 as itself; None: it is a name, or
    nothing."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(text: str) -> bool:
    """Whether nobody but this machine reaches `text`, an address as `getaddrinfo` answers it. Not so: every address of
    the machine at once (0.0.0.0, ::), whatever is no address."""
    address = parsed(text)
    return address is not None and address.is_loopback


def only_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches a server that listens on `host`. So it is for a name that leads nowhere:
    nothing can listen there."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return True
    return all(is_loopback(str(address[0])) for *_, address in found)
