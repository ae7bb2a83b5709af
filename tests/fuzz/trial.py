"""A trial: one case trained by the reference and by the engine, and what comes of it."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from tests.fuzz import product, reference
from tests.fuzz.compiled import compilable, file_of
from tests.fuzz.distance import distances, tolerance
from tests.fuzz.grammar.file import File
from tests.fuzz.leaks import Watch
from tests.fuzz.network import Case
from tests.fuzz.reference import Trained
from tests.fuzz.refusals import listed
from tests.fuzz.training import AVERAGING, CUT, DRIFTING
from tests.jobs import RESIDENTS
from tests.modules import forget_compiled

PEERS = ("ddp", "fsdp")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a trial showed."""

    kind: Literal["same", "refused", "unstable", "invalid", "failure"]
    """`same`: within tolerance. `refused`: with a reason that a person can act on, and that is listed. `unstable`: the
    reference in two orders of summation differs. `invalid`: plain PyTorch fails, and the engine says so properly."""
    what: str = ""
    """Of a refusal the rule, of a failure what failed."""
    detail: str = ""
    """For people."""


class Trials:
    """Tries one case after another, in one folder and by processes that take launch after launch."""

    def __init__(self, folder: Path, *, compiled: bool = False) -> None:
        """`compiled`: every network is, as a whole or in part."""
        self._folder = folder
        self._compiled = compiled
        self._watch: Watch | None = None
        """Made after the first resident, which starts what is there to stay: the fork server."""

    def attempt(self, case: Case) -> Verdict:
        """Write the file of `case` and try it."""
        if self._watch is None:
            RESIDENTS.bring(RESIDENTS.take())
            self._watch = Watch(RESIDENTS)
        if self._compiled:
            case = compilable(case)
        file = file_of(case, compiled=self._compiled)
        verdict = self._judge_file(case, file, f"net_{case.key}")
        if verdict.what == "silent difference" and file.random and case.job["strategy"]["name"] in CUT:
            # Behind a cut random numbers are the stage's own. They alone explain the difference if it goes with them.
            certain = file_of(case, compiled=self._compiled, chance=False)
            if self._judge_file(case, certain, f"net_{case.key}_certain").kind in ("same", "unstable"):
                verdict = Verdict(kind="unstable", what="random numbers behind a cut", detail=verdict.detail)
        left = self._watch.left()
        self._watch.renew()
        if left and verdict.kind != "failure":
            return Verdict(kind="failure", what="leak", detail="\n".join(left))
        return verdict

    def _judge_file(self, case: Case, file: File, name: str) -> Verdict:
        forget_compiled()
        path = self._folder / f"{name}.py"
        path.write_text(file.source)
        importlib.invalidate_caches()
        try:
            return self.judge(case.job, path, file.features)
        finally:
            path.unlink()

    def judge(self, job: dict[str, Any], path: Path, features: Iterable[str] | None = None) -> Verdict:
        """Train what the file at `path` holds both ways, and compare. `features`: of the grammar; with them, a refusal
        has to be listed."""
        attempt = path.parent / f"{path.stem}_attempt"
        ended, like = None, job
        if job["strategy"]["name"] == "model-parallel":  # how many replicas there are, the plan says
            ended = product.train(job, path.stem, path.parent, attempt, RESIDENTS.gang)
            workers = ended.replicas or job["cluster"]["workers"]
            like = {**job, "cluster": {**job["cluster"], "workers": workers}}
        found = _reference(load(path), like)
        if isinstance(found, Verdict):
            return found
        ended = ended or product.train(job, path.stem, path.parent, attempt, RESIDENTS.gang)
        verdict = compare(found, ended, job)
        apart = isinstance(found, Trained) and found.apart is not None
        if (
            verdict.kind == "refused"
            and features is not None
            and not listed(ended.message, job, features, apart=apart)
        ):
            return Verdict(kind="failure", what=f"refused: {verdict.what}", detail=verdict.detail)
        return verdict


def compare(found: Trained | Exception, ended: product.Ended, job: dict[str, Any]) -> Verdict:
    """What the reference came to, or what it raised, against how the engine's training ended."""
    if ended.how == "hung":
        return Verdict(kind="failure", what=f"hang: {ended.rule}", detail=ended.message)
    if isinstance(found, Exception):
        return _both_fail(f"{type(found).__name__}: {found}", ended)
    if ended.how == "failed":
        return Verdict(kind="failure", what=f"bare error: {ended.rule}", detail=ended.message)
    if ended.how == "refused":
        return Verdict(kind="refused", what=ended.rule, detail=ended.message)
    if found.apart is not None and job["strategy"]["name"] not in (*PEERS, *AVERAGING, *DRIFTING):
        return Verdict(kind="failure", what="trained, though workers write other values", detail=found.apart)
    return _difference(found, ended, job)


def _both_fail(said: str, ended: product.Ended) -> Verdict:
    """Plain PyTorch fails, and `said` why. The engine may say the same in PyTorch's words, with the user's own line."""
    if ended.how == "refused" or ended.placed:
        return Verdict(kind="invalid", what=product.general(said), detail=ended.message)
    what = "trained" if ended.how == "trained" else f"bare error: {ended.rule}"
    detail = f"{ended.message}\nPlain PyTorch fails, too: {said}"
    return Verdict(kind="failure", what=f"{what}, where plain PyTorch fails", detail=detail)


def _reference(file: ModuleType, job: dict[str, Any]) -> Trained | Exception | Verdict:
    peer = job["strategy"]["name"]
    options = {"filler": peer in PEERS, "averaging": peer in AVERAGING}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = reference.train(file, job, **options)
        except Exception as error:
            return error
        other = reference.train(file, job, **options, backwards=True)
    for name, far in distances(other.state, found.state, found.start):
        if not far <= tolerance(job, found.state) / 10:
            return Verdict(kind="unstable", what=name, detail=f"{far:.1e}")
    return found


def _difference(found: Trained, ended: product.Ended, job: dict[str, Any]) -> Verdict:
    assert ended.state is not None
    if ended.state.keys() != found.state.keys():
        names = sorted(ended.state.keys() ^ found.state.keys())
        return Verdict(kind="failure", what="other names in the result", detail=", ".join(names))
    limit = tolerance(job, found.state)
    # One worker that updates for itself calls the same functions in the same order: the same bits, in every type.
    most = 0.0 if job["strategy"]["name"] == "single" else limit
    far = [(d, n) for n, d in distances(ended.state, found.state, found.start) if not d <= most]
    if far:
        listing = "\n".join(f"{name}: {distance:.1e}" for distance, name in sorted(far, reverse=True))
        return Verdict(kind="failure", what="silent difference", detail=f"limit {most:.0e}\n{listing}")
    for name in ("test_loss", "test_accuracy"):
        mine, theirs = getattr(ended, name), getattr(found, name)
        if not _close(mine, theirs, 10 * limit):
            return Verdict(
                kind="failure", what=f"silent difference of {name}", detail=f"{mine}, not {theirs}"
            )
    return Verdict(kind="same")


def _close(mine: float | None, theirs: float | None, limit: float) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return abs(mine - theirs) <= limit * max(1.0, abs(theirs))


_numbers = itertools.count()


def load(path: Path) -> ModuleType:
    """The file as a module of its own, which nobody else imports."""
    name = f"reference_{next(_numbers)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module
