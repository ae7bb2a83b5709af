"""When workers meet for a word about checkpoints, and what they hear there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from engine.checkpoint import preemption
from engine.checkpoint.preemption import AGAIN_S, Preemption
from engine.checkpoint.rhythm import LOOK_S, Rhythm, Word, first_meeting
from engine.plan.checkpoint import CheckpointSpec
from engine.protocol.messages import Lane, Message
from engine.runtime.meeting import Meeting
from engine.transport.message import Buffer, Header


def played(every_s: float | None, step_s: float, steps: int, *, period: int = 1) -> dict[int, Word]:
    """The words of a job whose steps all take the same, by the steps that had been made."""
    rhythm = Rhythm(every_s=every_s, period=period, begun=0, now_s=100.0)
    meeting, found = first_meeting(0, period), {}
    while meeting <= steps:
        found[meeting] = rhythm.word(meeting, 100.0 + meeting * step_s, asked=False)
        assert found[meeting].next > meeting
        meeting = found[meeting].next
    return found


def cuts(words: dict[int, Word]) -> list[int]:
    return [steps for steps, word in words.items() if word.cut]


def test_a_cut_is_in_the_step_in_which_the_seconds_are_over() -> None:
    assert cuts(played(2.0, 0.1, 100)) == [20, 40, 60, 80, 100]
    assert cuts(played(2.0, 0.75, 20)) == [3, 6, 9, 12, 15, 18]


def test_where_steps_take_longer_every_one_is_followed_by_a_cut() -> None:
    assert cuts(played(2.0, 5.0, 4)) == [1, 2, 3, 4]


def test_between_two_meetings_is_a_second_or_a_step() -> None:
    fast = list(played(None, 0.01, 1_000))
    assert fast[:8] == [1, 2, 4, 8, 16, 32, 64, 128], "the first steps are no measure of many"
    distances = [later - meeting for meeting, later in pairwise(fast[8:])]
    assert all(abs(distance - LOOK_S / 0.01) <= 1 for distance in distances)
    assert list(played(None, 3.0, 4)) == [1, 2, 3, 4]


def test_workers_that_average_meet_after_averages_only() -> None:
    words = played(1.0, 0.25, 60, period=6)
    assert {steps % 6 for steps in words} == {0}
    assert cuts(words) == [6, 12, 18, 24, 30, 36, 42, 48, 54, 60]


def test_an_attempt_that_goes_on_meets_in_the_same_steps_as_an_undisturbed_one() -> None:
    assert [first_meeting(begun, 6) for begun in (0, 6, 7)] == [6, 12, 12]


def test_another_checkpoint_counts() -> None:
    rhythm = Rhythm(every_s=10.0, period=1, begun=0, now_s=0.0)
    rhythm.cut(9.0)
    assert not rhythm.word(11, 11.0, asked=False).cut
    assert rhythm.word(19, 19.0, asked=False).cut


def test_what_a_person_asks_for_is_a_cut_and_the_end() -> None:
    word = Rhythm(every_s=None, period=1, begun=4, now_s=0.0).word(5, 1.0, asked=True)
    assert (word.cut, word.ends) == (True, True)
    assert Word.decode(word.encode()) == word


def test_a_preemption_that_fails_is_tried_again_later(tmp_path: Path) -> None:
    own = Preemption(tmp_path)
    assert not own.asked(0.0)
    preemption.ask(tmp_path)
    assert own.asked(1.0)
    own.failed(1.0)
    assert not own.asked(AGAIN_S)
    assert own.asked(1.0 + AGAIN_S)
    assert preemption.preempted_step(tmp_path) is None
    own.done(7)
    assert preemption.preempted_step(tmp_path) == 7
    (tmp_path / "preempted.json").write_text('{"step": "x"}')  # a user's code may write here
    assert preemption.preempted_step(tmp_path) is None


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        (CheckpointSpec(), None),
        (CheckpointSpec(every_steps=3, every_seconds=2.0), ("every_steps", 3)),
        (CheckpointSpec(every_seconds=2.0), ("every_seconds", 2.0)),
    ],
)
def test_which_field_asks_for_checkpoints(spec: CheckpointSpec, asked: tuple[str, float] | None) -> None:
    assert spec.asked == asked


class Wires:
    """Parties of one process, each handled in the sender's thread."""

    def __init__(self) -> None:
        self.receivers: dict[tuple[int, Lane], object] = {}
        self.log: list[tuple[int, Message, int]] = []

    def of(self, index: int) -> End:
        return End(self, index)


class End:
    """One party's end of them."""

    def __init__(self, wires: Wires, index: int) -> None:
        self._wires = wires
        self.index = index

    def send(self, peer: int, header: Header, payload: Sequence[Buffer] = ()) -> None:
        self._wires.log.append((peer, Message(header.kind), header.step))
        self._wires.receivers[peer, Lane(header.lane)].handle(header, None)  # type: ignore[attr-defined]


class Captures:
    """A shard that captures when it is told to, or when so many workers have stopped, in a thread of its own."""

    def __init__(self, end: End, workers: int = 0) -> None:
        self._end = end
        self._workers = workers
        self.paused: dict[int, int] = {}
        self.told = threading.Event()
        self.may = threading.Event()

    def handle(self, header: Header, payload: None) -> None:
        cut, told = header.step, [0]
        if header.kind == Message.PAUSED:
            cut, self.paused[header.origin] = header.part, header.step
            told = list(range(self._workers))
            if len(self.paused) < self._workers:
                return

        def capture() -> None:
            self.told.set()
            self.may.wait(60)
            for peer in told:
                self._end.send(peer, Header(Message.CAPTURED, self._end.index, Lane.WORKER, cut))

        threading.Thread(target=capture, daemon=True).start()


def test_nobody_goes_on_behind_a_cut_before_every_shard_has_captured() -> None:
    wires = Wires()
    workers = [
        Meeting(wires.of(rank), rank=rank, workers=2, shards=[0, 2], deadline_s=10) for rank in range(2)
    ]
    shards = [Captures(wires.of(party)) for party in (0, 2)]
    for rank, meeting in enumerate(workers):
        wires.receivers[rank, Lane.WORKER] = meeting
    for party, shard in zip((0, 2), shards, strict=True):
        wires.receivers[party, Lane.SERVER] = shard
    heard: list[Word] = []
    gone_on = threading.Event()

    def worker(meeting: Meeting) -> None:
        heard.append(meeting.hear(lambda: Word(cut=True, next=9)))
        meeting.capture(5)
        gone_on.set()

    threads = [threading.Thread(target=worker, args=(meeting,), daemon=True) for meeting in workers]
    for thread in threads:
        thread.start()
    for shard in shards:
        assert shard.told.wait(60)
    shards[0].may.set()
    assert not gone_on.is_set()
    shards[1].may.set()
    for thread in threads:
        thread.join(60)
    assert gone_on.is_set()
    assert heard == [Word(cut=True, next=9)] * 2
    assert wires.log.index((0, Message.CAPTURED, 5)) < wires.log.index((1, Message.WORD, 1))


def test_a_meeting_that_nobody_comes_to_says_who_is_missing() -> None:
    alone = Meeting(Wires().of(1), rank=1, workers=2, shards=[], deadline_s=0.01)
    with pytest.raises(TimeoutError, match="worker 0 did not come"):
        alone.hear(Word)
    alone.fail(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        alone.hear(Word)
