"""Seventy-six networks, always the same, trained by the engine and by plain PyTorch. They cover the grammar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.fuzz import leaks
from tests.fuzz.campaign import case_of, smaller
from tests.fuzz.cover import everything, had
from tests.fuzz.fixed import REFUSED, SEED, TRAINED
from tests.fuzz.program import program
from tests.fuzz.trial import Trials

SHRINK_S = 60.0


@pytest.fixture(scope="module")
def trials(gang_lane: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    """They look for what they leave behind, so that nobody else may put files where they do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", "")
        patch.setattr("tempfile.tempdir", None)
        folder = tmp_path_factory.mktemp("fixed")
        leaks.private_temporaries(folder / "temporary")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in a campaign: how sums are split decides the last digits
        yield Trials(folder)
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("number", "kind"), [*((n, "same") for n in TRAINED), *((n, "refused") for n in REFUSED)]
)
def test_the_engine_trains_it_as_plain_pytorch_does(number: int, kind: str, trials: Trials) -> None:
    case = case_of(SEED, number)
    verdict = trials.attempt(case)
    if verdict.kind == "failure":
        case, verdict = smaller(SEED, number, verdict, trials, SHRINK_S)
    if verdict.kind != kind:
        pytest.fail(
            f"{verdict.kind}: {verdict.what}\n{verdict.detail}\n\n{program(case, verdict)}", pytrace=False
        )


def test_together_they_have_all_that_the_grammar_draws() -> None:
    assert len({*TRAINED, *REFUSED}) == 76
    found = set().union(*(had(case_of(SEED, number)) for number in (*TRAINED, *REFUSED)))
    assert not everything() - found, f"{Path(__file__).with_name('fixed.py')} says how to choose others"
