"""Credit in bytes: the receiver, not the kernel's buffers, decides how much may be on its way.

A sender may start a message while its balance is positive, and pays for the whole message, so that the
balance goes negative by at most one message and any size passes. The receiver gives the bytes back as they
arrive, but only once the sender is about to need them: bytes on their way from one sender never exceed
`credit_bytes` plus one message, and several senders that meet at one port cannot build a FIFO there.

Bytes that arrived but were not handled yet count as arrived up to `backlog_bytes` per sender (they wait in
the lane's priority queue, where an urgent message overtakes them); beyond it they keep their credit until
they are handled. With `backlog_bytes=0` credit returns only when a message has been handled.

Pure state: no lock, no clock.
"""

from __future__ import annotations


class SenderCredit:
    """The sender's side: what it may still start."""

    __slots__ = ("balance_bytes",)

    def __init__(self, credit_bytes: int) -> None:
        self.balance_bytes = credit_bytes

    def may_start(self) -> bool:
        """Whether another message may start now."""
        return self.balance_bytes > 0

    def start(self, cost_bytes: int) -> None:
        """A message of `cost_bytes` (header, meta and payload) starts."""
        self.balance_bytes -= cost_bytes

    def granted(self, count_bytes: int) -> None:
        """The receiver gave `count_bytes` back."""
        self.balance_bytes += count_bytes


class ReceiverCredit:
    """The receiver's side of one sender's credit: what to give back, and when it is worth a control frame."""

    __slots__ = ("announced", "arrived", "backlog_bytes", "credit_bytes", "granted", "handled")

    def __init__(self, credit_bytes: int, backlog_bytes: int) -> None:
        if credit_bytes < 1 or backlog_bytes < 0:
            raise ValueError(
                f"credit_bytes={credit_bytes}, backlog_bytes={backlog_bytes}: credit must be at least 1 byte "
                "and the backlog at least 0; leave the defaults if unsure"
            )
        self.credit_bytes = credit_bytes
        self.backlog_bytes = backlog_bytes
        self.announced = 0
        self.arrived = 0
        self.handled = 0
        self.granted = 0

    def on_its_way(self) -> int:
        """Bytes announced by headers and not yet arrived."""
        return self.announced - self.arrived

    def withheld(self) -> bool:
        """Whether some credit waits for messages to be handled."""
        return self.arrived - self.handled > self.backlog_bytes

    def take_grant(self, senders: int = 1) -> int:
        """Bytes to give back now, 0 if none; `senders` is how many are in the middle of a message to us.

        A blocked sender is let go on when no more than its share of the credit is still on its way; one that
        is not blocked is topped up in halves, so that small messages do not cost a control frame each.
        """
        held = max(self.arrived - self.handled - self.backlog_bytes, 0)
        returnable = self.arrived - held - self.granted
        if returnable <= 0:
            return 0
        balance = self.credit_bytes - self.announced + self.granted
        if balance > 0:
            worth_it = 2 * returnable >= self.credit_bytes
        else:
            worth_it = balance + returnable > 0 and self.on_its_way() * max(senders, 1) < self.credit_bytes
        if not worth_it:
            return 0
        self.granted += returnable
        return returnable
