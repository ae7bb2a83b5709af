"""Placeholder until the runtime's kinds of message move here."""

from engine.runtime.messages import Lane, Message

__all__ = ["Lane", "Message"]
