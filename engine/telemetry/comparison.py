"""Which runs may be compared, who of them is faster, and what a reader must know of it: the one judgement.

Tables, lists, the terminal and the API show `speed_up` of a job and its baseline; headlines say `outcome` of several
jobs, which is made of the same speed-ups. Nobody else decides whether two runs compare. Pure: what is known of each
run in, the verdict out. The numbers themselves are in `definitions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from engine.plan.fingerprint import Fingerprint, another_model
from engine.telemetry.estimates import Estimate, Interval, ratio

Scaling = Literal["strong", "weak"]
Certainty = Literal["certain", "chance", "level"]
Verdict = Literal["refused", "unknown", "unsure", "faster", "slower", "chance", "level"]
MISSING = "throughput: "
"""So begins why there is no value of two runs that may be compared."""
EQUAL = {
    "work": "submit one of them with the other's model, data and training.precision",
    "device": "submit one of them with the other's fidelity and cluster.device",
    "device model": "run both on devices of one model",
    "threads per worker": "submit one of them with the other's cluster.threads",
    "injected faults": "submit one of them with the other's faults",
}
"""What makes two runs equal in this: each refusal has its own remedy, wherever several stand beside one another."""
_KINDS = {"auto", "cpu", "cuda"}
"""What a job may ask for as its device. `auto` beside one of these is no difference: it may have meant the same."""
TIMES = "{:.2f}x"
"""How a ratio of two throughputs is written, wherever it is: `1.30x`."""
SMALLEST = 0.01
"""A smaller difference is none, however certain it is."""
NEAR = 0.05
"""Two are called level only where a difference of more than this is ruled out."""


@dataclass(frozen=True, kw_only=True)
class RunConditions:
    """What must be known of a run to compare its speed with another's."""

    samples_per_s: Estimate | None
    """Throughput, warm-up left out; None where it is not known yet."""
    name: str = ""
    """What people call it."""
    model: str
    """With its options, e.g. `resnet-digits (width=16)`."""
    fingerprint: Fingerprint | None = None
    """Of the model itself: behind one text there may be two models. None: not known."""
    data: str
    """The same of the data set."""
    precision: str
    global_batch: int
    workers: int
    threads: int
    """Per worker."""
    device: str
    """Kind of device, e.g. `cpu`; `auto` where it has not been given one yet, which any other kind may become."""
    device_models: tuple[str, ...] = ()
    """Every model of its devices once, e.g. `NVIDIA H200`. Empty: not known."""
    slowed: str | None = None
    """Which of its workers are slowed on purpose, and by how much; None: none is."""
    alone: bool
    """No other job ran on the machine meanwhile."""
    rate: str | None = None
    """Limit of its network, e.g. `100 Mbit/s`; None: unlimited."""
    limited_by_software: bool = False
    """Our transport keeps that limit: it holds for nothing else, such as what the kernel adds."""
    settings: tuple[tuple[str, str], ...] = ()
    """What else of the specification changes the time of a step, by name, with every default written out."""
    ended: bool = False
    """No further step will come."""
    missing_steps: int = 0
    """So many more steps, and its throughput has an interval; 0 where it has one."""

    @property
    def work(self) -> str:
        return f"{self.model} on {self.data}, {self.precision}"

    @property
    def batch_per_worker(self) -> float:
        return self.global_batch / self.workers


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """One comparison. `value` is None where there is none, and `refused` says why."""

    value: float | None
    interval: Interval | None = None
    """95 % confidence interval of the value; None where too little was measured to tell."""
    scaling: Scaling
    refused: tuple[str, ...] = ()
    """Why there is no value: what differs, or what has not been measured."""
    caveats: tuple[str, ...] = ()
    """What a reader must know to trust the value."""
    uneven: tuple[str, ...] = field(default=(), compare=False)
    """Those of the caveats by which one of the two runs may have had it easier: a headline says them, too. They are
    not stored, and do not count where what is stored is compared with what is measured again."""

    @property
    def comparable(self) -> bool:
        """Whether the two runs may be compared; without a value it is then a matter of steps that are missing."""
        return all(reason.startswith(MISSING) for reason in self.refused)

    @property
    def caveat(self) -> str | None:
        """Why there is no value, else what to know of it, in one line; None: nothing."""
        return "; ".join(self.refused or self.caveats) or None

    @property
    def verdict(self) -> Verdict:
        """What follows for the job. `unsure`: there is a value, and nobody can tell whether it is chance. `chance` and
        `level`: as `certainty` says."""
        if self.value is None:
            return "unknown" if self.comparable else "refused"
        if self.interval is None:
            return "unsure"
        sure = certainty(self.value, self.interval)
        if sure != "certain":
            return sure
        return "faster" if self.value > 1 else "slower"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a headline says of several runs; all places are those in the sequence of runs."""

    leader: int | None
    """The fastest of those that compare with another one; None where no two compare, or none has a speed."""
    others: tuple[tuple[int, SpeedUp], ...] = ()
    """The leader's speed-up over each other run, the slowest last."""
    waiting: tuple[str, ...] = ()
    """`9 more steps of p3`, and which ended too early: without them nobody can be sure."""
    final: bool = False
    """None of those that are waited for can make another step."""
    refused: tuple[str, ...] = ()
    """Where no two runs compare: why."""


