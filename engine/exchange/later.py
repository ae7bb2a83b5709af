"""Later: what an exchange leaves to its lane, so that backward does not wait until a codec has encoded.

The lane takes the most urgent message first, and of one unit the first one; so units are encoded in the order in which
they are to leave. What a unit sends besides must not overtake its contribution: it goes the same way while that waits.
A message that carries nothing, from a worker to itself, wakes the lane. It is weighed as all messages about its unit:
the lane's thread handles it, or where the unit is small (up to 64 KiB, with the data plane in C up to 256 KiB) the one
that hears messages. That is held up no longer than by other work: on a quiet core 16,384 elements take 0.002 ms (fp16),
0.05 ms (int8), 0.15 ms (top-k with entropy coding) or 0.22 ms (powersgd), and it handles messages for 0.3 ms before it
looks at the network again (`engine/transport/lane.py`); 50,000 take up to 0.35 ms, and in C another thread moves bytes.
Nothing of this concerns what is lossless: there is nothing to compute, and another thread's turn would cost more than
it saves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from engine.protocol.messages import Lane, Message
from engine.state.choice import Choice
from engine.state.recording import Recording
from engine.transport.endpoint import Sender


class Later:
    """One worker's, of the units of one exchange."""

    def __init__(
        self, endpoint: Sender, rank: int, choices: Mapping[int, Choice], recording: Recording
    ) -> None:
        """`rank`: this worker's among those that `endpoint` knows. `choices`: by unit."""
        self._endpoint = endpoint
        self._rank = rank
        self._choices = choices
        self._recording = recording
        self._waiting: dict[int, deque[Callable[[], None]]] = {index: deque() for index in choices}
        """By unit; the first one may be under way. Who has something to send appends (the training thread, on CUDA the
        staging thread, and who handles a notice), and only who handles `ENCODE` takes away: no two of these at once."""

    def put(self, unit: int, step: int, do: Callable[[], None], *, hurry: bool = True) -> None:
        """Have the lane do it, as urgently as the unit's messages of `step`. `hurry`: see `Endpoint.send`."""
        self._waiting[unit].append(do)
        choice = self._choices[unit]
        header = choice.header(
            Message.ENCODE,
            step,
            origin=self._endpoint.index,
            lane=Lane.WORKER,
            queued_ns=self._recording.now_ns(),
        )
        self._endpoint.send(self._rank, header, [], hurry=hurry)

    def behind(self, unit: int, step: int, do: Callable[[], None]) -> None:
        """Do it now, or where something of the unit waits, after that."""
        if self._waiting[unit]:
            self.put(unit, step, do)
        else:
            do()

    def do_next(self, unit: int) -> None:
        """Where the lane's messages are handled: what has waited longest of the unit. Raises RuntimeError where nothing
        waits."""
        waiting = self._waiting[unit]
        if not waiting:
            raise RuntimeError(f"nothing of unit {unit} waits to be encoded")
        waiting[0]()
        waiting.popleft()  # only now, so that nothing of the unit overtakes it
