"""A port between two lives of a server."""

from __future__ import annotations

import socket

import pytest

from backend.chaos.ports import reserved


def test_who_names_a_reserved_port_has_it_again_and_again_and_nobody_else_gets_it() -> None:
    with reserved() as port:
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
                pass
            with pytest.raises(ConnectionRefusedError):  # who reserves it answers nobody
                socket.create_connection(("127.0.0.1", port))
            # As those whom the kernel gives any free port: it is in use.
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
