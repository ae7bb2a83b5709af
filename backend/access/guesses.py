"""Wrong tokens, counted for each client, so that nobody can try many.

A client may be wrong BURST times at once and then once in EVERY_S. A wrong token that comes a second time tells its
sender nothing new and is not counted, so a program with an old token does not lock out others at its address. While a
client has no guess left, right tokens are refused as well: else its next answer would tell whether a guess was right.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.access.addresses import parsed

BURST = 10
EVERY_S = 10.0
MOST_CLIENTS = 4096
"""More than that share one allowance, so that neither memory nor the number of guesses grows with addresses."""
IPV6_NETWORK_BITS = 64
"""What one customer has: a client could be wrong from each of its addresses."""


@dataclass
class _Client:
    left: float
    at: float
    last: bytes = b""


class Guesses:
    """How many wrong tokens each client may still send. Times are in seconds, of any clock that only goes forward."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._swept = -EVERY_S

    def repeats(self, client: str | None, digest: bytes) -> bool:
        """Whether this client's last wrong token was the one with this digest."""
        found = self._clients.get(_key(client))
        return found is not None and found.last == digest

    def wait_s(self, client: str | None, now: float) -> float:
        """How long the client has to wait before its next token is looked at; 0: not at all."""
        found = self._clients.get(self._place(client, now))
        return 0.0 if found is None else max(0.0, (1 - _left(found, now)) * EVERY_S)

    def wrong(self, client: str | None, digest: bytes, now: float) -> None:
        """The client sent a wrong token; `digest` tells it from others."""
        found = self._clients.setdefault(self._place(client, now), _Client(left=BURST, at=now))
        found.left, found.at, found.last = _left(found, now) - 1, now, digest

    def _place(self, client: str | None, now: float) -> str:
        """Under which name the client is counted: its own while there is room."""
        key = _key(client)
        if key in self._clients or len(self._clients) < MOST_CLIENTS:
            return key
        if now - self._swept >= EVERY_S:
            self._swept = now
            for name in [name for name, found in self._clients.items() if _left(found, now) >= BURST]:
                del self._clients[name]
        return key if len(self._clients) < MOST_CLIENTS else _OTHERS


_OTHERS = "others"


def _key(client: str | None) -> str:
    """Of bounded length, whatever a proxy calls its client."""
    address = parsed(client or "")
    if address is None:
        return _OTHERS
    return str(address) if address.version == 4 else str(int(address) >> (128 - IPV6_NETWORK_BITS))


def _left(found: _Client, now: float) -> float:
    return min(float(BURST), found.left + max(0.0, now - found.at) / EVERY_S)
