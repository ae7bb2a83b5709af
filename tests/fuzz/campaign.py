"""A campaign: any number of networks, each known by a seed and a number; failures are made smaller and kept."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture.providers import Constants, HypothesisProvider

from tests.fuzz.draw import cases
from tests.fuzz.network import Case
from tests.fuzz.program import program
from tests.fuzz.trial import Trials, Verdict

PER_SEED = 1_000_000
"""Networks of one seed; a network's number, from 0, is below it."""
MOST_UNSTABLE = 0.05
"""The share of networks that may decide nothing."""
KINDS = ("failure", "same", "refused", "invalid", "unstable")


class FailedError(Exception):
    """A case fails; hypothesis makes it smaller."""


class TimeOver(BaseException):
    """Nothing more is made smaller. It is no failure of a case: hypothesis lets it pass, and ends."""


def case_of(campaign: int, number: int) -> Case:
    """Network `number` of the campaign with this seed: always the same."""
    drawn: list[Case] = []
    _each(campaign, number, drawn.append, [Phase.generate])
    return drawn[-1]


def smaller(
    campaign: int, number: int, first: Verdict, trials: Trials, seconds: float
) -> tuple[Case, Verdict]:
    """The smallest case found within `seconds` that fails as network `number` did (`first`), and how."""
    end = time.monotonic() + seconds
    known: dict[str, Verdict] = {}
    found: list[tuple[Case, Verdict]] = []

    def body(case: Case) -> None:
        if case.key not in known:
            if time.monotonic() > end and found:
                raise TimeOver
            known[case.key] = trials.attempt(case)
        verdict = known[case.key]
        if verdict.kind == "failure" and verdict.what == first.what:
            found.append((case, verdict))
            raise FailedError(verdict.what)

    try:
        _each(campaign, number, body, [Phase.generate, Phase.shrink])
    except (FailedError, TimeOver):
        return found[-1]
    return case_of(campaign, number), first


def _each(campaign: int, number: int, body: Callable[[Case], None], phases: Iterable[Phase]) -> None:
    """Hypothesis gives `body` two cases: the simplest there is, then network `number`; and, where that one raises, ever
    simpler ones. Hypothesis also draws what it finds written in the modules that happen to be loaded, so that a network
    would depend on which tests ran before: here it finds nothing."""

    @seed(campaign * PER_SEED + number)
    @settings(
        max_examples=2, database=None, deadline=None, phases=list(phases), report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip
    @given(cases())
    def run(case: Case) -> None:
        body(case)

    with mock.patch.object(HypothesisProvider, "_local_constants", Constants()):
        run()


@dataclass(kw_only=True)
class Tally:
    """What a campaign came to. Networks that decide nothing (`unstable`) do not count: others are drawn for them."""

    campaign: int
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """Kind -> reason -> numbers of the networks."""

    def add(self, number: int, kind: str, what: str, seconds: float) -> None:
        self.kinds[kind] += 1
        self.reasons[kind][what].append(number)
        self.seconds += seconds

    @property
    def tried(self) -> int:
        """Networks that decided something."""
        return self.kinds.total() - self.kinds["unstable"]

    @property
    def sound(self) -> bool:
        """Whether nothing failed, and few enough networks were drawn again."""
        return not self.kinds["failure"] and self.kinds["unstable"] <= MOST_UNSTABLE * self.kinds.total()

    def text(self) -> str:
        """Seed, counts, time, and what was refused for which reason."""
        counts = ", ".join(f"{self.kinds[kind]} {kind}" for kind in KINDS if self.kinds[kind])
        lines = [f"seed {self.campaign}: {self.tried} networks in {self.seconds:.0f} s: {counts}"]
        for kind in ("failure", "refused", "invalid"):
            for reason, numbers in sorted(self.reasons[kind].items(), key=lambda item: -len(item[1])):
                shown = ", ".join(map(str, numbers[:4])) + (", …" if len(numbers) > 4 else "")
                lines.append(f"  {kind} {len(numbers)} ({shown}): {reason}")
        return "\n".join(lines)


def run(
    campaign: int,
    folder: Path,
    *,
    networks: int = 0,
    first: int = 0,
    only: Iterable[int] = (),
    shrink_s: float,
    say: Callable[[str], None],
    compiled: bool = False,
) -> Tally:
    """Try so many `networks` that decide something, from number `first` on, or `only` those of some numbers. Failures
    are kept in `folder` as programs; so is, line by line, what came of each network: a campaign broken off goes
    on there. `compiled`: every network is, as a whole or in part."""
    tally, trials = Tally(campaign=campaign), Trials(folder, compiled=compiled)
    record = folder / f"campaign_{campaign}{'_compiled' if compiled else ''}.jsonl"
    known = set()
    if not only and record.exists():
        for line in record.read_text().splitlines():
            row = json.loads(line)
            known.add(row[0])
            tally.add(*row)
    numbers = list(only) or (number for number in itertools.count(first) if number not in known)
    for number in numbers:
        if not only and tally.tried >= networks:
            break
        started = time.monotonic()
        case = case_of(campaign, number)
        verdict = trials.attempt(case)
        row = (number, verdict.kind, verdict.what, round(time.monotonic() - started, 2))
        tally.add(*row)
        if not only:
            with record.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
        if verdict.kind == "failure":
            say(f"network {number}: {verdict.what}")
            if shrink_s:
                case, verdict = smaller(campaign, number, verdict, trials, shrink_s)
            kept = folder / f"failure_{campaign}_{number}.py"
            kept.write_text(program(case, verdict, compiled=compiled))
            say(f"{kept}\n{verdict.detail}\n\n{kept.read_text()}")
        if tally.kinds.total() % 50 == 0:
            say(tally.text().splitlines()[0])
    return tally
