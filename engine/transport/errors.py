"""How talking to the other parties of a job can fail.

TransportError(RuntimeError)
    PeerLost               another party is gone: killed, silent, or it said itself that it cannot go on
    ProtocolError          bytes or calls that the protocol does not allow
    DisagreementError      parties that must hold the same value hold different ones
DeadlineMissed(TimeoutError)  somebody did not come in time; the message names who
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class TransportError(RuntimeError):
    """Communication cannot go on."""


class PeerLost(TransportError):  # noqa: N818 - the event's name, as people say it
    """Party `name` is gone. `index` is its number, `reason` what was seen."""

    def __init__(self, index: int, name: str, reason: str) -> None:
        self.index = index
        self.name = name
        self.reason = reason
        super().__init__(f"lost {name}: {reason}")


def gave_up(reporter: int, culprit: int, names: Mapping[int, str], text: str) -> PeerLost:
    """The error of a party that hears from `reporter` that it gave up, through the fault of `culprit`, because of
    `text`; `names` are those of the parties that it is connected with."""
    if culprit not in names:
        return PeerLost(reporter, names[reporter], f"it gave up on this party: {text}")
    if culprit == reporter:
        return PeerLost(reporter, names[reporter], f"it gave up: {text}")
    return PeerLost(culprit, names[culprit], f"{text} (reported by {names[reporter]})")


class ProtocolError(TransportError):
    """Bytes or calls that the protocol does not allow: a bug, or two versions that do not fit."""


class DisagreementError(TransportError):
    """Parties hold different values of `key`. `values` maps each party's name to what it published."""

    def __init__(self, key: str, values: Mapping[str, str]) -> None:
        self.key = key
        self.values = dict(values)
        groups: dict[str, list[str]] = {}
        for name, value in values.items():
            groups.setdefault(value, []).append(name)
        most_first = sorted(groups.items(), key=lambda group: -len(group[1]))
        shown = "; ".join(f"{', '.join(names)}: {value[:200]!r}" for value, names in most_first)
        super().__init__(f"the parties disagree on {key}: {shown}. All must be started with the same {key}")


class DeadlineMissed(TimeoutError):  # noqa: N818 - see PeerLost
    """`waiting_for` did not happen within `deadline_s`; `missing` are the names of those who did not come."""

    def __init__(self, waiting_for: str, deadline_s: float, missing: Sequence[str]) -> None:
        self.waiting_for = waiting_for
        self.deadline_s = deadline_s
        self.missing = tuple(missing)
        super().__init__(f"{waiting_for}: waited {deadline_s:g} s, missing: {', '.join(missing)}")