def certainty(value: float, interval: Interval) -> Certainty:
    """What a ratio of two and its interval prove; nobody who puts a comparison into words may claim more. `certain`:
    one is ahead, by SMALLEST or more. `level`: neither is, because a difference of more than NEAR is ruled out, or the
    certain one is smaller than SMALLEST. `chance`: who is ahead may be chance, and may be far ahead, too."""
    low, high = interval
    if low > 1 or high < 1:
        return "certain" if max(value, 1 / value) >= 1 + SMALLEST else "level"
    return "level" if low >= 1 / (1 + NEAR) and high <= 1 + NEAR else "chance"


def may_be_chance(interval: Interval) -> str:
    """What stands beside a ratio that may be chance: `which may be chance: 0.95x to 2.62x`."""
    return f"which may be chance: {TIMES.format(interval[0])} to {TIMES.format(interval[1])}"


def scaling_of(job: RunConditions, baseline: RunConditions) -> Scaling:
    """Weak where only the batches per worker are equal, else strong."""
    weak = job.global_batch * baseline.workers == baseline.global_batch * job.workers
    return "weak" if weak and job.global_batch != baseline.global_batch else "strong"


def speed_up(
    job: RunConditions, baseline: RunConditions, scaling: Scaling | None = None, *, named: bool = False
) -> SpeedUp:
    """This job's throughput over its baseline's, in samples per second, at equal global batch (strong
    scaling) or equal batch per worker (weak scaling); left out, `scaling` is whichever is equal. Unequal work,
    devices, threads or batch are refused. With `named`, the words call both by their names."""
    scaling = scaling or scaling_of(job, baseline)
    pair = _Pair(job, baseline, named=named)
    refused = pair.differences(scaling)
    refused += pair.lacks()
    if refused or job.samples_per_s is None or baseline.samples_per_s is None:
        return SpeedUp(value=None, scaling=scaling, refused=tuple(refused))
    found = ratio(job.samples_per_s, baseline.samples_per_s)
    uneven = tuple(pair.uneven())
    return SpeedUp(
        value=found.value,
        interval=found.interval,
        scaling=scaling,
        caveats=(*uneven, *pair.untold(), *pair.unsure()),
        uneven=uneven,
    )


def outcome(runs: Sequence[RunConditions]) -> Judgement:
    """Who is ahead of whom: the speed-ups of the fastest run over each of the others, by `speed_up`."""
    pairs = [
        (one, other, speed_up(runs[one], runs[other], named=True))
        for one, other in combinations(range(len(runs)), 2)
    ]
    meets = {place for one, other, found in pairs if found.comparable for place in (one, other)}
    if not meets:
        reasons = dict.fromkeys(reason for *_, found in pairs for reason in found.refused)
        alone = [f"{run.name} is alone: a comparison needs two jobs" for run in runs[:1] if len(runs) < 2]
        return Judgement(leader=None, refused=(*reasons, *alone))
    behind = [runs[place] for place in sorted(meets) if runs[place].missing_steps]
    waiting = tuple(_missing(run) for run in behind)
    final = all(run.ended for run in behind)
    moving = [place for place in sorted(meets) if _is_moving(runs[place])]
    if not moving:
        return Judgement(leader=None, waiting=waiting, final=final)
    leader = max(moving, key=lambda place: _pace(runs[place]))
    others = sorted(set(range(len(runs))) - {leader}, key=lambda place: -_pace(runs[place]))
    found = tuple((place, speed_up(runs[leader], runs[place], named=True)) for place in others)
    return Judgement(leader=leader, others=found, waiting=waiting, final=final)


def same_step(runs: Sequence[RunConditions]) -> bool:
    """Whether a step of each is the same work under conditions that may be compared: then one can be its first."""
    return not any(_Pair(one, other).differences("strong") for one, other in combinations(runs, 2))


def scaling_words(job: RunConditions, baseline: RunConditions) -> str | None:
    """`strong scaling: equal global batch, 2 and 1 workers`; None where both have equally many workers."""
    if job.workers == baseline.workers:
        return None
    weak = scaling_of(job, baseline) == "weak"
    equal = "weak scaling: equal batch per worker" if weak else "strong scaling: equal global batch"
    return f"{equal}, {job.workers} and {baseline.workers} workers"


