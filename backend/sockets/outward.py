"""Messages to addresses that people name, which must not reach what only this machine or its network reaches.

A name is resolved once, when the connection is made; what it leads to is looked at, and that very address is connected
to: a name that leads elsewhere a moment later (DNS rebinding) is of no use. Redirects are not followed, proxies of the
environment are not used, and of an answer nothing but its status is read.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import httpcore

from backend.access.addresses import Address, parsed

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses whose last four bytes are an IPv4 address (RFC 6052). Prefixes that an operator chose nobody knows."""
UNICAST = ipaddress.ip_network("2000::/3")
"""All public IPv6 addresses that are given out (RFC 4291); `is_global` is wider."""
MOST_RESOLVING = 16
"""Threads that wait at once for where a name leads: a resolver that does not answer keeps them for up to minutes."""
SAID = 300
"""Characters of a failure that are kept."""


_resolving = threading.BoundedSemaphore(MOST_RESOLVING)


class NotSentError(Exception):
    """The message did not arrive, or nobody knows; the text says why."""


def permitted(text: str, allowed: Collection[Network]) -> bool:
    """Whether a message may go to this address, as `getaddrinfo` answers it: a public one, or one of `allowed`."""
    address = parsed(text)
    if address is None:
        return False
    if any(address in network for network in allowed):
        return True
    return all(_public(inner) for inner in _inside(address))


def _public(address: Address) -> bool:
    if not address.is_global or address.is_multicast:
        return False
    return isinstance(address, ipaddress.IPv4Address) or address in UNICAST or address in NAT64


def _inside(address: Address) -> Iterator[Address]:
    """The address, and those that a router may find in it."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address in NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def post(
    url: str, headers: Mapping[str, str], body: bytes, *, allowed: Collection[Network], deadline_s: float
) -> int:
    """Send `body`, and answer the status that came back, whatever it is. Raises NotSentError where nothing came back
    within `deadline_s`, the address is none that may be reached, or its certificate is not the name's."""
    network = _Network(allowed, deadline_s)
    timeout = dict.fromkeys(("connect", "read", "write", "pool"), deadline_s)
    try:
        with (
            httpcore.ConnectionPool(
                ssl_context=ssl.create_default_context(),
                network_backend=network,
                max_connections=1,
                retries=0,
            ) as pool,
            pool.stream(
                "POST", url, headers=list(headers.items()), content=body, extensions={"timeout": timeout}
            ) as answer,
        ):
            return answer.status
    except (
        httpcore.NetworkError,
        httpcore.TimeoutException,
        httpcore.ProtocolError,
        OSError,
        UnicodeError,
    ) as error:
        what = str(error) or f"no answer within {deadline_s:g} s ({type(error).__name__})"
        raise NotSentError(what[:SAID]) from None


class _Network(httpcore.NetworkBackend):
    """Connects where it may, and does everything before one deadline: else a receiver that sends a byte now and then
    would hold a thread for ever."""

    def __init__(self, allowed: Collection[Network], deadline_s: float) -> None:
        self._inner = httpcore.SyncBackend()
        self._allowed = allowed
        self._ends = time.monotonic() + deadline_s

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _resolved(host, port, _left(self._ends))
        fit = [address for address in addresses if permitted(address, self._allowed)]
        if not fit:
            raise NotSentError(
                f"{host} leads to {', '.join(addresses)}: no public address, and none of TRAINYARD_WEBHOOK_NETWORKS"
            )
        failed: Exception | None = None
        for tried, address in enumerate(fit):
            share_s = _left(self._ends) / (
                len(fit) - tried
            )  # one that does not answer leaves time for the next
            try:
                stream = self._inner.connect_tcp(
                    address, port, timeout=share_s, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
                continue
            return _Stream(stream, self._ends)
        assert failed is not None
        raise failed


class _Stream(httpcore.NetworkStream):
    """A connection that is over at a time."""

    def __init__(self, inner: httpcore.NetworkStream, ends: float) -> None:
        self._inner = inner
        self._ends = ends

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(self._ends))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(self._ends))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(self._ends)), self._ends)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _resolved(host: str, port: int, wait_s: float) -> list[str]:
    """Where a name leads. `getaddrinfo` takes no time limit, so a thread waits for it, which may outlive this call; of
    these there are MOST_RESOLVING at most. Raises NotSentError where that takes longer than `wait_s`, also because
    other names have all the threads, and what `getaddrinfo` raises."""
    ends = time.monotonic() + wait_s
    if not _resolving.acquire(timeout=wait_s):
        raise NotSentError(
            f"{host} was not looked up: {MOST_RESOLVING} other names, which is the most at once, got no answer within"
            " the deadline"
        )
    found: list[str] = []
    failed: list[Exception] = []

    def ask() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(dict.fromkeys(str(address[0]) for *_, address in answers))
        except (OSError, UnicodeError) as error:
            failed.append(error)
        finally:
            _resolving.release()

    thread = threading.Thread(target=ask, name="resolve", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the system gives no more threads
        _resolving.release()
        raise
    thread.join(max(0.0, ends - time.monotonic()))
    if thread.is_alive():
        raise NotSentError(f"nobody said within the deadline where {host} leads")
    if failed:
        raise failed[0]
    return found


def _left(ends: float) -> float:
    """Seconds until then. Raises httpcore.ReadTimeout where it is over."""
    left = ends - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("")
    return left
