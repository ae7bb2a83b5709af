"""Campaigns: what fails is made smaller, counted and printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import campaign
from tests.fuzz.campaign import Tally, case_of, smaller
from tests.fuzz.network import Case
from tests.fuzz.program import program
from tests.fuzz.refusals import listed
from tests.fuzz.trial import Verdict

WRONG = Verdict(kind="failure", what="silent difference", detail="a tensor")


class Judge:
    """In place of trials: says that every network with a normed weight fails, another way where a worker is alone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.asked = 0

    def attempt(self, case: Case) -> Verdict:
        self.asked += 1
        if not any(block.layer == "weight norm" for block in case.network.blocks):
            return Verdict(kind="same")
        return WRONG if case.job["cluster"]["workers"] > 1 else Verdict(kind="failure", what="hang: no end")


def test_a_failure_becomes_small() -> None:
    judge = Judge()
    number = next(n for n in range(200) if judge.attempt(case_of(3, n)) == WRONG)
    case, verdict = smaller(3, number, WRONG, judge, 60.0)  # type: ignore[arg-type]
    assert verdict == WRONG
    assert judge.attempt(case) == WRONG, "the same failure, no other one"
    assert [block.layer for block in case.network.blocks] == ["weight norm"]
    assert case.network.blocks[0].flow == "plain"
    assert case.network.extras == ()
    assert case.network.loss == "default"


def test_what_cannot_be_made_smaller_in_time_stays() -> None:
    judge = Judge()
    number = next(n for n in range(200) if judge.attempt(case_of(3, n)) == WRONG)
    judge.asked = 0
    case, verdict = smaller(3, number, WRONG, judge, 0.0)  # type: ignore[arg-type]
    assert (case, verdict) == (case_of(3, number), WRONG)
    assert judge.asked <= 3


def test_a_campaign_counts_and_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(campaign, "Trials", Judge)
    said: list[str] = []
    tally = campaign.run(3, tmp_path, networks=25, shrink_s=0.0, say=said.append)
    assert tally.kinds.total() == 25
    tally = campaign.run(3, tmp_path, networks=40, shrink_s=0.0, say=said.append)
    assert tally.kinds.total() == 40
    failed = [n for numbers in tally.reasons["failure"].values() for n in numbers]
    assert failed
    kept = {f"failure_3_{n}.py" for n in failed} | {"campaign_3.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == kept
    numbers = [json.loads(line)[0] for line in (tmp_path / "campaign_3.jsonl").read_text().splitlines()]
    assert numbers == list(range(40)), "it has gone on where it was broken off"
    assert any("class Net(nn.Module)" in text for text in said), "the program is printed"
    assert "seed 3: 40 networks in" in tally.text()
    assert f"{len(failed)} failure" in tally.text()


def test_a_tally_names_refusals_by_reason() -> None:
    tally = Tally(campaign=1)
    for number, reason in enumerate(["it cannot be cut", "it cannot be cut", "no elements"]):
        tally.add(number, "refused", reason, 1.0)
    assert "refused 2 (0, 1): it cannot be cut" in tally.text()
    assert "refused 1 (2): no elements" in tally.text()


def test_networks_that_decide_nothing_do_not_count() -> None:
    tally = Tally(campaign=1)
    for number in range(20):
        tally.add(number, "unstable" if number == 7 else "same", "", 0.5)
    assert tally.sound
    assert "19 networks in 10 s: 19 same, 1 unstable" in tally.text()
    tally.add(20, "unstable", "", 0.5)
    assert not tally.sound


def test_a_program_is_python() -> None:
    text = program(case_of(3, 1), WRONG)
    compile(text, "failure.py", "exec")
    assert "silent difference" in text.splitlines()[0]


def test_a_refusal_is_listed_for_its_own_cause_only() -> None:
    message = "layers.0: this parameter of shape (0,) has no elements to train. Leave it out"
    job: dict[str, Any] = {"strategy": {"name": "p3"}, "overrides": []}
    assert listed(message, job, {"extra: unused"})
    assert not listed(message, job, {"layer: linear"})
    cut = "strategy.options.cut = 'auto': it cannot be cut"
    assert listed(cut, {"strategy": {"name": "hybrid"}}, set())
    assert not listed(cut, job, set())
