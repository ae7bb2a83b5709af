"""How two parties of one attempt recognise each other before a byte of training passes.

The caller says which connection it wants and a fresh number; the listener answers with a number of its own and a proof
that it knows the attempt's token; the caller proves the same. A proof is an HMAC over the whole exchange, so the token
never travels, and what somebody overheard serves for no other connection. No sockets here.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from typing import NamedTuple

_CALL = struct.Struct("<8sHHBxH16s")
_MAGIC = b"TYARD\0\0\2"
_NUMBER_BYTES = 16
_PROOF_BYTES = 32
CALL_BYTES = _CALL.size
CHALLENGE_BYTES = _NUMBER_BYTES + _PROOF_BYTES
ANSWER_BYTES = _PROOF_BYTES


class Call(NamedTuple):
    """Which connection somebody asks for."""

    origin: int
    """The caller's number."""
    destination: int
    """The number of the party that is called."""
    channel: int
    """0: data, 1: control, 2: the board."""
    incarnation: int = 0
    """How often the caller had been started anew, after it was lost."""


def call(wanted: Call) -> bytes:
    """The first message, from the caller (CALL_BYTES long)."""
    return _CALL.pack(_MAGIC, *wanted, secrets.token_bytes(_NUMBER_BYTES))


def read_call(message: bytes) -> Call | None:
    """What a first message asks for; None where it is no call of ours."""
    magic, *wanted, _ = _CALL.unpack(message)
    return Call(*wanted) if magic == _MAGIC else None


def challenge(token: bytes, message: bytes) -> bytes:
    """The listener's answer to the call `message`: a fresh number and its own proof (CHALLENGE_BYTES long)."""
    number = secrets.token_bytes(_NUMBER_BYTES)
    return number + _proof(token, b"listener", message, number)


def answer(token: bytes, message: bytes, challenged: bytes) -> bytes | None:
    """The caller's proof (ANSWER_BYTES long); None where the listener does not know the token."""
    number, proof = challenged[:_NUMBER_BYTES], challenged[_NUMBER_BYTES:]
    if not hmac.compare_digest(proof, _proof(token, b"listener", message, number)):
        return None
    return _proof(token, b"caller", message, number)


def accepted(token: bytes, message: bytes, challenged: bytes, answered: bytes) -> bool:
    """Whether the caller knows the token."""
    return hmac.compare_digest(answered, _proof(token, b"caller", message, challenged[:_NUMBER_BYTES]))


def _proof(token: bytes, side: bytes, message: bytes, number: bytes) -> bytes:
    return hmac.digest(token, side + message + number, "sha256")
