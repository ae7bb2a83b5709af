"""What is said of which plan is best: verdicts and their reasons, never with more certainty than there is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.best_rows import unit
from backend.races.criteria import Judged, Name, Placed, Score, Why
from backend.races.missing import missing_words, more_rounds
from backend.races.spec import FEWEST_ROUNDS
from backend.rounding import SHARE, SPEED_UP, counted
from engine.plan.units_of_measure import format_bytes

LEAST_SHARE = 0.03
"""Of a step: a difference of waits that explains one of speed."""
LEAST_STALE = 0.05
"""Updates; a mean below it is none."""
FEWER_BYTES = 0.8
"""Of two plans' bytes: who sends at most that share of the other's sends less."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What else was measured, or planned, of a member: the mean over its rounds."""

    exposed: float | None = None
    """Share of a step in which workers wait for messages."""
    step_bytes: float | None = None
    """Sent in a step by all parties."""
    stale: float | None = None
    """Updates between what a gradient was computed from and what it changed; None where workers never drift."""
    period: int = 1
    """Steps that workers train by themselves between two averages."""
    codecs: tuple[str, ...] = ()
    """By which what travels is changed."""


def title(name: Name, score: Score) -> str:
    """As papers 001 name the criterion."""
    best = "Best accuracy" if score == "accuracy" else "Lowest loss"
    return {
        "speed": "Fastest training",
        "attained": f"{best} attained at all",
        "in_time": f"{best} for a given time",
        "in_samples": f"{best} for a given number of samples",
    }[name]


def place_of(judged: Judged) -> str | None:
    """At which time or number of samples, as it is said."""
    if judged.at is None:
        return None
    if judged.name == "in_time":
        return f"{judged.at:.1f} s, when the first run had ended"
    return f"{judged.at:,.0f} samples, when the shortest run had ended"


def figure(name: Name, score: Score, value: float) -> str:
    """`1234.5 samples/s`, `94.31 %`, `2.345`."""
    if name == "speed":
        return f"{value:.1f} samples/s"
    return f"{100 * value:.2f} %" if score == "accuracy" else f"{value:.3f}"


def distance(name: Name, score: Score, value: float) -> str:
    """`1.31x`, `2.10 points`, `0.120`."""
    if name == "speed":
        return SPEED_UP.format(value)
    return f"{100 * value:.2f} points" if score == "accuracy" else f"{value:.3f}"


def verdict(judged: Judged, names: Sequence[str], score: Score, *, running: bool) -> str:
    """Who is best and who is behind, by how much; that no difference is seen; or what is missing to tell."""
    parts = [_verdict(judged, names, score, running=running)]
    for why, (one, several) in NOT_COMPARED.items():
        absent = [names[member] for member, own in judged.absent.items() if own == why]
        # Where nobody has a figure, that is said already.
        if absent and (judged.places or why != "unmeasured"):
            verb, said = ("is", one) if len(absent) == 1 else ("are", several)
            parts.append(f"{_and(absent)} {verb} not compared: {said}")
    return ". ".join(parts)


NOT_COMPARED: Mapping[Why, tuple[str, str]] = {
    "out": ("it is out of the race", "they are out of the race"),
    "diverged": ("it diverged", "they diverged"),
    "late": ("it had not been evaluated by then", "they had not been evaluated by then"),
    "few": ("it shares too few rounds with the others", "they share too few rounds with the others"),
    "unmeasured": ("it has no figure", "they have no figure"),
}
"""Why, of one member and of several."""


def _verdict(judged: Judged, names: Sequence[str], score: Score, *, running: bool) -> str:
    yet = " yet" if running else ""
    if not judged.places:
        return f"No plan has a figure{yet}"
    first = judged.places[0]
    figures = ", ".join(
        f"{names[one.member]} {figure(judged.name, score, one.value)}" for one in judged.places
    )
    if len(judged.places) == 1:
        return f"Nobody to compare with{yet}: {figures}"
    if not judged.enough:
        fewest = f"{_count(judged)}; {FEWEST_ROUNDS} are the fewest that prove something"
        return f"Too few to tell{yet} ({fewest}): {figures}"
    if not judged.worse:
        return f"{_level(judged, names, yet)}: {figures}"
    name, level = names[first.member], [names[one.member] for one in judged.level]
    behind = _and([_behind(judged, one, names, score) for one in judged.worse])
    said = [f"no difference from {name} is seen"] if level else []
    if judged.unsure:
        said.append(f"there are too few to tell of {_unsure(judged, names)}{yet}")
    if not said:
        return f"{name} is best: {behind}"
    subject = f"{name} is " if judged.name == "speed" else ""
    return f"{_and([name, *level])} lead{'s' * (not level)}, and {_and(said)}: {subject}{behind}"


def _level(judged: Judged, names: Sequence[str], yet: str) -> str:
    """Of a criterion by which nobody is behind for certain. Of two that are not the first one nothing is said: they may
    differ from one another."""
    name, level = names[judged.places[0].member], [names[one.member] for one in judged.level]
    if not judged.unsure:
        return f"No difference from {name} seen after {_count(judged)}"
    if not level:
        return f"Too few to tell{yet} ({_count(judged)}; {more(judged)})"
    return (
        f"No difference between {name} and {_and(level)} seen after {_count(judged)}, and too few to tell of "
        f"{_unsure(judged, names)}{yet}"
    )


