"""How many elements a sparse codec sends, and what it costs to say which: rows and payloads count alike. No torch."""

from __future__ import annotations

NUMBER = 4
"""Bytes of how many elements a message has, where it says that."""
SEED = 8
"""Bytes of what the elements of a message are drawn from, where it says that."""
BLOCK = 2**16
"""Elements within which a place takes two bytes."""


def number_at(message: memoryview) -> int:
    """How many elements a message has, where it begins with that."""
    return int.from_bytes(message[:NUMBER], "little")


def listed_bytes(count: int, chosen: int) -> int:
    """Of a list of `chosen` places among `count` elements: two bytes each, and four for each block where there are
    several: how many places lie in it."""
    blocks = -(-count // BLOCK)
    return 2 * chosen + (4 * blocks if blocks > 1 else 0)


def place_bytes(count: int, chosen: int) -> int:
    """Of saying which `chosen` of `count` elements are sent: nothing for none or all of them, else the shorter one of
    a list and a bit for each element."""
    if chosen in (0, count):
        return 0
    return min(-(-count // 8), listed_bytes(count, chosen))


RICE_HEAD = 1 + NUMBER
"""Of places in Golomb-Rice code (`engine/codec/rice.py`): how many low bits a gap has, and how many bytes follow."""
AS_THEY_ARE = 255
"""In place of the number of low bits: the places are not coded."""
MOST_CODED = 1
"""Bytes by which places that may be coded are longer, at most: one says that they are not."""


def place_extent(count: int, chosen: int, message: memoryview, *, entropy_coding: bool) -> int:
    """Of saying which `chosen` of `count` elements are sent, where `message` begins with that."""
    plain = place_bytes(count, chosen)
    if not entropy_coding or not plain:
        return plain
    if int.from_bytes(message[:1]) == AS_THEY_ARE:
        return MOST_CODED + plain
    return RICE_HEAD + int.from_bytes(message[1:RICE_HEAD], "little")


def chosen_of(count: int, ratio: float, value_bytes: int) -> int:
    """How many of `count` elements are sent, at least one; all of them where fewer would take as many bytes, with
    `value_bytes` for each."""
    found = min(count, max(1, round(ratio * count)))
    return found if found * value_bytes + place_bytes(count, found) < count * value_bytes else count


SIGNED_HEAD = NUMBER + 4
"""Of a message of signs: how many elements it has, and what they are besides their signs."""


def signed_bytes(count: int) -> int:
    """At most, of a message of signs about `count` elements: a bit for each says whether it is sent, and one which sign
    it has."""
    return SIGNED_HEAD + 2 * -(-count // 8) if count else 0


def signed_extent(count: int, message: memoryview, *, entropy_coding: bool) -> int:
    """Of the message of signs about `count` elements that `message` begins with."""
    if not count:
        return 0
    chosen = number_at(message)
    places = place_extent(count, chosen, message[SIGNED_HEAD:], entropy_coding=entropy_coding)
    return SIGNED_HEAD + places + -(-chosen // 8)