@dataclass(frozen=True)
class _Pair:
    """Two runs, and what the words call them."""

    job: RunConditions
    baseline: RunConditions
    named: bool = False

    @property
    def both(self) -> tuple[tuple[str, RunConditions], tuple[str, RunConditions]]:
        names = (self.job.name, self.baseline.name) if self.named else ("this job", "the baseline")
        return (names[0], self.job), (names[1], self.baseline)

    def unequal(self, what: str, ours: object, theirs: object) -> str:
        """`threads per worker: 2 here, 1 in the baseline`."""
        here = f"in {self.job.name}" if self.named else "here"
        there = f"in {self.baseline.name}" if self.named else "in the baseline"
        return f"{what}: {ours} {here}, {theirs} {there}"

    def differences(self, scaling: Scaling) -> list[str]:
        """Why the two may not be compared; none where they may."""
        job, baseline = self.job, self.baseline
        other = another_model(job.fingerprint, baseline.fingerprint) if job.work == baseline.work else None
        found = [other] if other else []
        found += [
            f"{self.unequal(what, ours, theirs)}; they must be equal: {EQUAL[what]}"
            for what, ours, theirs in (
                ("work", job.work, baseline.work),
                *_devices(job, baseline),
                *_device_models(job, baseline),
                ("threads per worker", job.threads, baseline.threads),
                ("injected faults", job.slowed or "none", baseline.slowed or "none"),
            )
            if ours != theirs
        ]
        if scaling == "strong" and job.global_batch != baseline.global_batch:
            unequal = self.unequal("global batch", job.global_batch, baseline.global_batch)
            found.append(
                f"{unequal}; strong scaling compares equal ones: submit one of them with the other's"
                " training.global_batch"
            )
        if scaling == "weak" and job.global_batch * baseline.workers != baseline.global_batch * job.workers:
            ours, theirs = f"{job.batch_per_worker:g}", f"{baseline.batch_per_worker:g}"
            unequal = self.unequal("batch per worker", ours, theirs)
            found.append(
                f"{unequal}; weak scaling compares equal ones: submit one of them with a training.global_batch"
                " for which each worker has as many samples"
            )
        return found

    def lacks(self) -> list[str]:
        """Which of the two has no throughput."""
        return [
            f"{MISSING}{who} has none: it ended before its warm-up was over"
            if run.ended
            else f"{MISSING}{who} has none after the warm-up yet ({_more(run)} for a sure one)"
            for who, run in self.both
            if not _is_moving(run)
        ]

    def unsure(self) -> list[str]:
        """Which of the two has a throughput, but no interval."""
        return [
            f"nobody can tell whether it is chance: {who} ended {_steps(run)} too early"
            if run.ended
            else f"too early to tell whether it is chance: {_more(run)} of {who} are missing"
            for who, run in self.both
            if run.missing_steps
        ]

    def uneven(self) -> list[str]:
        """Company, settings and rates: what one of the two had and the other had not."""
        job, baseline = self.job, self.baseline
        found = [f"another job ran on the machine during {who}" for who, run in self.both if not run.alone]
        theirs = dict(baseline.settings)
        found += [
            self.unequal(name, ours, theirs[name])
            for name, ours in job.settings
            if theirs.get(name, ours) != ours
        ]
        # One worker uses no network.
        if min(job.workers, baseline.workers) > 1 and job.rate != baseline.rate:
            found.append(self.unequal("network rate", job.rate or "unlimited", baseline.rate or "unlimited"))
        return found

    def untold(self) -> list[str]:
        """What nobody knows of the two, or what holds for this machine only."""
        found = [
            f"device model: that of {who} is not known"
            for who, run in self.both
            if "cuda" in run.device and not run.device_models
        ]
        if min(self.job.workers, self.baseline.workers) < 2:
            return found
        limited = [who for who, run in self.both if run.limited_by_software]
        if limited:
            found.append(f"network rate: kept in software, not by a link, in {' and '.join(limited)}")
        return found


def _devices(job: RunConditions, baseline: RunConditions) -> list[tuple[str, str, str]]:
    """To compare; not where one of them is still to be chosen."""
    both = {job.device, baseline.device}
    return [] if "auto" in both and both <= _KINDS else [("device", job.device, baseline.device)]


def _device_models(job: RunConditions, baseline: RunConditions) -> list[tuple[str, str, str]]:
    """To compare; only where both are known."""
    if not job.device_models or not baseline.device_models:
        return []
    return [("device model", " and ".join(job.device_models), " and ".join(baseline.device_models))]


def _is_moving(run: RunConditions) -> bool:
    return run.samples_per_s is not None and run.samples_per_s.value > 0


def _pace(run: RunConditions) -> float:
    return 0.0 if run.samples_per_s is None else run.samples_per_s.value


def _missing(run: RunConditions) -> str:
    """`9 more steps of p3`."""
    return f"{run.name} ended {_steps(run)} too early" if run.ended else f"{_more(run)} of {run.name}"


def _more(run: RunConditions) -> str:
    return f"{run.missing_steps} more step{'s' * (run.missing_steps != 1)}"


def _steps(run: RunConditions) -> str:
    return f"{run.missing_steps} step{'s' * (run.missing_steps != 1)}"