def _unsure(judged: Judged, names: Sequence[str]) -> str:
    """`async-sgd (2 more seeds would probably tell)`."""
    return f"{_and([names[one.member] for one in judged.unsure])} ({more(judged)})"


def more(judged: Judged) -> str:
    """`2 more seeds would probably tell`: of everybody of whom there are too few to tell."""
    found = more_rounds((one.missing for one in judged.unsure), judged.blocks)
    return missing_words(found, unit(judged.name))


def _count(judged: Judged) -> str:
    return counted(judged.blocks, unit(judged.name))


def _behind(judged: Judged, one: Placed, names: Sequence[str], score: Score) -> str:
    assert one.behind is not None
    assert one.behind_interval is not None
    low, high = (distance(judged.name, score, end) for end in one.behind_interval)
    by = distance(judged.name, score, one.behind)
    if judged.name == "speed":
        return f"{by} ({low} to {high}) as fast as {names[one.member]}"
    return f"{names[one.member]} is behind by {by} ({low} to {high})"


def reason(
    judged: Judged, every: Mapping[Name, Judged], names: Sequence[str], facts: Mapping[int, Facts]
) -> str | None:
    """Why the best one leads the one that is furthest behind; None where no difference is seen, or nothing that was
    measured tells them apart."""
    if not judged.enough or not judged.worse:
        return None
    first, last = judged.places[0], judged.worse[-1]
    ours, theirs = facts.get(first.member, Facts()), facts.get(last.member, Facts())
    best, other = names[first.member], names[last.member]
    if judged.name == "speed":
        return _why_faster(best, other, ours, theirs)
    if judged.name == "in_time":
        return _why_sooner(first.member, last.member, every, best, other)
    kept, lost = made_of(ours), made_of(theirs)
    return None if kept == lost else f"{best}: {kept}; {other}: {lost}"


def made_of(facts: Facts) -> str:
    """What becomes of gradients, in a few words."""
    parts = []
    if facts.period > 1:
        parts.append(f"workers train by themselves for {facts.period} steps between averages")
    if facts.stale is not None and facts.stale >= LEAST_STALE:
        parts.append(f"updates are {facts.stale:.1f} updates old on average when they are applied")
    if facts.codecs:
        parts.append(f"what travels is encoded by {_and(list(facts.codecs))}")
    return ", ".join(parts) or "every step applies all gradients, whole and fresh"


def _why_faster(best: str, other: str, ours: Facts, theirs: Facts) -> str | None:
    parts = []
    if (
        ours.exposed is not None
        and theirs.exposed is not None
        and theirs.exposed - ours.exposed >= LEAST_SHARE
    ):
        waits, longer = (SHARE.format(100 * share) for share in (ours.exposed, theirs.exposed))
        parts.append(f"workers of {best} wait {waits} of a step for messages, those of {other} {longer}")
    if ours.step_bytes and theirs.step_bytes and ours.step_bytes <= FEWER_BYTES * theirs.step_bytes:
        sent, more = format_bytes(round(ours.step_bytes)), format_bytes(round(theirs.step_bytes))
        parts.append(f"{best} sends {sent} in a step, {other} {more}")
    return "; ".join(parts) or None


def _why_sooner(first: int, last: int, every: Mapping[Name, Judged], best: str, other: str) -> str | None:
    """Speed times what each sample teaches: which of the two it is."""
    speed, samples = ({one.member: one for one in every[name].places} for name in ("speed", "in_samples"))
    if not {first, last} <= speed.keys() & samples.keys():
        return None
    ratio = speed[first].value / speed[last].value
    pace = f"{best} trains {SPEED_UP.format(ratio)} as many samples per second as {other}"
    head = every["in_samples"].places[0].member
    if head == first and samples[last].worse:
        if ratio < 1:
            return f"{pace}, which its lead after equally many samples outweighs"
        return f"{pace}, and after equally many samples it is ahead, too"
    if head == last and samples[first].worse:
        return f"{pace}, which outweighs that it is behind after equally many samples"
    if head not in (first, last):
        return pace
    known = "no difference between the two is seen"
    if samples[last if head == first else first].unsure:
        known = "there are too few seeds to tell which of the two is ahead"
    return f"{pace}, and {known} after equally many samples"


def sentence(every: Sequence[Judged], names: Sequence[str], score: Score) -> str:
    """The answer: by each criterion who is best."""
    if not any(one.enough for one in every):
        return f"Nobody can tell which plan is best: it takes {FEWEST_ROUNDS} seeds of two plans"
    parts = []
    for one in every:
        if not one.enough:
            found = "too few figures"
        elif not one.worse:
            found = f"no difference from {names[one.places[0].member]} seen"
            if one.unsure:
                found = f"too few to tell ({more(one)})"
        else:
            found = _and([names[one.places[0].member], *(names[place.member] for place in one.level)])
            if one.unsure:
                unsure = _and([names[place.member] for place in one.unsure])
                found += f", with too few {unit(one.name)}s to tell of {unsure}"
        parts.append(
            f"{SHORT[one.name].format(best='highest accuracy' if score == 'accuracy' else 'lowest loss')}: {found}"
        )
    return "; ".join(parts)


SHORT: Mapping[Name, str] = {
    "speed": "fastest",
    "attained": "{best} attained",
    "in_time": "{best} in the same time",
    "in_samples": "{best} after equally many samples",
}


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
